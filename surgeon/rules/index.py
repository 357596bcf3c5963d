"""Find the patterns that can hold at a node: all patterns share one decision tree, grown as nodes ask for it.

A step of the tree looks at one tensor before the node: which operator makes it, and whether it is a constant. What
several patterns begin with is looked at once, not once a pattern. Most nodes are rejected after a step or two. A tree
knows nothing of a model, so runs share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from surgeon.ir.graph import Node, Value
from surgeon.rules.match import same_attribute
from surgeon.rules.pattern import Absent, Choice, Const, Op, Output, Pattern, Var, roots

T = TypeVar("T")
Path = tuple[int, ...]  # of a tensor: the number of the node's input, then that of its producer's input, and so on
Asks = frozenset[Path]  # the tensors that decide whether a pattern can hold

MOST_INPUTS = 3  # of a node that are looked at
MOST_STEPS = 3  # from the node to what is looked at
NOTHING: Asks = frozenset()  # a pattern that nothing more can reject


class Seen(NamedTuple):
    """What is at a path: the operator that makes the tensor ("" where none does), whether it is a constant."""

    maker: str
    constant: bool


LEFT_OUT = Seen("left out", False)  # an input with an empty name
BEYOND = Seen("beyond", False)  # the node has fewer inputs: older opsets have some as attributes
NO_TENSOR = {seen.maker: seen for seen in (LEFT_OUT, BEYOND)}
UNNAMED = "unnamed"  # stands for all operators that no pattern has in it
Known = Mapping[Path, Seen]


@dataclass(frozen=True, slots=True)  # a NamedTuple cannot be generic before Python 3.11
class Candidate(Generic[T]):
    """A root pattern and its owners."""

    root: Op
    owners: list[T]


@dataclass(slots=True)
class _State(Generic[T]):
    """A place in the decision tree: what is known there, and the patterns that can still hold.

    candidates  each with the tensors that decide about it
    count       of the node's inputs
    looked_at   the paths of the steps so far; the node's own, which is empty, comes first
    number      the input that is looked at next; -1 where nothing more can reject a pattern
    slot        whose input: 0 for the node, n for the producer of what was looked at in step n
    pairs       the (root, owner) pairs, where nothing more is looked at
    attributes  what each of those asks of the node's own attributes; empty where one of them asks nothing
    """

    candidates: list[tuple[Candidate[T], Asks]]
    count: int
    known: dict[Path, Seen]
    looked_at: tuple[Path, ...]
    path: Path = ()
    number: int = -1
    slot: int = 0
    pairs: tuple[tuple[Op, T], ...] = ()
    attributes: list[list[tuple[str, Any]]] = field(default_factory=list)
    others: dict[str, _State[T]] = field(default_factory=dict)  # what comes next, by the maker of a tensor
    constants: dict[str, _State[T]] = field(default_factory=dict)  # the same where the tensor is a constant


class Index(Generic[T]):
    """Patterns by what is at their root and before it.

    `at(node)` gives the (pattern, owner) pairs that can hold at a node. The cost of a node does not grow with the
    number of patterns that begin alike. The owners of one pattern are together.
    """

    def __init__(self, owned: Iterable[tuple[Pattern, T]]) -> None:
        self._by_operator: dict[str, list[Candidate[T]]] = {}
        owners: dict[Op, list[T]] = {}
        for pattern, owner in owned:
            for root in roots(pattern):
                if root not in owners:
                    owners[root] = []
                    self._by_operator.setdefault(root.key, []).append(Candidate(root, owners[root]))
                owners[root].append(owner)
        self._first: dict[str, dict[int, _State[T]]] = {}  # by the node's operator and the number of its inputs
        self._named = {"", *NO_TENSOR, *operators_of(owners)}

    @property
    def operators(self) -> frozenset[str]:
        """The operators that a pattern's root may have."""
        return frozenset(self._by_operator)

    def at(self, node: Node, is_constant: Callable[[Value], bool]) -> tuple[tuple[Op, T], ...]:
        """The (root, owner) pairs that can hold at the node. `is_constant` is asked where a tensor may be one."""
        try:
            state = self._first[node.key][len(node.inputs)]
        except KeyError:
            state = self._add_first(node)
        makers: list[Node | None] = [node]
        while state.number >= 0:  # no call on the way: this runs for every node
            reader = makers[state.slot]
            inputs = () if reader is None else reader.inputs
            branches, maker = state.others, None
            if state.number >= len(inputs):
                seen = BEYOND.maker
            elif (value := inputs[state.number]) is None:
                seen = LEFT_OUT.maker
            else:
                maker = value.producer
                seen = "" if maker is None else maker.key
                if not value.varies and is_constant(value):
                    branches = state.constants
            makers.append(maker)
            state = branches.get(seen) or self._grown(state, branches, seen)
        if state.attributes and not _has_any(node, state.attributes):
            return ()
        return state.pairs

    def _add_first(self, node: Node) -> _State[T]:
        count = len(node.inputs)
        asked = [(c, _asks_at_root(c.root, count, {})) for c in self._by_operator.get(node.key, ())]
        state = _decided([(c, asks) for c, asks in asked if asks is not None], count, {}, ((),))
        self._first.setdefault(node.key, {})[count] = state
        return state

    def _grown(self, state: _State[T], branches: dict[str, _State[T]], maker: str) -> _State[T]:
        """The state after `state` where `maker` makes the tensor that it looks at; it is added to `branches`."""
        known = maker if maker in self._named else UNNAMED
        found = branches.get(known) or _behind(state, Seen(known, branches is state.constants))
        branches[known] = branches[maker] = found
        return found


def _behind(state: _State[T], seen: Seen) -> _State[T]:
    """What comes after `state` where that is at its path."""
    known = {**state.known, state.path: NO_TENSOR.get(seen.maker) or seen}
    left = []
    for candidate, asks in state.candidates:
        again = _asks_at_root(candidate.root, state.count, known) if state.path in asks else asks
        if again is not None:
            left.append((candidate, again))
    return _decided(left, state.count, known, (*state.looked_at, state.path))


def _decided(
    candidates: list[tuple[Candidate[T], Asks]], count: int, known: dict[Path, Seen], looked_at: tuple[Path, ...]
) -> _State[T]:
    """The state with these candidates: the nearest tensor is looked at next, of those what most of them ask for."""
    state = _State(candidates, count, known, looked_at)
    wanted = Counter(path for _, asks in candidates for path in asks)
    if wanted:
        state.path = min(wanted, key=lambda path: (len(path), -wanted[path], path))
        state.number = state.path[-1]
        state.slot = looked_at.index(state.path[:-1])
        return state
    state.pairs = tuple((c.root, owner) for c, _ in candidates for owner in c.owners)
    attributes = [c.root.required for c, _ in candidates]
    state.attributes = attributes if all(attributes) else []
    return state


def _has_any(node: Node, attributes: Iterable[list[tuple[str, Any]]]) -> bool:
    """Whether the node has what one of the lists asks of its attributes."""
    for wanted in attributes:
        for name, value in wanted:
            if not same_attribute(node.attr(name), value):
                break
        else:
            return True
    return False


def operators_of(patterns: Iterable[Pattern]) -> set[str]:
    """The operators that some patterns have anywhere in them, as the index of a graph calls them."""
    return {pattern.key for pattern in nodes_in(patterns)}


def nodes_in(patterns: Iterable[Pattern]) -> set[Op]:
    """The patterns of nodes that some patterns have anywhere in them."""
    found, seen, todo = set[Op](), set[Pattern](), list(patterns)
    while todo:
        pattern = todo.pop()
        if pattern in seen:
            continue
        seen.add(pattern)
        if isinstance(pattern, Choice):
            todo += pattern.alternatives
        elif isinstance(pattern, Output):
            todo.append(pattern.node)
        elif isinstance(pattern, Op):
            found.add(pattern)
            todo += pattern.inputs
    return found


# ---- what a pattern asks for -----------------------------------------------------------------------------------------
# Each function answers None where the pattern cannot hold with what is known, and never for one that holds.


def _asks_at_root(root: Op, count: int, known: Known) -> Asks | None:
    """What a root pattern asks for at a node with `count` inputs."""
    asks = _asks_of_inputs(root, (), known)
    if asks is None or root.open:
        return asks
    for number in range(len(root.inputs), min(count, MOST_INPUTS)):  # the node has more inputs: are they left out?
        seen = known.get((number,))
        if seen is None:
            asks |= {(number,)}
        elif seen is not LEFT_OUT:
            return None
    return asks


def _asks_of_inputs(node: Op, path: Path, known: Known) -> Asks | None:
    """What a pattern asks for before the node at `path`, whatever the order of its inputs."""
    if len(path) == MOST_STEPS:
        return NOTHING
    orders = [_asks_in_order(order, path, known) for order in node.orders()]
    return _any_of(orders)


def _asks_in_order(inputs: tuple[Pattern, ...], path: Path, known: Known) -> Asks | None:
    asks = NOTHING
    for number, pattern in enumerate(islice(inputs, MOST_INPUTS)):
        more = _asks(pattern, (*path, number), known)
        if more is None:
            return None
        asks |= more
    return asks


def _any_of(ways: Iterable[Asks | None]) -> Asks | None:
    """What is asked for where any of some ways will do: nothing more once one of them holds whatever comes."""
    asks: Asks | None = None
    for way in ways:
        if way is None:
            continue
        if not way:
            return NOTHING
        asks = way if asks is None else asks | way
    return asks


def _asks(pattern: Pattern, path: Path, known: Known) -> Asks | None:
    """What a pattern of the tensor at `path` asks for."""
    if isinstance(pattern, Choice):
        return _any_of(_asks(q, path, known) for q in pattern.alternatives)
    seen = known.get(path)
    if seen is BEYOND or (isinstance(pattern, Var) and (pattern.name is None or seen is not LEFT_OUT)):
        return NOTHING
    if seen is None:
        return frozenset({path})
    if isinstance(pattern, Absent):
        return NOTHING if seen is LEFT_OUT else None
    if seen is LEFT_OUT:
        return None
    if isinstance(pattern, Const):
        return NOTHING if seen.constant else None
    node = pattern.node if isinstance(pattern, Output) else pattern
    if not isinstance(node, Op) or node.key != seen.maker:
        return None
    return NOTHING if seen.constant else _asks_of_inputs(node, path, known)
