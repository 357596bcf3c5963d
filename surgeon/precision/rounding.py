"""A model in half precision as a strongly typed runtime computes it: every tensor of 16 bits rounded, on fp32 kernels.

ONNX Runtime's CPU kernels do not show what half precision loses: it has few of them, runs the rest in fp32 between two
casts, and takes out the pair of casts between two such nodes. x = 1e3, Mul(x, x), ReduceSum, Sqrt in fp16 gives the
right number there (measured with 1.31, optimisations off) and inf on a GPU. `rounded` writes the same model in fp32,
and after each node a Cast to the type of 16 bits and one back. The pair stays since both its ends are fp32. Sums inside
a node stay fp32, as they do on tensor cores.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.ir.files import with_data, with_inner_weights
from surgeon.ir.functions import opset_of
from surgeon.ir.lattice import HALVES
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, refill
from surgeon.precision.formats import SINGLE
from surgeon.precision.operators import KEEPS_NUMBERS

OLDEST = 9  # older opsets have no such Cast
GIVEN = "~given"  # the suffix of the names of half-precision inputs of a rounded model


def rounded(
    model: ModelProto, types: Mapping[str, int] | None = None, base: Path | None = None, times: float = 1.0
) -> ModelProto | None:
    """The model with fp32 in place of fp16 and bf16, and every rounding a pair of casts; None before opset 9.

    Inputs and outputs in half precision become fp32 too; the inputs are rounded. External weights stay on disk, and are
    cast when the model runs.

    types  the type of each tensor of 16 bits by name, where that is known; else it is inferred
    base   the folder of the external weights
    times  what the roundings of what nodes make are multiplied by
    """
    if opset_of(model) < OLDEST:
        return None
    halves = _half_tensors(Model(model, base)) if types is None else types
    wide = cast_external(model, base)
    given = {i.name: i.type.tensor_type.elem_type for i in wide.graph.input}
    given = {name: elem for name, elem in given.items() if elem in HALVES}
    _widen(wide.graph, halves, times)
    inputs = [info for info in wide.graph.input if info.name in given]
    rounding = [cast for info in inputs for cast in _round(f"{info.name}{GIVEN}", info.name, given[info.name])]
    for info in inputs:
        info.name = f"{info.name}{GIVEN}"
    refill(wide.graph.node, [*rounding, *wide.graph.node])
    return wide


def cast_external(model: ModelProto, base: Path | None) -> ModelProto:
    """A copy whose external weights of 16 bits stay on disk, and are cast to fp32 when the model runs.

    Those in bodies, and those that a caller may replace, are read from `base` instead.
    """
    made = copied(with_inner_weights(model, base))
    inputs, casts = {i.name for i in made.graph.input}, []
    for tensor in made.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL or tensor.data_type not in HALVES:
            continue
        if tensor.name in inputs:
            tensor.CopyFrom(with_data(tensor, base))
            continue
        stored = f"{tensor.name}~stored"
        casts.append(helper.make_node("Cast", [stored], [tensor.name], to=SINGLE))
        tensor.name = stored
    refill(made.graph.node, [*casts, *made.graph.node])
    return made


def _half_tensors(model: Model) -> dict[str, int]:
    """The types of the tensors of a model that have 16 bits, by name."""
    outputs = (o for scope in model.scopes for node in scope.live() for o in node.outputs if o is not None)
    return {o.name: model.dtype(o) for o in outputs if model.dtype(o) in HALVES}


def _widen(graph: GraphProto, halves: Mapping[str, int], times: float) -> None:
    """Write a graph in fp32, with every rounding a pair of casts."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in HALVES:
            info.type.tensor_type.elem_type = SINGLE
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    refill(graph.node, [n for node in graph.node for n in _widened(node, halves, times)])


def _widened(node: NodeProto, halves: Mapping[str, int], times: float) -> Iterator[NodeProto]:
    """The node in fp32, and after it a rounding of each output that has 16 bits."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            _widen_tensor(attribute.t)
        elif attribute.type == AttributeProto.GRAPH:
            _widen(attribute.g, halves, times)
        elif attribute.name in ("to", "dtype", "output_dtype") and attribute.i in HALVES:
            attribute.i = SINGLE
    if node.op_type in KEEPS_NUMBERS or node.op_type == "Constant":
        yield node
        return
    rounding = []
    for position, name in enumerate(node.output):
        if name in halves:
            node.output[position] = f"{name}~exact"
            rounding += _round(f"{name}~exact", name, halves[name], times)
    yield node
    yield from rounding


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in HALVES and tensor.data_location != TensorProto.EXTERNAL:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float32"), tensor.name))


def _round(source: str, name: str, elem: int, times: float = 1.0) -> list[NodeProto]:
    low, near, gap, far = (f"{name}~{part}" for part in ("rounded", "near", "gap", "far"))
    made = name if times == 1 else near
    casts = [helper.make_node("Cast", [source], [low], to=elem), helper.make_node("Cast", [low], [made], to=SINGLE)]
    if times == 1:
        return casts
    factor = numpy_helper.from_array(np.asarray(times, np.float32), "")
    return [
        *casts,
        helper.make_node("Constant", [], [f"{far}~times"], value=factor),
        helper.make_node("Sub", [near, source], [gap]),
        helper.make_node("Mul", [gap, f"{far}~times"], [far]),
        helper.make_node("Add", [source, far], [name]),
    ]
