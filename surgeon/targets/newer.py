"""What came with a newer opset, and means nothing else to a parser that does not know it.

A parser up to 9.3 that reads a model above its opset passes over the attributes and inputs that it does not know. Where
they say what it does anyway, the node is read as it is meant.
"""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import constant_of, shape_of


def changes_nothing(node: Node, attribute: str) -> bool:
    """Whether an attribute that is not read says what the parser does without it."""
    if attribute == "noop_with_empty_axes":
        axes = constant_of(node, 1)
        return axes is not None and axes.size > 0
    return attribute == "num_outputs" and _splits_evenly(node)


def _splits_evenly(node: Node) -> bool:
    """Whether a Split makes parts of one size, which is what a parser does that is told no sizes."""
    shape, axis = shape_of(node), node.attr("axis") or 0
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    return isinstance(size, int) and size % len(node.outputs) == 0 and node.attr("num_outputs") == len(node.outputs)


def is_judged(node: Node) -> bool:
    """Whether conditions of the table say what becomes of the inputs that came later: the axes of reductions."""
    return node.op.startswith("Reduce")
