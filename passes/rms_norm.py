"""Fuse a root-mean-square normalisation, however it was exported, and write it as the target supports it.

Why       Before opset 23 every exporter spells it as six to nine nodes. RMSNormalization is native from TensorRT 10.15
          on; an older parser has no importer for it.
Rewrites  x / sqrt(mean(x^2) + eps) [* scale], with Pow or Mul, Sqrt and Div, Reciprocal or Pow(-0.5)
          over trailing axes from opset 23 on                       ->  RMSNormalization
          before that, or over one other axis (StyleGAN's pixels)   ->  Mul ReduceMean Add Sqrt Div [Mul]
          RMSNormalization * scale, along the same axes             ->  RMSNormalization
          RMSNormalization where the target has none                ->  Mul ReduceMean Add Sqrt Div [Mul]
          Over several axes it needs a scale of their shape: filter response normalisation, whose scale is by channel,
          is left alone.
Exact     To rounding. Sums of fp16 and bf16 are in fp32.
Price     [1,128,768] in ONNX Runtime on one thread: 6 nodes, 0.07 ms next to 0.03 of its own node.
"""

import numpy as np
from onnx import TensorProto

from surgeon import DOMAIN, Builder, Value, attr, meaning, op, require, require_some, rewrites, rule, var

from ._norm.factors import Factor, along_axes, has_full_shape, merged, of_shape, vector
from ._norm.kind import is_centred
from ._norm.spelling import Spelling, scaled_behind
from ._norm.window import Normalisation, read, with_epsilon
from ._norm.writing import narrowed, normalised, opset_to_write, with_affine, with_weights, working_type

OPTIONS = ("repair_eps",)

x, scale = var("x"), var("scale")
epsilon = attr("epsilon")
spelling = Spelling(x, centred=False)
native = op.RMSNormalization(x, scale, axis=attr("axis"), epsilon=epsilon)
own = op.RMSNorm(x, scale | None, domain=DOMAIN, axes=attr("axes"), epsilon=epsilon)
NATIVE = 23  # the opset that brought RMSNormalization


@rule(spelling.scaled | spelling.bare | op.Cast(spelling.bare), shortens=True)
def fuse(b, x, **found):
    require(not is_centred(x))
    n = read(b, x, found)
    fits = n.axes and (n.is_trailing or len(n.axes) == 1) and n.axes[0] > 0
    require(fits, f"means of squares over the axes {list(n.axes)} of {n.rank} are not an RMS normalisation")
    n = with_epsilon(b, n, found)
    result = b.dtype(b.root.outputs[0])
    require(result != TensorProto.DOUBLE, "it computes in double precision")
    dtype = working_type(b, x, result)
    parts = merged(b, n, n.axes, dtype, weights=True)
    scale, shift = require_some(parts, "the scale varies along other axes than those of the mean")
    scale = scale if isinstance(scale, np.ndarray) else b.typed(scale, dtype)
    why = f"a mean of squares over the axes {list(n.axes)} without a scale of their shape is not an RMS normalisation"
    require(len(n.axes) == 1 or has_full_shape(b, n, [value for _, value in n.affine]), why)
    source = narrowed(b, x, dtype)
    if n.is_trailing and opset_to_write(b) >= NATIVE:
        has_size = n.is_static or isinstance(scale, Value) or scale.size > 1
        require(has_size, "the size of the last axis is not known")
        y = _native(b, source, n, (scale, shift), dtype)
        return b.typed(y, result)
    return b.typed(_own(b, source, n, (scale, shift), dtype), result)


behind = rewrites(
    scaled_behind(native | own), lambda b, **found: with_weights(b, _native, _own, **found), shortens=True
)


def _native(b: Builder, source: Value, n: Normalisation, parts: tuple[Factor, Factor], dtype: int) -> Value:
    """ONNX's RMSNormalization, of one scale for each element."""
    row = vector(b, parts[0], int(np.prod(n.sizes)) if n.is_static else None, dtype)
    scale = of_shape(b, row, n.sizes) if len(n.axes) > 1 else row
    return b.RMSNormalization(source, scale, axis=-len(n.axes), epsilon=n.epsilon)


def _own(b: Builder, source: Value, n: Normalisation, parts: tuple[Factor, Factor], dtype: int) -> Value:
    """surgeon's RMSNorm, over any axes, whose scale broadcasts against x."""
    row = along_axes(b, parts[0], [*n.sizes, *[1] * (n.rank - 1 - n.axes[-1])], dtype, 1)
    return b.RMSNorm(source, row, domain=DOMAIN, axes=list(n.axes), epsilon=n.epsilon)


@rule(native, strategy="decompose")
def decompose(b, x, scale, axis, epsilon):
    rank = b.known_rank(x)
    y = normalised(b, x, range(axis % rank, rank), epsilon, centred=False)
    return with_affine(b, y, scale, None, b.dtype(x))


@rule(own, strategy="decompose")
def decompose_own(b, x, axes, epsilon, scale=None):
    return with_affine(b, normalised(b, x, axes, epsilon, centred=False), scale, None, b.dtype(x))


@meaning("RMSNorm")
def rms_norm(f, x, scale=None, *, axes, epsilon):
    dtype = f.dtype
    f.compute_in(TensorProto.FLOAT)
    wide = f.Cast(x, to=TensorProto.FLOAT)
    y = f.Div(wide, f.Sqrt(f.Add(f.ReduceMean(f.Mul(wide, wide), axes=axes, keepdims=1), epsilon)))
    return f.Cast(y if scale is None else f.Mul(y, f.Cast(scale, to=TensorProto.FLOAT)), to=dtype)
