"""Every case of every pass, rewritten for TensorRT-RTX, is parsed and built by the real one. Needs no GPU."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import casefile
import pytest
from helpers import onnxruntime_runs, require_opset

import surgeon

pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'")

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "corpus_rtx.py"
spec = importlib.util.spec_from_file_location("corpus_rtx", BENCHMARK)
assert spec is not None and spec.loader is not None
corpus_rtx = importlib.util.module_from_spec(spec)
spec.loader.exec_module(corpus_rtx)

# What TensorRT-RTX 1.7.1 refuses of the cases that show what is left alone: words of its reason.
REFUSED = {
    "attention/shorter_mask": "not supported by a dedicated kernel",  # it has none for fp32
    "conv_transpose/unknown_sizes": "negative pre-padding",  # it reads -1 for a size that is not static
    "fold/cast_of_quantized": "Quantized constant",  # left alone: int8 weights are read by nothing but DequantizeLinear
    "identity/changes": "training_mode input as an initializer",
    "opset/axes_at_run_time": "Axis input must resolve to a build-time constant",
    "opset/resize_axes": "inherently negative length",  # symbolic dimensions are built for size 2
    "prelu/mxnet": "Invalid Node",  # not valid ONNX: repaired on request alone
    "prelu/mxnet_unknown_width": "dimensions not compatible",
    "reflect_pad/no_symmetric_padding": "Compress",
    "reflect_pad/run_time_pads": "no optimization profile",  # its pads are an input: it takes a profile of values
    "fold/cast_like_quantized": "Quantized constant (w) is only allowed before DQ",
    "fold/cast_of_quantized_at_19": "Quantized constant (w) is only allowed before DQ",
    "sequence/computed_index": "SequenceAt",
    "sequence/unknown_size": "SequenceAt",
    "shape_tensor/unknown_size": "Expand",  # a shape that follows from the model's input
    "slice/unknown_count": "starts misaligns with the shape of input axes",
}


@pytest.mark.parametrize("path", casefile.paths(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_case_builds(path: Path) -> None:
    case = casefile.load(path)
    require_opset(case.model.opset_import[0].version)
    name = f"{path.parent.name}/{path.stem}"
    if name in casefile.NOT_RUN and not onnxruntime_runs(case.model):
        pytest.skip("this ONNX Runtime does not run it: nothing can be proved")
    result = surgeon.rewrite(case.model, target="rtx", options=case.options["options"])
    found, why = corpus_rtx.build(result.model.SerializeToString())
    if name in REFUSED:
        assert found != "built" and REFUSED[name] in why, f"{found}: {why}"
        return
    assert found == "built", f"{found}: {why}"
