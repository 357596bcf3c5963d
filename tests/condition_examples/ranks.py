"""Examples of the conditions about ranks."""

from __future__ import annotations

from condition_examples.example import Example, both

DEEP = "(float[2] x) => (float[] z, float[] y) <int64 n = {1}, bool go = {1}> { z, y = Loop <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, u) { d = Identity (c) t = Neg (s) u = Reshape (s, k) }> (n, go, x) }"
ROWS = "(float[2] x, float[3,2] e) => (float[] z, float[] y) { z, y = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] v) => (float[2] t, u) { t = Add (s, v) u = Reshape (t, k) }> (x, e) }"
EIGHT, SEVEN = ("<int64[8] k = {1, 1, 1, 1, 1, 1, 1, 2}>", "<int64[7] k = {1, 1, 1, 1, 1, 1, 2}>")

HALF_PIXEL = "coordinate_transformation_mode 'half_pixel' is refused; only 'asymmetric' is supported"

EXAMPLES: dict[str, list[Example]] = {
    "Resize.rank.opset": [
        Example("Resize", "8.0 to 11.4, rtx", "its input 2 has 2 dimensions; one is supported", 13, *both("(float[1,1,2] x) => (float[] y) <float[3,1] s = {1, 1, 2}> { y = Resize (x, , s) }", "float[3,1]", "float[3]"), beside=(HALF_PIXEL,)),
        Example("Resize", "8.0 to 11.4, rtx", "its input 3 has 2 dimensions; one is supported", 13, *both("(float[1,1,2] x) => (float[] y) <int64[3,1] s = {1, 1, 4}> { y = Resize (x, , , s) }", "int64[3,1]", "int64[3]"), beside=(HALF_PIXEL,)),
    ],
    "Resize.1.rank.opset": [
        Example("Resize", "8.0 to 11.4, rtx", "its input 1 has 2 dimensions; one is supported", 10, *both("(float[1,1,2] x) => (float[] y) <float[3,1] s = {1, 1, 2}> { y = Resize (x, s) }", "float[3,1]", "float[3]")),
    ],
    "MatMul.rank.where": [
        Example("MatMul", "8.4 to 11.4, rtx", "a vector by a batch of matrices is refused", 13, *both("(float[3] x, float[2,3,4] z, float[3,4] w) => (float[a,b] y) { y = MatMul (x, z) }", "(x, z)", "(x, w)", "(x, x)")),
    ],
    "Hardmax.size.opset.where": [
        Example("Hardmax", "rtx", "more than one size that is not static is refused below opset 13", 11, "(float[A,2,B] x) => (float[A,2,B] y) { y = Hardmax (x) }", ("(float[A,2,3] x) => (float[A,2,3] y) { y = Hardmax (x) }", "(float[A,2,B] x) => (float[A,2,B] y) { y = Hardmax (x) }"), (11, 13)),
    ],
    "Flatten.rank": [
        Example("Flatten", "7.0 to 8.4", f"an input of {rank} dimensions is not flattened", 13, *both(f"(float{shape} x, float[2,3,4] w) => (float[a,b] y) {{ z = Abs (x) y = Flatten <axis = {axis}> (z) }}", f"float{shape} x", "float[2,3,4] x"))
        for rank, shape, axis in ((0, "", 0), (1, "[3]", 0), (1, "[3]", 1))
    ],
    "Flatten.axis.rank": [
        *(Example("Flatten", "7.0 to 8.4", "an input of 2 dimensions is not flattened", 13, *both(f"(float[3,4] x, float[2,3,4] w) => (float[a,b] y) {{ z = Abs (x) y = Flatten <axis = {axis}> (z) }}", "float[3,4] x", "float[2,3,4] x")) for axis in (0, 2)),
        Example("Flatten", "7.0 to 8.4", "an input of 2 dimensions is not flattened", 13, *both("(float[3,4] x) => (float[a,b] y) { z = Abs (x) y = Flatten <axis = 0> (z) }", "axis = 0", "axis = 1", "axis = -1")),
    ],
    "ReverseSequence.1.size": [
        Example("ReverseSequence", "7.2.2 to 8.5", "how many examples there are is not static", 10, *both("(float[5,4] x, int64[N] n) => (float[5,4] y) { y = ReverseSequence (x, n) }", "int64[N]", "int64[4]")),
    ],
    "Conv.1.empty": [
        Example("Conv", "6.0 to 11.4, rtx", "weights without elements are refused", 11, *both("(float[1,1,4] x) => (float[1,a,b] y) <float[0,1,1] w = {}, float[1,1,1] v = {1}> { y = Conv (x, w) }", "(x, w)", "(x, v)")),
        Example("ConvTranspose", "6.0 to 11.4, rtx", "weights without elements are refused", 11, *both("(float[1,1,4] x) => (float[1,a,b] y) <float[1,0,1] w = {}, float[1,1,1] v = {1}> { y = ConvTranspose (x, w) }", "(x, w)", "(x, v)")),
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
    ] + [
        Example(op, "7.0 to 11.4, rtx", "9 dimensions are refused; 8 are the most", 13, text.replace("y) {", f"y) {EIGHT} {{").replace("{1}> {", f"{{1}}, {EIGHT[1:]} {{"), (text.replace("y) {", f"y) {SEVEN} {{").replace("{1}> {", f"{{1}}, {SEVEN[1:]} {{"),))
        for op, text in (("Loop", DEEP), ("Scan", ROWS))
    ],
    "wider_slope": [
        Example("PRelu", "rtx", "the slope has more elements along a dimension than the input", 13, *both("(float[5,1] x) => (float[] y) <float[5] s = {1, 1, 1, 1, 1}> { y = PRelu (x, s) }", "float[5,1] x", "float[1,5] x")),
        Example("PRelu", "rtx", "the slope has more elements along a dimension than the input", 16, *both("(float[3] x, float[2,3] s) => (float[] y) { y = PRelu (x, s) }", "float[2,3] s", "float[1,3] s"), beside=("the slope has more dimensions than the input",)),
    ],
    "shape_of_nothing": [
        Example("ConstantOfShape", "rtx", "its shape is the input 'x', which has no elements", 13, *both("(int64[0] x) => (float y) <int64[0] s = {}> { y = ConstantOfShape (x) }", "(x) }", "(s) }")),
    ],
    "far_axis": [
        Example("ArgMax ArgMin", "7.0 to 8.6", "axis 0 is not one of the last 4 dimensions", 11, *both("(float[2,1,3,2,4] x) => (int64[] y) { y = OP <axis = 0> (x) }", "axis = 0", "axis = 1", "axis = -1")),
        Example("TopK", "7.0 to 8.6", "axis -5 is not one of the last 4 dimensions", 11, *both("(float[2,1,3,2,4] x) => (float[] y, int64[] i) <int64[1] k = {1}> { y, i = TopK <axis = -5> (x, k) }", "axis = -5", "axis = -4")),
    ],
}  # fmt: skip
