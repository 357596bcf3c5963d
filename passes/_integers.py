"""Small integers in a type that TensorRT computes with."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from surgeon import Builder, Value, require
from surgeon.targets.condition import dtype_name

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
