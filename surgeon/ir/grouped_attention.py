"""ONNX Runtime's GroupQueryAttention in NumPy, as ContribOperators.md defines it.

A cache of keys and values grows by the new ones. A sample has `seqlens_k` + 1 of them by then, and its new ones are the
last of these, so that samples of different lengths are padded after. What follows a sample's last key is not
specified: here it is its last new one again.
"""

import math
from typing import Any

import numpy as np


def grouped_attention(
    query: Any, key: Any = None, value: Any = None, past_key: Any = None, past_value: Any = None, lengths: Any = None,
    total: Any = None, cos: Any = None, sin: Any = None, positions: Any = None, added: Any = None, sink: Any = None,
    k_scale: Any = None, v_scale: Any = None, q_weight: Any = None, k_weight: Any = None, valid: Any = None,
    num_heads: Any = 1, kv_num_heads: Any = 1, scale: Any = 0.0, softcap: Any = 0.0, causal: Any = 1,
    local_window_size: Any = -1, do_rotary: Any = 0, rotary_interleaved: Any = 0, smooth_softmax: Any = 0,
    qk_norm_epsilon: Any = 1e-6, q_norm_epsilon: Any = None, k_norm_epsilon: Any = None, **others: Any,
) -> Any:  # fmt: skip
    groups, dtype = num_heads // kv_num_heads, query.dtype
    size = query.shape[2] // (num_heads + (0 if key is not None else 2 * kv_num_heads))
    if key is None:
        query, key, value = np.split(query, np.cumsum([num_heads * size, kv_num_heads * size]), axis=2)
    count = query.shape[1]
    q, k, v = (x.reshape(*x.shape[:2], -1, size).astype(np.float32) for x in (query, key, value))
    if q_weight is not None:
        q = _normal(q, q_weight, q_norm_epsilon or qk_norm_epsilon).astype(dtype).astype(np.float32)
        k = _normal(k, k_weight, k_norm_epsilon or qk_norm_epsilon).astype(dtype).astype(np.float32)
    behind = np.maximum(lengths.reshape(-1, 1).astype(np.int64) + 1 - count, 0)  # how many keys each sample had
    behind = behind if past_key is not None else np.zeros((1, 1), np.int64)
    places: Any = behind + np.arange(count)
    if do_rotary:
        if positions is not None:
            first = int(np.asarray(total).reshape(())) == count
            places_turned = positions.reshape(-1)[0] + np.arange(count)[None] if first else positions
        else:
            places_turned = places
        q, k = (_turned(x.astype(dtype), cos, sin, places_turned, rotary_interleaved) for x in (q, k))
    k, v = np.moveaxis(k, 2, 1), np.moveaxis(v, 2, 1)
    if added is not None:  # which has a column for each key
        total = added.shape[3]
    keys = int(np.asarray(total).reshape(())) if past_key is not None else count
    if past_key is not None:
        k, v = (_grown(past, new, behind, keys) for past, new in ((past_key, k), (past_value, v)))
    present = k.astype(dtype), v.astype(dtype)
    k, v = (np.repeat(x[:, :, :keys], groups, axis=1) for x in (k, v))
    scaled = (np.moveaxis(q, 2, 1) * np.float32(scale or 1 / math.sqrt(size))).astype(dtype).astype(np.float32)
    scores = (scaled @ np.swapaxes(k, 2, 3)).astype(dtype)
    if softcap:
        scores = np.tanh(scores / dtype.type(softcap)) * dtype.type(softcap)
    if added is not None:
        scores = scores + added
    at = np.arange(keys)
    seen = at <= (places if causal else np.broadcast_to(lengths.reshape(-1, 1), (len(lengths), count)))[..., None]
    if local_window_size > 0:
        seen = seen & (at > places[..., None] - local_window_size)
    scores = np.where(seen[:, None], scores, np.finfo(dtype).min).astype(np.float32)
    sinks = np.zeros(num_heads, np.float32) if smooth_softmax and sink is None else sink
    if sinks is not None:
        column = np.broadcast_to(sinks.astype(np.float32).reshape(1, -1, 1, 1), (*scores.shape[:3], 1))
        scores = np.concatenate([scores, column], axis=3)
    e = np.exp(scores - scores.max(axis=3, keepdims=True))
    weights = (e / e.sum(axis=3, keepdims=True))[..., :keys].astype(dtype).astype(np.float32)
    y = np.moveaxis(weights @ v, 1, 2)
    return y.reshape(*y.shape[:2], -1).astype(dtype), *present


def _normal(x: Any, weight: Any, epsilon: float) -> Any:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight


def _turned(x: Any, cos: Any, sin: Any, places: Any, interleaved: int) -> Any:
    half = cos.shape[1]
    c, s = cos[places][:, :, None], sin[places][:, :, None]
    one, other = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    y, real, imaginary = x.copy(), x[..., one], x[..., other]
    y[..., one], y[..., other] = real * c - imaginary * s, real * s + imaginary * c
    return y.astype(np.float32)


def _grown(past: Any, new: Any, behind: Any, total: int) -> Any:
    """The cache with a sample's new rows after those that it had."""
    room, count = past.shape[2], new.shape[2]
    rows = np.concatenate([past.astype(np.float32), new], axis=2)
    at = np.arange(max(room, total))[None]
    picked = np.where(at < behind, at, np.minimum(room + at - behind, room + count - 1))
    return np.take_along_axis(rows, picked[:, None, :, None], axis=2)
