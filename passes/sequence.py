"""Replace sequences of tensors that are known at build time by the tensors themselves.

Why       PyTorch's newer exporter writes torch.split as SplitToSequence and SequenceAt. No TensorRT reads any operator
          of sequences (onnx-tensorrt onnxOpCheckers.cpp: STATIC_CHECK(false)).
Rewrites  SequenceAt(SequenceConstruct(a, b, ...), i)            ->   the i-th of them
          SequenceAt(SplitToSequence(x, split), i)               ->   Slice(x), squeezed where keepdims is 0
          ConcatFromSequence(SequenceConstruct(a, b, ...))       ->   Concat(a, b, ...)
          ConcatFromSequence(SplitToSequence(x))                 ->   x
          SequenceLength of either                               ->   its number
          the same behind SequenceEmpty, SequenceInsert and SequenceErase
Exact     Bit for bit. Indices and sizes must be constants, and the number of parts known.
"""

import numpy as np

from surgeon import Stage, attr, op, require, rewrite, var

sequence = var("sequence")


class Part:
    """A part of `x` along `axis`, from `start` to `end`; squeezed unless it keeps the dimension."""

    def __init__(self, x, start, end, axis, keeps):
        self.x, self.start, self.end, self.axis, self.keeps = x, start, end, axis, keeps

    def build(self, b):
        part = b.Slice(self.x, starts=[self.start], ends=[self.end], axes=[self.axis])
        return part if self.keeps else b.Squeeze(part, axes=[self.axis])


def _items(b, value):
    """The tensors and parts that a sequence holds, in order."""
    steps = []
    while True:
        node = value.producer
        require(node is not None, "the sequence is an input")
        b.matched = (*b.matched, node)
        if node.key not in ("SequenceInsert", "SequenceErase"):
            break
        steps.append(node)
        value = node.inputs[0]
    if node.key == "SequenceConstruct":
        items = list(node.inputs)
    elif node.key == "SequenceEmpty":
        items = []
    else:
        require(node.key == "SplitToSequence", f"the sequence comes from {node.op}")
        items = _parts(b, node)
    for step in reversed(steps):
        inserts = step.key == "SequenceInsert"
        place = step.inputs[2 if inserts else 1 :]
        if inserts:
            items.insert(_index(b, place[0], len(items), True) if place else len(items), step.inputs[1])
        else:
            del items[_index(b, place[0], len(items)) if place else -1]
    return items


def _index(b, value, length, end_too=False):
    """A constant position, counted from the front."""
    found = b.value(value)
    require(found is not None, "the index is computed at run time")
    index = int(found.reshape(()))
    index += length if index < 0 else 0
    require(0 <= index < length + end_too, f"the index {index} is outside of {length} tensors")
    return index


def _parts(b, node):
    x, axis = node.inputs[0], node.attr("axis") or 0
    split = node.inputs[1] if len(node.inputs) > 1 else None
    shape = b.shape(x)
    require(shape is not None, "the rank of what is split is not known")
    size, axis = shape[axis], axis % len(shape)
    given = np.asarray(1) if split is None else b.value(split)
    require(given is not None, "the sizes of the parts are computed at run time")
    if given.ndim:
        lengths = given.tolist()
    else:
        length = int(given)
        require(isinstance(size, int), "the number of parts depends on a size known at run time")
        lengths = [min(length, size - start) for start in range(0, size, length)]
    keeps = split is not None or bool(node.attr("keepdims"))
    starts = [sum(lengths[:k]) for k in range(len(lengths))]
    return [Part(x, s, s + n, axis, keeps) for s, n in zip(starts, lengths, strict=True)]


def _build(b, item):
    return item.build(b) if isinstance(item, Part) else item


@rewrite(op.SequenceAt(sequence, var("position")), stage=Stage.CLEAN)
def at(b, sequence, position):
    items = _items(b, sequence)
    return _build(b, items[_index(b, position, len(items))])


@rewrite(op.ConcatFromSequence(sequence, axis=attr("axis"), new_axis=attr("new_axis")), stage=Stage.CLEAN)
def concat(b, sequence, axis, new_axis):
    items = _items(b, sequence)
    require(items, "the sequence is empty")
    last = items[-1]
    whole = all(isinstance(i, Part) and i.x is items[0].x and i.keeps for i in items)
    if whole and not new_axis and axis % b.rank(last.x) == last.axis and _in_order(b, items):
        return last.x
    tensors = [_build(b, i) for i in items]
    if new_axis:
        tensors = [b.Unsqueeze(t, axes=[axis]) for t in tensors]
    return b.Concat(*tensors, axis=axis)


def _in_order(b, items):
    """Whether parts cover their tensor one after the other."""
    ends = [i.end for i in items]
    size = b.shape(items[0].x)[items[0].axis]
    return [i.start for i in items] == [0, *ends[:-1]] and size == ends[-1]


@rewrite(op.SequenceLength(sequence), stage=Stage.CLEAN)
def length(b, sequence):
    return b.constant(np.asarray(len(_items(b, sequence)), np.int64))
