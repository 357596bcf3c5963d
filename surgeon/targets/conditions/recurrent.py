"""LSTM, GRU and RNN."""

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import Shape
from surgeon.targets.condition import condition, may_match, shape_of
from surgeon.targets.releases import RTX, between, since
from surgeon.targets.rows import read

ROWS = read(__file__)


@condition("LSTM GRU", since(7, 0, rtx=True), section="6",
           source="`does not currently support cases where activations for the reverse pass of the LSTM "
                  "do not match the forward pass`; measured with TensorRT-RTX")  # fmt: skip
@condition("RNN", RTX, source="measured with TensorRT-RTX alone")
def reverse_activations(node: Node) -> str | None:
    if not _differ_backward(node, "activations"):
        return None
    return "the reverse pass has other activations than the forward one"


@condition("LSTM GRU RNN", RTX, source="measured with TensorRT-RTX alone")
def reverse_numbers(node: Node) -> str | None:
    for name in ("activation_alpha", "activation_beta"):
        if _differ_backward(node, name):
            return f"the reverse pass has another {name} than the forward one"
    return None


def _differ_backward(node: Node, name: str) -> bool:
    """Whether the second half of a list, which is for the reverse pass, is another one than the first."""
    given = list(node.attrs.get(name) or [])
    half = len(given) // 2
    return node.attr("direction") == "bidirectional" and len(given) == 2 * half and given[:half] != given[half:]


@condition("LSTM GRU RNN Scan Loop", RTX,
           source="measured with TensorRT-RTX 1.7.1: graphScope.cpp: tScope.getType() != "
                  "ScopeType::kUNDEFINED; a Loop that makes its states alone is built, and so is one "
                  "whose steps are read, too")  # fmt: skip
def unread_steps(node: Node) -> str | None:
    holder = node.graph.holder
    while holder is not None and holder.key != "If":
        holder = holder.graph.holder
    if holder is None or not any(o is not None and o.is_read for o in node.outputs):
        return None
    steps = _steps(node)
    if not steps or any(o is not None and o.is_read for o in steps):
        return None
    return "in a branch of an If only its last state is read"


def _steps(node: Node) -> list[Value | None]:
    """The outputs that have something of each step, read or not."""
    if node.key not in ("Scan", "Loop"):
        return node.outputs[:1]
    body, first = node.bodies[0], len(node.inputs) - 2
    if node.key == "Scan":
        first = len(node.inputs) - int(node.attr("num_scan_inputs"))
    made = len(body.outputs) - (node.key == "Loop")
    return [*node.outputs[first:], *[None] * (made - len(node.outputs))] if made > first else []


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@condition("LSTM GRU RNN", between((8, 4), (8, 4)),
           source="measured with TensorRT 8.4.1.5: last dimension of input0 and last dimension of input1 "
                  "must match")  # fmt: skip
@condition("LSTM GRU RNN", RTX,
           source="measured with TensorRT-RTX 1.7.1: reshape changes volume; last dimension of input0 "
                  "and input1 must match")  # fmt: skip
def misshapen(node: Node) -> str | None:
    data, hidden = shape_of(node), node.attrs.get("hidden_size")
    if data is None or len(data) != 3 or hidden is None:
        return None
    ways = 2 if node.attr("direction") == "bidirectional" else 1
    gates, state = GATES[node.op] * hidden, (ways, data[1], hidden)
    wanted: dict[int, Shape] = {
        1: (None, gates, data[2]),
        2: (None, gates, hidden),
        3: (None, 2 * gates),
        5: state,
        6: state,
    }
    for position, shape in wanted.items():
        given = shape_of(node, position)
        if given is not None and not may_match(given, shape):
            return f"its input {position} does not have the shape that follows from the data and hidden_size"
    return None


@condition("GRU", RTX,
           source="measured with TensorRT-RTX 1.7.1: its builder takes memory without end; two examples "
                  "or 7 numbers of state are built")  # fmt: skip
def endless_build(node: Node) -> str | None:
    data, hidden = shape_of(node), node.attrs.get("hidden_size")
    if data is None or len(data) != 3 or hidden is None:
        return None
    if data[1] != 1 or hidden not in ENDLESS or not isinstance(data[0], int) or data[0] < LONG:
        return None
    return f"with one example and a state of {hidden} numbers, the builder crashes"


ENDLESS, LONG = range(3, 7), 4  # the states, and the least steps, that were measured
