"""Write out the constants of Selu.

Why       Every TensorRT parser up to 11.0, and TensorRT-RTX, rounds Selu's default constants to 1.6732 and 1.0507: 6.8e-5 off, measured
          with TensorRT 8.4. It takes them right where the file writes them.
Rewrites  Selu(x) with alpha or gamma left out       ->  Selu(x, alpha=1.6732632, gamma=1.0507010)
          gamma * Elu(x, alpha)                      ->  Selu(x, alpha, gamma)
Exact     To the last bit: the constants are those of ONNX.
"""

from surgeon import Stage, attr, const, op, require, rewrite, var

from ._linear import fits
from ._types import require_op

x, gamma = var("x"), const("gamma")


@rewrite(op.Elu(x, alpha=attr("alpha")) * gamma, stage=Stage.FUSE)
def fuse(b, x, alpha, gamma):
    require(gamma.size == 1 and fits(b, x, gamma.shape), "")
    require(alpha > 0 and float(gamma.reshape(-1)[0]) > 0, "Selu's constants are positive")
    require_op(b, "Selu", x)
    return b.Selu(x, alpha=alpha, gamma=float(gamma.reshape(-1)[0]))


@rewrite(op.Selu(x, alpha=attr("alpha"), gamma=attr("gamma")), stage=Stage.LOWER, strategy="decompose")
def with_constants(b, x, alpha, gamma):
    require(not {"alpha", "gamma"} <= b.root.attrs.keys(), "")
    return b.Selu(x, alpha=alpha, gamma=gamma)
