"""Which window makes two models differ: the smallest one whose inputs agree and whose output does not.

Tensors that have the same name in both models cut both into windows. Where ONNX Runtime tells the models apart, each
window of the rewritten model is run on the values that the *original* has at its inputs, next to the original's own, so
rounding does not pile up on the way: `bisect`.

Where ONNX Runtime agrees and another way of running the rewritten model does not (an engine, the network that
TensorRT's parser built), the outputs of its windows, and no others, become outputs of the model, so that fusion inside
them survives: one run shows which differ from ONNX Runtime's. Where the difference is gone then, fusion over the marks
makes it, and a binary search finds the most marks that it survives. The window is cut out and run alone to confirm it,
and narrowed the same way inside: `bisect_way`.
"""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from surgeon.errors import EngineError, ModelError
from surgeon.ir.files import check_writable, read, with_weights
from surgeon.ir.lattice import FLOATS
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, reads, returning
from surgeon.ir.run import Runner, Unrunnable
from surgeon.ir.schemas import DOMAIN
from surgeon.pipeline.freezing import frozen, sizes_fixed_in
from surgeon.precision.formats import computes_in_half
from surgeon.precision.standard import Standard, Trial, fed
from surgeon.proof.equality import TOLERANCE, is_float
from surgeon.rules.meaning import with_functions
from surgeon.trt.compare import as_onnx
from surgeon.trt.comparison import Comparison
from surgeon.trt.runners import Engine, Feeds, OnnxRuntime, Way, save

WINDOW = TOLERANCE[TensorProto.FLOAT16]  # of a window in half precision: its error is a part of the model's
AGREES = "every window that runs by itself agrees: the difference builds up over several"
MADE = re.compile(r"~([a-z0-9-]+)/")  # new tensors and nodes are called <old output>~<pass>/<Op>_<n>


@dataclass(slots=True)
class Culprit:
    """The window that differs: `output` is its tensor, `passes` made its nodes,
    `nodes` are those of the rewritten model.

    before   the original's window; None where a way of running the rewritten model differs from ONNX Runtime on it
    way      how the rewritten model was run
    note     how the window was found, where that says something about it
    ran      whether the window runs by itself
    """

    output: str
    passes: list[str]
    nodes: list[str]
    why: str
    before: ModelProto | None
    after: ModelProto
    feeds: Feeds = field(default_factory=dict)
    way: Way = field(default_factory=OnnxRuntime)
    note: str = ""
    ran: bool = True

    def __str__(self) -> str:
        made = f"made by {', '.join(self.passes)}" if self.passes else "not made by a pass"
        if self.before is not None:
            return f"the first tensor that differs is '{self.output}', {made}: {self.why}"
        shown = ", ".join(self.nodes[:4]) + (f" and {len(self.nodes) - 4} more" if len(self.nodes) > 4 else "")
        note = f" ({self.note})" if self.note else ""
        return (
            f"the smallest window that differs on {self.way.title} gives '{self.output}': {shown}, {made}: "
            f"{self.why}{note}"
        )

    @property
    def again(self) -> str:
        """The words of `surgeon compare` that show the difference again,
        with the names of the files that `save` wrote."""
        if self.before is not None:
            return "window_original.onnx window_rewritten.onnx --no-trt --data inputs.npz"
        how = self.way.words if isinstance(self.way, Engine) else ["--no-trt", "--network"]
        return shlex.join(["window.onnx", "window.onnx", *how, "--data", "inputs.npz"])

    def save(self, folder: Path) -> list[Path]:
        """Write the window (of both models where both have one) and its inputs, as files that run by themselves."""
        folder.mkdir(parents=True, exist_ok=True)
        models = {"window_original.onnx": self.before, "window_rewritten.onnx": self.after}
        if self.before is None:
            models = {"window.onnx": self.after}
        for name, model in models.items():
            if model is not None:
                save(model, folder / name)
        np.savez(folder / "inputs.npz", **self.feeds)  # type: ignore[arg-type]
        return [folder / name for name in (*models, "inputs.npz")]


FILES = ("window.onnx", "window_original.onnx", "window_rewritten.onnx", "inputs.npz")


def check_folder(folder: Path, *sources: Path) -> None:
    """Raise ModelError where `folder` cannot take the files of a culprit, which never replace one of the `sources`."""
    if folder.exists() and not folder.is_dir():
        raise ModelError(f"'{folder}' is a file; name a folder for what --bisect finds.")
    if not folder.exists():
        return
    for name in FILES:
        check_writable(folder / name, *sources)


def bisect_files(
    original: Path, rewritten: Path, comparison: Comparison, values: Mapping[str, Any] | None = None
) -> Culprit | str:
    """The window that makes two models differ, on the inputs on which `comparison` saw it; or why there is none.

    ONNX Runtime's difference comes first: where the models themselves differ, a way of running them says nothing new.
    """
    for side in comparison.sides:
        if side.differing is not None:
            kind, feeds = side.differing
            before, after = read(original), read(rewritten)
            before, _ = frozen(before, {**sizes_fixed_in(after, before), **(values or {})})
            try:
                if not isinstance(side.way, OnnxRuntime):
                    return bisect_way(before, after, side.way, feeds, rewritten.parent, kind)
                return bisect(before, with_functions(after), feeds, original.parent, kind, rewritten.parent) or AGREES
            except Unrunnable as error:
                return f"ONNX Runtime does not give the tensors between the windows: {error}"
    return "no output differs"


# ---- one way on two models -------------------------------------------------------------------------------------------


def bisect(
    before: ModelProto,
    after: ModelProto,
    feeds: Feeds,
    base: Path | None = None,
    kind: str = "random",
    base_after: Path | None = None,
) -> Culprit | None:
    """The first window that differs on `feeds`; None where every window agrees by itself.

    `base` and `base_after` are the folders of external weights: they are read. Every tensor that the models share is
    kept at once, so this takes the memory of all activations. A window that does not run is to blame only where the
    rewritten model does not run either. Raises Unrunnable where the original does not run.
    """
    first, second = with_weights(before, base), with_weights(after, base_after or base)
    made, made_after = _makers(first), _makers(second)
    values = _values(first, [name for name in made_after if name in made], feeds)
    runs, types = _runs(second, feeds), _float_types(second)
    for name in [name for name in made_after if name in values]:
        if _same_node(made[name], made_after[name]):
            continue
        found = _differs(name, first, second, values, kind, types)
        if found is not None and (found.ran or not runs):
            return found
    return None


# ---- two ways on one model -------------------------------------------------------------------------------------------


def bisect_way(
    before: ModelProto, after: ModelProto, way: Way, feeds: Feeds, base: Path | None = None, kind: str = "random"
) -> Culprit | str:
    """The smallest window of `after` on which `way` differs from ONNX Runtime; or why none was found.

    `before` is the original: its tensors tell the windows. Weights in the folder `base` are read. A window of many
    nodes that differs is run with all its tensors as outputs, which takes the memory of all its activations.
    """
    model = with_weights(after, base)
    search = _Search(way, kind)
    found = search.narrowed(_Window(model, feeds), _window_outputs(before, model))
    while found is not None and len(found.model.graph.node) > 1:
        smaller = search.narrowed(found, _marks(found.model, _outputs(found.model)))
        if smaller is None or len(smaller.model.graph.node) == len(found.model.graph.node):
            break
        found = smaller
    if found is None:
        return search.refused or "the model as a whole agrees now"
    nodes = found.model.graph.node
    return Culprit(
        found.output, _passes(nodes), [_label(n) for n in nodes], found.why, None, found.model, found.feeds, way,
        search.note,
    )  # fmt: skip


@dataclass(slots=True)
class _Window:
    """A model with the inputs to run it on; `output` differs by itself, and `why` says by how much."""

    model: ModelProto
    feeds: Feeds
    output: str = ""
    why: str = ""


class _Search:
    """Runs marked models in one way and in ONNX Runtime.

    note      what fusion has to do with what was found
    refused   why a marked model or a window did not run
    """

    def __init__(self, way: Way, kind: str) -> None:
        self.way, self.kind, self.note, self.refused = way, kind, "", ""

    def narrowed(self, window: _Window, marks: Sequence[str]) -> _Window | None:
        """The window between two marks that differs by itself; None where the window as a whole does not differ."""
        values = _values(with_functions(window.model), [*marks, *_outputs(window.model)], window.feeds)
        marks = [name for name in marks if values[name].dtype.kind not in "OSU"]  # numbers, no text and no sequences
        kept, found = self.surviving(window, marks, values)
        known = (*window.feeds, *kept)
        cuts = [(name, _window(window.model, name, known, values)) for name in found]
        # Where the inputs of a window agree already, its own nodes make the difference: those are tried first.
        for name, model in sorted(cuts, key=lambda cut: any(i.name in found for i in cut[1].graph.input)):
            alone = self.alone(model, values, name)
            if alone is not None:
                return alone
        for name in found:  # what comes before the window takes part
            alone = self.alone(_window(window.model, name, window.feeds, values), values, name)
            if alone is not None:
                self.note = "no window between its tensors differs by itself: what comes before takes part"
                return alone
        return None

    def alone(self, model: ModelProto, values: Feeds, output: str) -> _Window | None:
        """A window cut out, if it differs by itself."""
        feeds = {i.name: values[i.name] for i in model.graph.input}
        why = self.differing(model, feeds, [], {output: values[output]}).get(output)
        return None if why is None else _Window(model, feeds, output, why)

    def surviving(self, window: _Window, marks: Sequence[str], values: Feeds) -> tuple[list[str], dict[str, str]]:
        """The most marks with which something still differs, and what does (all marks, where they change nothing)."""
        found = self.differing(window.model, window.feeds, marks, values)
        if found or not marks:
            return list(marks), found
        kept: list[str] = []
        found = self.differing(window.model, window.feeds, kept, values)
        if not found:
            return kept, found
        self.note = "with the output of every window marked nothing differs: fusion over them takes part"
        groups = _halves(marks)
        while groups:
            group = groups.pop(0)
            more = self.differing(window.model, window.feeds, [*kept, *group], values)
            if more:
                kept, found = [*kept, *group], more
            else:
                groups = _halves(group) + groups
        return kept, found

    def differing(self, model: ModelProto, feeds: Feeds, marks: Sequence[str], values: Feeds) -> dict[str, str]:
        """The outputs and marks that differ from `values`, in topological order, and how;
        none where it does not run."""
        marked = _marked(model, marks, values)
        try:
            with self.way.start(marked, None, [feeds]) as run:
                given = run(feeds)
        except (EngineError, Unrunnable) as error:
            self.refused = f"no window that runs by itself differs; others do not run: {error}"
            return {}
        made = [values[n] for n in _outputs(marked)]
        standard = Standard(marked, marked)
        trial = Trial(standard, self.kind, feeds, made)
        floor = WINDOW if computes_in_half(marked) else 0.0
        found = {}
        for index, name in enumerate(_outputs(marked)):
            b = values[name]
            tolerance = max(floor, standard.tolerance(b.dtype)) if is_float(b.dtype) else 0.0
            why = trial.difference(index, as_onnx(given[name], b), tolerance).why
            if why:
                found[name] = why
        order = [o for n in model.graph.node for o in n.output if o in found]
        return {name: found[name] for name in order}


def _halves(marks: Sequence[str]) -> list[Sequence[str]]:
    middle = len(marks) // 2
    return [marks[:middle], marks[middle:]] if middle else []


def _outputs(model: ModelProto) -> list[str]:
    return [o.name for o in model.graph.output]


def _marks(model: ModelProto, beside: Sequence[str]) -> list[str]:
    """Every tensor that a node computes, Constant's and those of `beside` apart."""
    made = (o for n in model.graph.node if n.op_type != "Constant" for o in n.output if o)
    return [o for o in made if o not in beside]


def _window_outputs(before: ModelProto, after: ModelProto) -> list[str]:
    """The tensors at which rewritten windows end: both models have them, and other nodes make them."""
    made, made_after = _makers(before), _makers(after)
    return [
        name for name in _marks(after, _outputs(after)) if name in made and not _same_node(made[name], made_after[name])
    ]


def _marked(model: ModelProto, marks: Sequence[str], values: Feeds) -> ModelProto:
    """A copy with further outputs, of the types and ranks that their values have."""
    if not marks:
        return model
    copy = copied(model)
    for name in marks:
        kind = helper.np_dtype_to_tensor_dtype(values[name].dtype)
        copy.graph.output.append(helper.make_tensor_value_info(name, kind, [None] * values[name].ndim))
    return copy


# ---- windows ---------------------------------------------------------------------------------------------------------


def _makers(model: ModelProto) -> dict[str, NodeProto]:
    """The nodes of the main graph by the tensors that they make, in its order."""
    return {o: n for n in model.graph.node for o in n.output if o}


def _values(model: ModelProto, names: Sequence[str], feeds: Feeds) -> Feeds:
    """The named tensors and the inputs, computed by the model."""
    wanted = list(dict.fromkeys(names))
    found = Runner(returning(model, wanted)).run(feeds) if wanted else []
    return {**feeds, **dict(zip(wanted, found, strict=True))}


def _same_node(a: NodeProto, b: NodeProto) -> bool:
    """Whether both models compute the tensor by the same node from tensors of the same names."""
    return a.op_type == b.op_type and a.input == b.input and a.output == b.output and a.attribute == b.attribute


def _runs(model: ModelProto, feeds: Feeds) -> bool:
    """Whether ONNX Runtime runs a model on these inputs."""
    try:
        Runner(model).run(fed(model, feeds))
    except Unrunnable:
        return False
    return True


def _float_types(model: ModelProto) -> dict[str, np.dtype]:
    """The types of the main graph's tensors that hold floats."""
    index = Model(copied(model))
    types = {i.name: i.type.tensor_type.elem_type for i in model.graph.input}
    types |= {o.name: index.dtype(o) for n in index.graph.live() for o in n.outputs if o is not None}
    return {name: helper.tensor_dtype_to_np_dtype(kind) for name, kind in types.items() if kind in FLOATS}


def _differs(
    name: str, before: ModelProto, after: ModelProto, values: Feeds, kind: str, types: Mapping[str, np.dtype]
) -> Culprit | None:
    """The window of a tensor, if it differs or does not run; `types` are those of the tensors of `after`."""
    with np.errstate(over="ignore"):
        typed = {n: v.astype(types.get(n, v.dtype)) if is_float(v.dtype) else v for n, v in values.items()}
    left, right = _window(before, name, values, values), _window(after, name, typed, typed)
    inputs = {i.name: values[i.name] for m in (left, right) for i in m.graph.input}
    nodes, passes = [_label(n) for n in right.graph.node], _passes(right.graph.node)
    try:
        standard = Standard(left, right, limit=WINDOW)
        read = {i.name: values[i.name] for i in right.graph.input}
        (given,) = Runner(standard.evaluated).run(fed(standard.evaluated, read))
        own = {i.name: values[i.name] for i in left.graph.input}
        (expected,) = Runner(standard.reference).run(fed(standard.reference, own))
        found = Trial(standard, kind, own, [expected]).difference(0, given)
    except Unrunnable as error:
        return Culprit(name, passes, nodes, f"it does not run: {error}", left, right, inputs, ran=False)
    return Culprit(name, passes, nodes, found.why, left, right, inputs) if found.why else None


def _label(node: NodeProto) -> str:
    return f"{node.op_type} '{node.name or node.output[0]}'"


def _passes(nodes: Sequence[NodeProto]) -> list[str]:
    """The passes that made the nodes, as the names of their tensors tell."""
    return list(dict.fromkeys(p for n in nodes for text in (n.name, *n.input, *n.output) for p in MADE.findall(text)))


def _window(model: ModelProto, output: str, known: Collection[str], values: Feeds) -> ModelProto:
    """The nodes between `output` and the nearest known tensors, as a model; `values` tells their types and shapes."""
    made = _makers(model)
    weights = {t.name: t for t in model.graph.initializer}
    wanted: set[int] = set()
    inputs: dict[str, None] = {}
    stack = [output]
    while stack:
        name = stack.pop()
        if name in weights:
            continue
        node = made.get(name)
        if node is None or (name in known and name != output):
            if name in known:
                inputs[name] = None
            continue
        if id(node) in wanted:
            continue
        wanted.add(id(node))
        stack += reads(node)
    nodes = [n for n in model.graph.node if id(n) in wanted]
    read = {i for n in nodes for i in reads(n)}
    *ins, out = (
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(values[n].dtype), values[n].shape)
        for n in (*inputs, output)
    )
    graph = helper.make_graph(nodes, "window", ins, [out], [t for n, t in weights.items() if n in read])
    window = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    if any(n.domain not in ("", "ai.onnx") for n in nodes) or any(f.domain != DOMAIN for f in model.functions):
        window.functions.extend(model.functions)
    return window
