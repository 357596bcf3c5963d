"""What operators do to the size of numbers, and which of them need fp32 whatever the numbers are.

The size of a tensor is told by its degree: the power of the model's inputs with which it grows. Inputs have 1,
constants 0, x * x has 2, a norm 1, x / norm 0, 1 / norm -1. Weights are taken to keep sizes. Between 0 and 1 a tensor
is as large as what the model is fed, or bounded; outside, inputs of a few hundred leave the range of fp16 (65504 to
6e-8).
"""

from __future__ import annotations

from collections.abc import Sequence

from surgeon.ir.iteration import RECURRENT
from surgeon.ir.operators import (
    BOUNDED,
    COMMUTATIVE,
    COMPARES,
    ELEMENTWISE,
    EXACT,
    MOVES,
    NORMALIZES,
    PICKS,
    PRODUCTS,
    REDUCES,
    RISING,
    words,
)

# Of what grows faster than any norm takes back: exponentials, products over an axis, constants beyond fp16.
UNBOUNDED = 4.0

# No rounding of their own, so they take the type of their neighbours.
KEEPS_NUMBERS = EXACT | {"Dropout"}
# What a conversion to fp16 is made for: they sum in fp32 on tensor cores. fp16 unless their numbers do not fit.
HEAVY = PRODUCTS
# Their own sums, squares or exponentials leave fp16, or lose digits there, whatever comes in and goes out.
SENSITIVE = {
    **dict.fromkeys(NORMALIZES | {"SimplifiedLayerNormalization", "SkipLayerNormalization"}, "a normalisation"),
    **dict.fromkeys(
        words("Softmax LogSoftmax Exp Softplus Sinh Cosh Pow Log"), "an exponential, a power or a logarithm"
    ),
    **dict.fromkeys(
        REDUCES - PICKS | words("GlobalAveragePool GlobalLpPool LpPool CumSum CumProd"), "a sum over many numbers"
    ),
    "Reciprocal": "a reciprocal",
    **dict.fromkeys(words("Sin Cos Tan Range Mod STFT DFT MelWeightMatrix"), "digits of large arguments"),
}
# Sensitive by the range of their numbers alone: measured ranges overrule the rule.
BY_RANGE = ELEMENTWISE & SENSITIVE.keys() - words("Sin Cos Tan Mod")

# Return numbers of one size whatever comes in, or numbers that are no floats. The logarithm of a number of fp32 is at
# most 104; LRN divides by a power of the sum, and the outputs of recurrent operators are between -1 and 1.
LOGARITHMS = words("Log LogSoftmax ReduceLogSum ReduceLogSumExp")
OF_ONE_SIZE = BOUNDED | COMPARES | LOGARITHMS | NORMALIZES - {"LRN"} | RECURRENT | {"OneHot"}
# Return numbers as large as the largest that they read, in either direction.
AS_THE_LARGEST = MOVES | PICKS | RISING & COMMUTATIVE | {"Sub"}


def degree(op: str, inputs: Sequence[float | None], exponent: float | None = None) -> float:
    """The degree of an operator's outputs.

    inputs    the degrees of its float inputs, None for one that is constant
    exponent  that of a Pow, None where it is no constant number
    """
    varying = [d for d in inputs if d is not None]
    if op in OF_ONE_SIZE or not varying:
        return 0.0
    if op == "Mul":
        return sum(varying)
    if op in HEAVY:  # a product of two activations grows like one; trained weights keep the size of what they multiply
        return sum(varying) if len(varying) == len(inputs) else min(max(varying), 1.0)
    if op == "Div":
        first, second = (*inputs, None)[:2]
        return (first or 0.0) - (second or 0.0)
    if op == "Reciprocal":
        return -varying[0]
    if op == "Sqrt":
        return varying[0] / 2
    if op == "ReduceSumSquare":
        return 2 * varying[0]
    if op == "Pow":
        return UNBOUNDED if exponent is None or inputs[0] is None else varying[0] * exponent
    if op in ("Exp", "Sinh", "Cosh", "ReduceProd", "CumProd"):
        return UNBOUNDED
    if op in AS_THE_LARGEST:
        return max(varying, key=abs)
    return max(varying)


def fits(degree: float) -> bool:
    """Whether a tensor of this degree is as large as what the model is fed, or smaller but not ever smaller."""
    return 0.0 <= degree <= 1.0


__all__ = ["BY_RANGE", "HEAVY", "KEEPS_NUMBERS", "SENSITIVE", "UNBOUNDED", "degree", "fits"]
