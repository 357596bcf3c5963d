"""Give dimensions of inputs that share a name by accident names of their own.

Exporters write `?`, `None` or `unk__0` for every size that they do not know, and people one name for the height and the
width of an image. To ONNX, and to TensorRT from 8.5 on, one
name is one size: an engine is refused for a batch of 1 and an image of 640, or for two sentences of other lengths.

Whether sizes must be equal is found out by runs: where some of the dimensions double and the model still runs, these
are independent of the others. Sizes that must be equal keep one name.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from onnx import GraphProto, ModelProto, TensorShapeProto, ValueInfoProto

from surgeon.ir.lattice import Shapes
from surgeon.ir.protos import all_graphs, copied, given_inputs
from surgeon.ir.run import Runner, Unrunnable
from surgeon.pipeline.prepared import Asked, Prepared, Text, applied
from surgeon.proof.feeds import SizedInput
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import sizes_that_run

# What exporters write for a size of which they know nothing.
ACCIDENTAL = re.compile(r"\?|-1|None|none|unknown|unk__\d+|dynamic_axes_\d+")
PICTURE = 4  # dimensions of an input that may be an image
MOST_AXES = 16  # dimensions with accidental names; the runs grow with the square of that
SECONDS = 3.0  # for which sizes are tried with each of the ways to name them


class Axis(NamedTuple):
    """A dimension of an input."""

    input: str
    position: int


def prepare(asked: Asked) -> Prepared | None:
    """The model in which sizes that may differ have names of their own; None where all do.

    Raises UsageError where `shapes` does not fit the model.
    """
    model = asked.model
    shared = _shared(model)
    if not shared:
        return None
    axes = [axis for found in shared.values() for axis in found]
    made = copied(model)
    dims = _dims(made)
    taken = {d.dim_param for info in _declared(made.graph) for d in info.type.tensor_type.shape.dim}
    for axis in axes:
        dims[axis].dim_param = _fresh(axis, taken)
    try:
        groups = _Trial([made, model, _of_one_size(model, axes)], asked.base, asked.options.shapes, axes).groups()
    except Unrunnable as error:
        why = f"inputs share the sizes {', '.join(shared)}, and whether they must is not known: {error}"
        return Prepared(model, [], [why])
    _name(dims, groups, {axis: name for name, found in shared.items() for axis in found})
    renamed = [(old, new) for old, new in zip(model.graph.input, made.graph.input, strict=True) if old != new]
    if not renamed:
        return None
    _forget(made.graph, shared)
    before, after = (list(map(Text.of_info, infos)) for infos in zip(*renamed, strict=True))
    return Prepared(made, [applied("own-sizes", before, after, "the inputs", error=0.0)])


def _shared(model: ModelProto) -> dict[str, list[Axis]]:
    """The dimensions of inputs by name, of names that several have by accident."""
    found: dict[str, list[Axis]] = defaultdict(list)
    if not any(_may_be_shared(info) for info in model.graph.input):
        return found  # without a look at every weight
    for axis, dim in _dims(model).items():
        found[dim.dim_param].append(axis)
    found.pop("", None)
    pictures = {info.name for info in model.graph.input if len(info.type.tensor_type.shape.dim) >= PICTURE}
    several = {name: axes for name, axes in found.items() if len(axes) > 1}
    return {name: axes for name, axes in several.items() if ACCIDENTAL.fullmatch(name) or _are_sides(axes, pictures)}


def _may_be_shared(info: ValueInfoProto) -> bool:
    names = [d.dim_param for d in info.type.tensor_type.shape.dim if d.dim_param]
    return len(names) > len(set(names)) or any(map(ACCIDENTAL.fullmatch, names))


def _are_sides(axes: Sequence[Axis], pictures: Container[str]) -> bool:
    """Whether dimensions of one name are those of a single image."""
    return axes[0].input in pictures and all(axis.input == axes[0].input for axis in axes)


def _of_one_size(model: ModelProto, axes: Sequence[Axis]) -> ModelProto:
    """The model whose dimensions with accidental names have one name: the last of its sizes that are tried."""
    made = copied(model)
    for axis, dim in _dims(made).items():
        if axis in axes or ACCIDENTAL.fullmatch(dim.dim_param):
            dim.dim_param = "one_size"
    return made


def _dims(model: ModelProto) -> dict[Axis, TensorShapeProto.Dimension]:
    """The dimensions of the inputs that a caller gives."""
    return {
        Axis(info.name, k): dim for info in given_inputs(model) for k, dim in enumerate(info.type.tensor_type.shape.dim)
    }


def _fresh(axis: Axis, taken: set[str]) -> str:
    """A name for a dimension: `ids_1`."""
    name = re.sub(r"\W", "_", f"{axis.input}_{axis.position}")
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _name(
    dims: Mapping[Axis, TensorShapeProto.Dimension], groups: Sequence[Sequence[Axis]], old: Mapping[Axis, str]
) -> None:
    """Name each group after its first dimension; a group that is all of an old name keeps that."""
    counts = Counter(old.values())
    for group in groups:
        names = {old[axis] for axis in group}
        whole = len(names) == 1 and len(group) == counts[old[group[0]]]
        name = old[group[0]] if whole else dims[group[0]].dim_param
        for axis in group:
            dims[axis].dim_param = name


def _forget(graph: GraphProto, shared: Mapping[str, object]) -> None:
    """Take accidental names away from what the file declares of other tensors: they no longer say anything."""
    inputs = {info.name for info in graph.input}
    for info in _declared(graph):
        for dim in info.type.tensor_type.shape.dim if info.name not in inputs else ():
            if dim.dim_param in shared:
                dim.Clear()


def _declared(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """What a graph and its bodies declare of tensors."""
    for holder in all_graphs(graph):
        yield from (*holder.input, *holder.output, *holder.value_info)


class _Trial:
    """Runs a model at sizes of which some are doubled."""

    def __init__(self, models: Sequence[ModelProto], base: Path | None, shapes: Shapes, axes: Sequence[Axis]) -> None:
        """`models` has the model with a name for each of the `axes`, then as it was, then with one name for all.

        Raises Unrunnable where the model does not run at all, UsageError where `shapes` does not fit it.
        """
        if len(axes) > MOST_AXES:
            raise Unrunnable(f"{len(axes)} dimensions are more than are tried")
        self._axes = axes
        self._runner = Runner(models[0], base)
        sized = self._first_that_run(models, base, shapes)
        # A size of 1 is broadcast: a sum of two inputs would run with 1 and 2.
        shapes_by_name = {name: shape for name, _, shape in sized}
        self._sized = self._doubled(sized, [a for a in axes if shapes_by_name[a.input][a.position] == 1])
        if not self._runs(self._sized):
            raise Unrunnable("it runs with sizes of 1 alone")

    def _first_that_run(self, models: Sequence[ModelProto], base: Path | None, shapes: Shapes) -> list[SizedInput]:
        why = Unrunnable()
        for model in models:
            try:
                return sizes_that_run(model, self._runner.run, base=base, shapes=shapes, seconds=SECONDS)
            except Unrunnable as error:
                why = error
        raise why

    def groups(self) -> list[list[Axis]]:
        """The dimensions, those together that must be of one size."""
        found: list[list[Axis]] = []
        left = list(self._axes)
        for candidate in self._candidates():
            if all(a in left for a in candidate) and self._runs(self._doubled(self._sized, candidate)):
                found.append(candidate)
                left = [a for a in left if a not in candidate]
        return [*found, left] if left else found

    def _candidates(self) -> Iterator[list[Axis]]:
        """One dimension, then a position of all inputs, as of a sentence and its mask, then any two."""
        yield from ([axis] for axis in self._axes)
        for position in sorted({a.position for a in self._axes}):
            several = [a for a in self._axes if a.position == position]
            yield several
        yield from (list(two) for two in combinations(self._axes, 2))

    @staticmethod
    def _doubled(sized: Sequence[SizedInput], axes: Sequence[Axis]) -> list[SizedInput]:
        return [
            (name, elem, tuple(d * 2 if Axis(name, k) in axes else d for k, d in enumerate(shape)))
            for name, elem, shape in sized
        ]

    def _runs(self, sized: Sequence[SizedInput]) -> bool:
        """Whether the model runs at these sizes: integers may be positions in a table of two rows."""
        for below in (4, 2):
            _, feeds = next(valid_feeds(self._runner.model, sized, below=below))
            try:
                self._runner.run(feeds)
            except Unrunnable:
                continue
            return True
        return False
