"""The spellings of max(x, 0), min(x, 0), min(max(x, 0), high), and of a choice by the sign of x."""

from surgeon import Pattern, op


def rising(x: Pattern) -> Pattern:
    """max(x, 0)"""
    return op.Relu(x) | op.Max(x, 0) | op.Clip(x, 0)


def falling(x: Pattern) -> Pattern:
    """min(x, 0)"""
    return op.Min(x, 0) | op.Clip(x, None, 0)


def clipped(x: Pattern, high: float) -> Pattern:
    """x cut off below 0 and above `high`, as one Clip or in two steps."""
    to_high = op.Min(x, high) | op.Clip(x, None, high)
    cut = op.Min(rising(x), high) | op.Clip(rising(x), None, high)
    return op.Clip(x, 0, high) | cut | rising(to_high)


def by_sign(x: Pattern, above: Pattern, below: Pattern) -> Pattern:
    """`above` where x is positive, else `below`; what is at 0 may be either."""
    positive = op.Greater(x, 0) | op.GreaterOrEqual(x, 0) | op.Less(0, x) | op.LessOrEqual(0, x)
    negative = op.Less(x, 0) | op.LessOrEqual(x, 0) | op.Greater(0, x) | op.GreaterOrEqual(0, x)
    by_positive = op.Where(positive | op.Not(negative), above, below)
    return by_positive | op.Where(negative | op.Not(positive), below, above)
