"""--symmetric-int8: activations quantized around zero, and what that changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import prepare
from onnx import TensorProto, numpy_helper, parser

import surgeon
from surgeon.app.cli import main
from surgeon.errors import ModelError
from surgeon.ir.run import Runner

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> '
GRID = "<float s = {0.05}, uint8 z = {100}, float t = {0.02}, int8 none = {0}, float[2,2] w = {0.5, -1, 0.25, 2}>"
QDQ = (
    HEAD
    + f"""g (float[N,2] x) => (float[N,2] y) {GRID} {{
    q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)
    y = MatMul (d, w)
}}"""
)
MOVED = (
    HEAD
    + f"""g (float[1,2,4,4] x) => (float[8,1] y) {GRID} {{
    q = QuantizeLinear (x, s, z)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (q)
    r = Resize <mode = "nearest"> (p, , two)
    h = Constant <value_ints = [32, 1]> ()
    f = Reshape (r, h)
    i = Constant <value = int64[8] {{0, 3, 5, 7, 9, 11, 30, 31}}> ()
    m = Gather (f, i)
    y = DequantizeLinear (m, s, z)
}}"""
).replace("uint8 z", "float[4] two = {1, 1, 2, 2}, uint8 z")
PRODUCTS = (
    "QLinearMatMul (q, s, z, k, t, kz, s, z)",
    "QLinearMatMul (q, s, z, k, ts, kz, s, z)",
    "com.microsoft.QGemm (q, s, z, k, t, kz, b, s, z)",
    "com.microsoft.QGemm <transB = 1, alpha = 0.5> (q, s, z, k, ts, kzs, b, s, z)",
    "com.microsoft.QLinearAdd (q, s, z, q, s, z, s, z)",
    "com.microsoft.QLinearMul (q, s, z, q, s, z, s, z)",
    "com.microsoft.QLinearSigmoid (q, s, z, s, z)",
)
PRODUCT = (
    HEAD
    + """g (float[N,2] x) => (float[N,2] y) <float s = {0.05}, uint8 z = {100}, float t = {0.02},
    float[2] ts = {0.02, 0.03}, uint8[2,2] k = {1, 250, 130, 90}, uint8 kz = {128},
    uint8[2] kzs = {128, 100}, int32[2] b = {100, -300}> {
    q = QuantizeLinear (x, s, z)
    p = OP
    y = DequantizeLinear (p, s, z)
}"""
)
CONV = (
    HEAD
    + """g (float[1,1,4,4] x) => (float[1,2,4,4] y) <float s = {0.05}, uint8 z = {0}, float[2] ts = {0.02, 0.03},
    int8[2,1,1,1] k = {100, -90}, int8[2] kz = {0, 0}, int32[2] b = {100, -300}> {
    q = QuantizeLinear (x, s, z)
    p = QLinearConv (q, s, z, k, ts, kz, s, z, b)
    y = DequantizeLinear (p, s, z)
}"""
)


def parsed(text: str) -> onnx.ModelProto:
    return parser.parse_model(text)


def centred(text: str) -> surgeon.Result:
    result = surgeon.rewrite(parsed(text), target="rtx", symmetric_int8=True)
    onnx.checker.check_model(result.model, full_check=True)
    assert not result.report.untaken and not result.report.undone
    return result


def grids(model: onnx.ModelProto) -> list[tuple[float, int, int]]:
    """(scale, zero point, type) of each quantizer."""
    arrays = {t.name: t for t in model.graph.initializer}
    found = [n for n in model.graph.node if n.op_type == "QuantizeLinear"]
    return [
        (
            round(float(numpy_helper.to_array(arrays[n.input[1]])), 6),
            int(numpy_helper.to_array(arrays[n.input[2]])),
            arrays[n.input[2]].data_type,
        )
        for n in found
    ]


def run(text: str, model: onnx.ModelProto, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return Runner(parsed(text)).run({"x": x})[0], Runner(model).run({"x": x})[0]


def test_the_scale_holds_the_whole_range() -> None:
    """From -100 * 0.05 to 155 * 0.05 = 7.75: 127 steps of 7.75 / 127 on each side."""
    result = centred(QDQ)
    assert grids(result.model) == [(round(7.75 / 127, 6), 0, TensorProto.INT8)]
    assert [n.op_type for n in result.model.graph.node] == ["Max", "QuantizeLinear", "DequantizeLinear", "MatMul"]
    (told,) = result.report.warnings
    assert told.startswith(
        "1 activation is symmetric int8 now: on random inputs quantization changes the outputs by up to "
    )


def test_a_scale_that_is_computed_of_constants() -> None:
    text = QDQ.replace("float s = {0.05}", "float half = {0.025}").replace("{\n", "{ s = Add (half, half)\n", 1)
    made = prepare("symmetric_int8", parsed(text), symmetric_int8=True, target="10.9").model
    assert grids(made) == [(round(7.75 / 127, 6), 0, TensorProto.INT8)]


def test_numbers_beyond_the_range_stay_at_its_ends() -> None:
    far = np.array([[-100, 100], [-5.2, 7.9]], np.float32)
    before, after = run(QDQ, centred(QDQ).model, far)
    np.testing.assert_allclose(before, after, atol=0.1)


def test_what_moved_integers_moves_numbers() -> None:
    result = centred(MOVED)
    ops = [n.op_type for n in result.model.graph.node]
    assert ops.index("DequantizeLinear") < ops.index("MaxPool") and ops.count("DequantizeLinear") == 1
    x = np.random.default_rng(0).normal(0, 2, (1, 2, 4, 4)).astype(np.float32)
    before, after = run(MOVED, result.model, x)
    np.testing.assert_allclose(before, after, atol=0.06)


@pytest.mark.parametrize("op", PRODUCTS)
def test_operators_of_quantized_numbers(op: str) -> None:
    text = PRODUCT.replace("OP", op)
    result = centred(text)
    assert {g[1:] for g in grids(result.model)} == {(0, TensorProto.INT8)}
    assert not {"Round", "Cast"} & {n.op_type for n in result.model.graph.node}, "something is computed in fp32"
    before, after = run(text, result.model, np.array([[1, -2], [0.3, 3]], np.float32))
    np.testing.assert_allclose(before, after, atol=0.15)


def test_a_product_that_is_not_quantized_again() -> None:
    text = PRODUCT.replace("p = OP", "").replace(
        "y = DequantizeLinear (p, s, z)", "y = com.microsoft.QGemm (q, s, z, k, t, kz, b)"
    )
    result = centred(text)
    assert result.model.graph.node[-1].op_type == "Gemm"
    before, after = run(text, result.model, np.array([[1, -2], [0.3, 3]], np.float32))
    np.testing.assert_allclose(before, after, atol=0.15)


def test_a_zero_point_at_the_end_of_the_range_is_a_relu() -> None:
    result = centred(CONV)
    assert {g[1:] for g in grids(result.model)} == {(0, TensorProto.INT8)}
    x = np.random.default_rng(0).normal(0, 3, (1, 1, 4, 4)).astype(np.float32)
    before, after = run(CONV, result.model, x)
    assert after.min() == 0
    np.testing.assert_allclose(before, after, atol=0.4)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("y = MatMul (d, w)", "y = MatMul (d, w)  o = Identity (q)", "makes 'o', an output of the model"),
        ("d = Deq", "c = Cast <to = 1> (q) o = Relu (c) d = Deq", "is read by 'c', a Cast"),
        ("(q, s, z)\n", "(q, t, z)\n", "is dequantized with another scale by 'd'"),
    ],
)
def test_what_stays_is_named(old: str, new: str, why: str) -> None:
    text = QDQ.replace(old, new)
    if " o = " in new:
        text = text.replace(
            "=> (float[N,2] y)", "=> (float[N,2] y, {}[N,2] o)".format("uint8" if "Id" in new else "float")
        )
    result = surgeon.rewrite(parsed(text), target="rtx", symmetric_int8=True)
    (told,) = result.report.warnings
    assert told == f"no activation became symmetric int8: q {why}"


def test_a_model_without_quantizers_is_said() -> None:
    text = HEAD + "g (float[N,2] x) => (float[N,2] y) { y = Relu (x) }"
    result = surgeon.rewrite(parsed(text), target="rtx", symmetric_int8=True)
    assert result.report.warnings == ["no activation became symmetric int8: none has a zero point"]


def test_more_than_quantization_explains_is_refused() -> None:
    """The difference of two numbers that are nearly the same: a wider step is many times it."""
    text = QDQ.replace("y = MatMul (d, w)", "k = Constant <value_float = 400.0> () e = Mul (d, k) y = Sin (e)")
    with pytest.raises(
        ModelError, match="symmetric int8 changes the output 'y' on .* by more than quantization explains"
    ):
        surgeon.rewrite(parsed(text), target="rtx", symmetric_int8=True)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.onnx", str(tmp_path / "out.onnx")
    onnx.save(parsed(QDQ), source)
    assert main(["rewrite", str(source), out, "--target", "rtx", "--symmetric-int8"]) == 0
    assert "applied  symmetric-int8" in capsys.readouterr().out
