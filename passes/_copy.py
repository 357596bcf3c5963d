"""Copy the nodes of a function or of a scope into another scope, with fresh names, bodies included."""

from collections.abc import Iterable, Mapping, Sequence

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper, inliner

from surgeon import Builder, Node, Value
from surgeon.ir.functions import Name, as_inliner_reads, by_name, say_defaults
from surgeon.ir.graph import Graph
from surgeon.ir.model import Model
from surgeon.ir.protos import body_protos


def inlined(node: Node, model: Model, functions: Sequence[FunctionProto], name: Name | None = None) -> list[NodeProto]:
    """The nodes that onnx's inliner writes for a node that calls one of the functions, between `in0`... and `out0`...

    `name` is what the function is called, where the node does not name it.
    """
    call = type(node.proto)()
    call.CopyFrom(node.proto)
    if name is not None:
        call.domain, call.op_type, call.overload = name
    call.input[:] = [f"in{k}" if v is not None else "" for k, v in enumerate(node.inputs)]
    call.output[:] = [f"out{k}" if o is not None else "" for k, o in enumerate(node.outputs)]
    infos = [
        helper.make_tensor_value_info(n, model.dtype(v), None)
        for n, v in zip(call.input, node.inputs, strict=True)
        if v is not None
    ]
    outputs = [helper.make_tensor_value_info(n, 1, None) for n in call.output if n]
    named = by_name(functions)
    say_defaults([call], named)
    graph = helper.make_graph([call], "call", infos, outputs)
    alone = ModelProto(
        ir_version=model.proto.ir_version,
        graph=graph,
        opset_import=model.proto.opset_import,
        functions=[as_inliner_reads(f, model.opset, named, call) for f in functions],
    )
    return list(inliner.inline_local_functions(alone).graph.node)


def copied(b: Builder, nodes: Iterable[NodeProto], tensors: dict[str, Value]) -> None:
    """Make `nodes` anew, in order, with the builder `b`.

    `tensors` says what tensor each name of the nodes stands for, and gets the names of what they make. Any other name
    means what it means where the builder's root is.
    """
    prefix = f"{next(o.name for o in b.root.outputs if o is not None)}~inlined/"
    for proto in nodes:
        inputs = [None if not n else tensors.get(n) or b.root.graph.find(n) for n in proto.input]
        attrs = {a.name: _attribute(a, tensors, prefix) for a in proto.attribute}
        made = b.node(proto.op_type, inputs, len(proto.output), proto.domain, attrs)
        tensors.update(zip(proto.output, made if isinstance(made, tuple) else (made,), strict=True))
        tensors.pop("", None)


def present(node: Node) -> NodeProto:
    """The node with its bodies as they are now: what other passes made of them is what is copied."""
    if not node.bodies:
        return node.proto
    proto = NodeProto()
    proto.CopyFrom(node.proto)
    for body, inner in zip(node.bodies, body_protos(proto), strict=True):
        body.copy_into(inner)
    return proto


def constants_of(b: Builder, body: Graph) -> dict[str, Value]:
    """The initializers of a body that are read, as constants of the builder's scope."""
    read = (v for v in body.values.values() if v.tensor is not None and v.is_read)
    return {v.name: b.constant(b.value(v)) for v in read}


def reads_of_function(body: Graph) -> bool:
    """Whether a node of a body reads an attribute of the function that it is in."""
    return any(a.ref_attr_name for n in body.live_deep() for a in n.proto.attribute)


def drop_unread(b: Builder, outputs: Iterable[Value | None]) -> None:
    """Take away the nodes that only served what is not asked for, or is known."""
    read = {o for o in outputs if o is not None}
    for node in reversed(b.made):
        made = [o for o in node.outputs if o is not None]
        if node.alive and node.key != "Constant" and not any(o.users or o in read for o in made):
            b.discard(made[0], *read)


def _attribute(attribute: AttributeProto, tensors: Mapping[str, Value], prefix: str) -> AttributeProto:
    """The attribute itself, or a copy whose body reads the new names and defines names that nothing else has."""
    if attribute.type != AttributeProto.GRAPH:
        return attribute
    fresh = AttributeProto()
    fresh.CopyFrom(attribute)
    _rename(fresh.g, {n: v.name for n, v in tensors.items()}, prefix)
    return fresh


def _rename(graph: GraphProto, names: dict[str, str], prefix: str) -> None:
    own = (
        [i.name for i in graph.input] + [t.name for t in graph.initializer] + [o for n in graph.node for o in n.output]
    )
    local = {**names, **{n: prefix + n for n in own if n}}
    for named in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        named.name = local.get(named.name, named.name)
    for node in graph.node:
        node.input[:] = [local.get(n, n) for n in node.input]
        node.output[:] = [local.get(n, n) for n in node.output]
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _rename(attribute.g, local, prefix)
