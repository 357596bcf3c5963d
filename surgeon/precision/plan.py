"""A plan: which node computes in fp16 and which in fp32, and the type of each tensor that follows from that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.operators import RANDOM
from surgeon.ir.schemas import DOMAIN, schema
from surgeon.precision.half import FAMILY, HALF, SINGLE

COMPUTED = "computed from constants"  # no island: its value is stored in the type in which it is read
GENERATORS = RANDOM - {"Bernoulli", "Multinomial"} | {"ConstantOfShape", "EyeLike"}  # of a type that they choose


@dataclass(slots=True)
class Plan:
    """The precision of every node of the main graph and its bodies: fp16 where nothing else is said.

    model         the model that is converted
    io_half       whether the main graph's inputs and outputs become fp16
    single        node -> why it computes in fp32
    fixed         node -> why its types are left alone
    warnings      what the user has to know
    repaired      (node, input) -> the epsilon that fp16 had lost
    cast_sources  what a cast between fp16 and fp32 returns -> what it reads: the same tensor in another type; and so
                  what an Identity returns that names an output
    """

    model: Model
    io_half: bool = False
    single: dict[Node, str] = field(default_factory=dict)
    fixed: dict[Node, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    repaired: dict[tuple[Node, int], float] = field(default_factory=dict)
    cast_sources: dict[Value, Value] = field(default_factory=dict)

    def root(self, value: Value) -> Value:
        """The tensor in front of all casts between fp16 and fp32, and of what names outputs."""
        while value in self.cast_sources:
            value = self.cast_sources[value]
        return value

    def is_cast(self, node: Node) -> bool:
        """Whether the node only casts between fp16 and fp32, or names an output: the plan makes such nodes anew."""
        return bool(node.outputs) and node.outputs[0] in self.cast_sources

    def is_family(self, value: Value | None) -> bool:
        """Whether there is a tensor, in fp16 or fp32."""
        return value is not None and self.model.dtype(value) in FAMILY

    def precision(self, node: Node) -> int:
        """FLOAT or FLOAT16; what a fixed node reads and writes is in the types of the file."""
        return SINGLE if node in self.single else HALF

    def floats(self, node: Node) -> Iterator[tuple[int, Value]]:
        """(position, tensor) of the inputs that are fp16 or fp32."""
        for position, value in enumerate(node.inputs):
            if value is not None and self.is_family(value):
                yield position, value

    def float_outputs(self, node: Node) -> list[Value]:
        """The outputs that are fp16 or fp32."""
        return [o for o in node.outputs if o is not None and self.is_family(o)]

    def varying(self, node: Node) -> list[Value]:
        """The inputs that are fp16 or fp32 and no constants, in front of all casts."""
        return [self.root(v) for _, v in self.floats(node) if not self.model.is_constant(v)]

    def reads(self, node: Node) -> Iterator[tuple[int, Value, int]]:
        """(position, tensor, type) of the inputs that are fp16 or fp32, with the type in which the node reads each."""
        for position, value in self.floats(node):
            free = node not in self.fixed and takes_both(self.model, node, position)
            yield position, value, self.precision(node) if free else self.model.dtype(value)

    def written(self, node: Node, index: int) -> int:
        """The type of an output of the node."""
        value = node.outputs[index]
        if value is None:
            return 0
        original = self.model.dtype(value)
        if original not in FAMILY or node in self.fixed or not returns_both(self.model, node, index):
            return original
        return self.precision(node)

    def type_of(self, value: Value) -> int:
        """The type in which a tensor is made; constants have that of the file."""
        node = value.producer
        if node is not None:
            return self.written(node, value.index)
        return self.interface(value) if value.is_input else self.model.dtype(value)

    def interface(self, value: Value) -> int:
        """The type of an input or output of a graph: the file's, or fp16 where that was asked for the main graph."""
        original = self.model.dtype(value)
        return HALF if self.io_half and original == SINGLE and value.graph is self.model.graph else original

    def read_types(self, value: Value, *, but_by: Node) -> set[int]:
        """The types in which a tensor is read by all nodes but one; casts of the file are looked through."""
        found: set[int] = set()
        todo = [value]
        while todo:
            tensor = todo.pop()
            if tensor.is_output:
                found.add(self.interface(tensor))
            for user in tensor.users:
                if self.is_cast(user) and user.outputs[0] is not None:
                    todo.append(user.outputs[0])
                elif user is not but_by:
                    found.update(t for _, read, t in self.reads(user) if read is tensor)
        return found & FAMILY

    def casts_at(self, node: Node, precision: int) -> int:
        """How many casts stand at the node's inputs and outputs when it computes in `precision`."""
        count = 0
        for value in dict.fromkeys(self.varying(node)):
            if self.type_of(value) != precision and precision not in self.read_types(value, but_by=node):
                count += 1
        for out in self.float_outputs(node):
            count += len(self.read_types(out, but_by=node) - {precision})
        return count


def takes_both(model: Model, node: Node, position: int) -> bool:
    """Whether the operator takes fp16 as well as fp32 at an input."""
    return _has_both(model, node, position, output=False)


def returns_both(model: Model, node: Node, index: int) -> bool:
    """Whether the operator can return fp16 as well as fp32 at an output."""
    return _has_both(model, node, index, output=True)


def _has_both(model: Model, node: Node, position: int, *, output: bool) -> bool:
    domain = "" if node.proto.domain == "ai.onnx" else node.proto.domain
    return domain == DOMAIN or _schema_has_both(node.op, domain, model.opset_in(node.graph, domain), position, output)


@cache
def _schema_has_both(op: str, domain: str, opset: int, position: int, output: bool) -> bool:
    spec = schema(op, domain, opset)
    if spec is None:
        return False
    formals = spec.outputs if output else spec.inputs
    if not formals:
        return False
    kind = formals[min(position, len(formals) - 1)].type_str
    allowed = next((c.allowed_type_strs for c in spec.type_constraints if c.type_param_str == kind), ())
    return {"tensor(float)", "tensor(float16)"} <= set(allowed)


__all__ = ["COMPUTED", "GENERATORS", "Plan", "returns_both", "takes_both"]
