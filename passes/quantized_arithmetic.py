"""Compute with quantized numbers in floating point, where the target has no integer operator for it.

Why       TensorRT quantizes symmetrically and to int8 alone. ONNX Runtime's quantizer writes uint8 with a zero point
          other than 0, and for dynamic quantization DynamicQuantizeLinear, MatMulInteger and ConvInteger; its operator
          format is QLinearConv and QLinearMatMul. No TensorRT has an importer for those, nor uint8 between two nodes.
Rewrites  QuantizeLinear         ->  Clip(Round(x / scale) + zero), as uint8 or int8
          DequantizeLinear       ->  (x - zero) * scale; constants are moved to zero point 0 where int8 holds them, and
                                     computed where it does not, of single numbers, of blocks, and of fp8 and fp4
          both, uint8 around 128 ->  both, int8 around 0
          DynamicQuantizeLinear  ->  ReduceMin, ReduceMax and the same
          MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv  ->  MatMul and Conv of integers in fp32
Exact     To the bit where the result is whole: fp32 adds integers exactly below 2^24, in any order. Where the sums
          of the weights allow more, the activations are taken apart in two (x = 16 * high + low), multiplied apart, and
          added as int32: twice the work. Products of unknown number are added up in blocks of 128, and these as int32.
Kept      Scales other than fp32 and fp16, blocks, other types than uint8 and int8, sums that may pass 2^24 even so.
Price     It computes in fp32, not in int8: with TensorRT's own symmetric quantization it would be faster, which
          --symmetric-int8 writes. uint8 and back of [1,64,56,56] in ONNX Runtime on one thread: 8 nodes for 2, 0.30 ms
          next to 0.05. Opset 10 has no Round, which is 16 nodes more there.
"""

import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Decline, Node, Value, const, op, require, require_some, rule, var

from ._arithmetic import EXACT, LIMITS, largest, rounded, without_nan, without_zero
from ._shapes import output_of

FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
SINGLE = ((), (1,))  # the shapes of a single scale or zero point
# What constants are taken out of: integers, and floats of few bits, of which scales may be dequantized themselves.
INTEGERS: frozenset[int] = frozenset({*LIMITS, TensorProto.UINT4, TensorProto.INT4})
FEW_BITS: frozenset[int] = frozenset({TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT4E2M1})
BLOCK = 128  # products of unknown number are added up in blocks of this many: 128 * 255 * 255 < 2^24
HALF_RANGE = 16  # activations are taken apart into 16 * high + low

zero = var("zero")


# ---- QuantizeLinear and DequantizeLinear -----------------------------------------------------------------------------


@rule(
    op.DequantizeLinear(
        op.QuantizeLinear(var("x", dtype=FLOAT), const("scale"), const("zero", dtype=TensorProto.UINT8)),
        const("other"),
        const("other_zero"),
    ),
    strategy="decompose",
)
def around_128(b, x, scale, zero, other, other_zero):
    same = np.array_equal(scale, other) and np.array_equal(zero, other_zero)
    require(same and (zero == 128).all())
    quantize = b.root.inputs[0].producer
    centred = np.zeros(zero.shape, np.int8)
    whole = b.node("QuantizeLinear", [x, quantize.inputs[1], centred], 1, "", quantize.attrs)
    return b.node("DequantizeLinear", [whole, b.root.inputs[1], centred], 1, "", b.root.attrs)


@rule(op.QuantizeLinear("x", "scale", zero | None), strategy="decompose")
def quantize(b, x, scale, zero=None):
    require(not b.root.attr("block_size"), "it has a scale a block")
    require(b.dtype(x) == _type_of_scale(b, scale), "its input is of another type than its scale")
    dtype = b.dtype(zero) if zero is not None else b.root.attr("output_dtype") or TensorProto.UINT8
    _require_along(b, x, scale)
    axis, rank = b.root.attr("axis"), b.rank(x)
    ratio = _numbers(b, x)
    if not _is_one(b, scale):
        ratio = b.Div(ratio, _numbers(b, _along(b, scale, axis, rank)))
    return _as_integers(b, ratio, None if zero is None else _along(b, _plain(b, zero), axis, rank), dtype)


@rule(op.DequantizeLinear("x", "scale", zero | None), strategy="decompose")
def dequantize(b, x, scale, zero=None):
    weights, axis, rank = b.value(x), b.root.attr("axis"), b.rank(x)
    if weights is not None and b.dtype(x) in INTEGERS | FEW_BITS:
        return _weights(b, weights.astype(np.float32) if b.dtype(x) in FEW_BITS else weights, scale, zero, axis)
    dtype = _type_of_scale(b, scale)
    require(not b.root.attr("block_size"), "it has a scale a block")
    _require_along(b, x, scale)
    require(b.dtype(x) in LIMITS or b.dtype(x) == INT32, "its input is neither uint8, int8 nor int32")
    shift = None if zero is None else b.value(zero)
    is_plain = zero is None or (shift is not None and not shift.any())
    require(b.dtype(x) in LIMITS or is_plain, "its integers of 32 bits have a zero point")
    whole = _centred(b, x, zero if b.dtype(x) in LIMITS else None, axis)
    numbers = whole if _is_one(b, scale) else b.Mul(whole, _numbers(b, _along(b, scale, axis, rank)))
    return numbers if dtype == FLOAT else b.Cast(numbers, to=dtype)


def _weights(b: Builder, array: np.ndarray, scale: Value, zero: Value | None, axis: int) -> Value:
    """Dequantized constants: int8 with a zero point of 0 where that holds them, else numbers."""
    shift, factor = (b.value(v) if v is not None else np.zeros((), np.int32) for v in (zero, scale))
    if shift is None or factor is None:
        raise Decline("its scale or its zero point is computed")
    block = b.root.attr("block_size")
    shift, factor = (_spread(a, array.shape, axis, block) for a in (shift, factor))
    kind = np.float32 if array.dtype == np.float32 else np.int32
    centred = array.astype(kind) - shift.astype(kind)
    is_held = bool(centred.size and array.ndim and not block and kind is np.int32)
    if is_held and centred.min() >= -128 and centred.max() <= 127 and bool((factor > 0).all()):
        require(array.dtype != np.int8 or shift.any())
        whole = b.constant(centred.astype(np.int8))
        none = b.constant(np.zeros(b.shape(scale), np.int8))
        return b.node("DequantizeLinear", [whole, scale, none], 1, "", b.root.attrs)
    require(not output_of(b.root).is_output, "it names an output of the graph")
    return b.constant((centred.astype(np.float32) * factor.astype(np.float32)).astype(factor.dtype))


def _spread(factor: np.ndarray, shape: Sequence[int], axis: int, block: int) -> np.ndarray:
    """A scale or a zero point, shaped to broadcast to the weights: one, one along the axis, or one for each block."""
    plain = not block or factor.ndim < len(shape)
    sizes = [-(-n // block) if block and a == axis % len(shape) else n for a, n in enumerate(shape)]
    fits = factor.size == 1 or (-len(shape) <= axis < len(shape) and factor.size == shape[axis])
    require(fits if plain else list(factor.shape) == sizes, "a scale or a zero point does not fit its weights")
    if plain:
        return factor.reshape(_aligned(factor, axis, len(shape)))
    return np.repeat(factor, block, axis=axis).take(range(shape[axis]), axis=axis)


# ---- DynamicQuantizeLinear -------------------------------------------------------------------------------------------


@rule(op.DynamicQuantizeLinear("x"), strategy="decompose")
def dynamic_quantize(b, x):
    b.known_rank(x)
    low = b.Min(b.ReduceMin(x, keepdims=0), 0.0)
    high = b.Relu(b.ReduceMax(x, keepdims=0))
    spread = b.Div(b.Sub(high, low), 255.0)
    scale = b.Where(b.Equal(spread, 0.0), b.constant(1.0, FLOAT), spread)
    if not any(o is not None and o.is_read for o in (b.root.outputs[0], b.root.outputs[2])):
        return None, scale, None  # a product reads the numbers of constants that are quantized
    zero = b.Round(b.Clip(without_nan(b, b.Sub(0.0, b.Div(low, scale)), 256.0), min=0.0, max=255.0))
    y = _as_integers(b, b.Div(x, scale), zero, TensorProto.UINT8)
    return y, scale, b.Cast(zero, to=TensorProto.UINT8)


# ---- products --------------------------------------------------------------------------------------------------------

w_zero = var("w_zero")
matmul = op.MatMulInteger("x", "w", zero | None, w_zero | None)
conv = op.ConvInteger("x", "w", zero | None, w_zero | None, ...)


@rule(matmul | conv, strategy="decompose")
def product(b, x, w, zero=None, w_zero=None):
    return b.Cast(_product(b, b.root, x, w, zero, w_zero), to=INT32)


@rule(
    op.QLinearMatMul("x", "x_scale", zero, "w", "w_scale", w_zero, "y_scale", "y_zero")
    | op.QLinearConv("x", "x_scale", zero, "w", "w_scale", w_zero, "y_scale", "y_zero", var("bias") | None),
    strategy="decompose",
)
def requantized(b, x, x_scale, zero, w, w_scale, w_zero, y_scale, y_zero, bias=None):
    scales = (x_scale, w_scale, y_scale)
    require(all(b.dtype(s) in (FLOAT, TensorProto.FLOAT16) for s in scales), "a scale is not a float")
    require(b.shape(x_scale) in SINGLE, "it has a scale for each row")
    factor = b.Div(b.Mul(_numbers(b, x_scale), _of_filters(b, w_scale, w)), _numbers(b, y_scale))
    known = b.value(factor)
    if known is not None:
        b.discard(factor)
        factor = b.constant(_scalar(known))
    total = _product(b, b.root, x, w, zero, w_zero, bias)
    return _as_integers(b, b.Mul(_numbers(b, total), factor), _plain(b, y_zero), b.dtype(y_zero))


def _of_filters(b: Builder, scale: Value, w: Value) -> Value:
    """The scales of the second factor: a vector of a Conv has one for each filter."""
    scale = _numbers(b, scale)
    if b.root.op == "QLinearMatMul" or b.shape(scale) in SINGLE:
        return scale
    return b.Reshape(scale, [-1, *[1] * (b.known_rank(w) - 2)])


def _product(
    b: Builder, node: Node, x: Value, w: Value, zero: Value | None, w_zero: Value | None, bias: Value | None = None
) -> Value:
    """The product of integers that the node computes: in fp32 where that is exact, else in int32."""
    require(b.dtype(x) in LIMITS and b.dtype(w) in LIMITS, "it multiplies other types than uint8 and int8")
    matrix = "MatMul" in node.op
    if matrix and _is_of_unknown_length(b, w):
        return _in_blocks(b, x, w, zero, w_zero)
    weights, sums = _factor(b, w, w_zero, matrix)
    shift = 0 if bias is None else _largest_of(b, bias)
    a = _operand(b, x, zero)
    attrs = {} if matrix else node.attrs

    def times(given: Value) -> Value:
        return b.node("MatMul" if matrix else "Conv", [given, weights], 1, "", attrs)

    if largest(b, x, zero) * sums + shift < EXACT:
        return _with_bias(b, times(a), bias, FLOAT)
    require(HALF_RANGE * sums < EXACT, "its sums may pass 2^24, up to which fp32 adds integers exactly")
    high = b.Floor(b.Mul(a, 1 / HALF_RANGE))
    low = b.Sub(a, b.Mul(high, float(HALF_RANGE)))
    upper, lower = (b.Cast(times(part), to=INT32) for part in (high, low))
    return _with_bias(b, b.Add(b.Mul(upper, HALF_RANGE), lower), bias, INT32)


def _is_of_unknown_length(b: Builder, w: Value) -> bool:
    """Whether it is not known how many products are added up, of matrices."""
    shape = b.shape(w)
    return shape is not None and len(shape) > 1 and not isinstance(shape[-2], int)


def _in_blocks(b: Builder, x: Value, w: Value, zero: Value | None, w_zero: Value | None) -> Value:
    """The product of matrices in int32: of blocks that fp32 adds up exactly, and these as integers. Both are filled up
    with zeros to whole blocks, which become a dimension before the matrix."""
    rank, w_rank = b.known_rank(x), b.known_rank(w)
    require(rank > 1, "a vector of unknown length is multiplied")
    one, other = _operand(b, x, zero), _operand(b, w, w_zero)
    length = b.Gather(b.Shape(other), [w_rank - 2], axis=0)
    blocks = b.Div(b.Add(length, BLOCK - 1), BLOCK)
    missing = b.Sub(b.Mul(blocks, BLOCK), length)
    cut = [blocks, np.array([BLOCK], np.int64)]
    rows = b.Concat(b.Slice(b.Shape(one), starts=[0], ends=[rank - 1], axes=[0]), *cut, axis=0)
    sizes = [b.Slice(b.Shape(other), starts=[k], ends=[k + 1], axes=[0]) for k in (*range(w_rank - 2), w_rank - 1)]
    columns = b.Concat(*sizes[:-1], *cut, sizes[-1], axis=0)
    one = b.Reshape(_filled(b, one, rank - 1, rank, missing), rows)
    one = b.Transpose(one, perm=[*range(rank - 2), rank - 1, rank - 2, rank])
    other = b.Reshape(_filled(b, other, w_rank - 2, w_rank, missing), columns)
    return b.ReduceSum(b.Cast(b.MatMul(one, other), to=INT32), axes=[-3], keepdims=0)


def _filled(b: Builder, x: Value, axis: int, rank: int, missing: Value) -> Value:
    """A tensor with so many zeros after the last element along an axis."""
    none = np.zeros(rank + axis, np.int64)
    pads = [none, missing, np.zeros(rank - 1 - axis, np.int64)]
    return b.Pad(x, pads=b.Concat(*(p for p in pads if not isinstance(p, np.ndarray) or p.size), axis=0))


def _factor(b: Builder, w: Value, zero: Value | None, matrix: bool) -> tuple[Value, int]:
    """(the weights less their zero point, as fp32; the largest sum of their amounts over what is added up)."""
    array, shift = b.value(w), np.zeros((), np.int32) if zero is None else b.value(zero)
    if array is None or shift is None:
        shape = b.shape(w) or ()
        added = shape[1:] if not matrix else shape[-2:-1] if len(shape) > 1 else shape
        if not added or not all(isinstance(d, int) for d in added):
            raise Decline("how many products are added up is not known")
        return _computed(b, w, zero, matrix), largest(b, w, zero) * math.prod(int(d) for d in added if d is not None)
    pairs = zip(reversed(shift.shape), reversed(array.shape), strict=False)
    along = all(one in (1, n) for one, n in pairs) if matrix else array.ndim and shift.shape == array.shape[:1]
    require(shift.size == 1 or along, "its zero point is not one for each column or filter")
    if not matrix and shift.size > 1:
        shift = shift.reshape([-1, *[1] * (array.ndim - 1)])
    centred = array.astype(np.int32) - _scalar(shift).astype(np.int32)
    columns = max(centred.ndim - 2, 0) if matrix else tuple(range(1, centred.ndim))
    return b.constant(centred.astype(np.float32)), int(np.abs(centred).sum(axis=columns).max(initial=0))


def _computed(b: Builder, w: Value, zero: Value | None, matrix: bool) -> Value:
    """Computed weights less their zero point, of which a Conv has one for each filter."""
    if zero is None:
        return b.Cast(w, to=FLOAT)
    shift = _plain(b, zero)
    if not matrix and b.shape(shift) not in SINGLE:
        shift = b.Reshape(shift, [-1, *[1] * (b.known_rank(w) - 1)])
    return without_zero(b, w, shift)


def _operand(b: Builder, x: Value, zero: Value | None) -> Value:
    """What is multiplied, less its zero point, as fp32."""
    if zero is None:
        return b.Cast(x, to=FLOAT)
    require(b.shape(zero) in SINGLE, "it has a zero point for each row")
    return without_zero(b, x, _plain(b, zero))


def _with_bias(b: Builder, total: Value, bias: Value | None, dtype: int) -> Value:
    if bias is None:
        return total
    array = b.value(bias)
    assert array is not None  # of which the largest is known
    shape = [-1, *[1] * (b.known_rank(total) - 2)]
    return b.Add(total, b.constant(array.reshape(shape), dtype))


def _largest_of(b: Builder, bias: Value) -> int:
    array = require_some(b.value(bias), "its bias is computed")
    return int(np.abs(array.astype(np.int64)).max(initial=0))


# ---- what they share -------------------------------------------------------------------------------------------------


def _as_integers(b: Builder, ratio: Value, zero: Value | None, dtype: int) -> Value:
    """Round(ratio) + zero, within the type."""
    require(dtype in LIMITS, "it makes another type than uint8 and int8")
    whole = b.Round(ratio) if b.has_op("Round", FLOAT) else rounded(b, ratio)
    shift = None if zero is None else b.value(zero)
    if zero is not None and (shift is None or shift.any()):
        whole = b.Add(whole, zero)
    low, high = (float(limit) for limit in LIMITS[dtype])
    return b.Cast(b.Clip(without_nan(b, whole, low - 1), min=low, max=high), to=dtype)


def _numbers(b: Builder, value: Value) -> Value:
    """A tensor in fp32: of half precision ONNX Runtime divides and multiplies there, and rounds once."""
    return b.typed(value, FLOAT)


def _plain(b: Builder, zero: Value) -> Value:
    array = b.value(zero)
    return b.Cast(zero, to=FLOAT) if array is None else b.constant(_scalar(array.astype(np.float32)))


def _centred(b: Builder, x: Value, zero: Value | None, axis: int) -> Value:
    if zero is None:
        return b.Cast(x, to=FLOAT)
    return without_zero(b, x, _along(b, _plain(b, zero), axis, b.rank(x)))


def _require_along(b: Builder, x: Value, scale: Value) -> None:
    """Decline where the scales are known to be of another number than what they stand for."""
    shape, scales, axis = b.shape(x), b.shape(scale), b.root.attr("axis")
    if shape is None or scales is None or len(scales) != 1 or scales == (1,) or not -len(shape) <= axis < len(shape):
        return
    both = (shape[axis], scales[0])
    require(both[0] == both[1] or not all(isinstance(d, int) for d in both), "its scales do not fit its input")


def _along(b: Builder, factor: Value, axis: int, rank: int | None) -> Value:
    """A scale or a zero point, shaped to be along the axis."""
    shape = b.shape(factor)
    if shape in SINGLE:
        return factor
    if rank is None or shape is None or len(shape) != 1 or not -rank <= axis < rank:
        raise Decline("the rank of its input or of its scale is not known")
    wanted = [1] * rank
    wanted[axis] = -1
    array = b.value(factor)
    return b.constant(array.reshape(wanted)) if array is not None else b.Reshape(factor, wanted)


def _aligned(array: np.ndarray, axis: int, rank: int) -> Sequence[int]:
    if array.size == 1:
        return ()
    wanted = [1] * rank
    wanted[axis] = -1
    return wanted


def _scalar(array: np.ndarray) -> np.ndarray:
    require(array.size, "a scale or a zero point has no number")
    return array.reshape(array.shape if array.size > 1 else ())


def _is_one(b: Builder, scale: Value) -> bool:
    known = b.value(scale)
    return known is not None and known.size == 1 and bool((known == 1).all())


def _type_of_scale(b: Builder, scale: Value) -> int:
    """The type of a scale, in which what is not quantized is."""
    dtype = b.dtype(scale)
    require(dtype in (FLOAT, TensorProto.FLOAT16), "its scale is neither fp32 nor fp16")
    require(b.root.attr("precision") in (dtype, 0, None), "it computes in another type than that of its scale")
    return dtype
