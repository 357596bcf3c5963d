"""Take the smallest numbers as the largest of their negatives.

Why       Up to 8.4 TensorRT does not read `largest` of TopK: it returns the largest, silently wrong. torch.topk with
          largest=False and torch.sort export it: nearest neighbours, k-means, routing.
Rewrites  values, indices = TopK<largest = 0>(x, k)  ->  indices of TopK(-x, k), values = GatherElements(x, indices);
          of integers TopK(-1 - x, k)
Exact     Bit for bit; NaN is the largest of all, as in ONNX Runtime.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Stage, op, require, rule, var
from surgeon.ir.graph import Value

from ._types import FLOATS

INTEGERS = (TensorProto.INT32, TensorProto.INT64)

x = var("x")


@rule(op.TopK(x, ..., largest=0), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x):
    require(b.dtype(x) in (*FLOATS, *INTEGERS), "the order of its type is not turned round by arithmetic")
    attrs = {name: v for name, v in b.root.attrs.items() if name != "largest"}
    _, indices = b.TopK(_turned(b, x), b.root.inputs[1], outputs=2, **attrs)
    values = b.root.outputs[0]
    if values is None or not (values.users or values.is_output):
        return None, indices
    return b.GatherElements(x, indices, axis=b.root.attr("axis")), indices


def _turned(b: Builder, x: Value) -> Value:
    """Numbers in the other order: of integers each has a counterpart, the lowest too; NaN is the largest of all."""
    dtype = b.dtype(x)
    if dtype in INTEGERS:
        made: Value = b.Sub(-1, x)
        return made
    lowest = b.constant(np.asarray(-np.inf), dtype)
    negated: Value = b.Where(b.Equal(x, x), b.Neg(x), lowest)
    return negated
