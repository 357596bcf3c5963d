"""Scales and shifts of a normalisation, as vectors along the normalised axes or the channels.

A factor is an array where it is constant, and a tensor where the model computes it.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from surgeon import Builder, Dim, Value, require, require_some
from surgeon.ir.lattice import Shape

from .window import Normalisation

Factor: TypeAlias = np.ndarray | Value

# ---- what a factor is ------------------------------------------------------------------------------------------------


def numpy_type(dtype: int) -> np.dtype:
    """The numpy type of a TensorProto.DataType; declines where it is not known."""
    require(dtype, "its type is not known")
    return np.dtype(helper.tensor_dtype_to_np_dtype(dtype))


def is_constant(factor: Factor | None, value: float) -> bool:
    """Whether a factor is an array with this number everywhere."""
    return isinstance(factor, np.ndarray) and bool((factor.astype(np.float64) == value).all())


def is_uniform(b: Builder, value: Value, number: float) -> bool:
    """Whether every element of a tensor is the number: a constant, or a ConstantOfShape of whatever shape."""
    array = b.value(value)
    node = value.producer
    if array is None and node is not None and node.key == "ConstantOfShape":
        filled = node.attr("value")
        array = np.zeros(1) if filled is None else numpy_helper.to_array(filled)
    return is_constant(array, number)


def varies_along(b: Builder, n: Normalisation, factors: Iterable[Value], axis: int) -> bool:
    """Whether one of the factors has more than one element along an axis of x, and along that one alone."""
    shapes = [b.shape(value) for value in factors]
    padded = [_padded(shape, n.rank) for shape in shapes if shape is not None and len(shape) <= n.rank]
    return any([a for a, d in enumerate(shape) if d != 1] == [axis] for shape in padded)


def has_full_shape(b: Builder, n: Normalisation, factors: Iterable[Value]) -> bool:
    """Whether one of the factors has the shape of the normalised axes, as the weights of a layer over several have."""
    for value in factors:
        shape = b.shape(value)
        if shape is None or len(shape) < n.rank - n.axes[0]:
            continue
        if b.value(value) is None and len(shape) != len(n.axes):
            continue
        padded = _padded(shape, n.rank)
        if all(_is_of_size(padded[a], n.dims[a]) for a in n.axes):
            return True
    return False


def _is_of_size(given: Dim, size: Dim) -> bool:
    """Whether a dimension is this one: a number other than 1 may be one that is not known."""
    return bool(given == size) or (isinstance(given, int) and given != 1 and not isinstance(size, int))


def _padded(shape: Shape, rank: int) -> list[Dim]:
    """A shape with leading ones, as it broadcasts against `rank` dimensions."""
    return [1] * (rank - len(shape)) + list(shape)


# ---- as vectors along axes -------------------------------------------------------------------------------------------


def along(b: Builder, value: Value, n: Normalisation, axes: Sequence[int]) -> Factor | None:
    """A tensor that multiplies x, as one that varies along `axes` of x alone, of their sizes in one row-major vector.

    1. One number: an array of one element.
    2. A constant: an array; full spatial copies are folded.
    3. A computed tensor: itself.
    4. It varies along other axes too, or broadcasts x: None.

    Declines where it may broadcast x. Where an axis of unknown size has one element at run time, a vector along it
    makes more of it, and one of ones alone does, too.
    """
    shape = b.shape(value)
    if shape is None or len(shape) > n.rank:
        return None
    array = b.value(value)
    if array is None:
        fits = all(d == (n.dims[a] if a in axes else 1) for a, d in enumerate(_padded(shape, n.rank)))
        return value if fits else None
    if array.size == 1:
        return array.reshape(1)
    own = _padded(array.shape, n.rank)
    may_grow = any(own[a] != 1 and not isinstance(n.dims[a], int) for a in axes)
    require(not may_grow, f"a factor or a shift of shape {list(array.shape)} may make the result larger than its input")
    if any(d not in (1, n.dims[a]) for a, d in enumerate(own)):
        return None
    sizes = [n.dims[a] for a in axes]
    return _folded(array.reshape(own), axes, sizes) if all(isinstance(s, int) for s in sizes) else None


def _folded(array: np.ndarray, axes: Sequence[int], sizes: list[int]) -> np.ndarray | None:
    """An array as a vector along the axes of these sizes; None where it varies along others, or has no element."""
    for axis in range(array.ndim):
        if axis in axes or array.shape[axis] == 1:
            continue
        if not array.shape[axis]:
            return None
        first = np.take(array, [0], axis)
        if not np.array_equal(np.broadcast_to(first, array.shape), array):
            return None
        array = first
    return np.broadcast_to(array.reshape([array.shape[a] for a in axes]), sizes).reshape(-1)


def merged(
    b: Builder, n: Normalisation, axes: Sequence[int], dtype: int, weights: bool = False
) -> tuple[Factor, Factor] | None:
    """(scale, shift) of the whole affine part as factors along `axes`; None where a part varies along other axes.

    As `weights`, a computed factor must have the dimensions of `axes` alone: a residual of a batch of one is none.
    """
    scale: Factor = np.full(1, n.factor)
    shift: Factor = np.zeros(1)
    for kind, value in n.affine:
        factor = along(b, value, n, axes)
        if factor is None:
            return None
        if isinstance(factor, Value):
            if weights and len(b.shape(factor) or ()) > len(axes):
                return None
            factor = vector(b, factor, None, dtype)
        if kind == "Add":
            shift = combined(b, "Add", shift, factor)
            continue
        scale = combined(b, "Mul", scale, factor)
        shift = shift if is_constant(shift, 0) else combined(b, "Mul", shift, factor)
    return scale, shift


def combined(b: Builder, kind: str, one: Factor, other: Factor) -> Factor:
    """The product (Mul) or the sum (Add) of two factors of one shape; constants are computed here, in float64."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        one, other = one.astype(np.float64), other.astype(np.float64)
        return one * other if kind == "Mul" else one + other
    neutral = neutral_of(kind)
    if is_constant(one, neutral):
        return other
    if is_constant(other, neutral):
        return one
    return b.node(kind, [_like(b, one, other), _like(b, other, one)], 1, "", {})


def _like(b: Builder, factor: Factor, other: Factor) -> Factor:
    """A factor in the type of the other one, which the model computes, where it is constant itself."""
    if isinstance(factor, Value) or isinstance(other, np.ndarray):
        return factor
    return factor.astype(numpy_type(b.dtype(other)))


# ---- as tensors ------------------------------------------------------------------------------------------------------


def vector(b: Builder, factor: Factor, size: int | None, dtype: int) -> Value:
    """A factor as a tensor of one dimension and of type `dtype`; one number becomes `size` of them."""
    if isinstance(factor, np.ndarray):
        spread = np.broadcast_to(factor, (size,)) if size else factor
        return b.constant(np.ascontiguousarray(spread).astype(numpy_type(dtype)))
    flat = _unshaped(b, factor)
    if b.dtype(flat) in (dtype, TensorProto.UNDEFINED):
        return flat
    return b.Cast(flat, to=dtype)


def _unshaped(b: Builder, value: Value) -> Value:
    """The tensor as one dimension: what was there before an exporter reshaped it, where it did."""
    node = value.producer
    while node is not None and node.key in ("Reshape", "Unsqueeze") and node.inputs[0] is not None:
        source = node.inputs[0]
        if b.rank(source) == 1:
            return source
        node = source.producer
    if b.rank(value) == 1:
        return value
    return b.Reshape(value, [-1])


def of_shape(b: Builder, value: Value, sizes: Sequence[int]) -> Factor:
    """A vector as a factor of the given sizes, an array where it is constant."""
    array = b.value(value)
    if array is not None:
        return array.reshape(sizes)
    return b.Reshape(value, sizes)


def along_axes(b: Builder, factor: Factor, sizes: Sequence[Dim], dtype: int, neutral: float) -> Factor | None:
    """A vector along the axes of these sizes as a factor that broadcasts against x; None where it changes nothing."""
    if is_constant(factor, neutral):
        return None
    target = [d if isinstance(d, int) else -1 for d in sizes]
    if isinstance(factor, np.ndarray):
        return (factor if factor.size == 1 else factor.reshape(target)).astype(numpy_type(dtype))
    return factor if len(target) == 1 else of_shape(b, vector(b, factor, None, dtype), target)


def of_channels(b: Builder, value: Value, rank: int) -> Factor:
    """A vector of channels as a factor of [N, C, ...], which has `rank` dimensions."""
    shape = [-1, *[1] * (rank - 2)]
    array = b.value(value)
    if array is not None:
        return array.reshape(shape)
    node = value.producer
    source = node.inputs[0] if node is not None and node.key == "Reshape" else None
    if source is not None and _runs_along_channels(b.shape(source), rank):
        return source
    return b.Reshape(value, shape)


def _runs_along_channels(shape: Shape | None, rank: int) -> bool:
    if shape is None or len(shape) > rank:
        return False
    return all(d == 1 for a, d in enumerate(_padded(shape, rank)) if a != 1)


# ---- what follows a node ---------------------------------------------------------------------------------------------


def channels_with_behind(
    b: Builder, x: Value, scale: Value, bias: Value, outer_scale: Value | None = None, outer_shift: Value | None = None
) -> tuple[Value, Value]:
    """The scale and the bias of a node over [N, C, ...], with the factor or the shift after it taken in.

    Both have one number a channel. Exactly one of `outer_scale` and `outer_shift` is given. Declines where that is
    not one number a channel.
    """
    shape = b.known_dims(x)
    require(len(shape) >= 2 and {b.rank(scale), b.rank(bias)} <= {1, None})
    dtype, constant_scale, constant_bias = b.dtype(x), b.value(scale), b.value(bias)
    size = shape[1] if isinstance(shape[1], int) else None
    if size is None and constant_scale is not None:
        size = constant_scale.size
    n = Normalisation(x, [*shape[:1], size or shape[1], *shape[2:]], tuple(range(2, len(shape))))
    old_scale = scale if constant_scale is None else constant_scale
    old_bias = bias if constant_bias is None else constant_bias
    if outer_scale is None:
        assert outer_shift is not None
        found = along(b, outer_shift, n, [1])
        # else it is the sum of two branches, not an affine part
        require(found is not None or b.value(outer_shift) is not None)
        shift = _of_channels(b, found, size, dtype, "the shift after it is not one number a channel")
        return scale, vector(b, combined(b, "Add", old_bias, shift), size, dtype)
    found = along(b, outer_scale, n, [1])
    factor = _of_channels(b, found, size, dtype, "the scale after it is not one number a channel")
    splits = not is_constant(old_bias, 0) and not isinstance(factor, np.ndarray)
    require(not splits, "the scale after it is computed: where it is inf, (x + bias) * scale is, and not inf - inf")
    new_scale = vector(b, combined(b, "Mul", old_scale, factor), size, dtype)
    new_bias = old_bias if is_constant(old_bias, 0) else combined(b, "Mul", old_bias, factor)
    return new_scale, vector(b, new_bias, size, dtype)


def _of_channels(b: Builder, factor: Factor | None, size: int | None, dtype: int, why: str) -> Factor:
    """A computed factor as a vector of channels, a constant as it is; declines where it is none."""
    return factor if isinstance(factor, np.ndarray) else vector(b, require_some(factor, why), size, dtype)


def neutral_of(kind: str) -> float:
    """The number with which a Mul or an Add changes nothing."""
    return 1.0 if kind == "Mul" else 0.0
