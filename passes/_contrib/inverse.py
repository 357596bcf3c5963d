"""The inverse of small matrices as ONNX Runtime finds it: elimination, then substitution from the last row."""

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require

from .._elimination import part, pivoted, without_first
from .table import Result, body, inputs_of

LARGEST = 8  # rows


@body("Inverse")
def inverse(b: Builder) -> Result:
    (x,) = inputs_of(b, 1)
    size = b.static_size(x, -1)
    require(1 <= size <= LARGEST, f"the matrices have {size} rows; up to {LARGEST} are written out")
    a = b.wide(x)
    one = b.Expand(b.constant(np.eye(size), TensorProto.FLOAT), b.Shape(a))
    return b.typed(_substituted(b, _tops(b, b.Concat(a, one, axis=-1), size), size), b.dtype(x))


def _tops(b: Builder, left: Value, size: int) -> list[Value]:
    """The rows of the matrix and of what it is solved for, each without the numbers before its own."""
    tops = []
    for rows in range(size, 1, -1):
        _, top, others = pivoted(b, left, rows)
        tops.append(top)
        _, left = without_first(b, top, others, rows + size)
    return [*tops, left]


def _substituted(b: Builder, tops: list[Value], size: int) -> Value:
    """The solution, from the last row up."""
    solved: Value | None = None
    for count, top in enumerate(reversed(tops)):
        right = part(b, top, -1, count + 1, count + 1 + size)
        if solved is not None:
            right = b.Sub(right, b.MatMul(part(b, top, -1, 1, count + 1), solved))
        row = b.Mul(right, b.Reciprocal(part(b, top, -1, 0, 1)))
        solved = row if solved is None else b.Concat(row, solved, axis=-2)
    assert solved is not None
    return solved
