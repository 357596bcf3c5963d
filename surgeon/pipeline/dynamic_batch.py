"""Make the batch of a finished model dynamic, and prove that each sample is computed as alone.

The model is run node by node. `alone` holds what each tensor is for one batch of the file's own size, `together` what
it is for several of them at once. What a node makes of several batches must be what it makes of each, one after the
other along some axis. Where it is not, the node is repaired: a batch that is in the constant of a Reshape, a Resize
or a Slice, or a tensor with one row for each sample that is the same in every row. What cannot be repaired mixes
samples, and is named. So is what puts the samples of an output elsewhere than along one dimension, which is the batch.
At the end both models are run as a whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from surgeon.errors import ModelError, UsageError, did_you_mean
from surgeon.ir.lattice import declared_shape
from surgeon.ir.protos import copied, given_inputs, label_of, reads, refill, unused
from surgeon.ir.run import Runner, Unrunnable
from surgeon.pipeline.nodewise import Layout, Tensor, Walk, depends_on_sizes_alone, difference, is_equal
from surgeon.pipeline.prepared import Asked, Prepared, Text, applied, fresh_name
from surgeon.proof.feeds import Feeds
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import sizes_that_run
from surgeon.report import Applied

Axes = Mapping[str, int | None]  # the axis of the batch by input; None for an input without a batch
NAME = "dynamic-batch"
BATCH = "batch"  # what the dimension is called
MOST_WALKS = 32  # ways to place the samples that are tried
SEVERAL = 2  # batches of the file's size that are computed at once, node by node
BATCHES = (1, 2, 3, 5)  # samples that the whole models are compared with
UNLIKE = ("random", "large", "shifted", "zero")  # kinds of samples that are side by side in one more batch


@dataclass(slots=True)
class _Repair:
    """Nodes and constants that are in a node's place."""

    node: NodeProto
    before: list[NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)


def prepare(asked: Asked) -> Prepared:
    """The model with a batch of any size.

    Raises ModelError with the node where samples mix, UsageError where the axes asked for do not fit the inputs.
    """
    source = asked.source
    _require_tensors(source)
    found = _batched_axes(source, asked.options.batch_axes or {})
    try:
        inputs = sizes_that_run(source, Runner(source, asked.base).run, base=asked.base, shapes=asked.options.shapes)
    except Unrunnable as error:
        raise Mixed(f"ONNX Runtime does not run the model: {error}") from None
    sized = {name: shape for name, _, shape in inputs}
    size = _size_of_the_batch(sized, found)
    walk, made = _walked(source, found, size, sized)
    worst = prove_batches(source, made, found, size, sized, walk.layouts)
    renamed = [name for name in found if name in walk.inputs]
    before, after = ([walk.inputs[name][k] for name in renamed] for k in (0, 1))
    records = [applied(NAME, before, after, "the inputs"), *walk.changes]
    usual = {0, *found.values()}
    warnings = [
        f"the batch of the output '{name}' is its dimension {layout.axis}, not the first one"
        for name, layout in walk.layouts.items()
        if layout is not None and layout.axis not in usual
    ]
    return Prepared(made, [record._replace(max_error=worst) for record in records], warnings)


# ---- the inputs ------------------------------------------------------------------------------------------------------


def _require_tensors(model: ModelProto) -> None:
    """Raises Mixed where an input or an output has no samples that could be told apart."""
    for word, infos in (("input", given_inputs(model)), ("output", model.graph.output)):
        for info in infos:
            kind = info.type.WhichOneof("value") or "tensor_type"
            if kind != "tensor_type":
                raise Mixed(f"the {word} '{info.name}' is not a tensor ({kind.removesuffix('_type')})")
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise Mixed(f"the weights '{name}' are sparse, which is not supported")


def _batched_axes(model: ModelProto, axes: Axes) -> dict[str, int]:
    """The axis of the batch by input: the first one of those that have there what the first input has."""
    infos = {i.name: declared_shape(i) for i in given_inputs(model)}
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
        raise ModelError("the model has no input with a batch. Give its axis: --batch-axis INPUT:AXIS.")
    return {name: found[name] for name in infos if name in found}


def _size_of_the_batch(sized: Mapping[str, tuple[int, ...]], axes: Mapping[str, int]) -> int:
    found = {sized[name][axis] for name, axis in axes.items()}
    if len(found) > 1:
        raise ModelError(f"the inputs have batches of {' and '.join(map(str, sorted(found)))}. Use --batch-axis.")
    size = found.pop()
    if not size:
        raise Mixed("the batch of the model is empty")
    return size


def _walked(
    model: ModelProto, axes: Mapping[str, int], size: int, sizes: Mapping[str, tuple[int, ...]]
) -> tuple[_Walk, ModelProto]:
    """The model with a dynamic batch. Where samples mix, a Reshape before it may place them otherwise."""
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


class _Walk(Walk):
    """Runs a model on several batches, each alone and all of them together, and repairs what holds the batch.

    layouts  where the samples lie in each output of the model; None where it does not depend on them
    inputs   (before, after) of each batched input, as text
    changes  what was repaired
    moved    by tensor, the node that put the samples elsewhere than along one dimension, which is the batch
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
        super().__init__(model)
        self.axes, self.size = axes, size
        self.choices = choices
        self.several: dict[str, int] = {}
        self.symbolic = any(
            not isinstance(d, int)
            for i in given_inputs(model)
            for k, d in enumerate(declared_shape(i))
            if axes.get(i.name) != k
        )
        self.layouts: dict[str, Layout | None] = {}
        self.inputs: dict[str, tuple[Text, Text]] = {}
        self.changes: list[Applied] = []
        self.moved: dict[str, str] = {}
        self.tensors.update({t.name: _constant(numpy_helper.to_array(t)) for t in model.graph.initializer})
        self._fresh = fresh_name(model)
        self._dimension = _name_of_the_dimension(model, axes)
        self._written: list[NodeProto] = []
        self._front: list[NodeProto] = []
        self._constants: dict[str, np.ndarray] = {}
        self._add_inputs(sizes)

    def _add_inputs(self, sizes: Mapping[str, tuple[int, ...]]) -> None:
        draws = [drawn(self.model, sizes, seed)[0] for seed in range(SEVERAL)]
        for info in given_inputs(self.model):
            arrays = [draw[info.name] for draw in draws]
            if info.name in self.axes:
                layout = Layout(self.axes[info.name])
                self.tensors[info.name] = Tensor(arrays, [joined(arrays, layout, self.size)], layout)
            else:
                self.tensors[info.name] = _constant(arrays[0])

    def run(self) -> ModelProto:
        """The model with a dynamic batch."""
        self.walk(self.model.graph.node)
        return self._finished()

    def visit(self, node: NodeProto, read: Mapping[str, Tensor]) -> list[Tensor]:
        """Compute what a node makes, and write it down as it is or repaired."""
        alike = all(t.is_same for t in read.values())
        try:
            alone = list(self.alone(node, read, 1 if alike else SEVERAL))
        except Unrunnable as error:
            raise Mixed(f"{named(node)} cannot be computed by itself: {error}") from None
        if alike:
            self._written.append(node)
            return [_constant(made) for made in alone[0]]
        why = ""
        reshapes = list(self._reshapes(node, read, alone[0][0].shape))
        explicit, others = ([repair for holds, repair in reshapes if holds is asked] for asked in (True, False))
        skipped = self.choices.get(node.output[0], 0)
        holding: list[tuple[_Repair, list[Tensor]]] = []
        computed = (*self._computed_sizes(node, read), *self._shared_rows(node, read))
        for repair in (*explicit, _Repair(node), *others, *computed):  # likeliest first
            try:
                found = self._together(repair, node, read, alone)
            except Unrunnable as error:
                why = why or ("" if "ONNX" in str(error) else str(error))
                continue
            if found is not None:
                holding.append((repair, found))
            if holding and node.op_type != "Reshape":
                break
        if holding:
            if len(holding) > 1:
                self.several[node.output[0]] = len(holding)
            repair, found = holding[min(skipped, len(holding) - 1)]
            self._note_moved(node, found)
            self._take(node, repair)
            return found
        raise Mixed(
            f"{named(node)} makes something else of a sample where others are beside it{f' ({why})' if why else ''}"
        )

    def _note_moved(self, node: NodeProto, made: Sequence[Tensor]) -> None:
        before = next((self.moved[name] for name in reads(node) if name in self.moved), None)
        for name, tensor in zip(filter(None, node.output), made, strict=True):
            if not self._is_placed(tensor):
                self.moved[name] = before or named(node)

    def _is_placed(self, tensor: Tensor) -> bool:
        """Whether a tensor has one dimension that is the batch, or does not depend on the batch at all."""
        if tensor.layout is None:
            return not tensor.sized
        return tensor.layout.outer == 1 and tensor.alone[0].shape[tensor.layout.axis] == self.size

    def _take(self, node: NodeProto, repair: _Repair) -> None:
        self._written += [*repair.before, repair.node]
        self._constants.update(repair.constants)
        if repair.node is not node:
            added = [Text.of(n) for n in (*repair.before, repair.node)]
            self.changes.append(applied(NAME, [Text.of(node)], added, label_of(node), node.output))

    def _together(
        self, repair: _Repair, node: NodeProto, read: Mapping[str, Tensor], alone: list[list[np.ndarray]]
    ) -> list[Tensor] | None:
        """What the repaired node makes of all batches; None where that is not what it makes of each."""
        nodes = [*repair.before, repair.node]
        constants = dict(repair.constants)
        if self._front:
            constants[self._batch_name()] = np.asarray([self.size * SEVERAL], np.int64)
        (made,) = self.together(nodes, read, 1, constants)
        sized = depends_on_sizes_alone(node, read)
        hints = {t.layout.outer for t in read.values() if t.layout is not None}
        found = [self._located([a[k] for a in alone], whole, hints, sized) for k, whole in enumerate(made)]
        return None if None in found else found  # type: ignore[return-value]

    def _located(self, alone: list[np.ndarray], whole: np.ndarray, hints: set[int], sized: bool) -> Tensor | None:
        """The tensor, with where its samples lie; None where it is not what it is for each batch."""
        if all(a.shape == whole.shape for a in alone) and all(is_equal(whole, a) for a in alone):
            return Tensor(alone, alone[:1])
        if sized:
            return Tensor(alone, [whole], sized=True)
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
            merged = joined(alone, layout, self.size)
            if is_equal(whole, merged):
                return Tensor(alone, [merged], layout)
        return None

    # ---- repairs ----

    def _reshapes(
        self, node: NodeProto, read: Mapping[str, Tensor], made: tuple[int, ...]
    ) -> Iterator[tuple[bool, _Repair]]:
        """A Reshape with the batch where the samples come to lie in row-major order, and whether its target has the
        file's batch there."""
        if node.op_type != "Reshape" or len(node.input) < 2:
            return
        given, target = read[node.input[0]], read[node.input[1]]
        if given.layout is None or not target.is_same:
            return
        before = math.prod(given.alone[0].shape[: given.layout.axis]) * given.layout.outer
        asked = target.together[0].tolist()
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
                repair = _Repair(copied(node))
                repair.node.input[1] = self._name("sizes")
                repair.constants[repair.node.input[1]] = np.asarray(sizes, np.int64)
                yield asked[axis] == self.size, repair

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
            if place == 0 or tensor is None or not tensor.is_same or tensor.together[0].dtype != np.int64:
                continue
            sizes = tensor.together[0]
            if sizes.ndim != 1:
                continue
            for k in [k for k, d in enumerate(sizes.tolist()) if d == self.size]:
                repair = _Repair(copied(node))
                repair.node.input[place] = self._sizes_with_batch(repair, sizes.tolist(), k, "sizes", "sizes")
                yield repair

    def _sizes_with_batch(self, repair: _Repair, sizes: Sequence[int], k: int, part: str, whole: str) -> str:
        """A list of sizes with the batch's at position k, which a repair computes; both stems are for its names."""
        names = []
        for given in (sizes[:k], None, sizes[k + 1 :]):
            if given is None:
                names.append(self._batch_name())
            elif given:
                names.append(self._name(part))
                repair.constants[names[-1]] = np.asarray(given, np.int64)
        if len(names) == 1:
            return names[0]
        made = self._name(whole)
        repair.before.append(helper.make_node("Concat", names, [made], axis=0))
        return made

    def _shared_rows(self, node: NodeProto, read: Mapping[str, Tensor]) -> Iterator[_Repair]:
        """A tensor with a row for each sample of the file's batch, all of them alike, gets as many as there are.

        Alone, one after the other, and all of them: the initial states of an LSTM come in pairs.
        """
        axes = Counter(t.layout.axis for t in read.values() if t.layout is not None)
        places: dict[int, list[int]] = {}
        for place, name in enumerate(node.input):
            tensor = read.get(name)
            if tensor is not None and tensor.is_same:
                array = tensor.together[0]
                places[place] = [a for a in range(array.ndim) if self._has_rows(array, a)]
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
        repair = _Repair(copied(node))
        for place, axis in axes.items():
            name = node.input[place]
            if self.size > 1:
                ends = [self._name("row") for _ in range(3)]
                repair.constants.update(zip(ends, (np.asarray([n], np.int64) for n in (0, 1, axis)), strict=True))
                row = self._name("row")
                repair.before.append(helper.make_node("Slice", [name, *ends], [row]))
                name = row
            ones = [1] * read[node.input[place]].together[0].ndim
            shape = self._sizes_with_batch(repair, ones, axis, "ones", "rows")
            rows = self._name("rows")
            repair.before.append(helper.make_node("Expand", [name, shape], [rows]))
            repair.node.input[place] = rows
        return repair

    def _batch_name(self) -> str:
        """The tensor with the size of the batch, which is made before all nodes."""
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
        return self._fresh(NAME, stem)

    # ---- the result ----

    def _finished(self) -> ModelProto:
        """The model of what was written."""
        made = copied(self.model)
        graph = made.graph
        used = {name for node in self._written for name in reads(node)}
        refill(
            graph.node, [*(self._front if self._front and self._front[-1].output[0] in used else []), *self._written]
        )
        read = {name for node in graph.node for name in reads(node)}
        graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in self._constants.items() if k in read)
        del graph.value_info[:]
        for info in graph.input:
            if info.name in self.axes:
                before = Text.of_info(info)
                _name_dim(info, self.axes[info.name], self._dimension)
                self.inputs[info.name] = before, Text.of_info(info)
        for info in graph.output:
            layout = self._layout_of_output(info.name)
            self.layouts[info.name] = layout
            if layout is not None and info.type.tensor_type.shape.dim:
                _name_dim(info, layout.axis, self._dimension)
        return made

    def _layout_of_output(self, name: str) -> Layout | None:
        """Where the samples of an output are. Raises Mixed where not each has a position of its own along one axis."""
        tensor = self.tensors[name]
        if self._is_placed(tensor):
            return tensor.layout
        if tensor.sized:
            raise Mixed(f"the output '{name}' holds the size of the batch, by {self.moved[name]}")
        raise Mixed(
            f"{self.moved[name]} puts the samples elsewhere than along one dimension, and the output '{name}' has no "
            "dimension that is the batch"
        )


def _constant(array: np.ndarray) -> Tensor:
    return Tensor([array] * SEVERAL, [array])


def _name_of_the_dimension(model: ModelProto, axes: Mapping[str, int]) -> str:
    """What the batch is called: a name that no other dimension of an input has."""
    taken = {
        dim.dim_param
        for info in given_inputs(model)
        for axis, dim in enumerate(info.type.tensor_type.shape.dim)
        if axes.get(info.name) != axis
    }
    return unused(BATCH, taken)


def _name_dim(info: ValueInfoProto, axis: int, name: str) -> None:
    dim = info.type.tensor_type.shape.dim[axis]
    dim.Clear()
    dim.dim_param = name


# ---- batches ---------------------------------------------------------------------------------------------------------


class Mixed(ModelError):
    """A node computes something else for a sample where others are beside it; `why` says which, as a clause."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the batch cannot be made dynamic: {why.rstrip('.')}.")


def named(node: NodeProto) -> str:
    """What a message calls a node."""
    return f"{label_of(node)} ({node.op_type})"


# ---- samples ---------------------------------------------------------------------------------------------------------


def drawn(
    model: ModelProto, sizes: Mapping[str, tuple[int, ...]], seed: int, kinds: Sequence[str] = ("random",)
) -> list[Feeds]:
    """Values for the inputs, of each of these kinds that their types have."""
    inputs = [(i.name, i.type.tensor_type.elem_type, sizes[i.name]) for i in given_inputs(model)]
    return [feeds for _, feeds in valid_feeds(model, inputs, seed, kinds=kinds)]


def _unlike(draws: Sequence[Feeds], axes: Mapping[str, int], count: int) -> Feeds:
    """A batch whose samples are taken from one draw after the other: what is large in one may be seen in the others."""
    found = dict(draws[0])
    for name, axis in axes.items():
        layout = Layout(axis)
        rows = [_part(draws[k % len(draws)][name], layout, k, 1, count) for k in range(count)]
        found[name] = np.concatenate(rows, axis)
    return found


def joined(batches: Sequence[np.ndarray], layout: Layout, size: int) -> np.ndarray:
    """Several batches one after the other; `size` is that of each."""
    parts = [_split(batch, layout, size) for batch in batches]
    whole = np.concatenate(parts, layout.axis + 1)
    return _merged(whole, layout.axis)


def _split(batch: np.ndarray, layout: Layout, size: int) -> np.ndarray:
    """The axis of the samples in three: what is counted before them, the samples, what is after."""
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


# ---- the whole models ------------------------------------------------------------------------------------------------


def prove_batches(
    before: ModelProto,
    after: ModelProto,
    axes: Mapping[str, int],
    size: int,
    sizes: Mapping[str, tuple[int, ...]],
    layouts: Mapping[str, Layout | None],
) -> float:
    """The largest difference between a sample in a batch and the same alone; raises Mixed where it is none of rounding.

    The original computes batches of its own size; the others are computed by the new model, sample by sample. One more
    batch has samples that are not alike.
    """
    old, new = Runner(before), Runner(after)
    names = [o.name for o in after.graph.output]
    makers = {o: f" of {named(node)}" for node in after.graph.node for o in node.output}

    def sized(count: int) -> dict[str, tuple[int, ...]]:
        return {n: tuple(count if axes.get(n) == k else d for k, d in enumerate(s)) for n, s in sizes.items()}

    counts = dict.fromkeys((size, *BATCHES, SEVERAL * size))
    batches = [(count, drawn(before, sized(count), seed=count)[0]) for count in counts]
    most = max(counts) // size * size
    batches.append((most, _unlike(drawn(before, sized(most), seed=most, kinds=UNLIKE), axes, most)))
    worst = 0.0
    for count, feeds in batches:
        step = size if count % size == 0 else 1
        runner = old if step == size else new
        try:
            parts = [
                {n: _part(v, Layout(axes[n]), first, step, count) if n in axes else v for n, v in feeds.items()}
                for first in range(0, count, step)
            ]
            alone = [runner.run(part) for part in parts]
            whole = new.run(feeds)
        except Unrunnable as error:
            raise Mixed(f"a batch of {count} does not run: {error}") from None
        for k, results in enumerate(alone):
            for name, together, expected in zip(names, whole, results, strict=True):
                told = f"the output '{name}'{makers.get(name, '')}"
                worst = max(worst, _difference(told, together, expected, layouts[name], (k * step, step, count)))
    return worst


def _difference(
    told: str, together: np.ndarray, alone: np.ndarray, layout: Layout | None, at: tuple[int, int, int]
) -> float:
    """How far the samples of an output are from the same alone; raises Mixed where it is not by rounding.

    told  the output's name in a message
    at    the first of them, how many they are, and how many there are in all
    """
    first, step, count = at
    if layout is None:
        part = together
    elif together.ndim > layout.axis and together.shape[layout.axis] == count:
        part = _part(together, layout, first, step, count)
    else:
        raise Mixed(f"{told} has the shape {list(together.shape)} for a batch of {count}")
    found = difference(part, alone)
    if found.why:
        raise Mixed(f"in {told}, sample {first} of {count} differs from the same sample alone: {found.why}")
    return found.error
