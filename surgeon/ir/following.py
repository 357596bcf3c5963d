"""Walks from tensor to tensor: up to what decides a property of them, and down to what reads them."""

from collections.abc import Callable, Iterable, Iterator

from surgeon.ir.graph import Node, Value


def readers(
    values: Iterable[Value], through: Callable[[Node], bool], most: int | None = None
) -> Iterator[tuple[Node, Value]]:
    """The nodes that read some tensors, each with the tensor, and those that read what nodes make that are looked
    `through`; the walk ends after the readers of `most` tensors."""
    todo = list(dict.fromkeys(values))
    seen = set(todo)
    while todo and (most is None or len(seen) - len(todo) < most):
        value = todo.pop()
        for user in value.users:
            yield user, value
            made = [o for o in user.outputs if o is not None and o not in seen] if through(user) else []
            todo += made
            seen.update(made)


def divides(node: Node, value: Value) -> bool:
    """Whether a node that reads a tensor divides by it."""
    return node.key == "Reciprocal" or (node.key == "Div" and node.inputs[1] is value)


def sources(
    values: Iterable[Value | None], through: Callable[[Node], bool], most: int | None = None
) -> Iterator[Value]:
    """Some tensors, and those that they are computed from by nodes that are looked `through`; the walk ends where it
    meets more than `most` of them."""
    todo = [value for value in values if value is not None]
    seen = set(todo)
    while todo and (most is None or len(seen) <= most):
        value = todo.pop()
        yield value
        if value.producer is not None and through(value.producer):
            fresh = [i for i in value.producer.inputs if i is not None and i not in seen]
            seen.update(fresh)
            todo += fresh


def _inputs_of(value: Value) -> Iterable[Value | None]:
    assert value.producer is not None
    return value.producer.inputs


class Closure:
    """Which tensors have a property that follows from what their nodes read; each is decided once.

    base     whether a tensor has it by itself; None where it has it if all of `reads` have it
    reads    the tensors that another one follows from, which are the inputs of its node where nothing else is given
    decided  what is known so far
    """

    def __init__(
        self, base: Callable[[Value], bool | None], reads: Callable[[Value], Iterable[Value | None]] = _inputs_of
    ) -> None:
        self._base, self._reads = base, reads
        self.decided: dict[Value, bool] = {}

    def holds(self, value: Value) -> bool:
        """Whether a tensor has the property; without recursion, since models are deep."""
        stack = [value]
        while stack:
            undecided = self._decide(stack[-1])
            if undecided is None:
                stack.pop()
            else:
                stack.append(undecided)
        return self.decided[value]

    def _decide(self, value: Value) -> Value | None:
        """Decide on a tensor, or return one that it follows from and that is to be decided first."""
        decided = self.decided
        if value in decided:
            return None
        found = self._base(value)
        if found is None:
            inputs = [i for i in self._reads(value) if i is not None]
            found = all(decided.get(i) is not False for i in inputs)
            undecided = next((i for i in inputs if i not in decided), None) if found else None
            if undecided is not None:
                return undecided
        decided[value] = found
        return None
