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

import numpy as np
from onnx import TensorProto

from surgeon import ANY, Builder, Stage, Value, attr, const, op, require, rule, var
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


def _all(array: np.ndarray | int | None, wanted: int) -> bool:
    return array is not None and bool((np.asarray(array) == wanted).all())


@rule(op.Identity(x), stage=Stage.CLEAN)
def identity(b, x):
    require(not b.target.has(looped_input) or not keeps_name(b.root), "it keeps the name of an input of the model")
    return _returns(b, x)


of_one = op.Concat(x) | op.Sum(x) | op.Max(x) | op.Min(x) | op.Mean(x) | op.Clip(x)


@rule(op.Neg(op.Neg(x)) | op.Expand(x, op.Shape(x)) | of_one, stage=Stage.CLEAN)
def nothing(b, x):
    return _returns(b, x)


@rule(op.Abs(op.Neg(x) | op.Abs(x)) | op.Relu(op.Relu(x)), stage=Stage.CLEAN)
def twice(b, x):
    return b.again([x])


@rule(op.Dropout(x, ...), stage=Stage.CLEAN)
def dropout(b, x):
    training = b.root.input_at(2)
    require(training is None or _all(b.value(training), 0), "it may be in training mode")
    return _returns(b, x)


@rule(op.Cast(x, to=attr("to")), stage=Stage.CLEAN)
def cast(b, x, to):
    require(b.dtype(x) == to)
    return _returns(b, x)


@rule(op.CastLike(x, like), stage=Stage.CLEAN)
def cast_like(b, x, like):
    require(b.dtype(x) and b.dtype(x) == b.dtype(like))
    return _returns(b, x)


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


@rule(op.Pad(x, const("pads"), ...), stage=Stage.CLEAN)
def pad(b, x, pads):
    require(_all(pads, 0))
    return _returns(b, x)


@rule(op.Tile(x, const("repeats")), stage=Stage.CLEAN)
def tile(b, x, repeats):
    require(_all(repeats, 1))
    return _returns(b, x)


@rule(op.Split(x, ...), stage=Stage.CLEAN)
def split(b, x):
    require(len(b.root.outputs) == 1)
    return _returns(b, x)
