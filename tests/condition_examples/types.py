"""Examples of the conditions about types."""

from __future__ import annotations

from condition_examples.example import Example, both

EXAMPLES: dict[str, list[Example]] = {
    "Cast.to": [
        Example("Cast", "6.0 to 11.4, rtx", "there is no int16", 13, *both("(float[2] x) => (int16[2] y) { y = Cast <to = 5> (x) }", "to = 5", "to = 6", "to = 1", "to = 11")),
        *(Example("Cast", "6.0 to 8.6", f"there is no {name} before 9.0", 13, *both(f"(float[2] x) => (float[] y) {{ y = Cast <to = {to}> (x) }}", f"to = {to}", "to = 10"))
        for to, name in ((16, "bfloat16"), (17, "float8e4m3fn"), (2, "uint8"), (22, "int4"), (23, "float4e2m1"))),
    ],
    "Cast.saturate.made": [
        Example(op, "10.0 to 11.4, rtx", "saturate 0 is not read: it would saturate", 19, *both(f"(float[2] x, float8e4m3fn[2] t, float s, float8e4m3fn z) => (float8e4m3fn[2] y) {{ y = {op} <{to}saturate = 0> ({inputs}) }}", "saturate = 0", "saturate = 1"))
        for op, to, inputs in (("Cast", "to = 17, ", "x"), ("CastLike", "", "x, t"))
    ] + [
        Example("Cast", "10.0 to 11.4, rtx", "saturate 0 is not read: it would saturate", 19, "(float[2] x) => (float8e4m3fn[2] y) { y = Cast <to = 17, saturate = 0> (x) }", ("(float[2] x) => (float[2] y) { y = Cast <to = 10, saturate = 0> (x) }",)),
        Example("QuantizeLinear", "10.0 to 11.4, rtx", "saturate 0 is not read: it would saturate", 19, *both("(float[2] x) => (float8e4m3fn[2] y) <float s = {1}, float8e4m3fn z = {0}> { y = QuantizeLinear <saturate = 0> (x, s, z) }", "saturate = 0", "saturate = 1")),
    ],
    "sampled_type": [
        Example("GridSample", "rtx", f"{dtype} is refused", 20, *both(f"({dtype}[1,1,4,4] x, float[1,2,2,2] g) => ({dtype}[1,1,2,2] y) {{ y = GridSample (x, g) }}", f"{dtype}[1", "float[1"))
        for dtype in ("int8", "int32", "int64", "bool")
    ] + [
        Example("GridSample", "rtx", "the grid has another type than the image", 20, *both("(float16[1,1,4,4] x, float[1,2,2,2] g) => (float16[1,1,2,2] y) { y = GridSample (x, g) }", "float16[1,1,4", "float[1,1,4")),
    ],
    "Clip.dtype.weights": [
        Example("Clip", "rtx", "computed bounds are refused in int8", 13, *both("(int8[2] x, int8 a) => (int8[2] y) <int8 b = {1}> { y = Clip (x, a) }", "(x, a)", "(x)", "(x, b)")),
    ],
    "BlackmanWindow.output_datatype": [
        Example("BlackmanWindow HammingWindow HannWindow", "10.4 to 11.4, rtx", "a window of int32 is refused", 17, *both("(float[2] x) => (int32[4] y) <int64 n = {4}> { y = OP <output_datatype = 6> (n) }", "6> (n)", "1> (n)")),
    ],
    "Range.dtype": [
        Example("Range", "8.4 to 9.0", "float16 is refused", 27, *both("() => (float16[n] y) <float16 a = {0}, float16 b = {3}, float16 c = {1}> { y = Range (a, b, c) }", "float16", "float")),
    ],
    "RandomNormalLike.made": [
        Example("RandomNormalLike RandomUniformLike", "rtx", "bfloat16 is refused", 22, *both("(bfloat16[2] x) => (bfloat16[2] y) { y = OP (x) }", "bfloat16", "float16")),
    ],
    "ConstantOfShape.made": [
        Example("ConstantOfShape", "rtx", "uint8 is refused", 13, *both("(float[2] x) => (float[2] z) { s = Shape (x) y = ConstantOfShape <value = uint8[1] {3}> (s) z = Cast <to = 1> (y) }", "uint8[1]", "int32[1]")),
    ],
    "compared_uint8": [
        Example("Equal", "rtx", "weights of uint8 are read as int32, and the other operand is not", 13, *both("(uint8[2] x, uint8[2] z) => (bool[2] y) <uint8[2] w = {1, 2}> { y = Equal (x, w) }", "(x, w)", "(x, z)")),
    ],
    "CastLike.1.dtype.weights": [
        Example("CastLike", "rtx", "weights of uint8 are read as int32, and cast to", 15, *both("(bool[2] x, uint8[1] v) => (uint8[2] y) <uint8[1] w = {1}> { y = CastLike (x, w) }", "(x, w)", "(x, v)")),
    ],
}  # fmt: skip
