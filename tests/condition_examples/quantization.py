"""Examples of the conditions about QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from condition_examples.example import Example, both

QUANTIZE = "(float[2] x) => (int8[2] y) <float s = {0.5}, int8 z = {0}> { y = QuantizeLinear (x, s, z) }"
DEQUANTIZE = "(int8[2] x) => (float[2] y) <float s = {0.5}, int8 z = {0}> { y = DequantizeLinear (x, s, z) }"

EXAMPLES: dict[str, list[Example]] = {
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
    "QuantizeLinear.made": [
        Example("QuantizeLinear", "rtx", "uint8, which is what it returns without a zero point, is read as int8", 13, *both(QUANTIZE.replace("int8", "uint8"), "uint8", "int8")),
        Example("QuantizeLinear", "rtx", "uint8, which is what it returns without a zero point, is read as int8", 13, *both(QUANTIZE.replace("(x, s, z)", "(x, s)"), "(x, s)", "(x, s, z)")),
    ],
    "DequantizeLinear.dtype.maker": [
        Example(
            "DequantizeLinear", "rtx", "uint8 that no QuantizeLinear makes is refused", 13, DEQUANTIZE.replace("int8", "uint8"),
            (DEQUANTIZE, "(float[2] x) => (float[2] y) <float s = {0.5}, uint8 z = {0}> { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"),
        ),
        Example("DequantizeLinear", "rtx", "uint8 that no QuantizeLinear makes is refused", 13, *both(DEQUANTIZE.replace("int8", "uint8").replace("{ y = DequantizeLinear (x", "{ t = Identity (x) y = DequantizeLinear (t"), "uint8", "int8")),
    ],
    "QuantizeLinear.axis.1.rank.size": [
        Example("QuantizeLinear", "8.0 to 10.1", "axis is left out, and this parser uses 0", 13, *both("(float[2,2] x) => (int8[2,2] y) <float[2] s = {1, 2}, int8[2] z = {0, 0}, float[1] t = {1}, int8[1] e = {0}> { y = QuantizeLinear (x, s, z) }", "QuantizeLinear (x, s, z)", "QuantizeLinear <axis = 1> (x, s, z)", "QuantizeLinear <axis = 0> (x, s, z)", "QuantizeLinear (x, t, e)")),
        Example("DequantizeLinear", "8.0 to 10.1", "axis is left out, and this parser uses 0", 13, *both("(int8[2,2] x) => (float[2,2] y) <float[2] s = {1, 2}, int8[2] z = {0, 0}> { y = DequantizeLinear (x, s, z) }", "DequantizeLinear", "DequantizeLinear <axis = 1>")),
    ],
    "DequantizeLinear.0.dtype.rank.value": [
        Example("DequantizeLinear", "rtx", "a constant without a dimension is refused", 13, *both("() => (float y) <int8 q = {3}, int8[1] v = {3}, float s = {1}, int8 z = {0}> { y = DequantizeLinear (q, s, z) }", "(q, s", "(v, s")),
    ],
    "quantized_axis": [
        Example("DequantizeLinear", "rtx", "the size of the axis that the scales are along is not static", 13, *both("(int8[4,N] x) => (float[4,N] y) <float[2] s = {1, 1}, int8[2] z = {0, 0}> { y = DequantizeLinear (x, s, z) }", "[4,N]", "[N,2]")),
        Example("QuantizeLinear", "rtx", "the size of the axis that the scales are along is not static", 13, *both("(float[4,N] x) => (int8[4,N] y) <float[2] s = {1, 1}, int8[2] z = {0, 0}> { y = QuantizeLinear (x, s, z) }", "[4,N]", "[N,2]")),
    ],
}  # fmt: skip
