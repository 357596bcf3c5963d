"""A ModelProto, indexed: one `Graph` for the main graph, for every body and for every local function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError, SurgeonError
from surgeon.ir.attributes import constant_value
from surgeon.ir.files import with_data
from surgeon.ir.graph import VALUELESS, Graph, Node, Value, scopes_of
from surgeon.ir.lattice import Dim, NoTensor, Shape, is_static, join, meet, read_type, type_proto
from surgeon.ir.memory import no_collection
from surgeon.ir.protos import SMALL_TENSOR, add_small_weights, all_nodes, body_protos, functions_behind
from surgeon.ir.run import IR_OF_NODES, Reference, Runner, Unrunnable
from surgeon.ir.schemas import DOMAIN, defaults, key_of, output_type, schema

FOLD_LIMIT = 1 << 22  # elements: a computed constant larger than this is left to the runtime
MOST_FOLLOWED = 32  # tensors that a constant is computed from, to be looked at while shapes are inferred
FOUR_BITS = frozenset({"int4", "uint4"})
MADE_UP = "unk__"  # how ONNX's inference begins the names that it makes up for unknown sizes
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
        functions = [f for key, f in self.functions.items() if not key.startswith(f"{DOMAIN}::")]
        for top in (self.graph, *functions):
            yield from scopes_of(top)

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
        return defaults(node.op, domain, self.opset_in(node.graph, domain))

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
            rule = output_type(op, domain, self.opset_in(node.graph, domain), value.index)
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
        if self._stale and not new and not is_static(found):
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
                kinds[value.name] = type_proto(elem, dims)
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
                elem, dims = found = read_type(result[out.name])
                types[out] = (elem, meet(_known(types, out)[1], dims)) if elem else found
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
                found.append(helper.make_value_info(out.name, type_proto(elem, sizes)))
            seen = graph.parent is None or all(i is None or i.graph is graph for i in node.inputs)
            if unranked or (not node.bodies and not (seen and fresh.isdisjoint(node.inputs))):
                vague = [o for o in node.outputs if o is not None and not is_static(_look(types, o))]
                if vague:
                    self._infer_one(node, types)
                if unranked:
                    self._take_declared(node, types, declared, repeated)
                    vague = [o for o in vague if _ranked(types, o)]
                    found += [helper.make_value_info(o.name, type_proto(*types[o])) for o in vague]  # type: ignore[misc]
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
        values = [v for body in node.bodies if fed for scope in scopes_of(body) for v in scope.values.values()]
        known = {v: types[v] for v in values if v in types}
        while True:
            given = [*said, *(param for param, dims, _ in fed if _learn(types, param, dims))]
            for body in node.bodies:
                self._left_out(body, types, declared, given, repeated)
            kept = [
                (param, dims if result is None else join([dims, _numbers(types, result)]), result)
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
        named = self.graph is node.graph and is_static((elem, dims))  # in a body names stand for what is not seen
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
        merged = meet(sizes, dims)
        if merged is not None and merged != dims:
            yield out, elem, merged

    def _infer_functions(self, types: Types, declared: _Declared) -> None:
        """The types inside local functions, as the first call sees them."""
        todo = dict(self.functions)
        callers = list(scopes_of(self.graph))
        for caller in callers:  # grows: a function's body may call another
            for key in [k for k in todo if caller.by_op.get(k)]:
                function = todo.pop(key)
                call = next(iter(caller.by_op[key]))
                arguments = [_known(types, v) for v in call.inputs]
                if all(elem for elem, _ in arguments):
                    _collect_types(function, self._infer_call(function, call, arguments), types)
                    self._left_out(function, types, declared, repeated=True)
                    callers += scopes_of(function)

    def _infer_call(self, function: Graph, call: Node, arguments: list[tuple[int, Shape | None]]) -> GraphProto:
        """A function's body as a graph with the types that follow from one call's arguments and attributes."""
        assert isinstance(function.proto, onnx.FunctionProto)
        body = GraphProto(name=function.proto.name)
        function.copy_into(body)
        for name, (elem, dims) in zip(function.proto.input, arguments, strict=False):
            body.input.append(helper.make_value_info(name, type_proto(elem, dims)))
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
        called, todo = set(), [n for s in scopes_of(self.graph) for n in s.live()]
        while todo:
            key = todo.pop().key
            if key in self.functions and key not in called:
                called.add(key)
                todo += [n for s in scopes_of(self.functions[key]) for n in s.live()]
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
            rows = [row for scope in scopes_of(function) for row in scope.by_op.items()]
            used = any(nodes for key, nodes in rows if key.startswith(f"{domain}::"))
            if used and domain not in declared:
                function.proto.opset_import.append(helper.make_opsetid(domain, 1))  # type: ignore[union-attr]


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


class _Declared:
    """What the file says of the tensors that nodes make: value_info and the declared outputs.

    Inference does without it. The inputs may have been given other sizes since (`onnx.tools.update_model_dims` leaves
    the rest as it is), and a number that was right for one batch makes a dynamic model static.
    """

    def __init__(self, model: Model) -> None:
        self._main = model.graph
        shapes = [read_type(info.type)[1] for info in model.proto.graph.input]
        self._names = {d for dims in shapes for d in dims or () if isinstance(d, str)}
        self._fixed = all(dims is not None and all(isinstance(d, int) for d in dims) for dims in shapes)
        self._infos: dict[Graph, dict[str, onnx.ValueInfoProto]] = {}
        self._stale: bool | None = None

    def type_of(self, value: Value, types: Types, repeated: bool) -> tuple[int, Shape | None] | None:
        """What the file says of a tensor, for one of unknown rank: without its sizes where others are not right."""
        info = self._of(value.graph).get(value.name)
        if info is None:
            return None
        elem, dims = read_type(info.type)
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
                found.append(helper.make_value_info(value.name, type_proto(_known(types, value)[0], merged)))
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
            dims, said = _known(types, value)[1], read_type(info.type)[1]
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
    merged = meet(dims, before)
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
            yield out, _known(types, models[0])[0], join([_known(types, m)[1] for m in models])
    elif _iterates(node):
        fed = _fed(node, types)
        for out, (_, dims, result) in zip(node.outputs, fed, strict=False):
            yield out, _known(types, result)[0], join([dims, _numbers(types, result)])
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
        merged = meet(shape, dims)
        if merged is not None and merged != dims:
            yield out, own or elem, merged


def _look(types: Types, value: Value) -> tuple[int, Shape | None] | None:
    """What is known of a tensor; a ValueInfoProto is read once."""
    found = types.get(value)
    if isinstance(found, onnx.ValueInfoProto):
        found = types[value] = read_type(found.type)
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
