"""Examples of the conditions about If, Loop and Scan."""

from __future__ import annotations

from condition_examples.example import Example, both

LOOP = (
    "(float[2] x, bool go) => (float[2] y) {{ g = Identity (go) n = Constant <value = int64 {{2}}> () y = Loop (n, {}, x) <body = b"
    " (int64 i, bool c, float[2] s) => (bool d, float[2] t) {{ d = {} t = Neg (s) }}> }}"
)
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
BRANCHED = "(float[2,1] x, float[2,1] w, bool[K] many, bool c) => (float[2,1] y) { y = If (c) <then_branch = t () => (p) { p = Neg (x) }, else_branch = e () => (q) { q = Abs (w) }> }"
RANKED = "(float[2,1] x, float[N,1] w, bool c) => (float[] y) <int64[1] axis = {1}, int64 one = {1}> { s = Shape (w) n = Gather (s, one) k = Equal (n, one) j = Not (k) y = If (c) <then_branch = t () => (p) { p = Squeeze (x, axis) }, else_branch = e () => (q) { q = Neg (x) }> }"
BOTH_OUT = "(float[2] x, bool c) => (float[2] y) { y, z = If (c) <then_branch = t () => (p, r) { p = Neg (x) r = Abs (x) }, else_branch = e () => (q, s) { q = Abs (x) s = Neg (x) }> }"
LOOPED = "(float[2] x) => (float[2] y) <int64 n = {3}, bool go = {1}> { y, z = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity (c) t = Neg (s) u = Abs (t) }> }"
SCANNED = "(float[2] s, float[5,2] x) => (float[5,2] y) { z, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] v) => (float[2] r, float[2] o) { r = Add (a, v) o = Neg (r) }> (s, x) }"
EACH = (
    "(float16[2] x, float[2] f) => (float[a,b] y) <int64 n = {2}, bool go = {1}> { y = Loop (n, go) "
    "<body = b (int64 i, bool c) => (bool d, float[2] v) { v = Cast <to = 1> (x) d = Identity (c) }> }"
)
DRAWS = "(float[2] x, float[3,2] e) => (float[] z, float[] y) <int64 n = {3}, bool go = {1}> { z, y = CALL body = b (INPUTS float[2] s) => (OUTPUTS float[2] t, u) { d = Identity (c) t = Neg (s) u = DRAWN }> (n, go, x) }"
LOOP_2 = DRAWS.replace("CALL", "Loop <").replace("INPUTS", "int64 i, bool c,").replace("OUTPUTS", "bool d,")
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

SCANNED_ALONG = "(float[2] s, float[2,3] x) => (float[2] z, float[2,3] y) { z, y = Scan <num_scan_inputs = 1, AXES, body = b (float[2] a, float[2] v) => (float[2] r, float[2] o) { r = Add (a, v) o = Neg (r) }> (s, x) }"

EXAMPLES: dict[str, list[Example]] = {
    **{
        f"Scan.{name}": [
            Example("Scan", "7.0 to 11.4, rtx", f"a negative axis in {name} is counted from 8 dimensions", 11, *both(SCANNED_ALONG.replace("AXES", f"scan_input_axes = [1], scan_output_axes = [1], {name} = [-1]").replace(f"{name} = [1], ", ""), "[-1]", "[1]"))
        ]
        for name in ("scan_input_axes", "scan_output_axes")
    },
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
    "Scan.where": [
        Example("Scan", "7.0 to 11.4, rtx", "a Scan without state is refused", 11, "(float[3,4] x) => (float[3,4] y) { y = Scan <num_scan_inputs = 1, body = b (float[4] e) => (float[4] p) { p = Neg (e) }> (x) }", (SCAN_9.replace("y, z", "z, y"),)),
    ],
    "branches_of_other_rank": [
        Example("If", "8.0 to 11.4", "its branches return 1 and 2 dimensions", 13, *both("(float[3,4] x, float[3,4] z, float[12] w, bool c) => (float[] y) { y = If (c) <then_branch = t () => (p) { p = Neg (x) }, else_branch = e () => (q) { q = Neg (w) }> }", "Neg (w)", "Neg (x)", "Neg (z)"), beside=("its branches return 1 and 2 dimensions, and its condition is not constant",)),
    ],
    "left_out_output": [
        Example("If", "rtx", "an output is left out", 13, *both(BOTH_OUT.replace("y, z =", "y ="), "y =", "y, z =")),
        Example("Loop", "rtx", "an output is left out", 13, LOOPED.replace("y, z =", "y ="), (LOOPED,)),
        Example("Scan", "rtx", "an output is left out", 11, *both(SCANNED.replace("z, y =", '"", y ='), '"", y =', "z, y =")),
        Example("TopK", "rtx", "an output is left out", 11, *both('(float[2,4] x) => (int64[2,1] y) <int64[1] k = {1}> { "", y = TopK (x, k) }', '"", y =', "z, y =")),
        Example("Dropout", "rtx", "an output is left out", 13, *both('(float[2] x) => (bool[2] y) { "", y = Dropout (x) }', '"", y =', "z, y =")),
    ],
    "left_out_part": [
        Example("Split", "rtx", "an output is left out, and the parser crashes", 11, *both('(float[4] x) => (float[2] y) { "", y = Split (x) }', '"", y =', "z, y =")),
    ],
    "If.size": [
        Example("If", "rtx", "whether its condition is one number is not known", 11, *both(BRANCHED.replace("If (c)", "If (many)"), "bool[K] many", "bool[1] many", "bool many")),
        Example("If", "rtx", "whether its condition is one number is not known", 11, *both("(float[2,1] x, bool[1,N] c) => (float[] y) { y = If (c) <then_branch = t () => (p) { p = Abs (x) }, else_branch = e () => (q) { q = Neg (x) }> }", "bool[1,N]", "bool[1,1]")),
    ],
    "captured_small_type": [
        Example("If", "rtx", "a branch reads 'w' from outside, which is of uint8", 13, *both("(bool c, uint8[2] w, int32[2] v) => (float[2] y) { y = If (c) <then_branch = t () => (p) { p = Cast <to = 1> (w) }, else_branch = e () => (q) { q = Cast <to = 1> (w) }> }", "(w)", "(v)")),
        Example("If", "rtx", "a branch reads 'v' from outside, which is of float8e4m3fn", 19, *both(SMALL, "(v, s", "(w, s")),
    ],
    "undecided_branches": [
        Example("If", "rtx", "its branches return 1 and 2 dimensions, and its condition is not constant", 13, *both(RANKED, "If (c)", "If (k)", "If (j)"), beside=("its branches return 1 and 2 dimensions",)),
    ],
    "widened_in_each": [
        Example("Loop", "rtx", "each iteration returns the same numbers of 16 bits, cast to fp32", 16, *both(EACH, "Cast <to = 1> (x)", "Cast <to = 10> (x)", "Cast <to = 1> (f)")),
    ],
    "captured_twice": [
        Example("If", "rtx", "both branches dequantize 'w' from outside, which is of int8", 19, *both(CAPTURES.replace("TYPE", "int8").replace("READ", "w"), "(w, s, z) }, else", "(v, s, z) }, else")),
        Example("If", "rtx", "both branches dequantize 'w' from outside, which is of float8e4m3fn", 19, CAPTURES.replace("TYPE", "float8e4m3fn").replace("READ", "w"), (SMALL.replace("(v, s", "(w, s"),)),
    ],
    "drawn_in_each": [
        Example("Loop", "rtx", f"each iteration returns what {op} draws, scaled or in another type than fp32", 13, *both(LOOP_2.replace("DRAWN", call), call, plain))
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
    "slid_over_weights": [
        Example("If", "rtx", f"a branch holds {op} of weights with one spatial dimension", 13, *both(BRANCHES.replace("float[2,1] x", "float[1,1,3] x").replace("y) {", "y) <float[1,1,4] w = {1, 2, 3, 4}, float[1,1,2] k = {1, 2}> {").replace("THEN", call), call, other, "Relu (w)"))
        for op, call, other in (
            ("Conv", "Conv (w, k)", "Conv (x, k)"),
            ("MaxPool", "MaxPool <kernel_shape = [2]> (w)", "MaxPool <kernel_shape = [2]> (x)"),
            ("AveragePool", "AveragePool <kernel_shape = [2]> (w)", "AveragePool <kernel_shape = [2]> (x)"),
        )
    ],
}  # fmt: skip
