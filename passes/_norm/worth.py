"""Whether what a pass would write is less than what the file has."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from surgeon import HALVES, Builder, Node, Stage, Value, require

from .._shapes import output_of
from .axes import SHAPING
from .factors import is_uniform, neutral_of
from .window import Normalisation


def opset_to_write(b: Builder) -> int:
    """The opset that the written model declares: old targets want theirs, and the next run starts from that."""
    return min(b.opset, b.target.opset) if b.target.lowers_opset else b.opset


def operators_of_chain(b: Builder, n: Normalisation, source: Value, centred: bool = True) -> list[str]:
    """The operators that `normalised` of `source` and `with_affine` write for this window."""
    operators = ["ReduceMean", "Sub"] if centred else []
    operators += ["Mul", "ReduceMean", root_operator(b), "Div"]
    if n.epsilon:
        operators.append("Add")
    affine = [kind for kind, factor in n.affine if not is_uniform(b, factor, neutral_of(kind))]
    if not affine and n.factor != 1:
        affine = ["Mul"]
    casts = ["Cast", "Cast"] if b.dtype(source) in HALVES else []
    return operators + affine + casts


def root_operator(b: Builder) -> str:
    """The operator of a square root: Pow on DLA, which has that one and no Sqrt."""
    return "Pow" if b.target.dla else "Sqrt"


def is_of_the_file(node: Node) -> bool:
    """Whether the file has the node: as it is, or where CLEAN copied it from, such as a function."""
    return node.origin is None or node.origin.strategy == Stage.CLEAN.value


def operators_made(b: Builder) -> list[str]:
    """What is made so far, without constants: a scope or an IR version without initializers has a node for each."""
    return [node.key for node in b.made if node.alive and node.key != "Constant"]


def require_fewer(b: Builder) -> None:
    """Decline silently where what is made so far is no fewer nodes than what matched.

    The reshape of a factor counts for nothing.
    """
    made = [key for key in operators_made(b) if key not in SHAPING]
    require(len(made) < len(b.matched))


def require_shorter(b: Builder, operators: Sequence[str]) -> None:
    """Decline to write nodes of these operators for a window of no more nodes.

    So the file keeps its own spelling, which TensorRT may know, where there is nothing to gain. So what surgeon wrote
    is not written again. There are three exceptions:

    1. A window in double precision, which no TensorRT has.
    2. A window of the file that lost its epsilon: the report must say so, or fix it.
    3. A window of the file that a DLA leaves to the GPU, where it runs what is written.
    """
    if len(b.matched) > len(operators) or _is_double_inside(b):
        return
    if is_of_the_file(b.root) and (b.warnings or _stays_on_dla(b, operators)):
        return
    # A larger window says so, or what is here is what would be written, or surgeon wrote it: no news.
    is_written = sorted(m.key for m in b.matched) == sorted(operators)
    require(not _has_factor_behind(b) and not is_written and is_of_the_file(b.root))
    require(False, "already as short as this target allows")


def _stays_on_dla(b: Builder, operators: Sequence[str]) -> bool:
    """Whether a DLA runs what is written, and leaves the window's root to the GPU."""
    return "Pow" in operators and "Cast" not in operators and any(m.key == "Sqrt" for m in b.matched)


def _is_double_inside(b: Builder) -> bool:
    """Whether the window computes in double precision a result that is not."""
    wide = any(o is not None and b.dtype(o) == TensorProto.DOUBLE for node in b.matched for o in node.outputs)
    return wide and b.dtype(output_of(b.root)) != TensorProto.DOUBLE


def _has_factor_behind(b: Builder) -> bool:
    """Whether the only reader of the result multiplies it with a constant or adds one."""
    readers = list(output_of(b.root).users)
    if len(readers) != 1 or readers[0].key not in ("Mul", "Add"):
        return False
    return any(i is not None and b.value(i) is not None for i in readers[0].inputs)
