"""Respell a node that the target's parser refuses or misreads, so that it reads the node correctly.

Why       Each of these is a peculiarity of some parser: none reads the layout of LSTM, none takes an Einsum with
          capital letters, the default of Trilu's `upper` is not ONNX's, a Constant's number is read from `value` alone,
          the axes that Slice and Squeeze leave out are others. docs/trt-support.md says which releases have it.
Rewrites  the root with other attributes:
          Trilu(x)                                ->  Trilu<upper = 1>(x)
          GridSample<mode = "linear">             ->  GridSample, whose default that is
          ScatterND<reduction = "none">           ->  ScatterND
          Conv, and ConvTranspose in 8.0, of dequantized weights, without kernel_shape  ->  with it
          QuantizeLinear and DequantizeLinear with several scales, without axis  ->  with axis 1
          Einsum with capital letters             ->  Einsum with lower-case ones
          MaxPool, AveragePool and LpPool with ceil_mode and a window that begins in the padding  ->  rounded down,
          with padding after the end where a last window is partly of the input the root with other inputs or outputs:
          Slice(x, starts, ends[, , steps])       ->  Slice(x, starts, ends, [0, 1, ...][, steps])
          Slice(x, starts, ends, axes) of fixed int32  ->  Slice(x, starts, ends, axes, [1, 1, ...])
          Squeeze(x) of sizes that follow from a state of a fixed size  ->  Squeeze(x, axes)
          Reshape(Squeeze(x), shape)              ->  Reshape(x, shape)
          Slice, Conv and others with an empty name as last input  ->  without it
          LSTM, GRU, RNN and others with an output that is left out  ->  with all of them
          Loop(trips, go, ...), go an input of the model  ->  Loop(trips, Identity(go), ...)
          the root in other types or dimensions:
          LSTM, GRU and RNN with layout 1         ->  with layout 0, between Transposes
          ReduceMax and ReduceMin of bool         ->  of int32, between Casts
          Mean of fp16 or bf16                    ->  of fp32, between Casts
          Softmax, LogSoftmax and Hardmax of one dimension  ->  of two, between Unsqueeze and Squeeze
          ArgMax and ArgMin of one dimension      ->  of two, between Unsqueeze and Squeeze
          MatMul of a vector by a batch           ->  of a matrix of one row, between Unsqueeze and Squeeze
          another operator:
          Constant<value_int | value_ints | ...>  ->  an initializer (in a body, a Constant<value>)
          CastLike(x, like)                       ->  Cast(x)
          Flatten(x) of at most two dimensions    ->  Reshape(x, [1, -1] or [-1, 1])
          Flatten or Transpose that changes nothing, of an input of the model  ->  Identity: else the engine calls the
          input by another name
          a Reduce of a number without dimensions, and one with noop_with_empty_axes and no axes  ->  Abs(x), Mul(x, x),
          Log(x) or x
Exact     Bit for bit, but for AveragePool and LpPool, whose sums are to rounding, and Mean, which is rounded once.
Kept      A Squeeze after which the rank depends on the batch: ONNX says that it does. Models of fixed sizes alone. An
          AveragePool that counts its padding, where it would count what is added.
Price     ONNX Runtime on one thread: Softmax of [1000] 3 nodes, 0.006 ms next to 0.005; ReduceMax of bool, [64,512], 3
          nodes, 0.02 next to 0.03. LSTM with layout 1, 256 units, [8,32,256]: 5 nodes, 2.6; ONNX Runtime has no kernel
          of that layout. Two Casts and one for Mean: [1,64,56,56] takes 0.09 ms either way. An Identity: a Loop of 10
          steps over [64] takes 0.006 ms either way. Pooling of [1,64,56,56] takes 0.04 ms either way.
"""

from string import ascii_lowercase
from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import HALVES, Builder, Value, any_of, attr, const, op, require, require_some, rewrites, rule, var
from surgeon.ir.operators import REDUCES
from surgeon.targets.conditions.inputs import unnamed_output
from surgeon.targets.conditions.names import flattened_input, looped_input, transposed_input
from surgeon.targets.conditions.quantization import left_out_axis
from surgeon.targets.conditions.ranks import flattened_matrix, vector_by_batch
from surgeon.targets.conditions.windows import kernel_shape_of_dequantized, pool_axes

from ._arithmetic import in_fp32, over_nothing
from ._node_at_opset import trimmed

x, like, weights, starts, ends = (var(name) for name in ("x", "like", "weights", "starts", "ends"))
vector = var("x", rank=1)

# ---- other attributes ------------------------------------------------------------------------------------------------


trilu = rewrites(op.Trilu(..., upper=1), lambda b: b.again(upper=1), strategy="decompose")


@rule(op.GridSample(..., mode="linear"), strategy="decompose")
def grid_sample(b):
    require("mode" in b.root.attrs)
    return b.again(mode=None)


scatter_nd = rewrites(op.ScatterND(..., reduction="none"), lambda b: b.again(reduction=None), strategy="decompose")


@rule(
    op.Conv(x, weights, ...) | op.ConvTranspose(x, weights, ...),
    strategy="decompose",
    cures=kernel_shape_of_dequantized,
)
def kernel_shape(b, x, weights):
    kernel = (b.shape(weights) or ())[2:]
    require(kernel and all(isinstance(size, int) for size in kernel))
    return _taken(b, kernel_shape=list(kernel))


@rule(op.QuantizeLinear(...) | op.DequantizeLinear(...), cures=left_out_axis)
def quantized_axis(b):
    """Before quantized-arithmetic writes it out."""
    require(b.opset >= 13)
    return _taken(b, axis=1)


def _taken(b: Builder, **attrs: Any) -> Value:
    """The node with these attributes; not where the target refuses it for something else."""
    made: Value = b.again(**attrs)
    require(made.producer is not None and b.why_unsupported(made.producer) is None)
    return made


@rule(op.Einsum(..., equation=attr("equation")), strategy="decompose", targets=lambda target: target.imports("Einsum"))
def einsum(b, equation):
    capitals = sorted({c for c in equation if c.isupper()})
    require(capitals)
    require("->" in equation, "where its capital letters are in the output, which it leaves out, is not defined")
    free = [c for c in ascii_lowercase if c not in equation]
    require(len(free) >= len(capitals), "it has more than 26 letters")
    names = str.maketrans(dict(zip(capitals, free, strict=False)))
    return b.again(equation=equation.translate(names))


@rule(op.MaxPool(x, ceil_mode=1) | op.AveragePool(x, ceil_mode=1) | op.LpPool(x, ceil_mode=1), strategy="decompose")
def pool(b, x):
    """ONNX Runtime, as PyTorch, has no window that begins in the padding after the end. TensorRT has, and its result is
    larger. TensorRT-RTX divides a last window of LpPool by the part of it that is there."""
    axes = require_some(pool_axes(b.root), "with ceil_mode its sizes must be static")
    behind = [max(a.missing, a.behind) if a.windows == a.rounded_up else a.behind for a in axes]
    rounded_down = [(a.size + p - a.window) // a.stride + 1 for a, p in zip(axes, behind, strict=True)]
    require(rounded_down == [a.windows for a in axes], "it pads by a whole window")
    counts = b.root.op == "AveragePool" and b.root.attr("count_include_pad")
    same = not counts or behind == [a.behind for a in axes]
    require(same, "what is padded would count, where a last window is partly beyond it")
    kernels = zip(axes, behind, b.root.attr("kernel_shape"), strict=True)
    require(all(p == a.behind or p < k for a, p, k in kernels), "the padding would be as large as its kernel")
    front = (b.root.attr("pads") or [0] * len(axes))[: len(axes)]
    return b.again(ceil_mode=None, pads=[*front, *behind])


# ---- other inputs or outputs -----------------------------------------------------------------------------------------


@rule(op.Slice(x, starts, ends, ...), strategy="decompose")
def slice_axes(b, x, starts, ends):
    require(len(b.root.inputs) >= 3 and b.root.inputs[-1] is not None)
    axes, steps = [*b.root.inputs[3:], None, None][:2]
    dtype = b.dtype(starts)
    lacks_steps = steps is None and dtype == TensorProto.INT32 and b.value(starts) is not None
    require(axes is None or lacks_steps)
    count = b.static_size(starts, 0)
    if axes is None:
        axes = b.constant(np.arange(count), dtype)
    if lacks_steps:
        steps = b.constant(np.ones(count), dtype)
    return b.Slice(x, starts, ends, axes, steps)


@rule(op.Reshape(op.Squeeze(x), const("shape")))
def squeeze_before_reshape(b, x, shape):
    copies = (shape == 0).any() and not b.root.attr("allowzero")
    require(not copies, "the Reshape copies a size of what is squeezed")
    return b.again([x, b.root.inputs[1]])


@rule(op.Squeeze(x))
def squeeze_axes(b, x):
    """PyTorch's x.squeeze() says no axes. TensorRT fixes the rank when it builds, so it builds no engine for a batch of
    1 where the batch is of any size: the batch would be dropped, too."""
    b.known_rank(x)
    inputs = [info.type.tensor_type for info in b.root.graph.model.proto.graph.input]
    require(not all(t.HasField("shape") and all(d.HasField("dim_value") for d in t.shape.dim) for t in inputs))
    return b.Squeeze(x, axes=[k for k, size in enumerate(b.static(x)) if size == 1])


@rule(
    op.Conv(...) | op.Dropout(...) | op.Gemm(...) | op.Slice(...) | op.Split(...) | op.Squeeze(...) | op.Trilu(...),
    strategy="decompose",
)
def empty_last(b):
    require(b.root.inputs[-1] is None)
    return b.again(trimmed(b.root.inputs))


recurrent_layers = op.GRU(...) | op.LSTM(...) | op.RNN(...)
named_outputs = rewrites(recurrent_layers, lambda b: b.again(), strategy="decompose", cures=unnamed_output)


@rule(op.Loop(...), strategy="decompose", cures=looped_input)
def loop(b):
    """TensorRT's parser gives a tensor the name of whatever passes it on: the condition is called in the engine as the
    body calls it, and a program that binds inputs by name finds none."""
    trips, condition, *state = b.root.inputs
    return b.again([trips, b.Identity(condition), *state])


# ---- other types or dimensions ---------------------------------------------------------------------------------------


@rule(op.LSTM(..., layout=1) | op.GRU(..., layout=1) | op.RNN(..., layout=1), strategy="decompose")
def recurrent(b):
    """Batch and time change places in x, in the initial states and in every output."""
    inputs = [b.Transpose(v, perm=[1, 0, 2]) if k in (0, 5, 6) and v else v for k, v in enumerate(b.root.inputs)]
    made = b.again(inputs, layout=None)
    made = made if isinstance(made, tuple) else (made,)
    perms = [[2, 0, 1, 3], [1, 0, 2], [1, 0, 2]]
    return tuple(
        None if old is None else b.Transpose(new, perm=perm)
        for old, new, perm in zip(b.root.outputs, made, perms, strict=False)
    )


bools = var("x", dtype=TensorProto.BOOL)


@rule(
    op.ReduceMax(bools, ...) | op.ReduceMin(bools, ...),
    strategy="decompose",
    targets=lambda target: not target.lowers_opset,  # of opset 20, above that ceiling
)
def reduce_bool(b, x):
    return b.Cast(b.again([b.Cast(x, to=TensorProto.INT32), *b.root.inputs[1:]]), to=TensorProto.BOOL)


# The parser reads the factor of half precision as fp32: it returns almost 0.
mean_in_fp32 = rewrites(op.Mean(var("x", dtype=HALVES), ...), lambda b, x: in_fp32(b), strategy="decompose")


softmaxes = op.Softmax(vector) | op.LogSoftmax(vector) | op.Hardmax(vector)


@rule(softmaxes | op.ArgMax(vector) | op.ArgMin(vector), strategy="decompose")
def of_vector(b, x):
    require(b.target.imports(b.root.op))
    return b.Squeeze(b.again([b.Unsqueeze(x, axes=[0])], axis=1), axes=[0])


@rule(op.MatMul(x, var("matrices")), strategy="decompose", cures=vector_by_batch)
def product_of_vector(b, x, matrices):
    product = b.MatMul(b.Unsqueeze(x, axes=[0]), matrices)
    require(b.why_unsupported(product.producer) is None)  # else it multiplies no matrices of that type
    return b.Squeeze(product, axes=[b.rank(matrices) - 2])


# ---- another operator ------------------------------------------------------------------------------------------------


@rule(op.Constant(), strategy="decompose", cures=True)
def constant(b):
    """TensorRT 8.0 to 9.1 reads the integers as floats and gets 0 or nothing at all; 7.2 and older look for `value`
    alone. PyTorch's newer exporter writes `value_ints` where its optimiser is off."""
    require(not {"value_string", "value_strings", "sparse_value"} & b.root.attrs.keys(), "it is not a plain tensor")
    return b.constant(b.value(b.root.outputs[0]))


@rule(op.CastLike(x, like), strategy="decompose")
def cast_like(b, x, like):
    require(b.dtype(like), "the type that it casts to is not known")
    return b.Cast(x, to=b.dtype(like))


@rule(op.Flatten(x), strategy="decompose", cures=flattened_matrix)
def flatten(b, x):
    behind = b.root.attr("axis") == b.rank(x) > 0  # every dimension is before the axis
    return b.Reshape(x, [-1, 1] if behind else [1, -1])


unmoved = op.Flatten(x) | op.Transpose(x)
named_input = rewrites(unmoved, op.Identity(x), strategy="decompose", cures=(flattened_input, transposed_input))


reduces = [op[name] for name in sorted(REDUCES)]
reducing_nothing = any_of([r(x, noop_with_empty_axes=1) for r in reduces] + [r(var("x", rank=0), ...) for r in reduces])
reduce_nothing = rewrites(reducing_nothing, lambda b, x: over_nothing(b, b.root.op, x), strategy="decompose")


# What had a pass of its own, by the name of that pass.
FORMERLY = {
    "constant": (constant,),
    "flatten": (flatten, named_input),
    "input-names": (loop, named_input),
    "mean": (mean_in_fp32,),
    "pool": (pool,),
    "slice": (slice_axes,),
    "squeeze-axes": (squeeze_before_reshape, squeeze_axes),
    "trilu": (trilu,),
}
