"""Write a Resize that TensorRT refuses as a Gather and a weighted sum along each axis.

Why       TensorRT takes no antialias, no tf_crop_and_resize and no keep_aspect_ratio_policy, up to 9.3 silently, and no
          cubic up to 8.4. Vision transformers and TensorFlow's detectors have them.
Rewrites  Resize(x, roi, scales, sizes), nearest  ->  Gather along each axis that changes
          linear and cubic                        ->  ReduceSum(Gather(x, places) * weights), one axis behind the other
Exact     Nearest bit for bit, the others to rounding.

roi and scales must be constant, the axes that change static, and sizes known where they change.
On the way x takes as many times its memory as a pixel is made of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surgeon import Builder, Stage, op, require, rule, var
from surgeon.ir.graph import Node, Value

from ._resampling import Axis, Taps, interpolated, nearest
from ._shapes import elements

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
    roi, scales = (_known(b, position) for position in (1, 2))
    require(
        all(b.rank(v) in (None, 1) for v in b.root.inputs[2:] if v is not None), "its scales or sizes stand in rows"
    )
    crops = b.root.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    ranges = roi.reshape(2, -1).T.tolist() if crops and roi is not None else [(0.0, 1.0)] * len(given)
    sizes = (
        _sizes(b, len(given)) if scales is None else [d if s == 1 else None for d, s in zip(given, scales, strict=True)]
    )
    kept = [
        not isinstance(d, int) and d is not None and d == n and tuple(r) == (0.0, 1.0)
        for d, n, r in zip(given, sizes, ranges, strict=True)
    ]
    given = [1 if same else d for d, same in zip(given, kept, strict=True)]  # any length: it stays what it is
    require(all(isinstance(d, int) for d in given), "the sizes of the axes that it is about are not static")
    if scales is not None:
        return [Axis(d, int(np.floor(d * s)), float(s), *r) for d, s, r in zip(given, scales, ranges, strict=True)]
    sizes = [1 if same else n for n, same in zip(sizes, kept, strict=True)]
    require(all(isinstance(n, int) for n in sizes), "its input 3 is computed")
    policy = b.root.attr("keep_aspect_ratio_policy") or "stretch"
    if policy == "stretch":
        return [Axis(d, n, n / d, *r) for d, n, r in zip(given, sizes, ranges, strict=True)]
    require(not any(kept), "the kept aspect ratio is that of a size that is not static")
    ratios = [n / d for d, n in zip(given, sizes, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [Axis(d, int(np.floor(d * scale + 0.5)), scale, *r) for d, r in zip(given, ranges, strict=True)]


def _sizes(b: Builder, count: int) -> list[Any]:
    """The sizes that are asked for: numbers, and the names of those that an input has."""
    value = b.root.inputs[3] if len(b.root.inputs) > 3 else None
    found = None if value is None else elements(b, value)
    return [None] * count if found is None else list(found)


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
