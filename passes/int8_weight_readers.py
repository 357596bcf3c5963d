"""Move DequantizeLinear to the int8 weights, before what else reads them.

Why       TensorRT-RTX reads int8 weights by DequantizeLinear alone. Exporters transpose them before, look rows of a
          table up before, or write a Cast and a Mul in its place.
Rewrites  DequantizeLinear(Transpose(weights))    ->  DequantizeLinear(transposed weights), and of what else is computed
          DequantizeLinear(Gather(weights, rows)) ->  Gather(DequantizeLinear(weights), rows)
          Cast<float>(Gather(weights, rows))      ->  Gather(DequantizeLinear(weights, scale 1), rows)
          Cast<float>(weights)                    ->  DequantizeLinear(weights, scale 1)
          any other reader of weights             ->  the same, of Cast<int8>(DequantizeLinear(weights, scale 1))
          Pad(x, by a number of int8)              ->  Cast<int8>(Pad(Cast<float>(x), by the number))
          For TensorRT 8.4, whose parser crashes on int8 weights:
          DequantizeLinear(weights, scale, zeros)  ->  DequantizeLinear(QuantizeLinear(weights * scale))
Exact     Bit for bit.
Kept      For 8.4 zero points other than 0, weights that quantizing would not give back, and what others read.
Price     A table that is looked up as integers is read in fp32: four times the bytes, once more at each run.
          128 rows of [2000,768]: 0.18 ms in ONNX Runtime on one thread next to 0.02.
"""

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Editor, Node, Stage, Value, const, model_rule, op, require, require_some, rule, var
from surgeon.targets.unsupported import Kind

from ._copy import again
from ._shapes import input_of

FORMERLY = "int8-weights"

INT8, FLOAT = TensorProto.INT8, TensorProto.FLOAT

x, scale, zero, table, rows = (var(name) for name in ("x", "scale", "zero", "table", "rows"))
weights, steps = const("weights", dtype=INT8), const("steps", dtype=FLOAT)


@rule(op.DequantizeLinear(x, scale, zero | None))
def computed(b, x, scale, zero=None):
    require(x.producer is not None and _refused(b, x.producer))
    return b.again([b.constant(require_some(b.value(x))), scale, zero])


@rule(op.DequantizeLinear(op.Gather(table, rows), scale, zero | None))
def looked_up(b, table, rows, scale, zero=None):
    gather = _refused_gather(b, table)
    attrs = {} if b.shape(scale) in ((), (1,)) else {"axis": _axis_of_table(b, gather, rows)}
    numbers = b.node("DequantizeLinear", [table, scale, zero], 1, "", attrs)
    return b.Gather(numbers, rows, axis=gather.attr("axis"))


@rule(op.Cast(op.Gather(table, rows), to=FLOAT))
def cast(b, table, rows):
    gather = _refused_gather(b, table)
    numbers = b.DequantizeLinear(table, np.float32(1), np.int8(0))
    return b.Gather(numbers, rows, axis=gather.attr("axis"))


@rule(op.Cast(table, to=FLOAT))
def cast_at_once(b, table):
    require(_refused(b, b.root) and b.value(table) is not None)
    return b.DequantizeLinear(table, np.float32(1), np.int8(0))


@model_rule(stage=Stage.FUSE)
def read_elsewhere(editor):
    constants = (v for node in editor.nodes(lambda key: key == "Constant") for v in node.outputs if v is not None)
    types = {dtype for scope in editor.model.scopes for dtype, _ in scope.kinds_of_tensors}
    if INT8 not in types and not any(_is_int8_constant(editor, v) for v in constants):
        return
    for node in list(editor.nodes(lambda key: key not in ("Constant", "DequantizeLinear"))):
        held = [v for v in node.inputs if node.alive and v is not None and _is_int8_constant(editor, v)]
        if held and not editor.excluded(node) and _is_mistyped(editor, node):
            _in_floats(editor, node, held)


def _in_floats(editor: Editor, node: Node, held: list[Value]) -> None:
    """Have a node read its weights as integers of fp32."""
    b = editor.builder(node)
    numbers = [b.DequantizeLinear(_as_vector(b, v), np.float32(1), np.int8(0)) for v in held]
    if any(editor.why_unsupported(n.producer) is not None for n in numbers):
        b.undo()
        return
    floats = [n if b.rank(v) else b.Squeeze(n, axes=[0]) for v, n in zip(held, numbers, strict=True)]
    wholes = dict(zip(held, (b.Cast(n, to=INT8) for n in floats), strict=True))
    editor.replace(node, again(b, node, wholes), b)


def _as_vector(b: Builder, constant: Value) -> Value:
    """A constant; a single number as a vector of one, since the target builds no dequantized single number."""
    if b.rank(constant):
        return constant
    known = b.value(constant)
    assert known is not None
    return b.constant(known.reshape(1))


@rule(op.Pad(var("x", dtype=INT8), ...))
def padded(b, x):
    """By a number of int8: it is stored in fp32, which holds it."""
    require(_refused(b, b.root) and b.opset >= 11)
    _, pads, *rest = b.root.inputs
    number, axes = (rest + [None])[0], rest[1:]
    by = require_some(None if number is None else b.value(number))
    wide = [b.Cast(x, to=FLOAT), pads, b.constant(by, FLOAT), *axes]
    return b.Cast(b.again(wide), to=INT8)


@rule(op.DequantizeLinear(weights, steps, const("zeros")), strategy="decompose")
def quantized(b, weights, steps, zeros):
    require(not zeros.any())
    along = [1] * weights.ndim
    if steps.size > 1:
        require(-weights.ndim <= b.root.attr("axis") < weights.ndim, "its weights have no such axis")
        along[b.root.attr("axis")] = steps.size
    require(steps.size == 1 or steps.size == weights.shape[b.root.attr("axis")], "its scales do not fit its weights")
    steps = steps.reshape(along)
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = weights.astype(np.float32) * steps
        again = np.rint(numbers / steps)
    require(np.array_equal(again, weights), "quantizing does not give its weights back")
    _, scale, zero = b.root.inputs
    attrs = b.root.attrs if steps.size == 1 else {**b.root.attrs, "axis": b.root.attr("axis")}
    written = b.node("QuantizeLinear", [b.constant(numbers), scale, zero], 1, "", attrs)
    y = b.node("DequantizeLinear", [written, scale, zero], 1, "", attrs)
    # else it is refused for something else
    require(not any(b.why_unsupported(made.producer) is not None for made in (written, y)))
    return y


def _refused_gather(b: Builder, table: Value) -> Node:
    """The Gather before the root, which the target refuses; declines where there is none."""
    gather = require_some(input_of(b.root).producer)
    require(_refused(b, gather) and b.value(table) is not None)
    return gather


def _refused(b: Builder, node: Node) -> bool:
    """Whether a node reads int8 weights, and the target does not support that."""
    held = any(v is not None and b.dtype(v) == INT8 for v in node.inputs)
    return held and node.key != "Constant" and _is_mistyped(b, node)


def _is_mistyped(at: Builder | Editor, node: Node) -> bool:
    """Whether the target does not support the types of a node, and has nothing else against it."""
    why = at.target.why_unsupported(node)
    return why is not None and why.kind is Kind.TYPE


def _is_int8_constant(editor: Editor, value: Value) -> bool:
    """Whether a tensor is weights of int8 that are in the file."""
    held = value.tensor is not None or (value.producer is not None and value.producer.key == "Constant")
    return held and editor.model.dtype(value) == INT8


def _axis_of_table(b: Builder, gather: Node, rows: Value) -> int:
    """The axis of the table along which the scales are; a Gather looks them up too."""
    rank, count = b.known_rank(input_of(b.root)), b.known_rank(rows)
    axis, along = b.root.attr("axis") % rank, gather.attr("axis") % (rank - count + 1)
    require(not along <= axis < along + count, "it has a scale for each row that is looked up")
    return axis if axis < along else axis - count + 1
