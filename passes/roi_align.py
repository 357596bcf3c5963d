"""Write RoiAlign as two MatMuls.

Why       TensorRT-RTX 1.7.1 has no RoiAlign (its implementation is a plugin), nor have releases before 8.5.
          Mask R-CNN, Faster R-CNN and every detector with a second stage export it.
Rewrites  RoiAlign(x, rois, batch)  ->  MatMul(MatMul(rows, Gather(x, batch)), columns), where `rows` and `columns` hold
          for each roi the weights of its samples: bilinear interpolation is a product of the two directions
          mode max  ->  the largest of four such products, one for each neighbour of a sample, over the samples
          sampling_ratio 0, as detectron2 and mmcv write it  ->  the same with the sum over a bin's samples in closed
          form: their number follows from the roi, and those between two positions are counted, not drawn
Exact     To rounding, for rois of any size and pictures of finite numbers: every number of a picture is a factor.
Price     For each roi the whole picture is read. [1,256,50,50] with 100 rois of 7 x 7, ONNX Runtime on one thread:
          with a ratio of 2 53 nodes, 68 ms next to 24 of its own RoiAlign; with ratio 0 103 nodes, 74 next to 15; with
          mode max 110 nodes, 325 next to 25.

The sampling_ratio is above 0 where the mode is max. With several pictures a copy of the picture is made for each roi:
up to 2^28 elements, where 1,000 stands for a symbolic number.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import NamedTuple

import numpy as np

from surgeon import Builder, Stage, attr, op, require, require_some, rule, var
from surgeon.ir.graph import Value

LARGEST = 2**28  # elements of the pictures, one for each roi
MANY = 1000  # rois, where their number is symbolic

x, rois, batch = var("x"), var("rois"), var("batch")


@rule(
    op.RoiAlign(x, rois, batch, mode=attr("mode"), sampling_ratio=attr("ratio")),
    stage=Stage.LOWER,
    strategy="decompose",
)
def decompose(b, x, rois, batch, mode, ratio):
    require(mode == "avg" or ratio > 0, "the number of samples that it takes the largest of depends on the roi")
    shape = require_some(b.shape(x), "the rank of its input is not known")
    require(isinstance(shape[2], int) and isinstance(shape[3], int), "the sizes of the picture are not static")
    if shape[0] != 1:
        count = (b.shape(rois) or (None,))[0]
        sizes = [count if isinstance(count, int) else MANY, *shape[1:]]
        small = all(isinstance(d, int) for d in sizes) and math.prod(sizes) <= LARGEST
        require(small, f"a picture for each roi has more than {LARGEST} elements")
    pictures = x if shape[0] == 1 else b.Gather(x, batch, axis=0)
    rows = _Direction.of(b, rois, (1, 3), b.root.attr("output_height"), shape[2])
    columns = _Direction.of(b, rois, (0, 2), b.root.attr("output_width"), shape[3])
    if mode == "max":
        return _largest(b, pictures, rows, columns)
    weights = _adaptive if ratio == 0 else _sampled
    return _product(b, pictures, weights(b, rows), weights(b, columns))


def _product(b: Builder, pictures: Value, rows: Value, columns: Value) -> Value:
    """[rois, channels, rows, columns]: the pictures weighted in both directions."""
    found = b.MatMul(b.Unsqueeze(rows, axes=[1]), pictures)
    made: Value = b.MatMul(found, b.Unsqueeze(b.Transpose(columns, perm=[0, 2, 1]), axes=[1]))
    return made


class _Direction(NamedTuple):
    """One direction of the rois: where each begins and how long it is ([rois, 1]), in how many bins; the positions."""

    dtype: int
    first: Value
    extent: Value
    bins: int
    size: int

    @classmethod
    def of(cls, b: Builder, rois: Value, ends: tuple[int, int], bins: int, size: int) -> _Direction:
        scale = b.root.attr("spatial_scale")
        shifted = (b.root.attr("coordinate_transformation_mode") or "output_half_pixel") == "half_pixel"
        first, last = (b.Mul(b.Gather(rois, np.asarray([end]), axis=1), scale) for end in ends)
        if shifted:  # both ends, so that the extent is rounded as ONNX Runtime rounds it: it is rounded up to samples
            first, last = b.Sub(first, 0.5), b.Sub(last, 0.5)
        extent = b.Sub(last, first)
        return cls(b.dtype(rois), first, extent if shifted else b.Max(extent, 1.0), bins, size)


# ---- samples that are drawn ------------------------------------------------------------------------------------------


def _samples(b: Builder, along: _Direction) -> tuple[Value, Value]:
    """[rois, samples]: where the samples are; which of them are at the picture at all."""
    count = along.bins * b.root.attr("sampling_ratio")
    steps = (np.arange(count) + 0.5) / count
    at = b.Add(b.Mul(along.extent, b.constant(steps[None], along.dtype)), along.first)
    return at, b.And(b.Not(b.Less(at, -1.0)), b.Not(b.Greater(at, float(along.size))))


def _sampled(b: Builder, along: _Direction) -> Value:
    """[rois, bins, size]: how much of each position every bin of every roi has."""
    at, inside = _samples(b, along)
    near = b.Unsqueeze(b.Clip(at, min=0.0, max=float(along.size - 1)), axes=[2])
    places = b.constant(np.arange(along.size)[None, None], along.dtype)
    hat = b.Relu(b.Sub(1.0, b.Abs(b.Sub(near, places))))
    weights = b.Where(b.Unsqueeze(inside, axes=[2]), hat, b.constant(0.0, along.dtype))
    parts = np.asarray([-1, along.bins, b.root.attr("sampling_ratio"), along.size], np.int64)
    made: Value = b.ReduceMean(b.Reshape(weights, parts), axes=[2], keepdims=0)
    return made


# ---- the largest sample ----------------------------------------------------------------------------------------------


def _largest(b: Builder, pictures: Value, rows: _Direction, columns: _Direction) -> Value:
    """The largest of the weighted neighbours of a bin's samples: ONNX takes it before it adds them."""
    ratio = b.root.attr("sampling_ratio")
    corners = [_product(b, pictures, r, c) for r in _neighbours(b, rows) for c in _neighbours(b, columns)]
    largest = reduce(b.Max, corners)  # [rois, channels, rows * ratio, columns * ratio]
    of_rows = b.Reshape(largest, np.asarray([0, 0, rows.bins, ratio, -1], np.int64))
    found = b.ReduceMax(of_rows, axes=[3], keepdims=0)
    of_columns = b.Reshape(found, np.asarray([0, 0, rows.bins, columns.bins, ratio], np.int64))
    made: Value = b.ReduceMax(of_columns, axes=[4], keepdims=0)
    return made


def _neighbours(b: Builder, along: _Direction) -> tuple[Value, Value]:
    """[rois, samples, size], twice: the weight of the position below each sample, and of the one above."""
    at, inside = _samples(b, along)
    near = b.Clip(at, min=0.0, max=float(along.size - 1))
    below = b.Floor(near)
    above = b.Min(b.Add(below, 1.0), b.constant(along.size - 1, along.dtype))
    upper = b.Sub(near, below)
    places = b.constant(np.arange(along.size)[None, None], along.dtype)
    nothing = b.constant(0.0, along.dtype)

    def weights(place: Value, weight: Value) -> Value:
        kept = b.Unsqueeze(b.Where(inside, weight, nothing), axes=[2])
        made: Value = b.Where(b.Equal(b.Unsqueeze(place, axes=[2]), places), kept, nothing)
        return made

    return weights(below, b.Sub(1.0, upper)), weights(above, upper)


# ---- samples that are counted ----------------------------------------------------------------------------------------


def _adaptive(b: Builder, along: _Direction) -> Value:
    """[rois, bins, size]: as `_sampled`, where a bin has as many samples as it is long, rounded up.

    A sample between two positions p and p + 1 gives p its distance from p + 1, and p + 1 that from p. All the samples
    between them give their number times the distance of their middle. The numbers are differences of how many samples
    lie below each position. Up to 1 outside of the picture a sample counts for the outermost position alone.
    """
    size, dtype = along.size, along.dtype
    length = b.Div(along.extent, float(along.bins))
    count = b.Ceil(length)
    filled = b.Greater(count, 0.0)  # a roi that ends before it begins has no samples, and all is 0
    none, one = b.constant(0.0, dtype), b.constant(1.0, dtype)
    count = b.Where(filled, count, none)
    step = b.Where(filled, b.Div(length, b.Max(count, one)), one)
    begins = b.Add(b.Mul(length, b.constant(np.arange(along.bins)[None], dtype)), along.first)
    begin = b.Unsqueeze(begins, axes=[2])
    count, step = (b.Unsqueeze(v, axes=[2]) for v in (count, step))  # [rois, 1, 1]

    def below(places: np.ndarray, including: bool) -> Value:
        """[rois, bins, places]: how many of a bin's samples lie below each place, or at it."""
        steps = b.Div(b.Sub(b.constant(places[None, None], dtype), begin), step)
        found = b.Floor(b.Add(steps, 0.5)) if including else b.Ceil(b.Sub(steps, 0.5))
        made: Value = b.Min(b.Max(found, none), count)
        return made

    counted = b.Concat(below(np.arange(-1, size), False), below(np.asarray([size]), True), axis=2)
    lower, upper = (b.Slice(counted, *(np.asarray([k]) for k in ends)) for ends in ((0, size + 1, 2), (1, size + 2, 2)))
    between = b.Sub(upper, lower)  # from p - 1 to p, for p from 0 to size
    middle = b.Add(b.Mul(b.Mul(b.Add(lower, upper), 0.5), step), begin)
    part = b.Sub(middle, b.constant(np.arange(-1, size)[None, None], dtype))
    # Before the first position, and behind the last one, a sample counts as if it were there.
    ends = np.zeros((1, 1, size + 1), bool)
    ends[..., 0] = True
    weighed = b.Mul(between, part)
    to_upper = b.Where(b.constant(ends), between, weighed)
    to_lower = b.Where(b.constant(ends[..., ::-1]), between, b.Sub(between, weighed))
    first, last = np.asarray([0]), np.asarray([size])
    second, behind = np.asarray([1]), np.asarray([size + 1])
    axis = np.asarray([2])
    weights = b.Add(b.Slice(to_upper, first, last, axis), b.Slice(to_lower, second, behind, axis))
    made: Value = b.Div(weights, b.Max(count, one))
    return made
