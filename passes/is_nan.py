"""Write IsNaN for a TensorRT that has none.

Why       TensorRT imports IsNaN from 8.2 on. PyTorch's exporters write one behind the Softmax of every masked
          scaled_dot_product_attention, for rows whose mask leaves no key.
Rewrites  IsNaN(x)  ->  Not(Equal(x, x))
Exact     Bit for bit: NaN alone differs from itself. Later parsers write it in the same way.
"""

from surgeon import Stage, op, require, rewrite, var

COMPARES_FLOATS = 11  # the opset from which Equal takes floating-point numbers

x = var("x")


@rewrite(op.IsNaN(x), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x):
    require(b.opset >= COMPARES_FLOATS, f"Equal takes no floating-point numbers before opset {COMPARES_FLOATS}")
    return b.Not(b.Equal(x, x))
