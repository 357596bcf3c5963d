"""Copy the nodes of a function or of a scope into another scope, with fresh names, bodies included.

Of a loop they are copied once for each iteration, within a number of iterations and of nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper, inliner

from surgeon import Builder, Node, Value, require
from surgeon.ir.functions import Name, as_inliner_reads, by_name, say_defaults
from surgeon.ir.graph import Graph
from surgeon.ir.model import Model
from surgeon.ir.protos import all_nodes, body_protos


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
    means what it means where the builder's root is. Declines where a node reads an attribute of the function it is in.
    """
    prefix = f"{next(o.name for o in b.root.outputs if o is not None)}~inlined/"
    for proto in nodes:
        require(not _reads_of_function(proto), "its body reads an attribute of its function")
        inputs = [None if not n else tensors.get(n) or b.root.graph.find(n) for n in proto.input]
        attrs = {a.name: _attribute(a, tensors, prefix) for a in proto.attribute}
        made = b.node(proto.op_type, inputs, len(proto.output), proto.domain, attrs)
        tensors.update(zip(proto.output, made if isinstance(made, tuple) else (made,), strict=True))
        tensors.pop("", None)


def made_of(
    b: Builder, proto: NodeProto, inputs: Sequence[Value | None], outputs: int, inner: Mapping[str, Value] | None = None
) -> list[Value]:
    """The outputs of a node like `proto`, of these inputs. `inner`: what else its bodies read, by name.

    Names that end in ~ are those of no file.
    """
    given = [f"in{k}~" if v is not None else "" for k, v in enumerate(inputs)]
    proto.input[:], proto.output[:] = given, [f"out{k}~" for k in range(outputs)]
    tensors = {**(inner or {}), **{n: v for n, v in zip(given, inputs, strict=True) if v is not None}}
    copied(b, [proto], tensors)
    return [tensors[name] for name in proto.output]


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


def _reads_of_function(proto: NodeProto) -> bool:
    inner = (node for body in body_protos(proto) for node in all_nodes(body))
    return any(a.ref_attr_name for node in (proto, *inner) for a in node.attribute)


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


BRANCHES = ("then_branch", "else_branch")


def written_out(b: Builder, body: Graph, values: Mapping[Value, Value] | None = None) -> list[Value]:
    """What a branch returns, computed where the builder's root is; `values`: what it reads in place of others."""
    tensors = {old.name: new for old, new in (values or {}).items()} | constants_of(b, body)
    copied(b, [present(n) for n in body.live()], tensors)
    return [tensors.get(v.name, v) for v in body.outputs]


def again(b: Builder, node: Node, values: Mapping[Value, Value]) -> Sequence[Value]:
    """The outputs of a node, computed once more of other inputs."""
    inputs = [None if v is None else values.get(v, v) for v in node.inputs]
    made = b.node(node.op, inputs, len(node.outputs), node.proto.domain, dict(node.attrs))
    return made if isinstance(made, tuple) else (made,)


ITERATIONS = 64
NODES = 4096


class Body(NamedTuple):
    """A body that is written out: the nodes of an iteration, and the constants that all iterations share."""

    graph: Graph
    nodes: list[Node]
    constants: dict[str, Value]

    @classmethod
    def of(cls, b: Builder) -> "Body":
        """The body of the builder's root."""
        graph = b.root.bodies[0]
        constants, nodes = constants_of(b, graph), []
        for node in graph.live():
            known = b.value(node.outputs[0]) if node.key == "Constant" else None
            if known is None or known.dtype.kind not in "biuf":
                nodes.append(node)
            else:
                constants[node.proto.output[0]] = b.constant(known)
        return cls(graph, nodes, constants)

    def iterate(self, b: Builder, given: Iterable[Value]) -> list[Value]:
        """Write an iteration out; the tensors that it returns."""
        require(len(b.made) + len(self.nodes) <= NODES, f"written out it has more than {NODES} nodes")
        tensors = {**self.constants, **dict(zip((i.name for i in self.graph.proto.input), given, strict=True))}
        copied(b, [present(n) for n in self.nodes], tensors)
        return [tensors.get(v.name, v) for v in self.graph.outputs]


def is_asked_for(b: Builder) -> bool:
    """Whether the target refuses the node as it is, or the user has it written out."""
    return "unroll" in b.options or b.why_unsupported(b.root) is not None


def most(b: Builder) -> int:
    """How many iterations are written out."""
    return int(b.options.get("unroll", ITERATIONS))


def settled(b: Builder, outputs: Sequence[Any]) -> tuple[Value | None, ...]:
    """The outputs that are read, without the nodes that served others alone."""
    read = [new if old is not None and old.is_read else None for old, new in zip(b.root.outputs, outputs, strict=False)]
    drop_unread(b, read)
    return tuple(read)
