"""Normalisations, and Dropout, which like BatchNormalization is another operator in training."""

from surgeon.ir.graph import Node
from surgeon.ir.lattice import FLOATS
from surgeon.targets.condition import condition, dtype_of, rank_of, shape_of
from surgeon.targets.releases import RTX, between, since, up_to
from surgeon.targets.rows import above, below, other_than, refuses, some

# fmt: off
ROWS = (
    refuses("InstanceNormalization", up_to(9, 3),
            reason="it runs as a plugin that needs cuDNN, fp32 initializers, and 3 to 5 "
                   "dimensions",
            section="3", source="onnx-tensorrt@6ba67d3: the plugin, unless kNATIVE_INSTANCENORM is set"),
    refuses("GroupNormalization", since(8, 6, rtx=True), rank=below(3), section="11",
            source="onnx-tensorrt@6ba67d3: Input to normalization should be at least 3D; measured with TensorRT-RTX"),
    refuses("InstanceNormalization", since(10, 0, rtx=True), rank=below(3), section="11",
            source="onnx-tensorrt@eb43908: Input to normalization should be at least 3D"),
    refuses("GroupNormalization", since(8, 6, rtx=True), attr={"num_groups": 1},
            reason="with one group it would compute an InstanceNormalization",
            source="NVIDIA/TensorRT#4756; importerUtils.cpp@3b9c961: axes of the input's spatial dimensions alone"),
    refuses("GroupNormalization", between((8, 6), (10, 8)), opset=above(20),
            reason="the scale by channel of opset 21 is refused", section="4",
            source="onnx-tensorrt@6ba67d3: scale and bias of shape [num_groups]"),
    refuses("GroupNormalization", between((10, 9), (10, 14)), opset=above(20), rank=other_than(4),
            reason="the input has {rank}; four are normalised over the right axes", section="4",
            source="importerUtils.cpp@3b9c961 groupNorm21Helper: 4-D reshape with the axes of the input"),
    refuses("LayerNormalization", since(8, 6, rtx=True), outputs=above(1), section="4",
            source="onnx-tensorrt@9c69a24; measured with TensorRT-RTX"),
    refuses("BatchNormalization", since(8, 0, rtx=True), attr={"training_mode": other_than(0)}, section="4",
            source="onnx-tensorrt@1def182 builtin_op_static_checkers.cpp; measured with TensorRT-RTX"),
    refuses("BatchNormalization", since(8, 0, rtx=True), outputs=above(1), section="4",
            source="onnx-tensorrt@1def182 builtin_op_static_checkers.cpp; measured with TensorRT-RTX"),
    refuses("LpNormalization LpPool", since(7, 2, 2, rtx=True), attr={"p": other_than(1, 2)}, section="4",
            source="onnx-tensorrt@1def182: Only L1 and L2 normalization are supported; measured with TensorRT-RTX"),
    refuses("RMSNormalization", since(10, 15, rtx=True), attr={"stash_type": other_than(*sorted(FLOATS))},
            reason="stash_type {value} is not a type of floats",
            source="measured with TensorRT-RTX 1.7.1: Could not infer output types"),
    refuses("Dropout", between((8, 4), (8, 4)), outputs=above(1), weights=True,
            reason="weights are refused together with a mask",
            source="measured with TensorRT 8.4.1.5: it crashes while it parses"),
    refuses("Dropout", RTX, outputs=above(1), weights=True, reason="weights are refused together with a mask",
            source="measured with TensorRT-RTX 1.7.1: Invalid Node, of weights and a mask"),
    refuses("Dropout", RTX, weights=True, size=0, reason="weights without elements are refused",
            source="measured with TensorRT-RTX 1.7.1: Failed to add an identity layer"),
    refuses("BatchNormalization", RTX, input=(1, 2, 3, 4), rank=other_than(1),
            lacks="spatial",  # up to opset 8: `BatchNormalization.spatial.where`
            source="measured with TensorRT-RTX 1.7.1: of the bias input must be (C, )"),
    refuses("Dropout", since(8, 0, rtx=True), value={2: some(other_than(0))}, reason="training mode is refused",
            source="onnx-tensorrt@4f54a19: does not support the Dropout operator in training mode"),
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
