"""Write AffineGrid as a MatMul of a constant grid.

Why       No TensorRT imports AffineGrid, which spatial transformers have in front of GridSample.
Rewrites  AffineGrid<align_corners>(theta, size)  ->  MatMul(constant grid, Transpose(theta)) in the shape of the output
Exact     To rounding.
"""

from __future__ import annotations

import numpy as np

from surgeon import Stage, attr, const, op, require, rule, var

LARGEST = 2**24  # numbers in the grid

theta, size = var("theta"), const("size")


@rule(op.AffineGrid(theta, size, align_corners=attr("aligned")), stage=Stage.LOWER, strategy="decompose")
def decompose(b, theta, size, aligned):
    sizes = [int(d) for d in size[2:]]
    rank = len(sizes)
    require(np.prod(sizes, dtype=np.int64) * (rank + 1) <= LARGEST, f"its grid has more than {LARGEST} numbers")
    lines = [_line(d, bool(aligned)) for d in sizes]
    grid = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(sizes)], -1)
    points = b.constant(grid.reshape(-1, rank + 1), b.dtype(theta))
    moved = b.MatMul(points, b.Transpose(theta, perm=[0, 2, 1]))
    return b.Reshape(moved, np.asarray([-1, *sizes, rank], np.int64))


def _line(size: int, aligned: bool) -> np.ndarray:
    """The coordinates along an axis, from -1 to 1: of the pixels' corners or of their centres."""
    if aligned:
        return np.linspace(-1, 1, size) if size > 1 else np.zeros(1)
    return (2 * np.arange(size) + 1) / size - 1
