"""Attributes that a parser does not read, found by reading its importers.

tests/unread.json says, for each release of the open parser, which attributes that ONNX's schema of an operator has its
importer does not read. A test holds the conditions against it: each is refused for the values that matter, or it is
gives the reason there.
"""

from surgeon.ir.graph import Node
from surgeon.targets.condition import rank_of
from surgeon.targets.releases import EVERYWHERE, between, since, up_to
from surgeon.targets.rows import below, other_than, refuses


def _have_other_ranks(node: Node) -> bool:
    return rank_of(node) != rank_of(node, 1)


# fmt: off
ROWS = (
    refuses("TopK", up_to(8, 4), attr={"largest": other_than(1)},
            reason="{name} {value} is ignored: the largest values are returned",
            source="onnx-tensorrt@6.0 to @9f82b2b: TopKOperation::kMAX alone; measured with TensorRT 8.4.1.5"),
    refuses("ArgMax ArgMin", up_to(7, 2, 2), attr={"select_last_index": other_than(0)},
            reason="{name} {value} is not read: the first of equals would be chosen",
            source="onnx-tensorrt@6.0 to @803e699 argMinMaxHelper: axis and keepdims alone"),
    refuses("Add Sub Mul Div Pow And Or Xor Equal Greater Less", between((7, 0), (9, 3)), opset=below(7),
            where=_have_other_ranks, reason="operands of different ranks are refused below opset 7",
            source="onnx-tensorrt@84b5be1 to @3b9c961 broadcastTensor: Pre-opset 7 broadcasting is unsupported"),
    refuses("MatMul PRelu", since(7, 0, rtx=True), opset=below(7), where=_have_other_ranks,
            reason="operands of different ranks are refused below opset 7",
            source="onnx-tensorrt@84b5be1 to @96e7811 broadcastTensors; measured with TensorRT-RTX 1.7.1: Pre-opset 7 "
                   "broadcasting is unsupported"),
    refuses("Gemm", since(7, 0, rtx=True), opset=below(7), input=2, rank=other_than(2),
            reason="a bias of {rank} is refused below opset 7",
            source="onnx-tensorrt@84b5be1 to @96e7811 broadcastTensors; measured with TensorRT-RTX 1.7.1: Pre-opset 7 "
                   "broadcasting is unsupported"),
    refuses("Add Sub Mul Div Pow And Or Xor Equal Greater Less Max Mean Min Sum", since(10, 0, rtx=True),
            opset=below(7), reason="it is refused below opset 7",
            source="onnx-tensorrt@eb43908, @96e7811 elementwiseHelper: CHECK_STATUS(broadcastTensor), of operands of "
                   "one rank, too; measured with TensorRT-RTX 1.7.1"),
    refuses("Scan", since(7, 0, rtx=True), opset=below(9),
            reason="opset 8 scans each example of a batch, and this parser passes the whole batch to the body",
            source="onnx-tensorrt@84b5be1 to @96e7811: opset8Offset, the scanned axis is 1 and the batch stays; "
                   "measured with TensorRT-RTX"),
    refuses("Constant", since(8, 0, rtx=True), given=("sparse_value", "value_string", "value_strings"),
            source="onnx-tensorrt@4225037 to @96e7811: does not support the sparse_value, value_string and "
                   "value_strings; measured with TensorRT-RTX"),
    refuses("Upsample", EVERYWHERE, given="height_scale",
            reason="height_scale and width_scale are not read: scales is",
            source="onnx-tensorrt@6.0 to @96e7811: Attribute scales is missing"),
    refuses("Pad", since(8, 2, rtx=True), given="paddings", reason="paddings is not read: pads is",
            source="onnx-tensorrt@4f54a19 to @96e7811: attrs.get<std::vector<int32_t>>(\"pads\"), which opset 1 calls "
                   "paddings"),
    refuses("BatchNormalization", EVERYWHERE, attr={"spatial": 0}, where=lambda node: rank_of(node) != 2,
            reason="spatial 0 is not read: there would be one scale for each channel",
            source="onnx-tensorrt@6.0 to @96e7811: The shape of the scale input must be (C, ); measured with "
                   "TensorRT-RTX"),
)
# fmt: on
