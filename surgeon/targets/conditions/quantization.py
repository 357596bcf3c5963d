"""QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, constant_of, dtype_of, input_of, is_weights, rank_of, shape_of
from surgeon.targets.releases import EVERYWHERE, RTX, between, since, up_to


@condition(
    "QuantizeLinear DequantizeLinear",
    since(7, 0, rtx=True),
    section="6",
    source="onnx-tensorrt@4225037: TRT only supports symmetric quantization",
)
def zero_point(node: Node) -> str | None:
    zero = constant_of(node, 2)
    if zero is None or zero.dtype.kind not in "iu" or not zero.any():
        return None
    return "a zero point other than 0 is refused"


@condition(
    "QuantizeLinear DequantizeLinear",
    since(7, 0, rtx=True),
    section="6",
    source="`Scale coefficients must all be positive`; measured with TensorRT-RTX",
)
def positive_scale(node: Node) -> str | None:
    scale = constant_of(node, 1)
    return "a scale that is not positive is refused" if scale is not None and not bool((scale > 0).all()) else None


@condition(
    "QuantizeLinear DequantizeLinear",
    between((8, 0), (8, 6)),
    source="onnx-tensorrt@4225037 to @6ba67d3: static_cast<const float*>(scale.values); measured with TensorRT 8.4.1.5",
)
def half_scale(node: Node) -> str | None:
    return "a scale in fp16 is read as fp32" if dtype_of(node, 1) == TensorProto.FLOAT16 else None


@condition("QuantizeLinear", RTX, source="measured with TensorRT-RTX alone, with and without a zero point")
def quantized_unsigned(node: Node) -> str | None:
    made = node.outputs[0]
    if made is None or node.graph.model.dtype(made) != TensorProto.UINT8:
        return None
    return "uint8, which is what it returns without a zero point, is read as int8"


@condition("DequantizeLinear", RTX, source="measured with TensorRT-RTX alone: unsupported input type of UINT8")
def dequantized_unsigned(node: Node) -> str | None:
    data = input_of(node, 0)
    quantized = data is not None and data.producer is not None and data.producer.key == "QuantizeLinear"
    if quantized or dtype_of(node) != TensorProto.UINT8:
        return None
    return "uint8 that no QuantizeLinear makes is refused"


@condition(
    "DequantizeLinear",
    EVERYWHERE,
    source="measured with TensorRT-RTX: `input has type Int32`; the others alike",
)
def dequantized_int32(node: Node) -> str | None:
    return "integers of 32 bits are refused" if dtype_of(node) == TensorProto.INT32 else None


@condition(
    "QuantizeLinear DequantizeLinear",
    between((8, 0), (8, 6)),
    source="onnx-tensorrt@4225037 to @6ba67d3: requires 3 inputs; measured with TensorRT 8.4.1.5",
)
def left_out_zero(node: Node) -> str | None:
    return "the zero point is left out, which this parser refuses" if input_of(node, 2) is None else None


@condition(
    "QuantizeLinear DequantizeLinear",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: ScaleMode is illegal",
)
def quantized_axis(node: Node) -> str | None:
    shape, scale = shape_of(node), shape_of(node, 1)
    if shape is None or scale is None or len(scale) != 1 or scale[0] == 1:
        return None
    axis = node.attrs.get("axis", 1)
    if not -len(shape) <= axis < len(shape) or isinstance(shape[axis], int):
        return None
    return "the size of the axis that the scales stand along is not static"


@condition(
    "QuantizeLinear DequantizeLinear",
    between((8, 0), (10, 1)),
    source="onnx-tensorrt@4225037 to @96e7811: axis of several scales is 0 where it is left out; measured with "
    "TensorRT 8.4.1.5",
)
def left_out_axis(node: Node) -> str | None:
    scale = shape_of(node, 1)
    if "axis" in node.attrs or scale is None or len(scale) != 1 or scale[0] == 1:
        return None
    return "axis is left out, and this parser takes 0 for it"


@condition(
    "QuantizeLinear DequantizeLinear",
    between((8, 0), (8, 6)),
    source="onnx-tensorrt@9d2d786: TRT does not support scalar data input; measured with TensorRT 8.4.1.5: "
    "getChannelAxis, out of bounds; the other releases taken to be alike",
)
def quantized_number(node: Node) -> str | None:
    return "an input without dimensions is refused" if rank_of(node) == 0 else None


@condition(
    "DequantizeLinear",
    EVERYWHERE,
    source="measured with TensorRT-RTX: UNSUPPORTED initializers of 16 bits; no release has the types",
)
def dequantized_16_bits(node: Node) -> str | None:
    return "integers of 16 bits are refused" if dtype_of(node) in (TensorProto.INT16, TensorProto.UINT16) else None


@condition(
    "DequantizeLinear",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: parsed, and `Quantized constant is only allowed before DQ` at the build",
)
def dequantized_number(node: Node) -> str | None:
    known = constant_of(node, 0)
    is_number = known is not None and not known.ndim and dtype_of(node) == TensorProto.INT8
    return "a constant without a dimension is refused" if is_number else None


@condition("DequantizeLinear", EVERYWHERE, source="measured with TensorRT-RTX: UNSUPPORTED initializers of uint4")
def dequantized_uint4(node: Node) -> str | None:
    return "uint4 is refused" if dtype_of(node) == TensorProto.UINT4 else None


@condition("DequantizeLinear", up_to(9, 3), source="NVIDIA change log 10.0: INT4 came with it")
def dequantized_int4(node: Node) -> str | None:
    return "int4 is refused" if dtype_of(node) == TensorProto.INT4 else None


@condition(
    "DequantizeLinear",
    between((8, 4), (8, 4)),
    source="measured with TensorRT 8.4.1.5: its process dies while it parses",
)
def dequantized_weights(node: Node) -> str | None:
    if dtype_of(node) != TensorProto.INT8 or not is_weights(input_of(node, 0)):
        return None
    return "the parser's process dies of int8 weights"
