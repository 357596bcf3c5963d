"""The proof: what it accepts, what it catches, and what happens to a rewrite that fails."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import compare_models, model, ops

import surgeon
from surgeon.prove import (
    Reference,
    Runner,
    Window,
    compare,
    feeds_of,
    prove_models,
    prove_window,
    widened,
)

WRONG = '''"""A pass that is wrong in one place. For a test."""
from surgeon import Stage, op, rewrite, var
x = var("x")

@rewrite(op.{root}, stage=Stage.FUSE)
def wrong(b, x):
    return {body}
'''


def with_pass(tmp_path: Path, root: str, body: str, proto: onnx.ModelProto, **options) -> surgeon.Result:  # type: ignore[no-untyped-def]
    """Rewrite with one pass made on the spot."""
    (tmp_path / "wrong.py").write_text(WRONG.format(root=root, body=body))
    return surgeon.rewrite(proto, passes=[tmp_path], only=["wrong"], target="10.9", **options)


RELU = "(float[N,3] a) => (float[N,3] r) { b = Relu (a)  r = Exp (b) }"


def test_a_right_rewrite_stays(tmp_path: Path) -> None:
    result = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", model(RELU))
    assert ops(result.model) == ["Max", "Exp"] and not result.report.undone
    assert result.report.applied[0].max_error == 0.0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("b.Abs(x)", "differs by"),
        ("b.Mul(b.Max(x, 0.0), 1.0001)", "differs by"),
        ("b.ReduceMax(x, axes=[1], keepdims=1)", "instead of"),
        ("b.Sqrt(b.Mul(b.Max(x, 0.0), b.Max(x, 0.0)))", ""),
        ("b.Div(b.Max(x, 0.0), b.Sub(x, x))", "where the original returns a number"),
    ],
)
def test_a_wrong_rewrite_is_undone_and_reported(tmp_path: Path, body: str, words: str) -> None:
    proto = model(RELU)
    result = with_pass(tmp_path, "Relu(x)", body, proto)
    assert result.model.SerializeToString() == proto.SerializeToString()
    assert not result.report.applied and result.report.failed
    (undone,) = result.report.undone
    assert undone.pass_name == "wrong" and undone.node == "Relu -> b" and words in undone.why


def test_only_the_failing_rewrite_is_undone(tmp_path: Path) -> None:
    """max(x, 0) stands for Relu, and not for Abs."""
    proto = model(
        "(float[N,3] a) => (float[N,3] r, float[N,3] q) { b = Relu (a)  r = Exp (b)  c = Abs (a)  q = Exp (c) }"
    )
    result = with_pass(tmp_path, "Relu(x) | op.Abs(x)", "b.Max(x, 0.0)", proto)
    assert ops(result.model) == ["Max", "Exp", "Abs", "Exp"]
    assert [u.node for u in result.report.undone] == ["Abs -> c"]
    assert [a.root for a in result.report.applied] == ["Relu -> b"]


def test_a_difference_that_only_zero_rows_show_is_found(tmp_path: Path) -> None:
    """x / (||x|| + 1e-12) and x / ||x|| agree on random numbers and differ on a row of zeros."""
    proto = model("""(float[N,8] a) => (float[N,8] r) <float e = {1e-12}> {
        n = ReduceL2 <axes = [1]> (a)  m = Add (n, e)  r = Div (a, m) }""")
    (tmp_path / "wrong.py").write_text(
        WRONG.format(root="Div(x, op.ReduceL2(x, ...) + 1e-12)", body="b.Div(x, b.ReduceL2(x, axes=[1], keepdims=1))")
    )
    result = surgeon.rewrite(proto, passes=[tmp_path], only=["wrong"], target="10.9")
    assert [u.why for u in result.report.undone] and "nan" in result.report.undone[0].why


def test_an_epsilon_in_another_place_is_found(tmp_path: Path) -> None:
    proto = model("""(float[N,8] a) => (float[N,8] r) <float e = {1e-6}> {
        s = ReduceSumSquare <axes = [1]> (a)  m = Add (s, e)  n = Sqrt (m)  r = Div (a, n) }""")
    result = with_pass(
        tmp_path,
        "Div(x, op.Sqrt(op.ReduceSumSquare(x, ...) + 1e-6))",
        "b.Div(x, b.Add(b.ReduceL2(x, axes=[1], keepdims=1), 1e-6))",
        proto,
    )
    assert "tiny" in result.report.undone[0].why or "differs" in result.report.undone[0].why


def test_a_window_that_cannot_be_run_is_declined_as_unproved(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "vendor" : 1]>
        g (float[2] a) => (float[2] r) { b = vendor.Secret (a)  c = Relu (b)  r = Exp (c) }""")
    result = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", proto)
    assert [d.why[:8] for d in result.report.declined] == ["unproved"] and not result.report.applied
    again = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", proto, allow_unproved=True)
    assert again.report.applied[0].max_error is None
    assert again.report.verify["skipped"] == ["Relu -> c"]


def test_a_window_whose_sizes_go_together_is_proved_with_those_of_a_run(tmp_path: Path) -> None:
    """The sizes of `f` and `d` cannot be chosen one by one: a Reshape makes one like the other."""
    proto = model("""(float[N,S] a, float[N,S] b) => (float[N,S] r) <int64[1] all = {-1}> {
        f = Reshape (a, all)
        d = Exp (b)
        t = Shape (d)
        e = Reshape (f, t)
        r = Relu (e)
    }""")
    root = "Relu(op.Reshape(x, ...))"
    right = with_pass(tmp_path, root, "b.Max(b.root.inputs[0], 0.0)", proto)
    assert not right.report.declined and right.report.applied[0].max_error == 0.0
    wrong = with_pass(tmp_path, root, "b.Abs(b.root.inputs[0])", proto)
    assert "differs" in wrong.report.undone[0].why


def test_a_dimension_named_by_a_formula_has_its_size(tmp_path: Path) -> None:
    """PyTorch's newer exporter names dimensions so; with sizes of their own the Reshape would be none to the same."""
    text = """(float[s0,s1] a) => (float[i,j] r) <int64[1] four = {4}, int64[1] rest = {-1}> {
        n = Shape <start = 0, end = 1> (a)
        m = Mul (n, four)
        w = Concat <axis = 0> (m, rest)
        b = Concat <axis = 0> (a, a, a, a)
        c = Sigmoid (b)
        d = Reshape (c, w)
        r = Relu (d)
    }"""
    proto = model(text)
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("b", 1, ["4*s0", "(s1//2) + (s1 - (s1//2))"]))
    result = with_pass(tmp_path, "Reshape(op.Sigmoid(x), ...)", "b.Sigmoid(x)", proto)
    assert not result.report.undone and result.report.applied[0].max_error == 0.0


def test_a_formula_gives_no_dimension_of_one_element_unless_it_must() -> None:
    for names, fewest in ((("s0", "(s1//5) - 1"), 4), (("s0", "s1//s1"), 1)):
        window = Window(onnx.ModelProto(), onnx.ModelProto(), [("a", onnx.TensorProto.FLOAT, names)], 1)
        sizes = [infos[0][2] for infos in window.sizes({})]
        assert len(sizes) == 2 and all(dims[1] >= fewest for dims in sizes) and sizes[0] != sizes[1]


def test_what_clip_makes_of_inf_may_be_nan() -> None:
    """ONNX Runtime's Clip cuts inf off at the type's maximum, which times 0 is 0; by ONNX it is NaN."""
    text = """(float[N,3] a) => (float[N,3] r) <float zero = {{0}}, float low = {{0.5}}> {{
        c = {} (a, low)
        r = Mul (c, zero)
    }}"""
    inputs = [("a", onnx.TensorProto.FLOAT, ("N", 3))]
    before, after, wrong = (model(text.format(op)) for op in ("Clip", "Max", "Div"))
    assert prove_window(Window(before, after, inputs, 1), {}).ok
    assert not prove_window(Window(before, wrong, inputs, 1), {}).ok


def test_whole_models_get_sizes_with_which_they_run(tmp_path: Path) -> None:
    text = "(float[N,1,S] a, float[1,1,300] w) => (float[N,1,T] r) { b = Conv (a, w)  r = Relu (b) }"
    result = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", model(text), verify="full")
    assert result.report.verify == {"mode": "full", "skipped": [], "max_error": 0.0}


def test_whole_models_whose_sizes_have_two_names_run(tmp_path: Path) -> None:
    text = "(float[N,S] a, float[M,T] b) => (float[i,j] r) { c = Add (a, b)  r = Relu (c) }"
    result = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", model(text), verify="full")
    assert result.report.verify == {"mode": "full", "skipped": [], "max_error": 0.0}


def test_whole_models_that_never_run_are_not_said_to_differ(tmp_path: Path) -> None:
    text = "(float[N,S] a) => (float[7,11] r) <int64[2] s = {7, 11}> { c = Reshape (a, s)  r = Relu (c) }"
    result = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", model(text), verify="full")
    assert result.report.verify["compared"] is False and result.report.verify["failed"] and result.report.failed


def test_verify_none_proves_nothing_and_says_so(tmp_path: Path) -> None:
    result = with_pass(tmp_path, "Relu(x)", "b.Abs(x)", model(RELU), verify="none")
    assert ops(result.model) == ["Abs", "Exp"]
    assert result.report.verify["mode"] == "none" and result.report.applied[0].max_error is None


def test_verify_full_compares_whole_models(tmp_path: Path) -> None:
    result = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", model(RELU), verify="full")
    assert result.report.verify["max_error"] == 0.0 and "failed" not in result.report.verify


def test_a_model_that_the_checker_refuses_is_left_alone(tmp_path: Path) -> None:
    proto = model(RELU)
    proto.graph.node[1].attribute.append(onnx.helper.make_attribute("nonsense", 1))
    result = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", proto)
    assert not result.report.applied
    assert "checker refuses" in result.report.declined[0].why


GROUPED = model(
    "(float[N,6] a) => (float[N,6] r) { r = GroupNormalization <num_groups = 3, epsilon = 0.001> (a, s, t) }", 21
)
CHAIN = model(
    """(float[N,6] a) => (float[N,6] r) <int64[3] k = {0, 3, -1}, int64[2] back = {-1, 6}, float e = {0.001}> {
    x = Reshape (a, k)  m = ReduceMean (x, l)  d = Sub (x, m)  q = Mul (d, d)  v = ReduceMean (q, l)  w = Add (v, e)
    u = Sqrt (w)  n = Div (d, u)  f = Reshape (n, back)  g = Mul (f, s)  r = Add (g, t) }""",
    21,
)
for proto in (GROUPED, CHAIN):
    tensors = {"s": np.arange(1, 7, dtype=np.float32), "t": np.ones(6, np.float32), "l": np.asarray([2])}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in tensors.items())


def scaled(proto: onnx.ModelProto, by: float) -> onnx.ModelProto:
    """The model with its scale `s` multiplied."""
    other = onnx.ModelProto()
    other.CopyFrom(proto)
    scale = next(t for t in other.graph.initializer if t.name == "s")
    scale.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(scale) * np.float32(by), "s"))
    return other


@pytest.mark.parametrize(("before", "after"), [(GROUPED, CHAIN), (CHAIN, GROUPED)])
def test_what_a_definition_rounds_badly_is_no_difference_and_hides_none(
    before: onnx.ModelProto, after: onnx.ModelProto
) -> None:
    """GroupNormalization is defined with the variance E[x^2] - E[x]^2:
    on shifted groups of two elements it is noise."""
    shifted = dict(feeds_of([("a", onnx.TensorProto.FLOAT, (16, 6))]))["shifted"]
    one, other = (Runner(m).run(shifted)[0] for m in (before, after))
    assert np.abs(one - other).max() > 1e-5 * np.abs(one).max(), "well-conditioned: the test shows nothing"
    shapes = {"a": (16, 6)}
    assert compare_models(before, after, shapes=shapes)[1] == ""
    assert "differs" in compare_models(before, scaled(after, 1.0001), shapes=shapes)[1]
    assert "differs" in compare_models(before, scaled(after, 0.99998), shapes=shapes)[1]


@pytest.mark.parametrize(("shift", "own_rounding", "ok"), [(0, True, True), (0, False, False), (5, True, False)])
def test_whole_models_in_half_precision_may_round_as_the_file_does(shift: int, own_rounding: bool, ok: bool) -> None:
    """ONNX Runtime adds and subtracts in fp32 and rounds once; between Transposes it rounds to fp16, which near 1024
    has steps of 1: so does the file, if every operator rounds."""
    before = model("(float16[2,8] a) => (float16[2,8] r) <float16 c = {25600}> { s = Add (a, c)  r = Sub (s, c) }")
    after = model(
        f"(float16[2,8] a) => (float16[2,8] r) <float16 c = {{25600}}, float16 d = {{{0x4500 if shift else 0}}}> "
        "{ s = Add (a, c)  t = Transpose (s)  u = Transpose (t)  v = Sub (u, c)  r = Add (v, d) }"
    )
    verdict = prove_models(before, after, own_rounding=own_rounding)
    assert verdict.ok is ok, verdict
    assert ("no more than its rounding in half precision" in verdict.why) is ok


def test_sizes_given_by_the_user_are_used(tmp_path: Path) -> None:
    """A rewrite that is right for three channels alone."""
    proto = model("(float[N,C] a) => (float[N,1] r) { r = ReduceMean <axes = [1]> (a) }")
    body = "b.Div(b.ReduceSum(x, axes=[1], keepdims=1), 3.0)"
    assert with_pass(tmp_path, "ReduceMean(x, ...)", body, proto).report.undone
    assert not with_pass(tmp_path, "ReduceMean(x, ...)", body, proto, shapes={"a": (5, 3)}).report.undone
    with pytest.raises(surgeon.UsageError, match="no input 'b'"):
        with_pass(tmp_path, "ReduceMean(x, ...)", body, proto, shapes={"b": (5, 3)})


def test_shapes_computed_inside_a_window_are_computed_not_drawn(tmp_path: Path) -> None:
    proto = model("""(float[N,3] a, float[N,1] w) => (float[N,3] r) {
        s = Shape (a)  t = Identity (s)  e = Expand (w, t)  r = Relu (e) }""")
    result = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", proto)
    assert result.report.applied
    (tmp_path / "wrong.py").write_text(
        WRONG.replace('"x"', '"x"').format(
            root="Relu(op.Expand(x, ...))", body="b.Expand(b.Relu(x), b.root.inputs[0].producer.inputs[1])"
        )
    )
    result = surgeon.rewrite(proto, passes=[tmp_path], only=["wrong"], target="10.9")
    assert result.report.applied and not result.report.undone


def arrays(*values: float) -> np.ndarray:
    return np.asarray(values, np.float32)


def test_what_equal_means() -> None:
    b = arrays(1.0, -2.0, 3.0)
    assert not compare(b + arrays(2e-5, 0, 0), b, 1e-5, True).why
    assert compare(b + arrays(4e-5, 0, 0), b, 1e-5, True).why
    assert compare(b.astype(np.float16), b, 1e-5, True).why
    assert compare(b[:2], b, 1e-5, True).why
    assert compare(arrays(np.nan, -2, 3), b, 1e-5, True).why
    assert not compare(arrays(7, -2, 3), arrays(np.nan, -2, 3), 1e-5, True).why, (
        "where the original is NaN anything may stand"
    )
    saturated = float(np.finfo(np.float32).max)
    step = float(np.nextafter(np.float32(0), np.float32(1)))
    assert not compare(arrays(1003 * step, 0), arrays(1000 * step, 0), 1e-5, True).why, "rounded to denormal numbers"
    assert compare(arrays(1010 * step, 0), arrays(1000 * step, 0), 1e-5, True).why
    assert not compare(arrays(np.inf, 1), arrays(saturated, 1), 1e-5, False).why
    assert compare(arrays(np.inf, 1), arrays(5, 1), 1e-5, False).why


def test_an_error_no_worse_than_the_originals_is_equal() -> None:
    """Both are rounding noise around an exact zero: the float64 evaluation decides."""
    exact = np.zeros(3)
    original, good, bad = arrays(1e-7, -1e-7, 0), arrays(-2e-7, 1e-7, 0), arrays(1e-6, 0, 0)
    assert not compare(good, original, 1e-5, True, lambda: exact).why
    assert compare(bad, original, 1e-5, True, lambda: exact).why
    assert compare(good, original, 1e-5, True).why


SOFTMAX = "(float[N,3,4] a) => (float[N,3,4] r) { r = Softmax <axis = 1> (a) }"
LRN = "(float[1,8,3,3] a) => (float[1,8,3,3] r) { r = LRN <size = 5, alpha = 0.0001> (a) }"
HIDDEN = """(float[N,3,4] a) => (float[N,3,4] r) <float part = {0.0002}> {
    s = Softmax <axis = 1> (a)  t = Mul (s, part)  c = Cos (a)  d = Add (c, c)  r = Add (d, t) }"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((model(SOFTMAX.replace("Softmax", op), 11), model(SOFTMAX.replace("Softmax", op), 13))
          for op in ("Softmax", "LogSoftmax", "Hardmax")),
        (model(LRN), model(LRN.replace("0.0001", "0.0002"))),
        (model(LRN.replace("0.0001", "1.0")), model(LRN.replace("0.0001", "2.0"))),
        (model(HIDDEN, 11), model(HIDDEN, 13)),
    ],
)  # fmt: skip
def test_what_only_onnx_runtime_tells_apart_differs(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """To onnx's reference evaluator a Softmax of any opset is that of opset 13, and its LRN is another one: how far it
    is from ONNX Runtime says nothing about rounding."""
    assert "differs" in compare_models(before, after)[1]
    assert compare_models(before, before)[1] == ""


def test_in_half_precision_the_evaluator_alone_explains_no_difference() -> None:
    """Not even where the whole models may round operator by operator, as it does."""
    before, after = (model(SOFTMAX.replace("float", "float16"), opset) for opset in (11, 13))
    verdict = prove_models(before, after, own_rounding=True)
    assert verdict.ok is False and "differs" in verdict.why


def test_the_evaluator_stacks_what_a_loop_returns() -> None:
    proto = model("""(float[2,3] a) => (float[2,3] r, float[n,2,3] s, int64[n] t) <int64 most = {2}> {
        r, s, t = Loop (most, , a) <body = b (int64 i, bool go, float[2,3] p) => (bool on, float[2,3] q, float[2,3] u,
            int64 v) { on = Identity (go)  q = Add (p, p)  u = Neg (p)  v = Identity (i) }> }""")
    feeds = {"a": np.arange(6, dtype=np.float32).reshape(2, 3)}
    runner = Runner(proto)
    assert runner.session is not None
    for given, expected in zip(Reference(proto).run(feeds), runner.run(feeds), strict=True):
        np.testing.assert_array_equal(given, expected)


def test_the_evaluator_keeps_the_digits_of_a_celu_near_zero() -> None:
    x = arrays(-1e-7, -1e-41, 1e-41, 2)
    (y,) = Reference(model("(float[4] a) => (float[4] r) { r = Celu <alpha = 4.0> (a) }")).run({"a": x})
    np.testing.assert_allclose(y, x, rtol=1e-3 / 4)


def test_where_onnx_runtime_strays_from_onnx_the_reason_says_so(tmp_path: Path) -> None:
    """MeanVarianceNormalization adds 1e-9 to the root of the variance; ONNX Runtime leaves that out."""
    body = "b.Div(b.Sub(x, m := b.ReduceMean(x, axes=[0, 2, 3])), b.Add(b.Sqrt(b.Sub(b.ReduceMean(b.Mul(x, x), axes="
    body += "[0, 2, 3]), b.Mul(m, m))), 1e-9))"
    proto = model("(float[2,3,4,5] a) => (float[2,3,4,5] r) { r = MeanVarianceNormalization (a) }")
    (undone,) = with_pass(tmp_path, "MeanVarianceNormalization(x)", body, proto).report.undone
    assert "computes the original otherwise than onnx's reference evaluator" in undone.why
    assert "the rewritten window otherwise" not in undone.why
    (undone,) = with_pass(tmp_path, "Relu(x)", "b.Abs(x)", model(RELU)).report.undone
    assert "otherwise" not in undone.why


def test_what_is_newer_than_onnx_runtime_runs_in_the_evaluator() -> None:
    proto = model("(float[2] a) => (float[2] r) { r = Relu (a) }")
    proto.ir_version = 99
    runner = Runner(proto)
    assert runner.session is None
    np.testing.assert_array_equal(runner.run({"a": arrays(-1, 2)})[0], arrays(0, 2))
    newest = model("(float[2] a) => (float[2] r) { r = Relu (a) }", opset=onnx.defs.onnx_opset_version())
    np.testing.assert_array_equal(Runner(newest).run({"a": arrays(-1, 2)})[0], arrays(0, 2))


def test_an_empty_region_of_interest_is_none_to_the_evaluator() -> None:
    proto = model("(float[1,1,2,2] a) => (float[1,1,4,4] r) <float[0] roi = {}, float[4] s = {1, 1, 2, 2}>"
                  " { r = Resize <mode = \"nearest\"> (a, roi, s) }", opset=11)  # fmt: skip
    feeds = {"a": arrays(1, 2, 3, 4).reshape(1, 1, 2, 2)}
    runner = Runner(proto)
    assert runner.session is not None
    np.testing.assert_array_equal(Reference(proto).run(feeds)[0], runner.run(feeds)[0])


def test_a_nan_that_no_exact_evaluation_explains_is_a_difference() -> None:
    """Not an error either: whatever cannot be evaluated more exactly has no opinion."""
    assert "nan" in compare(arrays(np.nan, 1, 2), arrays(0, 1, 2), 1e-5, True, lambda: None).why


def test_inputs_cover_the_kinds_that_the_design_names() -> None:
    feeds = dict(feeds_of([("x", onnx.TensorProto.FLOAT, (3, 4, 5)), ("k", onnx.TensorProto.INT64, (2,))]))
    assert {"random", "zero", "zero rows", "tiny", "large", "negative zero", "denormal", "huge", "inf", "nan"} <= set(
        feeds
    )
    rows = feeds["zero rows"]["x"]
    for axis in range(3):
        assert (np.abs(rows).sum(axis) == 0).any(), f"no zero row along axis {axis}"
    assert np.abs(feeds["huge"]["x"]).max() <= 1e18 and np.abs(feeds["huge"]["x"]).max() > 1e17
    assert 0 < np.abs(feeds["denormal"]["x"]).max() < np.finfo(np.float32).tiny
    assert np.isinf(feeds["inf"]["x"]).any() and np.isnan(feeds["nan"]["x"]).any()
    assert (np.signbit(feeds["negative zero"]["x"]) & (feeds["negative zero"]["x"] == 0)).any()


def test_whole_models_are_compared_on_every_kind() -> None:
    one = model("(float[N,3] a) => (float[N,3] r) { r = Relu (a) }")
    other = model("(float[N,3] a) => (float[N,3] r) { r = Abs (a) }")
    assert compare_models(one, one) == (0.0, "")
    error, why = compare_models(one, other)
    assert error and not math.isnan(error) and "differs" in why


@pytest.mark.parametrize(
    "body",
    [
        "(float16[N,3] a) => (float16[N,3] r) <float16[N,3] b> { b = Relu (a)  r = Exp (b) }",
        """(float16[N,3] a, bool c) => (float16[N,3] r) {
            r = If (c) <then_branch = t () => (float16[N,3] p) <float16 k = {2}> { p = Mul (a, k) },
                        else_branch = e () => (float16[N,3] q) <float16[N,3] d> { d = Exp (a)  q = Abs (d) }> }""",
    ],
)
def test_the_reference_of_half_precision_runs_whatever_types_the_file_declares(body: str) -> None:
    """PyTorch's newer exporter declares the type of every tensor; the fp32 reference must not keep them."""
    session = Runner(widened(model(body), onnx.TensorProto.FLOAT))
    feeds = {"a": np.full((2, 3), 1e-7, np.float32)} | ({"c": np.asarray(True)} if "bool c" in body else {})
    assert [o.dtype for o in session.run(feeds)] == [np.dtype(np.float32)]


@pytest.mark.parametrize("linked", [False, True])
def test_weights_on_disk_are_read_where_they_are_and_nothing_is_written_there(tmp_path: Path, linked: bool) -> None:
    """The folder may be read-only, and a model cache holds links to files of other names."""
    folder, elsewhere = tmp_path / "model", tmp_path / "blobs"
    folder.mkdir()
    elsewhere.mkdir()
    proto = model("(float[N,3] a) => (float[N,3] r) { b = Relu (a)  c = Mul (b, w)  r = Exp (c) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(arrays(0.5, 1, 2), "w"))
    onnx.save(proto, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    if linked:
        (folder / "w.bin").rename(elsewhere / "0123")
        (folder / "w.bin").symlink_to(elsewhere / "0123")
    folder.chmod(0o555)  # which root does not heed: whatever comes and goes in a folder changes its time
    os.utime(folder, (0, 0))
    on_disk = onnx.load(folder / "m.onnx", load_external_data=False)
    other = onnx.ModelProto()
    other.CopyFrom(on_disk)
    other.graph.node[0].op_type = "Abs"
    assert compare_models(on_disk, on_disk, folder) == (0.0, "")
    assert "differs" in compare_models(on_disk, other, folder)[1]
    assert folder.stat().st_mtime == 0
    folder.chmod(0o755)


def test_a_model_whose_weights_are_links_is_rewritten_like_any_other(tmp_path: Path) -> None:
    proto = model("(float[N,3] a) => (float[N,3] r) { b = Mul (a, s)  c = Max (a, b)  r = Exp (c) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(0.1, np.float32), "s"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").rename(tmp_path / "0123")
    (tmp_path / "w.bin").symlink_to(tmp_path / "0123")
    result = surgeon.rewrite(tmp_path / "m.onnx", target="8.4", verify="full")
    assert ops(result.model) == ["LeakyRelu", "Exp"] and "failed" not in result.report.verify
    (tmp_path / "0123").write_bytes(b"")
    with pytest.raises(surgeon.ModelError, match="weights of 's' cannot be read"):
        surgeon.rewrite(tmp_path / "m.onnx", target="8.4")


def test_whole_models_are_run_at_sizes_that_networks_are_made_for(tmp_path: Path) -> None:
    """A sixteenth of the size and back: no other size fits."""
    proto = model("""(float[N,1,H,W] x) => (float[N,1,H,W] y) {
        d = AveragePool <kernel_shape = [16, 16], strides = [16, 16]> (x)  r = Relu (d)
        u = ConvTranspose <strides = [16, 16], kernel_shape = [16, 16]> (r, w)  y = Add (u, x) }""")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 1, 16, 16), np.float32), "w"))
    assert compare_models(proto, proto) == (0.0, "")
