"""How each operator treats rows: which dimension of its result has one per position, or why it combines rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from surgeon import Decline, Dim, Node, Value, require
from surgeon.ir.elements import Array, broadcast, filled, vector
from surgeon.ir.operators import ALONG, BATCH, ELEMENTWISE, REDUCES
from surgeon.ir.sizes import shape_slice

from ._shapes import input_of

if TYPE_CHECKING:
    from ._row_dependence import Reading

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
        return _of_sizes(r, node)
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
    axis, rank = (node.attr("axis") or 0) % len(r.shape(x)), len(r.shape(at))
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
    apart = axis is not None and not others and (node.attr("axis") or 0) % len(r.shape(input_of(node))) != axis
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
    require((node.attr("axis") or 0) % len(r.shape(input_of(node))) != axis, "rows are split")
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


def _constant_of_shape(r: Reading, node: Node) -> State:
    return _only_place(r.elements(input_of(node)))


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


def _of_sizes(r: Reading, node: Node) -> State:
    """What Equal, Where and others make of sizes: what PyTorch writes for a -1 in Expand."""
    parts = broadcast([r.sizes(v) for v in node.inputs if v is not None])
    flat = [part.reshape(-1) for part in parts]
    return Sizes(filled(parts[0].shape, lambda k: _computed(node, [f[k] for f in flat])))


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
    "ConstantOfShape": _constant_of_shape,
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

__all__ = ["KEEPS_ITS_SHAPE", "PLACES", "Rows", "Sizes", "State", "rule_of"]
