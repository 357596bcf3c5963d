"""When half precision counts as equal: integers, masks, positions, sizes, quantizers, and how far a search goes."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, numpy_helper

from surgeon.ir.model import Model
from surgeon.precision import convert
from surgeon.precision.comparison import Comparison, Moved, OutputError
from surgeon.precision.conversion import PrecisionResult, _note_steps
from surgeon.precision.data import Samples
from surgeon.precision.inputs import row_numbers
from surgeon.precision.standard import mean_error

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
rng = np.random.default_rng(7)


def model_of(text: str, **weights: np.ndarray) -> ModelProto:
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def errors_of(model: ModelProto, **feeds: np.ndarray) -> dict[str, OutputError]:
    return {e.output: e for e in convert(model, data=Samples.of([feeds])).errors}


MASK = """g (float[1,8,64,64] x) => (float[1,4,64,64] y, float[1,4,64,64] m) {
    m = Conv <kernel_shape = [1,1]> (x, w)
    b = Greater (m, z)
    c = Cast <to = 1> (b)
    y = Identity (c)
}"""


def test_a_mask_of_floats_is_compared_as_integers() -> None:
    """An element of 0 or 1 at the border of a mask is off by all of its largest number."""
    model = model_of(MASK, w=rng.standard_normal((4, 8, 1, 1)).astype(np.float32), z=np.float32(0))
    found = errors_of(model, x=rng.standard_normal((1, 8, 64, 64)).astype(np.float32))
    assert found["y"].ok and 0 < found["y"].relative < 0.01  # the share that differs
    assert "results differ" in found["y"].excuse


def test_many_other_integers_are_no_mask_that_is_equal() -> None:
    weights = {"w": rng.standard_normal((4, 8, 1, 1)).astype(np.float32), "z": np.float32(0)}
    model, other = (model_of(text, **weights) for text in (MASK, MASK.replace("Greater", "Less")))
    x = rng.standard_normal((1, 8, 64, 64)).astype(np.float32)
    result = convert(other, data=Samples.of([{"x": x}]), original=model)
    assert result.failed and {e.output: e.ok for e in result.errors} == {"y": False, "m": True}


TOPK = """g (float[400,1] x) => (int64[100,1] i, float[100,1] s) {
    a = MatMul (x, w)
    s, i = TopK <axis = 0> (a, k)
}"""


@pytest.mark.parametrize("count", [100, 50])
def test_positions_may_come_in_another_order(count: int) -> None:
    """Scores that are equal in fp16 have no order; that the best are other ones is another matter."""
    x = np.zeros((400, 1), np.float32)
    x[::4, 0] = 1.5 + rng.permutation(100) / 1024  # whose products are less than an epsilon apart
    found = errors_of(model_of(TOPK, w=np.full((1, 1), 0.67, np.float32), k=np.array([count])), x=x)["i"]
    assert found.ok == (count == 100)
    assert ("100 of 100 rows are the same, in another order" in found.excuse) == found.ok


LENGTHS = """g (float[1,16] x) => (float[n,8] y) {
    h = MatMul (x, w)
    d = Relu (h)
    c = Ceil (d)
    t = ReduceSum <keepdims = 0> (c)
    n = Cast <to = 7> (t)
    l = Unsqueeze (n, zero)
    s = Concat <axis = 0> (l, l16)
    e = Expand (x, s)
    y = MatMul (e, q)
}"""


def test_what_a_size_is_computed_of_stays_fp32() -> None:
    """Of a duration that is rounded, another number of samples follows."""
    model = model_of(
        LENGTHS, w=rng.standard_normal((16, 64)).astype(np.float32), q=rng.standard_normal((16, 8)).astype(np.float32),
        zero=np.array([0]), l16=np.array([16]),
    )  # fmt: skip
    result = convert(model, data=Samples.of([{"x": rng.standard_normal((1, 16)).astype(np.float32)}]))
    kept = {k.op: k.why for k in result.kept}
    assert not result.failed and result.gain == (1, 2)
    assert kept["MatMul"] == kept["Ceil"] == "the size of a tensor is computed from it"


def test_inputs_about_which_nothing_is_known_do_not_shorten_the_search() -> None:
    """Layers that make small differences larger: some of them fit into half precision."""
    nodes = " ".join(f"h{k} = MatMul (t{k}, w{k}) t{k + 1} = Tanh (h{k})" for k in range(8))
    draw = np.random.default_rng(3)
    weights = {f"w{k}": (draw.standard_normal((24, 24)) * 0.5).astype(np.float32) for k in range(8)}
    result = convert(model_of(f"g (float[1,24] t0) => (float[1,24] t8) {{ {nodes} }}", **weights))
    assert result.inputs == ["'t0' [1, 24]: random numbers"]
    assert not result.failed and result.gain[0] > 0, (result.gain, result.errors)


STEPS = OutputError("y", "data", 0.05, 1.0)


@pytest.mark.parametrize(
    ("own", "fails"),
    [(Moved(0.04, 0.01), ""), (Moved(0.01, 0.01), "above the tolerance 0.01"), (Moved(1.4, 1.4), "by 1.4e+00")],
)
def test_the_steps_of_quantizers(own: Moved, fails: str) -> None:
    """The error with the steps is said where rounding the inputs alone explains it. It fails where it does not, and
    where rounding the inputs moves the original so far that nothing is known."""
    result = PrecisionResult(ModelProto())
    _note_steps(STEPS, own, result)
    assert result.failed == bool(fails)
    assert fails in (result.errors[0].why if fails else result.warnings[0])
    assert "5.0e-02 is above the tolerance 0.01" in (result.errors[0].why if fails else result.warnings[0])


def test_an_error_within_the_tolerance_with_the_steps_is_no_warning() -> None:
    result = PrecisionResult(ModelProto(), tolerance=0.1)
    _note_steps(STEPS, Moved(1.4, 1.4), result)
    assert not result.failed and not result.warnings


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_an_infinite_error(number: float) -> None:
    given, expected = np.array([1.0, number]), np.array([1.0, 2.0])
    assert mean_error(given, expected) == np.inf
    assert mean_error(given, np.array([1.0, np.nan])) == 0


def test_the_doubt_about_a_softmax_is_along_its_axis() -> None:
    text = "g (float[2,99] x) => (float[2,99] p) { a = Add (x, c) p = Softmax <axis = 0> (a) }"
    original, other = (model_of(text, c=np.float32([[c], [0]])) for c in (0, 0.04))
    samples = Samples.of([{"x": np.zeros((2, 99), np.float32)}])
    found = Comparison(original, samples, kind="data", base=None, few=True).errors(other)[0]
    assert found.doubt == pytest.approx(0.01)


def test_the_error_of_a_small_score_is_that_of_its_logit() -> None:
    """Where a detector finds nothing, an error of 2 % in what the Sigmoid reads is one of 2 % of the largest score."""
    text = "g (float[1,3] x) => (float[1,3] p) { a = Add (x, c) p = Sigmoid (a) }"
    original, other = (model_of(text, c=np.float32(c)) for c in (0, 0.02))
    samples = Samples.of([{"x": np.float32([[-9, 0.1, 9]])}])
    loud = Comparison(original, samples, kind="data", base=None, few=True).errors(other)[0]
    assert loud.relative < 0.01 and loud.doubt > 0.02


def test_errors_that_are_far_apart_make_a_larger_one_likely() -> None:
    """The errors of a sample and its variants, relative to numbers that the model makes larger or smaller."""
    text = "g (float[1,99] x, float[1,1] e) => (float[1,99] y) { y = Mul (x, c) }"
    original = model_of(text, c=np.float32(1))
    other = model_of(text.replace("y = Mul (x, c)", "a = Mul (x, c) y = Add (a, e)"), c=np.float32(1))
    x = np.linspace(-1, 1, 99, dtype=np.float32)[None]
    likely = {}
    for name, spread in (("alike", 1.1), ("apart", 2.0)):
        errors = [1e-3 * spread**k for k in range(8)]
        samples = Samples.of([{"x": x, "e": np.float32([[e]])} for e in errors])
        (found,) = Comparison(original, samples, kind="data", base=None, few=True).errors(other)
        assert found.relative == pytest.approx(errors[-1], rel=1e-3)
        likely[name] = found.likely / found.relative
    assert 1 < likely["alike"] < 1.6 < likely["apart"]


def test_variants_have_row_numbers_in_another_order() -> None:
    """Eight equal samples would say nothing of another input."""
    text = (
        "g (int64[1,9] ids, int64[1,9] mask) => (float[1,9,4] y, int64[1,9] m) { y = Gather (t, ids) m = Neg (mask) }"
    )
    model = model_of(text, t=np.zeros((50, 4), np.float32))
    given = {"ids": np.arange(9)[None], "n": np.arange(9)[None]}
    variants = list(Samples.of([given]).varied(row_numbers(Model(model))))
    assert len({tuple(v["ids"][0]) for v in variants}) == len(variants) == 8
    assert all(sorted(v["ids"][0]) == list(range(9)) and (v["n"] == given["n"]).all() for v in variants)


def test_a_state_that_nearly_turns_makes_a_larger_error_likely() -> None:
    """The first number, 1.0006, is 1.00098 in fp16. With both the state ends near 0.96, with less than 1 at -0.96."""
    text = "g (float[8,1,1] x) => (float[1,1,1] y) { a = Add (x, z) s, y = RNN <hidden_size = 1> (a, w, r, b) }"
    weights = {"w": np.float32([[[2000]]]), "r": np.float32([[[2]]]), "b": np.float32([[-2000, 0]]), "z": np.float32(0)}
    model = model_of(text, **weights)
    samples = Samples.of([{"x": np.float32([1.0006, *[1] * 7]).reshape(8, 1, 1)}] * 6)
    types = {"a": TensorProto.FLOAT16}
    for kind in ("data", "guessed"):
        (found,) = Comparison(model, samples, kind=kind, base=None, few=True).errors(model, types)
        assert found.relative < 1e-3 < 0.1 < found.likely


def test_what_nearly_equal_scores_choose_on_inputs_that_are_made_refuses_nothing() -> None:
    """One of 125 rows; on the user's own sample it does."""
    text = """g (float16[125,999] x) => (float16[125,8] y) {
        i = ArgMax <axis = 1, keepdims = 0> (x) r = Gather (t, i) y = Add (r, z) }"""
    table, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((999, 8), (125, 999)))
    moved = np.zeros((125, 1), np.float16)
    moved[0] = 4
    original = model_of(text.replace("float16", "float"), t=table, z=np.float32(0))
    other = model_of(text, t=table.astype(np.float16), z=moved)
    for kind in ("data", "guessed"):
        compared = Comparison(original, Samples.of([{"x": x}]), kind=kind, base=None, few=True)
        assert compared.errors(other)[0].ok == (kind == "guessed")
    assert compared.errors(other)[0].excuse == "124 of 125 rows are the same, on inputs that are made"
