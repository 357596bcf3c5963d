"""A model that is changed before it is rewritten, as its user asked: its interface, the size of its batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from surgeon.ir.attributes import attribute_text, read_attribute
from surgeon.ir.lattice import declared_dim
from surgeon.ir.protos import body_protos
from surgeon.report import Applied, Line

# What the report calls the changes.
BATCH_CHANGE = "dynamic-batch"
FORM_CHANGE = "input"
ROWS_CHANGE = "detections"
NARROWING_CHANGE = "allow-narrowing"
OUTPUTS_CHANGE = "output-types"
SIZES_CHANGE = "own-sizes"
SYMMETRIC_CHANGE = "symmetric-int8"


class Prepared(NamedTuple):
    """The changed model, what was changed, as the report has it, and what could not be found out."""

    model: ModelProto
    applied: list[Applied]
    warnings: Sequence[str] = ()

    def then(self, later: Prepared | None) -> Prepared:
        """Both changes, one behind the other; `later` has the model of both, and is None where it changes nothing."""
        if later is None:
            return self
        return Prepared(later.model, [*self.applied, *later.applied], [*self.warnings, *later.warnings])


@dataclass(frozen=True, slots=True)
class Text:
    """A node or an input as a report shows it."""

    label: str
    text: str

    @classmethod
    def of(cls, node: NodeProto) -> Text:
        """A node: `y = Op(a, b, axis=1)`."""
        inputs = ", ".join(f"{name}" or "''" for name in node.input)
        attrs = ", ".join(attribute_text(a.name, read_attribute(a)) for a in node.attribute if not a.HasField("g"))
        label = node.name or f"{node.op_type} -> {node.output[0] if node.output else '?'}"
        said = f"{inputs}, {attrs}" if inputs and attrs else inputs or attrs
        return cls(label, f"{', '.join(node.output)} = {node.op_type}({said})")


@dataclass(frozen=True, slots=True)
class Change:
    """What was there before, and what stands there now."""

    nodes_before: Sequence[Line]
    nodes_after: Sequence[Line]
    output_names: list[str]
    read_instead: tuple[str, ...] = ()


def change(
    before: Sequence[Line], after: Sequence[Line], root: str, outputs: Sequence[str] = ()
) -> Callable[[str, float | None], Applied]:
    """A record of a change, when the name of what made it and its largest error are known."""
    return lambda name, error: Applied(name, "prepare", root, Change(before, after, list(outputs)), error)


def described(info: ValueInfoProto) -> str:
    """An input or an output as text: its name, type and sizes."""
    dims = [declared_dim(d) for d in info.type.tensor_type.shape.dim]
    elem = TensorProto.DataType.Name(info.type.tensor_type.elem_type).lower()
    return f"{info.name}: {elem}[{','.join('?' if d is None else str(d) for d in dims)}]"


def fresh_name(model: ModelProto) -> Callable[[str, str], str]:
    """A function that gives tensors new names: `stem/word`, with a number where there are several."""
    taken = _names(model.graph)

    def fresh(stem: str, word: str) -> str:
        count, name = 1, f"{stem}/{word}"
        while name in taken:
            count += 1
            name = f"{stem}/{word}_{count}"
        taken.add(name)
        return name

    return fresh


def _names(graph: GraphProto) -> set[str]:
    """Every name that the graph and its bodies have for tensors."""
    found = {i.name for i in (*graph.input, *graph.initializer)}
    for node in graph.node:
        found.update((*node.input, *node.output))
        for body in body_protos(node):
            found |= _names(body)
    return found


__all__ = [
    "BATCH_CHANGE",
    "FORM_CHANGE",
    "NARROWING_CHANGE",
    "OUTPUTS_CHANGE",
    "ROWS_CHANGE",
    "SIZES_CHANGE",
    "SYMMETRIC_CHANGE",
    "Change",
    "Prepared",
    "Text",
    "change",
    "described",
    "fresh_name",
]
