"""Where a Resize looks, and with which weights, along an axis whose length is known at run time alone."""

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require

from ._resampling import TIE

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Span(NamedTuple):
    """A resized axis: its length before and after, the scale, and the part of it that is looked at, each a number of
    fp32 without dimensions."""

    given: Value
    made: Value
    scale: Value
    begin: Value | None = None
    end: Value | None = None


def spans(b: Builder, x: Value, wanted: dict[int, int], policy: str) -> list[Span]:
    """The axes that are resampled. `wanted`: each axis of x, and its place among those that the Resize is about."""
    shape, scales, sizes = b.Shape(x), *(b.root.input_at(k) for k in (2, 3))
    given = [b.Cast(b.Gather(shape, at, axis=0), to=FLOAT) for at in wanted]
    asked = [b.Gather(scales if sizes is None else sizes, k, axis=0) for k in wanted.values()]
    if sizes is None:
        return [Span(d, b.Floor(b.Mul(d, s)), s) for d, s in zip(given, asked, strict=True)]
    asked = [b.Cast(n, to=FLOAT) for n in asked]
    ratios = [b.Div(n, d) for n, d in zip(asked, given, strict=True)]
    if policy == "stretch":
        return [Span(*row) for row in zip(given, asked, ratios, strict=True)]
    scale = (b.Min if policy == "not_larger" else b.Max)(*ratios)
    return [Span(d, b.Floor(b.Add(b.Mul(d, scale), 0.5)), scale) for d in given]


def cropped(b: Builder, roi: Value, axis: Span, place: int, count: int) -> Span:
    """The axis with the part of it that is looked at; `place` is its own among the `count` that the Resize is about."""
    begin, end = (b.Gather(roi, k, axis=0) for k in (place, count + place))
    if b.dtype(roi) == FLOAT:
        return axis._replace(begin=begin, end=end)
    return axis._replace(begin=b.Cast(begin, to=FLOAT), end=b.Cast(end, to=FLOAT))


def outside(b: Builder, axis: Span, at: Value) -> Value:
    """Which new positions lie outside of the old ones."""
    return b.Or(b.Less(at, 0.0), b.Greater(at, b.Sub(axis.given, 1.0)))


def nearest(b: Builder, axis: Span, at: Value, among: Value, rounding: str) -> Value:
    """[made]: the one old position of each new one; `at` is where those of `among` lie."""
    found = _rounded(b, at, rounding)
    if axis.begin is not None:
        return _places(b, axis, found)
    places = b.Max(b.Min(found, b.Sub(axis.given, 1.0)), 0.0)
    return b.Where(b.Equal(axis.scale, 1.0), among, b.Cast(places, to=INT64))


def _places(b: Builder, axis: Span, found: Value) -> Value:
    """Positions as integers of the axis; one that is not a number is 0."""
    places = b.Max(b.Min(found, b.Sub(axis.given, 1.0)), 0.0)
    if axis.begin is not None:
        places = b.Where(b.Equal(places, places), places, 0.0)
    return b.Cast(places, to=INT64)


def _rounded(b: Builder, at: Value, rounding: str) -> Value:
    if rounding == "ceil":
        return b.Ceil(at)
    below = b.Floor(at)
    if rounding == "floor":
        return below
    rest = b.Sub(b.Sub(at, below), 0.5)
    up = b.Greater(rest, TIE) if rounding == "round_prefer_floor" else b.Greater(rest, -TIE)
    return b.Add(below, b.Cast(up, to=FLOAT))


def interpolated(
    b: Builder, axis: Span, at: Value, cubic: float | None, antialias: bool, excludes: bool
) -> tuple[Value, Value]:
    """[made, taps]: the old positions of each new one, and their weights. Beyond the border the outermost position
    counts again, or, where that is excluded, nothing does."""
    reach = 1.0 if cubic is None else 2.0
    if not antialias:
        found = b.Add(b.Floor(at), b.constant(np.arange(-reach, reach + 1, dtype=np.float32)))
        weights = _weights(b, b.Abs(b.Sub(found, at)), cubic)
    else:
        stretch = b.Max(b.Div(1.0, axis.scale), 1.0)
        found, weights = _widened(b, at, b.Mul(stretch, reach), stretch, cubic)
    if excludes:
        weights = b.Where(b.Or(b.Less(found, 0.0), b.Greater(b.Add(found, 1.0), axis.given)), 0.0, weights)
    weights = b.Div(weights, b.ReduceSum(weights, axes=[1], keepdims=1))
    return _places(b, axis, found), weights


def _widened(b: Builder, at: Value, reach: Value, stretch: Value, cubic: float | None) -> tuple[Value, Value]:
    """The taps and weights of a filter that is stretched: those of ONNX Runtime's window, as `_resampling` has them."""
    most = b.Cast(b.Ceil(reach), to=INT64)
    offsets = b.Cast(b.Range(b.Neg(most), b.Add(most, 1), 1), to=FLOAT)
    middle = b.Add(at, 0.5)
    at = b.Sub(middle, 0.5)
    found = b.Add(b.Floor(at), offsets)
    weights = _weights(b, b.Mul(b.Abs(b.Sub(found, at)), b.Div(1.0, stretch)), cubic)
    before = b.Less(found, b.Floor(b.Add(b.Sub(middle, reach), 0.5)))
    behind = b.Less(b.Floor(b.Add(b.Add(middle, reach), 0.5)), b.Add(found, 1.0))
    return found, b.Where(b.Or(before, behind), 0.0, weights)


def _weights(b: Builder, distance: Value, cubic: float | None) -> Value:
    if cubic is not None:
        near = b.Add(b.Mul(b.Mul(b.Sub(b.Mul(distance, cubic + 2), cubic + 3), distance), distance), 1.0)
        far = b.Mul(b.Add(b.Mul(b.Sub(b.Mul(distance, cubic), 5 * cubic), distance), 8 * cubic), distance)
        far = b.Where(b.Less(distance, 2.0), b.Sub(far, 4 * cubic), 0.0)
        return b.Where(b.Greater(distance, 1.0), far, near)
    return b.Max(b.Sub(1.0, distance), 0.0)


def positions(b: Builder, axis: Span) -> Value:
    """The new positions: [0, 1, ...]."""
    return b.Range(0, b.Cast(axis.made, to=INT64), 1)


def coordinates(b: Builder, axis: Span, mode: str, among: Value, length: Value | None = None) -> Value:
    """Where new positions lie among the old ones. `length` is that of the new axis, where it is an integer."""
    at = b.Cast(among, to=FLOAT)
    if mode == "asymmetric":
        return b.Div(at, axis.scale)
    if mode == "tf_half_pixel_for_nn":
        return b.Div(b.Add(at, 0.5), axis.scale)
    if mode == "align_corners":
        last = b.Max(b.Sub(length or b.Mul(axis.scale, axis.given), 1.0), float(np.finfo(np.float32).tiny))
        return b.Div(b.Mul(at, b.Sub(axis.given, 1.0)), last)
    if mode == "tf_crop_and_resize":
        last, part = b.Sub(axis.given, 1.0), b.Sub(axis.end, axis.begin)
        spread = b.Div(b.Mul(b.Mul(at, part), last), b.Sub(axis.made, 1.0))
        spread = b.Where(b.Greater(axis.made, 1.0), spread, b.Div(b.Mul(part, last), 2.0))
        return b.Add(b.Mul(axis.begin, last), spread)
    require(mode in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"), f"its coordinates are {mode}")
    found = b.Div(b.Add(at, 0.5), axis.scale)
    if mode == "half_pixel_symmetric":  # in the order of ONNX Runtime's: a weight of 0 is 0 here, too
        found = b.Add(b.Mul(b.Div(axis.given, 2.0), b.Sub(1.0, b.Div(axis.made, b.Mul(axis.scale, axis.given)))), found)
    found = b.Sub(found, 0.5)
    return b.Where(b.Less(axis.made, 1.5), 0.0, found) if mode == "pytorch_half_pixel" else found
