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


HEADS = (
    "(float[2,4,32] q, float[2,6,32] k, float[2,6,48] v, float[1,1,32] s, float[1,6,32] t, float[1,6,32] u, "
    "float[96] b, float[2,2,6,16] c) => (float[] y)"
)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("<num_heads = 2> (q, k, k)", ""),
        ("<num_heads = 2, scale = 0.5, unidirectional = 1> (q, k, k)", ""),
        ("<num_heads = 2> (q, k, v)", "keys and values of different sizes are refused"),
        ("<num_heads = 2> (q, q, q, b)", "an input behind query, key and value is refused"),
        ("<num_heads = 2> (q, c, c)", "query, key and value must have three dimensions"),
        ("<num_heads = 2, mask_filter_value = -1.0> (q, k, k)", "its attribute mask_filter_value is refused"),
        ("<num_heads = 2> (s, t, t)", ""),
        ("<num_heads = 2> (s, t, u)", "there is no kernel for one query"),
    ],
)
def test_multi_head_attention_of_onnx_runtime(call: str, why: str) -> None:
    text = f"{HEADS} {{ y = com.microsoft.MultiHeadAttention {call} }}"
    proto = model(text, 17, extra=', "com.microsoft" : 1')
    said = [reason for _, reason in verdict.verdict(proto)]
    assert said == ([why] if why else [])
    assert bool(why_not(proto)) == bool(why)


def test_no_seed_of_the_fuzzer_is_missed() -> None:
    lines = verdict.run(SEEDS.start, len(SEEDS), None)
    assert len(lines) > len(SEEDS) / 2, "few of the drawn models are valid"
    assert [line for line in lines if line["class"] in ("miss", "crash")] == []
