"""The borders between 16 bits and fp32: which free nodes next to parts in fp32 become fp32, too."""

from collections.abc import Sequence

from surgeon.ir.graph import Node
from surgeon.precision.formats import SINGLE
from surgeon.precision.operators import KEEPS_NUMBERS
from surgeon.precision.plan import Plan

MAX_SWEEPS = 20
BETWEEN = "between parts in fp32"
SCALING = "the scale or shift after a part in fp32"


def settle(plan: Plan, free: Sequence[Node]) -> None:
    """Decide for the free nodes of a plan, inputs first, until nothing changes.

    1. A node becomes fp32 where that saves a cast; what only moves numbers does where it costs none.
    2. The scale or shift after a part in fp32 becomes fp32 where it costs no cast.
    3. In the end, a node that became fp32 by rule 1 and saves nothing goes back.
    """
    for _ in range(MAX_SWEEPS):
        if not _sweep(plan, free):
            break
    for node in reversed(free):
        if plan.single.get(node) == BETWEEN and _gain(plan, node) <= 0:
            read = (plan.read_types(o, but_by=node) for o in node.outputs if o is not None)
            if not any(SINGLE in types for types in read):
                del plan.single[node]


def _sweep(plan: Plan, free: Sequence[Node]) -> bool:
    """Look at each node once in either direction; whether one became fp32."""
    changed = False
    for node in (*free, *reversed(free)):
        if node in plan.single:
            continue
        if _saves(plan, node):
            plan.single[node] = BETWEEN
            changed = True
        elif _is_scaling(plan, node):
            plan.single[node] = SCALING
            changed = True
    return changed


def _saves(plan: Plan, node: Node) -> bool:
    """Whether fp32 saves a cast, or costs none where the node only moves numbers of a part in fp32."""
    gain = _gain(plan, node)
    if gain:
        return gain > 0
    return node.op in KEEPS_NUMBERS and any(plan.type_of(v) == SINGLE for v in plan.varying(node))


def _is_scaling(plan: Plan, node: Node) -> bool:
    """Whether it is the constant factor or summand after a norm: rounding once, after it, needs no more casts."""
    if node.key not in ("Mul", "Add", "Sub", "Div") or len(node.inputs) != 2:
        return False
    varying = plan.varying(node)
    if len(varying) != 1 or varying[0].is_input or plan.type_of(varying[0]) != SINGLE:
        return False
    return _gain(plan, node) == 0


def _gain(plan: Plan, node: Node) -> int:
    """How many casts fewer there are when the node computes in fp32."""
    return plan.casts_at(node, plan.low.elem) - plan.casts_at(node, SINGLE)
