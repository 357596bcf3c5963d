"""What becomes of int64 numbers beyond int32 where a parser cuts them: which readers do not notice, and which do.

Up to TensorRT 8.6 every int64 tensor is int32, and constants are cut to what that holds, with a warning at most
(onnx-tensorrt, `convertINT64`, 7.0 to 8.6). The other tensors here fit into int32.
"""

from typing import NamedTuple

import numpy as np
from onnx import TensorProto, numpy_helper

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.operators import COMPARES, FILLS, MOVES, OPERATORS, PICKS
from surgeon.ir.ranges import Range, Ranges
from surgeon.targets.condition import constant_of

LOWEST, HIGHEST = -(2**31), 2**31 - 1
HELD = Range(LOWEST, HIGHEST, whole=True)  # what is taken for granted of every other tensor

# A position, a count or a trip that is cut to 2^31 - 1 means what it meant: no tensor is as long.
ABSORBED = frozenset({("Slice", 1), ("Slice", 2), ("Slice", 4), ("Loop", 0), ("NonMaxSuppression", 2)})
SIGN_ALONE = frozenset({"Shape", "Size", "Sign"})
# Operators that choose or move numbers: cutting what they read cuts what they return in the same way. The positions of
# the largest, and which numbers are equal, may change.
CHOOSING = (MOVES | FILLS | PICKS) - {"TopK", "Unique"} | {"Cast"}
# What a comparison with a constant on its right does not notice: numbers cut at the high end, or at the low one.
UNNOTICED = {"Greater": {"high"}, "LessOrEqual": {"high"}, "Less": {"low"}, "GreaterOrEqual": {"low"}}
MIRRORED = {"Greater": "Less", "Less": "Greater", "GreaterOrEqual": "LessOrEqual", "LessOrEqual": "GreaterOrEqual"}


class Beyond(NamedTuple):
    """The furthest numbers of a tensor that int32 does not hold; None where there is none at that end."""

    low: int | None
    high: int | None

    @property
    def ends(self) -> set[str]:
        return {name for name, number in zip(("low", "high"), self, strict=True) if number is not None}

    @property
    def text(self) -> str:
        """Such a number, and what it is cut to."""
        number, cut = (self.high, HIGHEST) if self.low is None else (self.low, LOWEST)
        return f"{number}, which this parser cuts to {cut}"


def has_clamped(model: Model) -> bool:
    """Whether a model holds a number that is cut."""
    return any(_of_array(held) is not None for held in _held(model))


def why_clamped(node: Node) -> str | None:
    """Why a parser that cuts int64 to int32 computes something else at a node; None if it makes no difference."""
    dtype = node.graph.model.types.dtype
    if not any(v is not None and dtype(v) == TensorProto.INT64 for v in (*node.inputs, *node.outputs)):
        return None
    for position, value in enumerate(node.inputs):
        found = None if value is None else beyond(value)
        if value is not None and found is not None and _notices(node, position, found):
            return f"its input '{value.name}' holds {found.text}"
    for value in node.outputs:
        found = beyond(value) if value is not None and value.is_output else None
        if value is not None and found is not None:
            return f"its output '{value.name}' holds {found.text}"
    return None


def beyond(value: Value) -> Beyond | None:
    """What a tensor holds, or may hold, beyond int32: as a constant, or chosen out of constants; None for nothing."""
    model = value.graph.model
    if model.dtype(value) != TensorProto.INT64:
        return None
    found = Ranges(model, lambda _: HELD, lambda node: _is_chosen(model, node)).of(value)
    return _beyond(int(found.low), int(found.high))


def _is_chosen(model: Model, node: Node) -> bool:
    """Whether a node returns int64 numbers that it reads, or is filled with."""
    made = node.outputs[0]
    chooses = node.key in CHOOSING or node.key == "ConstantOfShape"
    return chooses and made is not None and model.dtype(made) == TensorProto.INT64


def _held(model: Model) -> list[np.ndarray]:
    """What the initializers, and the Constant and ConstantOfShape nodes, of int64 hold."""
    found = []
    for scope in model.scopes:
        for value in scope.values.values():
            if value.tensor is not None and value.tensor.data_type == TensorProto.INT64:
                array = model.constant(value)
                found += [] if array is None else [array]
        for node in scope.of(["Constant", "ConstantOfShape"]):
            found += _written(node)
    return found


def _written(node: Node) -> list[np.ndarray]:
    """The int64 numbers in the attribute of a Constant or a ConstantOfShape."""
    found = []
    for given in node.proto.attribute:
        if given.name == "value" and given.t.data_type == TensorProto.INT64:
            found.append(numpy_helper.to_array(given.t))
        elif given.name in ("value_int", "value_ints"):
            found.append(np.asarray(given.i if given.name == "value_int" else given.ints, np.int64))
    return found


def _beyond(low: int, high: int) -> Beyond | None:
    below, above = low if low < LOWEST else None, high if high > HIGHEST else None
    return None if below is None and above is None else Beyond(below, above)


def _of_array(array: np.ndarray) -> Beyond | None:
    if array.dtype != np.int64 or not array.size:
        return None
    return _beyond(int(array.min()), int(array.max()))


def _notices(node: Node, position: int, found: Beyond) -> bool:
    """Whether a node computes something else where the numbers of an input are cut."""
    if (node.key, position) in ABSORBED or node.key in SIGN_ALONE:
        return False
    if node.key in COMPARES:
        other = node.input_at(1 - position)
        if other is None or beyond(other) is not None:
            return True
        against = constant_of(node, 1 - position)
        limits = {"low": LOWEST, "high": HIGHEST}
        if against is not None and not any((against == limits[end]).any() for end in found.ends):
            return False
        op = node.key if position else MIRRORED.get(node.key, node.key)
        return not found.ends <= UNNOTICED.get(op, set())
    if node.key == "Cast":
        return node.attr("to") not in (TensorProto.BOOL, TensorProto.INT64)
    if node.key not in CHOOSING:
        return True
    elements = OPERATORS[node.key].elements
    return elements is not None and position not in elements
