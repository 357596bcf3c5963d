"""Merge two consecutive multiplications by constants.

Why       Exporters write the scaling to [0, 1] and the division by the deviation as two kernels over the whole image.
Rewrites  (x * first) * second, both scalars   ->   x * (first * second)
Exact     To rounding.
"""

import numpy as np

from surgeon import Stage, const, require, rule, var

x, first, second = var("x"), const("first"), const("second")


@rule(x * first * second, stage=Stage.FUSE)
def scales(b, x, first, second):
    require(first.size == 1 and second.size == 1, "a factor is not a scalar")
    product = first * second
    require(np.isfinite(product).all(), "the product of the factors overflows")
    return b.Mul(x, product)
