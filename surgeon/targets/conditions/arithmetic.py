"""Einsum, Mod and STFT."""

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, dtype_of, is_weights, rank_of
from surgeon.targets.releases import RTX, between, since
from surgeon.targets.rows import KNOWN, matches, other_than, refuses, some


@condition("Equal", RTX,
           source="measured with TensorRT-RTX 1.7.1: the number of dimensions should remain the same "
                  "adding inputs")  # fmt: skip
def equal_bytes(node: Node) -> str | None:
    one, other = rank_of(node, 0), rank_of(node, 1)
    if dtype_of(node) != TensorProto.UINT8 or one is None or other is None or one == other:
        return None
    return f"uint8 of {min(one, other)} and {max(one, other)} dimensions is refused"


@condition("Equal Where", RTX,
           source="measured with TensorRT-RTX 1.7.1: MyelinCheckException: host_instr.cpp; one dimension "
                  "is taken")  # fmt: skip
def booleans_alone(node: Node) -> str | None:
    made = node.outputs[0]
    if made is None or not made.is_output or dtype_of(node, 1) != TensorProto.BOOL:
        return None
    rank = len(node.graph.model.shape(made) or ())
    constants = all(is_weights(value) for value in node.inputs)
    return "an output that is computed from boolean constants only is refused" if constants and rank > 1 else None


# fmt: off
ROWS = (
    refuses("Mod", since(8, 5, rtx=True), attr={"fmod": 0}, dtype=other_than("int32", "int64"),
            reason="fmod 0 supports integers only", section="6",
            source="onnx-tensorrt@fd119fe; measured with TensorRT-RTX: fmod 0 is for integers, fmod 1 for floats"),
    refuses("STFT", RTX, attr={"onesided": other_than(0, 1)},
            source="measured with TensorRT-RTX 1.7.1: STFT 'onesided' must be 0 or 1"),
    refuses("Einsum", between((8, 2), (8, 6)), attr={"equation": matches(",.*,")},
            reason="more than two operands are refused", section="6",
            source="onnx-tensorrt@6ba67d3: two operands at most"),
    refuses("Einsum", between((8, 2), (8, 6)), attr={"equation": matches(r"\.\.\.")}, reason="an ellipsis is refused",
            section="6", source="onnx-tensorrt@6ba67d3: no ellipsis"),
    refuses("Einsum", since(8, 2, rtx=True), attr={"equation": matches("[A-Z]")}, reason="capital letters are refused",
            section="6", source="`Invalid character(s) in Einsum equation`; measured with TensorRT-RTX"),
    refuses("Einsum", between((8, 2), (10, 11)), attr={"equation": matches(r"^[^>]*([A-Za-z])[^,>-]*\1")},
            reason="a diagonal is refused", section="6",
            source="onnx-tensorrt@6ba67d3, @9d2d786; diagonals with 10.12"),
    refuses("STFT", since(10, 5, rtx=True), rank=3, size={2: other_than(1)}, reason="a complex signal is refused",
            section="6", source="measured with TensorRT-RTX 1.7.1: TensorRT only supports STFT on real-valued signals"),
    refuses("Div Mod", RTX, dtype="int32 int64", value={0: KNOWN, 1: some(0)},
            reason="an integer constant is divided by 0, and the parser crashes",
            source="measured with TensorRT-RTX 1.7.1: it crashes while it parses"),
)
# fmt: on
