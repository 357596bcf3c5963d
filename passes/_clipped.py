"""The spellings of min(max(x, 0), high)."""

from __future__ import annotations

from surgeon import Pattern, op


def clipped(x: Pattern, high: float) -> Pattern:
    """x cut off below 0 and above `high`, as one Clip or in two steps."""
    from_zero = op.Relu(x) | op.Max(x, 0) | op.Clip(x, 0)
    to_high = op.Min(x, high) | op.Clip(x, None, high)
    return (
        op.Clip(x, 0, high)
        | op.Min(from_zero, high) | op.Clip(from_zero, None, high)
        | op.Relu(to_high) | op.Max(to_high, 0) | op.Clip(to_high, 0)
    )  # fmt: skip
