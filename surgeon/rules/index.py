"""Find the patterns that can hold at a node, from the operators of the node and of its inputs' producers alone.

Most nodes are rejected by one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.rules.match import required_attributes, same_attribute
from surgeon.rules.pattern import Absent, Choice, Const, Op, Output, Pattern, Var, roots

T = TypeVar("T")
# The producer signature of an input: (its producer's operator, "" where no node makes it; whether it is a constant; the
# signatures of the producer's own inputs). None in it for what was not looked at; None for an input left out.
Signature = Any


class Candidate(NamedTuple, Generic[T]):
    """A root pattern, the orders in which its inputs may come, and the owners of the pattern."""

    root: Op
    orders: list[tuple[Pattern, ...]]
    owners: list[T]


@dataclass(frozen=True, slots=True)
class _Bucket(Generic[T]):
    """The candidates for the nodes of one operator whose inputs are made by the same operators.

    attributes   what each candidate asks of the node's own attributes; empty where one of them asks nothing
    looks_above  for each input, whether a candidate looks at what stands in front of its producer
    owned        the (root, owner) pairs, where neither constants nor what stands above decide; else None
    memo         the pairs by signature, where `owned` is None
    """

    candidates: tuple[Candidate[T], ...]
    attributes: list[list[tuple[str, Any]]]
    looks_above: list[bool]
    owned: tuple[tuple[Op, T], ...] | None
    memo: dict[tuple[Any, ...], tuple[tuple[Op, T], ...]] = field(default_factory=dict)


def _pairs(candidates: Iterable[Candidate[T]]) -> tuple[tuple[Op, T], ...]:
    return tuple((c.root, owner) for c in candidates for owner in c.owners)


class Index(Generic[T]):
    """Patterns by what stands at their root and directly in front of it.

    `at(node)` gives the (pattern, owner) pairs that can hold at a node: those that fit its operator, the operators in
    front, and where there are any of those, what is constant and the operators one further up. Both signatures are
    remembered, so the cost of a node that no pattern can match does not grow with the number of patterns. The owners of
    one pattern stand together.
    """

    def __init__(self, owned: Iterable[tuple[Pattern, T]], model: Model) -> None:
        self._model = model
        self._by_operator: dict[str, list[Candidate[T]]] = {}
        owners: dict[Op, list[T]] = {}
        for pattern, owner in owned:
            for root in roots(pattern):
                if root not in owners:
                    owners[root] = []
                    self._by_operator.setdefault(root.key, []).append(
                        Candidate(root, list(root.orders()), owners[root])
                    )
                owners[root].append(owner)
        # By the node's operator, then those in front of its first three inputs, then the number of its inputs.
        self._buckets: dict[Any, Any] = {}

    @property
    def operators(self) -> frozenset[str]:
        """The operators that a pattern's root may have."""
        return frozenset(self._by_operator)

    def at(self, node: Node) -> tuple[tuple[Op, T], ...]:
        """The (root, owner) pairs that can hold at the node."""
        inputs = node.inputs
        count = len(inputs)
        first = inputs if count <= 3 else inputs[:3]
        try:
            level = self._buckets[node.key]
            for v in first:  # a look-up each and no call: this runs for every node
                if v is None:
                    level = level[None]
                else:
                    producer = v.producer
                    level = level["" if producer is None else producer.key]
            bucket: _Bucket[T] = level[count]
        except KeyError:
            bucket = self._add_bucket(node.key, count, _producers_of(first))
        if bucket.attributes and not _has_any(node, bucket.attributes):
            return ()
        if bucket.owned is not None:
            return bucket.owned
        constant = self._model.is_constant
        signed: list[Any] = []
        looks_above = bucket.looks_above
        for k, v in enumerate(first):
            if v is None:
                continue
            is_constant = not v.varies and constant(v)
            signed.append(is_constant)
            if looks_above[k] and not is_constant:
                _sign_inputs_of(v, signed, constant)
        found = bucket.memo.get(key := tuple(signed))
        if found is None:
            signatures = [_signature(v, above, constant) for v, above in zip(first, looks_above, strict=True)]
            found = bucket.memo[key] = _pairs(_that_fit(bucket.candidates, count, signatures))
        return found

    def _add_bucket(self, key: str, count: int, producers: Sequence[str | None]) -> _Bucket[T]:
        level = self._buckets
        for step in (key, *producers):
            level = level.setdefault(step, {})
        found = level[count] = self._make_bucket(key, count, producers)
        return found

    def _make_bucket(self, key: str, count: int, producers: Sequence[str | None]) -> _Bucket[T]:
        signatures: list[Signature] = [None if op is None else (op, None, None) for op in producers]
        candidates = tuple(_that_fit(self._by_operator.get(key, ()), count, signatures))
        orders = [order for c in candidates for order in c.orders]
        at_input = [[order[k] for order in orders if k < len(order)] for k in range(len(producers))]
        above = [any(_looks_above(q, op) for q in those) for those, op in zip(at_input, producers, strict=True)]
        attributes = [required_attributes(c.root) for c in candidates]
        decided = not any(above) and not any(_asks_for_constant(q) for those in at_input for q in those)
        return _Bucket(
            candidates,
            attributes if all(attributes) else [],
            above,
            _pairs(candidates) if decided else None,
        )


def _that_fit(
    candidates: Iterable[Candidate[T]], count: int, signatures: Sequence[Signature]
) -> Iterator[Candidate[T]]:
    """The candidates that can hold at a node with `count` inputs of these signatures."""
    for candidate in candidates:
        most = len(candidate.root.inputs)
        if not candidate.root.open and most < min(count, len(signatures)) and signatures[most] is not None:
            continue  # the node has more inputs
        if any(all(_fits(q, s) for q, s in zip(order, signatures, strict=False)) for order in candidate.orders):
            yield candidate


def _producers_of(inputs: Iterable[Value | None]) -> list[str | None]:
    """The operators that make the inputs; "" for one that no node makes, None for one left out."""
    return [None if v is None else "" if v.producer is None else v.producer.key for v in inputs]


def _has_any(node: Node, attributes: Iterable[list[tuple[str, Any]]]) -> bool:
    """Whether the node has what one of the lists asks of its attributes."""
    for wanted in attributes:
        for name, value in wanted:
            if not same_attribute(node.attr(name), value):
                break
        else:
            return True
    return False


def _sign_inputs_of(value: Value, signed: list[Any], constant: Callable[[Value], bool]) -> None:
    """Add to `signed` what makes the inputs of a tensor's producer, and whether they are constants."""
    assert value.producer is not None
    for v in value.producer.inputs[:3]:
        if v is None:
            signed.append(None)
            continue
        producer = v.producer
        signed.append("" if producer is None else producer.key)
        signed.append(not v.varies and constant(v))


def _signature(value: Value | None, above: bool, constant: Callable[[Value], bool]) -> Signature:
    """The signature of an input; with `above` those of its producer's inputs too, unless it is a constant."""
    if value is None:
        return None
    producer = value.producer
    is_constant = not value.varies and constant(value)
    if producer is None or is_constant or not above:
        return ("" if producer is None else producer.key, is_constant, None)
    inputs = [v and (v.producer and v.producer.key, not v.varies and constant(v), None) for v in producer.inputs[:3]]
    return (producer.key, False, tuple(inputs))


def _asks_for_constant(pattern: Pattern) -> bool:
    """Whether it matters to the pattern that the tensor is a constant."""
    return isinstance(pattern, Const) or (
        isinstance(pattern, Choice) and any(_asks_for_constant(q) for q in pattern.alternatives)
    )


def _looks_above(pattern: Pattern, maker: str | None) -> bool:
    """Whether it matters to the pattern what stands in front of the operator `maker`."""
    if isinstance(pattern, Choice):
        return any(_looks_above(q, maker) for q in pattern.alternatives)
    node = pattern.node if isinstance(pattern, Output) else pattern
    return isinstance(node, Op) and node.key == maker and any(not isinstance(q, Var) for q in node.inputs)


def _fits(pattern: Pattern, signature: Signature) -> bool:
    """Whether an input of that signature can match the pattern; never False for one that does."""
    if isinstance(pattern, Choice):
        return any(_fits(q, signature) for q in pattern.alternatives)
    if isinstance(pattern, Var):
        return pattern.name is None or signature is not None
    if isinstance(pattern, Absent) or signature is None:
        return isinstance(pattern, Absent) and signature is None
    key, constant, inputs = signature
    if isinstance(pattern, Const):
        return constant is not False
    node = pattern.node if isinstance(pattern, Output) else pattern
    if not isinstance(node, Op) or key != node.key:
        return False
    if constant or inputs is None:
        return True
    return any(all(_fits(q, s) for q, s in zip(order, inputs, strict=False)) for order in node.orders())
