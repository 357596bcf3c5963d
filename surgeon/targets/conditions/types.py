"""Types: what is cast to, and operators that take no bfloat16."""

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.ir.lattice import HALVES
from surgeon.targets.condition import condition, dtype_name, dtype_of, is_weights
from surgeon.targets.dtypes import ORDINARY, READABLE
from surgeon.targets.releases import EVERYWHERE, RTX, between, since, up_to
from surgeon.targets.rows import other_than, refuses

FLOAT8 = frozenset(number for name, number in TensorProto.DataType.items() if name.startswith("FLOAT8"))


# fmt: off
floats_alone = (
    refuses("MatMul Gemm", between((7, 0), (8, 4)), dtype="int32 int64",
            source="onnx-tensorrt@84b5be1 to @9f82b2b: does not support INT32, which INT64 is read as; measured with "
                   "TensorRT 8.4.1.5"),
    refuses("TopK ArgMax ArgMin", between((7, 0), (8, 5)), dtype="int32 int64",
            source="onnx-tensorrt@84b5be1 to @fd119fe: notInvalidType, INT32; cast to fp32 from 8.6 on; measured with "
                   "TensorRT 8.4.1.5"),
    refuses("Erf Sign ReduceL2 ReduceLogSum ReduceLogSumExp", between((8, 0), (8, 4)), dtype="int32 int64",
            source="onnx-tensorrt@4225037 to @9f82b2b unaryHelper: validUnaryType; measured with TensorRT 8.4.1.5"),
    refuses("Einsum", between((8, 2), (8, 6)), dtype="int8 int32 int64",
            source="measured with TensorRT 8.4.1.5: einsum input tensor 0 has invalid type Int32"),
    refuses("QuantizeLinear", between((8, 4), (8, 4)), dtype="int32 int64",
            source="measured with TensorRT 8.4.1.5: only activation types allowed as input to this layer"),
    refuses("MatMul Gemm Erf ReduceL2 ReduceLogSum ReduceLogSumExp QuantizeLinear", RTX, dtype="int32 int64",
            source="measured with TensorRT-RTX 1.7.1: Found unsupported input type; not support the given operator"),
    refuses("Einsum", RTX, dtype="int8 int32 int64",
            source="measured with TensorRT-RTX 1.7.1: Found unsupported input type; not support the given operator"),
)
ROWS = (
    refuses("Cast CastLike QuantizeLinear", since(10, 0, rtx=True), attr={"saturate": 0}, made=FLOAT8,
            reason="saturate 0 is not read: it would saturate",
            source='onnx-tensorrt@eb43908: Ignore "saturate" attribute; measured with TensorRT-RTX'),
    # bfloat16
    refuses("GlobalLpPool", since(9, 2, rtx=True), dtype="bfloat16",
            source="onnx-tensorrt@306247b: Only FLOAT and HALF are supported; measured with TensorRT-RTX"),
    refuses("HardSwish", since(8, 5, rtx=True), dtype="bfloat16", section="2",
            source="onnx-tensorrt@fd119fe: Only FLOAT, HALF or INT8 input; measured with TensorRT-RTX"),
    refuses("Mish", since(10, 0, rtx=True), dtype="bfloat16", section="2",
            source="onnx-tensorrt@eb43908: Only FLOAT32 or FLOAT16 input; measured with TensorRT-RTX"),
    refuses("LpNormalization LpPool", since(9, 0, rtx=True), dtype="bfloat16", section="4",
            source="onnx-tensorrt@3b9c961; measured with TensorRT-RTX"),
    refuses("InstanceNormalization", between((10, 0), (10, 6)), dtype="bfloat16", section="3",
            source="onnx-tensorrt@eb43908: either all FLOAT or all FLOAT16; BF16 from 10.7"),
    refuses("ConvTranspose", RTX, dtype="bfloat16",
            source="measured with TensorRT-RTX 1.7.1: it is parsed, and not built"),
    refuses("GRU", RTX, dtype="bfloat16",
            source="measured with TensorRT-RTX 1.7.1: ElementWiseOperation SUB must have same input types"),
    refuses("RandomNormalLike RandomUniformLike", RTX, made="bfloat16",
            source="measured with TensorRT-RTX 1.7.1: IFillLayer::setToType"),
    # halves
    refuses("Mean", since(10, 0, rtx=True), dtype=HALVES,
            reason="{dtype} is multiplied by the wrong factor, near 0",
            source="onnx-tensorrt@eb43908, @96e7811: static_cast<float*> of the factor in half precision; measured "
                   "with TensorRT-RTX: 0 comes back"),
    refuses("LSTM RNN", RTX, dtype=HALVES, given=4, reason="sequence_lens is refused in {dtype}",
            source="measured with TensorRT-RTX 1.7.1: ISelectLayer must have `thenInput` and `elseInput` of same type"),
    refuses("GRU", RTX, dtype="float16", given=4, reason="sequence_lens is refused in {dtype}",
            source="measured with TensorRT-RTX 1.7.1: ISelectLayer must have `thenInput` and `elseInput` of same type"),
    # integers
    refuses("Pow", between((7, 0), (9, 1)), input=(0, 1), dtype="int32 int64",
            source="onnx-tensorrt@84b5be1 to @877b5dc elementwiseCheck: kPOW, isInt32; measured with TensorRT 8.4.1.5"),
    refuses("Range", between((8, 4), (9, 0)), dtype=other_than("float", "double", "int32", "int64"),
            source="onnx-tensorrt@9f82b2b to @3b9c961: only supports int32 and float input types; measured with "
                   "TensorRT 8.4.1.5"),
    refuses("Mod", RTX, attr={"fmod": other_than(0)}, dtype="int8", reason="int8 is refused",
            source="measured with TensorRT-RTX 1.7.1: Could not infer output types for operation: ceil"),
    refuses("ConstantOfShape", RTX, made="uint8",
            source="measured with TensorRT-RTX 1.7.1: Invalid input type for ConstantOfShape"),
    refuses("CastLike", RTX, input=1, dtype="uint8", weights=True,
            reason="weights of uint8 are read as int32, and cast to",
            source="measured with TensorRT-RTX 1.7.1: weights of uint8 become int32: does not match"),
    # integers and booleans
    refuses("Resize Upsample", between((7, 0), (8, 4)), dtype="int32 int64 bool",
            source="onnx-tensorrt@84b5be1 to @9f82b2b: does not support INT32 or BOOL input; measured with "
                   "TensorRT 8.4.1.5"),
    refuses("Resize Upsample", RTX, dtype="int32 int64 bool",
            source="measured with TensorRT-RTX 1.7.1: must have type Float, Half, Int8 or BFloat16"),
    refuses("DepthToSpace SpaceToDepth Gather", between((7, 0), (8, 4)), dtype="bool",
            source="onnx-tensorrt@84b5be1 to @9f82b2b: does not support BOOL input; measured with TensorRT 8.4.1.5"),
    refuses("GatherElements", between((8, 0), (8, 4)), dtype="bool",
            source="onnx-tensorrt@4225037 to @9f82b2b: does not support BOOL input; measured with TensorRT 8.4.1.5"),
    refuses("GatherND", between((8, 2), (8, 4)), dtype="bool",
            source="onnx-tensorrt@4f54a19 to @9f82b2b: does not support BOOL input; measured with TensorRT 8.4.1.5"),
    refuses("Equal", between((7, 0), (8, 4)), dtype="bool",
            source="onnx-tensorrt@84b5be1 to @9f82b2b elementwiseCheck; measured with TensorRT 8.4.1.5"),
    refuses("DepthToSpace SpaceToDepth", RTX, dtype="bool",
            source="measured with TensorRT-RTX 1.7.1: Found unsupported input type of BOOL"),
    refuses("Where", between((8, 2), (8, 4)), input=(1, 2), dtype="bool",
            source="onnx-tensorrt@4f54a19, @9f82b2b: does not support BOOL types for Where; measured with "
                   "TensorRT 8.4.1.5"),
    refuses("Cast", EVERYWHERE, attr={"to": other_than(*READABLE)}, reason="there is no {type}",
            source="onnx-tensorrt@96e7811 importerUtils.cpp convertDtype; measured with TensorRT-RTX"),
    refuses("Cast", up_to(8, 6), attr={"to": READABLE.keys() - ORDINARY}, reason="there is no {type} before 9.0",
            source="onnx-tensorrt@4f54a19 onnx2trt_utils.cpp convertDtype"),
    refuses("Clip", RTX, input=(1, 2), dtype="int8", weights=False, reason="computed bounds are refused in int8",
            source="measured with TensorRT-RTX 1.7.1: bounds that are computed, in int8"),
    refuses("BlackmanWindow HammingWindow HannWindow", since(10, 4, rtx=True),
            attr={"output_datatype": other_than(TensorProto.FLOAT)}, reason="a window of {type} is refused",
            source="onnx-tensorrt@96e7811: Output must be float32-type; measured with TensorRT-RTX"),
)
# fmt: on


INTEGERS = frozenset({TensorProto.INT8, TensorProto.INT32, TensorProto.INT64})


@condition("GridSample", RTX,
           source="measured with TensorRT-RTX 1.7.1: `input` and `grid` must be of same type; first "
                  "input has type Int")  # fmt: skip
def sampled_type(node: Node) -> str | None:
    image, grid = (_read_as(dtype_of(node, position)) for position in (0, 1))
    if image in INTEGERS or image == TensorProto.BOOL:
        return f"{dtype_name(image)} is refused"
    return "the grid has another type than the image" if 0 not in (image, grid) and image != grid else None


def _read_as(dtype: int) -> int:
    return int(TensorProto.FLOAT) if dtype == TensorProto.DOUBLE else dtype


@condition(
    "Equal", RTX, source="measured with TensorRT-RTX 1.7.1: weights of uint8 become int32: must have same input types"
)
def compared_uint8(node: Node) -> str | None:
    weights = [is_weights(value) for value in node.inputs]
    if dtype_of(node) != TensorProto.UINT8 or not any(weights) or all(weights):
        return None
    return "weights of uint8 are read as int32, and the other operand is not"
