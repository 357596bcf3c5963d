"""Scales and shifts of a normalisation as vectors: passes/_norm/factors.py, asked row by row."""

from __future__ import annotations

import numpy as np
import pytest
from asked import Asked
from onnx import TensorProto
from surgeon.passes._norm import factors
from surgeon.passes._norm.window import Normalisation

from surgeon.ir.graph import Value
from surgeon.rules.rule import Decline

X = "float[N,3,4] x, float[N,C,4] wide, float[3] three, float[3,1] column, float[1,3,1] middle, float[N,3,4] whole"
C = "v = Constant <value = float[{0}] {{{1}}}> ()"


def asked(body: str = "", axes: tuple[int, ...] = (1,), of: str = "x") -> tuple[Asked, Normalisation]:
    tensors = Asked(X, body)
    shape = tensors.b.shape(tensors[of])
    assert shape is not None
    return tensors, Normalisation(tensors[of], list(shape), axes)


def shown(found: factors.Factor | None) -> object:
    """An array as a list; a tensor by its name."""
    return found.tolist() if isinstance(found, np.ndarray) else found and found.name


# (the nodes, the factor, the axes, x, what it is along them)
ALONG = [
    (C.format("1", "2"), "v", (1,), "x", [2]),
    (C.format("1,1,1,1", "2"), "v", (1,), "x", None),
    (C.format("3,1", "1,2,3"), "v", (1,), "x", [1, 2, 3]),
    (C.format("1,3,1", "1,2,3"), "v", (1,), "x", [1, 2, 3]),
    (C.format("3,1", "1,2,3"), "v", (2,), "x", None),
    (C.format("4", "1,2,3,4"), "v", (2,), "x", [1, 2, 3, 4]),
    (C.format("4", "5,5,5,5"), "v", (1,), "x", [5, 5, 5]),
    (C.format("3,4", "1,1,1,1,2,2,2,2,3,3,3,3"), "v", (1,), "x", [1, 2, 3]),
    (C.format("3,4", "1,1,1,1,2,2,2,2,3,3,3,9"), "v", (1,), "x", None),
    (C.format("3,4", "1,1,1,1,2,2,2,2,3,3,3,3"), "v", (1, 2), "x", [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]),
    (C.format("3,1", "1,2,3"), "v", (1, 2), "x", [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]),
    (C.format("2,1", "1,2"), "v", (1,), "x", None),
    (C.format("2,1,1", "1,2"), "v", (1,), "x", None),
    (C.format("4", "1,2,3,4"), "v", (2,), "wide", [1, 2, 3, 4]),
    (C.format("4", "5,5,5,5"), "v", (1,), "wide", None),
    ("", "column", (1,), "x", "column"),
    ("", "middle", (1,), "x", "middle"),
    ("", "three", (1,), "x", None),
    ("", "column", (2,), "x", None),
    ("", "whole", (1,), "x", None),
    ("", "whole", (0, 1, 2), "x", "whole"),
    ("v = Reshape (three, many)", "v", (1,), "x", None),
]


@pytest.mark.parametrize(("body", "name", "axes", "of", "expected"), ALONG)
def test_along(body: str, name: str, axes: tuple[int, ...], of: str, expected: object) -> None:
    tensors, n = asked(body, axes, of)
    assert shown(factors.along(tensors.b, tensors[name], n, axes)) == expected


def test_a_vector_along_an_axis_of_unknown_size_may_make_x_larger() -> None:
    tensors, n = asked(C.format("3,1", "1,1,1"), (1,), "wide")
    with pytest.raises(Decline, match=r"of shape \[3, 1\] may make the result larger"):
        factors.along(tensors.b, tensors["v"], n, (1,))


# (the nodes, the factor, whether it varies along the axis 1 alone, whether it has the shape of the axes 1 and 2)
VARYING = [
    (C.format("3,1", "1,2,3"), "v", True, False),
    (C.format("1,1", "1"), "v", False, False),
    (C.format("3,4", "1,1,1,1,2,2,2,2,3,3,3,3"), "v", False, True),
    (C.format("1,3,4", "1,1,1,1,2,2,2,2,3,3,3,3"), "v", False, True),
    (C.format("1,1,3,1", "1,2,3"), "v", False, False),
    ("", "column", True, False),
    ("", "whole", False, False),
    ("v = Reshape (three, many)", "v", False, False),
]


@pytest.mark.parametrize(("body", "name", "varies", "full"), VARYING)
def test_varies_along_and_has_full_shape(body: str, name: str, varies: bool, full: bool) -> None:
    tensors, n = asked(body, (1, 2))
    assert factors.varies_along(tensors.b, n, [tensors[name]], 1) == varies
    assert factors.varies_along(tensors.b, n, [tensors["whole"], tensors[name]], 1) == varies
    assert factors.has_full_shape(tensors.b, n, [tensors[name]]) == full
    assert factors.has_full_shape(tensors.b, n, [tensors["three"], tensors[name]]) == full


# (the nodes, the number, whether every element of v is the number)
UNIFORM = [
    (C.format("2", "1,1"), 1.0, True),
    (C.format("2", "1,2"), 1.0, False),
    ("v = ConstantOfShape (pair)", 0.0, True),
    ("v = ConstantOfShape (pair)", 1.0, False),
    ("v = ConstantOfShape <value = float[1] {1.0}> (pair)", 1.0, True),
    ("v = Abs (three)", 0.0, False),
]


@pytest.mark.parametrize(("body", "number", "uniform"), UNIFORM)
def test_is_uniform(body: str, number: float, uniform: bool) -> None:
    tensors, _ = asked(body)
    assert factors.is_uniform(tensors.b, tensors["v"], number) == uniform
    assert not factors.is_uniform(tensors.b, tensors["three"], number)


ARRAY, ONES, ZEROS = np.array([2.0, 3.0], np.float32), np.ones(2, np.float32), np.zeros(2, np.float32)


def test_constants_are_multiplied_and_added_here() -> None:
    b = asked()[0].b
    assert shown(factors.combined(b, "Mul", ARRAY, ARRAY)) == [4, 9] and shown(
        factors.combined(b, "Add", ARRAY, ONES)
    ) == [3, 4]
    product = factors.combined(b, "Mul", ARRAY, ARRAY)
    assert isinstance(product, np.ndarray) and product.dtype == np.float64


@pytest.mark.parametrize("turned", [False, True])
def test_what_changes_nothing_makes_no_node(turned: bool) -> None:
    tensors, _ = asked()
    b, x = tensors.b, tensors["three"]
    order = (lambda one, other: (other, one)) if turned else (lambda one, other: (one, other))
    assert factors.combined(b, "Mul", *order(ONES, x)) is x and factors.combined(b, "Add", *order(ZEROS, x)) is x
    assert not b.made
    for key in ("Mul", "Add"):
        made = factors.combined(b, key, *order(ARRAY, x))
        assert isinstance(made, Value) and made.producer is not None and made.producer.key == key
        assert x in made.producer.inputs and any(b.value(v) is not None for v in made.producer.inputs)


# (the nodes, the factor, the size, the type, the type and the elements of a constant, or the nodes that are made)
VECTORS = [
    ("", [2.0], 3, TensorProto.FLOAT16, (np.float16, [2, 2, 2])),
    ("", [2.0], None, TensorProto.FLOAT, (np.float32, [2])),
    ("", [2.0, 3.0], 2, TensorProto.FLOAT, (np.float32, [2, 3])),
    ("", "three", None, TensorProto.FLOAT, []),
    ("", "three", None, TensorProto.FLOAT16, ["Cast"]),
    ("", "column", None, TensorProto.FLOAT, ["Reshape"]),
    ("", "column", None, TensorProto.DOUBLE, ["Reshape", "Cast"]),
    ("v = Reshape (three, pair)", "v", None, TensorProto.FLOAT, []),
    ("a = Unsqueeze (three, one) v = Reshape (a, pair)", "v", None, TensorProto.FLOAT, []),
    ("v = Neg (column)", "v", None, TensorProto.FLOAT, ["Reshape"]),
    ("v = Reshape (middle, one)", "v", None, TensorProto.FLOAT, []),
]


@pytest.mark.parametrize(("body", "factor", "size", "dtype", "expected"), VECTORS)
def test_vector(body: str, factor: object, size: int | None, dtype: int, expected: object) -> None:
    tensors, _ = asked(body)
    b = tensors.b
    given = tensors[factor] if isinstance(factor, str) else np.array(factor)
    made = factors.vector(b, given, size, dtype)
    if isinstance(expected, tuple):
        array = b.value(made)
        assert array is not None and (array.dtype, array.tolist()) == (np.dtype(expected[0]), expected[1])
    else:
        assert [n.key for n in b.made] == expected and b.rank(made) == 1


# (the factor, the sizes, an array of that shape, or how many nodes are made)
AXES = [
    ([1.0, 1.0], [2], None),
    ([2.0], [2, 3], (1,)),
    ([2.0, 3.0], [2], (2,)),
    ([2.0, 3.0], [1, 2], (1, 2)),
    ([2.0, 3.0], [1, "N"], (1, 2)),
    ("three", [3], 0),
    ("three", [1, 3], 1),
    ("column", [3, 1], 2),
]


@pytest.mark.parametrize(("factor", "sizes", "expected"), AXES)
def test_along_axes(factor: object, sizes: list[object], expected: object) -> None:
    tensors, _ = asked()
    given = tensors[factor] if isinstance(factor, str) else np.array(factor)
    made = factors.along_axes(tensors.b, given, sizes, TensorProto.FLOAT, 1.0)
    if isinstance(made, np.ndarray):
        assert made.shape == expected and made.dtype == np.float32
    elif made is None:
        assert expected is None
    else:
        assert len(tensors.b.made) == expected


# (the nodes, the vector of channels, the rank of x, the name or the shape of the factor)
CHANNELS = [
    (C.format("3", "1,2,3"), "v", 4, [3, 1, 1]),
    ("", "three", 4, "Reshape"),
    ("v = Reshape (middle, one)", "v", 3, "middle"),
    ("v = Reshape (middle, one)", "v", 4, "Reshape"),
    ("v = Reshape (column, one)", "v", 3, "column"),
    ("v = Reshape (column, one)", "v", 4, "Reshape"),
    ("v = Reshape (whole, one)", "v", 3, "Reshape"),
    ("v = Reshape (whole, one)", "v", 2, "Reshape"),
    ("a = Neg (middle) v = Squeeze (a)", "v", 3, "Reshape"),
]


@pytest.mark.parametrize(("body", "name", "rank", "expected"), CHANNELS)
def test_of_channels(body: str, name: str, rank: int, expected: object) -> None:
    tensors, _ = asked(body)
    made = factors.of_channels(tensors.b, tensors[name], rank)
    if isinstance(made, np.ndarray):
        assert list(made.shape) == expected
    else:
        assert (made.producer.key if made.producer is not None and tensors.b.made else made.name) == expected
