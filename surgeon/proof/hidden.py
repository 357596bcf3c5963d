"""Differences that a tolerance relative to the largest element hides: of single elements, of all together, of signs.

1. An element that is far off for its own size, which neither rounding nor its inputs explain, and further off than
   ONNX Runtime itself is.
2. A bias: rounding moves elements up and down, and not most of them one way.
3. The sign of a zero, where a Reciprocal or a Div after the window makes an infinity of it, and that of an infinity.
"""

from collections.abc import Iterator

import ml_dtypes
import numpy as np
from onnx import ModelProto

from surgeon.ir.operators import (
    BROADCASTS,
    ELEMENTWISE,
    EXACT,
    FILLS,
    INTERPOLATES,
    MEASURES,
    MOVES,
    PICKS,
    RETURNS_BOOL,
    ROUNDS,
)
from surgeon.proof.equality import is_float
from surgeon.proof.exact import Exact
from surgeon.proof.feeds import NOT_FINITE

OFF = 1e-4  # of an element, from which on its difference is looked at; of a sum, and in half precision:
OFF_IN_SUMS = 0.01
OFF_IN_HALF = 0.02
LEAST = 1e4  # times the smallest normal number: of what is smaller the squares are denormal
EXPLAINED = 8.0  # times what rounding moves an element by
BIAS = 0.6  # steps of half precision that the median may be off; a constant that is rounded once makes half of one
BIAS_OF_SINGLE = 16.0  # the same of fp32 and double, in steps of fp32
HAS_MEDIAN = frozenset({"in order", "large", "random", "wide"})  # kinds of inputs
FEWEST = 16  # elements that have a median
NO_OVERFLOW = 40.0  # of an input: its exponential has a square in fp32, too
NOT_LOOKED_AT = NOT_FINITE | {"beyond", "denormal", "huge", "saturated", "tiny", "scaled"}
# Whose result has one sign of zero, whichever kernel computes it.
CHOOSING = PICKS | {"Relu"}  # of two zeros a kernel takes either
ARITHMETIC = BROADCASTS & ROUNDS - {"Pow"}
SIGNED = (EXACT | MOVES | ARITHMETIC | {"Reciprocal", "Sqrt"}) - INTERPOLATES - CHOOSING
CHOSEN = RETURNS_BOOL | {"Where"}
WITHOUT_ZEROS = frozenset({"large", "random", "shifted"})  # kinds of inputs

# Celu, for one, is a difference of numbers near 1 in ONNX Runtime, and rounds as these do.
FUNCTIONS = ROUNDS - BROADCASTS - {"Reciprocal", "Sqrt"}
NOT_SUMMED = (ELEMENTWISE | FILLS | MEASURES | MOVES | PICKS | {"Constant", "ConstantOfShape"}) - FUNCTIONS


def lost_element(a: np.ndarray, b: np.ndarray, exact: Exact, index: int, *, sums: bool) -> str:
    """How an element of `a` differs from that of the original `b` by more than its rounding; empty where none does.

    sums  whether the original adds up elements: one that is small is rounded as the largest one is
    """
    if not is_float(b.dtype) or a.shape != b.shape:
        return ""
    info = ml_dtypes.finfo(b.dtype)  # type: ignore[no-untyped-call]
    a, b, of = a.astype(np.float64), b.astype(np.float64), b.dtype
    with np.errstate(all="ignore"):
        gap = np.abs(a - b)
        off = np.isfinite(gap) & (gap > (OFF_IN_HALF if of.itemsize == 2 else OFF_IN_SUMS if sums else OFF) * np.abs(b))
        off &= np.abs(b) > (LEAST if of.itemsize > 2 else 4) * float(info.smallest_normal)
    if not off.any():
        return ""
    # Gelu, for one, makes much smaller numbers of x than x is, and rounds as that does.
    read = [np.abs(x.astype(np.float64)) for x in exact.feeds.values() if is_float(x.dtype) and x.shape == b.shape]
    if sums:
        read.append(np.asarray(np.abs(b[np.isfinite(b)]).max() / 2))
    off &= gap > EXPLAINED * float(info.eps) * sum(read, np.abs(b))
    moves = exact.moves(index, of) if off.any() else None
    if moves is None or moves.shape != b.shape:
        return ""
    off &= gap > EXPLAINED * moves
    reference = exact.output(index) if off.any() else None
    # ONNX Runtime's own DFT and STFT are off by more than rounding: what is nearer to the exact one is right.
    if reference is not None and reference.shape == b.shape:
        with np.errstate(invalid="ignore"):  # of infinities and NaN neither is nearer
            off &= ~(np.abs(a - reference) < np.abs(b - reference))
    if not off.any():
        return ""
    worst = np.unravel_index(np.argmax(np.where(off, gap, 0.0)), b.shape)
    by = f"which rounding moves by {moves[worst]:.1g}"
    return f"it returns {a[worst]:.7g} instead of {b[worst]:.7g} for an element, {by}"


def bias(a: np.ndarray, b: np.ndarray, exact: Exact, index: int) -> str:
    """By how much most elements of `a` are larger or smaller than those of the original; empty for rounding."""
    if not is_float(b.dtype) or a.shape != b.shape or b.size < FEWEST:
        return ""
    most = _most_bias(b.dtype)
    found = [m for m in _medians(a, b) if abs(m) > most]
    if not found:
        return ""
    reference = exact.output(index)
    if reference is not None and reference.shape == b.shape:
        own = max((abs(m) for m in _medians(b, reference)), default=0.0)
        away = max((abs(m) for m in _medians(a, reference)), default=0.0)
        if away <= most + own:
            return ""
    return f"most elements are {abs(found[0]):.2%} too {'large' if found[0] > 0 else 'small'}"


def _medians(a: np.ndarray, b: np.ndarray) -> Iterator[float]:
    """The median of the relative difference over the larger elements, of positive and of negative ones."""
    a, b = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
    if not finite.any():
        return
    large = finite & (np.abs(b) >= np.median(np.abs(b[finite])))
    for counts in (large & (b > 0), large & (b < 0)):
        if counts.sum() >= FEWEST // 2:
            yield float(np.median((a[counts] - b[counts]) / np.abs(b[counts])))


def _most_bias(dtype: np.dtype) -> float:
    step = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    return BIAS * step if dtype.itemsize == 2 else BIAS_OF_SINGLE * float(np.finfo(np.float32).eps)


def other_sign(a: np.ndarray, b: np.ndarray, *, zeros: bool) -> str:
    """Where an infinity has the other sign, or a zero where that counts; empty where none has."""
    if not is_float(b.dtype) or a.shape != b.shape:
        return ""
    a, b = a.astype(np.float64), b.astype(np.float64)
    if (np.isinf(a) & np.isinf(b) & (a != b)).any():
        return "an infinity has the other sign"
    if zeros and ((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))).any():
        return "a zero has the other sign, and a Reciprocal or Div after it makes the other infinity of it"
    return ""


def made_finite(a: np.ndarray, b: np.ndarray, exact: Exact, index: int) -> str:
    """Where the original has a NaN, an inf or its type's maximum by definition, and `a` another; empty where nowhere.

    Where the original overflows, `a` may have any number: a wider type has one there, or an input
    is larger than NO_OVERFLOW.
    """
    if not is_float(b.dtype) or a.shape != b.shape or any(map(_may_overflow, exact.feeds.values())):
        return ""
    limit = float(ml_dtypes.finfo(b.dtype).max)  # type: ignore[no-untyped-call]
    a, b = a.astype(np.float64), b.astype(np.float64)
    off = ~(np.abs(b) < limit) & (a != b) & ~(np.isnan(a) & np.isnan(b))
    reference = exact.output(index) if off.any() else None
    if reference is None or reference.shape != b.shape:
        return ""
    off &= (reference == b) | (np.isnan(reference) & np.isnan(b))
    if not off.any():
        return ""
    return f"it returns {a[off][0]:.7g} where the original returns {b[off][0]:.7g}"


def _may_overflow(x: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):
        return is_float(x.dtype) and bool((np.isfinite(x) & (np.abs(x) > NO_OVERFLOW)).any())


def rounds_one_by_one(model: ModelProto) -> bool:
    """Whether no operator of a model adds up elements: the rounding of each is small against it, or its operands."""
    return all(n.op_type in NOT_SUMMED and not n.domain for n in model.graph.node)


def has_signs(model: ModelProto, kind: str, *, is_own: bool) -> bool:
    """Whether the signs of zeros and infinities of a model are those of ONNX, whichever kernel computes them. Passes
    of surgeon's own write a Max for Where(a > b, a, b)."""
    signed = (SIGNED | CHOOSING if kind in WITHOUT_ZEROS else SIGNED) | (set() if is_own else CHOSEN)
    return all(n.op_type in signed and not n.domain for n in model.graph.node)
