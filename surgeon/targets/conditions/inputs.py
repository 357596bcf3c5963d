"""Inputs that are left out."""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition
from surgeon.targets.releases import RTX

# The position of the last input of an operator, which the parser reads where it has a name, and be that empty.
LAST = {"Conv": 2, "Dropout": 2, "Gemm": 2, "Slice": 4, "Split": 1, "Squeeze": 1, "Trilu": 1}


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
