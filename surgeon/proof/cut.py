"""Cutting the window of one rewrite out of the model, as two small models with the same inputs and outputs.

What a side reads becomes one of these:

1. A constant of the window, where its value is known.
2. Nodes of the window, where it follows from shapes alone: shapes are computed, not drawn.
3. An input of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

from surgeon.ir.definitions import by_definition
from surgeon.ir.following import Closure, divides, readers
from surgeon.ir.functions import ONNX, common_opset, opset_of
from surgeon.ir.graph import Graph, Node, Value, is_inside
from surgeon.ir.lattice import Dim, Shape
from surgeon.ir.model import Model
from surgeon.ir.operators import KEEP_ZERO, MEASURES, MOVES
from surgeon.ir.protos import all_nodes, body_protos, copied, functions_behind, reads
from surgeon.ir.run import Unrunnable
from surgeon.ir.schemas import DOMAIN
from surgeon.proof.pair import ModelPair
from surgeon.rules.meaning import IR_WITH_OVERLOADS, attach, has_meaning

if TYPE_CHECKING:
    from surgeon.rules.window import Rewrite

MOST_READERS = 32  # tensors after a window that are asked for what divides by them
SIGN_OF_ZERO = MOVES | KEEP_ZERO | {"Where"}  # that may hand on the sign of a zero
CONE_LIMIT = 400  # nodes that compute shapes, pulled into one window


@dataclass(frozen=True, slots=True)
class CutWindow:
    """The window of one rewrite, cut out.

    pair      its two sides
    tensors   the tensors of the model that the inputs of both sides stand for, in the order of the inputs
    unranked  the name of one of them of which not even the rank is known; empty where all are
    """

    pair: ModelPair
    tensors: tuple[Value, ...]
    unranked: str = ""


def _is_from_shapes(value: Value) -> bool | None:
    """Whether a tensor follows from shapes; None where it does if everything that its node reads does."""
    node = value.producer
    if value.is_written or (node is not None and node.key in MEASURES):
        return True
    return False if node is None or value.varies or node.bodies or "::" in node.key else None


class Cutter:
    """Cuts windows out of one model.

    present    a tensor -> the one that its readers read now
    originals  a tensor -> the file's node for it, where that was rewritten
    fixed      the sizes of named dimensions that the user gives
    """

    def __init__(
        self,
        model: Model,
        *,
        present: Callable[[Value | None], Value | None],
        originals: Mapping[Value, Node],
        fixed: Mapping[str, int],
    ) -> None:
        self.model = model
        self.fixed = fixed
        self._present = present
        self.originals = originals
        self.from_shapes = Closure(_is_from_shapes)

    def cut(self, record: Rewrite) -> CutWindow | None:
        """The rewrite's window; None where it has no outputs, since what went was read by nobody.

        Raises Unrunnable where the type of an input is not known.
        """
        outputs = [o for o in record.outputs if not self._is_unread(record.aliases.get(o))]
        if not outputs:
            return None
        went = dict.fromkeys([*record.removed, *record.matched])
        stands = (*record.added, *_standing(record.matched))
        has_bodies = any(n.bodies for n in (*went, *record.added))
        shared = _Shared(self, record.root.graph, keeps_names=has_bodies)
        before = _Before(shared, {o: n for n in went for o in n.outputs if o is not None}, record.aliases)
        after = _After(shared, {o: n for n in stands for o in n.outputs if o is not None})
        for out in outputs:
            before.add(out)
        for out in outputs:
            after.add(out, record.aliases.get(out))
        return shared.window_of(before.nodes, after.nodes, outputs, _equal_dims(self.model, went))

    def read_now(self, value: Value) -> Value:
        """The tensor that the readers of another one read now."""
        return self._present(value) or value

    def is_divided_by(self, value: Value) -> bool:
        """Whether a Reciprocal or a Div may make an infinity of a zero of a tensor, directly or after a few nodes."""
        found = readers([value, self.read_now(value)], lambda node: node.key in SIGN_OF_ZERO, most=MOST_READERS)
        return any(divides(node, read) for node, read in found)

    def _is_unread(self, alias: Value | None) -> bool:
        """Whether a tensor that stands for a window's output has gone since: no node is left to read it."""
        now = self._present(alias) if alias is not None else None
        return now is not None and now.producer is not None and not now.producer.alive and not now.users


class _Shared:
    """What both sides of a window share: names, inputs, constants, opsets.

    keeps_names  tensors are called as in the model: a body captures outer tensors by name
    """

    def __init__(self, cutter: Cutter, graph: Graph, *, keeps_names: bool) -> None:
        self.cutter = cutter
        self.model = cutter.model
        self.opsets_before = {**self.model.opsets_in(graph, file=True), DOMAIN: 1}
        self.opsets_after = {**self.model.opsets_in(graph), DOMAIN: 1}
        self.keeps_names = keeps_names
        self.inputs: dict[Value, None] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.cone: dict[Node, bool] = {}  # whether a node that computes shapes is pulled in
        self.room = CONE_LIMIT
        self.largest_pad = 0
        self._names: dict[Value, str] = {}

    @property
    def is_lowered(self) -> bool:
        """Whether the opset has come down: then the file's nodes are not valid beside the present ones."""
        return self.opsets_before != self.opsets_after

    def name(self, value: Value) -> str:
        if value not in self._names:
            self._names[value] = value.name if self.keeps_names else f"v{len(self._names)}"
        return self._names[value]

    def has_source(self, value: Value) -> bool:
        """Whether a tensor is an input or a constant of the window; it becomes a constant where its value is known."""
        if value in self.inputs or self.name(value) in self.constants:
            return True
        if not self.model.is_constant(value):
            return False
        array = self.model.constant(value)
        if array is None:
            return False
        self.constants[self.name(value)] = array
        return True

    def pulls(self, value: Value, producer: Node | None) -> bool:
        """Whether the node that makes a tensor becomes a part of the window, for both sides and all readers."""
        if producer is None:
            return False
        node = value.producer or producer
        if node not in self.cone:
            self.cone[node] = self.room > 0 and self.cutter.from_shapes.holds(value)
            self.room -= self.cone[node]
        return self.cone[node]

    def window_of(
        self,
        before: Sequence[NodeProto],
        after: Sequence[NodeProto],
        outputs: Sequence[Value],
        equal: Mapping[Dim, Dim],
    ) -> CutWindow:
        """The window whose sides have these nodes. Raises Unrunnable where the type of an input is not known.

        equal  a dimension -> the one that it must be equal to
        """
        untyped = next((v for v in self.inputs if not self.model.dtype(v)), None)
        if untyped is not None:
            raise Unrunnable(f"the type of '{untyped.name}' is not known")
        declared = [(self.name(v), self.model.dtype(v), _renamed(self.model.shape(v), equal)) for v in self.inputs]
        # names of dimensions are numbered, so that like windows are alike
        names = dict.fromkeys(d for _, _, shape in declared for d in shape or () if isinstance(d, str))
        numbered: dict[Dim, Dim] = {d: f"d{k}" for k, d in enumerate(names)}
        infos = [
            helper.make_tensor_value_info(name, elem, None if shape is None else [numbered.get(d, d) for d in shape])
            for name, elem, shape in declared
        ]
        results = [onnx.ValueInfoProto(name=self.name(o)) for o in outputs]
        pair = ModelPair(
            self._side(before, infos, results, self.opsets_before),
            self._side(after, infos, results, self.opsets_after),
            tuple((name, elem, shape or ()) for name, elem, shape in declared),
            largest_pad=self.largest_pad,
            fixed=self.cutter.fixed,
            signed_zeros=frozenset(k for k, o in enumerate(outputs) if self.cutter.is_divided_by(o)),
        )
        unranked = [v.name for v in self.inputs if self.model.shape(v) is None]
        return CutWindow(pair, tuple(self.inputs), unranked[-1] if unranked else "")

    def _side(
        self,
        nodes: Sequence[NodeProto],
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
        opsets: Mapping[str, int],
    ) -> ModelProto:
        """One side as a model, with the functions that its nodes call."""
        needed = {*(o.name for o in outputs), *(name for n in nodes for name in reads(n))}
        model = ModelProto(ir_version=IR_WITH_OVERLOADS)
        for domain, version in opsets.items():
            model.opset_import.add(domain=domain, version=version)
        graph = model.graph
        graph.name = "window"
        graph.node.extend(nodes)
        graph.input.extend(inputs)
        graph.output.extend(outputs)
        graph.initializer.extend(
            [numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in needed]
        )
        if self.model.file_functions:
            model.functions.extend(functions_behind(all_nodes(graph), self.model.file_functions))
            _reconcile(model)
        _define(model)
        return model


def _reconcile(model: ModelProto) -> None:
    """Declare an opset of which the functions are, too, where that means the same, and the domains of their nodes: ONNX
    Runtime reads all as the model declares it."""
    used = {n.op_type for n in all_nodes(model.graph) if n.domain in ONNX}
    opset = common_opset(used, opset_of(model), model.functions)
    if opset is not None:
        for entry in model.opset_import:
            if entry.domain in ONNX:
                entry.version = opset
    for entry in [o for function in model.functions for o in function.opset_import]:
        if entry.domain not in (*ONNX, *(o.domain for o in model.opset_import)):
            model.opset_import.append(entry)


class _CutSide:
    """The nodes of one side of a window, in topological order. `made`: a tensor -> the node that makes it here."""

    def __init__(self, shared: _Shared, made: Mapping[Value, Node]) -> None:
        self.shared = shared
        self.made = made
        self.nodes: list[NodeProto] = []
        self._done: set[Node] = set()

    def add(self, out: Value) -> None:
        """Add what makes a tensor, inputs first."""
        stack = [(out, False)]
        while stack:
            value, inputs_are_there = stack.pop()
            node = self._maker(value)
            if node is None or node in self._done:
                continue
            if inputs_are_there:
                self._done.add(node)
                self.nodes += self._named_again(node)
                self.nodes.append(self._copy(node))
                continue
            stack.append((value, True))
            stack.extend((self._read(v), False) for v in (*node.inputs, *self._captures(node)) if v is not None)

    def _producer(self, value: Value) -> Node | None:
        raise NotImplementedError

    def _nodes_in(self, body: Graph) -> Iterable[Node]:
        raise NotImplementedError

    def _maker(self, value: Value) -> Node | None:
        """The node of the window that makes a tensor; None for a constant and for an input, which is noted."""
        if value in self.made:
            return self.made[value]
        if self.shared.has_source(value):
            return None
        producer = self._producer(value)
        if self.shared.pulls(value, producer):
            return producer
        self.shared.inputs[value] = None
        return None

    def _read(self, value: Value) -> Value:
        return value if value in self.made else self.shared.cutter.read_now(value)

    def _captures(self, node: Node) -> Iterator[Value]:
        """What the bodies of a node read of the graphs around them."""
        for body in node.bodies:
            for inner in self._nodes_in(body):
                yield from (v for v in inner.inputs if v is not None and not is_inside(v.graph, body))

    def _named_again(self, node: Node) -> list[NodeProto]:
        """What a body reads by a name that the tensor has no more, by that name."""
        if not node.bodies:
            return []
        present = {o for n in self.nodes for o in n.output}
        found: dict[str, NodeProto] = {}
        for captured in self._captures(node):
            read, name = self._read(captured), captured.name
            if read is not captured and name not in present:
                found[name] = helper.make_node("Identity", [self.shared.name(read)], [name])
        return list(found.values())

    def _copy(self, node: Node) -> NodeProto:
        """A node as the window has it: with its names, and without what tells like windows apart: the node's own name,
        the names of tensors in attributes, and documentation."""
        proto = copied(node.proto)
        self._copy_bodies(node, proto)
        proto.name = ""
        proto.doc_string = ""
        del proto.metadata_props[:]
        for attribute in proto.attribute:
            attribute.doc_string = ""
            if attribute.HasField("t"):
                attribute.t.ClearField("name")
                attribute.t.ClearField("doc_string")
        proto.input[:] = ["" if v is None else self.shared.name(self._read(v)) for v in node.inputs]
        proto.output[:] = ["" if v is None else self.shared.name(v) for v in node.outputs]
        if node.key == "Pad":
            self.shared.largest_pad = max(self.shared.largest_pad, largest_pad(node, self.shared.model))
        return proto

    def _copy_bodies(self, node: Node, proto: NodeProto) -> None:
        """Nothing where the bodies are those of the file, which `proto` has."""


class _Before(_CutSide):
    """The original's side: nodes and bodies as the file has them.

    aliases  tensors that went without a node in their place, and what their readers read now
    """

    def __init__(self, shared: _Shared, made: Mapping[Value, Node], aliases: Mapping[Value, Value]) -> None:
        super().__init__(shared, made)
        self._in_file = _in_file(made, aliases)

    def _read(self, value: Value) -> Value:
        return super()._read(self._in_file.get(value, value))

    def _producer(self, value: Value) -> Node | None:
        if self.shared.is_lowered:
            return self.shared.cutter.originals.get(value, value.producer)
        return value.producer

    def _nodes_in(self, body: Graph) -> Iterable[Node]:
        return _nodes_of_file(body)


class _After(_CutSide):
    """The rewritten side: nodes and bodies as they are."""

    def add(self, out: Value, alias: Value | None = None) -> None:
        """Add what makes a tensor; `alias`: the one that stands for it, where no node makes it any more."""
        if alias is None:
            super().add(out)
            return
        stands = self.shared.cutter.read_now(alias)
        super().add(stands)
        self.nodes.append(helper.make_node("Identity", [self.shared.name(stands)], [self.shared.name(out)]))

    def _producer(self, value: Value) -> Node | None:
        return value.producer

    def _nodes_in(self, body: Graph) -> Iterable[Node]:
        return body.live_deep()

    def _copy_bodies(self, node: Node, proto: NodeProto) -> None:
        for body, inner in zip(node.bodies, body_protos(proto), strict=True):
            body.copy_into(inner)


def _in_file(made: Mapping[Value, Node], aliases: Mapping[Value, Value]) -> dict[Value, Value]:
    """New tensors -> the one tensor of the file that they were read instead of."""
    found: dict[Value, set[Value]] = {}
    for old in aliases.keys() & made.keys():
        new = old
        while new in aliases:
            new = aliases[new]
            if new.producer is not None and new.producer.is_new:
                found.setdefault(new, set()).add(old)
    return {new: old for new, (old, *others) in found.items() if not others and not _follows(old, new, made)}


def _follows(value: Value, source: Value, made: Mapping[Value, Node]) -> bool:
    """Whether the nodes of a window make a tensor of another one: then it cannot be read instead of that."""
    todo, seen = [value], {value}
    while todo:
        read = set(_reads_in_file(made[todo.pop()]))
        if source in read:
            return True
        todo += [v for v in read - seen if v in made]
        seen |= read
    return False


def _reads_in_file(node: Node) -> Iterator[Value]:
    """What a node and its bodies read, as the file has them."""
    inner = (n for body in node.bodies for n in _nodes_of_file(body))
    yield from (v for n in (node, *inner) for v in n.inputs if v is not None)


def _equal_dims(model: Model, nodes: Iterable[Node]) -> dict[Dim, Dim]:
    """The dimensions that a Concat requires to be equal: each name -> a number, or the name that all of them get."""
    found: dict[Dim, Dim] = {}
    for node in nodes:
        shapes = [model.shape(v) for v in node.inputs if v is not None] if node.key == "Concat" else []
        ranked = [shape for shape in shapes if shape is not None]
        if not ranked or len({len(shape) for shape in ranked}) > 1:
            continue
        joined = (node.attr("axis") or 0) % len(ranked[0])
        for axis, dims in enumerate(zip(*ranked, strict=True)):
            now = {d: None for d in (found.get(d, d) for d in dims) if d is not None}
            if axis == joined or len(now) < 2:
                continue
            one = next((d for d in now if isinstance(d, int)), next(iter(now)))
            found.update({d: one for d in (*found, *now) if isinstance(d, str) and found.get(d, d) in now})
    return found


def _renamed(shape: Shape | None, equal: Mapping[Dim, Dim]) -> Shape | None:
    return None if shape is None else tuple(equal.get(d, d) for d in shape)


def _define(model: ModelProto) -> None:
    """Let surgeon's own nodes, and those from whose definition ONNX Runtime strays, be computed by their meaning."""
    holders = (model.graph, *(f for f in model.functions if f.domain != DOMAIN))
    nodes = [n for holder in holders for n in all_nodes(holder)]
    for node in nodes:
        if not node.domain and has_meaning(node.op_type):
            node.domain = DOMAIN
    by_definition(model)
    if any(n.domain == DOMAIN for n in nodes):
        attach(Model(model))


def _standing(matched: Iterable[Node]) -> Iterator[Node]:
    """What is inside a match, on which a body may build: its nodes, or what another rewrite has made of them."""
    for node in matched:
        if node.alive:
            yield node
            continue
        for out in node.outputs:
            origin = out.producer.origin if out is not None and out.producer is not None else None
            if origin is not None:
                yield from (n for n in origin.added if n.alive)


def _nodes_of_file(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for body in node.bodies:
            yield from _nodes_of_file(body)


def largest_pad(node: Node, model: Model) -> int:
    """The largest number of a Pad's constant pads, which chosen sizes exceed; 0 where they are not known."""
    operands = node.operands()
    array = model.constant(operands[1]) if len(operands) > 1 else None
    if array is None or not array.size or array.dtype.kind != "i":
        return 0
    return int(np.abs(array).max())
