"""Padding with a number, for a target that pads few axes at once, or with zeros alone."""

import numpy as np
from onnx import TensorProto, helper

from surgeon import HALVES, Builder, Value, require, require_some

from .sides import sides


def padded_with(b: Builder, x: Value, pads: np.ndarray, value: Value | np.ndarray, size: list[int | None]) -> Value:
    """x padded with a number that is not 0: by one Pad, or by zeros to which a frame of the number is added.

    `size`: the dimensions of x. Declines where the target supports no such Pad and a padded axis is not static.
    """
    refused = f"{b.why_unsupported(b.root)}"
    constant = None if isinstance(value, Value) else float(value.astype(np.float64).reshape(-1)[0])
    made = _pad(b, x, pads, value if isinstance(value, Value) else constant)
    if made is not None:
        return made
    number = require_some(constant, f"the value is computed at run time, and {refused}")
    dtype = b.dtype(x)
    if dtype in HALVES:
        cast = b.Cast(x, to=TensorProto.FLOAT)
        wide = _pad(b, cast, pads, number)
        if wide is not None:
            return b.Cast(wide, to=dtype)
        b.discard(cast, x)
    axes = [side.axis for side in sides(pads)]
    static = [s for s in (size[a] for a in axes) if s is not None]
    require(len(static) == len(axes) and dtype, f"{refused}, and the size of a padded axis is not static")
    inside = np.ones(pads.shape[1], np.int64)
    inside[axes] = static
    frame = np.pad(np.zeros(inside), [tuple(p) for p in pads.T.tolist()], constant_values=number)
    zeros = padded_with_zeros(b, x, pads)
    return b.Add(zeros, b.constant(frame, helper.tensor_dtype_to_np_dtype(dtype)))


def padded_with_zeros(b: Builder, x: Value, pads: np.ndarray) -> Value:
    """x padded with zeros, by Pads of as many axes as the target supports at once."""
    rank = pads.shape[1]
    at_once = b.target.pad_axes_count or rank
    axes = [side.axis for side in sides(pads)]
    for first in range(0, len(axes), at_once):
        some = axes[first : first + at_once]
        order = list(range(rank))
        if not b.target.pad_any_axis and min(some) < rank - 2:  # to the last two axes and back
            order = [a for a in order if a not in some] + some
            x = b.Transpose(x, perm=order)
        these = np.stack([[pads[s, a] if a in some else 0 for a in order] for s in (0, 1)])
        x = require_some(_pad(b, x, these, None), f"{b.why_unsupported(b.root)}")
        if order != sorted(order):
            x = b.Transpose(x, perm=list(np.argsort(order)))
    return x


def _pad(b: Builder, x: Value, pads: np.ndarray, value: Value | float | None) -> Value | None:
    """A Pad that the target supports; None where there is none. `value`: None for 0."""
    made: Value = b.Pad(x, pads=pads.reshape(-1), mode="constant", value=value)
    assert made.producer is not None
    if b.why_unsupported(made.producer) is None:
        return made
    b.discard(made, x)
    return None
