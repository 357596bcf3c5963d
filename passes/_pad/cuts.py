"""Which positions of a tensor the inputs of a Concat take, where they are cut from it with Slice, Gather and others."""

import math
from dataclasses import dataclass

import numpy as np

from surgeon import Builder, Node, Value, no_match, require, require_some
from surgeon.ir.operators import MOVES

from .._shapes import output_of

CUTS = MOVES - {"Concat"}


def sources(value: Value | None) -> list[Value]:
    """The tensors that `value` may be cut from, itself first."""
    found = [] if value is None else [value]
    while found and found[-1].producer is not None and found[-1].producer.key in CUTS:
        source = found[-1].producer.inputs[0]
        if source is None:
            break
        found.append(source)
    return found


def common_source(inputs: list[Value | None]) -> int | None:
    """Which input of a Concat is x: the only one that is itself, and that all the others may be cut from."""
    chains = [sources(v) for v in inputs]
    for at, x in enumerate(inputs):
        others = [chain for k, chain in enumerate(chains) if k != at]
        if all(x in chain for chain in others):
            return None if any(v is x for k, v in enumerate(inputs) if k != at) else at
    return None


@dataclass(frozen=True)
class Cuts:
    """Reads the positions that are taken along one axis of x, which has `rank` dimensions and `size` elements there.

    Every other dimension is that of x, or the Concat would not be valid. The nodes that were read become part of the
    window. Declines others silently.
    """

    b: Builder
    x: Value
    axis: int
    rank: int
    size: int

    def positions(self, value: Value) -> np.ndarray:
        """The positions that a chain of cuts takes; those of x itself are all."""
        if value is self.x:
            return np.arange(self.size)
        node = value.producer
        if (
            node is None
            or value.is_output
            or any(u is not self.b.root and u not in self.b.matched for u in value.users)
        ):
            no_match()
        self.b.matched = (*self.b.matched, node)
        if node.key == "Unsqueeze":
            return self._one(node)
        source = node.inputs[0]
        assert source is not None
        before = self.positions(source)
        return self._expanded(node, before) if node.key == "Expand" else before[self._taken(node, before.size)]

    def _taken(self, node: Node, size: int) -> np.ndarray:
        """What a node takes along the axis, of a tensor of so many elements there and of two along every other axis."""
        if node.key == "Slice":
            starts, axes = (self.b.value(v) for v in [*node.operands(), None, None][1:4:2])
            axes = np.arange(require_some(starts).size) if axes is None else axes
            require([int(a) % self.rank for a in axes.reshape(-1)] == [self.axis])
        shape = [size if axis == self.axis else 2 for axis in range(self.rank)]
        numbers = np.arange(math.prod(shape)).reshape(shape)
        known = [None if v is None else self.b.value(v) for v in node.inputs[1:]]
        require(not any(k is None for k, v in zip(known, node.inputs[1:], strict=True) if v is not None))
        made = require_some(self.b.model.constants.of_inputs(node, [numbers, *known]))[0]
        require((*made.shape[: self.axis], *made.shape[self.axis + 1 :]) == (2,) * (self.rank - 1))
        line = np.moveaxis(made, self.axis, -1)[(0,) * (self.rank - 1)]
        taken: np.ndarray = line // 2 ** (self.rank - 1 - self.axis)
        require(np.array_equal(made, np.take(numbers, taken, self.axis)))
        return taken

    def _one(self, unsqueeze: Node) -> np.ndarray:
        """Unsqueeze(Gather(x, i)) along the axis: one position."""
        value = unsqueeze.inputs[0]
        gather = None if value is None else value.producer
        if value is None or gather is None or gather.key != "Gather" or gather.inputs[0] is not self.x:
            no_match()
        axes, position = self.b.value(unsqueeze.operands()[1]), self.b.value(gather.inputs[1])
        if axes is None or position is None or position.ndim:
            no_match()
        require([int(a) % self.rank for a in axes.reshape(-1)] == [self.axis])
        require((gather.attr("axis") or 0) % self.rank == self.axis)
        require(not value.is_output and len(value.users) == 1)
        self.b.matched = (*self.b.matched, gather)
        picked: np.ndarray = np.arange(self.size)[position.reshape(1)]
        return picked

    def _expanded(self, node: Node, before: np.ndarray) -> np.ndarray:
        shape = self.b.shape(output_of(node))
        if shape is None or len(shape) != self.rank:
            no_match()
        size = shape[self.axis]
        if not isinstance(size, int) or len(before) not in (1, size):
            no_match()
        return np.broadcast_to(before, (size,))


def mode_of(found: np.ndarray, size: int, begin: int, end: int) -> str | None:
    """The mode of padding that puts these positions of an axis of that size around it; None where it is none.

    `begin` and `end`: how many of the positions are before the axis itself, and how many after it.
    """
    whole = np.arange(size)
    most = {"edge": begin + end if size else -1, "reflect": size - 1, "wrap": size, "symmetric": size}
    for mode, allowed in most.items():
        if max(begin, end) <= allowed and np.array_equal(found, np.pad(whole, (begin, end), mode)):  # type: ignore[call-overload]
            return mode
    return None
