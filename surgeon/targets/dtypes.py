"""Which types of tensors a parser knows."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import TensorProto

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.targets.condition import dtype_name, is_weights, rank_of
from surgeon.targets.releases import FIRST, Version, dotted, up_to

# What convertDtype knows, from which release on. DOUBLE is read as fp32, INT64 as int32 up to 8.6. UINT8 came with 8.5
# as a type of inputs and outputs, BF16 and FP8 with 9.0, INT4 with 10.0, FP4 with 10.8 (docs/trt-support.md section 1).
READABLE: dict[int, Version] = {
    TensorProto.FLOAT: FIRST,
    TensorProto.DOUBLE: FIRST,
    TensorProto.FLOAT16: FIRST,
    TensorProto.INT8: FIRST,
    TensorProto.INT32: FIRST,
    TensorProto.INT64: FIRST,
    TensorProto.BOOL: FIRST,
    TensorProto.UINT8: (8, 5),
    TensorProto.BFLOAT16: (9, 0),
    TensorProto.FLOAT8E4M3FN: (9, 0),
    TensorProto.INT4: (10, 0),
    TensorProto.FLOAT4E2M1: (10, 8),
}
# int64 is cast to int32 and clamped, with a warning (docs/trt-support.md section 6: native from 9.0 on).
NARROWING = up_to(8, 6)
ORDINARY = frozenset(dtype for dtype, first in READABLE.items() if first == FIRST)
# What reads uint8 (docs/trt-support.md section 6: inputs and outputs alone, by Cast and DequantizeLinear; the others
# were measured with TensorRT-RTX). Anything else is refused with `Found unsupported input type of UINT8`, or as no
# legal intermediate tensor. What quantizes has conditions of its own, and of bodies nothing is known.
UINT8_READERS = frozenset(
    {"Cast", "CastLike", "DequantizeLinear", "Equal", "If", "Loop", "QuantizeLinear", "Scan", "Shape", "Size"}
)
HANDED_ON = frozenset({"Identity", "Flatten"})  # where an input of the model is handed on as an output
# What takes types of fewer than 8 bits of integers, or of floats (measured with TensorRT-RTX 1.7.1: `is not consumed by
# IQuantizeLayer, IDequantizeLayer, IConcatenationLayer, IShuffleLayer, IShapeLayer, or IdentityLayer`).
PACKED = frozenset({TensorProto.FLOAT8E4M3FN, TensorProto.INT4, TensorProto.FLOAT4E2M1})
PACKED_SHUFFLES = frozenset({"Concat", "Flatten", "Identity", "Reshape", "Shape", "Size", "Transpose"})
PACKED_READERS = PACKED_SHUFFLES | {"Constant", "DequantizeLinear", "If", "Loop", "QuantizeLinear", "Scan"}
# TensorRT-RTX 1.7.1: `Quantized constant (w) is only allowed before DQ`; a zero point is one, too.
INT8_WEIGHTS_READERS = frozenset({"Constant", "DequantizeLinear", "QuantizeLinear", "Shape", "Size"})
UINT8_MAKERS = frozenset({"Constant", "QuantizeLinear"})
MOST_DIMENSIONS = 8  # NvInfer.h, Dims::MAX_DIMS


def has_other_types(model: Model, version: Version, *, rtx: bool = False) -> bool:
    """Whether a model has tensors of a type that not every release knows, or knows everywhere."""
    bare_int8 = _refuses_int8_weights(version, rtx)
    given = (info.type.tensor_type.elem_type for info in model.proto.graph.input)
    weights = {dtype for dtype, _ in model.graph.kinds_of_tensors}
    casts = (node.attr("to") for scope in model.scopes for node in scope.of(["Cast"]))
    ordinary = ORDINARY - {TensorProto.INT8} if bare_int8 else ORDINARY
    held = (*weights, *_constants(model))
    if model.proto.graph.sparse_initializer or any(dtype not in ordinary for dtype in held):
        return True
    return any(dtype and dtype not in ORDINARY for dtypes in (given, casts) for dtype in dtypes)


def _constants(model: Model) -> Iterator[int]:
    """The types of what Constant and ConstantOfShape nodes hold."""
    for scope in model.scopes:
        for node in scope.of(["Constant", "ConstantOfShape"]):
            yield from (given.t.data_type for given in node.proto.attribute if given.name == "value")


def why_mistyped(node: Node, version: Version, *, rtx: bool = False) -> str | None:
    """Why a release does not take the types that a node reads and makes; None where it does."""
    model = node.graph.model
    read = {model.dtype(value) for value in node.inputs if value is not None}
    made = {model.dtype(value): value for value in node.outputs if value is not None}
    for dtype in (read | made.keys()) - {0}:
        first = READABLE.get(dtype)
        if first is None:
            return f"there is no {dtype_name(dtype)}"
        if first > version:
            return f"there is no {dtype_name(dtype)} before {dotted(first)}"
    sparse = {tensor.values.name for tensor in model.proto.graph.sparse_initializer}
    if sparse:
        found = next((value.name for value in node.inputs if value is not None and value.name in sparse), None)
        if found is not None:
            return f"'{found}' is a sparse initializer, which is not read"
    if "::" in node.key:
        return None
    return _why_small(node, read, made, version, rtx)


def _refuses_int8_weights(version: Version, rtx: bool) -> bool:
    """Whether int8 weights are refused but by DequantizeLinear: measured with TensorRT 8.4.1.5 and TensorRT-RTX."""
    return rtx or version == (8, 4)


def _why_small(node: Node, read: set[int], made: dict[int, Value], version: Version, rtx: bool) -> str | None:
    """Why an operator does not take numbers of 8 bits and fewer."""
    packed = (read | made.keys()) & PACKED
    if rtx and packed and node.key not in PACKED_READERS:
        return f"{dtype_name(min(packed))} is refused"
    bare = TensorProto.INT8 in read and node.key not in INT8_WEIGHTS_READERS
    if bare and _refuses_int8_weights(version, rtx) and _reads_int8_weights(node):
        return "int8 weights are read by DequantizeLinear alone"
    if TensorProto.UINT8 in read and not (node.key in UINT8_READERS or _hands_on(node)):
        return "uint8 is refused"
    value = made.get(TensorProto.UINT8)
    if rtx and value is not None and value.is_output and node.key == "Constant":
        return "a constant of uint8 is refused"  # measured: `invalid weights type of UInt8`
    held = made.get(TensorProto.INT8)
    if rtx and held is not None and held.is_output and node.key == "Constant":
        return "a constant of int8 is refused"  # measured: `Quantized constant is only allowed before DQ`
    if value is None or value.is_output or node.key in UINT8_MAKERS:
        return None
    return "uint8 between two nodes is refused"


def _hands_on(node: Node) -> bool:
    """Whether a node hands an input of the model on as it is."""
    if node.key not in HANDED_ON or any(is_weights(value) for value in node.inputs):
        return False
    return node.key == "Identity" or (rank_of(node) == 2 and node.attr("axis") in (1, -1))


def _reads_int8_weights(node: Node) -> bool:
    held = (value for value in node.inputs if value is not None and is_weights(value))
    return any(node.graph.model.dtype(value) == TensorProto.INT8 for value in held)
