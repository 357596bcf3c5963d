"""What a conversion costs: the bytes that an engine moves, and how long it takes to measure one."""

from __future__ import annotations

import math
from typing import NamedTuple

from surgeon.ir.following import readers
from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.operators import ELEMENTWISE
from surgeon.precision.formats import SINGLE
from surgeon.precision.operators import HEAVY
from surgeon.precision.plan import Plan
from surgeon.precision.ranges import Ranges

SECONDS = 16.0  # that a search may take at about the speed below
MOST_SAMPLES = 4  # that it measures
FEW_SAMPLES = 2  # that it measures first, and of slow networks alone
LEAST = 20  # measurements on one sample, of a search
SLOW = 1.0  # seconds of one: fewer samples are judged
KERNEL = 1 << 18  # bytes that an engine moves in the time that a kernel takes at least
ELEMENTS, PRODUCTS, NODES, BASE = 8e8, 4e10, 5e3, 0.03  # what is computed a second, seconds of preparation


def cost_of(plan: Plan, ranges: Ranges | None) -> float:
    """About how many bytes an engine moves: those of products in their types, and those of casts.

    Elementwise nodes are fused into the products. A node in fp32 counts as one byte.
    """
    total = float(len(plan.single))
    for scope in plan.model.scopes:
        for node in scope.live():
            if node.op in HEAVY:
                times = 2 if plan.precision(node) == SINGLE or node in plan.fixed else 1
                total += times * product_cost(plan, node, ranges)
    return total + sum(len(others) * cast_cost(plan, value, ranges) for value, others in plan.casts())


def product_cost(plan: Plan, node: Node, ranges: Ranges | None) -> float:
    """What a product costs in half precision: what it reads and writes, its weights as well, and what it computes. In
    fp32 it is twice as much."""
    weights = (plan.model.shape(v) for v in node.inputs[1:] if v is not None and plan.model.is_constant(v))
    stored = sum(math.prod(d for d in shape or () if isinstance(d, int)) for shape in weights)
    return KERNEL + 2.0 * (stored + sum(_elements(v, ranges) for v in (*node.inputs[:1], *node.outputs)))


def cast_cost(plan: Plan, value: Value, ranges: Ranges | None) -> float:
    """What a cast reads and writes. It is a kernel of its own, but for those around a Softmax: they are fused into it.

    A weight that a caller may replace is a constant for TensorRT.
    """
    if value.tensor is not None or _is_at_softmax(plan, value):
        return float(value.tensor is None)
    return float(KERNEL + 6 * _elements(value, ranges))


def _elements(value: Value | None, ranges: Ranges | None) -> int:
    return 0 if ranges is None or value is None else ranges.elements(value.name)


def _is_at_softmax(plan: Plan, value: Value) -> bool:
    """Whether a Softmax makes a tensor, or is all that reads it in fp32, directly or after elementwise nodes."""
    if value.producer is not None and value.producer.op == "Softmax":
        return True
    ends = (u for u, _ in readers([value], lambda n: n in plan.single and n.op in ELEMENTWISE))
    ops = {u.op for u in ends if u in plan.single and u.op not in ELEMENTWISE}
    return ops == {"Softmax"}


class Speed(NamedTuple):
    """About how many seconds it takes to write a conversion, and to run it on a sample."""

    conversion: float
    sample: float

    @classmethod
    def of(cls, ranges: Ranges, model: Model) -> Speed:
        """Counted in the model's arithmetic: a search does the same on every machine."""
        elements = products = 0.0
        nodes = [n for n in model.graph.live() if n.key != "Constant"]
        for node in nodes:
            made = sum(ranges.elements(o.name) for o in node.outputs if o is not None)
            elements += made
            if node.op in HEAVY and len(node.inputs) > 1 and node.inputs[1] is not None:
                sizes = [d for d in model.shape(node.inputs[1]) or () if isinstance(d, int)]
                is_transposed = node.op == "ConvTranspose"
                columns = sizes[0] if node.op == "Conv" or is_transposed else sizes[-1] if sizes else 1
                times = _elements(node.inputs[0], ranges) if is_transposed else made
                products += times * math.prod(sizes) / max(columns, 1)
        return cls(BASE + len(nodes) / NODES, elements / ELEMENTS + products / PRODUCTS)

    @property
    def measurement(self) -> float:
        """On one sample."""
        return self.conversion + self.sample

    @property
    def is_slow(self) -> bool:
        return self.measurement > SLOW

    @property
    def budget(self) -> float:
        """How many seconds a search may take."""
        return max(SECONDS, LEAST * self.measurement)
