"""When two results are equal: `compare` has the rule, which docs/proof.md section 2 gives reasons for."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from surgeon.proof.feeds import LARGEST_INPUT

# How far two results of a type may be apart, relative to the largest number; results of other types have to be equal.
TOLERANCE = {TensorProto.FLOAT: 1e-5, TensorProto.DOUBLE: 1e-5, TensorProto.FLOAT16: 2e-3, TensorProto.BFLOAT16: 2e-3}
TIMES_THE_ORIGINAL = 4.0  # as far as the original may the other one be from an exact evaluation
QUOTIENT = 8.0  # divided by an inf that was cut off at the type's maximum a number leaves up to this part of it, not 0
# The same of the root of such an inf, which is of fp32 in double, too: Clip's own maximum is. Half precision has none.
ROOT_QUOTIENT = QUOTIENT / math.sqrt(np.finfo(np.float32).max)
ROUNDINGS = 4  # of denormal numbers, by up to a step each, that either side may have more than the other

NO_FURTHER = "no further from a more exact evaluation than the original itself"

Evaluation = Callable[[], "np.ndarray | None"]  # of one output, on demand; None where it cannot be evaluated


@dataclass(frozen=True, slots=True)
class Difference:
    """What is between two arrays.

    error  max|a - b| / max|b| over the numbers that both have
    why    how they differ; empty where they are equal
    gap    max|a - b| where they are not
    excuse what numbers are equal by that are further apart than the tolerance; empty where they are not
    """

    error: float
    why: str = ""
    gap: float = math.inf
    excuse: str = ""


def compare(
    after: np.ndarray,
    before: np.ndarray,
    *,
    tolerance: float,
    finite: bool,
    exact: Evaluation | None = None,
    rounding: Evaluation | None = None,
    cut_off: bool = False,
) -> Difference:
    """Whether `after` may stand for `before`.

    tolerance  how far apart they may be, relative to the largest number of `before`
    finite     whether the inputs were finite
    exact      the output in a wider type, float64 or for half precision fp32
    rounding   what that evaluation may have rounded off itself, element by element
    cut_off    whether the inputs had an inf, which one side may have made the type's maximum

    1. Shape and type must be the same. Integers must be equal.
    2. A number of the original counts where it is finite and does not saturate (see `_counted`). Where none counts,
       anything may be there.
    3. A NaN or inf where a number counts is a difference, unless `exact` has the same there.
    4. Numbers are equal within the tolerance, or within what the steps between denormal numbers round off.
    5. So they are where `after` is no further from `exact` than TIMES_THE_ORIGINAL what `before` is, or the tolerance,
       or beyond these no more than `rounding`: 1 + exp(-40) is 1 in float64, too.
    """
    if after.shape != before.shape or after.dtype != before.dtype:
        given, expected = (f"{x.dtype}{list(x.shape)}" for x in (after, before))
        return Difference(math.inf, f"it returns {given} instead of {expected}")
    if after is before or (before.dtype != object and after.tobytes() == before.tobytes()):
        return Difference(0.0)
    if before.dtype == object:
        return _compared_elements(after, before, tolerance=tolerance, finite=finite)
    if not is_float(before.dtype):
        return Difference(0.0) if np.array_equal(after, before) else Difference(math.inf, "integer results differ")
    a, b = after.astype(np.float64), before.astype(np.float64)
    limit = _saturation(before.dtype)
    counted = _counted(a, b, limit, exact=None if finite else exact, cut_off=cut_off and before.dtype.itemsize >= 4)
    if not counted.any():
        return Difference(0.0)
    bad = a[counted & ~np.isfinite(a)]
    if bad.size:
        if exact is not None and _has_the_same(exact(), a, counted & ~np.isfinite(a)):
            return Difference(0.0, excuse="the float64 evaluation has no number there either")
        return Difference(math.inf, f"it returns {bad[0]} where the original returns a number")
    scale = float(np.abs(b[counted]).max())
    gap = float(np.abs(a[counted] - b[counted]).max())
    step = float(np.nextafter(before.dtype.type(0), before.dtype.type(1))) if before.dtype.itemsize >= 4 else 0.0
    if gap <= max(tolerance * scale, ROUNDINGS * step, 0.0 if finite else QUOTIENT / limit):
        small = gap > tolerance * scale
        return Difference(gap / scale if scale else 0.0, excuse="the difference is next to nothing" if small else "")
    distance = _distance_as_small(a, b, counted, tolerance=tolerance, exact=exact, rounding=rounding)
    if distance is not None:
        return Difference(distance / scale if scale and distance < gap else 0.0, excuse=NO_FURTHER)
    error = gap / scale if scale else math.inf
    return Difference(error, f"it differs by {gap:.3g} where the largest output is {scale:.3g}", gap)


def _compared_elements(after: np.ndarray, before: np.ndarray, *, tolerance: float, finite: bool) -> Difference:
    """The first difference of strings, and of what two sequences hold, each by its type's tolerance or more."""
    worst = 0.0
    for a, b in zip(after.reshape(-1), before.reshape(-1), strict=True):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            if type(a) is not type(b) or a != b:
                return Difference(math.inf, f"it returns {str(a)[:40]!r} instead of {str(b)[:40]!r}")
            continue
        found = compare(a, b, tolerance=max(tolerance, tolerance_of(b.dtype)), finite=finite)
        if found.why:
            return found
        worst = max(worst, found.error)
    return Difference(worst)


def tolerance_of(dtype: np.dtype) -> float:
    """How far two results of a type may be apart, relative to the largest number; 0 for integers."""
    return TOLERANCE.get(helper.np_dtype_to_tensor_dtype(dtype), 0.0)


def is_float(dtype: np.dtype) -> bool:
    """Whether numbers of the type are rounded."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def smallest_normal(dtype: np.dtype) -> float:
    """The smallest number of a type of which a kernel keeps all digits: ONNX Runtime's Tanh is off by a hundred steps
    between the denormal numbers below it.

    0 for what is not a float, and for half precision, whose denormal numbers are no exception: what an epsilon is, is
    seen where the inputs are 1e-7.
    """
    return float(np.finfo(dtype).smallest_normal) if dtype.kind == "f" and dtype.itemsize >= 4 else 0.0


def _counted(a: np.ndarray, b: np.ndarray, limit: float, *, exact: Evaluation | None, cut_off: bool) -> np.ndarray:
    """Where the original's number has to be met.

    1. It is finite, and no maximum of its type at which numbers saturate.
    2. It is not a quotient by an inf that was cut off at that maximum, where the rewritten window has 0.
    3. It does not come of such an inf itself, where the rewritten window has inf. `exact` is given where that counts.
    """
    counted: np.ndarray = np.isfinite(b) & (np.abs(b) < limit)
    if cut_off:
        counted &= ~((a == 0) & (np.abs(b) <= ROOT_QUOTIENT))
    if exact is not None and np.isinf(a[counted]).any():
        counted &= ~_saturated(a, b, exact())
    return counted


def _saturated(a: np.ndarray, b: np.ndarray, exact: np.ndarray | None) -> np.ndarray:
    """Where the original's number comes of an inf that was cut off at the type's maximum, and scaled after that. A
    wider type gives another number, or the number is out of reach of finite inputs; the rewritten window gives inf of
    its sign."""
    beyond = np.abs(b) > LARGEST_INPUT**1.5
    if exact is not None and exact.shape == b.shape:
        beyond |= ~(np.abs(exact) / 2 <= np.abs(b))
    saturated: np.ndarray = np.isinf(a) & (np.sign(a) == np.sign(b)) & beyond
    return saturated


def _has_the_same(exact: np.ndarray | None, a: np.ndarray, where: np.ndarray) -> bool:
    """Whether an evaluation gives the same NaN and inf."""
    if exact is None or exact.shape != a.shape:
        return False
    return bool(np.array_equal(a[where], exact[where], equal_nan=True))


def _distance_as_small(
    a: np.ndarray,
    b: np.ndarray,
    counted: np.ndarray,
    *,
    tolerance: float,
    exact: Evaluation | None,
    rounding: Evaluation | None,
) -> float | None:
    """How far `a` is from the exact evaluation, where it is about as near to that as `b` is; else None."""
    reference = exact() if exact is not None else None
    if reference is None or reference.shape != b.shape:
        return None
    counted = counted & np.isfinite(reference)
    distances = np.abs(a[counted] - reference[counted])
    farthest = float(distances.max(initial=0.0))
    original = float(np.abs(b[counted] - reference[counted]).max(initial=0.0))
    largest = float(np.abs(reference[counted]).max(initial=0.0))
    allowed = max(TIMES_THE_ORIGINAL * original, tolerance * largest)
    if farthest <= allowed:
        return farthest
    # Rounding in the wider type is far below the tolerance: more than that is not worth the runs.
    if farthest <= tolerance and rounding is not None and _is_rounded_off(distances - allowed, counted, rounding()):
        return farthest
    return None


def _is_rounded_off(distances: np.ndarray, counted: np.ndarray, rounding: np.ndarray | None) -> bool:
    """Whether the distances at the counted elements are within the rounding error of the reference evaluation."""
    if rounding is None or rounding.shape != counted.shape:
        return False
    return bool((distances <= rounding[counted]).all())


def _saturation(dtype: np.dtype) -> float:
    """Where numbers of the type saturate."""
    return 3.38e38 if dtype.name == "bfloat16" else float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
