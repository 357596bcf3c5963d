"""Fuse LeakyRelu however it was exported, and write it as the target takes it.

Why       TensorRT has a LeakyRelu kernel in every version from 6 on, which fuses into the convolution in front of it;
          Max(x, alpha * x) and the other spellings run as kernels of their own and fuse with nothing.
Rewrites  Max(x, alpha * x) for 0 <= alpha <= 1                       ->  LeakyRelu(x)
Exact     To rounding.
"""

from surgeon import Stage, attr, const, op, require, rewrite, var

x, alpha = var("x"), const("alpha")


@rewrite(op.Max(x, x * alpha), stage=Stage.FUSE)
def maximum(b, x, alpha):
    require(alpha.size == 1, "alpha is not a scalar")
    require(0 <= float(alpha.reshape(())) <= 1, f"alpha is {float(alpha.reshape(())):g}, and the maximum is LeakyRelu for 0 to 1 alone")
    return b.LeakyRelu(x, alpha=float(alpha.reshape(())))


@rewrite(op.LeakyRelu(x, alpha=attr("alpha")), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x, alpha):
    if 0 < alpha <= 1:
        return b.Max(x, b.Mul(x, alpha))
    return b.Sub(b.Relu(x), b.Mul(b.Relu(b.Neg(x)), alpha))
