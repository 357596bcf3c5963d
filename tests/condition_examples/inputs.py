"""Examples of the conditions about inputs and outputs that are left out."""

from __future__ import annotations

from condition_examples.example import Example, both

LOOPED = "(float[2] x) => (float[2] y) <int64 n = {3}, bool go = {1}> { y, z = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity (c) t = Neg (s) u = Abs (t) }> }"
UNNAMED_OUTPUT = "an output is left out, which is taken for the input that is left out: the nodes have no order"
UNNAMED_OUTPUTS = "more than one output in its graph is left out, and all are taken for one"

EXAMPLES: dict[str, list[Example]] = {
    "empty_last": [
        Example("Slice", "7.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[4,5] x) => (float[a,b] y) <int64[2] s = {1, 1}, int64[2] e = {3, 3}> { y = Slice (x, s, e, "", "") }', '"", ""', '""')),
        Example("Conv", "7.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[1,1,4,4] x) => (float[1,1,4,4] y) <float[1,1,1,1] w = {2}> { y = Conv (x, w, "") }', ', ""', "")),
        Example("Gemm", "7.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[2,1] x) => (float[2,1] y) <float[1,1] w = {2}> { y = Gemm (x, w, "") }', ', ""', "")),
        Example("Trilu", "8.5 to 11.4, rtx", "its last input has an empty name", 14, *both('(float[2,2] x) => (float[2,2] y) { y = Trilu <upper = 1> (x, "") }', ', ""', "")),
        Example("Squeeze", "8.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[2,1] x) => (float[2] y) { y = Squeeze (x, "") }', ', ""', "")),
        Example("Split", "8.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[2,2] x) => (float[1,2] y, float[1,2] z) { y, z = Split (x, "") }', ', ""', "")),
        Example("Dropout", "8.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[2,2] x) => (float[2,2] y) { y = Dropout (x, "", "") }', '"", ""', '""')),
    ],
    "unnamed_output": [
        Example(op, f"{first} to 10.1", UNNAMED_OUTPUT, 14, *both(f'(float[3,1,4] x, float[1,{5 * gates},4] w, float[1,{5 * gates},5] r, float[1,1,5] h) => (float[] y) {{ "", y = {op} <hidden_size = 5> (x, w, r, "", "", h) }}', '"", y =', "z, y ="))
        for op, gates, first in (("LSTM", 4, "7.0"), ("GRU", 3, "7.0"), ("RNN", 1, "7.0"))
    ] + [
        Example(op, "7.0 to 10.1", UNNAMED_OUTPUTS, opset, *both(f'(float[4] x) => (int64[] v, float[] y) <int64[1] k = {{1}}> {{ "", v = TopK (x, k) {call} }}', '"", v', "u, v"), beside=("an output is left out, and the parser crashes",) * (op == "Split"))
        for op, opset, call in (("Split", 11, '"", y = Split (x)'),)
    ] + [
        Example("TopK", "7.0 to 10.1", UNNAMED_OUTPUTS, 11, *both('(float[4] x) => (int64[] v, int64[] y) <int64[1] k = {1}> { "", v = TopK (x, k) "", y = TopK (x, k) }', '"", v', "u, v"), beside=("an output is left out",)),
        Example("Dropout", "7.0 to 10.1", UNNAMED_OUTPUTS, 11, *both('(float[4] x) => (int64[] v, bool[] y) <int64[1] k = {1}> { "", v = TopK (x, k) "", y = Dropout (x) }', '"", v', "u, v"), beside=("an output is left out",)),
        Example("Loop", "7.0 to 10.1", UNNAMED_OUTPUTS, 13, *both(LOOPED.replace("{ y, z =", '{ "", v = TopK (x, n) "", y =').replace("int64 n", "int64[1] n").replace("=> (float[2] y)", "=> (float[] y)"), '"", v', "u, v"), beside=("an output is left out",)),
    ],
}  # fmt: skip
