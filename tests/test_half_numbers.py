"""Numbers that half precision does not hold: each is recognized, kept or rewritten, and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, helper, numpy_helper

import surgeon
from surgeon.app.cli import main
from surgeon.ir.run import Runner
from surgeon.precision import convert
from surgeon.precision.rounding import rounded

HEAD = '<ir_version: 10, opset_import: ["" : 22]>\n'
# The difference of two products that are nearly equal: no MatMul can be in half precision.
CANCELS = """g (float[2,2] x) => (float[2,2] y)
<float[2,2] big = {101, 57, 83, 145}, float[2,2] near = {101.01, 57.006, 83.008, 145.014}> {
    a = MatMul (x, big) b = MatMul (x, near) y = Sub (a, b)
}"""

WEIGHTS = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


def saved(text: str, folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + text), path)
    return path


@pytest.mark.parametrize(("command", "way"), [("rewrite", "bf16"), ("rewrite", "half"), ("fix", "fp16")])
def test_a_failed_conversion_ends_with_its_error(
    command: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = saved(CANCELS, tmp_path), tmp_path / "out.onnx"
    words = [command, str(source), str(out)] if command == "rewrite" else [command, str(source), "-o", str(out)]
    assert main([*words, "--target", "rtx", f"--{way}"]) == 1
    name = "half precision" if way == "half" else way
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"the conversion to {name} failed: 'y': ") and "is above" in last and not out.exists()
    assert main([*words, "--target", "rtx", f"--{way}", "--allow-inexact"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(last) and "; TensorRT-RTX supports all" in line for line in lines) and out.exists()


def test_that_onnx_runtime_has_no_kernel_for_bf16_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = saved("g (float[8,8] x) => (float[8,8] y) { a = MatMul (x, x) y = Add (a, a) }", tmp_path)
    assert main(["fix", str(source), "-o", str(tmp_path / "out.onnx"), "--for", "11", "--bf16"]) == 0
    assert "\nONNX Runtime has no kernel for these types" in capsys.readouterr().out


LOWEST = -3.4028234663852886e38
# How exporters write a mask before a Softmax: m is true where a number counts.
MASKS = {
    "Where": "bool[3,4] m | z = Where (m, s, low) p = Softmax (z)",
    "1 - mask": "int64[3,4] m | f = Cast <to = 1> (m) i = Sub (one, f) b = Mul (i, low) z = Add (s, b) p = Softmax (z)",
    "float mask": "float[3,4] m | i = Sub (one, m) b = Mul (i, low) z = Add (s, b) p = Softmax (z)",
    "spelled out": (
        "bool[3,4] m | z = Where (m, s, low) h = ReduceMax (z, axis) d = Sub (z, h) e = Exp (d) "
        "u = ReduceSum (e, axis) p = Div (e, u)"
    ),
    "in a body": (
        "bool[3,4] m, bool c | p = If (c) <then_branch = t () => (float[3,4] a) { z = Where (m, s, low) "
        "a = Softmax (z) }, else_branch = f () => (float[3,4] b) { b = Softmax (s) }>"
    ),
}


def masked(form: str, low: float) -> ModelProto:
    inputs, body = MASKS[form].split(" | ")
    model = onnx.parser.parse_model(
        f"{HEAD} g (float[3,4] x, {inputs}) => (float[3,4] y) <float one = {{1}}, int64[1] axis = {{1}}> "
        f"{{ s = MatMul (x, w) {body} y = MatMul (p, w) }}"
    )
    return with_tensors(model, w=WEIGHTS, low=np.float32(low))


def with_tensors(model: ModelProto, **arrays: np.ndarray) -> ModelProto:
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items())
    return model


def run(model: ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The output with every tensor of 16 bits rounded."""
    wide = rounded(model)
    assert wide is not None
    return Runner(wide).run(feeds)[0]


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("way", ["fp16", "bf16", "half"])
@pytest.mark.parametrize("low", [LOWEST, -1e9, -np.inf], ids=["lowest", "1e9", "inf"])
@pytest.mark.parametrize("form", MASKS)
def test_a_mask_stays_finite(form: str, low: float, way: str, verify: bool) -> None:
    """The first row is whole, the second is masked in part and the last one is masked: NaN where it was NaN."""
    if low == -np.inf and "mask" in form:
        pytest.skip("0 times -inf is NaN")
    model = masked(form, low)
    mask = np.asarray([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]])
    kind = helper.tensor_dtype_to_np_dtype(model.graph.input[1].type.tensor_type.elem_type)
    feeds = {"x": np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32), "m": mask.astype(kind)}
    feeds |= {"c": np.asarray(True)} if "body" in form else {}
    expected = Runner(model).run(feeds)[0]
    assert np.isnan(expected[2]).all() == (low == -np.inf)
    data = [feeds] if verify else None
    result = convert(
        model, way=way, data=data, verify=verify, target="rtx", tolerance=0.05
    )  # so that masks alone count
    assert result.gain == (2, 2)
    np.testing.assert_allclose(run(result.model, feeds), expected, atol=0.03)


# A variance as the difference of two means, as it is written.
VARIANCES = {
    "means": "u = ReduceMean (x, axis) v = Mul (u, u) q = Mul (x, x) m = ReduceMean (q, axis)",
    "powers": "u = ReduceMean (x, axis) v = Pow (u, two) q = Pow (x, two) m = ReduceMean (q, axis)",
    "sums": (
        "s = ReduceSum (x, axis) u = Div (s, n) v = Mul (u, u) q = Mul (x, x) o = ReduceSum (q, axis) m = Div (o, n)"
    ),
    "squares": "s = ReduceSum (x, axis) u = Div (s, n) v = Mul (u, u) o = ReduceSumSquare (x, axis) m = Div (o, n)",
    "windows": (
        "x4 = Reshape (x, image) u = AveragePool <kernel_shape = [8, 8]> (x4) v = Mul (u, u) q = Mul (x4, x4) "
        "m = AveragePool <kernel_shape = [8, 8]> (q)"
    ),
}


@pytest.mark.parametrize("way", ["fp16", "bf16", "half"])
@pytest.mark.parametrize("form", VARIANCES)
def test_a_variance_as_a_difference_is_fp32(form: str, way: str) -> None:
    """Drawn inputs have a mean near 0 and do not show it: one of 30 and a deviation of 1 does."""
    model = onnx.parser.parse_model(
        f"{HEAD} g (float[2,64] x) => (float y) <float two = {{2}}, float n = {{64}}, int64[1] axis = {{1}}, "
        f"int64[4] image = {{2, 1, 8, 8}}> {{ {VARIANCES[form]} d = Sub (m, v) y = Sqrt (d) }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    feeds = {"x": (30 + np.random.default_rng(1).standard_normal((2, 64))).astype(np.float32)}
    result = convert(model, way=way, target="rtx")
    assert "a variance as a difference of two means" in {k.why for k in result.kept}
    np.testing.assert_allclose(run(result.model, feeds), Runner(model).run(feeds)[0], rtol=0.02)


# Epsilons that fall to zero, reciprocals of tiny numbers, and sums of thousands: the body, what is added, and inputs.
NUMBERS = {
    "epsilon of a norm": (
        "q = Mul (x, x) m = ReduceMean (q, axis) t = Add (m, e) r = Sqrt (t) y = Div (x, r)", 1e-12, 0.0
    ),
    "epsilon of a log": ("p = Sigmoid (x) t = Add (p, e) y = Log (t)", 1e-9, -80.0),
    "epsilon of a Max": ("q = ReduceL2 (x, axis) t = Max (q, e) y = Div (x, t)", 1e-12, 0.0),
    "epsilon of a Clip": ("q = ReduceL2 (x, axis) t = Clip (q, e) y = Div (x, t)", 1e-12, 0.0),
    "reciprocal": ("t = Add (x, e) y = Reciprocal (t)", 1e-5, 1e-6),
    "division": ("t = Add (x, e) y = Div (one, t)", 1e-5, 1e-6),
    "sum": ("s = ReduceSum (x, axis) y = Sqrt (s)", 0.0, 30.0),
    "sum of squares": ("s = ReduceSumSquare (x, axis) y = Sqrt (s)", 0.0, 30.0),
    "norm": ("y = ReduceL2 (x, axis)", 0.0, 30.0),
    "running sum": ("y = CumSum (x, axis0)", 0.0, 30.0),
    "mean": ("y = ReduceMean (x, axis)", 0.0, 30.0),
}  # fmt: skip


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("way", ["fp16", "bf16", "half"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_half_precision_does_not_hold(name: str, way: str, verify: bool) -> None:
    body, epsilon, number = NUMBERS[name]
    model = onnx.parser.parse_model(
        f"{HEAD} g (float[2,4096] x) => (float y) <float one = {{1}}, int64[1] axis = {{1}}, int64 axis0 = {{1}}> "
        f"{{ {body} }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model = with_tensors(model, **({"e": np.float32(epsilon)} if epsilon else {}))
    feeds = {"x": np.full((2, 4096), number, np.float32)}
    expected = Runner(model).run(feeds)[0]
    result = convert(model, way=way, data=[feeds] if verify else None, verify=verify, target="rtx")
    assert not result.failed
    np.testing.assert_allclose(run(result.model, feeds), expected, rtol=0.03)
    if epsilon and way != "bf16":
        assert any("becomes 0 or loses its digits" in k.why for k in result.kept), result.kept


def test_nan_of_both_types_is_not_taken_for_overflow() -> None:
    """The root of a negative number is NaN in fp32 as well, and 1 / 0 inf: a second run found no range there."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y, float[N] z)
        { a = Neg (x) b = Sqrt (a) y = Mul (b, x) c = Sub (x, x) d = Div (x, c) z = Add (d, x) }"""
    )
    options: dict[str, Any] = {"target": "rtx", "fp16": True, "verify": "none", "data": [{"x": np.ones(4, np.float32)}]}
    first = surgeon.rewrite(model, **options)
    assert first.precision is not None and first.precision.half > 0
    assert surgeon.rewrite(first.model, **options).model.SerializeToString() == first.model.SerializeToString()
