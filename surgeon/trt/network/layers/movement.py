"""Layers that move values without changing them: shapes, slices, gathers, scatters, sorting."""

from collections.abc import Sequence

import numpy as np

from surgeon.trt.network.definition import Layer
from surgeon.trt.network.layers import kernels


def concatenation(layer: Layer, *inputs: np.ndarray) -> np.ndarray:
    return np.concatenate(inputs, layer.native.axis)


def shape(layer: Layer, x: np.ndarray) -> np.ndarray:
    return np.asarray(x.shape, layer.outputs[0].dtype)


def squeeze(layer: Layer, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    return np.squeeze(x, None if axes is None else tuple(int(axis) for axis in axes.reshape(-1)))


def unsqueeze(layer: Layer, x: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, tuple(int(axis) for axis in axes.reshape(-1)))


def shuffle(layer: Layer, x: np.ndarray, dims: np.ndarray | None = None) -> np.ndarray:
    """Transpose, reshape, transpose. reshape_dims is None where an input replaces it and where nothing reshapes."""
    native = layer.native
    x = x.transpose(list(native.first_transpose)[: x.ndim])
    wanted = native.reshape_dims if dims is None else [int(d) for d in dims]
    if wanted is not None:
        x = x.reshape(_filled_in(list(wanted), x.shape, native.zero_is_placeholder))
    return np.asarray(x.transpose(list(native.second_transpose)[: x.ndim]))


def _filled_in(wanted: list[int], shape_before: tuple[int, ...], zero_copies: bool) -> list[int]:
    """Zeros copied from the input where they are placeholders; -1 computed here, NumPy cannot where a size is 0."""
    if zero_copies:
        wanted = [shape_before[i] if size == 0 else size for i, size in enumerate(wanted)]
    if -1 not in wanted:
        return wanted
    known = int(np.prod([size for size in wanted if size != -1], dtype=np.int64))
    missing = int(np.prod(shape_before, dtype=np.int64)) // known if known else 0
    return [missing if size == -1 else size for size in wanted]


def slice_(
    layer: Layer,
    x: np.ndarray,
    start: np.ndarray | None = None,
    size: np.ndarray | None = None,
    stride: np.ndarray | None = None,
    fill: np.ndarray | None = None,
    axes: np.ndarray | None = None,
) -> np.ndarray:
    """start + i * stride along each axis; outside of x the mode decides. A stride of 0 repeats one value."""
    native = layer.native
    starts, sizes, strides = _ints(native.start, start), _ints(native.shape, size), _ints(native.stride, stride)
    over = range(x.ndim) if native.axes is None and axes is None else _ints(native.axes, axes)
    outside = np.zeros((1,) * x.ndim, bool)
    for axis, first, count, step in zip(over, starts, sizes, strides, strict=True):
        wanted = first + np.arange(count, dtype=np.int64) * step
        index = _inside(wanted, x.shape[axis], native.mode.name)
        if native.mode.name == "FILL":
            beyond = [1] * x.ndim
            beyond[axis] = count
            outside = outside | (index != wanted).reshape(beyond)
        x = _take(x, index, axis)
    value = np.zeros((), x.dtype) if fill is None else fill.reshape(()).astype(x.dtype)
    return np.where(outside, value, x) if outside.any() else x


def _ints(attribute: Sequence[int] | None, tensor: np.ndarray | None) -> list[int]:
    """A run-time tensor where there is one, otherwise the attribute."""
    if tensor is not None:
        return [int(value) for value in tensor.reshape(-1)]
    return [int(value) for value in attribute or ()]


def _inside(index: np.ndarray, size: int, mode: str) -> np.ndarray:
    """The index to read for each wanted index, by sample mode."""
    if mode == "WRAP" and size:
        return index % size
    if mode == "REFLECT" and size:
        period = max(2 * (size - 1), 1)
        return np.asarray(np.minimum(index % period, (-index) % period))
    if mode in ("CLAMP", "FILL"):
        return np.asarray(np.clip(index, 0, max(size - 1, 0)))
    if index.size and (index.min() < 0 or index.max() >= size):
        raise IndexError(f"slice from {index.min()} to {index.max()} of a dimension of {size}")
    return index


def _take(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    if x.shape[axis] == 0 and index.size:  # a fill of an empty dimension: nothing to read, all is replaced
        return np.zeros(x.shape[:axis] + index.shape + x.shape[axis + 1 :], x.dtype)
    return x.take(index, axis)


def padding(layer: Layer, x: np.ndarray) -> np.ndarray:
    """Zeros around, or values cut off, the innermost dimensions."""
    before, after = list(layer.native.pre_padding_nd), list(layer.native.post_padding_nd)
    outer = x.ndim - len(before)
    x = np.pad(x, [(0, 0)] * outer + [(max(p, 0), max(q, 0)) for p, q in zip(before, after, strict=True)])
    for axis, (p, q) in enumerate(zip(before, after, strict=True), start=outer):
        x = x.take(np.arange(max(-p, 0), x.shape[axis] - max(-q, 0)), axis)
    return x


def gather(layer: Layer, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """As ONNX Gather, GatherElements and GatherND; negative indices count from the end, others outside raise."""
    mode, axis, leading = layer.native.mode.name, layer.native.axis, layer.native.num_elementwise_dims
    if mode == "ELEMENT":
        return kernels.run("GatherElements", data, indices, axis=axis)
    if mode == "ND":
        return kernels.run("GatherND", data, indices.astype(np.int64), batch_dims=leading)
    if leading == 0:
        return data.take(indices, axis)
    size = np.broadcast_shapes(data.shape[:1], indices.shape[:1])
    data, indices = (np.broadcast_to(x, size + x.shape[1:]) for x in (data, indices))
    return np.stack([values.take(index, axis - 1) for values, index in zip(data, indices, strict=True)])


def scatter(layer: Layer, data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """As ONNX ScatterElements and ScatterND without reduction."""
    if layer.native.mode.name == "ELEMENT":
        return kernels.run("ScatterElements", data, indices, updates, axis=layer.native.axis)
    return kernels.run("ScatterND", data, indices.astype(np.int64), updates)


def one_hot(layer: Layer, indices: np.ndarray, values: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """values is (off, on). An index of depth or more sets nothing; a negative one has no documented meaning."""
    if indices.size and indices.min() < 0:
        raise IndexError(f"index {indices.min()}: TensorRT documents no negative indices here")
    axis = layer.native.axis % (indices.ndim + 1)
    classes = np.arange(int(depth)).reshape([-1] + [1] * (indices.ndim - axis))
    return np.asarray(np.where(np.expand_dims(indices, axis) == classes, values[1], values[0]))


def non_zero(layer: Layer, x: np.ndarray) -> np.ndarray:
    return np.stack(np.nonzero(np.atleast_1d(x))).astype(layer.outputs[0].dtype)


def topk(layer: Layer, x: np.ndarray, k: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    """Values and positions, best first; of equal values the one with the lower position first."""
    (axis,) = kernels.axes_of(layer.native.axes, x.ndim)
    if layer.native.op.name == "MAX":  # sorted from the back, so that reversing keeps lower positions first
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    order = order.take(np.arange(layer.native.k if k is None else int(k)), axis)
    results = (np.take_along_axis(x, order, axis), *(order.astype(tensor.dtype) for tensor in layer.outputs[1:]))
    return results


def reverse_sequence(layer: Layer, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    axes = {"batch_axis": layer.native.batch_axis, "time_axis": layer.native.sequence_axis}
    return kernels.run("ReverseSequence", x, lengths.astype(np.int64), **axes)


def kv_cache_update(layer: Layer, cache: np.ndarray, update: np.ndarray, first: np.ndarray) -> np.ndarray:
    """LINEAR: update (batch, heads, tokens, size) written into each batch item's cache at its own first token."""
    result = cache.copy()
    for row, begin in enumerate(first):
        result[row, :, begin : begin + update.shape[2]] = update[row]
    return np.asarray(result)
