"""Which types an ONNX operator supports at the opset of the model."""

import math
from functools import cache

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from surgeon import FLOATS, Builder, Decline, Value, require
from surgeon.ir.run import has_kernel
from surgeon.ir.schemas import schema
from surgeon.targets.condition import dtype_name


def require_op(b: Builder, op: str, x: Value, at: int = 0) -> None:
    """Decline unless the model's opset lets `op` take x as its input `at`, and ONNX Runtime runs it there.

    1. x is not a float tensor, or the opset has no such operator: no news, declined silently.
    2. The operator does not take the type of x: that is the reason.
    3. ONNX Runtime has no kernel for it in that type: that is the reason, where the target has the operator. It has few
       for double, and at opset 25 none for Swish. A rule of the stage LOWER need not ask, nor bfloat16, of which ONNX
       Runtime runs the file's own nodes no better.
    """
    dtype, opset = b.dtype(x), b.opset
    require(dtype in FLOATS and schema(op, "", opset) is not None)
    if not _takes(op, dtype, at, opset):
        raise Decline(f"{op} takes no {dtype_name(dtype)} at opset {opset}")
    if dtype == TensorProto.BFLOAT16 or b.strategy is not None or has_kernel(op, dtype, opset):
        return
    require(b.target.imports(op))
    raise Decline(f"ONNX Runtime has no kernel for {op} in {dtype_name(dtype)} at opset {opset}")


def takes_type(b: Builder, op: str, dtype: int, at: int = 0) -> bool:
    """Whether ONNX has `op` for tensors of `dtype`, as its input `at`, at the model's opset."""
    return _takes(op, dtype, at, b.opset)


def holds(b: Builder, x: Value, number: float) -> bool:
    """Whether the type of x has a number to its own precision: neither inf nor NaN, nor cut short next to zero."""
    dtype = helper.tensor_dtype_to_np_dtype(b.dtype(x) or TensorProto.FLOAT)
    with np.errstate(over="ignore", under="ignore"):
        held = float(np.asarray(number).astype(dtype))
    eps = ml_dtypes.finfo(dtype).eps
    return math.isfinite(held) and abs(held - number) <= float(eps) * abs(number)


@cache
def _takes(op: str, dtype: int, at: int, opset: int) -> bool:
    spec = schema(op, "", opset)
    return spec is not None and f"tensor({dtype_name(dtype)})" in spec.inputs[at].types
