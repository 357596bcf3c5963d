"""Products of matrices with what is fused into them, weights of few bits taken out of their bytes, and mixtures.

Of a mixture every expert is computed for every token, and the chosen ones are added up by their weights.
"""

from typing import cast

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require

from .._arithmetic import gelu
from .blocks import activated, attributes
from .table import FLOAT, body, known, plus, setting


@body("FusedMatMul", "TransposeMatMul")
def fused_matmul(b, one, other):
    one, other = _turned(b, one, "A"), _turned(b, other, "B")
    y, alpha = b.MatMul(one, other), float(b.root.attr("alpha"))
    return y if alpha == 1 else b.Mul(y, alpha)


def _turned(b: Builder, x: Value, name: str) -> Value:
    """A factor as it is multiplied: transBatch moves the first axis after the others, trans swaps the last two."""
    batch, trans = bool(b.root.attr(f"transBatch{name}")), bool(b.root.attr(f"trans{name}"))
    if not (batch or trans):
        return x
    rank = b.known_rank(x)
    require(rank >= (3 if batch else 2), "a vector is transposed")
    axes = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
    return b.Transpose(x, perm=[*axes[:-2], axes[-1], axes[-2]] if trans else axes)


@body("FusedGemm")
def fused_gemm(b, x, w, bias):
    y = b.node("Gemm", [x, w, bias], 1, "", attributes(b, ("alpha", "beta", "transA", "transB")))
    parameters = [b.root.attrs.get(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return activated(b, y, b.root.attr("activation"), parameters)


@body("MatMulNBits")
def n_bits(b, a, packed, scales, zeros, order, bias):
    """The weights are taken out of their bytes: (number - zero) * scale for each block of a column."""
    weights = _unpacked(b, packed, scales, zeros, order)
    y = b.MatMul(b.typed(a, FLOAT), np.ascontiguousarray(weights.T))
    return b.typed(plus(b, y, None if bias is None else b.typed(bias, FLOAT)), b.dtype(a))


def _unpacked(b: Builder, packed: Value, scales: Value, zeros: Value | None, order: Value | None) -> np.ndarray:
    """The weights [N, K] as fp32."""
    attr = b.root.attr
    rows, columns, bits, block = attr("N"), attr("K"), attr("bits"), attr("block_size")
    require(bits in (2, 4, 8), f"its weights have {bits} bits")
    require(not attr("weight_prepacked"), "its weights are packed for one processor")
    blocks = -(-columns // block)
    bytes_ = known(b, packed, "weight", size=rows * blocks * (block * bits // 8)).reshape(rows, -1)
    numbers = bits_of(bytes_, bits)[:, :columns].astype(np.float32)
    factor = known(b, scales, "scale", size=rows * blocks).astype(np.float32).reshape(rows, blocks)
    shift = np.full((rows, blocks), 2 ** (bits - 1), np.float32)
    packs = zeros is not None and b.dtype(zeros) == TensorProto.UINT8
    if zeros is not None:
        array = known(b, zeros, "zero point")
        count = rows * (-(-blocks * bits // 8) if packs else blocks)
        require(array.size == count, f"its zero point has {array.size} numbers, and should have {count}")
        plain = bits_of(array.reshape(rows, -1), bits)[:, :blocks] if packs else array.reshape(rows, blocks)
        shift = plain.astype(np.float32)
    group = np.arange(columns) // block  # which block's scale a column has
    if order is not None:
        require(not packs, "it has a g_idx, beside which ONNX Runtime's kernel does not read packed zero points")
        group = known(b, order, "g_idx").reshape(-1)[:columns]
        require(group.size == columns, "its g_idx has no number for each column")
        require(bool(((group >= 0) & (group < blocks)).all()), "its g_idx names a block that there is not")
    with np.errstate(invalid="ignore"):  # scales that are infinite
        return np.asarray((numbers - shift[:, group]) * factor[:, group])


def bits_of(array: np.ndarray, bits: int) -> np.ndarray:
    """The numbers that the bytes of each row hold, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((array[:, :, None] >> shifts) & (2**bits - 1)).reshape(array.shape[0], -1)


@body("MoE")
def mixture(b, x, router, first, first_bias, second, second_bias, third):
    require(b.dtype(x) == TensorProto.FLOAT, "it is not fp32")
    require(third is None, "its gate has weights of its own, of which ONNX Runtime has no kernel")
    require(not b.root.attr("use_sparse_mixer"), "it mixes with the sparse mixer")
    tokens = x if b.known_rank(x) == 2 else b.Reshape(x, [-1, b.static_size(x, -1)])
    hidden = _activated(b, _layer(b, b.Unsqueeze(tokens, axes=[0]), first, first_bias))
    found = _layer(b, hidden, second, second_bias)
    weights = b.Unsqueeze(b.Transpose(_weights(b, router), perm=[1, 0]), axes=[-1])
    chosen = b.Where(b.Greater(weights, 0.0), b.Mul(found, weights), b.constant(0.0, TensorProto.FLOAT))
    y = b.ReduceSum(chosen, axes=[0], keepdims=0)
    return y if tokens is x else b.Reshape(y, b.Shape(x))


def _layer(b: Builder, x: Value, weights: Value, bias: Value | None) -> Value:
    """[experts, tokens, out] of weights [experts, out, in]."""
    y = b.MatMul(x, b.Transpose(weights, perm=[0, 2, 1]))
    return cast(Value, y if bias is None else b.Add(y, b.Unsqueeze(bias, axes=[1])))


def _weights(b: Builder, router: Value) -> Value:
    """[tokens, experts]: how much of each expert a token gets; of equal ones the kernel takes the last."""
    experts = b.static_size(router, -1)
    shares = b.Softmax(b.Gather(router, np.arange(experts)[::-1].copy(), axis=1), axis=-1)
    best, where = b.TopK(shares, [b.root.attr("k")], outputs=2, axis=-1)
    if b.root.attr("normalize_routing_weights"):
        best = b.Div(best, b.ReduceSum(best, axes=[-1], keepdims=1))
    none = b.Expand(b.constant(0.0, TensorProto.FLOAT), b.Shape(router))
    return cast(Value, b.ScatterElements(none, b.Sub(experts - 1, where), best, axis=1))


def _activated(b: Builder, x: Value) -> Value:
    kind = setting(b, "activation_type", b"relu")
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind == "swiglu":
        # gates and numbers in turn: gate * Sigmoid(alpha * gate) * (number + beta)
        require(b.root.attr("swiglu_fusion") == 1, "its gates are not between its numbers")
        require(not b.root.attr("swiglu_limit_after_activation"), "it is cut off after its gate")
        gate, number = (b.Slice(x, [k], [np.iinfo(np.int64).max], [-1], [2]) for k in (0, 1))
        limit = setting(b, "swiglu_limit", None)
        if limit is not None:
            gate, number = b.Min(gate, float(limit)), b.Min(b.Max(number, -float(limit)), float(limit))
        alpha, beta = (float(b.root.attr(f"activation_{name}")) for name in ("alpha", "beta"))
        opened = b.Mul(gate, b.Sigmoid(b.Mul(gate, alpha)))
        return cast(Value, b.Mul(opened, b.Add(number, beta)))
    bodies = {
        "gelu": lambda: gelu(b, x, "tanh"),
        "identity": lambda: x,
        "relu": lambda: b.Where(b.Greater(x, 0.0), x, b.constant(0.0, TensorProto.FLOAT)),  # the kernel's, 0 of NaN
        "silu": lambda: b.Mul(x, b.Sigmoid(x)),
    }
    require(kind in bodies, f"its activation is {kind}")
    return cast(Value, bodies[kind]())


# The numbers that the sixteen codes of four bits stand for, as bitsandbytes has them.
FP4 = (0.0, 5.208333333e-03, 0.6666666667, 1.0, 0.3333333333, 0.5, 0.1666666667, 0.25)
NF4 = (
    "-1.0 -0.6961928009986877 -0.5250730514526367 -0.39491748809814453 -0.28444138169288635 -0.18477343022823334 "
    "-0.09105003625154495 0.0 0.07958029955625534 0.16093020141124725 0.24611230194568634 0.33791524171829224 "
    "0.44070982933044434 0.5626170039176941 0.7229568362236023 1.0"
)
CODES = {
    0: np.array([*FP4, *(-x for x in FP4)], np.float32),
    1: np.array(NF4.split(), np.float32),
}


@body("MatMulBnb4")
def bnb4(b, a, packed, factors):
    """Each byte has two codes, the upper four bits first; a block of weights has one factor."""
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
def gather(b, table, indices, scales, zeros):
    """The whole table is dequantized: (number - zero) * scale for each block along an axis."""
    attr = b.root.attr
    dtype = b.dtype(table)
    few_bits = dtype in (TensorProto.UINT8, TensorProto.UINT4, TensorProto.INT4)
    require(few_bits, "its numbers are not integers of few bits")
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
    middle = 2 ** (bits - 1) if dtype == TensorProto.UINT8 else 0
    rows.append(np.full(factor.shape, middle, np.int32) if zero is None else _plain(zero, bits))
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


def _plain(numbers: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of packed rows, the lowest bits first."""
    if bits == 8:
        return numbers.astype(np.int32)
    flat = bits_of(numbers.reshape(-1, numbers.shape[-1]), bits)
    return flat.reshape(*numbers.shape[:-1], -1).astype(np.int32)


def _of_blocks(zeros: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """The zero points without those that fill a last byte."""
    return zeros[tuple(slice(size) for size in factor.shape)]
