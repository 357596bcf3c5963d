"""What a subgraph looks like: small immutable values that read like the formula.

    x, eps = var("x"), const("eps")
    norm   = op.Sqrt(op.ReduceSum(x * x, axes=const("axes")) + eps)
    y      = x / norm | x * op.Reciprocal(norm)

The rules of the language:

1. The same pattern object is the same tensor, so a directed acyclic graph needs no extra syntax.
2. The inputs of a commutative operator match in either order.
3. `p | q` tries p first, then q; `p | None` also takes an input that is left out.
4. A name that the taken branch did not bind is not passed to the rewrite: optional means a Python default.
5. An attribute that the file leaves out has its schema's default, and what ONNX moved from an attribute to an input
   (`axes`, `pads`, `min`, ...) reads the same either way, written by position or by name.
6. Interior tensors have no reader outside the match and are not graph outputs. `Shape` and `Constant` nodes are free.

A guard, `var("x", dtype=HALVES, rank=1)`, is asked once the rest of the pattern holds.

A pattern is data: it knows nothing of ONNX files, graphs or matching; `match.py` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from typing import Any

from surgeon.errors import PassError, did_you_mean
from surgeon.ir.graph import Value
from surgeon.ir.operators import COMMUTATIVE
from surgeon.ir.schemas import MOVED, attributes_of_any_opset, key_of, most_inputs, operators


class Pattern:
    """Anything that can match a tensor. Arithmetic builds bigger patterns; `|` offers a choice.

    `matcher` and `node_matcher` are what `match.py` compiles of it. They are kept here, so that both go together: a
    folder of passes is executed anew in each run.
    """

    matcher: Any = None
    node_matcher: Any = None

    def __or__(self, other: Any) -> Choice:
        return Choice((*_choices(self), *_choices(_lift(other))))

    def __add__(self, other: Any) -> Op:
        return op.Add(self, other)

    def __radd__(self, other: Any) -> Op:
        return op.Add(other, self)

    def __sub__(self, other: Any) -> Op:
        return op.Sub(self, other)

    def __rsub__(self, other: Any) -> Op:
        return op.Sub(other, self)

    def __mul__(self, other: Any) -> Op:
        return op.Mul(self, other)

    def __rmul__(self, other: Any) -> Op:
        return op.Mul(other, self)

    def __truediv__(self, other: Any) -> Op:
        return op.Div(self, other)

    def __rtruediv__(self, other: Any) -> Op:
        return op.Div(other, self)

    def __neg__(self) -> Op:
        return op.Neg(self)


@dataclass(frozen=True, slots=True)
class Guard:
    """What must be known of a tensor.

    dtypes  its type is one of these, of TensorProto.DataType
    ranks   its number of dimensions is one of these
    shape   it has these sizes; None stands for any
    size    it has so many elements
    """

    dtypes: frozenset[int] | None
    ranks: Collection[int] | None
    shape: tuple[int | None, ...] | None
    size: int | None


@dataclass(frozen=True, eq=False, slots=True)
class Var(Pattern):
    """Any tensor; bound to `name` when it has one. The rewrite receives the graph's `Value`."""

    name: str | None = None
    guard: Guard | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Const(Pattern):
    """A tensor whose value can be computed without the model's inputs; the rewrite receives it as a NumPy array.

    `value`, when given, must be equal to it: one element of any shape, equal to 1e-6 relative or to the rounding of the
    tensor's own type.
    """

    name: str | None = None
    value: float | None = None
    guard: Guard | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Absent(Pattern):
    """An optional input that is left out: by the end of the list or by an empty name."""


@dataclass(frozen=True, eq=False, slots=True)
class Attr:
    """An attribute, bound to `name`. One that the file leaves out has the default that the schema gives it, or None.

    `among`, when given, has the values that it may have.
    """

    name: str
    among: Collection[Any] | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Op(Pattern):
    """One node, seen through its first output (`output(node, i)` sees another).

    Inputs match in order, or in any order when the operator commutes; with `open` the node may have more of them.
    """

    type: str
    inputs: tuple[Pattern, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    domain: str = ""
    open: bool = False

    @property
    def key(self) -> str:
        """What the index of a graph calls this operator."""
        return key_of(self.domain, self.type)

    @property
    def required(self) -> list[tuple[str, Any]]:
        """The attributes that must have one value, or one of some: the name, and what is wanted."""
        asked = self.attrs.items()
        return [(name, w) for name, w in asked if not isinstance(w, Attr) or w.among is not None]

    @property
    def is_any(self) -> bool:
        """Whether it asks nothing of a node but its operator: `op.X(...)`."""
        return self.open and not self.inputs and not self.required

    def orders(self) -> Iterator[tuple[Pattern, ...]]:
        """The orders that the inputs may have. Two equal patterns are tried in one order only."""
        if self.type not in COMMUTATIVE or self.domain:
            return iter((self.inputs,))
        return iter(dict.fromkeys(permutations(self.inputs)))


@dataclass(frozen=True, eq=False, slots=True)
class Output(Pattern):
    """Output number `index` of a node that has several: `split = op.Split(x, ...); second = output(split, 1)`."""

    node: Op
    index: int


@dataclass(frozen=True, eq=False, slots=True)
class Choice(Pattern):
    """The first alternative that leads to a full match."""

    alternatives: tuple[Pattern, ...]


class _Ops:
    """`op.Mul(a, b)` spells a node pattern exactly as the builder spells the node."""

    def __getattr__(self, type: str) -> Callable[..., Op]:
        def make(*inputs: Any, domain: str = "", **attrs: Any) -> Op:
            open_ended = bool(inputs) and inputs[-1] is ...
            given = [_lift(i) for i in (inputs[:-1] if open_ended else inputs)]
            moved = MOVED.get(type, {}) if not domain else {}
            for name in [n for n in attrs if n in moved]:
                given += [ABSENT] * (moved[name] + 1 - len(given))
                given[moved[name]] = _lift(attrs.pop(name))
            check_spelling(type, attrs, domain)
            _check_count(type, len(given), domain)
            return Op(type, tuple(given), attrs, domain, open_ended)

        return make

    __getitem__ = __getattr__  # `op[name]`, of an operator whose name is in a table


def any_of(patterns: Iterable[Pattern]) -> Pattern:
    """The first of some patterns that leads to a full match, as `p | q | r` is."""
    return Choice(tuple(choice for p in patterns for choice in _choices(p)))


def var(
    name: str | None = None,
    *,
    dtype: int | Iterable[int] | None = None,
    rank: int | Collection[int] | None = None,
    shape: Sequence[int | None] | None = None,
) -> Var:
    """Any tensor. The body of the rule gets it as a `Value`, under that name.

    dtype  its type, of TensorProto.DataType, or several that it may have: `HALVES`
    rank   its number of dimensions, or several: `range(3, 6)`
    shape  its sizes, with None for any

    It does not match where what is asked is not known.
    """
    return Var(name, _guard(dtype, rank, shape, None))


def const(
    name: str | None = None,
    value: float | None = None,
    *,
    dtype: int | Iterable[int] | None = None,
    rank: int | Collection[int] | None = None,
    shape: Sequence[int | None] | None = None,
    size: int | None = None,
) -> Const:
    """A tensor whose value follows without the model's inputs. The body gets it as a NumPy array, under that name.

    value  one element, equal to 1e-6 relative or to the rounding of the tensor's own type
    size   its number of elements

    The others are those of `var`.
    """
    return Const(name, value, _guard(dtype, rank, shape, size))


def _guard(
    dtype: int | Iterable[int] | None,
    rank: int | Collection[int] | None,
    shape: Sequence[int | None] | None,
    size: int | None,
) -> Guard | None:
    if dtype is None and rank is None and shape is None and size is None:
        return None
    dtypes = None if dtype is None else frozenset({dtype} if isinstance(dtype, int) else dtype)
    ranks = (rank,) if isinstance(rank, int) else rank
    return Guard(dtypes, ranks, None if shape is None else tuple(shape), size)


op = _Ops()
attr = Attr
output = Output
ANY = Var()
ABSENT = Absent()


def roots(pattern: Pattern) -> Iterator[Op]:
    """The operators that a match of `pattern` can end in: what the driver indexes by."""
    for choice in _choices(pattern):
        if isinstance(choice, Choice):
            yield from roots(choice)
        elif isinstance(choice, Op):
            yield choice
        else:
            raise PassError(f"the pattern of a rule ends in an operator, not in a {type(choice).__name__.lower()}")


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a pattern gives to the body: those that each match binds, and those that some match binds."""

    sure: frozenset[str] = frozenset()
    possible: frozenset[str] = frozenset()


def names_of(pattern: Pattern) -> Names:
    """The names that a match of `pattern` binds."""
    return _names_of(pattern, {})


def _names_of(pattern: Pattern, known: dict[Pattern, Names]) -> Names:
    if pattern not in known:
        known[pattern] = _choice_names(pattern, known) if isinstance(pattern, Choice) else _own_names(pattern, known)
    return known[pattern]


def _choice_names(choice: Choice, known: dict[Pattern, Names]) -> Names:
    each = [_names_of(p, known) for p in choice.alternatives]
    return Names(frozenset.intersection(*(n.sure for n in each)), frozenset().union(*(n.possible for n in each)))


def _own_names(pattern: Pattern, known: dict[Pattern, Names]) -> Names:
    if isinstance(pattern, Output):
        return _names_of(pattern.node, known)
    if not isinstance(pattern, Op):
        name = getattr(pattern, "name", None)
        own = frozenset((name,) if name else ())
        return Names(own, own)
    own = frozenset(a.name for a in pattern.attrs.values() if isinstance(a, Attr))
    inner = [_names_of(p, known) for p in pattern.inputs]
    return Names(own.union(*(n.sure for n in inner)), own.union(*(n.possible for n in inner)))


def check_spelling(op: str, attrs: Collection[str], domain: str) -> None:
    """Raises PassError for an operator or an attribute that no opset of ONNX has."""
    known = operators(domain)
    if not known:
        return
    if op not in known:
        raise PassError(
            f"ONNX has no operator {op}.{did_you_mean(op, known, most=0)} For an operator of another "
            f'domain, or that ONNX does not have, write the domain: {op}(..., domain="ai.onnx").'
        )
    attributes = attributes_of_any_opset(op, domain) if attrs else ()
    for name in attrs if attributes else ():
        if name not in attributes:
            raise PassError(f"ONNX's operator {op} has no attribute {name}.{did_you_mean(name, attributes)}")


def _check_count(op: str, count: int, domain: str) -> None:
    """Raises PassError for more inputs than the operator has at any opset: no node would match."""
    most = most_inputs(op, domain)
    if most is not None and count > most:
        raise PassError(f"ONNX's operator {op} has at most {most} input{'s' if most != 1 else ''}, not {count}")


def _lift(given: Any) -> Pattern:
    if isinstance(given, Pattern):
        return given
    if given is None:
        return ABSENT
    if isinstance(given, str):
        return _named(given)
    if isinstance(given, int | float):
        return Const(value=float(given))
    if isinstance(given, Attr):
        raise TypeError(f"attr({given.name!r}) is used where a tensor is expected; write const({given.name!r})")
    if isinstance(given, Value):
        raise TypeError(f"op makes patterns; a body makes nodes of '{given.name}' with its builder: b.Relu(x)")
    raise TypeError(
        f"a pattern takes tensors and numbers, got {given!r}; write const(name), and compare it in the body"
    )


@cache
def _named(name: str) -> Var:
    """The variable that a text means as the input of an operator."""
    return Var(name)


def _choices(pattern: Pattern) -> tuple[Pattern, ...]:
    return pattern.alternatives if isinstance(pattern, Choice) else (pattern,)
