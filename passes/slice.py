"""Name the axes that a Slice is about.

Why       TensorRT takes axes that are left out for every dimension, and refuses a Slice whose starts are fewer; up to
          10.1 it reads an empty input of axes, with steps behind it, as a tensor.
Rewrites  Slice(x, starts, ends[, , steps])  ->  Slice(x, starts, ends, [0, 1, ...][, steps])
Exact     Bit for bit.
"""

import numpy as np

from surgeon import Stage, not_mine, op, require, rule, var

x, starts, ends = var("x"), var("starts"), var("ends")


@rule(op.Slice(x, starts, ends, ...), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x, starts, ends):
    if len(b.root.inputs) < 3:
        not_mine()
    axes, steps = [*b.root.inputs[3:], None, None][:2]
    if axes is not None:
        not_mine()
    count = b.shape(starts)
    require(count is not None and isinstance(count[0], int), "how many axes it is about is not known")
    return b.Slice(x, starts, ends, np.arange(count[0]), steps)
