"""Exact arithmetic on elements with unknown numbers, and what each operator makes of one element.

An element is a number in the field of 2^61 - 1 elements, beside its value as a real number, which decides comparisons
alone. Exp, Log, Erf and Sqrt are unknown functions of which some laws are used: exp(n * u) is exp(u)^n, exp(log(u)) is
u, log(u * exp(v)) is log(u) + v, erf(-u) is -erf(u).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from onnx import TensorProto

from surgeon.ir.lattice import FLOATS

PRIME = 2**61 - 1
SIGNED = frozenset({TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64})
ROOT = 64  # exp(u) is a power of this order, so that exp(u / 2), exp(u / 4) and the like are powers as well


class NotCertified(Exception):
    """Ends an evaluation; the message says which node is beyond it."""


class Forbidden(Exception):
    """Ends an evaluation of what ONNX forbids."""


@dataclass(frozen=True, slots=True)
class Number:
    """An element: in the field, and as a real number."""

    field: int
    real: float


class Functions:
    """Exp, Log, Erf and Sqrt over the field, as far as two evaluations of one element have asked for them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._bases: list[tuple[Number, int]] = []  # (u, a random element whose power of order ROOT is exp(u))
        self._logs: dict[int, Number] = {}  # log(u) in the field: u
        self.guessed = False  # whether a root stands for one that the field does not have
        self._roots: list[tuple[Number, int]] = []  # (v, the root of v)
        self._known: dict[tuple[str, int], int] = {}

    def draw(self) -> int:
        """A random element of the field, not 0."""
        return self.random.randrange(1, PRIME)

    @staticmethod
    def unknown(real: float) -> Number:
        """An element drawn: all its bits count, so that no constant meets it."""
        return Number(in_field(Fraction(real)), real)

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
        """The root that the field has, of two the one that is a square itself: so the root of a product is that of its
        factors, and of q^2 * v it is q times that of v. Of a number without one it is not known, and below 0 there is
        none."""
        if u.real < 0:
            raise NotCertified("a square root of a number below 0")
        for known, of in self._roots:
            factor = _short(math.sqrt(u.real / known.real), 1000) if known.real else None
            held = 0 if factor is None else in_field(factor)
            if held and held * held * known.field % PRIME == u.field:
                return Number(of * held % PRIME, math.sqrt(u.real))
        root = pow(u.field, (PRIME + 1) // 4, PRIME)
        if root * root % PRIME != u.field:
            root, self.guessed = self.draw(), True
        self._roots.append((u, root))
        return Number(root, math.sqrt(u.real))


@lru_cache(maxsize=4096)
def exactly(value: float) -> Number:
    """A constant as the number that it rounds: a short fraction, such a multiple of an irrational one, or itself."""
    if math.isinf(value):
        return Number(0, value)
    if abs(value - 0.044715) < 1e-8:
        return CUBIC
    for irrational, held in IRRATIONAL.items():
        fraction = _short(value / irrational, 12)
        if fraction is not None and fraction:
            return Number(in_field(fraction) * held % PRIME, value)
    fraction = _short(value, 1000)
    if fraction is None:
        fraction = Fraction(float(np.float32(value)))
    return Number(in_field(fraction), float(fraction))


def _short(value: float, most: int) -> Fraction | None:
    """The fraction with a denominator of at most `most` that fp32 rounds to the value, if there is one."""
    fraction = Fraction(value).limit_denominator(most)
    return fraction if abs(fraction - Fraction(value)) <= abs(Fraction(value)) * Fraction(1, 2**22) else None


def in_field(fraction: Fraction) -> int:
    return fraction.numerator * pow(fraction.denominator, -1, PRIME) % PRIME


# The root of 2 in the field, and elements that stand for the roots of 2 / pi and for the cubic term of Gelu behind it.
_TWO_OVER_PI = 0x0BADC0FFEE0DDF00
IRRATIONAL = {
    math.sqrt(2.0): pow(2, (PRIME + 1) // 4, PRIME),
    math.sqrt(2.0 / math.pi): _TWO_OVER_PI,
    math.sqrt(2.0 / math.pi) * 0.044715: _TWO_OVER_PI * in_field(Fraction(8943, 200000)) % PRIME,
}


class Step(Protocol):
    """One node: its attributes, and the functions of the evaluation that it belongs to."""

    @property
    def functions(self) -> Functions: ...

    @property
    def attrs(self) -> dict[str, Any]: ...


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


def power(s: Step, a: Number, b: Number) -> Number:
    if b.real == round(b.real):
        return Number(pow(a.field, int(b.real), PRIME), a.real ** int(b.real) if a.real or b.real >= 0 else math.nan)
    if b.real in (0.5, -0.5):
        root = s.functions.sqrt(a)
        return root if b.real > 0 else div(ONE, root)
    raise NotCertified(f"a power of {b.real:g}")


def sigmoid(s: Step, a: Number) -> Number:
    return div(ONE, add(ONE, s.functions.exp(sub(ZERO, a))))


def tanh(s: Step, a: Number) -> Number:
    twice = s.functions.exp(mul(TWO, a))
    return div(sub(twice, ONE), add(twice, ONE))


def softplus(s: Step, a: Number) -> Number:
    return s.functions.log(add(ONE, s.functions.exp(a)))


def erf(s: Step, a: Number) -> Number:
    return s.functions.odd("erf", a, math.erf)


def fold(combine: Callable[[Number, Number], Number]) -> Callable[..., Number]:
    def folded(s: Step, *given: Number) -> Number:
        total = given[0]
        for value in given[1:]:
            total = combine(total, value)
        return total

    return folded


def clip(s: Step, a: Number, low: Number | None = None, high: Number | None = None) -> Number:
    low = exactly(s.attrs["min"]) if "min" in s.attrs else low
    high = exactly(s.attrs["max"]) if "max" in s.attrs else high
    a = a if low is None else greater(a, low)
    return a if high is None else smaller(a, high)


def _attribute(s: Step, name: str) -> Number:
    return exactly(float(s.attrs[name]))


def elu(s: Step, a: Number, scale: Number = ONE) -> Number:
    return a if not is_less(a, ZERO) else mul(_attribute(s, "alpha"), sub(s.functions.exp(div(a, scale)), ONE))


def hard_sigmoid(s: Step, a: Number) -> Number:
    return smaller(greater(add(mul(_attribute(s, "alpha"), a), _attribute(s, "beta")), ZERO), ONE)


def hard_swish(s: Step, a: Number) -> Number:
    return mul(a, smaller(greater(div(add(a, exactly(3.0)), exactly(6.0)), ZERO), ONE))


CUBIC = Number(in_field(Fraction(8943, 200000)), 0.044715)


def gelu(s: Step, a: Number) -> Number:
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
    "Equal": lambda s, a, b: ONE if a.field == b.field else ZERO,
    "Not": lambda s, a: ZERO if a.field else ONE,
    "Cast": lambda s, a: _cast(s, a),
}


def _cast(s: Step, a: Number) -> Number:
    """A Cast to a float type keeps a number, to rounding, and one to integers keeps a small whole number; of any other
    it is known that it is a function."""
    to = s.attrs["to"]
    if to in FLOATS or a.field in (0, 1):
        return a
    if to == TensorProto.BOOL:
        return ONE
    is_whole = math.isfinite(a.real) and abs(a.real) < 100 and a.field == in_field(Fraction(round(a.real)))
    if is_whole and (a.real >= 0 or to in SIGNED):
        return a
    return s.functions.of(f"Cast to {s.attrs['to']}", a, math.trunc)
