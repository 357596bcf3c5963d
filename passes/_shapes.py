"""What is known of dimensions that are not static: the elements of computed shapes, and whether one tensor fits another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surgeon import Builder
from surgeon.graph import Node, Value

# int; a symbol of the shape inference; (tensor, axis) for a dimension that has no name; None where nothing is known.
Dim = Any
FREE = frozenset({"Cast", "CastLike", "Identity", "surgeon::L2Norm"})  # leave the shape of their first input as it is
REORDER_NOTHING = FREE - {"surgeon::L2Norm"} | {"Reshape", "Squeeze", "Unsqueeze", "Flatten"}


def output_of(node: Node) -> Value:
    """The first output of a node that has one."""
    value = node.outputs[0]
    assert value is not None
    return value


def bare(value: Value) -> Value:
    """The tensor behind operators that leave the shape of their first input as it is."""
    while value.producer is not None and value.producer.key in FREE:
        source = value.producer.inputs[0]
        if source is None:
            break
        value = source
    return value


def dims(b: Builder, value: Value) -> list[Dim] | None:
    """The dimensions of a tensor, each an int, a symbol or (tensor, axis); None where the rank is unknown."""
    value = bare(value)
    shape = b.shape(value)
    return None if shape is None else [(value, axis) if d is None else d for axis, d in enumerate(shape)]


def elements(b: Builder, value: Value | None) -> list[Dim] | None:
    """The elements of a one-dimensional or scalar integer tensor, as far as they follow from shapes and constants."""
    if value is None:
        return None
    known = b.value(value)
    if known is not None:
        return [int(v) for v in known.reshape(-1)] if known.dtype.kind in "iu" else None
    node = value.producer
    if node is None or node.inputs[0] is None:
        return None
    if node.key == "Shape":
        found = dims(b, node.inputs[0])
        return None if found is None else found[slice(node.attr("start") or 0, node.attr("end"))]
    if node.key in REORDER_NOTHING:
        return elements(b, node.inputs[0])
    if node.key == "Concat":
        parts = [elements(b, v) for v in node.inputs]
        return None if any(p is None for p in parts) else [e for p in parts for e in p or []]
    if node.key in ("Gather", "Slice"):
        return _picked(b, node)
    return None


def _picked(b: Builder, node: Node) -> list[Dim] | None:
    source = elements(b, node.inputs[0])
    given = node.operands()[1:]
    rest: list[np.ndarray] = [v for v in map(b.value, given) if v is not None]
    if source is None or not rest or len(rest) < len(given):
        return None
    if node.key == "Gather":
        picks = [int(i) for i in rest[0].reshape(-1)]
        return [source[i] for i in picks] if all(-len(source) <= i < len(source) for i in picks) else None
    step = int(rest[3].reshape(-1)[0]) if len(rest) > 3 else 1
    start, end = int(rest[0].reshape(-1)[0]), int(rest[1].reshape(-1)[0])
    return source[slice(start, end, step)] if step > 0 else None


def no_larger(given: Sequence[Dim] | None, whole: Sequence[Dim] | None) -> bool:
    """Whether a tensor with the dimensions `given` broadcasts to `whole` and leaves it as it is."""
    if given is None or whole is None or len(given) > len(whole):
        return False
    return all(
        g is not None and (g == 1 or g == w) for g, w in zip(given, whole[len(whole) - len(given) :], strict=True)
    )
