"""Make the batch of a finished model dynamic, and prove that each sample is computed as alone.

The model is run node by node. `alone` holds what each tensor is for one batch of the file's own size, `together` what
it is for several of them at once. What a node makes of several batches must be what it makes of each, one behind the
other along some axis. Where it is not, the node is repaired: a batch that stands in the constant of a Reshape, a Resize
or a Slice, or a tensor with one row for each sample that is the same in every row. What cannot be repaired mixes
samples, and is named. At the end both models are run as a whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from surgeon.errors import ModelError, UsageError, did_you_mean
from surgeon.ir.files import with_weights
from surgeon.ir.lattice import declared_dim
from surgeon.ir.run import Runner, Unrunnable
from surgeon.pipeline.nodewise import LOOSE, computed, is_equal, reads
from surgeon.pipeline.prepared import BATCH_CHANGE, Prepared, Text, change, described, fresh_name
from surgeon.proof.equality import TOLERANCE, compare
from surgeon.proof.feeds import Feeds, feeds_of
from surgeon.proof.whole import sizes_that_run, whole_pair

Axes = Mapping[str, int | None]  # the axis of the batch by input; None for an input without a batch
BATCH = "batch"  # what the dimension is called
SEVERAL = 2  # batches of the file's size that are computed at once, node by node
BATCHES = (1, 2, 3, 5)  # samples that the whole models are compared with
MOST_WALKS = 32  # ways to place the samples that are tried


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the samples of a tensor lie: along `axis`, in which `outer` other positions are counted before them."""

    axis: int
    outer: int = 1


@dataclass(slots=True)
class Tensor:
    """What a tensor is for each batch alone, and for all of them together.

    layout  where the samples lie; None where it is the same for every batch, or follows from sizes alone
    sized   whether it follows from sizes, so that it may be another one for a larger batch
    """

    alone: list[np.ndarray]
    together: np.ndarray
    layout: Layout | None = None
    sized: bool = False

    @property
    def is_same(self) -> bool:
        """Whether it does not depend on the batch at all."""
        return self.layout is None and not self.sized


@dataclass(slots=True)
class _Repair:
    """Nodes and constants that stand in a node's place."""

    node: NodeProto
    before: list[NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)


class Mixed(ModelError):
    """A node computes something else for a sample where others are beside it."""


def with_dynamic_batch(
    model: ModelProto,
    axes: Axes | None = None,
    *,
    base: Path | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Prepared:
    """The model with a batch of any size.

    axes    the axis of the batch, of inputs where it is not the first; None for an input that has none
    base    the folder of external weights
    shapes  sizes of inputs with symbolic dimensions

    Raises ModelError with the node where samples mix, UsageError where `axes` does not fit the inputs.
    """
    source = with_weights(model, base)
    found = _batched_axes(source, axes or {})
    sized = _sizes(source, base, shapes or {})
    size = _size_of_the_batch(sized, found)
    walk, made = _walked(source, found, size, sized)
    error = _prove(source, made, found, size, sized, walk.layouts)
    renamed = [name for name in found if name in walk.inputs]
    interface = change(
        [Text(n, walk.inputs[n][0]) for n in renamed], [Text(n, walk.inputs[n][1]) for n in renamed], "the inputs"
    )
    applied = [record(BATCH_CHANGE, error) for record in (interface, *walk.changes)]
    return Prepared(made, applied)


# ---- the inputs ------------------------------------------------------------------------------------------------------


def _given(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs that a caller gives."""
    weights = {t.name for t in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in weights]


def _batched_axes(model: ModelProto, axes: Axes) -> dict[str, int]:
    """The axis of the batch by input: the first one of those that have there what the first input has."""
    infos = {i.name: [declared_dim(d) for d in i.type.tensor_type.shape.dim] for i in _given(model)}
    for name, axis in axes.items():
        if name not in infos:
            raise UsageError(f"the model has no input '{name}'.{did_you_mean(name, infos)}")
        if axis is not None and not 0 <= axis < len(infos[name]):
            raise UsageError(f"the input '{name}' has {len(infos[name])} dimensions, and so no axis {axis}.")
    found = {name: axis for name, axis in axes.items() if axis is not None}
    first = next((infos[n][a] for n, a in found.items()), None)
    for name, dims in infos.items():
        if name in axes or not dims:
            continue
        first = dims[0] if first is None else first
        if dims[0] == first:
            found[name] = 0
    if not found:
        raise ModelError("the model has no input with a batch. Say its axis: --batch-axis INPUT:AXIS.")
    return {name: found[name] for name in infos if name in found}


def _sizes(model: ModelProto, base: Path | None, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Sizes of the inputs on which the model runs."""
    pair = whole_pair(model, model, base=base, shapes=shapes)
    try:
        sized = sizes_that_run(pair, Runner(model, base).run)
    except Unrunnable as error:
        raise ModelError(f"the batch cannot be made dynamic: ONNX Runtime does not run the model: {error}.") from None
    return {name: shape for name, _, shape in sized}


def _size_of_the_batch(sized: Mapping[str, tuple[int, ...]], axes: Mapping[str, int]) -> int:
    found = {sized[name][axis] for name, axis in axes.items()}
    if len(found) > 1:
        raise ModelError(f"the inputs have batches of {' and '.join(map(str, sorted(found)))}. Say --batch-axis.")
    return found.pop()


def _drawn(model: ModelProto, sizes: Mapping[str, tuple[int, ...]], seed: int) -> Feeds:
    """Random values for the inputs."""
    inputs = [(i.name, i.type.tensor_type.elem_type, sizes[i.name]) for i in _given(model)]
    return next(feeds_of(inputs, seed))[1]


def _joined(batches: Sequence[np.ndarray], layout: Layout, size: int) -> np.ndarray:
    """Several batches one behind the other; `size` is that of each."""
    parts = [_split(batch, layout, size) for batch in batches]
    whole = np.concatenate(parts, layout.axis + 1)
    return _merged(whole, layout.axis)


def _split(batch: np.ndarray, layout: Layout, size: int) -> np.ndarray:
    """The axis of the samples in three: what is counted before them, the samples, what is behind."""
    shape, axis = batch.shape, layout.axis
    inner = shape[axis] // (layout.outer * size)
    return batch.reshape(*shape[:axis], layout.outer, size, inner, *shape[axis + 1 :])


def _merged(parts: np.ndarray, axis: int) -> np.ndarray:
    """The three axes of `_split` as one again."""
    shape = parts.shape
    return parts.reshape(*shape[:axis], math.prod(shape[axis : axis + 3]), *shape[axis + 3 :])


def _part(whole: np.ndarray, layout: Layout, first: int, size: int, total: int) -> np.ndarray:
    """`size` samples of `total`, from `first` on."""
    parts = _split(whole, layout, total)
    taken = np.take(parts, range(first, first + size), layout.axis + 1)
    return _merged(taken, layout.axis)


def _walked(
    model: ModelProto, axes: Mapping[str, int], size: int, sizes: Mapping[str, tuple[int, ...]]
) -> tuple[_Walk, ModelProto]:
    """The model with a dynamic batch. Where samples mix, a Reshape in front may place them otherwise."""
    choices: dict[str, int] = {}
    first: Mixed | None = None
    for _ in range(MOST_WALKS):
        walk = _Walk(model, axes, size, sizes, choices)
        try:
            return walk, walk.run()
        except Mixed as error:
            first = first or error
        open_ones = [name for name, count in walk.several.items() if choices.get(name, 0) + 1 < count]
        if not open_ones:
            break
        last = open_ones[-1]
        met = list(walk.several)
        choices = {n: c for n, c in choices.items() if n in met[: met.index(last)]} | {last: choices.get(last, 0) + 1}
    assert first is not None
    raise first


# ---- node by node ----------------------------------------------------------------------------------------------------


class _Walk:
    """Runs a model node by node, and repairs what holds the batch.

    layouts  where the samples lie in each output of the model; None where it does not depend on them
    inputs   (before, after) of each batched input, as text
    changes  what was repaired
    choices  by Reshape, how many of the ways to place its samples are passed over
    several  by Reshape, how many ways there are, where there is more than one
    """

    def __init__(
        self,
        model: ModelProto,
        axes: Mapping[str, int],
        size: int,
        sizes: Mapping[str, tuple[int, ...]],
        choices: Mapping[str, int],
    ) -> None:
        self.model, self.axes, self.size = model, axes, size
        self.choices = choices
        self.several: dict[str, int] = {}
        self.symbolic = any(
            not isinstance(declared_dim(d), int)
            for i in _given(model)
            for k, d in enumerate(i.type.tensor_type.shape.dim)
            if axes.get(i.name) != k
        )
        self.layouts: dict[str, Layout | None] = {}
        self.inputs: dict[str, tuple[str, str]] = {}
        self.changes: list[Any] = []
        self.tensors = {t.name: _constant(numpy_helper.to_array(t)) for t in model.graph.initializer}
        self._fresh = fresh_name(model)
        self._written: list[NodeProto] = []
        self._front: list[NodeProto] = []
        self._constants: dict[str, np.ndarray] = {}
        self._add_inputs(sizes)

    def _add_inputs(self, sizes: Mapping[str, tuple[int, ...]]) -> None:
        draws = [_drawn(self.model, sizes, seed) for seed in range(SEVERAL)]
        for info in _given(self.model):
            arrays = [draw[info.name] for draw in draws]
            if info.name in self.axes:
                layout = Layout(self.axes[info.name])
                self.tensors[info.name] = Tensor(arrays, _joined(arrays, layout, self.size), layout)
            else:
                self.tensors[info.name] = _constant(arrays[0])

    def run(self) -> ModelProto:
        """The model with a dynamic batch."""
        graph = self.model.graph
        left = Counter(name for node in graph.node for name in reads(node))
        left.update(o.name for o in graph.output)
        for node in graph.node:
            self._visit(node)
            for name in reads(node):
                left[name] -= 1
                if not left[name]:
                    self.tensors.pop(name, None)
        return self._finished()

    def _visit(self, node: NodeProto) -> None:
        """Compute what a node makes, and write it down as it is or repaired."""
        names = [o for o in node.output if o]
        read = {name: self.tensors[name] for name in reads(node)}
        alike = all(t.is_same for t in read.values())
        alone = [self._computed(node, {n: t.alone[k] for n, t in read.items()}) for k in range(1 if alike else SEVERAL)]
        if alike:
            self.tensors.update({n: _constant(v) for n, v in zip(names, alone[0], strict=True)})
            self._written.append(node)
            return
        why = ""
        explicit, others = self._reshapes(node, read, alone[0][0].shape)
        skipped = self.choices.get(node.output[0], 0)
        holding: list[tuple[_Repair, list[Tensor]]] = []
        for repair in (*explicit, _Repair(node), *others, *self._repairs(node, read)):
            try:
                found = self._together(repair, node, read, alone)
            except Unrunnable as error:
                why = why or ("" if "ONNXRuntimeError" in str(error) else str(error))
                continue
            if found is not None:
                holding.append((repair, found))
            if holding and node.op_type != "Reshape":
                break
        if holding:
            if len(holding) > 1:
                self.several[node.output[0]] = len(holding)
            repair, found = holding[min(skipped, len(holding) - 1)]
            self.tensors.update(zip(names, found, strict=True))
            self._take(node, repair)
            return
        label = node.name or f"{node.op_type} -> {node.output[0]}"
        raise Mixed(
            f"the batch cannot be made dynamic: {label} ({node.op_type}) makes something else of a sample where others "
            f"are beside it{f' ({why})' if why else ''}."
        )

    def _take(self, node: NodeProto, repair: _Repair) -> None:
        self._written += [*repair.before, repair.node]
        self._constants.update(repair.constants)
        if repair.node is not node:
            added = [Text.of(n) for n in (*repair.before, repair.node)]
            self.changes.append(change([Text.of(node)], added, Text.of(node).label, list(node.output)))

    def _together(
        self, repair: _Repair, node: NodeProto, read: Mapping[str, Tensor], alone: list[list[np.ndarray]]
    ) -> list[Tensor] | None:
        """What the repaired node makes of all batches; None where that is not what it makes of each."""
        feeds = {name: t.together for name, t in read.items()} | repair.constants
        for extra in repair.before:
            feeds.update({n: self._value(n) for n in reads(extra) if n not in feeds})
            feeds.update(zip(extra.output, self._computed(extra, feeds), strict=True))
        feeds.update({n: self._value(n) for n in reads(repair.node) if n not in feeds})
        made = self._computed(repair.node, feeds)
        sized = node.op_type in ("Shape", "Size") or all(t.layout is None for t in read.values())
        hints = {t.layout.outer for t in read.values() if t.layout is not None}
        found = [self._located([a[k] for a in alone], whole, hints, sized) for k, whole in enumerate(made)]
        return None if None in found else found  # type: ignore[return-value]

    def _value(self, name: str) -> np.ndarray:
        """What a tensor made in front of the graph, or a constant of it, is for all batches."""
        if name == self._batch_name():
            return np.asarray([self.size * SEVERAL], np.int64)
        return self._constants[name]

    def _located(self, alone: list[np.ndarray], whole: np.ndarray, hints: set[int], sized: bool) -> Tensor | None:
        """The tensor, with where its samples lie; None where it is not what it is for each batch."""
        if all(a.shape == whole.shape for a in alone) and all(is_equal(whole, a) for a in alone):
            return Tensor(alone, alone[0])
        if sized:
            return Tensor(alone, whole, sized=True)
        if any(a.ndim != whole.ndim or a.shape != alone[0].shape for a in alone):
            return None
        grown = [k for k in range(whole.ndim) if whole.shape[k] != alone[0].shape[k]]
        if len(grown) != 1 or whole.shape[grown[0]] != SEVERAL * alone[0].shape[grown[0]]:
            return None
        length = alone[0].shape[grown[0]]
        if length % self.size:
            return None
        outers = [o for o in range(1, length // self.size + 1) if length // self.size % o == 0]
        for outer in sorted(outers, key=lambda o: o not in hints):
            layout = Layout(grown[0], outer)
            joined = _joined(alone, layout, self.size)
            if is_equal(whole, joined):
                return Tensor(alone, joined, layout)
        return None

    def _computed(self, node: NodeProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """A node's outputs. Raises Unrunnable."""
        return computed(node, feeds, self.model)

    # ---- repairs ----

    def _repairs(self, node: NodeProto, read: Mapping[str, Tensor]) -> Iterator[_Repair]:
        """What a node could be meant to be, likeliest first."""
        yield from self._computed_sizes(node, read)
        yield from self._shared_rows(node, read)

    def _reshapes(
        self, node: NodeProto, read: Mapping[str, Tensor], made: tuple[int, ...]
    ) -> tuple[list[_Repair], list[_Repair]]:
        """A Reshape with the batch where the samples come to lie in row-major order: where its target has the file's
        batch, and elsewhere."""
        explicit: list[_Repair] = []
        others: list[_Repair] = []
        if node.op_type != "Reshape" or len(node.input) < 2:
            return explicit, others
        given, target = read[node.input[0]], read[node.input[1]]
        if given.layout is None or not target.is_same:
            return explicit, others
        before = math.prod(given.alone[0].shape[: given.layout.axis]) * given.layout.outer
        asked = target.together.tolist()
        fronts = {axis: math.prod(made[:axis]) for axis in range(len(made))}
        places = [a for a, front in fronts.items() if front and before % front == 0]
        shape = given.alone[0].shape

        def likely(axis: int) -> tuple[bool, int]:
            """Not among sizes that stay what they are at the end, and rather a whole axis than a part of one."""
            return made[axis:] == shape[axis - len(made) :], before // fronts[axis]

        for axis in sorted(places, key=likely):
            size = made[axis]
            if size % (before // fronts[axis] * self.size):
                continue
            takes_over = axis == given.layout.axis and given.alone[0].shape[axis] == size
            sizes = self._target(asked, made, axis, takes_over)
            if sizes is not None:
                here = explicit if asked[axis] == self.size else others
                here.append(self._with_input(node, 1, np.asarray(sizes, np.int64)))
        return explicit, others

    def _target(self, asked: list[int], made: tuple[int, ...], axis: int, takes_over: bool) -> list[int] | None:
        """What a Reshape is asked for, with the batch left open; None where two sizes would be open.

        `takes_over`: whether the size is that of its input at the same place.
        """
        if not self.symbolic:
            return [-1 if k == axis else made[k] if d == -1 else d for k, d in enumerate(asked)]
        if not any(d == -1 for k, d in enumerate(asked) if k != axis):
            return [-1 if k == axis else d for k, d in enumerate(asked)]
        return [0 if k == axis else d for k, d in enumerate(asked)] if takes_over else None

    def _computed_sizes(self, node: NodeProto, read: Mapping[str, Tensor]) -> Iterator[_Repair]:
        """A constant list of sizes or ends with the batch in it, which is computed instead."""
        for place, name in enumerate(node.input):
            tensor = read.get(name)
            if place == 0 or tensor is None or not tensor.is_same or tensor.together.dtype != np.int64:
                continue
            sizes = tensor.together
            if sizes.ndim != 1:
                continue
            for k in [k for k, d in enumerate(sizes.tolist()) if d == self.size]:
                yield self._with_batch_in(node, place, sizes, k)

    def _with_batch_in(self, node: NodeProto, place: int, sizes: np.ndarray, k: int) -> _Repair:
        """The node with the batch's size at position k of an input."""
        parts, constants = [], {}
        for part in (sizes[:k], sizes[k + 1 :]):
            if part.size:
                constants[self._name("sizes")] = part
        names = list(constants)
        parts = [*(names[:1] if k else []), self._batch_name(), *(names[1:] if k else names)]
        repaired = _copy(node)
        before = []
        if len(parts) > 1:
            repaired.input[place] = self._name("sizes")
            before.append(helper.make_node("Concat", parts, [repaired.input[place]], axis=0))
        else:
            repaired.input[place] = parts[0]
        return _Repair(repaired, before, constants)

    def _shared_rows(self, node: NodeProto, read: Mapping[str, Tensor]) -> Iterator[_Repair]:
        """A tensor with a row for each sample of the file's batch, all of them alike, gets as many as there are.

        Alone, one after the other, and all of them: the initial states of an LSTM come in pairs.
        """
        axes = Counter(t.layout.axis for t in read.values() if t.layout is not None)
        places: dict[int, list[int]] = {}
        for place, name in enumerate(node.input):
            tensor = read.get(name)
            if tensor is not None and tensor.is_same:
                places[place] = [a for a in range(tensor.together.ndim) if self._has_rows(tensor.together, a)]
        ranked = {p: sorted(found, key=lambda a: -axes[a]) for p, found in places.items() if found}
        for place, found in ranked.items():
            for axis in found:
                yield self._with_rows(node, {place: axis}, read)
        for axis in dict.fromkeys(a for found in ranked.values() for a in found):
            several = {p: axis for p, found in ranked.items() if axis in found}
            if len(several) > 1:
                yield self._with_rows(node, several, read)

    def _has_rows(self, array: np.ndarray, axis: int) -> bool:
        rows = np.split(array, self.size, axis) if array.shape[axis] == self.size else []
        return bool(rows) and all(np.array_equal(rows[0], row, equal_nan=row.dtype.kind == "f") for row in rows)

    def _with_rows(self, node: NodeProto, axes: Mapping[int, int], read: Mapping[str, Tensor]) -> _Repair:
        """The node with the first row of some inputs, as often as there are samples."""
        repaired, before = _copy(node), []
        constants: dict[str, np.ndarray] = {}
        for place, axis in axes.items():
            name = node.input[place]
            if self.size > 1:
                ends = [self._name("row") for _ in range(3)]
                constants.update(zip(ends, (np.asarray([n], np.int64) for n in (0, 1, axis)), strict=True))
                row = self._name("row")
                before.append(helper.make_node("Slice", [name, *ends], [row]))
                name = row
            ones = [1] * read[node.input[place]].together.ndim
            sizes = [part for part in (ones[:axis], ones[axis + 1 :]) if part]
            names = [self._name("ones") for _ in sizes]
            constants.update(zip(names, (np.asarray(s, np.int64) for s in sizes), strict=True))
            front = names[:1] if axis else []
            shape, rows = self._name("rows"), self._name("rows")
            parts = [*front, self._batch_name(), *names[len(front) :]]
            before.append(helper.make_node("Concat", parts, [shape], axis=0))
            before.append(helper.make_node("Expand", [name, shape], [rows]))
            repaired.input[place] = rows
        return _Repair(repaired, before, constants)

    def _with_input(self, node: NodeProto, place: int, array: np.ndarray) -> _Repair:
        repaired, name = _copy(node), self._name("sizes")
        repaired.input[place] = name
        return _Repair(repaired, [], {name: array})

    def _batch_name(self) -> str:
        """The tensor with the size of the batch, which is made in front of all nodes."""
        if not self._front:
            name, axis = next(iter(self.axes.items()))
            shape, made = self._name("shape"), self._name("size")
            at = self._name("axis")
            self._constants[at] = np.asarray([axis], np.int64)
            self._front = [
                helper.make_node("Shape", [name], [shape]),
                helper.make_node("Gather", [shape, at], [made], axis=0),
            ]
        return str(self._front[-1].output[0])

    def _name(self, stem: str) -> str:
        """A name that no tensor has."""
        return self._fresh(BATCH_CHANGE, stem)

    # ---- the result ----

    def _finished(self) -> ModelProto:
        """The model of what was written."""
        made = ModelProto()
        made.CopyFrom(self.model)
        graph = made.graph
        used = {name for node in self._written for name in reads(node)}
        del graph.node[:]
        graph.node.extend([*(self._front if self._front and self._front[-1].output[0] in used else []), *self._written])
        read = {name for node in graph.node for name in reads(node)}
        graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in self._constants.items() if k in read)
        del graph.value_info[:]
        for info in graph.input:
            if info.name in self.axes:
                self.inputs[info.name] = (described(info), "")
                _name_dim(info, self.axes[info.name])
                self.inputs[info.name] = (self.inputs[info.name][0], described(info))
        for info in graph.output:
            tensor = self.tensors[info.name]
            self.layouts[info.name] = tensor.layout
            dims = info.type.tensor_type.shape.dim
            if tensor.layout is None or not dims:
                continue
            if tensor.alone[0].shape[tensor.layout.axis] == self.size:
                _name_dim(info, tensor.layout.axis)
            else:
                dims[tensor.layout.axis].Clear()  # so many times the batch, for which there is no name
        return made


def _constant(array: np.ndarray) -> Tensor:
    return Tensor([array] * SEVERAL, array)


def _copy(node: NodeProto) -> NodeProto:
    made = NodeProto()
    made.CopyFrom(node)
    return made


def _name_dim(info: ValueInfoProto, axis: int) -> None:
    dim = info.type.tensor_type.shape.dim[axis]
    dim.Clear()
    dim.dim_param = BATCH


# ---- the whole models ------------------------------------------------------------------------------------------------


def _prove(
    before: ModelProto,
    after: ModelProto,
    axes: Mapping[str, int],
    size: int,
    sizes: Mapping[str, tuple[int, ...]],
    layouts: Mapping[str, Layout | None],
) -> float:
    """The largest difference between a sample in a batch and the same alone; raises Mixed where it is none of rounding.

    The original computes batches of its own size; the others are computed by the new model, sample by sample.
    """
    old, new = Runner(before), Runner(after)
    names = [o.name for o in after.graph.output]
    worst = 0.0
    for count in dict.fromkeys((size, *BATCHES, SEVERAL * size)):
        many = {n: tuple(count if axes.get(n) == k else d for k, d in enumerate(s)) for n, s in sizes.items()}
        feeds = _drawn(before, many, seed=count)
        step = size if count % size == 0 else 1
        runner = old if step == size else new
        try:
            whole = new.run(feeds)
            for first in range(0, count, step):
                given = {n: _part(v, Layout(axes[n]), first, step, count) if n in axes else v for n, v in feeds.items()}
                for name, together, alone in zip(names, whole, runner.run(given), strict=True):
                    worst = max(worst, _difference(name, together, alone, layouts[name], (first, step, count)))
        except Unrunnable as error:
            raise Mixed(f"the batch cannot be made dynamic: a batch of {count} does not run: {error}.") from None
    return worst


def _difference(
    name: str, together: np.ndarray, alone: np.ndarray, layout: Layout | None, at: tuple[int, int, int]
) -> float:
    first, step, count = at
    part = together if layout is None else _part(together, layout, first, step, count)
    tolerance = LOOSE * TOLERANCE.get(helper.np_dtype_to_tensor_dtype(alone.dtype), 0.0)
    found = compare(part, alone, tolerance=tolerance, finite=True)
    if found.why and not (layout is None and alone.dtype == np.int64):
        raise Mixed(
            f"the batch cannot be made dynamic: of the output '{name}', sample {first} of {count} is another one than "
            f"alone: {found.why}."
        )
    return 0.0 if found.why else found.error


__all__ = ["Axes", "Layout", "Mixed", "with_dynamic_batch"]
