"""When two results are equal; the rule stands at the head of prove.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from surgeon.proof.feeds import LARGEST

TOLERANCE = {TensorProto.FLOAT: 1e-5, TensorProto.DOUBLE: 1e-5, TensorProto.FLOAT16: 2e-3, TensorProto.BFLOAT16: 2e-3}
Evaluation = Callable[[], "np.ndarray | None"]
QUOTIENT = 8.0  # divided by an inf that was cut off at the type's maximum a number leaves up to this part of it, not 0
# The same of the root of such an inf, which is of fp32 in double, too: Clip's own maximum is. Half precision has none.
ROOT_QUOTIENT = QUOTIENT / math.sqrt(np.finfo(np.float32).max)
ROUNDINGS = 4  # of denormal numbers, by up to a step each, that either side may have more than the other


@dataclass(frozen=True, slots=True)
class Difference:
    """`error`: max|a-b| / max|b| over the numbers that both have; `why` is empty where the results are equal. `gap`:
    max|a-b| where they are not."""

    error: float
    why: str = ""
    gap: float = math.inf


def compare(
    after: np.ndarray,
    before: np.ndarray,
    tolerance: float,
    finite: bool,
    exact: Evaluation | None = None,
    rounding: Evaluation | None = None,
    cut_off: bool = False,
) -> Difference:
    """Whether `after` may stand for `before`. `exact` gives, on demand, the float64 (or fp32) evaluation, `rounding`
    what that rounds off itself, element by element. `cut_off`: of inf inputs, which one side may have made the type's
    maximum."""
    if after.shape != before.shape or after.dtype != before.dtype:
        return Difference(
            math.inf, f"it returns {after.dtype}{list(after.shape)} instead of {before.dtype}{list(before.shape)}"
        )
    if not is_float(before.dtype):
        return Difference(0.0) if np.array_equal(after, before) else Difference(math.inf, "integer results differ")
    limit = _limit(before.dtype)
    a, b = after.astype(np.float64), before.astype(np.float64)
    counted = np.isfinite(b) & (np.abs(b) < limit)
    if cut_off and before.dtype.itemsize >= 4:
        counted &= ~((a == 0) & (np.abs(b) <= ROOT_QUOTIENT))
    if not finite and exact is not None and np.isinf(a[counted]).any():
        counted &= ~_saturated(a, b, exact())
    if not counted.any():
        return Difference(0.0)
    if not np.isfinite(a[counted]).all():
        bad = a[counted][~np.isfinite(a[counted])][0]
        if not (exact is not None and _reference_agrees(a, exact(), counted)):
            return Difference(math.inf, f"it returns {bad} where the original returns a number")
        return Difference(0.0)
    scale = float(np.abs(b[counted]).max())
    gap = float(np.abs(a[counted] - b[counted]).max())
    if gap <= max(tolerance * scale, ROUNDINGS * _step(before.dtype), 0.0 if finite else QUOTIENT / limit):
        return Difference(gap / scale if scale else 0.0)
    if exact is not None:
        reference = exact()
        if reference is not None and reference.shape == b.shape:
            known = counted & np.isfinite(reference)
            errors = np.abs(a[known] - reference[known])
            mine, theirs = float(errors.max(initial=0.0)), float(np.abs(b[known] - reference[known]).max(initial=0.0))
            allowed = max(4 * theirs, tolerance * float(np.abs(reference[known]).max(initial=0.0)))
            # Rounding in the wider type is far below the tolerance: more than that is not worth the runs.
            if mine <= allowed or (mine <= tolerance and _is_rounding(errors - allowed, known, rounding)):
                return Difference(mine / scale if scale and mine < gap else 0.0)
    return Difference(
        gap / scale if scale else math.inf, f"it differs by {gap:.3g} where the largest output is {scale:.3g}", gap
    )


def _is_rounding(errors: np.ndarray, known: np.ndarray, rounding: Evaluation | None) -> bool:
    """Whether the errors, those `known` of an output, are no more than what the evaluation rounds off itself there."""
    unsure = rounding() if rounding is not None else None
    return unsure is not None and unsure.shape == known.shape and bool((errors <= unsure[known]).all())


def _reference_agrees(a: np.ndarray, reference: np.ndarray | None, where: np.ndarray) -> bool:
    """Whether a non-finite result is what an exact evaluation gives too."""
    bad = where & ~np.isfinite(a)
    same_shape = reference is not None and reference.shape == a.shape
    return same_shape and bool(np.array_equal(a[bad], reference[bad], equal_nan=True))  # type: ignore[index]


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype.name == "bfloat16"


def _saturated(a: np.ndarray, b: np.ndarray, reference: np.ndarray | None) -> np.ndarray:
    """Where the original's number comes of an inf that was cut off at the type's maximum, and scaled behind that: a
    wider type gives another number, or the number is out of reach of finite inputs;
    the rewritten window gives inf of its sign."""
    beyond = np.abs(b) > LARGEST**1.5
    if reference is not None and reference.shape == b.shape:
        beyond |= ~(np.abs(reference) / 2 <= np.abs(b))
    return np.isinf(a) & (np.sign(a) == np.sign(b)) & beyond


def _step(dtype: np.dtype) -> float:
    """Between a type's denormal numbers; 0 for half precision, whose tolerance is wider than they need."""
    return float(np.nextafter(dtype.type(0), dtype.type(1))) if dtype.itemsize >= 4 else 0.0


def smallest_normal(dtype: np.dtype) -> float:
    """Below it are the type's denormal numbers, of which a kernel may keep few digits: ONNX Runtime's Tanh is off by a
    hundred steps there. 0 for what is no float, and for half precision, whose denormal numbers are no exception: what
    an epsilon is, is seen where the inputs are 1e-7."""
    return float(np.finfo(dtype).smallest_normal) if dtype.kind == "f" and dtype.itemsize >= 4 else 0.0


def _limit(dtype: np.dtype) -> float:
    """Where numbers of the type saturate."""
    if dtype.name == "bfloat16":
        return 3.38e38
    return float(np.finfo(dtype).max)
