"""Decide whether a pattern holds at a node: match(pattern, node, model) -> Match | None.

A pattern is compiled once into nested closures in continuation-passing style, so commuting inputs and choices backtrack
without copying what is bound. `Index` finds the patterns that can hold at a node from the operators of the node and of
its inputs' producers alone; most nodes are rejected by one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from surgeon.ir.graph import Model, Node, Reference, Value
from surgeon.rules.pattern import MOVED, Absent, Attr, Choice, Const, Op, Output, Pattern, Var, roots

FREE = frozenset({"Shape", "Constant"})  # they cost nothing, so sharing them is no reason to give up

SIZES = 32  # nodes that may stand between the shape of an interior tensor and the window that it serves

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
    """One attempt at a root: `seen` says what each pattern stands for, `found` is the match once it is complete."""

    __slots__ = ("model", "root", "seen", "attempt", "found")

    def __init__(self, model: Model, root: Node, attempt: Attempt | None) -> None:
        self.model = model
        self.root = root
        self.seen: dict[Pattern, Any] = {}
        self.attempt = attempt
        self.found: Match | None = None

    def failed(self, why: str) -> bool:
        """Record why the match ends here. Call it behind `attempt is not None`: near misses are many, texts cost."""
        if self.attempt is not None:
            self.attempt.note(sum(isinstance(p, Op) for p in self.seen), why)
        return False

    def complete(self) -> bool:
        """Make the match, if no interior tensor is read from outside."""
        nodes = {self.root: None}
        bound: dict[str, Any] = {}
        constants: list[tuple[str, Value]] = []
        for p, v in self.seen.items():
            if type(p) is Op:
                nodes[v] = None
                if p.attrs and not self._bind_attributes(p, v, bound):
                    return False
            elif type(p) is Var:
                if p.name is not None:
                    bound[p.name] = v
            elif type(p) is Const and p.name is not None:
                constants.append((p.name, v))
        if len(nodes) > 1 and not self._closed(nodes):
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
                if isinstance(given, Reference):
                    return self.failed(f"{node.label} takes {key} from the function's caller")
        return True

    def _closed(self, nodes: Collection[Node]) -> bool:
        """Whether every interior tensor is read by the window alone and is no output."""
        graph = self.root.graph
        for node in nodes:
            if node is self.root or node.key in FREE:
                continue
            if node.graph is not graph:
                return self.failed(f"{node.label} stands outside the body that holds {self.root.label}")
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
                if len(seen) >= SIZES:
                    return False
                seen.add(reader)
                todo.append(reader)
    return True


# ---- the compiler ----------------------------------------------------------------------------------------------------

_compiled: dict[Pattern, Matcher] = {}
_compiled_nodes: dict[Op, Matcher] = {}


def _matcher(pattern: Pattern) -> Matcher:
    """The matcher of a tensor pattern; compiled at its first use."""
    found = _compiled.get(pattern)
    if found is None:
        found = _compiled[pattern] = _compile(pattern)
    return found


def _compile(p: Pattern) -> Matcher:
    if isinstance(p, Var):
        return _compile_var(p)
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


def _bind(p: Pattern, v: Any, s: _State, then: Next) -> bool:
    """Bind `p` to `v` for the rest of the match; the same pattern again must be the same tensor."""
    seen = s.seen
    if p in seen:
        return seen[p] is v and then()
    seen[p] = v
    if then():
        return True
    del seen[p]
    return False


def _compile_var(p: Var) -> Matcher:
    if p.name is None:
        return lambda v, s, then: then()  # ANY: unnamed variables are not compared
    return lambda v, s, then: v is not None and type(v) is not Reference and _bind(p, v, s, then)


def _compile_const(p: Const) -> Matcher:
    def const(v: Any, s: _State, then: Next) -> bool:
        if v is None or isinstance(v, Reference):
            return False
        if isinstance(v, Value) and not s.model.is_constant(v):
            return s.attempt is not None and s.failed(f"'{v.name}' is not a constant")
        if p.value is not None and not _equals(p.value, v, s.model):
            return s.attempt is not None and s.failed(f"a constant is not {p.value:g}")
        return _bind(p, v, s, then)

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
    by_producer: dict[str | None, list[Matcher]] = {}  # the alternatives worth trying, by the operator in front
    names = " or ".join(dict.fromkeys(sorted(k for _, wanted in matchers for k in wanted or ())))

    def choice(v: Any, s: _State, then: Next) -> bool:
        seen = s.seen
        if p in seen:
            return seen[p] is v and then()
        producer = _maker(v)
        worth = by_producer.get(producer)
        if worth is None:
            worth = by_producer[producer] = [m for m, wanted in matchers if wanted is None or producer in wanted]
        if not worth:
            return s.attempt is not None and s.failed(
                f"'{getattr(v, 'name', v)}' comes from {producer or 'an input or initializer'}, not {names}"
            )
        seen[p] = v  # before an alternative has held: none of them holds the choice itself
        for matcher in worth:
            if matcher(v, s, then):
                return True
        del seen[p]
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
    found = _compiled_nodes.get(p)
    if found is None:
        found = _compiled_nodes[p] = _compile_node(p)
    return found


def _compile_node(p: Op) -> Matcher:
    fixed = _fixed(p)
    orders = [(_in_order([_matcher(q) for q in order]), [_producers(q) for q in order]) for order in p.orders()]
    telling = any(keys is not None for _, wanted in orders for keys in wanted)
    every = [holds for holds, _ in orders]
    by_makers: dict[tuple[str | None, ...], list[Matcher]] = {}  # the orders worth trying, by what makes the inputs
    count, open_ended = len(p.inputs), p.open
    key = p.key
    moved = key in MOVED

    def node_holds(node: Node, s: _State, then: Next) -> bool:
        if p in s.seen:
            return s.seen[p] is node and then()
        if node.key != key:
            return False
        for name, wanted in fixed:
            if not _same_attribute(node.attr(name), wanted):
                return s.attempt is not None and s.failed(f"{node.label} has {name} = {node.attr(name)}, not {wanted}")
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
            makers = tuple([_maker(v) for v in operands[:count]])
            found = by_makers.get(makers)
            if found is None:
                found = by_makers[makers] = [holds for holds, wanted in orders if _worth_trying(wanted, makers)]
            worth = found
        s.seen[p] = node
        for inputs_hold in worth:
            if inputs_hold(operands, s, then):
                return True
        del s.seen[p]
        return False

    return node_holds


def _maker(v: Any) -> str | None:
    """The operator that makes an operand; None for one that no node makes."""
    return v.producer.key if type(v) is Value and v.producer is not None else None


def _worth_trying(wanted: list[frozenset[str] | None], makers: Sequence[str | None]) -> bool:
    """Whether each input comes from an operator that its pattern names, where it names any."""
    return all(keys is None or maker in keys for keys, maker in zip(wanted, makers, strict=False))


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


def _fixed(p: Op) -> list[tuple[str, Any]]:
    """The attributes that must have one value."""
    return [(name, wanted) for name, wanted in p.attrs.items() if not isinstance(wanted, Attr)]


def _same_attribute(have: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(have, float):
        return have == wanted or abs(have - wanted) <= 1e-6 * abs(wanted)
    return bool(have == wanted)


# ---- the index -------------------------------------------------------------------------------------------------------

T = TypeVar("T")
Row = tuple[Op, list[tuple[Pattern, ...]], list[T]]  # a root, the orders of its inputs, whose it is
# (operator or None, whether it is a constant, the fronts of its inputs),
# None for what was not looked at; None: left out
Front = Any


@dataclass(frozen=True, slots=True)
class _Near(Generic[T]):
    """The rows that fit the operators in front of a node; the inputs at which they look further up; and what they come
    to, where it tells nothing more which inputs are constant and what stands further up, else `memo`, by what was seen.
    `attributes`: what one of the rows asks of the node's own, where every row asks something."""

    rows: tuple[Row[T], ...]
    attributes: list[list[tuple[str, Any]]]
    further: list[bool]
    found: tuple[tuple[Op, T], ...] | None
    memo: dict[tuple[Any, ...], tuple[tuple[Op, T], ...]] = field(default_factory=dict)


def _owned(rows: Iterable[Row[T]]) -> tuple[tuple[Op, T], ...]:
    return tuple((root, owner) for root, _, owners in rows for owner in owners)


class Index(Generic[T]):
    """Patterns by what stands at their root and directly in front of it.

    `at(node)` gives the (pattern, owner) pairs that can hold at a node: those that fit its operator, the operators in
    front, and where there are any of those, what is constant and the operators one further up. Both signatures are
    remembered, so the cost of a node that no pattern can match does not grow with the number of patterns. The owners of
    one pattern stand together.
    """

    def __init__(self, owned: Iterable[tuple[Pattern, T]], model: Model) -> None:
        self._model = model
        self._rows: dict[str, list[Row[T]]] = {}
        owners: dict[Op, list[T]] = {}
        for pattern, owner in owned:
            for root in roots(pattern):
                if root not in owners:
                    owners[root] = []
                    self._rows.setdefault(root.key, []).append((root, list(root.orders()), owners[root]))
                owners[root].append(owner)
        # By the node's operator, then those in front of its first three inputs, then the number of its inputs.
        self._near: dict[Any, Any] = {}

    @property
    def operators(self) -> frozenset[str]:
        return frozenset(self._rows)

    def at(self, node: Node) -> tuple[tuple[Op, T], ...]:
        inputs = node.inputs
        count = len(inputs)
        first = inputs if count <= 3 else inputs[:3]
        try:
            level = self._near[node.key]
            for v in first:  # a look-up each and no call: this runs for every node
                if v is None:
                    level = level[None]
                else:
                    producer = v.producer
                    level = level["" if producer is None else producer.key]
            near = level[count]
        except KeyError:
            near = self._remember_near(node.key, count, _makers(first))
        if near.attributes and not _has_one(node, near.attributes):
            return ()
        if near.found is not None:
            return near.found  # type: ignore[no-any-return]
        constant = self._model.is_constant
        seen: list[Any] = []  # of each input whether it is a constant, and where that matters what stands further up
        further = near.further
        for k, v in enumerate(first):
            if v is None:
                continue
            known = not v.varies and constant(v)
            seen.append(known)
            if further[k] and not known:
                _note_above(v, seen, constant)
        found = near.memo.get(signature := tuple(seen))
        if found is None:
            fronts = [_front(v, look, constant) for v, look in zip(first, near.further, strict=True)]
            found = near.memo[signature] = _owned(self._fitting(near.rows, count, fronts))
        return found

    def _remember_near(self, key: str, count: int, makers: Sequence[str | None]) -> _Near[T]:
        level = self._near
        for step in (key, *makers):
            level = level.setdefault(step, {})
        found = level[count] = self._fitting_near(key, count, makers)
        return found

    def _fitting_near(self, key: str, count: int, makers: Sequence[str | None]) -> _Near[T]:
        fronts: list[Front] = [None if maker is None else (maker, None, None) for maker in makers]
        rows = tuple(self._fitting(self._rows.get(key, ()), count, fronts))
        orders = [order for _, orders, _ in rows for order in orders]
        standing = [[(q, m) for o in orders for q in o[i : i + 1]] for i, m in enumerate(makers)]
        further = [any(_looks_further(q, m) for q, m in those) for those in standing]
        asked = [_fixed(root) for root, _, _ in rows]
        told = any(further) or any(_asks_constant(q) for those in standing for q, _ in those)
        return _Near(rows, asked if all(asked) else [], further, None if told else _owned(rows))

    def _fitting(self, rows: Iterable[Row[T]], count: int, fronts: Sequence[Front]) -> Iterator[Row[T]]:
        for row in rows:
            root, orders, _ = row
            most = len(root.inputs)
            if not root.open and most < min(count, len(fronts)) and fronts[most] is not None:
                continue  # the node has more inputs
            if any(all(_fits(q, front) for q, front in zip(order, fronts, strict=False)) for order in orders):
                yield row


def _makers(inputs: Iterable[Value | None]) -> list[str | None]:
    """The operators that make the inputs; "" for one that no node makes, None for one left out."""
    return [None if v is None else "" if v.producer is None else v.producer.key for v in inputs]


def _has_one(node: Node, attributes: Iterable[list[tuple[str, Any]]]) -> bool:
    """Whether the node has what one of the lists asks of its attributes."""
    for wanted in attributes:
        for name, value in wanted:
            if not _same_attribute(node.attr(name), value):
                break
        else:
            return True
    return False


def _note_above(value: Value, seen: list[Any], constant: Callable[[Value], bool]) -> None:
    """Add to `seen` what makes the inputs of a tensor's producer, and whether they are constants."""
    for v in value.producer.inputs[:3]:  # type: ignore[union-attr]
        if v is None:
            seen.append(None)
            continue
        producer = v.producer
        seen.append("" if producer is None else producer.key)
        seen.append(not v.varies and constant(v))


def _front(value: Value | None, look: bool, constant: Callable[[Value], bool]) -> Front:
    """What makes a tensor: the operator, and where it is no constant and `look` asks for it, those one further up."""
    if value is None:
        return None
    producer = value.producer
    known = not value.varies and constant(value)
    if producer is None or known or not look:
        return ("" if producer is None else producer.key, known, None)
    above = [v and (v.producer and v.producer.key, not v.varies and constant(v), None) for v in producer.inputs[:3]]
    return (producer.key, False, tuple(above))


def _asks_constant(pattern: Pattern) -> bool:
    """Whether it matters to the pattern that the tensor is a constant."""
    return isinstance(pattern, Const) or (
        isinstance(pattern, Choice) and any(_asks_constant(q) for q in pattern.alternatives)
    )


def _looks_further(pattern: Pattern, maker: str | None) -> bool:
    """Whether it matters to the pattern what stands in front of the operator `maker`."""
    if isinstance(pattern, Choice):
        return any(_looks_further(q, maker) for q in pattern.alternatives)
    node = pattern.node if isinstance(pattern, Output) else pattern
    return isinstance(node, Op) and node.key == maker and any(not isinstance(q, Var) for q in node.inputs)


def _fits(pattern: Pattern, front: Front) -> bool:
    """Whether a tensor that is made so can match; never False for one that does."""
    if isinstance(pattern, Choice):
        return any(_fits(q, front) for q in pattern.alternatives)
    if isinstance(pattern, Var):
        return pattern.name is None or front is not None
    if isinstance(pattern, Absent) or front is None:
        return isinstance(pattern, Absent) and front is None
    key, constant, inputs = front
    if isinstance(pattern, Const):
        return constant is not False
    node = pattern.node if isinstance(pattern, Output) else pattern
    if not isinstance(node, Op) or key != node.key:
        return False
    if constant or inputs is None:
        return True
    return any(all(_fits(q, f) for q, f in zip(order, inputs, strict=False)) for order in node.orders())


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
