"""Where a Resize looks, and with which weights, along one axis."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
TIE = 1e-6  # how far from the middle of two positions ONNX Runtime still sees a tie
ROUNDINGS: dict[str, Callable[[Numbers], Numbers]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5 - TIE),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5 + TIE),
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


def coordinates(axis: Axis, mode: str, length: np.float32) -> Numbers:
    """Where each new position lies among the old ones, rounded as ONNX Runtime rounds: in fp32, after each step.

    Next to 600 that moves a position by up to 3e-5, and its weights with it. `length` is that of the new axis.
    """
    at, one, half = np.arange(axis.made, dtype=np.float32), np.float32(1), np.float32(0.5)
    given, made, scale = (np.float32(n) for n in (axis.given, axis.made, axis.scale))
    last = given - one
    found = np.zeros(axis.made, np.float32)
    if mode == "align_corners":
        found = found if length == 1 else at * last / (length - one)
    elif mode == "asymmetric":
        found = at / scale
    elif mode == "tf_crop_and_resize":
        begin, end = np.float32(axis.begin), np.float32(axis.end)
        spread = at * (end - begin) * last / (length - one) if length > 1 else (end - begin) * last / 2
        found = begin * last + np.full_like(at, spread)
    elif mode == "tf_half_pixel_for_nn":
        found = (at + half) / scale
    elif mode == "half_pixel_symmetric":
        wide = at.astype(np.float64)  # which ONNX Runtime computes in double from here on
        found = given / 2 * (one - made / (scale * given)) + (wide + 0.5) / np.float64(scale) - 0.5
    elif mode != "pytorch_half_pixel" or axis.made > 1:
        found = (at + half) / scale - half
    return found.astype(np.float32).astype(np.float64)


def nearest(axis: Axis, mode: str, rounding: str) -> Taps:
    """The one old position of each new one; an axis that keeps its length and its part is not asked for its mode."""
    at = coordinates(axis, mode, np.float32(axis.made))
    if axis.scale == 1 and mode != "tf_crop_and_resize":
        at = np.arange(axis.made, dtype=np.float64)
    places = np.clip(ROUNDINGS[rounding](at), 0, axis.given - 1).astype(np.int64)
    return Taps(places[:, None], np.ones((axis.made, 1)), _outside(axis, mode, at))


def interpolated(axis: Axis, mode: str, cubic: float | None, antialias: bool, excludes: bool) -> Taps:
    """The old positions that are linearly, or with the number of a cubic, interpolated.

    Beyond the border the outermost position counts again, or, where that is excluded, nothing does.
    """
    at = coordinates(axis, mode, np.float32(axis.scale) * np.float32(axis.given))
    stretch = max(np.float32(1) / np.float32(axis.scale), np.float32(1)) if antialias else np.float32(1)
    reach = (1 if cubic is None else 2) * stretch
    count = 2 * int(np.ceil(reach)) + 1
    middle = (at + 0.5).astype(np.float32)  # of a pixel that begins at `at`
    at = middle.astype(np.float64) - 0.5 if antialias else at
    found = np.floor(at)[:, None].astype(np.int64) + np.arange(count) - count // 2
    distance = (np.abs(found - at[:, None]).astype(np.float32) * (1 / stretch)).astype(np.float64)
    weights = np.clip(1 - distance, 0, None) if cubic is None else _cubic(distance, cubic)
    if antialias:  # ONNX Runtime's window, which rounding may have cut short of a tap of 1e-6
        first, behind = (np.floor(middle + np.float32(r) + np.float32(0.5))[:, None] for r in (-reach, reach))
        weights = np.where((found < first) | (found >= behind), 0, weights)
    if excludes:
        weights = np.where((found < 0) | (found >= axis.given), 0, weights)
    weights = weights / weights.sum(axis=1, keepdims=True)
    used = (weights != 0).any(axis=0)
    places = np.clip(found, 0, axis.given - 1)
    return Taps(places[:, used], weights[:, used], _outside(axis, mode, at))


def _cubic(distance: Numbers, a: float) -> Numbers:
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    found: Numbers = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    return found


def _outside(axis: Axis, mode: str, at: Numbers) -> NDArray[np.bool_]:
    if mode != "tf_crop_and_resize":
        return np.zeros(axis.made, bool)
    found: NDArray[np.bool_] = (at < 0) | (at > axis.given - 1)
    return found
