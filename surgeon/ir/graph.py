"""The ONNX protobuf itself, indexed. The only module that edits ONNX protobufs.

A `Model` holds one `Graph` for the main graph, for every body of an If, Loop or Scan, and for every local function. A
`Value` is a tensor: it knows its producer and its readers, and a reader inside a body is a reader of the outer value. A
`Node` wraps a NodeProto. Untouched nodes leave exactly as they came; new nodes stand where the node that they replace
stood, so the order stays topological and nothing is ever sorted.
"""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError, SurgeonError
from surgeon.ir.files import with_data
from surgeon.rules.pattern import MOVED, key_of

FLOAT_LIMIT = float(np.finfo(np.float32).max)  # Clip wrote "no bound" as this number up to opset 10
FOLD_LIMIT = 1 << 22  # elements: a computed constant larger than this is left to the runtime
MOST_UNLOOKED = 500_000  # objects, about 130 MB
SERIALS = 1 << 40  # more nodes than anybody makes
PLACE = attrgetter("place")
MOST_SHOWN = 8  # elements of a tensor attribute that a person reads
MOST_FOLLOWED = 32  # tensors that a constant is computed from, to be looked at while shapes are inferred
IR_WITH_DEFAULTS = 4  # since then an initializer that is an input too is what it has where the caller gives nothing
IR_OF_NODES = 10  # of a model around a single node: every ONNX Runtime that surgeon takes reads it
FOUR_BITS = frozenset({"int4", "uint4"})
SMALL_TENSOR = 1024  # elements: larger initializers never decide a shape, so shape inference does without them
MADE_UP = "unk__"  # how ONNX's inference begins the names that it makes up for unknown sizes
OWN_DOMAIN = "surgeon"  # its functions are written anew with every model, so no pass works on them
# They read what may be known of a tensor whose values are not: its sizes, its type.
VALUELESS = frozenset({"Shape", "Size", "EyeLike", "CastLike"})
BODIED = frozenset({"If", "Loop", "Scan", "SequenceMap"})
# What they return is no tensor, so no constant.
UNTENSORED = frozenset(
    {"Optional", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SplitToSequence"}
)
# Of the type and shape of their input, though onnx does not say so.
UNINFERRED = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
TARGETED = frozenset({"Reshape", "Expand"})  # an input says which shape they return
TOLD_MORE = UNINFERRED | TARGETED  # nodes without bodies of which there is more to know than ONNX's inference says
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"}
)

Dim = int | str | None
Shape = tuple[Dim, ...]


class Reference(str):
    """The name of a function's attribute that stands where a value is meant (`ref_attr_name`)."""


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
        """Whether the value stands in the file as an initializer or a Constant node, nothing computes it, and no caller
        replaces it: an initializer that is an input too (since IR version 4) is a default."""
        if self.producer is not None:
            return self.producer.key == "Constant"
        return self.tensor is not None and not self.is_input


class Node:
    """A node of one graph. `inputs` and `outputs` hold a `Value`, or None where the file has an empty name."""

    __slots__ = ("key", "proto", "graph", "inputs", "outputs", "place", "alive", "bodies", "origin", "_attrs")

    def __init__(self, key: str, proto: NodeProto, graph: Graph, inputs: list[Value | None], place: int) -> None:
        self.key = key
        self.proto = proto
        self.graph = graph
        self.inputs = inputs
        self.outputs: list[Value | None] = []
        # Orders the nodes of a graph, in slots of SERIALS places each: the nodes made for a slot, and behind them the
        # file's own, at its last place.
        self.place = place
        self.alive = True
        self.bodies: tuple[Graph, ...] = ()
        self.origin: Any = None  # the rewrite that made this node; None for a node of the file
        self._attrs: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Node({self.label})"

    @property
    def slot(self) -> int:
        """The number of the file's node that stands there or in front of which it stands."""
        return self.place // SERIALS

    @property
    def is_new(self) -> bool:
        """Whether a rewrite made the node, and not the file."""
        return self.place % SERIALS != SERIALS - 1

    @property
    def op(self) -> str:
        return self.proto.op_type

    @property
    def name(self) -> str:
        return self.proto.name

    @property
    def label(self) -> str:
        """The node's name, or its operator and first output where the file gives it none."""
        return self.proto.name or f"{self.proto.op_type} -> {self.proto.output[0] if self.proto.output else '?'}"

    @property
    def text(self) -> str:
        """`y = Op(a, b, axis=1)`: the node as a person writes it."""
        inputs = ", ".join("''" if v is None else v.text for v in self.inputs)
        attrs = ", ".join(f"{k}={shown(v)}" for k, v in self.attrs.items() if not isinstance(v, GraphProto))
        outputs = ", ".join("''" if v is None else v.name for v in self.outputs)
        return f"{outputs} = {self.op}({inputs}{', ' if inputs and attrs else ''}{attrs})"

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes that the file writes, as Python values; strings decoded."""
        if self._attrs is None:
            self._attrs = {a.name: _attribute(a) for a in self.proto.attribute[:]}
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

    def operands(self) -> Sequence[Any]:
        """The inputs without trailing empty ones; what older opsets write as attributes stands in
        its place as an array."""
        moved = MOVED.get(self.key)
        if moved is None and (not self.inputs or self.inputs[-1] is not None):
            return self.inputs
        found: list[Any] = list(self.inputs)
        if moved is not None and self.proto.attribute:
            for name, position in moved.items():
                if name not in self.attrs or len(found) > position:
                    continue
                given = self.attrs[name]
                if self.key == "Clip" and abs(given) >= FLOAT_LIMIT:
                    continue
                found += [None] * (position - len(found))
                integer = name not in ("min", "max", "value", "scales")
                found.append(
                    given if isinstance(given, Reference) else np.asarray(given, np.int64 if integer else np.float32)
                )
        while found and found[-1] is None:
            found.pop()
        return found


class Graph:
    """One scope: the main graph, a body or a local function."""

    def __init__(
        self, proto: GraphProto | onnx.FunctionProto, model: Model, parent: Graph | None, owner: str = ""
    ) -> None:
        self.proto = proto
        self.model = model
        self.parent = parent
        self.owner = owner
        self.is_function = isinstance(proto, onnx.FunctionProto)
        self.in_function: bool = self.is_function or (parent is not None and parent.in_function)
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []  # as the file has them; `extra` holds what came since
        self.extra: dict[int, list[Node]] = {}
        self.by_op: dict[str, dict[Node, None]] = {}
        self.bodied: dict[Node, None] = {}  # the nodes with bodies, dead ones included
        self.new_tensors: list[Value] = []
        self.edited = False
        self._index()

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _index(self) -> None:
        proto = self.proto
        if isinstance(proto, onnx.FunctionProto):
            for name in proto.input:
                value = self._define(name)
                value.is_input = value.varies = True
        else:
            overridable = self.model.proto.ir_version >= IR_WITH_DEFAULTS
            for info in proto.input:
                value = self._define(info.name)
                value.is_input = value.varies = True
            for tensor in proto.initializer:
                listed = self.values.get(tensor.name)
                if listed is not None and listed.tensor is not None:
                    raise ModelError(f"two initializers are called '{tensor.name}'. Rename one of them.")
                value = listed or self._define(tensor.name)
                if not overridable:
                    value.is_input = value.varies = False  # before IR 4 every initializer had to be listed as an input
                value.tensor = tensor
            for sparse in proto.sparse_initializer:
                self._define(sparse.values.name)
        try:
            self._add_nodes(proto.node)
        except _ReadsLater:
            self._forget_nodes()
            self._add_nodes(_sorted(proto.node, self))
            self.edited = True
        outputs = list(proto.output) if self.is_function else [info.name for info in proto.output]
        for name in outputs:
            returned = self.find(name)
            if returned is None:
                raise ModelError(
                    f"the output '{name}' of {self.title} is produced by no node. Every graph output needs a producer."
                )
            returned.is_output = True
        for name in named_by_training(self.model.proto) if self.parent is None and not self.is_function else ():
            trained = self.values.get(name)
            if trained is not None:
                trained.is_output = True

    @property
    def title(self) -> str:
        return self.owner or "the graph"

    @property
    def outputs(self) -> list[Value]:
        """The tensors that the scope returns, in order."""
        names = (
            list(self.proto.output)
            if isinstance(self.proto, onnx.FunctionProto)
            else [info.name for info in self.proto.output]
        )
        return [v for v in map(self.find, names) if v is not None]

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
        if any(name in later.output for later in self.proto.node):
            raise _ReadsLater
        raise ModelError(f"the node {reader.label} of {self.title} reads '{name}', which nothing produces.")

    def _add_bodies(self, node: Node) -> None:
        protos = body_protos(node.proto)
        if protos:
            node.bodies = tuple([Graph(g, self.model, self, f"a body of {node.label}") for g in protos])
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

    @property
    def results(self) -> list[Value | None]:
        """What a body returns; a value of a graph around it among them."""
        return [self.find(info.name) for info in self.proto.output]  # type: ignore[union-attr]

    def live(self) -> list[Node]:
        """The nodes in their present, topological order."""
        if not self.extra:
            return [n for n in self.nodes if n.alive]
        found, extra = [], self.extra
        for slot, node in enumerate(self.nodes):
            if slot in extra:
                found += [n for n in extra[slot] if n.alive]
            if node.alive:
                found.append(node)
        return found

    def of(self, operators: Iterable[str]) -> list[Node]:
        """The nodes of these operators, in order."""
        rows = [row for row in map(self.by_op.get, operators) if row]
        return sorted([node for row in rows for node in row], key=PLACE)

    def position(self, node: Node) -> tuple[int, int]:
        """Sorts the graph's nodes as they stand: what is made anew in a slot may stand before what was made first."""
        slot = node.slot
        row = self.extra.get(slot, [])
        return slot, row.index(node) if node in row else len(row)

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
        """A new node that stands where `at` stands; its outputs carry `names`, which no tensor has,
        and the node is called like the first."""
        proto = self.model.new_nodes.add()
        proto.op_type, proto.name = op, names[0]
        key = op
        if domain:
            self.model.infer_first()
            proto.domain = domain
            key = key_of(domain, op)
        self.model.made += 1
        slot = at.slot
        node = Node(key, proto, self, list(inputs), slot * SERIALS + self.model.made)
        node._attrs = _write_attributes(proto, attrs) if attrs else {}
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
        row = self.extra.setdefault(slot, [])
        row.insert(row.index(at) if at in row else len(row), node)
        self.by_op.setdefault(key, {})[node] = None
        self.edited = True
        return node

    def constant(self, array: np.ndarray, name: str, at: Node) -> Value:
        """A new constant: an initializer, or a Constant node where the scope or the IR version has no initializers.

        ONNX lets a body inside a function have them, but TensorRT's parser reads freed memory for those.
        """
        tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        if self.in_function or self.model.proto.ir_version < IR_WITH_DEFAULTS:
            return self.make("Constant", [], {"value": tensor}, "", [name], at).outputs[0]  # type: ignore[return-value]
        value = self._define(name)
        value.tensor = tensor
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
            for value in self._unread(node) if node.bodies else node.inputs:
                if value is None:
                    continue
                value.users.pop(node, None)
                if value.users or value.is_output:
                    continue
                producer = value.producer
                if producer is None:
                    if value.is_written:
                        orphans[value] = None
                elif producer.alive and (len(producer.outputs) == 1 or not _is_read(producer)):
                    todo.append(producer)
        return gone

    def _unread(self, node: Node) -> Iterator[Value]:
        """What the node and its bodies read from outside, and read no more. The bodies stay whole: the node may come
        back, and a proof runs what stood there."""
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
        for node, copied in zip(live, proto.node, strict=True) if self.bodied else ():
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
        for node, copied in zip(live, proto.node, strict=True) if self.bodied else ():
            for body, inner in zip(node.bodies, body_protos(copied), strict=True):
                body.copy_into(inner)

    def _sync_tensors(self, proto: GraphProto) -> None:
        used = [v for v in self.new_tensors if v.users or v.is_output]
        proto.initializer.extend([v.tensor for v in used])
        self.new_tensors = []
        dropped = set()
        for position in range(len(proto.initializer) - 1, -1, -1):
            value = self.values.get(proto.initializer[position].name)
            if value is not None and value in self.model.dropped:
                dropped.add(value.name)
                del proto.initializer[position]
        if dropped:
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


Types = dict[Value, "tuple[int, Shape | None] | onnx.ValueInfoProto"]
Typed = tuple[Value, int, Shape]  # a tensor, its type and its dimensions


class Model:
    """A ModelProto, indexed. `base` is the folder of its external data. The proto passed in is edited in place."""

    def __init__(self, proto: ModelProto, base: Path | None = None) -> None:
        self.proto = proto
        self.base = base
        self.opsets = {o.domain if o.domain != "ai.onnx" else "": o.version for o in proto.opset_import}
        self._check_header()
        self.functions: dict[str, Graph] = {}
        with no_collection():
            self.graph = Graph(proto.graph, self, None)
            for function in proto.functions:
                key = key_of(function.domain, function.name)
                self.functions[key] = Graph(function, self, None, f"the function {key}")
        self._file_opsets: dict[Graph, dict[str, int]] = {}
        self._types: Types | None = None
        self._stale = False  # more can be inferred now than `_types` says
        self.made = 0  # nodes made so far
        self.new_nodes = GraphProto().node  # holds their protobufs: in one message they share one block of memory
        self.orphans: dict[Value, None] = {}  # initializers that a removal left without a reader
        self.dropped: set[Value] = set()  # those that leave the file
        self._first_types: Types = {}
        self._constants: dict[Value, np.ndarray] = {}
        self._evaluated: dict[bytes, list[np.ndarray] | None] = {}  # a model of one node -> what it returns
        self._fingerprints: dict[Value, tuple[Any, ...]] = {}
        self._fixed: dict[Value, bool] = {}
        self._dtypes: dict[Value, int] = {}
        self.file_functions = ModelProto().functions  # the local functions as the file has them, once remembered
        self._output_types: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}  # of the main graph's operators

    def _check_header(self) -> None:
        newest = onnx.defs.onnx_opset_version()
        if not self.proto.HasField("graph"):
            raise ModelError("the file holds no graph: it is not an ONNX model, or it was cut off while being written.")
        if "" not in self.opsets and any(not n.domain for n in self.proto.graph.node):
            raise ModelError(
                "the model declares no opset for ONNX's own operators. Add an opset_import for the default domain."
            )
        if self.opset > newest:
            raise ModelError(
                f"the model declares opset {self.opset}; the installed onnx package knows opsets up to {newest}. "
                "Upgrade onnx, or export at an older opset."
            )
        if self.proto.ir_version > onnx.IR_VERSION:
            raise ModelError(
                f"the model has IR version {self.proto.ir_version}; the installed onnx package knows versions up to "
                f"{onnx.IR_VERSION}. Upgrade onnx."
            )

    @property
    def opset(self) -> int:
        """The declared opset of ONNX's own operators."""
        return self.opsets.get("", 1)

    @property
    def scopes(self) -> list[Graph]:
        """The main graph, every body inside it, then the local functions and theirs;
        not the meanings of surgeon's own nodes."""
        return list(self.standing_scopes())

    def standing_scopes(self) -> Iterator[Graph]:
        """The scopes one by one, without the bodies that went with their node on the way."""
        functions = [f for key, f in self.functions.items() if not key.startswith(f"{OWN_DOMAIN}::")]
        for top in (self.graph, *functions):
            yield from _scopes(top)

    # ---- schemas ---------------------------------------------------------------------------------------------------

    def opset_in(self, graph: Graph, domain: str = "") -> int:
        """The opset that the nodes of `graph` are read with: a local function declares its own."""
        if graph is self.graph:
            return self.opsets.get(domain, 1)
        return self.opsets_in(graph).get(domain, 1)

    def opsets_in(self, graph: Graph, *, file: bool = False) -> dict[str, int]:
        """The opset of each domain for the nodes of `graph`; with `file` what the file declared before any rewrite."""
        top = graph
        while top.parent is not None:
            top = top.parent
        if file and top in self._file_opsets:
            return self._file_opsets[top]
        if isinstance(top.proto, onnx.FunctionProto):
            return {**self.opsets, **{o.domain: o.version for o in top.proto.opset_import}}
        return self.opsets

    def lower_opset(self, version: int) -> None:
        """Declare an older opset of ONNX's own operators, in local functions too; see `opsets_in`."""
        tops = (self.graph, *self.functions.values())
        self._file_opsets = {top: dict(self.opsets_in(top)) for top in tops}
        self.set_opset(min(version, self.opset))
        for function in self.functions.values():
            for entry in function.proto.opset_import:
                if entry.domain in ("", "ai.onnx"):
                    entry.version = min(version, entry.version)

    def schema(self, node: Node) -> onnx.defs.OpSchema | None:
        """The operator's schema at the model's opset; None for an operator that onnx does not know."""
        domain = node.proto.domain if node.proto.domain != "ai.onnx" else ""
        return schema(node.op, domain, self.opset_in(node.graph, domain))

    def schema_defaults(self, node: Node) -> dict[str, Any]:
        domain = node.proto.domain if node.proto.domain != "ai.onnx" else ""
        return _defaults(node.op, domain, self.opset_in(node.graph, domain))

    def reversed_axes(self, node: Node) -> list[int] | None:
        """What a Transpose that names no axes does; None where the rank is not known."""
        shapes = [self.shape(v) for v in (*node.inputs, *node.outputs) if v is not None]
        known = next((s for s in shapes if s is not None), None)
        return None if known is None else list(reversed(range(len(known))))

    # ---- values on demand ------------------------------------------------------------------------------------------

    def is_constant(self, value: Value) -> bool:
        """Whether `value` can be computed without the model's inputs. Memoised, so linear over a whole run."""
        if value.varies:
            return False
        fixed = self._fixed
        known = fixed.get(value)
        if known is not None:
            return known
        stack = [value]
        while stack:
            v = stack[-1]
            if v in fixed:
                stack.pop()
                continue
            producer = v.producer
            if producer is not None and producer.key not in ("Shape", "Size"):
                inputs = [i for i in producer.inputs if i is not None]
                if any(i.varies or fixed.get(i) is False for i in inputs):
                    fixed[v] = False
                    stack.pop()
                    continue
                unknown = next((i for i in inputs if i not in fixed), None)
                if unknown is not None:
                    stack.append(unknown)
                    continue
            fixed[v] = self._follows(v)
            stack.pop()
        return fixed[value]

    def _follows(self, value: Value) -> bool:
        """Whether a tensor is a constant, given that every input of its producer is
        (of Shape and Size, whatever it is)."""
        if value.tensor is not None:
            return not value.is_input
        node = value.producer
        if node is None:
            return False
        if node.key in ("Shape", "Size"):
            source = node.inputs[0]
            if source is None:
                return False
            dims = self.shape(source)
            return dims is not None and all(isinstance(d, int) for d in _shape_range(node, dims))
        if node.bodies or node.key in RANDOM | UNTENSORED or "::" in node.key or self.schema(node) is None:
            return False
        return not any(a.ref_attr_name for a in node.proto.attribute)

    def constant(self, value: Value | np.ndarray | None) -> np.ndarray | None:
        """The value of a tensor that depends on constants alone; None for any other, or one too large to be worth it.

        The nodes behind it are run through ONNX Runtime, each once: what is proved with it is computed with it. What
        it has no kernel for, and so runs in no model, onnx's reference evaluator computes.
        """
        if value is None or isinstance(value, np.ndarray):
            return value
        if not self.is_constant(value):
            return None
        known, stack = self._constants, [value]
        while stack:
            v = stack[-1]
            if v in known:
                stack.pop()
                continue
            if v.tensor is not None:
                known[v] = self._read(v.tensor)
                continue
            node = v.producer
            assert node is not None
            if node.key in ("Shape", "Size") and node.inputs[0] is not None:
                dims = self.shape(node.inputs[0])
                if dims is not None and all(isinstance(d, int) for d in _shape_range(node, dims)):
                    part = np.asarray(_shape_range(node, dims), np.int64)
                    known[v] = part if node.key == "Shape" else np.asarray(part.prod(dtype=np.int64))
                    continue
            missing = [i for i in node.inputs if i is not None and i not in known]
            if missing:
                stack.extend(missing)
                continue
            outputs = self._evaluate(node, [None if i is None else known[i] for i in node.inputs])
            if outputs is None:
                return None
            for out, array in zip(node.outputs, outputs, strict=False):
                if out is not None:
                    known[out] = array
        return known[value]

    def fingerprint(self, value: Value | np.ndarray | None) -> tuple[Any, ...] | None:
        """(shape, type, bytes) of a constant tensor, to look it up by; None for any other."""
        known = self._fingerprints.get(value) if isinstance(value, Value) else None
        if known is not None:
            return known
        array = self.constant(value)
        if array is None:
            return None
        found = (array.shape, array.dtype.str, array.tobytes())
        if isinstance(value, Value) and array.size <= SMALL_TENSOR:
            self._fingerprints[value] = found
        return found

    def _read(self, tensor: TensorProto) -> np.ndarray:
        return numpy_helper.to_array(with_data(tensor, self.base))

    def _evaluate(self, node: Node, inputs: list[np.ndarray | None]) -> list[np.ndarray] | None:
        """The node's outputs, or None where they would be too large or cannot be computed."""
        if node.key == "Constant":
            array = constant_value(node.proto)
            return None if array is None else [array]
        if _elements_out(node, inputs) > FOLD_LIMIT or _overflows(node, inputs):
            return None
        model, feeds = _alone(node, inputs, self.opset_in(node.graph))
        if feeds:
            return _run_alone(model, feeds)
        key = model.SerializeToString(deterministic=True)
        if key not in self._evaluated:  # exporters write the same arithmetic of shapes again for every layer
            self._evaluated[key] = _run_alone(model, {})
        return self._evaluated[key]

    def shape(self, value: Value) -> Shape | None:
        """int for a static dimension, str for a symbolic one, None for an unknown one;
        None where the rank is unknown."""
        known = self._type(value)
        return known[1] if known is not None else None

    def dtype(self, value: Value) -> int:
        """The TensorProto.DataType; 0 (UNDEFINED) where it is not known.
        Costs no shape inference where schemas say it."""
        found = self._dtypes
        answer = found.get(value, 0)
        if answer:
            return answer
        path = []
        v: Value | None = value
        while v is not None:
            if v in found:
                answer = found[v]
                break
            path.append(v)
            if v.tensor is not None:
                answer = v.tensor.data_type
                break
            if v.producer is None:
                answer = self._declared(v)
                break
            step = self._dtype_step(v)
            if isinstance(step, int):
                answer = step
                break
            v = step
        if answer == 0:
            known = self._type(value)
            answer = known[0] if known is not None else 0
            path = [value]
        for passed in path:
            found[passed] = answer
        return answer

    def kind(self, value: Value) -> str:
        """The field of a TypeProto that a sequence, an optional and their like have; empty for a tensor."""
        found = self._type(value)
        return found.kind if isinstance(found, NoTensor) else ""

    def _declared(self, value: Value) -> int:
        if value.graph is self.graph:
            for info in self.proto.graph.input:
                if info.name == value.name:
                    return info.type.tensor_type.elem_type
        known = self._type(value)
        return known[0] if known is not None else 0

    def _dtype_step(self, value: Value) -> int | Value:
        """The type that the schema fixes, or the input that has the same type, or 0."""
        node = value.producer
        assert node is not None
        key, inputs = node.key, node.inputs
        rule = self._output_types.get((key, value.index)) if node.graph is self.graph else None
        if rule is None:
            if key == "Constant":
                array = constant_value(node.proto)
                return 0 if array is None else helper.np_dtype_to_tensor_dtype(array.dtype)
            if key == "Cast":
                return int(node.attr("to"))
            domain, _, op = key.rpartition("::")
            rule = _output_type(op, domain, self.opset_in(node.graph, domain), value.index)
            if node.graph is self.graph:
                self._output_types[key, value.index] = rule
        known, alike = rule
        for position in alike:
            if position < len(inputs) and inputs[position] is not None:
                return inputs[position]  # type: ignore[return-value]
        return known

    def is_vague(self, value: Value) -> bool:
        """Whether inference has left a dimension of the tensor without so much as a name."""
        found = _look(self._types, value) if self._types is not None else None
        return found is not None and (found[1] is None or None in found[1])

    def forget_types(self) -> None:
        """Folding has made more knowable: when a shape is asked for that is not wholly known,
        all are inferred again."""
        self._stale = self._types is not None
        self._fixed = {v: True for v, answer in self._fixed.items() if answer}
        self._dtypes = {v: answer for v, answer in self._dtypes.items() if answer}

    def remember_types(self) -> None:
        """Infer now and keep what is known of tensors that rewrites will take away, and what calls meant: a proof asks
        for them later."""
        self._types = self._infer()
        self._first_types = dict(self._types)
        for function in self.proto.functions:
            self.file_functions.add().CopyFrom(function)

    def infer(self) -> None:
        """Infer types and shapes now, if that is still to be done."""
        if self._types is None or self._stale:
            self._infer_again()

    def infer_first(self) -> None:
        """Infer unless that was done: behind a node without a schema, which is about to come, nothing can be."""
        if self._types is None:
            self._infer_again()

    def _type(self, value: Value) -> tuple[int, Shape | None] | None:
        self.infer_first()
        assert self._types is not None
        found = _look(self._types, value)
        new = found is None and value.producer is not None and value.producer.is_new
        if self._stale and not new and not _wholly_known(found):
            self._infer_again()
            found = _look(self._types, value)
        if found is not None:
            return found
        todo, types = [value], self._types
        while todo:  # nodes made since the inference: one at a time, inputs first
            v = todo[-1]
            node = v.producer
            if v in types or node is None or not node.is_new:
                types.setdefault(v, (v.tensor.data_type, tuple(v.tensor.dims)) if v.tensor is not None else (0, None))
                todo.pop()
                continue
            missing = [i for i in node.inputs if i is not None and i not in types]
            if missing:
                todo.extend(missing)
                continue
            self._infer_one(node, types)
            for out in node.outputs:
                if out is not None:
                    types.setdefault(out, (0, None))
        return _look(types, value)

    def _infer_again(self) -> None:
        """Infer, and keep what was known of tensors that are gone or that a node without a schema makes now."""
        before = self._types or self._first_types
        self._types = self._infer()
        self._stale = False
        for value in before:
            self._types.setdefault(value, before[value])

    def _infer_one(self, node: Node, types: Types) -> None:
        """Infer the node's outputs from its inputs; what `types` has of them stays where it says more."""
        spec = self.schema(node)
        if spec is None:
            return
        kinds, data = {}, {}
        for value in node.inputs:
            if value is None:
                continue
            elem, dims = _known(types, value)
            if elem:
                kinds[value.name] = _type_proto(elem, dims)
            # To ask whether a computed tensor is constant needs shapes, which may be what is being inferred.
            askable = types is self._types or _apart_from_shapes(value)
            known = self.constant(value) if askable and self.is_constant(value) else None
            if known is not None and known.size <= SMALL_TENSOR:
                data[value.name] = numpy_helper.from_array(known, value.name)
        try:
            result = onnx.shape_inference.infer_node_outputs(
                spec,
                node.proto,
                kinds,
                data,
                opset_imports=list(self.proto.opset_import),
                ir_version=self.proto.ir_version,
            )
        except Exception:  # not inferable: stays unknown
            result = {}
        for out in node.outputs:
            if out is not None and out.name in result:
                elem, dims = found = _read_type(result[out.name])
                types[out] = (elem, _merged(_known(types, out)[1], dims)) if elem else found
        for out, elem, sizes in _more_by_likeness(node, types):
            types[out] = elem, sizes

    def _infer(self) -> Types:
        bare, declared = self.bare(), _Declared(self)
        while True:
            try:
                inferred = onnx.shape_inference.infer_shapes(bare, data_prop=True)
            except Exception:  # an operator whose inference raises even in the lenient mode
                inferred = bare
            types: Types = {}
            _collect_types(self.graph, inferred.graph, types)
            listed = {info.name: info for info in (*bare.graph.value_info, *bare.graph.output)}
            more = [info for info in declared.left_open(types) if listed.get(info.name) != info]
            more = more or [
                info for info in self._left_out(self.graph, types, declared) if listed.get(info.name) != info
            ]
            if not more:
                break
            for info in more:  # each round knows more of them
                (listed.get(info.name) or bare.graph.value_info.add()).CopyFrom(info)
        self._infer_functions(types, declared)
        return types

    def _left_out(
        self, graph: Graph, types: Types, declared: _Declared, given: Iterable[Value] = (), repeated: bool = False
    ) -> list[onnx.ValueInfoProto]:
        """What ONNX's inference leaves out where a target is computed: a Reshape has as many dimensions as it has
        elements, and what a Shape says of them reaches a Reshape from opset 14 on, an Expand from 13 on. And what it
        makes nothing of: what is UNINFERRED, what follows in a body from the graph around it, what a Loop hands from
        one iteration to the next, and what an If, a Loop or a Scan returns then.

        What follows from that in the nodes behind is written to `types`: the next Reshape may stand there. `given` are
        tensors of which `types` has come to say more than ONNX's inference knew. Where nothing else says anything, the
        file does; of what is `repeated`, with other sizes each time, only the rank.
        """
        found: list[onnx.ValueInfoProto] = []
        fresh: set[Value | None] = set(given)
        for node in graph.live():
            if node.bodies:
                self._left_out_of_bodies(node, types, declared, repeated)
            unranked = [] if node.bodies else [o for o in node.outputs if o is not None and not _ranked(types, o)]
            for out, elem, sizes in self._more(node, types) if node.bodies or node.key in TOLD_MORE else ():
                types[out] = elem, sizes
                fresh.add(out)
                found.append(helper.make_value_info(out.name, _type_proto(elem, sizes)))
            seen = graph.parent is None or all(i is None or i.graph is graph for i in node.inputs)
            if unranked or (not node.bodies and not (seen and fresh.isdisjoint(node.inputs))):
                vague = [o for o in node.outputs if o is not None and not _wholly_known(_look(types, o))]
                if vague:
                    self._infer_one(node, types)
                if unranked:
                    self._take_declared(node, types, declared, repeated)
                    vague = [o for o in vague if _ranked(types, o)]
                    found += [helper.make_value_info(o.name, _type_proto(*types[o])) for o in vague]  # type: ignore[misc]
                fresh.update(vague)
        return found

    def _take_declared(self, node: Node, types: Types, declared: _Declared, repeated: bool) -> None:
        """Of the outputs of unknown rank: what was known before a rewrite made the node, or what the file says."""
        before = self._types or self._first_types
        for out in node.outputs:
            if out is not None and not _ranked(types, out):
                _believe(types, out, _look(before, out) if node.is_new else declared.type_of(out, types, repeated))

    def _left_out_of_bodies(self, node: Node, types: Types, declared: _Declared, repeated: bool) -> None:
        """`_left_out` of a node's bodies. Of a state that an iteration hands to the next one, that is known which holds
        before the first, and behind each one if it holds before that."""
        repeated = repeated or node.key != "If"
        fed = _fed(node, types)
        unknown = [p for p in _parameters(node) if not _ranked(types, p)]
        for param in unknown:
            _believe(types, param, declared.type_of(param, types, repeated=True))
        said = [p for p in unknown if _ranked(types, p)]
        values = [v for body in node.bodies if fed for scope in _scopes(body) for v in scope.values.values()]
        known = {v: types[v] for v in values if v in types}
        while True:
            given = [*said, *(param for param, dims, _ in fed if _learn(types, param, dims))]
            for body in node.bodies:
                self._left_out(body, types, declared, given, repeated)
            kept = [
                (param, dims if result is None else _common([dims, _numbers(types, result)]), result)
                for param, dims, result in fed
            ]
            if kept == fed:
                return
            fed = kept  # less is assumed, so this comes to an end
            for value in values:
                types.pop(value, None)
            types.update(known)

    def _more(self, node: Node, types: Types) -> list[Typed]:
        """The outputs of which more is known than `types` has, before any of that is written there."""
        return [*self._more_by_target(node, types), *_more_by_likeness(node, types)]

    def _more_by_target(self, node: Node, types: Types) -> Iterator[Typed]:
        """The output of a Reshape or Expand, where the target says more of it than `types` has."""
        if node.key not in TARGETED:
            return
        out, source, target = node.outputs[0], *[*node.inputs, None][:2]
        if out is None or source is None or target is None:
            return
        elem, dims = _known(types, out)
        rank = _known(types, target)[1]
        if not elem or rank is None or len(rank) != 1 or not isinstance(rank[0], int):
            return
        named = self.graph is node.graph and _wholly_known((elem, dims))  # in a body names stand for what is not seen
        if named or (dims is not None and all(isinstance(d, int) for d in dims)):
            return
        sizes: Shape = _written_sizes(target, types)
        if len(sizes) != rank[0]:
            sizes = (None,) * rank[0]
        if node.key == "Expand":
            given = _known(types, source)[1]
            if given is None or len(given) != len(sizes):
                return
            sizes = tuple(_expanded(d, s) for d, s in zip(given, sizes, strict=True))
        merged = _merged(sizes, dims)
        if merged is not None and merged != dims:
            yield out, elem, merged

    def _infer_functions(self, types: Types, declared: _Declared) -> None:
        """The types inside local functions, as the first call sees them."""
        todo = dict(self.functions)
        callers = list(_scopes(self.graph))
        for caller in callers:  # grows: a function's body may call another
            for key in [k for k in todo if caller.by_op.get(k)]:
                function = todo.pop(key)
                call = next(iter(caller.by_op[key]))
                arguments = [_known(types, v) for v in call.inputs]
                if all(elem for elem, _ in arguments):
                    _collect_types(function, self._infer_call(function, call, arguments), types)
                    self._left_out(function, types, declared, repeated=True)
                    callers += _scopes(function)

    def _infer_call(self, function: Graph, call: Node, arguments: list[tuple[int, Shape | None]]) -> GraphProto:
        """A function's body as a graph with the types that follow from one call's arguments and attributes."""
        assert isinstance(function.proto, onnx.FunctionProto)
        body = GraphProto(name=function.proto.name)
        function.copy_into(body)
        for name, (elem, dims) in zip(function.proto.input, arguments, strict=False):
            body.input.append(helper.make_value_info(name, _type_proto(elem, dims)))
        body.output.extend([onnx.ValueInfoProto(name=name) for name in function.proto.output])
        _forget_sizes_of_bodies(function, body)
        given = {a.name: a for a in (*function.proto.attribute_proto, *call.proto.attribute)}
        for attribute in [a for n in body.node for a in n.attribute if a.ref_attr_name in given]:
            name = attribute.name
            attribute.CopyFrom(given[attribute.ref_attr_name])
            attribute.name = name
        behind = functions_behind(all_nodes(body), self.proto.functions)
        model = helper.make_model(body, opset_imports=list(function.proto.opset_import), functions=behind)
        try:
            return onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except Exception:  # as for the main graph: what cannot be inferred stays unknown
            return body

    def bare(self) -> ModelProto:
        """A copy of the model without its large weights, which become inputs: what shape inference needs. Without the
        sizes of other tensors than inputs, too: ONNX's inference would believe them before what follows."""
        copy = ModelProto(ir_version=max(self.proto.ir_version, 4))
        copy.opset_import.extend(self.proto.opset_import)
        copy.functions.extend(self.proto.functions)
        graph, source = copy.graph, self.proto.graph
        graph.name = source.name
        self.graph.copy_into(graph)
        graph.input.extend(source.input)
        graph.output.extend(source.output)
        _forget_sizes_of_bodies(self.graph, graph)
        for info in graph.output:
            _forget_size(info)
        for dim in [d for info in graph.input for d in info.type.tensor_type.shape.dim if d.dim_value < 0]:
            dim.Clear()  # inference would compute with the -1
        add_small_weights(graph, self.proto)
        return copy

    # ---- writing ---------------------------------------------------------------------------------------------------

    def sync(self) -> ModelProto:
        """Write every edited graph into the protobuf and return it."""
        self.graph.sync()
        for function in self.functions.values():
            function.sync()
        return self.proto

    def drop_orphans(self) -> None:
        """Initializers that lost their last reader to a rewrite leave the file; those never read stay."""
        for value in self.orphans:
            if value.tensor is not None and not value.users and not value.is_output:
                self.dropped.add(value)  # its tensor stays readable: a proof runs what stood there before
                value.graph.edited = True

    def drop_unused_functions(self) -> None:
        """Take away the local functions that no node calls any more."""
        called, todo = set(), [n for s in _scopes(self.graph) for n in s.live()]
        while todo:
            key = todo.pop().key
            if key in self.functions and key not in called:
                called.add(key)
                todo += [n for s in _scopes(self.functions[key]) for n in s.live()]
        if len(called) == len(self.functions):
            return
        self.functions = {key: graph for key, graph in self.functions.items() if key in called}
        self.keep_functions(called.__contains__)

    def keep_functions(self, wanted: Callable[[str], bool]) -> None:
        """Take the other functions out of the file; what stays is still what the scopes write to."""
        kept = [f for f in self.proto.functions if wanted(key_of(f.domain, f.name))]
        del self.proto.functions[:]
        self.proto.functions.extend(kept)
        for fresh in self.proto.functions:
            self.functions[key_of(fresh.domain, fresh.name)].proto = fresh

    def set_opset(self, version: int, domain: str = "") -> None:
        """Declare `version` for `domain`, adding the import where there is none."""
        self.opsets[domain] = version
        self._output_types.clear()
        for entry in self.proto.opset_import:
            if entry.domain == domain or (not domain and entry.domain == "ai.onnx"):
                entry.version = version
                return
        self.proto.opset_import.append(helper.make_opsetid(domain, version))

    def import_domain(self, domain: str) -> None:
        """Declare version 1 of a domain where the model does not: in the model, and in the functions with nodes of
        it."""
        if domain not in self.opsets:
            self.set_opset(1, domain)
        for function in self.functions.values():
            declared = {o.domain for o in function.proto.opset_import}  # type: ignore[union-attr]
            used = any(nodes for s in _scopes(function) for k, nodes in s.by_op.items() if k.startswith(f"{domain}::"))
            if used and domain not in declared:
                function.proto.opset_import.append(helper.make_opsetid(domain, 1))  # type: ignore[union-attr]


# ---- helpers ---------------------------------------------------------------------------------------------------------


_unlooked = 0  # objects that joined the oldest generation since surgeon or Python looked at it
_looks = 0  # how often it was, when they were counted


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """An indexed graph is a hundred thousand small objects that all stay: looking for garbage among them only costs.

    What was made meanwhile joins the oldest generation unlooked at, since a run's report holds on to it: unfreezing
    moves there what freezing set apart. Python does not count what comes there in this way, so this does, and collects
    in time.
    """
    global _unlooked, _looks
    if not gc.isenabled():
        yield
        return
    if _unlooked > MOST_UNLOOKED and gc.get_stats()[-1]["collections"] == _looks:
        gc.collect()
    if gc.get_stats()[-1]["collections"] != _looks:
        _unlooked = 0
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # what somebody else froze stays frozen
            _unlooked += gc.get_count()[0]
            gc.freeze()
            gc.unfreeze()
        _looks = gc.get_stats()[-1]["collections"]
        gc.enable()


@cache
def schema(op: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """The operator's schema at an opset; None where onnx has none."""
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


@cache
def formal_types(op: str, domain: str, opset: int) -> tuple[str, ...]:
    """The types that the schema writes for the inputs: 'T', 'tensor(int64)'. The last one repeats.
    Empty without a schema."""
    spec = schema(op, domain, opset)
    return () if spec is None else tuple(formal.type_str for formal in spec.inputs)


@cache
def _output_type(op: str, domain: str, opset: int, index: int) -> tuple[int, tuple[int, ...]]:
    """(the type that the schema fixes for an output, or 0; the inputs that have the output's type)."""
    spec = schema(op, domain, opset)
    if spec is None:
        return 0, (0,) if domain == OWN_DOMAIN else ()
    formal = spec.outputs[min(index, len(spec.outputs) - 1)]
    if not formal.is_homogeneous:  # what a Loop returns: each tensor is of a type of its own
        return 0, ()
    wanted = formal.type_str
    if wanted.startswith("tensor("):
        return (int(helper.np_dtype_to_tensor_dtype(np.dtype(_TYPE_NAMES[wanted]))) if wanted in _TYPE_NAMES else 0), ()
    return 0, tuple(position for position, given in enumerate(spec.inputs) if given.type_str == wanted)


@cache
def _defaults(op: str, domain: str, opset: int) -> dict[str, Any]:
    spec = schema(op, domain, opset)
    if spec is None:
        return {}
    return {
        n: _attribute(a.default_value)
        for n, a in spec.attributes.items()
        if a.default_value.type != AttributeProto.UNDEFINED
    }


def constant_value(proto: NodeProto) -> np.ndarray | None:
    """The tensor of a Constant node, whichever of its attributes holds it; None where each call of the function that it
    stands in says it."""
    (attribute,) = proto.attribute
    if attribute.ref_attr_name:
        return None
    kinds: dict[str, Any] = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    if attribute.name == "value":
        return numpy_helper.to_array(attribute.t)
    if attribute.name == "sparse_value":
        raise ModelError("a Constant node holds a sparse tensor, which TensorRT does not read. Write it dense.")
    return np.asarray(_attribute(attribute), kinds.get(attribute.name))


def _write_attributes(proto: NodeProto, attrs: dict[str, Any]) -> dict[str, Any] | None:
    """Write a new node's attributes; what reading them back gives where they are plain, else None."""
    written: dict[str, Any] = {}
    field, plain = proto.attribute, True
    for key, given in attrs.items():
        if type(given) is float:
            attribute = field.add()
            attribute.name, attribute.type, attribute.f = key, AttributeProto.FLOAT, given
            written[key] = attribute.f  # rounded to fp32
        elif type(given) is int:
            attribute = field.add()
            attribute.name, attribute.type, attribute.i = key, AttributeProto.INT, given
            written[key] = given
        elif type(given) is str:
            attribute = field.add()
            attribute.name, attribute.type, attribute.s = key, AttributeProto.STRING, given.encode()
            written[key] = given
        elif type(given) is list and all(type(i) is int for i in given):  # an empty one is of axes
            attribute = field.add()
            attribute.name, attribute.type = key, AttributeProto.INTS
            attribute.ints.extend(given)
            written[key] = list(given)
        elif given is not None:
            plain = False
            field.append(given if isinstance(given, AttributeProto) else helper.make_attribute(key, given))
    return written if plain else None


def _attribute(attribute: AttributeProto) -> Any:
    if attribute.ref_attr_name:
        return Reference(attribute.ref_attr_name)
    kind = attribute.type
    if kind == AttributeProto.INT:
        return attribute.i
    if kind == AttributeProto.FLOAT:
        return attribute.f
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == AttributeProto.INTS:
        return list(attribute.ints)
    if kind == AttributeProto.FLOATS:
        return list(attribute.floats)
    if kind == AttributeProto.STRINGS:
        return [s.decode("utf-8", "replace") for s in attribute.strings]
    return helper.get_attribute_value(attribute)


def shown(attribute: Any) -> str:
    """An attribute's value as a person reads it: fp32 in its shortest form, a long tensor by its type and shape."""
    if isinstance(attribute, TensorProto):
        if math.prod(attribute.dims) > MOST_SHOWN or attribute.data_location == TensorProto.EXTERNAL:
            return f"{TensorProto.DataType.Name(attribute.data_type).lower()}{list(attribute.dims)}"
        return np.array2string(numpy_helper.to_array(attribute), separator=", ", formatter={"all": str})
    if isinstance(attribute, Message):
        return type(attribute).__name__
    if isinstance(attribute, list):
        return f"[{', '.join(map(shown, attribute))}]"
    return str(np.float32(attribute)) if isinstance(attribute, float) else str(attribute)


class _ReadsLater(Exception):
    """A node reads a tensor that a later node makes: the file is not in topological order."""


def _sorted(nodes: Sequence[NodeProto], graph: Graph) -> list[NodeProto]:
    """The nodes in topological order, those of the file's order first. Raises ModelError on a cycle."""
    made = {o for n in nodes for o in n.output}
    readers: dict[str, list[int]] = {}
    missing = []
    for position, node in enumerate(nodes):
        needs = {i for i in _reads(node) if i in made}
        missing.append(len(needs))
        for name in needs:
            readers.setdefault(name, []).append(position)
    ready = [p for p, count in enumerate(missing) if not count]
    for position in ready:  # grows while it is walked
        for name in nodes[position].output:
            for reader in readers.get(name, ()):
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)
    if len(ready) != len(nodes):
        stuck = next(n for p, n in enumerate(nodes) if missing[p])
        raise ModelError(
            f"the nodes of {graph.title} form a cycle through {stuck.name or stuck.op_type}. An ONNX graph must be "
            "acyclic."
        )
    return [nodes[position] for position in ready]


def named_by_training(model: ModelProto) -> set[str]:
    """The tensors of the main graph that `training_info` may name: what it updates, and what its algorithm reads, which
    a Gradient does by attributes."""
    found: set[str] = set()
    for info in model.training_info:
        found.update(entry.key for entry in (*info.initialization_binding, *info.update_binding))
        found.update(output.name for output in info.algorithm.output)
        for node in info.algorithm.node:
            found.update(_reads(node))
            found.update(text.decode("utf-8", "replace") for a in node.attribute for text in (a.s, *a.strings))
    return found


def _reads(node: NodeProto) -> Iterator[str]:
    """What a node reads, captures of its bodies included."""
    yield from (i for i in node.input if i)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from _reads(inner)


def _scopes(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in list(graph.bodied):  # more may come on the way
        if node.alive:
            for body in node.bodies:
                yield from _scopes(body)


def _is_read(node: Node) -> bool:
    return any(o is not None and (o.users or o.is_output) for o in node.outputs)


def _settle(nodes: Iterable[Node]) -> None:
    """Nodes read a tensor that does not vary any more: nor does what they compute from nothing else."""
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
    """Drop the entries of a repeated field that are not wanted; at once, since taking one out moves all behind it."""
    if all(wanted):
        return
    kept = [entry for entry, keep in zip(entries, wanted, strict=True) if keep]
    del entries[:]
    entries.extend(kept)


def add_small_weights(graph: GraphProto, source: ModelProto) -> None:
    """The smaller initializers of `source`; in place of the larger ones, and of those on disk, inputs. Those that are
    inputs already stay no more than that: ONNX's inference would believe a default that a caller may replace."""
    listed = {i.name for i in source.graph.input}
    for tensor in source.graph.initializer:
        if tensor.name in listed and source.ir_version >= IR_WITH_DEFAULTS:
            continue
        if math.prod(tensor.dims) <= SMALL_TENSOR and tensor.data_location != TensorProto.EXTERNAL:
            graph.initializer.append(tensor)
        elif tensor.name not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))


def body_protos(proto: NodeProto) -> list[GraphProto]:
    """The bodies of a node, in the order of its attributes."""
    found: list[GraphProto] = []
    for attribute in proto.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found.append(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            found.extend(attribute.graphs)
    return found


def all_nodes(holder: GraphProto | onnx.FunctionProto) -> Iterator[NodeProto]:
    """The nodes of a graph or function and of all bodies inside."""
    for node in holder.node:
        yield node
        for body in body_protos(node):
            yield from all_nodes(body)


def functions_behind(nodes: Iterable[NodeProto], functions: Iterable[onnx.FunctionProto]) -> list[onnx.FunctionProto]:
    """Those of the functions that the nodes call, and that these call."""
    found: dict[str, list[onnx.FunctionProto]] = {}
    for function in functions:
        found.setdefault(key_of(function.domain, function.name), []).append(function)
    called = dict.fromkeys(key for n in nodes if (key := key_of(n.domain, n.op_type)) in found)
    todo = list(called)
    for key in todo:  # grows
        inner = (key_of(n.domain, n.op_type) for function in found[key] for n in all_nodes(function))
        fresh = dict.fromkeys(k for k in inner if k in found and k not in called)
        called |= fresh
        todo += fresh
    return [function for key in called for function in found[key]]


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


def _shape_range(node: Node, dims: Shape) -> Shape:
    """The part of the dimensions that a Shape node returns: `start` and `end` came with opset 15."""
    if node.key != "Shape" or not node.attrs:
        return dims
    return dims[node.attrs.get("start", 0) : node.attrs.get("end")]


def _elements_out(node: Node, inputs: list[np.ndarray | None]) -> int:
    """An estimate of how many elements the node returns, for the operators that can grow without bound."""
    first = inputs[0] if inputs else None
    if first is None:
        return 0
    if node.key == "ConstantOfShape":
        return int(np.prod(first, dtype=np.float64))
    second = inputs[1] if len(inputs) > 1 else None
    if node.key == "Expand" and second is not None:
        return int(np.prod(np.maximum(second, 1), dtype=np.float64)) * max(first.size, 1)
    if node.key == "Tile" and second is not None:
        return int(first.size * np.prod(second, dtype=np.float64))
    if node.key == "Range" and second is not None and inputs[2] is not None:
        start, stop, step = (float(a.reshape(-1)[0]) for a in (first, second, inputs[2]))
        return int(abs(stop - start) / max(abs(step), 1e-9))
    return first.size


def _alone(node: Node, inputs: Sequence[np.ndarray | None], opset: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of a single node, and what to feed it: small inputs are its initializers, since kernels ask for some
    (the sizes of a Resize) before anything runs."""
    proto = NodeProto()
    proto.CopyFrom(node.proto)
    proto.name = proto.doc_string = ""
    del proto.metadata_props[:]
    proto.input[:] = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
    proto.output[:] = [f"o{k}" for k in range(len(node.outputs))]  # a Split without one of them kills ONNX Runtime
    given = {f"i{k}": a for k, a in enumerate(inputs) if a is not None}
    feeds = {k: a for k, a in given.items() if a.size > SMALL_TENSOR}
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in feeds.items()
    ]
    tensors = [numpy_helper.from_array(a, k) for k, a in given.items() if k not in feeds]
    wanted = [name for name, o in zip(proto.output, node.outputs, strict=True) if o is not None]
    results = [onnx.ValueInfoProto(name=name) for name in wanted]
    graph = helper.make_graph([proto], "constant", infos, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_OF_NODES), feeds


def _overflows(node: Node, inputs: Sequence[np.ndarray | None]) -> bool:
    """Whether an integer division may have no result in its type: the lowest number by -1, of which processes die."""
    if node.key != "Div" or inputs[0] is None or inputs[1] is None or inputs[0].dtype.kind != "i":
        return False
    return bool((inputs[0] == np.iinfo(inputs[0].dtype).min).any() and (inputs[1] == -1).any())


def _run_alone(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """The outputs of a model of a single node, an empty array for one that the node leaves out; None where it does not
    run, or returns more than FOLD_LIMIT elements."""
    from surgeon.proof.evaluate import Reference, Runner, Unrunnable

    try:
        try:
            runner: Any = Runner(model)
        except SurgeonError:  # without ONNX Runtime nothing is proved, either
            runner = Reference(model)
        results = dict(zip([o.name for o in model.graph.output], runner.run(feeds), strict=True))
    except Unrunnable:
        return None
    found = [results.get(o, np.empty(0)) for o in model.graph.node[0].output]
    # To four bits onnx's reference evaluator, which has to do that, rounds otherwise than ONNX Runtime.
    rounds = model.graph.node[0].op_type in ("Cast", "CastLike", "QuantizeLinear")
    return None if any(a.size > FOLD_LIMIT or (rounds and a.dtype.name in FOUR_BITS) for a in found) else found


def _type_proto(elem: int, dims: Shape | None) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(elem, None if dims is None else list(dims))


class NoTensor(tuple[int, None]):
    """What is known of a sequence, an optional and their like, as of a tensor of which nothing is known: (0, None), and
    `kind`, the field of the TypeProto."""

    kind: str

    def __new__(cls, kind: str) -> NoTensor:
        made = super().__new__(cls, (0, None))
        made.kind = kind
        return made


def _read_type(kind: onnx.TypeProto) -> tuple[int, Shape | None]:
    if not kind.HasField("tensor_type"):
        other = kind.WhichOneof("value")
        return (0, None) if other is None else NoTensor(other)
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    dims: list[Dim] = []
    for dim in tensor.shape.dim[:]:
        size = dim.dim_value  # 0 where there is none
        dims.append(size if size > 0 else declared_dim(dim))
    return tensor.elem_type, tuple(dims)


def declared_dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    """The size or name that a file gives a dimension; None where it gives neither, or a -1 for it."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


class _Declared:
    """What the file says of the tensors that nodes make: value_info and the declared outputs.

    Inference does without it. The inputs may have been given other sizes since (`onnx.tools.update_model_dims` leaves
    the rest as it is), and a number that was right for one batch makes a dynamic model static.
    """

    def __init__(self, model: Model) -> None:
        self._main = model.graph
        shapes = [_read_type(info.type)[1] for info in model.proto.graph.input]
        self._names = {d for dims in shapes for d in dims or () if isinstance(d, str)}
        self._fixed = all(dims is not None and all(isinstance(d, int) for d in dims) for dims in shapes)
        self._infos: dict[Graph, dict[str, onnx.ValueInfoProto]] = {}
        self._stale: bool | None = None

    def type_of(self, value: Value, types: Types, repeated: bool) -> tuple[int, Shape | None] | None:
        """What the file says of a tensor, for one of unknown rank: without its sizes where others are not right."""
        info = self._of(value.graph).get(value.name)
        if info is None:
            return None
        elem, dims = _read_type(info.type)
        if dims is not None and (repeated or self._is_stale(self._differing(types))):
            dims = (None,) * len(dims)
        return elem, dims

    def left_open(self, types: Types) -> list[onnx.ValueInfoProto]:
        """The tensors of which inference knows the rank and not each size, with the file's names; and with its numbers
        where the inputs are all of fixed sizes."""
        rows = list(self._differing(types))
        if not rows or self._is_stale(rows):
            return []
        found = []
        for value, dims, said in rows:
            merged = tuple(s if self._tells(s) and not self._follows(d) else d for d, s in zip(dims, said, strict=True))
            if merged != dims:
                found.append(helper.make_value_info(value.name, _type_proto(_known(types, value)[0], merged)))
        return found

    def _follows(self, dim: Dim) -> bool:
        """Whether an inferred size is one that follows from the inputs: no name that inference made up."""
        return isinstance(dim, int) or dim in self._names

    def _tells(self, dim: Dim) -> bool:
        """Whether the file's size is a name that somebody gave, or a number that may be right."""
        return self._fixed if isinstance(dim, int) else dim is not None and not dim.startswith(MADE_UP)

    def _is_stale(self, rows: Iterable[tuple[Value, Shape, Shape]]) -> bool:
        """Whether one of the file's sizes is not that which follows from the inputs."""
        if self._stale is None:
            self._stale = any(
                isinstance(s, int) and s != d and self._follows(d)
                for _, dims, said in rows
                for d, s in zip(dims, said, strict=True)
            )
        return self._stale

    def _differing(self, types: Types) -> Iterator[tuple[Value, Shape, Shape]]:
        """(tensor, inferred dimensions, the file's) where they are not the same, but are as many."""
        for name, info in self._of(self._main).items():
            value = self._main.values.get(name)
            inferred = types.get(value) if value is not None else None
            if inferred is None or (isinstance(inferred, onnx.ValueInfoProto) and inferred.type == info.type):
                continue
            dims, said = _known(types, value)[1], _read_type(info.type)[1]
            if dims is not None and said is not None and len(dims) == len(said):
                yield value, dims, said  # type: ignore[misc]

    def _of(self, graph: Graph) -> dict[str, onnx.ValueInfoProto]:
        if graph not in self._infos:
            proto = graph.proto
            said = [] if isinstance(proto, onnx.FunctionProto) else [*proto.value_info, *proto.output]
            parameters = proto.input if said and graph is not self._main else ()
            self._infos[graph] = {info.name: info for info in (*said, *parameters)}
        return self._infos[graph]


def _forget_sizes_of_bodies(graph: Graph, proto: GraphProto) -> None:
    """Leave out what the bodies in a copy of the graph say of sizes; of an iteration's states and elements, too."""
    for node, copied in zip(graph.live(), proto.node, strict=True) if graph.bodied else ():
        for body, inner in zip(node.bodies, body_protos(copied), strict=True):
            del inner.value_info[:]
            for info in inner.output:
                _forget_size(info)
            for info in inner.input[2 if node.key == "Loop" else 0 :] if _iterates(node) else ():
                _forget_size(info)
            _forget_sizes_of_bodies(body, inner)


def _forget_size(info: onnx.ValueInfoProto) -> None:
    if info.type.HasField("tensor_type"):
        info.type.tensor_type.ClearField("shape")


def _believe(types: Types, value: Value, said: tuple[int, Shape | None] | None) -> None:
    """Of a tensor of unknown rank take what is said."""
    if said is not None and said[0]:
        types[value] = _known(types, value)[0] or said[0], said[1]


def _ranked(types: Types, value: Value) -> bool:
    """Whether the number of a tensor's dimensions is known; reads no more of a ValueInfoProto than that."""
    found = types.get(value)
    if isinstance(found, onnx.ValueInfoProto):
        return found.type.tensor_type.HasField("shape")
    return found is not None and found[1] is not None


def _apart_from_shapes(value: Value) -> bool:
    """Whether a tensor is computed from written values by few nodes, none of which asks for a shape."""
    todo = [value]
    for v in todo:  # grows
        node = v.producer
        if len(todo) > MOST_FOLLOWED or (node is None and v.tensor is None) or (node and node.key in VALUELESS):
            return False
        todo += [i for i in (node.inputs if node is not None else ()) if i is not None]
    return True


def _wholly_known(found: tuple[int, Shape | None] | None) -> bool:
    """Whether inferring again cannot say more: a type and sizes, where a name may be the
    inference's own for "unknown"."""
    return found is not None and found[0] != 0 and found[1] is not None and all(type(d) is int for d in found[1])


def _merged(one: Shape | None, other: Shape | None) -> Shape | None:
    """The dimensions of one tensor of which two things are known: numbers before names."""
    if one is None or other is None or len(one) != len(other):
        return one if one is not None else other
    return tuple(a if isinstance(a, int) or b is None else b for a, b in zip(one, other, strict=True))


def _common(shapes: Sequence[Shape | None]) -> Shape | None:
    """What is known of a tensor that has one of these shapes; None where it may have any number of dimensions."""
    ranks = {None if dims is None else len(dims) for dims in shapes}
    if len(ranks) != 1 or None in ranks:
        return None
    return tuple(d[0] if len(set(d)) == 1 else None for d in zip(*shapes, strict=True))  # type: ignore[arg-type]


def _known(types: Types, value: Value | None) -> tuple[int, Shape | None]:
    """`_look`, with 0 for a type of which nothing is known."""
    return (_look(types, value) if value is not None else None) or (0, None)


def _numbers(types: Types, value: Value | None) -> Shape | None:
    """The dimensions of a tensor without their names, which may mean another size in each iteration."""
    dims = _known(types, value)[1]
    return None if dims is None else tuple(d if isinstance(d, int) else None for d in dims)


def _learn(types: Types, value: Value, dims: Shape | None) -> bool:
    """Add what is known of a tensor to what `types` has; whether that is more."""
    elem, before = _known(types, value)
    if dims is None or not elem or (before is not None and len(before) != len(dims)):
        return False
    merged = _merged(dims, before)
    types[value] = elem, merged
    return merged != before


def _iterates(node: Node) -> bool:
    """Whether it is a Loop or a Scan. That of opset 8, with a batch of its own, is left to ONNX's inference, and so is
    one whose attributes a function's call says."""
    if node.key == "Loop":
        return True
    if node.key != "Scan" or node.graph.model.opset_in(node.graph) < 9:
        return False
    return not any(a.ref_attr_name for a in node.proto.attribute)


def _parameters(node: Node) -> list[Value]:
    """What a Loop or a Scan hands to its body in each iteration: states and elements."""
    if not _iterates(node):
        return []
    body = node.bodies[0]
    return [body.values[info.name] for info in body.proto.input[2 if node.key == "Loop" else 0 :]]  # type: ignore[union-attr]


def _fed(node: Node, types: Types) -> list[tuple[Value, Shape | None, Value | None]]:
    """(parameter of the body, what is known of it before the first iteration, the result that it is in the next
    iteration) for each state of a Loop or a Scan."""
    if not _iterates(node):
        return []
    body, loop = node.bodies[0], node.key == "Loop"
    states = node.inputs[2:] if loop else node.inputs[: len(node.inputs) - node.attr("num_scan_inputs")]
    rows = zip(_parameters(node), states, body.results[loop:], strict=False)
    return [(parameter, _numbers(types, state), result) for parameter, state, result in rows]


def _likeness(node: Node, types: Types) -> Iterator[tuple[Value | None, int, Shape | None]]:
    """(output, type, what is known of its shape) of what ONNX's inference may make nothing of: an If returns what both
    branches do; a Loop and a Scan the states that they are given or that an iteration leaves, and stacked results."""
    if node.key in UNINFERRED:
        yield node.outputs[0], *_known(types, node.inputs[0])
    elif node.key == "If":
        for out, models in zip(node.outputs, zip(*(b.results for b in node.bodies), strict=False), strict=False):
            yield out, _known(types, models[0])[0], _common([_known(types, m)[1] for m in models])
    elif _iterates(node):
        fed = _fed(node, types)
        for out, (_, dims, result) in zip(node.outputs, fed, strict=False):
            yield out, _known(types, result)[0], _common([dims, _numbers(types, result)])
        results = node.bodies[0].results[len(fed) + (node.key == "Loop") :]
        for place, (out, result) in enumerate(zip(node.outputs[len(fed) :], results, strict=False)):
            yield out, _known(types, result)[0], _stacked(node, place, _numbers(types, result))


def _stacked(node: Node, place: int, dims: Shape | None) -> Shape | None:
    """The shape of what a Loop or a Scan stacks: how many iterations there are is not known."""
    axes = node.attrs.get("scan_output_axes") or [] if node.key == "Scan" else []
    axis = axes[place] if place < len(axes) else 0
    if dims is None or not -len(dims) - 1 <= axis <= len(dims):
        return None
    axis %= len(dims) + 1
    return (*dims[:axis], None, *dims[axis:])


def _more_by_likeness(node: Node, types: Types) -> Iterator[Typed]:
    """The outputs of which more is known than `types` has."""
    for out, elem, shape in _likeness(node, types):
        if out is None or shape is None:
            continue
        own, dims = _known(types, out)
        merged = _merged(shape, dims)
        if merged is not None and merged != dims:
            yield out, own or elem, merged


def _look(types: Types, value: Value) -> tuple[int, Shape | None] | None:
    """What is known of a tensor; a ValueInfoProto is read once."""
    found = types.get(value)
    if isinstance(found, onnx.ValueInfoProto):
        found = types[value] = _read_type(found.type)
    return found


def _expanded(given: Dim, asked: Dim) -> Dim:
    """The size of a dimension that an Expand is asked to bring to another one; only 1 grows."""
    if asked in (1, given) or (isinstance(given, int) and given != 1):
        return given
    return asked if isinstance(asked, int) or given == 1 else None


def _written_sizes(target: Value, types: Types) -> Shape:
    """The sizes that a target of Reshape or Expand names: those of a Shape, the constant parts of a Concat, its own."""
    found: list[Dim] = []
    concat = target.producer
    if concat is not None and concat.key == "Shape" and concat.inputs[0] is not None:
        dims = _shape_range(concat, _known(types, concat.inputs[0])[1] or ())
        return tuple(None if isinstance(d, int) and d < 1 else d for d in dims)
    for part in concat.inputs if concat is not None and concat.key == "Concat" else [target] * target.is_written:
        if part is None:
            continue
        tensor = part.tensor if part.is_written else None
        node = part.producer
        array: np.ndarray | None
        if tensor is not None and tensor.data_location != TensorProto.EXTERNAL:
            array = numpy_helper.to_array(tensor)
        else:
            array = constant_value(node.proto) if node is not None and node.key == "Constant" else None
        if array is None:
            length = _known(types, part)[1]
            if length is None or len(length) != 1 or not isinstance(length[0], int):
                return ()
            found += [None] * length[0]
            continue
        found += [int(size) if size > 0 else None for size in array.reshape(-1)]
    return tuple(found)


def _collect_types(graph: Graph, proto: GraphProto, types: Types) -> None:
    for info in (*proto.input, *proto.output, *proto.value_info):
        value = graph.values.get(info.name)
        if value is not None:
            types[value] = info  # read when somebody asks
    for value in graph.values.values():
        if value.tensor is not None and not value.is_input:  # what replaces a default has the sizes of the input
            types[value] = (value.tensor.data_type, tuple(value.tensor.dims))
    for node, inferred in zip(graph.live(), proto.node, strict=True) if graph.bodied else ():
        if not node.bodies:
            continue
        bodies = [a.g for a in inferred.attribute if a.type == AttributeProto.GRAPH]
        for body, body_proto in zip(node.bodies, bodies, strict=False):
            _collect_types(body, body_proto, types)


_TYPE_NAMES = {
    "tensor(bool)": np.bool_,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}
