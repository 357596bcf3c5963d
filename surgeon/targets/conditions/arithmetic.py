"""Einsum, Mod and STFT."""

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, dtype_of, is_weights, rank_of
from surgeon.targets.releases import RTX
from surgeon.targets.rows import read


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


ROWS = read(__file__)
