"""Walks over ONNX's protobufs: what nodes read, hold and call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from surgeon.errors import ModelError
from surgeon.ir.schemas import key_of

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


def write_nodes(graph: GraphProto, nodes: Iterable[NodeProto]) -> None:
    """Have a graph hold these nodes, its own among them, in this order."""
    kept = list(nodes)
    del graph.node[:]
    graph.node.extend(kept)


def holders(model: ModelProto) -> Iterator[tuple[GraphProto | onnx.FunctionProto, int]]:
    """The graph and the functions of a model, each with its opset of ONNX's own operators."""
    for holder, declares in ((model.graph, model), *((f, f) for f in model.functions)):
        yield holder, next((o.version for o in declares.opset_import if not o.domain), 1)


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


def names_read(node: NodeProto) -> Iterator[str]:
    """What a node reads, captures of its bodies included."""
    yield from (i for i in node.input if i)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from names_read(inner)


def tensors_read(node: NodeProto) -> Iterator[str]:
    """The tensors that a node and its bodies read, and what those hand out: by name, as a body captures them."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from tensors_read(inner)
            yield from (o.name for o in attribute.g.output)


def in_topological_order(nodes: Sequence[NodeProto], title: str) -> list[NodeProto]:
    """The nodes in topological order, those of the file's order first. Raises ModelError on a cycle."""
    made = {o for n in nodes for o in n.output}
    readers: dict[str, list[int]] = {}
    missing = []
    for position, node in enumerate(nodes):
        needs = {i for i in names_read(node) if i in made}
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
            f"the nodes of {title} form a cycle through {stuck.name or stuck.op_type}. An ONNX graph must be acyclic."
        )
    return [nodes[position] for position in ready]


def named_by_training(model: ModelProto) -> set[str]:
    """The tensors of the main graph that `training_info` may name.

    They are what it updates, and what its algorithm reads. A Gradient reads by attributes.
    """
    found: set[str] = set()
    for info in model.training_info:
        found.update(entry.key for entry in (*info.initialization_binding, *info.update_binding))
        found.update(output.name for output in info.algorithm.output)
        for node in info.algorithm.node:
            found.update(names_read(node))
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
