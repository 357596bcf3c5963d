"""What operators do to the size of numbers, and which of them need fp32 whatever the numbers are.

The degree of a tensor is the power of the model's inputs with which its numbers grow. Inputs have 1, constants 0,
x * x has 2, a norm 1, x / norm 0, 1 / norm -1. Weights are assumed to keep sizes. With a degree between 0 and 1,
numbers are as large as the model's inputs, or bounded. With another, inputs of a few hundred leave the range of fp16
(65504 to 6e-8).
"""

from collections.abc import Collection, Sequence

from surgeon.ir.following import readers, sources
from surgeon.ir.graph import Node, Value
from surgeon.ir.iteration import RECURRENT
from surgeon.ir.lattice import FLOATS, HALVES
from surgeon.ir.model import Model
from surgeon.ir.operators import (
    BOUNDED,
    BROADCASTS,
    COMMUTATIVE,
    COMPARES,
    ELEMENTWISE,
    EXACT,
    FILLS,
    MEASURES,
    MOVES,
    NORMALIZES,
    PICKS,
    PRODUCTS,
    REDUCES,
    RISING,
    SLIDES,
    words,
)
from surgeon.targets.tables import SHAPE_INPUTS

# The degree of what no norm brings back: exponentials, products over an axis, constants beyond fp16.
UNBOUNDED = 4.0

# What a spectrum is computed of: filters, squares, sums and roots, but no activation.
SPECTRAL = MOVES | FILLS | PRODUCTS | REDUCES | BROADCASTS | words("Abs Neg Sqrt")

# They do not round, so they get the type of their neighbours.
KEEPS_NUMBERS = EXACT | {"Dropout"}
# What a conversion is for: they sum in fp32 on tensor cores. In half precision unless their numbers do not fit.
HEAVY = PRODUCTS
# Normalizations that compute in fp32 inside, whatever the types of inputs and outputs: by ONNX's stash_type, and in
# TensorRT by INormalizationLayer's default and in its plugin for InstanceNormalization.
INSIDE_FP32 = NORMALIZES - words("LRN LpNormalization MeanVarianceNormalization")
# Their sums, squares or exponentials leave fp16, or lose digits there, even if inputs and outputs do not.
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
# What a run of the model does not show: they square, exponentiate or sum inside, since parsers write them out. Softmax
# in fp32 between casts costs nothing on TensorRT-RTX. A ReduceSum is as large as its result.
STAYS = SENSITIVE.keys() - ELEMENTWISE - {"ReduceSum"}
# Sensitive because of the range of their numbers alone: measured ranges decide instead.
BY_RANGE = ELEMENTWISE & SENSITIVE.keys() - words("Sin Cos Tan Mod")

# Return numbers of one size whatever they read, or no floats. The logarithm of a number of fp32 is at
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
    exponent  that of a Pow, None where it is not one constant number
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


AVERAGES = (REDUCES | SLIDES | {"GlobalAveragePool"}) - PICKS
RANKS = {"TopK": 0, "ArgMax": 0, "ArgMin": 0, "NonMaxSuppression": 1}  # the input that is ranked
# What turns logits into scores: rounding makes close values equal, near 0 and 1 most of all.
SCORES = words("Sigmoid Softmax LogSoftmax HardSigmoid Tanh")


def ranked(model: Model) -> set[Node]:
    """The nodes between what an operator ranks and the Sigmoid or Softmax that makes it, and these."""
    found: set[Node] = set()
    for scope in model.scopes:
        for node in scope.live():
            if node.op not in RANKS:
                continue
            makers = {v.producer for v in sources([node.inputs[RANKS[node.op]]], lambda n: n.op in PASSED)}
            chain = {n for n in makers if n is not None and n.op in PASSED | SCORES}
            if any(n.op in SCORES for n in chain):
                found |= chain | {node}
    return found


def sizing(model: Model) -> set[Node]:
    """The nodes of whose numbers the size of a tensor is computed, such as durations of which a length is the sum."""
    nodes = [node for scope in model.scopes for node in scope.live()]
    sizes = [node.inputs[k] for node in nodes for k in SHAPE_INPUTS.get(node.key, ()) if k < len(node.inputs)]
    makers = (v.producer for v in sources(sizes, lambda node: node.op not in MEASURES) if not model.is_constant(v))
    return {node for node in makers if node is not None and node.op not in MEASURES}


def has_half_products(model: Model) -> bool:
    """Whether the file computes a product in half precision: whoever wrote it chose the types of all its nodes.

    It may be an earlier conversion, which kept some in fp32 for their error.
    """
    heavy = (node for scope in model.scopes for node in scope.live() if node.op in HEAVY)
    return any(o is not None and model.dtype(o) in HALVES for node in heavy for o in node.outputs)


def variances(model: Model) -> set[Node]:
    """The nodes that compute a variance as E[x^2] - E[x]^2.

    Where the mean is larger than the deviation, half precision leaves none of the digits of the difference.
    """
    found: set[Node] = set()
    for node in (n for scope in model.scopes for n in scope.live() if n.key == "Sub"):
        squares, square = _before(model, node.inputs[0]), _before(model, node.inputs[1])
        if not squares or not square or squares[-1].op not in AVERAGES or not _is_square(model, square[-1]):
            continue
        squared, mean = _before(model, squares[-1].inputs[0]), _before(model, square[-1].inputs[0])
        is_mean = bool(mean) and mean[-1].op in AVERAGES
        if is_mean and (squares[-1].op == "ReduceSumSquare" or (squared and _is_square(model, squared[-1]))):
            found.update([node, *squares, *square, *mean])
            found.update(squared if squares[-1].op != "ReduceSumSquare" else ())
    return found


def _before(model: Model, value: Value | None) -> list[Node]:
    """The nodes that move or scale numbers before a tensor, the last one first, and the one before them."""
    found: list[Node] = []
    while value is not None and value.producer is not None:
        node = value.producer
        found.append(node)
        varying = [v for v in node.inputs if v is not None and not model.is_constant(v)]
        if node.op not in MOVES | {"Cast", "Mul", "Div"} or len(varying) != 1:
            break
        value = varying[0]
    return found


def _is_square(model: Model, node: Node) -> bool:
    if node.key == "Mul":
        return node.inputs[0] is node.inputs[1]
    exponent = model.constant(node.inputs[1]) if node.key == "Pow" and node.inputs[1] is not None else None
    return exponent is not None and exponent.size == 1 and float(exponent.reshape(())) == 2.0


def chosen_outputs(model: Model) -> set[str]:
    """The outputs of a model whose rows a TopK, an ArgMax or a NonMaxSuppression chooses, or puts in order."""
    ranking = [node for scope in model.scopes for node in scope.live() if node.op in RANKS]
    after = readers((o for node in ranking for o in node.outputs if o is not None), lambda node: True)
    made = (o for node in (*ranking, *(user for user, _ in after)) for o in node.outputs)
    return {o.name for o in made if o is not None and o.is_output}


def whole_outputs(model: Model) -> set[str]:
    """The outputs of a model of floats that are integers, or true and false, such as a mask after a comparison."""
    found = set()
    for output in (v for v in model.graph.values.values() if v.is_output and model.dtype(v) in FLOATS):
        maker = _maker(output, MOVES)
        if maker is not None and maker.key == "Cast" and maker.inputs[0] and model.dtype(maker.inputs[0]) not in FLOATS:
            found.add(output.name)
    return found


def scored_outputs(model: Model) -> dict[str, Node]:
    """The outputs of a model that a Sigmoid or a Softmax makes, by name, each with that node."""
    found = {}
    for output in (v for v in model.graph.values.values() if v.is_output):
        maker = _maker(output, MOVES | {"Cast"})
        if maker is not None and maker.key in ("Sigmoid", "Softmax") and maker.graph is model.graph:
            found[output.name] = maker
    return found


def _maker(value: Value, through: Collection[str]) -> Node | None:
    """The node that makes the numbers of a tensor, before the operators that are looked `through`."""
    node = value.producer
    while node is not None and node.op in through and len(node.outputs) == 1 and node.inputs[0]:
        node = node.inputs[0].producer
    return node


def fits(degree: float) -> bool:
    """Whether a tensor of this degree is at most as large as the model's inputs, and does not shrink with them."""
    return 0.0 <= degree <= 1.0


def spectra(model: Model) -> list[frozenset[Node]]:
    """For each Log of the main graph the nodes that compute what it reads, up to the last activation.

    What a filter rounds is relative to its largest result, and the Log makes it a large error in a quiet band. Which
    bands are quiet depends on the inputs: where a search keeps one filter in fp32, the others stay, too.
    """

    def counts(node: Node | None) -> bool:
        return node is not None and node.key in SPECTRAL

    found = (sources(log.inputs, counts) for log in model.graph.of(["Log"]))
    return [frozenset(v.producer for v in values if v.producer is not None and counts(v.producer)) for values in found]
