"""A model that is changed before it is rewritten, as its user asked: its interface, the size of its batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

from surgeon.ir.attributes import node_text, read_attribute
from surgeon.ir.files import with_weights
from surgeon.ir.lattice import Shapes, declared_shape
from surgeon.ir.protos import all_graphs, label_of, unused
from surgeon.report import Applied, Line

if TYPE_CHECKING:
    from surgeon.pipeline.options import Options
    from surgeon.proof.cache import ProofCache

# The preparations, in the order in which they run, and whether a run asks for it. Each is a function of a module, most
# often `prepare`, from Asked to Prepared or None. A run without it starts without its module.
PREPARATIONS: Mapping[str, Callable[[Options], bool]] = {
    "declaring.raw_weights": lambda options: options.target.rtx,
    "freezing.prepare": lambda options: bool(options.values),
    "declaring.shapes": lambda options: bool(options.declared),
    "declaring.output_types": lambda options: True,
    "dimension_names.prepare": lambda options: options.target.ties_sizes,
    "inputs.prepare": lambda options: bool(options.inputs),
    "dynamic_batch.prepare": lambda options: options.batch_axes is not None,
    "detections.prepare": lambda options: options.detections is not None,
    "narrowing.prepare": lambda options: options.allow_narrowing,
    "symmetric_int8.prepare": lambda options: options.symmetric_int8 and not options.repair_qdq,
}

Fresh: TypeAlias = Callable[[str, str], str]  # gives a tensor the name `stem/word`, or the next one that is free


class Asked(NamedTuple):
    """What a preparation is given.

    model    as the preparations before it have left it; it is not to be changed
    options  what the user asks for
    base     the folder of external weights
    known    the proofs of earlier runs
    """

    model: ModelProto
    options: Options
    base: Path | None
    known: ProofCache

    @property
    def source(self) -> ModelProto:
        """The model with its weights inside. Raises ModelError."""
        return with_weights(self.model, self.base)


class Prepared(NamedTuple):
    """What a preparation made.

    model     the changed model
    applied   what was changed, as the report has it
    warnings  what has to be reported about it
    shapes    the sizes of inputs for proofs, where those that the user gave are of other inputs; else None
    """

    model: ModelProto
    applied: list[Applied]
    warnings: Sequence[str] = ()
    shapes: Shapes | None = None


def prepared(model: ModelProto, options: Options, base: Path | None, known: ProofCache) -> Prepared:
    """The model as it is to be rewritten, after all preparations; the model itself where they change nothing.

    Raises UsageError where something asked for does not fit the model, ModelError where it cannot be made or proved.
    """
    found = Prepared(model, [])
    for name, is_asked in PREPARATIONS.items():
        if is_asked(options):
            given = options if found.shapes is None else replace(options, shapes=found.shapes)
            module, function = name.split(".")
            prepare = getattr(import_module(f"surgeon.pipeline.{module}"), function)
            made = prepare(Asked(found.model, given, base, known))
            if made is not None:
                records, said = [*found.applied, *made.applied], [*found.warnings, *made.warnings]
                shapes = found.shapes if made.shapes is None else made.shapes
                found = Prepared(made.model, records, said, shapes)
    return found


# ---- what the report says --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A node or an input as a report shows it."""

    label: str
    text: str

    @classmethod
    def of(cls, node: NodeProto) -> Text:
        """A node: `y = Op(a, b, axis=1)`."""
        attrs = {a.name: read_attribute(a) for a in node.attribute}
        return cls(label_of(node), node_text(node.op_type, node.input, node.output, attrs))

    @classmethod
    def of_info(cls, info: ValueInfoProto) -> Text:
        """An input or an output: its name, type and sizes."""
        elem = TensorProto.DataType.Name(info.type.tensor_type.elem_type).lower()
        return cls(
            info.name, f"{info.name}: {elem}[{','.join('?' if d is None else str(d) for d in declared_shape(info))}]"
        )


@dataclass(frozen=True, slots=True)
class Change:
    """The nodes before a change, and after it."""

    nodes_before: Sequence[Line]
    nodes_after: Sequence[Line]
    output_names: list[str]
    read_instead: tuple[str, ...] = ()


def applied(
    name: str,
    before: Sequence[Line],
    after: Sequence[Line],
    root: str,
    outputs: Sequence[str] = (),
    error: float | None = None,
    strategy: str = "prepare",
) -> Applied:
    """The record of a change, by the name of what made it; `error` is the largest one, where it is known."""
    return Applied(name, strategy, root, Change(before, after, list(outputs)), error)


# ---- names -----------------------------------------------------------------------------------------------------------


def fresh_name(model: ModelProto) -> Fresh:
    """A function that gives tensors new names: `stem/word`, with a number where there are several."""
    graphs = list(all_graphs(model.graph))
    taken = {entry.name for graph in graphs for entry in (*graph.input, *graph.initializer)}
    taken.update(name for graph in graphs for node in graph.node for name in (*node.input, *node.output))

    def fresh(stem: str, word: str) -> str:
        name = unused(f"{stem}/{word}", taken)
        taken.add(name)
        return name

    return fresh
