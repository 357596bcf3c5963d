"""What passes know of sizes that are computed at run time: passes/_shapes.py, asked row by row."""

from __future__ import annotations

import pytest
from asked import Asked
from surgeon.passes import _shapes

from surgeon import Dim


def asked(x: str, body: str) -> Asked:
    """Tensors after x, of these dimensions, and its twin."""
    return Asked(f"float[{x}] x, float[{x}] twin", body)


def said(found: list[Dim] | None) -> object:
    """Dimensions without a name as text: `x[1]` is axis 1 of x."""
    return found and [f"{d[0].name}[{d[1]}]" if isinstance(d, tuple) else d for d in found]


NUMBERS = {"p0": 0, "p1": 1, "p2": 2, "p3": 3, "m1": -1, "m2": -2, "m3": -3}
SLICED = " ".join(f"{n} = Constant <value_ints = [{v}]> ()" for n, v in NUMBERS.items()) + " s = Shape (x)"
TABLE = "s = Shape (x) two = Constant <value_ints = [2, 2]> () t = Reshape (s, two)"
# (x's dimensions, the nodes, what the elements of v are)
ELEMENTS = [
    ("N,3,4", "v = Shape (x)", ["N", 3, 4]),
    ("N,3,4", "v = Shape <start = 1> (x)", [3, 4]),
    ("N,3,M", "v = Shape <start = -2, end = -1> (x)", [3]),
    ("N,3,M", "v = Shape <end = 2> (x)", ["N", 3]),
    ("N,3", "v = Identity (one)", [None]),
    ("N,3", "v = Identity (pair)", [None, None]),
    ("N,3", "v = Identity (many)", None),
    ("N,3", "v = Constant <value_ints = [5, -6]> ()", [5, -6]),
    ("N,3", "v = Constant <value_floats = [5.0, 6.0]> ()", [5, 6]),
    ("N,3", "v = Constant <value_floats = [5.5, 6.0]> ()", None),
    ("N,3", "v = Constant <value_ints = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]> ()", [*range(1, 17)]),
    ("N,3", "v = Constant <value_ints = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]> ()", None),
    ("N,3", "s = Shape (x) v = Cast <to = 6> (s)", ["N", 3]),
    ("N,3", "s = Shape (x) axes = Constant <value_ints = [0]> () v = Unsqueeze (s, axes)", ["N", 3]),
    ("N,3", "s = Shape (x) v = CastLike (s, x)", ["N", 3]),
    ("N,3", "s = Shape (x) v = Identity (s)", ["N", 3]),
    ("N,3", "s = Shape (x) v = Reshape (s, one)", ["N", 3]),
    ("N,3", "s = Shape (x) v = Flatten (s)", ["N", 3]),
    ("N,3", "s = Shape (x) a = Constant <value_ints = [0]> () u = Unsqueeze (s, a) v = Squeeze (u, a)", ["N", 3]),
    ("N,3", "s = Shape (x) v = Neg (s)", [None, None]),
    ("2,N,3", "s = Shape <end = 1> (x) t = Shape <start = 2> (x) v = Sub (t, s)", [1]),
    ("N,3", "s = Shape <end = 1> (x) t = Shape <start = 1> (x) v = Sub (t, s)", [None]),
    ("N,3", "v = Concat <axis = 0> (one, pair)", [None, None, None]),
    ("N,3", "v = Concat <axis = 0> (one, many)", None),
    ("N,3", "s = Shape (x) c = Constant <value_ints = [7]> () v = Concat <axis = 0> (s, c)", ["N", 3, 7]),
    ("N,3", "s = Shape (x) v = ReduceProd <keepdims = 0> (s)", [None]),
    ("N,3", "v = Add (one, one)", [None]),
    ("N,3,M", "s = Shape (x) i = Constant <value_ints = [2, -3, 1]> () v = Gather (s, i)", ["M", "N", 3]),
    ("N,3", "s = Shape (x) i = Constant <value_ints = [2]> () v = Gather (s, i)", [None]),
    ("N,3", "s = Shape (x) i = Constant <value_ints = [-3]> () v = Gather (s, i)", [None]),
    ("N,3", "s = Shape (x) v = Gather (s, one)", [None]),
    ("N,3,M", "s = Shape (x) a, v, c = Split <axis = 0> (s)", [3]),
    ("N,3,M,4", "s = Shape (x) a, v = Split <axis = 0> (s)", ["M", 4]),
    ("N,3,M", "s = Shape (x) n = Constant <value_ints = [1, 2]> () a, v = Split <axis = 0> (s, n)", [3, "M"]),
    ("N,3,M", "s = Shape (x) n = Constant <value_ints = [1, 2]> () v, b = Split <axis = 0> (s, n)", ["N"]),
    ("N,3,M", "s = Shape (x) a, v = Split <axis = 0> (s, pair)", None),
    ("N,3", "a, v = Split <axis = 0> (many)", None),
    ("N,3,M", f"{SLICED} v = Slice (s, p1, p3)", [3, "M"]),
    ("N,3,M", f"{SLICED} v = Slice (s, m2, m1)", [3]),
    ("N,3,M", f"{SLICED} v = Slice (s, p0, p3, p0, p2)", ["N", "M"]),
    ("N,3,M", f"{SLICED} v = Slice (s, m1, m3, p0, m1)", ["M", 3]),
    ("N,3,M", f"{SLICED} v = Slice (s, p0, one)", None),
    ("N,3,M,4", f"{TABLE} v = Concat <axis = 0> (t, t)", ["N", 3, "M", 4, "N", 3, "M", 4]),
    ("N,3,M,4", f"{TABLE} v = Concat <axis = 1> (t, t)", ["N", 3, "N", 3, "M", 4, "M", 4]),
    ("N,3,M,4", f"{TABLE} v = Transpose (t)", ["N", "M", 3, 4]),
    ("N,3,M,4", f"{TABLE} i = Constant <value_ints = [1, 0]> () v = Gather <axis = 1> (t, i)", [3, "N", 4, "M"]),
    ("N,3,M,4", f"{TABLE} r = Constant <value_ints = [1, 2]> () v = Tile (t, r)", ["N", 3, "N", 3, "M", 4, "M", 4]),
    ("N,3,M,4", f"{TABLE} a, v = Split <axis = 1> (t)", [3, 4]),
    ("N,7", "s = Shape (x) c = Constant <value_ints = [-2]> () v = Div (s, c)", [None, -3]),
    ("N,7", "s = Shape (x) h = Cast <to = 1> (s) c = Constant <value_float = 0.5> () v = Mul (h, c)", [None, None]),
    ("N,7", "s = Shape (x) h = Cast <to = 1> (s) c = Constant <value_float = 2.0> () v = Mul (h, c)", [None, 14]),
]


@pytest.mark.parametrize(("x", "body", "expected"), ELEMENTS)
def test_elements(x: str, body: str, expected: object) -> None:
    tensors = asked(x, body)
    assert said(tensors.b.elements(tensors["v"])) == expected


FOLDED = "c = Constant <value_ints = [{0}]> () v = Reshape (x, c)"
# (x's dimensions, the nodes, the dimensions of v)
DIMS = [
    ("2,3", "v = Relu (x)", [2, 3]),
    ("N,3", "v = Cast <to = 10> (x)", ["N", 3]),
    ("N,6", "r = Reshape (x, many) v = CastLike (r, x)", None),
    ("N,6", "c = Constant <value_ints = [0, 6]> () r = Reshape (x, c) v = Cast <to = 10> (r)", ["N", 6]),
    ("N,3,4", FOLDED.format("0, -1"), ["N", 12]),
    ("N,3,4", FOLDED.format("-1, 4"), ["unk__0", 4]),
    ("N,3,4", FOLDED.format("0, 0, 2, 2"), ["N", 3, 2, 2]),
    ("N,4,4", FOLDED.format("-1, 16"), ["N", 16]),
    ("N,M,4", FOLDED.format("0, -1"), ["N", "unk__0"]),
    ("N,3,4", FOLDED.format("12, -1"), [12, "N"]),
    ("N,3,4", FOLDED.format("6, -1"), [6, "unk__0"]),
    ("N,3,4", "c = Constant <value_ints = [0]> () t = Concat <axis = 0> (c, one) v = Reshape (x, t)", ["N", "unk__0"]),
    ("N,3", "c = Constant <value_ints = [0]> () t = Concat <axis = 0> (one, c) v = Reshape (x, t)", ["N", 3]),
    ("0,M", "c = Constant <value_ints = [0]> () t = Concat <axis = 0> (c, one) v = Reshape (x, t)", [0, "unk__0"]),
    ("N,6", "s = Shape (twin) v = Reshape (x, s)", ["N", 6]),
    ("N,6", "v = Reshape (x, pair)", ["unk__0", "unk__1"]),
    ("N,6", "v = Reshape (x, many)", None),
    ("N,6", "r = Reshape (x, many) v = Identity (r)", None),
    ("N,6", "r = Reshape (x, pair) v = Identity (r)", ["unk__0", "unk__1"]),
]


@pytest.mark.parametrize(("x", "body", "expected"), DIMS)
def test_dims(x: str, body: str, expected: object) -> None:
    tensors = asked(x, body)
    assert said(tensors.b.dims(tensors["v"])) == expected


# (x's dimensions, the nodes, whether x and v, which have equally many elements, have the same dimensions)
SAME = [
    ("N,6", FOLDED.format("0, 6"), True),
    ("N,6", FOLDED.format("6, -1"), False),
    ("N,6", FOLDED.format("-1, 6"), True),
    ("N,6", FOLDED.format("-1, 2, 3"), False),
    ("N,M,6", FOLDED.format("-1, 2, 6"), False),
    ("N,M", "v = Reshape (x, pair)", False),
    ("N,M", "v = Reshape (x, many)", False),
    ("N,M,3", "c = Constant <value_ints = [0, -1, 3]> () v = Reshape (x, c)", True),
    ("N,M", "c = Constant <value_ints = [0]> () t = Concat <axis = 0> (c, one) v = Reshape (x, t)", True),
    ("0,M", "c = Constant <value_ints = [0]> () t = Concat <axis = 0> (c, one) v = Reshape (x, t)", False),
    ("2,3", FOLDED.format("3, 2"), False),
]


@pytest.mark.parametrize(("x", "body", "same"), SAME)
def test_same_shape(x: str, body: str, same: bool) -> None:
    tensors = asked(x, body)
    assert _shapes.same_shape(tensors.b, tensors["x"], tensors["v"]) == same
    assert _shapes.same_shape(tensors.b, tensors["v"], tensors["x"]) == same


# (what is given, the whole, whether it broadcasts to the whole and leaves that as it is)
NO_LARGER = [
    ([], [2], True),
    ([1, 3], ["N", 3], True),
    (["N", 1], ["N", 3], True),
    ([3], ["N", 3], True),
    ([2], ["N", 3], False),
    ([3], [1], False),
    (["N", 3], [3], False),
    (["M", 3], ["N", 3], False),
    ([None], [None], False),
    (None, [3], False),
    ([3], None, False),
]


@pytest.mark.parametrize(("given", "whole", "fits"), NO_LARGER)
def test_no_larger(given: list[Dim] | None, whole: list[Dim] | None, fits: bool) -> None:
    assert _shapes.no_larger(given, whole) == fits


# (the order of one Transpose, that of the next, whether it undoes the first)
ORDERS = [
    ([0, 2, 1], [0, 2, 1], True),
    ([1, 2, 0], [2, 0, 1], True),
    ([1, 2, 0], [1, 2, 0], False),
    ([1, 0], [1, 0, 2], False),
    (None, [1, 0], False),
    ([1, 0], None, False),
]


@pytest.mark.parametrize(("inner", "outer", "undone"), ORDERS)
def test_cancel(inner: list[int] | None, outer: list[int] | None, undone: bool) -> None:
    assert _shapes.cancel(inner, outer) == undone
