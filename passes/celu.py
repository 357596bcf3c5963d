"""Fuse Celu, and write it with other operators for targets that compute it wrongly.

Why       TensorRT 7.2.3 to 8.2 compute Celu with a power where the product belongs: silently wrong. TensorRT-RTX and
          11.x refuse it in half precision; older releases have no importer. TensorRT has no kernel for it: where it
          takes the node, it makes six operators of it, and three of alpha * Elu(x / alpha).
Rewrites  max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))   ->  Celu(x, alpha), from opset 12 on; exp overflows
          Celu(x, alpha=1)                                   ->  Elu(x)
Decompose alpha * Elu(x / alpha). That form is as good as the node, and stays where a file has it. By a negative alpha
          the node is not an Elu, and the sum is written by which ONNX defines it.
Exact     To rounding.
Price     [1,64,56,56] in ONNX Runtime on one thread: 3 nodes, 0.43 ms next to 0.41 of its own Celu; with a negative
          alpha 7 nodes, and 0.20.
"""

from surgeon import attr, const, op, require, rewrites, rule, var

from ._clipped import falling, rising

x, alpha, divisor = var("x"), const("alpha"), const("divisor")


@rule(rising(x) + falling((op.Exp(x / divisor) - 1) * alpha))
def fuse(b, x, alpha, divisor):
    require(alpha.ndim == divisor.ndim == 0, "alpha is not a single number")
    require(float(alpha) == float(divisor) > 0, "what is multiplied by is not what is divided by")
    b.require_op("Celu", x)
    return b.Celu(x, alpha=float(alpha))


plain = rewrites(op.Celu(x, alpha=1.0), op.Elu(x, alpha=1.0))


@rule(op.Celu(x, alpha=attr("alpha")), strategy="decompose")
def decompose(b, x, alpha):
    require(1e-18 <= abs(alpha) <= 1e18, f"x / {alpha:g} is out of range")
    if alpha < 0:
        curve = b.Mul(b.Sub(b.Exp(b.Div(x, alpha)), 1.0), alpha)
        return b.Add(b.Relu(x), b.Min(curve, 0.0))
    return b.Mul(b.Elu(b.Div(x, alpha), alpha=1.0), alpha)
