"""Einsum, Mod and STFT."""

from __future__ import annotations

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, constant_of, dtype_of, is_weights, rank_of, shape_of
from surgeon.targets.releases import RTX, between, since
from surgeon.targets.rows import other_than, refuses


def _operands(node: Node) -> list[str]:
    """The letters of each operand of an Einsum: ["bij", "bkj"] for "bij,bkj->bik"."""
    return str(node.attr("equation")).replace(" ", "").partition("->")[0].split(",")


def _has_diagonal(node: Node) -> bool:
    return any(len(set(o)) != len(o) for o in (operand.replace("...", "") for operand in _operands(node)))


@condition("Einsum", between((8, 2), (8, 6)), section="6", source="onnx-tensorrt@6ba67d3: two operands at most")
def einsum_operands(node: Node) -> str | None:
    return "more than two operands are refused" if len(_operands(node)) > 2 else None


@condition("Einsum", between((8, 2), (8, 6)), section="6", source="onnx-tensorrt@6ba67d3: no ellipsis")
def einsum_ellipsis(node: Node) -> str | None:
    return "an ellipsis is refused" if "..." in str(node.attr("equation")) else None


@condition(
    "Einsum",
    since(8, 2, rtx=True),
    section="6",
    source="`Invalid character(s) in Einsum equation`; measured with TensorRT-RTX",
)
def einsum_capitals(node: Node) -> str | None:
    equation = str(node.attr("equation"))
    return "capital letters are refused" if equation != equation.lower() else None


@condition(
    "Einsum",
    between((8, 2), (10, 11)),
    section="6",
    source="onnx-tensorrt@6ba67d3, @9d2d786; diagonals with 10.12",
)
def einsum_diagonal(node: Node) -> str | None:
    return "a diagonal is refused" if _has_diagonal(node) else None


@condition(
    "STFT",
    since(10, 5, rtx=True),
    section="6",
    source="measured with TensorRT-RTX 1.7.1: TensorRT only supports STFT on real-valued signals",
)
def complex_signal(node: Node) -> str | None:
    shape = shape_of(node)
    return "a complex signal is refused" if shape is not None and len(shape) == 3 and shape[2] != 1 else None


@condition("Div Mod", RTX, source="measured with TensorRT-RTX 1.7.1: its process dies of it while it parses")
def divided_by_zero(node: Node) -> str | None:
    if dtype_of(node) not in (TensorProto.INT32, TensorProto.INT64):
        return None
    given, by = constant_of(node, 0), constant_of(node, 1)
    if given is None or by is None or by.all():
        return None
    return "an integer constant is divided by 0, and the parser's process dies of it"


@condition(
    "Equal",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: the number of dimensions should remain the same adding inputs",
)
def equal_bytes(node: Node) -> str | None:
    one, other = rank_of(node, 0), rank_of(node, 1)
    if dtype_of(node) != TensorProto.UINT8 or one is None or other is None or one == other:
        return None
    return f"uint8 of {min(one, other)} and {max(one, other)} dimensions is refused"


@condition(
    "Equal Where",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: MyelinCheckException: host_instr.cpp; one dimension is taken",
)
def booleans_alone(node: Node) -> str | None:
    made = node.outputs[0]
    if made is None or not made.is_output or dtype_of(node, 1) != TensorProto.BOOL:
        return None
    rank = len(node.graph.model.shape(made) or ())
    constants = all(is_weights(value) for value in node.inputs)
    return "constants of booleans alone are refused, where the result is an output" if constants and rank > 1 else None


# fmt: off
ROWS = (
    refuses("Mod", since(8, 5, rtx=True), attr={"fmod": 0}, dtype=other_than("int32", "int64"),
            reason="fmod 0 takes integers alone", section="6",
            source="onnx-tensorrt@fd119fe; measured with TensorRT-RTX: fmod 0 is for integers, fmod 1 for floats"),
    refuses("STFT", RTX, attr={"onesided": other_than(0, 1)},
            source="measured with TensorRT-RTX 1.7.1: STFT 'onesided' must be 0 or 1"),
)
# fmt: on
