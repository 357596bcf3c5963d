"""Find the patterns that can hold at a node, from the operators of the node and of its inputs' producers alone.

Most nodes are rejected by one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from surgeon.ir.graph import Model, Node, Value
from surgeon.rules.match import required_attributes, same_attribute
from surgeon.rules.pattern import Absent, Choice, Const, Op, Output, Pattern, Var, roots

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
        asked = [required_attributes(root) for root, _, _ in rows]
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
            if not same_attribute(node.attr(name), value):
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
