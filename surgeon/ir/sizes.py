"""Sizes that a model computes: what a Shape returns, and what the target of a Reshape or an Expand says."""

import numpy as np
from onnx import TensorProto, numpy_helper

from surgeon.ir.attributes import constant_value
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import Dim, Shape, is_static, meet
from surgeon.ir.type_table import TypeTable

TARGETED = frozenset({"Reshape", "Expand"})  # their second input says which shape they return


def shape_slice(node: Node, shape: Shape) -> Shape:
    """The part of the dimensions that a Shape node returns: `start` and `end` came with opset 15."""
    if node.key != "Shape" or not node.attrs:
        return shape
    return shape[node.attrs.get("start", 0) : node.attrs.get("end")]


def targeted_shape(node: Node, table: TypeTable) -> Shape | None:
    """The shape of what a Reshape or an Expand returns, where the target says more of it than the table does.

    ONNX's inference leaves it out where the target is computed: the output has as many dimensions as the target has
    elements, whatever those are.
    """
    out, source, target = node.outputs[0], *[*node.inputs, None][:2]
    if out is None or source is None or target is None:
        return None
    elem, before, _ = table.get(out)
    target_shape = table.get(target).shape
    if not elem or target_shape is None or len(target_shape) != 1 or not isinstance(target_shape[0], int):
        return None
    if is_static(before):
        return None
    shape = named_sizes(target, table)
    if len(shape) != target_shape[0]:
        shape = (None,) * target_shape[0]
    if node.key == "Expand":
        given = table.get(source).shape
        if given is None or len(given) != len(shape):
            return None
        shape = tuple(_expanded(d, s) for d, s in zip(given, shape, strict=True))
    refined = meet(shape, before)
    return None if refined == before else refined


def _expanded(given: Dim, asked: Dim) -> Dim:
    """The size of a dimension that an Expand is asked to bring to another one; only 1 grows."""
    if asked in (1, given) or (isinstance(given, int) and given != 1):
        return given
    return asked if isinstance(asked, int) or given == 1 else None


def named_sizes(target: Value, table: TypeTable) -> Shape:
    """The sizes that a target names; empty where it does not say how many they are.

    1. A Shape names the dimensions of what it reads.
    2. A Concat names those that its constant parts do.
    3. A written target names its own.
    """
    node = target.producer
    if node is not None and node.key == "Shape" and node.inputs[0] is not None:
        shape = shape_slice(node, table.get(node.inputs[0]).shape or ())
        return tuple(None if isinstance(d, int) and d < 1 else d for d in shape)
    if node is not None and node.key == "Concat":
        parts = [part for part in node.inputs if part is not None]
    else:
        parts = [target] if target.is_written else []
    found: list[Dim] = []
    for part in parts:
        sizes = _sizes_of_part(part, table)
        if sizes is None:
            return ()
        found += sizes
    return tuple(found)


def _sizes_of_part(part: Value, table: TypeTable) -> list[Dim] | None:
    """The sizes that a part of a target names; None where not even their number is known."""
    array = _written_array(part)
    if array is not None:
        return [int(size) if size > 0 else None for size in array.reshape(-1)]
    length = table.get(part).shape
    if length is None or len(length) != 1 or not isinstance(length[0], int):
        return None
    return [None] * length[0]


def _written_array(value: Value) -> np.ndarray | None:
    """The elements of a tensor that the file holds itself."""
    tensor = value.tensor if value.is_written else None
    if tensor is not None and tensor.data_location != TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    node = value.producer
    return constant_value(node.proto) if node is not None and node.key == "Constant" else None
