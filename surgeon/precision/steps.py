"""A quantized model without the steps of its quantizers, by which its half-precision form is compared.

The numbers between QuantizeLinear and DequantizeLinear have steps of a 127th of their range. A number near the border
of two steps goes to the one or the other by its last digit, and the next layers make that larger: of nudenet with 134
pairs every rounding anywhere moves an output by up to 17 %, as the quantization itself did (19 %). What half precision
changes is seen where the pair limits the range of its numbers alone.
"""

from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.protos import all_graphs, all_nodes, copied, refill
from surgeon.ir.ranges import range_of_type

Limits = tuple[float, float, float]


def without_steps(model: ModelProto, base: Path | None = None) -> ModelProto:
    """The model of fp32, with its limits instead of each pair that quantizes a computed tensor with one scale.

    base  the folder of the external weights
    """
    if not any(node.op_type == "QuantizeLinear" for node in all_nodes(model.graph)):
        return model
    index = Model(model, base)
    found = {}
    for node in (n for scope in index.scopes for n in scope.live() if n.key == "DequantizeLinear"):
        limits = _limits(index, node)
        if limits is not None and node.outputs[0] is not None:
            found[node.outputs[0].name] = limits
    if not found:
        return model
    copy = copied(model)
    for graph in all_graphs(copy.graph):
        _smooth(graph, found)
    return copy


def _limits(model: Model, node: Node) -> tuple[str, Limits] | None:
    """What a pair quantizes, the lowest and the largest number that it passes on, and the quotient of its scales.

    None where the tensor is constant, the pair has several scales, or the two have other zero points.
    """
    quantized = node.inputs[0]
    quantizer = None if quantized is None else quantized.producer
    if quantized is None or quantizer is None or quantizer.key != "QuantizeLinear" or quantizer.inputs[0] is None:
        return None
    if model.is_constant(quantizer.inputs[0]) or quantizer.graph is not node.graph:
        return None
    scale, back, zero, shift = (_number(model, n, position) for position in (1, 2) for n in (quantizer, node))
    if not scale or back is None or zero is None or zero != shift:
        return None
    ends = range_of_type(model.dtype(quantized))
    limits = (ends.low - zero) * scale, (ends.high - zero) * scale, back / scale
    return quantizer.inputs[0].name, limits


def _number(model: Model, node: Node, position: int) -> float | None:
    """The one number of an input, 0 where it is left out; None where it has several, or is computed."""
    value: Value | None = node.inputs[position] if position < len(node.inputs) else None
    if value is None:
        return 0.0
    array = model.constant(value) if model.is_constant(value) else None
    return float(array.reshape(())) if array is not None and array.size == 1 else None


def _smooth(graph: GraphProto, found: dict[str, tuple[str, Limits]]) -> None:
    """Write the limits instead of the pairs of a graph."""
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or node.output[0] not in found:
            nodes.append(node)
            continue
        name, (source, limits) = node.output[0], found[node.output[0]]
        for op, number in zip(("Max", "Min", "Mul"), limits, strict=True):
            result = name if op == "Mul" else f"{name}~{op}"
            graph.initializer.append(numpy_helper.from_array(np.asarray(number, np.float32), f"{name}~{op}~number"))
            nodes.append(helper.make_node(op, [source, f"{name}~{op}~number"], [result]))
            source = result
    refill(graph.node, nodes)
