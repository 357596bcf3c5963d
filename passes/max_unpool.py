"""Write MaxUnpool as a ScatterElements into zeros.

Why       No TensorRT imports MaxUnpool. SegNet and DeconvNet have it.
Rewrites  MaxUnpool(x, indices)  ->  ScatterElements(zeros, indices, x) in one dimension, in the shape of the output
Exact     Bit for bit.
Price     [1,64,56,56] by 2 x 2, ONNX Runtime on one thread: 4 nodes, 0.84 ms next to 0.25 of its own MaxUnpool;
          23 nodes, 0.94 ms where sizes are not static.

An output_shape other than the one that kernel, strides and pads give is left alone, unless it is that of the tensor
whose MaxPool returns the indices: ONNX counts these in the one, ONNX Runtime and PyTorch in the other.
"""

from collections.abc import Sequence

import numpy as np

from surgeon import Builder, Value, op, require, rule
from surgeon.targets.conditions.windows import per_axis

from ._shapes import input_of, product_of, size, vector_of


@rule(op.MaxUnpool("x", "indices", ...), strategy="decompose")
def decompose(b, x, indices):
    node, shape = b.root, b.known_shape(x)
    rank = len(shape) - 2
    pooled = _pooled(b, indices)
    if pooled is not None:
        return _scattered(b, x, indices, [size(b, pooled, axis) for axis in range(rank + 2)])
    pads, kernel, strides = node.attr("pads") or [0] * 2 * rank, node.attr("kernel_shape"), per_axis(node, "strides", 1)
    if not all(isinstance(d, int) for d in shape[1:]):
        require(len(node.inputs) < 3, "its sizes are not static, and it has an output_shape")
        return _of_any_size(b, x, indices, [kernel[a] - pads[a] - pads[a + rank] for a in range(rank)], strides)
    sizes = [(shape[a + 2] - 1) * strides[a] - pads[a] - pads[a + rank] + kernel[a] for a in range(rank)]
    batch = shape[0] if isinstance(shape[0], int) else -1
    whole = np.asarray([batch, shape[1], *sizes], np.int64)
    asked = node.input_at(2)
    same = asked is None or np.array_equal(b.value(asked), whole)
    require(same, "its output_shape is not what its kernel, strides and pads give")
    zeros = b.constant(np.zeros(int(abs(whole.prod()))), b.dtype(x))
    if batch < 0:  # as many as one sample has, for each of them
        zeros = b.Tile(zeros, b.Slice(b.Shape(x), [0], [1], [0]))
    return b.Reshape(b.ScatterElements(zeros, b.Reshape(indices, [-1]), b.Reshape(x, [-1]), axis=0), whole)


def _of_any_size(b: Builder, x: Value, indices: Value, more: Sequence[int], strides: Sequence[int]) -> Value:
    """The same where sizes are not static: each spatial one becomes (size - 1) * stride and some more."""
    whole = [size(b, x, axis) for axis in range(len(more) + 2)]
    for axis, (behind, stride) in enumerate(zip(more, strides, strict=True), 2):
        number = whole[axis]
        if isinstance(number, int):
            whole[axis] = (number - 1) * stride + behind
        else:
            whole[axis] = b.Add(b.Mul(number, stride), behind - stride)
    return _scattered(b, x, indices, whole)


def _pooled(b: Builder, indices: Value) -> Value | None:
    """What was pooled, where the output gets its shape back: that is what its indices count in."""
    pool, asked = indices.producer, b.root.input_at(2)
    if asked is None or pool is None or pool.key != "MaxPool":
        return None
    source, sizes = input_of(pool), asked.producer
    if sizes is not None and sizes.key == "Shape" and sizes.inputs[0] is source:
        return source
    known, shape = b.value(asked), b.shape(source)
    return source if known is not None and shape == tuple(known.reshape(-1).tolist()) else None


def _scattered(b: Builder, x: Value, indices: Value, whole: Sequence[int | Value]) -> Value:
    """What was pooled at its indices, in a tensor of those sizes."""
    zeros = b.Expand(b.constant(np.zeros(1), b.dtype(x)), vector_of(b, [product_of(b, whole)]))
    y: Value = b.ScatterElements(zeros, b.Reshape(indices, [-1]), b.Reshape(x, [-1]), axis=0)
    return b.Reshape(y, vector_of(b, whole))
