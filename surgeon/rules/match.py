"""Decide whether a pattern holds at a node: match(pattern, node, model) -> Match | None.

A pattern is compiled once into nested closures in continuation-passing style. So commuting inputs and choices backtrack
without copying what is captured. `index.py` finds the patterns that are worth matching at a node.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from onnx import helper

from surgeon.ir.attributes import AttributeReference
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import Shape, static_sizes
from surgeon.ir.model import Model
from surgeon.ir.operators import BROADCASTS
from surgeon.ir.schemas import MOVED
from surgeon.rules.pattern import Absent, Attr, Choice, Const, Guard, Op, Output, Pattern, Var
from surgeon.targets.condition import dtype_name

SHAREABLE = frozenset({"Shape", "Constant"})  # they cost nothing, so a reader outside is not a reason to give up
MOST_SIZE_NODES = 32  # between the Shape of an interior tensor and the window that it serves

Next = Callable[[], bool]
Matcher = Callable[[Any, "_State", Next], bool]


class Match(NamedTuple):
    """`bound`: the names that the rewrite receives. `nodes`: every node the pattern explained, the root first."""

    root: Node
    bound: dict[str, Any]
    nodes: tuple[Node, ...]


@dataclass(slots=True)
class Attempt:
    """The furthest that a match came before it failed: how many nodes held, and what was missing."""

    held: int = -1
    why: str = ""

    def note(self, held: int, why: str) -> None:
        if held > self.held:
            self.held, self.why = held, why


class _State:
    """One attempt at a root: `captures` says what each pattern stands for, `found` is the match once it is complete."""

    __slots__ = ("model", "root", "captures", "attempt", "found")

    def __init__(self, model: Model, root: Node, attempt: Attempt | None) -> None:
        self.model = model
        self.root = root
        self.captures: dict[Pattern, Any] = {}
        self.attempt = attempt
        self.found: Match | None = None

    def failed(self, why: str) -> bool:
        """Record why the match ends here. Call it after `attempt is not None`: near misses are many, texts cost."""
        if self.attempt is not None:
            self.attempt.note(sum(isinstance(p, Op) for p in self.captures), why)
        return False

    def complete(self) -> bool:
        """Make the match, if no interior tensor is read from outside."""
        nodes = {self.root: None}
        bound: dict[str, Any] = {}
        constants: list[tuple[str, Value]] = []
        literals: list[Any] = []
        guarded: list[tuple[Guard, Any]] = []
        for p, v in self.captures.items():
            if type(p) is Op:
                nodes[v] = None
                if p.attrs and not self._bind_attributes(p, v, bound):
                    return False
            elif type(p) is Var:
                if p.name is not None and bound.setdefault(p.name, v) is not v:
                    return self.failed(f"'{p.name}' would be two tensors")
                if p.guard is not None:
                    guarded.append((p.guard, v))
            elif type(p) is Const:
                if p.name is not None:
                    constants.append((p.name, v))
                elif p.value is not None:
                    literals.append(v)
                if p.guard is not None:
                    guarded.append((p.guard, v))
        if len(nodes) > 1 and not self._closed(nodes):
            return False
        if literals and not self._within_ranks(nodes, literals):
            return False
        for guard, v in guarded:
            if not self._allows(guard, v):
                return False
        for name, v in constants:
            bound[name] = array = self.model.constant(v)
            if array is None:
                return self.failed(f"the value of '{v.name}' is too large to compute")
        self.found = Match(self.root, bound, tuple(nodes))
        return True

    def _bind_attributes(self, p: Op, node: Node, bound: dict[str, Any]) -> bool:
        for key, wanted in p.attrs.items():
            if isinstance(wanted, Attr):
                bound[wanted.name] = given = node.attr(key)
                if isinstance(given, AttributeReference):
                    return self.failed(f"{node.label} takes {key} from the function's caller")
        return True

    def _allows(self, guard: Guard, v: Any) -> bool:
        """Whether what a guard asks of a tensor is known to be so."""
        if guard.dtypes is not None:
            dtype = self.model.dtype(v) if isinstance(v, Value) else helper.np_dtype_to_tensor_dtype(v.dtype)
            if dtype not in guard.dtypes:
                return self.attempt is not None and self.failed(_other_type(v, dtype, guard.dtypes))
        if guard.ranks is None and guard.shape is None and guard.size is None:
            return True
        shape = _shape_of(v, self.model)
        if shape is None:
            return self.attempt is not None and self.failed(f"the rank of {_called(v)} is not known")
        if guard.ranks is not None and len(shape) not in guard.ranks:
            return self.attempt is not None and self.failed(f"{_called(v)} has {len(shape)} dimensions")
        wanted = shape if guard.shape is None else guard.shape
        fits = len(wanted) == len(shape) and all(w in (None, d) for w, d in zip(wanted, shape, strict=True))
        sizes = static_sizes(shape)
        if not fits or (guard.size is not None and (sizes is None or math.prod(sizes) != guard.size)):
            return self.attempt is not None and self.failed(f"{_called(v)} has the shape {list(shape)}")
        return True

    def _within_ranks(self, nodes: Collection[Node], literals: Sequence[Any]) -> bool:
        """Whether no constant that the pattern writes as a number gives a result more dimensions than the rest has.
        Where a rank is not known nothing is known."""
        shaped = {id(v): rank for v in literals if (rank := self._rank(v))}
        for node in nodes if shaped else ():
            operands = [v for v in node.operands() if v is not None] if node.key in BROADCASTS else []
            most = max((shaped[id(v)] for v in operands if id(v) in shaped), default=0)
            ranks = [self._rank(v) for v in operands if id(v) not in shaped]
            if ranks and all(rank is not None and rank < most for rank in ranks):
                return self.failed(f"a constant of {most} dimensions makes the result of {node.label} larger")
        return True

    def _rank(self, v: Any) -> int | None:
        """The number of dimensions, where it is known."""
        shape = _shape_of(v, self.model)
        return None if shape is None else len(shape)

    def _closed(self, nodes: Collection[Node]) -> bool:
        """Whether every interior tensor is read by the window alone and is not an output."""
        graph = self.root.graph
        for node in nodes:
            if node is self.root or node.key in SHAREABLE:
                continue
            if node.graph is not graph:
                return self.failed(f"{node.label} is outside the body that holds {self.root.label}")
            for out in node.outputs:
                if out is None:
                    continue
                if out.is_output:
                    return self.failed(f"'{out.name}' is an output of the graph")
                for user in out.users:
                    if user not in nodes and not _sizes_alone(out, user, nodes):
                        return self.attempt is not None and self.failed(f"'{out.name}' is also read by {user.label}")
        return True


def match(pattern: Op, node: Node, model: Model, attempt: Attempt | None = None) -> Match | None:
    """The first way in which `pattern` holds at `node`, or None. With `attempt`, it records the best failure."""
    state = _State(model, node, attempt)
    _node_matcher(pattern)(node, state, state.complete)
    return state.found


def _shape_of(v: Any, model: Model) -> Shape | None:
    """The shape of a tensor or an array; that of an initializer need not be inferred."""
    if not isinstance(v, Value):
        return tuple(v.shape)
    return model.shape(v) if v.tensor is None else tuple(v.tensor.dims)


def _called(v: Any) -> str:
    return f"'{v.name}'" if isinstance(v, Value) else "an attribute"


def _other_type(v: Any, dtype: int, wanted: Collection[int]) -> str:
    names = " or ".join(map(dtype_name, sorted(wanted)))
    found = f"{dtype_name(dtype)}, not {names}" if dtype else "not known"
    return f"the type of {_called(v)} is {found}"


def _sizes_alone(value: Value, user: Node, nodes: Collection[Node]) -> bool:
    """Whether a reader takes the tensor's sizes or type alone, for the window itself:
    `Reshape(v, Concat(Shape(v), 1, 1))`."""
    if user.key != "Shape" and not (user.key == "CastLike" and user.inputs[0] is not value):
        return False
    todo, seen = [user], {user}
    while todo:
        for out in todo.pop().outputs:
            if out is None or out.is_output:
                return False
            for reader in out.users:
                if reader in nodes or reader in seen:
                    continue
                if len(seen) >= MOST_SIZE_NODES:
                    return False
                seen.add(reader)
                todo.append(reader)
    return True


# ---- the compiler ----------------------------------------------------------------------------------------------------


def _matcher(pattern: Pattern) -> Matcher:
    """The matcher of a tensor pattern; compiled at its first use, and kept with the pattern."""
    if pattern.matcher is None:
        object.__setattr__(pattern, "matcher", _compile(pattern))
    return cast(Matcher, pattern.matcher)


def _compile(p: Pattern) -> Matcher:
    if isinstance(p, Var):
        if p.name is None and p.guard is None:
            return lambda v, s, then: then()  # ANY: unnamed variables are not compared
        return lambda v, s, then: v is not None and type(v) is not AttributeReference and _capture(p, v, s, then)
    if isinstance(p, Const):
        return _compile_const(p)
    if isinstance(p, Absent):
        return lambda v, s, then: v is None and then()
    if isinstance(p, Choice):
        return _compile_choice(p)
    if isinstance(p, Output):
        return _compile_output(p.node, p.index)
    if isinstance(p, Op):
        return _compile_output(p, 0)
    raise TypeError(f"not a pattern: {p!r}")


def _capture(p: Pattern, v: Any, s: _State, then: Next) -> bool:
    """Bind `p` to `v` for the rest of the match; the same pattern again must be the same tensor."""
    captures = s.captures
    if p in captures:
        return captures[p] is v and then()
    captures[p] = v
    if then():
        return True
    del captures[p]
    return False


def _compile_const(p: Const) -> Matcher:
    def const(v: Any, s: _State, then: Next) -> bool:
        if v is None or isinstance(v, AttributeReference):
            return False
        if isinstance(v, Value) and not s.model.is_constant(v):
            return s.attempt is not None and s.failed(f"'{v.name}' is not a constant")
        if p.value is not None and not _equals(p.value, v, s.model):
            return s.attempt is not None and s.failed(f"a constant is not {p.value:g}")
        return _capture(p, v, s, then)

    return const


def _equals(wanted: float, v: Value | np.ndarray, model: Model) -> bool:
    if isinstance(v, Value) and v.tensor is not None and any(d != 1 for d in v.tensor.dims):
        return False  # without reading the weights
    found = model.constant(v)
    if found is None or found.size != 1 or found.dtype.kind in "OSUb":
        return False
    have = float(found.reshape(())[()])
    if have == wanted or abs(have - wanted) <= 1e-6 * abs(wanted):
        return True
    return found.dtype.kind != "i" and float(np.asarray(wanted).astype(found.dtype)) == have


def _compile_choice(p: Choice) -> Matcher:
    matchers = [(_matcher(q), _producers(q)) for q in p.alternatives]
    by_producer: dict[str | None, list[Matcher]] = {}  # the alternatives worth trying, by the operator before
    names = " or ".join(dict.fromkeys(sorted(k for _, wanted in matchers for k in wanted or ())))

    def choice(v: Any, s: _State, then: Next) -> bool:
        captures = s.captures
        if p in captures:
            return captures[p] is v and then()
        producer = _producer_of(v)
        worth = by_producer.get(producer)
        if worth is None:
            worth = by_producer[producer] = [m for m, wanted in matchers if wanted is None or producer in wanted]
        if not worth:
            return s.attempt is not None and s.failed(
                f"'{getattr(v, 'name', v)}' comes from {producer or 'an input or initializer'}, not {names}"
            )
        captures[p] = v  # before an alternative has held: none of them holds the choice itself
        for matcher in worth:
            if matcher(v, s, then):
                return True
        del captures[p]
        return False

    return choice


def _compile_output(p: Op, index: int) -> Matcher:
    key = p.key
    inner = _node_matcher(p)

    def produced(v: Any, s: _State, then: Next) -> bool:
        if type(v) is not Value:
            return False
        node = v.producer
        if node is None or node.key != key:
            return s.attempt is not None and s.failed(
                f"'{v.name}' comes from {node.op if node else 'an input or initializer'}, not {p.type}"
            )
        if v.index != index:
            return False
        return inner(node, s, then)

    return produced


def _node_matcher(p: Op) -> Matcher:
    if p.node_matcher is None:
        object.__setattr__(p, "node_matcher", _compile_node(p))
    return cast(Matcher, p.node_matcher)


def _compile_node(p: Op) -> Matcher:
    fixed = p.required
    orders = [(_in_order([_matcher(q) for q in order]), [_producers(q) for q in order]) for order in p.orders()]
    telling = any(keys is not None for _, wanted in orders for keys in wanted)
    every = [holds for holds, _ in orders]
    by_producers: dict[tuple[str | None, ...], list[Matcher]] = {}  # the orders worth trying, by what makes the inputs
    count, open_ended = len(p.inputs), p.open
    key = p.key
    moved = key in MOVED

    def node_holds(node: Node, s: _State, then: Next) -> bool:
        if p in s.captures:
            return s.captures[p] is node and then()
        if node.key != key:
            return False
        for name, wanted in fixed:
            if not same_attribute(node.attr(name), wanted):
                return s.attempt is not None and s.failed(
                    f"{node.label} has {name} = {node.attr(name)}, not {_values(wanted)}"
                )
        operands: Sequence[Any] = node.inputs
        if moved or (operands and operands[-1] is None):
            operands = node.operands()
        given = len(operands)
        if given > count and not open_ended:
            return s.attempt is not None and s.failed(f"{node.label} has {given} inputs, not {count}")
        if given < count:
            operands = [*operands, *[None] * (count - given)]
        worth = every
        if telling and s.attempt is None:
            producers = tuple([_producer_of(v) for v in operands[:count]])
            found = by_producers.get(producers)
            if found is None:
                found = [holds for holds, wanted in orders if _worth_trying(wanted, producers)]
                by_producers[producers] = found
            worth = found
        s.captures[p] = node
        for inputs_hold in worth:
            if inputs_hold(operands, s, then):
                return True
        del s.captures[p]
        return False

    return node_holds


def _producer_of(v: Any) -> str | None:
    """The operator that makes an operand; None for one that no node makes."""
    return v.producer.key if type(v) is Value and v.producer is not None else None


def _worth_trying(wanted: list[frozenset[str] | None], producers: Sequence[str | None]) -> bool:
    """Whether each input comes from an operator that its pattern names, where it names any."""
    return all(keys is None or maker in keys for keys, maker in zip(wanted, producers, strict=False))


def _in_order(matchers: Sequence[Matcher]) -> Matcher:
    """Whether the inputs hold, each by its matcher, and what comes after them. Nodes have one or two, most of them."""
    if not matchers:
        return lambda operands, s, then: then()
    first = matchers[0]
    if len(matchers) == 1:
        return lambda operands, s, then: first(operands[0], s, then)
    if len(matchers) == 2:
        second = matchers[1]
        return lambda operands, s, then: first(operands[0], s, lambda: second(operands[1], s, then))
    rest = _in_order(matchers[1:])
    return lambda operands, s, then: first(operands[0], s, lambda: rest(operands[1:], s, then))


def _values(wanted: Any) -> str:
    return " or ".join(map(str, wanted.among or ())) if isinstance(wanted, Attr) else str(wanted)


def same_attribute(have: Any, wanted: Any) -> bool:
    """Whether an attribute has the value that a pattern wants, or one of those that it may have."""
    if isinstance(wanted, Attr):
        return any(same_attribute(have, value) for value in wanted.among or ())
    if isinstance(wanted, float) and isinstance(have, float):
        return have == wanted or abs(have - wanted) <= 1e-6 * abs(wanted)
    return bool(have == wanted)


def _producers(pattern: Pattern) -> frozenset[str] | None:
    """The operators one of which must produce the tensor; None where anything may."""
    if isinstance(pattern, Op):
        return frozenset({pattern.key})
    if isinstance(pattern, Output):
        return frozenset({pattern.node.key})
    if isinstance(pattern, Choice):
        parts = [_producers(q) for q in pattern.alternatives]
        return None if any(part is None for part in parts) else frozenset().union(*[p for p in parts if p is not None])
    return None
