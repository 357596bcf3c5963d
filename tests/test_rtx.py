"""Every case that becomes something else, rewritten for TensorRT-RTX, is parsed and built by it. Needs no GPU.

A build takes 40 ms, sixty times as long as the parser: the fast tests build a part of the cases, the long ones all.
What is left alone is the file's own: whether TensorRT-RTX supports it says nothing about a pass.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import casefile
import onnx
import pytest
from helpers import onnxruntime_runs, require_opset
from onnx import helper

import surgeon

pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'")

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "corpus_rtx.py"
spec = importlib.util.spec_from_file_location("corpus_rtx", BENCHMARK)
assert spec is not None and spec.loader is not None
corpus_rtx = importlib.util.module_from_spec(spec)
spec.loader.exec_module(corpus_rtx)

# What TensorRT-RTX 1.7.1 refuses of what is written: words of its reason.
REFUSED = {
    # A Squeeze of the batch, right for one sample alone, stays where the target runs the spelling better as it is.
    "instance_norm/every_spelling": "reshape changes volume",
    "loop_concat/twice_itself": "must have inputs with same shape",  # a state that grows as this one is left alone
    "dead_branch/squeeze": "reshape changes volume",  # a size that is asked to be 1 is built for 2, too
    **dict.fromkeys(
        ("identity/squeeze_of_unknown_rank", "stft/unknown_rank"),
        "value should have been set by symbolic execution",  # a Reshape by an input, to a rank that nobody knows
    ),
    "mask/updates_by_every_operator": "NonZero plugin creator",  # what nothing reads keeps its positions
    "mask/taken_by_another_mask": "NonZero plugin creator",  # the positions of the other mask stay
    "nonzero_rows/more_positions_than_rows": "NonZero plugin creator",  # its second half is left alone
    "dequantize_int16/of_onnx": "Failed to convert",  # an input of 16 bits, which nothing reads
    **dict.fromkeys(
        ("unique/in_the_order_of_the_data", "unique/numbers", "unique/rows"),
        "Unique",  # how many values there are: TensorRT-RTX has no NonZero
    ),
    **dict.fromkeys(
        ("compress/computed", "mask/mean_of_all", "mask/other_dimension"),
        "Compress",  # how many elements there are: left alone where there is no NonZero
    ),
    **dict.fromkeys(
        ("widen_small_integers/computed_shifts", "widen_small_integers/images_that_are_interpolated"),
        "does not support UINT8 types for intermediate tensors",
    ),
}


CASES = [path for path in casefile.paths() if casefile.MARK + " becomes" in path.read_text(encoding="utf-8")]


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


FIRST = {path.parent: path for path in reversed(CASES)}  # by pass
FEW = {*FIRST.values(), *CASES[::4], *(path for path in CASES if _id(path) in REFUSED)}  # built in the fast tests, too

BUILT: dict[tuple[str, ...], tuple[str, str]] = {}  # what was found of a model, by all but its inner names


def built(model: onnx.ModelProto) -> tuple[str, str]:
    """What `corpus_rtx.build` finds. Many cases end alike: each end is built once."""
    inputs = [i.SerializeToString().hex() for i in model.graph.input]
    key = (*inputs, str(model.ir_version), *casefile.canonical(model))
    if key not in BUILT:
        BUILT[key] = corpus_rtx.build(model.SerializeToString())
    return BUILT[key]


def rewritten(path: Path) -> onnx.ModelProto:
    case = casefile.load(path)
    require_opset(case.model.opset_import[0].version)
    if _id(path) in casefile.NOT_RUN and not onnxruntime_runs(case.model):
        pytest.skip("this ONNX Runtime does not run it: nothing can be proved")
    return surgeon.rewrite(case.model, target="rtx", options=case.options["options"], verify="none").model


@pytest.mark.parametrize("path", [p for p in CASES if p not in FEW], ids=_id)
def test_case_is_parsed(path: Path) -> None:
    assert not corpus_rtx.parsed(rewritten(path).SerializeToString(), corpus_rtx.Log()).why


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=_id(p), marks=() if p in FEW else pytest.mark.long) for p in CASES]
)
def test_case_builds(path: Path) -> None:
    found, why = built(rewritten(path))
    if _id(path) in REFUSED:
        assert found != "built" and REFUSED[_id(path)] in why, f"{found}: {why}"
        return
    assert found == "built", f"{found}: {why}"


def test_weights_of_uint4_are_built_as_int8() -> None:
    """ONNX's text holds none."""
    weights = [
        helper.make_tensor("w", onnx.TensorProto.UINT4, (3, 2), [0, 15, 7, 8, 1, 2]),
        helper.make_tensor("z", onnx.TensorProto.UINT4, (2,), [8, 3]),
        helper.make_tensor("s", onnx.TensorProto.FLOAT, (2,), [0.5, 0.25]),
    ]
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]> g (float[N,3] x) => (float[N,2] y) {
        d = DequantizeLinear <axis = 1> (w, s, z)
        y = MatMul (x, d)
    }""")
    model.graph.initializer.extend(weights)
    result = surgeon.rewrite(model, target="rtx").model
    held = {
        t.name: onnx.numpy_helper.to_array(t) for t in result.graph.initializer if t.data_type == onnx.TensorProto.INT8
    }
    assert [[-8, 12], [-1, 5], [-7, -1]] in [array.tolist() for array in held.values()]
    found, why = corpus_rtx.build(result.SerializeToString())
    assert found == "built", why
