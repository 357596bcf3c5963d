"""Which dimension of a tensor has a row for each true element of a mask, and how rows are computed.

A place may be repeated where each row is computed by itself, and written where it was written before. What follows here
says of each tensor after NonZero which of its dimensions that is, and declines where rows meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from surgeon import Builder, Decline, Dim, Node, Value, require, require_some
from surgeon.ir.elements import Array, Elements, Unread, broadcast, filled, moved_inputs, of_constant, vector
from surgeon.ir.following import readers
from surgeon.ir.graph import PLACE, Graph
from surgeon.ir.lattice import static_sizes
from surgeon.ir.operators import ALONG, BATCH, ELEMENTWISE, MOVES, REDUCES
from surgeon.ir.sizes import shape_slice

from ._shapes import input_of

PLACES = "the positions"  # as a size: how many there are
KEEPS_ITS_SHAPE = frozenset({"ScatterElements", "ScatterND"})


class Rows(NamedTuple):
    """A tensor with a row for each position along a dimension."""

    axis: int


class Sizes(NamedTuple):
    """A tensor of sizes, the number of positions among them: its elements, in its shape."""

    elements: Array


State = Rows | Sizes | None  # None: nothing of its shape depends on how many positions there are


def rule_of(key: str) -> Callable[[Reading, Node], State] | None:
    """What says what an operator makes of rows; None where that is not known."""
    if key in ELEMENTWISE:
        return _by_element
    return _of_a_batch if key in BATCH else RULES.get(key)


# ---- rows by themselves ----------------------------------------------------------------------------------------------


def _by_element(r: Reading, node: Node) -> State:
    states = [(v, r.state(v)) for v in node.inputs if v is not None]
    if any(isinstance(s, Sizes) for _, s in states):
        # what PyTorch writes for a -1 in Expand
        parts = broadcast([r.sizes(v) for v in node.inputs if v is not None])
        flat = [part.reshape(-1) for part in parts]
        return Sizes(filled(parts[0].shape, lambda k: _computed(node, [f[k] for f in flat])))
    back = {len(r.shape(v)) - s.axis for v, s in states if isinstance(s, Rows)}
    require(len(back) == 1, f"{node.op} puts rows beside one another")
    (behind,) = back
    for value, found in states:
        shape = r.shape(value)
        alone = found is not None or len(shape) < behind or shape[len(shape) - behind] == 1
        require(alone, f"{node.op} puts something else beside each row")
    return Rows(max(len(r.shape(v)) for v, _ in states) - behind)


def _of_a_batch(r: Reading, node: Node) -> State:
    axis = r.axis(node.inputs[0], f"{node.op} has weights of rows")
    require(axis == 0 and not any(map(r.state, node.inputs[1:])), f"{node.op} computes several rows at once")
    return Rows(0)


def _transpose(r: Reading, node: Node) -> State:
    perm = node.attr("perm")
    axis = r.axis(node.inputs[0], "sizes are turned")
    return Rows(list(perm).index(axis))


def _unsqueeze(r: Reading, node: Node) -> State:
    axis = r.axis(node.inputs[0], "its axes are sizes")
    places = r.axes(node, 1, more=True)
    kept = [k for k in range(len(r.shape(input_of(node))) + len(places)) if k not in places]
    return Rows(kept[axis])


def _squeeze(r: Reading, node: Node) -> State:
    axis = r.axis(node.inputs[0], "its axes are sizes")
    require(len(node.operands()) > 1, "Squeeze without axes also drops the row dimension when one row is selected")
    places = r.axes(node, 1)
    require(axis not in places, "it drops the row dimension when one row is selected")
    return Rows(axis - sum(k < axis for k in places))


def _gather(r: Reading, node: Node) -> State:
    x, at = input_of(node), input_of(node, 1)
    of_x, of_places = r.state(x), r.state(at)
    axis, rank = node.attr("axis") % len(r.shape(x)), len(r.shape(at))
    if of_x is None:
        return Rows(axis + r.axis(at, "it takes what is at a size"))
    own = r.axis(x, "it takes what is at a size")
    require(of_places is None and own != axis, "rows are taken by their number")
    return Rows(own if own < axis else own + rank - 1)


def _gather_nd(r: Reading, node: Node) -> State:
    axis = r.axis(node.inputs[1], "rows are taken by their number")
    apart = axis < len(r.shape(input_of(node, 1))) - 1
    require(r.state(node.inputs[0]) is None and not node.attr("batch_dims") and apart, "rows are taken by rows")
    return Rows(axis)


def _concat(r: Reading, node: Node) -> State:
    states = [r.state(v) for v in node.inputs]
    axes = {s.axis if isinstance(s, Rows) else None for s in states}
    (axis, *others) = axes
    apart = axis is not None and not others and node.attr("axis") % len(r.shape(input_of(node))) != axis
    require(apart, "rows are put after something else")
    return Rows(axis or 0)


def _mat_mul(r: Reading, node: Node) -> State:
    one, other = input_of(node), input_of(node, 1)
    left, right = r.state(one), r.state(other)
    summed = len(r.shape(one)) - 1 if left is not None else max(len(r.shape(other)) - 2, 0)
    require(left is None or right is None, "rows are multiplied by rows")
    fixed = r.shape(other if left is not None else one)
    found = r.axis(one if left is not None else other, "sizes are multiplied as a matrix")
    require(len(fixed) == 2 and found != summed, "a product combines rows")
    return Rows(found)


def _gemm(r: Reading, node: Node) -> State:
    rows = r.axis(node.inputs[0], "a product combines rows") == 0 and not node.attr("transA")
    others = [v for v in node.inputs[1:] if v is not None]
    bias = r.shape(others[1]) if len(others) > 1 else []
    alone = len(bias) < 2 or bias[0] == 1
    require(rows and alone and not any(map(r.state, others)), "a product combines rows")
    return Rows(0)


def _along_others(r: Reading, node: Node) -> State:
    """Of an operator that leaves its input's shape, and looks along an axis."""
    axis, rank = r.axis(node.inputs[0], "it is of sizes"), len(r.shape(input_of(node)))
    along = node.attr("axis") % rank
    if r.meets and node.key == "Softmax" and along == axis and r.b.opset >= 13:
        r.met[node] = axis
        return Rows(axis)
    apart = along > axis if node.key == "LayerNormalization" else along != axis and r.b.opset >= 13
    require(apart and not any(map(r.state, node.inputs[1:])), f"{node.op} looks along the positions")
    return Rows(axis)


def _reduce(r: Reading, node: Node) -> State:
    axis, axes = r.axis(node.inputs[0], "sizes are reduced"), r.axes(node, 1)
    if axis in axes and not node.attr("keepdims"):
        return None
    require(axis not in axes, "rows are reduced to one")
    return Rows(axis if node.attr("keepdims") else axis - sum(k < axis for k in axes))


def _split(r: Reading, node: Node) -> State:
    axis = r.axis(node.inputs[0], "sizes are split")
    require(node.attr("axis") % len(r.shape(input_of(node))) != axis, "rows are split")
    return Rows(axis)


def _roi_align(r: Reading, node: Node) -> State:
    rows = [r.axis(v, "its rois are not rows") for v in node.inputs[1:]]
    require(r.state(node.inputs[0]) is None and not any(rows), "its images are rows")
    return Rows(0)


# ---- with shapes of their own ----------------------------------------------------------------------------------------


def _shape(r: Reading, node: Node) -> State:
    if isinstance(r.state(node.inputs[0]), Sizes):
        return None
    return Sizes(vector(shape_slice(node, tuple(r.shape(input_of(node))))))


def _expand(r: Reading, node: Node) -> State:
    shape, target = r.shape(input_of(node)), r.elements(input_of(node, 1))
    rank = max(len(shape), len(target))
    pairs = list(zip(_behind_ones(shape, rank), _behind_ones(target, rank), strict=True))
    rows = [k for k, pair in enumerate(pairs) if PLACES in pair]
    fits = all(d in (1, PLACES) for k in rows for d in pairs[k])
    require(len(rows) == 1 and fits, "rows are expanded to something else")
    return Rows(rows[0])


def _behind_ones(sizes: list[Dim], rank: int) -> list[Dim]:
    """The sizes of a tensor that has that many dimensions."""
    return [1] * (rank - len(sizes)) + sizes


def _reshape(r: Reading, node: Node) -> State:
    shape, target = r.shape(input_of(node)), r.elements(input_of(node, 1))
    if not node.attr("allowzero"):
        require(all(d != 0 or k < len(shape) for k, d in enumerate(target)), "its shape is not valid")
        target = [shape[k] if d == 0 else d for k, d in enumerate(target)]
    axis = r.axis(node.inputs[0], "sizes are reshaped")
    rows = [k for k, d in enumerate(target) if d == PLACES] or [k for k, d in enumerate(target) if d == -1]
    require(len(rows) == 1, "rows are combined")
    (place,) = rows
    before, behind = _product(shape[:axis]), _product(shape[axis + 1 :])
    one, other = _product(target[:place]), _product(target[place + 1 :])
    require(None not in (before, behind, one, other) and (before, behind) == (one, other), "rows are combined")
    return Rows(place)


def _flatten(r: Reading, node: Node) -> State:
    require(r.axis(node.inputs[0], "sizes are flattened") == 0 and node.attr("axis") == 1, "rows are flattened")
    return Rows(0)


def _slice(r: Reading, node: Node) -> State:
    operands, axis = node.operands(), r.axis(node.inputs[0], "a size says what is taken")
    if r.state(operands[2] if isinstance(operands[2], Value) else None) is not None:
        starts, ends = r.b.value(operands[1]), r.elements(operands[2])
        everything = starts is not None and not starts.any() and ends == [PLACES] and not operands[4:]
        require(everything and r.axes(node, 3) == [axis], "a part of the rows is taken")
        return Rows(axis)
    require(axis not in r.axes(node, 3), "a part of the rows is taken")
    return Rows(axis)


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _only_place(elements: Sequence[Dim]) -> State:
    rows = [k for k, d in enumerate(elements) if d == PLACES]
    require(len(rows) == 1, "a tensor of several sizes of positions is made")
    return Rows(rows[0])


def _product(sizes: Sequence[Dim]) -> int | None:
    return math.prod(sizes) if all(isinstance(d, int) and d > 0 for d in sizes) else None


def _computed(node: Node, parts: Sequence[Dim]) -> Dim:
    """What an operator makes of single sizes; a size is never below 0."""
    if node.key == "Cast":
        return parts[0]
    if all(isinstance(p, int) for p in parts) and node.key == "Mul":
        return math.prod(parts)
    if node.key == "Equal":
        negative = any(isinstance(p, int) and p < 0 for p in parts)
        require(all(isinstance(p, int) for p in parts) or negative, "a size is compared with another")
        return int(parts[0] == parts[1])
    if node.key == "Where" and isinstance(parts[0], int):
        return parts[1] if parts[0] else parts[2]
    raise Decline(f"{node.op} computes with the number of positions")


# What becomes of rows in an operator that is neither elementwise nor of a batch: each has a function of its own.
RULES = {
    "Concat": _concat,
    "ConstantOfShape": lambda r, node: _only_place(r.elements(input_of(node))),
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Gemm": _gemm,
    "LayerNormalization": _along_others,
    "MatMul": _mat_mul,
    "Reshape": _reshape,
    "RoiAlign": _roi_align,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    **dict.fromkeys(ALONG, _along_others),
    **dict.fromkeys(REDUCES, _reduce),
}


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
            return Rows(node.attr("axis") % (self.b.rank(out) or 1))
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
    first = graph.of(after)
    read = readers((o for node in first for o in node.outputs if o is not None), lambda node: node.graph is graph)
    nodes = [*first, *(user for user, _ in read if user.graph is graph)]
    return {out for node in nodes for out in node.outputs if out is not None}
