"""Fuse a group normalisation, however it was exported, and write it as the target takes it.

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
"""

import numpy as np
from onnx import TensorProto

from surgeon import ANY, DOMAIN, Stage, attr, const, meaning, op, require, rewrite, var

from ._shapes import cancel, dims, same_shape
from ._statistics import (
    Normalisation,
    Spelling,
    by_channel,
    channels_behind,
    count,
    grouped_last,
    is_constant,
    known,
    merged,
    narrowed,
    normalised,
    numpy_type,
    of_shape,
    read,
    require_fewer,
    require_shorter,
    source_through,
    undoes_transpose,
    vector,
    with_affine,
)

OPTIONS = ("repair_eps",)

x, scale, bias = var("x"), var("scale"), var("bias")
epsilon, groups = attr("epsilon"), attr("num_groups")
NATIVE = (
    21  # the opset from which GroupNormalization has a scale a channel; from 18 to 20 it has one a group, deprecated
)

grouped = op.InstanceNormalization(op.Reshape(x, ANY), const("group_scale"), const("group_bias"), epsilon=epsilon)
back = op.Reshape(grouped, ANY)
scaled = op.Mul(back, var("outer_scale"))


@rewrite(op.Add(scaled | back, var("outer_shift")) | scaled | back, stage=Stage.FUSE)
def by_reshape(b, x, epsilon, group_scale, group_bias, outer_scale=None, outer_shift=None):
    inside = next(m for m in b.matched if m.key == "InstanceNormalization")
    behind = next(m for m in b.matched if m.key == "Reshape" and m.inputs[0] is inside.outputs[0])
    whole, folded = (known(dims(b, v), "the rank of the input is not known") for v in (x, inside.inputs[0]))
    require(len(whole) >= 3, "")
    require(
        folded[0] == whole[0] and isinstance(folded[1], int),
        "" if folded[0] != whole[0] else "the number of groups is not known",
    )
    require(same_shape(b, behind.outputs[0], x), "it is not reshaped back to the shape that it had")
    affine = [("Mul", outer_scale)] if outer_scale is not None else []
    affine += [("Add", outer_shift)] if outer_shift is not None else []
    n = Normalisation(x, whole, tuple(range(2, len(whole))), epsilon, 1.0, affine)
    size = known(n.channels(1), "the number of channels is not known")
    require(size % folded[1] == 0, "the groups do not divide the channels")
    dtype = b.dtype(b.root.outputs[0])
    parts = known(
        merged(b, n, [1], dtype),
        f"the {'scale' if outer_shift is None else 'shift or the scale'} is not one number a channel",
    )
    each = size // folded[1]
    for factor in (group_scale, group_bias):
        require(factor.size == folded[1], "the scales do not fit the groups")
    if not (is_constant(group_scale, 1) and is_constant(group_bias, 0)):
        require(all(isinstance(p, np.ndarray) for p in parts), "a computed scale follows one that is not 1")
        parts = (
            parts[0] * np.repeat(group_scale, each).astype(np.float64),
            parts[1] + parts[0] * np.repeat(group_bias, each).astype(np.float64),
        )
    return _fused(b, x, folded[1], size, parts, epsilon, dtype)


@rewrite(op.GroupNormalization(x, scale, bias, num_groups=groups, epsilon=epsilon), stage=Stage.FUSE)
def all_groups(b, x, scale, bias, num_groups, epsilon):
    shape = dims(b, x)
    require(b.opset >= NATIVE and shape is not None and len(shape) >= 3 and shape[1] == num_groups, "")
    return b.InstanceNormalization(x, scale, bias, epsilon=epsilon)


def _fused(b, x, number, size, parts, epsilon, dtype):
    """The canonical node, unless the window is as short as what it would become."""
    scale, shift = parts
    factors = [vector(b, f, size, dtype) for f in parts]
    affine = [kind for kind, f, neutral in (("Mul", scale, 1), ("Add", shift, 0)) if not is_constant(f, neutral)]
    spelled = ["Reshape", "InstanceNormalization", "Reshape", *affine]
    if number == size:
        return b.InstanceNormalization(x, *factors, epsilon=epsilon)
    if b.opset >= NATIVE:
        y = b.GroupNormalization(x, *factors, num_groups=number, epsilon=epsilon)
        if b.lowering(y, "group-norm") == "decompose":
            require_shorter(b, spelled)
        return y
    require_shorter(b, spelled)
    return b.GroupNorm(x, *factors, domain=DOMAIN, num_groups=number, epsilon=epsilon)


split = op.Reshape(x, ANY)
spelling = Spelling(split)


@rewrite(op.Reshape(spelling.affine, ANY), stage=Stage.FUSE)
def channels_last(b, x, **found):
    """[N, H, W, C] as [N, H, W, groups, C / groups]: tensorflow_addons and Keras."""
    inner = next(m for m in b.matched if m.key == "Reshape" and m.inputs[0] is x and m is not b.root)
    n = read(b, inner.outputs[0], **found)
    require(grouped_last(n), "")
    whole = known(dims(b, x), "the rank of the input is not known")
    require(len(whole) == n.rank - 1, "it is another reshape than that of the channels")
    number, each = n.dims[-2:]
    require(
        isinstance(number, int) and isinstance(each, int) and isinstance(whole[-1], int) and number * each == whole[-1],
        "the channels are not known",
    )
    agree = [p == q for p, q in zip(n.dims[:-2], whole[:-1], strict=True)]
    require(sum(agree) >= len(agree) - 1, "it is another reshape than that of the channels")
    require(same_shape(b, b.root.outputs[0], x), "it is not reshaped back to the shape that it had")
    count(b, n)
    dtype = b.dtype(b.root.outputs[0])
    require(dtype != TensorProto.DOUBLE, "it computes in double precision")
    parts = known(merged(b, n, [n.rank - 2, n.rank - 1], dtype), "the scale or the shift is not one number a channel")
    value, perm = narrowed(b, x, dtype), [0, n.rank - 2, *range(1, n.rank - 2)]
    probe = b.InstanceNormalization(value, *[vector(b, f, number * each, dtype) for f in parts], epsilon=n.epsilon)
    lowering = b.lowering(probe, "instance-norm")
    b.discard(probe, value, *parts)
    if lowering == "decompose" and not undoes_transpose(value, perm):
        y = normalised(b, b.Reshape(value, inner.inputs[1]), n.axes, n.epsilon)
        scale, shift = (_by_group(b, f, number, each) for f in parts)
        y = with_affine(b, y, scale, shift, dtype)
        y = b.Reshape(y, b.root.inputs[1])
        require_shorter(b, [node.key for node in b.made if node.alive])
        return y
    y = _fused(b, source_through(b, value, perm), number, number * each, parts, n.epsilon, dtype)
    return b.Transpose(y, perm=[0, *range(2, n.rank - 1), 1])


def _by_group(b, factor, number, each):
    """A vector of the channels as a factor of [..., groups, channels of a group]."""
    if isinstance(factor, np.ndarray):
        return factor if factor.size == 1 else factor.reshape(number, each)
    return of_shape(b, factor, (number, each))


either = op.GroupNormalization(x, scale, bias, num_groups=groups, epsilon=epsilon) | op.GroupNorm(
    x, scale, bias, domain=DOMAIN, num_groups=groups, epsilon=epsilon
)


@rewrite(op.Transpose(op.Transpose(either, perm=attr("inner")), perm=attr("outer")), stage=Stage.FUSE)
def transposed_back(b, x, scale, bias, num_groups, epsilon, inner, outer):
    require(cancel(inner, outer), "")
    return _over(b, _matched(b), [x, scale, bias], num_groups, epsilon)


@rewrite(op.Mul(either, var("outer_scale")) | op.Add(either, var("outer_shift")), stage=Stage.FUSE)
def behind(b, x, scale, bias, num_groups, epsilon, **outer):
    """Written out, the node leaves its neutral weights away, and the next run would take what stands behind for
    them."""
    node = _matched(b)
    require(node.proto.domain == DOMAIN or b.opset >= NATIVE, "")
    y = _over(b, node, [x, *channels_behind(b, x, scale, bias, **outer)], num_groups, epsilon)
    require_fewer(b)
    return y


def _matched(b):
    return next(m for m in b.matched if m.op in ("GroupNorm", "GroupNormalization"))


def _over(b, node, inputs, num_groups, epsilon):
    """Such a node, of other inputs."""
    return b.node(node.op, inputs, 1, node.proto.domain, {"num_groups": num_groups, "epsilon": epsilon})


# ---- writing it ------------------------------------------------------------------------------------------------------


@rewrite(
    op.GroupNormalization(x, scale, bias, num_groups=groups, epsilon=epsilon), stage=Stage.LOWER, strategy="decompose"
)
def decompose(b, x, scale, bias, num_groups, epsilon):
    if b.opset < NATIVE:
        return _by_reshape(b, x, num_groups, epsilon, scale, bias)
    return _with_channels(b, _by_reshape(b, x, num_groups, epsilon), scale, bias, b.rank(x))


@rewrite(
    op.GroupNorm(x, scale, bias, domain=DOMAIN, num_groups=groups, epsilon=epsilon),
    stage=Stage.LOWER,
    strategy="decompose",
)
def decompose_own(b, x, scale, bias, num_groups, epsilon):
    return _with_channels(b, _by_reshape(b, x, num_groups, epsilon), scale, bias, b.rank(x))


def _by_reshape(b, x, number, epsilon, scale=None, bias=None):
    """Every group as a channel of [N, groups, all the rest], which InstanceNormalization normalises."""
    require(number > 0, f"there are no {number} groups")
    dtype = numpy_type(b.dtype(x))
    scale = np.ones(number, dtype) if scale is None else scale
    bias = np.zeros(number, dtype) if bias is None else bias
    flat = b.Reshape(x, np.asarray([0, number, -1], np.int64))
    return b.Reshape(b.InstanceNormalization(flat, scale, bias, epsilon=epsilon), _sizes(b, x))


def _sizes(b, x):
    """The shape of x as the target of a Reshape: constant where no more than one dimension behind
    the batch is unknown."""
    shape = dims(b, x)
    unknown = [a for a, d in enumerate(shape or ()) if a and not isinstance(d, int)]
    if shape is None or len(unknown) > 1:
        return b.Shape(x)
    first = shape[0] if isinstance(shape[0], int) else 0
    return np.asarray([first, *[d if isinstance(d, int) else -1 for d in shape[1:]]], np.int64)


def _with_channels(b, y, scale, bias, rank):
    """y times one number a channel, plus one."""
    require(rank is not None, "the rank of the input is not known")
    for kind, factor, neutral in (("Mul", scale, 1), ("Add", bias, 0)):
        if not is_constant(b.value(factor), neutral):
            y = b.node(kind, [y, by_channel(b, factor, rank)], 1, "", {})
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
