"""QuantizeLinear and DequantizeLinear."""

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, constant_of, shape_of
from surgeon.targets.releases import EVERYWHERE, RTX, between, since, up_to
from surgeon.targets.rows import KNOWN, other_than, refuses


@condition("QuantizeLinear DequantizeLinear", since(7, 0, rtx=True), section="6",
           source="onnx-tensorrt@4225037: TRT only supports symmetric quantization")  # fmt: skip
def zero_point(node: Node) -> str | None:
    zero = constant_of(node, 2)
    if zero is None or zero.dtype.kind not in "iu" or not zero.any():
        return None
    return "a zero point other than 0 is refused"


@condition("QuantizeLinear DequantizeLinear", since(7, 0, rtx=True), section="6",
           source="`Scale coefficients must all be positive`; measured with TensorRT-RTX")  # fmt: skip
def positive_scale(node: Node) -> str | None:
    scale = constant_of(node, 1)
    return "a scale that is not positive is refused" if scale is not None and not bool((scale > 0).all()) else None


@condition("QuantizeLinear DequantizeLinear", RTX, source="measured with TensorRT-RTX 1.7.1: ScaleMode is illegal")
def quantized_axis(node: Node) -> str | None:
    shape, scale = shape_of(node), shape_of(node, 1)
    if shape is None or scale is None or len(scale) != 1 or scale[0] == 1:
        return None
    axis = node.attrs.get("axis", 1)
    if not -len(shape) <= axis < len(shape) or isinstance(shape[axis], int):
        return None
    return "the size of the axis that the scales are along is not static"


# fmt: off
left_out_axis = refuses("QuantizeLinear DequantizeLinear", between((8, 0), (10, 1)), lacks="axis", input=1, rank=1,
                        size=other_than(1), reason="axis is left out, and this parser uses 0",
                        source="onnx-tensorrt@4225037 to @96e7811: axis of several scales is 0 where it is left out; "
                               "measured with TensorRT 8.4.1.5")
ROWS = (
    refuses("QuantizeLinear DequantizeLinear", between((8, 0), (8, 6)), input=1, dtype="float16",
            reason="a scale in fp16 is read as fp32",
            source="onnx-tensorrt@4225037 to @6ba67d3: static_cast<const float*>(scale.values); measured with "
                   "TensorRT 8.4.1.5"),
    refuses("QuantizeLinear", RTX, made="uint8",
            reason="uint8, which is what it returns without a zero point, is read as int8",
            source="measured with TensorRT-RTX alone, with and without a zero point"),
    refuses("DequantizeLinear", EVERYWHERE, dtype="int32",
            source="measured with TensorRT-RTX: `input has type Int32`; the others the same"),
    refuses("QuantizeLinear DequantizeLinear", between((8, 0), (8, 6)), lacks=2,
            reason="the zero point is left out, which this parser refuses",
            source="onnx-tensorrt@4225037 to @6ba67d3: requires 3 inputs; measured with TensorRT 8.4.1.5"),
    refuses("QuantizeLinear DequantizeLinear", between((8, 0), (8, 6)), rank=0,
            source="onnx-tensorrt@9d2d786: TRT does not support scalar data input; measured with TensorRT 8.4.1.5: "
                   "getChannelAxis, out of bounds; the other releases assumed to be the same"),
    refuses("DequantizeLinear", EVERYWHERE, dtype="int16 uint16",
            source="measured with TensorRT-RTX: UNSUPPORTED initializers of 16 bits; no release has the types"),
    refuses("DequantizeLinear", EVERYWHERE, dtype="uint4",
            source="measured with TensorRT-RTX: UNSUPPORTED initializers of uint4"),
    refuses("DequantizeLinear", up_to(9, 3), dtype="int4", source="NVIDIA change log 10.0: INT4 came with it"),
    refuses("DequantizeLinear", between((8, 4), (8, 4)), dtype="int8", weights=True,
            reason="the parser crashes on int8 weights",
            source="measured with TensorRT 8.4.1.5: it crashes while it parses"),
    refuses("DequantizeLinear", RTX, dtype="uint8", maker=other_than("QuantizeLinear"),
            reason="uint8 that no QuantizeLinear makes is refused",
            source="measured with TensorRT-RTX alone: unsupported input type of UINT8"),
    refuses("DequantizeLinear", RTX, dtype="int8", rank=0, value={0: KNOWN},
            reason="a constant without a dimension is refused",
            source="measured with TensorRT-RTX 1.7.1: parsed, and `Quantized constant is only allowed before DQ` at "
                   "the build"),
)
# fmt: on
