"""Types: what is cast to, and operators that take no bfloat16."""

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, dtype_name, dtype_of, is_weights
from surgeon.targets.dtypes import ORDINARY, READABLE
from surgeon.targets.releases import EVERYWHERE, RTX, since, up_to
from surgeon.targets.rows import other_than, read, refuses

FLOAT8 = frozenset(number for name, number in TensorProto.DataType.items() if name.startswith("FLOAT8"))


# fmt: off
floats_alone = read(__file__, "floats_alone")
ROWS = (
    *read(__file__),
    refuses("Cast CastLike QuantizeLinear", since(10, 0, rtx=True), attr={"saturate": 0}, made=FLOAT8,
            reason="saturate 0 is not read: it would saturate",
            source='onnx-tensorrt@eb43908: Ignore "saturate" attribute; measured with TensorRT-RTX'),
    # bfloat16
    # halves
    # integers
    # integers and booleans
    refuses("Cast", EVERYWHERE, attr={"to": other_than(*READABLE)}, reason="there is no {type}",
            source="onnx-tensorrt@96e7811 importerUtils.cpp convertDtype; measured with TensorRT-RTX"),
    refuses("Cast", up_to(8, 6), attr={"to": READABLE.keys() - ORDINARY}, reason="there is no {type} before 9.0",
            source="onnx-tensorrt@4f54a19 onnx2trt_utils.cpp convertDtype"),
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
