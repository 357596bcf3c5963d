"""Write RoiAlign with a fixed number of samples as two MatMuls.

Why       TensorRT-RTX 1.7.1 has no RoiAlign (its implementation is a plugin), nor have releases before 8.5.
          Mask R-CNN, Faster R-CNN and every detector with a second stage export it.
Rewrites  RoiAlign(x, rois, batch)  ->  MatMul(MatMul(rows, Gather(x, batch)), columns), where `rows` and `columns` hold
          for each roi the weights of its samples: bilinear interpolation is a product of the two directions
Exact     To rounding; the sum is in another order.
Price     For each roi the whole picture is read: [1,256,50,50] with 100 rois of 7 x 7 takes 51 nodes, and
          80 to 220 ms in ONNX Runtime on a loaded machine, next to 72 to 76 of its own RoiAlign.

The mode is avg and sampling_ratio above 0: a ratio of 0 makes the number of samples depend on the roi. With several
pictures a copy of the picture is made for each roi: up to 2^28 elements, where 1,000 stands for a symbolic number.
"""

from __future__ import annotations

import math

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
    require(mode == "avg", "the largest of its samples is no product of two directions")
    require(ratio > 0, "the number of its samples depends on the roi")
    shape = require_some(b.shape(x), "the rank of its input is not known")
    require(isinstance(shape[2], int) and isinstance(shape[3], int), "the sizes of the picture are not static")
    if shape[0] != 1:
        count = (b.shape(rois) or (None,))[0]
        sizes = [count if isinstance(count, int) else MANY, *shape[1:]]
        small = all(isinstance(d, int) for d in sizes) and math.prod(sizes) <= LARGEST
        require(small, f"a picture for each roi has more than {LARGEST} elements")
    pictures = x if shape[0] == 1 else b.Gather(x, batch, axis=0)
    rows = _weights(b, rois, (1, 3), b.root.attr("output_height"), shape[2])
    columns = _weights(b, rois, (0, 2), b.root.attr("output_width"), shape[3])
    found = b.MatMul(b.Unsqueeze(rows, axes=[1]), pictures)
    return b.MatMul(found, b.Unsqueeze(b.Transpose(columns, perm=[0, 2, 1]), axes=[1]))


def _weights(b: Builder, rois: Value, ends: tuple[int, int], bins: int, size: int) -> Value:
    """[rois, bins, size]: how much of each position in one direction every bin of every roi has."""
    scale, ratio = b.root.attr("spatial_scale"), b.root.attr("sampling_ratio")
    shifted = (b.root.attr("coordinate_transformation_mode") or "output_half_pixel") == "half_pixel"
    first, last = (b.Mul(b.Gather(rois, np.asarray([end]), axis=1), scale) for end in ends)
    extent = b.Sub(last, first)
    if shifted:
        first = b.Sub(first, 0.5)
    else:
        extent = b.Max(extent, 1.0)
    steps = (np.arange(bins * ratio) + 0.5) / (bins * ratio)
    at = b.Add(b.Mul(extent, b.constant(steps[None], b.dtype(rois))), first)  # [rois, samples]
    inside = b.And(b.Not(b.Less(at, -1.0)), b.Not(b.Greater(at, float(size))))
    near = b.Unsqueeze(b.Clip(at, min=0.0, max=float(size - 1)), axes=[2])
    places = b.constant(np.arange(size)[None, None], b.dtype(rois))
    hat = b.Relu(b.Sub(1.0, b.Abs(b.Sub(near, places))))
    weights = b.Where(b.Unsqueeze(inside, axes=[2]), hat, b.constant(0.0, b.dtype(rois)))
    grouped = b.Reshape(weights, np.asarray([-1, bins, ratio, size], np.int64))
    made: Value = b.ReduceMean(grouped, axes=[2], keepdims=0)
    return made
