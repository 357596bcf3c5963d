"""Fuse Softplus.

Why       log(1 + exp(x)) overflows to inf from x = 89 on in fp32 and from 11.1 on in fp16; PyTorch guards it with a
          comparison and a Where. TensorRT has one kernel in every version; that of 8.4 was right up to
          x = 3e4 in fp32 and fp16 (measured on an H200), so it needs no guard.
Rewrites  log(1 + exp(x))    max(x, 0) + log(1 + exp(-abs(x)))            ->  Softplus(x)
          Where(x > t, x, Softplus(x)), t >= 15                           ->  Softplus(x)
          Where(beta * x > t, x, Softplus(beta * x) / beta), t >= 15      ->  Softplus(beta * x) / beta
          Softplus(x * 1) / 1                                             ->  Softplus(x)
Exact     To rounding: softplus(x) - x is below exp(-15) = 3.1e-7 where the guard would have answered x, at most 2e-8
          of it.
"""

import numpy as np

from surgeon import Pattern, const, op, require, rewrites, rule, var

from ._clipped import rising

LEAST_THRESHOLD = 15.0

x, threshold, beta, divisor = var("x"), const("threshold", rank=0), const("beta"), const("divisor")


def guarded(compared: Pattern, softplus: Pattern) -> Pattern:
    """Where(compared > threshold, x, softplus)"""
    above = op.Greater(compared, threshold) | op.GreaterOrEqual(compared, threshold)
    return op.Where(above | op.Less(threshold, compared) | op.LessOrEqual(threshold, compared), x, softplus)


logarithm = op.Log(op.Exp(x) + 1) | rising(x) + op.Log(op.Exp(op.Neg(op.Abs(x))) + 1)
fuse = rewrites(logarithm, op.Softplus(x), requires="Softplus")


@rule(guarded(x, op.Softplus(x)))
def without_guard(b, x, threshold):
    _require_far(threshold)
    return b.Softplus(x)


scaled = x * beta


@rule(guarded(scaled, op.Softplus(scaled) / divisor))
def without_guard_scaled(b, x, threshold, beta, divisor):
    _require_far(threshold)
    same = beta.size == 1 and np.array_equal(beta.reshape(-1), divisor.reshape(-1))
    require(same, "what is multiplied by is not what is divided by")
    require(beta.ndim == divisor.ndim == 0 and float(beta) > 0, "beta is not a positive number")
    return b.Softplus(x) if float(beta) == 1 else b.Div(b.Softplus(b.Mul(x, beta)), divisor)


def _require_far(threshold: np.ndarray) -> None:
    value = float(threshold)
    require(value >= LEAST_THRESHOLD, f"the threshold {value:g} is near enough to zero to be seen")


without_one = rewrites(op.Softplus(x * 1) | op.Softplus(x * 1) / 1 | op.Softplus(x) / 1, op.Softplus(x))
