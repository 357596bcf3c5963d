"""Certificates: rules whose windows are equal for all sizes, and wrong windows that get none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from helpers import model
from onnx import ModelProto, numpy_helper
from surgeon.passes._certificates import CERTIFIED

import surgeon
from surgeon.app.cli import main
from surgeon.proof.certificate import certify, difference
from surgeon.proof.field import Forbidden, NotCertified
from surgeon.proof.instances import Instance, instances
from surgeon.proof.whole import prove_models
from surgeon.report import FOR_ALL_SIZES, GRADES
from surgeon.rules.registry import passes
from surgeon.rules.rule import Rule, Stage

RULES = [(p.name, r) for p in passes() for r in p.rules if r.stage is not Stage.LOWER]
SWAPPED = {"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Max": "Min", "Min": "Max", "Relu": "Abs"}
SWAPPED |= {
    "Sigmoid": "Tanh",
    "Tanh": "Sigmoid",
    "Elu": "Relu",
    "Mish": "Softplus",
    "HardSwish": "Relu",
    "Gelu": "Relu",
}
SWAPPED |= {
    "ReduceMean": "ReduceSum",
    "ReduceSum": "ReduceMean",
    "Gelu": "Relu",
    "LeakyRelu": "Elu",
    "Softplus": "Relu",
    "Swish": "Sigmoid",
    "Celu": "Elu",
    "Selu": "Relu",
    "Neg": "Abs",
}


def of(name: str) -> list[Rule]:
    return [r for pass_name, r in RULES if pass_name == name]


@pytest.mark.parametrize("name", sorted(CERTIFIED))
def test_rules_for_all_sizes(name: str) -> None:
    """Those that say so, and no others of the same pass."""
    found = {c.rule for c in map(certify, of(name)) if c.grade == FOR_ALL_SIZES}
    assert found == CERTIFIED[name]


def test_half_of_the_rules_hold_for_all_sizes() -> None:
    assert 2 * sum(r.certified for _, r in RULES) >= len(RULES)
    assert sum(r.certified for _, r in RULES) == sum(map(len, CERTIFIED.values()))


def test_a_report_says_the_grade() -> None:
    proto = model("(float[N,8] x) => (float[N,8] y) { a = Identity (x) b = Sigmoid (a) c = Mul (a, b) y = Neg (c) }")
    applied = surgeon.rewrite(proto, target="10.9", cache=False).report.applied
    assert applied and {a.to_json()["grade"] for a in applied} <= set(GRADES)
    clean = model("(float[N,8] x) => (float[N,8] y) { a = Identity (x) y = Neg (a) }")
    assert [a.grade for a in surgeon.rewrite(clean, verify="none").report.applied] == [FOR_ALL_SIZES]


def mutants(proto: ModelProto) -> Iterator[ModelProto]:
    """The model with one thing changed: an operator, or a number by a tenth."""
    for position, node in enumerate(proto.graph.node[:-1]):
        if node.op_type in SWAPPED:
            copy = ModelProto()
            copy.CopyFrom(proto)
            copy.graph.node[position].op_type = SWAPPED[node.op_type]
            del copy.graph.node[position].attribute[:]
            yield copy
        for number, attribute in enumerate(node.attribute):
            if attribute.f:
                copy = ModelProto()
                copy.CopyFrom(proto)
                copy.graph.node[position].attribute[number].f *= 1.1
                yield copy
    read = {i for n in proto.graph.node for i in n.input}
    for position, tensor in enumerate(proto.graph.initializer):
        array = numpy_helper.to_array(tensor)
        if tensor.name in read and array.dtype.kind == "f" and array.any():
            copy = ModelProto()
            copy.CopyFrom(proto)
            copy.graph.initializer[position].CopyFrom(
                numpy_helper.from_array(array * array.dtype.type(1.1), tensor.name)
            )
            yield copy


def without_zero(instance: Instance) -> bool:
    """Whether no constant is 0, by which a mutant makes inf another NaN and no number another number."""
    return all(numpy_helper.to_array(t).all() for t in instance.after.graph.initializer)


def test_no_mutant_of_a_rule_gets_a_certificate() -> None:
    """But for those that compute the same, which ONNX Runtime has to say as well: Celu with alpha 1 is Elu."""
    killed, survived = 0, []
    for name in CERTIFIED:
        for rule in of(name):
            for instance in itertools.islice(filter(without_zero, instances(rule, 100)), 6):
                for mutant in mutants(instance.after):
                    try:
                        seen = difference(instance.before, mutant)
                    except (Forbidden, NotCertified):
                        continue
                    killed += bool(seen)
                    if not seen and not prove_models(instance.before, mutant).ok:
                        survived.append((name, rule.body.__name__, mutant))
    assert killed >= 200
    assert not survived, survived


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = Relu (x)", "y = LeakyRelu <alpha = 0.001> (x)"),
        ("a = Sigmoid (x)  y = Mul (x, a)", "a = Sigmoid (x)  b = Mul (x, x)  y = Mul (b, a)"),
        ("y = Transpose <perm = [0, 2, 1]> (x)", "y = Identity (x)"),
        ("a = Transpose <perm = [1, 2, 0]> (x)  y = Transpose <perm = [1, 2, 0]> (a)", "y = Identity (x)"),
        ("y = Tanh (x)", "a = Add (x, x)  b = Sigmoid (a)  y = Sub (b, b)"),
    ],
)
def test_what_differs_gets_none(before: str, after: str) -> None:
    pair = [model(f"(float[N,C,W] x) => (float[A,B,D] y) {{ {text} }}", opset=18) for text in (before, after)]
    assert difference(*pair)
    assert not difference(pair[0], pair[0])


LAYER_NORM = (
    "m = ReduceMean (x, a) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, a) w = Add (v, e) r = Sqrt (w) "
    "z = Div (d, r) y = Mul (z, g)"
)


@pytest.mark.parametrize(
    ("after", "holds"),
    [
        ("y = LayerNormalization <axis = -1, epsilon = 1e-3> (x, g)", True),
        ("y = LayerNormalization <axis = -1, epsilon = 2e-3> (x, g)", False),
        (LAYER_NORM.replace("v = ReduceMean", "v = ReduceSum"), False),
        (LAYER_NORM.replace("q = Mul (d, d)", "q = Mul (x, d)"), True),  # the mean of x * (x - m) is that of squares
        (LAYER_NORM.replace("q = Mul (d, d)", "q = Mul (x, x)"), False),
        (LAYER_NORM.replace("y = Mul (z, g)", "y = Mul (g, d)"), False),
    ],
)
def test_sums_over_any_size(after: str, holds: bool) -> None:
    head = "(float[N,C,W] x, float[W] g) => (float[A,B,D] y) <int64[1] a = {-1}, float e = {0.001}>"
    pair = [model(f"{head} {{ {text} }}", opset=18) for text in (LAYER_NORM, after)]
    assert (difference(*pair) == "") is holds


def test_a_count_of_known_size_stands_for_no_other() -> None:
    head = "(float[N,W] x) => (float[N,D] y) <int64[1] a = {1}, float n = {8}>"
    texts = ("y = ReduceMean (x, a)", "s = ReduceSum (x, a) y = Div (s, n)")
    pair = [model(f"{head} {{ {text} }}", opset=18) for text in texts]
    assert difference(*pair)
    known = [model(f"{head.replace('W', '8')} {{ {text} }}", opset=18) for text in texts]
    assert not difference(*known)


def test_the_largest_over_an_axis_is_beyond_it() -> None:
    proto = model("(float[N,C] x) => (float[N,1] y) { y = ReduceMax <axes = [1]> (x) }")
    with pytest.raises(NotCertified, match="ReduceMax"):
        difference(proto, proto)


def test_the_command_says_why_a_rule_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "leaky-relu"]) == 0
    said = capsys.readouterr().out
    assert FOR_ALL_SIZES in said and "it writes what one target takes" in said
    assert main(["prove", "leakyrelu"]) == 2
