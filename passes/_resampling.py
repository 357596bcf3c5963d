"""Where a Resize looks, and with which weights, along one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
ROUNDINGS: dict[str, Callable[[Numbers], Numbers]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


class Axis(NamedTuple):
    """One resized axis: its length before and after, the scale, and the part of it that is looked at."""

    given: int
    made: int
    scale: float
    begin: float = 0.0
    end: float = 1.0


class Taps(NamedTuple):
    """For each new position the old ones that it is made of, and their weights; `outside` is what no old one makes."""

    places: NDArray[np.int64]
    weights: Numbers
    outside: NDArray[np.bool_]


def coordinates(axis: Axis, mode: str) -> Numbers:
    """Where each new position lies among the old ones."""
    at, last = np.arange(axis.made, dtype=np.float64), axis.given - 1
    length = axis.scale * axis.given
    if mode == "align_corners":
        return np.zeros(axis.made) if length == 1 else at * last / (length - 1)
    if mode == "asymmetric":
        return at / axis.scale
    if mode == "tf_crop_and_resize":
        part = (axis.end - axis.begin) * last
        return axis.begin * last + (np.full(axis.made, part / 2) if length == 1 else at * part / (length - 1))
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / axis.scale
    if mode == "pytorch_half_pixel" and axis.made == 1:
        return np.zeros(1)
    centred = (at + 0.5) / axis.scale - 0.5
    if mode == "half_pixel_symmetric":
        return centred + axis.given / 2 * (1 - axis.made / length)
    return centred


def nearest(axis: Axis, mode: str, rounding: str) -> Taps:
    """The one old position of each new one."""
    at = coordinates(axis, mode)
    # In fp32, as ONNX Runtime has them: an fp32 0.1 of a length 5, in double, lies above the 0.5 that is rounded down.
    found = ROUNDINGS[rounding](at.astype(np.float32).astype(np.float64))
    places = np.clip(found, 0, axis.given - 1).astype(np.int64)
    return Taps(places[:, None], np.ones((axis.made, 1)), _outside(axis, mode, at))


def interpolated(axis: Axis, mode: str, cubic: float | None, antialias: bool, excludes: bool) -> Taps:
    """The old positions that are linearly, or with the number of a cubic, interpolated.

    Beyond the border the outermost position counts again, or, where that is excluded, nothing does.
    """
    at = coordinates(axis, mode)
    shrink = min(axis.scale, 1.0) if antialias else 1.0
    reach = (1 if cubic is None else 2) / shrink
    count = 2 * int(np.ceil(reach)) + 1
    found = np.floor(at)[:, None].astype(np.int64) + np.arange(count) - count // 2
    distance = np.abs(found - at[:, None]) * shrink
    weights = np.clip(1 - distance, 0, None) if cubic is None else _cubic(distance, cubic)
    if excludes:
        weights = np.where((found < 0) | (found >= axis.given), 0, weights)
    weights = weights / weights.sum(axis=1, keepdims=True)
    used = (weights != 0).any(axis=0)
    places = np.clip(found, 0, axis.given - 1)
    return Taps(places[:, used], weights[:, used], _outside(axis, mode, at))


def _cubic(distance: Numbers, a: float) -> Numbers:
    """The weights of a cubic convolution."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    found: Numbers = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    return found


def _outside(axis: Axis, mode: str, at: Numbers) -> NDArray[np.bool_]:
    if mode != "tf_crop_and_resize":
        return np.zeros(axis.made, bool)
    found: NDArray[np.bool_] = (at < 0) | (at > axis.given - 1)
    return found
