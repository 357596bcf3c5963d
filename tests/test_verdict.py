"""The verdict for TensorRT-RTX is its own parser's and builder's. Needs no GPU.

What `benchmarks/verdict.py` found is in condition_examples/ as a model that is refused, and the same with one
thing changed. Here the real parser and builder are asked about both, and about the first seeds of the fuzzer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from condition_examples import EXAMPLES
from condition_examples.example import Example, node_of
from helpers import model, require_opset

from surgeon.targets.conditions import conditions

pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is not installed: surgeon's extra 'rtx'")
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import verdict


def is_measured(name: str, op: str, example: Example) -> bool:
    """Whether a condition that gives an example's reason was measured with this TensorRT-RTX."""
    told = [c for c in conditions() if c.name == name and c.check(node_of(example.refused, op, example.opset))]
    return any("TensorRT-RTX 1.7.1" in scope.source for c in told for scope in c.scopes)


CASES = [
    pytest.param(op, example, id=f"{name}-{op}-{k}")
    for name, examples in EXAMPLES.items()
    for k, example in enumerate(examples)
    if example.targets.endswith("rtx") and "crashes" not in example.why
    for op in example.operators.split()
    if is_measured(name, op, example)
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
        ("<num_heads = 2> (q, q, q, b)", "an input after query, key and value is refused"),
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


ROTATED = "(float[1,2,4,8] x, float[1,4,16] z, int64[1,4] p, int64[1] q, float[9,4] c) => (float[] y)"
SKIPPED = "(float[1,2,8] x, float[2,8] z, float[8] g) => (float[] y)"
SKIPPING = "com.microsoft.SkipSimplifiedLayerNormalization"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(float[2,8] x) => (float[] y) { y = com.microsoft.Gelu (x) }", ""),
        ("(float[2,8] x) => (float[] y) { y = com.microsoft.QuickGelu (x) }", "there is no importer for com.microsoft"),
        (f"{ROTATED} {{ y = com.microsoft.RotaryEmbedding <interleaved = 1> (x, p, c, c) }}", ""),
        (f"{ROTATED} {{ y = com.microsoft.RotaryEmbedding <num_heads = 2> (z, p, c, c) }}", ""),
        (f"{ROTATED} {{ y = com.microsoft.RotaryEmbedding (z, p, c, c) }}", "num_heads is left out"),
        (f"{ROTATED} {{ y = com.microsoft.RotaryEmbedding (x, q, c, c) }}", "positions of 1 dimensions are refused"),
        (f"{SKIPPED} {{ y = SimplifiedLayerNormalization (x, g) }}", ""),
        (f"{SKIPPED} {{ y, i = SimplifiedLayerNormalization (x, g) }}", "more than one output is refused"),
        (f"{SKIPPED} {{ y = {SKIPPING} (x, x, g, g) }}", ""),
        (f"{SKIPPED} {{ y = {SKIPPING} (x, z, g) }}", "data and skip have different ranks"),
    ],
)
def test_other_operators_of_onnx_runtime(text: str, why: str) -> None:
    proto = model(text, 17, extra=', "com.microsoft" : 1')
    said = "; ".join(reason for _, reason in verdict.verdict(proto))
    assert why in said if why else not said
    assert bool(why_not(proto)) == bool(why)


CALLED = '{} <domain: "f", opset_import: ["" : 17]> Own {} ({}) => (b) {{ {} }}'
OWN = ("", "a", "s = Sigmoid (a) b = Mul (a, s)")
TWO = ("", "a, c", "b = Sub (a, c)")


@pytest.mark.parametrize(
    ("graph", "function", "why"),
    [
        ("(float[2] x) => (float[2] y) { s = Neg (x) t = f.Own (s) y = Add (s, t) }", OWN, ""),
        ("(float[2] a, float[2] x) => (float[2] y) { y = f.Own (x) }", OWN, ""),
        (
            "(float[2] x) => (float[2] y) { y = f.Own <alpha = 0.5> (x) }",
            ("<alpha>", "a", "b = LeakyRelu <alpha: float = @alpha> (a)"),
            "",
        ),
        (
            "(float[2] x) => (float[2] y) { y = f.Own (x) }",
            ("<alpha: float = 0.5>", "a", "b = LeakyRelu <alpha: float = @alpha> (a)"),
            "",
        ),
        (
            "(float[2] x) => (float[2] y) { y = f.Own (x) }",
            ("", "a", "k = Constant <value_floats = [2.0, 3.0]> () b = Mul (a, k)"),
            "",
        ),
        ("(float[2] x, float[2] z) => (float[2] y) { y = f.Own (x, z) }", TWO, ""),
        ("(float[2] a, float[2] c) => (float[2] y) { y = f.Own (c, a) }", TWO, "is called like a tensor"),
        (
            "(float[2] x) => (float[2] y) { y = f.Own (x) }",
            ("", "a, lo", "b = Clip (a, lo)"),
            "an input of the function is left out",
        ),
        (
            "(float[2] x) => (float[2] y) { y = f.Own (x) }",
            ("<alpha>", "a", "b = LeakyRelu <alpha: float = @alpha> (a)"),
            "attribute 'alpha' is left out",
        ),
        (
            "(float[2] x) => (float[2] y) { y = f.Own (x) }",
            ("<alpha>", "a", "b = LeakyRelu (a)"),
            "",
        ),
    ],
)
def test_local_functions_are_read_but_for_some_names(graph: str, function: tuple[str, str, str], why: str) -> None:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17, "f" : 1]> g {CALLED.format(graph, *function)}'
    )
    said = "; ".join(reason for _, reason in verdict.verdict(proto))
    assert why in said if why else not said
    feeds = {i.name: np.linspace(-2, 3, 2, dtype=np.float32) + k for k, i in enumerate(proto.graph.input)}
    refusal, network = verdict.build(proto, feeds)
    wanted = verdict.runtime(proto, feeds)
    assert wanted is not None
    assert (refusal == "" and verdict.numbers(network, proto, feeds, wanted) == "same") == (not why)


NEVER_TAKEN = (
    "(float[2] x, bool z) => (float[2] y) <bool c = {{1}}> {{ d = Not (c) y = If ({}) <then_branch = t () => (p) "
    "{{ p = Neg (x) }}, else_branch = e () => (q) {{ q = Bernoulli (x) }}> }}"
)


@pytest.mark.parametrize(("condition", "taken"), [("c", True), ("d", False), ("z", False)])
def test_a_branch_that_is_never_taken_is_not_parsed(condition: str, taken: bool) -> None:
    proto = model(NEVER_TAKEN.format(condition), 15)
    assert (not verdict.verdict(proto)) is taken
    assert (why_not(proto) == "") is taken


WHOLE = "(float[2] x, TYPE z) => (float[2] y) <WEIGHTS> { y = Neg (x) }"


@pytest.mark.parametrize(
    ("given", "weights", "why"),
    [
        ("int32[2]", "int8[1] w = {1}", ""),
        ("uint64[2]", "int8[1] w = {1}", "the input 'z', which nothing reads, is of uint64"),
        ("float[1,1,1,1,1,1,1,1,1]", "int8[1] w = {1}", "the input 'z' has 9 dimensions; 8 are the most"),
        ("int32[2]", 'string[1] w = {"a"}', "the initializer 'w', which nothing reads, is of string"),
        ("int32[2]", "int16[1] w = {1}", "the initializer 'w', which nothing reads, is of int16"),
        ("int32[2]", "float[1,1,1,1,1,1,1,1,1] w = {1}", "the initializer 'w' has 9 dimensions; 8 are the most"),
    ],
)
def test_what_no_node_reads_is_parsed_too(given: str, weights: str, why: str) -> None:
    proto = model(WHOLE.replace("TYPE", given).replace("WEIGHTS", weights), 13)
    assert verdict.verdict(proto) == ([("", why)] if why else [])
    assert bool(why_not(proto)) == bool(why)


def test_an_input_without_a_shape_is_a_number() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[] x) => (float[N] y) { y = Softmax (x) }'
    )
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    assert verdict.verdict(proto) == [("", "the input 'x' has no shape, and is read as one without dimensions")]
    assert why_not(proto)


def test_an_output_needs_a_type() -> None:
    proto = model("(float[2] x) => (float[2] y) { a = Relu (x) y = Tanh (a) }", 13)
    proto.graph.output[0].ClearField("type")
    assert verdict.verdict(proto) == [("", "the output 'y' has no type")]
    assert why_not(proto)


def test_no_seed_of_the_fuzzer_is_missed() -> None:
    lines = verdict.run(SEEDS.start, len(SEEDS), None)
    assert len(lines) > len(SEEDS) / 2, "few of the drawn models are valid"
    assert [line for line in lines if line["class"] in ("miss", "crash")] == []
