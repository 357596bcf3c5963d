"""Types and shapes of a whole model: ONNX's inference, and what follows where that says nothing.

1. ONNX's inference runs over the model without its large weights, and without the sizes that the file declares.
2. Where it leaves sizes open, the file's declarations are taken as far as they can be trusted (declared.py).
3. The graph is walked for what ONNX's inference leaves out: targets of Reshape and Expand (sizes.py), bodies of If,
   Loop and Scan (iteration.py), operators of unknown rank. What follows from that after them is inferred too.
4. Until 2 and 3 find nothing more, it begins again with what they found.
5. The body of a local function has the types of its first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, ValueInfoProto, helper, numpy_helper

from surgeon.ir.declared import MADE_UP, Declared, drop_sizes, drop_sizes_of_bodies
from surgeon.ir.following import sources
from surgeon.ir.graph import VALUELESS, Graph, Node, Value, scopes_of
from surgeon.ir.iteration import RECURRENT, loop_carried, parameters, refined_outputs
from surgeon.ir.lattice import Shape, TensorType, join, meet, read_type, type_proto, value_info, without_names
from surgeon.ir.long_vectors import has_long_vector
from surgeon.ir.protos import SMALL_TENSOR, add_small_weights, all_nodes, functions_behind
from surgeon.ir.schemas import DOMAIN, LIKE_INPUT
from surgeon.ir.sizes import TARGETED, targeted_shape
from surgeon.ir.type_table import TypeTable

if TYPE_CHECKING:
    from surgeon.ir.model import Model

REFINED = LIKE_INPUT | TARGETED | RECURRENT  # nodes without bodies of which more follows than ONNX's inference says
# Whose inference ends the process where an input has no known type.
ENDING = frozenset({"DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch", "TreeEnsemble"})
MOST_FOLLOWED = 32  # tensors that a constant is computed from, to be looked at while shapes are inferred


class Inference:
    """One inference over a model as it is. `before`: what an earlier one knew, or None."""

    def __init__(self, model: Model, before: TypeTable | None) -> None:
        self._model = model
        self._before = TypeTable() if before is None else before
        self._declared = Declared(model)
        self._table = TypeTable()

    def run(self) -> TypeTable:
        """What is known of every tensor."""
        graph = self._model.graph
        bare = without_weights(self._model)
        _tell(bare, self._remembered(graph))
        follows = _made_safe(bare)
        while True:
            self._table = TypeTable()
            self._table.collect(graph, _inferred(bare, follows).graph)
            # each round knows more of them
            if not (_tell(bare, self._declared.refinements(self._table)) or _tell(bare, self._refine_graph(graph))):
                break
        self._infer_functions()
        return self._table

    def _remembered(self, graph: Graph) -> Iterator[ValueInfoProto]:
        """The tensors that nodes made by rewrites return, with the sizes that were known of what they replace. A
        rewrite computes what was there, but ONNX's inference may make less of how it is written: it has no name for a
        size that follows from a broadcast."""
        for node in graph.live():
            for out in node.outputs if node.is_new else ():
                known = self._before.find(out) if out is not None else None
                if out is not None and known is not None and known.elem and known.shape:
                    # Without the names that inference made up: another run gives these to other sizes.
                    own = tuple(None if isinstance(d, str) and d.startswith(MADE_UP) else d for d in known.shape)
                    yield value_info(out.name, known.elem, own)

    # ---- what ONNX's inference leaves out --------------------------------------------------------------------------

    def _refine_graph(
        self, graph: Graph, refined: Iterable[Value] = (), repeated: bool = False
    ) -> list[ValueInfoProto]:
        """Refine the table node by node; what ONNX's inference needs to know of this graph's tensors. `refined`:
        tensors of which the table says more than ONNX's inference knew. `repeated`: the scope runs several times, with
        other sizes each time."""
        found: list[ValueInfoProto] = []
        fresh: set[Value | None] = set(refined)
        for node in graph.live():
            if node.bodies:
                self._refine_bodies(node, repeated)
                found += self._refine_outputs(node, fresh)
                continue
            unranked = [o for o in node.outputs if o is not None and not self._table.has_rank(o)]
            if node.key in REFINED:
                found += self._refine_outputs(node, fresh)
            if unranked:
                vague = self._infer_vague(node)
                self._take_declared(node, repeated)
                ranked = [o for o in vague if self._table.has_rank(o)]
                found += [self._info(o) for o in ranked]
                fresh.update(ranked)
            elif not fresh.isdisjoint(node.inputs) or _reads_outside(node):
                fresh.update(self._infer_vague(node))
        return found

    def _info(self, value: Value) -> ValueInfoProto:
        """What the table says of a tensor, for ONNX's inference."""
        known = self._table.get(value)
        return value_info(value.name, known.elem, known.shape)

    def _refine_outputs(self, node: Node, fresh: set[Value | None]) -> list[ValueInfoProto]:
        """Write what follows of a node's outputs from its bodies, its target or its input."""
        rows = list(refined_outputs(node, self._table))
        shape = targeted_shape(node, self._table) if node.key in TARGETED else None
        out = node.outputs[0] if node.outputs else None
        if shape is not None and out is not None:
            rows.append((out, TensorType(self._table.get(out).elem, shape)))
        for value, known in rows:
            self._table[value] = known
            fresh.add(value)
        return [self._info(value) for value, _ in rows]

    def _infer_vague(self, node: Node) -> list[Value]:
        """The node's outputs that are not wholly known; they are inferred from its inputs."""
        vague = [o for o in node.outputs if o is not None and not self._table.get(o).is_static]
        if vague:
            infer_node(self._model, node, self._table, self._constant)
        return vague

    def _constant(self, value: Value) -> np.ndarray | None:
        """A constant for which no shape is asked, which may be what is being inferred."""
        return self._model.constants.value(value) if _is_apart_from_shapes(value) else None

    def _take_declared(self, node: Node, repeated: bool) -> None:
        """Of the outputs of unknown rank: what was known before a rewrite made the node, or what the file declares."""
        for out in node.outputs:
            if out is None or self._table.has_rank(out):
                continue
            if node.is_new:
                self._table.take(out, self._before.find(out))
            else:
                self._table.take(out, self._declared.type_of(out, self._table, repeated))

    def _refine_bodies(self, node: Node, repeated: bool) -> None:
        """Refine the bodies of a node, those of a Loop or a Scan to a fixed point. Of a state that an iteration hands
        to the next one, that is known which holds before the first, and after each one if it holds before that."""
        table = self._table
        repeated = repeated or node.key != "If"
        carried = loop_carried(node, table)
        unranked = [p for p in parameters(node) if not table.has_rank(p)]
        for parameter in unranked:
            table.take(parameter, self._declared.type_of(parameter, table, repeated=True))
        declared = [p for p in unranked if table.has_rank(p)]
        scopes = [scope for body in node.bodies for scope in scopes_of(body)] if carried else []
        values = [value for scope in scopes for value in scope.values.values()]
        rows = table.copy_rows(values)
        while True:
            refined = [*declared, *(s.parameter for s in carried if table.refine(s.parameter, s.shape))]
            for body in node.bodies:
                self._refine_graph(body, refined, repeated)
            results = [without_names(table.get(state.result).shape) for state in carried]
            kept = [s._replace(shape=join([s.shape, after])) for s, after in zip(carried, results, strict=True)]
            if kept == carried:
                return
            carried = kept  # less is assumed, so this comes to an end
            table.restore(values, rows)

    # ---- local functions -------------------------------------------------------------------------------------------

    def _infer_functions(self) -> None:
        """The types inside local functions, as the first call sees them."""
        todo = dict(self._model.functions)
        callers = list(scopes_of(self._model.graph))
        for caller in callers:  # grows: a function's body may call another
            for key in [k for k in todo if caller.by_op.get(k)]:
                function = todo.pop(key)
                call = next(iter(caller.by_op[key]))
                arguments = [self._table.get(v) for v in call.inputs]
                if all(known.elem for known in arguments):
                    self._table.collect(function, self._inferred_call(function, call, arguments))
                    self._refine_graph(function, repeated=True)
                    callers += scopes_of(function)

    def _inferred_call(self, function: Graph, call: Node, arguments: list[TensorType]) -> GraphProto:
        """A function's body as a graph, with the types that follow from one call's arguments and attributes."""
        proto = function.proto
        assert isinstance(proto, FunctionProto)
        body = GraphProto(name=proto.name)
        function.copy_into(body)
        for name, known in zip(proto.input, arguments, strict=False):
            body.input.append(value_info(name, known.elem, known.shape))
        body.output.extend([ValueInfoProto(name=name) for name in proto.output])
        drop_sizes_of_bodies(function, body)
        given = {a.name: a for a in (*proto.attribute_proto, *call.proto.attribute)}
        for attribute in [a for n in body.node for a in n.attribute if a.ref_attr_name in given]:
            name = attribute.name
            attribute.CopyFrom(given[attribute.ref_attr_name])
            attribute.name = name
        behind = functions_behind(all_nodes(body), self._model.proto.functions)
        model = helper.make_model(body, opset_imports=list(proto.opset_import), functions=behind)
        return _inferred(model, _made_safe(model)).graph


def _tell(model: ModelProto, infos: Iterable[ValueInfoProto]) -> bool:
    """Write what is known of tensors, for ONNX's inference; whether that is more than was written."""
    graph = model.graph
    listed = {info.name: info for info in (*graph.value_info, *graph.output)}
    more = [info for info in infos if listed.get(info.name) != info]
    for info in more:
        (listed.get(info.name) or graph.value_info.add()).CopyFrom(info)
    return bool(more)


def infer_node(model: Model, node: Node, table: TypeTable, constant: Callable[[Value], np.ndarray | None]) -> None:
    """Infer a node's outputs from its inputs; what the table says of them stays where it says more.

    `constant` gives the elements of an input, or None.
    """
    spec = model.schema(node)
    if spec is None:
        return
    types, data = {}, {}
    for value in node.inputs:
        if value is None:
            continue
        elem, shape, _ = table.get(value)
        if elem:
            types[value.name] = type_proto(elem, shape)
        array = constant(value)
        if array is not None and array.size <= SMALL_TENSOR:
            data[value.name] = numpy_helper.from_array(array, value.name)
    try:
        result = onnx.shape_inference.infer_node_outputs(
            spec,
            node.proto,
            types,
            data,
            opset_imports=list(model.proto.opset_import),
            ir_version=model.proto.ir_version,
        )
    except Exception:  # not inferable: stays unknown
        result = {}
    for out in node.outputs:
        if out is not None and out.name in result:
            known = read_type(result[out.name])
            shape = meet(table.get(out).shape, known.shape)
            table[out] = known._replace(shape=shape) if known.elem else known
    for out, known in list(refined_outputs(node, table)):
        table[out] = known


def without_weights(model: Model) -> ModelProto:
    """A copy of the model for shape inference: its large weights are inputs, and only inputs have declared sizes.

    ONNX's inference would trust the sizes of other tensors before what follows.
    """
    source = model.proto
    copy = ModelProto(ir_version=max(source.ir_version, 4))
    copy.opset_import.extend(source.opset_import)
    copy.functions.extend(source.functions)
    graph = copy.graph
    graph.name = source.graph.name
    model.graph.copy_into(graph)
    graph.input.extend(source.graph.input)
    graph.output.extend(source.graph.output)
    drop_sizes_of_bodies(model.graph, graph)
    drop_sizes(graph.output)
    for dim in [d for info in graph.input for d in info.type.tensor_type.shape.dim if d.dim_value < 0]:
        dim.Clear()  # inference would compute with the -1
    add_small_weights(graph, source)
    return copy


def _inferred(model: ModelProto, follows: bool) -> ModelProto:
    """The model with the types that ONNX infers; itself where that raises: an operator's inference may even in the
    lenient mode."""
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=follows)
    except Exception:
        return model


def _made_safe(model: ModelProto) -> bool:
    """Take the nodes of ENDING from ONNX's inference; whether it may follow values, as where no vector is long."""
    nodes = list(all_nodes(model.graph))
    for node in nodes:
        if node.op_type in ENDING:
            node.domain = DOMAIN
    return not has_long_vector(model.graph, nodes)


def contradiction(model: Model) -> Callable[[Iterable[tuple[str, int, Shape]]], bool]:
    """What says whether the nodes of a model contradict inputs (name, element type, shape): it does not run with these.

    It says so of none where a branch that is never run may do so, or where ONNX's inference fails at the sizes that the
    file declares.
    """
    bare = without_weights(model)

    def fails(inputs: Iterable[tuple[str, int, Shape]]) -> bool:
        given = {name: value_info(name, elem, shape) for name, elem, shape in inputs}
        for info in bare.graph.input:
            info.CopyFrom(given.get(info.name, info))
        try:
            onnx.shape_inference.infer_shapes(bare, strict_mode=True, data_prop=_made_safe(bare))
        except Exception:
            return True
        return False

    if any(scope.bodied for scope in model.scopes) or fails(()):
        return lambda inputs: False
    return fails


def _reads_outside(node: Node) -> bool:
    """Whether a node in a body reads a tensor of a graph around it, of which ONNX's inference does not know there."""
    graph = node.graph
    return graph.parent is not None and any(i is not None and i.graph is not graph for i in node.inputs)


def _is_apart_from_shapes(value: Value) -> bool:
    """Whether a tensor is computed from written values by few nodes, none of which asks for a shape."""
    followed = list(islice(sources([value], lambda node: node.key not in VALUELESS), MOST_FOLLOWED + 1))
    ends = (v.tensor is not None if v.producer is None else v.producer.key not in VALUELESS for v in followed)
    return len(followed) <= MOST_FOLLOWED and all(ends)
