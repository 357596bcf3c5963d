"""The meaning of surgeon's own nodes: an ONNX function each, so that ONNX Runtime runs any model that surgeon writes.

A pass that makes canonical or plugin nodes says what they compute:

    @meaning("L2Norm", "SurgeonL2Norm")
    def l2_norm(f, x, weight=None, *, axis, epsilon, mode): ...
        return f.Div(x, ...)

`f` spells nodes as a rewrite's builder does; `f.dtype` is the type of the first input. One function is generated for
each distinct use in a model (attributes, type, inputs given), at the model's own opset: ONNX Runtime inlines it there.
The first has the plain name; further ones are overloads, which need IR version 10.

A meaning by the name of one of ONNX's own operators is that of ONNX's definition, which ONNX Runtime's kernel strays
from: a window's proof computes by it. No such node of the domain `surgeon` is written.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, helper, numpy_helper

from surgeon.errors import PassError
from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, nodes_of
from surgeon.ir.schemas import DOMAIN
from surgeon.rules.spelling import arrange

IR_WITH_FUNCTIONS = 8
IR_WITH_OVERLOADS = 10
CONSTANTS_OF_ANY_TYPE = 9  # the opset from which a Constant may hold integers; before that it has floats alone

_meanings: dict[str, Callable[..., Any]] = {}


def meaning(*op_types: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a function that spells what the node types of the domain `surgeon` compute."""

    def mark(body: Callable[..., Any]) -> Callable[..., Any]:
        for op_type in op_types:
            _meanings[op_type] = body
        return body

    return mark


def has_meaning(op_type: str) -> bool:
    """Whether a pass says what an operator of that name computes."""
    return op_type in _meanings


class Speller:
    """Builds the body of a function: `f.Mul(x, 2.0)` adds a node and returns the name of its output."""

    def __init__(self, opset: int, dtype: int) -> None:
        self.opset = opset
        self.dtype = dtype
        self.nodes: list[NodeProto] = []
        self._type = helper.tensor_dtype_to_np_dtype(dtype)

    def __getattr__(self, op: str) -> Callable[..., str]:
        if not op[:1].isupper():
            raise AttributeError(op)

        def make(*inputs: Any, **attrs: Any) -> str:
            given, written = arrange(op, inputs, attrs, "", self.opset)
            names = [i if isinstance(i, str) else "" if i is None else self.constant(i) for i in given]
            name = f"t{len(self.nodes)}"
            self.nodes.append(helper.make_node(op, names, [name], **written))
            return name

        return make

    def constant(self, given: Any) -> str:
        """A number takes the type in which the function computes; an array keeps its own."""
        array = given if isinstance(given, np.ndarray) else np.asarray(given, self._type)
        if self.opset < CONSTANTS_OF_ANY_TYPE and array.dtype.kind == "i":
            return self.Cast(array.astype(np.float64), to=helper.np_dtype_to_tensor_dtype(array.dtype))
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        return name

    def compute_in(self, dtype: int) -> None:
        """Bare numbers from here on have `dtype`."""
        self._type = helper.tensor_dtype_to_np_dtype(dtype)


def attach(model: Model) -> list[str]:
    """Give the model the functions of its surgeon nodes, and the opset import and IR version that they need.
    The operators with several functions (overloads)."""
    uses: dict[str, list[Node]] = {}
    for op in sorted(_meanings):  # and the nodes as they are in the file: the same functions whatever made the nodes
        key = f"{DOMAIN}::{op}"
        nodes = [node for scope in model.scopes for node in scope.of([key])]
        if nodes:
            uses[key] = nodes
    if not uses:
        return []
    for nodes in uses.values():  # while the file's own functions are there still: inference goes through them
        for node in nodes:
            model.dtype(_first(node))
    model.keep_functions(lambda key: not key.startswith(f"{DOMAIN}::"))
    overloaded = []
    for nodes in uses.values():
        functions = functions_of(nodes, model)
        if len(functions) > 1:
            overloaded.append(nodes[0].op)
        model.proto.functions.extend(functions)
    model.import_domain(DOMAIN)
    model.proto.ir_version = max(model.proto.ir_version, IR_WITH_OVERLOADS if overloaded else IR_WITH_FUNCTIONS)
    return overloaded


def with_meanings(model: ModelProto) -> ModelProto:
    """A copy in which every node of surgeon's own has its meaning; targets 9.0 to 10.6 get their files without."""
    indexed = Model(copied(model))
    attach(indexed)
    return indexed.sync()


def functions_of(nodes: Iterable[Node], model: Model) -> list[FunctionProto]:
    """The functions of nodes of one operator, one a distinct use; sets each node's `overload`."""
    functions: dict[Any, FunctionProto] = {}
    for node in nodes:
        dtype = model.dtype(_first(node))
        opset = model.opset_in(node.graph)
        use = (repr(sorted(node.attrs.items())), dtype, tuple(v is not None for v in node.inputs), opset)
        if use not in functions:
            functions[use] = function_of(node, dtype, opset)
            functions[use].overload = "" if len(functions) == 1 else str(len(functions))
        if node.proto.overload != functions[use].overload:
            node.proto.overload = functions[use].overload
            node.graph.edited = True
    return list(functions.values())


def _first(node: Node) -> Value:
    return next(v for v in node.inputs if v is not None)


def function_of(node: Node, dtype: int, opset: int) -> FunctionProto:
    """The node's meaning as an ONNX function at `opset`, for inputs of type `dtype`."""
    body = _meanings[node.op]
    if not dtype:
        raise PassError(f"the type of the input of {node.label} is not known")
    speller = Speller(opset, dtype)
    names = [f"x{k}" for k in range(len(node.inputs))]
    attrs = {k: v for k, v in node.attrs.items() if not k.startswith("plugin_")}
    result = body(speller, *[n if v is not None else None for n, v in zip(names, node.inputs, strict=True)], **attrs)
    speller.nodes.append(helper.make_node("Identity", [result], ["y"]))
    return helper.make_function(
        DOMAIN, node.op, names, ["y"], speller.nodes, [helper.make_opsetid("", opset)], list(node.attrs)
    )


def with_functions(model: ModelProto) -> ModelProto:
    """The model itself; where it is for a TensorRT that reads no functions, a copy with those of surgeon's nodes."""
    return with_meanings(model) if _lacks_meanings(model) else model


def _lacks_meanings(model: ModelProto) -> bool:
    """Whether it has nodes of surgeon's own, in bodies and functions too, without the functions that say what those
    compute."""
    if any(f.domain == DOMAIN for f in model.functions):
        return False
    return any(n.domain == DOMAIN for n in nodes_of(model))
