"""What the parser of each release knows: its operators, its opset, and the inputs that it reads in a special way.

`IMPORTERS` says which release learned an operator. `conditions` says when a node of such an operator is refused all
the same, or read with another meaning than ONNX's.

Sources are files of github.com/onnx/onnx-tensorrt at the commit that a release was built from, written
onnx-tensorrt@commit. Releases after 10.10 are known from its change log and NVIDIA's documentation alone.
What is known of TensorRT-RTX is measured with version 1.7.1 on onnx 1.23's operator tests and 493 exported models;
another release may differ.
"""

from functools import cache

from surgeon.ir.operators import REDUCES
from surgeon.targets.releases import EVERY_RELEASE, EVERYWHERE, Range, Version, between, since, up_to

RTX_MEASURED = "1.7.1"
# Read in the kernels that TensorRT-RTX 1.7.1 writes for fp16: squares and their sum are in fp32, the root is rounded.
RTX_SUMS_IN_FP32 = frozenset({"ReduceL2"})

# ---- which release learned which operator ----------------------------------------------------------------------------
# From DEFINE_BUILTIN_OP_IMPORTER in each tree; 10.4 to 11.0 from the change log (docs/trt-support.md section 1).

# (first release, source, operators)
# fmt: off
IMPORTERS: tuple[tuple[Version, str, str], ...] = (
    (
        (6, 0),
        "onnx-tensorrt@6.0",
        ("Abs Acos Acosh Add ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Clip "
        "Concat Constant Conv ConvTranspose Cos Cosh DepthToSpace Div Dropout Elu Exp Flatten Floor Gather Gemm "
        "GlobalAveragePool GlobalMaxPool HardSigmoid Identity ImageScaler InstanceNormalization LRN LeakyRelu Log "
        "LogSoftmax MatMul Max MaxPool Mean Min Mul Neg PRelu Pad ParametricSoftplus Pow Reciprocal ReduceL1 "
        "ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare "
        "Relu Reshape Resize ScaledTanh Selu Shape Sigmoid Size Slice Softmax Softplus Softsign SpaceToDepth Split "
        "Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu TopK Transpose Unsqueeze Upsample"),
    ),
    (
        (7, 0),
        "onnx-tensorrt@84b5be1",
        ("And ConstantOfShape DequantizeLinear Equal Erf Expand GRU Greater LSTM Less Loop Not Or QuantizeLinear RNN "
        "RandomUniform RandomUniformLike Range Scan Sin Sinh Tile Where"),
    ),
    ((7, 1), "onnx-tensorrt@7994a46", "GlobalLpPool If"),
    (
        (7, 2, 2),
        "onnx-tensorrt@803e699",
        "Celu CumSum EyeLike GatherElements GreaterOrEqual LessOrEqual LpNormalization LpPool ReverseSequence",
    ),
    ((8, 0), "onnx-tensorrt@4225037", "NonMaxSuppression"),
    ((8, 2), "onnx-tensorrt@4f54a19", "Einsum GatherND IsNaN Round Scatter ScatterElements ScatterND Sign"),
    ((8, 4), "onnx-tensorrt@9f82b2b", "HardSwish Shrink Xor"),
    (
        (8, 5),
        "onnx-tensorrt@fd119fe",
        "GridSample MeanVarianceNormalization Mod NonZero OneHot RandomNormal RandomNormalLike RoiAlign Trilu",
    ),
    ((8, 6), "onnx-tensorrt@6ba67d3", "GroupNormalization IsInf LayerNormalization"),
    ((9, 1), "onnx-tensorrt@877b5dc", "CastLike"),
    ((9, 2), "onnx-tensorrt@306247b", "Hardmax"),
    ((10, 0), "onnx-tensorrt@eb43908", "Gelu Mish"),
    ((10, 1), "onnx-tensorrt@96e7811", "DeformConv"),
    ((10, 4), "change log 10.4", "BlackmanWindow HammingWindow HannWindow"),
    ((10, 5), "change log 10.5", "STFT"),
    ((10, 14), "change log 10.14", "Attention"),
    ((10, 15), "change log 10.15", "RMSNormalization RotaryEmbedding TensorScatter"),
    ((11, 0), "change log 11.0", "Swish"),
)
# fmt: on
IMPORTED = frozenset(op for _, _, ops in IMPORTERS for op in ops.split())
# TensorRT-RTX 1.7.1 rejects these of the importers of 11.0 (their implementation is a plugin) or fails to build
# them (NonMaxSuppression).
RTX_WITHOUT = frozenset({"DeformConv", "NonMaxSuppression", "NonZero", "RoiAlign"})

# The parser ignores domains; ModelOpt writes these with the domain `trt`. Others of that domain are plugins.
# onnx-tensorrt@eb43908 (10.0) has those of fp8 and int4, and opset 19 has fp8 itself; change log 10.8: FLOAT4E2M1;
# NVIDIA's documentation of 11.0: MXFP8. Measured with TensorRT-RTX 1.7.1, but for those of int4.
TRT_QUANTIZERS: dict[str, Range] = {
    "TRT_FP8QuantizeLinear": since(10, 0, rtx=True),
    "TRT_FP8DequantizeLinear": since(10, 0, rtx=True),
    "TRT_INT4QuantizeLinear": since(10, 0, rtx=True),
    "TRT_INT4DequantizeLinear": since(10, 0, rtx=True),
    "TRT_FP4DynamicQuantize": since(10, 8, rtx=True),
    "TRT_MXFP8DynamicQuantize": since(11, 0, rtx=True),
    "TRT_MXFP8DequantizeLinear": since(11, 0, rtx=True),
}

# Native on DLA at some release (NVIDIA/Deep-Learning-Accelerator-SW operators/README.md, dla-layer-restrictions): any
# other operator falls back to the GPU.
DLA_OPERATORS = (
    "Abs Add AveragePool BatchNormalization Clip Concat Constant Conv ConvTranspose Div Dropout Equal Flatten Gemm "
    "GlobalAveragePool GlobalMaxPool Greater Identity LeakyRelu Less MatMul Max MaxPool Mean Min Mul PRelu Pad Pow "
    "ReduceMean Relu Reshape Resize Sigmoid Slice Softmax Split Squeeze Sub Sum Tanh Transpose Unsqueeze Upsample"
)
DLA_NATIVE = frozenset(DLA_OPERATORS.split())


@cache
def importers(version: Version, rtx: bool) -> frozenset[str]:
    """The operators that a release, or TensorRT-RTX, has an importer for."""
    found = {op for first, _, ops in IMPORTERS if first <= version for op in ops.split()}
    return frozenset(found - RTX_WITHOUT if rtx else found)


# Where the parser really reads a newer opset's node, and no further (getOpsetVersion() in each tree). The documentation
# of 9.0 to 9.3 says 19, but those read the Reduce operators of opset 18 with the meaning of 17.
OPSETS: tuple[tuple[Version, int], ...] = (
    ((6, 0), 10),
    ((7, 0), 11),
    ((8, 0), 13),
    ((8, 4), 17),
    ((10, 0), 20),
    ((10, 8), 22),
    ((10, 16), 24),
    ((11, 0), 25),
)
# Parsers that read a model above their opset with older meanings and say nothing.
LOWERING = up_to(9, 3)


@cache
def opset_of(version: Version) -> int:
    """The newest opset that the parser of a release really reads."""
    return max(opset for first, opset in OPSETS if first <= version)


# LocalFunctionImporter (onnx-tensorrt@9.0-GA to @10.1-GA) looks functions up without domain and overload, after the
# operators; binds an input to whatever tensor in sight is called like it; hands attributes no further than to the
# function's own nodes, and reads 0 for one that the call leaves out; and keeps pointers into a copy of the function,
# which it frees, so Constant nodes are garbage. TensorRT-RTX 1.7.1 reads Constant nodes and most inputs right, no more.
FUNCTION_READERS = since(9, 0, rtx=True)
# These import the function that a plugin node has instead of the plugin.
FUNCTION_PREFERRERS = between((9, 0), (10, 6))

# They hand the names of an input's dimensions to the network: one name is one size (onnx-tensorrt@3b008c4, 8.5 GA).
TIES_SIZES = since(8, 5, rtx=True)

# They compute each node in the types of the file, without flags for precision (docs/trt-support.md, sections 8 and 9).
STRONGLY_TYPED = since(11, 0, rtx=True)
# Their trtexec does so with --stronglyTyped (NVIDIA/TensorRT, samples/common/sampleOptions.cpp: release/9.0 has it, and
# release/8.6 not).
TYPED_ON_REQUEST = since(9, 0)


# Inputs that the parser reads as weights at build time: operator -> {position: where}.
CONSTANT_INPUTS: dict[str, dict[int, Range]] = {
    **{op: {1: EVERYWHERE} for op in REDUCES},
    "BatchNormalization": {1: up_to(6, 0), 2: up_to(6, 0), 3: up_to(6, 0), 4: up_to(6, 0)},
    "Clip": {1: up_to(7, 2, 2), 2: up_to(7, 2, 2)},
    "Conv": {1: up_to(6, 0), 2: up_to(8, 4)},
    "ConvTranspose": {1: up_to(7, 2, 2), 2: up_to(8, 4)},
    "CumSum": {1: up_to(10, 7)},
    "DequantizeLinear": {1: up_to(10, 7), 2: EVERYWHERE},  # from 10.8 on scales of FP4 are dequantized themselves
    "Dropout": {2: EVERYWHERE},
    "InstanceNormalization": {1: up_to(9, 3), 2: up_to(9, 3)},
    "NonMaxSuppression": {3: up_to(8, 4), 4: up_to(8, 4)},
    "Pad": {1: up_to(8, 0), 2: up_to(8, 0), 3: up_to(10, 3)},
    "QuantizeLinear": {1: EVERY_RELEASE, 2: EVERYWHERE},
    "Resize": {2: up_to(8, 2)},
    "STFT": {1: EVERYWHERE, 2: EVERYWHERE},
    "Slice": {3: EVERY_RELEASE},
    "Squeeze": {1: EVERYWHERE},
    "TopK": {1: up_to(8, 4)},
    "Unsqueeze": {1: EVERYWHERE},
    "Upsample": {1: up_to(8, 4)},
}

# Where TensorRT-RTX supports any input that follows from constants; elsewhere weights after Identity and Cast alone.
RTX_FOLDING = frozenset({"DequantizeLinear", "QuantizeLinear", "Squeeze", "Unsqueeze"})

# Inputs that the parser makes a shape tensor of, where they are computed
# (ShapeTensor.cpp and builtin_op_importers.cpp@9f82b2b).
SHAPE_INPUTS: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (3,),
    "Slice": (1, 2),
    "Tile": (1,),
}


@cache
def constant_inputs(version: Version, rtx: bool) -> dict[str, tuple[int, ...]]:
    """By operator, the inputs that must be initializers or Constant nodes; operators without any are left out."""
    found = {
        op: tuple(position for position, where in inputs.items() if where.covers(version, rtx=rtx))
        for op, inputs in CONSTANT_INPUTS.items()
    }
    return {op: positions for op, positions in found.items() if positions}
