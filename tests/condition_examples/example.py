"""What an example of a condition is."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from helpers import model

from surgeon.ir.graph import Node
from surgeon.ir.model import Model


class Example(NamedTuple):
    """One reason of one condition.

    targets  every target that gives it: "8.2 to 9.3, rtx"; "dla 8.2 to 10.16" of DLA alone
    why      the reason, word for word
    opset    the model's
    refused  the model; its node is the one that makes `y`, and OP stands for each of `operators`
    taken    the same with one thing changed, which each of these targets supports; empty where it refuses every node
    opsets   of `taken` where it is another than that of `refused`: the one thing that changed
    beside   what other conditions say of `refused`: of the release before, the release after, and TensorRT-RTX; None
             where that is not asked
    """

    operators: str
    targets: str
    why: str
    opset: int
    refused: str
    taken: tuple[str, ...] = ()
    opsets: tuple[int, ...] = ()
    beside: tuple[str, ...] | None = ()


def both(text: str, old: str, *new: str) -> tuple[str, tuple[str, ...]]:
    """A model, and the same with `old` replaced by each of `new`."""
    assert old in text
    return text, tuple(text.replace(old, n) for n in new)


@cache
def node_of(text: str, op: str, opset: int) -> Node:
    """The node that makes `y`, in the graph or in a body."""
    indexed = Model(model(text.replace("OP", op), opset, extra=', "com.custom" : 1'))
    value = next(scope.values["y"] for scope in indexed.scopes if "y" in scope.values)
    assert value.producer is not None
    return value.producer
