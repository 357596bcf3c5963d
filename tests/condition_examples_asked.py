"""Examples of conditions for tests/test_conditions.py: of what models that a person wrote showed of TensorRT-RTX."""

from __future__ import annotations

from condition_examples import Example, both

BRANCHED = "(float[2,1] x, float[2,1] w, bool[K] many, bool c) => (float[2,1] y) { y = If (c) <then_branch = t () => (p) { p = Neg (x) }, else_branch = e () => (q) { q = Abs (w) }> }"
RANKED = "(float[2,1] x, float[N,1] w, bool c) => (float[] y) <int64[1] axis = {1}, int64 one = {1}> { s = Shape (w) n = Gather (s, one) k = Equal (n, one) j = Not (k) y = If (c) <then_branch = t () => (p) { p = Squeeze (x, axis) }, else_branch = e () => (q) { q = Neg (x) }> }"
BOTH_OUT = "(float[2] x, bool c) => (float[2] y) { y, z = If (c) <then_branch = t () => (p, r) { p = Neg (x) r = Abs (x) }, else_branch = e () => (q, s) { q = Abs (x) s = Neg (x) }> }"
LOOPED = "(float[2] x) => (float[2] y) <int64 n = {3}, bool go = {1}> { y, z = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity (c) t = Neg (s) u = Abs (t) }> }"
SCANNED = "(float[2] s, float[5,2] x) => (float[5,2] y) { z, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] v) => (float[2] r, float[2] o) { r = Add (a, v) o = Neg (r) }> (s, x) }"
CUT = "(float[5,3] x, int64[K] k, int64[1] j) => (float[a,b] y) <int64[1] s = {1}, int64[1] e = {3}, int64[1] o = {0}> { i = Identity (j) y = Slice (x, s, e, o) }"
PADDED = "(float[2,3] x, int64[K] k, int64[4] j) => (float[a,b] y) { i = Identity (k) y = Pad (x, k) }"
SHAPED_BY = "(float[1,1] x, int64[K] k, int64[2] j) => (float[a,b] y) { i = Identity (k) z = Neg (x) y = OP (z, k) }"
ROTATED = "(float[2,4,4,8] x, int64[2,4] p, float[9,4] c, float[K,L] d) => (float[2,4,4,8] y) { y = RotaryEmbedding (x, c, c, p) }"
KERNEL = "(float[1,2,5,5] x, float[2,2,3,3] w, float[2] b) => (float[a,b,c,d] y) { y = OP (x, w, b) }"
SCATTERED = "(float[4,3] x, int64[2,1] i, float[2,3] u, float[2] v, float[2,2] w, float[N,3] n) => (float[4,3] y) { y = ScatterND (x, i, v) }"
CHANNELS = "(float[1,2,3,4] x) => (float[1,2,3,4] y) <float[2] s = {1, 1}, float[1] one = {1}, float[1,2] row = {1, 1}> { y = InstanceNormalization (x, s, s) }"

BOOLEANS = "constants of booleans alone are refused, where the result is an output"
MIXED = "queries, keys, values and the mask are of different types"
DIVIDED = "an integer constant is divided by 0, and the parser's process dies of it"
HALF_PIXEL = "coordinate_transformation_mode 'half_pixel' is refused; only 'asymmetric' is taken"
WRAPPED = '(float[5] x) => (float[6] y) <int64[2] p = {-1, 2}> { y = Pad <mode = "wrap"> (x, p) }'
EACH = (
    "(float16[2] x, float[2] f) => (float[a,b] y) <int64 n = {2}, bool go = {1}> { y = Loop (n, go) "
    "<body = b (int64 i, bool c) => (bool d, float[2] v) { v = Cast <to = 1> (x) d = Identity (c) }> }"
)
UNNAMED_OUTPUT = "an output is left out, which is taken for the input that is left out: the nodes have no order"
UNNAMED_OUTPUTS = "more than one output in its graph is left out, and all are taken for one"
ASKED: dict[str, list[Example]] = {
    # control flow
    "left_out_output": [
        Example("If", "rtx", "an output is left out", 13, *both(BOTH_OUT.replace("y, z =", "y ="), "y =", "y, z =")),
        Example("Loop", "rtx", "an output is left out", 13, LOOPED.replace("y, z =", "y ="), (LOOPED,)),
        Example("Scan", "rtx", "an output is left out", 11, *both(SCANNED.replace("z, y =", '"", y ='), '"", y =', "z, y =")),
        Example("TopK", "rtx", "an output is left out", 11, *both('(float[2,4] x) => (int64[2,1] y) <int64[1] k = {1}> { "", y = TopK (x, k) }', '"", y =', "z, y =")),
        Example("Dropout", "rtx", "an output is left out", 13, *both('(float[2] x) => (bool[2] y) { "", y = Dropout (x) }', '"", y =', "z, y =")),
    ],
    "unnamed_output": [
        Example(op, f"{first} to 10.1", UNNAMED_OUTPUT, 14, *both(f'(float[3,1,4] x, float[1,{5 * gates},4] w, float[1,{5 * gates},5] r, float[1,1,5] h) => (float[] y) {{ "", y = {op} <hidden_size = 5> (x, w, r, "", "", h) }}', '"", y =', "z, y ="))
        for op, gates, first in (("LSTM", 4, "7.0"), ("GRU", 3, "7.0"), ("RNN", 1, "7.0"))
    ] + [
        Example(op, "7.0 to 10.1", UNNAMED_OUTPUTS, opset, *both(f'(float[4] x) => (int64[] v, float[] y) <int64[1] k = {{1}}> {{ "", v = TopK (x, k) {call} }}', '"", v', "u, v"), beside=("an output is left out, and the parser's process dies of it",) * (op == "Split"))
        for op, opset, call in (("Split", 11, '"", y = Split (x)'),)
    ] + [
        Example("TopK", "7.0 to 10.1", UNNAMED_OUTPUTS, 11, *both('(float[4] x) => (int64[] v, int64[] y) <int64[1] k = {1}> { "", v = TopK (x, k) "", y = TopK (x, k) }', '"", v', "u, v"), beside=("an output is left out",)),
        Example("Dropout", "7.0 to 10.1", UNNAMED_OUTPUTS, 11, *both('(float[4] x) => (int64[] v, bool[] y) <int64[1] k = {1}> { "", v = TopK (x, k) "", y = Dropout (x) }', '"", v', "u, v"), beside=("an output is left out",)),
        Example("Loop", "7.0 to 10.1", UNNAMED_OUTPUTS, 13, *both(LOOPED.replace("{ y, z =", '{ "", v = TopK (x, n) "", y =').replace("int64 n", "int64[1] n").replace("=> (float[2] y)", "=> (float[] y)"), '"", v', "u, v"), beside=("an output is left out",)),
    ],
    "left_out_part": [
        Example("Split", "rtx", "an output is left out, and the parser's process dies of it", 11, *both('(float[4] x) => (float[2] y) { "", y = Split (x) }', '"", y =', "z, y =")),
    ],
    "many_conditions": [
        Example("If", "rtx", "whether its condition is one number is not known", 11, *both(BRANCHED.replace("If (c)", "If (many)"), "bool[K] many", "bool[1] many", "bool many")),
    ],
    "captured_small_type": [
        Example("If", "rtx", "a branch reads 'w' from outside, which is of uint8", 13, *both("(bool c, uint8[2] w, int32[2] v) => (float[2] y) { y = If (c) <then_branch = t () => (p) { p = Cast <to = 1> (w) }, else_branch = e () => (q) { q = Cast <to = 1> (w) }> }", "(w)", "(v)")),
    ],
    "undecided_branches": [
        Example("If", "rtx", "its branches return 1 and 2 dimensions, and its condition is not constant", 13, *both(RANKED, "If (c)", "If (k)", "If (j)"), beside=("its branches return 1 and 2 dimensions",)),
    ],
    # lengths and positions
    "given_length": [
        *(Example("Slice", "8.4, rtx", "how many numbers its input 'k' has is not static", 13, *both(CUT.replace("(x, s, e, o)", call), call, "(x, j, e, o)", "(x, i, j, o)", "(x, s, e, o)")) for call in ("(x, k, e, o)", "(x, s, k, o)")),
        *(Example("Pad", "rtx", "how many numbers its input 'k' has is not static", 13, *both(PADDED.replace("(x, k)", call), call, "(x, j)")) for call in ("(x, k)", "(x, i)")),
        *(Example("Reshape Expand", "8.4, rtx", "how many numbers its input 'k' has is not static", 13, *both(SHAPED_BY.replace("(z, k)", call), call, "(z, j)")) for call in ("(z, k)", "(z, i)")),
        Example("ConstantOfShape", "rtx", "how many numbers its input 'k' has is not static", 13, *both(SHAPED_BY.replace("(z, k)", "(k)"), "(k) }", "(j) }")),
    ],
    "reversed_from_behind": [
        Example("ReverseSequence", "rtx", f"a negative {name} is refused", 10, *both(f"(float[4,3] x, int64[{size}] n) => (float[4,3] y) {{ y = ReverseSequence <{other} = {place}, {name} = {axis}> (x, n) }}", f"{name} = {axis}", f"{name} = {axis + 2}"))
        for name, axis, other, place, size in (("batch_axis", -1, "time_axis", 0, 3), ("time_axis", -2, "batch_axis", 1, 3))
    ],
    "scattered_updates": [
        Example("ScatterND", "rtx", "the updates do not have the shape that the indices ask for", 13, *both(SCATTERED, "(x, i, v)", "(x, i, u)", "(x, i, n)")),
        Example("ScatterND", "rtx", "the updates do not have the shape that the indices ask for", 13, *both(SCATTERED.replace("(x, i, v)", "(x, i, w)"), "(x, i, w)", "(x, i, u)")),
    ],
    "repeated_axes": [
        Example("Squeeze", "rtx", "an axis is named twice", 11, *both("(float[1,2,1] x) => (float[] y) { y = Squeeze <axes = [0, 2, 0]> (x) }", "[0, 2, 0]", "[0, 2]")),
        Example("Unsqueeze", "rtx", "an axis is named twice", 11, *both("(float[2] x) => (float[] y) { y = Unsqueeze <axes = [0, -3]> (x) }", "[0, -3]", "[0, -1]")),
    ],
    "rotated_sizes": [
        Example("RotaryEmbedding", "rtx", why, 23, *both(ROTATED.replace(old, new), new, old))
        for why, old, new in (
            ("the size of the heads is not static", "float[2,4,4,8] x", "float[2,4,4,H] x"),
            ("of the sizes of data and positions one is static, the other is not", "int64[2,4] p", "int64[B,4] p"),
            ("of the sizes of data and positions one is static, the other is not", "float[2,4,4,8] x", "float[2,4,S,8] x"),
            ("the size of the cache is not static", "(x, c, c, p)", "(x, d, d, p)"),
        )
    ],
    # convolutions and pooling
    "sized_weights": [
        *(Example("Conv ConvTranspose", "rtx", "the sizes of the weights are not static", 11, *both(KERNEL.replace("[2,2,3,3]", size), size, "[2,2,3,3]")) for size in ("[K,2,3,3]", "[2,K,3,3]", "[2,2,K,3]")),
        Example("Conv ConvTranspose", "rtx", "the sizes of the bias are not static", 11, *both(KERNEL.replace("float[2] b", "float[K] b"), "float[K] b", "float[2] b")),
    ],
    "other_kernel_shape": [
        Example("Conv ConvTranspose", "rtx", "kernel_shape [3, 1] is not that of the weights", 11, *both(KERNEL.replace("= OP", "= OP <kernel_shape = [3, 1]>"), "[3, 1]", "[3, 3]")),
    ],
    "cropping_pads": [
        Example("Conv ConvTranspose", "rtx", "the negative pads [0, -1, 0, 0] are refused", 11, *both(KERNEL.replace("= OP", "= OP <pads = [0, -1, 0, 0]>"), "[0, -1, 0, 0]", "[0, 1, 0, 0]")),
    ],
    "padded_twice": [
        Example("Conv ConvTranspose", "rtx", f"pads together with auto_pad {mode} are refused", 11, *both(KERNEL.replace("= OP", f'= OP <pads = [0, 0, 0, 0], auto_pad = "{mode}">'), f'pads = [0, 0, 0, 0], auto_pad = "{mode}"', f'auto_pad = "{mode}"', "pads = [0, 0, 0, 0]"))
        for mode in ("SAME_UPPER", "SAME_LOWER")
    ],
    "spatial_dimensions": [
        *(Example(op, f"{first} to 11.4, rtx", "4 spatial dimensions are refused; three are the most", 11, f"(float[1,1,3,3,3,3] x) => (float[] y) {{ y = {op} <kernel_shape = [2, 2, 2, 2]> (x) }}", (f"(float[1,1,3,3,3] x) => (float[] y) {{ y = {op} <kernel_shape = [2, 2, 2]> (x) }}",)) for op, first in (("AveragePool", "6.0"), ("MaxPool", "6.0"), ("LpPool", "7.2.2"))),
        *(Example(op, "6.0 to 11.4, rtx", "4 spatial dimensions are refused; three are the most", 11, f"(float[1,1,3,3,3,3] x) => (float[] y) <float[1,1,1,1,1,1] w = {{1}}> {{ y = {op} (x, w) }}", (f"(float[1,1,3,3,3] x) => (float[] y) <float[1,1,1,1,1] w = {{1}}> {{ y = {op} (x, w) }}",)) for op in ("Conv", "ConvTranspose")),
    ],
    "nothing_to_pool": [
        Example(op, f"{first} to 11.4, rtx", "an input of 2 dimensions is refused", 2, *both(f"(float[2,3] x) => (float[] y) {{ y = {op} (x) }}", "[2,3]", "[2,3,4]"))
        for op, first in (("GlobalAveragePool", "6.0"), ("GlobalMaxPool", "6.0"), ("GlobalLpPool", "7.1"))
    ],
    "window_of_channels": [
        Example("LRN", "6.0 to 11.4, rtx", f"size {size} is refused; the odd ones up to 15 are taken", 13, *both(f"(float[1,2,3,3] x) => (float[1,2,3,3] y) {{ y = LRN <size = {size}> (x) }}", f"= {size}", "= 1", "= 15"))
        for size in (2, 17)
    ],
    "channels_alone": [
        Example("LRN", "6.0 to 11.4, rtx", "an input of 3 dimensions is refused; four are needed", 13, *both("(float[1,2,3] x) => (float[] y) { y = LRN <size = 3> (x) }", "[1,2,3]", "[1,2,3,4]")),
    ],
    # dimensions
    "summed_number": [
        Example("CumSum", "rtx", "an input without dimensions is refused", 14, *both("(float x) => (float y) <int64 a = {0}> { y = CumSum (x, a) }", "(float x)", "(float[3] x)")),
    ],
    "made_dimensions": [
        Example("Unsqueeze", "6.0 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 11, *both("(float[2,3] x) => (float[] y) { y = Unsqueeze <axes = [0, 1, 2, 3, 4, 5, 6]> (x) }", "[0, 1, 2, 3, 4, 5, 6]", "[0, 1, 2, 3, 4, 5]")),
        Example("Reshape", "6.0 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 13, "(float[2] x) => (float[] y) <int64[9] s = {1, 1, 1, 1, 1, 1, 1, 1, 2}> { y = Reshape (x, s) }", ("(float[2] x) => (float[] y) <int64[8] s = {1, 1, 1, 1, 1, 1, 1, 2}> { y = Reshape (x, s) }",)),
        Example("Expand", "7.0 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 13, "(float[2] x) => (float[] y) <int64[9] s = {1, 1, 1, 1, 1, 1, 1, 1, 2}> { y = Expand (x, s) }", ("(float[2] x) => (float[] y) <int64[8] s = {1, 1, 1, 1, 1, 1, 1, 2}> { y = Expand (x, s) }",)),
        Example("ConstantOfShape", "7.0 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 13, "() => (float[] y) <int64[9] s = {1, 1, 1, 1, 1, 1, 1, 1, 2}> { y = ConstantOfShape (s) }", ("() => (float[] y) <int64[8] s = {1, 1, 1, 1, 1, 1, 1, 2}> { y = ConstantOfShape (s) }",)),
        Example("Gather", "6.0 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 13, *both("(float[2,1,1,1,1,1] x, int64[1,1,1,1] i) => (float[] y) { y = Gather (x, i) }", "int64[1,1,1,1]", "int64[1,1,1]")),
        Example("GatherND", "8.2 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 13, *both("(float[2,1,1,1,1,1] x, int64[1,1,1,1,1] i) => (float[] y) { y = GatherND (x, i) }", "int64[1,1,1,1,1]", "int64[1,1,1,1]")),
        Example("OneHot", "8.5 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 11, *both("(int64[1,1,1,1,1,1,1,1] x) => (float[] y) <int64 d = {3}, float[2] v = {0, 1}> { y = OneHot (x, d, v) }", "int64[1,1,1,1,1,1,1,1]", "int64[1,1,1,1,1,1,1]")),
        Example("Einsum", "8.2 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 12, *both('(float[1,1,1,1,1] x, float[1,1,1,1] w) => (float[] y) { y = Einsum <equation = "abcde,fghi->abcdefghi"> (x, w) }', "->abcdefghi", "->abcdefgh")),
    ],
    "wider_slope": [
        Example("PRelu", "rtx", "the slope has more elements along a dimension than the input", 13, *both("(float[5,1] x) => (float[] y) <float[5] s = {1, 1, 1, 1, 1}> { y = PRelu (x, s) }", "float[5,1] x", "float[1,5] x")),
    ],
    "shape_of_nothing": [
        Example("ConstantOfShape", "rtx", "its shape is the input 'x', which has no elements", 13, *both("(int64[0] x) => (float y) <int64[0] s = {}> { y = ConstantOfShape (x) }", "(x) }", "(s) }")),
    ],
    "scales_in_rows": [
        Example("Resize", "8.0 to 11.4, rtx", "its input 2 has 2 dimensions; one is taken", 13, *both("(float[1,1,2] x) => (float[] y) <float[3,1] s = {1, 1, 2}> { y = Resize (x, , s) }", "float[3,1]", "float[3]"), beside=(HALF_PIXEL,)),
        Example("Resize", "8.0 to 11.4, rtx", "its input 3 has 2 dimensions; one is taken", 13, *both("(float[1,1,2] x) => (float[] y) <int64[3,1] s = {1, 1, 4}> { y = Resize (x, , , s) }", "int64[3,1]", "int64[3]"), beside=(HALF_PIXEL,)),
        Example("Resize", "8.0 to 11.4, rtx", "its input 1 has 2 dimensions; one is taken", 10, *both("(float[1,1,2] x) => (float[] y) <float[3,1] s = {1, 1, 2}> { y = Resize (x, s) }", "float[3,1]", "float[3]")),
    ],
    "misshapen": [
        Example(op, "8.4, rtx", f"its input {place} does not have the shape that follows from the data and hidden_size", 14, *both(f"(float[3,2,4] x, float[1,{5 * gates},4] w, float[1,{5 * gates},5] r, float[1,{10 * gates}] b, float[1,2,5] h) => (float[] y) {{ y = {op} <hidden_size = 5> (x, w, r, b, , h) }}".replace(old.format(5 * gates, 10 * gates), new.format(5 * gates, 10 * gates)), new.format(5 * gates, 10 * gates), old.format(5 * gates, 10 * gates)))
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
        for place, old, new in ((1, "float[1,{0},4] w", "float[1,{0},3] w"), (2, "float[1,{0},5] r", "float[1,{0},4] r"), (3, "float[1,{1}] b", "float[1,{0}] b"), (5, "float[1,2,5] h", "float[1,2,4] h"))
    ],
    # TensorRT 8.4
    "dequantized_weights": [
        Example("DequantizeLinear", "8.4", "the parser's process dies of int8 weights", 13, *both("(int8[2] x) => (float[2] y) <int8[2] w = {1, 2}, float s = {0.5}, int8 z = {0}> { y = DequantizeLinear (w, s, z) }", "(w, s, z)", "(x, s, z)")),
    ],
    "reduced_booleans": [
        Example(op, "8.4", "booleans are refused", 13, *both(f"(bool[2,3] x) => (bool[] y) {{ y = {op} (x) }}", "bool[2,3] x", "float[2,3] x"), beside=("bool is refused",))
        for op in ("ReduceMax", "ReduceMin")
    ],
    "reversed_rank": [
        Example("ReverseSequence", "8.4", "an input of 6 dimensions is refused; five are the most", 10, *both("(float[2,1,1,1,1,1] x, int64[2] n) => (float[2,1,1,1,1,1] y) { y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, n) }", "[2,1,1,1,1,1]", "[2,1,1,1,1]")),
    ],
    "returned_booleans": [
        Example("Constant", "8.4", "a constant of booleans that is an output is read as int32", 13, *both("() => (bool[2] y) { y = Constant <value = bool[2] {1, 0}> () }", "bool[2]", "float[2]")),
    ],
    "like_weights": [
        Example("RandomUniformLike", "8.4", "weights are refused as its input", 13, *both("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = RandomUniformLike (w) }", "(w)", "(x)")),
    ],
    # types
    "gated_bfloat16": [
        Example("GRU", "rtx", "bfloat16 is refused", 22, *both("(bfloat16[3,2,4] x, bfloat16[1,15,4] w, bfloat16[1,15,5] r) => (bfloat16[] y) { y = GRU <hidden_size = 5> (x, w, r) }", "bfloat16", "float16", "float")),
    ],
    "remainder_of_int8": [
        Example("Mod", "rtx", "int8 is refused", 13, *both("(int8[2] x, int8[2] z) => (int8[2] y) { y = Mod <fmod = 1> (x, z) }", "int8", "float")),
    ],
    "filled_uint8": [
        Example("ConstantOfShape", "rtx", "uint8 is refused", 13, *both("(float[2] x) => (float[2] z) { s = Shape (x) y = ConstantOfShape <value = uint8[1] {3}> (s) z = Cast <to = 1> (y) }", "uint8[1]", "int32[1]")),
    ],
    "compared_uint8": [
        Example("Equal", "rtx", "weights of uint8 are read as int32, and the other operand is not", 13, *both("(uint8[2] x, uint8[2] z) => (bool[2] y) <uint8[2] w = {1, 2}> { y = Equal (x, w) }", "(x, w)", "(x, z)")),
    ],
    # normalisations and windows
    "dropped_weights": [
        Example("Dropout", "8.4, rtx", "weights are refused together with a mask", 13, *both("(float[2] x) => (float[2] y, bool[2] m) <float[2] w = {1, 2}> { z = Neg (x) y, m = Dropout (w) }", "(w)", "(z)")),
    ],
    "no_normalized_axis": [
        Example("Hardmax", "rtx", "axis 4 is none of the 2 dimensions", 13, *both("(float[2,3] x) => (float[2,3] y) { y = Hardmax <axis = 4> (x) }", "= 4>", "= 1>")),
        Example("ScatterElements", "rtx", "axis -3 is none of the 2 dimensions", 13, *both("(float[4,2] x, int64[3,2] i, float[3,2] u) => (float[4,2] y) { y = ScatterElements <axis = -3> (x, i, u) }", "= -3>", "= -2>")),
        Example("LayerNormalization", "rtx", "axis 2 is none of the 2 dimensions", 17, *both("(float[2,3] x) => (float[2,3] y) <float[3] s = {1, 1, 1}> { y = LayerNormalization <axis = 2> (x, s) }", "= 2>", "= 1>", "= -1>")),
    ],
    "other_channels": [
        Example("InstanceNormalization", "rtx", why, 6, *both(CHANNELS.replace("(x, s, s)", call), call, "(x, s, s)"))
        for call, why in (("(x, s, one)", "the bias has 1 numbers for 2 channels"), ("(x, row, s)", "a scale of 2 dimensions is refused; one is taken"))
    ],
    "sides": [
        Example("STFT", "rtx", "onesided 2 is refused", 17, *both("(float[1,12,1] x) => (float[1,F,B,2] y) <int64 s = {2}, float[4] w = {1, 1, 1, 1}, int64 n = {4}> { y = STFT <onesided = 2> (x, s, w, n) }", "onesided = 2", "onesided = 1", "onesided = 0")),
    ],
    # what one run of benchmarks/verdict.py found
    "attention_types": [
        Example("Attention", "rtx", MIXED, 23, *both("(float16[2,4,3,64] q, float16[2,4,3,64] k, bfloat16[2,4,3,64] v) => (float16[] y) { y = Attention (q, k, v) }", "bfloat16", "float16")),
        Example("Attention", "rtx", MIXED, 23, *both("(float16[2,4,3,64] q, float16[2,4,3,64] k, float[3,3] m) => (float16[] y) { y = Attention (q, k, k, m) }", "float[3,3]", "float16[3,3]", "bool[3,3]")),
    ],
    "cropped_and_wrapped": [
        Example("Pad", "rtx", "negative pads would wrap what they crop", 19, *both(WRAPPED, "{-1, 2}", "{1, 2}")),
        Example("Pad", "rtx", "negative pads would wrap what they crop", 19, *both(WRAPPED, '"wrap"', '"edge"', '"reflect"')),
    ],
    "counted_padding": [
        Example("AveragePool", "rtx", f"count_include_pad {given} is read as another one of 0 and 1", 19, *both(f"(float[1,1,5,5] x) => (float[] y) {{ y = AveragePool <kernel_shape = [2, 2], pads = [1, 1, 1, 1], count_include_pad = {given}> (x) }}", f"_pad = {given}", "_pad = 0", "_pad = 1"))
        for given in (-1, 2)
    ],
    "other_examples": [
        Example("ReverseSequence", "rtx", f"there are {given} lengths for 5 examples", 10, *both(f"(float[4,5,3] x, int64[{given}] n) => (float[4,5,3] y) {{ y = ReverseSequence (x, n) }}", f"int64[{given}]", "int64[5]"))
        for given in (0, 2)
    ]
    + [Example("ReverseSequence", "rtx", "there are 5 lengths for 4 examples", 10, *both("(float[4,5,3] x, int64[5] n) => (float[4,5,3] y) { y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, n) }", " <batch_axis = 0, time_axis = 1>", ""))],
    "tiled_vector": [
        Example("Tile", "rtx", "how many numbers its input 'n' has is not static", 13, *both("(float[5] x, int64[N] n) => (float[] y) { y = Tile (x, n) }", "int64[N]", "int64[1]")),
        Example("Tile", "rtx", "how many numbers its input 'n' has is not static", 13, *both("(float[5] x, int64[N] n) => (float[] y) { y = Tile (x, n) }", "float[5]", "float[5,2]")),
    ],
    "given_counts": [
        Example("TopK", "rtx", "how many numbers its input 'k' has is not static, and the parser's process dies of it", 11, *both("(float[5] x, int64[N] k) => (float[] y, int64[] i) { y, i = TopK (x, k) }", "int64[N]", "int64[1]")),
    ],
    "largest_of_none": [
        Example("Hardmax", "rtx", "the axis has no elements", 13, *both("(float[0,2] x) => (float[0,2] y) { y = Hardmax <axis = 0> (x) }", "axis = 0", "axis = 1")),
        Example("Hardmax", "rtx", "the axis has no elements", 13, *both("(float[0,2] x) => (float[0,2] y) { y = Hardmax <axis = 0> (x) }", "[0,2]", "[3,2]")),
    ],
    "divided_by_zero": [
        Example("Div", "rtx", DIVIDED, 14, *both(f"(int64[2] x) => (int64[2] y) <{dtype}[2] a = {{3, 4}}, {dtype}[2] b = {{1, 0}}> {{ y = Div (a, b) }}", "{1, 0}", "{1, 2}"))
        for dtype in ("int32", "int64")
    ]
    + [
        Example("Div", "rtx", DIVIDED, 14, *both("(float[2] x) => (float[2] y) <int64[2] a = {3, 4}, int64[2] b = {1, 0}> { y = Div (a, b) }", "int64[2]", "float[2]")),
        Example("Mod", "rtx", DIVIDED, 13, *both("(int64[2] x) => (int64[2] y) <int64[2] a = {3, 4}, int64[2] b = {1, 0}> { y = Mod (a, b) }", "(a, b)", "(x, b)")),
    ],
    "equal_bytes": [
        Example("Equal", "rtx", "uint8 of 1 and 2 dimensions is refused", 13, *both("(uint8[2,3] x, uint8[3] z) => (bool[2,3] y) { y = Equal (x, z) }", "uint8[3]", "uint8[2,1]", "uint8[1,3]")),
        Example("Equal", "rtx", "uint8 of 1 and 2 dimensions is refused", 13, *both("(uint8[2,3] x, uint8[3] z) => (bool[2,3] y) { y = Equal (x, z) }", "uint8", "int32")),
    ],
    "booleans_alone": [
        Example("Equal", "rtx", BOOLEANS, 13, *both("(bool[1,2] x) => (bool[1,2] y) <bool[1,2] a = {1, 0}, bool[1,1] b = {1}> { y = Equal (a, b) }", "(a, b)", "(x, b)", "(a, x)")),
        Example("Equal", "rtx", BOOLEANS, 13, *both("(float[2] x) => (bool[1,2] y) <bool[1,2] a = {1, 0}, bool[1,2] b = {1, 1}> { y = Equal (a, b) }", "bool[1,2]", "bool[2]")),
        Example("Equal", "rtx", BOOLEANS, 13, *both("(float[2] x) => (bool[1,2] y) <bool[1,2] a = {1, 0}, bool[1,2] b = {1, 1}> { y = Equal (a, b) }", "<bool[1,2] a = {1, 0}, bool[1,2] b = {1, 1}>", "<float[1,2] a = {1, 0}, float[1,2] b = {1, 1}>")),
        Example("Where", "rtx", BOOLEANS, 16, *both("(bool[1,2] x) => (bool[1,2] y) <bool[1,2] a = {1, 0}, bool[1,2] b = {1, 1}> { y = Where (a, b, a) }", "(a, b, a)", "(x, b, a)", "(a, b, x)"), beside=()),
    ],
    "widened_in_each": [
        Example("Loop", "rtx", "each iteration returns the same numbers of 16 bits, cast to fp32", 16, *both(EACH, "Cast <to = 1> (x)", "Cast <to = 10> (x)", "Cast <to = 1> (f)")),
    ],
}  # fmt: skip
