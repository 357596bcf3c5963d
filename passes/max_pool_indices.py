"""Write MaxPool with its indices as a Gather and reductions.

Why       No TensorRT has the indices of MaxPool, which SegNet and DeconvNet hand to MaxUnpool.
Rewrites  y, indices = MaxPool(x)  ->  y = ReduceMax(Gather(x, windows)), indices = ReduceMin of the positions at which
          the window equals it, counted over the whole tensor
          sizes that are not static  ->  the same, of a Slice of x for each element of a window
Exact     Bit for bit: of equal numbers ONNX Runtime takes the first, too, and where the first of a window is NaN, that.
Price     [1,64,112,112] by 2 x 2, ONNX Runtime on one thread: 16 nodes, 15 ms next to 3.4 of its own MaxPool; where
          sizes are not static 100 nodes, 4.5 ms.


The padding must be explicit, and none where sizes are not static; windows then have up to 16 elements.
On the way x takes as many times its memory as its windows have elements.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from onnx import helper

from surgeon import FLOATS, Builder, Value, op, require, rule
from surgeon.ir.lattice import Dim
from surgeon.targets.conditions.windows import is_padded_explicitly, per_axis

from ._pool_windows import nan_as_lowest, windows_of
from ._shapes import product_of, size, vector_of

MOST = 16  # elements of a window, where sizes are not static


@rule(op.MaxPool("x"), strategy="decompose")
def decompose(b, x):
    require(len(b.root.outputs) >= 2 and b.root.outputs[1] is not None)
    shape = b.known_shape(x)
    require(0 not in shape, "it has no elements")
    if not all(isinstance(d, int) for d in shape[1:]):
        return _of_any_size(b, x, len(shape))
    found, sizes = windows_of(b.root), shape[2:]
    counts = [len(w.places) for w in found]
    require(all(counts), "it has no windows")
    strides = [int(np.prod(sizes[a + 1 :])) for a in range(len(sizes))]
    axes = [w.places * s for w, s in zip(found, strides, strict=True)]
    windows = reduce(_crossed, axes)
    pixels = int(np.prod(sizes))
    flat = b.Reshape(x, [0, shape[1], pixels])
    first = b.Gather(flat, windows[:, 0], axis=2)
    taken = b.Gather(nan_as_lowest(b, flat), windows, axis=2)
    largest = b.ReduceMax(taken, axes=[3], keepdims=1)
    place = b.ReduceMin(b.Where(b.Equal(taken, largest), windows, np.asarray(pixels - 1)), axes=[3], keepdims=0)
    is_number = b.Equal(first, first)
    place = b.Where(is_number, place, windows[:, 0])
    largest = b.Where(is_number, b.Squeeze(largest, axes=[3]), first)
    if b.root.attr("storage_order"):
        by_columns = np.arange(int(np.prod(sizes))).reshape(sizes, order="F").reshape(-1)
        place = b.Gather(by_columns, place, axis=0)
    before = _before(b, x, shape[0], shape[1], pixels)
    whole = np.asarray([0, shape[1], *counts])
    return b.Reshape(largest, whole), b.Reshape(b.Add(place, before), whole)


def _before(b: Builder, x: Value, batch: Dim, channels: int, pixels: int) -> Any:
    """[batch, channels, 1]: how many pixels of the whole tensor lie before those of each channel."""
    if isinstance(batch, int):
        return np.arange(batch * channels).reshape(batch, channels, 1) * pixels
    count = b.Gather(b.Shape(x), 0)
    firsts = b.Mul(b.Range(0, count, 1), np.asarray(channels * pixels))
    return b.Add(b.Unsqueeze(firsts, axes=[1, 2]), (np.arange(channels) * pixels).reshape(1, channels, 1))


def _crossed(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The windows over two axes: each of the one with each of the other, and so are their positions."""
    both = one[:, None, :, None] + other[None, :, None, :]
    return both.reshape(len(one) * len(other), -1)


def _of_any_size(b: Builder, x: Value, rank: int) -> tuple[Value, Value]:
    """The largest of each window and its position, of as many slices of x as a window has elements."""
    node, axes = b.root, range(rank - 2)
    plain = is_padded_explicitly(node) and not any(node.attr("pads") or ()) and not node.attr("ceil_mode")
    require(plain, "its sizes are not static, and it pads")
    require(b.opset >= 11, "its sizes are not static, and before opset 11 there is no Range")
    kernel, steps, gaps = (per_axis(node, name, 1) for name in ("kernel_shape", "strides", "dilations"))
    require(np.prod(kernel) <= MOST, f"its sizes are not static, and its windows have more than {MOST} elements")
    sizes = [size(b, x, axis) for axis in range(rank)]
    counts = [_count(b, sizes[a + 2], (kernel[a] - 1) * gaps[a] + 1, steps[a]) for a in axes]
    in_columns = node.attr("storage_order")
    strides = [product_of(b, sizes[2 : a + 2] if in_columns else sizes[a + 3 :]) for a in axes]
    offsets = [[o * g for o, g in zip(place, gaps, strict=True)] for place in product(*map(range, kernel))]
    behind = [0] * (rank + 2) + [(k - 1) * g for k, g in zip(kernel, gaps, strict=True)]
    filled = b.Pad(x, pads=behind, value=_lowest(b.dtype(x)))  # ONNX Runtime has a window in an image that is smaller
    slices = [_slice(b, filled, offset, counts, steps) for offset in offsets]
    numbers = [nan_as_lowest(b, v) for v in slices]
    largest = reduce(b.Max, numbers)
    place = b.constant(np.zeros(1, np.int64))
    for offset, number in reversed(list(zip(offsets, numbers, strict=True))):
        parts = [_times(b, stride, o) for stride, o in zip(strides, offset, strict=True)]
        place = b.Where(b.Equal(number, largest), reduce(b.Add, parts), place)
    is_number = b.Equal(slices[0], slices[0])
    place = b.Where(is_number, place, b.constant(np.zeros(1, np.int64)))
    for a in axes:
        along = b.Range(0, counts[a], 1)
        lines = b.Mul(b.Unsqueeze(along, axes=list(range(1, rank - 2 - a))) if a < rank - 3 else along, steps[a])
        place = b.Add(place, b.Mul(lines, strides[a]))
    pictures = b.Range(0, product_of(b, sizes[:2]), 1)
    before = b.Mul(b.Reshape(pictures, vector_of(b, [*sizes[:2], *[1] * (rank - 2)])), product_of(b, sizes[2:]))
    return b.Where(is_number, largest, slices[0]), b.Add(place, before)


def _lowest(dtype: int) -> np.ndarray:
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    return np.asarray(-np.inf if dtype in FLOATS else np.iinfo(kind).min, kind)


def _count(b: Builder, length: int | Value, window: int, step: int) -> int | Value:
    if isinstance(length, int):
        return (length - window) // step + 1
    return b.Add(b.Div(b.Sub(length, window), step), 1)


def _times(b: Builder, number: int | Value, factor: int) -> Value:
    return b.Mul(number, factor) if isinstance(number, Value) else b.constant(number * factor)


def _slice(b: Builder, x: Value, offset: Sequence[int], counts: Sequence[int | Value], steps: Sequence[int]) -> Value:
    """What is at an offset in every window."""
    last = [b.Mul(b.Sub(n, 1), s) if isinstance(n, Value) else (n - 1) * s for n, s in zip(counts, steps, strict=True)]
    ends = [b.Add(e, o + 1) if isinstance(e, Value) else e + o + 1 for e, o in zip(last, offset, strict=True)]
    axes = np.arange(2, len(offset) + 2)
    return b.Slice(x, offset, vector_of(b, ends), axes, steps)
