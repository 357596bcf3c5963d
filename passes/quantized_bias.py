"""Store int32 biases of quantized models as floats.

Why       onnxruntime.quantization writes the bias of a quantized Conv or Gemm as an int32 initializer with a
          DequantizeLinear after it. TensorRT adds biases in floating point and dequantizes 8 bits at most:
          TensorRT-RTX 1.7.1 stops there with `Invalid Node`.
Rewrites  DequantizeLinear(an int32 constant, a constant scale)  ->  an initializer with its value
Exact     Bit for bit. Weights of 8 bits and fewer stay as they are.
"""

import numpy as np
from onnx import TensorProto

from surgeon import Stage, attr, const, op, require, rule

quantized, scale, zero = const("quantized", dtype=TensorProto.INT32), const("scale"), const("zero")


@rule(op.DequantizeLinear(quantized, scale, zero | None, axis=attr("axis")), stage=Stage.CLEAN)
def quantized_bias(b, quantized, scale, axis, zero=None):
    require(not b.root.outputs[0].is_output, "it names an output of the graph")
    require(zero is None or not zero.any(), "its zero point is not 0")
    require(scale.size, "its scale has no number")
    require(scale.dtype == np.float32 and scale.ndim <= 1, "its scale is neither float nor one number a channel")
    if scale.size > 1:
        along = axis % max(quantized.ndim, 1)
        require(quantized.ndim and scale.size == quantized.shape[along], "its scale is not one number a channel")
        scale = scale.reshape([-1 if a == along else 1 for a in range(quantized.ndim)])
    return b.constant(quantized.astype(np.float32) * scale.reshape(scale.shape if scale.size > 1 else ()))
