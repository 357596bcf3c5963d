"""Which types of tensors a parser knows."""

from collections.abc import Iterator

from onnx import TensorProto

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.operators import MEASURES, words
from surgeon.targets.condition import dtype_name, is_weights, outputs_of, rank_of
from surgeon.targets.releases import FIRST, Version, dotted, up_to, version_of
from surgeon.targets.tables import TABLE

# What convertDtype knows, from which release on.
READABLE: dict[int, Version] = {
    TensorProto.DataType.Value(name): version_of(first) for name, first in TABLE["readable"].items()
}
# int64 is cast to int32 and clamped, with a warning (docs/trt-support.md section 6: native from 9.0 on).
NARROWING = up_to(8, 6)
ORDINARY = frozenset(dtype for dtype, first in READABLE.items() if first == FIRST)
PLAIN = ORDINARY - {TensorProto.INT8} | {TensorProto.UNDEFINED}  # no node is refused for these
# What reads uint8 (docs/trt-support.md section 6: inputs and outputs alone, by Cast and DequantizeLinear; the others
# were measured with TensorRT-RTX). Anything else is refused with `Found unsupported input type of UINT8`, or as no
# legal intermediate tensor. What quantizes has conditions of its own, and of bodies nothing is known.
UINT8_READERS = MEASURES | {"Cast", "CastLike", "DequantizeLinear", "Equal", "If", "Loop", "QuantizeLinear", "Scan"}
COMPARISONS = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})  # weights of uint8 are int32 to them
HANDED_ON = frozenset({"Identity", "Flatten"})  # where an input of the model is passed on as an output
PACKED = frozenset({TensorProto.FLOAT8E4M3FN, TensorProto.INT4, TensorProto.FLOAT4E2M1})
# What reads PACKED, types of fewer than 8 bits of integers, or of floats (measured with TensorRT-RTX 1.7.1: `is not
# consumed by IQuantizeLayer, IDequantizeLayer, IConcatenationLayer, IShuffleLayer, IShapeLayer, or IdentityLayer`).
PACKED_READERS = words(
    "Concat Constant DequantizeLinear Dropout Flatten Identity QuantizeLinear Reshape Shape Size Transpose"
)
# TensorRT-RTX 1.7.1: `Quantized constant (w) is only allowed before DQ`; a zero point is one, too.
SMALL_WEIGHTS_READERS = MEASURES | {"Constant", "DequantizeLinear", "QuantizeLinear"}
# Measured with TensorRT-RTX 1.7.1: `Failed to import initializer`; bytes 0, 4, 8 of uint8 are the first three numbers.
SPELLED: dict[int, str] = {TensorProto.UINT8: "misread", TensorProto.INT4: "refused", TensorProto.FLOAT4E2M1: "refused"}
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
    if not model.proto.graph.sparse_initializer and _types_of(node) <= PLAIN:
        return None
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
    why = _why_spelled(node) if rtx else None
    return why if why is not None else _why_small(node, read, made, version, rtx)


def _types_of(node: Node) -> set[int]:
    dtype = node.graph.model.types.dtype
    return {dtype(value) for value in (*node.inputs, *node.outputs) if value is not None}


def lacking_types(node: Node) -> list[int]:
    """The types that a node reads and makes which no release has."""
    return sorted(_types_of(node) - READABLE.keys() - {TensorProto.UNDEFINED})


def _refuses_int8_weights(version: Version, rtx: bool) -> bool:
    """Whether int8 weights are refused but by DequantizeLinear: measured with TensorRT 8.4.1.5 and TensorRT-RTX."""
    return rtx or version == (8, 4)


def _why_small(node: Node, read: set[int], made: dict[int, Value], version: Version, rtx: bool) -> str | None:
    """Why an operator does not take numbers of 8 bits and fewer."""
    packed = (read | made.keys()) & PACKED
    if rtx and packed and (node.key not in PACKED_READERS or (node.key == "Dropout" and outputs_of(node) > 1)):
        return f"{dtype_name(min(packed))} is refused"
    if _refuses_int8_weights(version, rtx) and node.key not in SMALL_WEIGHTS_READERS:
        for dtype in read & ({TensorProto.INT8, *PACKED} if rtx else {TensorProto.INT8}):
            if _reads_weights(node, dtype):
                return f"{dtype_name(dtype)} weights are read by DequantizeLinear only"
    compared = rtx and node.key in COMPARISONS and all(is_weights(value) for value in node.inputs)
    if TensorProto.UINT8 in read and not (compared or node.key in UINT8_READERS or _hands_on(node)):
        return "uint8 is refused"
    value = made.get(TensorProto.UINT8)
    if rtx and value is not None and value.is_output and node.key == "Constant":
        return "a constant of uint8 is refused"  # measured: `invalid weights type of UInt8`
    if rtx and node.key == "Constant":
        for dtype in made.keys() & {TensorProto.INT8, *PACKED}:
            if made[dtype].is_output:  # measured: `Quantized constant is only allowed before DQ`
                return f"a constant of {dtype_name(dtype)} is refused"
    if value is None or value.is_output or node.key in UINT8_MAKERS:
        return None
    return "uint8 between two nodes is refused"


def _hands_on(node: Node) -> bool:
    """Whether a node hands an input of the model on as it is."""
    if any(is_weights(value) for value in node.inputs):
        return False
    if node.key in ("Max", "Min"):
        return len(node.inputs) == 1
    return node.key == "Identity" or node.key in HANDED_ON and (rank_of(node) == 2 and node.attr("axis") in (1, -1))


def _reads_weights(node: Node, dtype: int) -> bool:
    read = node.inputs[:1] if node.key == "CastLike" else node.inputs  # of the second the type alone counts
    held = (value for value in read if value is not None and is_weights(value))
    return any(node.graph.model.dtype(value) == dtype for value in held)


def _why_spelled(node: Node) -> str | None:
    """Why TensorRT-RTX misreads weights that are stored as numbers of 32 bits, not as raw bytes; None where it does
    not. onnx.helper.make_tensor writes them so, onnx.numpy_helper.from_array does not."""
    spelled = [value.tensor for value in node.inputs if value is not None and value.tensor is not None]
    spelled += [given.t for given in node.proto.attribute if given.name == "value" and node.key == "Constant"]
    found = next(filter(is_spelled, spelled), None)
    if found is None:
        return None
    return f"weights of {dtype_name(found.data_type)} in int32_data are {SPELLED[found.data_type]}"


def is_spelled(tensor: TensorProto) -> bool:
    """Whether weights are stored as numbers of 32 bits that TensorRT-RTX does not read right."""
    read = 1 if tensor.data_type == TensorProto.UINT8 else 0  # a byte alone is read right
    return tensor.data_type in SPELLED and len(tensor.int32_data) > read
