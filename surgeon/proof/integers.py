"""Which integer inputs of a pair are plain numbers: no positions and no sizes, so that any number may be drawn."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, ModelProto, NodeProto, TensorProto

from surgeon.proof.pair import ModelPair

INTEGER_TYPES = frozenset(getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64))
# Operators that make nothing but integers and bools of integers, and neither look up nor size anything by them.
COMPUTING = frozenset({
    "Abs", "Add", "And", "Cast", "Clip", "Concat", "Div", "Equal", "Greater", "GreaterOrEqual", "Identity", "Less",
    "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Relu", "Sign", "Sub", "Sum", "Where", "Xor",
})  # fmt: skip
# Those of whose inputs this holds for the first.
REARRANGING = frozenset({
    "Expand", "Flatten", "Gather", "Pad", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
})  # fmt: skip


def plain_integers(pair: ModelPair) -> frozenset[str]:
    """The integer inputs that both sides only compute with or move about."""
    names = frozenset(name for name, elem, _ in pair.inputs if elem in INTEGER_TYPES)
    if not names:
        return names
    return names - _positions(pair.before, names) - _positions(pair.after, names)


def _positions(model: ModelProto, names: frozenset[str]) -> frozenset[str]:
    """Those of some inputs that a node reads, directly or behind other nodes, as a position or a size."""
    sources = {name: frozenset([name]) for name in names}
    found: frozenset[str] = frozenset()
    for node in model.graph.node:
        read = [sources.get(name, frozenset()) for name in tensors_read(node)]
        found = found.union(*(s for position, s in enumerate(read) if not _is_number(node, position)))
        sources.update(dict.fromkeys(node.output, frozenset().union(*read)))
    return found


def _is_number(node: NodeProto, position: int) -> bool:
    """Whether the node takes an input as a number to compute with or to move about, and returns integers or bools."""
    if node.domain or (node.op_type == "Cast" and node.attribute[0].i not in INTEGER_TYPES | {TensorProto.BOOL}):
        return False
    return node.op_type in COMPUTING or (node.op_type in REARRANGING and position == 0)


def tensors_read(node: NodeProto) -> Iterator[str]:
    """The tensors that a node reads, and its bodies: by name, as a body captures them."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from tensors_read(inner)
            yield from (o.name for o in attribute.g.output)


__all__ = ["plain_integers", "tensors_read"]
