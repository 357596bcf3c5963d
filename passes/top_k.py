"""Find the smallest elements where the parser returns the largest.

Why       Up to TensorRT 8.4 the parser does not read TopK's attribute `largest`: a TopK of the smallest elements
          returns the largest ones, without a word.
Decompose TopK<largest = 0>(x, k)  ->  Neg(v), i  with  v, i = TopK<largest = 1>(Neg(x), k)
Exact     Bit for bit: of equal elements the one with the lower index comes first in both, and Neg is exact for floats.
          An integer's smallest value has no negative: integers are left alone.
"""

from surgeon import Stage, op, require, rule, var

from ._types import FLOATS

x, k = var("x"), var("k")


@rule(op.TopK(x, k, largest=0), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x, k):
    require(b.dtype(x) in FLOATS, "the smallest integer has no negative")
    kept = {"axis": b.root.attr("axis"), "sorted": b.root.attr("sorted")}
    values, indices = b.TopK(b.Neg(x), k, outputs=2, largest=1, **kept)
    return b.Neg(values), indices
