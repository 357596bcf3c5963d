"""--int4 and --fp8-weights: the weights of MatMul and Gemm in few bits, with a scale for each block."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser

import surgeon
from surgeon.app.cli import main
from surgeon.errors import ModelError, UsageError
from surgeon.ir.run import Runner
from surgeon.precision.weights_only import FP8, INT4, rounded

RNG = np.random.default_rng(0)
TEXT = """<ir_version: 10, opset_import: ["" : 17]>
g (float[4,256] x) => (float[4,64] y) {
    h = MatMul (x, w)
    r = Relu (h)
    y = Gemm <transB = 1> (r, v, b)
}"""


def model(rows: int = 256, text: str = TEXT) -> onnx.ModelProto:
    found = parser.parse_model(text.replace("256", str(rows)))
    held = {"w": RNG.normal(0, 0.1, (rows, 128)), "v": RNG.normal(0, 0.1, (64, 128)), "b": RNG.normal(0, 1, 64)}
    found.graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), n) for n, a in held.items())
    onnx.checker.check_model(found, full_check=True)
    return found


def data() -> list[dict[str, np.ndarray]]:
    return [{"x": RNG.normal(0, 1, (4, 256)).astype(np.float32)} for _ in range(2)]


def few(given: onnx.ModelProto, target: str = "10.9", **options: object) -> surgeon.Result:
    options = {"int4": True, **options}
    result = surgeon.rewrite(given, target=target, **options)  # type: ignore[arg-type]
    onnx.checker.check_model(result.model, full_check=True)
    assert not result.report.untaken
    return result


def dequantized(result: surgeon.Result) -> list[tuple[int, int, int, list[int], list[int]]]:
    """The type, the axis and the block of each DequantizeLinear, and the sizes of its weights and scales."""
    held = {t.name: t for t in result.model.graph.initializer}
    found = []
    for node in (n for n in result.model.graph.node if n.op_type == "DequantizeLinear"):
        attrs = {a.name: a.i for a in node.attribute}
        weights, scale = (held[name] for name in node.input)
        found.append((weights.data_type, attrs["axis"], attrs["block_size"], list(weights.dims), list(scale.dims)))
    return found


@pytest.mark.parametrize("option", ["int4", "fp8_weights", "int8", "calibration_cache"])
def test_weights_that_are_computed_and_too_large_to_be_stored_stay_floats(option: str, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 17]>
    g (float[4,256] x) => (float[4,20000] y) {
        h = MatMul (x, w)
        t = Transpose <perm = [1, 0]> (table)
        y = MatMul (h, t)
    }"""
    given = parser.parse_model(text)
    held = {"w": RNG.normal(0, 0.1, (256, 256)), "table": RNG.normal(0, 0.1, (20000, 256))}
    given.graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), n) for n, a in held.items())
    cache = tmp_path / "calibration.cache"
    cache.write_text("TRT-100900-EntropyCalibration2\nx: 3d000000\nh: 3d000000\n")
    asked = cache if option == "calibration_cache" else True
    result = surgeon.rewrite(given, target="10.9", data=data(), **{option: asked})  # type: ignore[arg-type]
    assert any(
        "in float" in w and "nodes compute the weights, which are too large" in w for w in result.report.warnings
    )


@pytest.mark.parametrize("target", ["10.9", "11.4", "rtx"])
@pytest.mark.parametrize(
    ("option", "name", "elem"),
    [("int4", "int4", TensorProto.INT4), ("fp8_weights", "fp8", TensorProto.FLOAT8E4M3FN)],
)
def test_weights_have_a_scale_for_each_block(target: str, option: str, name: str, elem: int) -> None:
    result = few(model(), target, **{"int4": False, option: True})
    assert sorted(dequantized(result)) == [(elem, 0, 128, [256, 128], [2, 128]), (elem, 1, 128, [64, 128], [64, 1])]
    told = f"2 of 2 matrices of weights are {name}, with a scale for each 128 rows of a column; on random inputs the "
    assert any(w.startswith(told) for w in result.report.warnings)
    opset = next(o.version for o in result.model.opset_import if not o.domain)
    assert opset >= 21
    if target != "10.9":
        assert result.precision is not None, "the rest is fp16, as language models compute"


def test_the_written_model_computes_what_was_measured() -> None:
    """ONNX Runtime runs int4, so the whole file is compared with the original."""
    given, feeds = model(), data()
    result = few(given, data=feeds)
    before, after = (np.concatenate([Runner(m).run(f)[0] for f in feeds]) for m in (given, result.model))
    error = np.sqrt(np.mean((before - after) ** 2) / np.mean(before**2))
    assert f"on 2 samples the outputs change by {error:.2g} " in result.report.warnings[0]
    assert 0.01 < error < 0.15


@pytest.mark.parametrize("kind", [INT4, FP8])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_each_block_has_a_scale_of_its_own(kind: object, axis: int, dtype: type) -> None:
    array = RNG.normal(0, 1, (256, 256)).astype(dtype)
    block = [slice(None), slice(None)]
    block[axis] = slice(64, 128)
    array[tuple(block)] *= 100
    found = rounded(array, axis, 64, kind)  # type: ignore[arg-type]
    assert found.scale.dtype == dtype and found.numbers.dtype == dtype
    apart = np.abs(found.numbers.astype(np.float64) - array)
    usual = np.sqrt((apart**2).mean(axis=1 - axis).reshape(4, 64).mean(axis=1))
    assert usual[1] / 100 == pytest.approx(usual[0], rel=0.1)
    assert usual[0] < {INT4: 0.13, FP8: 0.03}[kind]  # type: ignore[index]


def test_blocks_of_zeros_and_of_tiny_numbers() -> None:
    array = RNG.normal(0, 1, (128, 2)).astype(np.float16)
    array[:64, 0], array[:64, 1] = 0, 6e-8
    found = rounded(array, 0, 64, INT4)
    assert (found.scale > 0).all() and not found.numbers[:64].any()


def test_an_odd_number_of_weights_is_packed() -> None:
    steps = np.array([[-8, 7, 3]], np.float32)
    np.testing.assert_array_equal(numpy_helper.to_array(INT4.tensor("w", steps)).astype(np.float32), steps)


def test_smaller_blocks_where_the_rows_are_no_multiple_of_128() -> None:
    assert (0, 64, [192, 128]) in [(axis, block, sizes) for _, axis, block, sizes, _ in dequantized(few(model(192)))]
    result = few(model(96))
    assert "1 matrix in floats: its rows are not a multiple of 64: w" in result.report.warnings
    assert len(dequantized(result)) == 1
    assert len(dequantized(few(model(96), "rtx", verify="none", fp16=False))) == 2, "measured: it builds 32 and 16, too"


def test_the_worst_weights_stay_floats() -> None:
    """The one with a large outlier in each block loses all its other numbers."""
    given = model()
    held = next(t for t in given.graph.initializer if t.name == "v")
    array = numpy_helper.to_array(held).copy()
    array[:, 0] = 30
    held.CopyFrom(numpy_helper.from_array(array, "v"))
    feeds = data()
    for feed in feeds:
        feed["x"][:] = np.abs(feed["x"])
    first = next(t for t in given.graph.initializer if t.name == "w")
    columns = numpy_helper.to_array(first).copy()
    columns[:, 0] = 0
    first.CopyFrom(numpy_helper.from_array(columns, "w"))
    result = few(given, data=feeds)
    assert "1 matrix in floats: its int4 makes the error too large: v" in result.report.warnings
    assert [sizes for *_, sizes, _ in dequantized(result)] == [[256, 128]]
    with pytest.raises(ModelError, match="no weights are int4 within the tolerance 1e-05 of the error"):
        few(given, data=feeds, tolerance=1e-5)
    assert len(dequantized(few(given, data=feeds, tolerance=1e-5, allow_inexact=True))) == 2


def test_weights_that_are_not_finite_are_an_error() -> None:
    given = model()
    held = next(t for t in given.graph.initializer if t.name == "v")
    array = numpy_helper.to_array(held).copy()
    array[3, 5] = np.nan
    held.CopyFrom(numpy_helper.from_array(array, "v"))
    with pytest.raises(ModelError, match="the weights 'v' have numbers that are not finite"):
        few(given)


def test_weights_that_two_products_read_are_stored_once() -> None:
    text = TEXT.replace("r = Relu (h)", "a = MatMul (x, w) s = Add (a, h) r = Relu (s)")
    result = few(model(text=text), only=[], tolerance=0.5)
    assert len(dequantized(result)) == 2
    assert Counter(n.op_type for n in result.model.graph.node)["MatMul"] == 2


def test_weights_of_half_precision_have_scales_of_it() -> None:
    given = model()
    half = surgeon.rewrite(given, target="10.9", fp16=True, io_fp16=True, data=data()).model
    result = few(half)
    scales = {t.name: t.data_type for t in result.model.graph.initializer}
    nodes = [n for n in result.model.graph.node if n.op_type == "DequantizeLinear"]
    assert len(nodes) == 2 and {scales[n.input[1]] for n in nodes} == {TensorProto.FLOAT16}


def test_what_it_does_not_go_with() -> None:
    for target in ("8.6", "10.3"):
        with pytest.raises(UsageError, match="--int4 needs a target that reads int4 and opset 21"):
            few(model(), target)
    with pytest.raises(UsageError, match="--int4 and --fp8-weights do not go together"):
        few(model(), fp8_weights=True)
    with pytest.raises(UsageError, match="--int8 and --int4 do not go together"):
        few(model(), int8=True, data=data())
    activation = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,1,4,4] x) => (float[1,1,4,4] y) { y = Relu (x) }'
    )
    with pytest.raises(ModelError, match="it has no MatMul or Gemm with a matrix of weights"):
        few(activation)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model(), tmp_path / "in.onnx")
    words = ["rewrite", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--target", "10.9", "--int4"]
    assert main(words) == 0
    assert "2 of 2 matrices of weights are int4" in " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "out.onnx").stat().st_size < (tmp_path / "in.onnx").stat().st_size / 4


def test_tensorrt_rtx_builds_them() -> None:
    rtx = pytest.importorskip("tensorrt_rtx")
    for option in ("int4", "fp8_weights"):
        written = few(model(), "rtx", **{"int4": False, option: True}).model
        logger = rtx.Logger(rtx.Logger.ERROR)
        builder = rtx.Builder(logger)
        network = builder.create_network()
        assert rtx.OnnxParser(network, logger).parse(written.SerializeToString())
        assert builder.build_serialized_network(network, builder.create_builder_config()) is not None


def test_a_matrix_with_an_odd_last_dimension_stays_in_floats() -> None:
    """TensorRT's parser refuses it: `INT4 is not supported for tensors with an odd last dimension`."""
    text = TEXT.replace("<transB = 1> (r, v, b)", "(r, v, b)").replace("float[4,64] y", "float[4,63] y")
    given = parser.parse_model(text)
    held = {"w": RNG.normal(0, 0.1, (256, 128)), "v": RNG.normal(0, 0.1, (128, 63)), "b": RNG.normal(0, 1, 63)}
    given.graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), n) for n, a in held.items())
    result = few(given)
    assert [sizes for *_, sizes, _ in dequantized(result)] == [[256, 128]]
    assert any("its last dimension is odd" in w for w in result.report.warnings)


def test_fix_does_not_call_the_change_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model(), tmp_path / "in.onnx")
    words = ["fix", str(tmp_path / "in.onnx"), "--for", "10.9", "--int4", "-o", str(tmp_path / "out.onnx")]
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--int4 changes the numbers on purpose" in shown
    assert "the quantizers change the outputs by" in shown
