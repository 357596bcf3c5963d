"""Fuse a group normalisation, however it was exported, and write it as the target supports it.

Why       Up to opset 20 exporters spell it as Reshape, InstanceNormalization, Reshape, Mul, Add, and Keras as twenty
          nodes around five dimensions. TensorRT's GroupNormalization is right in part only: with one group it computes
          an instance normalisation (every release), up to 10.8 it wants one scale a group (ONNX's meaning up to opset
          20), and to 10.14 the form of opset 21 is right for four dimensions alone. The target table knows which.
Rewrites  Reshape InstanceNormalization Reshape [* scale] [+ bias];
          the formula over [N, H, W, groups, channels of a group]
          with as many groups as channels                        ->  InstanceNormalization
          from opset 21 on                                       ->  GroupNormalization
          before that (ONNX deprecated its form of opset 18)     ->  Reshape InstanceNormalization Reshape Mul Add
          GroupNormalization * scale, + bias, one number a channel -> GroupNormalization
          A file that is spelled like that already stays as it is. Channels last goes through a
          Transpose on either side.
Exact     To rounding. Sums of fp16 and bf16 are in fp32.
Price     32 groups of [1,64,56,56] in ONNX Runtime on one thread: 11 nodes, 0.18 ms next to 0.22 of its own node.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import ANY, DOMAIN, Builder, Dim, Node, Value, attr, const, meaning, op, require, require_some, rule

from ._norm.factors import (
    Factor,
    channels_with_behind,
    is_constant,
    merged,
    neutral_of,
    numpy_type,
    of_channels,
    of_shape,
    vector,
)
from ._norm.kind import is_grouped_last
from ._norm.spelling import Spelling
from ._norm.window import Normalisation, affine_of, read, with_epsilon
from ._norm.writing import narrowed, normalised, source_through, undoes_transpose, with_affine
from ._shapes import cancel, same_shape

OPTIONS = ("repair_eps",)

epsilon, groups = attr("epsilon"), attr("num_groups")
native = op.GroupNormalization("x", "scale", "bias", num_groups=groups, epsilon=epsilon)
NATIVE = 21  # the opset from which GroupNormalization has a scale a channel; before, it has one a group, deprecated

grouped = op.InstanceNormalization(op.Reshape("x", ANY), const("group_scale"), const("group_bias"), epsilon=epsilon)
back = op.Reshape(grouped, ANY)
scaled = op.Mul(back, "outer_scale")


@rule(op.Add(scaled | back, "outer_shift") | scaled | back, shortens=True)
def by_reshape(b, x, epsilon, group_scale, group_bias, **outer):
    inside = next(m for m in b.matched if m.key == "InstanceNormalization")
    behind = next(m for m in b.matched if m.key == "Reshape" and m.inputs[0] is inside.outputs[0])
    whole, folded = (b.known_dims(v) for v in (x, inside.inputs[0]))
    require(len(whole) >= 3 and folded[0] == whole[0])
    groups = folded[1]
    require(isinstance(groups, int), "the number of groups is not known")
    require(same_shape(b, behind.outputs[0], x), "it is not reshaped back to the shape that it had")
    n = Normalisation(x, whole, tuple(range(2, len(whole))), epsilon, affine=affine_of(outer))
    size = require_some(n.channels(1), "the number of channels is not known")
    require(size % groups == 0, "the groups do not divide the channels")
    dtype = b.dtype(b.root.outputs[0])
    what = "shift or the scale" if "outer_shift" in outer else "scale"
    parts = require_some(merged(b, n, [1], dtype), f"the {what} is not one number a channel")
    require(group_scale.size == groups == group_bias.size, "the scales do not fit the groups")
    return _fused(b, n, groups, size, _with_groups(parts, group_scale, group_bias, size // groups), dtype)


def _with_groups(
    parts: tuple[Factor, Factor], group_scale: np.ndarray, group_bias: np.ndarray, each: int
) -> tuple[Factor, Factor]:
    """(scale, shift) of the channels after those of the groups, of `each` channels, as one pair."""
    if is_constant(group_scale, 1) and is_constant(group_bias, 0):
        return parts
    constants = [f for f in parts if isinstance(f, np.ndarray)]
    require(len(constants) == 2, "a computed scale follows one that is not 1")
    scale, shift = constants
    inner_scale, inner_shift = (np.repeat(f, each).astype(np.float64) for f in (group_scale, group_bias))
    return scale * inner_scale, shift + scale * inner_shift


@rule(native)
def all_groups(b, x, scale, bias, num_groups, epsilon):
    shape = b.known_dims(x)
    require(len(shape) >= 3 and shape[1] == num_groups)
    return b.InstanceNormalization(x, scale, bias, epsilon=epsilon)


def _fused(b: Builder, n: Normalisation, groups: int, size: int, parts: tuple[Factor, Factor], dtype: int) -> Value:
    """The canonical node over n.x, [N, C, ...] of `size` channels."""
    factors = [vector(b, f, size, dtype) for f in parts]
    if groups == size:
        return b.InstanceNormalization(n.x, *factors, epsilon=n.epsilon)
    name, domain = ("GroupNormalization", "") if b.opset >= NATIVE else ("GroupNorm", DOMAIN)
    return b.node(name, [n.x, *factors], 1, domain, {"num_groups": groups, "epsilon": n.epsilon})


split = op.Reshape("x", ANY)
spelling = Spelling(split)


@rule(op.Reshape(spelling.affine, ANY), shortens=True)
def channels_last(b, x, **found):
    """[N, H, W, C] as [N, H, W, groups, C / groups]: tensorflow_addons and Keras."""
    inner = next(m for m in b.matched if m.key == "Reshape" and m.inputs[0] is x and m is not b.root)
    n = read(b, inner.outputs[0], found)
    require(is_grouped_last(n))
    whole = b.known_dims(x)
    number, each = _split_channels(n.dims, whole)
    require(same_shape(b, b.root.outputs[0], x), "it is not reshaped back to the shape that it had")
    n = with_epsilon(b, n, found)
    dtype = b.dtype(b.root.outputs[0])
    require(dtype != TensorProto.DOUBLE, "it computes in double precision")
    parts = merged(b, n, [n.rank - 2, n.rank - 1], dtype)
    parts = require_some(parts, "the scale or the shift is not one number a channel")
    value, perm = narrowed(b, x, dtype), [0, n.rank - 2, *range(1, n.rank - 2)]
    seen = source_through(b, value, perm)
    probe = b.InstanceNormalization(seen, *[vector(b, f, number * each, dtype) for f in parts], epsilon=n.epsilon)
    lowering = b.lowering(probe)
    b.discard(probe, value, *parts)
    if lowering == "decompose" and not undoes_transpose(value, perm):
        y = normalised(b, b.Reshape(value, inner.inputs[1]), n.axes, n.epsilon)
        row, offset = (_by_group(b, f, number, each) for f in parts)
        y = b.Reshape(with_affine(b, y, row, offset, dtype), b.root.inputs[1])
        return y
    first = replace(n, x=source_through(b, value, perm))
    y = _fused(b, first, number, number * each, parts, dtype)
    return b.Transpose(y, perm=[0, *range(2, n.rank - 1), 1])


def _split_channels(split: list[Dim], whole: list[Dim]) -> tuple[int, int]:
    """(groups, channels of each) of a reshape of [..., C] to [..., groups, C / groups]; declines for another one."""
    require(len(whole) == len(split) - 1, "it is another reshape than that of the channels")
    *kept, number, each = split
    *given, channels = whole
    known = isinstance(number, int) and isinstance(each, int) and isinstance(channels, int)
    require(known and number * each == channels, "the channels are not known")
    # one dimension follows from the others
    differing = sum(p != q for p, q in zip(kept, given, strict=True))
    require(differing <= 1, "it is another reshape than that of the channels")
    return number, each


def _by_group(b: Builder, factor: Factor, number: int, each: int) -> Factor:
    """A vector of the channels as a factor of [..., groups, channels of a group]."""
    if isinstance(factor, np.ndarray):
        return factor if factor.size == 1 else factor.reshape(number, each)
    return of_shape(b, factor, (number, each))


either = native | op.GroupNorm("x", "scale", "bias", domain=DOMAIN, num_groups=groups, epsilon=epsilon)


@rule(op.Transpose(op.Transpose(either, perm=attr("inner")), perm=attr("outer")))
def transposed_back(b, x, scale, bias, num_groups, epsilon, inner, outer):
    require(cancel(inner, outer))
    return _like(b, _matched(b), [x, scale, bias])


@rule(op.Mul(either, "outer_scale") | op.Add(either, "outer_shift"), shortens=True)
def behind(b, x, scale, bias, num_groups, epsilon, **outer):
    """A factor or a shift after the node, one number a channel, becomes part of its own.

    Written out, the node leaves its neutral weights away, and the next run would take what follows for them.
    """
    node = _matched(b)
    require(not (node.proto.domain != DOMAIN and b.opset < NATIVE))
    return _like(b, node, [x, *channels_with_behind(b, x, scale, bias, **outer)])


def _matched(b: Builder) -> Node:
    return next(m for m in b.matched if m.op in ("GroupNorm", "GroupNormalization"))


def _like(b: Builder, node: Node, inputs: list[Value]) -> Value:
    attrs: dict[str, Any] = {"num_groups": node.attr("num_groups"), "epsilon": node.attr("epsilon")}
    return b.node(node.op, inputs, 1, node.proto.domain, attrs)


# ---- writing it ------------------------------------------------------------------------------------------------------


@rule(either, strategy="decompose")
def decompose(b, x, scale, bias, num_groups, epsilon):
    if b.root.op == "GroupNormalization" and b.opset < NATIVE:
        return _by_reshape(b, x, num_groups, epsilon, scale, bias)
    return _with_channels(b, _by_reshape(b, x, num_groups, epsilon), scale, bias, b.rank(x))


def _by_reshape(
    b: Builder, x: Value, number: int, epsilon: float, scale: Value | None = None, bias: Value | None = None
) -> Value:
    """Every group as a channel of [N, groups, all the rest], which InstanceNormalization normalises."""
    require(number > 0, f"there are no {number} groups")
    dtype = numpy_type(b.dtype(x))
    group_scale = np.ones(number, dtype) if scale is None else scale
    group_bias = np.zeros(number, dtype) if bias is None else bias
    flat = b.Reshape(x, [0, number, -1])
    return b.Reshape(b.InstanceNormalization(flat, group_scale, group_bias, epsilon=epsilon), _sizes(b, x))


def _sizes(b: Builder, x: Value) -> Value | np.ndarray:
    """The shape of x as the target of a Reshape; constant where only one dimension after the batch is unknown."""
    shape = b.dims(x)
    unknown = [a for a, d in enumerate(shape or ()) if a and not isinstance(d, int)]
    if shape is None or len(unknown) > 1:
        return b.Shape(x)
    first = shape[0] if isinstance(shape[0], int) else 0
    return np.asarray([first, *[d if isinstance(d, int) else -1 for d in shape[1:]]], np.int64)


def _with_channels(b: Builder, y: Value, scale: Value, bias: Value, rank: int | None) -> Value:
    """y times one number a channel, plus one."""
    rank = require_some(rank, "the rank of the input is not known")
    for kind, factor in (("Mul", scale), ("Add", bias)):
        if not is_constant(b.value(factor), neutral_of(kind)):
            y = b.node(kind, [y, of_channels(b, factor, rank)], 1, "", {})
    return y


@meaning("GroupNorm")
def group_norm(f, x, scale, bias, *, num_groups, epsilon):
    dtype = f.dtype
    f.compute_in(TensorProto.FLOAT)
    wide = f.Cast(f.Reshape(x, np.asarray([0, num_groups, -1], np.int64)), to=TensorProto.FLOAT)
    d = f.Sub(wide, f.ReduceMean(wide, axes=[2], keepdims=1))
    y = f.Div(d, f.Sqrt(f.Add(f.ReduceMean(f.Mul(d, d), axes=[2], keepdims=1), epsilon)))
    y = f.Reshape(y, f.Shape(f.Reshape(x, np.asarray([0, 0, -1], np.int64))))
    for kind, factor in (("Mul", scale), ("Add", bias)):
        y = getattr(f, kind)(y, f.Cast(f.Reshape(factor, np.asarray([-1, 1], np.int64)), to=TensorProto.FLOAT))
    return f.Cast(f.Reshape(y, f.Shape(x)), to=dtype)
