"""Inputs that are left out."""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition
from surgeon.targets.releases import RTX, since

# The position of the last input of an operator, which the parser reads where it has a name, and be that empty.
LAST = {"Conv": 2, "Dropout": 2, "Gemm": 2, "Slice": 4, "Split": 1, "Squeeze": 1, "Trilu": 1}


@condition(
    "Conv Gemm Slice",
    since(7, 0),
    source="onnx-tensorrt@6f64911 to @96e7811: inputs.size() is asked for; measured with TensorRT 8.4.1.5: the process "
    "dies",
)
@condition(
    "Dropout Split Squeeze",
    since(8, 0),
    source="onnx-tensorrt@3f211d6 to @96e7811: inputs.size() is asked for",
)
@condition("Trilu", since(8, 5), source="onnx-tensorrt@fdeeaca to @96e7811: inputs.size() is asked for")
@condition(
    " ".join(LAST),
    RTX,
    source="measured with TensorRT-RTX 1.7.1: Invalid Node; ConvTranspose, Clip, Pad, Resize and Reduce take one",
)
def empty_last(node: Node) -> str | None:
    given = node.proto.input
    if len(given) != LAST[node.op] + 1 or given[-1]:
        return None
    return "its last input has an empty name"
