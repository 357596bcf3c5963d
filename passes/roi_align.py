"""Write RoiAlign as two MatMuls.

Why       TensorRT-RTX 1.7.1 has no RoiAlign (its implementation is a plugin), nor have releases before 8.5.
          Mask R-CNN, Faster R-CNN and every detector with a second stage export it.
Rewrites  RoiAlign(x, rois, batch)  ->  MatMul(MatMul(rows, Gather(x, batch)), columns), where `rows` and `columns` hold
          for each roi the weights of its samples: bilinear interpolation is a product of the two directions
          mode max  ->  the largest of four such products, one for each neighbour of a sample, over the samples
          sampling_ratio 0, as detectron2 and mmcv write it  ->  the same with the sum over a bin's samples in closed
          form: their number follows from the roi, and those between two positions are counted, not drawn
Exact     To rounding, for rois of any size and images of finite numbers: every number of an image is a factor.
Price     For each roi the whole image is read. [1,256,50,50] with 100 rois of 7 x 7, ONNX Runtime on one thread:
          with a ratio of 2 53 nodes, 68 ms next to 24 of its own RoiAlign, and 75 nodes where the size of the image
          is symbolic; with ratio 0 171 nodes, 63 next to 57; with mode max 110 nodes, 325 next to 25.

The sampling_ratio is above 0 where the mode is max. With several images a copy of the image is made for each roi:
up to 2^28 elements, where 1,000 stands for a symbolic number of rois, and 64 for a symbolic size of the image.
"""

import math
from functools import reduce
from typing import NamedTuple

import numpy as np

from surgeon import Builder, Value, attr, op, require, rule

from ._shapes import size

LARGEST = 2**28  # elements of the images, one for each roi
MANY = 1000  # rois, where their number is symbolic
LONG = 64  # rows and columns of an image, where they are symbolic
END = np.iinfo(np.int64).max


@rule(op.RoiAlign("x", "rois", "batch", mode=attr("mode"), sampling_ratio=attr("ratio")), strategy="decompose")
def decompose(b, x, rois, batch, mode, ratio):
    require(mode == "avg" or ratio > 0, "the number of samples that it takes the largest of depends on the roi")
    shape = b.known_shape(x)
    static = isinstance(shape[2], int) and isinstance(shape[3], int)
    require(static or b.opset >= 11, "the sizes of the image are not static, and before opset 11 there is no Range")
    if shape[0] != 1:
        count = (b.shape(rois) or (None,))[0]
        sizes = [count if isinstance(count, int) else MANY, *(d if isinstance(d, int) else LONG for d in shape[1:])]
        require(math.prod(sizes) <= LARGEST, f"an image for each roi has more than {LARGEST} elements")
    pictures = x if shape[0] == 1 else b.Gather(x, batch, axis=0)
    rows = _Direction.of(b, rois, (1, 3), b.root.attr("output_height"), size(b, x, 2))
    columns = _Direction.of(b, rois, (0, 2), b.root.attr("output_width"), size(b, x, 3))
    if mode == "max":
        return _largest(b, pictures, rows, columns)
    weights = _adaptive if ratio == 0 else _sampled
    return _product(b, pictures, weights(b, rows), weights(b, columns))


def _product(b: Builder, pictures: Value, rows: Value, columns: Value) -> Value:
    """[rois, channels, rows, columns]: the images weighted in both directions."""
    found = b.MatMul(b.Unsqueeze(rows, axes=[1]), pictures)
    return b.MatMul(found, b.Unsqueeze(b.Transpose(columns, perm=[0, 2, 1]), axes=[1]))


class _Direction(NamedTuple):
    """One direction of the rois: where each begins and how long it is ([rois, 1]), in how many bins; the positions."""

    dtype: int
    first: Value
    extent: Value
    bins: int
    size: int | Value

    @classmethod
    def of(cls, b: Builder, rois: Value, ends: tuple[int, int], bins: int, size: int | Value) -> "_Direction":
        scale = b.root.attr("spatial_scale")
        shifted = b.root.attr("coordinate_transformation_mode") == "half_pixel"
        first, last = (b.Mul(b.Gather(rois, [end], axis=1), scale) for end in ends)
        if shifted:  # both ends, so that the extent is rounded as ONNX Runtime rounds it: it is rounded up to samples
            first, last = b.Sub(first, 0.5), b.Sub(last, 0.5)
        extent = b.Sub(last, first)
        return cls(b.dtype(rois), first, extent if shifted else b.Max(extent, 1.0), bins, size)

    def end(self, b: Builder, less: int = 0) -> Value:
        """The number of positions as a float, less some."""
        if isinstance(self.size, int):
            return b.constant(self.size - less, self.dtype)
        return b.Sub(b.Cast(self.size, to=self.dtype), float(less)) if less else b.Cast(self.size, to=self.dtype)

    def places(self, b: Builder, first: int = 0) -> Value:
        """[1, 1, positions]: the positions as floats, from `first` on."""
        if isinstance(self.size, int):
            return b.constant(np.arange(first, self.size)[None, None], self.dtype)
        numbers = b.Cast(b.Range(first, self.size, 1), to=self.dtype)
        return b.Unsqueeze(numbers, axes=[0, 1])

    def nearest(self, b: Builder, at: Value) -> Value:
        """Samples as they are, those outside of the image at its ends."""
        if isinstance(self.size, int):
            return b.Clip(at, min=0.0, max=float(self.size - 1))
        return b.Min(b.Max(at, 0.0), self.end(b, 1))


def _samples(b: Builder, along: _Direction) -> tuple[Value, Value]:
    """[rois, samples]: where the samples are; which of them are at the image at all."""
    count = along.bins * b.root.attr("sampling_ratio")
    require(0 < count <= LARGEST, f"it takes {count} samples along an axis")
    steps = (np.arange(count) + 0.5) / count
    at = b.Add(b.Mul(along.extent, b.constant(steps[None], along.dtype)), along.first)
    return at, b.And(b.Not(b.Less(at, -1.0)), b.Not(b.Greater(at, along.end(b))))


def _sampled(b: Builder, along: _Direction) -> Value:
    """[rois, bins, size]: how much of each position every bin of every roi has."""
    at, inside = _samples(b, along)
    near = b.Unsqueeze(along.nearest(b, at), axes=[2])
    hat = b.Relu(b.Sub(1.0, b.Abs(b.Sub(near, along.places(b)))))
    weights = b.Where(b.Unsqueeze(inside, axes=[2]), hat, b.constant(0.0, along.dtype))
    return b.ReduceMean(_by_bin(b, weights, along), axes=[2], keepdims=0)


def _by_bin(b: Builder, weights: Value, along: _Direction) -> Value:
    """[rois, bins, samples of one, positions]."""
    parts = [-1, along.bins, b.root.attr("sampling_ratio")]
    if isinstance(along.size, int):
        return b.Reshape(weights, [*parts, along.size])
    return b.Reshape(weights, b.Concat(parts, b.Unsqueeze(along.size, axes=[0]), axis=0))


def _largest(b: Builder, pictures: Value, rows: _Direction, columns: _Direction) -> Value:
    """The largest of the weighted neighbours of a bin's samples: ONNX takes it before it adds them."""
    ratio = b.root.attr("sampling_ratio")
    corners = [_product(b, pictures, r, c) for r in _neighbours(b, rows) for c in _neighbours(b, columns)]
    largest = reduce(b.Max, corners)  # [rois, channels, rows * ratio, columns * ratio]
    of_rows = b.Reshape(largest, [0, 0, rows.bins, ratio, -1])
    found = b.ReduceMax(of_rows, axes=[3], keepdims=0)
    of_columns = b.Reshape(found, [0, 0, rows.bins, columns.bins, ratio])
    return b.ReduceMax(of_columns, axes=[4], keepdims=0)


def _neighbours(b: Builder, along: _Direction) -> tuple[Value, Value]:
    """[rois, samples, size], twice: the weight of the position below each sample, and of the one above."""
    at, inside = _samples(b, along)
    near = along.nearest(b, at)
    below = b.Floor(near)
    above = b.Min(b.Add(below, 1.0), along.end(b, 1))
    upper = b.Sub(near, below)
    places = along.places(b)
    nothing = b.constant(0.0, along.dtype)

    def weights(place: Value, weight: Value) -> Value:
        kept = b.Unsqueeze(b.Where(inside, weight, nothing), axes=[2])
        return b.Where(b.Equal(b.Unsqueeze(place, axes=[2]), places), kept, nothing)

    return weights(below, b.Sub(1.0, upper)), weights(above, upper)


def _adaptive(b: Builder, along: _Direction) -> Value:
    """[rois, bins, size]: as `_sampled`, where a bin has as many samples as it is long, rounded up. A sample between
    two positions p and p + 1 gives p its distance from p + 1, and p + 1 that from p. All the samples between them give
    their number times the distance of their middle. The numbers are differences of how many samples lie below each
    position. Up to 1 outside of the image a sample counts for the outermost position alone."""
    dtype = along.dtype
    length = b.Div(along.extent, float(along.bins))
    count = b.Ceil(length)
    filled = b.Greater(count, 0.0)  # a roi that ends before it begins has no samples, and all is 0
    none, one = b.constant(0.0, dtype), b.constant(1.0, dtype)
    count = b.Where(filled, count, none)
    step = b.Where(filled, b.Div(length, b.Max(count, one)), one)
    begins = b.Add(b.Mul(length, b.constant(np.arange(along.bins)[None], dtype)), along.first)
    begin = b.Unsqueeze(begins, axes=[2])
    count, step, long = (b.Unsqueeze(v, axes=[2]) for v in (count, step, length))  # [rois, 1, 1]
    several = b.Max(count, one)

    def below(places: Value, including: bool) -> Value:
        """[rois, bins, positions]: how many of a bin's samples lie below each position, or at it.

        Where one lies at a position but for rounding, it counts as ONNX Runtime rounds its position.
        """
        steps = b.Div(b.Sub(places, begin), step)
        found = b.Floor(b.Add(steps, 0.5)) if including else b.Ceil(b.Sub(steps, 0.5))

        def counts(more: float) -> Value:
            at = b.Add(b.Div(b.Mul(b.Add(found, more), long), several), begin)
            return b.Cast(b.Not(b.Greater(at, places)) if including else b.Less(at, places), to=dtype)

        found = b.Add(b.Sub(found, 1.0), b.Add(counts(-0.5), counts(0.5)))
        return b.Min(b.Max(found, none), count)

    from_before, behind = along.places(b, -1), along.end(b)
    if not isinstance(along.size, int):
        behind = b.Reshape(behind, [1, 1, 1])
    counted = b.Concat(below(from_before, False), below(behind, True), axis=2)
    lower, upper = _all_but_one(b, counted, "last"), _all_but_one(b, counted, "first")
    between = b.Sub(upper, lower)  # from p - 1 to p, for p from 0 to size
    middle = b.Add(b.Mul(b.Mul(b.Add(lower, upper), 0.5), step), begin)
    part = b.Sub(middle, from_before)
    # Before the first position, and after the last one, a sample counts as if it were there.
    weighed = b.Mul(between, part)
    to_upper = b.Where(_is_end(b, along, from_before, 0), between, weighed)
    to_lower = b.Where(_is_end(b, along, from_before, -1), between, b.Sub(between, weighed))
    weights = b.Add(_all_but_one(b, to_upper, "last"), _all_but_one(b, to_lower, "first"))
    return b.Div(weights, b.Max(count, one))


def _all_but_one(b: Builder, x: Value, left_out: str) -> Value:
    """What is along the last of three dimensions, without the first or the last."""
    bounds = (0, -1) if left_out == "last" else (1, END)
    return b.Slice(x, starts=[bounds[0]], ends=[bounds[1]], axes=[2])


def _is_end(b: Builder, along: _Direction, from_before: Value, end: int) -> Value:
    """Which of the positions from -1 on is the first, or the last."""
    if isinstance(along.size, int):
        ends = np.zeros((1, 1, along.size + 1), bool)
        ends[..., end] = True
        return b.constant(ends)
    return b.Equal(from_before, b.constant(-1.0, along.dtype) if end == 0 else along.end(b, 1))
