"""Fuse a layer normalisation, however it was exported, and write it as the target supports it.

Why       Exporters spell it as nine nodes up to opset 16, Keras as thirteen, in fp16 through casts to DOUBLE, which no
          TensorRT has. LayerNormalization is one native layer from 8.6 on and in TensorRT-RTX; a parser without it
          looks for a plugin of that name and fails.
Rewrites  (x - mean) / sqrt(var + eps) [* scale] [+ bias] over trailing axes       ->  LayerNormalization, from opset 17
          InstanceNormalization of [N, S, H] without scale, weights over H after it ->  LayerNormalization (tf2onnx)
          the same before opset 17, or over the channels of N, C, H, W (ConvNeXt)  ->  fewer nodes of the same chain
          LayerNormalization, MeanVarianceNormalization where the target has none  ->  ReduceMean Sub Mul ReduceMean ...
          the node * scale, + bias, along the same axes                            ->  the node
          without weights, over all axes but the first two, before opset 17 or where the target has no
          LayerNormalization, but has that, native or as a plugin                  ->  InstanceNormalization
          Over channels of N, C, H, W no ONNX operator normalises without a Transpose on either side, each a pass over
          the tensor; the chain reads it as often as they do, so it stays, at its shortest.
          Over several axes it needs a scale of their shape: without one it is a group normalisation of one group.
Exact     To rounding. Sums of fp16 and bf16 are in fp32.
Price     [1,128,768] in ONNX Runtime on one thread: 9 nodes, 0.10 ms next to 0.05 of its own node.
"""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from surgeon import DOMAIN, HALVES, Builder, Value, attr, meaning, op, require, require_some, rewrites, rule, var

from ._norm.factors import Factor, along_axes, has_full_shape, is_constant, is_uniform, merged, of_shape, vector
from ._norm.kind import instance_axis, is_grouped_last
from ._norm.spelling import Spelling, affine_behind
from ._norm.window import Normalisation, outer_part, read, with_epsilon
from ._norm.writing import narrowed, normalised, opset_to_write, with_affine, with_affine_behind, with_weights
from ._shapes import require_axes

OPTIONS = ("repair_eps",)

x, scale, bias = var("x"), var("scale"), var("bias")
epsilon = attr("epsilon")
spelling = Spelling(x)
native = op.LayerNormalization(x, scale, bias | None, axis=attr("axis"), epsilon=epsilon)
own = op.LayerNorm(x, scale | None, bias | None, domain=DOMAIN, axes=attr("axes"), epsilon=epsilon)
NATIVE = 17  # the opset that brought LayerNormalization


@rule(spelling.affine | op.Cast(spelling.bare), shortens=True)
def fuse(b, x, **found):
    n = read(b, x, found)
    require(instance_axis(b, n) is None and not is_grouped_last(n))
    fits = n.axes and (n.is_trailing and n.axes[0] > 0 or n.axes == (1,))
    require(fits, f"means over the axes {list(n.axes)} of {n.rank} are not a layer normalisation")
    n = with_epsilon(b, n, found)
    dtype = b.dtype(b.root.outputs[0])
    require(dtype != TensorProto.DOUBLE, "it computes in double precision")
    parts = merged(b, n, n.axes, dtype, weights=True)
    outer = outer_part(found)
    require(parts is not None or outer is None, f"the {outer} varies along other axes than those of the means")
    scale, shift = parts or (np.full(1, n.factor), np.zeros(1))
    why = f"a mean over the axes {list(n.axes)} without a scale of their shape is a group normalisation of one group"
    require(len(n.axes) == 1 or has_full_shape(b, n, [value for _, value in n.affine]), why)
    source = narrowed(b, x, dtype)
    if n.is_trailing and opset_to_write(b) >= NATIVE:
        require(n.is_static or _has_size(scale), "the size of the last axis is not known")
        y = _native(b, source, n, (scale, shift), dtype)
        return y if parts else with_affine_behind(b, y, n)
    if parts:
        return _own(b, source, n, parts, dtype)
    return with_affine_behind(b, b.LayerNorm(source, domain=DOMAIN, axes=list(n.axes), epsilon=n.epsilon), n)


behind = rewrites(
    affine_behind(native | own), lambda b, **found: with_weights(b, _native, _own, **found), shortens=True
)


instance = op.InstanceNormalization(x, scale, bias, epsilon=epsilon)


@rule(op.Add(op.Mul(instance, var("outer_scale")), var("outer_shift")))
def by_instance_norm(b, x, scale, bias, epsilon, outer_scale, outer_shift):
    """tf2onnx: [N, S, H] normalised as S channels, without scale, and weights over H after it."""
    shape = require_some(b.dims(x))
    require(b.opset >= NATIVE and len(shape) == 3)
    require(is_uniform(b, scale, 1) and is_uniform(b, bias, 0))
    n = Normalisation(x, shape, (2,), epsilon, affine=(("Mul", outer_scale), ("Add", outer_shift)))
    dtype = b.dtype(x)
    parts = require_some(merged(b, n, n.axes, dtype, weights=True))
    require(n.is_static or _has_size(parts[0]), "the size of the last axis is not known")
    y = _native(b, x, n, parts, dtype)
    require(b.lowering(y) != "decompose")
    return y


def _has_size(scale: Factor) -> bool:
    """Whether a scale tells the size of the axes: it is not one number."""
    return isinstance(scale, Value) or scale.size > 1


def _native(b: Builder, source: Value, n: Normalisation, parts: tuple[Factor, Factor], dtype: int) -> Value:
    """ONNX's LayerNormalization, of one scale for each element."""
    scale, shift = parts
    size = int(np.prod(n.sizes)) if n.is_static else None
    row = vector(b, scale, size, dtype)
    offset = None if is_constant(shift, 0) else vector(b, shift, size, dtype)
    factors: list[Factor | None] = [row, offset]
    if len(n.axes) > 1:
        factors = [f and of_shape(b, f, n.sizes) for f in (row, offset)]
    return b.LayerNormalization(source, *factors, axis=-len(n.axes), epsilon=n.epsilon)


def _own(b: Builder, source: Value, n: Normalisation, parts: tuple[Factor, Factor], dtype: int) -> Value:
    """surgeon's LayerNorm, over any axes, whose factors broadcast against x."""
    sizes = [*n.sizes, *[1] * (n.rank - 1 - n.axes[-1])]
    scale, shift = parts
    row = along_axes(b, scale, sizes, dtype, 1)
    offset = along_axes(b, shift, sizes, dtype, 0)
    return b.LayerNorm(source, row, offset, domain=DOMAIN, axes=list(n.axes), epsilon=n.epsilon)


@rule(native, strategy="decompose")
def decompose(b, x, scale, axis, epsilon, bias=None):
    rank = b.known_rank(x)
    return _written(b, x, range(axis % rank, rank), epsilon, scale, bias)


def _written(
    b: Builder, x: Value, axes: Sequence[int], epsilon: float, scale: Value | None = None, bias: Value | None = None
) -> Value:
    """The normalisation as the target supports it without a LayerNormalization."""
    without_weights = (scale is None or is_uniform(b, scale, 1)) and (bias is None or is_uniform(b, bias, 0))
    if without_weights:
        y = _by_instances(b, x, axes, epsilon)
        if y is not None:
            return y
    return with_affine(b, normalised(b, x, axes, epsilon), scale, bias, b.dtype(x))


decompose_own = rewrites(own, _written, strategy="decompose")


def _by_instances(b: Builder, x: Value, axes: Sequence[int], epsilon: float) -> Value | None:
    """An instance normalisation, where the target has a node for it; None where there is no such node. Without weights
    it is the same, and the next run would read a bare chain of [N, S, H] as one."""
    shape = b.dims(x)
    if shape is None or tuple(axes) != tuple(range(2, len(shape))) or not isinstance(shape[1], int):
        return None
    ones, zeros = (vector(b, np.full(1, number), shape[1], b.dtype(x)) for number in (1, 0))
    y: Value = b.InstanceNormalization(x, ones, zeros, epsilon=epsilon)
    if b.lowering(y) != "decompose":
        return y
    b.discard(y)
    return None


@rule(op.MeanVarianceNormalization(x, axes=attr("axes")), strategy="decompose")
def mean_variance(b, x, axes):
    require_axes(b, x, axes)
    wide = b.wide(x)
    deviation = b.Sub(wide, b.ReduceMean(wide, axes=list(axes), keepdims=1))
    variance = b.ReduceMean(b.Mul(deviation, deviation), axes=list(axes), keepdims=1)
    y = b.Div(deviation, b.Add(b.Sqrt(variance), 1e-9))
    return b.typed(y, b.dtype(x))


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
