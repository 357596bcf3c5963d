"""Fuse a layer normalisation, however it was exported, and write it as the target takes it.

Why       Exporters spell it as nine nodes up to opset 16, Keras as thirteen, in fp16 through casts to DOUBLE, which no
          TensorRT has. LayerNormalization is one native layer from 8.6 on and in TensorRT-RTX; a parser without it
          looks for a plugin of that name and fails.
Rewrites  (x - mean) / sqrt(var + eps) [* scale] [+ bias] over trailing axes       ->  LayerNormalization, from opset 17
          InstanceNormalization of [N, S, H] without scale, weights over H behind it ->  LayerNormalization (tf2onnx)
          the same before opset 17, or over the channels of N, C, H, W (ConvNeXt)  ->  fewer nodes of the same chain
          LayerNormalization, MeanVarianceNormalization where the target has none  ->  ReduceMean Sub Mul ReduceMean ...
          the node * scale, + bias, along the same axes                            ->  the node
          without weights, over all axes but the first two, before opset 17 or where the target has no
          LayerNormalization, but has that, native or as a plugin                  ->  InstanceNormalization
          Over channels of N, C, H, W no ONNX operator normalises without a Transpose on either side, each a pass over
          the tensor; the chain reads it as often as they do, so it stays, at its shortest.
          Over several axes it needs a scale of their shape: without one it is a group normalisation of one group.
Exact     To rounding. Sums of fp16 and bf16 are in fp32.
"""

import numpy as np
from onnx import TensorProto

from surgeon import DOMAIN, Stage, attr, meaning, op, require, rewrite, var
from surgeon.ir.graph import Value

from ._shapes import dims
from ._statistics import (
    Normalisation,
    Spelling,
    affine_behind,
    along_axes,
    apply_affine,
    chain,
    count,
    declared_opset,
    grouped_last,
    instance_axis,
    is_constant,
    is_uniform,
    known,
    merged,
    narrowed,
    node_behind,
    normalised,
    of_full_shape,
    of_shape,
    read,
    require_shorter,
    vector,
    with_affine,
)
from ._types import HALVES

OPTIONS = ("repair_eps",)

x, scale, bias = var("x"), var("scale"), var("bias")
epsilon = attr("epsilon")
spelling = Spelling(x)
native = op.LayerNormalization(x, scale, bias | None, axis=attr("axis"), epsilon=epsilon)
own = op.LayerNorm(x, scale | None, bias | None, domain=DOMAIN, axes=attr("axes"), epsilon=epsilon)
NATIVE = 17  # the opset that brought LayerNormalization


@rewrite(spelling.affine | op.Cast(spelling.bare), stage=Stage.FUSE)
def fuse(b, x, **found):
    n = read(b, x, **found)
    require(instance_axis(b, n) is None and not grouped_last(n), "")
    require(
        n.trailing and n.axes[0] > 0 or n.axes == (1,),
        f"means over the axes {list(n.axes)} of {n.rank} are no layer normalisation",
    )
    count(b, n)
    dtype = b.dtype(b.root.outputs[0])
    require(dtype != TensorProto.DOUBLE, "it computes in double precision")
    parts = merged(b, n, n.axes, dtype, weights=True)
    outer = [k for k in ("outer_scale", "outer_shift") if k in found]
    require(
        parts is not None or not outer,
        f"the {'scale' if outer[:1] == ['outer_scale'] else 'shift'} varies along other axes than those of the means",
    )
    scale, shift = parts or (np.full(1, n.factor), np.zeros(1))
    whole = not isinstance(scale, np.ndarray) or scale.size > 1
    require(
        len(n.axes) == 1 or of_full_shape(b, n),
        f"a mean over the axes {list(n.axes)} without a scale of their shape is a group normalisation of one group",
    )
    source = narrowed(b, x, dtype)
    if n.trailing and declared_opset(b) >= NATIVE:
        require(all(isinstance(d, int) for d in n.sizes) or whole, "the size of the last axis is not known")
        y = _native(b, source, n, (scale, shift), dtype)
        if b.lowering(y, "layer-norm") == "decompose":
            require_shorter(b, chain(b, n, source))
        return y if parts else apply_affine(b, y, n)
    require_shorter(b, chain(b, n, source))
    if not parts:
        return apply_affine(b, b.LayerNorm(source, domain=DOMAIN, axes=list(n.axes), epsilon=n.epsilon), n)
    return _own(b, source, n, parts, dtype)


@rewrite(affine_behind(native | own), stage=Stage.FUSE)
def behind(b, x, epsilon, **found):
    return node_behind(b, x, epsilon, _native, _own, **found)


instance = op.InstanceNormalization(x, scale, bias, epsilon=epsilon)


@rewrite(op.Add(op.Mul(instance, var("outer_scale")), var("outer_shift")), stage=Stage.FUSE)
def by_instance_norm(b, x, scale, bias, epsilon, outer_scale, outer_shift):
    """tf2onnx: [N, S, H] normalised as S channels, without scale, and weights over H behind it."""
    n = Normalisation(x, known(dims(b, x), ""), (2,), epsilon, 1.0, [("Mul", outer_scale), ("Add", outer_shift)])
    require(b.opset >= NATIVE and n.rank == 3 and is_uniform(b, scale, 1) and is_uniform(b, bias, 0), "")
    dtype = b.dtype(x)
    row, offset = known(merged(b, n, n.axes, dtype, weights=True), "")
    require(
        isinstance(n.dims[2], int) or isinstance(row, Value) or row.size > 1, "the size of the last axis is not known"
    )
    y = _native(b, x, n, (row, offset), dtype)
    require(b.lowering(y, "layer-norm") != "decompose", "")
    return y


def _native(b, source, n, parts, dtype):
    (scale, shift), shape = parts, n.sizes
    size = int(np.prod(shape)) if all(isinstance(d, int) for d in shape) else None
    row = vector(b, scale, size, dtype)
    offset = None if is_constant(shift, 0) else vector(b, shift, size, dtype)
    if len(n.axes) > 1:
        row = of_shape(b, row, shape)
        offset = None if offset is None else of_shape(b, offset, shape)
    return b.LayerNormalization(source, row, offset, axis=-len(n.axes), epsilon=n.epsilon)


def _own(b, source, n, parts, dtype):
    shape = [*n.sizes, *[1] * (n.rank - 1 - n.axes[-1])]
    factors = [along_axes(b, f, shape, dtype, neutral) for f, neutral in zip(parts, (1, 0), strict=True)]
    return b.LayerNorm(source, *factors, domain=DOMAIN, axes=list(n.axes), epsilon=n.epsilon)


# ---- writing it ------------------------------------------------------------------------------------------------------


@rewrite(native, stage=Stage.LOWER, strategy="decompose")
def decompose(b, x, scale, axis, epsilon, bias=None):
    rank = b.rank(x)
    require(rank is not None, f"the rank of '{x.name}' is not known, so the normalised axes are not")
    return _written(b, x, range(axis % rank, rank), epsilon, scale, bias)


@rewrite(own, stage=Stage.LOWER, strategy="decompose")
def decompose_own(b, x, axes, epsilon, scale=None, bias=None):
    return _written(b, x, axes, epsilon, scale, bias)


def _written(b, x, axes, epsilon, scale, bias):
    if all(f is None or is_uniform(b, f, neutral) for f, neutral in ((scale, 1), (bias, 0))):
        y = _by_instances(b, x, axes, epsilon)
        if y is not None:
            return y
    return with_affine(b, normalised(b, x, axes, epsilon), scale, bias, b.dtype(x))


def _by_instances(b, x, axes, epsilon):
    """An instance normalisation, where the target has a node for it: without weights it is the same, and a bare chain
    of [N, S, H] would be read as one by the next run. None where there is no such node."""
    shape = dims(b, x)
    if shape is None or tuple(axes) != tuple(range(2, len(shape))) or not isinstance(shape[1], int):
        return None
    factors = [vector(b, np.full(1, neutral), shape[1], b.dtype(x)) for neutral in (1, 0)]
    y = b.InstanceNormalization(x, *factors, epsilon=epsilon)
    if b.lowering(y, "instance-norm") != "decompose":
        return y
    b.discard(y)
    return None


@rewrite(op.MeanVarianceNormalization(x, axes=attr("axes")), stage=Stage.LOWER, strategy="decompose")
def mean_variance(b, x, axes):
    wide = b.Cast(x, to=TensorProto.FLOAT) if b.dtype(x) in HALVES else x
    deviation = b.Sub(wide, b.ReduceMean(wide, axes=list(axes), keepdims=1))
    variance = b.ReduceMean(b.Mul(deviation, deviation), axes=list(axes), keepdims=1)
    y = b.Div(deviation, b.Add(b.Sqrt(variance), 1e-9))
    return y if wide is x else b.Cast(y, to=b.dtype(x))


@meaning("MeanVarianceNormalization")
def mean_variance_normalization(f, x, *, axes=(0, 2, 3)):
    """ONNX adds 1e-9 to the root of the variance, and so does TensorRT; ONNX Runtime leaves it out. Against the 1e-7 of
    the proof's tiny inputs that is anything, where few elements are averaged: two of them may be next to equal."""
    dtype = f.dtype
    f.compute_in(TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT)
    wide = f.Cast(x, to=TensorProto.FLOAT) if dtype in HALVES else x
    mean = f.ReduceMean(wide, axes=list(axes), keepdims=1)
    variance = f.ReduceMean(f.Pow(f.Sub(wide, mean), 2.0), axes=list(axes), keepdims=1)
    y = f.Div(f.Sub(wide, mean), f.Add(f.Sqrt(variance), 1e-9))
    return f.Cast(y, to=dtype) if dtype in HALVES else y


@meaning("LayerNorm")
def layer_norm(f, x, scale=None, bias=None, *, axes, epsilon):
    dtype = f.dtype
    f.compute_in(TensorProto.FLOAT)
    wide = f.Cast(x, to=TensorProto.FLOAT)
    d = f.Sub(wide, f.ReduceMean(wide, axes=axes, keepdims=1))
    y = f.Div(d, f.Sqrt(f.Add(f.ReduceMean(f.Mul(d, d), axes=axes, keepdims=1), epsilon)))
    for kind, factor in (("Mul", scale), ("Add", bias)):
        if factor is not None:
            y = getattr(f, kind)(y, f.Cast(factor, to=TensorProto.FLOAT))
    return f.Cast(y, to=dtype)
