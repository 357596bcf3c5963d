"""Between which numbers tensors are, asked row by row, and what ONNX Runtime makes of such numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import model

from surgeon.ir.model import Model
from surgeon.ir.ranges import Ranges
from surgeon.ir.run import Runner

HELD = "b = Constant <value_float = {0}> () l = Less (x, b) w = Where (l, x, b)"  # no NaN
LIMITS = "low = Constant <value_float = {0}> () high = Constant <value_float = {1}> ()"
WHOLE = f"{HELD.format('100.0')} {LIMITS.format('-3.0', '5.0')} c = Clip (w, low, high) r = Round (c)"

# (the nodes, the lowest and the highest number that v may hold)
BOUNDS = [
    ("v = Constant <value_floats = [1.0, -2.5]> ()", (-2.5, 1.0)),
    ("v = Constant <value_ints = [7]> ()", (7, 7)),
    ("z = Constant <value_ints = [0]> () v = ConstantOfShape (z)", None),
    ("a = Constant <value_float = 0.0> () v = Div (a, a)", None),
    ("v = Identity (x)", None),
    (f"{WHOLE} v = Identity (r)", (-3, 5)),
    (f"{WHOLE} v = Cast <to = 6> (r)", (-3, 5)),
    (f"{WHOLE} v = Cast <to = 9> (r)", (0, 1)),
    (f"{WHOLE} v = Cast <to = 7> (r)", (-3, 5)),
    (f"{WHOLE} v = Cast <to = 10> (r)", (-3, 5)),
    (f"{WHOLE} k = Cast <to = 7> (r) v = Cast <to = 1> (k)", (-3, 5)),
    (f"{WHOLE} v = Sin (r)", (-1, 1)),
    (f"{WHOLE} a = Constant <value_floats = [9.0]> () v = Concat <axis = 0> (r, a)", (-3, 9)),
    (f"{WHOLE} a = Constant <value_floats = [-9.0]> () v = Concat <axis = 0> (a, r)", (-9, 5)),
    (f"{WHOLE} v = Concat <axis = 0> (r, x)", None),
    (f"{LIMITS.format('-3.0', '5.0')} v = Clip (x, low, high)", None),
    (f"{HELD.format('100.0')} {LIMITS.format('-3.0', '5.0')} v = Clip (w, low)", (-3, 100)),
    (f"{HELD.format('100.0')} {LIMITS.format('-3.0', '5.0')} v = Clip (w, , high)", (-math.inf, 5)),
    (f"{HELD.format('100.0')} {LIMITS.format('-3.0', '5.0')} v = Clip (w, low, limit)", None),
    ("g = Constant <value_float = -9.0> () l = Greater (x, g) w = Where (l, x, g) "
     + f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", (-3, 5)),
    ("l = Less (x, limit) w = Where (l, x, limit) " + f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", None),
    ("b = Constant <value_float = 9.0> () l = Less (x, b) w = Where (l, b, x) "
     + f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", None),
    ("b = Constant <value_float = 9.0> () l = Equal (x, b) w = Where (l, x, b) "
     + f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", None),
]  # fmt: skip


# How elements are passed on, from r to v.
HANDED_ON = [
    "v = Concat <axis = 0> (r, r)",
    "v = Expand (r, sizes)",
    "v = Flatten (r)",
    "v = Gather (r, sizes)",
    "v = Identity (r)",
    "p = Reshape (r, plane) v = MaxPool <kernel_shape = [1]> (p)",
    "v = Reshape (r, sizes)",
    "v = Slice (r, one, one)",
    "u = Unsqueeze (r, one) v = Squeeze (u, one)",
    "v = Tile (r, sizes)",
    "v = Transpose (r)",
    "v = Unsqueeze (r, one)",
]
SIZES = "sizes = Constant <value_ints = [4]> () one = Constant <value_ints = [1]> ()"
PLANE = "plane = Constant <value_ints = [1, 1, 4]> ()"


@pytest.mark.parametrize("body", HANDED_ON)
def test_elements_that_are_handed_on_stay_what_they_are(body: str) -> None:
    known = asked(f"{WHOLE} {SIZES} {PLANE} {body}")
    v = known.scopes[0].find("v")
    assert Ranges(known).of(v) == (-3, 5, True, False)


def asked(body: str) -> Model:
    return Model(model(f"(float[4] x, float limit, int8[4] i, float[4] s) => (float[4] y) {{ {body} y = Relu (x) }}"))


@pytest.mark.parametrize(("body", "expected"), BOUNDS)
def test_bounds(body: str, expected: tuple[float, float] | None) -> None:
    known = asked(body)
    low, high, _, nan = Ranges(known).of(known.scopes[0].find("v"))
    assert (None if nan else (low, high)) == expected


# (the nodes, the limits, whether v has integers between them alone)
WITHIN = [
    (f"{WHOLE} v = Identity (r)", (-3, 5), True),
    (f"{WHOLE} v = Identity (r)", (-2, 5), False),
    (f"{WHOLE} v = Identity (r)", (-3, 4), False),
    (f"{WHOLE} v = Identity (c)", (-3, 5), False),
    ("v = Constant <value_floats = [1.0, 2.5]> ()", (0, 9), False),
    ("v = Constant <value_floats = [1.0, 2.0]> ()", (0, 9), True),
    (f"{WHOLE} v = Cast <to = 6> (c)", (-3, 5), True),
    (f"{WHOLE} v = Cast <to = 10> (r)", (-3, 5), True),
    (f"{WHOLE} k = Cast <to = 7> (r) v = Cast <to = 1> (k)", (-3, 5), True),
    (f"{WHOLE} v = Concat <axis = 0> (r, c)", (-3, 5), False),
    (f"{WHOLE} v = Add (r, r)", (-9, 9), False),
    ("n = Constant <value_floats = [300.0]> () v = Cast <to = 1> (n)", (0, 300), True),
    (f"{WHOLE} v = Concat <axis = 0> (r, r)", (-3, 5), True),
    (f"k = Round (x) b = Constant <value_float = 9.0> () l = Less (k, b) w = Where (l, k, b) "
     f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", (-3, 5), True),
    (f"k = Round (x) b = Constant <value_float = 9.5> () l = Less (k, b) w = Where (l, k, b) "
     f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", (-3, 5), False),
    (f"k = Round (x) b = Constant <value_float = 9.0> () l = Less (k, b) w = Where (l, k, b) "
     f"{LIMITS.format('-3.0', '5.5')} v = Clip (w, low, high)", (-3, 6), False),
    (f"{WHOLE} o = Constant <value_floats = [1.0, 1.0, 2.0]> () "
     "v = Resize <mode = \"nearest\"> (r, , o)", (-3, 5), True),
    (f"{WHOLE} o = Constant <value_floats = [1.0, 1.0, 2.0]> () "
     "v = Resize <mode = \"linear\"> (r, , o)", (-3, 5), False),
    (f"{WHOLE} o = Constant <value_floats = [1.0, 1.0, 2.0]> () q = Constant <value_floats = [0.0, 1.0]> () "
     "v = Resize <mode = \"nearest\", coordinate_transformation_mode = \"tf_crop_and_resize\"> (r, q, o)",
     (-3, 5), False),
]  # fmt: skip


@pytest.mark.parametrize(("body", "limits", "expected"), WITHIN)
def test_is_within(body: str, limits: tuple[int, int], expected: bool) -> None:
    known = asked(body)
    found = Ranges(known).of(known.scopes[0].find("v"))
    assert (found.whole and found.is_within(*limits)) == expected


# What is computed of integers from -7 to 9 (a), from 1 to 6 (b) and from 0 to 5 (c), and of fp32 from -3.5 to 5.25 (f)
# without NaN; and the range, where it is not just wide enough.
COMPUTED = {
    "Add": "v = Add (a, b)",
    "Sub": "v = Sub (a, b)",
    "Mul": "v = Mul (a, b)",
    "Neg": "v = Neg (a)",
    "Max": "v = Max (a, b)",
    "Min": "v = Min (a, b)",
    "Sum": "v = Sum (f, g)",
    "Div": "v = Div (a, b)",
    "Mod": "v = Mod (a, b)",
    "remainder": "q = Div (a, six) p = Mul (q, six) v = Sub (a, p)",
    "remainder of what is above": "d = Add (b, b) q = Div (d, six) p = Mul (q, six) v = Sub (d, p)",
    "no remainder": "q = Div (a, six) p = Mul (q, b) v = Sub (a, p)",
    "BitwiseAnd": "v = BitwiseAnd (c, b)",
    "BitwiseOr": "v = BitwiseOr (a, c)",
    "BitwiseXor": "v = BitwiseXor (c, b)",
    "Where": "v = Where (m, a, b)",
    "less": "is = Less (f, g) v = Where (is, f, g)",
    "greater": "is = Greater (f, g) v = Where (is, f, g)",
    "Clip": "v = Clip (a, low, six)",
    "Cast to uint8": "v = Cast <to = 2> (c)",
    "Cast that wraps": "v = Cast <to = 2> (a)",
    "Cast to int8": "v = Cast <to = 3> (f)",
    "Cast to half": "d = Mul (f, tenth) v = Cast <to = 10> (d)",
    "Cast to bool": "v = Cast <to = 9> (a)",
    "Round": "v = Round (f)",
    "Floor": "v = Floor (f)",
    "Ceil": "v = Ceil (f)",
    "Sign": "v = Sign (f)",
    "Sigmoid": "v = Sigmoid (f)",
    "Tanh": "v = Tanh (f)",
    "Softmax": "v = Softmax (f)",
    "ReduceMax": "v = ReduceMax (f)",
    "ReduceMin": "v = ReduceMin (a)",
    "Pad": "v = Pad (b, ends)",
    "Pad with a number": "v = Pad (b, ends, six)",
    "Pad with edges": 'v = Pad <mode = "edge"> (b, ends)',
    "Concat": "v = Concat <axis = 0> (a, b)",
    "Split": "u, v = Split <num_outputs = 2> (a)",
    "Trilu": "d = Reshape (b, square) v = Trilu (d)",
    "ScatterElements": "v = ScatterElements (b, at, a)",
    "ScatterElements of the larger ones": 'v = ScatterElements <reduction = "max"> (b, at, a)',
    "nearest": 'd = Reshape (f, image) v = Resize <mode = "nearest"> (d, , scales)',
    "linear": 'd = Reshape (f, image) v = Resize <mode = "linear"> (d, , scales)',
    "TopK": "v, u = TopK (a, one)",
    "ConstantOfShape": "v = ConstantOfShape <value = int64[1] {-4}> (one)",
    "ConstantOfShape of zeros": "v = ConstantOfShape (one)",
}
HEAD = """(int32[64] x, int32[64] y, int32[64] z, float[64] s, float[64] t, bool[64] m) => (v)
<int32 l = {-7}, int32 h = {9}, int32 i = {1}, int32 six = {6}, int32 o = {0}, int32 five = {5}, int32 low = {-2},
 float lf = {-3.5}, float hf = {5.25}, float tenth = {0.1}, int64[2] ends = {2, 3}, int64[2] square = {8, 8},
 int64[4] image = {1, 1, 8, 8}, float[4] scales = {1.0, 1.0, 2.5, 2.5}, int64[1] one = {1}, int64[64] at = {%s}>
{ a = Clip (x, l, h) b = Clip (y, i, six) c = Clip (z, o, five)
  lx = Less (s, hf) sx = Where (lx, s, hf) f = Clip (sx, lf, hf) gx = Greater (t, lf) tx = Where (gx, t, lf)
  g = Clip (tx, lf, hf) %s }"""
WIDE = {  # one input is read twice, or several numbers make one
    "remainder", "remainder of what is above", "no remainder", "BitwiseOr", "Cast that wraps", "Cast to half", "Split",
    "Sigmoid", "Tanh", "Softmax", "ReduceMax", "ReduceMin", "ScatterElements of the larger ones", "TopK",
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_is_in_its_range(name: str) -> None:
    """ONNX Runtime on numbers of every size, with NaN and inf: in the range, and at both of its ends."""
    proto = model(HEAD % (", ".join(map(str, range(64))), COMPUTED[name]), opset=20)
    rng = np.random.default_rng(0)
    known, runner, made = Model(proto), Runner(proto), []
    for size in (10, 100, 2**31 - 1):
        ints = {k: rng.integers(-size, size, 64, dtype=np.int32) for k in "xyz"}
        floats = {k: rng.uniform(-size, size, 64).astype(np.float32) for k in "st"}
        for x in floats.values():
            x[rng.integers(0, 64, 6)] = [np.nan, np.inf, -np.inf, 0.0, -0.4, 0.5]
        made.append(runner.run({**ints, **floats, "m": rng.random(64) < 0.5})[0].astype(np.float64).reshape(-1))
    found, numbers = Ranges(known).of(known.scopes[0].find("v")), np.concatenate(made)
    assert not found.nan and found.low <= numbers.min() and numbers.max() <= found.high
    assert not found.whole or (numbers == np.floor(numbers)).all()
    assert name in WIDE or (numbers.min(), numbers.max()) == pytest.approx((found.low, found.high), rel=1e-5)


NEVER_BELOW_0 = {
    "Relu": "v = Relu (s)",
    "Sqrt": "v = Sqrt (s)",
    "product": "d = Relu (s) e = Abs (t) v = Mul (d, e)",
    "quotient": "d = Relu (s) e = Clip (t, tenth) v = Div (d, e)",
    "sum": "d = Relu (s) e = Sigmoid (t) v = Add (d, e)",
    "MaxPool": "d = Relu (s) e = Reshape (d, image) v = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (e)",
    "AveragePool": "d = Relu (s) e = Reshape (d, image) v = AveragePool <kernel_shape = [3, 3]> (e)",
    "GlobalAveragePool": "d = Abs (s) e = Reshape (d, image) v = GlobalAveragePool (e)",
}


@pytest.mark.parametrize("name", NEVER_BELOW_0)
def test_what_has_one_end_alone(name: str) -> None:
    proto = model(HEAD % (", ".join(map(str, range(64))), NEVER_BELOW_0[name]), opset=20)
    known, rng = Model(proto), np.random.default_rng(0)
    floats = {k: (rng.standard_normal(64) * 100).astype(np.float32) for k in "st"}
    feeds = floats | {k: np.zeros(64, np.int32) for k in "xyz"} | {"m": np.zeros(64, bool)}
    made = Runner(proto).run(feeds)[0]
    assert Ranges(known).of(known.scopes[0].find("v")).low == 0 and not (made < 0).any()


@pytest.mark.parametrize(
    "text",
    [
        "d = Relu (s) e = Relu (t) v = Div (d, e)",  # by -0 it is -inf
        "d = Relu (s) v = Mul (d, t)",
        "d = Reshape (s, image) v = GlobalAveragePool (d)",
    ],
)
def test_what_may_be_below_0(text: str) -> None:
    known = Model(model(HEAD % (", ".join(map(str, range(64))), text), opset=20))
    assert Ranges(known).of(known.scopes[0].find("v")).low < 0


@pytest.mark.parametrize("text", ["v = Asin (f)", "d = Sub (lf, f) v = Sqrt (d)", "v = Sin (s)"])
def test_what_may_be_nan(text: str) -> None:
    known = Model(model(HEAD % (", ".join(map(str, range(64))), text), opset=20))
    assert Ranges(known).of(known.scopes[0].find("v")).nan


def test_nothing_follows_of_what_may_wrap_around() -> None:
    known = asked(
        "k = Cast <to = 6> (i) c = Constant <value_ints = [33554432]> () d = Cast <to = 6> (c) v = Mul (k, d)"
    )
    assert Ranges(known).of(known.scopes[0].find("v"))[:2] == (-(2**31), 2**31 - 1)


def test_the_nodes_from_which_a_range_follows() -> None:
    """Of a Clip with both bounds, not what is before it."""
    known = asked(
        "a = Abs (s) q = Cast <to = 6> (a) l = Constant <value = int32 {0}> () h = Constant <value = int32 {9}> () "
        "c = Clip (q, l, h) k = Cast <to = 6> (i) n = Add (c, k) v = Identity (n)"
    )
    found = Ranges(known).reasons(known.scopes[0].find("v"))
    assert {n.op for n in found} == {"Identity", "Add", "Clip", "Cast"} and sum(n.op == "Cast" for n in found) == 1
