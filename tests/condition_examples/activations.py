"""Examples of the conditions about activations."""

from __future__ import annotations

from condition_examples.example import Example, both

BAD_INPUT = "its input {} must be an initializer"
PRELU = "(float[2,3] x, float[3] c) => (float[2,3] y) <float[3] s = {1, 2, 3}> { y = PRelu (x, s) }"
CLIP = "(double[2] x, double low) => (double[2] y) <double zero = {0}> { y = Clip (x, low) }"
CROSSED = "(float[2] x) => (float[2] y) <float a = {1}, float b = {-1}> { y = Clip (x, a, b) }"

EXAMPLES: dict[str, list[Example]] = {
    "selu_defaults": [
        Example(
            "Selu", "6.0 to 11.4, rtx", "alpha and gamma are left out, and this parser's own defaults are rounded to 1.6732 and 1.0507", 6,
            *both(f"(float[2] x) => (float[2] y) {{ y = Selu{written} (x) }}", f"Selu{written}", "Selu <alpha = 1.5, gamma = 1.0>"),
        )
        for written in ("", " <alpha = 1.5>", " <gamma = 1.0>")
    ],
    "PRelu.rank.where": [
        Example("PRelu", "7.0 to 11.4", "the slope has more dimensions than the input", 16, *both(PRELU.replace("float[3] s", "float[1,1,3] s"), "float[1,1,3] s", "float[1,3] s", "float[3] s")),
        Example("PRelu", "7.0 to 11.4", "the slope has more dimensions than the input", 16, *both(PRELU.replace("float[3] s", "float[1,1,3] s"), "float[2,3] x", "float[] x")),
        Example("PRelu", "7.0 to 11.4", "the slope has more dimensions than the input", 16, *both(PRELU.replace("float[3] c", "float[1,1,3] c").replace("(x, s)", "(x, c)"), "float[1,1,3] c", "float[1,3] c", "float[] c")),
    ],
    "PRelu.1.maker": [
        Example(
            "PRelu", "8.4", "the parser crashes on a slope that comes from a DequantizeLinear", 13,
            *both(
                "(float[1,2,3] x, float[2,1] c) => (float[1,2,3] y) <int8[2,1] q = {1, 2}, float[2,1] w = {1, 2}, float s = {0.5}, int8 z = {0}> { a = DequantizeLinear (q, s, z) y = PRelu (x, a) }",
                "a = DequantizeLinear (q, s, z)", "a = Abs (c)", "a = Identity (w)",
            ),
        )
    ],
    "clip_tensors": [
        Example(
            "Clip", "8.0 to 8.6", "computed bounds are supported in fp32 and int32, not in double", 12, CLIP.replace("(x, low)", f"({call})"),
            (CLIP.replace("low)", "zero)"), *(CLIP.replace("double", dtype).replace("(x, low)", f"({call})") for dtype in ("float", "int32", "int64")),
             CLIP.replace("{ y = Clip (x, low)", f"{{ t = com.custom.Foo (x) y = Clip ({call.replace('x', 't')})")),
            beside=(BAD_INPUT.format(position),),
        )
        for call, position in (("x, low", 1), ("x, , low", 2))
    ] + [
        Example("Clip", "8.0 to 8.6", "without a lower bound it is supported in fp32 and int32, not in int8", 12, *both("(int8[2] x) => (int8[2] y) <int8 b = {1}> { y = Clip (x, , b) }", "(x, , b)", "(x, b, b)", "(x)")),
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
    "fused_round": [
        Example("Round", "8.4", "beside Relu it is not rounded: a fused kernel leaves it out", 13, *both("(float[2,3] x) => (float[2,3] y) { a = Relu (x) y = Round (a) }", "Relu (x)", "Identity (x)")),
        Example("Round", "8.4", "beside Neg it is not rounded: a fused kernel leaves it out", 13, *both("(float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Round (x) z = Neg (y) }", "Neg (y)", "Transpose <perm = [0, 1]> (y)")),
    ],
    "clip_weights": [
        Example("Clip", "rtx", "many constant integers without both bounds are refused", 13, *both(f"(int32[72] x) => (int32[72] y) <int32[72] c = {{{', '.join('3' * 72)}}}, int32 n = {{1}}, int32 m = {{2}}> {{ y = Clip (c, n) }}", "(c, n)", "(c, n, m)", "(x, n)")),
    ],
}  # fmt: skip
