"""What a Reduce computes where it has no axes to reduce over."""

from typing import Any

from surgeon import Builder, Value


def over_nothing(b: Builder, op: str, x: Value) -> Any:
    """What the Reduce operator `op` makes of each number of x alone."""
    if op in ("ReduceL1", "ReduceL2"):
        return b.Abs(x)
    if op == "ReduceSumSquare":
        return b.Mul(x, x)
    return b.Log(x) if op == "ReduceLogSum" else x
