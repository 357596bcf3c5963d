"""Weights of few bits, taken out of their bytes: a table that is looked up in, and products of a code of four bits."""

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require

from .products import bits_of
from .table import FLOAT, Result, body, given, inputs_of, known, needed

# The numbers that the sixteen codes of four bits stand for, as bitsandbytes has them.
FP4 = (0.0, 5.208333333e-03, 0.6666666667, 1.0, 0.3333333333, 0.5, 0.1666666667, 0.25)
CODES = {
    0: np.array([*FP4, *(-x for x in FP4)], np.float32),
    1: np.array(
        [
            -1.0,
            -0.6961928009986877,
            -0.5250730514526367,
            -0.39491748809814453,
            -0.28444138169288635,
            -0.18477343022823334,
            -0.09105003625154495,
            0.0,
            0.07958029955625534,
            0.16093020141124725,
            0.24611230194568634,
            0.33791524171829224,
            0.44070982933044434,
            0.5626170039176941,
            0.7229568362236023,
            1.0,
        ],
        np.float32,
    ),
}


@body("MatMulBnb4")
def bnb4(b: Builder) -> Result:
    """Each byte has two codes, the upper four bits first; a block of weights has one factor."""
    a, packed, factors = inputs_of(b, 3)
    attr = b.root.attr
    require(attr("transB"), "its weights are multiplied as they are, which training alone does")
    rows, columns, block = attr("N"), attr("K"), attr("block_size")
    require(attr("quant_type") in CODES, "its weights are in a code that its definition does not have")
    count = rows * columns
    bytes_ = known(b, packed, "weight", size=-(-count // 2)).reshape(-1)
    codes = np.stack([bytes_ >> 4, bytes_ & 15], axis=1).reshape(-1)[:count]
    blocks = known(b, factors, "scale", size=-(-count // block))
    factor = np.repeat(blocks.astype(np.float32).reshape(-1), block)[:count]
    with np.errstate(invalid="ignore"):  # scales that are infinite
        weights = (CODES[attr("quant_type")][codes] * factor).reshape(rows, columns)
    y = b.MatMul(b.typed(a, FLOAT), np.ascontiguousarray(weights.T))
    return b.typed(y, b.dtype(a))


@body("GatherBlockQuantized")
def gather(b: Builder) -> Result:
    """The whole table is dequantized: (number - zero) * scale for each block along an axis."""
    table, indices, scales, zeros = given(b, 4)
    attr = b.root.attr
    table, indices, scales = needed(table), needed(indices), needed(scales)
    dtype = b.dtype(table)
    require(
        dtype in (TensorProto.UINT8, TensorProto.UINT4, TensorProto.INT4), "its numbers are not integers of few bits"
    )
    bits = attr("bits") if dtype == TensorProto.UINT8 else 8  # what ONNX packs itself is unpacked when it is read
    numbers, factor = (known(b, v, what) for v, what in ((table, "table"), (scales, "scale")))
    require(numbers.ndim > 0, "its table has no dimensions")
    rows, axis = [_plain(numbers, bits)], attr("quantize_axis")
    blocks = list(rows[0].shape)
    size = blocks[axis]
    blocks[axis] = -(-size // attr("block_size"))
    require(list(factor.shape) == blocks, "its scales are not one for each block")
    zero = None if zeros is None else known(b, zeros, "zero point")
    require(zero is None or (zero.size and zero.ndim == factor.ndim), "its zero points are not one for each block")
    rows.append(_middle(factor, dtype, bits) if zero is None else _plain(zero, bits))
    require(_of_blocks(rows[1], factor).shape == factor.shape, "its zero points are not one for each block")
    where = np.arange(size) // attr("block_size")
    shift, scale = (np.take(v.astype(np.float32), where, axis=axis) for v in (_of_blocks(rows[1], factor), factor))
    whole = ((rows[0].astype(np.float32) - shift) * scale).astype(factor.dtype)
    return _looked_up(b, whole, indices, attr("gather_axis"))


def _looked_up(b: Builder, table: np.ndarray, indices: Value, axis: int) -> Value:
    """The table's rows; zeros where an index is outside, which ONNX's Gather refuses: they are one row more."""
    size, dtype = table.shape[axis], b.dtype(indices)
    nothing = np.zeros_like(table.take([0], axis=axis))
    last, none = b.constant(size, dtype), b.constant(0, dtype)
    from_start = b.Where(b.Less(indices, none), b.Add(indices, last), indices)
    row = b.Where(b.Less(from_start, none), last, b.Min(from_start, last))
    return b.Gather(b.constant(np.concatenate([table, nothing], axis=axis)), row, axis=axis)


def _middle(factor: np.ndarray, dtype: int, bits: int) -> np.ndarray:
    """The zero points of a node that has none."""
    return np.full(factor.shape, 2 ** (bits - 1) if dtype == TensorProto.UINT8 else 0, np.int32)


def _plain(numbers: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of packed rows, the lowest bits first."""
    if bits == 8:
        return numbers.astype(np.int32)
    flat = bits_of(numbers.reshape(-1, numbers.shape[-1]), bits)
    return flat.reshape(*numbers.shape[:-1], -1).astype(np.int32)


def _of_blocks(zeros: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """The zero points without those that fill a last byte."""
    return zeros[tuple(slice(size) for size in factor.shape)]
