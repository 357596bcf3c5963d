"""Tensors, nodes and scopes: the ONNX protobuf, indexed. The module that edits nodes.

A `Value` is a tensor: it knows its producer and its readers, and a reader inside a body is a reader of the outer value.
A `Node` wraps a NodeProto. A `Graph` is one scope: the main graph, a body of an If, Loop or Scan, or a local function.
Untouched nodes leave exactly as they came; new nodes are where the node that they replace was, so the order stays
topological and nothing is ever sorted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, numpy_helper

from surgeon.errors import ModelError
from surgeon.ir.attributes import AttributeReference, node_text, read_attribute, shown, write_attributes
from surgeon.ir.protos import IR_WITH_DEFAULTS, body_protos, in_topological_order, label_of, named_by_training, refill
from surgeon.ir.schemas import BODIED, FLOAT_ATTRIBUTES, FLOAT_LIMIT, MOVED, key_of
from surgeon.ir.validity import check_branches, check_sparse, check_tensor

if TYPE_CHECKING:
    from surgeon.ir.model import Model

SERIALS = 1 << 40  # more nodes than anybody makes
PLACE = attrgetter("place")
# They read what may be known of a tensor whose values are not: its sizes, its type.
VALUELESS = frozenset({"Shape", "Size", "EyeLike", "CastLike"})


class Value:
    """A tensor of one graph: `name`, its `producer` node and output `index`, and the nodes that read it."""

    __slots__ = ("name", "graph", "producer", "index", "users", "is_output", "is_input", "tensor", "varies")

    def __init__(
        self, name: str, graph: Graph, producer: Node | None = None, index: int = 0, varies: bool = False
    ) -> None:
        self.name = name
        self.graph = graph
        self.producer = producer
        self.index = index
        self.users: dict[Node, None] = {}
        self.is_output = False
        self.is_input = False
        self.tensor: TensorProto | None = None
        self.varies = varies  # True: computed from an input's values, so never a constant. False says nothing

    def __repr__(self) -> str:
        return f"Value({self.name!r})"

    @property
    def text(self) -> str:
        """The name; of an initializer with one element the number too: `floor=1e-12`."""
        if self.tensor is None or self.is_input or math.prod(self.tensor.dims) != 1:
            return self.name
        if self.tensor.data_location == TensorProto.EXTERNAL:
            return self.name
        return f"{self.name}={shown(self.tensor)}"

    @property
    def is_written(self) -> bool:
        """Whether the value is in the file: as an initializer that no caller replaces, or as a Constant node.

        An initializer that is an input too (since IR version 4) is a default, which a caller may replace.
        """
        if self.producer is not None:
            return self.producer.key == "Constant"
        return self.tensor is not None and not self.is_input

    @property
    def is_read(self) -> bool:
        """Whether a node reads it, or it is an output of its graph."""
        return bool(self.users) or self.is_output


class Node:
    """A node of one graph. `inputs` and `outputs` hold a `Value`, or None where the file has an empty name."""

    __slots__ = ("key", "proto", "graph", "inputs", "outputs", "place", "alive", "bodies", "_origin", "_attrs")

    def __init__(self, key: str, proto: NodeProto, graph: Graph, inputs: list[Value | None], place: int) -> None:
        self.key = key
        self.proto = proto
        self.graph = graph
        self.inputs = inputs
        self.outputs: list[Value | None] = []
        # Orders the nodes of a graph, in slots of SERIALS places each: the nodes made for a slot, and after them the
        # file's own, at its last place.
        self.place = place
        self.alive = True
        self.bodies: tuple[Graph, ...] = ()
        self._origin: Any = None
        self._attrs: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Node({self.label})"

    @property
    def origin(self) -> Any:
        """The rewrite that made this node or the one whose body it is in, or that has absorbed it; None: the file."""
        if self._origin is not None:
            return self._origin.whole
        return None if self.graph.holder is None else self.graph.holder.origin

    @origin.setter
    def origin(self, rewrite: Any) -> None:
        self._origin = rewrite

    @property
    def slot(self) -> int:
        """The number of the file's node that is there or before which it is."""
        return self.place // SERIALS

    @property
    def is_new(self) -> bool:
        """Whether a rewrite made the node, and not the file."""
        return self.place % SERIALS != SERIALS - 1

    @property
    def op(self) -> str:
        """The operator, without its domain."""
        return self.proto.op_type

    @property
    def domain(self) -> str:
        """The domain of the operator; empty for ONNX's own."""
        return "" if self.proto.domain == "ai.onnx" else self.proto.domain

    @property
    def name(self) -> str:
        """The name that the file gives the node; may be empty."""
        return self.proto.name

    @property
    def label(self) -> str:
        """The node's name, or its operator and first output where the file gives it none."""
        return label_of(self.proto)

    @property
    def text(self) -> str:
        """`y = Op(a, b, axis=1)`: the node as a person writes it."""
        inputs = ["" if v is None else v.text for v in self.inputs]
        return node_text(self.op, inputs, ["" if v is None else v.name for v in self.outputs], self.attrs)

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes that the file writes, as Python values; strings decoded."""
        if self._attrs is None:
            self._attrs = {a.name: read_attribute(a) for a in self.proto.attribute[:]}
        return self._attrs

    def attr(self, name: str) -> Any:
        """The attribute's value; the schema's default where the file leaves it out; None where there is neither."""
        attrs = self.attrs
        if name in attrs:
            return attrs[name]
        if name == "perm" and self.key == "Transpose":
            return self.graph.model.reversed_axes(self)
        return self.graph.model.schema_defaults(self).get(name)

    def body(self, name: str) -> Graph:
        """The body that the attribute `name` holds."""
        names = [a.name for a in self.proto.attribute if a.type == AttributeProto.GRAPH]
        return self.bodies[names.index(name)]

    def reads(self) -> Iterator[Value]:
        """The tensors that the node and its bodies read."""
        yield from (v for v in self.inputs if v is not None)
        for body in self.bodies:
            for inner in body.live_deep():
                yield from (v for v in inner.inputs if v is not None)

    def input_at(self, position: int) -> Value | None:
        """The input at a position; None where it is empty or left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def operands(self) -> Sequence[Any]:
        """The inputs without trailing empty ones, as newer opsets have them.

        What older opsets write as attributes is in its place as an array, or as an AttributeReference.
        """
        moved = MOVED.get(self.key)
        if moved is None and (not self.inputs or self.inputs[-1] is not None):
            return self.inputs
        found: list[Any] = list(self.inputs)
        if moved is not None and self.proto.attribute:
            self._add_moved(found, moved)
        while found and found[-1] is None:
            found.pop()
        return found

    def _add_moved(self, found: list[Any], moved: dict[str, int]) -> None:
        """Add to the inputs what the node writes as attributes."""
        for name, position in moved.items():
            if name not in self.attrs or len(found) > position:
                continue
            given = self.attrs[name]
            if self.key == "Clip" and abs(given) >= FLOAT_LIMIT:
                continue
            found += [None] * (position - len(found))
            if isinstance(given, AttributeReference):
                found.append(given)
                continue
            dtype = np.float32 if name in FLOAT_ATTRIBUTES else np.int64
            found.append(np.asarray(given, dtype))


class Graph:
    """One scope: the main graph, a body or a local function."""

    def __init__(
        self, proto: GraphProto | onnx.FunctionProto, model: Model, parent: Graph | None, owner: Node | str = ""
    ) -> None:
        self.proto = proto
        self.model = model
        self.parent = parent
        self.holder = owner if isinstance(owner, Node) else None  # the node whose body it is
        self.title = f"a body of {owner.label}" if isinstance(owner, Node) else owner or "the graph"
        self.is_function = isinstance(proto, onnx.FunctionProto)
        self.in_function: bool = self.is_function or (parent is not None and parent.in_function)
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []  # as the file has them
        self.fronts: dict[Node, list[Node]] = {}  # the new nodes that are right before a node, in order
        self._spots: dict[Node, tuple[Node, int]] = {}  # of a new node: what it is before, its number there
        self.by_op: dict[str, dict[Node, None]] = {}
        self.bodied: dict[Node, None] = {}  # the nodes with bodies, dead ones included
        self.new_tensors: list[Value] = []
        self.kinds_of_tensors: set[tuple[int, int]] = set()  # (type, number of dimensions) of every initializer so far
        self.edited = False
        self._index()

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _index(self) -> None:
        """Index the protobuf. Raises ModelError where it breaks ONNX's rules of naming and order."""
        for name in self._names(self.proto.input):
            value = self._define(name)
            value.is_input = value.varies = True
        if isinstance(self.proto, GraphProto):
            self._add_initializers(self.proto)
        try:
            self._add_nodes(self.proto.node)
        except _ReadsLater:
            self._forget_nodes()
            self._add_nodes(in_topological_order(self.proto.node, self.title))
            self.edited = True
        for name in self._names(self.proto.output):
            returned = self.find(name)
            if returned is None:
                raise ModelError(
                    f"the output '{name}' of {self.title} is produced by no node. Every graph output needs a producer."
                )
            returned.is_output = True
        if self.parent is None and not self.is_function:
            self._keep_trained()

    def _names(self, entries: Iterable[Any]) -> list[str]:
        """The names of inputs or outputs: a function has no more than those."""
        return list(entries) if self.is_function else [info.name for info in entries]

    def _add_initializers(self, proto: GraphProto) -> None:
        """Index the initializers; since IR version 4 one that is an input too is that input's default."""
        overridable = self.model.proto.ir_version >= IR_WITH_DEFAULTS
        values = self.values
        for tensor in proto.initializer:
            name = tensor.name
            value = values.get(name)
            if value is None:
                value = values[name] = Value(name, self)
            elif value.tensor is not None:
                raise ModelError(f"two initializers are called '{name}'. Rename one of them.")
            if not overridable:
                value.is_input = value.varies = False  # before IR 4 every initializer had to be listed as an input
            value.tensor = tensor
            check_tensor(tensor)
            self.kinds_of_tensors.add((tensor.data_type, len(tensor.dims)))
        for sparse in proto.sparse_initializer:
            check_sparse(sparse)
            self._define(sparse.values.name)

    def _keep_trained(self) -> None:
        """What training reads or updates stays, as an output does."""
        for name in named_by_training(self.model.proto):
            trained = self.values.get(name)
            if trained is not None:
                trained.is_output = True

    @property
    def outputs(self) -> list[Value]:
        """The tensors that the scope returns, in order; those of graphs around a body among them."""
        return [v for v in map(self.find, self._names(self.proto.output)) if v is not None]

    def _define(self, name: str) -> Value:
        if name in self.values:
            raise ModelError(f"the tensor '{name}' of {self.title} is defined twice. Tensor names must be unique.")
        value = self.values[name] = Value(name, self)
        return value

    def _add_nodes(self, protos: Iterable[NodeProto]) -> None:
        values, nodes, by_op = self.values, self.nodes, self.by_op
        place = SERIALS - 1
        for proto in protos:  # the one loop over everything in the file: what it calls costs more than what it does
            key, domain = intern(proto.op_type), proto.domain  # one text for all nodes of an operator
            if domain and domain != "ai.onnx":
                key = f"{domain}::{key}"
            inputs: list[Value | None] = []
            node = Node(key, proto, self, inputs, place)
            place += SERIALS
            varies = False
            for name in proto.input[:]:  # a slice is a list: twice as fast as walking the field
                value = values.get(name)
                if value is None and name:
                    value = self._outer(name, node)
                if value is not None:
                    value.users[node] = None
                    if value.varies:
                        varies = True
                inputs.append(value)
            if domain or key in BODIED:
                self._add_bodies(node)
            if varies and key in VALUELESS:
                varies = False
            outputs = node.outputs
            for name in proto.output[:]:
                if not name:
                    outputs.append(None)
                    continue
                if name in values:
                    raise ModelError(
                        f"the tensor '{name}' of {self.title} is produced twice, the second time by {node.label}. "
                        "Tensor names must be unique."
                    )
                value = values[name] = Value(name, self, node, len(outputs), varies)
                outputs.append(value)
            nodes.append(node)
            row = by_op.get(key)
            if row is None:
                row = by_op[key] = {}
            row[node] = None

    def _outer(self, name: str, reader: Node) -> Value:
        """The tensor of an enclosing scope that a node reads; raises where no node before it makes one."""
        value = self.find(name)
        if value is not None:
            return value
        around: Graph | None = self
        while around is not None:
            if any(name in later.output for later in around.proto.node):
                raise _ReadsLater
            around = around.parent
        raise ModelError(f"the node {reader.label} of {self.title} reads '{name}', which nothing produces.")

    def _add_bodies(self, node: Node) -> None:
        protos = body_protos(node.proto)
        if protos:
            if node.key == "If":
                check_branches(node.proto, node.label)
            node.bodies = tuple([Graph(g, self.model, self, node) for g in protos])
            self.bodied[node] = None

    def _forget_nodes(self) -> None:
        """Take back a half-made index: what the nodes so far defined and read."""
        for value in [v for v in self.values.values() if v.producer is not None]:
            del self.values[value.name]
        scope: Graph | None = self
        while scope is not None:
            for value in scope.values.values():
                value.users = {n: None for n in value.users if not is_inside(n.graph, self)}
            scope = scope.parent
        self.nodes, self.by_op, self.bodied = [], {}, {}

    def find(self, name: str) -> Value | None:
        """The value that `name` means in this scope, looked up outwards."""
        scope: Graph | None = self
        while scope is not None:
            value = scope.values.get(name)
            if value is not None:
                return value
            scope = scope.parent
        return None

    def live(self) -> list[Node]:
        """The nodes in their present, topological order."""
        if not self.fronts:
            return [n for n in self.nodes if n.alive]
        found, fronts = [], self.fronts
        for node in self.nodes:
            if node in fronts:
                found += [n for n in self._in_front_of(node) if n.alive]
            if node.alive:
                found.append(node)
        return found

    def _in_front_of(self, node: Node) -> list[Node]:
        """The new nodes of a node's slot, in order, dead ones included."""
        found: list[Node] = []
        todo = self.fronts[node][:]
        while todo:
            last = todo.pop()
            found.append(last)
            todo += self.fronts.get(last, ())
        found.reverse()
        return found

    def of(self, operators: Iterable[str]) -> list[Node]:
        """The nodes of these operators, in order."""
        rows = [row for row in map(self.by_op.get, operators) if row]
        return sorted([node for row in rows for node in row], key=PLACE)

    def position(self, node: Node) -> tuple[float, ...]:
        """Sorts the graph's nodes as they are: what is made anew in a slot may be before what was made first."""
        path: list[float] = [math.inf]  # after whatever is before it
        current = node
        while current.is_new:
            current, number = self._spots[current]
            path.append(number)
        return current.slot, *reversed(path)

    # ---- editing ---------------------------------------------------------------------------------------------------

    def make(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: dict[str, Any],
        domain: str,
        names: Sequence[str],
        at: Node,
    ) -> Node:
        """A new node that is where `at` is.

        Its outputs have `names`, which no tensor has. The node is called like the first of them.
        """
        proto = self.model.new_nodes.add()
        proto.op_type, proto.name = op, names[0]
        key = op
        if domain:
            self.model.types.infer_first()
            proto.domain = domain
            key = key_of(domain, op)
        self.model.made += 1
        node = Node(key, proto, self, list(inputs), at.place // SERIALS * SERIALS + self.model.made)
        node._attrs = write_attributes(proto, attrs) if attrs else {}
        if domain or op in BODIED:
            self._add_bodies(node)
        varies, read_names = False, []
        for read in inputs:
            if read is None:
                read_names.append("")
                continue
            read_names.append(read.name)
            read.users[node] = None
            if read.varies:
                varies = True
        if op in VALUELESS:
            varies = False
        proto.input.extend(read_names)  # at once: to get at a repeated field takes longer than to add to it
        proto.output.extend(names)
        for index, name in enumerate(names):
            value = self.values[name] = Value(name, self, node, index, varies)
            node.outputs.append(value)
        front = self.fronts.setdefault(at, [])
        self._spots[node] = at, len(front)
        front.append(node)
        self.by_op.setdefault(key, {})[node] = None
        self.edited = True
        return node

    def constant(self, array: np.ndarray, name: str, at: Node) -> Value:
        """A new constant: an initializer, or a Constant node where the scope or the IR version has none.

        ONNX lets a body inside a function have them, but TensorRT's parser reads freed memory for those.
        """
        tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        if self.in_function or self.model.proto.ir_version < IR_WITH_DEFAULTS:
            return self.make("Constant", [], {"value": tensor}, "", [name], at).outputs[0]  # type: ignore[return-value]
        value = self._define(name)
        value.tensor = tensor
        self.kinds_of_tensors.add((tensor.data_type, len(tensor.dims)))
        self.new_tensors.append(value)
        self.edited = True
        return value

    def restore(self, node: Node) -> None:
        """Put back a node that `remove` took away. Its place is still its own."""
        for body in node.bodies:
            for inner in body.live_deep():
                for value in inner.inputs:
                    if value is not None:
                        value.users[inner] = None
        for index, value in enumerate(node.outputs):
            if value is not None:
                value.producer, value.index = node, index
                self.values[value.name] = value
        node.alive = True
        self.by_op.setdefault(node.key, {})[node] = None
        for value in node.inputs:
            if value is not None:
                value.users[node] = None
        self.edited = True

    def remove(self, node: Node) -> list[Node]:
        """Take away `node` and whatever was computed for it alone; all that went, readers first."""
        gone, todo = [], [node]
        orphans = self.model.orphans
        while todo:
            node = todo.pop()
            if not node.alive:
                continue
            node.alive = False
            gone.append(node)
            node.graph.edited = True
            del node.graph.by_op[node.key][node]
            released = self._release(node) if node.bodies else node.inputs
            for value in released:
                if value is None:
                    continue
                value.users.pop(node, None)
                if value.is_read:
                    continue
                producer = value.producer
                if producer is None:
                    if value.is_written:
                        orphans[value] = None
                elif producer.alive and (
                    len(producer.outputs) == 1 or not any(o is not None and o.is_read for o in producer.outputs)
                ):
                    todo.append(producer)
        return gone

    def _release(self, node: Node) -> Iterator[Value]:
        """What the node and its bodies read from outside, and read no more. The bodies stay whole: the node may come
        back, and a proof runs what was there."""
        for value in node.inputs:
            if value is not None:
                value.users.pop(node, None)
                yield value
        for body in node.bodies:
            for inner in body.live_deep():
                for value in inner.inputs:
                    if value is not None and not is_inside(value.graph, body):
                        value.users.pop(inner, None)
                        yield value

    def live_deep(self) -> Iterator[Node]:
        """The nodes of this scope and of the bodies inside it."""
        for node in self.live():
            yield node
            for body in node.bodies:
                yield from body.live_deep()

    def point(self, old: Value, new: Value) -> None:
        """Every reader of `old` reads `new`."""
        for user in list(old.users):
            for position, value in enumerate(user.inputs):
                if value is old:
                    user.inputs[position] = new
                    user.proto.input[position] = new.name
            new.users[user] = None
            user.graph.edited = True
        if old.varies and not new.varies:
            _settle(old.users)
        old.users.clear()

    def take_over(self, old: Value, new: Value) -> None:
        """The freshly made tensor `new` becomes `old`: same name, same readers, same place among the outputs."""
        producer = new.producer
        assert producer is not None
        if new.users:
            self.point(new, old)
        old.producer, old.index = producer, new.index
        producer.outputs[new.index] = old
        producer.proto.output[new.index] = old.name
        if old.varies and not new.varies:  # what a call returned, most of all
            old.varies = False
            _settle(old.users)
        del self.values[new.name]

    # ---- writing ---------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Write the present nodes and initializers into the protobuf. Untouched graphs are not written at all."""
        for node in self.bodied:
            if node.alive:
                for body in node.bodies:
                    body.sync()
        if not self.edited:
            return
        proto, live = self.proto, self.live()
        nodes = [n.proto for n in live]
        del proto.node[:]
        proto.node.extend(nodes)  # copies: the indexed nodes keep their own protobufs, unless they hold bodies
        if self.bodied:
            for node, copied in zip(live, proto.node, strict=True):
                if node.bodies:
                    node.proto = copied
                    _rebind(node)
        if isinstance(proto, GraphProto):
            self._sync_tensors(proto)
        self.edited = False

    def copy_into(self, proto: GraphProto) -> None:
        """Write the present nodes and new initializers into a copy of this graph's protobuf; changes nothing here."""
        live = self.live()
        del proto.node[:]
        proto.node.extend([n.proto for n in live])
        proto.initializer.extend([v.tensor for v in self.new_tensors])
        if not self.bodied:
            return
        for node, copied in zip(live, proto.node, strict=True):
            for body, inner in zip(node.bodies, body_protos(copied), strict=True):
                body.copy_into(inner)

    def _sync_tensors(self, proto: GraphProto) -> None:
        """Write the new initializers that are read, and take out what the model dropped and what names no tensor."""
        used = [v for v in self.new_tensors if v.is_read]
        proto.initializer.extend([v.tensor for v in used])
        self.new_tensors = []
        leaving = {v.name for v in self.model.dropped if self.values.get(v.name) is v}
        names = [tensor.name for tensor in proto.initializer] if leaving else []
        dropped = leaving.intersection(names)
        if dropped:
            for position in range(len(names) - 1, -1, -1):
                if names[position] in dropped:
                    del proto.initializer[position]
            for position in range(len(proto.input) - 1, -1, -1):
                if proto.input[position].name in dropped:
                    del proto.input[position]
            for name in dropped:
                del self.values[name]
        _keep(proto.value_info, [self._stands(info.name) for info in proto.value_info])
        _keep(proto.quantization_annotation, [self._stands(a.tensor_name) for a in proto.quantization_annotation])

    def _stands(self, name: str) -> bool:
        """Whether a tensor of that name is still there."""
        value = self.values.get(name)
        return value is not None and (value.producer is None or value.producer.alive)


class _ReadsLater(Exception):
    """A node reads a tensor that a later node makes: the file is not in topological order."""


def scopes_of(graph: Graph) -> Iterator[Graph]:
    """The graph and every body inside it."""
    yield graph
    for node in list(graph.bodied):  # more may come on the way
        if node.alive:
            for body in node.bodies:
                yield from scopes_of(body)


def _settle(nodes: Iterable[Node]) -> None:
    """What readers of a tensor that varies no more compute from nothing else does not vary either."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if any(i is not None and i.varies for i in node.inputs):
            continue
        for out in node.outputs:
            if out is not None and out.varies:
                out.varies = False
                todo += out.users


def is_inside(graph: Graph | None, outer: Graph) -> bool:
    """Whether a scope is `outer`, or a body in it."""
    while graph is not None and graph is not outer:
        graph = graph.parent
    return graph is outer


def _keep(entries: Any, wanted: list[bool]) -> None:
    """Drop the entries of a repeated field that are not wanted; at once, since taking one out moves all after it."""
    if all(wanted):
        return
    refill(entries, [entry for entry, keep in zip(entries, wanted, strict=True) if keep])


def _rebind(node: Node) -> None:
    """The bodies' protobufs moved with the node's: point the indexed bodies at the copies."""
    for body, proto in zip(node.bodies, body_protos(node.proto), strict=True):
        body.proto = proto
        for inner, inner_proto in zip(body.live(), proto.node, strict=True):
            inner.proto = inner_proto
            if inner.bodies:
                _rebind(inner)
        for tensor in proto.initializer:
            body.values[tensor.name].tensor = tensor
