"""Attention as ONNX Runtime defines it: projections, masks of every form, past keys, positions that are rotated in.

Of GroupQueryAttention, heads share keys and values, which follow those of a cache.
"""

import math
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Decline, Value, require

from .._shapes import heads_of, numbers_to, size
from .table import FLOAT, Result, asks_for, body, in_place, needed, plus, setting, sizes

LOWEST: dict[int, float] = {
    TensorProto.FLOAT: float(np.finfo(np.float32).min),
    TensorProto.FLOAT16: float(np.finfo(np.float16).min),
}
LEAST_FILTER = -10000.0


class Heads(NamedTuple):
    """Queries, keys and values as [batch, heads, positions, size], and how large a query is."""

    q: Value
    k: Value
    v: Value
    size: int


@body("Attention")
def attention(b, x, weights, bias, mask, past, added):
    require(b.rank(x) in (3, None), "its input has other dimensions than batch, positions and channels")
    projected = plus(b, b.MatMul(x, weights), bias)
    hidden = b.root.attrs.get("qkv_hidden_sizes") or [b.static_size(weights, 1) // 3] * 3
    return projected_attention(b, projected, list(hidden), mask, past, added)


def projected_attention(
    b: Builder, projected: Value, hidden: list[int], mask: Value | None, past: Value | None, added: Value | None
) -> Result:
    """Attention of queries, keys and values that are concatenated in one tensor."""
    rotates = b.root.attr("do_rotary")
    require(not rotates, "it rotates positions in, which its definition leaves to a table of its kernel")
    require(not b.root.attr("past_present_share_buffer"), "its past and its present share one buffer")
    heads = b.root.attr("num_heads")
    fits = all(size and size % heads == 0 for size in hidden)
    require(fits, "the hidden sizes are not multiples of the number of heads")
    parts = b.Split(projected, outputs=3, axis=-1, split=hidden)
    q, k, v = (heads_of(b, part, heads) for part in parts)
    present = None
    if past is not None:
        old_k, old_v = (b.Gather(past, index, axis=0) for index in (0, 1))
        k, v = b.Concat(old_k, k, axis=2), b.Concat(old_v, v, axis=2)
    if asks_for(b, 1):
        present = b.Concat(b.Unsqueeze(k, axes=[0]), b.Unsqueeze(v, axes=[0]), axis=0)
    y, _ = attended(b, Heads(q, k, v, hidden[0] // heads), mask, added)
    return in_place(b, y, present)


def attended(b: Builder, heads: Heads, mask: Value | None, added: Value | None) -> tuple[Value, Value]:
    """(the values that the queries pick, [batch, positions, all heads]; the scores before the softmax)."""
    dtype = b.dtype(heads.q)
    require(dtype in LOWEST, "it is neither fp32 nor fp16")
    scale = setting(b, "scale", 0.0) or 1 / math.sqrt(heads.size)
    scores = b.MatMul(b.Mul(heads.q, float(scale)), b.Transpose(heads.k, perm=[0, 1, 3, 2]))
    scores = plus(b, scores, added)
    if mask is not None and not is_dummy(b, mask):
        filtered = setting(b, "mask_filter_value", LEAST_FILTER)
        kept = _kept(b, mask, heads)
        if filtered < LOWEST[dtype]:  # in fp32, where ONNX Runtime adds it, nothing is left of a score beside it
            alike = filtered <= LOWEST[TensorProto.FLOAT] or not b.root.attr("unidirectional")
            require(alike, f"its mask_filter_value of {filtered:g} is beyond fp16, and not that of later keys")
            scores = b.Where(kept, scores, b.constant(LOWEST[dtype], dtype))
        else:
            scores = b.Add(scores, b.Where(kept, b.constant(0.0, dtype), b.constant(filtered, dtype)))
    if b.root.attr("unidirectional"):
        scores = b.Where(_not_behind(b, heads), scores, b.constant(LOWEST[dtype], dtype))
    y = b.MatMul(b.Softmax(scores, axis=-1), heads.v)
    return b.Reshape(b.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1]), scores


# ---- masks -----------------------------------------------------------------------------------------------------------


def _kept(b: Builder, mask: Value, heads: Heads) -> Value:
    """Which keys a query may see, as booleans that broadcast to [batch, heads, queries, keys]."""
    rank = b.known_rank(mask)
    if rank == 1:
        return _within(b, mask, heads)
    require(rank in (2, 3), "its mask has four dimensions")
    seen = b.Greater(mask, b.constant(0, b.dtype(mask)))
    if rank == 3:
        return b.Unsqueeze(seen, axes=[1])
    width = (b.shape(mask) or (None, None))[1]
    if not isinstance(width, int) and width != _positions(b, heads.k):
        seen = b.Or(seen, b.Equal(b.Gather(b.Shape(mask), 1, axis=0), 1))
    return b.Unsqueeze(seen, axes=[1, 2])


def is_dummy(b: Builder, mask: Value | None) -> bool:
    """Whether a mask has one number a sample, which stands for none: one key is seen whatever the mask says."""
    shape = None if mask is None else b.shape(mask)
    return shape is not None and len(shape) == 2 and shape[1] == 1


def _within(b: Builder, ends: Value, heads: Heads) -> Value:
    """Keys up to a sample's length, or from its start to its end: ends of all samples, then starts."""
    positions = _range(b, heads.k)
    batch, count = ((b.shape(v) or (None,))[0] for v in (heads.q, ends))
    if isinstance(batch, int) and count == 2 * batch:
        end, start = b.Split(ends, outputs=2, axis=0, split=[batch, batch])
        spread = [b.Cast(b.Reshape(v, [-1, 1, 1, 1]), to=TensorProto.INT64) for v in (start, end)]
        return b.And(b.Not(b.Less(positions, spread[0])), b.Less(positions, spread[1]))
    if count is None or count != batch:
        return _within_computed(b, positions, b.Cast(ends, to=TensorProto.INT64), heads)
    return b.Less(positions, b.Cast(b.Reshape(ends, [-1, 1, 1, 1]), to=TensorProto.INT64))


def _within_computed(b: Builder, positions: Value, ends: Value, heads: Heads) -> Value:
    """As _within, if it is unknown whether the mask holds start positions; missing starts count as 0."""
    require(b.opset >= 10, "its mask is one vector, and not known to have a number a sample")
    batch = b.Slice(b.Shape(heads.q), starts=[0], ends=[1], axes=[0])
    twice = b.Mul(batch, 2)
    filled = b.Concat(ends, b.Expand(b.constant([0], TensorProto.INT64), batch), axis=0)
    start = b.Where(b.Equal(b.Shape(ends), twice), b.Slice(filled, starts=batch, ends=twice), 0)
    spread = [b.Reshape(v, [-1, 1, 1, 1]) for v in (start, b.Slice(ends, starts=[0], ends=batch))]
    return b.And(b.Not(b.Less(positions, spread[0])), b.Less(positions, spread[1]))


def _not_behind(b: Builder, heads: Heads) -> Value:
    """[queries, keys]: whether a key is not after the query, which are the last of the keys."""
    sizes_known = [_positions(b, v) for v in (heads.q, heads.k)]
    if all(isinstance(s, int) for s in sizes_known):
        queries, keys = (int(s) for s in sizes_known if s is not None)
        return b.constant(np.tri(queries, keys, keys - queries, dtype=bool))
    last_query = b.Sub(_count(b, heads.k), _count(b, heads.q))
    rows = b.Unsqueeze(b.Add(_range(b, heads.q), last_query), axes=[1])
    return b.Not(b.Greater(b.Unsqueeze(_range(b, heads.k), axes=[0]), rows))


def _positions(b: Builder, x: Value) -> int | str | None:
    shape = b.shape(x)
    return None if shape is None else shape[2]


def _count(b: Builder, x: Value) -> Value:
    return b.Gather(b.Shape(x), 2, axis=0)


def _range(b: Builder, x: Value) -> Value:
    """0, 1, ... for the positions of [batch, heads, positions, size]."""
    return numbers_to(b, size(b, x, 2))


@body("MultiHeadAttention")
def multi_head(b, query, key, value, bias, mask, added, past_key, past_value, length, indirection):
    require(length is None and indirection is None, "its keys are written into a cache that is passed on")
    heads = b.root.attr("num_heads")
    q, k, v = _unpacked(b, query, key, value, bias, heads)
    if past_key is not None:
        k, v = b.Concat(past_key, k, axis=2), b.Concat(needed(past_value), v, axis=2)
    y, scores = attended(b, Heads(q, k, v, b.static_size(q, 3)), mask, added)
    require(not asks_for(b, 3) or (mask is None and added is None), "its products are used, and it has a mask")
    return in_place(b, y, k, v, scores)


def _unpacked(
    b: Builder, query: Value, key: Value | None, value: Value | None, bias: Value | None, heads: int
) -> tuple[Value, Value, Value]:
    """Queries, keys and values by heads, with their biases."""
    if b.known_rank(query) == 5:  # [batch, positions, heads, 3, size]
        q, k, v = (b.Squeeze(p, axes=[3]) for p in b.Split(query, outputs=3, axis=3, split=[1, 1, 1]))
    elif key is not None and value is None:  # [batch, positions, heads, 2, size]
        require(b.known_rank(key) == 5, "it has keys and no values")
        k, v = (b.Squeeze(p, axes=[3]) for p in b.Split(key, outputs=2, axis=3, split=[1, 1]))
        q = b.Reshape(query, [0, 0, heads, -1])
    else:
        k, v = needed(key), needed(value)
        if b.known_rank(k) == 4:  # of another sequence, by heads already
            if bias is not None:  # theirs is in them
                query = b.Add(query, b.Slice(bias, [0], [b.static_size(query, 2)], [0]))
            return heads_of(b, query, heads), k, v
        q, k, v = (b.Reshape(p, [0, 0, heads, -1]) for p in (query, k, v))
    if bias is not None:
        widths = [heads * b.static_size(part, 3) for part in (q, k, v)]
        parts = b.Split(bias, outputs=3, axis=0, split=widths)
        q, k, v = (b.Add(p, b.Reshape(w, [heads, -1])) for p, w in zip((q, k, v), parts, strict=True))
    return tuple(b.Transpose(p, perm=[0, 2, 1, 3]) for p in (q, k, v))


@body("RotaryEmbedding")
def rotary(b, x, positions, cos, sin):
    attr = b.root.attr
    require(not attr("is_packed_batching"), "its samples are packed without padding")
    require(attr("scale") == 1, "it scales, which its definition does not explain")
    rank, half = b.known_rank(x), b.static_size(cos, 1)
    require(rank in (3, 4), "its input has other than three or four dimensions")
    require(not attr("rotary_embedding_dim") or attr("num_heads") or rank == 4, "how large a head is is not known")
    heads = attr("num_heads") or (0 if rank == 4 else b.static_size(x, 2) // (2 * half))
    by_head = b.Transpose(x, perm=[0, 2, 1, 3]) if rank == 4 else b.Reshape(x, [0, 0, heads, -1])
    turned = attr("rotary_embedding_dim") or b.static_size(by_head, 3)
    require(turned == 2 * half, "its tables are not of the size of its heads")
    rows = _rows_of(b, positions, by_head)
    factors = [b.Unsqueeze(b.Gather(table, rows, axis=0), axes=[2]) for table in (cos, sin)]
    y = rotated(b, by_head, half, factors[0], factors[1], attr("interleaved"))
    return b.Transpose(y, perm=[0, 2, 1, 3]) if rank == 4 else b.Reshape(y, b.Shape(x))


def _rows_of(b: Builder, positions: Value, x: Value) -> Value:
    """The rows of the tables, [batch, positions]: as given, or counted from one number on."""
    if b.known_rank(positions) == 2:
        return positions
    return b.Unsqueeze(b.Add(numbers_to(b, size(b, x, 1)), positions), axes=[0])


def rotated(b: Builder, x: Value, half: int, cos: Value, sin: Value, interleaved: int) -> Value:
    """[batch, positions, heads, size] with the first 2 * half elements of each head rotated."""
    whole = b.static_size(x, 3)
    turned, rest = x, None
    if whole != 2 * half:
        turned, rest = b.Split(x, outputs=2, axis=3, split=[2 * half, whole - 2 * half])
    if interleaved:
        shape = sizes(0, 0, 0, half, 2)
        pairs = b.Split(b.Reshape(turned, shape), outputs=2, axis=4, split=[1, 1])
        real, imaginary = (b.Squeeze(p, axes=[4]) for p in pairs)
    else:
        real, imaginary = b.Split(turned, outputs=2, axis=3, split=[half, half])
    first = b.Sub(b.Mul(real, cos), b.Mul(imaginary, sin))
    second = b.Add(b.Mul(real, sin), b.Mul(imaginary, cos))
    if interleaved:
        pairs = [b.Unsqueeze(p, axes=[4]) for p in (first, second)]
        y = b.Reshape(b.Concat(*pairs, axis=4), [0, 0, 0, 2 * half])
    else:
        y = b.Concat(first, second, axis=3)
    return y if rest is None else b.Concat(y, rest, axis=3)


@body("QAttention")
def quantized_attention(b, x, weights, bias, scale, weight_scale, mask, zero, weight_zero, past):
    width = b.static_size(weights, 1)
    total = b.MatMulInteger(x, weights, zero, weight_zero)
    factor = b.Mul(b.Reshape(scale, [1]), weight_scale)
    projected = plus(b, b.Mul(b.Cast(total, to=FLOAT), b.typed(factor, FLOAT)), bias)
    if width % 3:
        raise Decline("its weights are not those of queries, keys and values of one size")
    return projected_attention(b, projected, [width // 3] * 3, mask, past, None)


INT64 = TensorProto.INT64


class _Places(NamedTuple):
    """Where the new keys are.

    new     how many are new
    before  [batch, 1]: how many a sample had before; None where there is no cache
    at      [batch or 1, new]: the positions of the new ones
    total   how many keys there are; None where there is no cache: as many as are new
    """

    new: Value
    before: Value | None
    at: Value
    total: Value | None


@body("GroupQueryAttention")
def grouped(b, query, key, value, past_key, past_value, lengths, total, cos, sin, turns, added, sink, *rest):
    k_scale, v_scale, q_weight, k_weight, padded = rest
    attr = b.root.attr
    kinds = (None, "", "NONE")
    plain = k_scale is None and v_scale is None
    require(plain and attr("k_quant_type") in kinds and attr("v_quant_type") in kinds, "its cache is quantized")
    require(padded is None, "its new keys are padded")
    require(not attr("sliding_window_cache"), "its cache drops what is after the window")
    require(not asks_for(b, 3), "its products are used")
    require(b.opset >= 12, "before opset 12 there is no GatherND of batches")
    require(b.dtype(query) in LOWEST, "it is neither fp32 nor fp16")
    heads, groups = attr("kv_num_heads"), attr("num_heads") // attr("kv_num_heads")
    q, k, v = _by_heads(b, query, key, value, attr("num_heads"), heads)
    if q_weight is not None:
        q, k = _normal(b, q, q_weight, "q_norm_epsilon"), _normal(b, k, needed(k_weight), "k_norm_epsilon")
    size = b.static_size(q, 3)
    # what is added to the scores has a column for each key
    count = b.Cast(b.Reshape(total, []), to=INT64) if added is None else _size(b, added, 3)
    places = _places(b, q, past_key, lengths, count)
    if attr("do_rotary"):
        tables = [needed(cos), needed(sin)]
        rows = _turned_by(b, places, turns, total)
        half = b.static_size(tables[0], 1)
        factors = [b.Unsqueeze(b.Gather(table, rows, axis=0), axes=[2]) for table in tables]
        q, k = (rotated(b, x, half, factors[0], factors[1], attr("rotary_interleaved")) for x in (q, k))
    k, v = (b.Transpose(x, perm=[0, 2, 1, 3]) for x in (k, v))
    if past_key is not None:
        k, v = _grown(b, past_key, k, places), _grown(b, needed(past_value), v, places)
    present = k, v
    if places.total is not None:
        ends = b.Reshape(places.total, [1])
        k, v = (b.Slice(x, np.zeros(1, np.int64), ends, [2]) for x in (k, v))
    q = b.Transpose(b.Reshape(q, [0, 0, heads, groups, size]), perm=[0, 2, 3, 1, 4])
    k, v = (b.Unsqueeze(x, axes=[2]) for x in (k, v))
    scores = _scores(b, q, k, size, added)
    seen = b.Unsqueeze(_seen(b, places, lengths), axes=[1, 2])
    scores = b.Where(seen, scores, b.constant(LOWEST[b.dtype(q)], b.dtype(q)))
    y = b.MatMul(_weights(b, scores, q, sink), v)
    y = b.Reshape(b.Transpose(y, perm=[0, 3, 1, 2, 4]), [0, 0, -1])
    return in_place(b, y, *present)


def _by_heads(
    b: Builder, query: Value, key: Value | None, value: Value | None, heads: int, kv_heads: int
) -> tuple[Value, Value, Value]:
    """Queries, keys and values as [batch, new, heads, size]."""
    width = b.static_size(query, 2)
    size = width // (heads if key is not None else heads + 2 * kv_heads)
    if key is None:
        parts = b.Split(query, outputs=3, axis=2, split=[heads * size, kv_heads * size, kv_heads * size])
    else:
        require(b.known_rank(key) == 3, "its keys are ordered by head")
        parts = (query, key, needed(value))
    q, k, v = (b.Reshape(x, [0, 0, n, size]) for x, n in zip(parts, (heads, kv_heads, kv_heads), strict=True))
    return q, k, v


def _normal(b: Builder, x: Value, weight: Value, own: str) -> Value:
    epsilon, dtype = b.root.attr(own) or b.root.attr("qk_norm_epsilon"), b.dtype(x)
    x = b.wide(x)
    root = b.Sqrt(b.Add(b.ReduceMean(b.Mul(x, x), axes=[-1], keepdims=1), float(epsilon)))
    return b.typed(b.Mul(b.Div(x, root), b.wide(weight)), dtype)


def _places(b: Builder, q: Value, past: Value | None, lengths: Value, total: Value) -> _Places:
    count = _size(b, q, 1)
    new = numbers_to(b, count)
    if past is None:
        return _Places(count, None, b.Unsqueeze(new, axes=[0]), None)
    ends = b.Add(b.Cast(b.Reshape(lengths, [-1, 1]), to=INT64), 1)
    before = b.Max(b.Sub(ends, count), 0)
    return _Places(count, before, b.Add(before, new), total)


def _size(b: Builder, x: Value, axis: int) -> Value:
    shape = b.shape(x)
    require(shape is None or axis < len(shape), "an input has fewer dimensions than its definition says")
    size = None if shape is None else shape[axis]
    if isinstance(size, int):
        return b.constant(size, TensorProto.INT64)
    return b.Gather(b.Shape(x), axis, axis=0)


def _turned_by(b: Builder, places: _Places, turns: Value | None, total: Value) -> Value:
    """The rows of the tables: the positions, or those that are given; of a first prompt the first one counts on."""
    if turns is None:
        return places.at
    new = numbers_to(b, places.new)
    first = b.Slice(b.Reshape(turns, [-1]), starts=[0], ends=[1], axes=[0])
    is_first = b.Equal(b.Cast(b.Reshape(total, []), to=INT64), places.new)
    return b.Where(is_first, b.Unsqueeze(b.Add(new, first), axes=[0]), turns)


def _grown(b: Builder, past: Value, new: Value, places: _Places) -> Value:
    """The cache with a sample's new rows after those that it had; after its last one that one again."""
    room, total, before = _size(b, past, 2), places.total, places.before
    assert total is not None and before is not None
    rows = b.Transpose(b.Concat(past, new, axis=2), perm=[0, 2, 1, 3])
    at = numbers_to(b, b.Max(room, total))
    last = b.Sub(b.Add(room, places.new), 1)
    picked = b.Where(b.Less(at, before), at, b.Min(b.Add(at, b.Sub(room, before)), last))
    found = b.GatherND(rows, b.Unsqueeze(picked, axes=[2]), batch_dims=1)
    return b.Transpose(found, perm=[0, 2, 1, 3])


def _scores(b: Builder, q: Value, k: Value, size: int, added: Value | None) -> Value:
    """[batch, heads of keys, group, new, keys], with what is added to them."""
    attr = b.root.attr
    scale = attr("scale") or 1 / math.sqrt(size)
    scores = b.MatMul(b.Mul(q, float(scale)), b.Transpose(k, perm=[0, 1, 2, 4, 3]))
    if attr("softcap"):
        scores = b.Mul(b.Tanh(b.Div(scores, float(attr("softcap")))), float(attr("softcap")))
    if added is None:
        return scores
    heads = b.static_size(added, 1)
    if heads == 1:
        return b.Add(scores, b.Unsqueeze(added, axes=[2]))
    groups = sizes(attr("kv_num_heads"), attr("num_heads") // attr("kv_num_heads"))
    ends = [b.Slice(b.Shape(added), starts=[start], ends=[end], axes=[0]) for start, end in ((0, 1), (2, 4))]
    return b.Add(scores, b.Reshape(added, b.Concat(ends[0], groups, ends[1], axis=0)))


def _seen(b: Builder, places: _Places, lengths: Value | None) -> Value:
    """[batch or 1, new, keys]: which keys a query sees."""
    count = places.new if places.total is None else places.total
    keys = numbers_to(b, count)
    rows = b.Unsqueeze(places.at, axes=[2])
    if b.root.attr("causal"):
        seen = b.Not(b.Greater(keys, rows))
    else:
        ends = b.Cast(b.Reshape(lengths, [-1, 1, 1]), to=INT64)
        seen = b.Not(b.Greater(keys, b.Add(ends, b.Mul(rows, 0))))
    window = b.root.attr("local_window_size")
    return b.And(seen, b.Greater(keys, b.Sub(rows, window))) if window > 0 else seen


def _weights(b: Builder, scores: Value, q: Value, sink: Value | None) -> Value:
    """The softmax; a sink, or a zero, takes a part of it."""
    attr, dtype = b.root.attr, b.dtype(q)
    if sink is None and not attr("smooth_softmax"):
        return b.Softmax(scores, axis=-1)
    heads = attr("num_heads")
    numbers = sink if sink is not None else b.constant(np.zeros(heads), dtype)
    column = b.Reshape(numbers, [1, attr("kv_num_heads"), heads // attr("kv_num_heads"), 1, 1])
    shape = b.Concat(b.Slice(b.Shape(q), starts=[0], ends=[4], axes=[0]), [1], axis=0)
    whole = b.Softmax(b.Concat(scores, b.Expand(column, shape), axis=-1), axis=-1)
    return b.Slice(whole, starts=[0], ends=[-1], axes=[-1])
