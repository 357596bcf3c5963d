"""Which tensors hold whole numbers alone, and how far from 0: passes/_whole.py, asked row by row."""

from __future__ import annotations

import pytest
from helpers import model
from surgeon.passes import _whole

from surgeon.ir.model import Model

HELD = "b = Constant <value_float = {0}> () l = Less (x, b) w = Where (l, x, b)"  # what _whole.without_nan writes
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
    (f"{WHOLE} v = Cast <to = 9> (r)", None),
    (f"{WHOLE} v = Cast <to = 7> (r)", (-3, 5)),
    (f"{WHOLE} v = Cast <to = 10> (r)", (-3, 5)),
    (f"{WHOLE} k = Cast <to = 7> (r) v = Cast <to = 1> (k)", (-3, 5)),
    (f"{WHOLE} v = Sin (r)", None),
    (f"{WHOLE} a = Constant <value_floats = [9.0]> () v = Concat <axis = 0> (r, a)", (-3, 9)),
    (f"{WHOLE} a = Constant <value_floats = [-9.0]> () v = Concat <axis = 0> (a, r)", (-9, 5)),
    (f"{WHOLE} v = Concat <axis = 0> (r, x)", None),
    (f"{LIMITS.format('-3.0', '5.0')} v = Clip (x, low, high)", None),
    (f"{HELD.format('100.0')} {LIMITS.format('-3.0', '5.0')} v = Clip (w, low)", None),
    (f"{HELD.format('100.0')} {LIMITS.format('-3.0', '5.0')} v = Clip (w, , high)", None),
    (f"{HELD.format('100.0')} {LIMITS.format('-3.0', '5.0')} v = Clip (w, low, limit)", None),
    ("g = Constant <value_float = -9.0> () l = Greater (x, g) w = Where (l, x, g) "
     + f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", (-3, 5)),
    ("l = Less (x, limit) w = Where (l, x, limit) " + f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", None),
    ("b = Constant <value_float = 9.0> () l = Less (x, b) w = Where (l, b, x) "
     + f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", None),
    ("b = Constant <value_float = 9.0> () l = Equal (x, b) w = Where (l, x, b) "
     + f"{LIMITS.format('-3.0', '5.0')} v = Clip (w, low, high)", None),
]  # fmt: skip


# How elements are handed on, from r to v.
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
    assert _whole.bounds(known, v, _whole.DEPTH) == (-3, 5) and _whole.is_within(known, v, -3, 5)


def asked(body: str) -> Model:
    return Model(model(f"(float[4] x, float limit, int8[4] i, float[4] s) => (float[4] y) {{ {body} y = Relu (x) }}"))


@pytest.mark.parametrize(("body", "expected"), BOUNDS)
def test_bounds(body: str, expected: tuple[float, float] | None) -> None:
    known = asked(body)
    assert _whole.bounds(known, known.scopes[0].find("v"), _whole.DEPTH) == expected


# (the nodes, the limits, whether v has whole numbers between them alone)
WITHIN = [
    (f"{WHOLE} v = Identity (r)", (-3, 5), True),
    (f"{WHOLE} v = Identity (r)", (-2, 5), False),
    (f"{WHOLE} v = Identity (r)", (-3, 4), False),
    (f"{WHOLE} v = Identity (c)", (-3, 5), False),
    ("v = Constant <value_floats = [1.0, 2.5]> ()", (0, 9), False),
    ("v = Constant <value_floats = [1.0, 2.0]> ()", (0, 9), True),
    (f"{WHOLE} v = Cast <to = 6> (c)", (-3, 5), True),
    (f"{WHOLE} v = Cast <to = 10> (r)", (-3, 5), False),
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
    assert _whole.is_within(known, known.scopes[0].find("v"), *limits) == expected
