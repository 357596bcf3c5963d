"""Write Pad as the target supports it, and read the paddings that exporters spell with other operators.

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
          decompose: a Pad without what this target refuses (empty or fourth input, negative pads as a Slice before, a
          value other than 0 added after it); where it has no such mode, one Gather with constant indices for each axis
          of static size, else Gather and Slice of both edges and a Concat. Negative steps are not used: TensorRT
          documents them from 8.0 on alone. plugin: SurgeonReflectPad (reflect, symmetric, edge, wrap);
          a Pad that the target supports is preferred.
Exact     Bit for bit. Cropping comes before padding, as in ONNX Runtime; after it where an axis may have less than is
          cropped.
Price     [1,64,56,56] of unknown width, 2 columns on either side, ONNX Runtime on one thread: reflect and edge 4 nodes,
          0.17 ms next to 0.06 of its own Pad; wrap 7 nodes, 0.15 next to 0.09.
Kept      Pads that follow from run-time sizes; reflect by a dimension's size or more, which ONNX forbids; on DLA, which
          has neither these modes nor Gather, what the GPU pads natively.
"""

from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import ANY, FLOATS, HALVES, PLUGIN, Builder, Value, attr, const, meaning, op, require, require_some, rule

from . import _pad

PLUGIN_TYPES = HALVES | {TensorProto.FLOAT}


@meaning("ReflectPad", "SurgeonReflectPad")
def reflect_pad(f, x, *, pads, mode):
    """x padded from its own values; pads in ONNX's order; negative ones crop before anything is padded."""
    both = np.asarray(pads, np.int64).reshape(2, -1)
    y, positive = _pad.cropped(f, x, both), np.maximum(both, 0)
    if mode in ("reflect", "edge") or (mode == "wrap" and f.opset >= 19):
        return f.Pad(y, pads=positive.reshape(-1), mode=mode)
    for side in _pad.sides(positive):
        y = _pad.padded(f, y, side, mode, None)
    return y


# ---- FUSE ------------------------------------------------------------------------------------------------------------


@rule(op.Pad("x", const("pads"), ...))
def computed_pads(b, x, pads):
    """Pads that are computed from constants alone become a constant; one that ONNX forbids is named."""
    found = _pad.read(b, b.root, x)
    if found.pads is not None and found.mode == "reflect":
        _pad.require_possible(_pad.sizes_cropped(b, x, found.pads), found.pads, found.mode)
    inputs = b.root.inputs
    source = inputs[1].producer if len(inputs) > 1 and inputs[1] is not None else None
    require(source is not None and source.key != "Constant")
    return b.Pad(x, b.constant(pads.astype(np.int64)), *inputs[2:], mode=found.mode)


inner = op.Pad("x", const("first"), mode=attr("first_mode"))


@rule(op.Pad(inner, const("second"), mode=attr("mode")))
def twice(b, x, first, first_mode, second, mode):
    """Two Pads of one mode; from its own values, x is padded along different axes."""
    one, two = first.reshape(2, -1), second.reshape(2, -1)
    require(first_mode == mode and not min(one.min(), two.min()) < 0)
    both = one.any(axis=0) & two.any(axis=0)
    require(not (both.any() and mode not in ("constant", "edge")))
    return b.Pad(x, pads=(one + two).reshape(-1), mode=mode)


by_one = op.Pad("x", const("ones"), ..., mode="constant")
mirror = op.Pad(by_one, const("mirrored"), mode="reflect")
turned_mirror = op.Transpose(mirror, perm=attr("perm"))
parts = op.Split(op.Shape(mirror) | op.Gather(op.Shape(mirror), ANY) | op.Shape(turned_mirror), ...)


compressed: Any = turned_mirror | mirror
choices: list[Any] = []
for _ in range(3):
    compressed = op.Compress(compressed, _pad.kept_of(parts))
    choices.append(compressed)


around_it = [op.Transpose(p, perm=attr("back")) for p in choices]


@rule(around_it[2] | around_it[1] | around_it[0] | choices[2] | choices[1] | choices[0])
def symmetric(b, x, ones, mirrored, perm=None, back=None):
    """Zeros around x, a reflection about them, and the zeros taken out again: the edge itself is doubled."""
    ones, mirrored = ones.reshape(2, -1), mirrored.reshape(2, -1)
    fits = ones.shape == mirrored.shape and ones.min() >= 0 and ones.max() <= 1 and mirrored.min() >= 0
    require(fits, _pad.NOT_SYMMETRIC)
    rank = ones.shape[1]
    perm = perm or list(range(rank))
    gone = _removed_of_each(b, perm)
    shape = b.shape(x) or (None,) * rank
    for axis, size in enumerate(shape):
        begin, end = mirrored[:, axis].tolist()
        first, last = ones[:, axis].tolist()
        require(gone.get(axis, []) == sorted([begin] * first + [-1 - end] * last), _pad.NOT_SYMMETRIC)
        require((first or not begin) and (last or not end), _pad.NOT_SYMMETRIC)
        require(not isinstance(size, int) or max(begin, end) <= size, "it mirrors more than the axis has")
    y = b.ReflectPad(x, domain="surgeon", pads=mirrored.reshape(-1), mode="symmetric")
    order = [perm[a] for a in back] if back else perm
    return y if order == sorted(order) else b.Transpose(y, perm=order)


def _removed_of_each(b: Builder, perm: list[int]) -> dict[int, list[int]]:
    """By the axis of x: the positions that the Compresses of the match take out of what they are given. `perm`: the
    order of x's axes before them."""
    nodes = [n for n in b.matched if n.key == "Compress"]
    sources = [n.inputs[0] for n in nodes]
    reflected = next(v for v in sources if v is not None and v.producer not in nodes)
    whole = b.dims(reflected) or []
    require(len(whole) == len(perm), "the rank of the input is not known")
    gone: dict[int, list[int]] = {}
    for node in nodes:
        given = require_some(node.attr("axis"), "Compress flattens") % len(perm)
        axis = perm[given]
        require(axis not in gone, _pad.NOT_SYMMETRIC)
        kept = node.inputs[1]
        assert kept is not None
        gone[axis] = sorted(_pad.removed(b, kept, whole[given]))
    return gone


@rule(op.Concat(ANY, ANY, ..., axis=attr("axis")))
def around(b, axis):
    """What is cut from x, on one or both of its sides: circular padding, reflection by a flip, a repeated edge."""
    inputs = b.root.inputs
    at = require_some(_pad.common_source(inputs))
    x, shape = inputs[at], require_some(b.shape(inputs[at]))
    require(len(shape) > 1 or b.dtype(x) in FLOATS)  # sizes are computed with Slice and Concat
    axis %= len(shape)
    size = shape[axis]
    require(isinstance(size, int), "the size of the axis is not known, so a slice may be cut short")
    cuts = _pad.Cuts(b, x, axis, len(shape), size)
    taken = [cuts.positions(v) for v in inputs]
    begin, end = sum(map(len, taken[:at])), sum(map(len, taken[at + 1 :]))
    mode = require_some(_pad.mode_of(np.concatenate(taken), size, begin, end))
    require(not b.target.dla, "Slice and Concat run on DLA, and no such padding")
    if mode == "wrap":
        require(mode in b.target.pad_modes, "the target has no Pad of mode wrap: Slice and Concat stay")
        require(b.opset >= 19, "the mode wrap came with opset 19: Slice and Concat stay")
    pads = np.zeros((2, len(shape)), np.int64)
    pads[:, axis] = begin, end
    if mode == "symmetric":
        return b.ReflectPad(x, domain="surgeon", pads=pads.reshape(-1), mode=mode)
    return b.Pad(x, pads=pads.reshape(-1), mode=mode)


# ---- LOWER -----------------------------------------------------------------------------------------------------------

pad = op.Pad("x", ...)
symmetric_node = op.ReflectPad("x", domain="surgeon", pads=attr("pads"), mode=attr("mode"))


@rule(pad, strategy="decompose")
def decompose(b, x):
    found = _pad.read(b, b.root, x)
    refused = b.why_unsupported(b.root)
    if found.pads is None:
        require(refused is not None, "the pads are computed at run time")
        return _with_computed_pads(b, found)
    require(found.mode != "constant" or refused is not None)  # nothing is simpler than a Pad that is taken
    size = _pad.sizes_cropped(b, x, found.pads)
    _pad.require_possible(size, found.pads, found.mode)
    # where an axis may have less than is cropped, padding comes first
    both = (found.pads > 0).any(axis=0) & (found.pads < 0).any(axis=0)
    if found.mode == "constant" and any(size[axis] is None for axis in np.flatnonzero(both)):
        sizes = _pad.sizes_cropped(b, x, np.zeros_like(found.pads))
        return _pad.cropped(b, _padded_with_its_value(b, x, found, sizes), found.pads)
    y, pads = _pad.cropped(b, x, found.pads), np.maximum(found.pads, 0)
    if not pads.any():
        return y
    if found.mode == "constant":
        return _padded_with_its_value(b, y, found, size)
    native = _native(b, y, pads, found.mode)
    if native is not None:
        return native
    for side in _pad.sides(pads):
        y = _pad.padded(b, y, side, found.mode, size[side.axis])
    return y


@rule(pad, strategy="plugin")
def plugin(b, x):
    found = _pad.read(b, b.root, x)
    if found.pads is None or found.mode == "constant" or b.dtype(x) not in PLUGIN_TYPES or not (found.pads > 0).any():
        return decompose.body(b, x)
    _pad.require_possible(_pad.sizes_cropped(b, x, found.pads), found.pads, found.mode)
    y, pads = _pad.cropped(b, x, found.pads), np.maximum(found.pads, 0)
    native = _native(b, y, pads, found.mode)
    if native is not None:
        return native
    b.discard(y)
    return _plugin(b, x, found.pads, found.mode)


@rule(symmetric_node, strategy="decompose")
def decompose_symmetric(b, x, pads, mode):
    both = np.asarray(pads, np.int64).reshape(2, -1)
    size, y = _pad.sizes_cropped(b, x, both), x
    for side in _pad.sides(both):
        y = _pad.padded(b, y, side, mode, size[side.axis])
    return y


@rule(symmetric_node, strategy="plugin")
def plugin_symmetric(b, x, pads, mode):
    if b.dtype(x) not in PLUGIN_TYPES:
        return decompose_symmetric.body(b, x, pads, mode)
    return _plugin(b, x, np.asarray(pads, np.int64), mode)


def _plugin(b: Builder, x: Value, pads: np.ndarray, mode: str) -> Value:
    return b.SurgeonReflectPad(x, pads=pads.reshape(-1), mode=mode, **PLUGIN)


def _padded_with_its_value(b: Builder, x: Value, found: _pad.PadNode, size: list[int | None]) -> Value:
    """x padded with the number of a Pad, by its positive pads; `size`: the dimensions of x, None where not static."""
    pads = np.maximum(require_some(found.pads, "the pads are computed at run time"), 0)
    return _pad.padded_with_zeros(b, x, pads) if found.is_zero else _pad.padded_with(b, x, pads, found.value, size)


def _native(b: Builder, y: Value, pads: np.ndarray, mode: str) -> Value | None:
    """A Pad that this target supports; None where there is none, or where the user asked for something else."""
    made: Value = b.Pad(y, pads=pads.reshape(-1), mode=mode)
    if b.lowering(made) == "keep":
        return made
    b.discard(made, y)
    return None


def _with_computed_pads(b: Builder, found: _pad.PadNode) -> Value:
    """Pads of run time: what can be fixed is a fourth input and an empty third one."""
    pads: Any = b.root.inputs[1]
    if found.axes is not None:
        rank = b.known_rank(found.x)
        axes, count = [int(a) % rank for a in found.axes.reshape(-1)], found.axes.size
        at = [axes.index(a) + side * count if a in axes else 2 * count for side in (0, 1) for a in range(rank)]
        pads = b.Gather(b.Concat(pads, np.zeros(1, np.int64), axis=0), at, axis=0)
    made: Value = b.Pad(found.x, pads, None if found.is_zero else b.root.inputs[2], mode=found.mode)
    assert made.producer is not None
    why = b.why_unsupported(made.producer)
    require(why is None, f"the pads are computed at run time, and {why}")
    return made
