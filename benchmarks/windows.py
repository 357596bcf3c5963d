"""Models of one window, drawn from the pattern of a rule."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.ir.schemas import DOMAIN, FLOAT_ATTRIBUTES, MOVED, attribute_types, formal_types, schema
from surgeon.rules.pattern import Absent, Attr, Choice, Const, Op, Output, Pattern, Var
from surgeon.rules.rule import Rule

OPSETS = (17, 20, 24)  # those of HardSwish, Gelu and Swish: the patterns match at all of them
SCALARS = (1.0, 2.0, 0.5, 0.1, 0.25, 3.0, 6.0, 0.01, 1.5, -0.2, -1.0, 0.0, 20.0)
WHOLE = (0, 1, -1, 2, 2**31 - 1)  # what the numbers of a constant of integers are, all of them
NUMBERS: dict[int, Any] = {
    onnx.AttributeProto.FLOAT: SCALARS,
    onnx.AttributeProto.INT: (0, 1, -1, 2, TensorProto.FLOAT, TensorProto.DOUBLE),
    onnx.AttributeProto.INTS: (
        [0],
        [1],
        [0, 1],
        [1, 0],
        [0, 2, 1],
        [0, 1, 2],
        [0, 2, 3, 1],
        [0, 3, 1, 2],
        [0, 1, 2, 3],
    ),
    onnx.AttributeProto.STRING: ("tanh", "none", "constant"),
}
END = 2**31 - 1
# What an input of integers is where the operator does nothing.
NOTHING = {("Slice", 1): 0, ("Slice", 2): END, ("Slice", 4): 1, ("Expand", 1): 1, ("Tile", 1): 1, ("Pad", 1): 0}
CHANNELS, LAST = "a number for each channel", "a number for each element of the last axis"
VECTORS = {
    **dict.fromkeys([("InstanceNormalization", 1), ("InstanceNormalization", 2)], CHANNELS),
    **{("BatchNormalization", k): CHANNELS for k in (1, 2, 3, 4)},
    **dict.fromkeys([("LayerNormalization", 1), ("LayerNormalization", 2), ("RMSNormalization", 1)], LAST),
}
HOLDERS = {
    (op, 0) for op in ("ConcatFromSequence", "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceLength")
}
SHAPING = frozenset({"Reshape", "Expand", "Unsqueeze", "Squeeze", "Cast", "CastLike", "Tile", "Einsum"})
PLAIN = 4  # times as often as one of SHAPING another alternative is drawn
EPSILONS = (1e-5, 1e-3, 1e-6, 0.01)


class Undrawable(Exception):
    """Ends the drawing of a window that no model of this kind can be."""


@dataclass
class _Drawing:
    """One window as it is drawn."""

    random: random.Random
    opset: int
    rank: int
    nodes: list[NodeProto] = field(default_factory=list)
    tensors: list[TensorProto] = field(default_factory=list)
    inputs: dict[str, tuple[int, list[str | int]]] = field(default_factory=dict)  # name: type, dimensions
    made: dict[int, str] = field(default_factory=dict)
    axes: list[int] = field(default_factory=list)  # that everything in the window is reduced over
    count: int = 1  # how many numbers a list of integers has, unless it has one for each axis

    def __post_init__(self) -> None:
        last, rank = self.rank - 1, self.rank
        some = [[-1], [last], [-1], [1], [rank // 2], list(range(2, rank)), list(range(1, rank)), [0]]
        self.axes = self.random.choice([a for a in some if a and max(a) < rank])
        self.count = self.random.choice((1, 1, rank))

    def tensor(self, p: Pattern, formal: str, reader: tuple[str, int] = ("", 0)) -> str:
        """The name of the tensor that a pattern stands for, as an input of its reader."""
        if isinstance(p, Absent):
            return ""
        is_any = isinstance(p, Var) and p.name is None
        if id(p) not in self.made or is_any:
            self.made[id(p)] = self._draw(p, formal, reader)
        return self.made[id(p)]

    def _draw(self, p: Pattern, formal: str, reader: tuple[str, int]) -> str:
        if isinstance(p, Choice):
            return self.tensor(p.alternatives[self._alternative(p)], formal, reader)
        if isinstance(p, Var):
            if reader in HOLDERS:
                return self._held(reader[0])
            if reader == ("SequenceAt", 1) or (p.name is None and _is_whole(formal, reader)):
                return self._constant(Const(), formal, reader)
            if reader[0] == "If":
                return self._truth()
            return self._input(formal, reader)
        if isinstance(p, Const):
            return self._constant(p, formal, reader)
        if isinstance(p, Output):
            self.tensor(p.node, formal)
            return f"{self.made[id(p.node)]}.{p.index}" if p.index else self.made[id(p.node)]
        if isinstance(p, Op):
            return self._node(p)
        raise Undrawable(type(p).__name__)

    def _alternative(self, p: Choice) -> int:
        """One of the alternatives: those that change a shape or a type alone are drawn less often."""
        shaping = [isinstance(a, Op) and a.type in SHAPING for a in p.alternatives]
        weights = [1 if is_shaping and not all(shaping) else PLAIN for is_shaping in shaping]
        return self.random.choices(range(len(weights)), weights)[0]

    def _input(self, formal: str, reader: tuple[str, int]) -> str:
        """An input of the window: of all its axes, or like what is multiplied or added to it."""
        name = f"x{len(self.inputs)}"
        elem = TensorProto.INT64 if formal == "tensor(int64)" else TensorProto.FLOAT
        sizes: list[str | int] = [f"n{k}" for k in range(self.rank)]
        kind = VECTORS.get(reader, "")
        if self.inputs and reader[0] in ("Mul", "Add", "Sub", "Div"):
            kind = self.random.choice(("", "", LAST, CHANNELS))
            if kind == CHANNELS and self.rank > 2:
                self.inputs[name] = elem, [sizes[1], *[1] * (self.rank - 2)]
                return name
        if kind:
            sizes = [sizes[-1]] if kind == LAST else sizes[min(1, self.rank - 1) :][:1]
        self.inputs[name] = elem, sizes
        return name

    def _held(self, reader: str) -> str:
        """A sequence or an optional of inputs; for an operator that takes either, a tensor."""
        name = f"t{len(self.nodes)}"
        if reader.startswith("Optional"):
            given = [self._input("", ("", 0))] if self.random.random() < 0.7 else []
            if given and self.random.random() < 0.4 and reader == "OptionalHasElement":
                return given[0]
            self.nodes.append(helper.make_node("Optional", given, [name], name=name))
            return name
        given = [self._input("", ("", 0)) for _ in range(self.random.randint(1, 3))]
        self.nodes.append(helper.make_node("SequenceConstruct", given, [name], name=name))
        return name

    def _truth(self) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(self.random.random() < 0.5), name))
        return name

    def _constant(self, p: Const, formal: str, reader: tuple[str, int]) -> str:
        name = f"c{len(self.tensors)}"
        if _is_whole(formal, reader):
            array = np.asarray([int(p.value)] if p.value is not None else self._whole(reader), np.int64)
            array = array[0] if reader[0] == "SequenceAt" else array
        elif p.name in ("epsilon", "outside"):
            array = np.asarray(self.random.choice(EPSILONS), np.float32)
        else:
            array = np.asarray(self.random.choice(SCALARS) if p.value is None else p.value, np.float32)
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def _whole(self, reader: tuple[str, int]) -> list[int]:
        """Axes, sizes, pads: one number as often as the window has axes or ends of axes, or a shape that copies."""
        op, position = reader
        if op.startswith("Reduce") and self.random.random() < 0.9:
            return self.axes
        if reader in NOTHING and self.random.random() < 0.7:
            return [NOTHING[reader]] * {"Tile": self.rank, "Pad": 2 * self.rank}.get(op, self.count)
        if op == "Reshape" or self.random.random() < 0.2:
            return [*[0] * (self.rank - 1), -1]
        return [self.random.choice(WHOLE)] * self.random.choice((1, self.rank, 2 * self.rank))

    def _node(self, p: Op) -> str:
        if p.domain == DOMAIN:
            return self._canonical(p)
        spec = schema(p.type, "", self.opset)
        if p.domain or spec is None:
            raise Undrawable(p.type)
        formal = formal_types(p.type, "", self.opset)
        given = [
            self.tensor(q, formal[min(k, len(formal) - 1)] if formal else "", (p.type, k))
            for k, q in enumerate(p.inputs)
        ]
        if p.open and len(given) < spec.min_input and p.type == "Reshape":
            given.append(self._constant(Const(), "tensor(int64)", ("Reshape", 1)))
        types = attribute_types(p.type, "", self.opset)
        attrs: dict[str, Any] = {}
        for name, wanted in p.attrs.items():
            if isinstance(wanted, Attr) and self.random.random() < 0.7 and types.get(name) in NUMBERS:
                attrs[name] = self._number(name, types[name])
            elif not isinstance(wanted, Attr):
                attrs[name] = wanted
        for name in [n for n, a in spec.attributes.items() if a.required and n not in attrs]:
            if types[name] == onnx.AttributeProto.GRAPH:
                attrs[name] = self._branch(name)
            elif types[name] not in NUMBERS:
                raise Undrawable(f"{p.type} with {name}")
            else:
                attrs[name] = self._number(name, types[name])
        for name, position in MOVED.get(p.type, {}).items():
            if name in spec.attributes and position < len(given):
                attrs[name] = self._as_attribute(given[position], types[name])
                given = given[:position]
        output = f"t{len(self.nodes)}"
        count = max(1, spec.min_output)
        outputs = [output, *(f"{output}.{k}" for k in range(1, count))]
        self.nodes.append(helper.make_node(p.type, given, outputs, name=output, **attrs))
        return output

    def _number(self, name: str, kind: int) -> Any:
        """What an attribute is: a type, an epsilon and an axis as those mostly are."""
        if name == "to" and self.random.random() < 0.8:
            return TensorProto.FLOAT
        if name == "epsilon":
            return self.random.choice(EPSILONS)
        if name == "axis" and self.random.random() < 0.7:
            return self.axes[0]
        return self.random.choice(NUMBERS[kind])

    def _as_attribute(self, name: str, kind: int) -> Any:
        """The value of a constant, as the attribute that it is at this opset."""
        found = next((t for t in self.tensors if t.name == name), None)
        if found is None:
            raise Undrawable("an attribute that is computed")
        array = numpy_helper.to_array(found)
        return array.reshape(-1).tolist() if kind == onnx.AttributeProto.INTS else array.reshape(-1)[0].item()

    def _canonical(self, p: Op) -> str:
        """One of surgeon's own nodes, of which nothing has a schema."""
        known = {"axes": self.axes, "axis": self.axes[0], "epsilon": self.random.choice(EPSILONS)}
        attrs: dict[str, Any] = {}
        for name, wanted in p.attrs.items():
            if isinstance(wanted, Attr) and name not in known:
                raise Undrawable(f"{p.type} with {name}")
            attrs[name] = known[name] if isinstance(wanted, Attr) else wanted
        given = [self.tensor(q, "", ("Mul" if k else "", k)) for k, q in enumerate(p.inputs)]
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(p.type, given, [output], name=output, domain=DOMAIN, **attrs))
        return output

    def _branch(self, name: str) -> onnx.GraphProto:
        """A body of one node, which reads an input of the window."""
        x = next(iter(self.inputs), "") or self._input("", ("", 0))
        made = f"{name}.{len(self.nodes)}"
        node = helper.make_node(self.random.choice(("Abs", "Relu", "Neg", "Exp")), [x], [made], name=made)
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(made, TensorProto.FLOAT, None)])


def _is_whole(formal: str, reader: tuple[str, int]) -> bool:
    """Whether an input of an operator is of integers: by its schema, or as the attribute that it was."""
    op, position = reader
    moved = [name for name, at in MOVED.get(op, {}).items() if at == position and name not in FLOAT_ATTRIBUTES]
    return formal in ("tensor(int64)", "I", "Tind") or reader in NOTHING or bool(moved)


def draw(rule: Rule, seed: int) -> ModelProto:
    """A model of one window that the pattern describes, with a Neg after it. Raises Undrawable."""
    chance = random.Random(seed)
    drawing = _Drawing(chance, chance.choice(OPSETS), chance.randint(1, 4))
    last = drawing.tensor(rule.pattern, "")
    nodes = [*drawing.nodes, helper.make_node("Neg", [last], ["y"], name="y")]
    graph = helper.make_graph(
        nodes,
        "window",
        [helper.make_tensor_value_info(name, elem, sizes) for name, (elem, sizes) in drawing.inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        drawing.tensors,
    )
    opsets = [helper.make_opsetid("", drawing.opset)]
    if any(n.domain for n in nodes):
        opsets.append(helper.make_opsetid(DOMAIN, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
