"""What the parser of each release knows: its operators, its opset, and the inputs that it reads in a special way.

tables.toml says which release learned an operator. `conditions` says when a node of such an operator is refused all
the same, or read with another meaning than ONNX's.

Sources are files of github.com/onnx/onnx-tensorrt at the commit that a release was built from, written
onnx-tensorrt@commit. Releases after 10.10 are known from its change log and NVIDIA's documentation alone.
What is known of TensorRT-RTX is measured with version 1.7.1 on onnx 1.23's operator tests and 493 exported models;
another release may differ.
"""

from functools import cache

from surgeon.ir.data_file import data_beside
from surgeon.ir.operators import REDUCES
from surgeon.targets.releases import EVERYWHERE, Range, Version, between, parse, since, up_to, version_of

RTX_MEASURED = "1.7.1"
# Read in the kernels that TensorRT-RTX 1.7.1 writes for fp16: squares and their sum are in fp32, the root is rounded.
RTX_SUMS_IN_FP32 = frozenset({"ReduceL2"})

TABLE = data_beside(__file__)

# (first release, source, operators)
IMPORTERS: tuple[tuple[Version, str, str], ...] = tuple(
    (version_of(row["since"]), row["source"], row["operators"]) for row in TABLE["importers"]
)
IMPORTED = frozenset(op for _, _, ops in IMPORTERS for op in ops.split())
# TensorRT-RTX 1.7.1 rejects these of the importers of 11.0 (their implementation is a plugin) or fails to build
# them (NonMaxSuppression).
RTX_WITHOUT = frozenset({"DeformConv", "NonMaxSuppression", "NonZero", "RoiAlign"})

# Quantizers of the domain `trt` -> where.
TRT_QUANTIZERS: dict[str, Range] = {op: parse(where) for op, where in TABLE["trt_quantizers"].items()}

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


OPSETS: tuple[tuple[Version, int], ...] = tuple((version_of(first), opset) for first, opset in TABLE["opsets"].items())
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
CONSTANT_INPUTS: dict[str, dict[int, Range]] = {op: {1: EVERYWHERE} for op in REDUCES} | {
    op: {int(position): parse(where) for position, where in inputs.items()}
    for op, inputs in TABLE["constant_inputs"].items()
}

# Where TensorRT-RTX supports any input that follows from constants; elsewhere weights after Identity and Cast alone.
RTX_FOLDING = frozenset({"DequantizeLinear", "QuantizeLinear", "Squeeze", "Unsqueeze"})

# Inputs that the parser makes a shape tensor of, where they are computed.
SHAPE_INPUTS: dict[str, tuple[int, ...]] = {op: tuple(inputs) for op, inputs in TABLE["shape_inputs"].items()}


@cache
def constant_inputs(version: Version, rtx: bool) -> dict[str, tuple[int, ...]]:
    """By operator, the inputs that must be initializers or Constant nodes; operators without any are left out."""
    found = {
        op: tuple(position for position, where in inputs.items() if where.covers(version, rtx=rtx))
        for op, inputs in CONSTANT_INPUTS.items()
    }
    return {op: positions for op, positions in found.items() if positions}
