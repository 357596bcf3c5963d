"""The six rules of the pattern language, each on the smallest model that shows it."""

from __future__ import annotations

import contextlib
import gc
import re
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import a_pass, drive, model, ops

import surgeon
from surgeon.errors import PassError, UsageError
from surgeon.ir.graph import Value
from surgeon.ir.lattice import FLOATS, HALVES
from surgeon.ir.model import Model
from surgeon.rules.builder import Builder
from surgeon.rules.index import Index, nodes_in, operators_of
from surgeon.rules.match import Attempt, match
from surgeon.rules.pattern import ANY, Op, Pattern, any_of, attr, const, op, output, var
from surgeon.rules.registry import passes
from surgeon.rules.replacement import rewrites
from surgeon.rules.rule import Stage, no_match, rule, why_never_runs
from surgeon.targets.conditions.ranks import vector_by_batch

x, y = var("x"), var("y")


def matches(pattern: Op, body: str, opset: int = 17, at: int = -1, **kw: int):  # type: ignore[no-untyped-def]
    indexed = Model(model(body, opset, **kw))
    return match(pattern, indexed.graph.nodes[at], indexed)


def test_rule_1_the_same_pattern_is_the_same_tensor() -> None:
    square = op.Mul(x, x)
    assert matches(square, "(float[2] a) => (float[2] r) { r = Mul (a, a) }")
    assert not matches(square, "(float[2] a, float[2] b) => (float[2] r) { r = Mul (a, b) }")
    assert matches(op.Mul(x, y), "(float[2] a) => (float[2] r) { r = Mul (a, a) }"), "two variables may be one tensor"


def test_a_text_is_the_variable_of_that_name() -> None:
    square = op.Mul("x", "x")
    held = matches(square, "(float[2] a) => (float[2] r) { r = Mul (a, a) }")
    assert held is not None and held.bound["x"].name == "a"
    assert not matches(square, "(float[2] a, float[2] b) => (float[2] r) { r = Mul (a, b) }")
    assert matches(op.Mul("x", x), "(float[2] a) => (float[2] r) { r = Mul (a, a) }")


def test_patterns_of_a_table_are_one_choice() -> None:
    pattern = op.Neg(any_of(op[name]("x") for name in ("Relu", "Abs")))
    for name, found in (("Relu", True), ("Abs", True), ("Exp", False)):
        held = matches(pattern, f"(float[2] a) => (float[2] r) {{ m = {name} (a)  r = Neg (m) }}")
        assert (held is not None) is found


def test_rule_1_holds_for_interior_nodes_too() -> None:
    mean = op.ReduceMean(x, ...)
    twice = (x - mean) * mean
    shared = "(float[2,3] a) => (float[2,3] r) { m = ReduceMean <axes = [1]> (a)  d = Sub (a, m)  r = Mul (d, m) }"
    apart = (
        "(float[2,3] a) => (float[2,3] r) { m = ReduceMean <axes = [1]> (a)  n = ReduceMean <axes = [1]> (a)"
        "  d = Sub (a, m)  r = Mul (d, n) }"
    )
    assert matches(twice, shared)
    assert not matches(twice, apart)


@pytest.mark.parametrize("order", ["s, a", "a, s"])
def test_rule_2_commutative_inputs_match_in_either_order(order: str) -> None:
    body = f"(float[2] a) => (float[2] r) {{ s = Sigmoid (a)  r = Mul ({order}) }}"
    held = matches(x * op.Sigmoid(x), body)
    assert held and held.bound["x"].name == "a"
    assert not matches(x - op.Sigmoid(x), body.replace("Mul", "Sub").replace("a, s", "s, a"))


def test_rule_2_commuted_inputs_backtrack_together() -> None:
    formula = op.Max(x * const("alpha"), x)
    assert matches(formula, "(float[2] a) => (float[2] r) <float c = {0.5}> { m = Mul (c, a)  r = Max (a, m) }")


def test_rule_3_the_first_alternative_wins_and_the_second_is_tried() -> None:
    either = op.Relu(op.Neg(x) | op.Abs(x))
    assert matches(either, "(float[2] a) => (float[2] r) { m = Neg (a)  r = Relu (m) }")
    assert matches(either, "(float[2] a) => (float[2] r) { m = Abs (a)  r = Relu (m) }")
    assert not matches(either, "(float[2] a) => (float[2] r) { m = Exp (a)  r = Relu (m) }")


def test_rule_3_an_optional_input() -> None:
    clip = op.Clip(x, const("low"), const("high") | None)
    both = "(float[2] a) => (float[2] r) <float l = {0.0}, float h = {6.0}> { r = Clip (a, l, h) }"
    low = "(float[2] a) => (float[2] r) <float l = {0.0}> { r = Clip (a, l) }"
    high = '(float[2] a) => (float[2] r) <float h = {6.0}> { r = Clip (a, "", h) }'
    assert set(matches(clip, both).bound) == {"x", "low", "high"}
    assert set(matches(clip, low).bound) == {"x", "low"}
    assert not matches(clip, high), "the position of an empty input matters"


def test_rule_4_what_the_taken_branch_did_not_bind_is_not_passed() -> None:
    root = op.Sqrt(x + const("eps") | x)
    seen: list[dict] = []

    @rule(root, stage=Stage.FUSE)
    def body(b, x, eps=None):  # type: ignore[no-untyped-def]
        seen.append({"eps": eps})
        return b.Identity(x)

    drive(model("(float[2] a) => (float[2] r) { r = Sqrt (a) }"), a_pass("p", body))
    assert seen == [{"eps": None}]


@pytest.mark.parametrize("opset", [13, 18])
def test_rule_5_axes_read_the_same_as_attribute_and_as_input(opset: int) -> None:
    body = (
        "(float[2,3] a) => (float[2,1] r) { r = ReduceMean <axes = [1]> (a) }"
        if opset == 13
        else "(float[2,3] a) => (float[2,1] r) <int64[1] ax = {1}> { r = ReduceMean (a, ax) }"
    )
    by_position, by_name = op.ReduceMean(x, const("axes"), keepdims=1), op.ReduceMean(x, axes=const("axes"))
    for pattern in (by_position, by_name):
        assert matches(pattern, body, opset).bound["axes"].tolist() == [1]


def test_rule_5_an_attribute_left_out_has_its_default() -> None:
    body = "(float[2] a) => (float[2] r) { r = LeakyRelu (a) }"
    assert matches(op.LeakyRelu(x, alpha=attr("alpha")), body).bound["alpha"] == pytest.approx(0.01)
    assert matches(op.LeakyRelu(x, alpha=0.01), body)
    assert not matches(op.LeakyRelu(x, alpha=0.02), body)


def test_rule_5_clip_wrote_no_bound_as_the_largest_float_before_opset_11() -> None:
    body = "(float[2] a) => (float[2] r) { r = Clip <min = 0.0, max = 3.4028234663852886e+38> (a) }"
    assert set(matches(op.Clip(x, const("low"), const("high") | None), body, 10).bound) == {"x", "low"}


def test_rule_6_an_interior_tensor_is_read_by_nobody_else() -> None:
    norm = x / op.Sqrt(y)
    assert not matches(norm, "(float[2] a) => (float[2] r, float[2] q) { s = Sqrt (a)  q = Exp (s)  r = Div (a, s) }")
    assert not matches(norm, "(float[2] a) => (float[2] r, float[2] s) { s = Sqrt (a)  r = Div (a, s) }")
    assert matches(norm, "(float[2] a) => (float[2] r) { s = Sqrt (a)  r = Div (a, s) }")


def test_rule_6_a_reader_in_a_body_is_a_reader() -> None:
    body = """(float[2] a, bool c) => (float[2] r, float[2] q) {
        s = Sqrt (a)
        q = If (c) <then_branch = t () => (float[2] u) { u = Exp (s) },
                    else_branch = e () => (float[2] v) { v = Identity (a) }>
        r = Div (a, s)
    }"""
    assert not matches(x / op.Sqrt(y), body)


def test_rule_6_shape_and_constant_nodes_are_free() -> None:
    body = """(float[2,3] a) => (float[2,3] r, int64[2] s) {
        s = Shape (a)
        e = Expand (a, s)
        r = Relu (e)
    }"""
    assert matches(op.Relu(op.Expand(x, op.Shape(x))), body)


@pytest.mark.parametrize("tensor", ["float c = {0.5}", "float[1] c = {0.5}", "float[1,1] c = {0.5}"])
def test_a_literal_is_one_element_of_any_shape(tensor: str) -> None:
    assert matches(x * 0.5, f"(float[2,3] a) => (float[2,3] r) <{tensor}> {{ r = Mul (a, c) }}")


def test_a_literal_is_compared_relatively() -> None:
    tiny = "(float[2] a) => (float[2] r) <float c = {1e-12}> { r = Add (a, c) }"
    assert matches(x + 1e-12, tiny)
    assert not matches(x + 0.0, tiny), "1e-12 is not 0"


def test_a_literal_is_equal_to_the_rounding_of_the_tensors_own_type() -> None:
    proto = model("(float16[2] a) => (float16[2] r) { r = Mul (a, c) }".replace("{ r", "<float16[1] c = {0}> { r"))
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([0.7978845608028654], np.float16), "c"))
    indexed = Model(proto)
    assert match(x * 0.7978845608028654, indexed.graph.nodes[-1], indexed)
    assert not match(x * 0.797, indexed.graph.nodes[-1], indexed)


def test_a_constant_is_whatever_can_be_computed() -> None:
    body = """(float[2] a) => (float[2] r) {
        one = Constant <value_float = 1.0> ()
        two = Add (one, one)
        r = Mul (a, two)
    }"""
    assert float(matches(x * const("k"), body).bound["k"]) == 2.0
    assert matches(x * 2.0, body)


def test_a_root_with_several_outputs() -> None:
    split = op.Split(x, ..., axis=0)

    @rule(split, stage=Stage.FUSE)
    def swap(b, x):  # type: ignore[no-untyped-def]
        one = b.Slice(x, [0], [1], [0])
        two = b.Slice(x, [1], [2], [0])
        return one, two

    proto = model("(float[2,3] a) => (float[1,3] p, float[1,3] q) { p, q = Split <axis = 0> (a) }")
    drive(proto, a_pass("p", swap))
    onnx.checker.check_model(proto, full_check=True)
    assert ops(proto) == ["Slice", "Slice"] and [n.output[0] for n in proto.graph.node] == ["p", "q"]


def test_an_inner_output_by_its_number() -> None:
    split = op.Split(x, ..., axis=0)
    total = output(split, 1) + output(split, 0)
    body = "(float[2,3] a) => (float[1,3] r) { p, q = Split <axis = 0> (a)  r = Sub (q, p) }"
    assert matches(output(split, 1) - output(split, 0), body)
    assert not matches(output(split, 0) - output(split, 1), body)
    assert matches(total, body.replace("Sub", "Add"))


def test_an_attempt_tells_what_was_missing() -> None:
    indexed = Model(model("(float[2] a) => (float[2] r) { s = Exp (a)  r = Mul (a, s) }"))
    attempt = Attempt()
    assert match(x * op.Sigmoid(x), indexed.graph.nodes[-1], indexed, attempt) is None
    assert "Exp" in attempt.why and "Sigmoid" in attempt.why


HALF_AND_FLOAT = "(float16[2,3] a, float[4] b) => (float16[2,3] r, float[4] s) { r = Relu (a)  s = Relu (b) }"


def test_a_guard_asks_for_the_type() -> None:
    assert matches(op.Relu(var("x", dtype=HALVES)), HALF_AND_FLOAT, at=0)
    assert not matches(op.Relu(var("x", dtype=HALVES)), HALF_AND_FLOAT, at=1)
    assert matches(op.Relu(var("x", dtype=onnx.TensorProto.FLOAT)), HALF_AND_FLOAT, at=1)
    assert not matches(op.Relu(var(dtype=HALVES)), HALF_AND_FLOAT, at=1), "without a name, too"


def test_a_guard_asks_for_the_rank_and_the_sizes() -> None:
    named = "(float[N,3] a) => (float[N,3] r) { r = Relu (a) }"
    for guarded in (var("x", rank=2), var("x", rank=range(2, 4)), var("x", shape=(None, 3))):
        assert matches(op.Relu(guarded), named)
    for guarded in (var("x", rank=1), var("x", rank=(0, 3)), var("x", shape=(2, 3)), var("x", shape=(3,))):
        assert not matches(op.Relu(guarded), named)


def test_a_guard_does_not_hold_where_nothing_is_known() -> None:
    unknown = "(float[N,3] a, int64[M] t) => (float r) { c = Reshape (a, t)  r = Relu (c) }"
    assert not matches(op.Relu(var("x", rank=range(9))), unknown)
    assert matches(op.Relu(var("x", dtype=onnx.TensorProto.FLOAT)), unknown)


def test_a_guard_of_a_constant() -> None:
    body = "(float[2,3] a) => (float[2,3] r) <float[3] c = {1.0, 2.0, 3.0}> { r = Mul (a, c) }"
    assert matches(x * const("c", size=3, rank=1, dtype=FLOATS, shape=(3,)), body)
    assert not matches(x * const("c", size=1), body)
    assert not matches(x * const("c", dtype=HALVES), body)
    as_attribute = "(float[4] a) => (float[2] r) { r = Slice <starts = [1], ends = [3]> (a) }"
    assert matches(op.Slice(x, const("starts", size=1), const("ends", dtype=onnx.TensorProto.INT64)), as_attribute, 9)
    assert not matches(op.Slice(x, const("starts", size=2), ...), as_attribute, 9)


def test_an_attribute_may_be_one_of_several() -> None:
    some = op.Cast(x, to=attr("to", among=HALVES))
    body = "(float[2] a) => (float16[2] r) { r = Cast <to = 10> (a) }"
    held = matches(some, body)
    assert held and held.bound["to"] == onnx.TensorProto.FLOAT16
    assert not matches(some, body.replace("10", "11").replace("float16", "double"))
    unmatched = Model(model(body.replace("10", "11").replace("float16", "double")))
    index: Index[str] = Index([(some, "cast")])
    assert index.at(unmatched.graph.nodes[0], lambda value: False) == ()


def test_a_guard_decides_between_alternatives() -> None:
    body = "(float[2] a, float[2,2] b) => (float[2,2] r) { r = Add (a, b) }"
    held = matches(op.Add(var("matrix", rank=2), y), body)
    assert held and held.bound["matrix"].name == "b"


@pytest.mark.parametrize(
    ("guarded", "why"),
    [
        (var("x", dtype=HALVES), "the type of 'a' is float, not float16 or bfloat16"),
        (var("x", rank=3), "'a' has 2 dimensions"),
        (var("x", shape=(2, 4)), "'a' has the shape ['N', 3]"),
        (var("x", rank=1) + ANY, "the rank of 'c' is not known"),
    ],
)
def test_an_attempt_tells_which_guard_did_not_hold(guarded: Pattern, why: str) -> None:
    body = "(float[N,3] a, int64[M] t) => (float r) { c = Reshape (a, t)  d = Add (c, c)  s = Relu (a)  r = Abs (d) }"
    indexed = Model(model(body))
    attempt = Attempt()
    root = op.Abs(guarded) if isinstance(guarded, Op) else op.Relu(guarded)
    node = next(n for n in indexed.graph.nodes if n.op == root.type)
    assert match(root, node, indexed, attempt) is None
    assert attempt.why == why


def test_a_rule_that_cures_a_condition_runs_where_the_target_refuses_the_node_for_it() -> None:
    @rule(op.MatMul(x, y), stage=Stage.FUSE, cures=vector_by_batch)
    def one(b, x, y):  # type: ignore[no-untyped-def]
        return b.Abs(y)

    @rule(op.MatMul(x, y), stage=Stage.FUSE, cures=True)
    def whatever(b, x, y):  # type: ignore[no-untyped-def]
        return b.Neg(y)

    batch = "(float[4] a, float[N,4,2] m) => (float[N,2] r) { r = MatMul (a, m) }"
    matrix = "(float[4] a, float[4,2] m) => (float[2] r) { r = MatMul (a, m) }"
    integers = "(int32[3,4] a, int32[4,2] m) => (int32[3,2] r) { r = MatMul (a, m) }"
    for body, target, which, found in (
        (batch, "8.4", one, "Abs"),
        (batch, "7.1", one, "MatMul"),
        (matrix, "8.4", one, "MatMul"),
        (integers, "8.4", one, "MatMul"),
        (integers, "8.4", whatever, "Neg"),
        (matrix, "8.4", whatever, "MatMul"),
    ):
        proto = model(body)
        drive(proto, a_pass("p", which), target=target)
        assert ops(proto) == [found], (body, target)


@pytest.mark.parametrize("opset", [10, 17])
def test_a_replacement_is_a_pattern_of_the_same_names(opset: int) -> None:
    """Numbers, attributes, and bounds that are inputs from opset 11 on."""
    elu = op.Elu(x, alpha=attr("alpha"))
    bounded = rewrites(op.Neg(elu), op.Clip(op.Selu(x, gamma=attr("alpha")) * 2, 0, 6))
    proto = model("(float[2] a) => (float[2] r) { e = Elu <alpha = 0.5> (a)  r = Neg (e) }", opset)
    drive(proto, a_pass("p", bounded))
    onnx.checker.check_model(proto)
    assert ops(proto) == ["Selu", "Mul", "Clip"]
    assert proto.graph.node[0].attribute[0].f == 0.5


def test_a_replacement_may_be_a_name_or_a_body() -> None:
    for replacement, found in ((x, ["Relu", "Identity"]), (lambda b, x: b.Abs(x), ["Relu", "Abs"])):
        proto = model("(float[2] a) => (float[2] r) { m = Relu (a)  r = Neg (m) }")
        drive(proto, a_pass("p", rewrites(op.Neg(x), replacement)))
        assert ops(proto) == found


@pytest.mark.parametrize(("opset", "found"), [(17, "Neg"), (18, "Mish")])
def test_a_replacement_requires_an_operator(opset: int, found: str) -> None:
    proto = model("(float[2] a) => (float[2] r) { r = Neg (a) }", opset)
    drive(proto, a_pass("p", rewrites(op.Neg(x), op.Mish(x), requires="Mish")))
    assert ops(proto) == [found]


def test_a_replacement_has_no_name_that_its_pattern_may_not_bind() -> None:
    with pytest.raises(PassError, match="has the name 'y', which its pattern does not always bind"):
        rewrites(op.Neg(x) | op.Abs(y), op.Relu(y))


def test_a_rule_is_there_for_some_targets() -> None:
    @rule(op.Relu(x), stage=Stage.FUSE, targets=lambda target: not target.imports("Mish"))
    def some(b, x):  # type: ignore[no-untyped-def]
        return b.Abs(x)

    for target, found in (("8.4", "Abs"), ("11.0", "Relu")):
        proto = model("(float[2] a) => (float[2] r) { r = Relu (a) }")
        drive(proto, a_pass("p", some), target=target)
        assert ops(proto) == [found]


@pytest.mark.parametrize(
    ("ask", "answer", "why"),
    [
        (lambda b, v: b.known_rank(v), 2, "the rank of 'c' is not known"),
        (lambda b, v: b.known_shape(v), ("N", 3), "the rank of 'c' is not known"),
        (lambda b, v: b.static_size(v, -1), 3, "the rank of 'c' is not known"),
        (lambda b, v: b.static_size(v, 2), None, "'a' has no axis 2"),
        (lambda b, v: b.static_size(v, -2), None, "the size of axis 0 of 'a' is not static"),
        (lambda b, v: b.static(v), None, "the sizes of 'a' are not static"),
        (lambda b, v: b.known_dtype(v), onnx.TensorProto.FLOAT, None),
    ],
)
def test_what_is_not_known_declines_in_one_sentence(
    ask: Callable[[Builder, Value], object], answer: object, why: str | None
) -> None:
    answers = []

    @rule(op.Relu(x) | op.Abs(x), stage=Stage.FUSE)
    def asking(b, x):  # type: ignore[no-untyped-def]
        answers.append(ask(b, x))
        no_match()

    body = "(float[N,3] a, int64[M] t) => (float r) { c = Reshape (a, t)  s = Abs (a)  r = Relu (c) }"
    declined = [d.why for d in drive(model(body), a_pass("p", asking)).declined]
    assert set(answers) == ({answer} if answer is not None else set())
    assert why is None or why in declined


def test_further_inputs_may_be_left_open() -> None:
    body = "(float[2] a, float[2] b) => (float[4] r) { r = Concat <axis = 0> (a, b) }"
    assert matches(op.Concat(x, ...), body)
    assert not matches(op.Concat(x), body)
    assert matches(op.Concat(ANY, x), body).bound["x"].name == "b"


def test_a_value_in_a_pattern_must_be_a_tensor_or_a_number() -> None:
    with pytest.raises(TypeError, match="const"):
        op.Mul(x, attr("alpha"))
    with pytest.raises(TypeError, match="tensors and numbers"):
        op.Mul(x, np.ones(2))


@pytest.mark.parametrize(("spell", "says"), [
    (lambda: op.Negg(x), "no operator Negg. Did you mean 'Neg'?"),
    (lambda: op.maxpool(x), "no operator maxpool. Did you mean 'MaxPool'?"),
    (lambda: op.TreeEnsembl(x, domain="ai.onnx.ml"), "Did you mean 'TreeEnsemble'?"),
    (lambda: op.Softmax(x, axes=1), "Softmax has no attribute axes. Did you mean 'axis'?"),
])  # fmt: skip
def test_a_misspelt_operator_or_attribute_is_an_error(spell: Callable[[], Op], says: str) -> None:
    with pytest.raises(PassError, match=re.escape(says)):
        spell()


@pytest.mark.parametrize("spell", [
    lambda: op.Erfc(x, domain="ai.onnx"),
    lambda: op.NoSuch(x, domain="mine", a=1),
    lambda: op.Softmax(x, axis=1, domain="ai.onnx"),
    lambda: op.SimplifiedLayerNormalization(x, var("w"), epsilon=1e-5, stash_type=1),
    lambda: op.Upsample(x, height_scale=2.0, mode="nearest"),  # an attribute of opset 1
])  # fmt: skip
def test_an_operator_of_an_old_opset_or_of_another_domain_may_be_asked_for(spell: Callable[[], Op]) -> None:
    spell()


def test_a_pass_file_with_a_misspelt_operator_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "negs.py").write_text(FILE.replace("op.Neg(x)", "op.Negg(x)"))
    with pytest.raises(UsageError, match=r"negs\.py' does not load: .* Did you mean 'Neg'"):
        passes([tmp_path])


@pytest.mark.parametrize(("change", "says"), [
    (("body(b, x)", "body(b)"), "body has no argument 'x', which its pattern binds"),
    (("body(b, x)", "body()"), "body has no argument for the builder"),
    (("body(b, x)", "body(b, x, y)"), "body has the argument 'y', which its pattern does not bind"),
    (("(op.Exp(op.Neg(x))", '(op.Exp(x | var("y"))'), "body needs a default for 'x', which its pattern does not"),
    (("(op.Exp(op.Neg(x))", "(x"), "ends in an operator, not in a var (line 4)"),
    (("op.Neg(x)", "op.Neg(x, x)"), "ONNX's operator Neg has at most 1 input, not 2"),
    (("op.Neg(x)", "op.ReduceMax(x, axes=[1])"), "got [1]; write const(name), and compare it in the body"),
    (("Stage.FUSE", '"fuse"'), "Stage.CLEAN, Stage.FUSE or Stage.LOWER, not 'fuse'"),
    (("Stage.FUSE", 'Stage.FUSE, strategy="decompose"'), "a rule with a strategy is of the stage LOWER, not FUSE"),
])  # fmt: skip
def test_a_pass_file_that_breaks_the_language_does_not_load(change: tuple[str, str], says: str, tmp_path: Path) -> None:
    (tmp_path / "negs.py").write_text(FILE.replace(*change))
    with pytest.raises((PassError, UsageError), match=re.escape(says)):
        passes([tmp_path])


@pytest.mark.parametrize(("returned", "says"), [
    ("b.Reluu(x)", "ONNX has no operator Reluu. Did you mean 'Relu'?"),
    ("b.Softmax(x, axes=1)", "Softmax has no attribute axes. Did you mean 'axis'?"),
    ("op.Relu(x)", "a body makes nodes of 'a' with its builder"),
    ("b.Relu(y)", "NameError: name 'y' is not defined"),
])  # fmt: skip
def test_an_error_in_a_body_names_the_pass_the_node_and_the_line(returned: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "negs.py").write_text(FILE.replace("return x", f"return {returned}"))
    proto = model("(float[2] a) => (float[2] r) { s = Neg (a)  r = Exp (s) }")
    with pytest.raises(PassError, match=r"'negs' failed at Exp -> r: .*negs\.py', line 6\)") as caught:
        surgeon.rewrite(proto, passes=[tmp_path], only=["negs"], target="10.9")
    assert says in str(caught.value)


def test_a_body_that_returns_nothing_is_an_error() -> None:
    @rule(op.Exp(x))
    def nothing(b, x):  # type: ignore[no-untyped-def]
        b.Relu(x)

    with pytest.raises(PassError, match="returned nothing for Exp -> r; a body returns tensors"):
        drive(model("(float[2] a) => (float[2] r) { r = Exp (a) }"), a_pass("p", nothing))


def test_the_bodies_of_the_built_in_passes_have_the_names_of_their_patterns() -> None:
    assert [why for p in passes() for r in p.rules if (why := why_never_runs(r))] == []


def test_operators_of_patterns_are_known_to_the_oldest_onnx_that_is_promised() -> None:
    """A pass that asks for an operator that the installed onnx lacks does not load, and then no pass does."""
    setup = Path(__file__).parent.parent.joinpath("setup.cfg").read_text()
    oldest = re.findall(r"^    onnx>=(.*)$", setup, re.MULTILINE)[0]
    opset = max(row[2] for row in onnx.helper.VERSION_TABLE if row[0].startswith(f"{oldest}."))
    first: dict[str, int] = {}
    most: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            first[schema.name] = min(first.get(schema.name, schema.since_version), schema.since_version)
            if schema.since_version <= opset:
                most[schema.name] = max(most.get(schema.name, 0), schema.max_input)
    patterns = [r.pattern for p in passes() if p.name != "function-body" for r in p.rules]  # which reads onnx's schemas
    assert {name for name in operators_of(patterns) if first.get(name, 1) > opset} == set()
    ops_in_onnx = [p for p in nodes_in(patterns) if not p.domain]
    assert {p.type for p in ops_in_onnx if len(p.inputs) > most.get(p.type, len(p.inputs))} == set()


FILE = '''"""For a test."""
from surgeon import Stage, op, rule, var
x = var("x")
@rule(op.Exp(op.Neg(x)), stage=Stage.FUSE)
def body(b, x):
    return x
'''


@pytest.mark.parametrize("rest", ["", "raise ValueError"])
def test_a_folder_of_passes_that_is_read_again_leaves_nothing_of_the_first_time(rest: str, tmp_path: Path) -> None:
    body = "(float[2] a) => (float[2] r) { s = Neg (a)  r = Exp (s) }"

    def read() -> list[weakref.ref[Pattern]]:
        path = tmp_path / "negs.py"
        path.write_text(FILE)
        pattern = next(p for p in passes([tmp_path]) if p.name == "negs").rules[0].pattern
        assert isinstance(pattern, Op) and matches(pattern, body)
        path.write_text(FILE + rest)
        return [weakref.ref(p) for p in (pattern, *pattern.inputs)]

    first = read()
    for _ in range(2):
        with contextlib.suppress(UsageError):
            passes([tmp_path])
    gc.collect()
    assert [ref() for ref in first] == [None, None]
