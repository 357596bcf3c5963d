"""Attributes that a parser does not read, found by reading its importers.

tests/unread.json says, for each release of the open parser, which attributes that ONNX's schema of an operator has its
importer does not read. A test holds the conditions against it: each is refused for the values that matter, or it is
said there why no value matters.
"""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, opset_of, rank_of, unread
from surgeon.targets.releases import EVERYWHERE, between, since, up_to

largest = unread(
    "largest",
    "TopK",
    up_to(8, 4),
    right=1,
    effect="the largest would come back",
    source="onnx-tensorrt@6.0 to @9f82b2b: TopKOperation::kMAX alone; measured with TensorRT 8.4.1.5",
)

select_last_index = unread(
    "select_last_index",
    "ArgMax ArgMin",
    up_to(7, 2, 2),
    right=0,
    effect="the first of equals would be chosen",
    source="onnx-tensorrt@6.0 to @803e699 argMinMaxHelper: axis and keepdims alone",
)


@condition(
    "BatchNormalization",
    EVERYWHERE,
    source="onnx-tensorrt@6.0 to @96e7811: The shape of the scale input must be (C, ); measured with TensorRT-RTX",
)
def not_spatial(node: Node) -> str | None:
    if node.attrs.get("spatial", 1) or rank_of(node) == 2:
        return None
    return "spatial 0 is not read: there would be one scale a channel"


@condition(
    "Add Sub Mul Div Pow And Or Xor Equal Greater Less",
    between((7, 0), (9, 3)),
    source="onnx-tensorrt@84b5be1 to @3b9c961 broadcastTensor: Pre-opset 7 broadcasting is unsupported",
    below_opset=7,
)
@condition(
    "MatMul PRelu",
    since(7, 0, rtx=True),
    source="onnx-tensorrt@84b5be1 to @96e7811 broadcastTensors; measured with TensorRT-RTX 1.7.1: Pre-opset 7 "
    "broadcasting is unsupported",
    below_opset=7,
)
def legacy_broadcast(node: Node) -> str | None:
    if opset_of(node) >= 7 or rank_of(node) == rank_of(node, 1):
        return None
    return "operands of different ranks are refused below opset 7"


@condition(
    "Gemm",
    since(7, 0, rtx=True),
    source="onnx-tensorrt@84b5be1 to @96e7811 broadcastTensors; measured with TensorRT-RTX 1.7.1: Pre-opset 7 "
    "broadcasting is unsupported",
    below_opset=7,
)
def legacy_bias(node: Node) -> str | None:
    if opset_of(node) >= 7 or rank_of(node, 2) in (None, 2):
        return None
    return f"a bias of {rank_of(node, 2)} dimensions is refused below opset 7"


@condition(
    "Add Sub Mul Div Pow And Or Xor Equal Greater Less Max Mean Min Sum",
    since(10, 0, rtx=True),
    source="onnx-tensorrt@eb43908, @96e7811 elementwiseHelper: CHECK_STATUS(broadcastTensor), of operands of one rank, "
    "too; measured with TensorRT-RTX 1.7.1",
    below_opset=7,
)
def legacy_elementwise(node: Node) -> str | None:
    return "it is refused below opset 7" if opset_of(node) < 7 else None


@condition(
    "Scan",
    since(7, 0, rtx=True),
    source="onnx-tensorrt@84b5be1 to @96e7811: opset8Offset, the scanned axis is 1 and the batch stays; measured with "
    "TensorRT-RTX",
)
def batched_scan(node: Node) -> str | None:
    if opset_of(node) != 8:
        return None
    return "opset 8 scans each example of a batch, and this parser hands the whole batch to the body"


@condition(
    "Constant",
    since(8, 0, rtx=True),
    source="onnx-tensorrt@4225037 to @96e7811: does not support the sparse_value, value_string and value_strings; "
    "measured with TensorRT-RTX",
)
def constant_kind(node: Node) -> str | None:
    refused = [name for name in ("sparse_value", "value_string", "value_strings") if name in node.attrs]
    return f"{refused[0]} is refused" if refused else None


@condition(
    "Upsample",
    EVERYWHERE,
    source="onnx-tensorrt@6.0 to @96e7811: Attribute scales is missing",
)
def upsample_scales(node: Node) -> str | None:
    return "height_scale and width_scale are not read: scales is" if "height_scale" in node.attrs else None


@condition(
    "Pad",
    since(8, 2, rtx=True),
    source='onnx-tensorrt@4f54a19 to @96e7811: attrs.get<std::vector<int32_t>>("pads"), which opset 1 calls paddings',
)
def pad_paddings(node: Node) -> str | None:
    return "paddings is not read: pads is" if "paddings" in node.attrs else None
