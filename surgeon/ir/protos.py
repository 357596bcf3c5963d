"""Walks over ONNX's protobufs: what nodes read, hold and call."""

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain, count
from typing import Any, TypeVar

import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from surgeon.errors import ModelError
from surgeon.ir.schemas import BODIED, key_of
from surgeon.report import grouped

IR_WITH_DEFAULTS = 4  # since then an initializer that is an input too is what it has where the caller gives nothing
SMALL_TENSOR = 1024  # elements: larger initializers never decide a shape, so shape inference does without them
Proto = TypeVar("Proto", bound=Message)


def copied(proto: Proto) -> Proto:
    """A copy of a protobuf."""
    made: Proto = type(proto)()
    made.CopyFrom(proto)
    return made


def label_of(node: NodeProto) -> str:
    """The node's name, or its operator and first output where the file gives it none."""
    return node.name or f"{node.op_type} -> {node.output[0] if node.output else '?'}"


def bodied(nodes: Iterable[NodeProto]) -> list[NodeProto]:
    """Those of some nodes that may have bodies."""
    return [node for node in nodes if node.op_type in BODIED or node.domain]


def body_protos(proto: NodeProto) -> list[GraphProto]:
    """The bodies of a node, in the order of its attributes."""
    found: list[GraphProto] = []
    for attribute in proto.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found.append(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            found.extend(attribute.graphs)
    return found


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and all bodies inside."""
    yield graph
    for node in bodied(graph.node):
        for body in body_protos(node):
            yield from all_graphs(body)


def all_nodes(holder: GraphProto | onnx.FunctionProto) -> Iterator[NodeProto]:
    """The nodes of a graph or function and of all bodies inside."""
    nodes = holder.node[:]
    if not bodied(nodes):  # most graphs: nothing is asked of each node
        yield from nodes
        return
    for node in nodes:
        yield node
        for body in body_protos(node):
            yield from all_nodes(body)


def read_instead(graph: GraphProto, old: str, new: str) -> None:
    """Have every node of a graph and of its bodies read another tensor."""
    for node in graph.node:
        reads_instead(node, old, new)


def reads_instead(node: NodeProto, old: str, new: str) -> None:
    """Have a node and its bodies read another tensor."""
    node.input[:] = [new if name == old else name for name in node.input]
    for body in body_protos(node):
        read_instead(body, old, new)
        for output in body.output:
            if output.name == old:
                output.name = new


def refill(field: Any, entries: Iterable[Any]) -> None:
    """Have a repeated field hold these entries, its own among them, in this order."""
    kept = list(entries)
    del field[:]
    field.extend(kept)


def returning(model: ModelProto, names: Iterable[str]) -> ModelProto:
    """A copy of a model that returns these tensors and no others."""
    made = copied(model)
    refill(made.graph.output, (ValueInfoProto(name=name) for name in names))
    return made


def given_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs that a caller gives: those that are not initializers."""
    weights = {t.name for t in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in weights]


def unused(stem: str, taken: Container[str]) -> str:
    """The first of `stem`, `stem_2`, `stem_3`, .. that is free."""
    names = chain([stem], (f"{stem}_{k}" for k in count(2)))
    return next(name for name in names if name not in taken)


def holders(model: ModelProto) -> Iterator[tuple[GraphProto | onnx.FunctionProto, int]]:
    """The graph and the functions of a model, each with its opset of ONNX's own operators."""
    for holder, declares in ((model.graph, model), *((f, f) for f in model.functions)):
        yield holder, next((o.version for o in declares.opset_import if not o.domain), 1)


def types_held(model: ModelProto) -> Iterator[int]:
    """The element types of a model's inputs and weights, and those that it casts to."""
    yield from (i.type.tensor_type.elem_type for i in model.graph.input)
    yield from (t.data_type for t in model.graph.initializer)
    yield from (a.i for n in nodes_of(model) if n.op_type == "Cast" for a in n.attribute if a.name == "to")


def constants_in(graph: GraphProto) -> dict[str, TensorProto]:
    """The initializers of a graph, and the tensors of its Constant nodes, by name."""
    constants = ((n.output[0], a.t) for n in graph.node if n.op_type == "Constant" for a in n.attribute)
    return {t.name: t for t in graph.initializer} | {name: t for name, t in constants if t.data_type}


def nodes_of(model: ModelProto) -> Iterator[NodeProto]:
    """The nodes of a model, of its functions and of all bodies."""
    for holder, _ in holders(model):
        yield from all_nodes(holder)


def functions_behind(nodes: Iterable[NodeProto], functions: Iterable[onnx.FunctionProto]) -> list[onnx.FunctionProto]:
    """Those of the functions that the nodes call, and that these call."""
    found = grouped((key_of(function.domain, function.name), function) for function in functions)
    called = dict.fromkeys(key for n in nodes if (key := key_of(n.domain, n.op_type)) in found)
    todo = list(called)
    for key in todo:  # grows
        inner = (key_of(n.domain, n.op_type) for function in found[key] for n in all_nodes(function))
        fresh = dict.fromkeys(k for k in inner if k in found and k not in called)
        called |= fresh
        todo += fresh
    return [function for key in called for function in found[key]]


def reads(node: NodeProto) -> list[str]:
    """The tensors that a node and its bodies read, those that the bodies make left out."""
    return [*filter(None, node.input[:]), *captured(node)]


def captured(node: NodeProto) -> list[str]:
    """The tensors around a node that its bodies read or return."""
    found: list[str] = []
    for body in body_protos(node):
        made = {i.name for i in body.input} | {t.name for t in body.initializer}
        for inner in body.node:
            found += [name for name in reads(inner) if name not in made]
            made.update(inner.output)
        found += [o.name for o in body.output if o.name not in made]
    return found


def in_topological_order(nodes: Sequence[NodeProto], title: str) -> list[NodeProto]:
    """The nodes in topological order, those of the file's order first. Raises ModelError on a cycle."""
    sorter, readers = TopologicalSorter[int](), defaultdict[str, list[int]](list)
    for position, node in enumerate(nodes):
        sorter.add(position)
        for name in set(reads(node)):
            readers[name].append(position)
    for position, name in ((p, name) for p, node in enumerate(nodes) for name in node.output):
        for reader in readers[name]:
            sorter.add(reader, position)
    try:
        return [nodes[position] for position in sorter.static_order()]
    except CycleError as error:
        stuck = nodes[min(error.args[1])]
        raise ModelError(
            f"the nodes of {title} form a cycle through {stuck.name or stuck.op_type}. An ONNX graph must be acyclic."
        ) from None


def named_by_training(model: ModelProto) -> set[str]:
    """The tensors of the main graph that `training_info` may name.

    They are what it updates, and what its algorithm reads. A Gradient reads by attributes.
    """
    found: set[str] = set()
    for info in model.training_info:
        found.update(entry.key for entry in (*info.initialization_binding, *info.update_binding))
        found.update(output.name for output in info.algorithm.output)
        for node in info.algorithm.node:
            found.update(reads(node))
            found.update(text.decode("utf-8", "replace") for a in node.attribute for text in (a.s, *a.strings))
    return found


def add_small_weights(graph: GraphProto, source: ModelProto) -> None:
    """Add the smaller initializers of `source` to a graph, and inputs for the larger ones and those on disk.

    Those that are inputs already stay no more than that: ONNX's inference would trust a default that a caller may
    replace.
    """
    listed = {i.name for i in source.graph.input}
    for tensor in source.graph.initializer:
        if tensor.name in listed and source.ir_version >= IR_WITH_DEFAULTS:
            continue
        if math.prod(tensor.dims) <= SMALL_TENSOR and tensor.data_location != TensorProto.EXTERNAL:
            graph.initializer.append(tensor)
        elif tensor.name not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
