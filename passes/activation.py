"""Fuse the activations that every TensorRT has a kernel for: Sigmoid, Softsign, Elu, ThresholdedRelu.

Why       One kernel in place of three to seven, which fuses into the layer before it; and exp overflows where
          they do not.
Rewrites  1 / (1 + exp(-x))                                         ->  Sigmoid(x)
          x / (1 + abs(x))                                          ->  Softsign(x)
          Where(x > 0, x, alpha * (exp(x) - 1))                     ->  Elu(x, alpha)
          max(x, 0) + min(0, alpha * (exp(x) - 1))                  ->  Elu(x, alpha), alpha > 0
          max(x, 0) + alpha * (exp(min(x, 0)) - 1)                  ->  Elu(x, alpha)
          Where(x > alpha, x, 0)    Where(x <= alpha, 0, x)         ->  ThresholdedRelu(x, alpha), from opset 10 on
          (2 * sigmoid(2 * x) - 1 stays: it gives 0 for denormal x, where tanh gives x, which a proof sees. ScaledTanh
          and ParametricSoftplus, which TensorRT reads too, are not ONNX operators: its checker refuses them.)
Exact     To rounding.
"""

import numpy as np

from surgeon import Builder, Pattern, Value, const, op, require, rewrites, rule, var
from surgeon.ir.following import divides, readers
from surgeon.ir.operators import KEEP_ZERO, MOVES

from ._clipped import by_sign, falling, rising

x, alpha = var("x"), const("alpha")

# Operators after which a 0 still is one, or makes one.
HANDS_ON = MOVES | KEEP_ZERO | {"Dropout", "ReduceMin", "ReduceProd", "Where"}

inverse = op.Exp(op.Neg(x)) + 1


@rule(1 / inverse | op.Reciprocal(inverse))
def sigmoid(b, x):
    b.require_op("Sigmoid", x)
    why = "what a logarithm or a quotient makes of a Sigmoid that is rounded to 0 is not a number"
    # ONNX Runtime's Sigmoid is 0 from -18 down, where the spelling is a number down to -88
    read = readers([b.root.outputs[0]], lambda node: node.key in HANDS_ON)
    require(not any(node.key == "Log" or divides(node, v) for node, v in read), why)
    return b.Sigmoid(x)


softsign = rewrites(x / (op.Abs(x) + 1), op.Softsign(x), requires="Softsign")


def less_one(e: Pattern) -> Pattern:
    """alpha * (e - 1)"""
    return (e - 1 | e + (-1)) * alpha | (e - 1 | e + (-1))


curve = less_one(op.Exp(x))


@rule(by_sign(x, x, curve) | rising(x) + less_one(op.Exp(falling(x))))
def elu(b, x, alpha=None):
    return _elu(b, x, alpha)


@rule(rising(x) + falling(curve))
def elu_cut(b, x, alpha=None):
    require(alpha is None or (alpha >= 0).all(), "with alpha below 0 it is not an Elu")
    return _elu(b, x, alpha)


def _elu(b: Builder, x: Value, alpha: np.ndarray | None) -> Value:
    require(alpha is None or alpha.ndim == 0, "alpha is not a single number")
    b.require_op("Elu", x)
    return b.Elu(x, alpha=1.0 if alpha is None else float(alpha))


@rule(
    op.Where(op.Greater(x, alpha) | op.Less(alpha, x), x, 0)
    | op.Where(op.LessOrEqual(x, alpha) | op.GreaterOrEqual(alpha, x), 0, x)
)
def thresholded_relu(b, x, alpha):
    require(alpha.ndim == 0, "alpha is not a single number")
    b.require_op("ThresholdedRelu", x)
    return b.ThresholdedRelu(x, alpha=float(alpha))
