"""Find the rewrites that repeat another one: a network has the same window many times."""

import math
from collections.abc import Hashable, Iterable, Sequence

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import is_static
from surgeon.ir.model import Model
from surgeon.ir.protos import SMALL_TENSOR
from surgeon.rules.window import Rewrite


class Repeats:
    """The nodes of those rewrites that wrote what an earlier one of the list wrote, for tensors of the same types.

    What a rule does among the nodes of one rewrite, it does among those of its repeats too: trying it at the first is
    enough to know whether a further round changes anything.
    """

    def __init__(self, model: Model, records: Iterable[Rewrite]) -> None:
        self._model = model
        self._repeat_of: dict[Node, Rewrite] = {}
        kinds: set[Hashable] = set()
        for record in records:
            kind = self._kind(record)
            if kind in kinds:
                self._repeat_of.update(dict.fromkeys(record.added, record))
            elif kind is not None:
                kinds.add(kind)

    def hold(self, nodes: Sequence[Node]) -> bool:
        """Whether the nodes are all in one repeat."""
        record = self._repeat_of.get(nodes[0])
        return record is not None and all(self._repeat_of.get(node) is record for node in nodes)

    def _kind(self, record: Rewrite) -> Hashable:
        """What is alike in rewrites that repeat each other; None for one that is taken for the only one of its kind."""
        numbers: dict[Value, int] = {}  # of the tensors, in the order in which they are met
        rows: list[Hashable] = []
        made: dict[Value, None] = {}
        for node in record.added:
            if not node.alive or node.bodies:
                return None
            row = [None if v is None else numbers.setdefault(v, len(numbers)) for v in (*node.inputs, *node.outputs)]
            made.update((v, None) for v in node.outputs if v is not None)
            rows.append((node.key, len(node.inputs), *row, *[a.SerializeToString() for a in node.proto.attribute]))
        rows += [(v.is_output, len(v.users)) for v in made]
        names: dict[str, int] = {}  # of the symbolic sizes: what inference calls them differs from place to place
        for value in numbers:
            if value in made:
                continue  # what it is follows from the node
            kind = self._kind_of_tensor(value, names)
            if kind is None:
                return None
            rows.append(kind)
        return tuple(rows)

    def _kind_of_tensor(self, value: Value, names: dict[str, int]) -> Hashable:
        """What the nodes can know of a tensor that they read: its type, and its elements where it is a constant. None
        for a large constant."""
        elem, shape, _ = self._model.types.find(value)
        if value.varies or not self._model.is_constant(value):
            named = [names.setdefault(d, len(names)) if isinstance(d, str) else (d,) for d in shape or ()]
            return elem, shape is None, *named
        if shape is None or not is_static(shape) or math.prod(shape) > SMALL_TENSOR:  # type: ignore[arg-type]
            return None
        return self._model.fingerprint(value)
