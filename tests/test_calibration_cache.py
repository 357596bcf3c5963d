"""--calibration-cache: int8 by the scales that TensorRT up to 10 wrote."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import surgeon
from surgeon.app.cli import main
from surgeon.errors import ModelError
from surgeon.ir.run import Runner

RNG = np.random.default_rng(0)
TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,32,8,8] x) => (float[1,32,8,8] y) <float half = {0.5}> {
    c = Conv <pads = [1, 1, 1, 1]> (x, w)
    r = Relu (c)
    p = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (r)
    e = Conv <pads = [1, 1, 1, 1]> (p, v)
    m = Mul (e, half)
    y = Sigmoid (m)
}"""
SCALES = {"x": 0.03, "c": 0.08, "r": 0.06, "e": 1.5, "m": 0.75, "y": 0.0078}


def model() -> onnx.ModelProto:
    found, rng = parser.parse_model(TEXT), np.random.default_rng(0)
    for name in "wv":
        weights = rng.normal(0, 0.1, (32, 32, 3, 3)).astype(np.float32)
        found.graph.initializer.append(numpy_helper.from_array(weights, name))
    return found


def hexadecimal(scale: float) -> str:
    return struct.pack(">f", scale).hex()


def cache(folder: Path, scales: dict[str, float], header: str = "TRT-8501-EntropyCalibration2", more: str = "") -> Path:
    path = folder / "calibration.cache"
    lines = [header, *(f"{name}: {hexadecimal(scale)}" for name, scale in scales.items())]
    path.write_text("\n".join(lines) + "\n" + more)
    return path


def quantized(result: surgeon.Result) -> dict[str, bytes]:
    """What each QuantizeLinear reads, and the bytes of its scale."""
    held = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    nodes = [n for n in result.model.graph.node if n.op_type == "QuantizeLinear"]
    return {n.input[0]: struct.pack(">f", held[n.input[1]]) for n in nodes}


def rewritten(path: Path, target: str = "10.9") -> surgeon.Result:
    result = surgeon.rewrite(model(), target=target, calibration_cache=path)
    onnx.checker.check_model(result.model, full_check=True)
    assert not result.report.untaken
    return result


@pytest.mark.parametrize("header", ["TRT-8501-EntropyCalibration2", "TRT-7103-MinMaxCalibration"])
def test_scales_are_those_of_the_cache_to_the_bit(tmp_path: Path, header: str) -> None:
    result = rewritten(cache(tmp_path, SCALES, header, more="\n\n"))
    assert quantized(result) == {"x": struct.pack(">f", 0.03), "p": struct.pack(">f", 0.06)}


def test_weights_get_a_scale_for_each_channel(tmp_path: Path) -> None:
    result = rewritten(cache(tmp_path, SCALES))
    held = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    scales = [held[n.input[1]] for n in result.model.graph.node if n.op_type == "DequantizeLinear" and n.attribute]
    assert [s.shape for s in scales] == [(32,), (32,)]


def test_the_numbers_are_near(tmp_path: Path) -> None:
    x = RNG.normal(0, 1, (1, 32, 8, 8)).astype(np.float32)
    before, after = (Runner(m).run({"x": x})[0] for m in (model(), rewritten(cache(tmp_path, SCALES)).model))
    np.testing.assert_allclose(before, after, atol=0.05)


DATA = [{"x": np.random.default_rng(k).normal(0, 1, (1, 32, 8, 8)).astype(np.float32)} for k in range(2)]


def test_the_error_on_data_is_within_the_tolerance(tmp_path: Path) -> None:
    """A scale of x that is much too large: its layer stays in floating point, the other one computes in int8."""
    path = cache(tmp_path, {**SCALES, "x": 0.6})
    loose = surgeon.rewrite(model(), target="10.9", calibration_cache=path, data=DATA, tolerance=0.5)
    assert set(quantized(loose)) == {"x", "p"}
    result = surgeon.rewrite(model(), target="10.9", calibration_cache=path, data=DATA, tolerance=0.02)
    assert set(quantized(result)) == {"p"}
    told = " ".join(result.report.warnings)
    assert "1 layer in floating point: its int8 makes the error too large" in told
    assert "the tolerance is 0.02)" in told
    assert "lines of tensors that no layer in int8 reads: x, c, e, m, y" in told


def test_no_layer_within_the_tolerance(tmp_path: Path) -> None:
    path = cache(tmp_path, SCALES)
    with pytest.raises(ModelError, match="no layer computes in int8 within the tolerance 1e-06"):
        surgeon.rewrite(model(), target="10.9", calibration_cache=path, data=DATA, tolerance=1e-6)
    options = {"tolerance": 1e-6, "allow_inexact": True}
    result = surgeon.rewrite(model(), target="10.9", calibration_cache=path, data=DATA, **options)
    assert set(quantized(result)) == {"x", "p"}


def test_every_line_is_used_or_named(tmp_path: Path) -> None:
    more = {"gone": 0.1, "half": 0.5, "(Unnamed Layer* 4) [Constant]_output": 0.003937008, "n": float("inf")}
    first, unmeasured, *told = rewritten(cache(tmp_path, {**SCALES, **more})).report.warnings
    assert first.startswith(
        "2 of 2 layers with weights compute in int8; the largest error of an output on random inputs is "
    )
    assert unmeasured.startswith("the error on inputs that occur was not measured")
    assert told == [
        "2 of 10 lines of the cache are scales of quantizers",
        "4 lines of tensors that no layer in int8 reads: c, e, m, y",
        "1 line of tensors that the model does not have: gone",
        "2 lines of constants, which stay floats: half, (Unnamed Layer* 4) [Constant]_output",
        "1 line with a scale that is not a positive finite number: n",
    ]


def test_an_unnamed_tensor_by_its_position(tmp_path: Path) -> None:
    scales = {"x": 0.03, "c": 0.5, "(Unnamed ITensor* 2)": 0.4, "p": 0.4, "e": 1.5, "(Unnamed ITensor* 9)": 0.1}
    result = rewritten(cache(tmp_path, scales))
    assert quantized(result) == {"x": struct.pack(">f", 0.03), "p": struct.pack(">f", 0.4)}
    assert any("without a name of the model" in w and "(Unnamed ITensor* 9)" in w for w in result.report.warnings)
    del scales["p"]
    assert quantized(rewritten(cache(tmp_path, {**scales, "p": 0.3})))["p"] == struct.pack(">f", 0.3)


def test_several_unnamed_tensors_in_their_order(tmp_path: Path) -> None:
    """Of c, r and p the two that do not only move numbers, or all three."""
    scales = {"x": 0.03, "(Unnamed ITensor* 1)": 0.5, "(Unnamed ITensor* 2)": 0.4, "e": 1.5, "y": 1.5}
    result = rewritten(cache(tmp_path, scales))
    assert quantized(result) == {"x": struct.pack(">f", 0.03), "p": struct.pack(">f", 0.4)}
    assert not any("without a name of the model" in w for w in result.report.warnings)
    more = {"x": 0.03, **{f"(Unnamed ITensor* {k})": k / 10 for k in range(1, 4)}, "e": 1.5}
    assert quantized(rewritten(cache(tmp_path, more)))["p"] == struct.pack(">f", 0.3)


def test_a_tensor_that_only_moves_numbers_has_the_scale_of_its_input(tmp_path: Path) -> None:
    assert set(quantized(rewritten(cache(tmp_path, {"x": 0.03, "r": 0.4})))) == {"x", "p"}
    assert set(quantized(rewritten(cache(tmp_path, {"x": 0.03, "e": 0.4})))) == {"x"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a calibration cache"),
        ("x: 3c008912\n", "is not a calibration cache"),
        ("TRT-8501-EntropyCalibration2\nx = 3c008912\n", "line 2 of .* is not `tensor: scale`: x = 3c008912"),
    ],
)
def test_what_is_not_a_cache(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "calibration.cache"
    path.write_text(text)
    with pytest.raises(surgeon.UsageError, match=why):
        rewritten(path)


def test_a_model_with_quantizers(tmp_path: Path) -> None:
    once = rewritten(cache(tmp_path, SCALES)).model
    with pytest.raises(surgeon.UsageError, match="is for a model without quantizers"):
        surgeon.rewrite(once, calibration_cache=cache(tmp_path, SCALES))


# ---- --write-calibration-cache ---------------------------------------------------------------------------------------


def written(path: Path) -> dict[str, str]:
    header, *lines = path.read_text().splitlines()
    assert header == "TRT-8401-EntropyCalibration2"
    return dict(line.rsplit(": ", 1) for line in lines)


def scales_in_hex(result: surgeon.Result) -> dict[str, str]:
    return {name: scale.hex() for name, scale in quantized(result).items()}


def samples() -> list[dict[str, np.ndarray]]:
    return [{"x": RNG.normal(0, 1, (1, 32, 8, 8)).astype(np.float32)} for _ in range(8)]


@pytest.mark.parametrize("target", ["8.4", "10.9", "rtx"])
def test_a_calibration_is_written_and_read_back(target: str, tmp_path: Path) -> None:
    path, data = tmp_path / "c.cache", samples()
    first = surgeon.rewrite(model(), target=target, int8=True, data=data, fp16=False, write_calibration_cache=path)
    assert list(written(path)) == ["x", "c", "r", "p", "e", "m", "y"], "an engine needs that of each tensor"
    told = f"the scales of 7 tensors are in the calibration cache '{path}'"
    assert told in first.report.warnings
    plain = surgeon.rewrite(model(), target="10.9", int8=True, data=data)
    assert quantized(rewritten(path)) == quantized(plain)
    assert scales_in_hex(plain).items() <= written(path).items()


def test_what_a_layer_in_floating_point_reads_has_no_line(tmp_path: Path) -> None:
    given, path = parser.parse_model(TEXT.replace("[1,32,8,8] y", "[1,6,8,8] y")), tmp_path / "c.cache"
    for name, before in (("w", 32), ("v", 6)):
        weights = RNG.normal(0, 0.1, (6, before, 3, 3)).astype(np.float32)
        given.graph.initializer.append(numpy_helper.from_array(weights, name))
    surgeon.rewrite(given, target="10.9", int8=True, data=samples(), write_calibration_cache=path)
    assert list(written(path)) == ["x", "c", "r", "e", "m", "y"]


def test_the_quantizers_of_a_file_are_written(tmp_path: Path) -> None:
    path = tmp_path / "c.cache"
    once = rewritten(cache(tmp_path, SCALES))
    surgeon.rewrite(once.model, target="10.9", write_calibration_cache=path)
    assert written(path) == scales_in_hex(once) == {"x": hexadecimal(0.03), "p": hexadecimal(0.06)}
    assert quantized(rewritten(path)) == quantized(once)


def test_quantizers_that_were_placed_anew_are_written(tmp_path: Path) -> None:
    path, once = tmp_path / "c.cache", rewritten(cache(tmp_path, SCALES)).model
    again = surgeon.rewrite(once, target="10.9", symmetric_int8=True, repair_qdq=True, write_calibration_cache=path)
    assert written(path) == scales_in_hex(again) != {}


def test_a_quantizer_of_uint8_has_the_scale_around_zero_that_holds_its_range(tmp_path: Path) -> None:
    path = tmp_path / "c.cache"
    given = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) <float s = {0.1}, uint8 z = {100}> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            y = Sin (d)
        }"""
    )
    surgeon.rewrite(given, write_calibration_cache=path)
    assert written(path) == {"x": hexadecimal(np.float32(155 * np.float64(np.float32(0.1)) / 127))}


def test_a_model_without_scales_has_no_cache(tmp_path: Path) -> None:
    path = tmp_path / "c.cache"
    with pytest.raises(surgeon.UsageError, match="needs --int8 --data, or a model that has quantizers"):
        surgeon.rewrite(model(), write_calibration_cache=path)
    with pytest.raises(surgeon.UsageError, match="not --fp8"):
        surgeon.rewrite(model(), fp8=True, data=samples(), write_calibration_cache=path)
    assert not path.exists()


def test_a_cache_is_written_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, given = tmp_path / "c.cache", tmp_path / "in.onnx"
    onnx.save(rewritten(cache(tmp_path, SCALES)).model, given)
    words = ["rewrite", str(given), str(tmp_path / "out.onnx"), "--write-calibration-cache", str(path)]
    assert main([*words, "--check"]) == 2 and "--check writes nothing" in capsys.readouterr().err
    assert main(words) == 0
    assert "the scales of 2 tensors are in the calibration cache" in " ".join(capsys.readouterr().out.split())
    assert main([*words[:-1], str(given)]) == 2, "the input is not overwritten"
    assert main(["rewrite", str(given), str(given), "-o", f"{tmp_path}/", *words[3:]]) == 2


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model(), tmp_path / "in.onnx")
    words = ["rewrite", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--target", "10.9"]
    assert main([*words, "--calibration-cache", str(cache(tmp_path, SCALES))]) == 0
    assert "2 of 6 lines of the cache are scales" in " ".join(capsys.readouterr().out.split())
    assert main([*words, "--calibration-cache", str(tmp_path / "none")]) == 2
