"""GroupQueryAttention: heads that share keys and values, which follow those of a cache."""

import math
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require

from .._shapes import numbers_to
from .attention import LOWEST, rotated
from .table import Result, asks_for, body, given, in_place, needed, sizes

INT64 = TensorProto.INT64


class _Places(NamedTuple):
    """Where the new keys are.

    new     how many are new
    behind  [batch, 1]: how many a sample had before; None where there is no cache
    at      [batch or 1, new]: the positions of the new ones
    total   how many keys there are; None where there is no cache: as many as are new
    """

    new: Value
    behind: Value | None
    at: Value
    total: Value | None


@body("GroupQueryAttention")
def grouped(b: Builder) -> Result:
    query, key, value, past_key, past_value, lengths, total, cos, sin, turns, added, sink, *rest = given(b, 17)
    k_scale, v_scale, q_weight, k_weight, padded = rest
    attr = b.root.attr
    kinds = (None, "", "NONE")
    is_quantized = k_scale is not None or v_scale is not None
    require(
        not is_quantized and attr("k_quant_type") in kinds and attr("v_quant_type") in kinds, "its cache is quantized"
    )
    require(padded is None, "its new keys are padded")
    require(not attr("sliding_window_cache"), "its cache drops what is after the window")
    require(not asks_for(b, 3), "its products are asked for")
    require(b.opset >= 12, "before opset 12 there is no GatherND of batches")
    require(b.dtype(needed(query)) in LOWEST, "it is neither fp32 nor fp16")
    heads, groups = attr("kv_num_heads"), attr("num_heads") // attr("kv_num_heads")
    q, k, v = _by_heads(b, needed(query), key, value, attr("num_heads"), heads)
    if q_weight is not None:
        q, k = _normal(b, q, q_weight, "q_norm_epsilon"), _normal(b, k, needed(k_weight), "k_norm_epsilon")
    size = b.static_size(q, 3)
    places = _places(b, q, past_key, needed(lengths), _total(b, needed(total), added))
    if attr("do_rotary"):
        tables = [needed(cos), needed(sin)]
        rows = _turned_by(b, places, turns, needed(total))
        half = b.static_size(tables[0], 1)
        factors = [b.Unsqueeze(b.Gather(table, rows, axis=0), axes=[2]) for table in tables]
        q, k = (rotated(b, x, half, factors[0], factors[1], attr("rotary_interleaved")) for x in (q, k))
    k, v = (b.Transpose(x, perm=[0, 2, 1, 3]) for x in (k, v))
    if past_key is not None:
        k, v = _grown(b, past_key, k, places), _grown(b, needed(past_value), v, places)
    present = k, v
    if places.total is not None:
        ends = b.Reshape(places.total, sizes(1))
        k, v = (b.Slice(x, np.zeros(1, np.int64), ends, sizes(2)) for x in (k, v))
    q = b.Transpose(b.Reshape(q, sizes(0, 0, heads, groups, size)), perm=[0, 2, 3, 1, 4])
    k, v = (b.Unsqueeze(x, axes=[2]) for x in (k, v))
    scores = _scores(b, q, k, size, added)
    seen = b.Unsqueeze(_seen(b, places, lengths), axes=[1, 2])
    scores = b.Where(seen, scores, b.constant(LOWEST[b.dtype(q)], b.dtype(q)))
    y = b.MatMul(_weights(b, scores, q, sink), v)
    y = b.Reshape(b.Transpose(y, perm=[0, 3, 1, 2, 4]), sizes(0, 0, -1))
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
    q, k, v = (b.Reshape(x, sizes(0, 0, n, size)) for x, n in zip(parts, (heads, kv_heads, kv_heads), strict=True))
    return q, k, v


def _normal(b: Builder, x: Value, weight: Value, own: str) -> Value:
    """The RMS normalisation of each head."""
    epsilon, dtype = b.root.attr(own) or b.root.attr("qk_norm_epsilon"), b.dtype(x)
    x = b.wide(x)
    root = b.Sqrt(b.Add(b.ReduceMean(b.Mul(x, x), axes=[-1], keepdims=1), float(epsilon)))
    return b.typed(b.Mul(b.Div(x, root), b.wide(weight)), dtype)


def _places(b: Builder, q: Value, past: Value | None, lengths: Value, total: Value) -> _Places:
    count = _size(b, q, 1)
    new = numbers_to(b, count)
    if past is None:
        return _Places(count, None, b.Unsqueeze(new, axes=[0]), None)
    ends = b.Add(b.Cast(b.Reshape(lengths, sizes(-1, 1)), to=INT64), 1)
    behind = b.Max(b.Sub(ends, count), np.asarray(0, np.int64))
    return _Places(count, behind, b.Add(behind, new), total)


def _total(b: Builder, total: Value, added: Value | None) -> Value:
    """How many keys there are: what is added to the scores has a column for each."""
    return b.Cast(b.Reshape(total, sizes()), to=INT64) if added is None else _size(b, added, 3)


def _size(b: Builder, x: Value, axis: int) -> Value:
    """The size of a dimension as a number."""
    shape = b.shape(x)
    require(shape is None or axis < len(shape), "an input has fewer dimensions than its definition says")
    size = None if shape is None else shape[axis]
    if isinstance(size, int):
        return b.constant(np.asarray(size, np.int64))
    return b.Gather(b.Shape(x), np.asarray(axis, np.int64), axis=0)


def _turned_by(b: Builder, places: _Places, turns: Value | None, total: Value) -> Value:
    """The rows of the tables: the positions, or those that are given; of a first prompt the first one counts on."""
    if turns is None:
        return places.at
    new = numbers_to(b, places.new)
    first = b.Slice(b.Reshape(turns, sizes(-1)), starts=[0], ends=[1], axes=[0])
    is_first = b.Equal(b.Cast(b.Reshape(total, sizes()), to=INT64), places.new)
    return b.Where(is_first, b.Unsqueeze(b.Add(new, first), axes=[0]), turns)


def _grown(b: Builder, past: Value, new: Value, places: _Places) -> Value:
    """The cache with a sample's new rows after those that it had; after its last one that one again."""
    room, total, behind = _size(b, past, 2), places.total, places.behind
    assert total is not None and behind is not None
    rows = b.Transpose(b.Concat(past, new, axis=2), perm=[0, 2, 1, 3])
    at = numbers_to(b, b.Max(room, total))
    last = b.Sub(b.Add(room, places.new), 1)
    picked = b.Where(b.Less(at, behind), at, b.Min(b.Add(at, b.Sub(room, behind)), last))
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
        ends = b.Cast(b.Reshape(needed(lengths), sizes(-1, 1, 1)), to=INT64)
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
    column = b.Reshape(numbers, sizes(1, attr("kv_num_heads"), heads // attr("kv_num_heads"), 1, 1))
    shape = b.Concat(b.Slice(b.Shape(q), starts=[0], ends=[4], axes=[0]), sizes(1), axis=0)
    whole = b.Softmax(b.Concat(scores, b.Expand(column, shape), axis=-1), axis=-1)
    return b.Slice(whole, starts=[0], ends=[-1], axes=[-1])
