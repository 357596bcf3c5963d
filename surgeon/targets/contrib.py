"""Operators of ONNX Runtime's own that TensorRT-RTX has importers for, and what it refuses of them.

Measured with TensorRT-RTX 1.7.1. It has importers for MatMulNBits and GroupQueryAttention, too, which are not in this
table: they need plugins that it does not bring.
"""

from collections.abc import Callable

from surgeon.ir.graph import Node
from surgeon.targets.condition import outputs_of, rank_of, shape_of
from surgeon.targets.conditions.attention import why_not_rotated

READ = frozenset({"num_heads", "scale", "unidirectional"})  # of MultiHeadAttention; any other attribute is refused
PLAIN = 3  # inputs of a MultiHeadAttention: query, key, value


def _multi_head_attention(node: Node) -> str | None:
    if any(node.input_at(position) is not None for position in range(PLAIN, len(node.inputs))):
        return "an input after query, key and value is refused"
    if any(node.input_at(position) is None for position in range(PLAIN)):
        return "query, key and value must be given apart"
    if outputs_of(node) > 1:
        return "more than one output is refused"
    other = sorted(node.attrs.keys() - READ)
    if other:
        return f"its attribute {other[0]} is refused"
    shapes = [shape_of(node, position) for position in range(PLAIN)]
    if any(shape is not None and len(shape) != PLAIN for shape in shapes):
        return "query, key and value must have three dimensions"
    query, key, value = shapes
    if key is not None and value is not None and key[2] != value[2]:
        return "keys and values of different sizes are refused"
    apart = node.input_at(1) is not node.input_at(2)
    if apart and query is not None and query[1] == 1 and 1 in (query[0], node.attrs.get("num_heads")):
        return "there is no kernel for one query"
    return None


def _rotary_embedding(node: Node) -> str | None:
    return why_not_rotated(shape_of(node), shape_of(node, 1), shape_of(node, 2), bool(node.attrs.get("num_heads")))


def _simplified_layer_norm(node: Node) -> str | None:
    return "more than one output is refused" if outputs_of(node) > 1 else None


def _skip_simplified_layer_norm(node: Node) -> str | None:
    if any(output is not None for output in node.outputs[1:3]):
        return "its second and third output are not the mean and the deviation"
    data, skip = rank_of(node), rank_of(node, 1)
    return "data and skip have different ranks" if None not in (data, skip) and data != skip else None


WHY_NOT: dict[str, Callable[[Node], str | None]] = {
    "com.microsoft::Gelu": lambda node: None,
    "com.microsoft::MultiHeadAttention": _multi_head_attention,
    "com.microsoft::RotaryEmbedding": _rotary_embedding,
    "com.microsoft::SimplifiedLayerNormalization": _simplified_layer_norm,
    "com.microsoft::SkipSimplifiedLayerNormalization": _skip_simplified_layer_norm,
    "SimplifiedLayerNormalization": _simplified_layer_norm,
}
