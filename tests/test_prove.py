"""The proof: what it accepts, what it catches, and what happens to a rewrite that fails."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers import compare_models, model, ops

import surgeon
import surgeon.proof.cut
import surgeon.proof.judge
import surgeon.proof.prove
from surgeon.ir.run import Reference, Runner
from surgeon.proof.equality import compare
from surgeon.proof.exact import Exact, widened
from surgeon.proof.feeds import Feeds, feeds_of
from surgeon.proof.held import too_large
from surgeon.proof.integer_roles import plain_integers
from surgeon.proof.judge import judge
from surgeon.proof.pair import ModelPair
from surgeon.proof.sizes import sized_inputs
from surgeon.proof.whole import prove_models, tensors_of_a_run, whole_pair

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


def test_what_is_computed_from_shapes_is_no_input_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where so much is computed that the rest becomes an input: a window would make it twice."""
    monkeypatch.setattr(surgeon.proof.cut, "CONE_LIMIT", 1)
    sizes = "s = Shape (x)  g = Gather <axis = 0> (s, zero)  h = Add (g, zero)  k = Mul (g, h)"
    proto = model(f"(float[N,3] x) => (int64 r) <int64 zero = {{0}}> {{ {sizes}  r = Abs (k) }}")
    result = with_pass(tmp_path, "Abs(x)", "b.Max(x, b.Neg(x))", proto)
    assert ops(result.model)[-1] == "Max", result.report


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


def test_a_rule_over_the_whole_model_behind_which_nothing_loads_is_left_out_by_its_name(tmp_path: Path) -> None:
    """It changes no node, so that no rewrite of a node can be the cause."""
    (tmp_path / "mine.py").write_text(
        '"""A pass that brings the opset down alone. For a test."""\n'
        "from surgeon import Stage, model_rule\n\n\n"
        "@model_rule(stage=Stage.LOWER)\ndef lower(editor):\n    editor.model.lower_opset(9)\n    return False\n"
    )
    proto = model("(float[N,3] a) => (float[N,3] r) <float low = {0.0}> { r = Clip (a, low) }")
    result = surgeon.rewrite(proto, passes=[tmp_path], only=["mine"], target="10.9")
    assert [u.pass_name for u in result.report.undone] == ["mine"] and result.model.opset_import[0].version == 17


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


def test_windows_that_differ_in_names_alone_are_proved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PaddlePaddle names the tensor in each Constant node."""
    proto = model("""(float[N,S] a) => (float[N,S] r) {
        one = Constant <value = float one {1}> ()
        b = Add (a, one)
        c = Exp (b)
        two = Constant <value = float two {1}> ()
        d = Add (c, two)
        r = Exp (d)
    }""")
    asked = []
    monkeypatch.setattr(surgeon.proof.prove, "judge", lambda pair, *a, **k: asked.append(pair) or judge(pair, *a, **k))
    result = with_pass(tmp_path, "Add(x, 1.0)", "b.Sub(x, -1.0)", proto, cache=False)
    assert len(result.report.applied) == 2 and len(asked) == 1


def test_sizes_that_the_nodes_contradict_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """An even number of columns is never 5. The first sizes are run, since they nearly always fit."""
    text = "(float[N,S] a) => (float[I,J] r) <float[5] five = {1, 2, 3, 4, 5}> { b = Concat <axis = 1> (a, a) "
    proto = model(text + "c = Add (b, five) r = Relu (c) }")
    runs, run = [], Runner.run
    monkeypatch.setattr(Runner, "run", lambda self, feeds: runs.append(feeds) or run(self, feeds))
    assert tensors_of_a_run(proto, ["c"], folder=None, shapes={}) == [] and len(runs) == 2


def test_sizes_that_fit_are_run() -> None:
    """Those of `T` that are twice those of `S`, after others that are not run."""
    text = "(float[N,S] a, float[N,T] b) => (float[I,J] r) { d = Concat <axis = 1> (a, a) c = Add (b, d) r = Relu (c) }"
    found = tensors_of_a_run(model(text), ["b", "c"], folder=None, shapes={})
    assert found and all(run["b"].shape == run["c"].shape for run in found)


def test_parts_of_a_concat_get_equal_sizes_without_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sizes have other names, and a number stands for one of them."""
    m = model(
        "(float[A,N,2] a, float[A,M,2] b, float[B,5,1] c) => (float[A,N,5] y) {\n"
        "i = Concat <axis = 2> (a, b) y = Concat <axis = -1> (i, c) }"
    )
    monkeypatch.setattr(surgeon.proof.prove, "tensors_of_a_run", None)
    result = surgeon.rewrite(m, target="rtx", only=["nested-concat"], cache=False)
    assert ops(result.model) == ["Concat"] and not result.report.undone


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
        inputs = [("a", onnx.TensorProto.FLOAT, names)]
        sizes = [sized[0][2] for sized in sized_inputs(inputs, largest_pad=1, fixed={})]
        assert len(sizes) == 2 and all(dims[1] >= fewest for dims in sizes) and sizes[0] != sizes[1]


def test_unknown_dimensions_are_longer_than_a_pad_at_every_rank() -> None:
    inputs = [("a", onnx.TensorProto.FLOAT, (None,) * 8)]
    assert all(min(sized[0][2][1:]) > 1 for sized in sized_inputs(inputs, largest_pad=1, fixed={}))


def test_what_clip_makes_of_inf_may_be_nan() -> None:
    """ONNX Runtime's Clip cuts inf off at the type's maximum, which times 0 is 0; by ONNX it is NaN."""
    text = """(float[N,3] a) => (float[N,3] r) <float zero = {{0}}, float low = {{0.5}}> {{
        c = {} (a, low)
        r = Mul (c, zero)
    }}"""
    inputs = (("a", onnx.TensorProto.FLOAT, ("N", 3)),)
    before, after, wrong = (model(text.format(op)) for op in ("Clip", "Max", "Div"))
    assert judge(ModelPair(before, after, inputs)).ok
    assert not judge(ModelPair(before, wrong, inputs)).ok


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


def test_what_a_kernel_makes_of_nan_is_no_difference() -> None:
    """A mask of other numbers than 0 and 1 overflows, and DynamicQuantizeLinear sees some of the NaN."""
    before = model("""(int64[N,T] mask, float[N,T] x) => (float[N,T] y) <int64 one = {1}, float low = {-3.4e38}> {
        m = Sub (one, mask)
        f = Cast <to = 1> (m)
        a = Mul (f, low)
        s = Add (x, a)
        p = Softmax (s)
        q, scale, zero = DynamicQuantizeLinear (p)
        y = DequantizeLinear (q, scale, zero)
    }""")
    after = surgeon.rewrite(before, target="rtx").model
    assert "DynamicQuantizeLinear" not in ops(after) and prove_models(before, after).ok
    next(n for n in after.graph.node if n.op_type == "Softmax").op_type = "LogSoftmax"
    assert prove_models(before, after).ok is False


def test_verify_none_proves_nothing_and_says_so(tmp_path: Path) -> None:
    result = with_pass(tmp_path, "Relu(x)", "b.Abs(x)", model(RELU), verify="none")
    assert ops(result.model) == ["Abs", "Exp"]
    assert result.report.verify["mode"] == "none" and result.report.applied[0].max_error is None


def test_verify_full_compares_whole_models(tmp_path: Path) -> None:
    result = with_pass(tmp_path, "Relu(x)", "b.Max(x, 0.0)", model(RELU), verify="full")
    assert result.report.verify["max_error"] == 0.0 and "failed" not in result.report.verify


def test_a_model_that_the_checker_refuses_is_left_alone(tmp_path: Path) -> None:
    proto = model(RELU)
    proto.graph.node[1].input.append("a")
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


TWO_CLIPS = """(float[N,8] a) => (float[N,8] r) <float zero = {0}> {
    u = CLIP  n = Neg (a)  d = Clip (n, , zero)  s = Add (u, d)  r = Neg (s) }"""


@pytest.mark.parametrize(("written", "ok"), [("Relu (a)", True), ("Abs (a)", False)])
def test_an_inf_that_onnx_runtime_cuts_off_is_none_of_a_rewrites_doing(written: str, ok: bool) -> None:
    """Clip without a bound hands inf on by ONNX's definition, so the sum is inf - inf; in ONNX Runtime it is 0."""
    before, after = (model(TWO_CLIPS.replace("CLIP", u), 17) for u in ("Clip (a, zero)", written))
    assert prove_models(before, after).ok is ok


@pytest.mark.parametrize(("alpha", "own_rounding", "ok"), [(1 / 6, True, True), (0.1668, True, False)])
def test_whole_models_may_divide_by_what_is_next_to_zero(alpha: float, own_rounding: bool, ok: bool) -> None:
    """Where the divisor is 1e-3, a step of its input moves the quotient by more than the tolerance."""
    before = model("""(float[2,4000] a) => (float[2,4000] r) <float three = {3}, float six = {6}> {
        s = Add (a, three)  m = Min (s, six)  c = Relu (m)  h = Div (c, six)  r = Div (a, h) }""")
    after = model(f"""(float[2,4000] a) => (float[2,4000] r) {{
        h = HardSigmoid <alpha = {alpha}, beta = 0.5> (a)  r = Div (a, h) }}""")
    assert prove_models(before, after, own_rounding=own_rounding).ok is ok


def test_frames_of_400_samples_are_proved() -> None:
    """ONNX Runtime's STFT is off by 3e-5 there: what is nearer to the exact one is right, on huge numbers, too."""
    text = """(float[1,2000] x) => (float[1,a,201,2] y) <int64 step = {160}, int64 length = {400}> {
        y = STFT (x, step, , length)
    }"""
    report = surgeon.rewrite(model(text, opset=17), target="8.4").report
    assert report.applied and not report.undone


def test_floats_made_of_nothing_are_widened() -> None:
    """ConstantOfShape makes fp32 unless it says otherwise, and Constant may hold a float in an attribute."""
    proto = model("""(float[2,3] a) => (float[2,3] r) {
        d = Shape (a)  z = ConstantOfShape (d)  m = Max (a, z)
        c = Constant <value_float = 0.5> ()  r = Mul (m, c) }""")
    found = Reference(widened(proto, onnx.TensorProto.DOUBLE)).run({"a": np.ones((2, 3))})[0]
    assert found.dtype == np.float64 and (found == 0.5).all()


@pytest.mark.parametrize(("count", "other"), [(1200, "s0"), (50, "s{}")], ids=["deep", "each read twice"])
def test_sums_of_sizes_are_followed_however_many_there_are(count: int, other: str) -> None:
    sums = " ".join(f"s{k + 1} = Add (s{k}, {other.format(k)})" for k in range(count))
    proto = model(
        f"(float[N,M] x) => (int64[2] y) {{ h = Shape (x) s0 = Cast <to = 1> (h) {sums} y = Cast <to = 7> (s{count}) }}"
    )
    assert "are computed in float" in too_large(ModelPair(proto, proto, (("x", onnx.TensorProto.FLOAT, ("N", "M")),)))


def test_an_input_that_is_too_large_to_draw_is_not_drawn() -> None:
    proto = model("(float[2147483647] a) => (float[2147483647] r) { r = Relu (a) }")
    verdict = prove_models(proto, proto)
    assert verdict.ok is None and "elements" in verdict.why


def test_sizes_given_by_the_user_are_used(tmp_path: Path) -> None:
    """A rewrite that is right for three channels alone."""
    proto = model("(float[N,C] a) => (float[N,1] r) { r = ReduceMean <axes = [1]> (a) }")
    body = "b.Div(b.ReduceSum(x, axes=[1], keepdims=1), 3.0)"
    assert with_pass(tmp_path, "ReduceMean(x, ...)", body, proto).report.undone
    assert not with_pass(tmp_path, "ReduceMean(x, ...)", body, proto, shapes={"a": (5, 3)}).report.undone
    with pytest.raises(surgeon.UsageError, match="no input 'b'"):
        with_pass(tmp_path, "ReduceMean(x, ...)", body, proto, shapes={"b": (5, 3)})


def test_a_size_given_for_one_window_proves_no_other() -> None:
    """Two windows that are alike, one of them at a size that the user gives: two proofs."""
    one = model("(float[N,3] a) => (float[N,3] r) { r = Relu (a) }")
    inputs = (("a", onnx.TensorProto.FLOAT, ("N", 3)),)
    digests = {ModelPair(one, one, inputs, fixed=fixed).digest() for fixed in ({}, {"N": 4}, {"N": 5})}
    assert len(digests) == 3
    assert ModelPair(one, one, inputs, fixed={"M": 4}).digest() in digests, "a size of another window"


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


near = partial(compare, tolerance=1e-5, finite=True)


def test_what_equal_means() -> None:
    b = arrays(1.0, -2.0, 3.0)
    assert not near(b + arrays(2e-5, 0, 0), b).why
    assert near(b + arrays(4e-5, 0, 0), b).why
    assert near(b.astype(np.float16), b).why
    assert near(b[:2], b).why
    assert near(arrays(np.nan, -2, 3), b).why
    assert not near(arrays(7, -2, 3), arrays(np.nan, -2, 3)).why, "where the original is NaN anything may be"
    saturated = float(np.finfo(np.float32).max)
    step = float(np.nextafter(np.float32(0), np.float32(1)))
    assert not near(arrays(1003 * step, 0), arrays(1000 * step, 0)).why, "rounded to denormal numbers"
    assert near(arrays(1010 * step, 0), arrays(1000 * step, 0)).why
    assert not near(arrays(np.inf, 1), arrays(saturated, 1), finite=False).why
    assert near(arrays(np.inf, 1), arrays(5, 1), finite=False).why
    assert not near(arrays(0, 0), arrays(1.5e-19, -1e-19), finite=False, cut_off=True).why, "by the root of 3.4e38"
    assert near(arrays(0, 0), arrays(1.5e-19, -1e-19), finite=False).why, "no inf, so none that was cut off"
    assert near(arrays(0, 0), arrays(1.5e-19, -1e-19)).why
    assert near(arrays(0, 0), arrays(1e-18, 1e-19), finite=False, cut_off=True).why
    assert near(arrays(3e-19, 0), arrays(1.5e-19, 0), finite=False, cut_off=True).why


def test_an_error_no_worse_than_the_originals_is_equal() -> None:
    """Both are rounding noise around an exact zero: the float64 evaluation decides."""
    exact = np.zeros(3)
    original, good, bad = arrays(1e-7, -1e-7, 0), arrays(-2e-7, 1e-7, 0), arrays(1e-6, 0, 0)
    assert not near(good, original, exact=lambda: exact).why
    assert near(bad, original, exact=lambda: exact).why
    assert near(good, original).why


def test_what_the_exact_evaluation_rounds_off_is_no_error_and_only_there() -> None:
    """1e-16 beside an exact 0: within what the float64 evaluation may be off by, in the elements where it may."""
    zeros, after, exact = arrays(0, 0), arrays(1e-16, 1e-16), np.zeros(2)
    assert near(after, zeros, exact=lambda: exact).why
    assert not near(after, zeros, exact=lambda: exact, rounding=lambda: np.full(2, 2e-16)).why
    assert near(after, zeros, exact=lambda: exact, rounding=lambda: np.asarray([2e-16, 0])).why
    assert near(after, zeros, exact=lambda: exact, rounding=lambda: None).why
    assert near(arrays(2e-5, 0), zeros, exact=lambda: exact, rounding=lambda: np.ones(2)).why, "beyond the tolerance"


LOG_EXP = "{ e = Exp (a)  s = Add (e, one)  r = Log (s) }"
QUOTIENT = """{
    e = Exp (a)  q = Mul (e, e)  d = Mul (e, two)  n = Add (q, d)  p = Add (n, two)  f = Div (n, p)  r = Mul (a, f) }"""
TANH = "{ d = Add (a, a)  e = Exp (d)  m = Sub (e, one)  p = Add (e, one)  r = Div (m, p) }"


def of_type(body: str, dtype: np.dtype | type, shape: str = "N,3", opset: int = 17) -> onnx.ModelProto:
    """The nodes with the constants `zero`, `one` and `two`, all in one type."""
    name = {"float32": "float", "float64": "double"}.get(np.dtype(dtype).name, np.dtype(dtype).name)
    proto = model(f"({name}[{shape}] a) => ({name}[{shape}] r) {body}", opset)
    constants = {"zero": 0, "one": 1, "two": 2}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(v, dtype), k) for k, v in constants.items() if f" {k})" in body
    )
    return proto


@pytest.mark.parametrize(
    ("body", "dtype", "opset"),
    [
        pytest.param(LOG_EXP, np.float32, 17, id="softplus"),
        pytest.param(LOG_EXP, np.float16, 17, id="softplus in fp16"),
        pytest.param(QUOTIENT, np.float32, 17, id="mish"),
    ],
)
@pytest.mark.parametrize("size", ["N,3", "1", "2"])
@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 40), marks=pytest.mark.long)], ids=["few", "more"])
def test_no_draw_undoes_a_right_rewrite(
    body: str, dtype: type, opset: int, size: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all numbers drawn are far below zero, the original and its float64 evaluation give exact zeros, and what
    stands for them does not."""
    proto, undone = of_type(body, dtype, size, opset), []
    for seed in seeds:
        monkeypatch.setattr(surgeon.proof.judge, "feeds_of", partial(feeds_of, seed=seed * 1000003))
        report = surgeon.rewrite(proto, target="10.9").report
        assert report.applied or report.undone
        undone += [(seed, u.why) for u in report.undone]
    assert not undone


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_the_original_rounds_off_in_float64_too_is_no_difference(dtype: type) -> None:
    """Of 1e-41 beside 1 nothing is left in either type, and Tanh keeps it. ONNX Runtime has all of it in double."""
    original, rewritten = of_type(TANH, dtype), of_type("{ r = Tanh (a) }", dtype)
    assert prove_models(original, rewritten).ok
    assert not prove_models(original, of_type("{ t = Tanh (a)  r = Mul (t, two) }", dtype)).ok


def far_below_zero(
    infos: list[tuple[str, int, tuple[int, ...]]], numbers: frozenset[str], below: int, kinds: tuple[str, ...]
) -> Iterator[tuple[str, Feeds]]:
    yield "random", {name: arrays(-93, -60) for name, _, _ in infos}


@pytest.mark.parametrize(("more", "stays"), [(1e-16, True), (1e-15, False), (-1e-15, False)])
def test_what_is_added_beyond_the_rounding_of_the_exact_evaluation_is_found(
    more: float, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four steps beside 1 are 8.9e-16 in float64."""
    monkeypatch.setattr(surgeon.proof.judge, "feeds_of", far_below_zero)
    body = f"b.Add(b.Softplus(x), {more})"
    result = with_pass(tmp_path, "Log(op.Exp(x) + 1)", body, of_type(LOG_EXP, np.float32, "2"))
    assert bool(result.report.applied) is stays and bool(result.report.undone) is not stays


@pytest.mark.parametrize(
    ("original", "root", "body"),
    [
        ("{ e = Exp (a)  r = Floor (e) }", "Floor(op.Exp(x))", "b.Sub(b.Ceil(b.Exp(x)), 1.0)"),
        (
            "{ e = Exp (a)  c = GreaterOrEqual (e, one)  r = Where (c, e, zero) }",
            "Where(op.GreaterOrEqual(op.Exp(x), 1), op.Exp(x), 0)",
            "b.Where(b.Greater(x, 0.0), b.Exp(x), 0.0)",
        ),
    ],
)
def test_a_jump_is_no_rounding(original: str, root: str, body: str, tmp_path: Path) -> None:
    """exp(0) is on the step, where the result moves by 1 if exp(0) does by anything."""
    proto = of_type(original, np.float32)
    (undone,) = with_pass(tmp_path, root, body, proto).report.undone
    assert "on zero inputs" in undone.why


@pytest.mark.parametrize(
    ("body", "x", "beside"),
    [
        (LOG_EXP, -93, 1),
        ("{ r = Exp (a) }", -93, math.exp(-93)),
        ("{ n = Neg (a)  r = Relu (n) }", -93, 0),
        ("{ e = Exp (a)  r = Floor (e) }", 0, 0),
        ("{ e = Exp (a)  c = GreaterOrEqual (e, one)  r = Where (c, one, zero) }", 0, 0),
    ],
)
def test_the_rounding_of_an_evaluation_follows_its_nodes(body: str, x: float, beside: float) -> None:
    """Two to four steps beside 1 where 1 is added, of its own where a number is computed, none where it is passed on,
    and none across a jump."""
    proto, feeds = of_type(body, np.float32, "1"), {"a": arrays(x)}
    rounding = Exact(proto, feeds, False, Runner(proto).run(feeds), "random").rounding(0)
    assert rounding is not None
    (steps,) = rounding / np.finfo(np.float64).eps
    assert 1.99 * beside <= steps <= 4.01 * beside


def test_an_epsilon_is_seen_where_half_precision_holds_few_digits() -> None:
    """After inputs of 1e-7 the outputs are denormal numbers, and onnx's reference evaluator finds them equal."""
    text = """(float16[2,8] a) => (float16[2,8] r) {{
        o = Constant <value = float16[8] {{15360, 15360, 15360, 15360, 15360, 15360, 15360, 15360}}> ()
        r = LayerNormalization <epsilon = {}> (a, o) }}"""
    verdict = prove_models(model(text.format(0.001)), model(text.format(0.002)))
    assert verdict.ok is False and "on tiny inputs" in verdict.why


def test_what_cannot_be_evaluated_has_no_known_rounding() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "vendor" : 1]>
        g (float[2] a) => (float[2] r) { r = vendor.Secret (a) }""")
    assert Exact(proto, {"a": arrays(1, 2)}, False, [arrays(1, 2)], "random").rounding(0) is None


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


def test_a_kernel_that_is_missing_afterwards_is_missed_in_bfloat16_too() -> None:
    """ONNX Runtime takes no bfloat16 from NumPy, so the evaluator runs both; what loads is known all the same."""
    text = "(bfloat16[2,3] a) => (bfloat16[2,3] r) {{ {} }}"
    proto = model(text.format("f = Cast <to = 1> (a)  g = Neg (f)  r = Cast <to = 16> (g)"))
    assert prove_models(proto, proto).ok
    verdict = prove_models(proto, model(text.format("r = Neg (a)")))
    assert verdict.ok is False and "ONNX Runtime runs the original window, not the rewritten one" in verdict.why


def test_the_evaluator_stacks_what_a_loop_returns() -> None:
    proto = model("""(float[2,3] a) => (float[2,3] r, float[n,2,3] s, int64[n] t) <int64 most = {2}> {
        r, s, t = Loop (most, , a) <body = b (int64 i, bool go, float[2,3] p) => (bool on, float[2,3] q, float[2,3] u,
            int64 v) { on = Identity (go)  q = Add (p, p)  u = Neg (p)  v = Identity (i) }> }""")
    feeds = {"a": np.arange(6, dtype=np.float32).reshape(2, 3)}
    runner = Runner(proto)
    assert runner.session is not None
    for given, expected in zip(Reference(proto).run(feeds), runner.run(feeds), strict=True):
        np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_the_evaluator_reads_sparse_weights(indices: list[Any]) -> None:
    proto = model("(float[2,3] a) => (float[2,3] r) <float[2,3] w = {0, 2, 0, 0, 0, 3}> { r = Add (a, w) }")
    values, at = onnx.helper.make_tensor("w", 1, [2], [2.0, 3.0]), np.asarray(indices)
    kept = onnx.numpy_helper.from_array(at, "w_at")
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, kept, [2, 3]))
    del proto.graph.initializer[:]
    (found,) = Reference(proto).run({"a": np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(found, [[1, 3, 1], [1, 1, 4]])


def test_the_evaluator_keeps_the_digits_of_a_celu_near_zero() -> None:
    x = arrays(-1e-7, -1e-41, 1e-41, 2)
    (y,) = Reference(model("(float[4] a) => (float[4] r) { r = Celu <alpha = 4.0> (a) }")).run({"a": x})
    np.testing.assert_allclose(y, x, rtol=1e-3 / 4)


def test_where_onnx_runtime_strays_from_onnx_the_reason_says_so(tmp_path: Path) -> None:
    """To onnx's reference evaluator LRN is another function, for which ONNX Runtime has no kernel in double to ask."""
    proto = model("(float[2,8,4,5] a) => (float[2,8,4,5] r) { r = LRN <size = 3, alpha = 1.0> (a) }")
    (undone,) = with_pass(tmp_path, "LRN(x)", "b.Abs(x)", proto).report.undone
    assert "computes the original differently from onnx's reference evaluator" in undone.why
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
    assert "nan" in near(arrays(np.nan, 1, 2), arrays(0, 1, 2), exact=lambda: None).why


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


INTEGER_WINDOWS = {
    "{ s = Mul (x, k)  r = Add (s, x) }": {"x", "k"},
    "{ s = Reshape (x, k)  r = Neg (s) }": {"x"},
    "{ s = Gather (x, k)  r = Abs (s) }": {"x"},
    "{ i = Add (x, k)  r = Gather (x, i) }": set(),
    "{ f = Cast <to = 1> (x)  g = Neg (f)  r = Cast <to = 7> (g) }": {"x", "k"},
    "{ s = Equal (x, k)  r = Cast <to = 7> (s) }": {"x", "k"},
    "{ r = If (c) <then_branch = t () => (int64[2] u) { u = Add (x, k) }, else_branch = e () => (int64[2] v)"
    " { v = Identity (k) }> }": set(),
}


@pytest.mark.parametrize("body", INTEGER_WINDOWS)
def test_integers_that_are_no_positions_and_no_sizes(body: str) -> None:
    proto = model(f"(int64[2] x, int64[2] k, bool c) => (int64[2] r) {body}")
    assert plain_integers(whole_pair(proto, proto)) == INTEGER_WINDOWS[body]


def test_large_and_negative_integers_are_tried() -> None:
    one = model("(int32[N] a) => (int32[N] r) <int32 d = {5}> { r = Mod (a, d) }")
    fmod = model("(int32[N] a) => (int32[N] r) <int32 d = {5}> { r = Mod <fmod = 1> (a, d) }")
    assert "negative integer" in compare_models(one, fmod)[1]
    sum_first = model("(int32[N] a) => (int32[N] r) <int32 d = {2}> { s = Add (a, a)  r = Div (s, d) }")
    itself = model("(int32[N] a) => (int32[N] r) { r = Identity (a) }")
    assert "large integer" in compare_models(itself, sum_first)[1]
    feeds = dict(feeds_of([("k", onnx.TensorProto.INT32, (99,)), ("p", onnx.TensorProto.INT64, (9,))], numbers={"k"}))
    assert feeds["large integer"]["k"].min() < -(2**30) and feeds["large integer"]["k"].max() > 2**30
    assert all(set(given["p"]) <= {0, 1, 2, 3} for given in feeds.values())


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
    with pytest.raises(surgeon.ModelError, match="'s' .* ends 4 bytes after the end of 'w.bin'"):
        surgeon.rewrite(tmp_path / "m.onnx", target="8.4")


def test_whole_models_are_run_at_sizes_that_networks_are_made_for(tmp_path: Path) -> None:
    """A sixteenth of the size and back: no other size fits."""
    proto = model("""(float[N,1,H,W] x) => (float[N,1,H,W] y) {
        d = AveragePool <kernel_shape = [16, 16], strides = [16, 16]> (x)  r = Relu (d)
        u = ConvTranspose <strides = [16, 16], kernel_shape = [16, 16]> (r, w)  y = Add (u, x) }""")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 1, 16, 16), np.float32), "w"))
    assert compare_models(proto, proto) == (0.0, "")


EXPOSED = """(float[1,3] x) => (float[1,3] y) <int64 zero = {0}, int64[1] n = {3}, int64 one = {1}> {
    d = Shape (x)
    l = Size (d)
    c = Greater (l, one)
    m = If (c) <then_branch = t () => (int64[] p) { p = Identity (n) },
                else_branch = e () => (int64[] q) { q = Squeeze (n) }>
    r = Range (zero, m, one)
    f = Cast <to = 1> (r)
    y = Add (x, f)
}"""


def test_a_model_that_onnx_runtime_loads_is_loaded_after_the_rewrite() -> None:
    """Range up to a tensor with one dimension: ONNX Runtime refuses it where it can tell, after the If it cannot."""
    proto = model(EXPOSED)
    for branch in proto.graph.node[3].attribute:
        branch.g.output[0].type.tensor_type.ClearField("shape")
    assert Runner(proto).session is not None
    result = surgeon.rewrite(proto, target="10.9")
    assert Runner(result.model).session is not None and not result.report.undone
    unproved = surgeon.rewrite(proto, target="10.9", verify="none")
    assert Runner(unproved.model).session is not None


def test_a_clip_of_doubles_has_the_form_that_onnx_runtime_runs() -> None:
    """ONNX Runtime has no kernel of a Clip of doubles below opset 12."""
    proto = model("(double[N] x) => (double[N] y) <double high = {6}> { y = Clip (x, , high) }", opset=13)
    result = surgeon.rewrite(proto, target="7.2")
    assert result.model.opset_import[0].version == 11 and not result.report.undone
    assert [n.op_type for n in result.model.graph.node] == ["Min"]


def test_a_window_that_onnx_runtime_runs_no_more_is_wrong(tmp_path: Path) -> None:
    proto = model("(double[3] a) => (double[3] r) { b = Neg (a)  r = Sigmoid (b) }")
    result = with_pass(tmp_path, "Sigmoid(x)", "b.Sub(1.0, b.Selu(x))", proto)
    assert "not the rewritten one" in result.report.undone[0].why
