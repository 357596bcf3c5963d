"""Write ScatterElements and ScatterND that reduce in operators that do not.

Why       TensorRT 8.2 to 9.3 read no reduction and overwrite: silently wrong. 10.0 and later refuse it for ScatterND,
          TensorRT-RTX for ScatterElements, too. torch.index_add, scatter_add and graph networks export them.
Rewrites  constant indices that meet no place twice  ->  the same without a reduction, of what GatherElements or
          GatherND takes from there, combined with the updates
          others  ->  ReduceSum, ReduceProd, ReduceMax or ReduceMin of Where(index = place, update, neutral element),
          combined with the data
Exact     Max and Min bit for bit; sums and products in another order, to rounding.

The second form has a table of every place and every update: up to 2^24 elements, of static sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surgeon import Builder, Stage, attr, not_mine, op, require, rule, var
from surgeon.ir.graph import Value

from ._scattering import LARGEST, OPERATORS, combined, counted, entries, neutral, reduced

data, indices, updates = var("data"), var("indices"), var("updates")


@rule(
    op.ScatterElements(data, indices, updates, axis=attr("axis"), reduction=attr("reduction")),
    stage=Stage.LOWER,
    strategy="decompose",
)
def decompose_elements(b, data, indices, updates, axis, reduction):
    if reduction not in OPERATORS:
        not_mine()
    shape, given = _static(b, data), _static(b, indices)
    at = axis % len(shape)
    known = b.value(indices)
    if known is not None and _apart(known, shape, at):
        taken = b.GatherElements(data, indices, axis=axis)
        return b.ScatterElements(data, indices, combined(b, reduction, taken, updates), axis=axis)
    count = np.prod(shape, dtype=np.int64) * given[at]
    require(count <= LARGEST, f"the table of places and updates would have more than {LARGEST} elements")
    whole = [g if a == at else d for a, (d, g) in enumerate(zip(shape, given, strict=True))]
    indices = _widened(b, indices, whole, np.zeros(1, np.int64))
    updates = _widened(b, updates, whole, neutral(reduction, b.dtype(updates)))
    behind = [1] * (len(shape) - at - 1)
    places = np.arange(shape[at]).reshape(-1, 1, *behind)
    there = b.Equal(b.Unsqueeze(counted(b, indices, shape[at]), axes=[at]), b.constant(places, b.dtype(indices)))
    table = entries(b, reduction, there, b.Unsqueeze(updates, axes=[at]))
    return combined(b, reduction, data, reduced(b, reduction, table, at + 1))


@rule(
    op.ScatterND(data, indices, updates, reduction=attr("reduction")),
    stage=Stage.LOWER,
    strategy="decompose",
)
def decompose_nd(b, data, indices, updates, reduction):
    if reduction not in OPERATORS:
        not_mine()
    shape, given = _static(b, data), _static(b, indices)
    depth = given[-1]
    known = b.value(indices)
    if known is not None and _rows_apart(known, shape):
        return b.ScatterND(data, indices, combined(b, reduction, b.GatherND(data, indices), updates))
    places, rest = int(np.prod(shape[:depth])), int(np.prod(shape[depth:]))
    rows = int(np.prod(given[:-1]))
    require(places * rows * rest <= LARGEST, f"the table of places and updates would have more than {LARGEST} elements")
    sizes = np.asarray(shape[:depth], np.int64)
    strides = np.asarray([int(np.prod(shape[a + 1 : depth])) for a in range(depth)], np.int64)
    place = b.ReduceSum(b.Mul(counted(b, indices, sizes), strides), axes=[-1], keepdims=0)
    there = b.Equal(b.Reshape(place, np.asarray([1, rows, 1])), np.arange(places).reshape(-1, 1, 1))
    rows_of = b.Reshape(updates, np.asarray([1, rows, rest]))
    found = reduced(b, reduction, entries(b, reduction, there, rows_of), 1)
    if shape != [places, rest]:
        found = b.Reshape(found, np.asarray(shape, np.int64))
    return combined(b, reduction, data, found)


def _static(b: Builder, value: Value) -> list[int]:
    """The sizes of a tensor."""
    shape: Any = b.shape(value)
    require(shape is not None and all(isinstance(d, int) for d in shape), "its sizes are not static")
    return list(shape)


def _widened(b: Builder, part: Value, whole: list[int], filler: np.ndarray) -> Value:
    """A tensor about the first part of other dimensions, with as many more elements as make it about all of them."""
    sizes = _static(b, part)
    for axis, size in enumerate(whole):
        if size != sizes[axis]:
            more = [*whole[:axis], size - sizes[axis], *sizes[axis + 1 :]]
            part = b.Concat(part, b.constant(np.full(more, filler.reshape(())), b.dtype(part)), axis=axis)
    return part


def _apart(indices: np.ndarray, shape: list[int], axis: int) -> bool:
    """Whether no two indices along the axis meet."""
    rows = np.sort(np.moveaxis(indices % shape[axis], axis, -1).reshape(-1, indices.shape[axis]), axis=1)
    return bool((rows[:, 1:] != rows[:, :-1]).all())


def _rows_apart(indices: np.ndarray, shape: list[int]) -> bool:
    """Whether no two rows of indices meet."""
    depth = indices.shape[-1]
    rows = (indices % np.asarray(shape[:depth])).reshape(-1, depth)
    return len(np.unique(rows, axis=0)) == len(rows)
