"""Whether a rewrite writes what the file had, and is taken back and not reported, or what an earlier one wrote."""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from surgeon.ir.attributes import constant_value
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import is_static
from surgeon.ir.model import Model
from surgeon.ir.operators import COMMUTATIVE
from surgeon.ir.protos import SMALL_TENSOR
from surgeon.rules.window import Rewrite
from surgeon.targets.target import Target
from surgeon.targets.unsupported import Unsupported

PLACED = re.compile(r"~(fp16|bf16|fp32)[^~/]*/Cast_1$")
Present = Callable[[Value | None], Value | None]  # the tensor that the readers of a tensor read now


class Unchanged:
    """Compares the nodes of a window with those that the file had."""

    def __init__(self, model: Model, target: Target, present: Present) -> None:
        self._model = model
        self._target = target
        self._present = present

    def holds(self, record: Rewrite) -> bool:
        """Whether the new nodes have the operators, inputs and attributes that the file had."""
        if record.aliases or _count_computing(record.removed) != _count_computing(record.added):
            return False
        before = {o: n for n in record.removed for o in n.outputs if o is not None}
        after = {o: n for n in record.added for o in n.outputs if o is not None}
        roots = [o for o in before if o in after]
        return bool(roots) and all(self._same_node(before[o], after[o], before, after) for o in roots)

    def _same_tensor(
        self, a: Value | None, b: Value | None, before: dict[Value, Node], after: dict[Value, Node]
    ) -> bool:
        if a is None or b is None:
            return a is b
        made_a, made_b = before.get(a), after.get(b)
        if made_a is not None and _is_placed_anew(made_a):
            return self._same_tensor(made_a.inputs[0], b, before, after)
        if made_b is not None and _is_placed_anew(made_b):
            return self._same_tensor(a, made_b.inputs[0], before, after)
        if made_a is not None and made_b is not None and made_a.key != "Constant":
            return self._same_node(made_a, made_b, before, after)
        if self._present(a) is self._present(b):
            return True
        x, y = _written_value(a, made_a, self._model), _written_value(b, made_b, self._model)
        if x is None or y is None or x.dtype.kind != y.dtype.kind:
            return False
        return bool(x.size == y.size == 1 and x.reshape(()) == y.reshape(())) or (
            x.shape == y.shape and bool(np.array_equal(x, y))
        )

    def _why_unsupported(self, node: Node) -> Unsupported | None:
        return self._target.why_unsupported(node, rewriting=True, exactly=True)

    def _same_node(self, a: Node, b: Node, before: dict[Value, Node], after: dict[Value, Node]) -> bool:
        if a.key != b.key or a.bodies or len(a.outputs) != len(b.outputs):
            return False
        if any(a.attr(k) != b.attr(k) for k in {*a.attrs, *b.attrs}):
            return False
        if a.outputs.count(None) > b.outputs.count(None):
            return False  # an output that was left out has a name
        written_alike = a.attrs.keys() == b.attrs.keys() and len(a.inputs) == len(b.inputs)
        if not written_alike and self._why_unsupported(a) != self._why_unsupported(b):
            return False  # equal to ONNX, not to a parser that has defaults of its own
        spec = self._model.schema(a)
        if spec is not None and len(a.inputs) > spec.max_input:
            return False  # an empty name where the opset has no input
        x, y = list(a.inputs), list(b.inputs)
        while x and x[-1] is None:
            x.pop()
        if len(x) != len(y):
            return False

        def same(left: Iterable[Value | None], right: Iterable[Value | None]) -> bool:
            return all(self._same_tensor(p, q, before, after) for p, q in zip(left, right, strict=True))

        return same(x, y) or (a.key in COMMUTATIVE and len(x) == 2 and same(x, reversed(y)))


def _is_placed_anew(node: Node) -> bool:
    """Whether a node is a cast that a conversion to half precision has placed: the next one places its own."""
    return node.key == "Cast" and PLACED.search(node.name) is not None


def _count_computing(nodes: Iterable[Node]) -> int:
    """How many of the nodes are neither Constant nor casts that are placed anew."""
    return sum(node.key != "Constant" and not _is_placed_anew(node) for node in nodes)


def _written_value(value: Value, made: Node | None, model: Model) -> np.ndarray | None:
    """The value of an initializer or a Constant node; None for any other tensor."""
    node = made or value.producer
    if value.tensor is not None:
        return model.constant(value)
    return constant_value(node.proto) if node is not None and node.key == "Constant" else None


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
