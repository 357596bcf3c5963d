"""Write DeformConv as GridSample and a convolution of one pixel.

Why       TensorRT-RTX has no DeformConv: its implementation in TensorRT, from 10.1 on, is a plugin. DCNv2 detectors and
          video super-resolution (EDVR, BasicVSR++) export it from opset 19 on.
Rewrites  DeformConv(x, w, offset, b, mask)  ->  Conv(GridSample(x, places) * mask, w as a kernel of one pixel, b),
          where `places` has for each output pixel one position for each pixel of the kernel; for each group of offsets
          its own GridSample of its channels
          fp16 and bfloat16 in fp32: they do not tell positions apart that lie next to each other
Exact     To rounding: a position is computed in GridSample's units, from -1 to 1, and beyond the border all is 0 in
          both.
Price     x takes as many times its memory as the kernel has pixels. ONNX Runtime, [1,32,32,32] by 3 x 3 with a mask:
          1.0 to 1.5 ms, 25 nodes.

Channels and the kernel's sizes must be static; batch, height and width need not.
"""

from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import HALVES, Builder, Value, op, require, rule
from surgeon.targets.conditions.windows import per_axis

from ._arithmetic import part

BEYOND = 2.0  # pixels outside the image: nothing of it is seen from there


@rule(op.DeformConv("x", "weight", "offset", ...), strategy="decompose")
def decompose(b, x, weight, offset):
    node = b.root
    channels = b.known_shape(x)[1]
    kernel = b.known_shape(weight)
    require(len(kernel) == 4, "it has not two spatial dimensions")
    static = all(isinstance(d, int) for d in (channels, *kernel))
    require(static, "its channels or the sizes of its kernel are not static")
    count, pixels = node.attr("offset_group"), int(kernel[2]) * int(kernel[3])
    bias, mask = (node.input_at(k) for k in (3, 4))
    dtype = b.dtype(x)
    if dtype in HALVES:
        x, weight, offset = (b.Cast(v, to=TensorProto.FLOAT) for v in (x, weight, offset))
        bias, mask = (None if v is None else b.Cast(v, to=TensorProto.FLOAT) for v in (bias, mask))
    taken = []
    for group in range(count):
        places = _places(b, x, offset, group, kernel[2:])
        each = channels // count
        image = x if count == 1 else part(b, x, 1, group * each, (group + 1) * each)
        mode = "linear" if b.opset >= 20 else "bilinear"
        seen = b.GridSample(image, places, mode=mode, padding_mode="zeros", align_corners=0)
        require(b.why_unsupported(seen.producer) is None, "the target has no GridSample that it could be written with")
        if mask is not None:
            share = mask if count == 1 else part(b, mask, 1, group * pixels, (group + 1) * pixels)
            seen = b.Mul(seen, b.Reshape(share, [0, 1, pixels, -1]))
        taken.append(seen)
    whole = taken[0] if count == 1 else b.Concat(*taken, axis=1)
    columns = b.Reshape(whole, _sizes_behind(b, [0, channels * pixels], offset))
    flat = b.Reshape(weight, [kernel[0], kernel[1] * pixels, 1, 1])
    found = b.Conv(columns, flat, *([] if bias is None else [bias]), group=node.attr("group"))
    return b.Cast(found, to=dtype) if dtype in HALVES else found


def _sizes_behind(b: Builder, front: list[int], offset: Value) -> Any:
    """`front`, and the height and width of the output after it: an array, or computed where they are not static."""
    shape = b.shape(offset) or ()
    if all(isinstance(d, int) for d in shape[2:]):
        return np.asarray([*front, *shape[2:]], np.int64)
    sizes = b.Slice(b.Shape(offset), [2], [4], [0])
    return b.Concat(front, sizes, axis=0)


def _places(b: Builder, x: Value, offset: Value, group: int, kernel: tuple[Any, ...]) -> Value:
    """[N, pixels of the kernel, output pixels, 2]: where GridSample looks, from -1 to 1."""
    pixels = kernel[0] * kernel[1]
    first = group * pixels * 2
    found = []
    for axis in (1, 0):  # GridSample wants the column first
        moved = b.Gather(offset, first + axis + 2 * np.arange(pixels), axis=1)
        at = b.Add(moved, _unmoved(b, offset, axis, kernel))
        size = _size(b, x, axis)
        low, high = b.constant(-BEYOND, b.dtype(x)), b.Add(size, b.constant(BEYOND, b.dtype(x)))
        at = b.Min(b.Max(b.Where(b.Equal(at, at), at, low), low), high)  # NaN sees nothing
        units = b.Sub(b.Div(at, b.Mul(size, 0.5)), 1.0)
        found.append(b.Unsqueeze(units, axes=[4]))
    return b.Reshape(b.Concat(*found, axis=4), [0, pixels, -1, 2])


def _size(b: Builder, x: Value, axis: int) -> Value:
    """The height or the width of the image, as a number of its type."""
    size = (b.shape(x) or ())[2 + axis]
    if isinstance(size, int):
        return b.constant(float(size), b.dtype(x))
    return b.Cast(b.Gather(b.Shape(x), 2 + axis), to=b.dtype(x))


def _unmoved(b: Builder, offset: Value, axis: int, kernel: tuple[Any, ...]) -> Value:
    """[pixels of the kernel, height or 1, width or 1]: where a pixel of the kernel looks without an offset, counted
    from the image's border: half a pixel before the first one's centre."""
    node, dtype = b.root, b.dtype(offset)
    stride, dilation = per_axis(node, "strides", 1)[axis], per_axis(node, "dilations", 1)[axis]
    pad = (node.attr("pads") or [0] * 4)[axis]
    within = np.indices(kernel)[axis].reshape(-1, 1, 1) * dilation - pad + 0.5
    count = (b.shape(offset) or ())[2 + axis]
    if isinstance(count, int):
        steps = np.arange(count) * stride
        return b.constant(within + steps.reshape((-1, 1) if axis == 0 else (1, -1)), dtype)
    end = b.Gather(b.Shape(offset), 2 + axis)
    line = b.Cast(b.Range(0, end, 1), to=dtype)
    line = b.Unsqueeze(line, axes=[1 if axis == 0 else 0])
    return b.Add(b.Mul(line, float(stride)), b.constant(within, dtype))
