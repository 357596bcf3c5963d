"""Compute rows that a mask selects, and that are written back, for as many positions as the mask has elements.

Why       NonZero returns as many positions as its mask has true elements: a size that is known at run time alone.
          TensorRT-RTX 1.7.1 and releases before 8.5 have no NonZero; later ones have, and Myelin refuses a MatMul or a
          Softmax of such a size. Detectors choose a level of a pyramid for each box
          like that, mixtures of experts the tokens of each one, PointPillars the pillars of each sample.
Rewrites  ScatterND or ScatterElements(data, f(NonZero(mask)), g(NonZero(mask)))  ->  the same with as many positions as
          the mask has elements, the last one again and again; data itself where there is none
          ScatterND(data, NonZero(mask expanded to rows), g(NonZero(mask)) flattened)  ->  the same of whole rows
          the first or the last of g(NonZero(mask))  ->  the same
          the same that adds, or Reduce(g(NonZero(mask))) over the positions  ->  what changes nothing there
          MatMul of rows by rows that sums over the positions  ->  with zeros there; Softmax over the positions, if its
          results are then reduced or summed  ->  with the lowest number there
Exact     Bit for bit: f and g compute each row by itself, and the same row is written to the same position again. Sums
          in another order, to rounding.
Price     Every row is computed, whether the mask takes it or not: of three levels of a pyramid three times as many.
          1,000 rows of 256 times [256,256], of which the mask takes 250: 24 nodes
          for 8, 1.4 ms in ONNX Runtime next to 0.36.

What one node of f or g does to rows must be known, and all of them must be of one mask.
"""

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from surgeon import ANY, Builder, Decline, Dim, Node, Value, any_of, const, op, require, require_some, rule, var
from surgeon.ir.operators import PRODUCTS

from ._nonzero import lacks_nonzero, mask_of, takes_first
from ._row_dependence import Reading, Rows
from ._scattering import REDUCING, REDUCTIONS, neutral, nonnegative
from ._shapes import input_of, output_of, size, vector_of

FORMERLY = "mask-rows"

data, places, updates = var("data"), var("places"), var("updates")
NO_ROWS = "its places, or what is written there, are of no rows"


@rule(
    op.ScatterND(data, places, updates) | op.ScatterElements(data, places, updates),
    targets=lacks_nonzero,
    fallback=True,
)
def write(b, data, places, updates):
    reading = _reading(b, places)
    rows, of_updates = reading.axis(places, NO_ROWS), reading.axis(updates, NO_ROWS)
    along = b.root.attr("axis") % len(reading.shape(places)) if b.root.op == "ScatterElements" else rows
    require(rows == of_updates == along, "a row is written beside its position")
    taken = _Taken(b, reading.needed(places, updates))
    reduction = b.root.attr("reduction") or "none"
    written = taken.again(updates)
    if reduction != "none":
        written = taken.filled(written, of_updates, REDUCTIONS[reduction])
    at, target = taken.again(places), data
    if b.root.op == "ScatterElements" and not _is_room(b, data, at, along):
        target, at = _with_room(b, data, at, written, along)
    made = b.again([target, at, written])
    if target is not data:
        made = b.Slice(made, [0], vector_of(b, [size(b, data, along)]), [along])
    return made if reduction != "none" else b.Where(b.Greater(taken.count, 0), made, data)


def _is_room(b: Builder, data: Value, places: Value, axis: int) -> bool:
    """Whether there are no more positions than rows: TensorRT supports no other indices."""
    most, count = b.known_shape(data)[axis], b.known_shape(places)[axis]
    return isinstance(most, int) and isinstance(count, int) and count <= most


def _with_room(b: Builder, data: Value, places: Value, written: Value, axis: int) -> tuple[Value, Value]:
    """The data with as many more rows as there are positions, and the positions counted from the front."""
    sizes = zip(b.known_dims(data), b.known_dims(written), strict=False)
    fits = all(own == theirs for k, (own, theirs) in enumerate(sizes) if k != axis)
    require(fits, "beside its axis what is written is not known to have the sizes of the data")
    rows = size(b, data, axis)
    rows = rows if isinstance(rows, int) else b.Cast(rows, to=b.dtype(places))
    return b.Concat(data, written, axis=axis), nonnegative(b, places, rows)


@rule(any_of(op[name](updates, ...) for name in REDUCING), fallback=True)
def reduce(b, updates):
    reading = _reading(b, updates, meets=True)
    rows = reading.combined(b.root)
    # it has no NonZero, or Myelin is to compute it
    heavy = any(n.op in PRODUCTS or n.op == "Softmax" for n in reading.needed(updates))
    require(heavy or lacks_nonzero(b.target))
    mean = b.root.op == "ReduceMean"
    taken = _Taken(b, reading.needed(updates), reading.met)
    filled = taken.filled(taken.again(updates), rows, "ReduceSum" if mean else b.root.op)
    if not mean:
        return b.again([filled, *b.root.inputs[1:]])
    total = b.ReduceSum(filled, axes=[rows], keepdims=b.root.attr("keepdims"))
    count = b.Max(b.Cast(taken.count, to=b.dtype(updates)), 1.0)
    return b.Div(total, b.Reshape(count, np.zeros(0, np.int64)))


@rule(op.MatMul(data, updates), fallback=True)
def product(b, data, updates):
    """The sum over the positions, of rows times rows: what weights rows by a Softmax of them."""
    reading = _reading(b, updates, meets=True)
    rows = reading.combined(b.root)
    taken = _Taken(b, reading.needed(data, updates), reading.met)
    of_left = taken.filled(taken.again(data), rows, "ReduceSum")
    of_right = taken.filled(taken.again(updates), reading.axis(updates, NO_ROWS), "ReduceSum")
    return b.MatMul(of_left, of_right)


@rule(
    op.ScatterND(data, op.Transpose(op.NonZero(op.Expand(op.Unsqueeze(var("mask"), ...), ANY))), updates),
    targets=lacks_nonzero,
)
def whole_rows(b, data, mask, updates):
    require(b.root.attr("reduction") in (None, "none"))
    spread = next(n for n in b.matched if n.key == "Expand")
    places = input_of(b.root, 1)
    require(mask_of(b, places) is output_of(spread))
    own, whole = b.known_dims(mask), b.known_dims(data)
    of_data = b.known_dims(output_of(spread)) == whole and own == whole[: len(own)]
    require(own and of_data, "the mask is not known to have the sizes of the data")
    rest = whole[len(own) :]
    fits = b.known_shape(input_of(spread))[len(own) :] == (1,) * len(rest)
    require(fits, "the mask is not one of whole rows")
    rows = require_some(_rows_behind(b, updates, places, mask, rest), "what is written are not rows of the mask")
    return b.ScatterND(data, b.Transpose(b.NonZero(mask), perm=[1, 0]), rows)


def _rows_behind(b: Builder, value: Value, places: Value, mask: Value, rest: list[Dim]) -> Value | None:
    """The rows that were flattened, one for each place of the mask; None where that is not known."""
    node = value.producer
    if node is not None and node.key == "Slice" and takes_first(b, node, places):
        node = input_of(node).producer
    while node is not None and node.key in ("Expand", "Reshape"):
        rows = input_of(node)
        shape = b.shape(rows)
        if shape is not None and list(shape[1:]) == rest and _are_of(b, rows, mask):
            return rows
        node = rows.producer
    return None


def _are_of(b: Builder, rows: Value, mask: Value) -> bool:
    """Whether a tensor has a row for each place of the mask."""
    reading = Reading(b)
    try:
        return reading.state(rows) == Rows(0) and reading.masks_of(reading.needed(rows)) == [mask]
    except Decline:
        return False


@rule(op.Gather(updates, const("number")), targets=lacks_nonzero)
def take(b, updates, number):
    reading = _reading(b, updates)
    rows, shape = reading.axis(updates, NO_ROWS), reading.shape(updates)
    require(rows == b.root.attr("axis") % len(shape))
    require({*number.reshape(-1).tolist()} <= {0, -1}, "other positions than the first and the last")
    taken = _Taken(b, reading.needed(updates))
    return b.Gather(taken.again(updates), number, axis=rows)


def _reading(b: Builder, value: Value, *, meets: bool = False) -> Reading:
    """What is known of the tensors after a mask; declines where there is no mask.

    meets  rows may meet in a Softmax: what follows of it is not written to positions
    """
    require(b.root.graph.of(["NonZero"]))
    reading = Reading(b, meets=meets)
    require(reading.state(value) is not None)
    return reading


class _Taken:
    """The rows of a mask, computed for as many positions as it has elements; `count` is how many it takes, a vector."""

    def __init__(self, b: Builder, nodes: list[Node], met: Mapping[Node, int] | None = None) -> None:
        self.met = met or {}  # the nodes in which rows meet, with the dimension that has the rows
        mask, *others = Reading.masks_of(nodes)
        require(not others, "the rows are of several masks")
        self.b = b
        truth = mask if b.dtype(mask) == TensorProto.BOOL else b.Cast(mask, to=TensorProto.BOOL)
        truths = b.Reshape(truth, [-1])
        flat = b.Cast(truths, to=TensorProto.INT32)
        self.count = b.ReduceSum(flat, axes=[0], keepdims=1)
        self.numbers = _numbers(b, flat)
        self.made: dict[Value, Value] = {}
        self._remake(nodes, self._positions(mask, truths, flat))

    def _positions(self, mask: Value, truths: Value, flat: Value) -> Value:
        """The positions as NonZero has them, and the last one again: it is written last where two rows meet."""
        b = self.b
        up_to = b.CumSum(flat, 0)
        behind = b.Sub(b.Add(self.count, self.numbers), up_to)
        slots = b.Where(truths, b.Sub(up_to, 1), behind)
        order = b.ScatterElements(self.numbers, slots, self.numbers, axis=0)
        last = b.ReduceMax(b.Mul(flat, self.numbers), axes=[0], keepdims=1)
        number = b.Where(b.Less(self.numbers, self.count), order, last)
        rows, rank = [], b.known_rank(mask)
        for axis in range(rank - 1, 0, -1):
            along = size(b, mask, axis)
            along = along if isinstance(along, int) else b.Cast(along, to=TensorProto.INT32)
            before = b.Div(number, along)
            rows.append(b.Sub(number, b.Mul(before, along)))
            number = before
        stacked = [b.Unsqueeze(row, axes=[0]) for row in (number, *reversed(rows))]
        return b.Cast(stacked[0] if rank == 1 else b.Concat(*stacked, axis=0), to=TensorProto.INT64)

    def _remake(self, nodes: list[Node], positions: Value) -> None:
        b = self.b
        for node in nodes:
            if node.key == "NonZero":
                self.made[output_of(node)] = positions
                continue
            inputs = [None if v is None else self.again(v) for v in node.inputs]
            if node in self.met:
                inputs[0] = self.filled(self.again(input_of(node)), self.met[node], "ReduceMax")
            made = b.node(node.op, inputs, len(node.outputs), "", dict(node.attrs))
            outputs = made if isinstance(made, tuple) else (made,)
            self.made.update((o, m) for o, m in zip(node.outputs, outputs, strict=True) if o is not None)

    def again(self, value: Value) -> Value:
        """A tensor with as many rows as the mask has elements; itself, where it has none."""
        return self.made.get(value, value)

    def filled(self, value: Value, axis: int, op: str) -> Value:
        """A tensor with what changes nothing in a Reduce, in the rows that the mask does not take."""
        b = self.b
        rank = b.known_rank(value)
        taken = b.Less(self.numbers, self.count)
        shown = b.Unsqueeze(taken, axes=list(range(1, rank - axis))) if rank - axis > 1 else taken
        return b.Where(shown, value, neutral(op, b.dtype(value)))


def _numbers(b: Builder, flat: Value) -> Value:
    """0, 1, 2 and so on, as many as a vector has elements."""
    count = size(b, flat, 0)
    if isinstance(count, int):
        return b.constant(np.arange(count), TensorProto.INT32)
    end = b.Cast(count, to=TensorProto.INT32)
    return b.Range(0, end, 1)
