"""Write ONNX Runtime's own operators with ONNX's operators.

Why       ONNX Runtime's optimizers and quantizers, Olive and Optimum save models with operators of `com.microsoft`:
          FastGelu, SkipLayerNormalization, Attention, QLinearAdd. TensorRT has none of them. It ignores domains, so it
          reads some for what ONNX calls by that name: Attention with weights, RotaryEmbedding with its inputs in
          another order.
Rewrites  decompose: what ONNX Runtime's ContribOperators.md says of the operator, in ONNX's operators of the model's
          opset. Those that the target lacks are written out in turn.
          Activations     Gelu BiasGelu FastGelu QuickGelu BiasSplitGelu BiasAdd BiasSoftmax
          Normalisations  SkipLayerNormalization SkipSimplifiedLayerNormalization SimplifiedLayerNormalization
                          EmbedLayerNormalization GroupNorm SkipGroupNorm, LayerNormalization before opset 17
          Products        FusedMatMul TransposeMatMul FusedGemm GemmFastGelu FusedConv NhwcConv NhwcFusedConv
                          NhwcMaxPool MatMulNBits MatMulBnb4 GatherBlockQuantized
          Mixtures        MoE
          Attention       Attention MultiHeadAttention GroupQueryAttention RotaryEmbedding QAttention
          Quantized       QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearAveragePool
                          QLinearGlobalAveragePool QLinearConcat QLinearSoftmax QLinearReduceMean QLinearWhere QGemm
                          DynamicQuantizeMatMul MatMulIntegerToFloat QEmbedLayerNormalization QLinearConv QuantizeLinear
                          DequantizeLinear DynamicQuantizeLSTM
          Others          Trilu ExpandDims CDist, Inverse of up to 8 x 8
Exact     To rounding; sums of integers to the bit.
          DynamicQuantizeLSTM becomes a Scan whose steps quantize the state, to the bit of ONNX Runtime's.
          GroupQueryAttention leaves open what follows a sample's last key: here it is that key again.
Kept      Each with its reason: outputs for training, packed batches, caches that share a buffer, are quantized or drop
          rows, weights that are computed where they must be unpacked.
Price     More nodes, which TensorRT fuses again: FastGelu of [1,128,3072] 10 nodes, 0.56 ms in ONNX Runtime on one
          thread next to 0.22 (docs/benchmarks.md has each). Weights of few bits (MatMulNBits, MatMulBnb4,
          GatherBlockQuantized) become fp32: up to 8 times the bytes. A cache of GroupQueryAttention is gathered anew at
          each step. Of a mixture every expert is computed for every token.
"""

from surgeon import any_of, op, rewrites

from ._contrib import BODIES, built

STANDARDIZES = True

nodes = any_of(op[name](..., domain=domain) for domain, name in sorted(BODIES))
write_out = rewrites(nodes, built, strategy="decompose")
