"""Every condition of the table, on every release that it knows: a node that it refuses, and one with one thing changed.

`EXAMPLES` says a second time, in words, which targets refuse a node: what `surgeon.targets` declares is held against
it. A condition without an example, for an operator that it is declared for, fails; so does one that answers one
release too early or too late, or with another reason.
"""

from __future__ import annotations

from functools import cache

import pytest
from condition_examples import MORE, Example, both
from condition_examples_asked import ASKED
from condition_examples_fuzzed import FURTHER, FUZZED
from condition_examples_measured import BESIDES, MEASURED
from helpers import model, require_opset

from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.targets import releases
from surgeon.targets.condition import Condition
from surgeon.targets.conditions import CONDITIONS
from surgeon.targets.target import Target

# ---- the models ------------------------------------------------------------------------------------------------------

REDUCE = "ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"
NOOP = "(float[2,3] x) => (float[a,b] y) <int64[1] k = {1}> { y = OP <noop_with_empty_axes = 1> (x) }"
NOOP_TAKEN = (
    NOOP.replace("axes = 1", "axes = 0"),
    NOOP.replace("axes = 1", "axes = 1, axes = [1]"),
)
BAD_INPUT = "its input {} must be an initializer"
PLUGIN = "it becomes the stock plugin, which needs cuDNN, scale and bias as fp32 initializers, and 3 to 5 dimensions"
RESIZE = (
    "(float[1,1,2,2] x) => (float[a,b,c,d] y) <float[4] s = {1, 1, 2, 2}, float[8] r = {0, 0, 0, 0, 1, 1, 1, 1}>"
    '{ y = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , s) }'
)
BATCH = "(float[1,2,3] x) => (float[1,2,3] y) <float[2] s = {1, 1}> { y = BatchNormalization (x, s, s, s, s) }"
DECONVOLUTION = (
    "(float[1,1,5,5] x) => (float[1,1,c,d] y) <float[1,1,3,3] w = {1, 1, 1, 1, 1, 1, 1, 1, 1}>"
    "{ y = ConvTranspose <strides = [2, 2], output_shape = [11, 11]> (x, w) }"
)
BIASED = (
    "(float[1,1,5] x, float[1] b) => (float[1,1,c] y) <float[1,1,2] w = {1, 1}, float[1] bias = {1}>"
    "{ y = ConvTranspose <strides = [2], output_padding = [1], pads = [0, 0]> (x, w, b) }"
)
ATTENTION = (
    "(float16[1,2,2,16] q, float16[1,2,2,16] k, float16[1,2,2,17] w, float16[2,2] m, int64[1] n, float[1,2,2,2] f)"
    " => (float16[1,2,2,16] y) { y = Attention (q, k, k) }"
)

FLAT = "(float[1,2,32] q, float[1,2,32] k, float[2,2] m) => (float[1,2,32] y) { y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, k, m) }"


def attention(call: str, *taken: str) -> tuple[str, tuple[str, ...]]:
    return both(ATTENTION, "y = Attention (q, k, k)", call)[1][0], (
        ATTENTION,
        *(ATTENTION.replace("y = Attention (q, k, k)", t) for t in taken),
    )


def recurrent(op: str, attributes: str) -> str:
    """A bidirectional LSTM, GRU or RNN with these attributes too."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    return (
        f"(float[3,1,4] x, float[2,{gates * 5},4] w, float[2,{gates * 5},5] r) => (float[3,2,1,5] y)"
        f'{{ y = {op} <hidden_size = 5, direction = "bidirectional"{attributes}> (x, w, r) }}'
    )


def activations(op: str, last: str) -> str:
    """The activations of both directions, the last of the second one given."""
    first = {"LSTM": '"Sigmoid", "Tanh", "Tanh"', "GRU": '"Sigmoid", "Tanh"', "RNN": '"Tanh"'}[op]
    return f', activations = [{first}, {first.rpartition(chr(34) + "Tanh")[0]}"{last}"]'


LOOP = (
    "(float[2] x, bool go) => (float[2] y) {{ g = Identity (go) n = Constant <value = int64 {{2}}> () y = Loop (n, {}, x) <body = b"
    " (int64 i, bool c, float[2] s) => (bool d, float[2] t) {{ d = {} t = Neg (s) }}> }}"
)
SHAPED = {  # by operator: inputs behind x, a computed integer tensor `r` in one of them
    "ConstantOfShape": ("y = ConstantOfShape (r)",),
    "Expand": ("y = Expand (x, r)",),
    "Pad": ("y = Pad (x, r)",),
    "Reshape": ("y = Reshape (x, r)",),
    "Resize": ('y = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , , r)',),
    "Slice": ("y = Slice (x, r, e, a)", "y = Slice (x, e, r, a)"),
    "Tile": ("y = Tile (x, r)",),
}
DEEP = "(float[2,3] x, int64[2,1] d) => (float[a,b] y) <int64[1] all = {-1}, int64[2] e = {1, 1}, int64[2] a = {0, 1}>"
CONE = "its input {} is computed through 'f' of 2 dimensions; one at most is taken"


def deep(op: str, call: str) -> Example:
    position = call[call.index("(x") :].count(",", 0, call[call.index("(x") :].index("r")) if "(x" in call else 0
    before = {"Pad": (BAD_INPUT.format(1),)}.get(op, ())
    first = {"Pad": "8.2", "Reshape": "6.0", "Resize": "6.0", "Slice": "6.0"}.get(op, "7.0")
    text = f"{DEEP} {{ f = Neg (d) r = Reshape (f, all) {call} }}"
    taken = text.replace("int64[2,1] d", "int64[2] d")
    return Example(op, f"{first} to 8.4", CONE.format(position), 13, text, (taken,), beside=before)


def deep_range(position: int) -> Example:
    inputs = ", ".join("r" if position == k else "one" for k in range(3))
    text = (
        "(int64[1,1] d) => (int64[n] y) <int64 one = {1}, int64[0] none = {}>"
        f" {{ f = Neg (d) r = Reshape (f, none) y = Range ({inputs}) }}"
    )
    return Example(
        "Range", "7.0 to 8.4", CONE.format(position), 13, text, (text.replace("int64[1,1] d", "int64[1] d"),)
    )


def bfloat16(operators: str, targets: str, opset: int, text: str, *beside: str) -> Example:
    return Example(operators, targets, "bfloat16 is refused", opset, *both(text, "bfloat16", "float16"), beside=beside)


SLICE = "(float[4,3] x) => (float[a,b] y) <int64[2] s = {3, 0}, int64[2] e = {0, 3}, int64[2] a = {0, 1}, int64[2] t = {-1, 1}>"
ONE_NUMBER = "(float[4] x) => (float[n] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {0}, int64[1] t = {1}>"
PAD = "(float[1,2,4,4] x) => (float[a,b,c,d] y) <int64[8] p = {0, 0, 1, 0, 0, 0, 0, 1}, float v = {0}>"
HALF = "(float16[1,2,4,4] x, float[1,2,4,4] z) => (float16[a,b,c,d] y) <int64[8] p = {0, 0, 1, 0, 0, 0, 0, 1}, float16 v = {1}>"
INSTANCE = "(float[1,2,3] x) => (float[1,2,3] y) <float[2] s = {1, 1}, float16[2] h = {1, 1}> { y = InstanceNormalization (x, s, s) }"
GROUP = (
    "(float[1,4,3,3] x) => (float[a,b,c,d] y) <float[4] s = {1, 1, 1, 1}>"
    "{ y = GroupNormalization <num_groups = 2> (x, s, s) }"
)
LAYER = "(float[2,3] x) => (float[2,3] y) <float[3] s = {1, 1, 1}> { y, m = LayerNormalization (x, s) }"
POOL = (
    "(float[1,1,4,1] x) => (float[1,1,n,1] y) { y = OP <kernel_shape = [1, 1], strides = [2, 1], ceil_mode = 1> (x) }"
)
QUANTIZE = "(float[2] x) => (int8[2] y) <float s = {0.5}, int8 z = {0}> { y = QuantizeLinear (x, s, z) }"
DEQUANTIZE = "(int8[2] x) => (float[2] y) <float s = {0.5}, int8 z = {0}> { y = DequantizeLinear (x, s, z) }"
MODE = "reduction '{}' is not read: it would overwrite"
SCATTER = (
    '(float[4] x, float[1] u) => (float[4] y) <int64[1,1] i = {2}> { y = ScatterND <reduction = "add"> (x, i, u) }'
)
ELEMENTS = (
    '(float[4] x, float[1] u) => (float[4] y) <int64[1] i = {2}> { y = ScatterElements <reduction = "add"> (x, i, u) }'
)
REFUSED_ATTRIBUTE = "the attribute reduction is refused, even as 'none'"
RESIZE_TAKEN = "coordinate_transformation_mode '{}' is refused; only 'asymmetric' is taken"
EINSUM = '(float[2,2] x) => (float[a,b] y) { y = Einsum <equation = "ij,jk->ik"> (x, x) }'
PRELU = "(float[2,3] x, float[3] c) => (float[2,3] y) <float[3] s = {1, 2, 3}> { y = PRelu (x, s) }"
CLIP = "(double[2] x, double low) => (double[2] y) <double zero = {0}> { y = Clip (x, low) }"
CROSSED = "(float[2] x) => (float[2] y) <float a = {1}, float b = {-1}> { y = Clip (x, a, b) }"

EXAMPLES: dict[str, list[Example]] = {
    # reductions
    "reduce_axes": [
        Example(
            operators, targets, "the axes are an input, which this parser does not read: it would reduce over every axis", 18,
            *both("(float[2,3] x) => (float[a,b] y) <int64[1] k = {1}, int64[2] all = {-1, 0}, int64[0] none = {}> { y = OP (x, k) }", "(x, k)", "(x)", "(x, all)", *(["(x, none)"] if operators == REDUCE else [])),
        )
        for operators, targets in ((REDUCE, "6.0 to 9.3"), ("ReduceSum ReduceLogSum", "6.0 to 7.2.2"))
    ],
    "reduce_noop": [
        Example(
            operators, "6.0 to 9.3", "noop_with_empty_axes is not read: it would reduce over every axis", 18, NOOP, NOOP_TAKEN, beside=beside,
        )
        for operators, beside in (
            ("ReduceSum ReduceMax ReduceMean ReduceMin ReduceProd ReduceLogSumExp", ()),
            ("ReduceL1 ReduceL2 ReduceLogSum ReduceSumSquare", ("noop_with_empty_axes would return the input, not what the operator makes of each number",)),
        )
    ],
    "reduce_nothing": [
        Example(
            "ReduceL1 ReduceL2 ReduceLogSum ReduceSumSquare", "rtx",
            "noop_with_empty_axes would return the input, not what the operator makes of each number", 18, NOOP, (*NOOP_TAKEN, NOOP.replace("(x)", "(x, k)")),
        )
    ],
    "reduce_type": [
        Example("ReduceMax ReduceMin", "10.0 to 11.4, rtx", f"{dtype} is refused", 20, *both(f"({dtype}[2,3] x) => ({dtype}[1,1] y) {{ y = OP (x) }}", dtype, "float"))
        for dtype in ("bool", "uint8")
    ],
    "softmax_rank": [
        Example(
            op, where, f"an input of {rank} dimensions is refused", 13,
            f"({kind} x) => ({kind} y) {{ y = {op} <axis = 0> (x) }}",
            tuple(f"({k} x) => ({k} y) {{ y = {op} <axis = 0> (x) }}" for k in ("float[1,4]", "float[]", kind)), (13, 13, 12),
        )
        for op, where in (("Softmax", "8.4, rtx"), ("LogSoftmax", "8.4, rtx"), ("Hardmax", "rtx"))
        for rank, kind in ((1, "float[4]"), (0, "float"))
    ],
    "top_k": [
        Example(
            "TopK", "6.0 to 11.4, rtx", "K = 3841 is refused; 0 to 3840 are taken", 11,
            *both("(float[1,4000] x) => (float[1,a] y, int64[1,a] i) <int64[1] k = {3841}> { y, i = TopK (x, k) }", "3841", "3840"),
        )
    ],
    # activations
    "celu": [Example("Celu", "7.2.2 to 8.2", "this parser computes Celu wrongly", 11, "(float[2] x) => (float[2] y) { y = Celu (x) }")],
    "celu_type": [
        Example("Celu", "11.0 to 11.4, rtx", f"{dtype} is refused", 12, *both(f"({dtype}[2] x) => ({dtype}[2] y) {{ y = Celu (x) }}", dtype, "float"))
        for dtype in ("float16", "bfloat16")
    ],
    "selu_defaults": [
        Example(
            "Selu", "6.0 to 11.4, rtx", "alpha and gamma are left out, and this parser's own defaults are rounded to 1.6732 and 1.0507", 6,
            *both(f"(float[2] x) => (float[2] y) {{ y = Selu{written} (x) }}", f"Selu{written}", "Selu <alpha = 1.5, gamma = 1.0>"),
        )
        for written in ("", " <alpha = 1.5>", " <gamma = 1.0>")
    ],
    "prelu_rank": [
        Example("PRelu", "7.0 to 11.4", "the slope has more dimensions than the input", 16, *both(PRELU.replace("float[3] s", "float[1,1,3] s"), "float[1,1,3] s", "float[1,3] s", "float[3] s")),
        Example("PRelu", "7.0 to 11.4", "the slope has more dimensions than the input", 16, *both(PRELU.replace("float[3] s", "float[1,1,3] s"), "float[2,3] x", "float[] x")),
        Example("PRelu", "7.0 to 11.4", "the slope has more dimensions than the input", 16, *both(PRELU.replace("float[3] c", "float[1,1,3] c").replace("(x, s)", "(x, c)"), "float[1,1,3] c", "float[1,3] c", "float[] c")),
    ],
    "relu_type": [
        Example("Relu", "9.0 to 11.4, rtx", "int32 is refused", 14, *both("(int32[2] x) => (int32[2] y) { y = Relu (x) }", "int32", "int64", "float"), beside=("integers are refused",)),
    ],
    "no_integers": [
        *[
            Example("PRelu", "7.0 to 11.4, rtx", "integers are refused", 16, *both(PRELU.replace("float", dtype), dtype, "float"))
            for dtype in ("int32", "int64")
        ],
        Example("Relu", "7.0 to 8.6", "integers are refused", 14, *both("(int64[2] x) => (int64[2] y) { y = Relu (x) }", "int64", "float")),
        Example("Relu", "7.0 to 8.6", "integers are refused", 14, *both("(int32[2] x) => (int32[2] y) { y = Relu (x) }", "int32", "float"), beside=("int32 is refused",)),
    ],
    "prelu_dequantized": [
        Example(
            "PRelu", "8.4", "the parser's process dies of a slope that comes from a DequantizeLinear", 13,
            *both(
                "(float[1,2,3] x, float[2,1] c) => (float[1,2,3] y) <int8[2,1] q = {1, 2}, float[2,1] w = {1, 2}, float s = {0.5}, int8 z = {0}> { a = DequantizeLinear (q, s, z) y = PRelu (x, a) }",
                "a = DequantizeLinear (q, s, z)", "a = Abs (c)", "a = Identity (w)",
            ),
        )
    ],
    "clip_half": [
        Example(
            "Clip", "8.0 to 8.4", "fp16 bounds are read as fp32", 13,
            *both(f"(float16[2] x) => (float16[2] y) <float16 a = {{1}}> {{ y = Clip ({call}) }}", f"Clip ({call})", "Clip (x)"),
            beside=("without a lower bound it is taken in fp32 and int32, not in float16",) if call == "x, , a" else (),
        )
        for call in ("x, a", "x, , a", "x, a, a")
    ] + [
        Example("Clip", "8.0 to 8.4", "fp16 bounds are read as fp32", 13, *both("(float16[2] x) => (float16[2] y) <float16 a = {1}> { y = Clip (x, a) }", "float16", "float")),
    ],
    "clip_tensors": [
        Example(
            "Clip", "8.0 to 8.6", "bounds that are computed are taken in fp32 and int32, not in double", 12, CLIP.replace("(x, low)", f"({call})"),
            (CLIP.replace("low)", "zero)"), *(CLIP.replace("double", dtype).replace("(x, low)", f"({call})") for dtype in ("float", "int32", "int64")),
             CLIP.replace("{ y = Clip (x, low)", f"{{ t = com.custom.Foo (x) y = Clip ({call.replace('x', 't')})")),
            beside=(BAD_INPUT.format(position),),
        )
        for call, position in (("x, low", 1), ("x, , low", 2))
    ],
    "clip_crossed": [
        Example(
            "Clip", "6.0 to 11.4, rtx", "its lower bound is above the upper one: it would return 1, not -1", 13, CROSSED,
            (
                CROSSED.replace("b = {-1}", "b = {1}"), CROSSED.replace("b = {-1}", "b = {2}"), CROSSED.replace("float", "int32"), CROSSED.replace("(x, a, b)", "(x, a)"), CROSSED.replace("(x, a, b)", "(x, , b)"),
                CROSSED.replace("float a = {1}", "float[2] a = {1, 1}"), CROSSED.replace("float b = {-1}", "float[2] b = {-1, -1}"),
            ),
        )
    ],
    # resize
    "grid_sample_mode": [
        Example(
            "GridSample", "8.5 to 11.0", f"the mode name '{mode}' of opset 20 is not read: it would take the nearest pixel", 20,
            *both(f'(float[1,2,4,4] x, float[1,3,3,2] g) => (float[1,2,3,3] y) {{ y = GridSample <mode = "{mode}"> (x, g) }}', mode, "bilinear"),
        )
        for mode in ("linear", "cubic")
    ],
    "grid_sample_rank": [
        Example(
            "GridSample", "8.5 to 11.4", "the input has 5 dimensions; four are supported", 20,
            *both("(float[1,2,4,4,4] x, float[1,3,3,3,3] g) => (float[1,2,a,b,c] y) { y = GridSample (x, g) }", "float[1,2,4,4,4] x", "float[1,2,4,4] x", "float[] x"),
        )
    ],
    "resize_unread": [
        Example("Resize", "6.0 to 9.3", "antialias is not read: it would resize without", 18, *both(RESIZE.replace('"floor"', '"floor", antialias = 1'), "antialias = 1", "antialias = 0"), beside=("antialias is refused",)),
        Example(
            "Resize", "6.0 to 9.3", "keep_aspect_ratio_policy is not read: it would stretch", 18,
            *both(RESIZE.replace('"floor"', '"floor", keep_aspect_ratio_policy = "not_larger"'), "not_larger", "stretch"), beside=("only 'stretch' is taken as keep_aspect_ratio_policy",),
        ),
        Example("Resize", "6.0 to 9.3", "axes is not read", 18, *both(RESIZE.replace('"floor"', '"floor", axes = [0, 1, 2, 3]'), ", axes = [0, 1, 2, 3]", "")),
        Example("Resize", "6.0 to 9.3", "axes is not read", 18, RESIZE.replace('"floor"', '"floor", axes = [0, 1, 2, 3]'), (RESIZE,), (11,)),
    ],
    "resize_refused": [
        Example("Resize", "10.0 to 11.4, rtx", "antialias is refused", 18, *both(RESIZE.replace('"floor"', '"floor", antialias = 1'), "antialias = 1", "antialias = 0"), beside=("antialias is not read: it would resize without",)),
        Example(
            "Resize", "10.0 to 11.4, rtx", "only 'stretch' is taken as keep_aspect_ratio_policy", 18,
            RESIZE.replace('"floor"', '"floor", keep_aspect_ratio_policy = "not_larger"'), (RESIZE.replace('"floor"', '"floor", keep_aspect_ratio_policy = "stretch"'), RESIZE), (18, 11), ("keep_aspect_ratio_policy is not read: it would stretch",),
        ),
    ],
    "resize_crop": [
        Example(
            "Resize", "8.0 to 11.4, rtx", "coordinate_transformation_mode 'tf_crop_and_resize' is refused", 13,
            *both(RESIZE.replace("asymmetric", "tf_crop_and_resize").replace("(x, , s)", "(x, r, s)"), "tf_crop_and_resize", "asymmetric"), beside=(RESIZE_TAKEN.format("tf_crop_and_resize"),),
        ),
        Example(
            "Resize", "8.0 to 11.4, rtx", "coordinate_transformation_mode 'half_pixel_symmetric' is refused", 19,
            *both(RESIZE.replace("asymmetric", "half_pixel_symmetric"), "half_pixel_symmetric", "asymmetric"), beside=(RESIZE_TAKEN.format("half_pixel_symmetric"),),
        ),
    ],
    "resize_cubic": [Example("Resize", "6.0 to 8.4", "cubic interpolation is refused", 13, *both(RESIZE.replace('"floor"', '"floor", mode = "cubic"'), "cubic", "linear"))],
    "resize_asymmetric": [
        Example("Resize", "7.0 to 7.2.2", RESIZE_TAKEN.format("half_pixel"), 11, *both(RESIZE.replace("asymmetric", "half_pixel"), "half_pixel", "asymmetric")),
        Example("Resize", "7.0 to 7.2.2", RESIZE_TAKEN.format("half_pixel"), 11, RESIZE.replace('coordinate_transformation_mode = "asymmetric", ', ""), ("(float[1,1,2,2] x) => (float[a,b,c,d] y) <float[4] s = {1, 1, 2, 2}> { y = Resize (x, s) }",), (10,)),
        Example(
            "Resize", "7.0 to 7.2.2", "nearest_mode 'ceil' is refused; only 'floor' is taken", 11,
            *both(RESIZE.replace('"floor"', '"ceil"'), '"ceil"', '"floor"', '"ceil", mode = "linear"'),
        ),
    ],
    "roi_align": [
        Example(
            "RoiAlign", "8.5 to 11.4", "sampling_ratio 0 (adaptive) is not there: it would take one sample a bin", 16,
            *both("(float[1,2,4,4] x, float[1,4] r, int64[1] b) => (float[1,2,1,1] y) { y = RoiAlign <spatial_scale = 1.0> (x, r, b) }", "<spatial_scale = 1.0>", "<sampling_ratio = 2>"),
        )
    ],
    # recurrent
    "LSTM.layout": [
        Example(op, "7.0 to 11.4, rtx", "layout 1 is not read: batch and time would be swapped", 14, *both(recurrent(op, ", layout = 1"), ", layout = 1", ", layout = 0", ""), opsets=(14, 7))
        for op in ("LSTM", "GRU", "RNN")
    ],
    "lstm_coupled": [Example("LSTM", "7.0 to 11.4, rtx", "input_forget is refused", 14, *both(recurrent("LSTM", ", input_forget = 1"), "input_forget = 1", "input_forget = 0"))],
    "reverse_activations": [
        Example(
            op, "rtx" if op == "RNN" else "7.0 to 11.4, rtx", "the reverse pass has other activations than the forward one", 14,
            recurrent(op, activations(op, "Relu")), (recurrent(op, activations(op, "Tanh")), recurrent(op, "")),
        )
        for op in ("LSTM", "GRU", "RNN")
    ],
    "reverse_numbers": [
        Example(
            op, "rtx", f"the reverse pass has another {name} than the forward one", 14,
            recurrent(op, f", {name} = [0.5, 1.0]"),
            (recurrent(op, f", {name} = [0.5, 0.5]"), recurrent(op, f", {name} = [0.5, 0.5, 1.0]"), recurrent(op, f", {name} = [0.5, 1.0]").replace("bidirectional", "reverse")),
        )
        for op in ("LSTM", "GRU", "RNN")
        for name in ("activation_alpha", "activation_beta")
    ],
    # control_flow
    "loop_condition": [
        Example(
            "Loop", "7.0 to 11.4, rtx", "the condition is left out, and its body reads it as 'c'", 17, LOOP.format('""', read),
            (LOOP.format("g", read), LOOP.format('""', "Constant <value = bool {1}> ()")),
        )
        for read in ("Identity (c)",)
    ] + [
        Example(
            "Loop", "7.0 to 11.4, rtx", "the condition is left out, and its body reads it as 'c'", 17, LOOP.format('""', "Neg (s)").replace("bool d", "bool c").replace("d = Neg (s)", ""),
            (LOOP.format("g", "Neg (s)").replace("bool d", "bool c").replace("d = Neg (s)", ""),),
        )
    ],
    # constants
    "constant_attribute": [
        Example("Constant", "6.0 to 7.2.2", "no attribute of a Constant but 'value' is read", 13, *both("() => (float y) { y = Constant <value_float = 3.0> () }", "value_float = 3.0", "value = float {3}")),
    ],
    "constant_integers": [
        Example("Constant", "8.0 to 9.1", why, 13, f"() => (int64[n] y) {{ y = Constant <{written}> () }}", ("() => (int64[n] y) { y = Constant <value = int64 {3}> () }", "() => (float y) { y = Constant <value_float = 3.0> () }"), beside=("no attribute of a Constant but 'value' is read",))
        for written, why in (("value_int = 3", "value_int is read as a float: the constant would be 0"), ("value_ints = [3]", "value_ints is read as floats: the constant would be empty"))
    ],
    # shapes
    "shape_range": [
        Example("Shape", "6.0 to 9.3", "start and end are not read: it would return the whole shape", 15, *both(f"(float[2,3] x) => (int64[n] y) {{ y = Shape <{written} = 1> (x) }}", f"{written} = 1", "start = 0", "start = -2", "end = 2"))
        for written in ("start", "end")
    ],
    "shape_tensor_rank": [
        *(deep(op, call) for op, calls in SHAPED.items() for call in calls),
        *(deep_range(position) for position in range(3)),
    ],
    "reshape_zero": [
        Example(
            "Reshape", "7.0 to 8.2", "allowzero is not read: 0 would copy the dimension", 14,
            *both("(float[2,3] x, int64[2] c) => (float[a,b] y) <int64[2] s = {0, 3}, int64[2] t = {3, 2}> { y = Reshape <allowzero = 1> (x, s) }", "<allowzero = 1> (x, s)", "<allowzero = 1> (x, t)", "<allowzero = 0> (x, s)"),
        ),
        Example(
            "Reshape", "7.0 to 8.2", "allowzero is not read: 0 would copy the dimension", 14,
            *both("(float[2,3] x, int64[2] c) => (float[a,b] y) <int64[2] t = {3, 2}> { y = Reshape <allowzero = 1> (x, c) }", "(x, c)", "(x, t)"),
        ),
    ],
    "reshape_bare": [
        Example(
            "Reshape", "8.4 to 8.6", "allowzero must be written out from opset 14 on", 14,
            "(float[2,3] x) => (float[a,b] y) <int64[2] s = {3, 2}> { y = Reshape (x, s) }",
            ("(float[2,3] x) => (float[a,b] y) <int64[2] s = {3, 2}> { y = Reshape <allowzero = 0> (x, s) }", "(float[2,3] x) => (float[a,b] y) <int64[2] s = {3, 2}> { y = Reshape (x, s) }"), (14, 13),
        )
    ],
    "eye_like": [
        Example(
            "EyeLike", "7.2.2 to 11.4, rtx", "its size is not static: `Eyelike does not work for dynamically shaped tensors`", 9,
            *both(f"(float{shape} x) => (float[a,b] y) {{ y = EyeLike (x) }}", f"float{shape}", "float[2,3]"),
        )
        for shape in ("[N,3]", "[]")
    ],
    "space_to_depth_mode": [Example("SpaceToDepth", "rtx", "the mode 'CRD' is not read", 13, *both('(float[1,1,2,2] x) => (float[1,4,1,1] y) { y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x) }', "CRD", "DCR"))],
    "depth_to_space_rank": [
        Example("DepthToSpace SpaceToDepth", "6.0 to 11.4, rtx", "the input has 3 dimensions; four are taken", 11, *both("(float[4,2,2] x) => (float[] y) { y = OP <blocksize = 2> (x) }", "float[4,2,2] x", "float[1,4,2,2] x", "float[] x")),
    ],
    # indexing
    "scatter_unread": [
        Example("ScatterND", "8.2 to 9.3", MODE.format("add"), 18, *both(SCATTER, '<reduction = "add"> ', '<reduction = "none"> ', "", ""), opsets=(18, 18, 11), beside=(REFUSED_ATTRIBUTE, "ScatterND with a reduction is refused")),
        Example("ScatterElements", "8.2 to 9.3", MODE.format("add"), 18, *both(ELEMENTS, '<reduction = "add"> ', '<reduction = "none"> ', "", ""), opsets=(18, 18, 11), beside=("ScatterElements with a reduction is refused",)),
    ],
    "scatter_nd_attribute": [Example("ScatterND", "10.0 to 10.8", REFUSED_ATTRIBUTE, 18, *both(SCATTER.replace("add", "none"), '<reduction = "none"> ', ""))],
    "scatter_nd_reduction": [Example("ScatterND", "10.9 to 11.4, rtx", "ScatterND with a reduction is refused", 18, *both(SCATTER, '<reduction = "add"> ', '<reduction = "none"> ', "", ""), opsets=(18, 18, 11), beside=(REFUSED_ATTRIBUTE,))],
    "scatter_elements_reduction": [Example("ScatterElements", "rtx", "ScatterElements with a reduction is refused", 18, *both(ELEMENTS, '<reduction = "add"> ', '<reduction = "none"> ', "", ""), opsets=(18, 18, 11))],
    "suppression": [
        Example(
            "NonMaxSuppression", "8.0 to 8.4", "this parser makes a plugin of it that returns other rows, and always as many", 11,
            "(float[1,N,4] b, float[1,1,N] s) => (int64[K,3] y) <int64[1] m = {3}, float[1] o = {0.5}, float[1] l = {0.5}> { y = NonMaxSuppression (b, s, m, o, l) }",
        )
    ],
    "trilu_upper": [
        Example("Trilu", "8.5 to 11.4, rtx", "upper is left out, and this parser's own default is 0, the lower triangle", 14, *both("(float[2,2] x) => (float[2,2] y) { y = Trilu (x) }", "Trilu", "Trilu <upper = 1>")),
    ],
    "trilu_rank": [Example("Trilu", "8.5", "the input has 3 dimensions; two are taken", 14, *both("(float[2,2,2] x) => (float[] y) { y = Trilu <upper = 1> (x) }", "float[2,2,2] x", "float[2,2] x", "float[] x"))],
    "slice_backward": [
        Example("Slice", "6.0 to 7.2.2", "negative steps are not documented before 8.0", 13, *both(f"{SLICE} {{ y = Slice (x, s, e, a, t) }}", "t = {-1, 1}", "t = {1, 1}", "t = {2, 1}"))
    ],
    "slice_axes": [
        Example(
            "Slice", "7.0 to 11.4, rtx", "axes is left out, which stands for every dimension", 13,
            *both("(float[2,3] x) => (float[a,b] y) <int64[1] s = {1}, int64[1] e = {2}, int64[1] a = {0}> { y = Slice (x, s, e) }", "(x, s, e)", "(x, s, e, a)"),
        ),
        Example(
            "Slice", "7.0 to 11.4, rtx", "axes is left out, which stands for every dimension", 13,
            *both("(float[2,3] x) => (float[a,b] y) <int64[1] s = {1}, int64[1] e = {2}> { y = Slice (x, s, e) }", "float[2,3] x", "float[3] x", "float[] x"),
        ),
        Example(
            "Slice", "7.0 to 11.4, rtx", "axes is left out, which stands for every dimension", 13,
            *both("(float[2,3] x, int64[1] s, int64[] e) => (float[a,b] y) { y = Slice (x, s, e) }", "int64[1] s", "int64[2] s", "int64[] s"),
        ),
    ],
    "slice_empty_axes": [Example("Slice", "7.0 to 10.1", "the empty axes are read as a tensor", 13, *both(f"{ONE_NUMBER} {{ y = Slice (x, s, e, , t) }}", "(x, s, e, , t)", "(x, s, e, a, t)", "(x, s, e)"))],
    "attribute_alone": [
        Example("Split", "6.0 to 7.2.2", "the second input is not read: the attribute is", 13, *both("(float[4] x) => (float[2] y, float[2] z) <int64[2] s = {2, 2}> { y, z = Split (x, s) }", "(x, s)", "(x)")),
        Example("Squeeze", "6.0 to 7.2.2", "the second input is not read: the attribute is", 13, *both("(float[1,4] x) => (float[4] y) <int64[1] s = {0}> { y = Squeeze (x, s) }", "(x, s)", "(x)")),
        Example("Unsqueeze", "6.0 to 7.2.2", "the second input is not read: the attribute is", 13, *both("(float[4] x) => (float[1,4] y) <int64[1] s = {0}> { y = Unsqueeze (x, s) }", "Unsqueeze (x, s)", "Unsqueeze <axes = [0]> (x)"), opsets=(11,)),
    ],
    "split_uneven": [
        Example("Split", "8.0 to 9.3", "num_outputs 2 does not divide the dimension", 18, *both(f"(float[4,{size}] x) => (float[a,b] y, float[c,d] z) {{ y, z = Split <num_outputs = 2, axis = 1> (x) }}", f"[4,{size}] x", "[4,6] x", "[3,2] x"))
        for size in ("3", "N")
    ] + [
        Example("Split", "8.0 to 9.3", "num_outputs 2 does not divide the dimension", 18, *both("(float[3,4] x) => (float[a,b] y, float[c,d] z) { y, z = Split <num_outputs = 2> (x) }", "[3,4] x", "[4,3] x")),
        Example("Split", "8.0 to 9.3", "num_outputs 2 does not divide the dimension", 18, *both("(float[] x) => (float[a] y, float[b] z) { y, z = Split <num_outputs = 2> (x) }", "float[] x", "float[4] x")),
    ],
    # pads
    "constant_mode": [Example("Pad", "6.0 to 8.0", f"only constant padding is taken, not '{mode}'", 13, *both(f'{PAD} {{ y = Pad <mode = "{mode}"> (x, p) }}', f'"{mode}"', '"constant"')) for mode in ("edge", "reflect")],
    "zero_value": [Example("Pad", "6.0 to 8.0", "only padding with 0 is taken", 13, *both(f"{PAD} {{ y = Pad (x, p, v) }}".replace("v = {0}", "v = {1}"), "float v = {1}", "float v = {0}", "float[0] v = {}"))],
    "constant_pads": [
        Example("Pad", "6.0 to 8.0", "the pads must be an initializer", 1, "(float[1,2,4,4] x) => (float[a,b,c,d] y) { y = Pad <paddings = [0, 0, 1, 0, 0, 0, 0, 1]> (x) }", ("(float[1,2,4,4] x) => (float[a,b,c,d] y) { y = Pad <pads = [0, 0, 1, 0, 0, 0, 0, 1]> (x) }",), (2,), beside=("paddings is not read: pads is",))
    ],
    "wrap_mode": [Example("Pad", "8.2 to 9.3", "the mode 'wrap' is refused", 19, *both(f'{PAD} {{ y = Pad <mode = "wrap"> (x, p) }}', "wrap", "edge", "reflect"), beside=("only constant padding is taken, not 'wrap'",))],
    "negative_pads": [Example("Pad", "6.0 to 10.3", "negative pads are refused", 13, *both(f"{PAD} {{ y = Pad (x, p) }}".replace("0, 0, 1, 0", "0, 0, -1, 0"), "-1", "0", "1"))],
    "last_two": [
        Example("Pad", "6.0 to 7.2.2", "only the last two dimensions are padded", 13, *both(f"{PAD} {{ y = Pad (x, p) }}".replace("{0, 0, 1, 0, 0, 0, 0, 1}", p), p, "{0, 0, 1, 1, 0, 0, 1, 1}"))
        for p in ("{0, 1, 0, 0, 0, 0, 0, 0}", "{0, 0, 0, 0, 0, 1, 0, 0}")
    ],
    "any_two": [
        Example(
            "Pad", "8.0", "only two dimensions are padded at once", 13,
            *both(f"{PAD} {{ y = Pad (x, p) }}".replace("{0, 0, 1, 0, 0, 0, 0, 1}", "{0, 1, 1, 0, 0, 0, 0, 1}"), "{0, 1, 1, 0, 0, 0, 0, 1}", "{0, 1, 1, 0, 0, 1, 1, 0}", "{1, 0, 0, 0, 0, 0, 0, 0}"), beside=("only the last two dimensions are padded",),
        )
    ],
    "empty_value": [Example("Pad", "8.2 to 8.4", "the empty third input is read as a tensor", 13, *both(f'{PAD} {{ y = Pad (x, p, "") }}', '(x, p, "")', "(x, p)", "(x, p, v)"))],
    "half_value": [
        Example("Pad", "8.2", "an fp16 padding value is read as fp32", 13, *both(f"{HALF} {{ y = Pad (x, p, v) }}", "Pad (x, p, v)", "Pad (x, p)", 'Pad <mode = "edge"> (x, p, v)', "Pad (z, p, v)"), beside=("only padding with 0 is taken",)),
        Example("Pad", "8.2", "an fp16 padding value is read as fp32", 13, *both(f"{HALF} {{ y = Pad (x, p, v) }}", "v = {1}", "v = {0}"), beside=("only padding with 0 is taken",)),
    ],
    "axes_input": [
        Example("Pad", "6.0 to 9.3", "the fourth input, axes, is refused", 18, *both("(float[2,4] x) => (float[a,b] y) <int64[4] p = {1, 0, 1, 0}, float v = {0}, int64[2] k = {0, 1}> { y = Pad (x, p, v, k) }", "(x, p, v, k)", "(x, p, v)")),
    ],
    # normalizations
    "instance_norm_plugin": [Example("InstanceNormalization", "6.0 to 9.3", PLUGIN, 6, INSTANCE)],
    "norm_rank": [
        Example("InstanceNormalization", "10.0 to 11.4, rtx", "the input has 2 dimensions; at least three are needed", 6, *both(INSTANCE, "[1,2,3] x", "[1,2,3] x", "[] x"), beside=(PLUGIN,))._replace(refused=INSTANCE.replace("[1,2,3] x", "[1,2] x")),
        Example("GroupNormalization", "8.6 to 11.4, rtx", "the input has 2 dimensions; at least three are needed", 17, GROUP.replace("[1,4,3,3]", "[1,4]"), (GROUP, GROUP.replace("[1,4,3,3] x", "[1,4,3] x"), GROUP.replace("[1,4,3,3] x", "[] x"))),
    ],
    "instance_norm_mixed": [
        Example("InstanceNormalization", "10.0 to 11.4, rtx", "input, scale and bias are of different types", 6, *both(INSTANCE.replace("(x, s, s)", mixed), mixed, "(x, s, s)", "(x, s)"), beside=(PLUGIN,))
        for mixed in ("(x, h, s)", "(x, s, h)", "(x, h, h)")
    ] + [
        Example("InstanceNormalization", "10.0 to 11.4, rtx", "input, scale and bias are of different types", 6, INSTANCE.replace("(x, s, s)", "(x, h, s)"), (INSTANCE.replace("{ y = InstanceNormalization (x,", "{ t = com.custom.Foo (x) y = InstanceNormalization (t,"),), beside=(PLUGIN,)),
    ],
    "group_norm_one": [Example("GroupNormalization", "8.6 to 11.4, rtx", "with one group it would compute an InstanceNormalization", 17, *both(GROUP.replace("groups = 2", "groups = 1"), "groups = 1", "groups = 2"))],
    "group_norm_channels": [Example("GroupNormalization", "10.0 to 10.8", "the scale by channel of opset 21 is refused", 21, GROUP, (GROUP,), (20,), ("GroupNormalization is not in opset 17, the newest that this parser reads",))],
    "group_norm_rank": [
        Example(
            "GroupNormalization", "10.9 to 10.14", "the input has 3 dimensions; four are normalised over the right axes", 21, GROUP.replace("[1,4,3,3] x", "[1,4,3] x"),
            (GROUP, GROUP.replace("[1,4,3,3] x", "[] x"), GROUP.replace("[1,4,3,3] x", "[1,4,3] x")), (21, 21, 20), ("the scale by channel of opset 21 is refused",),
        )
    ],
    "layer_norm_outputs": [Example("LayerNormalization", "8.6 to 11.4, rtx", "more than one output is refused", 17, *both(LAYER, "{ y, m =", "{ y ="))],
    "layer_norm_scale": [Example("LayerNormalization", "10.5 to 10.10", "without a scale it is multiplied with 0", 17, *both(LAYER.replace("{ y, m =", "{ y =").replace("(x, s)", "(x)"), "(x)", "(x, s)"))],
    "batch_norm_training": [
        Example("BatchNormalization", "8.0 to 11.4, rtx", "training_mode is refused", 14, *both(BATCH.replace("Normalization (", "Normalization <training_mode = 1> ("), "mode = 1", "mode = 0")),
        Example("BatchNormalization", "8.0 to 11.4, rtx", "more than one output is refused", 7, *both(BATCH.replace("{ y =", "{ y, m ="), "{ y, m =", "{ y =")),
    ],
    "lp_order": [
        Example("LpNormalization", "7.2.2 to 11.4, rtx", "p = 3 is refused; 1 and 2 are taken", 1, *both("(float[2,3] x) => (float[2,3] y) { y = LpNormalization <p = 3> (x) }", "p = 3", "p = 2", "p = 1")),
        Example("LpPool", "7.2.2 to 11.4, rtx", "p = 3 is refused; 1 and 2 are taken", 11, *both("(float[1,1,3,1] x) => (float[1,1,2,1] y) { y = LpPool <kernel_shape = [2, 1], p = 3> (x) }", "p = 3", "p = 2", "p = 1")),
    ],
    "dropout_training": [
        Example("Dropout", "8.0 to 11.4, rtx", "training mode is refused", 12, *both("(float[2] x) => (float[2] y) <float r = {0.5}, bool t = {1}> { y = Dropout (x, r, t) }", "t = {1}", "t = {0}")),
        Example("Dropout", "8.0 to 11.4, rtx", "training mode is refused", 12, *both("(float[2] x) => (float[2] y) <float r = {0.5}, bool t = {1}> { y = Dropout (x, r, t) }", "(x, r, t)", "(x, r)")),
    ],
    # pools
    "pool_dilations": [
        Example(operators, targets, "dilations other than 1 are refused", 19, *both("(float[1,1,9,1] x) => (float[1,1,n,1] y) { y = OP <kernel_shape = [2, 1], dilations = [2, 1]> (x) }", "dilations = [2, 1]", "dilations = [1, 1]", "strides = [1, 1]"))
        for operators, targets in (("AveragePool MaxPool LpPool", "8.0 to 11.4, rtx"),)
    ],
    "pool_rounded_up": [
        Example(
            operators, targets, "with ceil_mode 1 it has a last window that begins in the padding", 19, POOL,
            (POOL.replace("ceil_mode = 1", "ceil_mode = 0"), POOL.replace("[1,1,4,1] x", "[1,1,3,1] x"), POOL.replace("[1,1,4,1] x", "[1,1,N,1] x"), POOL.replace("[1,1,4,1] x", "[] x"), POOL.replace("ceil_mode = 1", 'ceil_mode = 1, auto_pad = "SAME_UPPER"')),
        )
        for operators, targets in (("AveragePool MaxPool", "6.0 to 11.4, rtx"), ("LpPool", "7.2.2 to 11.4, rtx"))
    ],
    "pool_part": [
        Example(
            "LpPool", "rtx", "with ceil_mode 1 a last window that is partly beyond the padding is divided by its part", 18,
            *both(
                "(float[1,1,3,1] x) => (float[1,1,n,1] y) { y = LpPool <kernel_shape = [2, 1], strides = [2, 1], ceil_mode = 1> (x) }", "[2, 1], ceil_mode = 1",
                "[2, 1], ceil_mode = 0", "[1, 1], ceil_mode = 1", '[2, 1], ceil_mode = 1, auto_pad = "SAME_UPPER"',
            ),
        ),
        Example("LpPool", "rtx", "with ceil_mode 1 a last window that is partly beyond the padding is divided by its part", 18, *both("(float[1,1,4,1] x) => (float[1,1,n,1] y) { y = LpPool <kernel_shape = [3, 1], strides = [2, 1], pads = [0, 0, 0, 0], ceil_mode = 1> (x) }", "[0, 0, 0, 0]", "[0, 0, 1, 0]")),
    ],
    "pool_power": [Example("LpPool", "7.2.2 to 11.4, rtx", "p = 3 is refused; 1 and 2 are taken", 18, *both("(float[1,1,3,1] x) => (float[1,1,2,1] y) { y = LpPool <p = 3, kernel_shape = [2, 1]> (x) }", "<p = 3, ", "<p = 2, ", "<p = 1, ", "<"))],
    "max_pool_indices": [Example("MaxPool", "6.0 to 11.4, rtx", "the output of indices is refused", 8, *both("(float[1,1,3] x) => (float[1,1,2] y) { y, i = MaxPool <kernel_shape = [2]> (x) }", "{ y, i =", "{ y ="))],
    "global_lp_pool": [
        Example("GlobalLpPool", "7.1 to 11.4, rtx", f"p = {p} is taken of x, not of its absolute value", 2, *both(f"(float[1,2,3] x) => (float[1,2,1] y) {{ y = GlobalLpPool <p = {p}> (x) }}", f"<p = {p}> ", "<p = 2> ", "<p = 4> ", ""))
        for p in (1, 3)
    ],
    # convolutions
    "output_shape": [
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape needs static sizes", 11, *both(DECONVOLUTION.replace("[1,1,5,5]", "[1,1,N,5]"), "[1,1,N,5]", "[1,1,5,5]")),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape needs static sizes", 11, *both(DECONVOLUTION.replace("[1,1,5,5]", "[1,1,N,5]"), "output_shape = [11, 11]", "kernel_shape = [3, 3]")),
        Example(
            "ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape is read wrongly where there is one spatial dimension, which is taken for two", 11,
            *both("(float[1,1,5] x) => (float[1,1,n] y) <float[1,1,3] w = {1, 1, 1}> { y = ConvTranspose <strides = [2], output_shape = [11]> (x, w) }", "output_shape = [11]", "pads = [0, 0]"),
        ),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape asks for a negative padding", 11, *both(DECONVOLUTION.replace("[11, 11]", "[13, 11]"), "[13, 11]", "[12, 11]")),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape asks for a negative padding", 11, *both(DECONVOLUTION.replace("[11, 11]", "[11, 13], output_padding = [0, 1]"), "[11, 13]", "[11, 12]", "[9, 12]")),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape leaves an odd padding, of which it would cut more at the end than at the beginning", 11, *both(DECONVOLUTION.replace("[11, 11]", "[11, 10]"), "[11, 10]", "[11, 9]", "[12, 12]", '[10, 10], auto_pad = "SAME_UPPER"')),
    ],
    "valid_padding": [
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_padding is not read with auto_pad VALID", 11, *both(DECONVOLUTION.replace("output_shape = [11, 11]", 'output_padding = [0, 1], auto_pad = "VALID"'), "[0, 1], auto_pad", "[0, 0], auto_pad")),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_padding is not read with auto_pad VALID", 11, *both(DECONVOLUTION.replace("output_shape = [11, 11]", 'output_padding = [0, 1], auto_pad = "VALID"'), "VALID", "NOTSET")),
    ],
    "computed_bias": [
        Example("ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11, *both(BIASED, "pads = [0, 0]", "pads = [0, 1]"), beside=(BAD_INPUT.format(2),)),
        Example("ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11, *both(BIASED, "(x, w, b)", "(x, w, bias)", "(x, w)"), beside=(BAD_INPUT.format(2),)),
        Example("ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11, *both(BIASED.replace("pads = [0, 0]", "pads = [1, 0]"), "output_padding = [1]", "output_padding = [0]"), beside=(BAD_INPUT.format(2),)),
        Example(
            "ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11,
            *both(DECONVOLUTION.replace("[11, 11]", "[12, 11]").replace("float[1,1,5,5] x", "float[1,1,5,5] x, float[1] b").replace("(x, w)", "(x, w, b)"), "[12, 11]", "[11, 11]", "[9, 11]"), beside=(BAD_INPUT.format(2),),
        ),
        Example(
            "ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11,
            *both(DECONVOLUTION.replace("[11, 11]", "[12, 11], output_padding = [1, 0]").replace("float[1,1,5,5] x", "float[1,1,5,5] x, float[1] b").replace("(x, w)", "(x, w, b)"), "[12, 11]", "[10, 11]"), beside=(BAD_INPUT.format(2),),
        ),
        Example(
            "ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11,
            *both(DECONVOLUTION.replace("[11, 11]", "[10, 11], output_padding = [3, 0]").replace("float[1,1,5,5] x", "float[1,1,5,5] x, float[1] b").replace("(x, w)", "(x, w, b)"), "(x, w, b)", "(x, w)"), beside=(BAD_INPUT.format(2),),
        ),
    ],
    # arithmetic
    "einsum_operands": [Example("Einsum", "8.2 to 8.6", "more than two operands are refused", 12, *both(EINSUM.replace("ij,jk->ik", "ij,jk,kl->il").replace("(x, x)", "(x, x, x)"), "ij,jk,kl->il", "ij,jk->ik", "ij->ij"))],
    "einsum_ellipsis": [Example("Einsum", "8.2 to 8.6", "an ellipsis is refused", 12, *both(EINSUM.replace("ij,jk->ik", "...j,jk->...k"), "...j,jk->...k", "ij,jk->ik"))],
    "einsum_capitals": [Example("Einsum", "8.2 to 11.4, rtx", "capital letters are refused", 12, *both(EINSUM.replace("ij,jk->ik", "Ij,jk->Ik"), "Ij,jk->Ik", "ij,jk->ik"))],
    "einsum_diagonal": [
        Example("Einsum", "8.2 to 10.11", "a diagonal is refused", 12, *both(EINSUM.replace("ij,jk->ik", "i j, k k -> i k"), "i j, k k -> i k", "i j, j k -> i k")),
        Example("Einsum", "9.0 to 10.11", "a diagonal is refused", 12, *both(EINSUM.replace("ij,jk->ik", "...ii,jk->..."), "...ii,jk", "...ij,jk"), beside=("an ellipsis is refused",)),
    ],
    "mod_of_floats": [
        Example("Mod", "8.5 to 11.4, rtx", "fmod 0 takes integers alone", 13, "(float[2] x) => (float[2] y) { y = Mod (x, x) }", (
            "(int32[2] x) => (int32[2] y) { y = Mod (x, x) }", "(int64[2] x) => (int64[2] y) { y = Mod (x, x) }", "(float[2] x) => (float[2] y) { y = Mod <fmod = 1> (x, x) }", "(float[2] x) => (float[2] y) { t = com.custom.Foo (x) y = Mod (t, t) }",
        ))
    ],
    # quantization
    "zero_point": [
        Example("QuantizeLinear", "7.0 to 11.4, rtx", "a zero point other than 0 is refused", 13, *both(QUANTIZE.replace("z = {0}", "z = {1}"), "z = {1}", "z = {0}")),
        Example("DequantizeLinear", "7.0 to 11.4, rtx", "a zero point other than 0 is refused", 13, *both(DEQUANTIZE.replace("z = {0}", "z = {-1}"), "z = {-1}", "z = {0}")),
        Example("DequantizeLinear", "7.0 to 11.4, rtx", "a zero point other than 0 is refused", 13, *both(DEQUANTIZE.replace("z = {0}", "z = {1}"), "int8 z = {1}", "int8 z = {0}")),
    ],
    "positive_scale": [
        Example(op, "7.0 to 11.4, rtx", "a scale that is not positive is refused", 13, *both(text.replace("s = {0.5}", f"s = {scale}"), f"s = {scale}", "s = {0.5}"))
        for op, text in (("QuantizeLinear", QUANTIZE), ("DequantizeLinear", DEQUANTIZE))
        for scale in ("{0}", "{-0.5}")
    ],
    "quantized_unsigned": [
        Example("QuantizeLinear", "rtx", "uint8, which is what it returns without a zero point, is read as int8", 13, *both(QUANTIZE.replace("int8", "uint8"), "uint8", "int8")),
        Example("QuantizeLinear", "rtx", "uint8, which is what it returns without a zero point, is read as int8", 13, *both(QUANTIZE.replace("(x, s, z)", "(x, s)"), "(x, s)", "(x, s, z)")),
    ],
    "dequantized_unsigned": [
        Example(
            "DequantizeLinear", "rtx", "uint8 that no QuantizeLinear makes is refused", 13, DEQUANTIZE.replace("int8", "uint8"),
            (DEQUANTIZE, "(float[2] x) => (float[2] y) <float s = {0.5}, uint8 z = {0}> { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"),
        ),
        Example("DequantizeLinear", "rtx", "uint8 that no QuantizeLinear makes is refused", 13, *both(DEQUANTIZE.replace("int8", "uint8").replace("{ y = DequantizeLinear (x", "{ t = Identity (x) y = DequantizeLinear (t"), "uint8", "int8")),
    ],
    "dequantized_int32": [Example("DequantizeLinear", "7.0 to 11.4, rtx", "integers of 32 bits are refused", 13, *both(DEQUANTIZE.replace("int8", "int32"), "int32", "int8"))],
    "dequantized_16_bits": [Example("DequantizeLinear", "7.0 to 11.4, rtx", "integers of 16 bits are refused", 21, *both(DEQUANTIZE.replace("int8", "int16"), "int16", "int8"))],
    # attention
    "attention_refused": [
        Example("Attention", "10.14 to 11.4, rtx", why, 23, *attention(call, *taken))
        for call, why, *taken in (
            ("y, p, v = Attention (q, k, k)", "more than one output is refused"),
            ("y, p = Attention (q, k, k)", "more than one output is refused"),
            ("y = Attention <softcap = 2.0> (q, k, k)", "softcap is refused", "y = Attention <softcap = 0.0> (q, k, k)"),
            ("y = Attention (q, k, k, , k, k)", "past keys and values are refused"),
            ("y = Attention (q, k, k, , k)", "past keys and values are refused", "y = Attention (q, k, k, m)"),
            ("y = Attention (q, k, k, , , k)", "past keys and values are refused"),
        )
    ],
    "attention_window": [
        Example("Attention", "rtx", f"{side}_window_size is not read: it would attend to every key", 23, *attention(f"y = Attention <{side}_window_size = {size}> (q, k, k)", f"y = Attention <{side}_window_size = -1> (q, k, k)"))
        for side in ("left", "right")
        for size in (0, 1)
    ],
    "attention_causal_mask": [
        Example("Attention", "rtx", "a mask together with is_causal is refused", 23, *attention("y = Attention <is_causal = 1> (q, k, k, m)", "y = Attention <is_causal = 1> (q, k, k)", "y = Attention <is_causal = 0> (q, k, k, m)")),
    ],
    "attention_sizes": [Example("Attention", "rtx", "keys and values of different sizes are refused", 23, *attention("y = Attention (q, k, w)", "y = Attention (q, w, w)")),
        Example("Attention", "rtx", "keys and values of different sizes are refused", 23, ATTENTION.replace("(q, k, k)", "(q, k, w)"), tuple(ATTENTION.replace("(q, k, k)", "(q, k, w)").replace(old, new) for old, new in (("float16[1,2,2,16] k", "float16[] k"), ("float16[1,2,2,17] w", "float16[] w"), ("float16[1,2,2,17] w", "float16[1,2,2,16] w")))),
        Example("Attention", "rtx", "keys and values of different sizes are refused", 23, *both("(float16[1,2,4,16] q, float16[1,2,N,16] k, float16[1,2,4,16] v) => (float16[] y) { y = Attention (q, k, v) }", "float16[1,2,4,16] v", "float16[1,2,M,16] v", "float16[1,2,N,16] v")),
    ],
    "attention_kernel": [
        Example("Attention", "rtx", f"there is no kernel for {dtype}", 23, *both(ATTENTION.replace("float16", dtype), dtype, "float16", "bfloat16"))
        for dtype in ("float", "double")
    ] + [
        Example("Attention", "rtx", "there is no kernel for float", 23, *both(ATTENTION.replace("float16", "float"), "float[", "float16[")),
        Example("Attention", "rtx", "there is no kernel for heads of 8", 23, *both(ATTENTION.replace("16]", "8]"), "8]", "16]", "N]", "256]")),
        Example("Attention", "rtx", "there is no kernel for heads of 512", 23, *both(ATTENTION.replace("16]", "512]"), "512]", "256]")),
        Example("Attention", "rtx", "there is no kernel for heads of 12", 23, *both(ATTENTION.replace("16]", "12]").replace("(q, k, k)", "(q, k, k, m)").replace("float16[2,2] m", "bool[2,2] m"), "bool[2,2] m", "float16[2,2] m")),
        Example("Attention", "rtx", "there is no kernel for float", 23, *both(FLAT, "(q, k, k, m)", "(q, k, k)")),
        Example("Attention", "rtx", "there is no kernel for float", 23, *both("(float[1,2,64] q, float[1,3,32] k, float[1,3,64] w) => (float[1,2,64] y) { y = Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, k) }", "kv_num_heads = 2> (q, k, k)", "kv_num_heads = 4> (q, w, w)")),
        Example("Attention", "rtx", "there is no kernel for float", 23, *both(FLAT, "float[", "float16[")),
        Example("Attention", "rtx", "there is no kernel for heads of 8", 23, *both(FLAT.replace("(q, k, k, m)", "(q, k, k)").replace("q_num_heads = 2, kv_num_heads = 2", "q_num_heads = 4, kv_num_heads = 4, is_causal = 1").replace("float[", "float16["), ", is_causal = 1", "")),
    ],
    "complex_signal": [Example("STFT", "10.5 to 11.4, rtx", "a complex signal is refused", 17, *both("(float[1,12,2] x) => (float[1,F,B,2] y) <int64 s = {2}, int64 n = {4}> { y = STFT <onesided = 0> (x, s, , n) }", "12,2]", "12,1]", "12]"))],
    "attention_lengths": [Example("Attention", "rtx", "nonpad_kv_seqlen is not read: it would attend to the padding", 24, *attention("y = Attention (q, k, k, , , , n)", "y = Attention (q, k, k, m)"))],
    # types
    "cast": [Example("Cast", "6.0 to 11.4, rtx", "there is no int16", 13, *both("(float[2] x) => (int16[2] y) { y = Cast <to = 5> (x) }", "to = 5", "to = 6", "to = 1", "to = 11"))],
    "not_saturated": [
        Example(op, "10.0 to 11.4, rtx", "saturate 0 is not read: it would saturate", 19, *both(f"(float[2] x, float8e4m3fn[2] t, float s, float8e4m3fn z) => (float8e4m3fn[2] y) {{ y = {op} <{to}saturate = 0> ({inputs}) }}", "saturate = 0", "saturate = 1"))
        for op, to, inputs in (("Cast", "to = 17, ", "x"), ("CastLike", "", "x, t"))
    ] + [
        Example("Cast", "10.0 to 11.4, rtx", "saturate 0 is not read: it would saturate", 19, "(float[2] x) => (float8e4m3fn[2] y) { y = Cast <to = 17, saturate = 0> (x) }", ("(float[2] x) => (float[2] y) { y = Cast <to = 10, saturate = 0> (x) }",)),
        Example("QuantizeLinear", "10.0 to 11.4, rtx", "saturate 0 is not read: it would saturate", 19, *both("(float[2] x) => (float8e4m3fn[2] y) <float s = {1}, float8e4m3fn z = {0}> { y = QuantizeLinear <saturate = 0> (x, s, z) }", "saturate = 0", "saturate = 1")),
    ],
    "cast_before_nine": [
        Example("Cast", "6.0 to 8.6", f"there is no {name} before 9.0", 13, *both(f"(float[2] x) => (float[] y) {{ y = Cast <to = {to}> (x) }}", f"to = {to}", "to = 10"))
        for to, name in ((16, "bfloat16"), (17, "float8e4m3fn"), (2, "uint8"), (22, "int4"), (23, "float4e2m1"))
    ],
    "no_bfloat16": [
        bfloat16("InstanceNormalization", "10.0 to 10.6", 6, "(bfloat16[1,2,3] x) => (bfloat16[1,2,3] y) <bfloat16[2] s = {1, 1}> { y = InstanceNormalization (x, s, s) }", PLUGIN),
        bfloat16("LpNormalization", "9.0 to 11.4, rtx", 1, "(bfloat16[2,3] x) => (bfloat16[2,3] y) { y = LpNormalization (x) }"),
        bfloat16("LpPool", "9.0 to 11.4, rtx", 11, "(bfloat16[1,1,3,1] x) => (bfloat16[1,1,2,1] y) { y = LpPool <kernel_shape = [2, 1]> (x) }"),
        bfloat16("Mish", "10.0 to 11.4, rtx", 18, "(bfloat16[2] x) => (bfloat16[2] y) { y = Mish (x) }"),
        bfloat16("HardSwish", "8.5 to 11.4, rtx", 14, "(bfloat16[2] x) => (bfloat16[2] y) { y = HardSwish (x) }"),
        bfloat16("GlobalLpPool", "9.2 to 11.4, rtx", 2, "(bfloat16[1,2,3] x) => (bfloat16[1,2,1] y) { y = GlobalLpPool (x) }"),
    ],
    # dla
    "pad_mode": [Example("Pad", "dla 8.2 to 10.16", "DLA has no 'edge' padding", 13, *both(f'{PAD} {{ y = Pad <mode = "edge"> (x, p) }}', "edge", "constant"))],
    "prelu_slope": [Example("PRelu", "dla 6.0 to 10.16", "on DLA the slope must be an initializer", 16, *both(PRELU.replace("(x, s)", "(x, c)"), "(x, c)", "(x, s)"))],
    "falls_back": [
        Example("Softplus", "dla 6.0 to 10.16", "DLA has no Softplus: it would run on the GPU", 1, *both("(float[2] x) => (float[2] y) { y = Softplus (x) }", "Softplus", "Tanh", "LeakyRelu")),
    ],
    **MORE,
    **MEASURED,
    **ASKED,
    **FUZZED,
}  # fmt: skip
for name, more in [*BESIDES.items(), *FURTHER.items()]:
    EXAMPLES[name] = [*EXAMPLES[name], *more]
BY_ABSENCE = {"falls_back"}  # of every operator but a few: one stands for all

# ---- what is asked of them -------------------------------------------------------------------------------------------

RELEASES = [Target(releases.dotted(row), row) for row in releases.RELEASES]
ON_DLA = [Target(f"{releases.dotted(row)}+dla", row, dla=True) for row in releases.RELEASES if row[0] <= 10]
ON_RTX = Target("rtx", releases.LAST, rtx=True)
CASES = [
    pytest.param(name, op, example, id=f"{name}-{op}-{k}")
    for name, examples in EXAMPLES.items()
    for k, example in enumerate(examples)
    for op in example.operators.split()
]


@cache
def node_of(text: str, op: str, opset: int) -> Node:
    """The node that makes `y`, in the graph or in a body."""
    require_opset(opset)
    indexed = Model(model(text.replace("OP", op), opset, extra=', "com.custom" : 1'))
    value = next(scope.values["y"] for scope in indexed.scopes if "y" in scope.values)
    assert value.producer is not None
    return value.producer


def named(name: str) -> Condition:
    (found,) = (condition for condition in CONDITIONS if condition.name == name)
    return found


def span(targets: list[Target]) -> str:
    """Targets that follow each other, by their first and last release."""
    if not targets:
        return ""
    names = [releases.dotted(t.version) for t in targets]
    rows = [releases.RELEASES.index(t.version) for t in targets]
    assert rows == list(range(rows[0], rows[-1] + 1)), f"with a gap: {names}"
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def test_every_condition_has_an_example_for_every_operator() -> None:
    declared = {c.name: {op for scope in c.scopes for op in scope.operators} for c in CONDITIONS}
    assert len(declared) == len(CONDITIONS), "two conditions of one name"
    shown = {name: {op for e in examples for op in e.operators.split()} for name, examples in EXAMPLES.items()}
    for name in BY_ABSENCE:
        declared[name] &= shown[name]
    assert shown == declared


@pytest.mark.parametrize(("name", "op", "example"), CASES)
def test_a_condition_answers_from_its_first_release_to_its_last(name: str, op: str, example: Example) -> None:
    node = node_of(example.refused, op, example.opset)
    assert named(name).check(node) == example.why
    dla = example.targets.startswith("dla ")
    plain = [t for t in RELEASES if t.imports(op)]
    asked = [t for t in ON_DLA if t.imports(op)] if dla else plain
    refusing = [t for t in asked if t.takes_exactly(node) == example.why]
    words = [f"dla {span(refusing)}" if dla else span(refusing), "rtx" * (ON_RTX.takes_exactly(node) == example.why)]
    assert ", ".join(filter(None, words)) == example.targets

    if dla:
        assert all(t.takes_exactly(node) is None for t in plain for r in refusing if t.version == r.version)
        return
    places = [plain.index(t) for t in refusing] or [len(plain)]
    neighbours = plain[max(places[0] - 1, 0) : places[0]] + plain[places[-1] + 1 : places[-1] + 2]
    neighbours += [ON_RTX] * ON_RTX.imports(op)
    others = {t.takes_exactly(node) for t in neighbours} - {None, example.why}
    assert others == set(example.beside)


@pytest.mark.parametrize(("name", "op", "example"), CASES)
def test_with_one_thing_changed_the_same_targets_take_the_node(name: str, op: str, example: Example) -> None:
    refused = node_of(example.refused, op, example.opset)
    asked = ON_DLA if example.targets.startswith("dla ") else [*RELEASES, ON_RTX]
    targets = [t for t in asked if t.takes_exactly(refused) == example.why]
    assert targets
    for text, opset in zip(example.taken, example.opsets or [example.opset] * len(example.taken), strict=True):
        node = node_of(text, op, opset)
        assert named(name).check(node) is None or node.op != refused.op
        assert {t.name: t.takes_exactly(node) for t in targets} == dict.fromkeys((t.name for t in targets), None), text


REFUSING_EVERY_NODE = [name for name, examples in EXAMPLES.items() if not all(e.taken for e in examples)]


@pytest.mark.parametrize("name", REFUSING_EVERY_NODE)
def test_a_condition_without_a_node_that_it_takes_refuses_every_node(name: str) -> None:
    (scope,) = named(name).scopes
    for op in scope.operators:
        assert named(name).check(node_of("(float x) => (float y) { y = OP (x) }", op, 1))
