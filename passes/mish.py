"""Fuse Mish, and write it with other operators for targets without it.

Why       Mish is x * tanh(softplus(x)). TensorRT reads the node from 10.0 on; YOLOv4 and its heirs spell it in up to
          nine operators.
Rewrites  x * tanh(Softplus(x))                                    ->  Mish(x), from opset 18 on, which has it
          x * n / (n + 2) with n = exp(x)^2 + 2 * exp(x)  ->  x * tanh(Softplus(x)): the quotient is NaN from x = 45 on
          x * (w / (2 - w)) with w = sigmoid(x) * (2 - sigmoid(x))  ->  Mish(x): what is written for DLA
          (log(1 + exp(x)) and the threshold of 20 before it are the business of the pass softplus.)
Decompose x * tanh(Softplus(x)), what TensorRT itself makes of the node. For DLA, which has no Softplus, x * (w / (2 -
          w)): all of it runs there, where the node itself would run on the GPU, and its input and output be copied to
          and fro. Up to 8.6 DLA has no Div either: there the shorter form has one node on the GPU, too.
Exact     To rounding.
Price     [1,64,56,56] in ONNX Runtime on one thread: 3 nodes, in 2.3 ms as its own node; for DLA 6 nodes, and 0.20.
"""

from surgeon import op, rewrites, rule, var

x = var("x")

exp = op.Exp(x)
grown = exp * exp + exp * 2 | exp * (exp + 2) | op.Pow(exp + 1, 2) - 1 | (exp + 1) * (exp + 1) - 1
quotient = grown / (grown + 2)
sigmoid = op.Sigmoid(x)
w = sigmoid * (2 - sigmoid)


by_softplus = x * op.Tanh(op.Softplus(x))
fuse = rewrites(by_softplus | x * (w / (2 - w)), op.Mish(x), requires="Mish")
fuse_quotient = rewrites(x * quotient | (x * grown) / (grown + 2), by_softplus, requires="Softplus")


@rule(op.Mish(x), strategy="decompose")
def decompose(b, x):
    b.require_op("Softplus", x)
    if b.target.dla_divides:
        u = b.Sigmoid(x)
        w = b.Mul(u, b.Sub(2.0, u))  # 1 - (1 - u)^2 without what cancels out
        return b.Mul(x, b.Div(w, b.Sub(2.0, w)))
    return b.Mul(x, b.Tanh(b.Softplus(x)))
