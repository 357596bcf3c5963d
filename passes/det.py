"""Write the determinant of small matrices in products.

Why       No TensorRT imports Det. Poses and point clouds have it, of 3 x 3 rotations.
Rewrites  Det of 1 x 1, 2 x 2 and 3 x 3 matrices  ->  the products of their rows, added
Exact     To rounding; ONNX Runtime eliminates, which rounds otherwise.
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
    rows = [b.Gather(x, np.asarray(row), axis=-2) for row in range(size)]
    if size == 3:
        crossed = b.Sub(*(b.Mul(_turned(b, rows[1], by), _turned(b, rows[2], 3 - by)) for by in (1, 2)))
        return b.ReduceSum(b.Mul(rows[0], crossed), axes=[-1], keepdims=0)
    numbers = [b.Gather(row, np.asarray(column), axis=-1) for row in rows for column in range(size)]
    if size == 1:
        return numbers[0]
    return b.Sub(b.Mul(numbers[0], numbers[3]), b.Mul(numbers[1], numbers[2]))


def _turned(b: Builder, row: Value, by: int) -> Value:
    """Three numbers moved to the front in a circle."""
    made: Value = b.Gather(row, np.roll(np.arange(3), -by), axis=-1)
    return made
