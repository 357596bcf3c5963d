"""ONNX models with one plugin node, or with the native chain that the node replaces.

A plugin model has an ONNX function for its node, so that ONNX Runtime runs the same file that TensorRT reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 15
DOMAIN = "surgeon"
ELEMENT = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16}
NUMPY = {"fp32": np.float32, "fp16": np.float16}


@dataclass(frozen=True)
class Node:
    """One plugin node: its type, its attributes and its further inputs as arrays (weights, slopes)."""

    op_type: str
    attributes: dict[str, object]
    weights: tuple[np.ndarray, ...] = ()
    grown: tuple[int, ...] | None = field(default=None)


def plugin_model(node: Node, shape: Sequence[int], kind: str) -> onnx.ModelProto:
    """x of ``shape`` and type ``kind`` -> the plugin node -> y, with the node's meaning as a function."""
    weights = [w.astype(NUMPY[kind]) for w in node.weights]
    names = [f"w{i}" for i in range(len(weights))]
    attributes = {**node.attributes, "plugin_version": "1", "plugin_namespace": DOMAIN}
    call = helper.make_node(node.op_type, ["x", *names], ["y"], name=node.op_type, domain=DOMAIN, **attributes)
    body = MEANINGS[node.op_type](node.attributes, ["x", *names], len(shape))
    opset = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    function = helper.make_function(DOMAIN, node.op_type, ["x", *names], ["y"], body, opset, sorted(attributes))
    out = [d + g for d, g in zip(shape, node.grown or [0] * len(shape), strict=True)]
    graph = helper.make_graph(
        [call],
        "plugin",
        [helper.make_tensor_value_info("x", ELEMENT[kind], shape)],
        [helper.make_tensor_value_info("y", ELEMENT[kind], out)],
        [numpy_helper.from_array(w, n) for w, n in zip(weights, names, strict=True)],
    )
    return helper.make_model(graph, opset_imports=opset, functions=[function], ir_version=8)


def native_model(
    nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], shape: Sequence[int], out: Sequence[int], kind: str
) -> onnx.ModelProto:
    """x -> plain ONNX nodes -> y."""
    graph = helper.make_graph(
        nodes,
        "native",
        [helper.make_tensor_value_info("x", ELEMENT[kind], shape)],
        [helper.make_tensor_value_info("y", ELEMENT[kind], out)],
        [numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def _constant(name: str, value: object, dtype: type = np.float32) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value, dtype), name))


def _float(x: str, name: str) -> list[onnx.NodeProto]:
    return [helper.make_node("Cast", [x], [name], to=TensorProto.FLOAT)]


def _like(value: str, x: str) -> list[onnx.NodeProto]:
    return [helper.make_node("CastLike", [value, x], ["y"])]


def _l2_norm(a: dict[str, object], inputs: list[str], rank: int) -> list[onnx.NodeProto]:
    mode, axis = a["mode"], int(a["axis"])  # type: ignore[call-overload]
    nodes = [
        *_float("x", "f"),
        _constant("eps", a["epsilon"]),
        _constant("axes", [axis], np.int64),
        _constant("one", 1),
    ]
    nodes += [
        helper.make_node("Mul", ["f", "f"], ["ff"]),
        helper.make_node("ReduceSum", ["ff", "axes"], ["s"], keepdims=1),
    ]
    length = [helper.make_node("Sqrt", ["s"], ["n"])]
    nodes += {
        "max_norm": [*length, helper.make_node("Max", ["n", "eps"], ["d"])],
        "add_norm": [*length, helper.make_node("Add", ["n", "eps"], ["d"])],
        "max_sum": [helper.make_node("Max", ["s", "eps"], ["m"]), helper.make_node("Sqrt", ["m"], ["d"])],
        "add_sum": [helper.make_node("Add", ["s", "eps"], ["m"]), helper.make_node("Sqrt", ["m"], ["d"])],
        "min_reciprocal": [
            *length,
            helper.make_node("Reciprocal", ["n"], ["r"]),
            helper.make_node("Min", ["r", "eps"], ["d"]),
        ],
    }[str(mode)]
    nodes += [helper.make_node("Mul" if mode == "min_reciprocal" else "Div", ["f", "d"], ["q"])]
    if len(inputs) == 1:
        return nodes + _like("q", "x")
    shape = [-1 if i == axis % rank else 1 for i in range(rank)]
    nodes += [
        *_float(inputs[1], "wf"),
        _constant("ws", shape, np.int64),
        helper.make_node("Reshape", ["wf", "ws"], ["wr"]),
    ]
    return [*nodes, helper.make_node("Mul", ["q", "wr"], ["p"]), *_like("p", "x")]


def _instance_norm(a: dict[str, object], inputs: list[str], rank: int) -> list[onnx.NodeProto]:
    axes = list(range(2, rank))
    nodes = [*_float("x", "f"), _constant("eps", a["epsilon"]), helper.make_node("ReduceMean", ["f"], ["m"], axes=axes)]
    nodes += [helper.make_node("Sub", ["f", "m"], ["d"]), helper.make_node("Mul", ["d", "d"], ["dd"])]
    nodes += [helper.make_node("ReduceMean", ["dd"], ["v"], axes=axes), helper.make_node("Add", ["v", "eps"], ["ve"])]
    nodes += [helper.make_node("Sqrt", ["ve"], ["sd"]), helper.make_node("Div", ["d", "sd"], ["q"])]
    last = "q"
    if len(inputs) > 1:
        nodes += [_constant("cs", [-1] + [1] * (rank - 2), np.int64)]
        for name, given, operator, source in (("g", inputs[1], "Mul", "q"), ("h", inputs[2], "Add", "qg")):
            nodes += [*_float(given, name + "f"), helper.make_node("Reshape", [name + "f", "cs"], [name + "r"])]
            nodes += [helper.make_node(operator, [source, name + "r"], [source + name])]
        last = "qgh"
    nodes += [helper.make_node("LeakyRelu", [last], ["l"], alpha=float(a["slope"]))]  # type: ignore[arg-type]
    return nodes + _like("l", "x")


def _reflect_pad(a: dict[str, object], inputs: list[str], rank: int) -> list[onnx.NodeProto]:
    pads = list(a["pads"])  # type: ignore[call-overload]
    nodes: list[onnx.NodeProto] = []
    current = "x"
    for axis in range(rank):  # one Gather an axis: any mode, any opset
        begin, end = pads[axis], pads[axis + rank]
        if begin == 0 and end == 0:
            continue
        nodes += [helper.make_node("Shape", [current], [f"s{axis}"], start=axis, end=axis + 1)]
        nodes += _indices(axis, begin, end, str(a["mode"]))
        nodes += [helper.make_node("Gather", [current, f"i{axis}"], [f"x{axis}"], axis=axis)]
        current = f"x{axis}"
    return [*nodes, helper.make_node("Identity", [current], ["y"])]


def _indices(axis: int, begin: int, end: int, mode: str) -> list[onnx.NodeProto]:
    """Nodes that compute, of the axis's extent, the input index of every output index."""
    n = f"a{axis}"
    crop, crop_end = max(-begin, 0), max(-end, 0)

    def c(name: str, value: int) -> onnx.NodeProto:
        return _constant(f"{n}{name}", [value], np.int64)

    def o(kind: str, args: list[str], out: str, **kw: object) -> onnx.NodeProto:
        return helper.make_node(kind, [a if a == f"s{axis}" else n + a for a in args], [n + out], **kw)

    nodes = [c("crops", crop + crop_end), c("from", -max(begin, 0)), c("more", max(end, 0)), c("crop", crop)]
    nodes += [c("one", 1), c("two", 2), c("zero", 0)]
    nodes += [o("Sub", [f"s{axis}", "crops"], "size"), o("Add", ["size", "more"], "to")]
    nodes += [_constant(f"{n}axis0", [0], np.int64)]
    for scalar in ("from", "to", "one"):
        nodes += [o("Squeeze", [scalar, "axis0"], scalar + "_")]
    nodes += [o("Range", ["from_", "to_", "one_"], "i")]
    if mode == "wrap":
        nodes += [o("Mod", ["i", "size"], "f")]
    elif mode == "edge":
        nodes += [o("Sub", ["size", "one"], "last"), o("Max", ["i", "zero"], "lo"), o("Min", ["lo", "last"], "f")]
    else:
        nodes += [o("Mul", ["size", "two"], "double"), c("less", 2 if mode == "reflect" else 0)]
        nodes += [
            o("Sub", ["double", "less"], "raw"),
            o("Max", ["raw", "one"], "period"),
            o("Mod", ["i", "period"], "m"),
        ]
        nodes += [
            c("shift", 0 if mode == "reflect" else 1),
            o("Sub", ["period", "m"], "pm"),
            o("Sub", ["pm", "shift"], "back"),
        ]
        nodes += [o("Less", ["m", "size"], "inside"), o("Where", ["inside", "m", "back"], "f")]
    return [*nodes, helper.make_node("Add", [n + "f", n + "crop"], [f"i{axis}"])]


def _leaky_relu(a: dict[str, object], inputs: list[str], rank: int) -> list[onnx.NodeProto]:
    return [*_float("x", "f"), helper.make_node("LeakyRelu", ["f"], ["l"], alpha=float(a["alpha"])), *_like("l", "x")]  # type: ignore[arg-type]


def _prelu(a: dict[str, object], inputs: list[str], rank: int) -> list[onnx.NodeProto]:
    return [*_float("x", "f"), *_float(inputs[1], "s"), helper.make_node("PRelu", ["f", "s"], ["p"]), *_like("p", "x")]


MEANINGS = {
    "SurgeonL2Norm": _l2_norm,
    "SurgeonInstanceNorm": _instance_norm,
    "SurgeonReflectPad": _reflect_pad,
    "SurgeonLeakyRelu": _leaky_relu,
    "SurgeonPRelu": _prelu,
}


def pad_node(pads: Sequence[int], mode: str) -> Node:
    """A SurgeonReflectPad of ONNX's pads."""
    rank = len(pads) // 2
    grown = tuple(pads[i] + pads[i + rank] for i in range(rank))
    return Node("SurgeonReflectPad", {"pads": list(pads), "mode": mode}, grown=grown)
