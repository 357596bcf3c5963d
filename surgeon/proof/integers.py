"""What the integer inputs of a pair are: plain numbers, positions to look up, or sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from onnx import ModelProto, NodeProto, TensorProto

from surgeon.ir import contrib
from surgeon.ir.definitions import DEFINED
from surgeon.ir.protos import tensors_read
from surgeon.proof.pair import ModelPair

Role = Literal["number", "position", "size"]
INTEGER_TYPES = frozenset(getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64))
# Operators -> those of their inputs that are positions along a dimension: negative ones count from its end.
POSITIONS = {
    "EmbedLayerNormalization": (0, 1, 8), "Gather": (1,), "GatherElements": (1,), "GatherND": (1,), "Scatter": (1,),
    "ScatterElements": (1,), "QEmbedLayerNormalization": (0, 1), "ScatterND": (1,),
}  # fmt: skip
# Operators -> those of their inputs that are sizes, axes, counts or other numbers of which few are valid.
SIZES = {
    "AffineGrid": (1,), "BlackmanWindow": (0,), "CenterCropPad": (1,), "Col2Im": (1, 2), "ConstantOfShape": (0,),
    "CumSum": (1,), "DFT": (1, 2), "Expand": (1,), "HammingWindow": (0,), "HannWindow": (0,), "MaxUnpool": (1, 2),
    "MelWeightMatrix": (0, 1, 2, 3, 4), "NonMaxSuppression": (2,), "OneHot": (1,), "Pad": (1, 3), "Range": (0, 1, 2),
    "ReduceL1": (1,), "ReduceL2": (1,), "ReduceLogSum": (1,), "ReduceLogSumExp": (1,), "ReduceMax": (1,),
    "ReduceMean": (1,), "ReduceMin": (1,), "ReduceProd": (1,), "ReduceSum": (1,), "ReduceSumSquare": (1,),
    "Reshape": (1,), "Resize": (3,), "ReverseSequence": (1,), "RoiAlign": (2,), "STFT": (1, 3), "SequenceAt": (1,),
    "SequenceErase": (1,), "SequenceInsert": (2,), "Slice": (1, 2, 3, 4), "Split": (1,), "SplitToSequence": (1,),
    "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Trilu": (1,), "Unsqueeze": (1,),
}  # fmt: skip
# The same of ONNX Runtime's own operators: lengths of samples, and positions that tables have rows for.
SIZES_THERE = {
    "Attention": (3, 6), "ExpandDims": (1,), "GatherBlockQuantized": (1,), "GroupQueryAttention": (5, 6, 9),
    "MatMulNBits": (4,), "MultiHeadAttention": (4, 8, 9), "QAttention": (5,), "RotaryEmbedding": (1,), "Trilu": (1,),
}  # fmt: skip
# Operators that read integers of which nothing is said here: whatever they read is taken for a size.
UNKNOWN = frozenset({
    "Attention", "GRU", "If", "LSTM", "Loop", "NegativeLogLikelihoodLoss", "RNN", "RotaryEmbedding", "Scan",
    "SoftmaxCrossEntropyLoss", "TensorScatter", "Upsample",
})  # fmt: skip
# Operators whose result follows from the sizes of what they read, or is a valid position or a bool whatever they read.
FORGETS = frozenset({
    "And", "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "NonZero",
    "Not", "Or", "Shape", "Size", "Xor",
})  # fmt: skip


def roles(pair: ModelPair) -> Mapping[str, Role]:
    """What each integer input is, to either side. What is a size anywhere, is one; what is a position is no number."""
    names = frozenset(name for name, elem, _ in pair.inputs if elem in INTEGER_TYPES)
    if not names:
        return MappingProxyType({})
    read: dict[Role, frozenset[str]] = {"position": frozenset(), "size": frozenset()}
    for model in (pair.before, pair.after):
        for role, found in _read_as(model, names):
            read[role] |= found
    return {n: "size" if n in read["size"] else "position" if n in read["position"] else "number" for n in names}


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
    """The tensors that a RoiAlign reads as (pictures, the picture of each roi). ONNX Runtime refuses others."""
    nodes = (n for n in model.graph.node if n.op_type == "RoiAlign" and len(n.input) > 2)
    return frozenset((n.input[0], n.input[2]) for n in nodes)


def pooled_rois(model: ModelProto) -> frozenset[tuple[str, str]]:
    """The tensors that a MaxRoiPool reads as (pictures, rois), whose first column is the picture of each roi."""
    nodes = (n for n in model.graph.node if n.op_type == "MaxRoiPool")
    return frozenset((n.input[0], n.input[1]) for n in nodes)


def divisors(pair: ModelPair) -> frozenset[str]:
    """The inputs that something is divided by as integers: an old ONNX Runtime ends the process where they are 0."""
    found: frozenset[str] = frozenset()
    for model in (pair.before, pair.after):
        sources = _Sources(model, frozenset(name for name, elem, _ in pair.inputs if elem in INTEGER_TYPES))
        for node, read in sources.nodes():
            if node.op_type in ("Div", "Mod"):
                found = found.union(*read[1:])
    return found


def _read_as(model: ModelProto, names: frozenset[str]) -> Iterator[tuple[Role, frozenset[str]]]:
    """(role, those of some inputs that a node reads as that, directly or behind other nodes)"""
    for node, read in _Sources(model, names).nodes():
        for position, found in enumerate(read):
            role = _role(node, position)
            if found and role != "number":
                yield role, found


def _role(node: NodeProto, position: int) -> Role:
    known = node.domain in (contrib.DOMAIN, DEFINED) and node.op_type in contrib.TABLE
    if (node.domain or node.op_type in UNKNOWN or position >= len(node.input)) and not known:
        return "size"
    if position in POSITIONS.get(node.op_type, ()):
        return "position"
    return "size" if position in (SIZES_THERE if known else SIZES).get(node.op_type, ()) else "number"


class _Sources:
    """Follows some inputs through a model."""

    def __init__(self, model: ModelProto, names: frozenset[str]) -> None:
        self.model = model
        self.sources = {name: frozenset([name]) for name in names}

    def nodes(self) -> Iterator[tuple[NodeProto, list[frozenset[str]]]]:
        """Each node, and the inputs that each of the tensors that it reads comes of."""
        for node in self.model.graph.node:
            read = [self.sources.get(name, frozenset()) for name in tensors_read(node)]
            yield node, read
            made = frozenset() if node.op_type in FORGETS and not node.domain else frozenset().union(*read)
            self.sources.update(dict.fromkeys(node.output, made))


__all__ = ["INTEGER_TYPES", "Role", "divisors", "plain_integers", "roles"]
