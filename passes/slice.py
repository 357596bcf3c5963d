"""Name the axes that a Slice is about, and its steps.

Why       TensorRT takes axes that are left out for every dimension, and refuses a Slice whose starts are fewer; up to
          10.1 it reads an empty input of axes, with steps behind it, as a tensor. TensorRT-RTX refuses constant int32
          positions of some axes without steps.
Rewrites  Slice(x, starts, ends[, , steps])            ->  Slice(x, starts, ends, [0, 1, ...][, steps])
          Slice(x, starts, ends, axes) of fixed int32  ->  Slice(x, starts, ends, axes, [1, 1, ...])
Exact     Bit for bit.
"""

import numpy as np
from onnx import TensorProto

from surgeon import Stage, no_match, op, require, rule, var

x, starts, ends = var("x"), var("starts"), var("ends")


@rule(op.Slice(x, starts, ends, ...), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x, starts, ends):
    if len(b.root.inputs) < 3:
        no_match()
    axes, steps = [*b.root.inputs[3:], None, None][:2]
    dtype = b.dtype(starts)
    lacks_steps = steps is None and dtype == TensorProto.INT32 and b.value(starts) is not None
    if axes is not None and not lacks_steps:
        no_match()
    count = b.shape(starts)
    require(count and isinstance(count[0], int), "how many axes it is about is not known")
    if axes is None:
        axes = b.constant(np.arange(count[0]), dtype)
    if lacks_steps:
        steps = b.constant(np.ones(count[0]), dtype)
    return b.Slice(x, starts, ends, axes, steps)
