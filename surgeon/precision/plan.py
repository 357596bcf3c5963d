"""A plan: in which type each node computes, and the type of each tensor that follows from that."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.operators import RANDOM
from surgeon.ir.schemas import DOMAIN, schema
from surgeon.precision.formats import BF16, FAMILY, FP16, SINGLE, Format

COMPUTED = "computed from constants"  # not an island: its value is stored in the type in which it is read
TYPE_NAMES = {SINGLE: "tensor(float)", FP16.elem: "tensor(float16)", BF16.elem: "tensor(bfloat16)"}
GENERATORS = RANDOM - {"Bernoulli", "Multinomial"} | {"ConstantOfShape", "EyeLike"}  # of a type that they choose


@dataclass(slots=True)
class Plan:
    """The precision of every node of the main graph and its bodies: `low` unless a field below differs.

    model         the model that is converted
    io_half       whether the main graph's inputs and outputs become `low`
    low           the type of the nodes that are converted
    single        node -> why it computes in fp32
    other         node -> the other type of 16 bits that it computes in
    fixed         node -> why its types are left alone
    warnings      what the user has to know
    repaired      (node, input) -> the epsilon that the file has lost
    weights       what DequantizeLinear makes of weights, and what is too large to be stored, with what is computed from
                  those: not stored as floats
    cast_sources  what a cast between types of FAMILY returns -> what it reads: the same tensor; and so
                  what an Identity returns that names an output
    """

    model: Model
    io_half: bool = False
    low: Format = FP16
    single: dict[Node, str] = field(default_factory=dict)
    other: dict[Node, Format] = field(default_factory=dict)
    fixed: dict[Node, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    repaired: dict[tuple[Node, int], float] = field(default_factory=dict)
    weights: set[Value] = field(default_factory=set)
    cast_sources: dict[Value, Value] = field(default_factory=dict)
    _floats: dict[Node, list[tuple[int, Value]]] = field(default_factory=dict)
    _supported: dict[tuple[Node, int, int, bool], bool] = field(default_factory=dict)

    def root(self, value: Value) -> Value:
        """The tensor before all casts between types of FAMILY, and before what names outputs."""
        while value in self.cast_sources:
            value = self.cast_sources[value]
        return value

    def is_cast(self, node: Node) -> bool:
        """Whether the node only casts between types of FAMILY, or names an output: the emitter writes its own."""
        return bool(node.outputs) and node.outputs[0] in self.cast_sources

    def is_constant(self, value: Value) -> bool:
        """Whether a tensor follows from constants alone, and may be stored in any type."""
        return value not in self.weights and self.model.is_constant(value)

    def is_family(self, value: Value | None) -> bool:
        """Whether there is a tensor, of a type of FAMILY."""
        return value is not None and self.model.dtype(value) in FAMILY

    def precision(self, node: Node) -> int:
        """The type in which it computes; what a fixed node reads and writes is in the types of the file."""
        if node in self.single:
            return SINGLE
        return self.other.get(node, self.low).elem

    def floats(self, node: Node) -> list[tuple[int, Value]]:
        """(position, tensor) of the inputs of a type of FAMILY."""
        if node not in self._floats:
            given = enumerate(node.inputs)
            self._floats[node] = [
                (position, value) for position, value in given if value is not None and self.is_family(value)
            ]
        return self._floats[node]

    def float_outputs(self, node: Node) -> list[Value]:
        """The outputs of a type of FAMILY."""
        return [o for o in node.outputs if o is not None and self.is_family(o)]

    def varying(self, node: Node) -> list[Value]:
        """The inputs of a type of FAMILY that are not constants, before all casts."""
        return [self.root(v) for _, v in self.floats(node) if not self.is_constant(v)]

    def reads(self, node: Node) -> Iterator[tuple[int, Value, int]]:
        """(position, tensor, type) of the inputs of a type of FAMILY, with the type in which the node reads each."""
        for position, value in self.floats(node):
            elem = self.precision(node)
            free = node not in self.fixed and self._supports(node, position, elem, False)
            yield position, value, elem if free else self.model.dtype(value)

    def written(self, node: Node, index: int) -> int:
        """The type of an output of the node."""
        value = node.outputs[index]
        if value is None:
            return 0
        original = self.model.dtype(value)
        if original not in FAMILY or node in self.fixed or not self._supports(node, index, self.precision(node), True):
            return original
        return self.precision(node)

    def _supports(self, node: Node, position: int, elem: int, output: bool) -> bool:
        """Whether the operator takes or returns a type as well as fp32; kept, since every plan of a model asks."""
        key = node, position, elem, output
        if key not in self._supported:
            self._supported[key] = _has(self.model, node, position, elem, output=output)
        return self._supported[key]

    def type_of(self, value: Value) -> int:
        """The type in which a tensor is computed; constants have that of the file."""
        node = value.producer
        if node is not None:
            return self.written(node, value.index)
        return self.interface(value) if value.is_input else self.model.dtype(value)

    def interface(self, value: Value) -> int:
        """The type of an input or output of a graph: the file's, or `low` where that was asked for the main graph."""
        original = self.model.dtype(value)
        return self.low.elem if self.io_half and original == SINGLE and value.graph is self.model.graph else original

    def read_types(self, value: Value, *, but_by: Node) -> set[int]:
        """The types in which a tensor is read by all nodes but one, also through casts of the file."""
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

    def casts(self) -> Iterator[tuple[Value, set[int]]]:
        """Each tensor that is cast, with the types that it is cast to."""
        reads: dict[Value, set[int]] = {}
        for scope in self.model.scopes:
            for node in scope.live():
                if self.is_cast(node) or self.fixed.get(node) == COMPUTED:
                    continue
                for _, value, elem in self.reads(node):
                    if not self.is_constant(value):
                        reads.setdefault(self.root(value), set()).add(elem)
            for value in scope.values.values():
                if value.is_output and self.is_family(value):
                    reads.setdefault(self.root(value), set()).add(self.interface(value))
        for value, types in reads.items():
            others = types - {self.type_of(value)}
            if others:
                yield value, others

    def casts_at(self, node: Node, precision: int) -> int:
        """How many casts are at the node's inputs and outputs when it computes in `precision`."""
        count = 0
        for value in dict.fromkeys(self.varying(node)):
            if self.type_of(value) != precision and precision not in self.read_types(value, but_by=node):
                count += 1
        for out in self.float_outputs(node):
            count += len(self.read_types(out, but_by=node) - {precision})
        return count


def takes(model: Model, node: Node, position: int, elem: int) -> bool:
    """Whether the operator supports a type as well as fp32 at an input."""
    return _has(model, node, position, elem, output=False)


def returns(model: Model, node: Node, index: int, elem: int) -> bool:
    """Whether the operator can return a type as well as fp32 at an output."""
    return _has(model, node, index, elem, output=True)


def _has(model: Model, node: Node, position: int, elem: int, *, output: bool) -> bool:
    if node.domain == DOMAIN:
        return True
    return _schema_has(node.op, node.domain, model.opset_in(node.graph, node.domain), position, elem, output)


@cache
def _schema_has(op: str, domain: str, opset: int, position: int, elem: int, output: bool) -> bool:
    spec = schema(op, domain, opset)
    if spec is None:
        return False
    formals = spec.outputs if output else spec.inputs
    if not formals:
        return False
    kind = formals[min(position, len(formals) - 1)].type_str
    allowed = next((c.allowed_type_strs for c in spec.type_constraints if c.type_param_str == kind), ())
    return {"tensor(float)", TYPE_NAMES[elem]} <= set(allowed)
