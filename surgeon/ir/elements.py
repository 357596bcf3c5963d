"""The elements of small tensors of integers from which sizes are computed, one by one."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import static_sizes
from surgeon.ir.model import Model
from surgeon.ir.operators import KEEP_ORDER, MOVES, OPERATORS

Element = Any  # an int where it is known, else what a reader says of it: the name of a dimension, where it comes from
Array = np.ndarray[Any, Any]  # of elements, in the shape of the tensor


class Unread(Exception):
    """Why the elements of a tensor are not known."""


class Elements:
    """Reads the elements of tensors after operators that move them.

    A reader says by `other` what it knows of a tensor that is neither constant nor moved.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._found: dict[Value, Array | Unread] = {}

    def of(self, value: Value) -> Array:
        """The elements of a tensor, in its shape. Raises Unread."""
        if value not in self._found:
            try:
                self._found[value] = self.read(value)
            except Unread as why:
                self._found[value] = why
        found = self._found[value]
        if isinstance(found, Unread):
            raise found
        return found

    def read(self, value: Value) -> Array:
        """What `of` returns, when it is asked for a tensor for the first time. Raises Unread."""
        known, node = self.model.constant(value), value.producer
        if known is not None:
            return of_constant(known)
        return self.moved(node, value) if node is not None and node.key in MOVES else self.other(value)

    def other(self, value: Value) -> Array:
        """The elements of a tensor that is neither constant nor moved, in its shape. Raises Unread."""
        raise NotImplementedError

    def moved(self, node: Node, value: Value) -> Array:
        """The elements of an output of a node of MOVES: the node moves the numbers of the elements. Raises Unread."""
        source, dims = node.inputs[0], self.model.shape(value)
        shape = static_sizes(dims)
        if source is not None and dims is not None and node.key in KEEP_ORDER and (shape is not None or len(dims) == 1):
            return _shaped(self.of(source), shape, value)
        inputs: list[np.ndarray | None] = []
        parts, count, sources = list[Array](), 0, moved_inputs(node)
        for position, read in enumerate(node.inputs):
            if read is not None and position in sources:
                parts.append(self.of(read))
                inputs.append(np.arange(count, count + parts[-1].size).reshape(parts[-1].shape))
                count += parts[-1].size
            else:
                sizes = shape if node.key == "Expand" else None
                if node.key == "Expand" and read is not None and self.model.shape(read) == ():
                    raise Unread("the shape of an Expand has one axis")
                inputs.append(None if read is None else self._constant(read, sizes))
        found = self.model.constants.of_inputs(node, inputs)
        if found is None:
            raise Unread(f"{node.op} is not valid for what it reads")
        numbers = found[value.index]
        taken = vector([e for part in parts for e in part.reshape(-1)])[numbers.reshape(-1)].reshape(numbers.shape)
        return _shaped(taken, taken.shape if shape is None else shape, value)

    def _constant(self, value: Value, sizes: Sequence[int] | None) -> np.ndarray:
        known = self.model.constant(value)
        if known is None and sizes is None:
            raise Unread("the positions of an operator after it are computed too")
        return np.asarray(sizes, np.int64) if known is None else known

    def computed(self, node: Node, value: Value) -> Array:
        """What an elementwise operator makes of elements; None where these are not numbers, or the result no integer.

        Raises Unread.
        """
        read = [v for v in node.inputs if v is not None]
        parts = broadcast([self.of(v) for v in read])
        known = np.asarray([is_int(part) for part in parts], bool).all(0)
        dtypes = [self.model.dtype(v) for v in read]
        inputs = [
            np.where(known, part, 1).astype(helper.tensor_dtype_to_np_dtype(dtype))
            for part, dtype in zip(parts, dtypes, strict=True)
            if dtype
        ]
        found = self.model.constants.of_inputs(node, inputs) if len(inputs) == len(read) and known.any() else None
        if found is None:
            return filled(parts[0].shape, lambda _: None)
        numbers = found[0].reshape(-1)
        whole = known.reshape(-1) & np.isfinite(numbers) & (numbers == np.floor(numbers))
        return filled(parts[0].shape, lambda k: int(numbers[k]) if whole[k] else None)


def moved_inputs(node: Node) -> Sequence[int]:
    """The positions of the inputs whose elements a node of MOVES moves."""
    moved = OPERATORS[node.key].elements
    return range(len(node.inputs)) if moved is None else moved


is_int = np.frompyfunc(lambda element: type(element) is int, 1, 1)


def of_constant(array: np.ndarray) -> Array:
    """The elements of a constant of bools, integers, or floats that are integers. Raises Unread."""
    if array.dtype.kind not in "iubf" or not (np.isfinite(array) & (array == np.floor(array))).all():
        raise Unread("it holds no integers")
    return array.astype(np.int64).astype(object)


def filled(shape: Sequence[int], element: Callable[[int], Element]) -> Array:
    """An array of that shape; `element` gives the one at each position of the flat array."""
    found = np.empty(math.prod(shape), object)
    for k in range(found.size):
        found[k] = element(k)
    return found.reshape(shape)


def broadcast(arrays: Sequence[Array]) -> Sequence[Array]:
    """The arrays, each in the shape of all. Raises Unread."""
    try:
        return np.broadcast_arrays(*arrays)
    except ValueError as error:
        raise Unread(str(error)) from None


def vector(elements: Sequence[Element]) -> Array:
    """A vector of these elements."""
    return filled([len(elements)], lambda k: elements[k])


def _shaped(elements: Array, shape: tuple[int, ...] | None, value: Value) -> Array:
    """The elements in that shape, in a vector where it is None."""
    if shape is None:
        return elements.reshape(-1)
    if elements.size != math.prod(shape):
        raise Unread(f"'{value.name}' has not as many elements as are moved there")
    return elements.reshape(shape)
