"""Write a Resize that TensorRT refuses as a Gather and a weighted sum along each axis.

Why       TensorRT supports no antialias, no tf_crop_and_resize and no keep_aspect_ratio_policy, up to 9.3 silently, and
          no cubic up to 8.4. Vision transformers and TensorFlow's detectors have them.
Rewrites  Resize(x, roi, scales, sizes), nearest  ->  Gather along each axis that changes
          linear and cubic                        ->  ReduceSum(Gather(x, positions) * weights), axis by axis
          Resize<axes>(x, sizes), another axis of any length  ->  Resize(x, all sizes), which TensorRT-RTX asks for
Exact     Nearest bit for bit, the others to rounding.
Kept      align_corners, half_pixel_symmetric and tf_crop_and_resize of any length by scales: they follow from a length
          that is rounded. The nearest of half_pixel_symmetric of any length, which ONNX Runtime computes in double.
Price     Antialias of [1,3,480,640] to 224 x 224: 8 nodes, and 12 ms in ONNX Runtime on one thread next to 1.1; with
          heights and widths of any size 102 nodes, and 14 ms. Cubic 21 next to 1.6. Nearest of [1,3,224,224] to twice
          that, of any size: 37 nodes, and 4.5 ms next to 0.4. A computed part of [1,64,50,50] to 14 x 14: 82 nodes, and
          0.7 ms next to 0.05.

Positions and weights are constant where the lengths are known, and computed from Shape(x) where they are not; so they
are of a region of interest that is computed.
On the way x takes as many times its memory as a pixel is made of.
"""

from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import FLOATS, Builder, Node, Value, no_match, op, require, rule

from . import _resampling_computed as computed
from ._resampling import Axis, Taps, interpolated, nearest
from ._shapes import constant_input, sizes_of_all

ROUNDED = ("align_corners", "half_pixel_symmetric", "tf_crop_and_resize")  # of lengths that scales give
LARGEST = 2**24  # elements along an axis
INPUTS = 11  # the opset from which roi, scales and sizes are inputs


@rule(op.Resize("x", ...), strategy="decompose")
def all_sizes(b, x):
    """Write the sizes of all axes if the parser reads missing ones as -1."""
    node, shape = b.root, b.shape(x)
    plain = not node.attr("antialias") and node.attr("keep_aspect_ratio_policy") in (None, "stretch")
    crops = node.attr("coordinate_transformation_mode") in ("tf_crop_and_resize", "half_pixel_symmetric")
    axes, sizes = node.attr("axes"), node.input_at(3)
    if axes is None or sizes is None or shape is None or crops or not plain:
        no_match()
    _require_plain(b, x)
    attrs = {name: value for name, value in node.attrs.items() if name != "axes"}
    whole = sizes_of_all(b, x, shape, [a % len(shape) for a in axes], sizes)
    return b.node("Resize", [x, None, None, whole], 1, "", attrs)


@rule(op.Resize("x", ...), strategy="decompose")
def decompose(b, x):
    require(b.opset >= INPUTS, f"before opset {INPUTS} the meaning of Resize is not written down")
    node, shape = b.root, b.known_shape(x)
    _require_plain(b, x)
    rank = len(shape)
    which = [a % rank for a in node.attr("axes") or range(rank)]
    if _is_computed(b, [shape[a] for a in which]):
        return _at_run_time(b, x, which, rank)
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
    beyond = b.constant(node.attr("extrapolation_value"), b.dtype(x))
    return b.Where(outside, beyond, result)


def _require_plain(b: Builder, x: Value) -> None:
    """Decline where scales, sizes or a region of interest are none, and where integers are interpolated."""
    rows = all(b.rank(v) in (None, 1) for v in b.root.inputs[2:] if v is not None)
    require(rows, "its scales or sizes are in rows")
    rounds = b.dtype(x) not in FLOATS and b.root.attr("mode") != "nearest"
    require(not rounds, "it interpolates integers, which is rounded in a way of its own")
    keeps = b.root.attr("keep_aspect_ratio_policy") not in (None, "stretch")
    negative = any(axis < 0 for axis in b.root.attr("axes") or ())
    require(not keeps or not negative, "ONNX Runtime keeps no aspect ratio of axes that are negative numbers")
    for v in b.root.inputs[2:]:
        known = b.value(v)
        require(known is None or (np.isfinite(known) & (known > 0)).all(), "a scale or a size is not above 0")


def _is_computed(b: Builder, given: list[Any]) -> bool:
    """Whether an axis that is resampled, or the part of it that is looked at, is known at run time alone."""
    roi = _roi(b)
    if roi is not None and b.value(roi) is None:
        return True
    return not all(isinstance(d, int) for d, kept in zip(given, _kept(b, given), strict=True) if not kept)


def _kept(b: Builder, given: list[Any]) -> list[bool]:
    """Which of the axes stay as they are, whatever their lengths."""
    scales, roi = constant_input(b, 2), _roi(b)
    if scales is not None:
        same = [bool(s == 1) for s in scales.reshape(-1)]
    else:
        same = [d is not None and d == n for d, n in zip(given, _sizes(b, len(given)), strict=True)]
    if roi is None:
        return same
    known = b.value(roi)
    if known is None and roi.producer is not None:
        b.matched = (*b.matched, roi.producer)  # the proof must see what keeps an axis whole
    parts = (b.elements(roi) if known is None else list(known.reshape(-1))) or [None] * 2 * len(given)
    require(len(parts) == 2 * len(given), "its region of interest has another size")
    ranges = zip(parts[: len(given)], parts[len(given) :], strict=True)
    outer = 0 if b.root.attr("mode") == "nearest" else len(given) - 2  # ONNX Runtime crops none of these, then
    whole = [d == 1 or part == (0, 1) or k < outer for k, (d, part) in enumerate(zip(given, ranges, strict=True))]
    both = list(zip(same, whole, strict=True))
    certain = known is not None or all(w or not s for s, w in both)
    require(certain, "a part may be taken of an axis that keeps its length")
    return [s and w for s, w in both]


def _roi(b: Builder) -> Value | None:
    """The part that is looked at; None where it is the whole."""
    crops = b.root.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    return b.root.inputs[1] if crops and len(b.root.inputs) > 1 else None


def _at_run_time(b: Builder, x: Value, which: list[int], rank: int) -> Value:
    """x with its axes resampled, by positions and weights that are computed."""
    attr, result, shape, roi = b.root.attr, x, b.shape(x) or (), _roi(b)
    cubic = float(attr("cubic_coeff_a")) if attr("mode") == "cubic" else None
    mode, policy = attr("coordinate_transformation_mode"), attr("keep_aspect_ratio_policy") or "stretch"
    rounded = mode in ROUNDED and constant_input(b, 2) is not None
    require(not rounded, f"{mode} follows from a length that is rounded at run time")
    to_one = attr("mode") == "nearest"
    own = to_one and mode == "half_pixel_symmetric"
    require(not own, "ONNX Runtime rounds half_pixel_symmetric in a way of its own")
    kept = _kept(b, [shape[a] for a in which]) if policy == "stretch" else [False] * len(which)
    wanted = {at: k for k, at in enumerate(which) if not kept[k]}
    outside: Value | None = None
    for at, axis in zip(wanted, computed.spans(b, x, wanted, policy), strict=True):
        part = axis if roi is None else computed.cropped(b, roi, axis, wanted[at], len(which))
        among = computed.positions(b, part)
        places = computed.coordinates(
            b, part, mode, among if to_one else b.Unsqueeze(among, axes=[1]), part.made if to_one else None
        )
        if to_one:
            rounding = attr("nearest_mode")
            result = b.Gather(result, computed.nearest(b, part, places, among, rounding), axis=at)
        else:
            taps = computed.interpolated(b, part, places, cubic, bool(attr("antialias")), bool(attr("exclude_outside")))
            result = _summed(b, result, at, rank, *taps)
        if roi is not None:
            beyond = _before(b, computed.outside(b, part, places), rank - at - 1)
            outside = beyond if outside is None else b.Or(outside, beyond)
    if outside is None:
        return result
    return b.Where(outside, b.constant(attr("extrapolation_value"), b.dtype(x)), result)


def _summed(b: Builder, x: Value, at: int, rank: int, places: Value, weights: Value) -> Value:
    """x with one axis resampled, by positions and weights that are computed."""
    behind = list(range(2, rank - at + 1))
    weights = b.Unsqueeze(weights, axes=behind) if behind else weights
    wide = weights if b.dtype(x) == TensorProto.FLOAT else b.Cast(weights, to=b.dtype(x))
    parts = b.Mul(b.Gather(x, places, axis=at), wide)
    parts = b.Where(b.Equal(weights, 0.0), b.constant(0, b.dtype(x)), parts)
    return b.ReduceSum(parts, axes=[at + 1], keepdims=0)


def _before(b: Builder, line: Value, behind: int) -> Value:
    """What is known of an axis, a line or a column, with as many trailing axes."""
    rank = b.rank(line) or 1
    if rank > 1 + behind:
        return b.Squeeze(line, axes=[1])
    return b.Unsqueeze(line, axes=list(range(rank, behind + 1))) if behind >= rank else line


def _axes(b: Builder, given: list[Any]) -> list[Axis]:
    """Each axis that Resize is about, with its new length and its scale."""
    roi, scales = (constant_input(b, position) for position in (1, 2))
    crops = b.root.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    require(roi is None or not crops or roi.shape == (2 * len(given),), "its region of interest has another size")
    require(roi is None or np.isfinite(roi).all(), "its region of interest has no end")
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
    require(all(given), "one of its axes has no elements")
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
    value = b.root.input_at(3)
    found = None if value is None else b.elements(value)
    return [None] * count if found is None else list(found)


def _taps(node: Node, axis: Axis) -> Taps:
    """What each new position along an axis is made of."""
    require(axis.made <= LARGEST, f"an axis gets more than {LARGEST} elements")
    mode = node.attr("coordinate_transformation_mode")
    if node.attr("mode") == "nearest":
        return nearest(axis, mode, node.attr("nearest_mode"))
    cubic = float(node.attr("cubic_coeff_a")) if node.attr("mode") == "cubic" else None
    return interpolated(axis, mode, cubic, bool(node.attr("antialias")), bool(node.attr("exclude_outside")))


def _is_same(axis: Axis, taps: Taps) -> bool:
    return axis.given == axis.made and bool(
        taps.places.shape[1] == 1 and (taps.places[:, 0] == np.arange(axis.given)).all() and (taps.weights == 1).all()
    )


def _resampled(b: Builder, x: Value, at: int, taps: Taps, behind: list[int]) -> Value:
    if taps.places.shape[1] == 1 and (taps.weights == 1).all():
        return b.Gather(x, taps.places[:, 0], axis=at)
    weights = taps.weights.reshape(*taps.weights.shape, *behind)
    parts = b.Mul(b.Gather(x, taps.places, axis=at), b.constant(weights, b.dtype(x)))
    if (weights == 0).any():
        parts = b.Where(weights == 0, b.constant(0, b.dtype(x)), parts)
    return b.ReduceSum(parts, axes=[at + 1], keepdims=0)
