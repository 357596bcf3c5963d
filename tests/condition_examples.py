"""Examples of conditions for tests/test_conditions.py: of attributes that are not read, and of what a fuzzer found."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """One reason of one condition.

    targets  every target that gives it: "8.2 to 9.3, rtx"; "dla 8.2 to 10.16" of DLA alone
    why      the reason, word for word
    opset    the model's
    refused  the model; its node is the one that makes `y`, and OP stands for each of `operators`
    taken    the same with one thing changed, which each of these targets takes; empty where it refuses every node
    opsets   of `taken` where it is another than that of `refused`: the one thing that changed
    beside   what other conditions say of `refused`: of the release before, the release behind, and TensorRT-RTX
    """

    operators: str
    targets: str
    why: str
    opset: int
    refused: str
    taken: tuple[str, ...] = ()
    opsets: tuple[int, ...] = ()
    beside: tuple[str, ...] = ()


def both(text: str, old: str, *new: str) -> tuple[str, tuple[str, ...]]:
    """A model, and the same with `old` replaced by each of `new`."""
    assert old in text
    return text, tuple(text.replace(old, n) for n in new)


# ---- attributes that are not read ------------------------------------------------------------------------------------

TOP_K = "(float[3,4] x) => (float[3,2] y, int64[3,2] i) <int64[1] k = {2}> { y, i = TopK <largest = 0> (x, k) }"
LEGACY = (
    "(float[1,2,4,4] x, float[2] b, float[1,2,1,1] c) => (float[1,2,4,4] y) { y = OP <axis = 1, broadcast = 1> (x, b) }"
)
LOGICAL = LEGACY.replace("float[", "bool[")
COMPARED = LEGACY.replace("=> (float", "=> (bool")
PER_ACTIVATION = "(float[1,2,3] x, float[1,2] z, float[2,3] s) => (float[1,2,3] y) { y = BatchNormalization <spatial = 0> (x, s, s, s, s) }"
SCAN = (
    "(float[2,3,4] x, float[2,4] i) => (float[2,4] y, float[2,3,4] z) { y, z = Scan <num_scan_inputs = 1, body = b"
    " (float[4] s, float[4] e) => (float[4] o, float[4] p) { o = Add (s, e) p = Identity (o) }> (, i, x) }"
)
SCAN_9 = SCAN.replace("(, i, x)", "(i, x)").replace("float[2,3,4] x, float[2,4] i", "float[3,4] x, float[4] i")
GATHERING = (
    "(float[2] x, bool go, int64 k) => (float[2] z, float[n,2] y) <int64 n = {2147483647}> { g = Identity (go) z, y = Loop (n, g, x) <body = b"
    " (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity (c) t = Neg (s) u = Abs (s) }> }"
)
COUNTING = (
    "(float[2] x, bool go, int64 k) => (float[2] y) <int64 n = {2147483647}> { g = Identity (go) y = Loop (n, g, x) <body = b"
    " (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity (c) f = Cast <to = 1> (i) t = Add (s, f) }> }"
)

SCALED = '(float[1,4] x, float[2] s, int64[2] n) => (float[a,b] y) { h = Shape (x) f = Cast <to = 1> (h) t = Abs (s) y = Resize <nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"> (x, , t) }'

MORE: dict[str, list[Example]] = {
    "TopK.largest": [Example("TopK", "6.0 to 8.4", "largest 0 is not read: the largest would come back", 11, *both(TOP_K, "largest = 0", "largest = 1"))],
    "ArgMax.select_last_index": [
        Example("ArgMax ArgMin", "6.0 to 7.2.2", "select_last_index 1 is not read: the first of equals would be chosen", 12, *both("(float[3,4] x) => (int64[1,4] y) { y = OP <select_last_index = 1> (x) }", "index = 1", "index = 0")),
    ],
    "not_spatial": [
        Example("BatchNormalization", "7.0 to 11.4, rtx", "spatial 0 is not read: there would be one scale a channel", 7, *both(PER_ACTIVATION, "spatial = 0", "spatial = 1"), beside=("its input 1 must be an initializer",)),
        Example("BatchNormalization", "7.0 to 11.4, rtx", "spatial 0 is not read: there would be one scale a channel", 7, *both(PER_ACTIVATION, "(x, s", "(z, s"), beside=("its input 1 must be an initializer",)),
    ],
    "legacy_broadcast": [
        Example("Add Sub Mul Div", "7.0 to 9.3", "operands of different ranks are refused below opset 7", 6, LEGACY, (LEGACY.replace("(x, b)", "(x, c)"), LEGACY.replace(" <axis = 1, broadcast = 1>", "")), (6, 7), beside=("it is refused below opset 7",)),
        Example("Pow", "7.0 to 9.3", "operands of different ranks are refused below opset 7", 1, *both(LEGACY, "(x, b)", "(x, c)"), beside=("it is refused below opset 7",)),
        Example("And Or", "7.0 to 9.3", "operands of different ranks are refused below opset 7", 1, *both(LOGICAL, "(x, b)", "(x, c)"), beside=("it is refused below opset 7",)),
        Example("Xor", "8.4 to 9.3", "operands of different ranks are refused below opset 7", 1, *both(LOGICAL, "(x, b)", "(x, c)"), beside=("it is refused below opset 7",)),
        Example("Equal Greater Less", "7.0 to 9.3", "operands of different ranks are refused below opset 7", 1, *both(COMPARED, "(x, b)", "(x, c)"), beside=("it is refused below opset 7",)),
    ],
    "batched_scan": [
        Example("Scan", "7.0 to 11.4, rtx", "opset 8 scans each example of a batch, and this parser hands the whole batch to the body", 8, SCAN, (SCAN_9,), (9,)),
    ],
    "constant_kind": [
        Example("Constant", "8.0 to 11.4, rtx", f"{kind} is refused", 12, f"() => (string[2] y) {{ y = Constant <{kind} = {value}> () }}", ("() => (float[1] y) { y = Constant <value = float[1] {1.0}> () }",), beside=("no attribute of a Constant but 'value' is read",))
        for kind, value in (("value_string", '"a"'), ("value_strings", '["a", "b"]'))
    ],
    "upsample_scales": [
        Example("Upsample", "6.0 to 11.4, rtx", "height_scale and width_scale are not read: scales is", 1, "(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Upsample <height_scale = 2.0, width_scale = 2.0> (x) }", ("(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x) }",), (7,)),
    ],
    "pad_paddings": [
        Example("Pad", "8.2 to 11.4, rtx", "paddings is not read: pads is", 1, "(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Pad <paddings = [0, 0, 1, 1, 0, 0, 1, 1]> (x) }", ("(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Pad <pads = [0, 0, 1, 1, 0, 0, 1, 1]> (x) }",), (2,), beside=("the pads must be an initializer",)),
    ],
    # ranks
    "reduced_number": [
        Example("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare", "6.0 to 11.4, rtx", "an input without dimensions is refused", 13, *both("(float x) => (float y) { y = OP (x) }", "(float x)", "(float[2] x)")),
    ],
    "indexed_vector": [
        Example("ArgMax ArgMin", "6.0 to 11.4, rtx", "an input of one dimension is refused", 13, *both("(float[5] x) => (int64[a] y) { y = OP (x) }", "float[5]", "float[5,1]")),
    ],
    "vector_by_batch": [
        Example("MatMul", "8.4 to 11.4, rtx", "a vector by a batch of matrices is refused", 13, *both("(float[3] x, float[2,3,4] z, float[3,4] w) => (float[a,b] y) { y = MatMul (x, z) }", "(x, z)", "(x, w)", "(x, x)")),
    ],
    "lp_pool_rank": [
        Example("LpPool", "7.2.2 to 11.4, rtx", "one spatial dimension is refused", 11, "(float[1,2,5] x) => (float[1,2,b] y) { y = LpPool <kernel_shape = [2]> (x) }", ("(float[1,2,5,5] x) => (float[1,2,b,c] y) { y = LpPool <kernel_shape = [2, 2]> (x) }",)),
    ],
    # types
    "floats_alone": [
        Example(op, f"{first}, rtx", f"{dtype} is refused", opset, *both(f"({dtype}[2,2] x, float s, int8 z) => ({dtype}[a,b] y) {{ y = {op} {rest} }}", f"{dtype}[2,2]", "float[2,2]"))
        for op, rest, opset, dtypes, first in (
            ("MatMul", "(x, x)", 13, ("int32", "int64"), "7.0 to 8.4"),
            ("Gemm", "(x, x)", 13, ("int32", "int64"), "7.0 to 8.4"),
            ("Einsum", '<equation = "ij,jk->ik"> (x, x)', 13, ("int8", "int32", "int64"), "8.2 to 8.6"),
            ("Erf", "(x)", 13, ("int32", "int64"), "8.0 to 8.4"),
            ("ReduceL2", "(x)", 13, ("int32", "int64"), "8.0 to 8.4"),
            ("ReduceLogSum", "(x)", 13, ("int32", "int64"), "8.0 to 8.4"),
            ("ReduceLogSumExp", "(x)", 13, ("int32", "int64"), "8.0 to 8.4"),
        )
        for dtype in dtypes
    ] + [
        Example("QuantizeLinear", "8.4, rtx", "int32 is refused", 13, *both("(int32[2] x) => (int8[2] y) <float s = {1}, int8 z = {0}> { y = QuantizeLinear (x, s, z) }", "int32", "float")),
    ],
    "resized_type": [
        Example(op, f"{first} to 8.4, rtx", f"{dtype} is refused", opset, *both(f"({dtype}[1,1,2,2] x) => ({dtype}[1,1,4,4] y) <float[4] s = {{1, 1, 2, 2}}> {{ y = {op} (x, {more}s) }}", f"{dtype}[1", "float[1", "int8[1"), beside=beside)
        for op, opset, more, first, beside in (("Resize", 18, ", ", "8.0", ("coordinate_transformation_mode 'half_pixel' is refused; only 'asymmetric' is taken",)), ("Upsample", 9, "", "7.0", ()))
        for dtype in ("int32", "int64", "bool")
    ],
    "sampled_type": [
        Example("GridSample", "rtx", f"{dtype} is refused", 20, *both(f"({dtype}[1,1,4,4] x, float[1,2,2,2] g) => ({dtype}[1,1,2,2] y) {{ y = GridSample (x, g) }}", f"{dtype}[1", "float[1"))
        for dtype in ("int8", "int32", "int64", "bool")
    ] + [
        Example("GridSample", "rtx", "the grid has another type than the image", 20, *both("(float16[1,1,4,4] x, float[1,2,2,2] g) => (float16[1,1,2,2] y) { y = GridSample (x, g) }", "float16[1,1,4", "float[1,1,4")),
    ],
    "no_booleans": [
        Example("DepthToSpace SpaceToDepth", "7.0 to 8.4, rtx", "bool is refused", 13, *both("(bool[1,4,2,2] x) => (bool[a,b,c,d] y) { y = OP <blocksize = 2> (x) }", "bool[1", "int8[1")),
    ],
    "deconvolved_bfloat16": [
        Example("ConvTranspose", "rtx", "bfloat16 is refused", 22, *both("(bfloat16[1,1,3,3] x, bfloat16[1,1,2,2] w) => (bfloat16[a,b,c,d] y) { y = ConvTranspose (x, w) }", "bfloat16", "float16")),
    ],
    "halves_of_lengths": [
        Example(op, "rtx", f"sequence_lens is refused in {dtype}", 22, *both(f"({dtype}[3,1,4] x, {dtype}[1,{gates * 5},4] w, {dtype}[1,{gates * 5},5] r, int32[1] n) => ({dtype}[3,1,1,5] y) {{ y = {op} <hidden_size = 5> (x, w, r, , n) }}", dtype, "float"))
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
        for dtype in ("float16", "bfloat16")
    ],
    "clipped_int8": [
        Example("Clip", "rtx", "computed bounds are refused in int8", 13, *both("(int8[2] x, int8 a) => (int8[2] y) <int8 b = {1}> { y = Clip (x, a) }", "(x, a)", "(x)", "(x, b)")),
    ],
    # control flow
    "endless_loop": [
        Example("Loop", "rtx", "what each iteration returns is refused without a limit on the iterations", 13, *both(GATHERING, "2147483647", "2147483646")),
        Example("Loop", "rtx", "what each iteration returns is refused without a limit on the iterations", 13, *both(GATHERING.replace("(n,", "(,"), "(,", "(k,")),
    ],
    "numbered_rows": [
        Example("Loop", "7.2.2 to 8.5", "the number of the iteration has a dimension there, and so 't' has one more", 13, *both("(float[3] h, float[5,3] x, bool go, int64 n) => (float[3] y) { g = Identity (go) y = Loop (n, g, h) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t) { d = Identity (c) r = Gather (x, i) t = Add (r, s) }> }", "t = Add (r, s)", "w = Cast <to = 1> (i) t = Mul (w, s)", "k = Squeeze (i) w = Gather (x, k) t = Add (w, s)")),
    ],
    "unlimited_loop": [
        Example("Loop", "7.0 to 11.4, rtx", "it has no limit on the iterations, and its body reads their number as 'i'", 13, *both(COUNTING.replace("(n,", "(,"), "(,", "(k,")),
    ],
    "uncounted_loop": [
        Example("Loop", "8.5 to 11.4, rtx", "it has no limit on the iterations, and its body reads their number as 'i'", 13, *both(COUNTING, "2147483647", "2147483646")),
        Example("Loop", "8.5 to 11.4, rtx", "it has no limit on the iterations, and its body reads their number as 'i'", 13, *both(COUNTING.replace("int64 k)", "int64 k, int64 n)"), "2147483647", "2147483646")),
        Example("Loop", "8.5 to 11.4, rtx", "it has no limit on the iterations, and its body reads their number as 'i'", 13, *both(COUNTING, "f = Cast <to = 1> (i) t = Add (s, f)", "t = Add (s, s)")),
    ],
    "ended_early": [
        Example("Loop", "7.0 to 11.4, rtx", "what the iterations return has a row for each that the limit allows, though the condition may end it", 13, *both(GATHERING.replace("2147483647", "4").replace("Identity (c)", "Not (c)"), "Not (c)", "Identity (c)", "Constant <value = bool {1}> ()")),
    ],
    "growing_state": [
        Example("Loop", "7.0 to 11.4, rtx", "its state 's' grows", 13, *both("(float[1,3] x) => (float[n,3] y) <int64 n = {4}> { y = Loop (n, , x) <body = b (int64 i, bool c, float[m,3] s) => (bool d, float[k,3] t) { d = Constant <value = bool {1}> () t = Concat <axis = 0> (s, x) }> }", "Concat <axis = 0> (s, x)", "Concat <axis = 0> (s)", "Add (s, x)")),
    ],
    "stateless_scan": [
        Example("Scan", "7.0 to 11.4, rtx", "a Scan without state is refused", 11, "(float[3,4] x) => (float[3,4] y) { y = Scan <num_scan_inputs = 1, body = b (float[4] e) => (float[4] p) { p = Neg (e) }> (x) }", (SCAN_9.replace("y, z", "z, y"),)),
    ],
    "branches_of_other_rank": [
        Example("If", "8.0 to 11.4", "its branches return 1 and 2 dimensions", 13, *both("(float[3,4] x, float[3,4] z, float[12] w, bool c) => (float[] y) { y = If (c) <then_branch = t () => (p) { p = Neg (x) }, else_branch = e () => (q) { q = Neg (w) }> }", "Neg (w)", "Neg (x)", "Neg (z)"), beside=("its branches return 1 and 2 dimensions, and its condition is not constant",)),
    ],
    # names
    "looped_input": [
        Example("Loop", "7.0 to 11.4, rtx", "the model's input 'go' would be called 'c' in the engine", 13, *both(GATHERING.replace("Loop (n, g,", "Loop (k, go,"), "(k, go,", "(k, g,")),
        Example("Loop", "7.0 to 11.4, rtx", "the model's input 'go' would be called 'c' in the engine", 13, *both(GATHERING.replace("Loop (n, g,", "Loop (k, go,"), "bool go", "bool[1] go")),
    ],
    "transposed_input": [
        Example("Transpose", "8.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[2,3] x) => (float[2,3] y) { z = Abs (x) y = Transpose <perm = [0, 1]> (x) }", "(x) }", "(z) }")),
        Example("Transpose", "8.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[2,3] x) => (float[a,b] y) { y = Transpose <perm = [0, 1]> (x) }", "0, 1", "1, 0")),
        Example("Transpose", "8.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[2] x) => (float[2] y) { y = Transpose (x) }", "(float[2] x) => (float[2] y)", "(float[2,2] x) => (float[2,2] y)")),
    ],
    # what makes numbers
    "empty_range": [
        Example("RandomUniform", "rtx", "high is not above low", 1, *both("() => (float[2] y) { y = RandomUniform <low = 1.0, shape = [2]> () }", "low = 1.0", "low = 0.5", "low = 1.0, high = 1.5")),
        Example("RandomUniformLike", "rtx", "high is not above low", 1, *both("(float[2] x) => (float[2] y) { y = RandomUniformLike <high = 0.0> (x) }", "high = 0.0", "high = 0.5")),
    ],
    "no_deviation": [
        Example("RandomNormal", "rtx", "a scale that is not positive is refused", 1, *both("() => (float[2] y) { y = RandomNormal <scale = 0.0, shape = [2]> () }", "scale = 0.0", "scale = 0.5")),
        Example("RandomNormalLike", "rtx", "a scale that is not positive is refused", 1, *both("(float[2] x) => (float[2] y) { y = RandomNormalLike <scale = 0.0> (x) }", "scale = 0.0", "scale = 0.5")),
    ],
    # what was found beside them
    "squeeze_of_any_size": [
        Example("Squeeze", "7.2.2 to 10.1", "axes is left out, and which of its sizes are 1 is not known", opset, *both("(float[N,4,1] x) => (float[] y) { y = Squeeze (x) }", "[N,", "[3,"))
        for opset in (11, 13)
    ] + [
        Example("Squeeze", "7.2.2 to 10.1", "axes is left out, and which of its sizes are 1 is not known", 11, *both("(float[N,4,1] x) => (float[] y) { y = Squeeze (x) }", "Squeeze (x)", "Squeeze <axes = [2]> (x)")),
    ],
    "resize_rounding": [
        Example("Resize", "8.0 to 11.4", "tf_half_pixel_for_nn goes with round_prefer_floor alone, not with 'floor'", 13, *both('(float[1,1,2,2] x) => (float[a,b,c,d] y) <float[4] f = {1, 1, 2, 2}> { y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn", nearest_mode = "floor"> (x, , f) }', '"floor"', '"round_prefer_floor"'), beside=("coordinate_transformation_mode 'tf_half_pixel_for_nn' is refused; only 'asymmetric' is taken",)),
    ],
    "resize_by_sizes": [
        Example("Resize", "rtx", "sizes are not read with tf_half_pixel_for_nn: scales are", 12, *both('(float[1,1,2,2] x) => (float[a,b,c,d] y) <float[0] r = {}, float[4] f = {1, 1, 2, 2}, int64[4] s = {1, 1, 4, 4}> { y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, r, r, s) }', "(x, r, r, s)", "(x, r, f)")),
    ],
    "sizes_of_some_axes": [
        Example("Resize", "rtx", "the sizes of the axes that are not named are read as -1", 18, *both("(float[N,1,2,2] x) => (float[a,b,c,d] y) <int64[2] s = {4, 4}, int64[4] t = {1, 1, 4, 4}> { y = Resize <axes = [2, 3]> (x, , , s) }", "float[N,1", "float[3,1")),
    ],
    "strided_and_dilated": [
        Example("ConvTranspose", "rtx", "strides together with dilations are refused", 11, *both("(float[1,1,5,5] x, float[1,1,2,2] w) => (float[a,b,c,d] y) { y = ConvTranspose <strides = [1, 2], dilations = [2, 1]> (x, w) }", "strides = [1, 2]", "strides = [1, 1]")),
        Example("ConvTranspose", "rtx", "strides together with dilations are refused", 11, *both("(float[1,1,5,5] x, float[1,1,2,2] w) => (float[a,b,c,d] y) { y = ConvTranspose <strides = [1, 2], dilations = [2, 1]> (x, w) }", "dilations = [2, 1]", "dilations = [1, 1]")),
    ],
    "slice_steps": [
        Example("Slice", "rtx", "steps are left out, and the positions are int32", 13, *both("(float[2,3] x, int32[1] c) => (float[a,b] y) <int32[1] s = {0}, int32[1] e = {1}, int32[1] a = {1}, int32[2] t = {0, 0}, int32[2] u = {0, 1}> { y = Slice (x, s, e, a) }", "(x, s, e, a)", "(x, s, e, a, e)", "(x, c, e, a)", "(x, s, c, a)", "(x, t, t, u)")),
    ],
    "reversed_batch": [
        Example("ReverseSequence", "8.6 to 11.4, rtx", "batch_axis and time_axis are the same", 10, *both("(float[5,4] x, int64[4] n) => (float[5,4] y) { y = ReverseSequence <time_axis = 1> (x, n) }", "time_axis = 1", "time_axis = 0")),
    ],
    "instance_of_one": [
        Example("InstanceNormalization", "rtx", "one number a channel is refused", 6, *both("(float[1,2,1,1] x) => (float[a,b,c,d] y) <float[2] s = {1, 1}> { y = InstanceNormalization (x, s, s) }", "[1,2,1,1]", "[1,2,1,2]", "[1,2,1,N]")),
    ],
    "flattened_hardmax": [
        Example("Hardmax", "rtx", "more than one size that is not static is refused below opset 13", 11, "(float[A,2,B] x) => (float[A,2,B] y) { y = Hardmax (x) }", ("(float[A,2,3] x) => (float[A,2,3] y) { y = Hardmax (x) }", "(float[A,2,B] x) => (float[A,2,B] y) { y = Hardmax (x) }"), (11, 13)),
    ],
    "resize_by_input": [
        Example("Resize", "8.4, rtx", "its scales follow from the input 's', which holds floats", 13, *both(SCALED, "Abs (s)", "Cast <to = 1> (n)", "Div (f, f)"), beside=("its input 2 must be an initializer",)),
        Example("Resize", "8.4, rtx", "its scales follow from the input 's', which holds floats", 10, "(float[1,4] x, float[2] s) => (float[a,b] y) { y = Resize (x, s) }", ("(float[1,4] x) => (float[a,b] y) <float[2] s = {1, 1}> { y = Resize (x, s) }",)),
        Example("Upsample", "rtx", "its scales follow from the input 's', which holds floats", 9, "(float[1,4] x, float[2] s) => (float[a,b] y) { y = Upsample (x, s) }", ("(float[1,4] x) => (float[a,b] y) <float[2] s = {1, 1}> { y = Upsample (x, s) }",)),
    ],
}  # fmt: skip
