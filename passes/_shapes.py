"""Whether one tensor fits another, and tensors of sizes that are computed."""

import math
from collections.abc import Sequence

import numpy as np

from surgeon import Builder, Dim, Node, Value, require, require_some
from surgeon.ir.lattice import Shape


def output_of(node: Node) -> Value:
    """The first output of a node that has one."""
    value = node.outputs[0]
    assert value is not None
    return value


def input_of(node: Node, position: int = 0) -> Value:
    """An input that the node has."""
    value = node.inputs[position]
    assert value is not None
    return value


def constant_input(b: Builder, position: int, what: str = "") -> np.ndarray | None:
    """The value of an input of the root; None where it is left out or empty. Declines where it is computed."""
    value = b.root.input_at(position)
    if value is None or b.shape(value) == (0,):
        return None
    return require_some(b.value(value), f"its {what or f'input {position}'} is computed")


def require_axes(b: Builder, value: Value | None, axes: Sequence[int]) -> None:
    """Decline where a tensor lacks one of the axes: without shapes ONNX Runtime loads such a node, but not its body."""
    rank = None if value is None else b.rank(value)
    require(rank is None or all(-rank <= a < rank for a in axes), f"its axes {list(axes)} are none of its {rank}")


def cancel(inner: Sequence[int] | None, outer: Sequence[int] | None) -> bool:
    """Whether a Transpose by `outer` undoes one by `inner`; None is an order that is not known."""
    if inner is None or outer is None or len(inner) != len(outer):
        return False
    return [inner[p] for p in outer] == list(range(len(outer)))


def same_shape(b: Builder, one: Value, other: Value) -> bool:
    """Whether two tensors with equally many elements have the same dimensions: one follows from the others."""
    a, z = b.dims(one), b.dims(other)
    if a is None or z is None or len(a) != len(z):
        return False
    unproved = [(p, q) for p, q in zip(a, z, strict=True) if p != q]
    numbers = any(isinstance(p, int) and isinstance(q, int) for p, q in unproved)
    return not unproved or (len(unproved) == 1 and not numbers and 0 not in a)


def same_shape_when_empty(b: Builder, reshaped: Node) -> bool:
    """Whether what `same_shape` says of a Reshape and its input holds without elements, too.

    None of its sizes follows from the others then, so the one that is not proved must be asked for by -1.
    """
    a, z = b.known_dims(output_of(reshaped)), b.known_dims(input_of(reshaped))
    given = b.elements(reshaped.inputs[1])
    unproved = [axis for axis, (p, q) in enumerate(zip(a, z, strict=True)) if p != q]
    others = [p for axis, p in enumerate(a) if axis not in unproved]
    left_open = given is not None and all(given[axis] == -1 for axis in unproved)
    return not unproved or left_open or all(isinstance(size, int) for size in others)


def no_larger(given: Sequence[Dim] | None, whole: Sequence[Dim] | None) -> bool:
    """Whether a tensor with the dimensions `given` broadcasts to `whole` and leaves it as it is."""
    if given is None or whole is None or len(given) > len(whole):
        return False
    return all(
        g is not None and (g == 1 or g == w) for g, w in zip(given, whole[len(whole) - len(given) :], strict=True)
    )


def size(b: Builder, value: Value, axis: int) -> int | Value:
    """A size: a number where it is static, else a scalar that is computed."""
    known = (b.shape(value) or [None] * (axis + 1))[axis]
    return known if isinstance(known, int) else b.Gather(b.Shape(value), axis, axis=0)


def product_of(b: Builder, sizes: Sequence[int | Value]) -> int | Value:
    """The product of some sizes, and a number where all of them are."""
    made: int | Value = math.prod(s for s in sizes if isinstance(s, int))
    for s in sizes:
        if isinstance(s, Value):
            made = s if made == 1 else b.Mul(s, b.constant(made) if isinstance(made, int) else made)
    return made


def vector_of(b: Builder, sizes: Sequence[int | Value]) -> Value:
    """A vector of sizes."""
    if all(isinstance(s, int) for s in sizes):
        made: Value = b.constant(np.asarray(sizes, np.int64))
    else:
        parts = [b.Unsqueeze(s, axes=[0]) if isinstance(s, Value) else b.constant([s]) for s in sizes]
        made = b.Concat(*parts, axis=0)
    return made


def numbers_to(b: Builder, end: int | Value) -> Value:
    """0, 1, ... below the end, in int64."""
    return b.constant(np.arange(end)) if isinstance(end, int) else b.Range(0, end, 1)


def numbers_below(b: Builder, count: int | Value, dtype: int, *, behind: int) -> Value:
    """The numbers from 0 on that are below a count, with some trailing dimensions of 1."""
    if isinstance(count, int):
        return b.constant(np.arange(count).reshape([-1] + [1] * behind), dtype)
    numbers = b.Cast(numbers_to(b, count), to=dtype)
    return b.Unsqueeze(numbers, axes=list(range(1, behind + 1))) if behind else numbers


def joined(b: Builder, x: Value, axis: int) -> Value:
    """A tensor whose dimension `axis` is one with the one after it."""
    shape = b.shape(x)
    rest = [None] if shape is None else list(shape[axis + 2 :])
    if shape is not None and shape[axis + 1] == 1:
        return b.Squeeze(x, axes=[axis + 1])
    require(all(isinstance(d, int) for d in rest), "what it puts together has sizes that are not static")
    return b.Reshape(x, [0] * axis + [-1, *rest])


def heads_of(b: Builder, x: Value, heads: int) -> Value:
    """[batch, positions, heads * size] as [batch, heads, positions, size]."""
    return b.Transpose(b.Reshape(x, [0, 0, heads, -1]), perm=[0, 2, 1, 3])


def moved_axis(b: Builder, x: Value, rank: int, start: int, end: int) -> Value:
    """A tensor whose dimension `start` is at `end`."""
    order = [axis for axis in range(rank) if axis != start]
    order.insert(end, start)
    return x if start == end else b.Transpose(x, perm=order)


def sizes_of_all(b: Builder, x: Value, dims: Shape, places: Sequence[int], sizes: Value) -> Value | np.ndarray:
    """The size of every dimension: the given ones, the tensor's own elsewhere."""
    known, own = b.value(sizes), None
    parts = []
    for axis, dim in enumerate(dims):
        if axis in places:
            k = list(places).index(axis)
            parts.append(known[k : k + 1] if known is not None else b.Slice(sizes, starts=[k], ends=[k + 1], axes=[0]))
        elif isinstance(dim, int):
            parts.append(np.asarray([dim], np.int64))
        else:
            own = own or b.Shape(x)
            parts.append(b.Slice(own, starts=[axis], ends=[axis + 1], axes=[0]))
    return np.concatenate(parts) if all(isinstance(p, np.ndarray) for p in parts) else b.Concat(*parts, axis=0)
