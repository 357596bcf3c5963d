"""What follows through the bodies of If, Loop and Scan.

An If returns what either branch does. A Loop and a Scan hand states from one iteration to the next: each holds what the
node was given, or what an iteration left. They return the last states, and stack the other results.
"""

from collections.abc import Iterator
from typing import NamedTuple

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import Shape, TensorType, join, meet, without_names
from surgeon.ir.schemas import LIKE_INPUT
from surgeon.ir.type_table import TypeTable

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
FIRST_STATE = 5  # the position of their first states: one, or two of an LSTM
OPSET_OF_SCAN = 9  # since then a Scan has no batch of its own


class LoopCarried(NamedTuple):
    """A state of a Loop or a Scan.

    `parameter` is the body's input, `shape` what is known of it before the first iteration (no names), `result` the
    body's output that it is in the next one.
    """

    parameter: Value
    shape: Shape | None
    result: Value


def iterates(node: Node) -> bool:
    """Whether it is a Loop or a Scan that is looked through.

    That of opset 8, with a batch of its own, is left to ONNX's inference. So is one whose attributes a function's call
    says.
    """
    if node.key == "Loop":
        return True
    if node.key != "Scan" or node.graph.model.opset_in(node.graph) < OPSET_OF_SCAN:
        return False
    return not any(a.ref_attr_name for a in node.proto.attribute)


def first_parameter(node: Node) -> int:
    """The position of the first state or element among a body's inputs: a Loop's count and condition come first."""
    return 2 if node.key == "Loop" else 0


def parameters(node: Node) -> list[Value]:
    """What a Loop or a Scan hands to its body in each iteration: states and elements."""
    if not iterates(node):
        return []
    body = node.bodies[0]
    return [body.values[info.name] for info in body.proto.input[first_parameter(node) :]]


def loop_carried(node: Node, table: TypeTable) -> list[LoopCarried]:
    """The states of a Loop or a Scan, with what is known of those that the node is given."""
    if not iterates(node):
        return []
    is_loop = node.key == "Loop"
    states = node.inputs[2:] if is_loop else node.inputs[: len(node.inputs) - node.attr("num_scan_inputs")]
    results = node.bodies[0].outputs[is_loop:]
    rows = zip(parameters(node), states, results, strict=False)
    return [LoopCarried(p, without_names(table.get(state).shape), result) for p, state, result in rows]


def refined_outputs(node: Node, table: TypeTable) -> Iterator[tuple[Value, TensorType]]:
    """The outputs of which more follows than the table says, each with what it is then."""
    for out, elem, shape in _outputs(node, table):
        if out is None or shape is None:
            continue
        own, before, _ = table.get(out)
        refined = meet(shape, before)
        if refined != before:
            yield out, TensorType(own or elem, refined)


def _outputs(node: Node, table: TypeTable) -> Iterator[tuple[Value | None, int, Shape | None]]:
    """(output, element type, what is known of its shape) of what ONNX's inference may make nothing of."""
    if node.key in LIKE_INPUT:
        source = table.get(node.inputs[0])
        yield node.outputs[0], node.attr("dtype") or source.elem, source.shape
    elif node.key == "If":
        yield from _branched(node, table)
    elif iterates(node):
        yield from _iterated(node, table)
    elif node.key in RECURRENT:
        yield from _recurrent(node, table)


def _recurrent(node: Node, table: TypeTable) -> Iterator[tuple[Value | None, int, Shape | None]]:
    """The outputs of an RNN: the batch is that of its first states, which may be fixed where that of x is not."""
    states = [table.get(v).shape for v in node.inputs[FIRST_STATE : FIRST_STATE + 2] if v is not None]
    at = 0 if node.attr("layout") else 1
    batch = next((s[at] for s in states if s is not None and len(s) == 3 and type(s[at]) is int), None)
    if batch is None:
        return
    last: Shape = (batch, None, None) if at == 0 else (None, batch, None)
    every: Shape = (batch, None, None, None) if at == 0 else (None, None, batch, None)
    for out, shape in zip(node.outputs, (every, last, last), strict=False):
        yield out, 0 if out is None else table.get(out).elem, shape


def _branched(node: Node, table: TypeTable) -> Iterator[tuple[Value | None, int, Shape | None]]:
    """The outputs of an If."""
    results = zip(*(body.outputs for body in node.bodies), strict=False)
    for out, either in zip(node.outputs, results, strict=False):
        types = [table.get(result) for result in either]
        yield out, types[0].elem, join([known.shape for known in types])


def _iterated(node: Node, table: TypeTable) -> Iterator[tuple[Value | None, int, Shape | None]]:
    """The outputs of a Loop or a Scan: last states, then stacked results."""
    carried = loop_carried(node, table)
    for out, state in zip(node.outputs, carried, strict=False):
        left = table.get(state.result)
        yield out, left.elem, join([state.shape, without_names(left.shape)])
    results = node.bodies[0].outputs[len(carried) + (node.key == "Loop") :]
    for position, (out, result) in enumerate(zip(node.outputs[len(carried) :], results, strict=False)):
        element = table.get(result)
        yield out, element.elem, _stacked(node, position, without_names(element.shape))


def _stacked(node: Node, position: int, shape: Shape | None) -> Shape | None:
    """The shape of what a Loop or a Scan stacks: how many iterations there are is not known."""
    axes = node.attrs.get("scan_output_axes") or [] if node.key == "Scan" else []
    axis = axes[position] if position < len(axes) else 0
    if shape is None or not -len(shape) - 1 <= axis <= len(shape):
        return None
    axis %= len(shape) + 1
    return (*shape[:axis], None, *shape[axis:])
