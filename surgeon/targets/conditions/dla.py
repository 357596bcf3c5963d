"""What DLA does not run, and leaves to the GPU."""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, input_of, is_weights
from surgeon.targets.conditions.pads import mode_of
from surgeon.targets.releases import DLA
from surgeon.targets.tables import DLA_NATIVE, IMPORTED


@condition(
    "Pad",
    DLA,
    section="10",
    source="dla-layer-restrictions: constant 0 alone, from 10.4; kREFLECT and kCLAMP never",
)
def pad_mode(node: Node) -> str | None:
    mode = mode_of(node)
    return f"DLA has no '{mode}' padding" if mode != "constant" else None


@condition("PRelu", DLA, section="10", source="dla-layer-restrictions: the slope is a build-time constant")
def prelu_slope(node: Node) -> str | None:
    return None if is_weights(input_of(node, 1)) else "on DLA the slope must be an initializer"


@condition(
    " ".join(sorted(IMPORTED - DLA_NATIVE)),
    DLA,
    section="10",
    source="NVIDIA/Deep-Learning-Accelerator-SW operators/README.md@ea61780, dla-layer-restrictions",
)
def falls_back(node: Node) -> str | None:
    return f"DLA has no {node.op}: it would run on the GPU"
