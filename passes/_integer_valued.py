"""Which fp32 tensors hold only integers, and how large these may be."""

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value

LIMITS: dict[int, tuple[int, int]] = {TensorProto.UINT8: (0, 255), TensorProto.INT8: (-128, 127)}  # by type
WIDER = frozenset({TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT16})
EXACT = 2**24  # below it fp32 has every integer


def largest(b: Builder, x: Value, zero: Value | None) -> int:
    """How far from 0 a quantized number less its zero point may be."""
    low, high = LIMITS[b.dtype(x)]
    if zero is None:
        return max(-low, high)
    shift = b.value(zero)
    if shift is None:
        return high - low
    return max(int(high - shift.astype(np.int32).min()), int(shift.astype(np.int32).max() - low))


def without_zero(b: Builder, x: Value, zero: Value) -> Value:
    """Quantized numbers less their zero point, as fp32."""
    known = b.value(x)  # of which TensorRT-RTX makes no Cast
    numbers = b.Cast(x, to=TensorProto.FLOAT) if known is None else b.constant(known, TensorProto.FLOAT)
    shift = b.value(zero)
    return numbers if shift is not None and not shift.any() else b.Sub(numbers, zero)


def without_nan(b: Builder, x: Value, limit: float) -> Value:
    """x, but at most the limit where that is positive, and at least where it is negative: NaN becomes the limit."""
    bound = b.constant(limit, TensorProto.FLOAT)
    return b.Where(b.Less(x, bound) if limit > 0 else b.Greater(x, bound), x, bound)
