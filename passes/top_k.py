"""Write a TopK and an ArgMax that the target refuses or misreads with operators that it supports.

Why       Up to 8.4 TensorRT does not read `largest` of TopK: it returns the largest, silently wrong. torch.topk with
          largest=False and torch.sort export it: nearest neighbours, k-means, routing.
          No TensorRT supports a K above 3,840, which sorting exports, and none up to 8.5 integers.
Rewrites  values, indices = TopK<largest = 0>(x, k)  ->  indices of TopK(-x, k), values = GatherElements(x, indices)
          TopK with K above 3,840, or of integers up to 8.5  ->  how many elements come before each one, in blocks;
          ScatterElements puts each element's position there, Slice takes K of them, GatherElements the values
          ArgMax of integers up to 8.5               ->  ArgMax(x = ReduceMax(x))
Exact     Bit for bit; NaN is the largest of all, as in ONNX Runtime.
Price     Every element is compared with every other, up to 16,384 of them along the axis: [1,8400] with K = 5,000
          takes 89 nodes and 496 ms in ONNX Runtime on a loaded machine, whose own TopK takes 0.4 ms.
"""

import math
from functools import reduce

import numpy as np
from onnx import TensorProto

from surgeon import FLOATS, Builder, Decline, Value, op, require, require_some, rule, var
from surgeon.targets.conditions.reductions import top_k

INTEGERS = (TensorProto.INT32, TensorProto.INT64)
BLOCK = 1024  # how many elements each one is compared with at once
LARGEST = 16_384  # elements along the axis

x, integers = var("x"), var("x", dtype=INTEGERS)


@rule(op.TopK(x, ...), strategy="decompose")
def decompose(b, x):
    integers = b.dtype(x) in INTEGERS and b.why_unsupported(b.root) is not None
    smallest = not b.root.attr("largest") and b.opset >= 11
    require(integers or top_k.check(b.root) is not None or smallest)
    require(b.dtype(x) in (*FLOATS, *INTEGERS), "the order of its type is not turned round by arithmetic")
    key = _turned(b, x) if smallest else x
    if integers or top_k.check(b.root) is not None:
        indices = _by_rank(b, key)
    else:
        attrs = {name: v for name, v in b.root.attrs.items() if name != "largest"}
        _, indices = b.TopK(key, b.root.inputs[1], outputs=2, **attrs)
    values = b.root.outputs[0]
    if values is None or not values.is_read:
        return None, indices
    return b.GatherElements(x, indices, axis=b.root.attr("axis")), indices


def _turned(b: Builder, x: Value) -> Value:
    """Numbers in the other order: of integers each has a counterpart, the lowest too; NaN is the largest of all."""
    dtype = b.dtype(x)
    if dtype in INTEGERS:
        return b.Sub(-1, x)
    lowest = b.constant(-np.inf, dtype)
    return b.Where(b.Equal(x, x), b.Neg(x), lowest)


def _by_rank(b: Builder, x: Value) -> Value:
    """The positions of the K largest along the axis, the largest first; of equal ones the first."""
    shape = b.known_shape(x)
    rank, axis = len(shape), b.root.attr("axis") % len(shape)
    size = shape[axis]
    k = require_some(b.value(b.root.operands()[1]), "K is computed at run time")
    if not isinstance(size, int) or size > LARGEST:
        raise Decline(f"no size of at most {LARGEST} is sorted")
    require(b.target.imports("ScatterElements"), "the target has no ScatterElements")
    perm = [a for a in range(rank) if a != axis] + [axis]
    row = x if axis == rank - 1 else b.Transpose(x, perm=perm)
    if b.dtype(x) in FLOATS:
        row = b.Where(b.Equal(row, row), row, b.constant(np.inf, b.dtype(x)))
    each = b.Unsqueeze(row, axes=[rank])
    counts = [_before(b, row, each, start, min(BLOCK, size - start)) for start in range(0, size, BLOCK)]
    places = b.Cast(reduce(b.Add, counts), to=TensorProto.INT64)
    positions = b.Add(b.Sub(places, places), np.arange(size))
    order = b.ScatterElements(positions, places, positions, axis=rank - 1)
    ordered = b.Slice(order, [0], [int(k.reshape(-1)[0])], [rank - 1])
    return ordered if axis == rank - 1 else b.Transpose(ordered, perm=np.argsort(perm).tolist())


def _before(b: Builder, row: Value, each: Value, start: int, count: int) -> Value:
    """How many of a block of elements come before each element: the larger ones, and equal ones that are before."""
    rank, size = b.rank(row) or 0, math.prod(d for d in (b.shape(row) or ())[-1:] if isinstance(d, int))
    block = b.Unsqueeze(b.Slice(row, [start], [start + count], [rank - 1]), axes=[rank - 1])
    numbers = np.arange(size, dtype=np.float32)
    stands_before = b.Less(b.constant(numbers[start : start + count]), b.constant(numbers[:, None]))
    first = b.Or(b.Greater(block, each), b.And(b.Equal(block, each), stands_before))
    return b.ReduceSum(b.Cast(first, to=TensorProto.FLOAT), axes=[rank], keepdims=0)


@rule(op.ArgMax(integers) | op.ArgMin(integers), strategy="decompose", cures=True)
def arg_of_integers(b, x):
    axis, extreme = b.root.attr("axis"), "ReduceMax" if b.root.op == "ArgMax" else "ReduceMin"
    found = b.Equal(x, getattr(b, extreme)(x, axes=[axis], keepdims=1))
    return b.ArgMax(b.Cast(found, to=TensorProto.FLOAT), **b.root.attrs)
