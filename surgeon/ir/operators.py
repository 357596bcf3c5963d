"""What ONNX defines of its operators, a row an operator: the one place where sets of their names come from.

The other modules ask in set expressions, such as `ELEMENTWISE - COMPARES`. What a row says holds for every value of the
operator's attributes, unless a comment says for which. `tests/test_operators.py` runs it.

Traits:

elementwise   each element of the result follows from the elements of the inputs at the same position, broadcast
broadcasts    elementwise, and each input may be broadcast: the result has the largest size of each axis
commutative   the inputs may be in any order
rising        the result never falls where an input of numbers rises
falling       the result never rises where an input of numbers rises
zero          the result is 0 where the first input is and the others are positive numbers
bends         the first input has a bend, a pole or a jump at 0, and none elsewhere
moves         each element of the results is one of the inputs in `elements`; which one does not depend on these
order         moves, and leaves the elements in their order, each once
fills         moves, and fills the other positions with a constant
picks         each element of the results is one of the inputs in `elements`, chosen by what they or other inputs hold
exact         results in floating point are not rounded where inputs and results have one type
rounds        results in floating point are rounded
continuous    where floating-point inputs change little, so do the results
whole         the results are integers, whatever the inputs are
compares      two numbers give a bool
logical       bools give a bool
bool          the first result is a bool
measures      the result follows from the shape of the input
locates       the result is positions in the input
counts        the size of the result depends on the values of an input that is not a shape
reduces       one of the Reduce operators
products      sums of products, of which one factor may be weights
along         each element follows from those along the axis that the attribute `axis` names; the shape stays
batch         each sample, along the first axis of the first input, gives its own part of the result
slides        a window slides over the axes from the third one on, and each element follows from one window
interpolates  elements are taken from between positions
normalizes    elements are divided by a measure of several of them
quantizes     reads or returns quantized numbers
random        the results are drawn
holds         the first result is a sequence or an optional
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Positions = tuple[int, ...]


class Operator(NamedTuple):
    """One row.

    traits     of those above
    elements   the inputs whose elements the results have, for `moves`, `fills` and `picks`; None: every one
    shape      the inputs whose elements decide the shape of the results, axes left out
    axes       the inputs that are axes
    positions  the inputs that are positions along a dimension: negative ones count from its end
    weights    the inputs that are weights, biases, statistics or bounds: a runtime fuses a layer of which it knows them
    limited    the other inputs of integers of which few are valid: lengths, classes, positions that are never negative
    neutral    the number that, as the second input, makes the result the first one, or as a further element changes no
               Reduce; None where there is none
    range      no result is below or above these numbers
    numpy      the NumPy function that computes the same of two arrays; None where it is not exactly the same
    """

    traits: frozenset[str]
    elements: Positions | None = (0,)
    shape: Positions = ()
    axes: Positions = ()
    positions: Positions = ()
    weights: Positions = ()
    limited: Positions = ()
    neutral: float | None = None
    range: tuple[float, float] = (-math.inf, math.inf)
    numpy: Callable[..., Any] | None = None


def _(traits: str = "", elements: Positions | None = (0,), **facts: Any) -> Operator:
    return Operator(frozenset(traits.split()), elements, **facts)


_INF, _TURN = math.inf, math.pi / 2
_UP, _UNIT, _SIGNED = (0.0, _INF), (0.0, 1.0), (-1.0, 1.0)

# The table itself.
# fmt: off
OPERATORS: dict[str, Operator] = {
    "Abs": _("elementwise exact continuous bends zero", range=_UP),
    "Acos": _("elementwise rounds continuous falling", range=(0.0, 2 * _TURN)),
    "Acosh": _("elementwise rounds continuous rising", range=_UP),
    "Add": _("elementwise commutative rounds continuous rising broadcasts", neutral=0, numpy=np.add),
    "AffineGrid": _("rounds continuous", shape=(1,)),
    "And": _("elementwise commutative logical bool broadcasts zero", neutral=True, numpy=np.logical_and),
    "ArgMax": _("locates"),
    "ArgMin": _("locates"),
    "Asin": _("elementwise rounds continuous rising zero", range=(-_TURN, _TURN)),
    "Asinh": _("elementwise rounds continuous rising zero"),
    "Atan": _("elementwise rounds continuous rising zero", range=(-_TURN, _TURN)),
    "Atanh": _("elementwise rounds continuous rising zero"),
    "Attention": _("products rounds continuous", limited=(6,)),
    "AveragePool": _("slides rounds continuous batch"),
    "BatchNormalization": _("rounds continuous batch", weights=(1, 2, 3, 4)),
    "Bernoulli": _("random", range=_UNIT),
    "BitCast": _("elementwise"),
    "BitShift": _("elementwise zero broadcasts", neutral=0),
    "BitwiseAnd": _("elementwise commutative broadcasts zero", numpy=np.bitwise_and),
    "BitwiseNot": _("elementwise", numpy=np.bitwise_not),
    "BitwiseOr": _("elementwise commutative broadcasts", neutral=0, numpy=np.bitwise_or),
    "BitwiseXor": _("elementwise commutative broadcasts", neutral=0, numpy=np.bitwise_xor),
    "BlackmanWindow": _("rounds", shape=(0,)),
    "Cast": _("elementwise zero"),
    "CastLike": _("elementwise zero"),
    "CausalConvWithState": _("products rounds continuous"),
    "Ceil": _("elementwise exact rising whole zero", numpy=np.ceil),
    "Celu": _("elementwise rounds continuous rising bends zero"),
    "CenterCropPad": _("fills exact continuous", shape=(1,)),
    "Clip": _("elementwise picks exact continuous rising", None, weights=(1, 2)),
    "Col2Im": _("rounds continuous", shape=(1, 2)),
    "Compress": _("moves exact continuous counts", shape=(1,)),
    "Concat": _("moves exact continuous", None),
    "ConcatFromSequence": _(),
    "Constant": _(),
    "ConstantOfShape": _(shape=(0,)),
    "Conv": _("slides products rounds continuous batch", weights=(1, 2)),
    "ConvInteger": _("quantizes batch"),
    "ConvTranspose": _("slides products rounds continuous batch", weights=(1, 2)),
    "Cos": _("elementwise rounds continuous", range=_SIGNED),
    "Cosh": _("elementwise rounds continuous", range=(1.0, _INF)),
    "CumProd": _("rounds continuous", axes=(1,)),
    "CumSum": _("rounds continuous", axes=(1,)),
    "DFT": _("rounds continuous", shape=(1,), axes=(2,)),
    "DeformConv": _("products interpolates rounds"),
    "DepthToSpace": _("moves exact continuous batch"),
    "DequantizeLinear": _("quantizes rounds"),
    "Det": _("rounds continuous"),
    "Div": _("elementwise rounds continuous broadcasts zero", neutral=1),
    "Dropout": _(),
    "DynamicQuantizeLinear": _("quantizes"),
    "Einsum": _("products rounds continuous"),
    "Elu": _("elementwise rounds continuous bends zero"),
    "Equal": _("elementwise commutative compares bool broadcasts", numpy=np.equal),
    "Erf": _("elementwise rounds continuous rising zero", range=_SIGNED),
    "Exp": _("elementwise rounds continuous rising", range=_UP),
    "Expand": _("moves exact continuous", shape=(1,)),
    "EyeLike": _(range=_UNIT),
    "Flatten": _("moves order exact continuous"),
    "Floor": _("elementwise exact rising whole zero", numpy=np.floor),
    "GRU": _("products rounds", limited=(4,)),
    "Gather": _("moves exact continuous", positions=(1,)),
    "GatherElements": _("moves exact continuous", positions=(1,)),
    "GatherND": _("moves exact continuous", positions=(1,)),
    "Gelu": _("elementwise rounds continuous zero"),
    "Gemm": _("products rounds continuous", weights=(1, 2)),
    "GlobalAveragePool": _("rounds continuous batch"),
    "GlobalLpPool": _("rounds continuous batch", range=_UP),
    "GlobalMaxPool": _("picks exact continuous batch"),
    "Greater": _("elementwise compares bool broadcasts", numpy=np.greater),
    "GreaterOrEqual": _("elementwise compares bool broadcasts", numpy=np.greater_equal),
    "GridSample": _("interpolates rounds"),
    "GroupNormalization": _("normalizes rounds continuous batch", weights=(1, 2)),
    "HammingWindow": _("rounds", shape=(0,)),
    "HannWindow": _("rounds", shape=(0,)),
    "HardSigmoid": _("elementwise rounds continuous", range=_UNIT),
    "HardSwish": _("elementwise rounds continuous zero"),
    "Hardmax": _("exact whole along", range=_UNIT),
    "Identity": _("elementwise moves order exact continuous rising zero"),
    "If": _(),
    "ImageDecoder": _(),
    "InstanceNormalization": _("normalizes rounds continuous batch", weights=(1, 2)),
    "IsInf": _("elementwise bool"),
    "IsNaN": _("elementwise bool"),
    "LRN": _("normalizes rounds continuous batch"),
    "LSTM": _("products rounds", limited=(4,)),
    "LayerNormalization": _("normalizes rounds continuous", weights=(1, 2)),
    "LeakyRelu": _("elementwise rounds continuous bends zero"),
    "Less": _("elementwise compares bool broadcasts", numpy=np.less),
    "LessOrEqual": _("elementwise compares bool broadcasts", numpy=np.less_equal),
    "LinearAttention": _("products rounds continuous"),
    "Log": _("elementwise rounds continuous rising bends"),
    "LogSoftmax": _("rounds continuous along", range=(-_INF, 0.0)),
    "Loop": _(limited=(0,)),
    "LpNormalization": _("normalizes rounds continuous along"),
    "LpPool": _("slides rounds continuous batch", range=_UP),
    "MatMul": _("products rounds continuous", weights=(0, 1)),
    "MatMulInteger": _("quantizes"),
    "Max": _("elementwise picks commutative exact continuous rising broadcasts", None, neutral=-_INF, numpy=np.maximum),
    "MaxPool": _("slides picks exact continuous batch"),
    "MaxRoiPool": _("interpolates exact"),
    "MaxUnpool": _("fills exact", shape=(2,), limited=(1,)),
    "Mean": _("elementwise commutative rounds continuous rising broadcasts"),
    "MeanVarianceNormalization": _("normalizes rounds continuous"),
    "MelWeightMatrix": _("rounds", shape=(0, 1), limited=(2, 3, 4)),
    "Min": _("elementwise picks commutative exact continuous rising broadcasts zero", None, neutral=_INF,
             numpy=np.minimum),
    "Mish": _("elementwise rounds continuous zero"),
    "Mod": _("elementwise zero broadcasts"),
    "Mul": _("elementwise commutative rounds continuous broadcasts zero", neutral=1, numpy=np.multiply),
    "Multinomial": _("random"),
    "Neg": _("elementwise exact continuous falling zero", numpy=np.negative),
    "NegativeLogLikelihoodLoss": _("rounds", limited=(1,)),
    "NonMaxSuppression": _("locates counts", limited=(2,)),
    "NonZero": _("locates counts"),
    "Not": _("elementwise logical bool", numpy=np.logical_not),
    "OneHot": _(elements=(2,), shape=(1,)),
    "Optional": _("holds"),
    "OptionalGetElement": _(),
    "OptionalHasElement": _("bool"),
    "Or": _("elementwise commutative logical bool broadcasts", neutral=False, numpy=np.logical_or),
    "PRelu": _("elementwise rounds continuous bends zero", weights=(1,)),
    "Pad": _("fills exact continuous", (0, 2), shape=(1, 3)),
    "Pow": _("elementwise rounds continuous broadcasts zero", neutral=1),
    "QLinearConv": _("quantizes"),
    "QLinearMatMul": _("quantizes"),
    "QuantizeLinear": _("quantizes"),
    "RMSNormalization": _("normalizes rounds continuous"),
    "RNN": _("products rounds", limited=(4,)),
    "RandomNormal": _("random"),
    "RandomNormalLike": _("random"),
    "RandomUniform": _("random"),
    "RandomUniformLike": _("random"),
    "Range": _("rounds", shape=(0, 1, 2)),
    "Reciprocal": _("elementwise rounds continuous bends"),
    "ReduceL1": _("reduces rounds continuous", axes=(1,), range=_UP, neutral=0),
    "ReduceL2": _("reduces rounds continuous", axes=(1,), range=_UP, neutral=0),
    "ReduceLogSum": _("reduces rounds continuous rising", axes=(1,), neutral=0),
    "ReduceLogSumExp": _("reduces rounds continuous rising", axes=(1,), neutral=-_INF),
    "ReduceMax": _("reduces picks exact continuous rising", axes=(1,), neutral=-_INF),
    "ReduceMean": _("reduces rounds continuous rising", axes=(1,)),
    "ReduceMin": _("reduces picks exact continuous rising", axes=(1,), neutral=_INF),
    "ReduceProd": _("reduces rounds continuous", axes=(1,), neutral=1),
    "ReduceSum": _("reduces rounds continuous rising", axes=(1,), neutral=0),
    "ReduceSumSquare": _("reduces rounds continuous", axes=(1,), range=_UP, neutral=0),
    "RegexFullMatch": _("elementwise bool"),
    "Relu": _("elementwise exact continuous rising bends zero", range=_UP),
    "Reshape": _("moves order exact continuous", shape=(1,)),
    "Resize": _("interpolates rounds", shape=(2, 3)),
    "ReverseSequence": _("moves exact continuous", limited=(1,)),
    "RoiAlign": _("interpolates rounds", limited=(2,)),
    "RotaryEmbedding": _("rounds continuous", limited=(3,)),
    "Round": _("elementwise exact rising whole zero", numpy=np.round),
    "STFT": _("rounds continuous", shape=(1, 3)),
    "Scan": _(),
    "Scatter": _("picks exact continuous", (0, 2), positions=(1,)),
    "ScatterElements": _("picks exact continuous", (0, 2), positions=(1,)),  # without a reduction
    "ScatterND": _("picks exact continuous", (0, 2), positions=(1,)),  # without a reduction
    "Selu": _("elementwise rounds continuous bends zero"),
    "SequenceAt": _(limited=(1,)),
    "SequenceConstruct": _("holds"),
    "SequenceEmpty": _("holds"),
    "SequenceErase": _("holds", limited=(1,)),
    "SequenceInsert": _("holds", limited=(2,)),
    "SequenceLength": _(),
    "SequenceMap": _("holds"),
    "Shape": _("measures"),
    "Shrink": _("elementwise rounds zero"),
    "Sigmoid": _("elementwise rounds continuous rising", range=_UNIT),
    "Sign": _("elementwise exact rising whole bends zero", range=_SIGNED, numpy=np.sign),
    "Sin": _("elementwise rounds continuous zero", range=_SIGNED),
    "Sinh": _("elementwise rounds continuous rising zero"),
    "Size": _("measures"),
    "Slice": _("moves exact continuous", shape=(1, 2, 3, 4)),
    "Softmax": _("rounds continuous along", range=_UNIT),
    "SoftmaxCrossEntropyLoss": _("rounds", limited=(1,)),
    "Softplus": _("elementwise rounds continuous rising", range=_UP),
    "Softsign": _("elementwise rounds continuous rising bends zero", range=_SIGNED),
    "SpaceToDepth": _("moves exact continuous batch"),
    "Split": _("moves exact continuous", shape=(1,)),
    "SplitToSequence": _("holds", shape=(1,)),
    "Sqrt": _("elementwise rounds continuous rising bends zero", range=_UP),
    "Squeeze": _("moves order exact continuous", axes=(1,)),
    "StringConcat": _("elementwise broadcasts"),
    "StringNormalizer": _(),
    "StringSplit": _("counts"),
    "Sub": _("elementwise rounds continuous broadcasts", neutral=0, numpy=np.subtract),
    "Sum": _("elementwise commutative rounds continuous rising broadcasts", neutral=0, numpy=np.add),
    "SwiGLU": _("elementwise rounds continuous zero"),
    "Swish": _("elementwise rounds continuous zero"),
    "Tan": _("elementwise rounds continuous zero"),
    "Tanh": _("elementwise rounds continuous rising zero", range=_SIGNED),
    "TensorScatter": _("picks exact continuous", (0, 1), limited=(2,)),
    "TfIdfVectorizer": _(),
    "ThresholdedRelu": _("elementwise exact zero"),
    "Tile": _("moves exact continuous", shape=(1,)),
    "TopK": _("picks exact", shape=(1,)),
    "Transpose": _("moves exact continuous"),
    "Trilu": _("fills exact continuous", limited=(1,)),
    "Unique": _("picks exact counts"),
    "Unsqueeze": _("moves order exact continuous", axes=(1,)),
    "Upsample": _("interpolates rounds", shape=(1,)),
    "Where": _("elementwise picks exact continuous rising broadcasts", (1, 2)),
    "Xor": _("elementwise commutative logical bool broadcasts", neutral=False, numpy=np.logical_xor),
}
# fmt: on


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def having(trait: str) -> frozenset[str]:
    """The operators that have a trait."""
    return frozenset(name for name, row in OPERATORS.items() if trait in row.traits)


ELEMENTWISE, BROADCASTS, COMMUTATIVE = map(having, ("elementwise", "broadcasts", "commutative"))
RISING, FALLING, ALONG, BATCH = map(having, ("rising", "falling", "along", "batch"))
KEEP_ZERO, BENDS_AT_ZERO = having("zero"), having("bends")
MOVES, KEEP_ORDER, FILLS, PICKS = map(having, ("moves", "order", "fills", "picks"))
EXACT, ROUNDS, CONTINUOUS, WHOLE = map(having, ("exact", "rounds", "continuous", "whole"))
COMPARES, LOGICAL, RETURNS_BOOL = having("compares"), having("logical"), having("bool")
MEASURES, LOCATES, REDUCES = having("measures"), having("locates"), having("reduces")
PRODUCTS, SLIDES, INTERPOLATES = having("products"), having("slides"), having("interpolates")
BOUNDED = frozenset(name for name, row in OPERATORS.items() if math.isfinite(row.range[1] - row.range[0]))
NORMALIZES, QUANTIZES, RANDOM, HOLDS = map(having, ("normalizes", "quantizes", "random", "holds"))
COUNTS = having("counts")
