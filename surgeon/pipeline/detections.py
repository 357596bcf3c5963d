"""Give what a NonMaxSuppression returns a fixed number of rows, and prove that every row is computed as before.

How many boxes it finds follows from the data, which TensorRT-RTX has no form for. Filled up with rows of padding the
sizes are fixed, and one more output says how many rows count. That is another interface, so it is made on request.

The rows that count are the node's own, since it stays. Whether what is computed of them stays, is found out by running
the nodes after it one by one, on drawn rows and on the same with other rows after them: each result must have the
rows before that it had without those. A node that makes something else of them is named.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError, UsageError
from surgeon.ir.functions import opset_of
from surgeon.ir.lattice import Shapes
from surgeon.ir.protos import all_nodes, copied, label_of, reads, reads_instead, refill, returning, unused
from surgeon.ir.run import Runner, Unrunnable, must_run
from surgeon.pipeline.dynamic_batch import named
from surgeon.pipeline.nodewise import Layout, Tensor, Walk, depends_on_sizes_alone, difference, is_equal
from surgeon.pipeline.prepared import Asked, Fresh, Prepared, Text, applied, fresh_name
from surgeon.proof.feeds import Feeds
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import sizes_that_run, tensors_of_a_run
from surgeon.report import Applied
from surgeon.rules.meaning import Speller

NMS = "NonMaxSuppression"
COLUMNS = 3  # of its rows: image, class, box
PADDING = -1  # what a row that does not count holds, where the rows themselves are an output of the model
# Of each trial: how many boxes are found, and how many rows of padding follow them; further nodes have more of
# both. Few of many: a largest one of all rows is hardly among those that are found each time.
TRIALS = ((1, 20), (2, 20), (1, 30), (5, 40), (1, 20), (0, 9))
LEAST = 8  # boxes that a model must be run on, to tell rows apart
SEEDS = 2  # random inputs on which the whole models are compared

CUT_OFF = "{}: its rows are ordered by image and class; of more than {} boxes those of the last ones are cut off"


class Dependent(ModelError):
    """A node computes something else of a row where rows of padding follow it."""


def prepare(asked: Asked) -> Prepared:
    """The model with N rows from each NonMaxSuppression, and an output that says how many of them count.

    Raises ModelError with the node that computes something else of padded rows, UsageError where there is nothing to
    pad.
    """
    count, base, shapes = asked.options.detections or 0, asked.base, asked.options.shapes
    if count < 1:
        raise UsageError(f"a NonMaxSuppression returns at least one row, not {count}.")
    source = asked.source
    nodes = [n for n in source.graph.node if _is_suppression(n)]
    if not nodes:
        inner = any(_is_suppression(n) for n in all_nodes(source.graph))
        where = "outside of the bodies of If and Loop" if inner else "in it"
        raise UsageError(f"the model has no NonMaxSuppression {where}, so no rows can be fixed.")
    rows, many = _Trials(source, nodes, base, shapes).run()
    made, records = _written(source, nodes, count)
    error, sizes = _compared(source, made, rows, base, shapes)
    for info in made.graph.output:
        dims = info.type.tensor_type.shape.dim
        if info.name in sizes and dims:
            dims[rows[info.name]].Clear()
            dims[rows[info.name]].dim_value = sizes[info.name]
    warnings = [CUT_OFF.format(label, count) for label in many]
    return Prepared(made, [record._replace(max_error=error) for record in records], warnings)


def _is_suppression(node: NodeProto) -> bool:
    return node.op_type == NMS and node.domain in ("", "ai.onnx")


# ---- what is computed of the rows ------------------------------------------------------------------------------------


class _Trials(Walk):
    """Runs what follows the nodes, on drawn rows alone and together with rows of padding."""

    def __init__(self, model: ModelProto, nodes: list[NodeProto], base: Path | None, shapes: Shapes) -> None:
        super().__init__(model)
        self.nodes, self.base, self.shapes = nodes, base, shapes

    def run(self) -> tuple[dict[str, int], list[str]]:
        """The axis of the rows, by output of the model that has them, and the nodes with several images or classes.

        Raises ModelError.
        """
        behind = self._behind()
        given = self._given(behind)
        rng = np.random.default_rng(0)
        for place, node in enumerate(self.nodes):
            self.tensors[node.output[0]] = _drawn(rng, place, given[node.input[0]].shape, given[node.input[1]].shape)
        for name, array in given.items():
            self.tensors[name] = Tensor([array] * len(TRIALS), [array] * len(TRIALS))
        self.walk(behind)
        found = {o.name: self.tensors[o.name] for o in self.model.graph.output if o.name in self.tensors}
        for name, tensor in found.items():
            if tensor.sized:
                raise Dependent(f"the output '{name}' says how many rows there are, so their number cannot be fixed.")
        many = [label_of(n) for n in self.nodes if given[n.input[1]].shape[:2] != (1, 1)]
        return {name: tensor.layout.axis for name, tensor in found.items() if tensor.layout is not None}, many

    def _behind(self) -> list[NodeProto]:
        """The nodes that are computed of the rows, in order."""
        depends = {n.output[0] for n in self.nodes}
        found = []
        for node in self.model.graph.node:
            if depends.isdisjoint(reads(node)):
                continue
            if _is_suppression(node):
                raise ModelError(f"{label_of(node)} reads the result of another one, so their rows cannot be fixed.")
            found.append(node)
            depends.update(node.output)
        return found

    def _given(self, behind: Sequence[NodeProto]) -> Feeds:
        """What later nodes read from elsewhere, and the boxes and scores, as random inputs make them."""
        made = {n.output[0] for n in self.nodes}
        names = [i for n in self.nodes for i in n.input[:2]]
        for node in behind:
            names += [name for name in reads(node) if name not in made]
            made.update(node.output)
        weights = {t.name for t in self.model.graph.initializer}
        wanted = [name for name in dict.fromkeys(names) if name not in weights]
        runs = tensors_of_a_run(returning(self.model, ()), wanted, folder=self.base, shapes=self.shapes)
        if not runs:
            raise ModelError("the rows cannot be fixed: ONNX Runtime does not run the model.")
        boxes = self.nodes[0].input[0]
        largest = max(runs, key=lambda run: run[boxes].size if boxes in run else 0)
        rng = np.random.default_rng(0)
        constants = {t.name: numpy_helper.to_array(t) for t in self.model.graph.initializer if t.name in names}
        return {**constants, **{name: _varied(rng, array) for name, array in largest.items()}}

    def visit(self, node: NodeProto, read: Mapping[str, Tensor]) -> list[Tensor]:
        """Compute what a node makes in each trial. Raises ModelError."""
        alone: list[list[np.ndarray]] = []
        why = ""
        try:
            for made in self.alone(node, read, min(len(t.alone) for t in read.values())):
                alone.append(made)
        except Unrunnable as error:
            why = str(error)
        if not alone:  # in a later trial nothing was found, and the original ends there too
            raise _dependent(node, why)
        try:
            together = list(self.together([node], read, len(alone), {}))
        except Unrunnable as error:
            raise _dependent(node, str(error)) from None
        sized = depends_on_sizes_alone(node, read)
        outputs = zip(zip(*alone, strict=True), zip(*together, strict=True), strict=True)
        found = [_placed(list(one), list(other), sized) for one, other in outputs]
        if None in found:
            raise _dependent(node)
        return found  # type: ignore[return-value]


def _dependent(node: NodeProto, why: str = "") -> Dependent:
    return Dependent(
        f"the rows of {NMS} cannot be fixed: {named(node)} makes something else of them where rows of padding are "
        f"after them{f' ({why})' if why else ''}."
    )


def _varied(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Numbers that tell rows apart: a model makes the same of much that is drawn for its inputs."""
    return rng.standard_normal(array.shape).astype(array.dtype) if array.dtype.kind == "f" and array.size > 1 else array


def _drawn(rng: np.random.Generator, place: int, boxes: tuple[int, ...], scores: tuple[int, ...]) -> Tensor:
    """Rows of image, class and box. Each node finds as many as no other one does."""
    limits = [scores[0], scores[1], boxes[1]]
    if boxes[1] < LEAST or 0 in limits:
        raise ModelError(
            f"the rows cannot be fixed: the model was run on {boxes[1]} boxes. Give larger sizes: --shapes."
        )
    padded = [rng.integers(0, limits, (found + more + 2 * place, COLUMNS)) for found, more in TRIALS]
    alone = [rows[: found + (place if found else 0)] for rows, (found, _) in zip(padded, TRIALS, strict=True)]
    return Tensor(alone, padded, Layout(0))


def _placed(alone: list[np.ndarray], padded: list[np.ndarray], sized: bool) -> Tensor | None:
    """The tensor, with the axis of the padding; None where it does not follow the rows that count."""
    pairs = list(zip(alone, padded, strict=True))
    if all(is_equal(a, p) for a, p in pairs):
        return Tensor(alone, padded)
    rank = alone[0].ndim
    for axis in range(rank):
        if all(p.ndim == rank and a.shape[axis] <= p.shape[axis] and _is_front(a, p, axis) for a, p in pairs):
            return Tensor(alone, padded, Layout(axis))
    return Tensor(alone, padded, sized=True) if sized else None


def _is_front(alone: np.ndarray, padded: np.ndarray, axis: int) -> bool:
    """Whether the padded tensor begins with the other one."""
    return is_equal(alone, np.take(padded, range(alone.shape[axis]), axis))


# ---- the new model ---------------------------------------------------------------------------------------------------


def _written(model: ModelProto, nodes: Sequence[NodeProto], count: int) -> tuple[ModelProto, list[Applied]]:
    """The model with padded rows and outputs that say how many count, and the records of both."""
    made = copied(model)
    fresh, graph = fresh_name(made), made.graph
    opset, returned = opset_of(made), {o.name for o in graph.output}
    results = {node.output[0] for node in nodes}
    renamed: dict[str, str] = {}
    written: list[NodeProto] = []
    records = []
    for node in list(graph.node):
        for old, new in renamed.items():
            reads_instead(node, old, new)
        written.append(node)
        if node.output[0] not in results or not _is_suppression(node):
            continue
        name, before = node.output[0], Text.of(node)
        node.output[0] = fresh(name, "found")
        if name in returned:
            renamed[name] = fresh(name, "usable")
        number = unused("detections", {o.name for o in graph.output})
        added = _padding(node.output[0], name, renamed.get(name), number, count, opset, fresh)
        written += added
        graph.output.append(helper.make_tensor_value_info(number, TensorProto.INT64, [1]))
        after = [Text.of(n) for n in (node, *added)]
        records.append(applied("detections", [before], after, before.label, [name, number]))
    refill(graph.node, written)
    del graph.value_info[:]
    return made, records


def _padding(
    found: str, rows: str, usable: str | None, number: str, count: int, opset: int, fresh: Fresh
) -> list[NodeProto]:
    """The nodes that fill up what was found.

    rows    what the model reads instead; where it returns them, rows of padding say so
    usable  what it reads where it returns the rows, too
    number  how many rows count
    """
    f = Speller(opset, TensorProto.INT64)
    whole = f.Concat(found, np.full((count, COLUMNS), PADDING), axis=0)
    padded = f.Slice(whole, starts=[0], ends=[count], axes=[0])
    counts = f.Greater(f.Slice(padded, starts=[0], ends=[1], axes=[1]), PADDING)
    total = f.ReduceSum(f.Cast(counts, to=TensorProto.INT64), axes=[0], keepdims=0)
    first = f.Where(f.Less(padded, 0), 0, padded)  # a place that every tensor has
    names = {total: number, **({first: rows} if usable is None else {padded: rows, first: usable})}
    for node in f.nodes:
        for name in node.output:
            names.setdefault(name, fresh(rows, node.op_type))
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names[name] for name in node.output]
    return f.nodes


def _compared(
    before: ModelProto, after: ModelProto, rows: Mapping[str, int], base: Path | None, shapes: Shapes
) -> tuple[float, dict[str, int]]:
    """The largest difference between the rows that count, and how many rows each output has."""
    old, new = Runner(before, base), Runner(after, base)
    with must_run("the rows cannot be fixed: ONNX Runtime does not run the model", end="."):
        sized = sizes_that_run(before, lambda feeds: (old.run(feeds), new.run(feeds)), base=base, shapes=shapes)
    worst, sizes = 0.0, {}
    for seed in range(SEEDS):
        feeds = next(valid_feeds(before, sized, seed))[1]
        try:
            expected = old.run(feeds)
        except Unrunnable:  # at the same sizes it ran on other numbers
            continue
        with must_run("the rows cannot be fixed: ONNX Runtime does not run what was written", end="."):
            given = new.run(feeds)
        for info, one, other in zip(before.graph.output, expected, given, strict=False):
            axis = rows.get(info.name)
            if axis is not None:
                sizes[info.name] = other.shape[axis]
                shared = range(min(one.shape[axis], other.shape[axis]))
                one, other = np.take(one, shared, axis), np.take(other, shared, axis)
            found = difference(other, one)
            if found.why:
                raise ModelError(f"the rows cannot be fixed: the output '{info.name}' changes: {found.why}.")
            worst = max(worst, found.error)
    return worst, sizes
