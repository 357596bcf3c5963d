"""Fuse Mish, and write it out for targets without it.

Why       Mish is x * tanh(softplus(x)). TensorRT reads the node from 10.0 on; YOLOv4 and its heirs spell it in up to
          nine operators.
Rewrites  x * tanh(Softplus(x))                                    ->  Mish(x), from opset 18 on, which has it
          x * n / (n + 2) with n = exp(x)^2 + 2 * exp(x)  ->  x * tanh(Softplus(x)): the quotient is NaN from x = 45 on
          (log(1 + exp(x)) and the threshold of 20 in front of it are the business of the pass softplus.)
Decompose x * tanh(Softplus(x)), what TensorRT itself makes of the node.
Exact     To rounding.
"""

from surgeon import Stage, op, require, rewrite, var

from ._types import require_op

x = var("x")

exp = op.Exp(x)
grown = exp * exp + exp * 2 | exp * (exp + 2) | op.Pow(exp + 1, 2) - 1 | (exp + 1) * (exp + 1) - 1
quotient = grown / (grown + 2)


@rewrite(x * op.Tanh(op.Softplus(x)), stage=Stage.FUSE)
def fuse(b, x):
    require_op(b, "Mish", x)
    return b.Mish(x)


@rewrite(x * quotient | (x * grown) / (grown + 2), stage=Stage.FUSE)
def fuse_quotient(b, x):
    require_op(b, "Softplus", x)
    return b.Mul(x, b.Tanh(b.Softplus(x)))


@rewrite(op.Mish(x), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x):
    require_op(b, "Softplus", x)
    require(not (b.target.dla and b.target.imports("Mish")), "DLA has no Softplus either: it stays whole, on the GPU")
    return b.Mul(x, b.Tanh(b.Softplus(x)))
