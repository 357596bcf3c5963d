"""What a conversion costs: the bytes that an engine moves, and how many conversions a search may measure."""

import math

from surgeon.ir.following import readers
from surgeon.ir.graph import Value
from surgeon.ir.model import Model
from surgeon.ir.operators import ELEMENTWISE
from surgeon.precision.formats import SINGLE
from surgeon.precision.operators import HEAVY
from surgeon.precision.plan import Plan
from surgeon.precision.ranges import Ranges

SECONDS = 12.0  # that a search may take at about the speed below
FEWEST, MOST = 6, 96  # measurements
MOST_SAMPLES = 4  # that a search measures
FEW_SAMPLES = 2  # that it measures where less than half of the fewest measurements fit into the time
KERNEL = 8192  # bytes in the time that a kernel takes at least
ELEMENTS, PRODUCTS, BASE = 6e7, 1.5e10, 0.08  # of a run: elements and products a second, seconds of preparation


def cost_of(plan: Plan, ranges: Ranges | None) -> float:
    """About how many bytes an engine moves: those that products read and write in their types, and those of casts.

    Elementwise nodes are fused into the products. A cast is a kernel of its own, but for those around a Softmax: they
    are fused into it.
    """

    def elements(value: Value | None) -> int:
        return 0 if ranges is None or value is None else ranges.elements(value.name)

    total = 0.0
    for scope in plan.model.scopes:
        for node in scope.live():
            if node.op in HEAVY:
                size = 4 if plan.precision(node) == SINGLE or node in plan.fixed else 2
                total += size * (KERNEL + sum(map(elements, (*node.inputs[:1], *node.outputs))))
    for value, others in plan.casts():
        total += 0 if _is_at_softmax(plan, value) else len(others) * (KERNEL + 6 * elements(value))
    return total + len(plan.single)


def _is_at_softmax(plan: Plan, value: Value) -> bool:
    """Whether a Softmax makes a tensor, or is all that reads it in fp32, directly or after elementwise nodes."""
    if value.producer is not None and value.producer.op == "Softmax":
        return True
    ends = (u for u, _ in readers([value], lambda n: n in plan.single and n.op in ELEMENTWISE))
    ops = {u.op for u in ends if u in plan.single and u.op not in ELEMENTWISE}
    return ops == {"Softmax"}


def budget_of(ranges: Ranges | None, model: Model) -> tuple[int, int]:
    """How many conversions a search may measure, and on how many samples.

    As many as take about SECONDS, counted in the model's arithmetic.
    """
    if ranges is None:
        return FEWEST, FEW_SAMPLES
    elements = products = 0.0
    nodes = [n for n in model.graph.live() if n.key != "Constant"]
    for node in nodes:
        made = sum(ranges.elements(o.name) for o in node.outputs if o is not None)
        elements += made
        if node.op in HEAVY and len(node.inputs) > 1 and node.inputs[1] is not None:
            shape = model.shape(node.inputs[1]) or ()
            sizes = [d for d in shape if isinstance(d, int)]
            columns = sizes[0] if node.op == "Conv" else sizes[-1] if sizes else 1
            products += made * (math.prod(sizes) / max(columns, 1))
    seconds = BASE + len(nodes) * 5e-4 + elements / ELEMENTS + products / PRODUCTS
    most = int(SECONDS / seconds)
    return max(FEWEST, min(MOST, most)), FEW_SAMPLES if most < FEWEST // 2 else MOST_SAMPLES
