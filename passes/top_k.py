"""Find the smallest elements where the parser returns the largest.

Why       Up to TensorRT 8.4 the parser does not read TopK's attribute `largest`: a TopK of the smallest elements
          returns the largest ones, without a word.
Decompose TopK<largest = 0>(x, k)  ->  Neg(v), i  with  v, i = TopK<largest = 1>(Neg(Where(IsNaN(x), inf, x)), k)
Exact     Bit for bit: of equal elements the one with the lower index comes first in both, and Neg is exact for floats.
          ONNX Runtime orders NaN above every number: it is among the smallest only where there are too few numbers, and
          is inf then. An integer's smallest value has no negative: integers are left alone.
"""

import numpy as np

from surgeon import Stage, op, require, rule, var

from ._types import FLOATS

x, k = var("x"), var("k")


@rule(op.TopK(x, k, largest=0), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x, k):
    require(b.dtype(x) in FLOATS, "the smallest integer has no negative")
    ordered = b.Where(b.IsNaN(x), np.inf, x)
    values, indices = b.TopK(b.Neg(ordered), k, outputs=2, **(b.root.attrs | {"largest": 1}))
    return b.Neg(values), indices
