"""Which dimension of a tensor has a row for each true element of a mask, and how rows are computed.

A place may be repeated where each row is computed by itself, and written where it was written before. What follows here
says of each tensor after NonZero which of its dimensions that is, and declines where rows meet.
"""

from collections.abc import Callable, Sequence

from surgeon import Builder, Decline, Dim, Node, Value, require, require_some
from surgeon.ir.elements import Array, Elements, Unread, filled, moved_inputs, of_constant, vector
from surgeon.ir.graph import PLACE, Graph
from surgeon.ir.lattice import static_sizes
from surgeon.ir.operators import MOVES
from surgeon.ir.sizes import shape_slice

from ._row_transfer import KEEPS_ITS_SHAPE, PLACES, Rows, Sizes, State, rule_of
from ._shapes import input_of

MOST, MOST_BEHIND = 256, 2048  # nodes between the mask and what is written; nodes after some mask


class Reading:
    """What the tensors between a NonZero and what its rows are written to are about."""

    def __init__(self, b: Builder, *, meets: bool = False, after: Sequence[str] = ("NonZero",)) -> None:
        """What follows from the operators in `after`.

        after  NonZero, and Compress where that is to become a NonZero and a Gather
        meets  rows may meet in a Softmax, which is then noted in `met` with the dimension that has the rows
        """
        self.b = b
        self.meets = meets
        self.met: dict[Node, int] = {}
        self.sliced: dict[Node, None] = {}  # what is taken of one row: the proof has to know that it is one
        self._behind = _behind_places(b.root.graph, after)
        self._sizes = _Sizes(self)
        self._states: dict[Value, State | Decline] = {}

    def state(self, value: Value | None) -> State:
        """What a tensor is about; declines where rows meet, or that is not known."""
        if value is None or value not in self._behind:
            return None
        if value not in self._states:
            for node in self._sources([value], self._behind.__contains__):
                self._decide(node)
        found = self._states[value]
        if isinstance(found, Decline):
            raise found
        return found

    def needed(self, *values: Value) -> list[Node]:
        """The nodes of rows and of sizes that make some tensors, a node after what it reads."""
        found = self._sources(values, lambda v: v in self._behind and self.state(v) is not None)
        require(len(found) <= MOST, "too much is computed of the positions")
        self.b.matched = tuple(dict.fromkeys((*self.b.matched, *found, *self.sliced)))
        return found

    @staticmethod
    def masks_of(nodes: Sequence[Node]) -> list[Value]:
        """The masks whose positions some nodes compute with."""
        return list(dict.fromkeys(input_of(n) for n in nodes if n.key == "NonZero"))

    def _sources(self, values: Sequence[Value], follows: Callable[[Value], bool]) -> list[Node]:
        """The nodes that make some tensors, in the order of the graph, back to what does not follow."""
        todo, found = [v for v in values if follows(v)], dict[Node, None]()
        while todo:
            node = todo.pop().producer
            if node is None or node in found:
                continue
            require(len(found) < MOST_BEHIND, "too much is computed of the positions")
            found[node] = None
            todo += [v for v in node.inputs if v is not None and follows(v)]
        return sorted(found, key=PLACE)

    def _decide(self, node: Node) -> None:
        for out in node.outputs:
            if out is None or out in self._states:
                continue
            try:
                require(out.index == 0 or node.key == "Split", f"another output of {node.op} is read")
                self._states[out] = self._of(node, out)
            except (Decline, Unread) as why:
                self._states[out] = Decline(str(why))

    def axis(self, value: Value | None, why: str) -> int:
        """The dimension of a tensor that has a row for each position; declines where none has."""
        found = self.state(value)
        if not isinstance(found, Rows):
            raise Decline(why)
        return found.axis

    def shape(self, value: Value) -> list[Dim]:
        """The sizes of a tensor, and of one of rows how many positions there are."""
        found, shape = self.state(value), self.b.known_shape(value)
        axis = found.axis if isinstance(found, Rows) else None
        named = [
            d if isinstance(d, int) else self._told(value, k - len(shape)) or (value, k) for k, d in enumerate(shape)
        ]
        return [PLACES if k == axis else d for k, d in enumerate(named)]

    def _told(self, value: Value, back: int) -> int | None:
        """A size that the node says which makes a tensor; counted from the end."""
        node = value.producer
        if node is not None and node.key == "Expand":
            asked = self.elements(input_of(node, 1))
            wanted = asked[back] if -back <= len(asked) else None
            return wanted if isinstance(wanted, int) and wanted > 1 else None
        if node is not None and node.key == "Slice":
            return self._one_of(node, back + (self.b.rank(value) or 0))
        return None

    def _one_of(self, node: Node, axis: int) -> int | None:
        """1 for the first of a dimension: what PyTorch writes down to know the shape of a row."""
        known = [self.b.value(v) for v in node.operands()[1:]]
        if len(known) < 3 or any(v is None for v in known) or axis not in (axes := self.axes(node, 3)):
            return None
        start, end = (int(v.reshape(-1)[axes.index(axis)]) for v in known[:2] if v is not None)
        if (start, end) != (0, 1) or len(known) > 3:
            return None
        self.sliced[node] = None
        return 1

    def _of(self, node: Node, out: Value) -> State:
        if node.key == "NonZero":
            return Rows(1)
        if node.key == "Compress":
            return Rows((node.attr("axis") or 0) % (self.b.rank(out) or 1))
        if node.key in KEEPS_ITS_SHAPE:
            require(self.state(node.inputs[0]) is None, "rows are combined")
            return None
        if all(self.state(v) is None for v in node.inputs):
            return None
        if node.key in MOVES and any(isinstance(self.state(node.inputs[k]), Sizes) for k in moved_inputs(node)):
            return Sizes(self._sizes.moved(node, out))
        rule = rule_of(node.key)
        if rule is None or node.bodies:
            raise Decline(f"{node.op} is not known to compute each row by itself")
        return rule(self, node)

    def combined(self, node: Node) -> int:
        """The dimension of the rows that a Reduce or a MatMul combines, in its first input; declines where it combines
        none."""
        value, no_rows = input_of(node), "it combines no rows"
        rows = self.axis(value, no_rows)
        if node.key == "MatMul":
            other = input_of(node, 1)
            left, right = len(self.shape(value)), len(self.shape(other))
            summed = left > 1 and right > 1 and rows == left - 1 and self.axis(other, no_rows) == right - 2
            require(summed, "it does not sum over the positions")
            return rows
        axes = self.axes(node)
        require(rows in axes)
        require(node.key != "ReduceMean" or axes == [rows], "its mean is over other dimensions, too")
        return rows

    def elements(self, value: Value) -> list[Dim]:
        """The elements of a tensor of sizes, or of integers that are known."""
        return list(self.sizes(value).reshape(-1))

    def sizes(self, value: Value) -> Array:
        """The same, in the tensor's shape."""
        return self._sizes.of(value)

    def axes(self, node: Node, position: int = 1, *, more: bool = False) -> list[int]:
        """The axes that an operator names, counted from the front."""
        rank = len(self.shape(input_of(node)))
        operands = node.operands()
        if len(operands) <= position or operands[position] is None:
            require(node.key != "Unsqueeze" and not node.attr("noop_with_empty_axes"), "its axes are not known")
            return list(range(rank))
        known = require_some(self.b.value(operands[position]), "its axes are computed")
        return [int(k) % (rank + known.size * more) for k in known.reshape(-1)]


class _Sizes(Elements):
    """Elements that are an int, PLACES, or (tensor, position)."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading.b.model)
        self.reading = reading

    def read(self, value: Value) -> Array:
        found, known, node = self.reading.state(value), self.model.constant(value), value.producer
        if isinstance(found, Sizes):
            return found.elements
        require(found is None, "a row is read as a size")
        if known is None and node is not None and node.key == "Shape":
            return vector(shape_slice(node, tuple(self.reading.shape(input_of(node)))))
        if known is not None and known.dtype.kind in "iub" and known.size <= MOST:
            return of_constant(known)
        shape = static_sizes(self.model.shape(value))
        require(shape is not None and len(shape) < 2, "sizes are not known")
        return filled(shape or (), lambda k: (value, k))


def _behind_places(graph: Graph, after: Sequence[str]) -> set[Value]:
    """Every tensor of a graph that follows from some operators."""
    todo, found = graph.of(after), set[Value]()
    while todo:
        for out in todo.pop().outputs:
            if out is not None and out not in found:
                found.add(out)
                todo += [n for n in out.users if n.graph is graph]
    return found


__all__ = ["Reading"]
