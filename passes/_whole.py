"""Whole numbers that are carried as fp32: which tensors hold nothing else, and how far from 0 they may be."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from surgeon import Builder
from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model

LIMITS: dict[int, tuple[int, int]] = {TensorProto.UINT8: (0, 255), TensorProto.INT8: (-128, 127)}  # by type
WIDER = frozenset({TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT16})
INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64, *LIMITS})
EXACT = 2**24  # below it fp32 has every whole number


def largest(b: Builder, x: Value, zero: Value | None) -> int:
    """How far from 0 a quantized number less its zero point may be."""
    low, high = LIMITS[b.dtype(x)]
    if zero is None:
        return max(-low, high)
    shift = b.value(zero)
    if shift is None:
        return high - low
    return max(int(high - shift.astype(np.int32).min()), int(shift.astype(np.int32).max() - low))


def without_zero(b: Builder, x: Value, zero: Value) -> Value:
    """Quantized numbers less their zero point, as fp32."""
    known = b.value(x)  # of which TensorRT-RTX makes no Cast
    numbers = b.Cast(x, to=TensorProto.FLOAT) if known is None else b.constant(known, TensorProto.FLOAT)
    shift = b.value(zero)
    return numbers if shift is not None and not shift.any() else b.Sub(numbers, zero)


def without_nan(b: Builder, x: Value, limit: float) -> Value:
    """x, but at most the limit where that is positive, and at least where it is negative: NaN becomes the limit."""
    bound = b.constant(limit, TensorProto.FLOAT)
    return b.Where(b.Less(x, bound) if limit > 0 else b.Greater(x, bound), x, bound)


# ---- what is known of a tensor ---------------------------------------------------------------------------------------

# Operators that hand on their first input's elements (Concat: those of every input), or the largest of them.
HANDED_ON = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Tile", "Transpose"}
    | {"Unsqueeze"}
)
DEPTH = 40  # nodes: further up nothing is looked for


def is_within(model: Model, value: Value, low: int, high: int) -> bool:
    """Whether every element is a whole number from `low` to `high`, and no NaN."""
    found = bounds(model, value, DEPTH)
    return found is not None and low <= found[0] and found[1] <= high and _is_whole(model, value, DEPTH)


def bounds(model: Model, value: Value, depth: int) -> tuple[float, float] | None:
    """The lowest and the highest number that a tensor may hold; None where they are not known, or it may have NaN."""
    known = model.constant(value)
    if known is not None:
        return None if not known.size or not np.isfinite(known).all() else (float(known.min()), float(known.max()))
    node = value.producer
    if node is None or not depth:
        return None
    if _hands_on(node):
        count = len(node.inputs) if node.key == "Concat" else 1
        return _joined([bounds(model, v, depth - 1) for v in node.inputs[:count] if v is not None])
    if node.key == "Round" or (node.key == "Cast" and node.attr("to") in WIDER):
        return bounds(model, _input(node, 0), depth - 1)
    if node.key == "Clip" and _has_no_nan(model, _input(node, 0)):
        return _limits(model, node)
    return None


def _hands_on(node: Node) -> bool:
    """Whether a node hands on elements of its input: so does a Resize to the nearest, which adds none."""
    if node.key == "Resize":
        return node.attr("mode") == "nearest" and node.attr("coordinate_transformation_mode") != "tf_crop_and_resize"
    return node.key in HANDED_ON


def _limits(model: Model, node: Node) -> tuple[float, float] | None:
    """The numbers between which a Clip holds its input."""
    limits = [model.constant(v) for v in node.operands()[1:3]]
    known = [float(np.asarray(v).reshape(())) for v in limits if v is not None]
    return (known[0], known[1]) if len(known) == len(limits) == 2 else None


def _has_no_nan(model: Model, value: Value) -> bool:
    """Whether a tensor is what `without_nan` writes."""
    node = value.producer
    if node is None or node.key != "Where":
        return False
    asked, kept, limit = (_input(node, k) for k in range(3))
    test = asked.producer
    compares = test is not None and test.key in ("Less", "Greater") and list(test.inputs) == [kept, limit]
    return compares and model.is_constant(limit)


def _is_whole(model: Model, value: Value, depth: int) -> bool:
    """Whether every element that is a number is a whole one."""
    known = model.constant(value)
    if known is not None:
        return bool((known == np.floor(known)).all())
    node = value.producer
    if node is None or not depth:
        return False
    if node.key == "Round":
        return True
    if model.dtype(value) in INTEGERS:
        return True
    if node.key == "Cast":
        return model.dtype(_input(node, 0)) in INTEGERS
    if node.key == "Where":
        return all(_is_whole(model, _input(node, k), depth - 1) for k in (1, 2))
    if node.key in ("Add", "Clip", "Concat"):
        return all(_is_whole(model, v, depth - 1) for v in node.inputs if v is not None)
    return _hands_on(node) and _is_whole(model, _input(node, 0), depth - 1)


def _joined(parts: list[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = [p for p in parts if p is not None]
    return (min(p[0] for p in known), max(p[1] for p in known)) if known and len(known) == len(parts) else None


def _input(node: Node, position: int) -> Value:
    value = node.inputs[position]
    assert value is not None
    return value
