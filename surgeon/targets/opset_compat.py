"""What came with a newer opset, and means nothing else to a parser that does not know it.

A parser up to 9.3 that reads a model above its opset passes over the attributes and inputs that it does not know. Where
they say what it does anyway, the node is read as intended.
"""

from surgeon.ir.graph import Node
from surgeon.ir.schemas import schema
from surgeon.targets.condition import constant_of, opset_of, rank_of, size_along


def why_newer(node: Node, opset: int, *, refused: bool = True) -> str | None:
    """Why a parser that reads a model of a later opset with the meanings of `opset` misreads a node.

    refused  whether a condition of the table refuses it: they judge the axes of reductions, which came later
    """
    declared = opset_of(node)
    if node.domain or declared <= opset:
        return None
    now, then = schema(node.op, "", declared), schema(node.op, "", opset)
    if now is None or then is None or now.since_version == then.since_version:
        return None
    came = f"came with an opset above {opset}, the newest that this parser reads"
    defaults = node.graph.model.schema_defaults(node)
    for name, given in node.attrs.items():
        if name not in then.attributes and given != defaults.get(name) and not _changes_nothing(node, name):
            return f"its attribute {name} {came}"
    later = any(value is not None for value in node.inputs[then.max_input :])
    if later and (refused or not node.op.startswith("Reduce")):
        return f"its input {then.max_input} {came}"
    rank = rank_of(node)
    if node.key not in ("Softmax", "LogSoftmax", "Hardmax") or (
        rank is not None and "axis" in node.attrs and node.attr("axis") in (-1, rank - 1)
    ):
        return None
    return f"its meaning of axis {came}"


def _changes_nothing(node: Node, attribute: str) -> bool:
    """Whether an attribute that is not read says what the parser does without it."""
    if attribute == "noop_with_empty_axes":
        axes = constant_of(node, 1)
        return axes is not None and axes.size > 0
    return attribute == "num_outputs" and _splits_evenly(node)


def _splits_evenly(node: Node) -> bool:
    """Whether a Split makes parts of one size, which is what a parser does without sizes."""
    size = size_along(node, node.attr("axis"))
    return isinstance(size, int) and size % len(node.outputs) == 0 and node.attr("num_outputs") == len(node.outputs)
