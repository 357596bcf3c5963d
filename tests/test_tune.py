"""`--tune`: rewrites are tried on engines of TensorRT-RTX, and kept where fewer bytes are moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.ir.run import Runner
from surgeon.pipeline.options import Options, RewriteOptions
from surgeon.pipeline.source import Source
from surgeon.precision.rewriting import rewritten
from surgeon.precision.tuning import Moved, tuned
from surgeon.trt.kernels import measure_of

BLOCK = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,32,40,40] x) => (float[1,32,40,40] y) {
   c = Conv <kernel_shape = [1,1]> (x, w)
   s = Sigmoid (c)
   m = Mul (c, s)
   a, b = Split <axis = 1> (m)
   d = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (b, v)
   e = Concat <axis = 1> (a, b, d)
   y = Conv <kernel_shape = [1,1]> (e, u)
}
"""


def _block() -> onnx.ModelProto:
    """A block of a YOLOv8, whose convolution is split into two halves."""
    text = BLOCK.replace("{\n", "<float[32,32,1,1] w, float[16,16,3,3] v, float[32,48,1,1] u> {\n", 1)
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    del model.graph.initializer[:]
    for name, shape in (("w", (32, 32, 1, 1)), ("v", (16, 16, 3, 3)), ("u", (32, 48, 1, 1))):
        model.graph.initializer.append(numpy_helper.from_array(rng.normal(0, 0.1, shape).astype("f4"), name))
    return model


def _ops(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


@pytest.mark.long  # an engine for each candidate; the next tests ask the same of smaller ones
def test_what_moves_fewer_bytes_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    model = _block()
    fixed = surgeon.fix(model, tmp_path / "y.onnx", target="rtx", tune=True)
    assert "Split" not in _ops(fixed.result.model)
    assert any("split-conv" in line and "kept" in line for line in fixed.report.tuned)
    x = np.random.default_rng(1).normal(size=(1, 32, 40, 40)).astype("f4")
    before, after = (Runner(m).run({"x": x})[0] for m in (model, fixed.result.model))
    np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)
    assert fixed.report.to_json()["tuned"] == fixed.report.tuned
    assert _ops(surgeon.rewrite(model, target="rtx", tune=True).model) == _ops(fixed.result.model)


@pytest.mark.parametrize(
    ("more", "kept"), [(-50_000, True), (0, False), (50_000, False)], ids=["fewer bytes", "as many", "more bytes"]
)
def test_the_bytes_decide(more: int, kept: bool) -> None:
    def measure(model: onnx.ModelProto) -> Moved:
        return Moved(1_000_000 + (0 if "Split" in _ops(model) else more), 10)

    options = Options.checked(RewriteOptions(target="rtx", tune=True, skip=["concat-conv"]))
    result = rewritten(Source(_block()), options, measure)
    assert ("Split" not in _ops(result.model)) is kept
    assert len(result.report.tuned) == 1


@pytest.mark.parametrize(("second", "splits"), [(-1, 0), (30_000, 1), (90_000, 1)], ids=["both", "one", "one alone"])
def test_all_windows_of_a_pass_are_tried_together_first(second: int, splits: int) -> None:
    """`second`: how many bytes the second block costs more with two convolutions; the first saves 50,000."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,2,20,20] x) => (float[1,1,20,20] y, float[1,1,20,20] z, float[1,1,40,20] u, float[1,1,40,20] v)
            <float[2,2,1,1] w = {1,2,3,4}> {
            c = Conv <kernel_shape = [1,1]> (x, w)
            y, z = Split <axis = 1> (c)
            d = Concat <axis = 2> (x, x)
            e = Conv <kernel_shape = [1,1]> (d, w)
            u, v = Split <axis = 1> (e)
        }""")

    def measure(written: onnx.ModelProto) -> Moved:
        left = {n.output[0] for n in written.graph.node if n.op_type == "Split"}
        return Moved(1_000_000 - 50_000 * ("y" not in left) + second * ("u" not in left), 10)

    options = Options.checked(RewriteOptions(target="rtx", tune=True, skip=["concat-conv", "conv-batch-norm"]))
    result = rewritten(Source(model), options, measure)
    assert _ops(result.model).count("Split") == splits
    names = [line.split(",")[0] for line in result.report.tuned]
    apart = ["split-conv", "split-conv"] if second > 50_000 else ["without split-conv", "without split-conv"]
    assert sorted(names) == sorted(["split-conv", *apart])


def test_what_was_kept_is_tried_again() -> None:
    """The means of a norm, which are there when it is written by its moments."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float16[1,2,8,8] x) => (float16[1,2,8,8] y) <float16[2] s = {15360,16384}, float16[2] b = {0,15360}> {
            y = InstanceNormalization (x, s, b)
        }""")

    def measure(written: onnx.ModelProto) -> Moved:
        means = [a.ints for n in written.graph.node if n.op_type == "ReduceMean" for a in n.attribute]
        return Moved(1_000_000 - 100_000 * bool(means) - 100_000 * sum(list(axes) == [3] for axes in means), 10)

    result = rewritten(Source(model), Options.checked(RewriteOptions(target="rtx", tune=True)), measure)
    assert _ops(result.model).count("ReduceMean") == 4
    kept = [line.split(",")[0] for line in result.report.tuned if line.endswith("kept")]
    assert kept == ["instance-norm-moments", "mean-by-axis"]
    assert {p for a in result.report.applied for p in a.pass_name.split("+")} == set(kept)


def test_fewer_kernels_decide_where_the_bytes_are_the_same() -> None:
    def measure(model: onnx.ModelProto) -> Moved:
        return Moved(1_000_000, 10 if "Split" in _ops(model) else 9)

    options = Options.checked(RewriteOptions(target="rtx", tune=True))
    assert "Split" not in _ops(rewritten(Source(_block()), options, measure).model)


def test_an_error_above_the_tolerance_is_left() -> None:
    def measure(model: onnx.ModelProto) -> Moved:
        return Moved(1_000_000 - len(model.graph.node) * 10_000, 10)

    options = Options.checked(RewriteOptions(target="rtx", fp16=True, tune=True))
    plain = rewritten(Source(_block()), Options.checked(RewriteOptions(target="rtx", fp16=True)))
    assert plain.precision is not None
    judge = plain.precision.judge
    plain.precision.judge = lambda model: _failing(judge(model))
    result = tuned(plain, options, measure)
    assert "Split" in _ops(result.model)
    assert any("the error of 'y' is 1" in line for line in result.report.tuned)


def _failing(errors):
    from dataclasses import replace

    return [replace(e, why="too far", relative=1.0) for e in errors]


def test_nothing_is_tried_when_the_time_is_over() -> None:
    options = Options.checked(RewriteOptions(target="rtx", tune=True, tune_seconds=1e-9))
    result = rewritten(Source(_block()), options, lambda model: Moved(1, 1))
    assert "Split" in _ops(result.model)
    assert result.report.tuned == ["the time of 1e-09 s was over before 2 candidates of 2 were tried"]


def test_engines_are_measured_at_the_sizes_of_the_data() -> None:
    pytest.importorskip("tensorrt_rtx")
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,H,W] x) => (float[1,3,H,W] y) { y = Relu (x) }'
    image = np.zeros((1, 3, 40, 30), "f4")
    measure = measure_of(Options.checked(RewriteOptions(target="rtx", fp16=True, tune=True, data=[{"x": image}])), None)
    moved = measure(onnx.parser.parse_model(text))
    assert moved == Moved(2 * image.nbytes, 1)


def test_it_is_refused_for_other_targets() -> None:
    with pytest.raises(surgeon.UsageError, match="--tune needs --target rtx"):
        surgeon.rewrite(_block(), target="8.6", tune=True)
    with pytest.raises(surgeon.UsageError, match="tune-seconds needs --tune"):
        surgeon.rewrite(_block(), target="rtx", tune_seconds=3)
