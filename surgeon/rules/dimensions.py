"""What is known of dimensions that are not static, and of the elements of tensors of sizes."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon.ir.graph import Node, Value
from surgeon.rules.builder import Builder
from surgeon.rules.rule import require_some

# int; a symbol of the shape inference; (tensor, axis) for a dimension that has no name; None where nothing is known.
Dim = Any
FREE = frozenset({"Cast", "CastLike", "Identity", "surgeon::L2Norm"})  # leave the shape of their first input as it is
REORDER_NOTHING = FREE - {"surgeon::L2Norm"} | {"Reshape", "Squeeze", "Unsqueeze", "Flatten"}
MOST = 16  # elements of a vector of sizes; a larger constant is none
ARITHMETIC = {"Add": operator.add, "Div": operator.floordiv, "Mul": operator.mul, "Sub": operator.sub}
LARGEST, LARGEST_FLOAT = 1 << 31, 1 << 24  # below which every integer type of sizes, and fp32, holds each number


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
    inferred = b.shape(value)
    source = bare(value)
    if inferred is not None and all(isinstance(d, int) for d in inferred):
        return list(inferred)
    if source is not value:
        behind = dims(b, source)
        if inferred is None or behind is None:
            return behind if inferred is None else [_named(d, value, axis) for axis, d in enumerate(inferred)]
        return [_better(own, other) for own, other in zip(inferred, behind, strict=True)]
    node = value.producer
    if node is not None and node.key == "Reshape" and node.inputs[0] is not None:
        found = _reshaped(b, node, node.inputs[0], value)
        if found is not None:
            return found
    return None if inferred is None else [_named(d, value, axis) for axis, d in enumerate(inferred)]


def known_dims(b: Builder, value: Value) -> list[Dim]:
    """The dimensions as `dims` gives them; declines where the rank is unknown."""
    return require_some(dims(b, value), f"the rank of '{value.name}' is not known")


def _better(own: int | str | None, behind: Dim) -> Dim:
    """Of two names of one dimension, a number, else that of the tensor behind,
    which all that derives from it has too."""
    return own if isinstance(own, int) or (own is not None and isinstance(behind, tuple)) else behind


def _named(dim: int | str | None, value: Value, axis: int) -> Dim:
    return (value, axis) if dim is None else dim


def _reshaped(b: Builder, node: Node, source: Value, value: Value) -> list[Dim] | None:
    """The dimensions of the result of a Reshape, from its target and its input."""
    target, whole, inferred = elements(b, node.inputs[1]), dims(b, source), b.shape(value)
    if target is None:
        return None
    found: list[Dim] = []
    for axis, wanted in enumerate(target):
        own = inferred[axis] if inferred is not None and axis < len(inferred) else None
        if isinstance(own, int):
            found.append(own)
        elif wanted == 0 and not node.attr("allowzero"):
            found.append(whole[axis] if whole is not None and axis < len(whole) else (source, axis))
        else:
            found.append(_named(own, value, axis) if wanted is None or wanted == -1 else wanted)
    return found if whole is None else _solved(found, whole)


def _solved(found: list[Dim], source: list[Dim]) -> list[Dim]:
    """A reshaped tensor's dimensions, where the source's tell the only one that is not known."""
    unknown = [a for a, d in enumerate(found) if not isinstance(d, int)]
    given = [d for d in source if not isinstance(d, int)]
    mine, theirs = (int(np.prod([d for d in row if isinstance(d, int)], dtype=np.int64)) for row in (found, source))
    if len(unknown) == 1 and not given and mine:
        found[unknown[0]] = theirs // mine
    elif len(unknown) == 1 and len(given) == 1 and mine == theirs != 0:
        found[unknown[0]] = given[0]
    return found


# ---- tensors of sizes ------------------------------------------------------------------------------------------------


def elements(b: Builder, value: Value | None, asked: dict[Value, list[Dim] | None] | None = None) -> list[Dim] | None:
    """The elements of a one-dimensional or scalar tensor of sizes, as far as they follow from shapes and constants.

    `asked` keeps the answers on the way: a sum may read a sum twice, and that one another.
    """
    if value is None:
        return None
    asked = {} if asked is None else asked
    if value not in asked:
        asked[value] = _elements(b, value, asked)
    return asked[value]


def _elements(b: Builder, value: Value, asked: dict[Value, list[Dim] | None]) -> list[Dim] | None:
    known = b.value(value)
    if known is not None:
        whole = known.size <= MOST and bool((np.isfinite(known) & (known == np.floor(known))).all())
        return [int(v) for v in known.reshape(-1)] if whole else None
    node = value.producer
    if node is None or node.inputs[0] is None:
        return _unknown(b, value)
    if node.key == "Shape":
        found = dims(b, node.inputs[0])
        return None if found is None else found[slice(node.attr("start") or 0, node.attr("end"))]
    if node.key in REORDER_NOTHING:
        return elements(b, node.inputs[0], asked) or _unknown(b, value)
    if node.key == "Concat":
        parts = [elements(b, v, asked) for v in node.inputs]
        return None if any(p is None for p in parts) else [e for p in parts for e in p or []]
    if node.key == "ReduceProd":
        factors = elements(b, node.inputs[0], asked) or [None]
        return [math.prod(factors)] if all(isinstance(f, int) for f in factors) else _unknown(b, value)
    if node.key in ARITHMETIC:
        return _computed(b, node, asked) or _unknown(b, value)
    if node.key == "Expand":
        return _expanded(b, node, asked) or _unknown(b, value)
    if node.key in ("Gather", "Slice"):
        return _picked(b, node)
    if node.key == "Split":
        return _part(b, node, value.index) or _unknown(b, value)
    return _unknown(b, value)


def _unknown(b: Builder, value: Value) -> list[Dim] | None:
    """As many elements as a vector or scalar has, none of them known."""
    shape = b.shape(value)
    if shape is None or len(shape) > 1:
        return None
    count = shape[0] if shape else 1
    return [None] * count if isinstance(count, int) and count <= MOST else None


def _computed(b: Builder, node: Node, asked: dict[Value, list[Dim] | None]) -> list[Dim] | None:
    """What arithmetic makes of two vectors of sizes, or of a vector and a number."""
    one, other = (elements(b, v, asked) for v in node.inputs)
    if not one or not other or min(len(one), len(other)) not in (1, max(len(one), len(other))):
        return None
    count = max(len(one), len(other))
    pairs = zip(one * (count // len(one)), other * (count // len(other)), strict=True)
    made = node.outputs[0]
    are_integers = made is not None and b.dtype(made) in (TensorProto.INT32, TensorProto.INT64)
    return [_of_two(node.key, p, q, are_integers) for p, q in pairs]


def _of_two(op: str, one: Dim, other: Dim, are_integers: bool) -> int | None:
    """What an operator makes of two numbers; None where one is not known, or the type may not hold the result."""
    if not isinstance(one, int) or not isinstance(other, int) or (op == "Div" and (not other or not are_integers)):
        return None
    result = -(-one // other) if op == "Div" and one * other < 0 else ARITHMETIC[op](one, other)
    return result if abs(result) < (LARGEST if are_integers else LARGEST_FLOAT) else None


def _expanded(b: Builder, node: Node, asked: dict[Value, list[Dim] | None]) -> list[Dim] | None:
    """One number, as often as a constant says."""
    number, count = elements(b, node.inputs[0], asked), b.value(node.inputs[1])
    if number is None or len(number) != 1 or count is None or count.shape != (1,) or not 1 <= count[0] <= MOST:
        return None
    return number * int(count[0])


def _part(b: Builder, node: Node, index: int) -> list[Dim] | None:
    """What the output of that number of a Split has; None where the sizes of the parts are not known."""
    source, given = elements(b, node.inputs[0]), node.operands()[1:2]
    if source is None:
        return None
    each = -(-len(source) // len(node.outputs))
    sizes = b.value(given[0]) if given else np.full(len(node.outputs), each)
    if sizes is None or sizes.size != len(node.outputs):
        return None
    end = int(sizes[: index + 1].sum())
    return source[end - int(sizes[index]) : end]


def _picked(b: Builder, node: Node) -> list[Dim] | None:
    source = elements(b, node.inputs[0])
    given = node.operands()[1:]
    rest: list[np.ndarray] = [v for v in map(b.value, given) if v is not None]
    if source is None or not rest or len(rest) < len(given):
        return None
    if node.key == "Gather":
        picks = [int(i) for i in rest[0].reshape(-1)]
        return [source[i] for i in picks] if all(-len(source) <= i < len(source) for i in picks) else None
    if len(rest) < 2 or any(r.size != 1 for r in rest):
        return None
    step = int(rest[3].reshape(-1)[0]) if len(rest) > 3 else 1
    start, end = int(rest[0].reshape(-1)[0]), int(rest[1].reshape(-1)[0])
    return source[slice(start, end, step)] if step > 0 else None
