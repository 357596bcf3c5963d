"""Normalisations, and Dropout, which like BatchNormalization is another operator in training."""

from __future__ import annotations

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.targets.condition import (
    condition,
    constant_of,
    dtype_of,
    input_of,
    is_weights,
    opset_of,
    outputs_of,
    rank_of,
    shape_of,
)
from surgeon.targets.releases import RTX, between, since, up_to


@condition(
    "InstanceNormalization",
    up_to(9, 3),
    section="3",
    source="onnx-tensorrt@6ba67d3: the plugin, unless kNATIVE_INSTANCENORM is set",
)
def instance_norm_plugin(node: Node) -> str | None:
    return "it becomes the stock plugin, which needs cuDNN, scale and bias as fp32 initializers, and 3 to 5 dimensions"


@condition(
    "GroupNormalization",
    since(8, 6, rtx=True),
    section="11",
    source="onnx-tensorrt@6ba67d3: Input to normalization should be at least 3D; measured with TensorRT-RTX",
)
@condition(
    "InstanceNormalization",
    since(10, 0, rtx=True),
    section="11",
    source="onnx-tensorrt@eb43908: Input to normalization should be at least 3D",
)
def norm_rank(node: Node) -> str | None:
    rank = rank_of(node)
    return f"the input has {rank} dimensions; at least three are needed" if rank is not None and rank < 3 else None


@condition(
    "InstanceNormalization",
    since(10, 0, rtx=True),
    section="3",
    source="onnx-tensorrt@eb43908: either all FLOAT or all FLOAT16",
)
def instance_norm_mixed(node: Node) -> str | None:
    kinds = {dtype_of(node, position) for position in range(3)} - {0}
    return "input, scale and bias are of different types" if len(kinds) > 1 else None


@condition(
    "GroupNormalization",
    since(8, 6, rtx=True),
    source="NVIDIA/TensorRT#4756; importerUtils.cpp@3b9c961: axes of the input's spatial dimensions alone",
)
def group_norm_one(node: Node) -> str | None:
    return "with one group it would compute an InstanceNormalization" if node.attr("num_groups") == 1 else None


@condition(
    "GroupNormalization",
    between((8, 6), (10, 8)),
    section="4",
    source="onnx-tensorrt@6ba67d3: scale and bias of shape [num_groups]",
)
def group_norm_channels(node: Node) -> str | None:
    return "the scale by channel of opset 21 is refused" if opset_of(node) >= 21 else None


@condition(
    "GroupNormalization",
    between((10, 9), (10, 14)),
    section="4",
    source="importerUtils.cpp@3b9c961 groupNorm21Helper: 4-D reshape with the axes of the input",
)
def group_norm_rank(node: Node) -> str | None:
    rank = rank_of(node)
    if rank in (None, 4) or opset_of(node) < 21:
        return None
    return f"the input has {rank} dimensions; four are normalised over the right axes"


@condition(
    "LayerNormalization",
    since(8, 6, rtx=True),
    section="4",
    source="onnx-tensorrt@9c69a24; measured with TensorRT-RTX",
)
def layer_norm_outputs(node: Node) -> str | None:
    return "more than one output is refused" if outputs_of(node) > 1 else None


@condition(
    "LayerNormalization",
    between((10, 5), (10, 10)),
    section="1b",
    source="onnx-tensorrt@9c69a24: the default scale is 0",
)
def layer_norm_scale(node: Node) -> str | None:
    return "without a scale it is multiplied with 0" if input_of(node, 1) is None else None


@condition(
    "BatchNormalization",
    since(8, 0, rtx=True),
    section="4",
    source="onnx-tensorrt@1def182 builtin_op_static_checkers.cpp; measured with TensorRT-RTX",
)
def batch_norm_training(node: Node) -> str | None:
    if node.attr("training_mode"):
        return "training_mode is refused"
    return "more than one output is refused" if outputs_of(node) > 1 else None


@condition(
    "LpNormalization LpPool",
    since(7, 2, 2, rtx=True),
    section="4",
    source="onnx-tensorrt@1def182: Only L1 and L2 normalization are supported",
)
def lp_order(node: Node) -> str | None:
    return f"p = {node.attr('p')} is refused; 1 and 2 are taken" if node.attr("p") not in (1, 2) else None


@condition(
    "Dropout",
    since(8, 0, rtx=True),
    source="onnx-tensorrt@4f54a19: does not support the Dropout operator in training mode",
)
def dropout_training(node: Node) -> str | None:
    training = constant_of(node, 2)
    return "training mode is refused" if training is not None and bool(training.any()) else None


@condition(
    "InstanceNormalization",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: Error during shape inference, where there is one number a channel",
)
def instance_of_one(node: Node) -> str | None:
    shape = shape_of(node)
    if shape is None or len(shape) < 2 or shape[1] == 1 or any(size != 1 for size in shape[2:]):
        return None
    return "one number a channel is refused"


@condition(
    "RMSNormalization",
    since(10, 15, rtx=True),
    source="measured with TensorRT-RTX 1.7.1: Could not infer output types",
)
def stashed_type(node: Node) -> str | None:
    given = node.attrs.get("stash_type", TensorProto.FLOAT)
    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
    return None if given in floats else f"stash_type {given} is no type of floats"


@condition(
    "Dropout",
    between((8, 4), (8, 4)),
    source="measured with TensorRT 8.4.1.5: its process dies while it parses",
)
@condition("Dropout", RTX, source="measured with TensorRT-RTX 1.7.1: Invalid Node, of weights and a mask")
def dropped_weights(node: Node) -> str | None:
    return (
        "weights are refused together with a mask" if outputs_of(node) > 1 and is_weights(input_of(node, 0)) else None
    )


@condition("BatchNormalization", RTX, source="measured with TensorRT-RTX 1.7.1: of the bias input must be (C, )")
def statistics_in_rows(node: Node) -> str | None:
    ranks = {place: rank_of(node, place) for place in range(1, 5)}
    found = next(((place, rank) for place, rank in ranks.items() if rank not in (None, 1)), None)
    if found is None or "spatial" in node.attrs:  # up to opset 8: `not_spatial`
        return None
    return f"its input {found[0]} has {found[1]} dimensions; one is taken"


@condition("Dropout", RTX, source="measured with TensorRT-RTX 1.7.1: Failed to add an identity layer")
def dropped_nothing(node: Node) -> str | None:
    given = input_of(node, 0)
    if given is None or not is_weights(given) or 0 not in (shape_of(node) or ()):
        return None
    return "weights without elements are refused"


@condition(
    "LayerNormalization RMSNormalization Hardmax ScatterElements",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: no dimensions specified by axes; no dimensions to be reduced; Axis must "
    "be in the range",
)
def no_normalized_axis(node: Node) -> str | None:
    rank, axis = rank_of(node), node.attr("axis")
    if axis is None:
        return None
    return f"axis {axis} is none of the {rank} dimensions" if rank and not -rank <= axis < rank else None


@condition(
    "InstanceNormalization",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: unsqueeze index; Assertion input.nbDims == scale.nbDims; is expected to "
    "match the output at the channel dimension",
)
def other_channels(node: Node) -> str | None:
    shape = shape_of(node)
    for name, given in (("scale", shape_of(node, 1)), ("bias", shape_of(node, 2))):
        if given is None:
            continue
        if len(given) != 1:
            return f"a {name} of {len(given)} dimensions is refused; one is taken"
        channels = shape[1] if shape is not None and len(shape) > 1 else None
        count = given[0]
        if isinstance(channels, int) and isinstance(count, int) and count != channels and (name, count) != ("scale", 1):
            return f"the {name} has {count} numbers for {channels} channels"
    return None
