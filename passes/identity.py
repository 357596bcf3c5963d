"""Remove nodes that return their input.

Why       Identity before weights (TorchScript since 2.0), Dropout at inference, an Expand to the shape that a tensor
          has and the like hide constants and spellings from every later pass, and older TensorRT parsers want weights,
          not tensors.
Rewrites  Identity(x)   Dropout(x) at inference   Cast and CastLike to the type of x   Transpose that keeps the order
          Expand, Reshape, Flatten, Squeeze, Unsqueeze, Slice to the shape of x   Pad by 0   Tile by 1
          Clip without bounds   Concat, Sum, Max, Min, Mean of one tensor   Split into one
          Squeeze(Unsqueeze(x))   Neg(Neg(x))                                                         ->   x
          Abs(Neg(x))   Abs(Abs(x))                                                                   ->   Abs(x)
          Relu(Relu(x))                                                                               ->   Relu(x)
          Cast(Cast(x)) where the first cast loses nothing                                            ->   Cast(x), or x
Exact     Bit for bit. Shapes must be proved equal: by number, or by the same symbol in every dimension but one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import ANY, Builder, Pattern, Stage, Value, attr, const, op, require, rewrites, rule, var
from surgeon.rules.rule import Rule
from surgeon.targets.conditions.control_flow import is_number, numbered_rows
from surgeon.targets.conditions.names import keeps_name, looped_input

from ._shapes import output_of, same_shape, same_shape_when_empty

x, like = var("x"), var("like")

# Casts after which the old value can be had back.
EXACT: dict[int, set[int]] = {
    TensorProto.DataType.Value(narrow): {TensorProto.DataType.Value(wide) for wide in wider.split()}
    for narrow, wider in {
        "BOOL": "INT8 UINT8 INT16 INT32 INT64 FLOAT16 FLOAT DOUBLE",
        "INT8": "INT16 INT32 INT64 FLOAT16 FLOAT DOUBLE",
        "UINT8": "INT16 INT32 INT64 FLOAT16 FLOAT DOUBLE",
        "INT16": "INT32 INT64 FLOAT DOUBLE",
        "INT32": "INT64 DOUBLE",
        "FLOAT16": "FLOAT DOUBLE",
        "BFLOAT16": "FLOAT DOUBLE",
        "FLOAT": "DOUBLE",
    }.items()
}
END = 2**31 - 1  # exporters write a slice "to the end" as this number or a larger one


def _returns(b: Builder, x: Value) -> Value:
    """`x` in place of the root's first output, whose name no graph output needs."""
    require(not output_of(b.root).is_output, "it names an output of the graph")
    return x


def _same(pattern: Pattern, holds: Callable[..., Any], why: str = "") -> Rule:
    """x in place of the root where `holds` is true of the builder and of what the pattern binds."""

    def body(b: Builder, x: Value, **found: Any) -> Value:
        require(holds(b, x, **found), why)
        return _returns(b, x)

    return rewrites(pattern, body, stage=Stage.CLEAN)


def _all(array: np.ndarray | int | None, wanted: int) -> bool:
    return array is not None and bool((np.asarray(array) == wanted).all())


def _may_be_named(b: Builder, x: Value) -> bool:
    return not b.target.has(looped_input) or not keeps_name(b.root)


def _is_inference(b: Builder, x: Value) -> bool:
    training = b.root.input_at(2)
    return training is None or _all(b.value(training), 0)


of_one = op.Concat(x) | op.Sum(x) | op.Max(x) | op.Min(x) | op.Mean(x) | op.Clip(x)

identity = _same(op.Identity(x), _may_be_named, "it keeps the name of an input of the model")
nothing = rewrites(op.Neg(op.Neg(x)) | op.Expand(x, op.Shape(x)) | of_one, _returns, stage=Stage.CLEAN)
twice = rewrites(op.Abs(op.Neg(x) | op.Abs(x)) | op.Relu(op.Relu(x)), lambda b, x: b.again([x]), stage=Stage.CLEAN)
dropout = _same(op.Dropout(x, ...), _is_inference, "it may be in training mode")
cast = _same(op.Cast(x, to=attr("to")), lambda b, x, to: b.dtype(x) == to)
cast_like = _same(op.CastLike(x, like), lambda b, x, like: b.dtype(x) and b.dtype(x) == b.dtype(like))
pad = _same(op.Pad(x, const("pads"), ...), lambda b, x, pads: _all(pads, 0))
tile = _same(op.Tile(x, const("repeats")), lambda b, x, repeats: _all(repeats, 1))
split = _same(op.Split(x, ...), lambda b, x: len(b.root.outputs) == 1)


@rule(op.Cast(op.Cast(x, to=attr("first")), to=attr("to")), stage=Stage.CLEAN)
def double_cast(b, x, first, to):
    require(first in EXACT.get(b.dtype(x), ()))
    return _returns(b, x) if b.dtype(x) == to else b.Cast(x, to=to)


@rule(op.Transpose(x, perm=attr("perm")), stage=Stage.CLEAN)
def transpose(b, x, perm):
    require(perm is not None and list(perm) == list(range(len(perm))))
    return _returns(b, x)


@rule(op.Reshape(x, ...) | op.Flatten(x) | op.Squeeze(x, ...) | op.Unsqueeze(x, ...), stage=Stage.CLEAN)
def reshape(b, x):
    require(same_shape(b, b.root.outputs[0], x))
    equal = b.root.op != "Reshape" or same_shape_when_empty(b, b.root)
    require(equal, "without elements its last size may be another one")
    has_dimension = b.target.has(numbered_rows) and is_number(x)
    require(not has_dimension, "the number of an iteration has a dimension in this parser")
    return _returns(b, x)


@rule(op.Squeeze(op.Unsqueeze(x, const("axes")), const("back")), stage=Stage.CLEAN)
def unsqueeze_squeeze(b, x, axes, back):
    rank = b.rank(x)
    axes, back = axes.reshape(-1), back.reshape(-1)
    if rank is not None:
        axes, back = axes % (rank + axes.size), back % (rank + axes.size)
    require(sorted(axes.tolist()) == sorted(back.tolist()) and not (rank is None and (axes < 0).any()))
    return _returns(b, x)


@rule(op.Expand(x, ANY), stage=Stage.CLEAN)
def expand(b, x):
    before, after, target = b.shape(x), b.shape(b.root.outputs[0]), b.value(b.root.inputs[1])
    ones = target is not None and before is not None and target.size <= len(before) and _all(target, 1)
    require(not (not ones and (before is None or before != after or None in before)))
    return _returns(b, x)


@rule(op.Slice(x, const("starts"), const("ends"), ...), stage=Stage.CLEAN)
def slice_all(b, x, starts, ends):
    given = b.root.input_at(4)
    steps = 1 if given is None else b.value(given)
    before, after = b.shape(x), b.shape(b.root.outputs[0])
    same = before is not None and before == after and all(isinstance(d, int) for d in before)
    whole = same or (_all(starts, 0) and (ends >= END).all())
    require(whole and _all(steps, 1))
    return _returns(b, x)
