"""Compute what can be computed and must be known: shapes, pads, axes, bounds and weights.

Why       TensorRT reads some inputs at build time alone (the axes of a Reduce, the scale of an InstanceNormalization, K
          of TopK), and others decide shapes (Reshape, Pad, Expand). Exporters compute them: TorchScript writes seven
          nodes for the pads of ReflectionPad2d, PyTorch's newer exporter a Reshape before every axes. TensorRT 8.4
          rejects the first, TensorRT-RTX 1.7.1 the second, and no shape after them is known to any other pass.
Rewrites  an input that the target reads as weights, or that decides a shape, or that is the weight of a layer, where it
          follows from constants (or from static shapes)   ->   an initializer with its value
          a node without an importer (Unique, as tf2onnx numbers segments) that follows from constants  ->  its value
          CastLike(constant, x)                            ->   the constant in the type of x
          Cast of one number that follows from constants or static shapes (a count, an exponent), where
          the new type holds it exactly                    ->   the number
Exact     Bit for bit for integers; floats to the rounding of ONNX Runtime, which computes them.

An initializer or a Constant node is left as it is. What is computed may have up to 65,536 elements, or as many as the
constants that it is computed from: no Expand or Tile is ever written out in full. What depends on QuantizeLinear or
DequantizeLinear is left alone: the quantized weight is what the parser wants to see. No value of more than 4,194,304
elements is computed.
"""

import math
from collections.abc import Sequence
from functools import cache

from surgeon import Editor, Node, Stage, Value, const, model_rule, op, require, rule, var
from surgeon.ir.model import Model
from surgeon.ir.operators import OPERATORS

from ._shapes import input_of

SMALL = 65_536  # elements

PRODUCTS = frozenset({"Gemm", "MatMul"})
QUANTIZED = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
# What a node reads as weights, what decides the shape of its results, and which tensor of a sequence it is.
READ = {op: {*row.shape, *row.weights} for op, row in OPERATORS.items()} | {"SequenceAt": {1}}


@rule(op.CastLike(const("array"), var("like")), stage=Stage.CLEAN)
def cast_like(b, array, like):
    require(not b.root.outputs[0].is_output, "it names an output of the graph")
    require(b.dtype(like), "the type that it casts to is not known")
    require(array.size <= SMALL, f"it has {array.size} elements")
    require(not _behind(b.root)[1])
    return b.constant(array, b.dtype(like))


@rule(op.Cast(const("array")), stage=Stage.CLEAN)
def cast_of_one(b, array):
    require(array.size == 1 and array.dtype.kind in "fiu")
    require(not _behind(b.root)[1])
    require(not b.root.outputs[0].is_output, "it names an output of the graph")
    number = b.value(b.root.outputs[0])
    require(number is not None and number.dtype.kind in "fiu")
    require(float(number.reshape(())) == float(array.reshape(())))  # else the cast rounds: a wider evaluation would not
    return b.constant(number)


# All but what a single Shape says: shape inference and the passes read that as it is, and a window that it serves may
# yet go.
fold = model_rule(stage=Stage.CLEAN)(lambda editor: _everywhere(editor, final=False))
what_is_left = model_rule(stage=Stage.LOWER)(lambda editor: _everywhere(editor, final=True))


def _everywhere(editor: Editor, final: bool) -> None:
    target = editor.target
    asked = cache(lambda key: sorted({*target.constant_inputs(key), *READ.get(key, ())}))  # the inputs of an operator
    for node in editor.nodes(asked):
        for position in asked(node.key):
            value = node.inputs[position] if node.alive and position < len(node.inputs) else None
            maker = None if value is None else value.producer
            if value is None or maker is None or maker.key == "Constant" or (maker.key == "Shape" and not final):
                continue
            if editor.excluded(maker) or not editor.model.is_constant(value):
                continue
            if node.key in PRODUCTS and maker.key == "Transpose" and input_of(maker).tensor is not None:
                continue  # a transposed weight is as good as a weight to them
            _fold(editor, maker)


@model_rule(stage=Stage.CLEAN)
def unknown(editor):
    """What the target has no importer for."""
    for node in editor.nodes(lambda key: key != "Constant" and not editor.target.imports(key)):
        read = [o for o in node.outputs if o is not None and o.is_read]
        if node.alive and read and not editor.excluded(node) and all(map(editor.model.is_constant, read)):
            _fold(editor, node)


def _fold(editor: Editor, node: Node) -> None:
    """Put constants in place of the node's outputs, unless there is a reason against it."""
    read = [o for o in node.outputs if o is not None and o.is_read]
    why = _why_not(editor.model, node, read)
    if why:
        editor.decline(node, why)
        return
    builder = editor.builder(node)
    made = [builder.constant(editor.model.constant(o)) if o in read else None for o in node.outputs]
    editor.replace(node, made, builder)


def _why_not(model: Model, node: Node, read: Sequence[Value]) -> str:
    """Why the outputs that are read must stay computed; empty where they need not."""
    largest, quantized = _behind(node)
    if quantized:
        return "its value depends on quantization"
    for out in read:
        if out.is_output:
            return f"'{out.name}' is an output of the graph"
        array = model.constant(out)
        if array is None:
            return f"the value of '{out.name}' is too large to compute, or ONNX Runtime cannot compute it"
        if array.size > max(SMALL, largest):
            return f"'{out.name}' has {array.size} elements, computed from {largest}"
    return ""


def _behind(node: Node) -> tuple[int, bool]:
    """(elements of the constants that a node is computed from, whether one of the nodes is a quantization)."""
    elements, quantized, todo = 0, False, [node]
    seen: set[Node] = set()
    while todo:
        n = todo.pop()
        if n in seen:
            continue
        seen.add(n)
        quantized |= n.key in QUANTIZED
        for value in n.inputs:
            if value is None:
                continue
            if value.tensor is not None:
                elements += math.prod(value.tensor.dims)
            elif value.producer is not None and n.key not in ("Shape", "Size"):
                todo.append(value.producer)
    return elements, quantized
