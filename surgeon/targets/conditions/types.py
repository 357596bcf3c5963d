"""Types: what is cast to, and operators that take no bfloat16."""

from __future__ import annotations

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, dtype_name, dtype_of
from surgeon.targets.dtypes import ORDINARY, READABLE
from surgeon.targets.releases import EVERYWHERE, between, since, up_to

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
