"""--int8 and --fp8: a model in eight bits, from data."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import surgeon
from surgeon.app.cli import main
from surgeon.errors import ModelError, UsageError
from surgeon.ir.run import Runner
from surgeon.pipeline.options import Options, RewriteOptions
from surgeon.pipeline.quantizers import FP8, INT8
from surgeon.precision.data import Samples
from surgeon.precision.distance import Distances
from surgeon.precision.histograms import METHODS, Histogram, scale_of
from surgeon.precision.quantize import Quantization

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,32,8,8] x) => (float[1,32,8,8] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w, b)
    r = Relu (c)
    e = Conv <pads = [1, 1, 1, 1]> (r, v)
    s = Add (e, x)
    y = Sigmoid (s)
}"""
TWO = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,32,8,8] x) => (float[1,32,8,8] y) <float far = {FAR}> {
    c = Conv (x, w)
    f = Mul (c, far)
    n = Conv (f, v)
    y = Mul (n, c)
}"""


def model(text: str = TEXT, **more: np.ndarray) -> onnx.ModelProto:
    found, rng = parser.parse_model(text), np.random.default_rng(0)
    size = 3 if "pads" in text else 1
    held = {n: rng.normal(0, 0.1, (32, 32, size, size)).astype(np.float32) for n in "wv"}
    held |= {"b": rng.normal(0, 1, 32).astype(np.float32)} if "b)" in text else {}
    found.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in (held | more).items())
    onnx.checker.check_model(found, full_check=True)
    return found


def samples(count: int = 8, scale: float = 1.0) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.normal(0, scale, (1, 32, 8, 8)).astype(np.float32)} for _ in range(count)]


def quantized(given: onnx.ModelProto, target: str = "10.9", **options: object) -> surgeon.Result:
    options = {"int8": True, "data": samples(), **options}
    result = surgeon.rewrite(given, target=target, **options)  # type: ignore[arg-type]
    onnx.checker.check_model(result.model, full_check=True)
    assert not result.report.untaken
    return result


def test_with_tune_a_layer_is_in_int8_where_that_saves_bytes() -> None:
    """The products of 1x1 have 1 kB of weights, and 4 kB of results; those of 3x3 have 9 kB of weights."""
    options = Options.checked(RewriteOptions(target="rtx", int8=True, tune=True, data=samples()))
    assert len(Quantization(model(), options, Samples.of(samples()), INT8).found) == 2
    with pytest.raises(ModelError, match="in int8 TensorRT-RTX moves more bytes"):
        Quantization(model(TWO.replace("FAR", "1")), options, Samples.of(samples()), INT8)


def read_by_quantizers(result: surgeon.Result) -> list[str]:
    return [n.input[0] for n in result.model.graph.node if n.op_type == "QuantizeLinear"]


@pytest.mark.parametrize("target", ["8.6", "10.9", "11.4", "rtx"])
def test_layers_compute_in_int8(target: str) -> None:
    result = quantized(model(), target)
    assert len(read_by_quantizers(result)) == 2
    assert any("2 of 2 layers with weights compute in int8" in w for w in result.report.warnings)
    assert any("run whole next to the original" in w for w in result.report.warnings)


def test_the_numbers_are_near() -> None:
    x = samples(9)[-1]
    before, after = (Runner(m).run(x)[0] for m in (model(), quantized(model()).model))
    assert np.sqrt(np.mean((before - after) ** 2) / np.mean(before**2)) < 0.02


def test_weights_have_a_scale_for_each_channel() -> None:
    result = quantized(model())
    held = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    scales = [held[n.input[1]] for n in result.model.graph.node if n.op_type == "DequantizeLinear" and n.attribute]
    assert [s.shape for s in scales] == [(32,), (32,)]


def test_rtx_has_one_scale_and_a_mul_of_the_channels() -> None:
    """TensorRT-RTX writes what a Conv of several scales makes in fp32, and of one in fp16."""
    result = quantized(model(), "rtx")
    ops = [n.op_type for n in result.model.graph.node]
    assert ops.count("Mul") == 2
    convs = [n for n in result.model.graph.node if n.op_type == "Conv"]
    assert all(len(n.input) == 2 for n in convs)
    assert result.precision is not None and result.precision.gain == (2, 2)


def test_the_scale_of_the_largest_number() -> None:
    result = quantized(model(), calibration="max")
    held = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    node = next(n for n in result.model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "x")
    seen = [s["x"] for k, s in enumerate(samples()) if k % 4 != 3]
    assert held[node.input[1]] == np.float32(np.abs(seen).max() / 127)


def test_fp8() -> None:
    result = quantized(model(), int8=False, fp8=True)
    held = {t.name: t.data_type for t in result.model.graph.initializer}
    zeros = {held[n.input[2]] for n in result.model.graph.node if n.op_type == "QuantizeLinear"}
    assert zeros == {onnx.TensorProto.FLOAT8E4M3FN}
    assert any("2 of 2 layers with weights compute in fp8" in w for w in result.report.warnings)


def test_the_pair_that_causes_the_error_is_dropped() -> None:
    """One channel of what the second layer reads is 10,000 times as large as the others, and its weights are 0."""
    far = np.ones((1, 32, 1, 1), np.float32)
    far[0, 0] = 1e4
    text = TWO.replace(" <float far = {FAR}>", "")
    given = model(text, far=far)
    v = np.random.default_rng(2).normal(0, 0.1, (32, 32, 1, 1)).astype(np.float32)
    v[:, 0] = 0
    next(t for t in given.graph.initializer if t.name == "v").CopyFrom(numpy_helper.from_array(v, "v"))
    result = quantized(given, calibration="max")
    assert read_by_quantizers(result) == ["x"]
    assert any("its int8 makes the error too large" in w for w in result.report.warnings)


def test_the_tolerance_decides_what_stays() -> None:
    with pytest.raises(ModelError, match="no layer computes in int8 within the tolerance"):
        quantized(model(), tolerance=1e-6)


@pytest.mark.parametrize("target", ["10.9", "rtx"])
def test_compare_has_the_tolerance_of_quantized_models(target: str, tmp_path: Path) -> None:
    """It has the same for int8 alone (10.9) and for int8 and fp16 (rtx)."""
    onnx.save(model(), tmp_path / "before.onnx")
    quantized(model(), target, calibration="max").save(tmp_path / "after.onnx")
    np.savez(tmp_path / "data.npz", **samples(9)[-1])
    command = ["compare", str(tmp_path / "before.onnx"), str(tmp_path / "after.onnx"), "--data"]
    command.append(str(tmp_path / "data.npz"))
    assert main(command) == 0
    assert main([*command, "--tolerance", "0.001"]) == 1


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_and_samples_that_are_not_finite_are_named(number: float) -> None:
    given = model()
    held = next(t for t in given.graph.initializer if t.name == "v")
    array = numpy_helper.to_array(held).copy()
    array[3, 2, 0, 0] = number
    held.CopyFrom(numpy_helper.from_array(array, "v"))
    with pytest.raises(ModelError, match="the weights 'v' have numbers that are not finite"):
        quantized(given)
    data = samples()
    data[3]["x"][0, 0, 0, 0] = number  # it is held back from the calibration
    with pytest.raises(ModelError, match="'x' has numbers that are not finite in the data"):
        quantized(model(), data=data)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_named(number: float) -> None:
    data = samples()
    data[1]["x"][0, 3, 1, 1] = number
    with pytest.raises(ModelError, match="'x' has numbers that are not finite, in sample 2"):
        quantized(model(), data=data)


def test_a_tensor_of_zeros_stays() -> None:
    given = model(b=np.full(32, -1e3, np.float32))
    result = quantized(given)
    assert read_by_quantizers(result) == ["x"]
    assert any("are 0 in all samples" in w for w in result.report.warnings)


def test_a_channel_of_zeros() -> None:
    w = np.random.default_rng(0).normal(0, 0.1, (32, 32, 3, 3)).astype(np.float32)
    w[5] = 0
    for target in ("10.9", "rtx"):
        result = quantized(model(w=w), target)
        assert all(
            np.isfinite(numpy_helper.to_array(t).astype(np.float32)).all() for t in result.model.graph.initializer
        )


def test_narrow_layers_stay() -> None:
    text = TEXT.replace("32,", "4,")
    given = parser.parse_model(text)
    rng = np.random.default_rng(0)
    held = {"w": rng.normal(0, 1, (4, 4, 3, 3)), "v": rng.normal(0, 1, (4, 4, 3, 3)), "b": rng.normal(0, 1, 4)}
    given.graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), n) for n, a in held.items())
    with pytest.raises(ModelError, match="fewer than 16 channels"):
        quantized(given, data=[{"x": s["x"][:, :4]} for s in samples()])


def test_one_sample_is_said_to_be_both() -> None:
    result = quantized(model(), data=samples(1))
    assert any("one sample gave the ranges and the error" in w for w in result.report.warnings)


@pytest.mark.parametrize("method", METHODS)
def test_a_histogram_of_parts_is_that_of_the_whole(method: str) -> None:
    """The end doubles as larger numbers come."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(0, scale, 5000).astype(np.float32) for scale in (0.1, 1.0, 4.0)]
    whole, apart = Histogram(), Histogram()
    whole.add(np.concatenate(parts))
    for part in parts:
        apart.add(part)
    assert apart.counts.sum() == whole.counts.sum() == 15000
    assert apart.largest == whole.largest
    assert scale_of(apart, method, INT8) == pytest.approx(scale_of(whole, method, INT8), rel=0.25)


def test_mse_cuts_off_one_far_number() -> None:
    found = Histogram()
    found.add(np.append(np.random.default_rng(0).normal(0, 1, 100_000), 30).astype(np.float32))
    assert scale_of(found, "max", INT8) == np.float32(30 / 127)
    assert scale_of(found, "mse", INT8) < 0.7 * 30 / 127
    assert scale_of(found, "entropy", INT8) < 0.5 * 30 / 127
    assert scale_of(found, "max", FP8) == np.float32(30 / 448)


def test_without_data_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model(), tmp_path / "in.onnx")
    assert main(["rewrite", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--int8"]) == 2
    assert "--int8 needs --data" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"fp8": True}, "--int8 and --fp8 do not go together"),
        ({"symmetric_int8": True}, "--int8 and --symmetric-int8 do not go together"),
        ({"calibration": "least"}, "--calibration is one of"),
    ],
)
def test_options_that_exclude_each_other(options: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        quantized(model(), **options)


def test_a_quantized_model_is_refused() -> None:
    with pytest.raises(UsageError, match="a model without quantizers"):
        quantized(quantized(model()).model)


def test_inputs_with_a_default_are_weights() -> None:
    """Exporters of the time of IR version 3 list each weight as an input; later versions call that a default."""
    given = model()
    given.graph.input.extend(
        onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in given.graph.initializer
    )
    result = quantized(given)
    assert [i.name for i in result.model.graph.input] == ["x"] and len(read_by_quantizers(result)) == 2
    assert "3 inputs with a default became weights, as TensorRT's parser reads them: w, v, b" in result.report.warnings
    given.ir_version = 3
    result = quantized(given)
    assert [i.name for i in result.model.graph.input] == ["x"] and len(read_by_quantizers(result)) == 2
    assert not any("with a default" in w for w in result.report.warnings)


MODELOPT = """<ir_version: 10, opset_import: ["" : 19, "trt" : 1]>
g (float[4,32] x) => (float[4,32] y) <float s = {0.01}, float8e4m3fn z = {0}, float ws = {0.02}> {
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    dw = DequantizeLinear (w, ws, z)
    h = MatMul (d, dw)
    r = Relu (h)
    p, ps = trt.TRT_FP4DynamicQuantize <axis = -1, block_size = 16> (r, s)
    sf = DequantizeLinear (ps, s)
    e = DequantizeLinear (p, sf)
    y = MatMul (e, dw)
}"""


def test_types_that_the_target_lacks_become_int8() -> None:
    """fp8 came with 9.0 and NVFP4 with 10.8: the activations are quantized anew, from data."""
    given = parser.parse_model(MODELOPT)
    weights = np.random.default_rng(0).normal(0, 9, (32, 32)).astype(ml_dtypes.float8_e4m3fn)
    given.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    data = [{"x": np.random.default_rng(k).normal(0, 1, (4, 32)).astype(np.float32)} for k in range(4)]
    result = quantized(given, "8.6", data=data)
    assert [n.op_type for n in result.model.graph.node if not n.op_type.endswith("Linear")] == [
        "MatMul", "Relu", "MatMul",
    ]  # fmt: skip
    assert read_by_quantizers(result) == ["x", "r"]
    assert "2 tensors and 1 weight of types that 8.6 lacks became floats" in result.report.warnings
    assert surgeon.rewrite(given, target="8.6").report.untaken, "without data the nodes are named"
    with pytest.raises(UsageError, match="is for a model without quantizers"):
        surgeon.rewrite(given, target="11.4", int8=True, data=data)


def test_another_method_is_tried_where_unseen_samples_need_larger_ranges() -> None:
    """The first samples have no outlier, so a method that cuts it off is best for them; those held back have it."""
    data = samples(12)
    for turn in (3, 6, 7, 11):
        data[turn]["x"][0, 0, 0, 0] = 60
    given = model(TEXT.replace("y = Sigmoid (s)", "y = Mul (s, s)").replace("s = Add (e, x)", "s = Add (e, e)"))
    result = quantized(given, data=data)
    assert any("(method: max); on 3 other samples" in w for w in result.report.warnings)
    with pytest.raises(ModelError, match="above the tolerance 0.15"):
        quantized(given, data=data, calibration="percentile")


def test_what_saturates_is_named() -> None:
    """Samples that the calibration did not see, with numbers ten times as large."""
    data = [{"x": s["x"] * (10 if turn % 4 == 3 else 1)} for turn, s in enumerate(samples())]
    why = r"'x' saturates: its numbers there are up to \d\d\.\d, and its scale holds \d\.\d\d\."
    for tolerance in (None, 1e-3):
        with pytest.raises(ModelError, match=why):
            quantized(model(), data=data, tolerance=tolerance)


def test_whole_models_are_compared_with_the_original() -> None:
    result = quantized(model(), verify="full")
    (moved,) = result.report.errors("measured")
    assert result.report.verify["max_error"] == moved > 0


@pytest.mark.parametrize(("tolerance", "limit"), [(None, 0.05), (0.06, 0.02), (0.021, 0.01)])
def test_half_precision_has_a_third_of_the_tolerance(tolerance: float | None, limit: float) -> None:
    """With 0.01 22 convolutions of nudenet stayed fp32, and TensorRT-RTX did not build it."""
    conversion = quantized(model(), target="rtx", tolerance=tolerance).precision
    assert conversion is not None and conversion.tolerance == pytest.approx(limit)


def test_what_half_precision_moves_too_far_stays_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """PP-OCR cls: the outputs moved by 0.08 in int8, and by 0.15 with the rest in fp16."""

    def error_of(self: Quantization, written: onnx.ModelProto) -> float:
        return 0.2 if any(t.data_type == onnx.TensorProto.FLOAT16 for t in written.graph.initializer) else 0.1

    monkeypatch.setattr(Quantization, "error_of", error_of)
    result = quantized(model(), target="rtx")
    assert "the rest of the model stays fp32: in fp16 the outputs change by 0.2, above the tolerance 0.15" in (
        result.report.warnings
    )
    assert not any(n.op_type == "Cast" for n in result.model.graph.node)


def test_the_score_of_a_sample_is_the_distance_of_its_outputs() -> None:
    given, (first, second) = model(), samples(2)
    distances = Distances(given, Samples.of([first]), Options.checked(RewriteOptions()))
    (expected,), (found,) = (Runner(given).run(sample) for sample in (first, second))
    score = distances.score()(first, {"y": expected}, {"y": found})
    assert score == pytest.approx(distances.error(lambda feeds: [found])) and score > 0.01
