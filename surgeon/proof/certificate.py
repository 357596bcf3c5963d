"""Whether a rule holds for all sizes: its windows are evaluated exactly, with names in the place of sizes.

A window is certified where, before and behind the rewrite, it has operators of two kinds alone:

1. Those that act on each element by itself, with constants of one element. All elements go the same way. So what one
   element becomes, evaluated once with an unknown number, is what every element of every tensor becomes.
2. Those that move axes, or keep the elements where they are: Transpose, Unsqueeze, Squeeze, Identity, a Slice of all,
   a Pad by 0, a Tile by 1. They are evaluated on axes that are names and no numbers.

An element is a number in the field of 2^61 - 1 elements, beside its value as a real number, which decides comparisons
alone. Arithmetic is exact in that field. Exp, Log, Erf and Sqrt are unknown functions of which some laws are used:
exp(n * u) is exp(u)^n, exp(log(u)) is u, log(u * exp(v)) is log(u) + v, erf(-u) is -erf(u). Two different rational
functions of degree d agree at a random element with a probability below d / 2^61 (Schwartz and Zippel). Their degrees
here are below 2^10.

Between two places where a comparison turns, a window is one such function. Elements are drawn between any two
neighbours of the constants, their products and quotients, and over all magnitudes up to 10^4. A region that they all
miss is not seen.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, numpy_helper

from surgeon.ir.attributes import constant_value, read_attribute
from surgeon.ir.lattice import FLOATS
from surgeon.ir.schemas import defaults
from surgeon.proof.instances import alternatives, instances, of_root
from surgeon.rules.rule import Rule

PRIME = 2**61 - 1
ROOT = 64  # exp(u) is a power of this order, so that exp(u / 2), exp(u / 4) and the like are powers as well
END = 2**31 - 1
ERROR = 2.0**-51  # of one element: degrees below 2^10 over a field of 2^61


class NotCertified(Exception):
    """Ends an evaluation; the message says which node is beyond it."""


class Forbidden(Exception):
    """Ends an evaluation of what ONNX forbids."""


@dataclass(frozen=True, slots=True)
class Number:
    """An element: in the field, and as a real number."""

    field: int
    real: float


@dataclass(frozen=True, slots=True)
class Tensor:
    """What all elements of a tensor are, and its axes by name; without axes a constant of one element."""

    axes: tuple[str, ...]
    element: Number


class Functions:
    """Exp, Log, Erf and Sqrt over the field, as far as two evaluations of one element have asked for them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._bases: list[tuple[Number, int]] = []  # (u, a random element whose power of order ROOT is exp(u))
        self._logs: dict[int, Number] = {}  # log(u) in the field: u
        self._known: dict[tuple[str, int], int] = {}

    def draw(self) -> int:
        return self._random.randrange(1, PRIME)

    def exp(self, u: Number) -> Number:
        real = math.exp(min(u.real, 700.0))
        if u.field == 0:
            return Number(1, 1.0)
        for logarithm, of in self._logs.items():
            for times in (1, -1, 2, -2):
                if u.field == times * logarithm % PRIME:
                    return Number(pow(of.field, times, PRIME), real)
        for base, root in self._bases:
            ratio = u.real / base.real if base.real else 0.0
            times = round(ratio * ROOT)
            if times and u.field * ROOT % PRIME == times * base.field % PRIME:
                return Number(pow(root, times, PRIME), real)
        root = self.draw()
        self._bases.append((u, root))
        return Number(pow(root, ROOT, PRIME), real)

    def log(self, u: Number) -> Number:
        if u.real <= 0:
            raise NotCertified("the logarithm of a number that is not above 0")
        found = next((made for made, of in self._logs.items() if of.field == u.field), None)
        if found is None:
            found = self._log_of_product(u)
        if found is None:
            found = self.draw()
            self._logs[found] = u
        return Number(found, math.log(u.real))

    def _log_of_product(self, u: Number) -> int | None:
        """log(w) + v where u is w * exp(v) for a known log(w) and a known exp(v) or exp(-v)."""
        for made, of in self._logs.items():
            for base, root in self._bases:
                for sign in (1, -1):
                    if u.field == of.field * pow(root, sign * ROOT, PRIME) % PRIME:
                        return (made + sign * base.field) % PRIME
        return None

    def odd(self, name: str, u: Number, compute: Callable[[float], float]) -> Number:
        """A function of which f(-u) is -f(u) alone is known."""
        negative = -u.field % PRIME
        if (name, negative) in self._known:
            return Number(-self._known[name, negative] % PRIME, compute(u.real))
        return self.of(name, u, compute)

    def of(self, name: str, u: Number, compute: Callable[[float], float]) -> Number:
        """A function of which nothing is known."""
        return Number(self._known.setdefault((name, u.field), self.draw()), compute(u.real))

    def sqrt(self, u: Number) -> Number:
        """The root that the field has; of a number without one, and below 0, nothing is said."""
        root = pow(u.field, (PRIME + 1) // 4, PRIME)
        if u.real < 0 or root * root % PRIME != u.field:
            raise NotCertified("a square root that the field does not have")
        return Number(min(root, PRIME - root), math.sqrt(u.real))


def exactly(value: float) -> Number:
    """A constant as the number that it rounds: a short fraction, such a multiple of an irrational one, or itself."""
    if math.isinf(value):
        return Number(0, value)
    if abs(value - 0.044715) < 1e-8:
        return CUBIC
    for irrational, held in IRRATIONAL.items():
        fraction = _short(value / irrational, 12)
        if fraction is not None and fraction:
            return Number(_in_field(fraction) * held % PRIME, value)
    fraction = _short(value, 1000)
    if fraction is None:
        fraction = Fraction(float(np.float32(value)))
    return Number(_in_field(fraction), float(fraction))


def _short(value: float, most: int) -> Fraction | None:
    """The fraction with a denominator of at most `most` that fp32 rounds to the value, if there is one."""
    fraction = Fraction(value).limit_denominator(most)
    return fraction if abs(fraction - Fraction(value)) <= abs(Fraction(value)) * Fraction(1, 2**22) else None


def _in_field(fraction: Fraction) -> int:
    return fraction.numerator * pow(fraction.denominator, -1, PRIME) % PRIME


# The root of 2 in the field, and elements that stand for the roots of 2 / pi and for the cubic term of Gelu behind it.
_TWO_OVER_PI = 0x0BADC0FFEE0DDF00
IRRATIONAL = {
    math.sqrt(2.0): pow(2, (PRIME + 1) // 4, PRIME),
    math.sqrt(2.0 / math.pi): _TWO_OVER_PI,
    math.sqrt(2.0 / math.pi) * 0.044715: _TWO_OVER_PI * _in_field(Fraction(8943, 200000)) % PRIME,
}


class Evaluation:
    """The elements of a window's outputs for one element of its inputs."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions

    def run(self, graph: GraphProto, inputs: dict[str, Tensor], opset: int) -> list[Tensor]:
        """The graph's outputs. Raises NotCertified at a node that does more than act on each element."""
        tensors: dict[str, Tensor] = dict(inputs)
        arrays: dict[str, np.ndarray] = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        shapes: dict[str, tuple[str, ...]] = {}  # of the tensors that Shape asks for
        for node in graph.node:
            if node.op_type == "Constant":
                value = constant_value(node)
                if value is None:
                    raise NotCertified("a Constant that is no tensor")
                arrays[node.output[0]] = value
                continue
            if node.op_type == "Shape" and not node.attribute and node.input[0] in tensors:
                shapes[node.output[0]] = tensors[node.input[0]].axes
                continue
            tensors[node.output[0]] = _Step(self.functions, node, tensors, arrays, shapes, opset).result()
        return [tensors[o.name] for o in graph.output]


class _Step:
    """One node, and what it reads."""

    def __init__(
        self,
        functions: Functions,
        node: NodeProto,
        tensors: dict[str, Tensor],
        arrays: dict[str, np.ndarray],
        shapes: dict[str, tuple[str, ...]],
        opset: int,
    ) -> None:
        self.functions, self.node, self.tensors, self.arrays, self.shapes = functions, node, tensors, arrays, shapes
        given = {a.name: read_attribute(a) for a in node.attribute}
        self.attrs = {**defaults(node.op_type, node.domain, opset), **given}

    @cached_property
    def operands(self) -> list[Tensor | None]:
        return [self._operand(name) if name else None for name in self.node.input]

    def _operand(self, name: str) -> Tensor:
        if name in self.tensors:
            return self.tensors[name]
        if name not in self.arrays:
            raise NotCertified(f"{self.node.op_type} of sizes")
        array = self.arrays[name]
        if array.size != 1:
            raise NotCertified(f"{self.node.op_type} by a constant of {array.size} elements")
        return Tensor((), exactly(float(array.reshape(()))))

    def result(self) -> Tensor:
        op = self.node.op_type
        if self.node.domain:
            raise NotCertified(f"{self.node.domain}.{op}")
        if op == "ConstantOfShape" and self.node.input[0] in self.shapes:
            value = self.attrs.get("value")
            return Tensor(self.shapes[self.node.input[0]], exactly(0.0 if value is None else float(np.ravel(value)[0])))
        if op in AXES:
            moved = AXES[op](self)
            return Tensor(moved, self._first.element)
        if op not in ELEMENTWISE:
            raise NotCertified(f"{op} does more than act on each element")
        known = [t for t in self.operands if t is not None]
        wide = {t.axes for t in known if t.axes}
        if len(wide) > 1:
            raise NotCertified(f"{op} of tensors whose axes are not alike")
        values = [None if t is None else t.element for t in self.operands]
        return Tensor(next(iter(wide), ()), ELEMENTWISE[op](self, *values))

    @property
    def _first(self) -> Tensor:
        return self._operand(self.node.input[0])

    def numbers(self, position: int, attribute: str = "") -> list[int] | None:
        """The whole numbers of a constant input, or of the attribute that was one; None where it is left out."""
        if attribute in self.attrs:
            return [int(v) for v in np.atleast_1d(self.attrs[attribute])]
        if position >= len(self.node.input) or not self.node.input[position]:
            return None
        if self.node.input[position] not in self.arrays:
            raise NotCertified(f"{self.node.op_type} by numbers that are computed")
        return [int(v) for v in self.arrays[self.node.input[position]].reshape(-1)]


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def _field(value: int, real: float) -> Number:
    return Number(value % PRIME, real)


def add(a: Number, b: Number) -> Number:
    return _field(a.field + b.field, a.real + b.real)


def sub(a: Number, b: Number) -> Number:
    return _field(a.field - b.field, a.real - b.real)


def mul(a: Number, b: Number) -> Number:
    return _field(a.field * b.field, a.real * b.real)


def div(a: Number, b: Number) -> Number:
    if b.field == 0:
        raise NotCertified("a division by 0")
    return _field(a.field * pow(b.field, -1, PRIME), a.real / b.real if b.real else math.nan)


def is_less(a: Number, b: Number) -> bool:
    """Whether a is below b. Raises NotCertified where the real numbers are too near to tell."""
    if a.field == b.field and not (math.isinf(a.real) or math.isinf(b.real)):
        return False
    if abs(a.real - b.real) <= 1e-12 * max(abs(a.real), abs(b.real)):
        raise NotCertified("two numbers that are too near to tell which is larger")
    return a.real < b.real


def greater(a: Number, b: Number) -> Number:
    return b if is_less(a, b) else a


def smaller(a: Number, b: Number) -> Number:
    return a if is_less(a, b) else b


ZERO, ONE, TWO = exactly(0.0), exactly(1.0), exactly(2.0)


def power(s: _Step, a: Number, b: Number) -> Number:
    if b.real == round(b.real):
        return Number(pow(a.field, int(b.real), PRIME), a.real ** int(b.real) if a.real or b.real >= 0 else math.nan)
    if b.real in (0.5, -0.5):
        root = s.functions.sqrt(a)
        return root if b.real > 0 else div(ONE, root)
    raise NotCertified(f"a power of {b.real:g}")


def sigmoid(s: _Step, a: Number) -> Number:
    return div(ONE, add(ONE, s.functions.exp(sub(ZERO, a))))


def tanh(s: _Step, a: Number) -> Number:
    twice = s.functions.exp(mul(TWO, a))
    return div(sub(twice, ONE), add(twice, ONE))


def softplus(s: _Step, a: Number) -> Number:
    return s.functions.log(add(ONE, s.functions.exp(a)))


def erf(s: _Step, a: Number) -> Number:
    return s.functions.odd("erf", a, math.erf)


def fold(combine: Callable[[Number, Number], Number]) -> Callable[..., Number]:
    def folded(s: _Step, *given: Number) -> Number:
        total = given[0]
        for value in given[1:]:
            total = combine(total, value)
        return total

    return folded


def clip(s: _Step, a: Number, low: Number | None = None, high: Number | None = None) -> Number:
    low = exactly(s.attrs["min"]) if "min" in s.attrs else low
    high = exactly(s.attrs["max"]) if "max" in s.attrs else high
    a = a if low is None else greater(a, low)
    return a if high is None else smaller(a, high)


def _attribute(s: _Step, name: str) -> Number:
    return exactly(float(s.attrs[name]))


def elu(s: _Step, a: Number, scale: Number = ONE) -> Number:
    return a if not is_less(a, ZERO) else mul(_attribute(s, "alpha"), sub(s.functions.exp(div(a, scale)), ONE))


def hard_sigmoid(s: _Step, a: Number) -> Number:
    return smaller(greater(add(mul(_attribute(s, "alpha"), a), _attribute(s, "beta")), ZERO), ONE)


def hard_swish(s: _Step, a: Number) -> Number:
    return mul(a, smaller(greater(div(add(a, exactly(3.0)), exactly(6.0)), ZERO), ONE))


CUBIC = Number(_in_field(Fraction(8943, 200000)), 0.044715)


def gelu(s: _Step, a: Number) -> Number:
    if s.attrs.get("approximate") == "tanh":
        cubed = add(a, mul(CUBIC, mul(a, mul(a, a))))
        inner = tanh(s, mul(exactly(math.sqrt(2 / math.pi)), cubed))
    else:
        inner = erf(s, mul(exactly(math.sqrt(0.5)), a))
    return mul(mul(exactly(0.5), a), add(ONE, inner))


ELEMENTWISE: dict[str, Callable[..., Number]] = {
    "Add": lambda s, a, b: add(a, b),
    "Sub": lambda s, a, b: sub(a, b),
    "Mul": lambda s, a, b: mul(a, b),
    "Div": lambda s, a, b: div(a, b),
    "Neg": lambda s, a: sub(ZERO, a),
    "Reciprocal": lambda s, a: div(ONE, a),
    "Pow": power,
    "Abs": lambda s, a: sub(ZERO, a) if is_less(a, ZERO) else a,
    "Sign": lambda s, a: exactly(float(np.sign(a.real))),
    "Sqrt": lambda s, a: s.functions.sqrt(a),
    "Exp": lambda s, a: s.functions.exp(a),
    "Log": lambda s, a: s.functions.log(a),
    "Erf": erf,
    "Tanh": tanh,
    "Sigmoid": sigmoid,
    "Softplus": softplus,
    "Max": fold(greater),
    "Min": fold(smaller),
    "Sum": fold(add),
    "Mean": lambda s, *given: div(fold(add)(s, *given), exactly(float(len(given)))),
    "Relu": lambda s, a: greater(a, ZERO),
    "LeakyRelu": lambda s, a: mul(_attribute(s, "alpha"), a) if is_less(a, ZERO) else a,
    "PRelu": lambda s, a, slope: mul(slope, a) if is_less(a, ZERO) else a,
    "ThresholdedRelu": lambda s, a: a if is_less(_attribute(s, "alpha"), a) else ZERO,
    "Softsign": lambda s, a: div(a, add(ONE, greater(a, sub(ZERO, a)))),
    "Elu": elu,
    "Celu": lambda s, a: elu(s, a, _attribute(s, "alpha")),
    "Selu": lambda s, a: mul(_attribute(s, "gamma"), elu(s, a)),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Swish": lambda s, a: mul(a, sigmoid(s, mul(_attribute(s, "alpha"), a))),
    "Mish": lambda s, a: mul(a, tanh(s, softplus(s, a))),
    "Gelu": gelu,
    "Clip": clip,
    "Where": lambda s, c, a, b: a if c.field else b,
    "Greater": lambda s, a, b: ONE if is_less(b, a) else ZERO,
    "Less": lambda s, a, b: ONE if is_less(a, b) else ZERO,
    "GreaterOrEqual": lambda s, a, b: ZERO if is_less(a, b) else ONE,
    "LessOrEqual": lambda s, a, b: ZERO if is_less(b, a) else ONE,
    "Not": lambda s, a: ZERO if a.field else ONE,
    "Cast": lambda s, a: _cast(s, a),
}


def _cast(s: _Step, a: Number) -> Number:
    """A Cast to a float type keeps a number, to rounding; of any other it is known that it is a function."""
    if s.attrs["to"] in FLOATS or a.field in (0, 1):
        return a
    return s.functions.of(f"Cast to {s.attrs['to']}", a, math.trunc)


# ---- axes ------------------------------------------------------------------------------------------------------------


def _same(s: _Step) -> tuple[str, ...]:
    return s._first.axes


def _transposed(s: _Step) -> tuple[str, ...]:
    axes = s._first.axes
    order = s.numbers(len(s.node.input), "perm") or list(reversed(range(len(axes))))
    if len(order) != len(axes):
        raise Forbidden("a Transpose of another rank")
    return tuple(axes[k] for k in order)


def _unsqueezed(s: _Step) -> tuple[str, ...]:
    axes, at = list(s._first.axes), s.numbers(1, "axes") or []
    rank = len(axes) + len(at)
    if len({a % rank for a in at}) < len(at):
        raise Forbidden("an Unsqueeze of one axis twice")
    for k in sorted(a % rank for a in at):
        axes.insert(k, "1")
    return tuple(axes)


def _squeezed(s: _Step) -> tuple[str, ...]:
    axes, at = s._first.axes, s.numbers(1, "axes")
    gone = {a % len(axes) for a in at} if at is not None else {k for k, name in enumerate(axes) if name == "1"}
    if any(axes[k] != "1" for k in gone):
        raise NotCertified("a Squeeze of an axis that need not be 1")
    return tuple(name for k, name in enumerate(axes) if k not in gone)


def _reshaped(s: _Step) -> tuple[str, ...]:
    """A Reshape that copies each axis."""
    wanted = s.numbers(1, "shape") or []
    if s.attrs.get("allowzero") or len(wanted) != len(s._first.axes) or any(wanted[:-1]) or wanted[-1] not in (0, -1):
        raise NotCertified("a Reshape that does more than copy each axis")
    return s._first.axes


def _whole(s: _Step) -> tuple[str, ...]:
    """A Slice of everything."""
    starts, ends, steps = s.numbers(1, "starts"), s.numbers(2, "ends"), s.numbers(4)
    if any(starts or [1]) or any(e < END for e in ends or [0]) or any(step != 1 for step in steps or []):
        raise NotCertified("a Slice that may leave something out")
    return s._first.axes


def _all_are(position: int, attribute: str, wanted: int, each: int = 0) -> Callable[[_Step], tuple[str, ...]]:
    """Nothing is added to any axis: every number is the `wanted` one, and there are `each` for an axis."""

    def kept(s: _Step) -> tuple[str, ...]:
        numbers = s.numbers(position, attribute)
        if each and numbers is not None and len(s.node.input) < 4 and len(numbers) != each * len(s._first.axes):
            raise Forbidden(f"{s.node.op_type} of another rank")
        if any(n != wanted for n in numbers or [wanted - 1]):
            raise NotCertified(f"{s.node.op_type} by something else than {wanted}")
        return s._first.axes

    return kept


def _expanded(s: _Step) -> tuple[str, ...]:
    """An Expand by ones, of a constant to the sizes of a tensor, or of a tensor to its own."""
    wanted = s.shapes.get(s.node.input[1])
    if wanted is None:
        return _all_are(1, "shape", 1)(s)
    if s._first.axes not in ((), wanted):
        raise NotCertified("an Expand to the sizes of another tensor")
    return wanted


def _alone(s: _Step) -> tuple[str, ...]:
    if len(s.node.input) > 1 or len(s.node.output) > 1:
        raise NotCertified(f"{s.node.op_type} of several tensors")
    return s._first.axes


def _flattened(s: _Step) -> tuple[str, ...]:
    """A Flatten of two axes into two."""
    if len(s._first.axes) != 2 or s.attrs["axis"] not in (1, -1):
        raise NotCertified("a Flatten that does more than copy each axis")
    return s._first.axes


AXES: dict[str, Callable[[_Step], tuple[str, ...]]] = {
    "Identity": _same,
    "CastLike": _same,
    "Dropout": _same,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
    "Squeeze": _squeezed,
    "Reshape": _reshaped,
    "Flatten": _flattened,
    "Slice": _whole,
    "Pad": _all_are(1, "pads", 0, 2),
    "Tile": _all_are(1, "repeats", 1, 1),
    "Expand": _expanded,
    "Concat": _alone,
    "Split": _alone,
}

# ---- two windows -----------------------------------------------------------------------------------------------------


def difference(before: ModelProto, after: ModelProto, seed: int = 0) -> str:
    """Where two models of the same inputs differ for some sizes; empty where they do not.

    Raises NotCertified where one of them does more than this evaluates.
    """
    opsets = [next(o.version for o in m.opset_import if o.domain in ("", "ai.onnx")) for m in (before, after)]
    seen = 0
    for number in _drawn(_constants(before) | _constants(after), seed):
        functions = Functions(seed + seen)
        inputs = _inputs(before.graph, number, functions)
        try:
            pair = [
                Evaluation(functions).run(m.graph, inputs, opset)
                for m, opset in zip((before, after), opsets, strict=True)
            ]
        except NotCertified as why:
            if _is_of_the_element(why):
                continue
            raise
        seen += 1
        for one, other in zip(*pair, strict=True):
            if one.axes != other.axes:
                return f"axes {one.axes} became {other.axes}"
            if one.element.field != other.element.field:
                return f"at {number:g} it is {other.element.real:g} instead of {one.element.real:g}"
    if not seen:
        raise NotCertified("no element that could be evaluated")
    return ""


def _is_of_the_element(why: NotCertified) -> bool:
    """Whether another element may be evaluated: this one is a pole, or lies at a border."""
    return str(why).startswith(("a division", "two numbers", "the logarithm", "a square root"))


def _inputs(graph: GraphProto, number: float, functions: Functions) -> dict[str, Tensor]:
    """The inputs: the first one is what is drawn, others follow it in another order. Axes have names."""
    found: dict[str, Tensor] = {}
    held = {t.name for t in graph.initializer}
    for k, info in enumerate(i for i in graph.input if i.name not in held):
        rank = len(info.type.tensor_type.shape.dim)
        drawn = number if k == 0 else functions._random.uniform(-4.0, 4.0)
        found[info.name] = Tensor(tuple(f"d{a}" for a in range(rank)), _unknown(drawn))
    return found


def _unknown(real: float) -> Number:
    """An element drawn: all its bits count, so that no constant meets it."""
    return Number(_in_field(Fraction(real)), real)


def _constants(model: ModelProto) -> set[float]:
    arrays: list[np.ndarray | None] = [numpy_helper.to_array(t) for t in model.graph.initializer]
    arrays += [constant_value(n) for n in model.graph.node if n.op_type == "Constant"]
    numbers = {abs(float(a.reshape(()))) for a in arrays if a is not None and a.size == 1 and a.dtype.kind == "f"}
    numbers |= {abs(a.f) for n in model.graph.node for a in n.attribute if a.f}
    return {n for n in numbers if math.isfinite(n)}


def _drawn(constants: Sequence[float] | set[float], seed: int) -> list[float]:
    """Elements of all magnitudes, and between any two places where a comparison with the constants may turn."""
    drawn = random.Random(seed)
    magnitudes = [2.0 ** drawn.uniform(k, k + 1) for k in range(-12, 6)]
    products = {a * b for a in constants for b in constants} | {a / b for a in constants for b in constants if b}
    turns = sorted({0.0, *constants, *products})
    # Nearer than that they are one number, rounded.
    apart = [(low, high) for low, high in pairwise(turns) if high - low > 1e-5 * high]
    between = [low + (high - low) * drawn.uniform(0.25, 0.75) for low, high in apart]
    return [sign * n for n in (*magnitudes, *between) for sign in (1.0, -1.0) if n < 1e4]


# ---- a rule ----------------------------------------------------------------------------------------------------------

FOR_ALL_SIZES, TESTED = "for all sizes", "tested"
FEWEST = 5  # windows without which nothing is said of a rule


@dataclass(frozen=True, slots=True)
class Certificate:
    """How far a rule is proved.

    grade         FOR_ALL_SIZES where every window drawn that the rule rewrites is certified, else TESTED
    windows       how many were certified
    taken, alternatives  of the pattern's alternatives, those that they take, and all
    why           why the grade is TESTED; empty where it is not
    """

    rule: str
    stage: str
    grade: str
    windows: int
    taken: int
    alternatives: int
    why: str


def certify(rule: Rule, tries: int = 200, most: int = 20) -> Certificate:
    """Draw windows of a rule and evaluate them, until there are `most` and each spelling at its root is among them.

    What it proves no further is proved window by window, by running it.
    """
    taken: set[tuple[int, int]] = set()
    spellings = of_root(rule.pattern)
    windows, why = 0, ""
    for instance in instances(rule, tries):
        try:
            why = difference(instance.before, instance.after)
        except Forbidden:
            continue
        except NotCertified as reason:
            why = str(reason)
        if why or (windows >= most and spellings <= taken):
            break
        windows += 1
        taken |= instance.taken
    if not why and windows < FEWEST:
        why = "too few windows can be drawn from its pattern alone"
    if not why and not spellings <= taken:
        why = f"of the {len(spellings)} spellings at its root only {len(spellings & taken)} can be drawn"
    grade = TESTED if why else FOR_ALL_SIZES
    return Certificate(
        rule.body.__name__, rule.stage.value, grade, windows, len(taken), len(alternatives(rule.pattern)), why
    )
