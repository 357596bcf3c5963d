"""Fuse Swish (SiLU, QuickGelu), and write it with other operators for targets without it.

Why       TensorRT reads the node from 11.0 on, and ONNX has it from opset 24 on. Before that Sigmoid and Mul are the
          best form there is, and TensorRT fuses the two by itself.
Rewrites  x * sigmoid(beta * x)          ->  Swish(x, alpha=beta), from opset 24 on; QuickGelu is beta = 1.702
          x * sigmoid(1 * x)             ->  x * sigmoid(x), at every opset: TensorFlow writes the 1
          x / (1 + exp(-beta * x))       ->  x * sigmoid(beta * x): exp overflows
Decompose x * sigmoid(beta * x).
Exact     To rounding.
Price     [1,64,56,56] in ONNX Runtime on one thread: 2 nodes, 0.06 ms next to 0.11 of its own node.
"""

from surgeon import attr, const, op, require, rewrites, rule, var

from ._piecewise_linear import fits

x, beta = var("x"), const("beta")


@rule(x * op.Sigmoid(x * beta | x))
def fuse(b, x, beta=None):
    b.require_op("Swish", x)
    require(beta is None or (beta.size == 1 and fits(b, x, beta.shape)), "beta is not a single number")
    return b.Swish(x, alpha=1.0 if beta is None else float(beta.reshape(())))


longer = x * op.Sigmoid(x * 1) | x / (op.Exp(op.Neg(x)) + 1)
shorten = rewrites(longer, x * op.Sigmoid(x), requires="Sigmoid")


@rule(x / (op.Exp(op.Neg(x * beta) | x * beta) + 1))
def fuse_quotient_scaled(b, x, beta):
    require(beta.ndim == 0, "beta is not a single number")
    b.require_op("Sigmoid", x)
    negated = b.root.inputs[1].producer
    exp = next(v.producer for v in negated.inputs if v.producer is not None and v.producer.key == "Exp")
    factor = beta if exp.inputs[0].producer.key == "Neg" else -beta
    return b.Mul(x, b.Sigmoid(b.Mul(x, factor)))


@rule(op.Swish(x, alpha=attr("alpha")), strategy="decompose")
def decompose(b, x, alpha):
    return b.Mul(x, b.Sigmoid(x if alpha == 1 else b.Mul(x, alpha)))
