"""Arithmetic that passes write alike: integers in fp32 and in wider types, rounding, half precision, elimination."""

import math
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from surgeon import Builder, Value, require, require_some
from surgeon.targets.condition import dtype_name

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


WHOLE: dict[int, float] = {
    TensorProto.FLOAT: 2.0**23,
    TensorProto.FLOAT16: 2.0**10,
}  # from here on every number of the type is whole


def rounded(b: Builder, x: Value) -> Value:
    """What Round makes of x, but for the sign of a zero; numbers that are whole for their size go past it."""
    dtype = b.dtype(x)
    require(dtype in WHOLE, "it is of neither fp32 nor fp16")

    def number(value: float) -> Value:
        return b.constant(value, dtype)

    near = b.Min(b.Max(x, number(-WHOLE[dtype])), number(WHOLE[dtype]))
    below = b.Floor(near)
    rest = b.Sub(b.Sub(near, below), number(0.5))
    half = b.Floor(b.Mul(below, number(0.5)))
    odd = b.Sub(below, b.Add(half, half))
    up = b.Ceil(rest)
    at_half = b.Sub(b.Add(b.Floor(rest), number(1.0)), up)
    near_whole = b.Add(b.Add(below, up), b.Mul(odd, at_half))
    return b.Add(near_whole, b.Sub(x, near))


CARRIERS: dict[int, int] = {
    TensorProto.INT8: TensorProto.INT32,
    TensorProto.UINT8: TensorProto.INT32,
    TensorProto.INT32: TensorProto.INT32,
    TensorProto.INT64: TensorProto.INT64,
}


def bits_of(dtype: int) -> int:
    """How many bits a number of an integer type has."""
    return int(np.iinfo(helper.tensor_dtype_to_np_dtype(dtype)).bits)


def carried(b: Builder, x: Value) -> Value:
    """The integers of x in the type that holds them."""
    dtype = b.dtype(x)
    require(dtype in CARRIERS, f"no type of TensorRT has {dtype_name(dtype)}")
    known = b.value(x)
    if CARRIERS[dtype] == dtype:
        return x
    return b.Cast(x, to=CARRIERS[dtype]) if known is None else b.constant(known, CARRIERS[dtype])


def wrapped(b: Builder, x: Value, dtype: int) -> Value:
    """What is stored in x as the type itself, modulo its range; of int32 and int64, x as it is."""
    if dtype == TensorProto.UINT8:
        return b.Cast(b.Mod(x, 256), to=dtype)
    if dtype == TensorProto.INT8:
        return b.Cast(b.Sub(b.Mod(b.Add(x, 128), 256), 128), to=dtype)
    return x


def numbers(b: Builder, given: Any, dtype: int) -> Value:
    """A constant of the type that has `dtype`."""
    array = np.asarray(given, object)
    short = all(-(2**31) <= n < 2**31 for n in array.reshape(-1))
    require(short or b.target.int64, "this TensorRT computes int64 in int32")
    return b.constant(array, CARRIERS[dtype])


def in_fp32(b: Builder) -> Value:
    """The root computed in fp32, with only its result rounded, to the type of its first input."""
    wide = b.again([None if v is None else b.wide(v) for v in b.root.inputs])
    return b.Cast(wide, to=b.dtype(require_some(b.root.inputs[0])))


ROOT, CUBIC = math.sqrt(2 / math.pi), 0.044715  # of Gelu with tanh


def gelu_formula(b: Builder, x: Value, approximate: str | None = None) -> Value:
    """Gelu without the node."""
    if approximate != "tanh":
        return b.Mul(b.Mul(x, b.Add(b.Erf(b.Div(x, math.sqrt(2))), 1.0)), 0.5)
    cubed = b.Mul(b.Mul(x, x), x)
    tanh = b.Tanh(b.Mul(b.Add(x, b.Mul(cubed, CUBIC)), ROOT))
    return b.Mul(b.Mul(x, b.Add(tanh, 1.0)), 0.5)


def gelu(b: Builder, x: Value, approximate: str | None = None) -> Value:
    """The node where ONNX has it for the type of x, else the formula."""
    return b.Gelu(x, approximate=approximate) if b.has_op("Gelu", b.dtype(x)) else gelu_formula(b, x, approximate)


def over_nothing(b: Builder, op: str, x: Value) -> Any:
    """What the Reduce operator `op` makes of each number of x alone."""
    if op in ("ReduceL1", "ReduceL2"):
        return b.Abs(x)
    if op == "ReduceSumSquare":
        return b.Mul(x, x)
    return b.Log(x) if op == "ReduceLogSum" else x


def pivoted(b: Builder, x: Value, rows: int) -> tuple[Value, Value, Value]:
    """(which row has the largest first number, that row, the others below it whose place it had)."""
    column = b.Squeeze(part(b, x, -1, 0, 1), axes=[-1])
    best = b.ArgMax(b.Abs(column), axis=-1, keepdims=0)
    # for each row, the order in which it has changed places with the first one
    orders = np.tile(np.arange(rows), (rows, 1))
    orders[:, 0] = np.arange(rows)
    orders[np.arange(rows), np.arange(rows)] = 0
    order = b.Unsqueeze(b.Gather(orders, best, axis=0), axes=[-1])
    moved = b.GatherElements(x, b.Expand(order, b.Shape(x)), axis=-2)
    return best, part(b, moved, -2, 0, 1), part(b, moved, -2, 1, rows)


def without_first(b: Builder, top: Value, others: Value, columns: int) -> tuple[Value, Value]:
    """(the first number of the top row, the other rows less a multiple of it that makes their first number 0, which is
    left out)."""
    pivot = part(b, top, -1, 0, 1)
    divisor = b.Where(b.Equal(pivot, 0.0), b.constant(1.0, b.dtype(top)), pivot)
    factors = b.Div(part(b, others, -1, 0, 1), divisor)
    return pivot, b.Sub(part(b, others, -1, 1, columns), b.Mul(factors, part(b, top, -1, 1, columns)))


def part(b: Builder, x: Value, axis: int, first: int, end: int) -> Value:
    return b.Slice(x, [first], [end], [axis])
