"""Respell a node that the target's parser refuses or misreads in one spelling and reads right in another.

Why       Each of these is a peculiarity of some parser, at every opset: no parser reads the layout of LSTM, none takes
          an Einsum with capital letters, 7.0 to 8.4 read the kernel_shape of a Conv with dequantized weights from the
          attribute alone, 7.0 to 10.1 take an output that is left out for an input that is, 8.0 to 10.1 quantize along
          axis 0 where ONNX's axis 1 is left out, 8.4 dies of an input that is left out by an empty name at the end,
          10.0 to 10.8 refuse a ScatterND that says that it has no reduction.
          TensorRT-RTX 1.7.1 refuses such an empty name, too, and a Softmax and an ArgMax of one dimension, a vector by
          a batch of matrices, and a Reduce of a number without dimensions.
Rewrites  LSTM, GRU and RNN with layout 1         ->  with layout 0, between Transposes
          Einsum with capital letters             ->  Einsum with lower-case ones
          ReduceMax and ReduceMin of bool         ->  of int32, between Casts
          a Reduce with noop_with_empty_axes and no axes  ->  Abs(x), Mul(x, x), Log(x) or x
          Softmax, LogSoftmax and Hardmax of one dimension  ->  of two, between Unsqueeze and Squeeze
          ArgMax and ArgMin of one dimension      ->  of two, between Unsqueeze and Squeeze
          MatMul of a vector by a batch           ->  of a matrix of one row, between Unsqueeze and Squeeze
          a Reduce of a number without dimensions ->  Abs(x), Mul(x, x), Log(x) or x
          GridSample<mode = "linear">             ->  GridSample, whose default that is
          ScatterND<reduction = "none">           ->  ScatterND
          CastLike(x, like)                       ->  Cast(x)
          Conv, and ConvTranspose in 8.0, of dequantized weights, without kernel_shape  ->  with it
          QuantizeLinear and DequantizeLinear with several scales, without axis  ->  with axis 1
          Slice, Conv and others with an empty name as last input  ->  without it
          LSTM, GRU and RNN with an output that is left out        ->  with all of them
Exact     Bit for bit.
Price     ONNX Runtime on one thread: Softmax of [1000] 3 nodes, 0.006 ms next to 0.005; ReduceMax of bool, [64,512], 3
          nodes, 0.02 next to 0.03. LSTM with layout 1, 256 units, [8,32,256]: 5 nodes, 2.6; ONNX Runtime has no kernel
          of that layout.
"""

from string import ascii_lowercase
from typing import Any

from onnx import TensorProto

from surgeon import Builder, Stage, attr, no_match, op, require, rule, var
from surgeon.ir.graph import Value
from surgeon.targets.conditions.convolutions import kernel_shape_of_dequantized
from surgeon.targets.conditions.inputs import unnamed_output
from surgeon.targets.conditions.ranks import vector_by_batch

from ._reading import trimmed
from ._reduction import over_nothing

x, like, weights = var("x"), var("like"), var("weights")


@rule(op.LSTM(..., layout=1) | op.GRU(..., layout=1) | op.RNN(..., layout=1), stage=Stage.LOWER, strategy="decompose")
def recurrent(b):
    """Batch and time change places in x, in the initial states and in every output."""
    root = b.root
    inputs = [b.Transpose(v, perm=[1, 0, 2]) if k in (0, 5, 6) and v else v for k, v in enumerate(root.inputs)]
    attrs = {name: value for name, value in root.attrs.items() if name != "layout"}
    made = b.node(root.op, inputs, len(root.outputs), "", attrs)
    made = made if isinstance(made, tuple) else (made,)
    perms = [[2, 0, 1, 3], [1, 0, 2], [1, 0, 2]]
    return tuple(
        None if old is None else b.Transpose(new, perm=perm)
        for old, new, perm in zip(root.outputs, made, perms, strict=False)
    )


@rule(op.Einsum(..., equation=attr("equation")), stage=Stage.LOWER, strategy="decompose")
def einsum(b, equation):
    capitals = sorted({c for c in equation if c.isupper()})
    if not capitals or not b.target.imports("Einsum"):
        no_match()
    require("->" in equation, "where its capital letters stand in the output, which it leaves out, is not defined")
    free = [c for c in ascii_lowercase if c not in equation]
    require(len(free) >= len(capitals), "it has more than 26 letters")
    names = str.maketrans(dict(zip(capitals, free, strict=False)))
    return b.Einsum(*b.root.inputs, equation=equation.translate(names))


@rule(op.ReduceMax(x, ...) | op.ReduceMin(x, ...), stage=Stage.LOWER, strategy="decompose")
def reduce_bool(b, x):
    if b.dtype(x) != TensorProto.BOOL or b.target.lowers_opset:  # of opset 20, above that ceiling
        no_match()
    numbers = b.Cast(x, to=TensorProto.INT32)
    return b.Cast(b.node(b.root.op, [numbers, *b.root.inputs[1:]], 1, "", b.root.attrs), to=TensorProto.BOOL)


@rule(
    op.ReduceL1(x, noop_with_empty_axes=1) | op.ReduceL2(x, noop_with_empty_axes=1)
    | op.ReduceLogSum(x, noop_with_empty_axes=1) | op.ReduceLogSumExp(x, noop_with_empty_axes=1)
    | op.ReduceMax(x, noop_with_empty_axes=1) | op.ReduceMean(x, noop_with_empty_axes=1)
    | op.ReduceMin(x, noop_with_empty_axes=1) | op.ReduceProd(x, noop_with_empty_axes=1)
    | op.ReduceSum(x, noop_with_empty_axes=1) | op.ReduceSumSquare(x, noop_with_empty_axes=1),
    stage=Stage.LOWER,
    strategy="decompose",
)  # fmt: skip
def reduce_nothing(b, x):
    return over_nothing(b, b.root.op, x)


@rule(op.Softmax(x) | op.LogSoftmax(x) | op.Hardmax(x), stage=Stage.LOWER, strategy="decompose")
def softmax(b, x):
    if b.rank(x) != 1 or not b.target.imports(b.root.op):
        no_match()
    return b.Squeeze(b.node(b.root.op, [b.Unsqueeze(x, axes=[0])], 1, "", {"axis": 1}), axes=[0])


@rule(op.ArgMax(x) | op.ArgMin(x), stage=Stage.LOWER, strategy="decompose")
def arg_of_vector(b, x):
    if b.rank(x) != 1:
        no_match()
    attrs = {**b.root.attrs, "axis": 1}
    return b.Squeeze(b.node(b.root.op, [b.Unsqueeze(x, axes=[0])], 1, "", attrs), axes=[0])


@rule(op.MatMul(x, var("matrices")), stage=Stage.LOWER, strategy="decompose", cures=vector_by_batch)
def vector(b, x, matrices):
    product = b.MatMul(b.Unsqueeze(x, axes=[0]), matrices)
    if b.target.takes(product.producer) is not None:
        no_match()  # nor does the target multiply matrices of that type
    return b.Squeeze(product, axes=[b.rank(matrices) - 2])


@rule(
    op.ReduceL1(x, ...) | op.ReduceL2(x, ...) | op.ReduceLogSum(x, ...) | op.ReduceLogSumExp(x, ...)
    | op.ReduceMax(x, ...) | op.ReduceMean(x, ...) | op.ReduceMin(x, ...) | op.ReduceProd(x, ...)
    | op.ReduceSum(x, ...) | op.ReduceSumSquare(x, ...),
    stage=Stage.LOWER,
    strategy="decompose",
)  # fmt: skip
def reduce_number(b, x):
    if b.rank(x) != 0:
        no_match()
    return over_nothing(b, b.root.op, x)


@rule(op.GridSample(..., mode="linear"), stage=Stage.LOWER, strategy="decompose")
def grid_sample(b):
    if "mode" not in b.root.attrs:
        no_match()
    return b.node("GridSample", b.root.inputs, 1, "", {k: v for k, v in b.root.attrs.items() if k != "mode"})


@rule(op.ScatterND(..., reduction="none"), stage=Stage.LOWER, strategy="decompose")
def scatter_nd(b):
    return b.ScatterND(*b.root.inputs)


@rule(op.CastLike(x, like), stage=Stage.LOWER, strategy="decompose")
def cast_like(b, x, like):
    require(b.dtype(like), "the type that it casts to is not known")
    return b.Cast(x, to=b.dtype(like))


@rule(
    op.Conv(...) | op.Dropout(...) | op.Gemm(...) | op.Slice(...) | op.Split(...) | op.Squeeze(...) | op.Trilu(...),
    stage=Stage.LOWER,
    strategy="decompose",
)
def empty_last(b):
    if b.root.inputs[-1] is not None:
        no_match()
    return b.node(b.root.op, trimmed(b.root.inputs), len(b.root.outputs), "", b.root.attrs)


@rule(
    op.Conv(x, weights, ...) | op.ConvTranspose(x, weights, ...),
    stage=Stage.LOWER,
    strategy="decompose",
    cures=kernel_shape_of_dequantized,
)
def kernel_shape(b, x, weights):
    kernel = (b.shape(weights) or ())[2:]
    if not kernel or not all(isinstance(size, int) for size in kernel):
        no_match()
    return _taken(b, {**b.root.attrs, "kernel_shape": list(kernel)})


@rule(op.QuantizeLinear(...) | op.DequantizeLinear(...), stage=Stage.FUSE)
def quantized_axis(b):
    """Before quantized-arithmetic writes it out."""
    if "axis" in b.root.attrs or b.opset < 13 or b.target.takes(b.root) is None:
        no_match()
    return _taken(b, {**b.root.attrs, "axis": 1})


def _taken(b: Builder, attrs: dict[str, Any]) -> Value:
    """The node with these attributes; not where the target refuses it for something else."""
    made: Value = b.node(b.root.op, b.root.inputs, 1, "", attrs)
    if made.producer is None or b.target.takes(made.producer) is not None:
        no_match()
    return made


@rule(op.GRU(...) | op.LSTM(...) | op.RNN(...), stage=Stage.LOWER, strategy="decompose", cures=unnamed_output)
def named_outputs(b):
    return b.node(b.root.op, b.root.inputs, len(b.root.outputs), "", b.root.attrs)
