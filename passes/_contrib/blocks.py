"""Activations, biases, and the operators that differ from ONNX's in their name or their layout alone."""

from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Decline, Value, require
from surgeon.ir.operators import ELEMENTWISE
from surgeon.ir.schemas import schema

from .._arithmetic import gelu, part, pivoted, without_first
from .table import Result, body, known, plus


@body("Gelu", "BiasGelu")
def bias_gelu(b, x, bias=None):
    return gelu(b, plus(b, x, bias))


body("FastGelu")(lambda b, x, bias: gelu(b, plus(b, x, bias), "tanh"))
body("GemmFastGelu")(lambda b, x, w, bias: gelu(b, plus(b, b.MatMul(x, w), bias), "tanh"))
body("BiasAdd")(plus)


@body("QuickGelu")
def quick_gelu(b, x):
    alpha = b.root.attr("alpha")
    return b.Mul(x, b.Sigmoid(x if alpha == 1 else b.Mul(x, float(alpha))))


@body("BiasSoftmax")
def bias_softmax(b, x, bias):
    """All dimensions from the axis on are one."""
    axis, rank = b.root.attr("axis"), b.known_rank(x)
    total = b.Add(x, bias)
    if axis in (-1, rank - 1):
        return b.Softmax(total, axis=axis)
    rows = b.Reshape(total, [*[0] * (axis % rank), -1])
    return b.Reshape(b.Softmax(rows, axis=-1), b.Shape(total))


@body("BiasSplitGelu")
def bias_split_gelu(b, x, bias):
    left, right = b.Split(b.Add(x, bias), outputs=2, axis=-1, **({"num_outputs": 2} if b.opset >= 18 else {}))
    return b.Mul(left, gelu(b, right))


def activated(b: Builder, x: Value, kind: str | None, parameters: Sequence[float | None]) -> Value:
    """An activation by its name; None is none."""
    if not kind:
        return x
    if kind == "Clip":
        low, high = [*parameters, None, None][:2]
        return b.Clip(x, min=low, max=high)
    spec = schema(kind, "", b.opset)
    if spec is None or kind not in ELEMENTWISE:
        raise Decline(f"{kind} is not an activation that is fused")
    attrs = {name: p for name, p in zip(sorted(spec.attributes), parameters, strict=False) if p is not None}
    make: Callable[..., Value] = getattr(b, kind)
    return make(x, **attrs)


CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
POOL = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides")


def attributes(b: Builder, names: Sequence[str]) -> dict[str, object]:
    """Those of the root's attributes that are given."""
    return {name: b.root.attrs[name] for name in names if name in b.root.attrs}


@body("FusedConv")
def fused_conv(b, x, w, bias, added):
    y = b.node("Conv", [x, w, bias], 1, "", attributes(b, CONV))
    return activated(b, plus(b, y, added), b.root.attr("activation"), b.root.attr("activation_params") or ())


def first(b: Builder, x: Value) -> Value:
    """A tensor whose channels are last, with its channels after the batch."""
    rank = b.known_rank(x)
    return b.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)])


def last(b: Builder, x: Value, rank: int) -> Value:
    """A tensor whose channels are after the batch, with its channels last."""
    return b.Transpose(x, perm=[0, *range(2, rank), 1])


@body("NhwcConv")
def nhwc_conv(b, x, w, bias):
    """The channels are last in the filters, too: so ONNX Runtime's own optimizer writes it."""
    y = b.node("Conv", [first(b, x), first(b, w), bias], 1, "", attributes(b, CONV))
    return last(b, y, b.known_rank(x))


@body("NhwcFusedConv")
def nhwc_fused_conv(b, x, w, bias, added):
    """The filters are those of ONNX's Conv; what is added has its channels last."""
    y = b.node("Conv", [first(b, x), w, bias], 1, "", attributes(b, CONV))
    y = plus(b, last(b, y, b.known_rank(x)), added)
    return activated(b, y, b.root.attr("activation"), b.root.attr("activation_params") or ())


@body("NhwcMaxPool")
def nhwc_max_pool(b, x):
    y = b.node("MaxPool", [first(b, x)], 1, "", attributes(b, [n for n in POOL if n != "count_include_pad"]))
    return last(b, y, b.known_rank(x))


@body("Trilu")
def trilu(b: Builder) -> Result:
    require(b.opset >= 14, "ONNX has Trilu from opset 14 on")
    return b.node("Trilu", b.root.inputs, 1, "", b.root.attrs)


@body("ExpandDims")
def expand_dims(b, x, axis):
    where = int(known(b, axis, "axis").reshape(()))
    return b.Unsqueeze(x, axes=[where if where >= 0 or b.opset >= 11 else where + b.known_rank(x) + 1])


@body("CDist")
def distances(b, one, other):
    """|a|^2 - 2 a b' + |b|^2 loses digits where two rows are close: the differences themselves are squared."""
    difference = b.Sub(b.Unsqueeze(one, axes=[1]), b.Unsqueeze(other, axes=[0]))
    squared = b.ReduceSum(b.Mul(difference, difference), axes=[2], keepdims=0)
    metric = b.root.attrs.get("metric", "sqeuclidean")
    require(metric in ("euclidean", "sqeuclidean"), f"{metric} is not a metric of its definition")
    return b.Sqrt(squared) if metric == "euclidean" else squared


LARGEST = 8  # rows


@body("Inverse")
def inverse(b, x):
    size = b.static_size(x, -1)
    require(1 <= size <= LARGEST, f"the matrices have {size} rows; up to {LARGEST} are written out")
    a = b.wide(x)
    one = b.Expand(b.constant(np.eye(size), TensorProto.FLOAT), b.Shape(a))
    return b.typed(_substituted(b, _tops(b, b.Concat(a, one, axis=-1), size), size), b.dtype(x))


def _tops(b: Builder, left: Value, size: int) -> list[Value]:
    """The rows of the matrix and of what it is solved for, each without the numbers before its own."""
    tops = []
    for rows in range(size, 1, -1):
        _, top, others = pivoted(b, left, rows)
        tops.append(top)
        _, left = without_first(b, top, others, rows + size)
    return [*tops, left]


def _substituted(b: Builder, tops: list[Value], size: int) -> Value:
    """The solution, from the last row up."""
    solved: Value | None = None
    for count, top in enumerate(reversed(tops)):
        right = part(b, top, -1, count + 1, count + 1 + size)
        if solved is not None:
            right = b.Sub(right, b.MatMul(part(b, top, -1, 1, count + 1), solved))
        row = b.Mul(right, b.Reciprocal(part(b, top, -1, 0, 1)))
        solved = row if solved is None else b.Concat(row, solved, axis=-2)
    assert solved is not None
    return solved
