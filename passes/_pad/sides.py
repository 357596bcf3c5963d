"""Padding an axis from its own values, by Gather, Slice and Concat.

`f` is a Builder, or what a meaning is spelled with.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

END = 2**31 - 1  # "to the end": fits the 32-bit integers of old parsers


@dataclass(frozen=True)
class Side:
    """So many elements before an axis, and so many after it."""

    axis: int
    begin: int
    end: int

    @property
    def most(self) -> int:
        """The larger of the two."""
        return max(self.begin, self.end)


def sides(pads: np.ndarray) -> Iterator[Side]:
    """The axes that are padded, from pads of shape [2, rank]; negative pads count as none."""
    for axis in np.flatnonzero((pads > 0).any(axis=0)):
        yield Side(int(axis), max(int(pads[0, axis]), 0), max(int(pads[1, axis]), 0))


def padded(f: Any, x: Any, side: Side, mode: str, size: int | None) -> Any:
    """`x` with one axis padded: by one Gather where its size is known, else from its edges, with a Concat."""
    if size is not None:
        positions = np.pad(np.arange(size, dtype=np.int64), (side.begin, side.end), mode)  # type: ignore[call-overload]
        return f.Gather(x, positions, axis=side.axis)
    parts = [x]
    if side.begin:
        parts.insert(0, _in_front(f, x, side, mode))
    if side.end:
        parts.append(_behind(f, x, side, mode))
    return f.Concat(*parts, axis=side.axis)


def _in_front(f: Any, x: Any, side: Side, mode: str) -> Any:
    if mode == "reflect":
        return _turned(f, x, side.axis, side.begin, side.begin)
    if mode == "symmetric":
        return _turned(f, x, side.axis, side.begin, side.begin - 1)
    if mode == "edge":
        return _first(f, x, side.axis, side.begin)
    return _again(f, x, side.axis, side.begin, (-side.begin, END))


def _behind(f: Any, x: Any, side: Side, mode: str) -> Any:
    if mode == "reflect":
        return _turned(f, _part(f, x, side.axis, -side.end - 1, -1), side.axis, side.end, side.end - 1)
    if mode == "symmetric":
        return _turned(f, _part(f, x, side.axis, -side.end, END), side.axis, side.end, side.end - 1)
    if mode == "edge":
        return _first(f, _part(f, x, side.axis, -1, END), side.axis, side.end)
    return _again(f, x, side.axis, side.end, (0, side.end))


def _part(f: Any, x: Any, axis: int, start: int, stop: int) -> Any:
    return f.Slice(x, starts=[start], ends=[stop], axes=[axis])


def _turned(f: Any, x: Any, axis: int, count: int, last: int) -> Any:
    """So many elements up to the position `last`, in the other order."""
    return f.Gather(x, np.arange(last, last - count, -1, dtype=np.int64), axis=axis)


def _first(f: Any, x: Any, axis: int, count: int) -> Any:
    """The first element, so many times."""
    return f.Gather(x, np.zeros(count, np.int64), axis=axis)


def _again(f: Any, x: Any, axis: int, count: int, span: tuple[int, int]) -> Any:
    """So many elements from the end of x that `span` says; x again and again where it has fewer."""
    y = _part(f, x, axis, *span)
    for _ in range((count - 1).bit_length()):
        y = _part(f, f.Concat(y, y, axis=axis), axis, *span)
    return y


def cropped(f: Any, x: Any, pads: np.ndarray) -> Any:
    """`x` without what the negative ones of the pads, [2, rank], take away."""
    axes = [int(a) for a in np.flatnonzero((pads < 0).any(axis=0))]
    if not axes:
        return x
    starts = [max(-int(pads[0, a]), 0) for a in axes]
    ends = [int(pads[1, a]) if pads[1, a] < 0 else END for a in axes]
    return f.Slice(x, starts=starts, ends=ends, axes=axes)
