"""Operators of ONNX Runtime's own that TensorRT-RTX has importers for.

Measured with TensorRT-RTX 1.7.1. It has importers for SimplifiedLayerNormalization, SkipSimplifiedLayerNormalization,
MatMulNBits and GroupQueryAttention, too, which are not in this table: the last two need plugins that it does not bring.
"""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import input_of, outputs_of, shape_of

MULTI_HEAD = "com.microsoft::MultiHeadAttention"
READ = frozenset({"num_heads", "scale", "unidirectional"})  # its attributes; any other is refused
PLAIN = 3  # inputs: query, key, value


def why_not(node: Node) -> str | None:
    """Why TensorRT-RTX does not take a MultiHeadAttention; None where it does."""
    if any(input_of(node, position) is not None for position in range(PLAIN, len(node.inputs))):
        return "an input behind query, key and value is refused"
    if any(input_of(node, position) is None for position in range(PLAIN)):
        return "query, key and value must be given apart"
    if outputs_of(node) > 1:
        return "more than one output is refused"
    other = sorted(node.attrs.keys() - READ)
    if other:
        return f"its attribute {other[0]} is refused"
    return _why_not_sizes(node)


def _why_not_sizes(node: Node) -> str | None:
    shapes = [shape_of(node, position) for position in range(PLAIN)]
    if any(shape is not None and len(shape) != PLAIN for shape in shapes):
        return "query, key and value must have three dimensions"
    query, key, value = shapes
    if key is not None and value is not None and key[2] != value[2]:
        return "keys and values of different sizes are refused"
    apart = input_of(node, 1) is not input_of(node, 2)
    if apart and query is not None and query[1] == 1 and 1 in (query[0], node.attrs.get("num_heads")):
        return "there is no kernel for one query"
    return None
