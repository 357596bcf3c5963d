"""If, Loop and Scan."""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, constant_of, input_of
from surgeon.targets.releases import RTX, since


@condition("Loop", RTX, source="measured with TensorRT-RTX alone: `Node input was not registered`")
def loop_condition(node: Node) -> str | None:
    if input_of(node, 1) is not None or not node.bodies:
        return None
    body = node.bodies[0]
    handed = body.values[body.proto.input[1].name]
    if not handed.users and handed not in body.results:
        return None
    return f"the condition is left out, and its body reads it as '{handed.name}'"


NO_LIMIT = 2**31 - 1  # how exporters spell a Loop that its condition ends


@condition(
    "Loop",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: cannot infer the shape of scan output since no trip limit was set",
)
def endless_loop(node: Node) -> str | None:
    if not node.bodies or len(node.bodies[0].proto.output) - 1 <= max(len(node.proto.input) - 2, 0):
        return None
    trips = constant_of(node, 0)
    if input_of(node, 0) is not None and (trips is None or int(trips.reshape(-1)[0]) < NO_LIMIT):
        return None
    return "what each iteration returns is refused without a limit on the iterations"


@condition(
    "Scan",
    since(7, 0, rtx=True),
    source="onnx-tensorrt@84b5be1 to @96e7811: stateVars.at(0); measured with TensorRT-RTX 1.7.1",
)
def stateless_scan(node: Node) -> str | None:
    return "a Scan without state is refused" if len(node.proto.input) == node.attr("num_scan_inputs") else None


@condition(
    "If",
    since(8, 0, rtx=True),
    source="`IIfConditionalOutputLayer inputs must have the same shape`; measured with TensorRT-RTX 1.7.1, which takes "
    "other sizes of one rank",
)
def branches_of_other_rank(node: Node) -> str | None:
    if len(node.bodies) != 2:
        return None
    model, (then, other) = node.graph.model, node.bodies
    for one, two in zip(then.results, other.results, strict=True):
        shapes = (model.shape(value) for value in (one, two) if value is not None)
        ranks = {len(shape) for shape in shapes if shape is not None}
        if len(ranks) == 2:
            return f"its branches return {min(ranks)} and {max(ranks)} dimensions"
    return None
