"""Write Unique as comparisons of all elements with each other.

Why       No TensorRT has Unique. torch.unique exports it: the classes and the images that a detector found, the nodes
          of a graph, the clusters of points.
Rewrites  Unique(x)  ->  each element gets the number of its value: how many values come before it. These are the ones
          that occur first before its own does, or with sorted = 1 the smaller ones. The elements with one number say
          how often the value occurs, and where first; NonZero says how many values there are.
          Unique of which inverse_indices alone are read  ->  the same without NonZero, which TensorRT has from 8.5 on
          and TensorRT-RTX 1.7.1 has not
Exact     Bit for bit. All NaN are one value, the largest, as NumPy has it. ONNX Runtime counts a NaN to the number
          with which its search tree compares it first, so the proof has no NaN.
Price     Each element is compared with every other. ONNX Runtime on one thread: 1,000 numbers 35 nodes, 9.2 ms next to
          0.12 of its own Unique; 200 rows of 16 44 nodes, 4.2 next to 0.04.

The table of all pairs has up to 2^24 elements: 4,096 numbers, or 1,024 rows of 16. 128 stands for a symbolic size.
"""

import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from surgeon import FLOATS, Builder, Value, attr, op, require, rule

from ._shapes import moved_axis, numbers_below, size

LARGEST = 2**24  # elements of the table of all pairs
MANY = 128  # elements or columns, where their number is symbolic
BEYOND = np.asarray(LARGEST, np.int32)  # above every position
COMPARED = (*FLOATS, TensorProto.INT32, TensorProto.INT64)


@rule(op.Unique("x", axis=attr("axis"), sorted=attr("is_sorted")), strategy="decompose")
def decompose(b, x, is_sorted, axis=None):
    shape = b.known_shape(x)
    require(is_sorted in (0, 1), "its sorted is neither 0 nor 1")
    require(b.dtype(x) in COMPARED, "its type is not compared by the target")
    require(0 not in shape, "it has no elements")
    read = [o is not None and o.is_read for o in [*b.root.outputs, None, None, None][:4]]
    only_inverse = not (read[0] or read[1] or read[3])
    require(only_inverse or b.target.imports("NonZero"), "how many it returns follows from data: it has no NonZero")
    count = _require_small(shape, axis)

    rows = _rows(b, x, axis)
    numbers = numbers_below(b, count or size(b, rows, 0), TensorProto.INT32, behind=0)
    down = b.Unsqueeze(numbers, axes=[1])
    value = _value(b, rows, numbers, down, bool(is_sorted))
    inverse = b.Cast(value, to=TensorProto.INT64) if read[2] else None
    if only_inverse:
        return (None, None, inverse, None)[: len(b.root.outputs)]

    having = b.Equal(value, down)  # a row each value, a column each element
    counts = b.ReduceSum(b.Cast(having, to=TensorProto.INT32), axes=[1], keepdims=0)
    values = b.Squeeze(b.NonZero(b.Greater(counts, 0)), axes=[0])
    first = b.Gather(b.ReduceMin(b.Where(having, numbers, BEYOND), axes=[1], keepdims=0), values, axis=0)
    indices = b.Cast(first, to=TensorProto.INT64) if read[1] else first
    made = (
        b.Gather(rows if axis is None else x, indices, axis=axis or 0) if read[0] else None,
        indices,
        inverse,
        b.Cast(b.Gather(counts, values, axis=0), to=TensorProto.INT64) if read[3] else None,
    )
    return made[: len(b.root.outputs)]


def _value(b: Builder, rows: Value, numbers: Value, down: Value, is_sorted: bool) -> Value:
    """The number of each element's value: how many first occurrences come before it.

    numbers  the positions of the elements; `down` is the same as a column
    """
    same, smaller = _compared(b, rows, is_sorted)
    first = b.ReduceMin(b.Where(same, down, BEYOND), axes=[0], keepdims=0)
    before = b.Less(down, first) if smaller is None else smaller
    counted = b.And(b.Unsqueeze(b.Equal(first, numbers), axes=[1]), before)
    return b.ReduceSum(b.Cast(counted, to=TensorProto.INT32), axes=[0], keepdims=0)


def _require_small(shape: Sequence[int | str | None], axis: int | None) -> int | None:
    """How many elements or rows are compared, None where it is symbolic; declines where they are too many."""
    sizes = [d if isinstance(d, int) else None for d in shape]
    known = [d or MANY for d in sizes]
    count = math.prod(known) if axis is None else known[axis]
    require(count * count * (math.prod(known) // count) <= LARGEST, f"more than {LARGEST} pairs would be compared")
    return (count if all(sizes) else None) if axis is None else sizes[axis]


def _rows(b: Builder, x: Value, axis: int | None) -> Value:
    """What is compared: a vector of elements, or a row for each position along the axis."""
    rank = b.rank(x) or 0
    made: Value = x
    if axis is None and rank != 1:
        made = b.Reshape(x, [-1])
    elif axis is not None:
        made = moved_axis(b, x, rank, axis % rank, 0)
        made = b.Reshape(made, [0, -1]) if rank > 2 else made
    return made


def _compared(b: Builder, rows: Value, is_sorted: bool) -> tuple[Value, Value | None]:
    """Which pairs are equal, and of which the first one is the smaller; NaN is the largest."""
    one, other = (b.Unsqueeze(rows, axes=[axis]) for axis in (1, 0))
    same, smaller = b.Equal(one, other), b.Less(one, other) if is_sorted else None
    if b.dtype(rows) in FLOATS:
        nan = b.Not(b.Equal(rows, rows))
        of_one, of_other = (b.Unsqueeze(nan, axes=[axis]) for axis in (1, 0))
        same = b.Or(same, b.And(of_one, of_other))
        smaller = b.Or(smaller, b.And(b.Not(of_one), of_other)) if is_sorted else None
    return (same, smaller) if b.rank(rows) == 1 else _of_rows(b, rows, same, smaller)


def _of_rows(b: Builder, rows: Value, same: Value, smaller: Value | None) -> tuple[Value, Value | None]:
    """The same of rows of several elements: the first column in which they differ decides."""
    columns = numbers_below(b, size(b, rows, 1), TensorProto.INT32, behind=0)
    differing = b.ReduceMin(b.Where(same, BEYOND, columns), axes=[2], keepdims=1)
    if smaller is not None:
        decided = b.Cast(b.And(smaller, b.Equal(columns, differing)), to=TensorProto.INT32)
        smaller = b.Cast(b.ReduceMax(decided, axes=[2], keepdims=0), to=TensorProto.BOOL)
    return b.Squeeze(b.Equal(differing, BEYOND), axes=[2]), smaller
