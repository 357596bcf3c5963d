"""Loops."""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, input_of
from surgeon.targets.releases import RTX


@condition("Loop", RTX, source="measured with TensorRT-RTX alone: `Node input was not registered`")
def loop_condition(node: Node) -> str | None:
    if input_of(node, 1) is not None or not node.bodies:
        return None
    body = node.bodies[0]
    handed = body.values[body.proto.input[1].name]
    if not handed.users and handed not in body.results:
        return None
    return f"the condition is left out, and its body reads it as '{handed.name}'"
