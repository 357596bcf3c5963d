"""Write a Resize that TensorRT refuses as a Gather and a weighted sum along each axis.

Why       TensorRT takes no antialias, no tf_crop_and_resize and no keep_aspect_ratio_policy, up to 9.3 silently, and no
          cubic up to 8.4. Vision transformers and TensorFlow's detectors have them.
Rewrites  Resize(x, roi, scales, sizes), nearest  ->  Gather along each axis that changes
          linear and cubic                        ->  ReduceSum(Gather(x, places) * weights), one axis behind the other
Exact     Nearest bit for bit, the others to rounding.

roi, scales and sizes must be constant, the axes that change static.
On the way x takes as many times its memory as a pixel is made of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surgeon import Builder, Stage, op, require, rule, var
from surgeon.ir.graph import Node, Value

from ._resampling import Axis, Taps, interpolated, nearest

INPUTS = 11  # the opset from which roi, scales and sizes are inputs

x = var("x")


@rule(op.Resize(x, ...), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x):
    require(b.opset >= INPUTS, f"before opset {INPUTS} the meaning of Resize is not written down")
    node, shape = b.root, b.shape(x)
    require(shape is not None, "the rank of the input is not known")
    rank = len(shape)
    which = [a % rank for a in node.attr("axes") or range(rank)]
    found = _axes(b, [shape[a] for a in which])
    outside: Any = np.asarray(False)
    result = x
    for at, axis in zip(which, found, strict=True):
        taps = _taps(node, axis)
        behind = [1] * (rank - at - 1)
        outside = outside | taps.outside.reshape(-1, *behind)
        if not _is_same(axis, taps):
            result = _resampled(b, result, at, taps, behind)
    if not outside.any():
        return result
    beyond = b.constant(np.asarray(node.attr("extrapolation_value")), b.dtype(x))
    return b.Where(outside, beyond, result)


def _axes(b: Builder, given: list[Any]) -> list[Axis]:
    """Each axis that Resize is about, with its new length and its scale."""
    roi, scales, sizes = (_known(b, position) for position in (1, 2, 3))
    crops = b.root.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    ranges = roi.reshape(2, -1).T.tolist() if crops and roi is not None else [(0.0, 1.0)] * len(given)
    require(all(isinstance(d, int) for d in given), "the sizes of the axes that it is about are not static")
    if sizes is None:
        assert scales is not None  # ONNX asks for the one or the other
        return [Axis(d, int(np.floor(d * s)), float(s), *r) for d, s, r in zip(given, scales, ranges, strict=True)]
    policy = b.root.attr("keep_aspect_ratio_policy") or "stretch"
    if policy == "stretch":
        return [Axis(d, int(n), int(n) / d, *r) for d, n, r in zip(given, sizes, ranges, strict=True)]
    ratios = [int(n) / d for d, n in zip(given, sizes, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [Axis(d, int(np.floor(d * scale + 0.5)), scale, *r) for d, r in zip(given, ranges, strict=True)]


def _known(b: Builder, position: int) -> np.ndarray | None:
    """A constant input; None where it is left out or empty."""
    value = b.root.inputs[position] if len(b.root.inputs) > position else None
    if value is None or b.shape(value) == (0,):
        return None
    known = b.value(value)
    require(known is not None, f"its input {position} is computed")
    return known


def _taps(node: Node, axis: Axis) -> Taps:
    """What each new position along an axis is made of."""
    mode = node.attr("coordinate_transformation_mode") or "half_pixel"
    if node.attr("mode") == "nearest":
        return nearest(axis, mode, node.attr("nearest_mode") or "round_prefer_floor")
    cubic = float(node.attr("cubic_coeff_a")) if node.attr("mode") == "cubic" else None
    return interpolated(axis, mode, cubic, bool(node.attr("antialias")), bool(node.attr("exclude_outside")))


def _is_same(axis: Axis, taps: Taps) -> bool:
    """Whether the axis stays as it is."""
    return axis.given == axis.made and bool(
        taps.places.shape[1] == 1 and (taps.places[:, 0] == np.arange(axis.given)).all() and (taps.weights == 1).all()
    )


def _resampled(b: Builder, x: Value, at: int, taps: Taps, behind: list[int]) -> Value:
    """x with one axis resampled."""
    if taps.places.shape[1] == 1 and (taps.weights == 1).all():
        picked: Value = b.Gather(x, taps.places[:, 0], axis=at)
        return picked
    weights = taps.weights.reshape(*taps.weights.shape, *behind)
    parts = b.Mul(b.Gather(x, taps.places, axis=at), b.constant(weights, b.dtype(x)))
    if (weights == 0).any():
        parts = b.Where(weights == 0, b.constant(np.asarray(0), b.dtype(x)), parts)
    summed: Value = b.ReduceSum(parts, axes=[at + 1], keepdims=0)
    return summed
