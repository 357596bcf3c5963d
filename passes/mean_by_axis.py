"""Write a mean over rows and columns as a mean over one and then over the other; `--tune` tries it.

Why       TensorRT-RTX turns the output of a convolution to channels first before a mean over both axes reads it. A mean
          over one axis reads it as it is. Over more than about 16,000 elements a mean over both axes has a Cast before
          it written to memory, in fp32.
Rewrites  ReduceMean<axes=[2,3]>(x), GlobalAveragePool(x)   ->   ReduceMean<axes=[3]>(ReduceMean<axes=[2]>(x))
Exact     To rounding: the elements are added in another order, and in half precision the first means are rounded.
Price     ONNX Runtime on one thread: [64,56,56] 2 nodes, 0.02 ms next to 0.04.
Tuned     Where TensorRT-RTX moves fewer bytes. On 28 November 2026 PP-OCRv6's detector in fp16 went from
          148.8 to 139.6 MB.
"""

import numpy as np

from surgeon import attr, const, op, require, rule, var

TUNES = True

x = var("x", rank=4)


@rule(op.GlobalAveragePool(x) | op.ReduceMean(x, const("axes"), keepdims=attr("keepdims")))
def one_after_the_other(b, x, axes=(2, 3), keepdims=1):
    require(np.shape(axes) == (2,))
    first, second = sorted(int(axis) % 4 for axis in axes)
    mean = b.ReduceMean(x, axes=[first], keepdims=keepdims)
    return b.ReduceMean(mean, axes=[second - (not keepdims)], keepdims=keepdims)
