"""Products of matrices with what is fused into them."""

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require

from .blocks import activated, attributes
from .table import FLOAT, Result, body, given, inputs_of, known, needed, plus


@body("FusedMatMul", "TransposeMatMul")
def fused_matmul(b: Builder) -> Result:
    one, other = (_turned(b, v, name) for v, name in zip(inputs_of(b, 2), "AB", strict=True))
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
def fused_gemm(b: Builder) -> Result:
    y = b.node("Gemm", given(b, 3), 1, "", attributes(b, ("alpha", "beta", "transA", "transB")))
    parameters = [b.root.attrs.get(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return activated(b, y, b.root.attr("activation"), parameters)


# ---- weights of few bits ---------------------------------------------------------------------------------------------


@body("MatMulNBits")
def n_bits(b: Builder) -> Result:
    """The weights are taken out of their bytes: (number - zero) * scale for each block of a column."""
    a, packed, scales, zeros, order, bias = given(b, 6)
    weights = _unpacked(b, needed(packed), needed(scales), zeros, order)
    a = needed(a)
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
