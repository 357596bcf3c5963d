"""The model that a plan describes: each tensor in the type of its producer, at most one cast to each other type."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.ir.attributes import constant_value
from surgeon.ir.files import with_data
from surgeon.ir.functions import declare_opset, needs_opset
from surgeon.ir.graph import Graph, Node, Value
from surgeon.ir.lattice import HALVES
from surgeon.ir.model import Model
from surgeon.ir.protos import IR_WITH_DEFAULTS, body_protos, copied, reads, refill, unused
from surgeon.ir.schemas import FLOAT_LIMIT
from surgeon.ir.weight_file import WeightFile
from surgeon.precision.formats import FAMILY, FORMATS, SINGLE
from surgeon.precision.plan import GENERATORS, Plan

Use = tuple[Value, int]  # a tensor in one of the types of FAMILY


@dataclass(frozen=True, slots=True)
class Apart:
    """The file of the converted weights of a large model, and which tensors are in it: none is written twice."""

    file: WeightFile
    written: dict[Use, TensorProto] = field(default_factory=dict)


class Emitter:
    """Writes the planned model.

    casts       how many Cast nodes between the types of FAMILY it has
    taken       the names of tensors
    names       what a tensor is called in a type
    wanted      the types in which each tensor is read
    folded      constants that nodes compute, and that are stored
    extra       outputs of a graph that need a tensor of their own, by what they are copies of: an Identity each
    cast_nodes  the casts that the file has, by what they return
    apart       where the converted weights are; None where the written model holds all of them
    """

    def __init__(self, plan: Plan, apart: Apart | None = None) -> None:
        self.plan, self.apart = plan, apart
        self.model: Model = plan.model
        self.casts = 0
        self.taken = {n for s in self.model.scopes for n in s.values}
        self.names: dict[Use, str] = {}
        self.wanted: dict[Use, None] = {}
        self.folded: dict[Value, np.ndarray] = {}
        self.extra: dict[tuple[Graph, Value], dict[str, Value]] = {}
        self.cast_nodes: dict[Use, Node] = {}

    def emit(self) -> ModelProto:
        """The converted model. It holds its weights, whatever the input's are, unless they are apart."""
        source = self.model.proto
        out = ModelProto()
        _copy_but(source, out, "graph", "functions")
        self._note_casts(self.model.graph)
        self._note_uses(self.model.graph)
        self._fold()
        self._name(self.model.graph)
        self._write(self.model.graph, out.graph)
        if needs_opset(out):
            declare_opset(out)
        if source.ir_version < IR_WITH_DEFAULTS:
            _drop_weights_among_inputs(out, source)
        return out

    def half_types(self) -> dict[str, int]:
        """The type of each tensor of 16 bits that nodes of the written model make, by name."""
        found = {name: elem for (_, elem), name in self.names.items() if elem in HALVES}
        for outputs in self.extra.values():
            types = {name: self.plan.interface(output) for name, output in outputs.items()}
            found |= {name: elem for name, elem in types.items() if elem in HALVES}
        return found

    # ---- which types are needed --------------------------------------------------------------------------------------

    def _note_casts(self, graph: Graph) -> None:
        """Note the casts that the file has already: they give the new ones their names."""
        for node in graph.live():
            for body in node.bodies:
                self._note_casts(body)
            if self.plan.is_cast(node) and node.outputs[0] is not None:
                out = node.outputs[0]
                if node.key != "Identity":
                    self.cast_nodes.setdefault((self.plan.root(out), self.model.dtype(out)), node)

    def _note_uses(self, graph: Graph) -> None:
        """Note in which types the tensors of a graph are read."""
        for node in graph.live():
            for body in node.bodies:
                self._note_uses(body)
            if not self.plan.is_cast(node) and node.key != "Constant":
                self.wanted.update(dict.fromkeys((self.plan.root(v), t) for _, v, t in self.plan.reads(node)))
        for value, dtype in self._outputs(graph):
            self.wanted[self.plan.root(value), dtype] = None

    def _outputs(self, graph: Graph) -> Iterator[Use]:
        """The outputs of a graph of a type of FAMILY, and what training names, each with the type of the interface."""
        names = dict.fromkeys(info.name for info in graph.proto.output)
        names |= dict.fromkeys(v.name for v in graph.values.values() if v.is_output)
        for value in map(graph.find, names):
            if value is not None and self.model.dtype(value) in FAMILY:
                yield value, self.plan.interface(value)

    def _fold(self) -> None:
        """Store what nodes compute from constants and converted nodes read, instead of casting it at run time."""
        for value, dtype in self.wanted:
            if dtype == self.plan.type_of(value) or value.tensor is not None or _is_constant_node(value):
                continue
            array = self.model.constant(value) if self.plan.is_constant(value) else None
            if array is not None:
                self.folded[value] = array

    def _wanted_types(self, value: Value) -> list[int]:
        return [t for t in FORMATS if (value, t) in self.wanted]

    # ---- names -------------------------------------------------------------------------------------------------------

    def _name(self, graph: Graph) -> None:
        """Name the tensors of a graph, each in each type: its outputs first, whose names are not to change."""
        for node in graph.live():
            for body in node.bodies:
                self._name(body)
        for value, dtype in self._outputs(graph):
            root = self.plan.root(value)
            is_given = root.is_input and dtype == self.plan.type_of(root) and value is not root  # under another name
            if root.graph is graph and not is_given:
                self.names.setdefault((root, dtype), value.name)
            if root.graph is not graph or is_given or self.names[root, dtype] != value.name:
                self.extra.setdefault((graph, root), {})[value.name] = value
        nodes = [n for n in graph.live() if n.key != "Constant" and not self.plan.is_cast(n)]
        made = [(o, self.plan.type_of(o)) for n in nodes for o in n.outputs if o is not None]
        for use in (*made, *(u for u in self.wanted if u[0].graph is graph)):
            if use[1] in FAMILY and use not in self.names:
                self.names[use] = self._choose(use)

    def _choose(self, use: Use) -> str:
        value, dtype = use
        others = {self.names.get((value, t)) for t in FORMATS if t != dtype}
        others |= self.extra.get((value.graph, value), {}).keys()
        if dtype == self.plan.type_of(value) or (
            _is_stored(value) and (value, self.plan.type_of(value)) not in self.wanted
        ):
            return value.name if value.name not in others else self._fresh(f"{value.name}~{FORMATS[dtype].name}")
        cast = self.cast_nodes.get(use)
        if cast is not None and cast.outputs[0] is not None and not cast.outputs[0].is_output:
            return cast.outputs[0].name
        return self._fresh(f"{value.name}~{FORMATS[dtype].name}")

    def _fresh(self, stem: str) -> str:
        name = unused(stem, self.taken)
        self.taken.add(name)
        return name

    def _called(self, value: Value, dtype: int) -> str:
        return self.names.get((value, dtype), value.name)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _write(self, graph: Graph, out: GraphProto) -> None:
        """Write a graph: what comes before all nodes, the weights, the nodes, the types."""
        source = graph.proto
        assert isinstance(source, GraphProto)
        out.Clear()
        _copy_but(source, out, "node", "initializer")
        if self.plan.io_half and graph is self.model.graph:
            for info in (*out.input, *out.output):
                if info.type.tensor_type.elem_type == SINGLE:
                    info.type.tensor_type.elem_type = self.plan.low.elem
        nodes: list[NodeProto] = []
        for (scope, root), _ in self.extra.items():
            if scope is graph and root.graph is not graph:
                nodes += [copy for dtype in FAMILY for copy in self._copies(root, dtype, graph)]
        for value in graph.values.values():
            if value.producer is None and not _is_stored(value):
                nodes += self._versions(value)
            elif value.producer is None:
                nodes += [copy for dtype in self._wanted_types(value) for copy in self._copies(value, dtype)]
        self._write_tensors(graph, out)
        self._write_folded(graph, out)
        for node in graph.live():
            nodes += self._node(node)
        out.node.extend(_without_unread(nodes, graph, out))
        self._write_types(graph, out)

    def _write_folded(self, graph: Graph, out: GraphProto) -> None:
        """Write what nodes of a graph computed from constants, in each type but their own."""
        for value, array in self.folded.items():
            if value.graph is not graph:
                continue
            types = [t for t in self._wanted_types(value) if t != self.plan.type_of(value)]
            out.initializer.extend(_tensor(array, dtype, self._called(value, dtype)) for dtype in types)

    def _write_tensors(self, graph: Graph, out: GraphProto) -> None:
        """Write the weights of a graph, each in the types in which it is read."""
        assert isinstance(graph.proto, GraphProto)
        for tensor in graph.proto.initializer:
            value = graph.values[tensor.name]
            wanted = self._wanted_types(value)
            if not _is_stored(value) or not wanted:
                out.initializer.append(self._kept(tensor))
                continue
            for dtype in wanted:
                made = self._kept(tensor) if dtype == tensor.data_type else self._weight(value, tensor, dtype)
                made.name = self._called(value, dtype)
                out.initializer.append(made)

    def _kept(self, tensor: TensorProto) -> TensorProto:
        """A copy of a weight that keeps its type, with its data unless that is apart."""
        return copied(tensor if self.apart is not None else with_data(tensor, self.model.base))

    def _weight(self, value: Value, tensor: TensorProto, dtype: int) -> TensorProto:
        """A weight in another type."""
        if self.apart is not None and (value, dtype) in self.apart.written:
            return copied(self.apart.written[value, dtype])
        array = self.model.constant(value)
        assert array is not None
        made = _tensor(array, dtype, "")
        _annotate(made, tensor)
        if self.apart is not None:
            self.apart.file.store(made)
            self.apart.written[value, dtype] = copied(made)
        return made

    def _node(self, node: Node) -> Iterator[NodeProto]:
        """The node in its types, then the casts and copies of its outputs."""
        if self.plan.is_cast(node):
            return
        if node.key == "Constant" and node.outputs[0] is not None and self.model.dtype(node.outputs[0]) in FAMILY:
            yield from self._constant(node, node.outputs[0])
            return
        proto = copied(node.proto)
        called: dict[str, str] = {}
        for position, value, dtype in self.plan.reads(node):
            called[proto.input[position]] = proto.input[position] = self._called(self.plan.root(value), dtype)
            if self._saturates(node, position, value, dtype):  # the end of the type's range means no bound, too
                bound = self.model.constant(value)
                assert bound is not None
                yield self._instead(value, proto, position, dtype, "bound", bound)
            elif (node, position) in self.plan.repaired:
                sizes = tuple(d for d in self.model.shape(value) or () if isinstance(d, int))
                epsilon = np.full(sizes, self.plan.repaired[node, position])
                yield self._instead(value, proto, position, dtype, "epsilon", epsilon)
        for index, out in enumerate(node.outputs):
            if out is not None and self.model.dtype(out) in FAMILY:
                called[out.name] = proto.output[index] = self._called(out, self.plan.type_of(out))
        _rename_sharded(proto, called)
        self._retype(node, proto)
        for body, inner in zip(node.bodies, body_protos(proto), strict=True):
            self._write(body, inner)
        yield proto
        for out in node.outputs:
            if out is not None and out not in self.folded:
                yield from self._versions(out)

    def _saturates(self, node: Node, position: int, value: Value, dtype: int) -> bool:
        """Whether an input is a bound of Clip, in a type of 16 bits, that fp32 cannot pass either."""
        if dtype == SINGLE or node.key != "Clip" or position == 0 or not self.model.is_constant(value):
            return False
        array = self.model.constant(value)
        return array is not None and array.dtype == np.float32 and bool((np.abs(array) >= FLOAT_LIMIT).all())

    def _instead(
        self, value: Value, proto: NodeProto, position: int, dtype: int, stem: str, array: np.ndarray
    ) -> NodeProto:
        """A Constant that a written node reads in place of a tensor."""
        name = proto.input[position] = self._fresh(f"{value.name}~{stem}")
        return helper.make_node("Constant", [], [name], name=name, value=_tensor(array, dtype, ""))

    def _constant(self, node: Node, value: Value) -> Iterator[NodeProto]:
        """A Constant node in each type in which it is read, and the copies that graph outputs need."""
        wanted = self._wanted_types(value)
        array = constant_value(node.proto)
        if not wanted or array is None:
            yield node.proto
            return
        for dtype in wanted:
            name = self._called(value, dtype)
            if dtype == self.model.dtype(value) and name == value.name:
                yield node.proto
                continue
            proto = copied(node.proto)
            proto.name, proto.output[0] = node.name if name == value.name else name, name
            del proto.attribute[:]
            proto.attribute.append(helper.make_attribute("value", _tensor(array, dtype, "")))
            yield proto
        for dtype in wanted:
            yield from self._copies(value, dtype)

    def _versions(self, value: Value) -> Iterator[NodeProto]:
        """The cast of a tensor into the other type, where that is read, and the copies that graph outputs need."""
        made = self.plan.type_of(value)
        if made not in FAMILY:
            return
        for dtype in self._wanted_types(value):
            if dtype != made:
                self.casts += 1
                yield self._cast(value, dtype)
            yield from self._copies(value, dtype)

    def _cast(self, value: Value, dtype: int) -> NodeProto:
        """The cast of a tensor to a type, with the name of the file's own cast where there is one."""
        name = self._called(value, dtype)
        made = helper.make_node(
            "Cast", [self._called(value, self.plan.type_of(value))], [name], name=f"{name}/Cast_1", to=dtype
        )
        cast = self.cast_nodes.get((value, dtype))
        if cast is not None and cast.outputs[0] is not None and cast.outputs[0].name == name:
            made.name = cast.name
            _annotate(made, cast.proto)
        return made

    def _copies(self, value: Value, dtype: int, graph: Graph | None = None) -> Iterator[NodeProto]:
        """An Identity for each output of a graph, else of the value's own, that is the value under another name."""
        for name, output in self.extra.get((graph or value.graph, value), {}).items():
            if self.plan.interface(output) != dtype:
                continue
            copy = helper.make_node("Identity", [self._called(value, dtype)], [name], name=f"{name}/Identity_1")
            if output.producer is not None and output.producer.key == "Identity":
                copy.CopyFrom(output.producer.proto)
                copy.input[0] = self._called(value, dtype)
            yield copy

    def _retype(self, node: Node, proto: NodeProto) -> None:
        """Write the attribute with the type that a Cast or a generator returns."""
        out = node.outputs[0] if node.outputs else None
        if out is None or not self.plan.is_family(out) or node in self.plan.fixed:
            return
        made = self.plan.type_of(out)
        if made == self.model.dtype(out):
            return
        if node.key == "Cast":
            _set(proto, "to", made)
        elif node.key == "DequantizeLinear" and node.attr("output_dtype"):
            _set(proto, "output_dtype", made)
        elif node.key == "ConstantOfShape":
            value = node.attr("value")
            array = numpy_helper.to_array(value) if value is not None else np.zeros(1, np.float32)
            _set(proto, "value", _tensor(array, made, ""))
        elif node.key in GENERATORS:
            _set(proto, "dtype", made)

    def _write_types(self, graph: Graph, out: GraphProto) -> None:
        """Declare the new types of tensors that were declared and still exist."""
        present = {o for n in out.node for o in n.output}
        for position in range(len(out.value_info) - 1, -1, -1):
            info = out.value_info[position]
            value = graph.values.get(info.name)
            if info.name not in present or value is None:
                del out.value_info[position]
            elif self.plan.is_family(value):
                root = self.plan.root(value)
                named = (t for t in FORMATS if self.names.get((root, t)) == info.name)
                info.type.tensor_type.elem_type = next(named, self.plan.type_of(root))


def _is_constant_node(value: Value) -> bool:
    return value.producer is not None and value.producer.key == "Constant"


def _is_stored(value: Value) -> bool:
    """Whether the tensor is stored in the file: an initializer that no caller can replace, or a Constant node."""
    return (value.tensor is not None and not value.is_input) or _is_constant_node(value)


# ---- protobufs -------------------------------------------------------------------------------------------------------


def _copy_but(source: ModelProto | GraphProto, out: ModelProto | GraphProto, *left_out: str) -> None:
    """Copy every field of a model or graph but some: models are large, and tensors are written separately."""
    for kind, value in source.ListFields():
        if kind.name in left_out:
            continue
        if hasattr(value, "extend"):
            getattr(out, kind.name).extend(value)
        else:
            setattr(out, kind.name, value)


def _drop_weights_among_inputs(model: ModelProto, source: ModelProto) -> None:
    """Remove the inputs that old files declare for their weights, and raise the IR version to one that needs none."""
    weights = {t.name for t in source.graph.initializer}
    refill(model.graph.input, [i for i in model.graph.input if i.name not in weights])
    model.ir_version = IR_WITH_DEFAULTS


def _without_unread(nodes: list[NodeProto], graph: Graph, out: GraphProto) -> list[NodeProto]:
    """The nodes without those whose constants are stored now."""
    unread = {v.name for v in graph.values.values() if not v.users and not v.is_output}
    needed = {o.name for o in out.output} | {v.name for v in graph.values.values() if v.is_output}
    kept = []
    for node in reversed(nodes):
        if not node.output or any(o in needed or o in unread for o in node.output if o):
            kept.append(node)
            needed.update(reads(node))
    return kept[::-1]


def _tensor(array: np.ndarray, dtype: int, name: str) -> TensorProto:
    """The numbers in a type; a finite one beyond it is its largest one."""
    kind, largest = helper.tensor_dtype_to_np_dtype(dtype), FORMATS[dtype].largest
    with np.errstate(over="ignore"):
        made = array.astype(kind)
        if not np.isfinite(made).all():
            made = np.where(np.isfinite(array), array.clip(-largest, largest), array).astype(kind)
    return numpy_helper.from_array(made, name)


def _annotate(made: NodeProto | TensorProto, source: NodeProto | TensorProto) -> None:
    """Copy the description and the metadata of a node or tensor to the one that replaces it."""
    if source.doc_string:
        made.doc_string = source.doc_string
    made.metadata_props.extend(source.metadata_props)


def _rename_sharded(proto: NodeProto, called: Mapping[str, str]) -> None:
    """Rename the tensors in the device configurations of a node."""
    for configuration in proto.device_configurations:
        for sharding in configuration.sharding_spec:
            sharding.tensor_name = called.get(sharding.tensor_name, sharding.tensor_name)


def _set(proto: NodeProto, name: str, value: object) -> None:
    for position in range(len(proto.attribute) - 1, -1, -1):
        if proto.attribute[position].name == name:
            del proto.attribute[position]
    proto.attribute.append(helper.make_attribute(name, value))
