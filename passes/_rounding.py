"""Rounding to the nearest integer, ties to even, written in Floor and Ceil."""

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require

WHOLE: dict[int, float] = {
    TensorProto.FLOAT: 2.0**23,
    TensorProto.FLOAT16: 2.0**10,
}  # from here on every number of the type is whole


def rounded(b: Builder, x: Value) -> Value:
    """What Round makes of x, but for the sign of a zero; numbers that are whole for their size go past it."""
    dtype = b.dtype(x)
    require(dtype in WHOLE, "it is of neither fp32 nor fp16")

    def number(value: float) -> Value:
        return b.constant(np.asarray(value), dtype)

    near = b.Min(b.Max(x, number(-WHOLE[dtype])), number(WHOLE[dtype]))
    below = b.Floor(near)
    rest = b.Sub(b.Sub(near, below), number(0.5))
    half = b.Floor(b.Mul(below, number(0.5)))
    odd = b.Sub(below, b.Add(half, half))
    up = b.Ceil(rest)
    at_half = b.Sub(b.Add(b.Floor(rest), number(1.0)), up)
    near_whole = b.Add(b.Add(below, up), b.Mul(odd, at_half))
    return b.Add(near_whole, b.Sub(x, near))
