"""The verdict for TensorRT-RTX is its own parser's and builder's. Needs no GPU.

What `benchmarks/verdict.py` found stands in condition_examples.py as a model that is refused, and the same with one
thing changed. Here the real parser and builder are asked about both, and about the first seeds of the fuzzer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from condition_examples import MORE, Example
from condition_examples_measured import BESIDES
from condition_examples_measured import MEASURED as FOUND
from helpers import model, require_opset

from surgeon.targets.conditions import CONDITIONS

pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'")
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import verdict

MEASURED = {c.name for c in CONDITIONS if any("TensorRT-RTX 1.7.1" in scope.source for scope in c.scopes)}
CASES = [
    pytest.param(op, example, id=f"{name}-{op}-{k}")
    for name, examples in [*MORE.items(), *FOUND.items(), *BESIDES.items()]
    if name in MEASURED
    for k, example in enumerate(examples)
    if example.targets.endswith("rtx")
    for op in example.operators.split()
]
SEEDS = range(30)


def why_not(proto: onnx.ModelProto) -> str:
    """Why TensorRT-RTX does not build a model, with 2 for each symbolic size and ones in every input."""
    types = {i.name: i.type.tensor_type for i in proto.graph.input}
    feeds = {
        name: np.ones([d.dim_value or 2 for d in t.shape.dim], onnx.helper.tensor_dtype_to_np_dtype(t.elem_type))
        for name, t in types.items()
    }
    return verdict.build(proto, feeds)[0]


@pytest.mark.parametrize(("op", "example"), CASES)
def test_tensorrt_rtx_refuses_what_the_table_refuses(op: str, example: Example) -> None:
    opsets = example.opsets or [example.opset] * len(example.taken)
    require_opset(max(example.opset, *opsets))
    assert why_not(model(example.refused.replace("OP", op), example.opset))
    for text, opset in zip(example.taken, opsets, strict=True):
        assert why_not(model(text.replace("OP", op), opset)) == "", text


def test_no_seed_of_the_fuzzer_is_missed() -> None:
    lines = verdict.run(SEEDS.start, len(SEEDS), None)
    assert len(lines) > len(SEEDS) / 2, "few of the drawn models are valid"
    assert [line for line in lines if line["class"] in ("miss", "crash")] == []
