"""The types that a conversion chooses from, and which numbers of fp32 each of them holds."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto, helper

from surgeon.ir.lattice import HALVES
from surgeon.ir.protos import types_held


class Format(NamedTuple):
    """A floating-point type of a file.

    name             as options and reports call it
    elem             its TensorProto.DataType
    largest          its largest finite number
    smallest_normal  the smallest number that has all its digits
    rounding         how far rounding to it moves a number at most, relative to the number
    """

    name: str
    elem: int
    largest: float
    smallest_normal: float
    rounding: float

    def rounded(self, array: np.ndarray) -> np.ndarray:
        """fp32 numbers in the steps of the type, in fp32; what is too large for it is inf."""
        with np.errstate(over="ignore"):
            return array.astype(helper.tensor_dtype_to_np_dtype(self.elem)).astype(np.float32)


FP32 = Format("fp32", int(TensorProto.FLOAT), float(np.finfo(np.float32).max), 2.0**-126, 2.0**-24)
FP16 = Format("fp16", int(TensorProto.FLOAT16), 65504.0, 2.0**-14, 2.0**-11)
BF16 = Format("bf16", int(TensorProto.BFLOAT16), 2.0**128 - 2.0**120, 2.0**-126, 2.0**-9)
FORMATS = {f.elem: f for f in (FP16, BF16, FP32)}
FAMILY = frozenset(FORMATS)
HALF, SINGLE = FP16.elem, FP32.elem
AT_ONCE = 1 << 18  # elements
COARSE = 2.05  # roundings: a constant that loses more, relative to its largest element, stays fp32


def computes_in_half(model: ModelProto) -> bool:
    """Whether an input or a weight of a ModelProto is in half precision, or something is cast to it."""
    return not HALVES.isdisjoint(types_held(model))


def constant_reason(array: np.ndarray, low: Format = FP16, *, divisor: bool = False, least: float = 0.0) -> str:
    """Why a type does not hold a constant; empty where it is only rounded.

    divisor  whether something is divided by it
    least    the smallest number that comes out where it is added: less than that loses is hidden, but not that it is 0
    """
    if array.dtype != np.float32 or not array.size:
        return ""
    if is_beyond(array, low):
        return "overflows"
    if divisor and flushed(array, low).size:
        return "has divisors that become 0"
    largest, gap = 0.0 if flushed(array, low).size else least, 0.0
    for part in _parts(array):
        finite = part[np.isfinite(part)]
        largest = max(largest, float(np.abs(finite).max(initial=0.0)))
        near = low.rounded(finite.clip(-low.largest, low.largest))
        gap = max(gap, float(np.abs(near - finite).max(initial=0.0)))
    if gap > COARSE * low.rounding * largest:
        return "becomes 0 or loses its digits"
    return ""


def flushed(array: np.ndarray, low: Format = FP16) -> np.ndarray:
    """The numbers of an array that become 0 in a type."""
    return np.concatenate([part[(part != 0) & (low.rounded(part) == 0)] for part in _parts(array)])


def is_beyond(array: np.ndarray, low: Format = FP16) -> bool:
    """Whether a finite number of an array is too large for a type.

    No number is too large for bf16: its largest one is stored in place of a larger one, such as the -3.4e38 of a mask.
    """
    if array.dtype.kind != "f" or low is BF16:
        return False
    ends = [float(np.abs(part[np.isfinite(part)]).max(initial=0.0)) for part in _parts(array)]
    return bool(max(ends) > low.largest)


def _parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """The elements of an array, some at a time: what is computed of weights needs little memory beside them."""
    flat = array.reshape(-1)
    for start in range(0, max(flat.size, 1), AT_ONCE):
        yield flat[start : start + AT_ONCE]


def kept_or_rounded(array: np.ndarray, low: Format = FP16) -> np.ndarray:
    """fp32 numbers in the steps of a type; those that it does not hold stay."""
    if array.dtype != np.float32:
        return array
    near = low.rounded(array)
    return np.where(np.isfinite(near) & (near != 0), near, array)
