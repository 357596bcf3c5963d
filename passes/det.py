"""Write the determinant of small matrices in products.

Why       No TensorRT imports Det. Poses and point clouds have it, of 3 x 3 rotations.
Rewrites  Det of 1 x 1, 2 x 2 and 3 x 3 matrices  ->  the products of their rows, added
Exact     To rounding; ONNX Runtime eliminates, which rounds otherwise. Rows are divided by their largest number before,
          so that no product overflows that the determinant does not.
"""

from __future__ import annotations

import numpy as np

from surgeon import Builder, Stage, op, require, rule, var
from surgeon.ir.graph import Value

LARGEST = 3  # rows

x = var("x")


@rule(op.Det(x), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x):
    shape = b.shape(x)
    require(shape is not None and isinstance(shape[-1], int), "the size of the matrices is not static")
    size = shape[-1]
    require(1 <= size <= LARGEST, f"the matrices have {size} rows; up to {LARGEST} are written out")
    if size == 1:
        return b.Squeeze(x, axes=[-2, -1])
    most = b.ReduceMax(b.Abs(x), axes=[-1], keepdims=1)
    most = b.Where(b.Equal(most, 0.0), b.constant(1.0, b.dtype(x)), most)
    scaled = b.Div(x, most)
    rows = [b.Gather(scaled, np.asarray(row), axis=-2) for row in range(size)]
    found = _crossed(b, rows) if size == 3 else _two(b, rows)
    factors = b.Squeeze(most, axes=[-1])
    for row in range(size):
        found = b.Mul(found, b.Gather(factors, np.asarray(row), axis=-1))
    return found


def _two(b: Builder, rows: list[Value]) -> Value:
    """The determinant of two rows."""
    numbers = [b.Gather(row, np.asarray(column), axis=-1) for row in rows for column in range(2)]
    found: Value = b.Sub(b.Mul(numbers[0], numbers[3]), b.Mul(numbers[1], numbers[2]))
    return found


def _crossed(b: Builder, rows: list[Value]) -> Value:
    """The determinant of three rows: the first one by the cross product of the others."""
    crossed = b.Sub(*(b.Mul(_turned(b, rows[1], by), _turned(b, rows[2], 3 - by)) for by in (1, 2)))
    found: Value = b.ReduceSum(b.Mul(rows[0], crossed), axes=[-1], keepdims=0)
    return found


def _turned(b: Builder, row: Value, by: int) -> Value:
    """Three numbers moved to the front in a circle."""
    made: Value = b.Gather(row, np.roll(np.arange(3), -by), axis=-1)
    return made
