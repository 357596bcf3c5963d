"""Products of quantized numbers: integers are multiplied and added up to the bit, then scaled."""

from onnx import TensorProto

from surgeon import Builder, Value, require

from .quantized import scalar
from .table import FLOAT, Result, body, given, needed, plus


@body("DynamicQuantizeMatMul")
def dynamic_matmul(b: Builder) -> Result:
    a, weights, weight_scale, weight_zero, bias = given(b, 5)
    numbers, scale, zero = b.DynamicQuantizeLinear(a, outputs=3)
    return _scaled(b, numbers, needed(weights), b.Mul(scale, needed(weight_scale)), zero, weight_zero, bias)


@body("MatMulIntegerToFloat")
def integers_to_floats(b: Builder) -> Result:
    a, weights, scale, weight_scale, zero, weight_zero, bias = given(b, 7)
    factor = b.Mul(needed(scale), needed(weight_scale))
    return _scaled(b, needed(a), needed(weights), factor, zero, weight_zero, bias)


def _scaled(
    b: Builder,
    a: Value,
    weights: Value,
    factor: Value,
    zero: Value | None,
    weight_zero: Value | None,
    bias: Value | None,
) -> Value:
    total = b.MatMulInteger(a, weights, zero, weight_zero)
    return plus(b, b.Mul(b.Cast(total, to=b.dtype(factor)), factor), bias)


@body("QGemm")
def gemm(b: Builder) -> Result:
    a, a_scale, a_zero, c, c_scale, c_zero, added, scale, zero = given(b, 9)
    a, c, a_scale, c_scale = (needed(v) for v in (a, c, a_scale, c_scale))
    attr = b.root.attr
    a, c = (b.Transpose(v, perm=[1, 0]) if attr(f"trans{n}") else v for v, n in ((a, "A"), (c, "B")))
    require(b.shape(a_scale) in ((), (1,)), "it has a scale for each row")
    total = b.MatMulInteger(a, c, scalar(b, needed(a_zero)), c_zero)
    total = plus(b, total, added)
    factor = b.Mul(b.Mul(a_scale, c_scale), float(attr("alpha")))
    if scale is None:
        return b.Mul(b.Cast(total, to=FLOAT), factor)
    zero = needed(zero)
    require(b.dtype(zero) in (TensorProto.UINT8, TensorProto.INT8), "it makes another type than uint8 and int8")
    whole = b.Mul(b.Cast(total, to=FLOAT), b.Div(factor, scalar(b, scale)))
    return b.QuantizeLinear(whole, b.constant(1.0, FLOAT), scalar(b, zero))
