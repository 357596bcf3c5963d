"""QuantizeLinear and DequantizeLinear."""

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, constant_of, shape_of
from surgeon.targets.releases import RTX, since
from surgeon.targets.rows import read


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


(left_out_axis,) = read(__file__, "left_out_axis")
ROWS = read(__file__)
