"""Normalisations with what is fused into them: a sum before, an embedding, an activation after."""

from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require
from surgeon.ir.contrib import is_onnxruntimes

from .._shapes import numbers_to, size
from .blocks import first, last
from .quantized import dequantized
from .table import FLOAT, Result, asks_for, body, given, in_place, needed, plus, require_unasked, setting


def layer_norm(b: Builder, x: Value, gamma: Value, beta: Value | None, epsilon: float, axis: int = -1) -> Value:
    """The layer normalisation from an axis on. Sums of half types are in fp32."""
    if b.has_op("LayerNormalization", b.dtype(x)):
        return b.LayerNormalization(x, gamma, beta, axis=axis, epsilon=epsilon)
    axes, dtype = trailing(b, x, axis), b.dtype(x)
    x = b.wide(x)
    deviation = b.Sub(x, b.ReduceMean(x, axes=axes, keepdims=1))
    variance = b.ReduceMean(b.Mul(deviation, deviation), axes=axes, keepdims=1)
    y = b.typed(b.Div(deviation, b.Sqrt(b.Add(variance, epsilon))), dtype)
    return plus(b, b.Mul(y, gamma), beta)


def rms_norm(b: Builder, x: Value, gamma: Value, epsilon: float, axis: int = -1) -> tuple[Value, Value]:
    """(x / sqrt(mean(x^2) + epsilon) * gamma, 1 / sqrt(mean(x^2) + epsilon)). Sums of half types are in fp32."""
    dtype, axes = b.dtype(x), trailing(b, x, axis)
    x = b.wide(x)
    root = b.Sqrt(b.Add(b.ReduceMean(b.Mul(x, x), axes=axes, keepdims=1), epsilon))
    return b.Mul(b.typed(b.Div(x, root), dtype), gamma), root


def trailing(b: Builder, x: Value, axis: int) -> list[int]:
    if axis == -1:
        return [-1]
    rank = b.known_rank(x)
    return list(range(axis % rank, rank))


@body("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_norm(b: Builder) -> Result:
    """Of the sum of the input, of what skipped some layers, and of a bias; the simplified one has no beta."""
    simple = b.root.op == "SkipSimplifiedLayerNormalization"
    x, skip, gamma, *last_ones = given(b, 4 if simple else 5)
    beta, bias = [None, *last_ones] if simple else last_ones
    require_moments_unasked(b)
    total, dtype = summed(b, x, skip, bias)
    gamma, beta = b.wide(gamma), None if beta is None else b.wide(beta)
    epsilon = b.root.attr("epsilon")
    if simple:
        y, _ = rms_norm(b, total, gamma, epsilon)
    else:
        y = layer_norm(b, total, gamma, beta, epsilon)
    return in_place(b, b.typed(y, dtype), None, None, b.typed(total, dtype) if asks_for(b, 3) else None)


def summed(b: Builder, x: Value, *others: Value | None) -> tuple[Value, int]:
    """(the sum of what is given, in fp32 where the type is a half one; that type)."""
    return plus(b, b.wide(x), *(None if v is None else b.wide(v) for v in others)), b.dtype(x)


def require_moments_unasked(b: Builder) -> None:
    for index in (1, 2):
        require_unasked(b, index, "its mean and its deviation, which are for training, are used")


@body("SimplifiedLayerNormalization", domain="")
def simplified_layer_norm(b: Builder) -> Result:
    """ONNX Runtime's RMS normalisation in ONNX's own domain."""
    x, gamma = (needed(v) for v in given(b, 2))
    require(setting(b, "stash_type", 1) == FLOAT, "it computes in another type than fp32")
    y, root = rms_norm(b, x, gamma, setting(b, "epsilon", 1e-5), setting(b, "axis", -1))
    return in_place(b, y, b.Div(1.0, root) if asks_for(b, 1) else None)


@body("LayerNormalization", domain="")
def early_layer_norm(b: Builder) -> Result:
    """ONNX Runtime reads LayerNormalization at every opset; ONNX has it from opset 17 on."""
    require(is_onnxruntimes(b.root.proto, b.opset))
    x, gamma, beta = given(b, 3)
    x = needed(x)
    require_moments_unasked(b)
    return layer_norm(b, x, needed(gamma), beta, setting(b, "epsilon", 1e-5), setting(b, "axis", -1))


@body("GroupNorm")
def group_norm(b, x, gamma, beta):
    return grouped(b, x, gamma, beta)


@body("SkipGroupNorm")
def skip_group_norm(b, x, gamma, beta, skip, bias):
    if b.known_rank(skip) == 2:  # one number for each channel of a sample
        skip = b.Reshape(skip, [*([0, 1, 1, -1] if b.root.attr("channels_last") else [0, -1, 1, 1])])
    if bias is not None and not b.root.attr("channels_last"):
        bias = b.Reshape(bias, [1, -1, 1, 1])
    total, _ = summed(b, x, skip, bias)
    y, rounded = (b.typed(v, b.dtype(x)) for v in (grouped(b, total, gamma, beta), total))
    return in_place(b, y, rounded)


def grouped(b: Builder, x: Value, gamma: Value, beta: Value) -> Value:
    """The group normalisation of four dimensions in fp32, with what its attributes say of layout and activation."""
    require(b.known_rank(x) == 4, "its input has other than four dimensions")
    activation = b.root.attr("activation")
    require(activation in (0, 1), "its activation is neither none nor SiLU")
    groups, channels, dtype = b.root.attr("groups"), b.static_size(gamma, 0), b.dtype(x)
    require(isinstance(groups, int) and groups > 0 and channels % groups == 0, "its channels are not groups")
    moved = b.wide(first(b, x) if b.root.attr("channels_last") else x)
    split = b.Reshape(moved, [0, groups, -1])
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    normal = b.InstanceNormalization(split, ones, zeros, epsilon=b.root.attr("epsilon"))
    y = b.Reshape(normal, b.Shape(moved))
    weight, shift = (b.Reshape(b.typed(v, FLOAT), [1, -1, 1, 1]) for v in (gamma, beta))
    y = b.Add(b.Mul(y, weight), shift)
    y = b.typed(b.Mul(y, b.Sigmoid(y)) if activation else y, dtype)
    return last(b, y, 4) if b.root.attr("channels_last") else y


@body("EmbedLayerNormalization")
def embedding(b, ids, segments, words, places, segment_table, gamma, beta, mask, positions):
    return embedded(b, ids, segments, [words, places, segment_table, gamma, beta], mask, positions)


@body("QEmbedLayerNormalization")
def quantized_embedding(b: Builder) -> Result:
    ids, segments, *tables, mask = given(b, 8)
    scales, zeros = given(b, 13)[8:], given(b, 18)[13:]
    rows = [
        None if table is None else dequantized(b, table, needed(scale), zero)
        for table, scale, zero in zip(tables, scales, zeros, strict=True)
    ]
    return embedded(b, ids, segments, rows, mask)


def embedded(
    b: Builder, ids: Value, segments: Value | None, tables: list[Any], mask: Value | None,
    positions: Value | None = None,
) -> Result:  # fmt: skip
    """`tables`: of words, of positions and of segments, then gamma and beta."""
    words, places, segment_table, gamma, beta = tables
    rows = first_positions(b, ids) if positions is None else positions
    total = b.Add(b.Gather(words, ids, axis=0), b.Gather(places, rows, axis=0))
    if segments is not None:
        total = b.Add(total, b.Gather(needed(segment_table), segments, axis=0))
    y = layer_norm(b, total, gamma, beta, b.root.attr("epsilon"))
    counted = lengths(b, ids, mask) if asks_for(b, 1) else None
    return in_place(b, y, counted, total)


def first_positions(b: Builder, ids: Value) -> Value:
    """0, 1, ... for each position of a sample."""
    count = size(b, ids, 1)
    return b.constant(np.arange(count)[None]) if isinstance(count, int) else b.Unsqueeze(numbers_to(b, count), axes=[0])


def lengths(b: Builder, ids: Value, mask: Value | None) -> Value:
    """How many ones each sample's mask has; 0 where there is no mask."""
    if mask is None:
        none = b.Mul(b.Slice(ids, starts=[0], ends=[1], axes=[1]), 0)
        return b.Cast(b.Reshape(none, [-1]), to=TensorProto.INT32)
    ones = b.Cast(b.Equal(mask, b.constant(1, b.dtype(mask))), to=TensorProto.INT32)
    return b.ReduceSum(ones, axes=[1], keepdims=0)
