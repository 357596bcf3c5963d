"""Calls of local functions: what TensorRT-RTX makes of them.

It ties a function to a call by the name alone, and the function's inputs to tensors by theirs, one after the other:
a tensor that is called like an input bound before is taken for that. Measured with TensorRT-RTX 1.7.1.
"""

from __future__ import annotations

from onnx import defs

from surgeon.ir.attributes import AttributeReference
from surgeon.ir.graph import Node, scopes_of
from surgeon.ir.schemas import schema


def why_misread(node: Node, *, imported: bool) -> str | None:
    """Why TensorRT-RTX refuses the call of a local function, or computes something else; None where it does not.

    imported  whether it has an importer for an operator of the function's name
    """
    model = node.graph.model
    function = model.functions[node.key]
    if imported:
        return f"this parser ignores domains and would read it as ONNX's own {node.op}"
    if schema(node.op, "", defs.onnx_opset_version()) is not None:
        return f"this parser ignores domains, and of ONNX's own {node.op} it has no importer"
    if sum(called.proto.name == node.op for called in model.functions.values()) > 1:
        return "this parser ties functions by their name alone, and several have this one"
    formal, given = list(function.proto.input), list(node.proto.input)
    if len(formal) != len(given) or not all(given):
        return "an input of the function is left out"
    if len(function.proto.output) != len(node.proto.output) or not all(node.proto.output):
        return "an output of the function is left out"
    if any(name not in node.attrs for name in function.proto.attribute):
        return "an attribute of the function is left out"
    if _hands_on(node):
        return "an attribute that a function hands on is not read"
    if any(_hands_on(inner) for inner in function.live_deep() if inner.graph is not function):
        return "a body inside the function reads an attribute of the function"
    if any(scope.proto.initializer for scope in scopes_of(function) if scope is not function):
        return "an initializer of a body inside the function is read after it is freed"
    if set(formal) & set(function.proto.output):
        return "an output of the function is its input"
    for place, name in enumerate(given):
        bound = dict(zip(formal[:place], given[:place], strict=True))
        if bound.get(name, name) != name:
            return f"the function's input '{name}' is called like a tensor that is handed on behind it"
    return None


def _hands_on(node: Node) -> bool:
    """Whether an attribute of the node is one of the function that the node stands in."""
    return any(isinstance(given, AttributeReference) for given in node.attrs.values())
