"""What is known of dimensions that are not static, and of the elements of tensors of sizes."""

import math
from typing import Any, cast

import numpy as np

from surgeon.ir.elements import Array, Elements, Unread, filled, is_int, vector
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import static_sizes
from surgeon.ir.model import Model
from surgeon.ir.sizes import shape_slice

# int; a symbol of the shape inference; (tensor, axis) for a dimension that has no name; None where nothing is known.
Dim = Any
CASTS = frozenset({"Cast", "CastLike"})
FREE = CASTS | {"Identity", "surgeon::L2Norm"}  # leave the shape of their first input as it is
ARITHMETIC = frozenset({"Add", "Div", "Mul", "Sub"})
MOST = 16  # elements of a vector of sizes; a larger constant is none


def bare(value: Value) -> Value:
    """The tensor before operators that leave the shape of their first input as it is."""
    while value.producer is not None and value.producer.key in FREE:
        source = value.producer.inputs[0]
        if source is None:
            break
        value = source
    return value


def dims(model: Model, value: Value) -> list[Dim] | None:
    """The dimensions of a tensor, each an int, a symbol or (tensor, axis); None where the rank is unknown."""
    inferred = model.shape(value)
    source = bare(value)
    if inferred is not None and all(isinstance(d, int) for d in inferred):
        return list(inferred)
    if source is not value:
        behind = dims(model, source)
        if inferred is None or behind is None:
            return behind if inferred is None else [_named(d, value, axis) for axis, d in enumerate(inferred)]
        return [_better(own, other) for own, other in zip(inferred, behind, strict=True)]
    node = value.producer
    if node is not None and node.key == "Reshape" and node.inputs[0] is not None:
        found = _reshaped(model, node, node.inputs[0], value)
        if found is not None:
            return found
    return None if inferred is None else [_named(d, value, axis) for axis, d in enumerate(inferred)]


def _better(own: int | str | None, behind: Dim) -> Dim:
    """Of two names of one dimension, a number, else that of the tensor it comes from,
    which all that derives from it has too."""
    return own if isinstance(own, int) or (own is not None and isinstance(behind, tuple)) else behind


def _named(dim: int | str | None, value: Value, axis: int) -> Dim:
    return (value, axis) if dim is None else dim


def _reshaped(model: Model, node: Node, source: Value, value: Value) -> list[Dim] | None:
    """The dimensions of the result of a Reshape, from its target and its input."""
    target, whole, inferred = elements(model, node.inputs[1]), dims(model, source), model.shape(value)
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


def elements(model: Model, value: Value | None) -> list[Dim] | None:
    """The elements of a tensor of sizes, as far as they follow from shapes and constants; None where not even their
    number is known."""
    if value is None:
        return None
    try:
        return cast("list[Dim]", _Sizes(model).of(value).reshape(-1).tolist())
    except Unread:
        return None


class _Sizes(Elements):
    """Elements that are an int, a dimension of the tensor that a Shape reads, or None where nothing is known."""

    def read(self, value: Value) -> Array:
        known = self.model.constant(value)
        if known is not None and known.size > MOST:
            raise Unread(f"it has {known.size} elements")
        try:
            return super().read(value)
        except Unread:
            if known is not None:
                raise
            return self._unknown(value)

    def other(self, value: Value) -> Array:
        node = value.producer
        source = None if node is None else [*node.inputs, None][0]
        if node is None or source is None:
            return self._unknown(value)
        if node.key == "Shape":
            found = dims(self.model, source)
            return self._unknown(value) if found is None else vector(shape_slice(node, tuple(found)))
        if node.key in CASTS:
            return self.of(source)
        if node.key == "ReduceProd":
            factors = self.of(source).reshape(-1)
            return vector([math.prod(factors)]) if is_int(factors).all() else self._unknown(value)
        return self.computed(node, value) if node.key in ARITHMETIC else self._unknown(value)

    def _unknown(self, value: Value) -> Array:
        """As many elements as a vector or scalar has, none of them known."""
        shape = static_sizes(self.model.shape(value))
        if shape is None or len(shape) > 1 or math.prod(shape) > MOST:
            raise Unread("how many elements it has is not known")
        return filled(shape, lambda _: None)
