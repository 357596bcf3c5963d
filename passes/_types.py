"""Which types an ONNX operator takes at the opset of the model."""

from __future__ import annotations

from functools import cache

from onnx import TensorProto

from surgeon import Builder, require
from surgeon.graph import Value, schema
from surgeon.rewrite import Declined

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})
HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})


def require_op(b: Builder, op: str, x: Value) -> None:
    """Decline unless x is a float tensor of a type that ONNX's `op` takes at the model's opset. An operator that is not
    there at all is no news; that it does not take the type is."""
    dtype, opset = b.dtype(x), b.opset
    if dtype in FLOATS and _takes(op, dtype, 0, opset):
        return
    require(dtype in FLOATS and schema(op, "", opset) is not None, "")
    raise Declined(f"{op} takes no {TensorProto.DataType.Name(dtype).lower()} at opset {opset}")


def takes_type(b: Builder, op: str, dtype: int, at: int = 0) -> bool:
    """Whether ONNX has `op` for tensors of `dtype`, as its input `at`, at the model's opset."""
    return _takes(op, dtype, at, b.opset)


@cache
def _takes(op: str, dtype: int, at: int, opset: int) -> bool:
    spec = schema(op, "", opset)
    return spec is not None and f"tensor({TensorProto.DataType.Name(dtype).lower()})" in spec.inputs[at].types
