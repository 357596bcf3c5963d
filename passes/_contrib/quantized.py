"""Operators of quantized numbers that are dequantized, computed and quantized again: so they are defined."""

import math
from functools import reduce

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require

from .blocks import CONV, POOL, attributes, first, last
from .table import FLOAT, Result, body, given, known, needed, plus

TYPES = (TensorProto.UINT8, TensorProto.INT8)
OF_EIGHT: dict[int, int] = {TensorProto.UINT4: TensorProto.UINT8, TensorProto.INT4: TensorProto.INT8}


def dequantized(b: Builder, x: Value, scale: Value, zero: Value | None) -> Value:
    return b.DequantizeLinear(x, scalar(b, scale), None if zero is None else scalar(b, zero))


def quantized(b: Builder, x: Value, scale: Value, zero: Value | None) -> Value:
    """The numbers as the root's first input has them where no zero point says the type."""
    if zero is None:
        zero = b.constant(0, b.dtype(given(b, 1)[0]))
    return b.QuantizeLinear(x, scalar(b, scale), scalar(b, zero))


def scalar(b: Builder, value: Value) -> Value:
    """A scale or a zero point without a dimension: ONNX takes a vector for one an axis."""
    shape = b.shape(value)
    require(shape in ((), (1,)), "a scale or a zero point is more than one number")
    if shape == ():
        return value
    array = b.value(value)
    return b.Reshape(value, np.zeros(0, np.int64)) if array is None else b.constant(array.reshape(()))


def shifted(b: Builder, y: Value, scale: Value | None, zero: Value | None) -> Value:
    """Quantized numbers that are shifted before they are rounded: an odd zero point turns halves the other way."""
    shift = None if zero is None else b.value(zero)
    if zero is None or (shift is not None and not shift.any()):
        return quantized(b, y, b.constant(1.0, TensorProto.FLOAT) if scale is None else scale, zero)
    y = y if scale is None else b.Div(y, scalar(b, scale))
    y = b.Add(y, b.Cast(scalar(b, zero), to=TensorProto.FLOAT))
    return b.QuantizeLinear(y, np.float32(1), b.constant(0, b.dtype(zero)))


@body("QLinearAdd")
def add(b, a, a_scale, a_zero, c, c_scale, c_zero, scale, zero):
    one = dequantized(b, a, a_scale, a_zero)
    other = dequantized(b, c, c_scale, c_zero)
    return shifted(b, b.Add(one, other), scale, zero)


@body("QLinearMul")
def multiply(b, a, a_scale, a_zero, c, c_scale, c_zero, scale, zero):
    """The product of integers, times one factor."""
    one, other = (_whole(b, x, z) for x, z in ((a, a_zero), (c, c_zero)))
    a_scale, c_scale, scale = (scalar(b, s) for s in (a_scale, c_scale, scale))
    return shifted(b, b.Mul(b.Mul(one, other), b.Div(b.Mul(a_scale, c_scale), scale)), None, zero)


@body("QLinearSigmoid")
def sigmoid(b, x, x_scale, x_zero, scale, zero):
    return quantized(b, b.Sigmoid(dequantized(b, x, x_scale, x_zero)), scale, zero)


@body("QLinearLeakyRelu")
def leaky_relu(b, x, x_scale, x_zero, scale, zero):
    numbers = dequantized(b, x, x_scale, x_zero)
    return quantized(b, b.LeakyRelu(numbers, alpha=float(b.root.attr("alpha"))), scale, zero)


@body("QLinearSoftmax")
def softmax(b, x, x_scale, x_zero, scale, zero):
    """Before opset 13 the dimensions from the axis on were one."""
    x = dequantized(b, x, x_scale, x_zero)
    axis, rank = b.root.attr("axis"), b.known_rank(x)
    old, now = b.root.attr("opset") < 13, b.opset < 13
    if old == now or axis in (-1, rank - 1):
        return quantized(b, b.Softmax(x, axis=axis), scale, zero)
    require(old, "its axis is that of a newer opset than the model's")
    rows = b.Reshape(x, [*[0] * (axis % rank), -1])
    return quantized(b, b.Reshape(b.Softmax(rows, axis=-1), b.Shape(x)), scale, zero)


@body("QLinearReduceMean")
def mean(b, x, x_scale, x_zero, scale, zero):
    y = b.ReduceMean(dequantized(b, x, x_scale, x_zero), axes=b.root.attrs["axes"], keepdims=b.root.attrs["keepdims"])
    return quantized(b, y, scale, zero)


@body("QLinearAveragePool")
def average_pool(b, x, x_scale, x_zero, scale, zero):
    x = dequantized(b, x, x_scale, x_zero)
    turns = b.root.attr("channels_last")
    y = b.node("AveragePool", [first(b, x) if turns else x], 1, "", attributes(b, POOL))
    return shifted(b, last(b, y, b.known_rank(x)) if turns else y, scale, zero)


@body("QLinearGlobalAveragePool")
def global_average_pool(b, x, x_scale, x_zero, scale, zero):
    """Sums of integers times one factor, rounded and shifted."""
    rank, shape = b.known_rank(x), b.shape(x)
    axes = list(range(1, rank - 1)) if b.root.attr("channels_last") else list(range(2, rank))
    known_sizes = [d for d in (shape or ())[axes[0] : axes[-1] + 1] if isinstance(d, int)]
    count: Value | float = float(math.prod(known_sizes))
    if len(known_sizes) < len(axes):
        dims = [b.Gather(b.Shape(x), axis, axis=0) for axis in axes]
        count = b.Cast(reduce(b.Mul, dims), to=TensorProto.FLOAT)
    total = b.ReduceSum(_whole(b, x, x_zero), axes=axes, keepdims=1)
    factor = b.Div(scalar(b, x_scale), b.Mul(scalar(b, scale), count))
    return quantized(b, b.Mul(total, factor), b.constant(1.0, TensorProto.FLOAT), zero)


def _whole(b: Builder, x: Value, zero: Value | None) -> Value:
    """The numbers less their zero point, without their scale."""
    return dequantized(b, x, b.constant(1.0, TensorProto.FLOAT), zero)


@body("QLinearConv")
def conv(b, x, *others):
    """ONNX's, but for the channels: the filters have theirs where ONNX has them."""
    turns = b.root.attr("channels_last")
    y = b.node("QLinearConv", [first(b, x) if turns else x, *others], 1, "", attributes(b, CONV))
    return last(b, y, b.known_rank(x)) if turns else y


@body("QLinearConcat")
def concat(b: Builder) -> Result:
    scale, zero, *parts = b.root.inputs
    triples = [parts[k : k + 3] for k in range(0, len(parts), 3)]
    whole = [dequantized(b, needed(x), needed(s), z) for x, s, z in triples]
    return quantized(b, b.Concat(*whole, axis=b.root.attrs["axis"]), needed(scale), zero)


@body("QLinearWhere")
def where(b, condition, x, x_scale, x_zero, y, y_scale, y_zero, scale, zero):
    one = dequantized(b, x, x_scale, x_zero)
    other = dequantized(b, y, y_scale, y_zero)
    return quantized(b, b.Where(condition, one, other), scale, zero)


@body("QuantizeLinear")
def quantize(b, x, scale, zero):
    require(zero is None or b.dtype(zero) in TYPES, "it makes another type than uint8 and int8")
    return b.QuantizeLinear(x, scale, zero, **_axis(b, scale))


@body("DequantizeLinear")
def dequantize(b, x, scale, zero):
    require(not b.root.attr("block_size"), "it has a scale a block")
    if b.dtype(x) in OF_EIGHT:
        x, zero = _of_eight_bits(b, x), None if zero is None else _of_eight_bits(b, zero)
    require(b.dtype(x) in TYPES or b.dtype(x) == TensorProto.INT32, "it reads another type than uint8, int8 and int32")
    return b.DequantizeLinear(x, scale, zero, **_axis(b, scale))


def _of_eight_bits(b: Builder, weights: Value) -> Value:
    """Constants of four bits in eight: before opset 21 ONNX has no type of four."""
    return b.constant(known(b, weights, "input").astype(np.int32), OF_EIGHT[b.dtype(weights)])


def _axis(b: Builder, scale: Value) -> dict[str, int]:
    return {} if b.shape(scale) == () else {"axis": b.root.attr("axis")}


@body("DynamicQuantizeMatMul")
def dynamic_matmul(b, a, weights, weight_scale, weight_zero, bias):
    numbers, scale, zero = b.DynamicQuantizeLinear(a, outputs=3)
    return _scaled(b, b.Mul(scale, weight_scale), bias, numbers, weights, zero, weight_zero)


@body("MatMulIntegerToFloat")
def integers_to_floats(b, a, weights, scale, weight_scale, zero, weight_zero, bias):
    return _scaled(b, b.Mul(scale, weight_scale), bias, a, weights, zero, weight_zero)


def _scaled(b: Builder, factor: Value, bias: Value | None, *integers: Value | None) -> Value:
    total = b.MatMulInteger(*integers)
    return plus(b, b.Mul(b.Cast(total, to=b.dtype(factor)), factor), bias)


@body("QGemm")
def gemm(b, a, a_scale, a_zero, c, c_scale, c_zero, added, scale, zero):
    attr = b.root.attr
    a, c = (b.Transpose(v, perm=[1, 0]) if attr(f"trans{n}") else v for v, n in ((a, "A"), (c, "B")))
    require(b.shape(a_scale) in ((), (1,)), "it has a scale for each row")
    total = b.MatMulInteger(a, c, scalar(b, a_zero), c_zero)
    total = plus(b, total, added)
    factor = b.Mul(b.Mul(a_scale, c_scale), float(attr("alpha")))
    if scale is None:
        return b.Mul(b.Cast(total, to=FLOAT), factor)
    zero = needed(zero)
    require(b.dtype(zero) in (TensorProto.UINT8, TensorProto.INT8), "it makes another type than uint8 and int8")
    whole = b.Mul(b.Cast(total, to=FLOAT), b.Div(factor, scalar(b, scale)))
    return b.QuantizeLinear(whole, b.constant(1.0, FLOAT), scalar(b, zero))
