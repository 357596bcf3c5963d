"""The windows of a pooling, axis by axis."""

from typing import NamedTuple

import numpy as np
from onnx import helper

from surgeon import FLOATS, Builder, Node, Value, require
from surgeon.targets.conditions.windows import per_axis, pool_axes

LARGEST = 1 << 22  # pixels of all windows along an axis


class Windows(NamedTuple):
    """The windows along one axis, each a row: where they look, and how they meet the padding.

    places   positions in the input; a position in the padding has another one of its window in its place
    inside   whether it is of the input
    counted  whether it is of the input or of its padding, not of what ceil_mode adds
    size     how long the input is
    """

    places: np.ndarray
    inside: np.ndarray
    counted: np.ndarray
    size: int

    @property
    def is_whole(self) -> bool:
        """Whether the windows are the positions of the input, one by one."""
        return bool(self.inside.all()) and np.array_equal(self.places, np.arange(self.size)[:, None])


def windows_of(node: Node) -> list[Windows]:
    """The windows along each spatial axis; declines where a size is not static."""
    axes = pool_axes(node)
    require(axes is not None, "its sizes are not static, or auto_pad says the padding")
    assert axes is not None
    kernel, dilations = per_axis(node, "kernel_shape", 1), per_axis(node, "dilations", 1)
    fronts = (node.attr("pads") or [0] * 2 * len(axes))[: len(axes)]
    found = []
    for axis, extent, dilation, front in zip(axes, kernel, dilations, fronts, strict=True):
        count = axis.windows if node.attr("ceil_mode") else (axis.size + axis.behind - axis.window) // axis.stride + 1
        require(max(count, 1) * extent <= LARGEST, f"its windows have more than {LARGEST} pixels along an axis")
        at = np.arange(count)[:, None] * axis.stride + np.arange(extent) * dilation - front
        size = axis.size - front
        inside = (at >= 0) & (at < size)
        require(inside.any(axis=1).all(), "a window is wholly of padding")
        first = np.take_along_axis(at, inside.argmax(axis=1)[:, None], axis=1)
        found.append(Windows(np.where(inside, at, first), inside, at < size + axis.behind, size))
    return found


def nan_as_lowest(b: Builder, x: Value) -> Value:
    """x with the lowest number in place of NaN, which is not a maximum in ONNX Runtime."""
    dtype = b.dtype(x)
    if dtype not in FLOATS:
        return x
    lowest = b.constant(np.asarray(helper.tensor_dtype_to_np_dtype(dtype).type(-np.inf)), dtype)
    return b.Where(b.Equal(x, x), x, lowest)
