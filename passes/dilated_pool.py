"""Write a pooling that TensorRT does not have as a Gather and a reduction along each axis.

Why       No TensorRT supports a pooling with dilations, and none an LpPool of another power than 1 and 2.
          TensorRT-RTX refuses an LpPool of one spatial dimension.
Rewrites  MaxPool, AveragePool and LpPool with dilations  ->  ReduceMax, ReduceMean or ReduceSum of Gather(x, windows),
          one axis after the other
          the same where a size is not static  ->  Max or Sum of a Slice for each pixel of the kernel, axis by axis;
          a mean by as many ones, where it does not count each pixel
          LpPool                               ->  the same of |x|^p, ^ (1 / p)
          LpPool<auto_pad> without dilations   ->  (AveragePool(|x|^p) * window) ^ (1 / p)
Exact     MaxPool bit for bit, the others to rounding.
Price     [1,64,56,56] by 3 x 3 in ONNX Runtime on one thread: 6 or 7 nodes, and 5 to 6 ms next to 0.08; of any size
          11 to 33 nodes, and 0.5 ms. LpPool 7 to 12 nodes, and 0.6 to 9 next to 10 to 24.

On the way x takes as many times its memory as the kernel is long. Where a size is not static, no last window of
ceil_mode may begin in the padding.
Dilations together with auto_pad are left alone: ONNX Runtime does not see dilations there.
"""

from typing import Any

import numpy as np

from surgeon import FLOATS, Builder, Node, Value, attr, op, require, rule
from surgeon.targets.conditions.windows import is_padded_explicitly, per_axis, pool_axes

from ._pool_windows import Windows, nan_as_lowest, windows_of

END = np.iinfo(np.int64).max
MOST = 1024  # slices along an axis
TAKEN = (1, 2)  # the powers of LpPool that a target may take


@rule(op.MaxPool("x") | op.AveragePool("x"), strategy="decompose")
def decompose(b, x):
    require(_is_dilated(b.root))
    numbers = nan_as_lowest(b, x) if b.root.op == "MaxPool" else x
    if pool_axes(b.root) is None:
        return _by_slices(b, numbers)
    found = windows_of(b.root)
    pooled = _reduced(b, numbers, found, "ReduceMax" if b.root.op == "MaxPool" else "ReduceMean")
    if b.root.op == "MaxPool":
        return pooled
    share = _share(found, counts_padding=bool(b.root.attr("count_include_pad")))
    return b.Mul(pooled, b.constant(share, b.dtype(x))) if (share != 1).any() else pooled


@rule(op.LpPool("x", p=attr("p")), strategy="decompose")
def decompose_power(b, x, p):
    require(p > 0, f"p is {p}: there is no such root")
    # respell rounds the others down
    require(not (p in TAKEN and b.root.attr("ceil_mode") and not _is_dilated(b.root) and pool_axes(b.root) is not None))
    size: Value = b.Abs(x)
    powers = size if p == 1 else b.Pow(size, float(p))
    if _is_dilated(b.root) or is_padded_explicitly(b.root):
        by_slices = pool_axes(b.root) is None
        return _root(b, _by_slices(b, powers) if by_slices else _reduced(b, powers, windows_of(b.root), "ReduceSum"), p)
    require(not b.root.attr("ceil_mode"), "with ceil_mode its last window may be a part of one")
    attrs = {name: v for name, v in b.root.attrs.items() if name in ("auto_pad", "kernel_shape", "strides")}
    mean = b.AveragePool(powers, **attrs, count_include_pad=1)
    return _root(b, b.Mul(mean, float(np.prod(b.root.attr("kernel_shape")))), p)


def _is_dilated(node: Node) -> bool:
    return any(d != 1 for d in node.attr("dilations") or ())


def _root(b: Builder, total: Value, p: int) -> Value:
    return total if p == 1 else b.Pow(total, 1.0 / p)


def _reduced(b: Builder, x: Value, found: list[Windows], reduction: str) -> Value:
    """The windows of x reduced along one spatial axis after the other; padding counts as 0."""
    for place, windows in enumerate(found):
        if windows.is_whole:
            continue
        axis, behind = place + 2, [1] * (len(found) - place - 1)
        x = b.Gather(x, windows.places, axis=axis)
        if reduction != "ReduceMax" and not windows.inside.all():
            inside = windows.inside.reshape(*windows.inside.shape, *behind)
            x = b.Where(inside, x, b.constant(0, b.dtype(x)))
        x = getattr(b, reduction)(x, axes=[axis + 1], keepdims=0)
    return x


def _share(found: list[Windows], counts_padding: bool) -> np.ndarray:
    """For each window, by how much more the mean of the whole kernel is divided than ONNX divides."""
    share: Any = 1.0
    for windows in found:
        counted = (windows.counted if counts_padding else windows.inside).sum(axis=1)
        share = np.multiply.outer(share, windows.places.shape[1] / counted)
    return np.asarray(share)


def _by_slices(b: Builder, x: Value) -> Value:
    """The windows of x reduced as a Slice for each pixel of the kernel; a mean is divided by what it counts."""
    node = b.root
    kernel, strides, dilations = (per_axis(node, name, 1) for name in ("kernel_shape", "strides", "dilations"))
    require(is_padded_explicitly(node), "ONNX Runtime does not see dilations where auto_pad says the padding")
    given = list(node.attr("pads") or [0] * 2 * len(kernel))
    windows = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _pads(b, x, given, windows, strides)
    total = _windowed(b, _padded(b, x, pads), kernel, strides, dilations)
    if node.op != "AveragePool":
        return total
    if pads is None or (node.attr("count_include_pad") and not node.attr("ceil_mode")):
        return b.Div(total, float(np.prod(kernel)))
    counted = _counted(b, x, given if node.attr("count_include_pad") else [0] * len(given), pads)
    return b.Div(total, b.Max(_windowed(b, counted, kernel, strides, dilations), 1.0))


def _pads(b: Builder, x: Value, given: list[int], windows: list[int], strides: list[int]) -> Value | np.ndarray | None:
    """The padding with which there are as many windows as ONNX Runtime has, where none is a part of one; None for none.
    With ceil_mode a last one may be. Without it, too, ONNX Runtime has a part of one: of an axis that is shorter than a
    window by less than a step."""
    rank = len(windows)
    begins, ends = given[:rank], given[rank:]
    if b.root.attr("ceil_mode"):
        parts = [e + s - 1 for e, s in zip(ends, strides, strict=True)]
        reaches = zip(parts, windows, strides, strict=True)
        require(all(p < w or s == 1 for p, w, s in reaches), "its last window may begin in the padding")
        return _of_all_axes([*begins, *parts])
    least = np.asarray(windows, np.int64) - begins - ends
    if all(length <= 1 or s == 1 for length, s in zip(least, strides, strict=True)):
        return _of_all_axes(given) if any(given) else None
    sizes = b.Slice(b.Shape(x), [2], [END], [0])
    lacks = b.And(b.Less(sizes, least), b.Greater(sizes, least - strides))
    missing = b.Where(lacks, b.Sub(least, sizes), 0)
    front = np.asarray([0, 0, *begins, 0, 0], np.int64)
    return b.Concat(front, b.Add(missing, ends), axis=0)


def _padded(b: Builder, x: Value, pads: Value | np.ndarray | None) -> Value:
    """x between what changes no maximum and no sum."""
    if pads is None:
        return x
    dtype = b.dtype(x)
    require(dtype in FLOATS, "padding of integers has no lowest number")
    number = b.constant(-np.inf if b.root.op == "MaxPool" else 0.0, dtype)
    return b.Pad(x, pads=pads, value=number)


def _counted(b: Builder, x: Value, counted: list[int], pads: Value | np.ndarray) -> Value:
    """1 for each pixel that a mean counts, 0 for the others, as wide as the padded x; of one sample and channel."""
    sizes = b.Slice(b.Shape(x), [2], [END], [0])
    ones = b.Expand(b.constant(1, b.dtype(x)), b.Concat([1, 1], sizes, axis=0))
    if any(counted):
        ones = b.Pad(ones, pads=_of_all_axes(counted), value=b.constant(1.0, b.dtype(x)))
        pads = b.Sub(pads, _of_all_axes(counted)) if isinstance(pads, Value) else pads - _of_all_axes(counted)
    return b.Pad(ones, pads=pads, value=b.constant(0.0, b.dtype(x)))


def _of_all_axes(pads: list[int]) -> np.ndarray:
    """The pads of the spatial axes, with those of samples and channels."""
    rank = len(pads) // 2
    return np.asarray([0, 0, *pads[:rank], 0, 0, *pads[rank:]], np.int64)


def _windowed(b: Builder, x: Value, kernel: list[int], strides: list[int], dilations: list[int]) -> Value:
    """The windows of x reduced along one axis after the other: a maximum, or a sum."""
    require(max(kernel) <= MOST, f"its sizes are not static, and its windows are longer than {MOST}")
    for axis, (extent, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        window = (extent - 1) * dilation
        parts = [_shifted(b, x, axis + 2, k * dilation, window - k * dilation, stride) for k in range(extent)]
        x = parts[0] if extent == 1 else b.Max(*parts) if b.root.op == "MaxPool" else b.Sum(*parts)
    return x


def _shifted(b: Builder, x: Value, axis: int, first: int, left: int, stride: int) -> Value:
    """Each `stride`-th of what lies along an axis from `first` on, without the last `left`."""
    return b.Slice(x, [first], [-left if left else END], [axis], None if stride == 1 else [stride])
