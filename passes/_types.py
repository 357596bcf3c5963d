"""Which types an ONNX operator takes at the opset of the model."""

from __future__ import annotations

from onnx import TensorProto

from surgeon import Builder, require
from surgeon.graph import Value, schema

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})


def require_op(b: Builder, op: str, x: Value) -> None:
    """Decline unless ONNX has `op` for tensors of x's type at the model's opset. An operator that is not there at all is
    no news; that it does not take the type is."""
    dtype = b.dtype(x)
    require(dtype in FLOATS, "")
    spec = schema(op, "", b.opset)
    require(spec is not None, "")
    assert spec is not None
    name = TensorProto.DataType.Name(dtype).lower()
    require(f"tensor({name})" in spec.inputs[0].types, f"{op} takes no {name} at opset {b.opset}")
