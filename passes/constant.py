"""Write a Constant as the tensor that every parser reads.

Why       ONNX lets a Constant node carry its number in `value`, `value_int`, `value_ints` and others. TensorRT 8.0 to
          9.1 reads the integers as floats and gets 0 or nothing at all; 7.2 and older look for `value` alone. PyTorch's
          newer exporter writes `value_ints` where its optimiser is off.
Rewrites  Constant<value_int | value_ints | ...>  ->  an initializer (in a body, a Constant<value>), where the target
          does not take it as it is
Exact     Bit for bit.
"""

from surgeon import Stage, no_match, op, require, rule


@rule(op.Constant(), stage=Stage.LOWER, strategy="decompose")
def decompose(b):
    require(not {"value_string", "value_strings", "sparse_value"} & b.root.attrs.keys(), "it is no plain tensor")
    if b.target.takes(b.root) is None:
        no_match()
    return b.constant(b.value(b.root.outputs[0]))
