"""Windows that a rule's pattern matches, drawn from the pattern itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.ir.model import Model
from surgeon.ir.schemas import attribute_types, formal_types, schema
from surgeon.rules.driver import Driver
from surgeon.rules.pattern import Absent, Attr, Choice, Const, Op, Output, Pattern, Var
from surgeon.rules.rule import Pass, Rule
from surgeon.targets.target import Target

OPSETS = (17, 20, 24)  # those of HardSwish, Gelu and Swish: the patterns match at all of them
SCALARS = (1.0, 2.0, 0.5, 0.1, 0.25, 3.0, 6.0, 0.01, 1.5, -0.2, -1.0, 0.0, 20.0)
WHOLE = (0, 1, -1, 2, 2**31 - 1)  # what the numbers of a constant of whole numbers are, all of them
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


class Undrawable(Exception):
    """Ends the drawing of a window that no model of this kind can be."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A window before and behind a rule, and the alternatives of the pattern that it takes."""

    before: ModelProto
    after: ModelProto
    taken: frozenset[tuple[int, int]]


@dataclass
class _Drawing:
    """One window as it is drawn."""

    random: random.Random
    opset: int
    rank: int
    nodes: list[NodeProto] = field(default_factory=list)
    tensors: list[TensorProto] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)  # name: type
    made: dict[int, str] = field(default_factory=dict)
    taken: set[tuple[int, int]] = field(default_factory=set)

    def tensor(self, p: Pattern, formal: str) -> str:
        """The name of the tensor that a pattern stands for."""
        if isinstance(p, Absent):
            return ""
        if id(p) not in self.made:
            self.made[id(p)] = self._draw(p, formal)
        return self.made[id(p)]

    def _draw(self, p: Pattern, formal: str) -> str:
        if isinstance(p, Choice):
            number = self.random.randrange(len(p.alternatives))
            self.taken.add((id(p), number))
            return self.tensor(p.alternatives[number], formal)
        if isinstance(p, Var):
            name = f"x{len(self.inputs)}"
            self.inputs[name] = TensorProto.INT64 if formal == "tensor(int64)" else TensorProto.FLOAT
            return name
        if isinstance(p, Const):
            return self._constant(p, formal)
        if isinstance(p, Output):
            self.tensor(p.node, formal)
            return f"{self.made[id(p.node)]}.{p.index}" if p.index else self.made[id(p.node)]
        if isinstance(p, Op):
            return self._node(p)
        raise Undrawable(type(p).__name__)

    def _constant(self, p: Const, formal: str) -> str:
        name = f"c{len(self.tensors)}"
        if formal == "tensor(int64)":
            array = np.asarray([int(p.value)] if p.value is not None else self._whole(), np.int64)
        else:
            array = np.asarray(self.random.choice(SCALARS) if p.value is None else p.value, np.float32)
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def _whole(self) -> list[int]:
        """Axes, sizes, pads: one number as often as the window has axes or ends of axes, or a shape that copies."""
        if self.random.random() < 0.2:
            return [*[0] * (self.rank - 1), -1]
        return [self.random.choice(WHOLE)] * self.random.choice((1, self.rank, 2 * self.rank))

    def _node(self, p: Op) -> str:
        spec = schema(p.type, "", self.opset)
        if p.domain or spec is None:
            raise Undrawable(p.type)
        formal = formal_types(p.type, "", self.opset)
        given = [self.tensor(q, formal[min(k, len(formal) - 1)] if formal else "") for k, q in enumerate(p.inputs)]
        types = attribute_types(p.type, "", self.opset)
        attrs: dict[str, Any] = {}
        for name, wanted in p.attrs.items():
            if isinstance(wanted, Attr) and self.random.random() < 0.7 and types.get(name) in NUMBERS:
                attrs[name] = self.random.choice(NUMBERS[types[name]])
            elif not isinstance(wanted, Attr):
                attrs[name] = wanted
        for name in [n for n, a in spec.attributes.items() if a.required and n not in attrs]:
            if types[name] not in NUMBERS:
                raise Undrawable(f"{p.type} with {name}")
            attrs[name] = self.random.choice(NUMBERS[types[name]])
        output = f"t{len(self.nodes)}"
        count = max(1, spec.min_output)
        outputs = [output, *(f"{output}.{k}" for k in range(1, count))]
        self.nodes.append(helper.make_node(p.type, given, outputs, name=output, **attrs))
        return output


def draw(rule: Rule, seed: int) -> tuple[ModelProto, frozenset[tuple[int, int]]]:
    """A model of one window that the pattern describes, with a Neg behind it. Raises Undrawable."""
    chance = random.Random(seed)
    drawing = _Drawing(chance, chance.choice(OPSETS), chance.randint(1, 4))
    last = drawing.tensor(rule.pattern, "")
    nodes = [*drawing.nodes, helper.make_node("Neg", [last], ["y"], name="y")]
    sizes = [f"n{k}" for k in range(drawing.rank)]
    graph = helper.make_graph(
        nodes,
        "window",
        [helper.make_tensor_value_info(name, elem, sizes) for name, elem in drawing.inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        drawing.tensors,
    )
    opsets = [helper.make_opsetid("", drawing.opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), frozenset(drawing.taken)


def instances(rule: Rule, tries: int) -> Iterator[Instance]:
    """The windows, of so many drawn, to which the rule applies."""
    target = Target.parse("11.0")
    alone = Pass(rule.pass_name, "One rule.", (rule,), ())
    for seed in range(tries):
        try:
            before, taken = draw(rule, seed)
            after = ModelProto()
            after.CopyFrom(before)
            driver = Driver(Model(after), [alone], target)
            driver.run()
        except Exception:  # not only Undrawable: a body may end otherwise over a window that ONNX forbids
            continue
        if driver.rewrites:
            yield Instance(before, driver.model.sync(), taken)


def alternatives(pattern: Any, seen: set[int] | None = None) -> set[tuple[int, int]]:
    """Every alternative that a pattern offers somewhere."""
    seen = set() if seen is None else seen
    if id(pattern) in seen:
        return set()
    seen.add(id(pattern))
    inner: list[Any] = []
    found: set[tuple[int, int]] = set()
    if isinstance(pattern, Choice):
        inner = list(pattern.alternatives)
        found = {(id(pattern), k) for k in range(len(inner))}
    elif isinstance(pattern, Op):
        inner = list(pattern.inputs)
    elif isinstance(pattern, Output):
        inner = [pattern.node]
    return found.union(*(alternatives(p, seen) for p in inner)) if inner else found


def of_root(pattern: Pattern) -> set[tuple[int, int]]:
    """The alternatives that a pattern offers for its root; none where it has one spelling alone."""
    return {(id(pattern), k) for k in range(len(pattern.alternatives))} if isinstance(pattern, Choice) else set()
