"""Write Trilu's attribute out.

Why       ONNX's default of `upper` is 1, every TensorRT parser's is 0:
          a Trilu without the attribute becomes the other triangle.
Rewrites  Trilu(x)  ->  Trilu<upper = 1>(x)
Exact     Bit for bit.
"""

from surgeon import Stage, op, rule, var

x = var("x")


@rule(op.Trilu(x, ..., upper=1), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x):
    return b.Trilu(*b.root.inputs, upper=1)
