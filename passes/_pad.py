"""What the pass reflect-pad is made of, beside its rules.

1. Padding an axis from its own values; `f` is a Builder, or what a meaning is spelled with.
2. What a Pad says, whatever opset it is of.
3. Padding with a number, for a target that pads few axes at once, or with zeros alone.
4. Which positions of a tensor the inputs of a Concat take, and which a Compress takes out: tf2onnx's symmetric padding.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from surgeon import HALVES, Builder, Node, Pattern, Value, const, no_match, op, output, require, require_some
from surgeon.ir.operators import MOVES
from surgeon.rules.pattern import Op

from ._shapes import output_of

END = 2**31 - 1  # "to the end": fits the 32-bit integers of old parsers


@dataclass(frozen=True)
class Side:
    """So many elements before an axis, and so many after it."""

    axis: int
    begin: int
    end: int

    @property
    def most(self) -> int:
        """The larger of the two."""
        return max(self.begin, self.end)


def sides(pads: np.ndarray) -> Iterator[Side]:
    """The axes that are padded, from pads of shape [2, rank]; negative pads count as none."""
    for axis in np.flatnonzero((pads > 0).any(axis=0)):
        yield Side(int(axis), max(int(pads[0, axis]), 0), max(int(pads[1, axis]), 0))


def padded(f: Any, x: Any, side: Side, mode: str, size: int | None) -> Any:
    """`x` with one axis padded: by one Gather where its size is known, else from its edges, with a Concat."""
    if size is not None:
        positions = np.pad(np.arange(size, dtype=np.int64), (side.begin, side.end), mode)  # type: ignore[call-overload]
        return f.Gather(x, positions, axis=side.axis)
    front = [_beside(f, x, side.axis, side.begin, mode, behind=False)] if side.begin else []
    back = [_beside(f, x, side.axis, side.end, mode, behind=True)] if side.end else []
    return f.Concat(*front, x, *back, axis=side.axis)


def _beside(f: Any, x: Any, axis: int, count: int, mode: str, *, behind: bool) -> Any:
    """So many elements for one side of an axis, of those of x."""

    def part(y: Any, start: int, stop: int) -> Any:
        return f.Slice(y, starts=[start], ends=[stop], axes=[axis])

    if mode == "wrap":
        span = (0, count) if behind else (-count, END)
        y = part(x, *span)
        for _ in range((count - 1).bit_length()):  # x again and again where it has fewer elements
            y = part(f.Concat(y, y, axis=axis), *span)
        return y
    if mode == "edge":
        return f.Gather(part(x, -1, END) if behind else x, np.zeros(count, np.int64), axis=axis)
    skips = mode == "reflect"  # the edge itself
    y = part(x, -count - skips, -1 if skips else END) if behind else x
    first = 0 if behind else int(skips)
    return f.Gather(y, np.arange(first + count - 1, first - 1, -1, dtype=np.int64), axis=axis)


def cropped(f: Any, x: Any, pads: np.ndarray) -> Any:
    """`x` without what the negative ones of the pads, [2, rank], take away."""
    axes = [int(a) for a in np.flatnonzero((pads < 0).any(axis=0))]
    if not axes:
        return x
    starts = [max(-int(pads[0, a]), 0) for a in axes]
    ends = [int(pads[1, a]) if pads[1, a] < 0 else END for a in axes]
    return f.Slice(x, starts=starts, ends=ends, axes=axes)


MODES = ("constant", "edge", "reflect", "wrap")


@dataclass(frozen=True)
class PadNode:
    """A Pad. `pads`: [2, rank], None where they are computed; `value`: an array, a tensor or None for 0."""

    x: Value
    mode: str
    pads: np.ndarray | None
    value: Any
    axes: np.ndarray | None

    @property
    def is_zero(self) -> bool:
        """Whether it pads with 0, if it is of the mode `constant`."""
        return self.value is None or (isinstance(self.value, np.ndarray) and not self.value.any())


def read(b: Builder, node: Node, x: Value) -> PadNode:
    """What a Pad of x says; declines where ONNX does not allow it, or its axes cannot be read."""
    given = [*node.operands(), None, None, None][:4]
    require(given[1] is not None, "it has no pads: opset 1 calls them paddings")
    mode = str(node.attr("mode"))
    require(mode in MODES, f"ONNX has no mode '{mode}'")
    axes = b.value(given[3])
    require(given[3] is None or axes is not None, "the axes are computed at run time")
    constant = b.value(given[2])
    value = given[2] if constant is None else constant
    pads = _on_every_axis(b.value(given[1]), axes, b.rank(x))
    return PadNode(x, mode, pads, value if mode == "constant" else None, axes)


def _on_every_axis(pads: np.ndarray | None, axes: np.ndarray | None, rank: int | None) -> np.ndarray | None:
    """The pads as [2, rank]; `axes` are those that are padded, None for all."""
    if pads is None:
        return None
    count = rank if axes is None else axes.size
    require(pads.size % 2 == 0 and count in (None, pads.size // 2), "it has not two pads for each axis")
    pads = pads.reshape(2, -1).astype(np.int64)
    if axes is None:
        return pads
    whole = require_some(rank, "the rank of the input is not known, nor which axes are padded")
    full = np.zeros((2, whole), np.int64)
    full[:, axes.reshape(-1) % whole] = pads
    return full


def sizes_cropped(b: Builder, x: Value, pads: np.ndarray) -> list[int | None]:
    """The dimensions of x without what the negative pads take away; None for one that is not static."""
    shape = b.shape(x) or (None,) * pads.shape[1]
    gone = np.minimum(pads, 0).sum(axis=0)
    return [int(d) + int(g) if isinstance(d, int) else None for d, g in zip(shape, gone, strict=True)]


def require_possible(sizes: list[int | None], pads: np.ndarray, mode: str) -> None:
    """Decline pads that ONNX does not allow for a cropped input of these sizes."""
    for side in sides(pads):
        size = sizes[side.axis]
        if size is None:
            continue
        reflects = f"it reflects by {side.most} an axis of {size}; ONNX allows less than the axis has"
        require(mode != "reflect" or side.most < size, reflects)
        require(mode != "wrap" or side.most <= size, f"it repeats {side.most} of an axis of {size}")
        require(mode != "edge" or size > 0, f"it repeats the edge of axis {side.axis}, which has no element")
    for axis, size in enumerate(sizes):
        require(size is None or size > 0 or not (pads[:, axis] < 0).any(), f"the crop leaves nothing of axis {axis}")


def padded_with(b: Builder, x: Value, pads: np.ndarray, value: Value | np.ndarray, size: list[int | None]) -> Value:
    """x padded with a number that is not 0: by one Pad, or by zeros to which a frame of the number is added.

    `size`: the dimensions of x. Declines where the target supports no such Pad and a padded axis is not static.
    """
    refused = f"{b.why_unsupported(b.root)}"
    constant = None if isinstance(value, Value) else float(value.astype(np.float64).reshape(-1)[0])
    made = _pad(b, x, pads, value if isinstance(value, Value) else constant)
    if made is not None:
        return made
    number = require_some(constant, f"the value is computed at run time, and {refused}")
    dtype = b.dtype(x)
    if dtype in HALVES:
        cast = b.Cast(x, to=TensorProto.FLOAT)
        wide = _pad(b, cast, pads, number)
        if wide is not None:
            return b.Cast(wide, to=dtype)
        b.discard(cast, x)
    axes = [side.axis for side in sides(pads)]
    static = [s for s in (size[a] for a in axes) if s is not None]
    require(len(static) == len(axes) and dtype, f"{refused}, and the size of a padded axis is not static")
    inside = np.ones(pads.shape[1], np.int64)
    inside[axes] = static
    frame = np.pad(np.zeros(inside), [tuple(p) for p in pads.T.tolist()], constant_values=number)
    zeros = padded_with_zeros(b, x, pads)
    return b.Add(zeros, b.constant(frame, helper.tensor_dtype_to_np_dtype(dtype)))


def padded_with_zeros(b: Builder, x: Value, pads: np.ndarray) -> Value:
    """x padded with zeros, by Pads of as many axes as the target supports at once."""
    rank = pads.shape[1]
    at_once = b.target.pad_axes_count or rank
    axes = [side.axis for side in sides(pads)]
    for first in range(0, len(axes), at_once):
        some = axes[first : first + at_once]
        order = list(range(rank))
        if not b.target.pad_any_axis and min(some) < rank - 2:  # to the last two axes and back
            order = [a for a in order if a not in some] + some
            x = b.Transpose(x, perm=order)
        these = np.stack([[pads[s, a] if a in some else 0 for a in order] for s in (0, 1)])
        x = require_some(_pad(b, x, these, None), f"{b.why_unsupported(b.root)}")
        if order != sorted(order):
            x = b.Transpose(x, perm=list(np.argsort(order)))
    return x


def _pad(b: Builder, x: Value, pads: np.ndarray, value: Value | float | None) -> Value | None:
    """A Pad that the target supports; None where there is none. `value`: None for 0."""
    made: Value = b.Pad(x, pads=pads.reshape(-1), mode="constant", value=value)
    assert made.producer is not None
    if b.why_unsupported(made.producer) is None:
        return made
    b.discard(made, x)
    return None


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
    common = set.intersection(*(set(sources(v)) for v in inputs))
    found = [at for at, x in enumerate(inputs) if x in common]
    return found[0] if len(found) == 1 else None


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
        require(gather.attr("axis") % self.rank == self.axis)
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


NOT_SYMMETRIC = "it is not a symmetric padding"
OTHER_SIZE = "its mask is not known to be as long as the axis"


def kept_of(parts: Op) -> Pattern:
    """What Compress keeps: a constant, or one value everywhere but at some positions, as long as one of the `parts`."""
    part = output(parts, 0) | output(parts, 1) | output(parts, 2) | output(parts, 3) | output(parts, 4)
    return const() | op.ScatterElements(op.ConstantOfShape(part), const(), const())


def removed(b: Builder, kept: Value, size: Any) -> list[int]:
    """Which positions a Compress takes out of an axis of that size, from what it keeps.

    Those in the second half of a constant count from its end. Declines what may be of another size.
    """
    mask = b.value(kept)
    if mask is not None:
        require(mask.ndim == 1 and mask.size == size, OTHER_SIZE)
        return [p - mask.size * (p >= mask.size // 2) for p in np.flatnonzero(~mask.astype(bool)).tolist()]
    assert kept.producer is not None
    everywhere, gone, cleared = kept.producer.inputs
    assert everywhere is not None and everywhere.producer is not None
    filled, positions, updates = everywhere.producer.attr("value"), b.value(gone), b.value(cleared)
    assert positions is not None and updates is not None  # the pattern takes constants alone
    is_true = filled is not None and numpy_helper.to_array(filled).all()
    require(is_true and not updates.any(), NOT_SYMMETRIC)
    require(b.elements(everywhere.producer.inputs[0]) == [size], OTHER_SIZE)
    return [int(p) for p in positions.reshape(-1)]
