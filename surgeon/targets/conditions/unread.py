"""Attributes that a parser does not read, found by reading its importers.

tests/unread.json says, for each release of the open parser, which attributes that ONNX's schema of an operator has its
importer does not read. A test holds the conditions against it: each is refused for the values that matter, or it is
gives the reason there.
"""

from surgeon.ir.graph import Node
from surgeon.targets.condition import rank_of
from surgeon.targets.releases import EVERYWHERE, between, since
from surgeon.targets.rows import below, read, refuses


def _have_other_ranks(node: Node) -> bool:
    return rank_of(node) != rank_of(node, 1)


# fmt: off
ROWS = (
    *read(__file__),
    refuses("Add Sub Mul Div Pow And Or Xor Equal Greater Less", between((7, 0), (9, 3)), opset=below(7),
            where=_have_other_ranks, reason="operands of different ranks are refused below opset 7",
            source="onnx-tensorrt@84b5be1 to @3b9c961 broadcastTensor: Pre-opset 7 broadcasting is unsupported"),
    refuses("MatMul PRelu", since(7, 0, rtx=True), opset=below(7), where=_have_other_ranks,
            reason="operands of different ranks are refused below opset 7",
            source="onnx-tensorrt@84b5be1 to @96e7811 broadcastTensors; measured with TensorRT-RTX 1.7.1: Pre-opset 7 "
                   "broadcasting is unsupported"),
    refuses("BatchNormalization", EVERYWHERE, attr={"spatial": 0}, where=lambda node: rank_of(node) != 2,
            reason="spatial 0 is not read: there would be one scale for each channel",
            source="onnx-tensorrt@6.0 to @96e7811: The shape of the scale input must be (C, ); measured with "
                   "TensorRT-RTX"),
)
# fmt: on
