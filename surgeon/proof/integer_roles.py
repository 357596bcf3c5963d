"""What the integer inputs of a pair are: plain numbers, positions to look up, lengths, or sizes."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, get_args

from onnx import ModelProto, NodeProto, TensorProto

from surgeon.ir import contrib
from surgeon.ir.definitions import DEFINED
from surgeon.ir.operators import LOCATES, MEASURES, OPERATORS, RETURNS_BOOL
from surgeon.ir.protos import captured
from surgeon.proof.pair import ModelPair

Role = Literal["number", "position", "length", "size"]
ROLES: tuple[Role, ...] = get_args(Role)
INTEGER_TYPES = frozenset(getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64))
# Of ONNX Runtime's own operators the inputs that are lengths of samples, or positions that tables have rows for.
SIZES_THERE = {
    "Attention": (3, 6), "ExpandDims": (1,), "GatherBlockQuantized": (1,), "GroupQueryAttention": (5, 6, 9),
    "MatMulNBits": (4,), "MultiHeadAttention": (4, 8, 9), "QAttention": (5,), "RotaryEmbedding": (1,), "Trilu": (1,),
}  # fmt: skip
# The same, and negative positions count from the end.
POSITIONS_THERE = {"EmbedLayerNormalization": (0, 1, 8), "QEmbedLayerNormalization": (0, 1)}
# What they read their bodies read: it is taken for a size.
HOLD_BODIES = frozenset({"If", "Loop", "Scan"})
# Operators whose result follows from the sizes of what they read, or is a valid position or a bool whatever they read.
FORGETS = RETURNS_BOOL | MEASURES | LOCATES


def roles(pair: ModelPair) -> Mapping[str, Role]:
    """What each integer input is, to either side: the last of `Role` that any node reads it as."""
    names = frozenset(name for name, elem, _ in pair.inputs if elem in INTEGER_TYPES)
    if not names:
        return MappingProxyType({})
    read = {role: frozenset[str]() for role in ROLES}
    for model in pair.both:
        for role, found in _read_as(model, names):
            read[role] |= found
    return {n: next((role for role in reversed(ROLES) if n in read[role]), "number") for n in names}


def plain_integers(pair: ModelPair) -> frozenset[str]:
    """The integer inputs that both sides only compute with or move about."""
    return frozenset(name for name, role in roles(pair).items() if role == "number")


def corners_of_rois(model: ModelProto) -> frozenset[str]:
    """The tensors that a RoiAlign reads as rois where it takes a sample for each position that a roi covers.

    ONNX Runtime takes minutes and gigabytes for rois of thousands of positions.
    """
    nodes = (n for n in model.graph.node if n.op_type == "RoiAlign" and len(n.input) > 1)
    return frozenset(n.input[1] for n in nodes if not any(a.name == "sampling_ratio" and a.i for a in n.attribute))


def pictures_of_rois(model: ModelProto) -> frozenset[tuple[str, str]]:
    """The tensors that a RoiAlign reads as (images, the image of each roi). ONNX Runtime refuses others."""
    nodes = (n for n in model.graph.node if n.op_type == "RoiAlign" and len(n.input) > 2)
    return frozenset((n.input[0], n.input[2]) for n in nodes)


def pooled_rois(model: ModelProto) -> frozenset[tuple[str, str]]:
    """The tensors that a MaxRoiPool reads as (images, rois), whose first column is the image of each roi."""
    nodes = (n for n in model.graph.node if n.op_type == "MaxRoiPool")
    return frozenset((n.input[0], n.input[1]) for n in nodes)


def divisors(pair: ModelPair) -> frozenset[str]:
    """The inputs that something is divided by as integers: an old ONNX Runtime ends the process where they are 0."""
    found: frozenset[str] = frozenset()
    for model in pair.both:
        sources = _Sources(model, frozenset(name for name, elem, _ in pair.inputs if elem in INTEGER_TYPES))
        for node, read in sources.nodes():
            if node.op_type in ("Div", "Mod"):
                found = found.union(*read[1:])
    return found


def _read_as(model: ModelProto, names: frozenset[str]) -> Iterator[tuple[Role, frozenset[str]]]:
    """(role, those of some inputs that a node reads as that, directly or after other nodes)"""
    for node, read in _Sources(model, names).nodes():
        for position, found in enumerate(read):
            role = _role(node, position)
            if found and role != "number":
                yield role, found


def _role(node: NodeProto, position: int) -> Role:
    """A position is one along a dimension, a length is at most that; of a size few numbers are valid: axes, counts."""
    lengths: tuple[int, ...] = ()
    if node.domain in (contrib.DOMAIN, DEFINED) and node.op_type in contrib.table():
        positions, sizes = (table.get(node.op_type, ()) for table in (POSITIONS_THERE, SIZES_THERE))
    elif node.domain or node.op_type not in OPERATORS.keys() - HOLD_BODIES or position >= len(node.input):
        return "size"
    else:
        row = OPERATORS[node.op_type]
        positions, lengths, sizes = row.positions, row.limited, (*row.shape, *row.axes)
    of = {"position": positions, "length": lengths, "size": sizes}
    return next((role for role in reversed(ROLES) if position in of.get(role, ())), "number")


class _Sources:
    """Follows some inputs through a model."""

    def __init__(self, model: ModelProto, names: frozenset[str]) -> None:
        self.model = model
        self.sources = {name: frozenset([name]) for name in names}

    def nodes(self) -> Iterator[tuple[NodeProto, list[frozenset[str]]]]:
        """Each node, and the inputs that each of the tensors that it reads comes of."""
        for node in self.model.graph.node:
            read = [self.sources.get(name, frozenset()) for name in (*node.input, *captured(node))]
            yield node, read
            made = frozenset() if node.op_type in FORGETS and not node.domain else frozenset().union(*read)
            self.sources.update(dict.fromkeys(node.output, made))
