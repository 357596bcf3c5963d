"""Write Pad as the target takes it, and read the paddings that exporters spell with other operators.

Why       TensorRT pads with reflected values from 8.2 on, with wrapped ones from 10.0 on, with negative pads from 10.4
          on. Before that it takes zeros alone, on two axes at most. 8.2 and 8.4 read an empty third input as a tensor,
          and up to 9.3 a fourth input is refused. Symmetric padding has no ONNX operator:
          tf2onnx writes a Compress, which no TensorRT has.
Rewrites  Pad with computed pads (TorchScript's seven nodes)             ->  Pad with constant pads
          Pad(Pad(x)) of one mode                                        ->  Pad
          Pad by 1, reflect Pad, Compress (tf2onnx's SYMMETRIC)          ->  a symmetric padding
          Concat of what Slice, Gather, Expand and Tile cut from x with x in the middle: circular padding, a flip with
          or without the edge itself, a repeated edge
                      ->  Pad (wrap, where opset and target have it; reflect; edge) or a symmetric padding
          decompose: a Pad without what this target refuses (empty or fourth input, negative pads as a Slice in front, a
          value other than 0 added behind); where it has no such mode, one Gather with constant indices for each axis of
          static size, else Gather and Slice of both edges and a Concat. Negative steps are not used: TensorRT documents
          them from 8.0 on alone. plugin: SurgeonReflectPad (reflect, symmetric, edge, wrap);
          a Pad that the target takes is preferred.
Exact     Bit for bit. Cropping comes before padding, as in ONNX Runtime.
Kept      Pads that follow from run-time sizes; reflect by a dimension's size or more, which ONNX forbids; on DLA, which
          has neither these modes nor Gather, what the GPU pads natively.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from surgeon import ANY, Stage, attr, const, meaning, op, output, require, rewrite, var
from surgeon.ir.graph import Node, Value
from surgeon.rules.builder import Builder
from surgeon.rules.pattern import Pattern

from ._shapes import dims, elements
from ._types import FLOATS, HALVES

END = 2**31 - 1  # "to the end": fits the 32-bit integers of old parsers
MODES = ("constant", "edge", "reflect", "wrap")
PLUGIN_TYPES = HALVES | {TensorProto.FLOAT}

x = var("x")


# ---- padding an axis from its own values -----------------------------------------------------------------------------


def _padded(f: Any, x: Any, axis: int, begin: int, end: int, mode: str, size: int | None) -> Any:
    """`x` with one axis padded: a Gather where its size is known, else its edges and a Concat. `f` builds or spells."""
    if size is not None:
        return f.Gather(x, np.pad(np.arange(size, dtype=np.int64), (begin, end), mode), axis=axis)  # type: ignore[call-overload]

    def part(start: int, stop: int, of: Any = x) -> Any:
        return f.Slice(of, starts=[start], ends=[stop], axes=[axis])

    def turned(value: Any, count: int, last: int) -> Any:
        return f.Gather(value, np.arange(last, last - count, -1, dtype=np.int64), axis=axis)

    def repeated(value: Any, count: int) -> Any:
        return f.Gather(value, np.zeros(count, np.int64), axis=axis)

    def again(count: int, start: int, stop: int) -> Any:
        """So many elements from an end of x; x again and again where it has fewer."""
        y = part(start, stop)
        for _ in range((count - 1).bit_length()):
            y = part(start, stop, f.Concat(y, y, axis=axis))
        return y

    left = {
        "reflect": lambda: turned(x, begin, begin),
        "symmetric": lambda: turned(x, begin, begin - 1),
        "edge": lambda: repeated(x, begin),
        "wrap": lambda: again(begin, -begin, END),
    }
    right = {
        "reflect": lambda: turned(part(-end - 1, -1), end, end - 1),
        "symmetric": lambda: turned(part(-end, END), end, end - 1),
        "edge": lambda: repeated(part(-1, END), end),
        "wrap": lambda: again(end, 0, end),
    }
    parts = [*([left[mode]()] if begin else []), x, *([right[mode]()] if end else [])]
    return f.Concat(*parts, axis=axis)


def _cropped(f: Any, x: Any, pads: np.ndarray) -> Any:
    """`x` without what the negative of the pads, [2, rank], take away."""
    axes = [int(a) for a in np.flatnonzero((pads < 0).any(axis=0))]
    if not axes:
        return x
    starts = [max(-int(pads[0, a]), 0) for a in axes]
    ends = [int(pads[1, a]) if pads[1, a] < 0 else END for a in axes]
    return f.Slice(x, starts=starts, ends=ends, axes=axes)


def _axes(pads: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """(axis, begin, end) of each axis that is padded."""
    for axis in np.flatnonzero((pads > 0).any(axis=0)):
        yield int(axis), max(int(pads[0, axis]), 0), max(int(pads[1, axis]), 0)


@meaning("ReflectPad", "SurgeonReflectPad")
def reflect_pad(f: Any, x: Any, *, pads: list[int], mode: str) -> Any:
    """x padded from its own values; pads in ONNX's order; negative ones crop before anything is padded."""
    both = np.asarray(pads, np.int64).reshape(2, -1)
    y, positive = _cropped(f, x, both), np.maximum(both, 0)
    if mode in ("reflect", "edge") or (mode == "wrap" and f.opset >= 19):
        return f.Pad(y, pads=positive.reshape(-1), mode=mode)
    for axis, begin, end in _axes(positive):
        y = _padded(f, y, axis, begin, end, mode, None)
    return y


# ---- reading a Pad ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pad:
    """A Pad node. `pads`: [2, rank], None where they are computed; `value`: an array, a tensor or None for 0."""

    x: Value
    mode: str
    pads: np.ndarray | None
    value: Any
    axes: np.ndarray | None

    @property
    def zero(self) -> bool:
        return self.value is None or (isinstance(self.value, np.ndarray) and not self.value.any())


def _read(b: Builder, node: Node, x: Value) -> _Pad:
    given = [*node.operands(), None, None, None][:4]
    mode = str(node.attr("mode") or "constant")
    require(mode in MODES, f"ONNX has no mode '{mode}'")
    pads, axes = b.value(given[1]), b.value(given[3])
    require(given[3] is None or axes is not None, "the axes are computed at run time")
    value = b.value(given[2]) if b.value(given[2]) is not None else given[2]
    if pads is not None:
        count = b.rank(x) if axes is None else axes.size
        require(pads.size % 2 == 0 and count in (None, pads.size // 2), "it has not two pads for each axis")
        pads = pads.reshape(2, -1).astype(np.int64)
        if axes is not None:
            pads = _on_every_axis(pads, axes, b.rank(x))
    return _Pad(x, mode, pads, value if mode == "constant" else None, axes)


def _on_every_axis(pads: np.ndarray, axes: np.ndarray, rank: int | None) -> np.ndarray:
    require(rank is not None, "the rank of the input is not known, nor which axes are padded")
    assert rank is not None
    full = np.zeros((2, rank), np.int64)
    full[:, axes.reshape(-1) % rank] = pads
    return full


def _sizes(b: Builder, x: Value, pads: np.ndarray) -> list[int | None]:
    """The dimensions of the cropped input; None for one that is not static."""
    shape = b.shape(x) or (None,) * pads.shape[1]
    gone = np.minimum(pads, 0).sum(axis=0)
    return [int(d) + int(g) if isinstance(d, int) else None for d, g in zip(shape, gone, strict=True)]


def _require_possible(sizes: list[int | None], pads: np.ndarray, mode: str) -> None:
    for axis, begin, end in _axes(pads):
        size, most = sizes[axis], max(begin, end)
        if size is None:
            continue
        require(
            mode != "reflect" or most < size,
            f"it reflects by {most} an axis of {size}; ONNX allows less than the axis has",
        )
        require(mode in ("constant", "edge", "reflect") or most <= size, f"it repeats {most} of an axis of {size}")
        require(mode == "constant" or size > 0, f"the crop leaves nothing of axis {axis}")
    for axis, size in enumerate(sizes):
        require(size is None or size > 0 or not (pads[:, axis] < 0).any(), f"the crop leaves nothing of axis {axis}")


# ---- FUSE ------------------------------------------------------------------------------------------------------------


@rewrite(op.Pad(x, const("pads"), ...), stage=Stage.FUSE)
def computed_pads(b: Builder, x: Value, pads: np.ndarray) -> Value:
    """Pads that are computed from constants alone become a constant; one that ONNX forbids is named."""
    found = _read(b, b.root, x)
    if found.pads is not None and found.mode == "reflect":
        _require_possible(_sizes(b, x, found.pads), found.pads, found.mode)
    inputs = b.root.inputs
    source = inputs[1].producer if len(inputs) > 1 and inputs[1] is not None else None
    require(source is not None and source.key != "Constant", "")
    return b.Pad(x, b.constant(pads.astype(np.int64)), *inputs[2:], mode=found.mode)  # type: ignore[no-any-return]


inner = op.Pad(x, const("first"), mode=attr("first_mode"))


@rewrite(op.Pad(inner, const("second"), mode=attr("mode")), stage=Stage.FUSE)
def twice(b: Builder, x: Value, first: np.ndarray, first_mode: str, second: np.ndarray, mode: str) -> Value:
    one, two = first.reshape(2, -1), second.reshape(2, -1)
    require(first_mode == mode and one.shape == two.shape and one.min() >= 0 and two.min() >= 0, "")
    apart = not (one.any(axis=0) & two.any(axis=0)).any()
    require(apart or mode in ("constant", "edge"), "")
    return b.Pad(x, pads=(one + two).reshape(-1), mode=mode)  # type: ignore[no-any-return]


by_one = op.Pad(x, const("ones"), ..., mode="constant")
mirror = op.Pad(by_one, const("mirrored"), mode="reflect")
turned_mirror = op.Transpose(mirror, perm=attr("perm"))
sizes = op.Shape(mirror) | op.Gather(op.Shape(mirror), ANY) | op.Shape(turned_mirror)
parts = op.Split(sizes, ...)


def _kept() -> Pattern:
    """What Compress keeps: a constant, or one value everywhere but at some positions."""
    part = output(parts, 0) | output(parts, 1) | output(parts, 2) | output(parts, 3) | output(parts, 4)
    return const() | op.ScatterElements(op.ConstantOfShape(part), const(), const())


compressed: Pattern = turned_mirror | mirror
choices: list[Pattern] = []
for _ in range(3):
    compressed = op.Compress(compressed, _kept())
    choices.append(compressed)


around_it = [op.Transpose(p, perm=attr("back")) for p in choices]


@rewrite(around_it[2] | around_it[1] | around_it[0] | choices[2] | choices[1] | choices[0], stage=Stage.FUSE)
def symmetric(
    b: Builder,
    x: Value,
    ones: np.ndarray,
    mirrored: np.ndarray,
    perm: list[int] | None = None,
    back: list[int] | None = None,
) -> Value:
    """Zeros around x, a reflection about them, and the zeros taken out again: the edge itself is doubled."""
    ones, mirrored = ones.reshape(2, -1), mirrored.reshape(2, -1)
    require(
        ones.shape == mirrored.shape and ones.min() >= 0 and ones.max() <= 1 and mirrored.min() >= 0,
        "it is no symmetric padding",
    )
    rank = ones.shape[1]
    shape = b.shape(x) or (None,) * rank
    gone: dict[int, list[int]] = {}
    nodes = [n for n in b.matched if n.key == "Compress"]
    padded = next(v for n in nodes for v in n.inputs[:1] if v is not None and v.producer not in nodes)
    whole = dims(b, padded)
    require(whole is not None and len(whole) == rank, "the rank of the input is not known")
    assert whole is not None
    for node in nodes:
        axis = node.attr("axis")
        require(axis is not None, "Compress flattens")
        own = axis % rank
        axis = perm[own] if perm else own
        require(axis not in gone, "it is no symmetric padding")
        gone[axis] = sorted(_removed(b, node.inputs[1], whole[own]))
    for axis in range(rank):
        begin, end = int(mirrored[0, axis]), int(mirrored[1, axis])
        wanted = sorted([begin] * int(ones[0, axis]) + [-1 - end] * int(ones[1, axis]))
        require(
            gone.get(axis, []) == wanted and begin * (1 - ones[0, axis]) == 0 == end * (1 - ones[1, axis]),
            "it is no symmetric padding",
        )
        size = shape[axis]
        require(not isinstance(size, int) or max(begin, end) <= size, "it mirrors more than the axis has")
    y = b.ReflectPad(x, domain="surgeon", pads=mirrored.reshape(-1), mode="symmetric")
    order = perm or list(range(rank))
    order = [order[a] for a in back] if back else order
    return y if order == sorted(order) else b.Transpose(y, perm=order)  # type: ignore[no-any-return]


def _removed(b: Builder, kept: Value | None, size: Any) -> list[int]:
    """Which positions a Compress takes out of an axis of that size; those in the second half count from its end."""
    mask = b.value(kept)
    if mask is not None:
        require(mask.ndim == 1 and mask.size == size, "its mask is not known to be as long as the axis")
        return [p - mask.size * (p >= mask.size // 2) for p in np.flatnonzero(~mask.astype(bool)).tolist()]
    assert kept is not None and kept.producer is not None
    everywhere, gone, cleared = kept.producer.inputs
    assert everywhere is not None and everywhere.producer is not None
    filled, positions, updates = everywhere.producer.attr("value"), b.value(gone), b.value(cleared)
    true = filled is not None and numpy_helper.to_array(filled).all()
    require(true and positions is not None and updates is not None and not updates.any(), "it is no symmetric padding")
    assert positions is not None
    require(elements(b, everywhere.producer.inputs[0]) == [size], "its mask is not known to be as long as the axis")
    return [int(p) for p in positions.reshape(-1)]


@rewrite(op.Concat(ANY, ANY, ..., axis=attr("axis")), stage=Stage.FUSE)
def around(b: Builder, axis: int) -> Value:
    """What is cut from x, on one or both of its sides: circular padding, reflection by a flip, a repeated edge."""
    inputs = b.root.inputs
    chains = [_cut_from(v) for v in inputs]
    at = next((k for k, v in enumerate(inputs) if all(v in c for i, c in enumerate(chains) if i != k)), None)
    require(at is not None and all(v is not inputs[at] for k, v in enumerate(inputs) if k != at), "")
    assert at is not None
    x, shape = inputs[at], b.shape(inputs[at])  # type: ignore[arg-type]
    require(x is not None and shape is not None, "")
    assert x is not None and shape is not None
    require(len(shape) > 1 or b.dtype(x) in FLOATS, "")  # sizes are computed with Slice and Concat
    axis %= len(shape)
    whole = np.arange(_static(shape[axis]))
    sides = [whole if k == at else _taken(b, v, x, axis, whole) for k, v in enumerate(inputs)]
    begin, end = sum(len(s) for s in sides[:at]), sum(len(s) for s in sides[at + 1 :])
    mode = _mode_of(np.concatenate(sides), whole, begin, end)
    require(mode, "")
    require(not b.target.dla, "Slice and Concat run on DLA, and no such padding")
    if mode == "wrap":
        require(mode in b.target.pad_modes, "the target has no Pad of mode wrap: Slice and Concat stay")
        require(b.opset >= 19, "the mode wrap came with opset 19: Slice and Concat stay")
    pads = np.zeros((2, len(shape)), np.int64)
    pads[:, axis] = begin, end
    if mode == "symmetric":
        return b.ReflectPad(x, domain="surgeon", pads=pads.reshape(-1), mode=mode)  # type: ignore[no-any-return]
    return b.Pad(x, pads=pads.reshape(-1), mode=mode)  # type: ignore[no-any-return]


def _mode_of(found: np.ndarray, whole: np.ndarray, begin: int, end: int) -> str:
    """The mode of padding that puts these positions of an axis around it; empty where it is none."""
    size = len(whole)
    most = {"edge": begin + end if size else -1, "reflect": size - 1, "wrap": size, "symmetric": size}
    for mode, allowed in most.items():
        if max(begin, end) <= allowed and np.array_equal(found, np.pad(whole, (begin, end), mode)):  # type: ignore[call-overload]
            return mode
    return ""


CUTS = frozenset({"Slice", "Gather", "Expand", "Tile", "Unsqueeze"})


def _cut_from(value: Value | None) -> list[Value]:
    """The tensors that `value` may be cut from, itself first."""
    found = [] if value is None else [value]
    while found and found[-1].producer is not None and found[-1].producer.key in CUTS:
        source = found[-1].producer.inputs[0]
        if source is None:
            break
        found.append(source)
    return found


def _static(size: Any) -> int:
    require(isinstance(size, int), "the size of the axis is not known, so a slice may be cut short")
    assert isinstance(size, int)
    return size


def _taken(b: Builder, value: Value | None, x: Value, axis: int, whole: np.ndarray) -> np.ndarray:
    """The positions of x's axis that a chain of cuts takes; declines one along another axis. Every other dimension is
    x's own, or the Concat would not be valid."""
    if value is x:
        return whole
    assert value is not None and value.producer is not None
    node, rank = value.producer, b.rank(x) or 0
    require(not value.is_output and all(u is b.root or u in b.matched for u in value.users), "")
    b.matched = (*b.matched, node)
    if node.key == "Unsqueeze":  # of one position that a Gather took
        return _one(b, node, x, axis, whole)
    before = _taken(b, node.inputs[0], x, axis, whole)
    if node.key == "Slice":
        return _sliced(b, node, before, axis, rank)
    if node.key == "Gather":
        positions = b.value(node.inputs[1])
        require(positions is not None and positions.ndim == 1 and (node.attr("axis") or 0) % rank == axis, "")
        assert positions is not None
        require(((-before.size <= positions) & (positions < before.size)).all(), "")
        return before[positions]
    if node.key == "Tile":
        repeats = b.value(node.inputs[1])
        require(repeats is not None and repeats.size == rank, "")
        assert repeats is not None
        return np.tile(before, int(repeats[axis]))
    shape = b.shape(value)
    require(shape is not None and len(shape) == rank, "")
    assert shape is not None
    size = shape[axis]
    require(isinstance(size, int) and len(before) in (1, size), "")
    return np.broadcast_to(before, (size,))  # type: ignore[arg-type]


def _one(b: Builder, unsqueeze: Node, x: Value, axis: int, whole: np.ndarray) -> np.ndarray:
    """Unsqueeze(Gather(x, i)) along the axis."""
    gather, rank = unsqueeze.inputs[0].producer if unsqueeze.inputs[0] is not None else None, b.rank(x) or 0
    require(gather is not None and gather.key == "Gather" and gather.inputs[0] is x, "")
    assert gather is not None and gather.outputs[0] is not None
    axes, position = b.value(unsqueeze.operands()[1]), b.value(gather.inputs[1])
    require(axes is not None and position is not None and position.ndim == 0, "")
    assert axes is not None and position is not None
    require([int(a) % rank for a in axes.reshape(-1)] == [axis] and (gather.attr("axis") or 0) % rank == axis, "")
    require(not gather.outputs[0].is_output and len(gather.outputs[0].users) == 1, "")
    b.matched = (*b.matched, gather)
    return whole[position.reshape(1)]


def _sliced(b: Builder, node: Node, before: np.ndarray, axis: int, rank: int) -> np.ndarray:
    given = [*node.operands(), None, None, None][1:5]
    starts, ends, axes, steps = (None if v is None else b.value(v) for v in given)
    require(starts is not None and ends is not None, "")
    assert starts is not None and ends is not None
    require(all(v is None or w is not None for v, w in zip(given, (starts, ends, axes, steps), strict=True)), "")
    along = [0] if axes is None else [int(a) % rank for a in axes.reshape(-1)]
    require(starts.size == 1 and along == [axis], "")
    step = 1 if steps is None else int(steps.reshape(-1)[0])
    require(step, "")
    start, end, n = int(starts.reshape(-1)[0]), int(ends.reshape(-1)[0]), len(before)
    if step < 0 and end < -n:
        return before[slice(start, None, step)]
    return before[slice(start, end, step)]


# ---- LOWER -----------------------------------------------------------------------------------------------------------

pad = op.Pad(x, ...)
symmetric_node = op.ReflectPad(x, domain="surgeon", pads=attr("pads"), mode=attr("mode"))


@rewrite(pad, stage=Stage.LOWER, strategy="decompose")
def decompose(b: Builder, x: Value) -> Value:
    found = _read(b, b.root, x)
    refused = b.target.takes(b.root)
    if found.pads is None:
        require(refused is not None, "the pads are computed at run time")
        return _computed(b, found)
    require(found.mode != "constant" or refused is not None, "")  # nothing is simpler than a Pad that is taken
    size = _sizes(b, x, found.pads)
    _require_possible(size, found.pads, found.mode)
    _require_worth_on_dla(b)
    y, pads = _cropped(b, x, found.pads), np.maximum(found.pads, 0)
    if not pads.any():
        return y  # type: ignore[no-any-return]
    if found.mode == "constant":
        return _constant(b, y, replace(found, pads=pads), size)
    native = _native(b, y, pads, found.mode)
    if native is not None:
        return native
    for axis, begin, end in _axes(pads):
        y = _padded(b, y, axis, begin, end, found.mode, size[axis])
    return y  # type: ignore[no-any-return]


@rewrite(pad, stage=Stage.LOWER, strategy="plugin")
def plugin(b: Builder, x: Value) -> Value:
    found = _read(b, b.root, x)
    if found.pads is None or found.mode == "constant" or b.dtype(x) not in PLUGIN_TYPES or not (found.pads > 0).any():
        return decompose.body(b, x)  # type: ignore[no-any-return]
    sizes = _sizes(b, x, found.pads)
    _require_possible(sizes, found.pads, found.mode)
    y, pads = _cropped(b, x, found.pads), np.maximum(found.pads, 0)
    native = _native(b, y, pads, found.mode)
    if native is not None:
        return native
    if y is not x:
        b.discard(y)
    return _plugin(b, x, found.pads, found.mode)


@rewrite(symmetric_node, stage=Stage.LOWER, strategy="decompose")
def decompose_symmetric(b: Builder, x: Value, pads: list[int], mode: str) -> Value:
    both = np.asarray(pads, np.int64).reshape(2, -1)
    size, y = _sizes(b, x, both), x
    for axis, begin, end in _axes(both):
        y = _padded(b, y, axis, begin, end, mode, size[axis])
    return y


@rewrite(symmetric_node, stage=Stage.LOWER, strategy="plugin")
def plugin_symmetric(b: Builder, x: Value, pads: list[int], mode: str) -> Value:
    if b.dtype(x) not in PLUGIN_TYPES:
        return decompose_symmetric.body(b, x, pads, mode)  # type: ignore[no-any-return]
    return _plugin(b, x, np.asarray(pads, np.int64), mode)


def _plugin(b: Builder, x: Value, pads: np.ndarray, mode: str) -> Value:
    return b.SurgeonReflectPad(
        x, domain="surgeon", pads=pads.reshape(-1), mode=mode, plugin_version="1", plugin_namespace="surgeon"
    )  # type: ignore[no-any-return]


def _require_worth_on_dla(b: Builder) -> None:
    if b.target.dla and replace(b.target, dla=False).takes(b.root) is None:
        require(False, f"{b.target.takes(b.root)}, nor Gather: it runs on the GPU, which takes it as it is")


def _native(b: Builder, y: Value, pads: np.ndarray, mode: str) -> Value | None:
    """A Pad that this target takes; None where there is none, or where the user asked for something else."""
    made: Value = b.Pad(y, pads=pads.reshape(-1), mode=mode)
    if b.lowering(made, "reflect-pad") == "keep":
        return made
    b.discard(made, y)
    return None


def _computed(b: Builder, found: _Pad) -> Value:
    """Pads of run time: what can be mended is a fourth input and an empty third one."""
    pads = b.root.inputs[1]
    if found.axes is not None:
        rank = b.rank(found.x)
        require(rank is not None, "the rank of the input is not known, nor which axes are padded")
        assert rank is not None
        axes, count = [int(a) % rank for a in found.axes.reshape(-1)], found.axes.size
        at = [axes.index(a) + side * count if a in axes else 2 * count for side in (0, 1) for a in range(rank)]
        pads = b.Gather(b.Concat(pads, np.zeros(1, np.int64), axis=0), np.asarray(at, np.int64), axis=0)
    made: Value = b.Pad(found.x, pads, None if found.zero else b.root.inputs[2], mode=found.mode)
    assert made.producer is not None
    why = b.target.takes(made.producer)
    require(why is None, f"the pads are computed at run time, and {why}")
    return made


def _constant(b: Builder, y: Value, found: _Pad, size: list[int | None]) -> Value:
    """Zeros by Pads of as many axes as the target takes at once; another value by Pad, or added behind zeros."""
    assert found.pads is not None
    if found.zero:
        return _zeros(b, y, found.pads)
    value = found.value if isinstance(found.value, Value) else float(np.asarray(found.value, np.float64).reshape(-1)[0])
    made = _taken_constant(b, y, found.pads, value)
    if made is not None:
        return made
    dtype = b.dtype(y)
    require(not isinstance(value, Value), f"the value is computed at run time, and {b.target.takes(b.root)}")
    assert isinstance(value, float)
    if dtype in HALVES:
        cast = b.Cast(y, to=TensorProto.FLOAT)
        wide = _taken_constant(b, cast, found.pads, value)
        if wide is not None:
            return b.Cast(wide, to=dtype)  # type: ignore[no-any-return]
        b.discard(cast, y)
    padded = [axis for axis, _, _ in _axes(found.pads)]
    require(
        all(size[a] is not None for a in padded) and dtype,
        f"{b.target.takes(b.root)}, and the size of a padded axis is not static",
    )
    inside = np.zeros([size[a] if a in padded else 1 for a in range(found.pads.shape[1])])  # type: ignore[misc]
    frame = np.pad(inside, [tuple(p) for p in found.pads.T.tolist()], constant_values=value)
    return b.Add(_zeros(b, y, found.pads), b.constant(frame, helper.tensor_dtype_to_np_dtype(dtype)))  # type: ignore[no-any-return]


def _taken_constant(b: Builder, y: Value, pads: np.ndarray, value: Any) -> Value | None:
    made: Value = b.Pad(y, pads=pads.reshape(-1), mode="constant", value=value)
    assert made.producer is not None
    if b.target.takes(made.producer) is None:
        return made
    b.discard(made, y)
    return None


def _zeros(b: Builder, y: Value, pads: np.ndarray) -> Value:
    at_once = b.target.pad_axes_count or pads.shape[1]
    axes = [axis for axis, _, _ in _axes(pads)]
    rank = pads.shape[1]
    for some in (axes[k : k + at_once] for k in range(0, len(axes), at_once)):
        order = list(range(rank))
        if not b.target.pad_any_axis and min(some) < rank - 2:  # to the last two axes and back
            order = [a for a in order if a not in some] + some
            y = b.Transpose(y, perm=order)
        these = np.stack([[pads[s, a] if a in some else 0 for a in order] for s in (0, 1)])
        made = _taken_constant(b, y, these, None)
        require(made is not None, f"{b.target.takes(b.root)}")
        assert made is not None
        y = made if order == sorted(order) else b.Transpose(made, perm=list(np.argsort(order)))
    return y
