"""What operators do to the size of numbers, and which of them need fp32 whatever the numbers are.

The size of a tensor is told by its degree: the power of the model's inputs with which it grows. Inputs have 1,
constants 0, x * x has 2, a norm 1, x / norm 0, 1 / norm -1. Weights are taken to keep sizes. Between 0 and 1 a tensor
is as large as what the model is fed, or bounded; outside, inputs of a few hundred leave the range of fp16 (65504 to
6e-8).
"""

from __future__ import annotations

from collections.abc import Sequence

from surgeon.ir.graph import Node, Value
from surgeon.ir.iteration import RECURRENT
from surgeon.ir.model import Model
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
# What a conversion is made for: they sum in fp32 on tensor cores. In half precision unless their numbers do not fit.
HEAVY = PRODUCTS
# Normalizations that compute in fp32 inside, whatever goes in and out: by ONNX's stash_type, and in TensorRT by
# INormalizationLayer's default and in its plugin for InstanceNormalization.
INSIDE_FP32 = NORMALIZES - words("LRN LpNormalization MeanVarianceNormalization")
# Their own sums, squares or exponentials leave fp16, or lose digits there, whatever comes in and goes out.
SENSITIVE = {
    **dict.fromkeys(NORMALIZES - INSIDE_FP32, "a normalisation"),
    **dict.fromkeys(
        words("Softmax LogSoftmax Exp Softplus Sinh Cosh Pow Log"), "an exponential, a power or a logarithm"
    ),
    **dict.fromkeys(
        REDUCES - PICKS - {"ReduceMean"} | words("GlobalLpPool LpPool CumSum CumProd"), "a sum over many numbers"
    ),
    "Reciprocal": "a reciprocal",
    **dict.fromkeys(words("Sin Cos Tan Range Mod STFT DFT MelWeightMatrix"), "digits of large arguments"),
}
# In fp32 between casts they cost TensorRT-RTX nothing, and their exponentials keep their digits.
STAYS = words("Softmax LogSoftmax")
# Sensitive by the range of their numbers alone: measured ranges overrule the rule.
BY_RANGE = ELEMENTWISE & SENSITIVE.keys() - words("Sin Cos Tan Mod")

# Return numbers of one size whatever comes in, or numbers that are no floats. The logarithm of a number of fp32 is at
# most 104; LRN divides by a power of the sum, and the outputs of recurrent operators are between -1 and 1.
LOGARITHMS = words("Log LogSoftmax ReduceLogSum ReduceLogSumExp")
OF_ONE_SIZE = BOUNDED | COMPARES | LOGARITHMS | NORMALIZES - {"LRN"} | RECURRENT | {"OneHot"}
# Between scores and what ranks them.
PASSED = MOVES | PICKS | {"Mul", "Cast"}
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


RANKS = {"TopK": 0, "ArgMax": 0, "ArgMin": 0, "NonMaxSuppression": 1}  # the input that is ranked
# What makes scores of logits: values that rounding brings together, near 0 and 1 above all.
SCORES = words("Sigmoid Softmax LogSoftmax HardSigmoid Tanh")


def ranked(model: Model) -> set[Node]:
    """The nodes between what an operator ranks and the Sigmoid or Softmax that makes it, and these."""
    found: set[Node] = set()
    for scope in model.scopes:
        for node in scope.live():
            if node.op not in RANKS:
                continue
            chain, todo = [node], [node.inputs[RANKS[node.op]]]
            seen: set[Node] = set()
            while todo:
                value = todo.pop()
                maker = None if value is None else value.producer
                if maker is None or maker in seen or maker.op in HEAVY or maker.op not in PASSED | SCORES:
                    continue
                seen.add(maker)
                chain.append(maker)
                if maker.op not in SCORES:
                    todo += maker.inputs
            if any(n.op in SCORES for n in chain):
                found.update(chain)
    return found


def chosen_outputs(model: Model) -> set[str]:
    """The outputs of a model whose rows a TopK, an ArgMax or a NonMaxSuppression chooses, or puts in order."""
    found: set[Value] = set()
    for scope in model.scopes:
        todo = [o for n in scope.live() if n.op in RANKS for o in n.outputs if o is not None]
        while todo:
            value = todo.pop()
            if value in found:
                continue
            found.add(value)
            todo += [o for user in value.users for o in user.outputs if o is not None]
    return {v.name for v in found if v.is_output}


def fits(degree: float) -> bool:
    """Whether a tensor of this degree is as large as what the model is fed, or smaller but not ever smaller."""
    return 0.0 <= degree <= 1.0


__all__ = [
    "BY_RANGE",
    "HEAVY",
    "INSIDE_FP32",
    "KEEPS_NUMBERS",
    "SENSITIVE",
    "STAYS",
    "UNBOUNDED",
    "chosen_outputs",
    "degree",
    "fits",
    "ranked",
]
