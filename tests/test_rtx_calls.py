"""What the table says of calls that TensorRT-RTX looks up by name: ONNX Runtime's operators and local functions.

tests/test_verdict.py asks TensorRT-RTX itself, where it is installed.
"""

from __future__ import annotations

import onnx
import pytest
from helpers import model

from surgeon.ir.model import Model
from surgeon.targets.target import Target

QKV = (
    "(float[2,4,8] q, float[2,4,8] k, float[2,4,8] v, float[2,1,8] one, float[1,1,8] two, float[2,4,6] w, float[4,8] m)"
)
HEADS = "com.microsoft.MultiHeadAttention <num_heads = 2>"
X = "(float[2,4,8] x, float[4,8] z, float[8] g)"
SKIP = "com.microsoft.SkipSimplifiedLayerNormalization"
CALLED = '{} <domain: "f", opset_import: ["" : 17, "f" : 1]> {} {} ({}) => ({}) {{ {} }}'
CLIP = ("Own", "", "a, low", "b", "b = Clip (a, low)")
TWO = ("Own", "", "a", "b, c", "b = Neg (a) c = Abs (a)")
SUB = ("Own", "", "a, c", "b", "b = Sub (a, c)")


def said_of(proto: onnx.ModelProto) -> str:
    return "; ".join(unsupported.reason for _, unsupported in Target.parse("rtx").unsupported(Model(proto)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{QKV} => (float[] y) {{ y = {HEADS} (q, k, v) }}", ""),
        (f"{QKV} => (float[] y) {{ y = {HEADS} (q, k, v, m) }}", "after query, key and value"),
        (f"{QKV} => (float[] y) {{ y = {HEADS} (q, , v) }}", "must be given apart"),
        (f"{QKV} => (float[] y, float[] p) {{ y, p = {HEADS} (q, k, v) }}", "more than one output"),
        (f"{QKV} => (float[] y) {{ y = com.microsoft.MultiHeadAttention <past = 1> (q, k, v) }}", "attribute past"),
        (f"{QKV} => (float[] y) {{ y = {HEADS} (q, m, v) }}", "three dimensions"),
        (f"{QKV} => (float[] y) {{ y = {HEADS} (q, k, w) }}", "different sizes"),
        (f"{QKV} => (float[] y) {{ y = {HEADS} (one, k, v) }}", ""),
        (f"{QKV} => (float[] y) {{ y = {HEADS} (two, k, v) }}", "no kernel for one query"),
        (f"{QKV} => (float[] y) {{ y = {HEADS} (two, k, k) }}", ""),
        (f"{QKV} => (float[] y) {{ y = com.microsoft.MultiHeadAttention <num_heads = 1> (one, k, v) }}", "no kernel"),
        (f"{X} => (float[] y) {{ y = com.microsoft.SimplifiedLayerNormalization (x, g) }}", ""),
        (f"{X} => (float[] y, float[] r) {{ y, r = com.microsoft.SimplifiedLayerNormalization (x, g) }}", "one output"),
        (f"{X} => (float[] y) {{ y = {SKIP} (x, x, g) }}", ""),
        (f"{X} => (float[] y, float[] r) {{ y, u, v, r = {SKIP} (x, x, g) }}", "its second and third output"),
        (f"{X} => (float[] y) {{ y = {SKIP} (x, z, g) }}", "different ranks"),
    ],
)
def test_operators_of_onnx_runtime(text: str, why: str) -> None:
    said = said_of(model(text, 17, extra=', "com.microsoft" : 1'))
    assert why in said if why else not said


@pytest.mark.parametrize(
    ("graph", "function", "why"),
    [
        ("(float[2] x, float[2] z) => (float[2] y) { y = f.Own (x, z) }", SUB, ""),
        ("(float[2] a, float[2] c) => (float[2] y) { y = f.Own (c, a) }", SUB, "is called like a tensor"),
        ("(float[2] x) => (float[2] y) { y = f.Own (x) }", CLIP, "an input of the function is left out"),
        ('(float[2] x) => (float[2] y) { y = f.Own (x, "") }', CLIP, "an input of the function is left out"),
        ("(float[2] x) => (float[2] y) { y = f.Own (x) }", TWO, "an output of the function is left out"),
        ('(float[2] x) => (float[2] y) { "", y = f.Own (x) }', TWO, "an output of the function is left out"),
        (
            "(float[2] x) => (float[2] y, float[2] z) { y, z = f.Own (x) }",
            ("Own", "", "a", "a, b", "b = Neg (a)"),
            "an output of the function is its input",
        ),
        (
            "(float[2] x) => (float[2] y) { y = f.Own (x) }",
            ("Own", "<alpha>", "a", "b", "b = LeakyRelu <alpha: float = @alpha> (a)"),
            "attribute 'alpha' is left out",
        ),
        ("(float[2] x) => (float[2] y) { y = f.Det (x) }", ("Det", "", "a", "b", "b = Neg (a)"), "ignores domains"),
        ("(float[2] x) => (float[2] y) { y = f.Relu (x) }", ("Relu", "", "a", "b", "b = Neg (a)"), "ignores domains"),
    ],
)
def test_local_functions(graph: str, function: tuple[str, ...], why: str) -> None:
    head = '<ir_version: 8, opset_import: ["" : 17, "f" : 1]> g '
    said = said_of(onnx.parser.parse_model(head + CALLED.format(graph, *function)))
    assert why in said if why else not said


def test_functions_of_one_name_in_two_domains() -> None:
    head = '<ir_version: 8, opset_import: ["" : 17, "f" : 1, "h" : 1]> g (float[2] x) => (float[2] y) { y = f.Own (x) }'
    own = '<domain: "{}", opset_import: ["" : 17]> Own (a) => (b) {{ b = Neg (a) }}'
    proto = onnx.parser.parse_model(f"{head} {own.format('f')} {own.format('h')}")
    assert "several have this name" in said_of(proto)


BRANCHES = (
    "(float[2] x, bool z) => (float[2] y) <bool c = {{{}}}> {{ d = Not (c) y = If ({}) <then_branch = t () => (p) "
    "{{ p = Neg (x) }}, else_branch = e () => (q) {{ q = {} (x) }}> }}"
)


@pytest.mark.parametrize(
    ("holds", "condition", "other", "why"),
    [
        (1, "c", "Bernoulli", ""),
        (0, "c", "Bernoulli", "no importer for Bernoulli"),
        (1, "d", "Bernoulli", "no importer for Bernoulli"),
        (1, "z", "Bernoulli", "no importer for Bernoulli"),
        (1, "c", "trt.TRT_FP8QuantizeLinear", ""),
    ],
)
def test_a_branch_that_is_never_taken_is_not_parsed(holds: int, condition: str, other: str, why: str) -> None:
    said = said_of(model(BRANCHES.format(holds, condition, other), 15, extra=', "trt" : 1'))
    assert why in said if why else not said
