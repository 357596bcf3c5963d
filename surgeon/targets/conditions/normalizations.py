"""Normalisations, and Dropout, which like BatchNormalization is another operator in training."""

from surgeon.ir.graph import Node
from surgeon.ir.lattice import FLOATS
from surgeon.targets.condition import condition, dtype_of, rank_of, shape_of
from surgeon.targets.releases import RTX, since
from surgeon.targets.rows import other_than, read, refuses

# fmt: off
ROWS = (
    *read(__file__),
    refuses("RMSNormalization", since(10, 15, rtx=True), attr={"stash_type": other_than(*sorted(FLOATS))},
            reason="stash_type {value} is not a type of floats",
            source="measured with TensorRT-RTX 1.7.1: Could not infer output types"),
    refuses("InstanceNormalization", since(10, 0, rtx=True),
            where=lambda node: len({dtype_of(node, position) for position in range(3)} - {0}) > 1,
            reason="input, scale and bias are of different types", section="3",
            source="onnx-tensorrt@eb43908: either all FLOAT or all FLOAT16"),
)
# fmt: on


@condition("InstanceNormalization", RTX,
           source="measured with TensorRT-RTX 1.7.1: Error during shape inference, where there is one "
                  "number a channel")  # fmt: skip
def instance_of_one(node: Node) -> str | None:
    shape = shape_of(node)
    if shape is None or len(shape) < 2 or shape[1] == 1 or any(size != 1 for size in shape[2:]):
        return None
    return "one number for each channel is refused"


@condition("LayerNormalization RMSNormalization Hardmax ScatterElements", RTX,
           source="measured with TensorRT-RTX 1.7.1: no dimensions specified by axes; no dimensions to "
                  "be reduced; Axis must be in the range")  # fmt: skip
def no_normalized_axis(node: Node) -> str | None:
    rank, axis = rank_of(node), node.attr("axis")
    if axis is None:
        return None
    return f"axis {axis} is not one of the {rank} dimensions" if rank and not -rank <= axis < rank else None


@condition("InstanceNormalization", RTX,
           source="measured with TensorRT-RTX 1.7.1: unsqueeze index; Assertion input.nbDims == "
                  "scale.nbDims; is expected to match the output at the channel dimension")  # fmt: skip
def other_channels(node: Node) -> str | None:
    shape = shape_of(node)
    for name, given in (("scale", shape_of(node, 1)), ("bias", shape_of(node, 2))):
        if given is None:
            continue
        if len(given) != 1:
            return f"a {name} of {len(given)} dimensions is refused; one is supported"
        channels = shape[1] if shape is not None and len(shape) > 1 else None
        count = given[0]
        if isinstance(channels, int) and isinstance(count, int) and count != channels and (name, count) != ("scale", 1):
            return f"the {name} has {count} numbers for {channels} channels"
    return None
