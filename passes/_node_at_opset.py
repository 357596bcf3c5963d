"""A node as the opset of its file defines it, and whether it is valid at another opset."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import defs

from surgeon import Builder, Editor, Node, Value, require_some
from surgeon.ir.lattice import Shape
from surgeon.ir.schemas import schema
from surgeon.targets.condition import dtype_name

Kind = int | str  # a TensorProto.DataType, 0 where it is not known; how the type begins of what is not a tensor
Plan = Callable[[Builder], Any]  # makes what takes the place of a node's outputs

# The types that a tensor of unknown type may be taken to have.
ORDINARY = ("tensor(float)", "tensor(float16)", "tensor(int32)", "tensor(int64)", "tensor(bool)")


# How ONNX's definitions begin the types of what is not a tensor, by the field of the TypeProto.
BEGINNINGS = {"sequence_type": "seq(", "optional_type": "optional("}


class Reading:
    """A node as the file's opset reads it. Everything is looked up before the opset comes down."""

    def __init__(self, editor: Editor, node: Node, before: defs.OpSchema, opset: int) -> None:
        self.editor, self.model, self.target = editor, editor.model, editor.target
        self.node, self.opset = node, opset
        self.before = before  # the operator's definition at the file's opset
        self.after = schema(node.op, "", opset)
        self.attrs = dict(node.attrs)

    @property
    def data(self) -> Value:
        """The first input, which every operator has that a plan asks for it."""
        found = self.input(0)
        assert found is not None
        return found

    @property
    def changed(self) -> bool:
        """Whether the operator's definition is another one at the older opset."""
        return self.after is None or self.before.since_version != self.after.since_version

    @property
    def older(self) -> defs.OpSchema:
        """The definition at the older opset, of an operator that has one there."""
        assert self.after is not None
        return self.after

    def crosses(self, opset: int) -> bool:
        """Whether the definition that came with `opset` is superseded."""
        return self.before.since_version >= opset > (0 if self.after is None else self.after.since_version)

    def input(self, position: int) -> Value | None:
        """The input at that position; None where it is left out."""
        return self.node.inputs[position] if position < len(self.node.inputs) else None

    def value(self, position: int, what: str) -> np.ndarray | None:
        """The value of an input that must be constant; None where it is left out."""
        return None if self.input(position) is None else self.given(position, what)

    def given(self, position: int, what: str) -> np.ndarray:
        """The value of an input that is there and must be constant."""
        return require_some(self.model.constant(self.input(position)), f"its {what} are computed at run time")

    def shape(self, position: int) -> Shape:
        """The dimensions of an input whose rank must be known."""
        given = self.input(position)
        return require_some(None if given is None else self.model.shape(given), "its rank is not known")

    def kind(self, value: Value | None) -> Kind:
        """The type of a tensor, 0 where it is not known; for a sequence or an optional how its types begin."""
        if value is None:
            return 0
        return self.model.dtype(value) or BEGINNINGS.get(self.model.types.find(value).kind, 0)


def invalid(
    spec: defs.OpSchema, inputs: Sequence[tuple[bool, Kind]], attrs: Mapping[str, Any], outputs: Sequence[Kind]
) -> str:
    """Why a node is not valid by its operator's definition; empty where it is. `inputs`: (given, type), 0 unknown."""
    if spec.deprecated:
        return f"{spec.name} is deprecated"
    if not spec.min_input <= len(inputs) <= spec.max_input or len(outputs) > spec.max_output:
        return f"{len(inputs)} inputs and {len(outputs)} outputs are not what it takes"
    for name, attribute in spec.attributes.items():
        if attribute.required and name not in attrs:
            return f"{name} is left out"
    unknown = set(attrs) - set(spec.attributes)
    if unknown:
        return f"it has no {', '.join(sorted(unknown))}"
    bound: dict[str, str] = {}
    for formals, given in ((spec.inputs, inputs), (spec.outputs, [(True, t) for t in outputs])):
        for position, (present, dtype) in enumerate(given):
            formal = formals[min(position, len(formals) - 1)]
            if not present:
                if formal.option == defs.OpSchema.FormalParameterOption.Single:
                    return f"its input {formal.name} is left out"
                continue
            name = type_name(dtype)
            if not takes(spec, formal, name):
                return f"its {formal.name} is {SPOKEN.get(name, name)}"
            homogeneous = formal.option != defs.OpSchema.FormalParameterOption.Variadic or formal.is_homogeneous
            if name and homogeneous and bound.setdefault(formal.type_str, name) != name:
                return f"its {formal.name} is {name} beside {bound[formal.type_str]}"
    return ""


def takes(spec: defs.OpSchema, formal: defs.OpSchema.FormalParameter, name: str) -> bool:
    """Whether an operator takes a type there; of an unknown one, all ordinary types that its newest form takes."""
    allowed = _allowed(spec, formal)
    if name in BEGINNINGS.values():
        return any(a.startswith(name) for a in allowed)
    return name in allowed if name else set(ORDINARY) & _all_types(spec, formal) <= allowed


def _allowed(spec: defs.OpSchema, formal: defs.OpSchema.FormalParameter) -> set[str]:
    for constraint in spec.type_constraints:
        if constraint.type_param_str == formal.type_str:
            return set(constraint.allowed_type_strs)
    return {formal.type_str}


def _all_types(spec: defs.OpSchema, formal: defs.OpSchema.FormalParameter) -> set[str]:
    """The types that the newest definition of the operator takes there."""
    newest = schema(spec.name, "", defs.onnx_opset_version()) or spec
    same = [f for f in (*newest.inputs, *newest.outputs) if f.name == formal.name]
    return _allowed(newest, same[0]) if same else _allowed(spec, formal)


def type_name(kind: Kind) -> str:
    """A type as ONNX's definitions spell it; empty where it is not known."""
    if isinstance(kind, str):
        return kind
    return f"tensor({dtype_name(kind)})" if kind else ""


SPOKEN = {"": "of unknown type", "seq(": "a sequence", "optional(": "an optional"}


def trimmed(inputs: Sequence[Value | None]) -> list[Value | None]:
    """The inputs without those that are left out at the end."""
    found = list(inputs)
    while found and found[-1] is None:
        found.pop()
    return found
