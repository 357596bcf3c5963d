"""Examples of the conditions about what takes tensors apart."""

from __future__ import annotations

from condition_examples.example import Example, both

SLICE = "(float[4,3] x) => (float[a,b] y) <int64[2] s = {3, 0}, int64[2] e = {0, 3}, int64[2] a = {0, 1}, int64[2] t = {-1, 1}>"
CUT = "(float[5,3] x, int64[K] k, int64[1] j) => (float[a,b] y) <int64[1] s = {1}, int64[1] e = {3}, int64[1] o = {0}> { i = Identity (j) y = Slice (x, s, e, o) }"
PADDED = "(float[2,3] x, int64[K] k, int64[4] j) => (float[a,b] y) { i = Identity (k) y = Pad (x, k) }"
SHAPED_BY = "(float[1,1] x, int64[K] k, int64[2] j) => (float[a,b] y) { i = Identity (k) z = Neg (x) y = OP (z, k) }"
SCATTERED = "(float[4,3] x, int64[2,1] i, float[2,3] u, float[2] v, float[2,2] w, float[N,3] n) => (float[4,3] y) { y = ScatterND (x, i, v) }"

EXAMPLES: dict[str, list[Example]] = {
    "ReverseSequence.batch_axis": [
        Example("ReverseSequence", "rtx", "a negative batch_axis is refused", 10, *both("(float[4,3] x, int64[3] n) => (float[4,3] y) { y = ReverseSequence <batch_axis = -1, time_axis = 0> (x, n) }", "-1", "1")),
    ],
    "Slice.4.value": [
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
    "Squeeze.1": [
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
    "Squeeze.1.size.where": [
        Example("Squeeze", "7.2.2 to 10.1", "axes is left out, and which of its sizes are 1 is not known", opset, *both("(float[N,4,1] x) => (float[] y) { y = Squeeze (x) }", "[N,", "[3,"))
        for opset in (11, 13)
    ] + [
        Example("Squeeze", "7.2.2 to 10.1", "axes is left out, and which of its sizes are 1 is not known", 11, *both("(float[N,4,1] x) => (float[] y) { y = Squeeze (x) }", "Squeeze (x)", "Squeeze <axes = [2]> (x)")),
    ],
    "slice_steps": [
        Example("Slice", "rtx", "steps are left out, and the positions are int32", 13, *both("(float[2,3] x, int32[1] c) => (float[a,b] y) <int32[1] s = {0}, int32[1] e = {1}, int32[1] a = {1}, int32[2] t = {0, 0}, int32[2] u = {0, 1}> { y = Slice (x, s, e, a) }", "(x, s, e, a)", "(x, s, e, a, e)", "(x, c, e, a)", "(x, s, c, a)", "(x, t, t, u)")),
        Example("Slice", "rtx", "steps that are computed are refused in int32", 13, *both("(float[2,3] x, int32[1] c) => (float[a,b] y) <int32[1] s = {0}, int32[1] e = {1}, int32[1] a = {1}> { y = Slice (x, s, e, a, c) }", "(x, s, e, a, c)", "(x, s, e, a, e)")),
    ],
    "ReverseSequence.where": [
        Example("ReverseSequence", "8.6 to 11.4, rtx", "batch_axis and time_axis are the same", 10, *both("(float[5,4] x, int64[4] n) => (float[5,4] y) { y = ReverseSequence <time_axis = 1> (x, n) }", "time_axis = 1", "time_axis = 0")),
    ],
    "slice_counts": [
        Example("Slice", "rtx", "its inputs have 1 and 2 numbers", 13, *both("(float[4,5] x) => (float[a,b] y) <int64[2] s = {1, 1}, int64[2] e = {3, 3}, int64[1] f = {3}, int64[2] k = {0, 1}> { y = Slice (x, s, f, k) }", "(x, s, f, k)", "(x, s, e, k)")),
    ],
    "Slice.size": [
        Example("Slice", "8.4", "how many dimensions are cut is not static", 13, *both("(float[4,5] x, int64[N] i, int64[2] t) => (float[a,b] y) <int64[2] e = {3, 3}, int64[2] k = {0, 1}> { s = Gather (t, i) y = Slice (x, s, e, k) }", "(x, s, e, k)", "(x, t, e, k)")),
    ],
    "split_outputs": [
        Example("Split", "10.0 to 11.4, rtx", "num_outputs is 2, and 1 are named", 18, "(float[4] x) => (float[2] y) { y = Split <num_outputs = 2> (x) }", ("(float[4] x) => (float[2] y, float[2] z) { y, z = Split <num_outputs = 2> (x) }",)),
    ],
    "given_length": [
        *(Example("Slice", "8.4, rtx", "how many numbers its input 'k' has is not static", 13, *both(CUT.replace("(x, s, e, o)", call), call, "(x, j, e, o)", "(x, i, j, o)", "(x, s, e, o)")) for call in ("(x, k, e, o)", "(x, s, k, o)")),
        *(Example("Pad", "rtx", "how many numbers its input 'k' has is not static", 13, *both(PADDED.replace("(x, k)", call), call, "(x, j)")) for call in ("(x, k)", "(x, i)")),
        *(Example("Reshape Expand", "8.4, rtx", "how many numbers its input 'k' has is not static", 13, *both(SHAPED_BY.replace("(z, k)", call), call, "(z, j)")) for call in ("(z, k)", "(z, i)")),
        Example("ConstantOfShape", "rtx", "how many numbers its input 'k' has is not static", 13, *both(SHAPED_BY.replace("(z, k)", "(k)"), "(k) }", "(j) }")),
    ],
    "scattered_updates": [
        Example("ScatterND", "rtx", "the updates do not have the shape that the indices ask for", 13, *both(SCATTERED, "(x, i, v)", "(x, i, u)", "(x, i, n)")),
        Example("ScatterND", "rtx", "the updates do not have the shape that the indices ask for", 13, *both(SCATTERED.replace("(x, i, v)", "(x, i, w)"), "(x, i, w)", "(x, i, u)")),
    ],
    "repeated_axes": [
        Example("Squeeze", "rtx", "an axis is named twice", 11, *both("(float[1,2,1] x) => (float[] y) { y = Squeeze <axes = [0, 2, 0]> (x) }", "[0, 2, 0]", "[0, 2]")),
        Example("Unsqueeze", "rtx", "an axis is named twice", 11, *both("(float[2] x) => (float[] y) { y = Unsqueeze <axes = [0, -3]> (x) }", "[0, -3]", "[0, -1]")),
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
        Example("TopK", "rtx", "how many numbers its input 'k' has is not static, and the parser crashes", 11, *both("(float[5] x, int64[N] k) => (float[] y, int64[] i) { y, i = TopK (x, k) }", "int64[N]", "int64[1]")),
    ],
    "largest_of_none": [
        Example("Hardmax", "rtx", "the axis has no elements", 13, *both("(float[0,2] x) => (float[0,2] y) { y = Hardmax <axis = 0> (x) }", "axis = 0", "axis = 1")),
        Example("Hardmax", "rtx", "the axis has no elements", 13, *both("(float[0,2] x) => (float[0,2] y) { y = Hardmax <axis = 0> (x) }", "[0,2]", "[3,2]")),
    ],
    "Expand.1.weights.empty": [
        Example("Expand", "8.4", "its second input has no elements, and the parser crashes", 13, *both("(float x) => (float[] y) <int64[0] k = {}, int64[1] j = {1}> { y = Expand (x, k) }", "(x, k)", "(x, j)")),
        Example("ReverseSequence", "8.4", "its second input has no elements, and the parser crashes", 10, *both("(float[2,1] x) => (float[] y) <int64[0] k = {}, int64[1] j = {1}> { y = ReverseSequence (x, k) }", "(x, k)", "(x, j)"), beside=("there are 0 lengths for 1 examples",)),
    ],
    "more_indices": [
        Example("ScatterElements", "rtx", "there are more indices than positions", 16, *both("(float[2,5] x, int64[3,5] i, float[3,5] u) => (float[2,5] y) { y = ScatterElements (x, i, u) }", "[3,5]", "[2,5]")),
    ],
    "other_updates": [
        Example("ScatterElements", "rtx", "the updates do not have the shape of the indices", 16, *both("(float[2,5] x, int64[1,3] i, float[1,3] u) => (float[] y) { y = ScatterElements (x, i, x) }", "(x, i, x)", "(x, i, u)")),
    ],
}  # fmt: skip
