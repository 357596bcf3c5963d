"""Fuse an instance normalisation, however it was exported, and write it as the target supports it.

Why       Written by hand or by tf2onnx it is seven to twenty nodes, which TensorRT runs as several kernels, in fp16
          with sums that overflow. From 10.0 on, and in TensorRT-RTX, InstanceNormalization is one native layer. Before
          that it becomes the stock plugin, which needs cuDNN at run time, scale and bias as FP32 initializers and three
          to five dimensions; `keep` asks for that all the same. The default there is `decompose`.
Rewrites  (x - mean) / sqrt(var + eps) [* scale] [+ bias] over the spatial axes, with ReduceMean, GlobalAveragePool,
          sums over counts, Sqrt and Div, Reciprocal or Pow(-0.5), the mean computed once or twice, kept or reshaped
          back, the folded form x * (scale / std) + (bias - mean * scale / std), channels first or last
          Bessel's correction over N elements: eps' = eps (N - 1) / N and scale' = scale sqrt((N - 1) / N), because
          d / sqrt(v N / (N - 1) + eps) = sqrt((N - 1) / N) d / sqrt(v + eps (N - 1) / N); N must be static
          a scale or bias of one number a channel after an InstanceNormalization
          a batch normalisation in training mode with the batch folded into the channels     ->  InstanceNormalization
          InstanceNormalization, decomposed ->  ReduceMean Sub Mul ReduceMean Add Sqrt Div [Mul] [Add], in fp32 for fp16
          InstanceNormalization, plugin     ->  SurgeonInstanceNorm, or with the stock library InstanceNormalization_TRT
          On DLA, which has no Sqrt, the root is a Pow by 0.5; in fp16 it is left whole where the GPU takes it.
          Channels last is transposed where the target has the layer; where it has not, the chain is only shortened.
Exact     To rounding. Sums of fp16 and bf16 are in fp32.
Price     Decomposed, [1,64,56,56] in ONNX Runtime on one thread: 9 nodes, 0.18 ms next to 0.07 of its own node; of fp16
          11 nodes, and 0.21 next to 0.09.
"""

from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import (
    ANY,
    DOMAIN,
    PLUGIN,
    Builder,
    Dim,
    Node,
    Stage,
    Value,
    attr,
    const,
    meaning,
    model_rule,
    op,
    require,
    require_some,
    rewrites,
    rule,
    var,
)
from surgeon.ir.model import Model

from ._norm.factors import Factor, channels_with_behind, is_uniform, merged, of_channels, vector
from ._norm.kind import instance_axis
from ._norm.spelling import Spelling, mean, square
from ._norm.window import Normalisation, outer_part, read, with_epsilon
from ._norm.writing import narrowed, normalised, source_through, undoes_transpose, with_affine, with_affine_behind
from ._shapes import cancel, output_of, same_shape

OPTIONS = ("repair_eps",)

x, scale, bias = var("x"), var("scale"), var("bias")
epsilon = attr("epsilon")
spelling = Spelling(x)
node = op.InstanceNormalization(x, scale, bias, epsilon=epsilon)
LAYER_NORM = 17  # the opset that brought LayerNormalization


# ---- recognising it --------------------------------------------------------------------------------------------------


@rule(spelling.affine, shortens=True)
def fuse(b, x, **found):
    n = read(b, x, found)
    axis = require_some(instance_axis(b, n))
    n = with_epsilon(b, n, found)
    size = require_some(n.channels(axis), "the number of channels is not known")
    dtype = b.dtype(b.root.outputs[0])
    require(dtype != TensorProto.DOUBLE or b.dtype(x) == dtype, "it computes in double precision")
    parts = merged(b, n, [axis], dtype)
    outer = outer_part(found)
    require(parts is not None or outer is None, f"the {outer} is not one number a channel")
    source = narrowed(b, x, dtype)
    factors = [vector(b, f, size, dtype) for f in parts or (np.ones(1), np.zeros(1))]
    perm = [0, n.rank - 1, *range(1, n.rank - 1)]
    y = b.InstanceNormalization(source if axis == 1 else source_through(b, source, perm), *factors, epsilon=n.epsilon)
    if axis == 1:
        return y if parts else with_affine_behind(b, y, n)
    if b.lowering(y) == "decompose" and not undoes_transpose(source, perm):
        b.discard(y, source, *(parts or ()))
        return _shortened(b, n, source, parts, dtype)
    y = b.Transpose(y, perm=[0, *range(2, n.rank), 1])
    return y if parts else with_affine_behind(b, y, n)


folded = op.Reshape(x, ANY)


@rule(op.Reshape(Spelling(folded).affine, ANY), shortens=True)
def between_reshapes(b, x, **found):
    """[N, C, ...] as [N, C, all the rest]."""
    inner = next(m for m in b.matched if m.key == "Reshape" and m.inputs[0] is x and m is not b.root)
    n = read(b, inner.outputs[0], found)
    require(n.rank == 3 and instance_axis(b, n) == 1)
    require(n.dims[:2] == b.known_dims(x)[:2] and same_shape(b, b.root.outputs[0], x))
    n = with_epsilon(b, n, found)
    size, dtype = require_some(n.channels(1), "the number of channels is not known"), b.dtype(b.root.outputs[0])
    parts = require_some(merged(b, n, [1], dtype), "the scale or the shift is not one number a channel")
    source = narrowed(b, x, dtype)
    return b.InstanceNormalization(source, *(vector(b, f, size, dtype) for f in parts), epsilon=n.epsilon)


def _shortened(b: Builder, n: Normalisation, source: Value, parts: tuple[Factor, Factor] | None, dtype: int) -> Value:
    """The shortest chain, channels last as the file has it."""
    y = normalised(b, source, n.axes, n.epsilon)
    if parts is None:
        return b.typed(with_affine_behind(b, y, n), dtype)
    return with_affine(b, y, *parts, dtype)


# ---- what is around it -----------------------------------------------------------------------------------------------


@rule(op.Mul(node, var("outer_scale")) | op.Add(node, var("outer_shift")))
def behind(b, x, scale, bias, epsilon, **outer):
    return b.InstanceNormalization(x, *channels_with_behind(b, x, scale, bias, **outer), epsilon=epsilon)


@rule(
    op.Transpose(op.Transpose(node, perm=attr("inner")), perm=attr("outer"))
    | op.InstanceNormalization(op.Reshape(x, ANY), scale, bias, epsilon=epsilon)
    | op.Reshape(node, ANY)
)
def where_it_was(b, x, scale, bias, epsilon, inner=None, outer=None):
    """Beside the node is what moves nothing."""
    beside = b.root.outputs[0] if b.root.key == "Reshape" else b.root.inputs[0]
    require(same_shape(b, beside, x) if inner is None else cancel(inner, outer))
    return b.InstanceNormalization(x, scale, bias, epsilon=epsilon)


@rule(op.Reshape(op.InstanceNormalization(op.Reshape(x, ANY), const("scale"), const("bias"), epsilon=epsilon), ANY))
def batch_in_channels(b, x, scale, bias, epsilon):
    """[N, C, ...] as [1, N C, ...]: every instance is a channel there, with the scales repeated N times."""
    inside = next(m for m in b.matched if m.key == "InstanceNormalization")
    whole, folded = (require_some(b.dims(v)) for v in (x, inside.inputs[0]))
    require(folded[2:] == whole[2:] and folded[0] == 1 != whole[0] and isinstance(whole[1], int))
    require(same_shape(b, b.root.outputs[0], x), "it is not reshaped back")
    size = whole[1]
    for name, factor in (("scale", scale), ("bias", bias)):
        same = np.array_equal(np.resize(factor[:size], factor.size), factor)
        require(same, f"the {name} differs from instance to instance")
    return b.InstanceNormalization(x, scale[:size], bias[:size], epsilon=epsilon)


deviation = op.Sub(x, mean(x, "second"))
by_statistics = op.BatchNormalization(
    x, scale, bias, mean(x, "first"), mean(square(deviation), "square"), epsilon=epsilon
)


def _require_one_instance(b: Builder, x: Value) -> list[Dim]:
    """The dimensions of x, [1, C, ...]; declines for other ones."""
    shape = require_some(b.dims(x))
    require(len(shape) >= 3)
    require(shape[0] == 1, "it normalises over the batch, which is not one")
    return shape


@rule(by_statistics)
def batch_norm_by_its_statistics(b, x, scale, bias, epsilon, **counts):
    """BatchNormalization with the mean and variance of its own input, whose batch is one."""
    shape = _require_one_instance(b, x)
    wanted = {0, *range(2, len(shape))}
    for m in b.matched:
        if m.key.startswith("Reduce"):
            axes = b.value(m.operands()[1]) if len(m.operands()) > 1 else None
            same = axes is not None and {int(a) % len(shape) for a in axes.reshape(-1)} == wanted
            require(same, "its statistics are over other axes")
    require(not counts, "its statistics are sums")
    return b.InstanceNormalization(x, scale, bias, epsilon=epsilon)


@rule(op.BatchNormalization(x, scale, bias, ANY, ANY, epsilon=epsilon))
def batch_norm_in_training(b, x, scale, bias, epsilon):
    """BatchNormalization in training mode: of a batch of one, the statistics are those of the instance."""
    training = b.root.attr("training_mode") if b.opset >= 14 else len(b.root.outputs) > 1
    require(training)
    _require_one_instance(b, x)
    return b.InstanceNormalization(x, scale, bias, epsilon=epsilon)


# ---- writing it ------------------------------------------------------------------------------------------------------


@rule(node, strategy="decompose")
def decompose(b, x, scale, bias, epsilon):
    rank = b.known_rank(x)
    require(rank > 2, "it has no spatial axes")
    y = _by_layer_norm(b, x, scale, bias, epsilon)
    if y is not None:
        return y
    y = normalised(b, x, range(2, rank), epsilon)
    row = None if is_uniform(b, scale, 1) else of_channels(b, scale, rank)
    offset = None if is_uniform(b, bias, 0) else of_channels(b, bias, rank)
    return with_affine(b, y, row, offset, b.dtype(x))


def _by_layer_norm(b: Builder, x: Value, scale: Value, bias: Value, epsilon: float) -> Value | None:
    """A layer normalisation, where the chain would be read as one by the next run and the target has a node for it."""
    shape = b.known_dims(x)
    n = Normalisation(x, shape, (2,), epsilon)
    if n.rank != 3 or not isinstance(shape[2], int) or b.opset < LAYER_NORM or instance_axis(b, n) is not None:
        return None
    if not (is_uniform(b, scale, 1) and is_uniform(b, bias, 0)):
        return None
    ones = vector(b, np.ones(1), shape[2], b.dtype(x))
    y: Value = b.LayerNormalization(x, ones, axis=-1, epsilon=epsilon)
    if b.lowering(y) == "keep":
        return y
    b.discard(y)
    return None


plugin = rewrites(node, op.SurgeonInstanceNorm(x, scale, bias, epsilon=epsilon, **PLUGIN), strategy="plugin")


def _stock_refuses(model: Model, node: Node) -> str:
    """Why the stock plugin does not take a node; empty where it does."""
    shapes = [() if i is None else model.shape(i) or () for i in node.inputs]
    x = node.inputs[0]
    dtype = TensorProto.UNDEFINED if x is None else model.dtype(x)
    if dtype not in (TensorProto.FLOAT, TensorProto.FLOAT16) or len(shapes[0]) not in (3, 4, 5):
        return "the stock plugin takes fp32 and fp16 of three to five dimensions"
    sizes = [shapes[0][1], *shapes[1], *shapes[2]]
    known = any(isinstance(size, int) for size in sizes)
    return "" if known else "the stock plugin takes no unknown number of channels"


@rule(node, strategy="plugin", library="stock", refuses=_stock_refuses)
def stock_plugin(b, x, scale, bias, epsilon):
    """Scale and bias are attributes: computed ones are applied to the result."""
    rank, s, t = b.rank(x), b.value(scale), b.value(bias)
    size = next(d for d in (b.shape(x)[1], *(b.shape(scale) or ()), *(b.shape(bias) or ())) if isinstance(d, int))
    scales = np.ones(size) if s is None else s
    shifts = np.zeros(size) if s is None or t is None else t
    y = b.InstanceNormalization_TRT(
        b.Unsqueeze(x, axes=[rank]) if rank == 3 else x,
        domain=DOMAIN,
        epsilon=epsilon,
        scales=np.broadcast_to(scales, (size,)).astype(np.float32).tolist(),
        bias=np.broadcast_to(shifts, (size,)).astype(np.float32).tolist(),
        plugin_version=b.target.stock_version("InstanceNormalization_TRT"),
        plugin_namespace="",
    )
    why = b.why_unsupported(y.producer)
    require(why is None, f"{why}")
    y = b.Squeeze(y, axes=[rank]) if rank == 3 else y
    row = of_channels(b, scale, rank) if s is None and not is_uniform(b, scale, 1) else None
    offset = of_channels(b, bias, rank) if (s is None or t is None) and not is_uniform(b, bias, 0) else None
    return with_affine(b, y, row, offset, b.dtype(x))


@model_rule(stage=Stage.LOWER)
def with_slope(editor):
    """The plugin applies a LeakyRelu or Relu that alone reads its result.

    A rule rooted there would be the target's to keep.
    """
    for node in editor.nodes(("LeakyRelu", "Relu").__contains__):
        inside = node.inputs[0].producer if node.inputs[0] is not None else None
        if editor.excluded(node) or inside is None or not _takes_slope(editor.model, inside, node):
            continue
        b = editor.builder(node)
        slope = node.attr("alpha") if node.key == "LeakyRelu" else 0.0
        editor.replace(node, [b.node(inside.op, inside.inputs, 1, DOMAIN, {**inside.attrs, "slope": slope})], b)


def _takes_slope(model: Model, inside: Node, activation: Node) -> bool:
    """Whether a node is a plugin that surgeon wrote and that can apply the activation after it, its only reader."""
    if inside.key != f"{DOMAIN}::SurgeonInstanceNorm" or inside.origin is None or inside.graph is not activation.graph:
        return False
    y = output_of(inside)
    if len(y.users) > 1 or y.is_output:
        return False
    if activation.key == "LeakyRelu":
        return True
    # a computed factor may be inf, and 0 times that is NaN
    return all(model.constant(factor) is not None for factor in inside.inputs[1:])


@meaning("SurgeonInstanceNorm")
def surgeon_instance_norm(f, x, scale=None, bias=None, *, epsilon, slope=1.0):
    return _spelled(f, x, scale, bias, epsilon, slope)


@meaning("InstanceNormalization_TRT")
def stock_instance_norm(f, x, *, epsilon, scales, bias):
    return _spelled(f, x, np.asarray(scales, np.float32), np.asarray(bias, np.float32), epsilon, 1.0)


def _spelled(f: Any, x: Any, scale: Any, bias: Any, epsilon: float, slope: float) -> Any:
    """Over x as [N, C, all the rest], in fp32 (in double for double)."""
    dtype, type = f.dtype, TensorProto.DOUBLE if f.dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    f.compute_in(type)
    flat = f.Cast(f.Reshape(x, np.asarray([0, 0, -1], np.int64)), to=type)
    d = f.Sub(flat, f.ReduceMean(flat, axes=[2], keepdims=1))
    y = f.Div(d, f.Sqrt(f.Add(f.ReduceMean(f.Mul(d, d), axes=[2], keepdims=1), epsilon)))
    for kind, factor in (("Mul", scale), ("Add", bias)):
        if factor is not None:
            y = getattr(f, kind)(y, f.Cast(f.Reshape(factor, np.asarray([-1, 1], np.int64)), to=type))
    if slope != 1.0:
        y = f.LeakyRelu(y, alpha=slope)
    return f.Reshape(f.Cast(y, to=dtype), f.Shape(x))
