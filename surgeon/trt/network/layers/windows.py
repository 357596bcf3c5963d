"""Layers that compute an output value from many input values: reductions, products, windows, sampling."""

from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon.trt.network.definition import Layer, weights_array
from surgeon.trt.network.layers import kernels

f32 = np.float32


def _average(x: np.ndarray, **where: Any) -> np.ndarray:
    if x.dtype.kind == "f":
        return np.asarray(np.mean(x, **where))
    total, count = np.sum(x, **where), np.sum(np.ones_like(x), **where)
    return np.asarray((np.sign(total) * (np.abs(total) // count)).astype(x.dtype))


REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "SUM": np.sum,
    "PROD": np.prod,
    "MAX": np.max,
    "MIN": np.min,
    "AVG": _average,
}


def reduce(layer: Layer, x: np.ndarray) -> np.ndarray:
    operation, native = layer.native.op.name, layer.native
    where: dict[str, Any] = {"axis": kernels.axes_of(native.axes, x.ndim), "keepdims": native.keep_dims}
    if operation in ("SUM", "PROD"):
        where["dtype"] = x.dtype  # NumPy would widen int32
    if operation in ("MAX", "MIN"):
        where["initial"] = _extreme(x.dtype, lowest=operation == "MAX")  # the value of an empty reduction
    return REDUCTIONS[operation](x, **where)


def _extreme(dtype: np.dtype, lowest: bool) -> Any:
    if dtype.kind == "f":
        return -np.inf if lowest else np.inf
    if dtype.kind == "b":
        return not lowest
    return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max


def cumulative(layer: Layer, x: np.ndarray, axis: np.ndarray) -> np.ndarray:
    native = layer.native
    return kernels.run("CumSum", x, axis, exclusive=int(native.exclusive), reverse=int(native.reverse))


def softmax(layer: Layer, x: np.ndarray) -> np.ndarray:
    return _softmax(x, kernels.axes_of(layer.native.axes, x.ndim))


def _softmax(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    powers = np.exp(x - x.max(axes, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axes, keepdims=True))


def normalization(layer: Layer, x: np.ndarray, factor: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over `axes`, and within each group where there are several.

    With one group the mean is over `axes` alone, so a group normalization with one group, which the parser writes with
    the spatial axes only, is an instance normalization.
    """
    native, groups = layer.native, layer.native.num_groups
    axes = kernels.axes_of(native.axes, x.ndim)
    if groups == 1:
        return np.asarray(_standardized(x, axes, native.epsilon) * factor + shift)
    if axes != tuple(range(2, x.ndim)):
        raise ValueError(f"{groups} groups normalized over axes {axes}")
    grouped = x.reshape(x.shape[0], groups, -1)
    result = _standardized(grouped, (2,), native.epsilon).reshape(x.shape)
    if not getattr(native, "is_v2", False):  # the first version has a scale for each group, not for each channel
        factor, shift = (np.repeat(value, x.shape[1] // groups, axis=1) for value in (factor, shift))
    return np.asarray(result * factor + shift)


def _standardized(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    centred = x - x.mean(axes, keepdims=True)
    variance = np.square(centred).mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + f32(epsilon)))


def lrn(layer: Layer, x: np.ndarray) -> np.ndarray:
    """x / (k + alpha / window * sum of squares over the window of channels) ^ beta."""
    native, half = layer.native, layer.native.window_size // 2
    squares = np.pad(np.square(x), [(0, 0), (half, half)] + [(0, 0)] * (x.ndim - 2))
    sums = np.lib.stride_tricks.sliding_window_view(squares, native.window_size, 1).sum(-1)
    return np.asarray(x / np.power(f32(native.k) + f32(native.alpha / native.window_size) * sums, f32(native.beta)))


def matrix_multiply(layer: Layer, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    first, second = layer.native.op0.name, layer.native.op1.name
    x = x[..., None, :] if first == "VECTOR" else _matrix(x, first)
    y = y[..., :, None] if second == "VECTOR" else _matrix(y, second)
    result = np.matmul(x, y)
    if second == "VECTOR":
        result = result[..., 0]
    if first == "VECTOR":
        result = result[..., 0] if second == "VECTOR" else result[..., 0, :]
    return np.asarray(result)


def _matrix(x: np.ndarray, operation: str) -> np.ndarray:
    return x.swapaxes(-1, -2) if operation == "TRANSPOSE" else x


def einsum(layer: Layer, *inputs: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum(layer.native.equation, *inputs, optimize=True))


def convolution(
    layer: Layer, x: np.ndarray, kernel: np.ndarray | None = None, bias: np.ndarray | None = None
) -> np.ndarray:
    native, inner = layer.native, x.shape[2:]
    made = [_covered(i, s) for i, s in zip(inner, native.stride_nd, strict=True)]
    maps = native.num_output_maps, x.shape[1] // native.num_groups
    return _convolved("Conv", native, [x, kernel, bias], maps, (made, inner))


def deconvolution(
    layer: Layer, x: np.ndarray, kernel: np.ndarray | None = None, bias: np.ndarray | None = None
) -> np.ndarray:
    """The same padding as of the convolution that this undoes: from in * stride values back to in."""
    native, inner = layer.native, x.shape[2:]
    made = [i * s for i, s in zip(inner, native.stride_nd, strict=True)]
    maps = x.shape[1], native.num_output_maps // native.num_groups
    return _convolved("ConvTranspose", native, [x, kernel, bias], maps, (inner, made))


def _convolved(op: str, native: Any, inputs: list[Any], maps: tuple[int, int], sizes: tuple[Any, Any]) -> np.ndarray:
    """`maps` are the first sizes of the kernel, `sizes` those of the inner axes on its small and its large side."""
    (x, kernel, bias), (small, large) = inputs, sizes
    size, stride, dilation = list(native.kernel_size_nd), list(native.stride_nd), list(native.dilation_nd)
    extents = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
    before, after = _padding(native, small, large, extents, stride)
    return kernels.run(
        op, x, _weights(native.kernel, kernel, (*maps, *size)), _weights(native.bias, bias, (native.num_output_maps,)),
        kernel_shape=size, strides=stride, dilations=dilation, group=native.num_groups, pads=before + after,
    )  # fmt: skip


def _weights(attribute: Any, tensor: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """Kernel or bias: an input where there is one, else the attribute; None where both are empty."""
    if tensor is not None:
        return tensor.astype(f32)
    values = weights_array(attribute)
    return values.astype(f32).reshape(shape) if values.size else None


def _covered(size: int, stride: int) -> int:
    return -(-size // stride)


def _padding(
    native: Any, small: Any, large: Any, extents: list[int], strides: list[int]
) -> tuple[list[int], list[int]]:
    """Padding before and after each window axis: explicit, or what leaves `small` windows on `large` values."""
    mode = native.padding_mode.name
    if not mode.startswith("SAME"):
        return list(native.pre_padding), list(native.post_padding)
    totals = [max((n - 1) * s + e - size, 0) for n, s, e, size in zip(small, strides, extents, large, strict=True)]
    halves = [total // 2 for total in totals]
    rests = [total - half for total, half in zip(totals, halves, strict=True)]
    return (halves, rests) if mode == "SAME_UPPER" else (rests, halves)


def pooling(layer: Layer, x: np.ndarray) -> np.ndarray:
    """Windows over the innermost axes. An average divides by the window's overlap with the input, or with the padding.

    Rounding up lets the last window reach beyond the padding; what lies there counts for nothing.
    """
    native = layer.native
    size, stride = list(native.window_size_nd), list(native.stride_nd)
    inner = x.shape[x.ndim - len(size) :]
    before, after = _padding(native, [_covered(i, s) for i, s in zip(inner, stride, strict=True)], inner, size, stride)
    beyond = [0] * len(size)
    if native.padding_mode.name == "EXPLICIT_ROUND_UP":
        beyond = [(k - (i + p + q)) % s for i, p, q, k, s in zip(inner, before, after, size, stride, strict=True)]
    around = [(p, q + extra) for p, q, extra in zip(before, after, beyond, strict=True)]
    axes = tuple(range(-len(size), 0))
    if native.type.name == "MAX":
        return np.asarray(_windows(x, around, size, stride, -np.inf).max(axes))
    padding = 0 if native.average_count_excludes_padding else 1
    counted = np.pad(np.ones(inner, f32), list(zip(before, after, strict=True)), constant_values=padding)
    counts = _windows(counted, [(0, extra) for extra in beyond], size, stride, 0).sum(axes)
    return np.asarray(_windows(x, around, size, stride, 0).sum(axes) / counts)


def _windows(
    x: np.ndarray, around: list[tuple[int, int]], size: list[int], stride: list[int], value: float
) -> np.ndarray:
    """A view with one more axis for each window axis."""
    outer = x.ndim - len(size)
    padded = np.pad(x, [(0, 0)] * outer + around, constant_values=x.dtype.type(value))
    axes: Any = tuple(range(outer, x.ndim))  # NumPy's own types up to 2.2 know one axis alone
    views = np.lib.stride_tricks.sliding_window_view(padded, size, axes)
    return views[(slice(None),) * outer + tuple(slice(None, None, step) for step in stride)]


GRID_MODES = {"NEAREST": "nearest", "LINEAR": "linear", "CUBIC": "cubic"}
GRID_PADDING = {"FILL": "zeros", "CLAMP": "border", "REFLECT": "reflection"}


def grid_sample(layer: Layer, x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    native = layer.native
    return kernels.run(
        "GridSample", x, grid.astype(f32),
        mode=GRID_MODES[native.interpolation_mode.name],
        padding_mode=GRID_PADDING[native.sample_mode.name],
        align_corners=int(native.align_corners),
    )  # fmt: skip


RESIZE_COORDINATES = {"ALIGN_CORNERS": "align_corners", "ASYMMETRIC": "asymmetric", "HALF_PIXEL": "half_pixel"}
RESIZE_ROUNDING = {
    "HALF_UP": "round_prefer_ceil", "HALF_DOWN": "round_prefer_floor", "FLOOR": "floor", "CEIL": "ceil"
}  # fmt: skip


def resize(layer: Layer, x: np.ndarray, sizes: np.ndarray | None = None) -> np.ndarray:
    native = layer.native
    coordinates = RESIZE_COORDINATES[native.coordinate_transformation.name]
    if coordinates == "half_pixel" and native.selector_for_single_pixel.name == "UPPER":
        coordinates = "pytorch_half_pixel"
    scales = np.asarray(native.scales, f32) if len(native.scales) else None
    if sizes is not None:
        scales = None
    if scales is None:
        sizes = np.asarray(native.shape if sizes is None else sizes, np.int64)
    return kernels.run(
        "Resize", x, None, scales, None if scales is not None else sizes,
        mode=GRID_MODES[native.resize_mode.name],
        coordinate_transformation_mode=coordinates,
        nearest_mode=RESIZE_ROUNDING[native.nearest_rounding.name],
        exclude_outside=int(native.exclude_outside),
        cubic_coeff_a=float(native.cubic_coeff),
    )  # fmt: skip


def attention_input(
    layer: Layer, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | None = None
) -> np.ndarray:
    """softmax(query key^T + mask) value on (batch, heads, tokens, size); fewer key heads are shared by query heads."""
    native = layer.native.attention
    shared = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, shared, axis=1), np.repeat(value, shared, axis=1)
    scores = np.matmul(query, key.swapaxes(-1, -2))
    if mask is not None:
        scores = np.where(mask, scores, f32(-np.inf)) if mask.dtype == bool else scores + mask
    causal = native.causal_kind.name if hasattr(native, "causal_kind") else "UPPER_LEFT" if native.causal else "NONE"
    if causal != "NONE":
        diagonal = key.shape[2] - query.shape[2] if causal == "LOWER_RIGHT" else 0
        seen = np.tri(query.shape[2], key.shape[2], diagonal, dtype=bool)
        scores = np.where(seen, scores, f32(-np.inf))
    if native.norm_op.name == "SOFTMAX":
        scores = _softmax(scores, (scores.ndim - 1,))
    return np.asarray(np.matmul(scores, value))


def attention_output(layer: Layer, x: np.ndarray) -> np.ndarray:
    """The end of the scope: all is computed where it begins."""
    return x


def rotary_embedding(
    layer: Layer, x: np.ndarray, cosines: np.ndarray, sines: np.ndarray, positions: np.ndarray | None = None
) -> np.ndarray:
    """Pairs of the hidden dimension of (batch, heads, tokens, size) rotated by the angle of their position."""
    native = layer.native
    size = native.rotary_embedding_dim or x.shape[-1]
    if positions is not None:
        cosines, sines = cosines[positions], sines[positions]
    cosines, sines = cosines[:, None], sines[:, None]
    turned, rest = x[..., :size], x[..., size:]
    first, second = slice(size // 2), slice(size // 2, None)
    if native.interleaved:
        first, second = slice(0, None, 2), slice(1, None, 2)
    real, imaginary = turned[..., first], turned[..., second]
    result = turned.copy()
    result[..., first] = cosines * real - sines * imaginary
    result[..., second] = sines * real + cosines * imaginary
    return np.concatenate([result, rest], -1)


def nms(
    layer: Layer,
    boxes: np.ndarray,
    scores: np.ndarray,
    most: np.ndarray,
    overlap: np.ndarray | None = None,
    least: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
    """Rows (batch, class, box) by batch and, within a batch, by falling score; and how many there are."""
    limits = [None if given is None else given.reshape(1) for given in (most.astype(np.int64), overlap, least)]
    form = int(layer.native.bounding_box_format.name == "CENTER_SIZES")
    rows: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        kept: list[tuple[int, int, int]] = []
        for label in range(scores.shape[2]):
            ranked = np.argsort(-scores[batch, :, label], kind="stable")[: layer.native.topk_box_limit]
            of_class = (boxes[batch] if boxes.ndim == 3 else boxes[batch, :, label])[None, ranked]
            of_scores = scores[batch, ranked, label][None, None]
            found = kernels.run("NonMaxSuppression", of_class, of_scores, *limits, center_point_box=form)
            kept += [(batch, label, int(ranked[box])) for box in found[:, 2]]
        rows += sorted(kept, key=lambda row: -float(scores[row[0], row[2], row[1]]))
    indices = np.asarray(rows, layer.outputs[0].dtype).reshape(-1, 3)
    return (indices, np.asarray(len(rows), np.int32))[: len(layer.outputs)]
