"""Overloads of local functions through onnx-graphsurgeon, which has no place for them.

Two nodes of one operator may have different functions: then each function has an overload, and each node names one.
onnx-graphsurgeon forgets both. Its objects have them here as a Python attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto

ATTRIBUTE = "overload"


def remember(graph: Any, model: ModelProto) -> None:
    """Write onto the objects of a `gs.Graph` the overloads of the model that it was imported from."""
    for thing, proto in _pairs(graph, model):
        if proto.overload:
            setattr(thing, ATTRIBUTE, proto.overload)


def give_back(graph: Any, model: ModelProto) -> None:
    """Give a model that was exported from a `gs.Graph` the overloads of the graph's objects."""
    for thing, proto in _pairs(graph, model):
        overload = vars(thing).get(ATTRIBUTE)  # a graph's own getattr takes any name for an operator
        if overload:
            proto.overload = overload


def _pairs(graph: Any, model: ModelProto) -> Iterator[tuple[Any, NodeProto | FunctionProto]]:
    """Each node and function of a `gs.Graph`, with its proto. Both sides have the same order."""
    yield from _nodes(graph.nodes, model.graph.node)
    for function, proto in zip(graph.functions, model.functions, strict=True):
        yield function, proto
        made = len(proto.node) - len(function.nodes)  # an export puts the constants first, as nodes
        yield from _nodes(function.nodes, proto.node[made:])


def _nodes(nodes: Sequence[Any], protos: Sequence[NodeProto]) -> Iterator[tuple[Any, NodeProto]]:
    """Each node with its proto, those of bodies included."""
    for node, proto in zip(nodes, protos, strict=True):
        yield node, proto
        for attribute in proto.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _nodes(node.attrs[attribute.name].nodes, attribute.g.node)
