"""The same normalisation in other nodes, and the type in which it is computed."""

from collections.abc import Callable, Sequence
from typing import Any

from onnx import TensorProto

from surgeon import HALVES, Builder, Node, Value, require, require_some

from .._shapes import cancel, no_larger, output_of
from .factors import Factor, is_constant, is_uniform, merged, neutral_of, numpy_type
from .window import Normalisation, affine_of


def narrowed(b: Builder, x: Value, dtype: int) -> Value:
    """x in the type `dtype` of the result: what a file cast to a wider type for the statistics alone, or x cast.

    Declines where x is of a wider type than fp16 throughout: fp16 would overflow where the statistics do not.
    """
    cast = _cast_from(b, x, dtype)
    if cast is None or cast.inputs[0] is None:
        overflows = dtype == TensorProto.FLOAT16 and b.dtype(x) in (TensorProto.FLOAT, TensorProto.DOUBLE)
        require(not overflows, "its input is of a wider type than its result")
        return b.typed(x, dtype)
    if cast not in b.matched:  # others read it too: it stays, and the window has to know where x is from
        b.matched = (*b.matched, cast)
    return cast.inputs[0]


def working_type(b: Builder, x: Value, dtype: int) -> int:
    """The type to normalise in: that of the result, `dtype`, or fp32.

    It is fp32 for an x in fp32 that is nowhere in `dtype`, such as a residual stream beside layers in fp16. The result
    is cast then.
    """
    wider = dtype in HALVES and b.dtype(x) == TensorProto.FLOAT and _cast_from(b, x, dtype) is None
    return TensorProto.FLOAT if wider else dtype


def _cast_from(b: Builder, x: Value, dtype: int) -> Node | None:
    """The Cast that made x from a tensor of the type `dtype`, if x is of another."""
    node = x.producer
    if b.dtype(x) == dtype or node is None or node.key != "Cast" or node.inputs[0] is None:
        return None
    return node if b.dtype(node.inputs[0]) == dtype else None


# Writes a normalisation as one node: (b, source, n, (scale, shift), dtype).
Writer = Callable[[Builder, Value, Normalisation, tuple[Factor, Factor], int], Value]


def opset_to_write(b: Builder) -> int:
    """The opset that the written model declares: old targets want theirs, and the next run starts from that."""
    return min(b.opset, b.target.opset) if b.target.lowers_opset else b.opset


def normalised(b: Builder, x: Value, axes: Sequence[int], epsilon: float, centred: bool = True) -> Value:
    """The normalisation in the fewest operators; sums of fp16 and bf16 in fp32, in which type the result is then."""
    wide = b.wide(x)
    deviation = _deviation(b, wide, axes) if centred else wide
    variance = b.ReduceMean(b.Mul(deviation, deviation), axes=list(axes), keepdims=1)
    square = b.Add(variance, epsilon) if epsilon else variance
    return b.Div(deviation, b.Pow(square, 0.5) if b.target.dla else b.Sqrt(square))  # DLA has that one and no Sqrt


def of_batch(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """The mean and the variance along axes, which go; of fp16 and bf16 in fp32."""
    wide = b.wide(x)
    deviation = _deviation(b, wide, axes)
    mean = b.ReduceMean(wide, axes=list(axes), keepdims=0)
    return mean, b.ReduceMean(b.Mul(deviation, deviation), axes=list(axes), keepdims=0)


def _deviation(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    return b.Sub(x, b.ReduceMean(x, axes=list(axes), keepdims=1))


def with_affine(b: Builder, y: Value, scale: Factor | None, shift: Factor | None, dtype: int) -> Value:
    """y * scale + shift in the type `dtype`, without a factor or a shift that changes nothing.

    It is computed in the type of y, or in `dtype` where the model computes the scale or the shift.
    """
    if any(isinstance(f, Value) and b.value(f) is None for f in (scale, shift)):
        y = b.typed(y, dtype)
    for kind, factor in (("Mul", scale), ("Add", shift)):
        array = b.value(factor)
        if factor is None or is_constant(array, neutral_of(kind)):
            continue
        if array is None:
            assert isinstance(factor, Value)
            factor = b.typed(factor, b.dtype(y))
        elif not isinstance(factor, Value) or b.dtype(factor) != b.dtype(y):
            factor = b.constant(array.astype(numpy_type(b.dtype(y))))
        y = b.node(kind, [y, factor], 1, "", {})
    return b.typed(y, dtype)


def with_affine_behind(b: Builder, y: Value, n: Normalisation) -> Value:
    """The affine part of a window as operators of its own, where it is none along the normalised axes or channels."""
    if n.factor != 1:
        y = b.Mul(y, n.factor)
    for kind, value in n.affine:
        if not (is_uniform(b, value, neutral_of(kind)) and no_larger(b.shape(value), n.dims)):
            y = b.node(kind, [y, value], 1, "", {})
    return y


def with_weights(b: Builder, native: Writer, own: Writer, *, x: Value, epsilon: float, **found: Any) -> Value:
    """A node that normalises x, with what follows it taken into its weights.

    For a match of `scaled_behind` or `affine_behind`, of which `found` is what the pattern bound: a node with an `axis`
    is written by `native`, one with `axes` by `own`. Declines silently where it cannot be. Written out, a node leaves
    its neutral weights away, and the next run would take what follows it for them.
    """
    shape = require_some(b.dims(x))
    dtype, result = b.dtype(x), b.dtype(output_of(b.root))
    rounds_first = dtype != result and not (dtype == TensorProto.FLOAT and result in HALVES)  # to a wider type
    require(not rounds_first)
    axes = found["axes"] if "axes" in found else range(found["axis"] % len(shape), len(shape))
    n = Normalisation(x, shape, tuple(axes), epsilon, affine=affine_of(found))
    parts = require_some(merged(b, n, n.axes, dtype, weights=True))
    write = own if "axes" in found else native
    return b.typed(write(b, x, n, parts, dtype), result)


def source_through(b: Builder, x: Value, perm: Sequence[int]) -> Value:
    """Transpose(x, perm), or what x was transposed from where the two undo each other."""
    node = x.producer
    if node is not None and undoes_transpose(x, perm) and node.inputs[0] is not None:
        return node.inputs[0]
    return b.Transpose(x, perm=list(perm))


def undoes_transpose(x: Value, perm: Sequence[int]) -> bool:
    """Whether x comes from a Transpose that one by `perm` would undo."""
    node = x.producer
    return node is not None and node.key == "Transpose" and cancel(node.attr("perm"), perm)
