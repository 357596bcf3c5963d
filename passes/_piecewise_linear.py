"""Piecewise linear functions with one breakpoint at zero: LeakyRelu and PRelu in other words.

Exporters and hand-written models spell them with Relu, Clip, Max, Min, Abs and Where in dozens of ways. The patterns
here only say which operators may be together; what the window computes is found by evaluating it at 1 and at -1,
which settles such a function: an unforeseen spelling is read right, and one that only looks like it is not.
"""

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from surgeon import FLOATS, Builder, Decline, Pattern, Value, const, op, require, require_some, var
from surgeon.ir.constants import FOLD_LIMIT
from surgeon.ir.operators import COMMUTATIVE, COMPARES, OPERATORS, RISING
from surgeon.rules.spelling import attribute_names

from ._shapes import output_of

PIECEWISE = RISING & COMMUTATIVE - {"Mean"} | {"Sub"}  # linear where both inputs are, or a choice of them

x = var("x")


# ---- patterns --------------------------------------------------------------------------------------------------------


def number() -> Pattern:
    """A constant, spread to the size of x or not. Whether it must be 0 is looked at when the window is evaluated."""
    bare = const() | op.CastLike(const(), x)
    return bare | op.Expand(bare, op.Shape(x) | const()) | op.ConstantOfShape(op.Shape(x))


def line() -> Pattern:
    """x itself, or x times one or two constants.

    x comes first: a product that both parts read is the x that is meant.
    """
    once = x * number() | x / number() | op.Neg(x)
    return x | once | once * number()


def above() -> Pattern:
    """max(x, 0)"""
    return op.Relu(x) | op.Clip(x, number()) | op.Max(x, number())


def below() -> Pattern:
    """min(x, 0) or max(-x, 0)"""
    minus = op.Neg(x) | x * number() | number() - x
    return op.Relu(minus) | op.Clip(x, None, number()) | op.Min(x, number()) | op.Max(minus, number())


def bent() -> Pattern:
    """A function with a bend at zero, scaled by up to two constants."""
    piece = above() | below() | op.Abs(x) | x - op.Abs(x) | op.Abs(x) - x | x + op.Abs(x)
    once = piece | piece * number() | piece / number() | op.Neg(piece)
    return once | once * number() | op.Neg(once)


def condition() -> Pattern:
    """x > 0, x < 0 and their like, negated or not."""
    bare = op.Greater(x, number()) | op.Less(x, number()) | op.GreaterOrEqual(x, number()) | op.LessOrEqual(x, number())
    turned = (
        op.Greater(number(), x) | op.Less(number(), x) | op.GreaterOrEqual(number(), x) | op.LessOrEqual(number(), x)
    )
    test = bare | turned
    maybe_cast = test | op.Cast(test) | op.Cast(op.Cast(test))
    return maybe_cast | op.Not(maybe_cast)


def step() -> Pattern:
    """One number for x > 0 and another for x < 0."""
    return op.Where(condition(), number(), number()) | op.Cast(condition())


BENT, OTHER = bent(), bent() | line()

FORMS = (
    BENT + OTHER | BENT - OTHER | line() - BENT | op.Sum(BENT, OTHER)
    | op.Max(line(), line()) | op.Min(line(), line()) | op.Where(condition(), line() | number(), line() | number())
    | x * step()
)  # fmt: skip


# ---- what a window computes ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slopes:
    """f(x) = above * x for x >= 0 and below * x for x <= 0, both float64; `nodes`: how many operators say so."""

    above: np.ndarray
    below: np.ndarray
    nodes: int
    up: float | None  # the slope above zero, where it is one number
    down: float | None


@dataclass(frozen=True, slots=True)
class _Sides:
    """A tensor's value where x is 1, -1 and NaN. `degree` 1: a function that is linear on either side of zero. 0: a
    number on either side. None: zero, which is both."""

    at: tuple[np.ndarray, np.ndarray, np.ndarray]
    degree: int | None


def slopes(b: Builder, x: Value) -> Slopes:
    """Both slopes of the window between `x` and the root. A window that has no such slopes is declined silently."""
    require(b.dtype(x) in FLOATS)
    window = _window_key(b, x)
    found = _evaluated(b, x) if window is None else b.once(("slopes", window), lambda: _evaluated(b, x))
    return require_some(found)


def _window_key(b: Builder, x: Value) -> tuple[Any, ...] | None:
    """The window's operators, attributes and constants, equal for windows that compute the same. None where the window
    reads a tensor that is neither made in it nor constant."""
    place: dict[Any, int] = {x: -1}
    for number, node in enumerate(b.matched):
        for out in node.outputs:
            place[out] = number
    key: list[Any] = []
    opset = b.opset
    for node in b.matched:
        key.append(node.key)
        if attribute_names(node.key, opset):  # asked first, since a look into the file takes longer
            key.append(repr(node.attrs))
        for v in node.operands():
            if v is None or (type(v) is Value and v in place):
                key.append(place.get(v))
                continue
            constant = b.fingerprint(v)
            if constant is None:
                return None
            key.append(constant)
    return tuple(key)


def _evaluated(b: Builder, x: Value) -> Slopes | None:
    """The slopes of the window, found by evaluating it; None where it has none."""
    reader = _Reader(b, x)
    try:
        found = reader.of(output_of(b.root))
    except Decline:
        return None
    up, down, nan = found.at
    if found.degree != 1 or not (np.isnan(nan).all() and np.isfinite(up).all() and np.isfinite(down).all()):
        return None
    up, down = np.broadcast_arrays(up, -down)
    if np.array_equal(up, down):
        return None  # plain multiplication
    uniform = [float(side.flat[0]) if side.min() == side.max() else None for side in (up, down)]
    return Slopes(up, down, len(reader.nodes), uniform[0], uniform[1])


class _Reader:
    """Evaluates the tensors of a window where x is 1, -1 and NaN; declines silently what it cannot read."""

    def __init__(self, b: Builder, x: Value) -> None:
        self.b = b
        self.sides: dict[Any, _Sides] = {x: _Sides((np.asarray(1.0), np.asarray(-1.0), np.asarray(np.nan)), 1)}
        self.nodes: set[Any] = set()

    def of(self, value: Any) -> _Sides:
        """Evaluate `value`; windows are a dozen nodes at most, so recursion is not a risk."""
        if isinstance(value, np.ndarray):  # an attribute of an older opset
            return _constant(value)
        if value not in self.sides:
            array = self.b.value(value)
            if array is not None:
                self.sides[value] = _constant(array)
            else:
                self.nodes.add(value.producer)
                with np.errstate(all="ignore"):
                    self.sides[value] = self.computed(value.producer)
        return self.sides[value]

    def computed(self, node: Any) -> _Sides:
        key, operands = node.key, node.operands()
        if key in ("Cast", "CastLike"):
            return self.of(operands[0])
        if key == "Expand":
            return self.expanded(*operands)
        if key == "ConstantOfShape":  # of the shape of x
            value = node.attrs.get("value")
            return _constant(numpy_helper.to_array(value).reshape(()) if value is not None else np.zeros(()))
        if key == "Clip":
            return self.clip(operands)
        given = [self.of(v) for v in operands]
        if key in ("Mul", "Div"):
            return _scaled(key, *given)
        if key == "Where":
            return _each(lambda c, p, q: np.where(c != 0, p, q), given, _common(given[1:]))
        if key in COMPARES | PIECEWISE:
            degree = _common(given)
            return _each(OPERATORS[key].numpy, given, 0 if key in COMPARES else degree)
        if key == "Not":
            return _each(lambda c: c == 0, given, 0)
        require(key in UNARY)  # the others are constants that onnx's evaluator does not compute
        return _each(UNARY[key], given, given[0].degree)

    def expanded(self, value: Any, shape: Any) -> _Sides:
        """A shape that is not computed is that of x, as the pattern says; x is here for one number."""
        wanted = self.b.value(shape)
        found = self.of(value)
        require(wanted is None or _is_small_shape(wanted))
        return found if wanted is None else _each(lambda v: v * np.ones(wanted.astype(int)), [found], found.degree)

    def clip(self, operands: list[Any]) -> _Sides:
        low, high = [self.of(v) if v is not None else None for v in (*operands[1:], None, None)[:2]]
        found = self.of(operands[0])
        for bound, function in ((low, np.maximum), (high, np.minimum)):
            if bound is not None:
                found = _each(function, [found, bound], _common([found, bound]))
        return found


def _is_small_shape(wanted: np.ndarray) -> bool:
    return wanted.ndim == 1 and not (wanted < 0).any() and math.prod(wanted.tolist()) <= FOLD_LIMIT


def _constant(array: np.ndarray) -> _Sides:
    wide = array.astype(np.float64)
    return _Sides((wide, wide, wide), 0 if wide.any() else None)


UNARY = {"Neg": np.negative, "Abs": np.abs, "Relu": lambda v: np.maximum(v, 0.0)}


def _each(function: Any, given: list[_Sides], degree: int | None) -> _Sides:
    at = [function(*[g.at[k] for g in given]) for k in range(3)]
    return _Sides((at[0], at[1], at[2]), degree)


def _scaled(key: str, a: _Sides, b: _Sides) -> _Sides:
    require(key != "Div" or b.degree is not None)  # not x / 0
    degree = max(a.degree or 0, b.degree or 0)
    return _each(np.multiply if key == "Mul" else np.divide, [a, b], degree)


def _common(given: list[_Sides]) -> int | None:
    """The degree of what is added, compared or chosen from, which all of it must have in common. Only then f(s * x) = s
    * f(x) for every s > 0."""
    degrees = {g.degree for g in given if g.degree is not None}
    require(len(degrees) <= 1)
    return degrees.pop() if degrees else None


def is_one(b: Builder, x: Value, slope: np.ndarray) -> bool:
    """Whether every slope is 1 to the rounding of constants of x's type; those of double are often fp32's."""
    eps = float(ml_dtypes.finfo(helper.tensor_dtype_to_np_dtype(b.known_dtype(x))).eps)
    return bool(np.all(np.abs(slope - 1) <= 2 * max(eps, 2.0**-23)))


def holds(b: Builder, x: Value, number: float) -> bool:
    """Whether the type of x has a number to its own precision: neither inf nor NaN, nor cut short next to zero."""
    dtype = helper.tensor_dtype_to_np_dtype(b.dtype(x) or TensorProto.FLOAT)
    with np.errstate(over="ignore", under="ignore"):
        held = float(np.asarray(number).astype(dtype))
    eps = ml_dtypes.finfo(dtype).eps
    return math.isfinite(held) and abs(held - number) <= float(eps) * abs(number)


def fits(b: Builder, x: Value, shape: tuple[int | str | None, ...]) -> bool:
    """Whether a tensor of `shape` broadcasts to x without making it larger."""
    if not shape:
        return True
    whole = b.shape(x)
    if whole is None or len(shape) > len(whole):
        return False
    return all(d == 1 or (isinstance(d, int) and d == whole[k - len(shape)]) for k, d in enumerate(shape))
