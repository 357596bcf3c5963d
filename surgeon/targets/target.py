"""What each TensorRT, TensorRT-RTX and DLA accepts, and under which conditions: one table, asked by the passes.

A pass never compares version numbers: it asks `target.takes(node)` or one of the named facts of `Target`.

Two tables make it. `IMPORTERS` says with which release the parser learned an operator. A `@condition` says when a node
of such an operator is refused, or read with another meaning than ONNX's, between two releases. Sources are files of
github.com/onnx/onnx-tensorrt at the commit that a release was built from, written onnx-tensorrt@commit; releases after
10.10 are known from its change log and NVIDIA's documentation alone. What is said of TensorRT-RTX is measured with
version 1.7.1 on onnx 1.23's operator tests and 493 exported models; another release may differ.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from onnx import TensorProto

from surgeon.errors import UsageError
from surgeon.ir.graph import Model, Node, Value, schema

DEFAULT = "10.9"
RTX_MEASURED = "1.7.1"
Version = tuple[int, ...]
Check = Callable[[Node], "str | None"]

FIRST: Version = (6, 0)
LAST: Version = (11, 4)

# ---- which release learned which operator ----------------------------------------------------------------------------
# From DEFINE_BUILTIN_OP_IMPORTER in each tree; 10.4 to 11.0 from the change log.

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
# TensorRT-RTX 1.7.1 rejects these of the importers of 11.0 (their implementation is a plugin) or fails to build
# them (NonMaxSuppression).
RTX_WITHOUT = frozenset({"DeformConv", "NonMaxSuppression", "NonZero", "RoiAlign"})

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

# Inputs that the parser reads as weights at build time: operator -> {position: (since, until)}.
RTX_ONLY: Version = (99,)  # a condition since this release holds in TensorRT-RTX alone
ALWAYS: tuple[Version, Version] = (FIRST, LAST)
# fmt: off
CONSTANT_INPUTS: dict[str, dict[int, tuple[Version, Version]]] = {
    **{
        f"Reduce{kind}": {1: ALWAYS}
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
    "BatchNormalization": {1: (FIRST, (6, 0)), 2: (FIRST, (6, 0)), 3: (FIRST, (6, 0)), 4: (FIRST, (6, 0))},
    "Clip": {1: (FIRST, (7, 2, 2)), 2: (FIRST, (7, 2, 2))},
    "Conv": {1: (FIRST, (6, 0)), 2: (FIRST, (8, 4))},
    "ConvTranspose": {1: (FIRST, (7, 2, 2)), 2: (FIRST, (8, 4))},
    "CumSum": {1: (FIRST, (10, 7))},
    "DequantizeLinear": {1: ALWAYS, 2: ALWAYS},
    "Dropout": {2: ALWAYS},
    "InstanceNormalization": {1: (FIRST, (9, 3)), 2: (FIRST, (9, 3))},
    "NonMaxSuppression": {3: (FIRST, (8, 4)), 4: (FIRST, (8, 4))},
    "Pad": {1: (FIRST, (8, 0)), 2: (FIRST, (8, 0)), 3: (FIRST, (10, 3))},
    "QuantizeLinear": {1: ALWAYS, 2: ALWAYS},
    "Resize": {2: (FIRST, (8, 2))},
    "STFT": {1: ALWAYS, 2: ALWAYS},
    "Slice": {3: ALWAYS},
    "Squeeze": {1: ALWAYS},
    "TopK": {1: (FIRST, (8, 4))},
    "Unsqueeze": {1: ALWAYS},
    "Upsample": {1: (FIRST, (8, 4))},
}
# fmt: on

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
SHAPE_CONE = 256  # nodes that are looked at behind one such input

# LocalFunctionImporter (onnx-tensorrt@9.0-GA to @10.1-GA) looks functions up without domain and overload, behind the
# operators; binds an input to whatever tensor in sight is called like it; hands attributes no further than to the
# function's own nodes, and reads 0 for one that the call leaves out; and keeps pointers into a copy of the function,
# which it frees, so Constant nodes are garbage. TensorRT-RTX 1.7.1 reads Constant nodes and most inputs right, no more.
MISREAD_FUNCTION = "this parser ties functions and what is in them by name alone, and may mix them up with others"

# Native on DLA at some release (NVIDIA/Deep-Learning-Accelerator-SW operators/README.md, dla-layer-restrictions): any
# other operator falls back to the GPU.
DLA_OPS = (
    "Abs Add AveragePool BatchNormalization Clip Concat Constant Conv ConvTranspose Div Dropout Equal Flatten Gemm "
    "GlobalAveragePool GlobalMaxPool Greater Identity LeakyRelu Less MatMul Max MaxPool Mean Min Mul PRelu Pad Pow "
    "ReduceMean Relu "
    "Reshape Resize Sigmoid Slice Softmax Split Squeeze Sub Sum Tanh Transpose Unsqueeze Upsample"
)
DLA = frozenset(DLA_OPS.split())

# Plugins that TensorRT's own library registers: name -> (since, until); NVIDIA/TensorRT plugin/ of each release.
# fmt: off
STOCK_PLUGINS: dict[str, tuple[Version, Version]] = {
    "LReLU_TRT": ((7, 2), (10, 16)),
    "InstanceNormalization_TRT": ((7, 0), LAST),
    "GroupNormalizationPlugin": ((8, 0), LAST),
    "ROIAlign_TRT": ((8, 5), LAST),
    "ScatterElements": ((10, 0), LAST),
}
# fmt: on
STOCK_VERSIONS: dict[str, tuple[tuple[Version, str], ...]] = {  # the newest version of a plugin, from a release on
    "InstanceNormalization_TRT": (((7, 0), "001"), ((7, 1), "1"), ((10, 2), "3")),
}
STOCK_DOMAIN = "trt.plugins"
OWN_DOMAIN = "surgeon"


def names_plugin(node: Node) -> bool:
    """Whether a node that the parser has no importer for says that it is a plugin."""
    if node.proto.domain in (STOCK_DOMAIN, OWN_DOMAIN):
        return True
    return any(a.name in ("plugin_version", "plugin_namespace") for a in node.proto.attribute)


# ---- conditions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Condition:
    """`check(node)` gives the reason why a release between `since` and `until` does not take the node, else None."""

    ops: tuple[str, ...]
    check: Check
    since: Version
    until: Version
    rtx: bool
    dla: bool
    source: str


CONDITIONS: list[Condition] = []


def condition(
    ops: str, since: Version = FIRST, until: Version = LAST, *, rtx: bool = False, dla: bool = False, source: str = ""
) -> Callable[[Check], Check]:
    """Mark a check of the operators in `ops`. `rtx`: it was measured with TensorRT-RTX too.
    `dla`: it concerns DLA alone."""

    def mark(check: Check) -> Check:
        CONDITIONS.append(Condition(tuple(ops.split()), check, since, until, rtx, dla, source))
        return check

    return mark


def _model(node: Node) -> Model:
    return node.graph.model


def _input(node: Node, position: int) -> Value | None:
    return node.inputs[position] if position < len(node.inputs) else None


def _is_weights(value: Value | None) -> bool:
    """Whether the parser sees weights: an initializer or a Constant node."""
    return (
        value is None or value.tensor is not None or (value.producer is not None and value.producer.key == "Constant")
    )


def _dtype(node: Node, position: int = 0) -> int:
    value = _input(node, position)
    return 0 if value is None else _model(node).dtype(value)


def _rank(node: Node, position: int = 0) -> int | None:
    value = _input(node, position)
    shape = None if value is None else _model(node).shape(value)
    return None if shape is None else len(shape)


def _known(node: Node, position: int) -> np.ndarray | None:
    """The value of an operand (an attribute of an older opset counts), where it can be computed."""
    operands = node.operands()
    given = operands[position] if position < len(operands) else None
    return (
        given if isinstance(given, np.ndarray) else _model(node).constant(given) if isinstance(given, Value) else None
    )


def _name(dtype: int) -> str:
    return str(TensorProto.DataType.Name(dtype)).lower()


REDUCE = "ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"


@condition(
    REDUCE, until=(9, 3), source="onnx-tensorrt@1def182 builtin_op_importers.cpp: reduceTensor(inputs.at(0)) alone"
)
def _reduce_axes(node: Node) -> str | None:
    if _input(node, 1) is not None:
        return "the axes are an input, which this parser does not read: it would reduce over every axis"
    return None


@condition("ReduceSum ReduceLogSum", until=(7, 2, 2), source="onnx-tensorrt@803e699")
def _reduce_sum_axes(node: Node) -> str | None:
    return _reduce_axes(node)


@condition(
    REDUCE + " ReduceSum ReduceLogSum", until=(9, 3), source="onnx-tensorrt@1def182: noop_with_empty_axes is not read"
)
def _reduce_noop(node: Node) -> str | None:
    if node.attr("noop_with_empty_axes") and _input(node, 1) is None and "axes" not in node.attrs:
        return "noop_with_empty_axes is not read: it would reduce over every axis"
    return None


@condition(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceSumSquare",
    RTX_ONLY,
    rtx=True,
    source="measured with TensorRT-RTX alone: with noop_with_empty_axes and no axes it hands its input on",
)
def _reduce_nothing(node: Node) -> str | None:
    if node.attr("noop_with_empty_axes") and _input(node, 1) is None and "axes" not in node.attrs:
        return "noop_with_empty_axes would return the input, not what the operator makes of each number"
    return None


@condition(
    "ReduceMax ReduceMin",
    (10, 0),
    rtx=True,
    source="docs/trt-support.md section 4, onnx-tensorrt@886aff9: BOOL and UINT8 are rejected from 10.0 on; measured "
    "with TensorRT-RTX",
)
def _reduce_type(node: Node) -> str | None:
    return f"{_name(_dtype(node))} is refused" if _dtype(node) in (TensorProto.BOOL, TensorProto.UINT8) else None


@condition(
    "Softmax LogSoftmax Hardmax",
    RTX_ONLY,
    rtx=True,
    source="measured with TensorRT-RTX alone: `Invalid Node`; below opset 13 it is read in two dimensions",
)
def _softmax_rank(node: Node) -> str | None:
    if _model(node).opset_in(node.graph) < 13 or _rank(node) not in (0, 1):
        return None
    return f"an input of {_rank(node)} dimensions is refused"


@condition("Celu", (7, 2, 2), (8, 2), source="onnx-tensorrt@4f54a19: kPOW stands where kPROD belongs")
def _celu(node: Node) -> str | None:
    return "this parser computes Celu wrongly"


@condition(
    "Shape", until=(9, 3), source="onnx-tensorrt@1def182 builtin_op_importers.cpp: addShape alone; 10.0 reads both"
)
def _shape_range(node: Node) -> str | None:
    if node.attr("start") or "end" in node.attrs:
        return "start and end are not read: it would return the whole shape"
    return None


@condition("ScatterElements ScatterND", (8, 2), (9, 3), source="onnx-tensorrt@1def182: reduction is not read")
def _scatter_reduction(node: Node) -> str | None:
    if node.attr("reduction") not in (None, "none"):
        return f"reduction '{node.attr('reduction')}' is not read: it would overwrite"
    return None


@condition("ScatterND", (10, 0), (10, 8), source='onnx-tensorrt@eb43908: !attrs.count("reduction")')
def _scatter_nd_attribute(node: Node) -> str | None:
    return "the attribute reduction is refused, even as 'none'" if "reduction" in node.attrs else None


@condition("ScatterND", (10, 9), rtx=True, source='onnx-tensorrt@d5dce67: mode == "none"')
def _scatter_nd_reduction(node: Node) -> str | None:
    if node.attr("reduction") not in (None, "none"):
        return "ScatterND with a reduction is refused"
    return None


@condition("ScatterElements", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX: Unsupported reduction type")
def _scatter_elements_reduction(node: Node) -> str | None:
    if node.attr("reduction") not in (None, "none"):
        return "ScatterElements with a reduction is refused"
    return None


@condition(
    "GridSample",
    (8, 5),
    (11, 0),
    source="onnx-tensorrt@1def182: an unknown mode stays kNEAREST; TensorRT-RTX 1.7.1 reads it right",
)
def _grid_sample_mode(node: Node) -> str | None:
    if node.attrs.get("mode") in ("linear", "cubic"):
        return f"the mode name '{node.attrs['mode']}' of opset 20 is not read: it would take the nearest pixel"
    return None


@condition(
    "GridSample",
    (8, 5),
    source="onnx-tensorrt@fd119fe: addGridSample takes four dimensions; TensorRT-RTX 1.7.1 builds five",
)
def _grid_sample_rank(node: Node) -> str | None:
    rank = _rank(node)
    return f"the input has {rank} dimensions; four are supported" if rank not in (None, 4) else None


@condition(
    "Resize", until=(9, 3), source="onnx-tensorrt@1def182: antialias, keep_aspect_ratio_policy and axes are not read"
)
def _resize_new(node: Node) -> str | None:
    if node.attr("antialias"):
        return "antialias is not read: it would resize without"
    if node.attr("keep_aspect_ratio_policy") not in (None, "stretch"):
        return "keep_aspect_ratio_policy is not read: it would stretch"
    return "axes is not read" if "axes" in node.attrs else None


@condition("Resize", (10, 0), rtx=True, source="onnx-tensorrt@eb43908 onnxOpCheckers.cpp")
def _resize_refused(node: Node) -> str | None:
    if node.attr("antialias"):
        return "antialias is refused"
    if node.attr("keep_aspect_ratio_policy") not in (None, "stretch"):
        return "only 'stretch' is taken as keep_aspect_ratio_policy"
    return None


@condition("Resize", (8, 0), rtx=True, source="onnx-tensorrt@4225037: no importer of this mode")
def _resize_crop(node: Node) -> str | None:
    if node.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
        return "coordinate_transformation_mode 'tf_crop_and_resize' is refused"
    return None


@condition("Resize", until=(8, 4), source="onnx-tensorrt@9f82b2b: does not support cubic interpolation")
def _resize_cubic(node: Node) -> str | None:
    return "cubic interpolation is refused" if node.attr("mode") == "cubic" else None


@condition("Resize", (7, 0), (7, 2, 2), source="onnx-tensorrt@84b5be1: asymmetric and floor alone")
def _resize_seven(node: Node) -> str | None:
    if node.attr("coordinate_transformation_mode") not in (None, "asymmetric"):
        return (
            f"coordinate_transformation_mode '{node.attr('coordinate_transformation_mode')}' is refused; only "
            "'asymmetric' is taken"
        )
    if node.attr("mode") == "nearest" and node.attr("nearest_mode") not in (None, "floor"):
        return f"nearest_mode '{node.attr('nearest_mode')}' is refused; only 'floor' is taken"
    return None


@condition(
    "LSTM GRU RNN",
    (7, 0),
    rtx=True,
    source="onnx-tensorrt@3b9c961: layout is not read; the same measured with TensorRT-RTX",
)
def _recurrent_layout(node: Node) -> str | None:
    return "layout 1 is not read: batch and time would be swapped" if node.attr("layout") else None


@condition("LSTM", (7, 0), rtx=True, source="onnx-tensorrt@1def182 builtin_op_static_checkers.cpp")
def _lstm_coupled(node: Node) -> str | None:
    return "input_forget is refused" if node.attr("input_forget") else None


@condition("RNN", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone")
@condition(
    "LSTM GRU",
    (7, 0),
    rtx=True,
    source="docs/trt-support.md section 6: `does not currently support cases where activations for the reverse pass of "
    "the LSTM do not match the forward pass`; measured with TensorRT-RTX",
)
def _recurrent_reverse(node: Node) -> str | None:
    return (
        "the reverse pass has other activations than the forward one" if _differ_backward(node, "activations") else None
    )


@condition("LSTM GRU RNN", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone")
def _recurrent_reverse_numbers(node: Node) -> str | None:
    for name in ("activation_alpha", "activation_beta"):
        if _differ_backward(node, name):
            return f"the reverse pass has another {name} than the forward one"
    return None


def _differ_backward(node: Node, name: str) -> bool:
    """Whether the second half of a list, which is for the reverse pass, is another one than the first."""
    given = list(node.attrs.get(name) or [])
    half = len(given) // 2
    return node.attr("direction") == "bidirectional" and len(given) == 2 * half and given[:half] != given[half:]


@condition(
    "Loop",
    RTX_ONLY,
    rtx=True,
    source="measured with TensorRT-RTX alone: `Node input was not registered`",
)
def _loop_condition(node: Node) -> str | None:
    if _input(node, 1) is not None or not node.bodies:
        return None
    body = node.bodies[0]
    handed = body.values[body.proto.input[1].name]  # type: ignore[union-attr]
    read = handed.users or handed in body.results
    return f"the condition is left out, and its body reads it as '{handed.name}'" if read else None


@condition(
    "Selu", rtx=True, source="onnx-tensorrt@6.0 to @5ab48c5: defaults 1.6732 and 1.0507; measured with TensorRT-RTX"
)
def _selu_defaults(node: Node) -> str | None:
    if "alpha" in node.attrs and "gamma" in node.attrs:
        return None
    return "alpha and gamma are left out, and this parser's own defaults are rounded to 1.6732 and 1.0507"


@condition(
    "RoiAlign", (8, 5), source="onnx-tensorrt@1def182: the default of sampling_ratio is 1, ONNX's is 0 (adaptive)"
)
def _roi_align(node: Node) -> str | None:
    if node.attr("sampling_ratio"):
        return None
    return "sampling_ratio 0 (adaptive) is not there: it would take one sample a bin"


@condition("Clip", (8, 0), (8, 4), source="onnx-tensorrt@4225037: static_cast<float*>(weights.values)")
def _clip_half(node: Node) -> str | None:
    if _dtype(node) == TensorProto.FLOAT16 and any(_input(node, p) is not None for p in (1, 2)):
        return "fp16 bounds are read as fp32"
    return None


@condition("Clip", (8, 0), (8, 6), source="onnx-tensorrt@6ba67d3: only supports FLOAT or INT32 inputs for Clip")
def _clip_tensors(node: Node) -> str | None:
    if all(_is_weights(_input(node, p)) for p in (1, 2)) or _dtype(node) in (
        0,
        TensorProto.FLOAT,
        TensorProto.INT32,
        TensorProto.INT64,
    ):
        return None
    return f"bounds that are computed are taken in fp32 and int32, not in {_name(_dtype(node))}"


@condition(
    "Clip",
    RTX_ONLY,
    rtx=True,
    source="measured with TensorRT-RTX alone: ActivationType.CLIP is max(alpha, min(beta, x))",
)
def _clip_crossed(node: Node) -> str | None:
    low, high = _known(node, 1), _known(node, 2)
    if low is None or high is None or low.dtype.kind in "iu" or low.size != 1 or high.size != 1:
        return None
    bottom, top = low.reshape(()), high.reshape(())
    return f"its lower bound is above the upper one: it would return {bottom:g}, not {top:g}" if bottom > top else None


# ---- constants and what is computed from shapes


@condition("Constant", until=(7, 2, 2), source='onnx-tensorrt@803e699: attrs.get<ShapedWeights>("value") alone')
def _constant_attribute(node: Node) -> str | None:
    return None if "value" in node.attrs else "no attribute of a Constant but 'value' is read"


@condition(
    "Constant",
    (8, 0),
    (9, 1),
    source='onnx-tensorrt@4225037 to @877b5dc: attrs.get<float>("value_int"), which is 0, and <std::vector<float>>'
    '("value_ints"), which is empty; int64_t from 9.2 (@306247b)',
)
def _constant_integers(node: Node) -> str | None:
    if "value_ints" in node.attrs:
        return "value_ints is read as floats: the constant would be empty"
    return "value_int is read as a float: the constant would be 0" if "value_int" in node.attrs else None


@condition(
    " ".join(SHAPE_INPUTS),
    until=(8, 4),
    source="NvInfer.h of 7.1 to 8.4, ITensor::isShapeTensor: 'It must be 0D or 1D', no longer in 8.5; "
    "NVIDIA/TensorRT#229 (6.0), "
    "#1743 (8.2), #2088 (8.4): 'IShuffleLayer applied to shape tensor must have 0 or 1 reshape dimensions'; #2487: "
    "mended in 8.5",
)
def _shape_tensor_rank(node: Node) -> str | None:
    for position in SHAPE_INPUTS[node.key]:
        deep = deep_tensor(_model(node), _input(node, position))
        if deep is not None:
            rank = len(_model(node).shape(deep) or ())
            return f"its input {position} is computed through '{deep.name}' of {rank} dimensions; one at most is taken"
    return None


def deep_tensor(model: Model, value: Value | None) -> Value | None:
    """An integer tensor of two or more dimensions that `value` is computed through, or is; None where there is none."""
    todo = [] if value is None else [value]
    seen = set(todo)
    while todo and len(seen) <= SHAPE_CONE:
        v = todo.pop()
        maker = v.producer
        if maker is None or maker.bodies or maker.key in ("Shape", "Size", "Constant"):
            continue
        shape = model.shape(v)
        if shape is not None and len(shape) > 1 and model.dtype(v) in (TensorProto.INT32, TensorProto.INT64):
            return v
        fresh = [i for i in maker.inputs if i is not None and i not in seen]
        seen.update(fresh)
        todo += fresh
    return None


# ---- Pad


def _pads(node: Node) -> np.ndarray | None:
    return _known(node, 1)


def _mode(node: Node) -> str:
    return str(node.attr("mode") or "constant")


@condition("Pad", until=(8, 0), source="onnx-tensorrt@4225037: only supports constant 0 padding")
def _pad_old(node: Node) -> str | None:
    if _mode(node) != "constant":
        return f"only constant padding is taken, not '{_mode(node)}'"
    value = _known(node, 2)
    if value is not None and value.size and float(value.reshape(-1)[0]) != 0:
        return "only padding with 0 is taken"
    pads = _pads(node)
    if pads is None:
        return "the pads must be an initializer"
    if pads.size and int(pads.min()) < 0:
        return "negative pads are refused"
    return None


@condition("Pad", (6, 0), (7, 2, 2), source="onnx-tensorrt@7994a46: only supports padding on the outer two dimensions")
def _pad_last_two(node: Node) -> str | None:
    pads = _pads(node)
    if pads is not None and any(pads.reshape(2, -1)[:, :-2].reshape(-1)):
        return "only the last two dimensions are padded"
    return None


@condition("Pad", (8, 0), (8, 0), source="onnx-tensorrt@4225037: TensorRT only supports 2D padding")
def _pad_two(node: Node) -> str | None:
    pads = _pads(node)
    if pads is not None and int(np.count_nonzero(pads.reshape(2, -1).any(axis=0))) > 2:
        return "only two dimensions are padded at once"
    return None


@condition("Pad", (8, 2), (9, 3), source="onnx-tensorrt@306247b: Unsupported pad mode")
def _pad_wrap(node: Node) -> str | None:
    return "the mode 'wrap' is refused" if _mode(node) == "wrap" else None


@condition("Pad", (8, 2), (10, 3), source="onnx-tensorrt@eb43908: Failed to convert padding")
def _pad_negative(node: Node) -> str | None:
    pads = _pads(node)
    return "negative pads are refused" if pads is not None and pads.size and int(pads.min()) < 0 else None


@condition("Pad", (8, 2), (8, 4), source="onnx-tensorrt@4f54a19: the third input is not checked for being empty")
def _pad_empty_value(node: Node) -> str | None:
    if len(node.proto.input) > 2 and not node.proto.input[2]:
        return "the empty third input is read as a tensor"
    return None


@condition("Pad", (8, 2), (8, 2), source="onnx-tensorrt@4f54a19: static_cast<const float*>")
def _pad_half_value(node: Node) -> str | None:
    value = _known(node, 2)
    if _mode(node) == "constant" and _dtype(node) == TensorProto.FLOAT16 and value is not None and value.any():
        return "an fp16 padding value is read as fp32"
    return None


@condition(
    "Pad", until=(9, 3), source="onnx-tensorrt@1def182: does not support dynamic axes for pad, even constant ones"
)
def _pad_axes(node: Node) -> str | None:
    return "the fourth input, axes, is refused" if _input(node, 3) is not None else None


# ---- normalisation


@condition(
    "InstanceNormalization",
    until=(9, 3),
    source="onnx-tensorrt@6ba67d3: the plugin, unless kNATIVE_INSTANCENORM is set",
)
def _instance_norm_plugin(node: Node) -> str | None:
    return "it becomes the stock plugin, which needs cuDNN, scale and bias as fp32 initializers, and 3 to 5 dimensions"


@condition(
    "InstanceNormalization",
    (10, 0),
    rtx=True,
    source="onnx-tensorrt@eb43908: Input to normalization should be at least 3D",
)
@condition(
    "GroupNormalization",
    (8, 6),
    rtx=True,
    source="docs/trt-support.md section 11, onnx-tensorrt@6ba67d3: Input to normalization should be at least 3D; "
    "measured with TensorRT-RTX",
)
def _norm_rank(node: Node) -> str | None:
    rank = _rank(node)
    return f"the input has {rank} dimensions; at least three are needed" if rank is not None and rank < 3 else None


@condition("InstanceNormalization", (10, 0), rtx=True, source="onnx-tensorrt@eb43908: either all FLOAT or all FLOAT16")
def _instance_norm_mixed(node: Node) -> str | None:
    kinds = {_dtype(node, p) for p in range(3)} - {0}
    return "input, scale and bias are of different types" if len(kinds) > 1 else None


@condition(
    "GroupNormalization",
    (8, 6),
    rtx=True,
    source="NVIDIA/TensorRT#4756; importerUtils.cpp@3b9c961: axes of the input's spatial dimensions alone",
)
def _group_norm_one(node: Node) -> str | None:
    return "with one group it would compute an InstanceNormalization" if node.attr("num_groups") == 1 else None


@condition("GroupNormalization", (8, 6), (10, 8), source="onnx-tensorrt@6ba67d3: scale and bias of shape [num_groups]")
def _group_norm_channels(node: Node) -> str | None:
    return "the scale by channel of opset 21 is refused" if _model(node).opset_in(node.graph) >= 21 else None


@condition(
    "GroupNormalization",
    (10, 9),
    (10, 14),
    source="importerUtils.cpp@3b9c961 groupNorm21Helper: 4-D reshape with the axes of the input",
)
def _group_norm_rank(node: Node) -> str | None:
    rank = _rank(node)
    if rank not in (None, 4) and _model(node).opset_in(node.graph) >= 21:
        return f"the input has {rank} dimensions; four are normalised over the right axes"
    return None


@condition("LayerNormalization", (8, 6), rtx=True, source="onnx-tensorrt@9c69a24; measured with TensorRT-RTX")
def _layer_norm_outputs(node: Node) -> str | None:
    return "more than one output is refused" if sum(o is not None for o in node.outputs) > 1 else None


@condition("LayerNormalization", (10, 5), (10, 10), source="onnx-tensorrt@9c69a24: the default scale is 0")
def _layer_norm_scale(node: Node) -> str | None:
    return "without a scale it is multiplied with 0" if _input(node, 1) is None else None


@condition(
    "BatchNormalization",
    (8, 0),
    rtx=True,
    source="onnx-tensorrt@1def182 builtin_op_static_checkers.cpp; measured with TensorRT-RTX",
)
def _batch_norm_training(node: Node) -> str | None:
    if node.attr("training_mode"):
        return "training_mode is refused"
    return "more than one output is refused" if sum(o is not None for o in node.outputs) > 1 else None


@condition(
    "LpNormalization LpPool",
    (7, 2, 2),
    rtx=True,
    source="onnx-tensorrt@1def182: Only L1 and L2 normalization are supported",
)
def _lp_order(node: Node) -> str | None:
    return f"p = {node.attr('p')} is refused; 1 and 2 are taken" if node.attr("p") not in (1, 2) else None


# ---- activations


@condition(
    "Celu",
    (11, 0),
    rtx=True,
    source="measured with TensorRT-RTX: its fp32 constants meet the input's type; releases from 11.0 are strongly "
    "typed too",
)
def _celu_type(node: Node) -> str | None:
    return f"{_name(_dtype(node))} is refused" if _dtype(node) in (TensorProto.FLOAT16, TensorProto.BFLOAT16) else None


@condition(
    "PRelu",
    (7, 0),
    rtx=True,
    source="onnx-tensorrt@7994a46: the slope is broadcast from the left; rank of slope <= rank of input",
)
def _prelu_rank(node: Node) -> str | None:
    rank, slope = _rank(node), _rank(node, 1)
    return (
        "the slope has more dimensions than the input"
        if rank is not None and slope is not None and slope > rank
        else None
    )


@condition(
    "Relu",
    (9, 0),
    rtx=True,
    source="docs/trt-support.md section 2, onnx-tensorrt@3b9c961: Found unsupported input type of INT32; measured with "
    "TensorRT-RTX, which takes INT64",
)
def _relu_type(node: Node) -> str | None:
    return "int32 is refused" if _dtype(node) == TensorProto.INT32 else None


@condition(
    "Relu",
    (7, 0),
    (8, 6),
    source="docs/trt-support.md section 2, onnx-tensorrt@7994a46 to @fd119fe: no activations on INT32, nor so on INT64",
)
@condition(
    "PRelu",
    (7, 0),
    rtx=True,
    source="docs/trt-support.md section 2, onnx-tensorrt@7994a46, @6ba67d3, @886aff9: does not support INT32 input, "
    "nor INT64 from 9.0 on, which is INT32 before; measured with TensorRT-RTX",
)
def _no_integers(node: Node) -> str | None:
    return "integers are refused" if _dtype(node) in (TensorProto.INT32, TensorProto.INT64) else None


@condition("PRelu", (8, 4), (8, 4), source="measured with TensorRT 8.4.1.5: its process dies while it parses")
def _prelu_dequantized(node: Node) -> str | None:
    slope = _input(node, 1)
    if slope is None or slope.producer is None or slope.producer.key != "DequantizeLinear":
        return None
    return "the parser's process dies of a slope that comes from a DequantizeLinear"


# ---- the rest

# What convertDtype knows, from which release on. DOUBLE is read as fp32, INT64 as int32 up to 8.6. UINT8 came with 8.5
# as a type of inputs and outputs, BF16 and FP8 with 9.0, INT4 with 10.0, FP4 with 10.8 (docs/trt-support.md section 1).
READABLE: dict[int, Version] = {
    TensorProto.FLOAT: FIRST,
    TensorProto.DOUBLE: FIRST,
    TensorProto.FLOAT16: FIRST,
    TensorProto.INT8: FIRST,
    TensorProto.INT32: FIRST,
    TensorProto.INT64: FIRST,
    TensorProto.BOOL: FIRST,
    TensorProto.UINT8: (8, 5),
    TensorProto.BFLOAT16: (9, 0),
    TensorProto.FLOAT8E4M3FN: (9, 0),
    TensorProto.INT4: (10, 0),
    TensorProto.FLOAT4E2M1: (10, 8),
}
ORDINARY = frozenset(t for t, since in READABLE.items() if since == FIRST)
# What reads uint8 (docs/trt-support.md section 6: inputs and outputs alone, by Cast and DequantizeLinear; the others
# were measured with TensorRT-RTX). Anything else is refused with `Found unsupported input type of UINT8`, or as no
# legal intermediate tensor. What quantizes has conditions of its own, and of bodies nothing is known.
UINT8_READERS = frozenset(
    {"Cast", "CastLike", "DequantizeLinear", "Equal", "If", "Loop", "QuantizeLinear", "Scan", "Shape", "Size"}
)
HANDED_ON = frozenset({"Identity", "Flatten"})  # where an input of the model is handed on as an output


@condition("Cast", rtx=True, source="onnx-tensorrt@96e7811 importerUtils.cpp convertDtype; measured with TensorRT-RTX")
def _cast(node: Node) -> str | None:
    return None if node.attr("to") in READABLE else f"there is no {_name(node.attr('to'))}"


@condition("Cast CastLike", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone")
def _cast_saturates(node: Node) -> str | None:
    return "saturate 0 is not read: it would saturate" if node.attrs.get("saturate", 1) == 0 else None


@condition("Cast", until=(8, 6), source="onnx-tensorrt@4f54a19 onnx2trt_utils.cpp convertDtype")
def _cast_before_nine(node: Node) -> str | None:
    later = (
        TensorProto.BFLOAT16,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.UINT8,
        TensorProto.INT4,
        TensorProto.FLOAT4E2M1,
    )
    return f"there is no {_name(node.attr('to'))} before 9.0" if node.attr("to") in later else None


@condition(
    "AveragePool MaxPool LpPool",
    (8, 0),
    rtx=True,
    source="onnx-tensorrt@1def182: does not support dilations other than 1",
)
def _pool_dilations(node: Node) -> str | None:
    return "dilations other than 1 are refused" if any(d != 1 for d in node.attr("dilations") or ()) else None


@dataclass(frozen=True, slots=True)
class PoolAxis:
    """One axis of a pooling: its size with the padding in front, the padding behind,
    the window's extent and its stride."""

    size: int
    behind: int
    window: int
    stride: int

    @property
    def rounded_up(self) -> int:
        """How many windows there are if a part of one counts."""
        return -(-(self.size + self.behind - self.window) // self.stride) + 1

    @property
    def windows(self) -> int:
        """How many ONNX has with ceil_mode 1: none that begins in the padding behind."""
        return self.rounded_up - ((self.rounded_up - 1) * self.stride >= self.size)

    @property
    def missing(self) -> int:
        """How much padding behind these windows reach into."""
        return max((self.windows - 1) * self.stride + self.window - self.size, 0)


def pool_axes(node: Node) -> list[PoolAxis] | None:
    """The spatial axes of a pooling with explicit padding; None where a size is not static or
    auto_pad says otherwise."""
    value = _input(node, 0)
    shape = None if value is None else _model(node).shape(value)
    if shape is None or not _unpadded(node) or not all(isinstance(d, int) for d in shape[2:]):
        return None
    window = _per_axis(node, "kernel_shape", 1)
    count = len(window)
    pads = list(node.attr("pads") or [0] * (2 * count))
    rows = zip(
        shape[2:],
        pads[:count],
        pads[count:],
        window,
        _per_axis(node, "dilations", 1),
        _per_axis(node, "strides", 1),
        strict=True,
    )
    return [PoolAxis(int(n) + front, behind, (k - 1) * d + 1, s) for n, front, behind, k, d, s in rows]


@condition(
    "AveragePool MaxPool LpPool",
    rtx=True,
    source="NvInfer.h, PaddingMode::kEXPLICIT_ROUND_UP: O = ceil((M - DK) / S) + 1; measured with TensorRT-RTX",
)
def _pool_rounded_up(node: Node) -> str | None:
    axes = pool_axes(node) if node.attr("ceil_mode") else None
    if axes is not None and any(a.windows != a.rounded_up for a in axes):
        return "with ceil_mode 1 it has a last window that begins in the padding"
    return None


@condition("LpPool", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone")
def _pool_part(node: Node) -> str | None:
    axes = pool_axes(node) if node.attr("ceil_mode") else None
    if axes is None or all(a.missing <= a.behind for a in axes):
        return None
    return "with ceil_mode 1 a last window that is partly beyond the padding is divided by its part"


@condition("MaxPool", rtx=True, source="onnx-tensorrt@1def182: does not support the indices output in MaxPool")
def _max_pool_indices(node: Node) -> str | None:
    return "the output of indices is refused" if sum(o is not None for o in node.outputs) > 1 else None


@condition(
    "Dropout", (8, 0), rtx=True, source="onnx-tensorrt@4f54a19: does not support the Dropout operator in training mode"
)
def _dropout(node: Node) -> str | None:
    training = _known(node, 2)
    return "training mode is refused" if training is not None and bool(training.any()) else None


@condition("Einsum", (8, 2), (8, 6), source="onnx-tensorrt@6ba67d3: two operands at most, no ellipsis, no diagonal")
def _einsum(node: Node) -> str | None:
    equation = str(node.attr("equation")).replace(" ", "")
    operands = equation.partition("->")[0].split(",")
    if len(operands) > 2:
        return "more than two operands are refused"
    if "..." in equation:
        return "an ellipsis is refused"
    return "a diagonal is refused" if any(len(set(o)) != len(o) for o in operands) else None


@condition(
    "Einsum",
    (8, 2),
    rtx=True,
    source="docs/trt-support.md section 6: `Invalid character(s) in Einsum equation`; measured with TensorRT-RTX",
)
def _einsum_capitals(node: Node) -> str | None:
    equation = str(node.attr("equation"))
    return "capital letters are refused" if equation != equation.lower() else None


@condition("Einsum", (9, 0), (10, 11), source="onnx-tensorrt@9d2d786; diagonals with 10.12")
def _einsum_diagonal(node: Node) -> str | None:
    operands = str(node.attr("equation")).replace(" ", "").replace("...", "").partition("->")[0].split(",")
    return "a diagonal is refused" if any(len(set(o)) != len(o) for o in operands) else None


@condition("EyeLike", rtx=True, source="onnx-tensorrt@803e699: !isDynamic(dims); measured with TensorRT-RTX")
def _eye_like(node: Node) -> str | None:
    shape = None if node.inputs[0] is None else _model(node).shape(node.inputs[0])
    static = shape is not None and all(isinstance(d, int) for d in shape)
    return None if static else "its size is not static: `Eyelike does not work for dynamically shaped tensors`"


@condition("TopK", rtx=True, source="NVIDIA documentation: K up to 3840; measured with TensorRT-RTX")
def _top_k(node: Node) -> str | None:
    k = _known(node, 1)
    return (
        f"K = {int(k.reshape(-1)[0])} is refused; 3840 is the largest"
        if k is not None and k.size and int(k.reshape(-1)[0]) > 3840
        else None
    )


@condition(
    "Trilu",
    (8, 5),
    rtx=True,
    source='onnx-tensorrt@fd119fe to @96e7811: attrs.get("upper", 0), where ONNX has 1; measured with TensorRT-RTX',
)
def _trilu_upper(node: Node) -> str | None:
    return (
        None if "upper" in node.attrs else "upper is left out, and this parser's own default is 0, the lower triangle"
    )


@condition(
    "GlobalLpPool",
    (7, 1),
    rtx=True,
    source="onnx-tensorrt@7994a46 to @96e7811: pow(x, p) without the absolute value; measured with TensorRT-RTX",
)
def _global_lp_pool(node: Node) -> str | None:
    p = int(node.attr("p") or 2)
    return f"p = {p} is taken of x, not of its absolute value" if p % 2 else None


@condition(
    "InstanceNormalization",
    (10, 0),
    (10, 6),
    source="onnx-tensorrt@eb43908: either all FLOAT or all FLOAT16; BF16 from 10.7",
)
@condition("LpNormalization LpPool", (9, 0), rtx=True, source="onnx-tensorrt@3b9c961; measured with TensorRT-RTX")
@condition(
    "Mish", (10, 0), rtx=True, source="onnx-tensorrt@eb43908: Only FLOAT32 or FLOAT16 input; measured with TensorRT-RTX"
)
@condition(
    "HardSwish",
    (8, 5),
    rtx=True,
    source="onnx-tensorrt@fd119fe: Only FLOAT, HALF or INT8 input; measured with TensorRT-RTX",
)
@condition(
    "GlobalLpPool",
    (9, 2),
    rtx=True,
    source="onnx-tensorrt@306247b: Only FLOAT and HALF are supported; measured with TensorRT-RTX",
)
def _no_bfloat16(node: Node) -> str | None:
    return "bfloat16 is refused" if _dtype(node) == TensorProto.BFLOAT16 else None


# ---- deconvolution


def _per_axis(node: Node, name: str, default: int) -> list[int]:
    return list(node.attr(name) or [default] * ((_rank(node) or 2) - 2))


def deconvolution_padding(node: Node) -> list[int] | None:
    """What the attribute output_shape of a ConvTranspose makes the sum of begin and end padding, by axis; None where a
    size is not static."""
    shape, kernel = _model(node).shape(node.inputs[0]) if node.inputs[0] else None, _input(node, 1)
    window = node.attr("kernel_shape") or (_model(node).shape(kernel) if kernel is not None else None)
    if shape is None or window is None:
        return None
    sizes, window = list(shape[2:]), list(window)[-len(shape[2:]) :]
    if not all(isinstance(d, int) for d in (*sizes, *window)):
        return None
    wanted = list(node.attr("output_shape"))[-len(sizes) :]
    rows = zip(
        sizes,
        window,
        _per_axis(node, "strides", 1),
        _per_axis(node, "dilations", 1),
        _per_axis(node, "output_padding", 0),
        wanted,
        strict=True,
    )
    return [stride * (n - 1) + more + (k - 1) * dilation + 1 - out for n, k, stride, dilation, more, out in rows]


def _unpadded(node: Node) -> bool:
    """Whether what a ConvTranspose pads is said by pads, output_padding or output_shape."""
    return node.attr("auto_pad") in (None, "", "NOTSET")


@condition(
    "ConvTranspose",
    (7, 2, 2),
    rtx=True,
    source="onnx-tensorrt@803e699 to @96e7811 generatePadding: begin = total / 2, where ONNX from opset 11 on has it "
    "at the end; "
    "measured with TensorRT-RTX",
)
def _deconvolution_shape(node: Node) -> str | None:
    if "output_shape" not in node.attrs or not _unpadded(node):
        return None
    totals = deconvolution_padding(node)
    if totals is None:
        return "output_shape needs static sizes"
    if len(totals) == 1:
        return "output_shape is read wrongly where there is one spatial dimension, which is taken for two"
    if any(t < -1 or (t < 0 and more) for t, more in zip(totals, _per_axis(node, "output_padding", 0), strict=True)):
        return "output_shape asks for a negative padding"
    return (
        "output_shape leaves an odd padding, of which it would cut more at the end than at the beginning"
        if any(t > 0 and t % 2 for t in totals)
        else None
    )


@condition(
    "ConvTranspose",
    (7, 2, 2),
    rtx=True,
    source="onnx-tensorrt@803e699 to @96e7811: output_padding is read where auto_pad is NOTSET; measured with "
    "TensorRT-RTX",
)
def _deconvolution_valid(node: Node) -> str | None:
    if node.attr("auto_pad") == "VALID" and any(_per_axis(node, "output_padding", 0)):
        return "output_padding is not read with auto_pad VALID"
    return None


@condition(
    "ConvTranspose",
    (8, 5),
    rtx=True,
    source="onnx-tensorrt@fd119fe to @96e7811: setInput(2, bias) in front of the padding; measured with TensorRT-RTX",
)
def _deconvolution_bias(node: Node) -> str | None:
    if _is_weights(_input(node, 2)) or not _unpadded(node):
        return None
    more = _per_axis(node, "output_padding", 0)
    ends = _per_axis(node, "pads", 0)[-len(more) :]
    totals = deconvolution_padding(node) if "output_shape" in node.attrs else None
    if totals is not None:
        more = [m if t >= 0 else -t for m, t in zip(more, totals, strict=True)]
        ends = [max(t - t // 2, 0) for t in totals]
    if any(m > e for m, e in zip(more, ends, strict=True)):
        return "a computed bias is not added to what output_padding adds"
    return None


@condition("Trilu", (8, 5), (8, 5), source="onnx-tensorrt@fd119fe: 2-D alone; N-D from 8.6")
def _trilu(node: Node) -> str | None:
    rank = _rank(node)
    return f"the input has {rank} dimensions; two are taken" if rank not in (None, 2) else None


@condition("SpaceToDepth", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone: the mode came with opset 28")
def _space_to_depth_mode(node: Node) -> str | None:
    mode = node.attrs.get("mode", "DCR")
    return None if mode == "DCR" else f"the mode '{mode}' is not read"


@condition("DepthToSpace SpaceToDepth", rtx=True, source="onnx-tensorrt@3b9c961: N, C, H, W")
def _depth_to_space(node: Node) -> str | None:
    rank = _rank(node)
    return f"the input has {rank} dimensions; four are taken" if rank not in (None, 4) else None


@condition(
    "Mod",
    (8, 5),
    rtx=True,
    source="onnx-tensorrt@fd119fe; measured with TensorRT-RTX: fmod 0 is for integers, fmod 1 for floats",
)
def _mod(node: Node) -> str | None:
    whole = _dtype(node) in (TensorProto.INT32, TensorProto.INT64)
    return "fmod 0 takes integers alone" if not node.attr("fmod") and _dtype(node) and not whole else None


@condition(
    "QuantizeLinear DequantizeLinear",
    (7, 0),
    rtx=True,
    source="onnx-tensorrt@4225037: TRT only supports symmetric quantization",
)
def _symmetric(node: Node) -> str | None:
    zero = _known(node, 2)
    return (
        "a zero point other than 0 is refused"
        if zero is not None and zero.dtype.kind in "iu" and bool(zero.any())
        else None
    )


@condition(
    "QuantizeLinear DequantizeLinear",
    (7, 0),
    rtx=True,
    source="docs/trt-support.md section 6: `Scale coefficients must all be positive`; measured with TensorRT-RTX",
)
def _positive_scale(node: Node) -> str | None:
    scale = _known(node, 1)
    return "a scale that is not positive is refused" if scale is not None and not bool((scale > 0).all()) else None


@condition(
    "QuantizeLinear", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone, with and without a zero point"
)
def _quantized_unsigned(node: Node) -> str | None:
    value = node.outputs[0]
    unsigned = value is not None and _model(node).dtype(value) == TensorProto.UINT8
    return "uint8, which is what it returns without a zero point, is read as int8" if unsigned else None


@condition(
    "DequantizeLinear", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone: unsupported input type of UINT8"
)
def _dequantized_unsigned(node: Node) -> str | None:
    data = _input(node, 0)
    made = data is not None and data.producer is not None and data.producer.key == "QuantizeLinear"
    return "uint8 that no QuantizeLinear makes is refused" if not made and _dtype(node) == TensorProto.UINT8 else None


@condition("DequantizeLinear", rtx=True, source="measured with TensorRT-RTX: `input has type Int32`; the others alike")
def _dequantized(node: Node) -> str | None:
    data = _input(node, 0)
    wide = data is not None and _model(node).dtype(data) == TensorProto.INT32
    return "integers of 32 bits are refused" if wide else None


@condition("Slice", until=(7, 2, 2), source="onnx-tensorrt@84b5be1: no documented negative stride")
def _slice_backward(node: Node) -> str | None:
    steps = _known(node, 4)
    return (
        "negative steps are not documented before 8.0"
        if steps is not None and steps.size and int(steps.min()) < 0
        else None
    )


@condition(
    "Slice",
    (7, 0),
    rtx=True,
    source="onnx-tensorrt@84b5be1 to @96e7811: iotaShapeVector(dims.size()), starts.size() == axes.size(); measured "
    "with TensorRT-RTX",
)
def _slice_axes(node: Node) -> str | None:
    starts, rank = _input(node, 1), _rank(node)
    if starts is None or rank is None or _input(node, 3) is not None:
        return None
    count = _model(node).shape(starts)
    return None if count in (None, (rank,), [rank]) else "axes is left out, which stands for every dimension"


@condition(
    "Slice",
    (7, 0),
    (10, 1),
    source="onnx-tensorrt@84b5be1 to @96e7811: ShapeTensor(ctx, inputs.at(3)) where there are steps",
)
def _slice_empty_axes(node: Node) -> str | None:
    return "the empty axes are read as a tensor" if _input(node, 3) is None and _input(node, 4) is not None else None


@condition("Squeeze Unsqueeze Split", until=(7, 2, 2), source="onnx-tensorrt@84b5be1: the attribute alone is read")
def _moved_input(node: Node) -> str | None:
    return "the second input is not read: the attribute is" if _input(node, 1) is not None else None


@condition("Split", (8, 0), (9, 3), source="onnx-tensorrt@1def182: num_outputs is not read, equal parts alone")
def _split_uneven(node: Node) -> str | None:
    count, value = node.attrs.get("num_outputs"), _input(node, 0)
    if count is None or value is None:
        return None
    dims = _model(node).shape(value)
    axis = dims[node.attr("axis") or 0] if dims else None
    return f"num_outputs {count} does not divide the dimension" if not isinstance(axis, int) or axis % count else None


@condition(
    "Reshape", (7, 0), (8, 2), source="onnx-tensorrt@4225037 reads allowzero from opset 14 on, and 8.2 declares 13"
)
def _reshape_zero(node: Node) -> str | None:
    if not node.attr("allowzero"):
        return None
    shape = _known(node, 1)
    return (
        None if shape is not None and bool((shape != 0).all()) else "allowzero is not read: 0 would copy the dimension"
    )


@condition(
    "Reshape",
    (8, 4),
    (8, 6),
    source="measured with TensorRT 8.4.1.5: `Attribute not found: allowzero`; 8.5 and 8.6 taken to be alike",
)
def _reshape_bare(node: Node) -> str | None:
    if "allowzero" in node.attrs or _model(node).opset_in(node.graph) < 14:
        return None
    return "allowzero must be written out from opset 14 on"


@condition("Attention", (10, 14), rtx=True, source="AttentionHelpers.cpp@5ab48c5; measured with TensorRT-RTX")
def _attention(node: Node) -> str | None:
    if sum(o is not None for o in node.outputs) > 1:
        return "more than one output is refused"
    if node.attr("softcap"):
        return "softcap is refused"
    return "past keys and values are refused" if any(_input(node, p) is not None for p in (4, 5)) else None


@condition("Attention", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone")
def _attention_window(node: Node) -> str | None:
    named = [a for a in ("left_window_size", "right_window_size") if node.attrs.get(a, -1) >= 0]
    return f"{named[0]} is not read: it would attend to every key" if named else None


@condition(
    "Attention", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone: IAttention::setMask, CausalMaskKind"
)
def _attention_causal_mask(node: Node) -> str | None:
    causal = node.attr("is_causal") and _input(node, 3) is not None
    return "a mask together with is_causal is refused" if causal else None


@condition(
    "Attention",
    RTX_ONLY,
    rtx=True,
    source="measured with TensorRT-RTX alone: Key and Value must have the same shape",
)
def _attention_sizes(node: Node) -> str | None:
    keys, values = ((_model(node).shape(v) if v is not None else None) for v in (_input(node, 1), _input(node, 2)))
    if keys is None or values is None or not (isinstance(keys[-1], int) and isinstance(values[-1], int)):
        return None
    return None if keys[-1] == values[-1] else "keys and values of different sizes are refused"


@condition("Attention", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone: it is parsed, and not built")
def _attention_kernel(node: Node) -> str | None:
    if _dtype(node) in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return f"there is no kernel for {_name(_dtype(node))}"
    return None


@condition("Attention", RTX_ONLY, rtx=True, source="measured with TensorRT-RTX alone")
def _attention_lengths(node: Node) -> str | None:
    return "nonpad_kv_seqlen is not read: it would attend to the padding" if _input(node, 6) is not None else None


# ---- DLA


@condition("Pad", dla=True, source="dla-layer-restrictions: constant 0 alone, from 10.4; kREFLECT and kCLAMP never")
def _dla_pad(node: Node) -> str | None:
    return None if _mode(node) == "constant" else f"DLA has no '{_mode(node)}' padding"


@condition("PRelu", dla=True, source="dla-layer-restrictions: the slope is a build-time constant")
def _dla_prelu(node: Node) -> str | None:
    return None if _is_weights(_input(node, 1)) else "on DLA the slope must be an initializer"


# ---- a target --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """One TensorRT: `name` as it was asked for, `version` the row of the table, `rtx` and `dla` what the name says.

    `note` says, in a sentence without a full stop, what the name alone does not: which row stands for it, or that no
    TensorRT was found. It is empty where there is nothing to say.
    """

    name: str
    version: Version
    rtx: bool = False
    dla: bool = False
    note: str = ""

    @staticmethod
    def parse(text: str) -> Target:
        """`major[.minor[.patch]]`, `rtx`, either with `+dla` where that exists, or `installed`.

        A version without a row of its own has that of the nearest row below it; a bare major means its first release.
        Later releases of the newest major in the table have the newest row. Raises UsageError for anything else.
        """
        if text == "installed":
            return installed()
        if not text.strip():
            raise UsageError(
                "the target is empty. It is a version such as 8.4 or 10.9, 'rtx', '8.6+dla', or 'installed'."
            )
        base, plus, suffix = text.partition("+")
        if (plus and suffix != "dla") or (base != "rtx" and not re.fullmatch(r"\d+(\.\d+){0,3}", base)):
            raise UsageError(
                f"no target is called '{text}'. A target is a version such as 8.4 or 10.9, 'rtx', '8.6+dla', or "
                "'installed'."
            )
        if base == "rtx":
            if suffix:
                raise UsageError("TensorRT-RTX has no DLA. Leave '+dla' out.")
            return Target(text, LAST, rtx=True)
        asked = tuple(int(p) for p in base.split("."))
        asked = (*asked, 0) if len(asked) == 1 else asked
        if asked < FIRST or asked[0] > LAST[0]:
            raise UsageError(
                f"TensorRT 6.0 to {_dotted(LAST)} are known, not {base}. Name one of these, 'rtx' or 'installed'."
            )
        if suffix and asked[0] > 10:
            raise UsageError(f"TensorRT {base} has no DLA: 10.x is the last that has. Leave '+dla' out.")
        row = max(r for r in ROWS if r <= asked)
        note = "" if asked[: len(row)] == row else f"TensorRT {base} has the row of {_dotted(row)} in the table"
        return Target(text, row, dla=bool(suffix), note=note)

    # Facts ------------------------------------------------------------------------------------------------------------

    @property
    def opset(self) -> int:
        """The newest opset that the parser really reads: the ceiling of what a written model may declare."""
        return LATEST_OPSET if self.rtx else _ceiling(self.version)

    @property
    def lowers_opset(self) -> bool:
        """Whether a model above the ceiling is read with older meanings, silently: every release up to 9.3."""
        return not self.rtx and self.version <= (9, 3)

    @property
    def plugins(self) -> bool:
        """Whether plugin nodes can be imported at all: from 7.1 on, never in TensorRT-RTX."""
        return not self.rtx and self.version >= (7, 1)

    @property
    def carries_functions(self) -> bool:
        """Whether a model may carry the functions of its plugin nodes:
        9.0 to 10.6 would import the function instead."""
        return not (9, 0) <= self.version <= (10, 6)

    @property
    def reads_functions(self) -> bool:
        """Whether the parser imports local functions: from 9.0 on, though not always as ONNX means them."""
        return self.version >= (9, 0)

    @property
    def reduce_axes_input(self) -> bool:
        """Whether the axes of every Reduce operator may be an input."""
        return self.rtx or self.version >= (10, 0)

    @property
    def pad_modes(self) -> frozenset[str]:
        """The modes of Pad that the parser takes."""
        if self.version < (8, 2) or self.dla:
            return frozenset({"constant"})
        modes = {"constant", "reflect", "edge"}
        return frozenset(modes | {"wrap"} if self.version >= (10, 0) else modes)

    @property
    def pad_axes_input(self) -> str:
        """What Pad's fourth input may be: "none" (absent), "constant" or "any"."""
        if self.rtx:
            return "constant"
        return "none" if self.version <= (9, 3) else "constant" if self.version <= (10, 3) else "any"

    @property
    def pad_negative(self) -> bool:
        """Whether pads may be negative."""
        return self.rtx or self.version >= (10, 4)

    @property
    def pad_empty_value(self) -> bool:
        """Whether Pad's third input may be an empty name: not in 8.2 and 8.4."""
        return not (8, 2) <= self.version <= (8, 4)

    @property
    def pad_axes_count(self) -> int | None:
        """How many dimensions one Pad may pad: two before 8.2 (the last two before 8.0); None is any number."""
        return 2 if self.version < (8, 2) else None

    @property
    def pad_any_axis(self) -> bool:
        """Whether dimensions other than the last two may be padded."""
        return self.version >= (8, 0)

    @property
    def shape_inputs(self) -> dict[str, tuple[int, ...]]:
        """By operator, the inputs that may not be computed through a tensor of several dimensions: none from 8.5 on."""
        return SHAPE_INPUTS if not self.rtx and self.version <= (8, 4) else {}

    def imports(self, op: str) -> bool:
        """Whether the parser has an importer of its own for this ONNX operator."""
        return op in _importers(self.version, self.rtx)

    def constant_inputs(self, op: str) -> tuple[int, ...]:
        """The inputs of an operator that must be initializers or Constant nodes."""
        return _constant_inputs(self.version, self.rtx).get(op, ())

    def takes(self, node: Node) -> str | None:
        """None where the target imports the node and computes what ONNX says; else the reason why not."""
        checks = _checks(self.version, self.rtx, self.dla).get(node.key)
        if checks is None:
            return self._why_unknown(node)
        if (
            self.lowers_opset
            and not _since(node.key, self.opset)
            and _since(node.key, _model(node).opset_in(node.graph))
        ):
            return f"{node.op} is not in opset {self.opset}, the newest that this parser reads"
        for position in _constant_inputs(self.version, self.rtx).get(node.key, ()):
            if not _is_weights(_input(node, position)):
                return f"its input {position} must be an initializer"
        for check in checks:
            why = check(node)
            if why is not None:
                return why
        return None

    def outdated(self, node: Node) -> str | None:
        """The reason where the node uses what came later than the newest opset that this parser reads; None elsewhere.

        Apart from `takes`: while rewrites are chosen, the model's opset is still the file's.
        """
        if not self.lowers_opset or node.proto.domain not in ("", "ai.onnx"):
            return None
        declared = _model(node).opset_in(node.graph)
        if declared <= self.opset:
            return None
        now, then = schema(node.op, "", declared), schema(node.op, "", self.opset)
        if now is None or then is None or now.since_version == then.since_version:
            return None
        came = f"came with an opset above {self.opset}, the newest that this parser reads"
        for name, given in node.attrs.items():
            if name not in then.attributes and given != _model(node).schema_defaults(node).get(name):
                return f"its attribute {name} {came}"
        if any(v is not None for v in node.inputs[then.max_input :]):
            return f"its input {then.max_input} {came}"
        if node.key in ("Softmax", "LogSoftmax", "Hardmax"):
            rank = _rank(node)
            last = rank is not None and node.attr("axis") in (-1, rank - 1) and "axis" in node.attrs
            return None if last else f"its meaning of axis {came}"
        return None

    def has_other_types(self, model: Model) -> bool:
        """Whether a model has tensors of a type that not every release knows: then `mistyped` is to be asked."""
        given = (info.type.tensor_type.elem_type for info in model.proto.graph.input)
        weights = (tensor.data_type for tensor in model.proto.graph.initializer)
        casts = (node.attr("to") for scope in model.scopes for node in scope.of(["Cast"]))
        return any(t and t not in ORDINARY for types in (given, weights, casts) for t in types)

    def mistyped(self, node: Node) -> str | None:
        """The reason where the node reads or makes tensors of a type that the parser does not know, or computes with
        uint8. Apart from `takes`: few models have such types, and no pass mends it."""
        model = _model(node)
        read = {model.dtype(v) for v in node.inputs if v is not None}
        made = {model.dtype(v): v for v in node.outputs if v is not None}
        for dtype in (read | made.keys()) - {0}:
            since = READABLE.get(dtype)
            if since is None or since > self.version:
                return f"there is no {_name(dtype)}{f' before {_dotted(since)}' if since else ''}"
        if "::" in node.key:
            return None
        if TensorProto.UINT8 in read and node.key not in UINT8_READERS | HANDED_ON:
            return "uint8 is refused"
        value = made.get(TensorProto.UINT8)
        between = value is not None and not value.is_output and node.key not in ("Constant", "QuantizeLinear")
        return "uint8 between two nodes is refused" if between else None

    def takes_every(self, key: str) -> bool:
        """Whether every node of an operator is taken, whatever its inputs: then no node need be asked about."""
        checks = _checks(self.version, self.rtx, self.dla).get(key)
        return checks is not None and not checks and key not in _constant_inputs(self.version, self.rtx)

    def _why_unknown(self, node: Node) -> str | None:
        """The reason for an operator that the table has no importer for; None for plugins."""
        domain, op = node.proto.domain, node.op
        if domain == OWN_DOMAIN and op not in STOCK_PLUGINS:
            if not op.startswith("Surgeon"):
                return f"{op} is surgeon's own canonical node, which no parser reads"
            return None if self.plugins else "there are no plugins"
        if names_plugin(node):
            return self._why_no_plugin(op)
        if node.key in _model(node).functions:
            return MISREAD_FUNCTION if self.reads_functions else "local functions are read from TensorRT 9.0 on"
        if domain in ("", "ai.onnx"):
            return f"{'TensorRT-RTX' if self.rtx else 'TensorRT ' + _dotted(self.version)} has no importer for {op}"
        if self.imports(op):
            return f"this parser ignores domains and would read it as ONNX's own {op}"
        return f"there is no importer for {node.key}; a plugin of that name would be needed"

    def _why_no_plugin(self, op: str) -> str | None:
        if not self.plugins:
            return "there are no plugins"
        since, until = STOCK_PLUGINS.get(op, ALWAYS)
        return (
            None
            if since <= self.version <= until
            else f"the plugin {op} is there from {_dotted(since)} to {_dotted(until)} alone"
        )

    def stock_version(self, op: str) -> str:
        """The version by which this release knows a plugin of NVIDIA's own library."""
        known = [version for since, version in STOCK_VERSIONS.get(op, ()) if since <= self.version]
        return known[-1] if known else "1"

    def __str__(self) -> str:
        return self.name


ROWS: tuple[Version, ...] = tuple(
    sorted(
        {v for v, _, _ in IMPORTERS}
        | {v for v, _ in OPSETS}
        | {(7, 2), (9, 0), (9, 3), *[(10, m) for m in range(17)], *[(11, m) for m in range(5)]}
    )
)
LATEST_OPSET = max(o for _, o in OPSETS)


@cache
def _since(op: str, opset: int) -> int:
    """The opset in which the definition of an operator that holds at `opset` came; 0 where there is none yet."""
    found = schema(op, "", opset)
    return 0 if found is None else found.since_version


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


@cache
def _ceiling(version: Version) -> int:
    return max(o for v, o in OPSETS if v <= version)


@cache
def _importers(version: Version, rtx: bool) -> frozenset[str]:
    found = {op for since, _, ops in IMPORTERS if since <= version for op in ops.split()}
    return frozenset(found - RTX_WITHOUT if rtx else found)


@cache
def _constant_inputs(version: Version, rtx: bool) -> dict[str, tuple[int, ...]]:
    found = {
        op: tuple(p for p, (since, until) in rows.items() if since <= version <= until)
        for op, rows in CONSTANT_INPUTS.items()
    }
    return {op: positions for op, positions in found.items() if positions}


@cache
def _checks(version: Version, rtx: bool, dla: bool) -> dict[str, tuple[Check, ...]]:
    """Every operator that is imported, with the checks in force."""
    found: dict[str, tuple[Check, ...]] = dict.fromkeys(_importers(version, rtx), ())
    for c in CONDITIONS:
        holds = dla if c.dla else c.rtx if rtx else c.since <= version <= c.until
        for op in c.ops if holds else ():
            if op in found:
                found[op] = (*found[op], c.check)
    if dla:
        for op in found.keys() - DLA:
            found[op] = (*found[op], _falls_back)
    return found


def _falls_back(node: Node) -> str | None:
    return f"DLA has no {node.op}: it would run on the GPU"


# ---- the TensorRT that is here ---------------------------------------------------------------------------------------

DISTRIBUTIONS = ("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu11", "tensorrt-bindings")
RTX_DISTRIBUTIONS = ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12")


def installed() -> Target:
    """The TensorRT that can be imported, else TensorRT-RTX, else `DEFAULT`; `note` says which, and why."""
    version = _version_of("tensorrt", DISTRIBUTIONS)
    if version:
        numbers = ".".join(re.findall(r"\d+", version)[:2])
        note = f"TensorRT {version} is installed"
        if int(numbers.partition(".")[0]) > LAST[0]:
            return Target(_dotted(LAST), LAST, note=f"{note}, which is newer than the table: its last row is used")
        return Target(numbers, Target.parse(numbers).version, note=note)
    version = _version_of("tensorrt_rtx", RTX_DISTRIBUTIONS)
    if version:
        measured = "" if version.startswith(RTX_MEASURED) else f"; the table was measured with {RTX_MEASURED}"
        return Target("rtx", LAST, rtx=True, note=f"TensorRT-RTX {version} is installed{measured}")
    found = Target.parse(DEFAULT)
    return Target(found.name, found.version, note="no TensorRT can be imported here")


def _version_of(module: str, distributions: tuple[str, ...]) -> str:
    """The installed version of a module, found without importing it where its distribution says
    it; empty without one."""
    if importlib.util.find_spec(module) is None:
        return ""
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        return str(importlib.import_module(module).__version__)
    except (ImportError, OSError, AttributeError):  # a package without the library that it loads
        return ""
