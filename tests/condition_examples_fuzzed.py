"""Examples of conditions for tests/test_conditions.py: of what drawn models and an attacker's showed of two parsers.

`FUZZED` has conditions of its own, `FURTHER` more examples of conditions that stand elsewhere.
"""

from __future__ import annotations

from condition_examples import Example, both

LSTM = "(float[3,2,4] x, float[1,20,4] w, float[1,20,5] r) => (float[] y) { y = LSTM <hidden_size = 5, activations = ACTS> (x, w, r) }"
LAST_STATE = "in a branch of an If its last state alone is read"
IN_A_BRANCH = "(float[2,1,2] x, bool c, int64 m, float[1,2] h) => (float[1,2] z) { z = If (c) <then_branch = t () => (float[1,2] a) { NODE a = Neg (y) }, else_branch = e () => (float[1,2] b) { b = Neg (h) }> }"
GRU = LSTM.replace("LSTM", "GRU").replace("20", "15")
RNN = LSTM.replace("LSTM", "RNN").replace("20", "5")
SCAN = "(float[2] s, float[2,3] x) => (float[2] z, float[2,3] y) { z, y = Scan <num_scan_inputs = 1, AXES, body = b (float[2] a, float[2] v) => (float[2] r, float[2] o) { r = Add (a, v) o = Neg (r) }> (s, x) }"
DRAWS = "(float[2] x, float[3,2] e) => (float[] z, float[] y) <int64 n = {3}, bool go = {1}> { z, y = CALL body = b (INPUTS float[2] s) => (OUTPUTS float[2] t, u) { d = Identity (c) t = Neg (s) u = DRAWN }> (n, go, x) }"
LOOP = DRAWS.replace("CALL", "Loop <").replace("INPUTS", "int64 i, bool c,").replace("OUTPUTS", "bool d,")
SCANS = "(float[2] x, float[3,2] e) => (float[] z, float[] y) { z, y = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] v) => (float[2] t, u) { t = Add (s, v) u = DRAWN }> (x, e) }"
BRANCHES = "(float[2,1] x, bool c) => (float[] y) { y = If (c) <then_branch = t () => (p) { p = THEN }, else_branch = e () => (q) { q = Neg (x) }> }"
NESTED = BRANCHES.replace("bool c", "bool c, bool d").replace(
    "THEN", "If (d) <then_branch = tt () => (r) { r = INNER }, else_branch = ee () => (s) { s = Abs (x) }>"
)
CAPTURES = "(bool c, TYPE[2] v) => (float[] y) <float s = {0.5}, TYPE[2] w = {1, 2}, TYPE z = {0}> { y = If (c) <then_branch = t () => (p) { p = DequantizeLinear (READ, s, z) }, else_branch = e () => (q) { q = DequantizeLinear (w, s, z) }> }"
SMALL = (
    CAPTURES.replace("TYPE", "float8e4m3fn")
    .replace("READ", "v")
    .replace("q = DequantizeLinear (w, s, z)", "q = Identity (f)")
    .replace("[2] v)", "[2] v, float[2] f)")
)
SHAPED = "(float[4] x) => (float[] y) <int64 n = {3}, bool go = {1}, int64[1] o = {1}, int64[1] p = {2}, int64 m = {1}> { y = Loop <body = b (int64 i, bool c) => (bool d, u) { d = Identity (c) j = Reshape (i, o) k = Add (j, o) s = MADE f = Cast <to = 1> (s) u = ReduceSum (f) }> (n, go) }"
SLICED = "(float[4] x, float[1] s, int64[3,1] e) => (float[1] z, float[3,1] y) <int64[1] o = {1}, int64[1] p = {2}> { z, y = Scan <num_scan_inputs = 1, body = b (float[1] t, int64[1] v) => (float[1] r, float[1] q) { r = Neg (t) k = Add (v, o) q = Slice (x, v, k) }> (s, e) }"
DEEP = "(float[2] x) => (float[] z, float[] y) <int64 n = {1}, bool go = {1}> { z, y = Loop <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, u) { d = Identity (c) t = Neg (s) u = Reshape (s, k) }> (n, go, x) }"
ROWS = "(float[2] x, float[3,2] e) => (float[] z, float[] y) { z, y = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] v) => (float[2] t, u) { t = Add (s, v) u = Reshape (t, k) }> (x, e) }"
EIGHT, SEVEN = ("<int64[8] k = {1, 1, 1, 1, 1, 1, 1, 2}>", "<int64[7] k = {1, 1, 1, 1, 1, 1, 2}>")
SAME = '(float[1,1,8,5] x) => (float[] y) <float[1,1,3,4] w = {WEIGHTS}> { y = ConvTranspose <auto_pad = "SAME_UPPER", output_shape = [8, 10], strides = [1, 2]> (x, w) }'.replace(
    "WEIGHTS", ", ".join(["1"] * 12)
)
GROUPS = (
    "(float[1,C,5,5] x) => (float[] y) <float[2,2,1,2] w = {1, 1, 1, 1, 1, 1, 1, 1}> { y = Conv <group = 2> (x, w) }"
)
LEGACY = "(float[2,3] x, float[3] b, float[2,3] c) => (float[2,3] y) { y = OP (x, c) }"
PLAIN = "it is refused below opset 7"
RANKS = "operands of different ranks are refused below opset 7"
COMPARED = LEGACY.replace("=> (float", "=> (bool")
LOGICAL = LEGACY.replace("float[", "bool[")

FUZZED: dict[str, list[Example]] = {
    # below opset 7
    "legacy_bias": [
        Example("Gemm", "7.0 to 11.4, rtx", "a bias of 1 dimensions is refused below opset 7", 6, *both("(float[3,2] x, float[2,4] z, float[4] c, float[3,4] d) => (float[3,4] y) { y = Gemm <broadcast = 1> (x, z, c) }", "(x, z, c)", "(x, z, d)")),
    ],
    "legacy_elementwise": [
        *(Example(ops, "10.0 to 11.4, rtx", PLAIN, 6, text, (text,), (7,), beside=before) for ops, text, before in (("Add Sub Mul Div", LEGACY, ()), ("Max Mean Min Sum", LEGACY, ()))),
        Example("Pow", "10.0 to 11.4, rtx", PLAIN, 1, LEGACY, (LEGACY,), (7,)),
        Example("And Or Xor", "10.0 to 11.4, rtx", PLAIN, 1, LOGICAL, (LOGICAL,), (7,)),
        Example("Equal Greater Less", "10.0 to 11.4, rtx", PLAIN, 1, COMPARED, (COMPARED,), (9,)),
    ],
    # recurrent networks
    **{
        f"{name.lower()}_activation": [
            Example(op, "7.0 to 11.4, rtx", why, 14, *both(text.replace("ACTS", named % name), name, "Relu", "Softsign"))
            for op, text, named in (("LSTM", LSTM, '["Tanh", "%s", "Tanh"]'), ("GRU", GRU, '["Tanh", "%s"]'), ("RNN", RNN, '["%s"]'))
        ]
        for name, why in (("Affine", "the activation Affine is refused"), ("Softplus", "the activation Softplus is scaled by 0"))
    },
    "endless_build": [
        Example("GRU", "rtx", "with one example and a state of 5 numbers, the builder's process dies of it", 14, *both("(float[4,1,2] x, float[4,2,2] t, float[3,1,2] u) => (float[] y) <float[1,15,2] w = {W}, float[1,15,5] r = {R}> { y = GRU <hidden_size = 5> (x, w, r) }".replace("{W}", "{" + ", ".join(["1"] * 30) + "}").replace("{R}", "{" + ", ".join(["1"] * 75) + "}"), "(x, w", "(t, w", "(u, w")),
    ],
    # control flow
    "scanned_from_behind": [
        Example("Scan", "7.0 to 11.4, rtx", f"a negative axis in {name} is counted from 8 dimensions", 11, *both(SCAN.replace("AXES", f"scan_input_axes = [1], scan_output_axes = [1], {name} = [-1]").replace(f"{name} = [1], ", ""), "[-1]", "[1]"))
        for name in ("scan_input_axes", "scan_output_axes")
    ],
    "captured_twice": [
        Example("If", "rtx", "both branches dequantize 'w' from outside, which is of int8", 19, *both(CAPTURES.replace("TYPE", "int8").replace("READ", "w"), "(w, s, z) }, else", "(v, s, z) }, else")),
        Example("If", "rtx", "both branches dequantize 'w' from outside, which is of float8e4m3fn", 19, CAPTURES.replace("TYPE", "float8e4m3fn").replace("READ", "w"), (SMALL.replace("(v, s", "(w, s"),)),
    ],
    "drawn_in_each": [
        Example("Loop", "rtx", f"each iteration returns what {op} draws, scaled or in another type than fp32", 13, *both(LOOP.replace("DRAWN", call), call, plain))
        for op, call, plain in (
            ("RandomUniform", "RandomUniform <shape = [2], high = 2.0> ()", "RandomUniform <shape = [2]> ()"),
            ("RandomUniformLike", "RandomUniformLike <low = -1.0> (x)", "RandomUniformLike (x)"),
            ("RandomNormal", "RandomNormal <shape = [2], scale = 0.5> ()", "RandomNormal <shape = [2]> ()"),
            ("RandomNormalLike", "RandomNormalLike <mean = 1.0> (x)", "RandomNormalLike (s)"),
            ("RandomUniform", "RandomUniform <shape = [2], dtype = 10> ()", "RandomUniform <shape = [2]> ()"),
        )
    ]
    + [Example("Scan", "rtx", "each iteration returns what RandomUniform draws, scaled or in another type than fp32", 13, *both(SCANS.replace("DRAWN", "RandomUniform <shape = [2], high = 2.0> ()"), ", high = 2.0", ""))],
    "branches_of_other_sizes": [
        Example("If", "8.4", "its branches return the sizes [1, 1] and [2, 1]", 13, *both(BRANCHES.replace("THEN", "ReduceSum (x)"), "ReduceSum (x)", "Exp (x)")),
    ],
    "nested_sizes": [
        Example("If", "rtx", "a branch returns what an If makes in the sizes [1, 1] and [2, 1]", 13, *both(NESTED.replace("INNER", "ReduceSum (x)"), "ReduceSum (x)", "Exp (x)")),
    ],
    "shape_of_each": [
        Example("Loop", "rtx", f"the shape that {op} in its body makes follows from the iteration", 13, *both(SHAPED.replace("MADE", call), call, plain))
        for op, call, plain in (
            ("Slice", "Slice (x, j, k)", "Slice (x, o, p)"),
            ("Expand", "Expand (x, k)", "Expand (x, o)"),
            ("Range", "Range (i, m, m)", "Reshape (i, o)"),
            ("Tile", "Tile (x, k)", "Gather (x, j)"),
        )
    ] + [Example("Scan", "rtx", "the shape that Slice in its body makes follows from the iteration", 13, *both(SLICED, "Slice (x, v, k)", "Slice (x, o, p)"))],
    # axes and sizes
    "position_alone": [
        Example("Slice", "rtx", "its input 1 has no dimension, and the parser's process dies of it", 13, *both("(float[3] x) => (float[] y) <int64 s = {1}, int64[1] t = {1}, int64[1] e = {2}, int64[1] a = {0}> { y = Slice (x, s, e, a) }", "(x, s", "(x, t")),
    ],
    "far_axis": [
        Example("ArgMax ArgMin", "7.0 to 8.6", "axis 0 is none of the last 4 dimensions", 11, *both("(float[2,1,3,2,4] x) => (int64[] y) { y = OP <axis = 0> (x) }", "axis = 0", "axis = 1", "axis = -1")),
        Example("TopK", "7.0 to 8.6", "axis -5 is none of the last 4 dimensions", 11, *both("(float[2,1,3,2,4] x) => (float[] y, int64[] i) <int64[1] k = {1}> { y, i = TopK <axis = -5> (x, k) }", "axis = -5", "axis = -4")),
    ],
    "second_of_nothing": [
        Example("Expand", "8.4", "its second input has no elements, and the parser's process dies of it", 13, *both("(float x) => (float[] y) <int64[0] k = {}, int64[1] j = {1}> { y = Expand (x, k) }", "(x, k)", "(x, j)")),
        Example("ReverseSequence", "8.4", "its second input has no elements, and the parser's process dies of it", 10, *both("(float[2,1] x) => (float[] y) <int64[0] k = {}, int64[1] j = {1}> { y = ReverseSequence (x, k) }", "(x, k)", "(x, j)"), beside=("there are 0 lengths for 1 examples",)),
    ],
    "dropped_nothing": [
        Example("Dropout", "rtx", "weights without elements are refused", 13, *both("(float[2,0] x) => (float[] y) <float[2,0] w = {}> { y = Dropout (w) }", "(w)", "(x)")),
    ],
    "slid_over_weights": [
        Example("If", "rtx", f"a branch holds {op} of weights with one spatial dimension", 13, *both(BRANCHES.replace("float[2,1] x", "float[1,1,3] x").replace("y) {", "y) <float[1,1,4] w = {1, 2, 3, 4}, float[1,1,2] k = {1, 2}> {").replace("THEN", call), call, other, "Relu (w)"))
        for op, call, other in (
            ("Conv", "Conv (w, k)", "Conv (x, k)"),
            ("MaxPool", "MaxPool <kernel_shape = [2]> (w)", "MaxPool <kernel_shape = [2]> (x)"),
            ("AveragePool", "AveragePool <kernel_shape = [2]> (w)", "AveragePool <kernel_shape = [2]> (x)"),
        )
    ],
    "unread_steps": [
        *(
            Example(op, "rtx", LAST_STATE, 14, *both(f"(float[2,1,2] x, bool c, float[1,{gates},2] w, float[1,{gates},1] r) => (float[1,1,1] z) <int64[3] n = {{0,0,0}}, int64[3] e = {{1,1,1}}> {{ q = Slice (x, n, e) z = If (c) <then_branch = t () => (float[1,1,1] a) {{ y, h = {op} <hidden_size = 1> (x, w, r) a = Neg (h) }}, else_branch = e () => (float[1,1,1] b) {{ b = Neg (q) }}> }}", "a = Neg (h)", "k = Constant <value_ints = [0]> () s = ReduceSum <keepdims = 0> (y, k) a = Add (s, h)"))
            for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
        ),
        Example("Scan", "rtx", LAST_STATE, 14, *both(IN_A_BRANCH.replace("NODE", "y, s = Scan <num_scan_inputs = 1, body = b (float[1,2] j, float[1,2] i) => (float[1,2] k, float[1,2] o) { k = Add (j, i) o = Neg (i) }> (h, x)"), "a = Neg (y)", "n = Constant <value_ints = [0]> () g = ReduceSum <keepdims = 0> (s, n) a = Add (y, g)")),
        Example("Loop", "rtx", LAST_STATE, 14, *both(IN_A_BRANCH.replace("NODE", "t = Constant <value = bool {1}> () y, s = Loop <body = b (int64 i, bool d, float[1,2] j) => (bool e, float[1,2] k, float[1,2] o) { e = Identity (d) k = Neg (j) o = Abs (j) }> (m, t, h)"), "a = Neg (y)", "n = Constant <value_ints = [0]> () g = ReduceSum <keepdims = 0> (s, n) a = Add (y, g)")),
    ],
    "more_indices": [
        Example("ScatterElements", "rtx", "there are more indices than places", 16, *both("(float[2,5] x, int64[3,5] i, float[3,5] u) => (float[2,5] y) { y = ScatterElements (x, i, u) }", "[3,5]", "[2,5]")),
    ],
    "other_updates": [
        Example("ScatterElements", "rtx", "the updates do not have the shape of the indices", 16, *both("(float[2,5] x, int64[1,3] i, float[1,3] u) => (float[] y) { y = ScatterElements (x, i, x) }", "(x, i, x)", "(x, i, u)")),
    ],
    "statistics_in_rows": [
        Example("BatchNormalization", "rtx", "its input 2 has 3 dimensions; one is taken", 13, *both("(float[2,1,2] x) => (float[] y) <float[1] s = {1}, float[1,1,1] b = {1}> { y = BatchNormalization (x, s, b, s, s) }", "(x, s, b", "(x, s, s")),
    ],
    # convolutions and pooling
    "padding_alone": [
        Example("AveragePool", "rtx", "the pads [1, 0, 0, 0] are as large as the window [1, 3], and are not counted", 11, *both("(float[1,1,4,4] x) => (float[] y) { y = AveragePool <kernel_shape = [1, 3], pads = [1, 0, 0, 0]> (x) }", "pads = [1, 0, 0, 0]", "pads = [0, 2, 0, 0]", "pads = [1, 0, 0, 0], count_include_pad = 1")),
    ],
    "wider_kernel": [
        Example("Conv", "rtx", "the kernel is wider than the image along dimension 3", 11, *both("(float[1,1,3,3] x) => (float[] y) <float[1,1,2,2] w = {1, 1, 1, 1}> { y = Conv <dilations = [1, 3]> (x, w) }", "dilations = [1, 3]", "dilations = [1, 2]", "dilations = [1, 3], pads = [0, 0, 0, 1]")),
    ],
    "output_shape_besides": [
        Example("ConvTranspose", "rtx", "output_shape is not read with auto_pad SAME_UPPER", 11, *both(SAME.replace("[8, 10]", "[8, 11]"), "[8, 11]", "[8, 10]")),
        Example("ConvTranspose", "rtx", "output_shape is not read with auto_pad SAME_UPPER", 11, *both(SAME.replace("[8, 10], strides = [1, 2]", "[8, 25], strides = [1, 5]"), "[8, 25], strides = [1, 5]", "[8, 20], strides = [1, 4]")),
        Example("ConvTranspose", "rtx", "output_shape is not read with auto_pad VALID", 11, *both(SAME.replace("SAME_UPPER", "VALID"), "output_shape = [8, 10], ", "")),
    ],
    "pooled_volumes": [
        Example("MaxPool", "rtx", "int8 of three spatial dimensions is refused", 12, "(int8[1,1,4,4,4] x) => (int8[] y) { y = MaxPool <kernel_shape = [2, 2, 2]> (x) }", ("(float[1,1,4,4,4] x) => (float[] y) { y = MaxPool <kernel_shape = [2, 2, 2]> (x) }", "(int8[1,1,4,4] x) => (int8[] y) { y = MaxPool <kernel_shape = [2, 2]> (x) }")),
    ],
    "grouped_channels": [
        Example("Conv", "8.4", "the number of channels of several groups is not static", 11, *both(GROUPS, "[1,C,5,5]", "[1,4,5,5]")),
    ],
    "swish_number": [
        Example("Swish", "rtx", "an input without dimensions comes back with one", 24, *both("(float x) => (float y) { y = Swish (x) }", "float x", "float[1] x")),
    ],
    # types
    "cast_like_weights": [
        Example("CastLike", "rtx", "weights of uint8 are read as int32, and cast to", 15, *both("(bool[2] x, uint8[1] v) => (uint8[2] y) <uint8[1] w = {1}> { y = CastLike (x, w) }", "(x, w)", "(x, v)")),
    ],
    "half_scale": [
        Example("QuantizeLinear DequantizeLinear", "8.0 to 8.6", "a scale in fp16 is read as fp32", 19, *both("(float[2] x, int8[2] q) => (float[] y) <float16[1] h = {1}, float[1] s = {1}, int8[1] z = {0}> { y = OP (DATA, h, z) }".replace("DATA", "x"), "(x, h", "(x, s")),
    ],
    "attention_precision": [
        Example("Attention", "rtx", "softmax_precision is refused", 23, *both("(float16[2,2,2,16] q, float16[2,2,4,16] k) => (float16[] y) { y = Attention <softmax_precision = 1> (q, k, k) }", " <softmax_precision = 1>", "")),
    ],
}  # fmt: skip

FURTHER: dict[str, list[Example]] = {
    "wider_slope": [
        Example("PRelu", "rtx", "the slope has more elements along a dimension than the input", 16, *both("(float[3] x, float[2,3] s) => (float[] y) { y = PRelu (x, s) }", "float[2,3] s", "float[1,3] s"), beside=("the slope has more dimensions than the input",)),
    ],
    "neither_zero_nor_one": [
        Example("GridSample", "rtx", "align_corners 2 is read as 0", 16, *both("(float[1,1,4,4] x, float[1,2,2,2] g) => (float[] y) { y = GridSample <align_corners = 2> (x, g) }", "= 2>", "= 1>", "= 0>")),
    ],
    "rotated_sizes": [
        Example("RotaryEmbedding", "rtx", "of the sizes of data and cache one is static, the other is not", 23, *both("(float[2,4,4,8] x, float[2,4,4] c) => (float[] y) { y = RotaryEmbedding (x, c, c) }".replace(old, new), new, old))
        for old, new in (("float[2,4,4,8] x", "float[B,4,4,8] x"), ("float[2,4,4,8] x", "float[2,4,S,8] x"), ("[2,4,4] c", "[B,4,4] c"))
    ] + [Example("RotaryEmbedding", "rtx", "the cache has other sizes than the data", 23, *both("(float[2,4,4,8] x, float[1,4,4] c) => (float[] y) { y = RotaryEmbedding (x, c, c) }", "float[1,4,4]", "float[2,4,4]"))],
    "legacy_broadcast": [
        Example("MatMul", "7.0 to 11.4, rtx", RANKS, 1, *both("(float[3,2] x, float[4,2,4] z, float[2,4] w) => (float[] y) { y = MatMul (x, z) }", "(x, z)", "(x, w)")),
        Example("PRelu", "7.0 to 11.4, rtx", RANKS, 6, *both("(float[2,3] x) => (float[] y) <float[3] s = {1, 1, 1}, float[1,3] t = {1, 1, 1}> { y = PRelu (x, s) }", "(x, s)", "(x, t)")),
    ],
    "many_conditions": [
        Example("If", "rtx", "whether its condition is one number is not known", 11, *both("(float[2,1] x, bool[1,N] c) => (float[] y) { y = If (c) <then_branch = t () => (p) { p = Abs (x) }, else_branch = e () => (q) { q = Neg (x) }> }", "bool[1,N]", "bool[1,1]")),
    ],
    "captured_small_type": [
Example("If", "rtx", "a branch reads 'v' from outside, which is of float8e4m3fn", 19, *both(SMALL, "(v, s", "(w, s")),
    ],
    "instance_of_one": [
        Example("InstanceNormalization", "rtx", "one number a channel is refused", 6, "(float[1,2,1,1] x) => (float[] y) <float[2] s = {1, 1}> { y = InstanceNormalization (x, s, s) }", ("(float[2,1,1,1] x) => (float[] y) <float[1] s = {1}> { y = InstanceNormalization (x, s, s) }",)),
    ],
    "padded_twice": [
        Example("AveragePool LpPool MaxPool", "rtx", "pads together with auto_pad SAME_LOWER are refused", 11, *both('(float[1,1,4,4] x) => (float[] y) { y = OP <kernel_shape = [2, 2], pads = [0, 0, 0, 0], auto_pad = "SAME_LOWER"> (x) }', 'pads = [0, 0, 0, 0], auto_pad = "SAME_LOWER"', 'auto_pad = "SAME_LOWER"', "pads = [0, 0, 0, 0]")),
    ],
    "no_normalized_axis": [
        Example("RMSNormalization", "rtx", "axis 2 is none of the 2 dimensions", 23, *both("(float[2,3] x) => (float[2,3] y) <float[1] s = {1}> { y = RMSNormalization <axis = 2> (x, s) }", "= 2>", "= 1>", "= -1>")),
    ],
    "reduced_number": [
        Example("ReduceLogSum ReduceMean", "6.0 to 11.4, rtx", "an input without dimensions is refused", 7, *both("(float x) => (float y) { y = OP <axes = [-3]> (x) }", "float x", "float[1,2,3] x")),
        Example("ReduceMean ReduceSum", "6.0 to 11.4, rtx", "an input without dimensions is refused", 13, *both("(float x) => (float y) { y = OP <noop_with_empty_axes = -1> (x) }", "float x", "float[3] x")),
    ],
    "made_dimensions": [
        Example(op, "7.0 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 13, text.replace("y) {", f"y) {EIGHT} {{").replace("{1}> {", f"{{1}}, {EIGHT[1:]} {{"), (text.replace("y) {", f"y) {SEVEN} {{").replace("{1}> {", f"{{1}}, {SEVEN[1:]} {{"),))
        for op, text in (("Loop", DEEP), ("Scan", ROWS))
    ],
}  # fmt: skip
