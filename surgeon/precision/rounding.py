"""A model in fp16 as a strongly typed runtime computes it: every fp16 tensor rounded, on kernels that work in fp32.

ONNX Runtime's CPU kernels do not show what fp16 loses: it has few of them, runs the rest in fp32 between two casts, and
takes out the pair of casts between two such nodes. x = 1e3, Mul(x, x), ReduceSum, Sqrt in fp16 gives the right number
there (measured with 1.31, optimisations off) and inf on a GPU. `rounded` writes the same model in fp32 with the
rounding spelled out after each node, which nothing takes away: to 11 significant bits, to inf from 65520, in steps of
2^-24 below 2^-14. Sums inside a node stay fp32, as they do on tensor cores.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.ir.model import Model
from surgeon.precision.half import HALF, SINGLE
from surgeon.precision.operators import KEEPS_NUMBERS

ROUNDING_DOMAIN = "surgeon.precision"
OLDEST = 9  # Where and Sign came with opset 9
IR_WITH_FUNCTIONS = 8

GIVEN = "~given"  # what the fp16 inputs of a rounded model are called behind their own names

HalfTensors = dict["str | None", set[str]]  # the names of a node's fp16 outputs, by its first one; None: of the inputs


def rounded(model: ModelProto) -> ModelProto | None:
    """The model with fp32 in place of fp16 and every rounding a node; None where its opset cannot spell that.

    Inputs and outputs that are fp16 become fp32 too; the inputs are rounded.
    """
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    if opset < OLDEST:
        return None
    halves = _half_tensors(Model(_copy(model)))
    wide = _copy(model)
    _widen(wide.graph, halves)
    inputs = [info for info in wide.graph.input if info.name in halves.get(None, ())]
    rounding = [_round(f"{info.name}{GIVEN}", info.name) for info in inputs]
    for info in inputs:
        info.name = f"{info.name}{GIVEN}"
    nodes = [*rounding, *wide.graph.node]
    del wide.graph.node[:]
    wide.graph.node.extend(nodes)
    wide.functions.append(_function(opset))
    wide.opset_import.append(helper.make_opsetid(ROUNDING_DOMAIN, 1))
    wide.ir_version = max(wide.ir_version, IR_WITH_FUNCTIONS)
    return wide


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def _half_tensors(model: Model) -> HalfTensors:
    """The names of the fp16 tensors of a model."""
    found: HalfTensors = {None: {i.name for i in model.proto.graph.input if i.type.tensor_type.elem_type == HALF}}
    for scope in model.scopes:
        for node in scope.live():
            names = {o.name for o in node.outputs if o is not None and model.dtype(o) == HALF}
            if names:
                found[_key(node.proto)] = names
    return found


def _key(node: NodeProto) -> str:
    return next((o for o in node.output if o), "")


def _widen(graph: GraphProto, halves: HalfTensors) -> None:
    """Write a graph in fp32, with every rounding a node."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == HALF:
            info.type.tensor_type.elem_type = SINGLE
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    nodes = [n for node in graph.node for n in _widened(node, halves)]
    del graph.node[:]
    graph.node.extend(nodes)


def _widened(node: NodeProto, halves: HalfTensors) -> Iterator[NodeProto]:
    """The node in fp32, and behind it a rounding of each output that is fp16."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            _widen_tensor(attribute.t)
        elif attribute.type == AttributeProto.GRAPH:
            _widen(attribute.g, halves)
        elif attribute.name in ("to", "dtype") and attribute.i == HALF:
            attribute.i = SINGLE
    names = halves.get(_key(node), set())
    if not names or node.op_type in KEEPS_NUMBERS or node.op_type == "Constant":
        yield node
        return
    rounding = []
    for position, name in enumerate(node.output):
        if name in names:
            node.output[position] = f"{name}~exact"
            rounding.append(_round(f"{name}~exact", name))
    yield node
    yield from rounding


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == HALF:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))


def _round(source: str, name: str) -> NodeProto:
    return helper.make_node("RoundToHalf", [source], [name], domain=ROUNDING_DOMAIN)


def _function(opset: int) -> onnx.FunctionProto:
    """The function that rounds to fp16: to nearest by Dekker's splitting; a tie may go either way."""
    parts: list[NodeProto] = []

    def make(op: str, *inputs: str) -> str:
        parts.append(helper.make_node(op, list(inputs), [f"t{len(parts)}"]))
        return f"t{len(parts) - 1}"

    def number(value: float) -> str:
        parts.append(
            helper.make_node(
                "Constant", [], [f"t{len(parts)}"], value=numpy_helper.from_array(np.asarray(value, np.float32))
            )
        )
        return f"t{len(parts) - 1}"

    size = make("Abs", "x")
    over = make("Greater", size, number(np.nextafter(np.float32(65520), np.float32(0))))
    scaled = make("Mul", "x", number(2.0**13 + 1))
    normal = make("Sub", scaled, make("Sub", scaled, "x"))
    shift = number(0.75)  # numbers in [0.5, 1) are 2^-24 apart, as fp16's smallest are
    small = make("Sub", make("Add", "x", shift), shift)
    finite = make("Where", make("Less", size, number(2.0**-14)), small, normal)
    infinite = make("Mul", make("Sign", "x"), number(np.inf))
    parts.append(helper.make_node("Where", [over, infinite, finite], ["y"]))
    return helper.make_function(ROUNDING_DOMAIN, "RoundToHalf", ["x"], ["y"], parts, [helper.make_opsetid("", opset)])


__all__ = ["GIVEN", "rounded"]
