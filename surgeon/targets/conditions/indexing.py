"""What takes tensors apart: Slice, Split, Squeeze, Scatter, Trilu."""

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.targets.condition import (
    condition,
    constant_of,
    dtype_of,
    handed_on,
    is_weights,
    may_match,
    opset_of,
    rank_of,
    shape_of,
    size_along,
)
from surgeon.targets.releases import RTX, between, since
from surgeon.targets.rows import DYNAMIC, read, refuses

# fmt: off
ROWS = (
    *read(__file__),
    refuses("Squeeze", between((7, 2, 2), (10, 1)), size=DYNAMIC, lacks=1,
            where=lambda node: not node.attrs.get("axes"),
            reason="axes is left out, and which of its sizes are 1 is not known",
            source="onnx-tensorrt@803e699 to @96e7811: Cannot infer squeeze dimensions from a dynamic shape; measured "
                   "with TensorRT 8.4.1.5"),
    refuses("ReverseSequence", since(8, 6, rtx=True),
            where=lambda node: bool(node.attr("batch_axis") == node.attr("time_axis")),
            reason="batch_axis and time_axis are the same",
            source="onnx-tensorrt@6ba67d3: batch_axis and time_axis cannot be the same; measured with "
                   "TensorRT-RTX 1.7.1"),
)
# fmt: on


@condition("Slice", since(7, 0, rtx=True),
           source="onnx-tensorrt@84b5be1 to @96e7811: iotaShapeVector(dims.size()), starts.size() == "
                  "axes.size(); measured with TensorRT-RTX")  # fmt: skip
def slice_axes(node: Node) -> str | None:
    starts, rank = shape_of(node, 1), rank_of(node)
    if starts is None or rank is None or node.input_at(3) is not None or starts == (rank,):
        return None
    return "axes is left out, which stands for every dimension"


@condition("Split", between((8, 0), (9, 3)), source="onnx-tensorrt@1def182: num_outputs is not read, equal parts alone")
def split_uneven(node: Node) -> str | None:
    count = node.attrs.get("num_outputs")
    if count is None:
        return None
    size = size_along(node, node.attr("axis"))
    if isinstance(size, int) and size % count == 0:
        return None
    return f"num_outputs {count} does not divide the dimension"


@condition("Slice", RTX,
           source="measured with TensorRT-RTX 1.7.1: Slice steps length does not equal starts length; "
                  "int64 is taken")  # fmt: skip
def slice_steps(node: Node) -> str | None:
    starts, rank = shape_of(node, 1), rank_of(node)
    if dtype_of(node, 1) != TensorProto.INT32:
        return None
    if node.input_at(4) is not None:
        return None if is_weights(node.input_at(4)) else "steps that are computed are refused in int32"
    if not all(is_weights(node.input_at(position)) for position in (1, 2, 3)):
        return None
    return None if starts is None or starts == (rank,) else "steps are left out, and the positions are int32"


@condition("Split", since(10, 0, rtx=True),
           source="measured with TensorRT-RTX 1.7.1: The number of node outputs is not the same as "
                  "num_outputs")  # fmt: skip
def split_outputs(node: Node) -> str | None:
    count = node.attrs.get("num_outputs")
    if count is None or count == len(node.proto.output):
        return None
    return f"num_outputs is {count}, and {len(node.proto.output)} are named"


@condition("Expand Reshape Slice", between((8, 4), (8, 4)),
           source="measured with TensorRT 8.4.1.5: shape tensor must not have run-time dimensions; size "
                  "input must be build-time constant")  # fmt: skip
@condition(
    "Slice", RTX, source="measured with TensorRT-RTX 1.7.1: The shape of input starts misaligns with the shape of axes"
)
@condition("Pad", RTX,
           source="measured with TensorRT-RTX 1.7.1: pads should be twice the length of input axes, "
                  "actual length is: -1")  # fmt: skip
@condition("Reshape Expand ConstantOfShape", RTX,
           source="measured with TensorRT-RTX 1.7.1: value should have been set by symbolic execution; "
                  "Tile is taken")  # fmt: skip
def given_length(node: Node) -> str | None:
    first = 0 if node.op == "ConstantOfShape" else 1
    for position in range(first, len(node.inputs)):
        found = handed_on(node.input_at(position))
        if found is None or not (found.is_input and found.graph is found.graph.model.graph):
            continue
        shape = found.graph.model.shape(found)
        if shape and not isinstance(shape[0], int):
            return f"how many numbers its input '{found.name}' has is not static"
    return None


(slice_lengths,) = read(__file__, "slice_lengths")  # after `given_length`


@condition("Slice", RTX,
           source="measured with TensorRT-RTX 1.7.1: The shape of input starts misaligns with the shape "
                  "of input axes; ISliceLayer input 1 must have the same length as axes input")  # fmt: skip
def slice_counts(node: Node) -> str | None:
    shapes = [shape_of(node, position) for position in (1, 2, 3, 4) if node.input_at(position) is not None]
    counts = {shape[0] for shape in shapes if shape is not None and len(shape) == 1 and isinstance(shape[0], int)}
    return f"its inputs have {' and '.join(map(str, sorted(counts)))} numbers" if len(counts) > 1 else None


@condition("ScatterND", RTX, source="measured with TensorRT-RTX 1.7.1: Error while lowering shape of node")
def scattered_updates(node: Node) -> str | None:
    data, indices, updates = (shape_of(node, position) for position in range(3))
    if data is None or not indices or updates is None or not isinstance(indices[-1], int):
        return None
    alike = may_match((*indices[:-1], *data[indices[-1] :]), updates)
    return None if alike else "the updates do not have the shape that the indices ask for"


@condition("ScatterElements", RTX,
           source="measured with TensorRT-RTX 1.7.1: Indices dimensions must be less than data "
                  "dimensions")  # fmt: skip
def more_indices(node: Node) -> str | None:
    data, indices = shape_of(node, 0), shape_of(node, 1)
    if data is None or indices is None or len(data) != len(indices):
        return None
    sizes = zip(indices, data, strict=True)
    more = any(isinstance(one, int) and isinstance(other, int) and one > other for one, other in sizes)
    return "there are more indices than positions" if more else None


@condition("ScatterElements", RTX,
           source="measured with TensorRT-RTX 1.7.1: dimensions not compatible for Scatter elements; "
                  "must have the same rank")  # fmt: skip
def other_updates(node: Node) -> str | None:
    indices, updates = shape_of(node, 1), shape_of(node, 2)
    if indices is None or updates is None:
        return None
    return None if may_match(indices, updates) else "the updates do not have the shape of the indices"


@condition("Squeeze Unsqueeze", RTX, source="measured with TensorRT-RTX 1.7.1: axes have duplicate index value")
def repeated_axes(node: Node) -> str | None:
    axes, rank = constant_of(node, 1), rank_of(node)
    if axes is None or rank is None:
        return None
    size = rank + (axes.size if node.op == "Unsqueeze" else 0)
    places = {int(axis) % max(size, 1) for axis in axes.reshape(-1)}
    return "an axis is named twice" if len(places) < axes.size else None


@condition("ReverseSequence", RTX,
           source="measured with TensorRT-RTX 1.7.1: batch dimension not matching between input and "
                  "sequenceLens")  # fmt: skip
def other_examples(node: Node) -> str | None:
    size, lengths = size_along(node, node.attr("batch_axis")), shape_of(node, 1)
    if not lengths or may_match((size,), lengths):
        return None
    return f"there are {lengths[0]} lengths for {size} examples"


@condition("Tile", RTX,
           source="measured with TensorRT-RTX 1.7.1: value should have been set by symbolic execution; "
                  "more dimensions are taken")  # fmt: skip
def tiled_vector(node: Node) -> str | None:
    return given_length.check(node) if rank_of(node) == 1 else None


@condition("TopK", RTX, source="measured with TensorRT-RTX 1.7.1: it crashes while it parses")
def given_counts(node: Node) -> str | None:
    why = given_length.check(node)
    return None if why is None else f"{why}, and the parser crashes"


@condition("Hardmax", RTX, source="measured with TensorRT-RTX 1.7.1: K of 1 not consistent with axis of length 0")
def largest_of_none(node: Node) -> str | None:
    shape, axis = shape_of(node) or (), node.attr("axis")
    reached = shape[axis:] if opset_of(node) < 13 else (size_along(node, axis),)
    return "the axis has no elements" if 0 in reached else None
