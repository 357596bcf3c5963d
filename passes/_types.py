"""Which types an ONNX operator takes at the opset of the model."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from onnx import TensorProto, helper

from surgeon import Builder, require
from surgeon.ir.graph import Value
from surgeon.ir.run import has_kernel
from surgeon.ir.schemas import schema
from surgeon.rules.rule import Decline

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})
HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})


def require_op(b: Builder, op: str, x: Value) -> None:
    """Decline unless x is a float tensor of a type that ONNX's `op` takes at the model's opset, and that ONNX Runtime
    runs where the file's own nodes may stay: it has few kernels for double, and at opset 25 none for Swish. Of bfloat16
    it runs the file's own nodes no better. An operator that is not there at all is no news, nor one that the target
    has not; that it does not take the type is.
    """
    dtype, opset = b.dtype(x), b.opset
    if dtype in FLOATS and _takes(op, dtype, 0, opset):
        if dtype != TensorProto.BFLOAT16 and b.strategy is None and not has_kernel(op, dtype, opset):
            lacking = f"ONNX Runtime has no kernel for {op} in {_name(dtype)} at opset {opset}"
            require(False, lacking if b.target.imports(op) else "")
        return
    require(dtype in FLOATS and schema(op, "", opset) is not None, "")
    raise Decline(f"{op} takes no {_name(dtype)} at opset {opset}")


def _name(dtype: int) -> str:
    return TensorProto.DataType.Name(dtype).lower()


def takes_type(b: Builder, op: str, dtype: int, at: int = 0) -> bool:
    """Whether ONNX has `op` for tensors of `dtype`, as its input `at`, at the model's opset."""
    return _takes(op, dtype, at, b.opset)


def holds(b: Builder, x: Value, number: float) -> bool:
    """Whether a number is one in the type of x too: neither inf nor NaN."""
    with np.errstate(over="ignore"):
        return math.isfinite(
            np.asarray(number).astype(helper.tensor_dtype_to_np_dtype(b.dtype(x) or TensorProto.FLOAT))
        )


@cache
def _takes(op: str, dtype: int, at: int, opset: int) -> bool:
    spec = schema(op, "", opset)
    return spec is not None and f"tensor({TensorProto.DataType.Name(dtype).lower()})" in spec.inputs[at].types
