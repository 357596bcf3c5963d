"""Write CumProd as one product for each place.

Why       No TensorRT imports CumProd. Volume rendering and survival models have one.
Rewrites  CumProd<exclusive, reverse>(x, axis)  ->  ReduceProd(Where(which places count, x, 1))
Exact     To rounding; integers bit for bit.

The axis must be constant and its length static. On the way x takes as many times its memory as the axis is long.
"""

from __future__ import annotations

import numpy as np

from surgeon import Stage, attr, const, op, require, rule, var

LONGEST = 1024  # places

x, axis = var("x"), const("axis")


@rule(
    op.CumProd(x, axis, exclusive=attr("exclusive"), reverse=attr("reverse")),
    stage=Stage.LOWER,
    strategy="decompose",
)
def decompose(b, x, axis, exclusive, reverse):
    shape = b.shape(x)
    require(shape is not None, "the rank of the input is not known")
    at = int(axis.reshape(())) % len(shape)
    length = shape[at]
    require(isinstance(length, int), "the length of its axis is not static")
    require(length <= LONGEST, f"its axis is longer than {LONGEST}")
    counts = np.tri(length, k=-1 if exclusive else 0, dtype=bool)
    counts = counts.T if reverse else counts
    mask = counts.reshape(length, length, *[1] * (len(shape) - at - 1))
    one = b.constant(np.asarray(1), b.dtype(x))
    return b.ReduceProd(b.Where(mask, b.Unsqueeze(x, axes=[at]), one), axes=[at + 1], keepdims=0)
