"""Name the axes that a Slice is about.

Why       TensorRT takes axes that are left out for every dimension, and refuses a Slice whose starts are fewer; up to
          10.1 it reads an empty input of axes, with steps behind it, as a tensor.
Rewrites  Slice(x, starts, ends[, , steps])  ->  Slice(x, starts, ends, [0, 1, ...][, steps])
Exact     Bit for bit.
"""

import numpy as np

from surgeon import Stage, op, require, rewrite, var

x, starts, ends = var("x"), var("starts"), var("ends")


@rewrite(op.Slice(x, starts, ends, ...), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x, starts, ends):
    rest = [*b.root.inputs[3:], None, None][:2]
    require(rest[0] is None and len(b.root.inputs) > 2, "")
    count = b.shape(starts)
    require(count is not None and isinstance(count[0], int), "how many axes it is about is not known")
    return b.Slice(x, starts, ends, np.arange(count[0]), *[s for s in rest[1:] if s is not None])
