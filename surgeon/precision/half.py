"""The two types between which a conversion decides, and what fp16 holds of fp32's numbers."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto

from surgeon.ir.lattice import HALVES

HALF, SINGLE = int(TensorProto.FLOAT16), int(TensorProto.FLOAT)
FAMILY = frozenset({HALF, SINGLE})
LARGEST_HALF = float(np.finfo(np.float16).max)  # 65504
SMALLEST_NORMAL_HALF = float(np.finfo(np.float16).smallest_normal)  # 2 ** -14
ROUNDING = 1e-3  # twice fp16's own: a constant whose rounding is worse, relative to its largest element, stays fp32


def computes_in_half(model: ModelProto) -> bool:
    """Whether an input or a weight of a ModelProto is in half precision, or something is cast to it."""
    inputs = (i.type.tensor_type.elem_type for i in model.graph.input)
    casts = (a.i for n in model.graph.node if n.op_type == "Cast" for a in n.attribute if a.name == "to")
    return any(kind in HALVES for kind in (*inputs, *(t.data_type for t in model.graph.initializer), *casts))


def constant_reason(array: np.ndarray, *, divisor: bool = False) -> str:
    """What becomes of a constant in fp16 that must not; empty where rounding is all.

    divisor  whether something is divided by it
    """
    if array.dtype != np.float32 or not array.size:
        return ""
    finite = array[np.isfinite(array)]
    largest = float(np.abs(finite).max(initial=0.0))
    if largest > LARGEST_HALF:
        return "overflows"
    half = finite.astype(np.float16).astype(np.float32)
    if divisor and bool(((finite != 0) & (half == 0)).any()):
        return "has divisors that become 0"
    if largest and float(np.abs(half - finite).max()) > ROUNDING * largest:
        return "becomes 0 or loses its digits"
    return ""


def flushed(array: np.ndarray) -> np.ndarray:
    """The numbers of an array that become 0 in fp16."""
    numbers: np.ndarray = array[(array != 0) & (array.astype(np.float16) == 0)]
    return numbers


def is_beyond_half(array: np.ndarray) -> bool:
    """Whether a finite number of an array is too large for fp16."""
    if array.dtype.kind != "f":
        return False
    finite = array[np.isfinite(array)].astype(np.float64)
    return bool(finite.size) and float(np.abs(finite).max()) > LARGEST_HALF


def rounded_to_half(array: np.ndarray) -> np.ndarray:
    """fp32 numbers in the steps of fp16; those that fp16 does not hold stay."""
    if array.dtype != np.float32:
        return array
    with np.errstate(over="ignore"):
        near = array.astype(np.float16).astype(np.float32)
    return np.where(np.isfinite(near) & (near != 0), near, array)


__all__ = [
    "FAMILY",
    "HALF",
    "LARGEST_HALF",
    "SINGLE",
    "SMALLEST_NORMAL_HALF",
    "computes_in_half",
    "constant_reason",
    "flushed",
    "is_beyond_half",
    "rounded_to_half",
]
