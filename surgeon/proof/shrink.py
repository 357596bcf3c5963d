"""A window at small sizes, where it is the same window at every size.

A size of the window's inputs is free where no node, attribute or constant depends on it: every operator keeps the rank
and computes each position along that axis alike. Both sides are fixed graphs of such operators, so what they compute at
a small size is what they compute at a large one, position by position.

1. Axes are counted from the end, as broadcasting does.
2. An axis that an operator adds up, sorts or mixes is not free, nor one along which a constant has several numbers.
3. The small size leaves the same rest by the strides, and is larger than what a kernel reaches.
4. Equal sizes stay equal, different ones stay different.

A window whose sizes are not free for 2 alone is tried at a small size and at its own; see `prove`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onnx import ModelProto, NodeProto, helper, numpy_helper

from surgeon.ir.operators import ALONG, ELEMENTWISE, REDUCES, SLIDES
from surgeon.ir.protos import copied
from surgeon.proof.pair import ModelPair

LARGE = 48  # a size from which on a smaller one is worth it
FEWEST = 16  # what a free size comes down to, at least
MOST_STRIDE = 32

ALONG_AN_AXIS = ALONG | {"Concat"}


class _Bound(Exception):
    """The sizes of a window are not free."""


def shrunk(pair: ModelPair, *, reducing: bool = False) -> ModelPair | None:
    """The pair with small numbers for its free sizes; None where it has no large ones that are free.

    `reducing`: a size is free, too, where operators add up or compare along it. Then a pair that is equal at the small
    sizes need not be at the large ones: more numbers are added up there.
    """
    ranks = {len(shape) for _, _, shape in pair.inputs if len(shape) > 1}
    sizes = [d for _, _, shape in pair.inputs for d in shape if isinstance(d, int)]
    if pair.met or len(ranks) != 1 or max(sizes, default=0) < LARGE:
        return None
    rank = ranks.pop()
    if any(len(shape) not in (0, rank) for _, _, shape in pair.inputs):
        return None
    try:
        sides = [_Side(side, rank, reducing) for side in pair.both]
    except _Bound:
        return None
    free = frozenset(range(-rank, 0)).difference(*(side.bound for side in sides))
    small = _small_sizes(pair, free, sides)
    if not small:
        return None
    inputs = [(name, elem, _resized(shape, free, small)) for name, elem, shape in pair.inputs]
    shapes = {name: shape for name, _, shape in inputs}
    before, after = (_with_shapes(side, shapes) for side in pair.both)
    return replace(pair, before=before, after=after, inputs=tuple(inputs), runners={})


def _small_sizes(pair: ModelPair, free: frozenset[int], sides: Sequence[_Side]) -> dict[int, int]:
    """A small size for each large one that is free wherever it is."""
    at: dict[int, set[bool]] = {}
    for _, _, shape in pair.inputs:
        for axis, d in enumerate(shape):
            if isinstance(d, int):
                at.setdefault(d, set()).add(axis - len(shape) in free)
    stride = math.lcm(*(side.stride for side in sides))
    if stride > MOST_STRIDE:
        return {}
    least = max(FEWEST, *(side.reach for side in sides))
    taken, small = set(at), {}
    for d in sorted(at):
        if d < LARGE or at[d] != {True}:
            continue
        size = least + (d - least) % stride
        while size in taken:
            size += stride
        if size < d:
            small[d] = size
            taken.add(size)
    return small


def _resized(shape: Sequence[Any], free: frozenset[int], small: Mapping[int, int]) -> tuple[Any, ...]:
    return tuple(
        small.get(d, d) if isinstance(d, int) and axis - len(shape) in free else d for axis, d in enumerate(shape)
    )


def _with_shapes(side: ModelProto, shapes: Mapping[str, Sequence[Any]]) -> ModelProto:
    small = copied(side)
    for info in small.graph.input:
        for declared, d in zip(info.type.tensor_type.shape.dim, shapes[info.name], strict=True):
            if isinstance(d, int):
                declared.dim_value = d
    return small


class _Side:
    """What the nodes of one side say about the axes. Raises _Bound where one is not known to treat all positions alike.

    bound   the axes that are not free
    stride  a small size leaves the same rest by this
    reach   a small size is at least this
    """

    def __init__(self, model: ModelProto, rank: int, reducing: bool) -> None:
        self.rank = rank
        self.reducing = reducing
        self.bound: set[int] = set()
        self.stride = 1
        self.reach = 0
        self.constants = {t.name: t for t in model.graph.initializer}
        self.shapes: set[str] = set()  # tensors that hold the shape of another one
        if model.functions or model.graph.sparse_initializer:
            raise _Bound
        for node in model.graph.node:
            self._read(node)

    def _read(self, node: NodeProto) -> None:
        op = node.op_type
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.domain not in ("", "ai.onnx"):
            raise _Bound
        if op == "Expand":
            self._expand(*node.input)
            return
        if not self.shapes.isdisjoint(node.input):
            raise _Bound  # sizes are computed with
        if op == "Shape":
            self.shapes.update(node.output if not attrs else _unknown())
        elif op == "Constant":
            self.constants[node.output[0]] = attrs["value"] if set(attrs) == {"value"} else _unknown()
        elif op in ELEMENTWISE:
            self._bind_constants(node.input if attrs.keys().isdisjoint(("axis", "broadcast")) else _unknown())
        elif op in SLIDES:  # weights are their inputs from the second one on
            self._slide(node, attrs)
        elif op == "BatchNormalization":
            per_channel = not attrs.get("training_mode") and "spatial" not in attrs and len(node.output) == 1
            self._bind_axis(1 if per_channel else _unknown())
        elif op == "InstanceNormalization" and self.reducing:
            self._bind_axis(1)
        elif op in ALONG_AN_AXIS:
            self._bind_constants(node.input)
            axis = attrs["axis"] if "axis" in attrs else _unknown()
            self.bound.update(range(axis if axis < 0 else axis - self.rank, 0))  # older opsets mix all axes after it
        elif op in REDUCES:
            self._reduce(node, attrs)
        else:
            raise _Bound

    def _bind_axis(self, axis: int) -> None:
        self.bound.add(axis if axis < 0 else axis - self.rank)

    def _bind_constants(self, names: Iterable[str]) -> None:
        """An axis along which a constant has several numbers is not free."""
        for name in names:
            tensor = self.constants.get(name)
            if tensor is None:
                continue
            if len(tensor.dims) > self.rank:
                raise _Bound
            self.bound.update(axis - len(tensor.dims) for axis, d in enumerate(tensor.dims) if d != 1)

    def _expand(self, value: str, shape: str) -> None:
        """To the shape of another tensor, or to sizes of which each that is not 1 binds its axis."""
        self._bind_constants([value])
        if shape in self.shapes:
            return
        sizes = self.constants.get(shape)
        if sizes is None:
            raise _Bound
        wanted = numpy_helper.to_array(sizes).reshape(-1).tolist()
        if len(wanted) > self.rank:
            raise _Bound
        self.bound.update(axis - len(wanted) for axis, d in enumerate(wanted) if d != 1)

    def _slide(self, node: NodeProto, attrs: Mapping[str, Any]) -> None:
        kernel = attrs.get("kernel_shape")
        weights = self.constants.get(node.input[1]) if len(node.input) > 1 else None
        if node.input[0] in self.constants or (len(node.input) > 1 and weights is None) or len(node.output) != 1:
            raise _Bound
        if kernel is None:
            kernel = list(weights.dims[2:]) if weights is not None else _unknown()
        if "output_shape" in attrs or len(kernel) != self.rank - 2:
            raise _Bound
        dilations = attrs.get("dilations", [1] * len(kernel))
        pads = attrs.get("pads", [0])
        self.bound |= {-self.rank, 1 - self.rank}
        self.stride *= math.lcm(*attrs.get("strides", [1]))
        reached = max((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)) + max(pads, default=0)
        self.reach = 2 * (self.reach + reached) * max(attrs.get("strides", [1]))

    def _reduce(self, node: NodeProto, attrs: Mapping[str, Any]) -> None:
        if attrs.get("keepdims", 1) != 1 or node.input[0] in self.constants:
            raise _Bound
        axes = attrs.get("axes")
        if axes is None:
            tensor = self.constants.get(node.input[1]) if len(node.input) > 1 else None
            axes = numpy_helper.to_array(tensor).reshape(-1).tolist() if tensor is not None else _unknown()
        for axis in axes or _unknown():
            if not self.reducing:
                self._bind_axis(axis)


def _unknown() -> Any:
    raise _Bound
