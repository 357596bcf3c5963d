"""Write Attention with other operators for targets without it.

Why       ONNX has Attention from opset 23 on, and PyTorch's newer exporter writes it. TensorRT imports it from 10.14.
          TensorRT-RTX 1.7.1 has kernels for fp16 and bf16 alone, refuses a mask together with is_causal, and does not
          read the lengths (nonpad_kv_seqlen) nor the window of opset 24 and 25: it attends to the padding, silently.
Rewrites  decompose: Softmax(scale * q @ k' + mask) @ v, with the heads of three-dimensional inputs taken apart, keys
          and values repeated for grouped queries, softcap, is_causal and lengths. What is masked out has the lowest
          number for a score (-inf beside a mask that is added) and 0 for a weight, so a query without any key gives 0,
          as ONNX says.
          For TensorRT-RTX in half precision a mask of booleans, too: 6 kernels there, 13 as its own layer. Heads of 8
          numbers or fewer get zeros up to 16, and keys and values one size: the attention is one kernel then.
Exact     To rounding.
Price     ONNX Runtime on one thread: 12 heads of [128,64] with is_causal 6 nodes, 0.58 ms next to 0.57 of its own
          Attention; 32 query heads of [256,64] over 8 with a mask 16 nodes, 9.4 next to 7.2.
Kept      Past keys and values; more than one output; a mask of integers; a window; is_causal together with lengths,
          which say where the diagonal begins (ONNX changed that with its release 1.23); a mask that is added together
          with lengths, and in half precision with is_causal.
          A query without any key is NaN in TensorRT-RTX's own layer.
"""

import math
from collections.abc import Sequence

from onnx import TensorProto

from surgeon import HALVES, Builder, Decline, Value, op, require, rewrites, rule, var
from surgeon.targets.conditions.attention import HEADS, attention_kernel

from ._shapes import heads_of, input_of, numbers_to, size

# At most every score: -inf would make NaN of a query that has no key.
LOWEST: dict[int, float] = {
    TensorProto.FLOAT16: -65504.0,
    TensorProto.BFLOAT16: -3.3895313892515355e38,
    TensorProto.FLOAT: -3.4028234663852886e38,
    TensorProto.DOUBLE: -1.7976931348623157e308,
}

WIDTH = 16  # to which smaller heads are padded
SHORTER = 24  # the opset from which a mask may have fewer columns than there are keys


@rule(op.Attention("q", "k", "v", ...), strategy="decompose")
def decompose(b, q, k, v):
    mask, past_key, past_value, lengths = [*b.root.inputs[3:], None, None, None, None][:4]
    attr, dtype, rank = b.root.attr, b.dtype(q), b.rank(q)
    require(past_key is None and past_value is None, "it has past keys and values")
    require(sum(o is not None for o in b.root.outputs) == 1, "more than one output is used")
    require(not (attr("is_causal") and lengths is not None), "with is_causal its lengths say where the diagonal begins")
    require(all((b.root.attrs.get(f"{s}_window_size", -1)) < 0 for s in ("left", "right")), "it has a window")
    require(dtype in LOWEST and rank in (3, 4), "the type or the rank of the query is not known")
    if rank == 3:
        q, k, v = (heads_of(b, t, attr(f"{n}_num_heads")) for t, n in ((q, "q"), (k, "kv"), (v, "kv")))
    heads = [attr("q_num_heads"), attr("kv_num_heads")]
    if rank == 4:
        heads = [(b.shape(t) or [None] * 4)[1] for t in b.root.inputs[:2]]
    sizes = [_head_size(b, t, h, rank) for t, h in zip(b.root.inputs[:3], [*heads, heads[1]], strict=True)]
    require(all(heads) and all(sizes), "it has no heads, or they have no elements")
    if heads[0] != heads[1]:
        k, v = (_repeated(b, t, heads, size) for t, size in ((k, sizes[1]), (v, sizes[2])))
    scale = attr("scale") or 1 / math.sqrt(sizes[0])
    fused = dtype in HALVES and b.target.has(attention_kernel) and not attr("softcap")
    wide = _size_with_kernel(sizes) if fused else None
    if wide is not None:
        q, k, v = (
            b.Pad(t, pads=[0] * 7 + [wide - own]) if wide > own else t for t, own in zip((q, k, v), sizes, strict=True)
        )
    scores = b.MatMul(b.Mul(q, scale), b.Transpose(k, perm=[0, 1, 3, 2]))
    if attr("softcap"):
        scores = b.Mul(b.Tanh(b.Div(scores, attr("softcap"))), attr("softcap"))
    adds = mask is not None and b.dtype(mask) in LOWEST
    require(mask is None or adds or b.dtype(mask) == TensorProto.BOOL, "its mask is of integers")
    require(not (adds and lengths is not None), "it has lengths, and a mask that is added")
    half = dtype in HALVES and attr("is_causal")
    # inf is read otherwise
    require(not (adds and half), "in half precision it has a mask that is added, and is_causal")
    causal, weight_of = bool(attr("is_causal")), None
    if adds:
        scores, weight_of = _with_numbers(b, scores, mask, causal, rank - 2, dtype)
    elif causal or mask is not None or lengths is not None:
        scores, weight_of = _with_booleans(
            b, scores, mask=mask, lengths=lengths, causal=causal, axis=rank - 2, dtype=dtype
        )
    weights = b.typed(b.Softmax(b.typed(scores, attr("softmax_precision") or dtype), axis=-1), dtype)
    if weight_of is not None:
        weights = b.Where(weight_of, weights, b.constant(0.0, dtype))
    y = b.MatMul(weights, v)
    if wide not in (None, sizes[2]):
        y = b.Slice(y, starts=[0], ends=[sizes[2]], axes=[3])
    if rank == 4:
        return y
    return b.Reshape(b.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])


with_booleans = rewrites(
    op.Attention(var("q", dtype=HALVES), "k", "v", var("mask", dtype=TensorProto.BOOL), ...),
    lambda b, q, k, v, mask: decompose.body(b, q, k, v),
    targets=lambda target: target.has(attention_kernel),
)


def _head_size(b: Builder, x: Value, heads: int, rank: int) -> int:
    shape = b.shape(x)
    last = shape[-1] if shape is not None else None
    if not (isinstance(last, int) and isinstance(heads, int)):
        raise Decline("the number of heads or their size is not static")
    return last // heads if rank == 3 else last


def _size_with_kernel(sizes: Sequence[int]) -> int | None:
    """The size to which heads are padded, so that there is a kernel for them; None where that does not help."""
    size = max(*sizes, WIDTH if max(sizes) < HEADS.start else 0)
    return size if size in HEADS and set(sizes) != {size} else None


def _repeated(b: Builder, x: Value, heads: Sequence[int], size: int) -> Value:
    """Each head of keys or values once for every query head of its group."""
    require(heads[0] % heads[1] == 0, "the heads are not groups")
    spread = b.Expand(b.Unsqueeze(x, axes=[2]), [1, 1, heads[0] // heads[1], 1, 1])
    return b.Reshape(spread, [0, heads[0], -1, size])


def _with_numbers(b: Builder, scores: Value, mask: Value, causal: bool, axis: int, dtype: int) -> tuple[Value, Value]:
    """(the scores and the mask, which queries have a key): a key after the query's position has -inf, since the mask
    itself may have the lowest number. Then a query may be left with scores that are -inf themselves."""
    _require_whole(b, mask, axis)
    nothing = b.constant(-math.inf, dtype)
    biased = b.Add(scores, b.Where(_not_after(b, axis), mask, nothing) if causal else mask)
    return biased, b.Greater(b.ReduceMax(biased if causal else mask, axes=[-1], keepdims=1), nothing)


def _with_booleans(
    b: Builder, scores: Value, *, mask: Value | None, lengths: Value | None, causal: bool, axis: int, dtype: int
) -> tuple[Value, Value | None]:
    """(the scores, of keys that are masked out the lowest number; which queries have a key, None where all have)."""
    parts = [_not_after(b, axis)] if causal else []
    if mask is not None:
        _require_whole(b, mask, axis)
        parts.append(mask)
    lowest, zero = b.constant(LOWEST[dtype], dtype), b.constant(0.0, dtype)
    within = None
    if lengths is not None:
        within = b.Less(_positions(b, input_of(b.root, 1), axis), b.Unsqueeze(lengths, axes=[1, 2, 3]))
        parts.append(within)
    bound = _bound(b, parts, lowest, dtype)
    scores = b.Min(scores, bound)
    if within is not None:  # what is in the padding may not be a number
        scores = b.Where(within, scores, lowest)
    if mask is None and lengths is None:
        return scores, None
    return scores, b.Greater(b.ReduceMax(bound, axes=[-1], keepdims=1), zero)


def _require_whole(b: Builder, mask: Value, axis: int) -> None:
    if b.opset < SHORTER:
        return
    size, count = b.known_shape(mask)[-1], b.known_shape(input_of(b.root, 1))[axis]
    require(size is not None and size == count, "the mask may be shorter than the keys")


def _bound(b: Builder, parts: Sequence[Value], lowest: Value, dtype: int) -> Value:
    """What a score is at most: the largest number where all of `parts` hold, else the lowest."""
    seen = parts[0]
    for part in parts[1:]:
        seen = b.And(seen, part)
    made = b.Where(seen, b.constant(-LOWEST[dtype], dtype), lowest)
    known = b.value(made)
    if known is None:
        return made
    b.discard(made)
    return b.constant(known, dtype)


def _not_after(b: Builder, axis: int) -> Value:
    """[queries, keys]: whether a key's position is at most the query's."""
    q, k = input_of(b.root), input_of(b.root, 1)
    return b.LessOrEqual(_positions(b, k, axis), b.Unsqueeze(_positions(b, q, axis), axes=[1]))


def _positions(b: Builder, x: Value, axis: int) -> Value:
    return numbers_to(b, size(b, x, axis))
