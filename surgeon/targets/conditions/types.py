"""Types: what is cast to, and operators that take no bfloat16."""

from __future__ import annotations

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.ir.lattice import HALVES
from surgeon.targets.condition import condition, dtype_name, dtype_of, input_of, is_weights
from surgeon.targets.dtypes import ORDINARY, READABLE
from surgeon.targets.releases import EVERYWHERE, RTX, between, since, up_to

FLOAT8 = frozenset(number for name, number in TensorProto.DataType.items() if name.startswith("FLOAT8"))


@condition(
    "Cast",
    EVERYWHERE,
    source="onnx-tensorrt@96e7811 importerUtils.cpp convertDtype; measured with TensorRT-RTX",
)
def cast(node: Node) -> str | None:
    to = node.attr("to")
    return f"there is no {dtype_name(to)}" if to not in READABLE else None


@condition(
    "Cast CastLike QuantizeLinear",
    since(10, 0, rtx=True),
    source='onnx-tensorrt@eb43908: Ignore "saturate" attribute; measured with TensorRT-RTX',
)
def not_saturated(node: Node) -> str | None:
    made = node.outputs[0]
    if node.attrs.get("saturate", 1) or made is None or node.graph.model.dtype(made) not in FLOAT8:
        return None
    return "saturate 0 is not read: it would saturate"


@condition("Cast", up_to(8, 6), source="onnx-tensorrt@4f54a19 onnx2trt_utils.cpp convertDtype")
def cast_before_nine(node: Node) -> str | None:
    to = node.attr("to")
    return f"there is no {dtype_name(to)} before 9.0" if to in READABLE.keys() - ORDINARY else None


@condition(
    "GlobalLpPool",
    since(9, 2, rtx=True),
    source="onnx-tensorrt@306247b: Only FLOAT and HALF are supported; measured with TensorRT-RTX",
)
@condition(
    "HardSwish",
    since(8, 5, rtx=True),
    section="2",
    source="onnx-tensorrt@fd119fe: Only FLOAT, HALF or INT8 input; measured with TensorRT-RTX",
)
@condition(
    "Mish",
    since(10, 0, rtx=True),
    section="2",
    source="onnx-tensorrt@eb43908: Only FLOAT32 or FLOAT16 input; measured with TensorRT-RTX",
)
@condition(
    "LpNormalization LpPool",
    since(9, 0, rtx=True),
    section="4",
    source="onnx-tensorrt@3b9c961; measured with TensorRT-RTX",
)
@condition(
    "InstanceNormalization",
    between((10, 0), (10, 6)),
    section="3",
    source="onnx-tensorrt@eb43908: either all FLOAT or all FLOAT16; BF16 from 10.7",
)
def no_bfloat16(node: Node) -> str | None:
    return "bfloat16 is refused" if dtype_of(node) == TensorProto.BFLOAT16 else None


INTEGERS = frozenset({TensorProto.INT8, TensorProto.INT32, TensorProto.INT64})


@condition(
    "MatMul Gemm",
    between((7, 0), (8, 4)),
    source="onnx-tensorrt@84b5be1 to @9f82b2b: does not support INT32, which INT64 is read as; measured with "
    "TensorRT 8.4.1.5",
)
@condition(
    "TopK ArgMax ArgMin",
    between((7, 0), (8, 5)),
    source="onnx-tensorrt@84b5be1 to @fd119fe: notInvalidType, INT32; cast to fp32 from 8.6 on; measured with "
    "TensorRT 8.4.1.5",
)
@condition(
    "Erf Sign ReduceL2 ReduceLogSum ReduceLogSumExp",
    between((8, 0), (8, 4)),
    source="onnx-tensorrt@4225037 to @9f82b2b unaryHelper: validUnaryType; measured with TensorRT 8.4.1.5",
)
@condition(
    "Einsum",
    between((8, 2), (8, 6)),
    source="measured with TensorRT 8.4.1.5: einsum input tensor 0 has invalid type Int32",
)
@condition(
    "QuantizeLinear",
    between((8, 4), (8, 4)),
    source="measured with TensorRT 8.4.1.5: only activation types allowed as input to this layer",
)
@condition(
    "MatMul Gemm Einsum Erf ReduceL2 ReduceLogSum ReduceLogSumExp QuantizeLinear",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: Found unsupported input type; not support the given operator",
)
def floats_alone(node: Node) -> str | None:
    dtype = dtype_of(node)
    refused = dtype in INTEGERS and (dtype != TensorProto.INT8 or node.op == "Einsum")
    return f"{dtype_name(dtype)} is refused" if refused else None


@condition(
    "Resize Upsample",
    between((7, 0), (8, 4)),
    source="onnx-tensorrt@84b5be1 to @9f82b2b: does not support INT32 or BOOL input; measured with TensorRT 8.4.1.5",
)
@condition(
    "Resize Upsample",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: must have type Float, Half, Int8 or BFloat16",
)
def resized_type(node: Node) -> str | None:
    dtype = dtype_of(node)
    refused = dtype in (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
    return f"{dtype_name(dtype)} is refused" if refused else None


@condition(
    "GridSample",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: `input` and `grid` must be of same type; first input has type Int",
)
def sampled_type(node: Node) -> str | None:
    image, grid = (_read_as(dtype_of(node, position)) for position in (0, 1))
    if image in INTEGERS or image == TensorProto.BOOL:
        return f"{dtype_name(image)} is refused"
    return "the grid has another type than the image" if 0 not in (image, grid) and image != grid else None


def _read_as(dtype: int) -> int:
    return int(TensorProto.FLOAT) if dtype == TensorProto.DOUBLE else dtype


@condition(
    "DepthToSpace SpaceToDepth Gather",
    between((7, 0), (8, 4)),
    source="onnx-tensorrt@84b5be1 to @9f82b2b: does not support BOOL input; measured with TensorRT 8.4.1.5",
)
@condition(
    "GatherElements",
    between((8, 0), (8, 4)),
    source="onnx-tensorrt@4225037 to @9f82b2b: does not support BOOL input; measured with TensorRT 8.4.1.5",
)
@condition(
    "GatherND",
    between((8, 2), (8, 4)),
    source="onnx-tensorrt@4f54a19 to @9f82b2b: does not support BOOL input; measured with TensorRT 8.4.1.5",
)
@condition(
    "Equal",
    between((7, 0), (8, 4)),
    source="onnx-tensorrt@84b5be1 to @9f82b2b elementwiseCheck; measured with TensorRT 8.4.1.5",
)
@condition(
    "DepthToSpace SpaceToDepth",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: Found unsupported input type of BOOL",
)
def no_booleans(node: Node) -> str | None:
    return "bool is refused" if dtype_of(node) == TensorProto.BOOL else None


@condition("ConvTranspose", RTX, source="measured with TensorRT-RTX 1.7.1: it is parsed, and not built")
def deconvolved_bfloat16(node: Node) -> str | None:
    return "bfloat16 is refused" if dtype_of(node) == TensorProto.BFLOAT16 else None


@condition(
    "LSTM GRU RNN",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: ISelectLayer must have `thenInput` and `elseInput` of same type",
)
def halves_of_lengths(node: Node) -> str | None:
    if input_of(node, 4) is None or dtype_of(node) not in HALVES:
        return None
    return f"sequence_lens is refused in {dtype_name(dtype_of(node))}"


@condition("Clip", RTX, source="measured with TensorRT-RTX 1.7.1: bounds that are computed, in int8")
def clipped_int8(node: Node) -> str | None:
    if dtype_of(node) != TensorProto.INT8 or all(is_weights(input_of(node, bound)) for bound in (1, 2)):
        return None
    return "computed bounds are refused in int8"


@condition(
    "Where",
    between((8, 2), (8, 4)),
    source="onnx-tensorrt@4f54a19, @9f82b2b: does not support BOOL types for Where; measured with TensorRT 8.4.1.5",
)
def chosen_booleans(node: Node) -> str | None:
    return "bool is refused" if TensorProto.BOOL in (dtype_of(node, 1), dtype_of(node, 2)) else None


@condition(
    "Pow",
    between((7, 0), (9, 1)),
    source="onnx-tensorrt@84b5be1 to @877b5dc elementwiseCheck: kPOW, isInt32; measured with TensorRT 8.4.1.5",
)
def powers_of_integers(node: Node) -> str | None:
    whole = {dtype_of(node), dtype_of(node, 1)} & {TensorProto.INT32, TensorProto.INT64}
    return f"{dtype_name(min(whole))} is refused" if whole else None


@condition(
    "BlackmanWindow HammingWindow HannWindow",
    since(10, 4, rtx=True),
    source="onnx-tensorrt@96e7811: Output must be float32-type; measured with TensorRT-RTX",
)
def windows_in_other_types(node: Node) -> str | None:
    dtype = node.attr("output_datatype")
    return None if dtype == TensorProto.FLOAT else f"a window of {dtype_name(dtype)} is refused"


@condition(
    "Mean",
    since(10, 0, rtx=True),
    source="onnx-tensorrt@eb43908, @96e7811: static_cast<float*> of the factor in half precision; measured with "
    "TensorRT-RTX: 0 comes back",
)
def mean_of_halves(node: Node) -> str | None:
    dtype = dtype_of(node)
    return f"{dtype_name(dtype)} is multiplied by the wrong factor, near 0" if dtype in HALVES else None


@condition(
    "Range",
    between((8, 4), (9, 0)),
    source="onnx-tensorrt@9f82b2b to @3b9c961: only supports int32 and float input types; measured with "
    "TensorRT 8.4.1.5",
)
def counted_type(node: Node) -> str | None:
    dtype = dtype_of(node)
    counted = (0, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)
    return None if dtype in counted else f"{dtype_name(dtype)} is refused"


@condition("RandomNormalLike RandomUniformLike", RTX, source="measured with TensorRT-RTX 1.7.1: IFillLayer::setToType")
def drawn_bfloat16(node: Node) -> str | None:
    made = node.outputs[0]
    dtype = 0 if made is None else node.graph.model.dtype(made)
    return "bfloat16 is refused" if dtype == TensorProto.BFLOAT16 else None


@condition("GRU", RTX, source="measured with TensorRT-RTX 1.7.1: ElementWiseOperation SUB must have same input types")
def gated_bfloat16(node: Node) -> str | None:
    return "bfloat16 is refused" if dtype_of(node) == TensorProto.BFLOAT16 else None


@condition("Mod", RTX, source="measured with TensorRT-RTX 1.7.1: Could not infer output types for operation: ceil")
def remainder_of_int8(node: Node) -> str | None:
    return "int8 is refused" if dtype_of(node) == TensorProto.INT8 and node.attr("fmod") else None


@condition(
    "Equal", RTX, source="measured with TensorRT-RTX 1.7.1: weights of uint8 become int32: must have same input types"
)
def compared_uint8(node: Node) -> str | None:
    weights = [is_weights(value) for value in node.inputs]
    if dtype_of(node) != TensorProto.UINT8 or not any(weights) or all(weights):
        return None
    return "weights of uint8 are read as int32, and the other operand is not"


@condition("CastLike", RTX, source="measured with TensorRT-RTX 1.7.1: weights of uint8 become int32: does not match")
def cast_like_weights(node: Node) -> str | None:
    if dtype_of(node, 1) != TensorProto.UINT8 or not is_weights(input_of(node, 1)):
        return None
    return "weights of uint8 are read as int32, and cast to"


@condition("ConstantOfShape", RTX, source="measured with TensorRT-RTX 1.7.1: Invalid input type for ConstantOfShape")
def filled_uint8(node: Node) -> str | None:
    made = node.outputs[0]
    dtype = 0 if made is None else node.graph.model.dtype(made)
    return "uint8 is refused" if dtype == TensorProto.UINT8 else None
