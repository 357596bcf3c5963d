"""The type in which a normalisation is computed, and the tensors of that type that the file has already."""

from onnx import TensorProto

from surgeon import HALVES, Builder, Node, Value, require


def narrowed(b: Builder, x: Value, dtype: int) -> Value:
    """x in the type `dtype` of the result: what a file cast to a wider type for the statistics alone, or x cast.

    Declines where x is of a wider type than fp16 throughout: fp16 would overflow where the statistics do not.
    """
    cast = _cast_from(b, x, dtype)
    if cast is None or cast.inputs[0] is None:
        overflows = dtype == TensorProto.FLOAT16 and b.dtype(x) in (TensorProto.FLOAT, TensorProto.DOUBLE)
        require(not overflows, "its input is of a wider type than its result")
        return b.typed(x, dtype)
    if cast not in b.matched:  # others read it too: it stays, and the window has to know where x is from
        b.matched = (*b.matched, cast)
    return cast.inputs[0]


def working_type(b: Builder, x: Value, dtype: int) -> int:
    """The type to normalise in: that of the result, `dtype`, or fp32.

    It is fp32 for an x in fp32 that is nowhere in `dtype`, such as a residual stream beside layers in fp16. The result
    is cast then.
    """
    wider = dtype in HALVES and b.dtype(x) == TensorProto.FLOAT and _cast_from(b, x, dtype) is None
    return TensorProto.FLOAT if wider else dtype


def _cast_from(b: Builder, x: Value, dtype: int) -> Node | None:
    """The Cast that made x from a tensor of the type `dtype`, if x is of another."""
    node = x.producer
    if b.dtype(x) == dtype or node is None or node.key != "Cast" or node.inputs[0] is None:
        return None
    return node if b.dtype(node.inputs[0]) == dtype else None
