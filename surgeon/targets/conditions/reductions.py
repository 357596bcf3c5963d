"""Reductions and the softmaxes."""

from __future__ import annotations

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, constant_of, dtype_name, dtype_of, input_of, opset_of, rank_of
from surgeon.targets.releases import EVERYWHERE, RTX, since, up_to

REDUCE = "ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"


@condition("ReduceSum ReduceLogSum", up_to(7, 2, 2), section="1b", source="onnx-tensorrt@803e699")
@condition(
    REDUCE,
    up_to(9, 3),
    section="1b",
    source="onnx-tensorrt@1def182 builtin_op_importers.cpp: reduceTensor(inputs.at(0)) alone",
)
def reduce_axes(node: Node) -> str | None:
    if input_of(node, 1) is None:
        return None
    return "the axes are an input, which this parser does not read: it would reduce over every axis"


@condition(
    REDUCE + " ReduceSum ReduceLogSum",
    up_to(9, 3),
    section="1b",
    source="onnx-tensorrt@1def182: noop_with_empty_axes is not read",
)
def reduce_noop(node: Node) -> str | None:
    if not _reduces_nothing(node):
        return None
    return "noop_with_empty_axes is not read: it would reduce over every axis"


@condition(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceSumSquare",
    RTX,
    source="measured with TensorRT-RTX alone: with noop_with_empty_axes and no axes it hands its input on",
)
def reduce_nothing(node: Node) -> str | None:
    if not _reduces_nothing(node):
        return None
    return "noop_with_empty_axes would return the input, not what the operator makes of each number"


def _reduces_nothing(node: Node) -> bool:
    return bool(node.attr("noop_with_empty_axes")) and input_of(node, 1) is None and "axes" not in node.attrs


@condition(
    "ReduceMax ReduceMin",
    since(10, 0, rtx=True),
    section="4",
    source="onnx-tensorrt@886aff9: BOOL and UINT8 are rejected from 10.0 on; measured with TensorRT-RTX",
)
def reduce_type(node: Node) -> str | None:
    dtype = dtype_of(node)
    return f"{dtype_name(dtype)} is refused" if dtype in (TensorProto.BOOL, TensorProto.UINT8) else None


@condition(
    "Softmax LogSoftmax Hardmax",
    RTX,
    source="measured with TensorRT-RTX alone: `Invalid Node`; below opset 13 it is read in two dimensions",
)
def softmax_rank(node: Node) -> str | None:
    if opset_of(node) < 13 or rank_of(node) not in (0, 1):
        return None
    return f"an input of {rank_of(node)} dimensions is refused"


@condition(
    "TopK",
    EVERYWHERE,
    section="6",
    source="NVIDIA documentation: K up to 3840; measured with TensorRT-RTX",
)
def top_k(node: Node) -> str | None:
    k = constant_of(node, 1)
    if k is None or not k.size or int(k.reshape(-1)[0]) <= 3840:
        return None
    return f"K = {int(k.reshape(-1)[0])} is refused; 3840 is the largest"
