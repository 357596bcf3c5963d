"""Examples of conditions for tests/test_conditions.py: of what was measured with TensorRT 8.4 and TensorRT-RTX."""

from __future__ import annotations

from condition_examples import Example, both

REDUCES = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"
REDUCED = "(float[2,3] x) => (float[a,b] y) <int64[0] none = {}, int64[1] one = {1}> { y = OP (x, none) }"
CACHE = "(float16[2,3,5,4] c, float16[2,3,2,4] u) => (float16[2,3,5,4] y) { y = TensorScatter (c, u) }"
LOOKED = "(int8[3] q, float[4] x, float[4] w) => (float[4] y)"


def ints(
    op: str, targets: str, opset: int, text: str, dtypes: tuple[str, ...] = ("int32", "int64"), **more: object
) -> list[Example]:
    """A node that takes floats, and no integers."""
    return [
        Example(
            op, targets, f"{dtype} is refused", opset, *both(text.replace("TYPE", dtype), dtype + "[", "float["), **more
        )  # type: ignore[arg-type]
        for dtype in dtypes
    ]


def bools(op: str, targets: str, opset: int, text: str) -> Example:
    """A node that takes floats, and no booleans."""
    return Example(op, targets, "bool is refused", opset, *both(text.replace("TYPE", "bool"), "bool[", "float["))


MEASURED: dict[str, list[Example]] = {
    # reductions
    "fused_round": [
        Example("Round", "8.4", "beside Relu it is not rounded: a fused kernel leaves it out", 13, *both("(float[2,3] x) => (float[2,3] y) { a = Relu (x) y = Round (a) }", "Relu (x)", "Identity (x)")),
        Example("Round", "8.4", "beside Neg it is not rounded: a fused kernel leaves it out", 13, *both("(float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Round (x) z = Neg (y) }", "Neg (y)", "Transpose <perm = [0, 1]> (y)")),
    ],
    "reduce_over_none": [
        Example("ReduceSum", "8.0 to 8.4", "axes without any number are refused", 13, *both(REDUCED, "(x, none)", "(x, one)", "(x)")),
        Example("ReduceSum", "8.0 to 8.4", "axes without any number are refused", 13, *both(REDUCED.replace("OP (", "OP <noop_with_empty_axes = 1> ("), "(x, none)", "(x, one)"), beside=("the axes are an input, which this parser does not read: it would reduce over every axis",)),
    ],
    "neither_zero_nor_one": [
        Example("ReduceSum ReduceLogSum " + REDUCES + " ArgMax ArgMin", "6.0 to 11.4, rtx", "keepdims 2 is read as 1", 11, *both("(float[2,3] x) => (float[a,b] y) { y = OP <keepdims = 2> (x) }", "keepdims = 2", "keepdims = 1", "keepdims = 0")),
        Example("TopK", "8.5 to 11.4, rtx", "largest -1 is read as 1", 11, *both("(float[3,4] x) => (float[3,2] y, int64[3,2] i) <int64[1] k = {2}> { y, i = TopK <largest = -1> (x, k) }", "largest = -1", "largest = 0"), beside=("largest -1 is not read: the largest would come back",)),
    ],
    "normalized_axes": [
        Example("MeanVarianceNormalization", "8.5 to 11.4, rtx", "the axes [0, 2, 3] are more than the 3 dimensions", 13, *both("(float[2,3,4] x) => (float[] y) { y = MeanVarianceNormalization (x) }", "[2,3,4]", "[2,3,4,5]")),
    ],
    "normalized_halves": [
        Example("MeanVarianceNormalization", "11.0 to 11.4, rtx", "float16 is refused", 13, *both("(float16[2,3,4,4] x) => (float16[] y) { y = MeanVarianceNormalization (x) }", "float16", "float")),
    ],
    # types
    "chosen_booleans": [
        Example("Where", "8.2 to 8.4", "bool is refused", 9, *both("(bool[2] c, bool[2] x, float[2] z) => (float[2] y) { y = Where (c, x, x) }", "(c, x, x)", "(c, z, z)")),
    ],
    "powers_of_integers": [
        Example("Pow", "7.0 to 9.1", f"{dtype} is refused", 15, *both(f"({dtype}[2] x, float[2] z) => (float[2] y) {{ y = Pow ({call}) }}", f"({call})", "(z, z)"))
        for dtype in ("int32", "int64")
        for call in ("x, z", "z, x")
    ],
    "windows_in_other_types": [
        Example("BlackmanWindow HammingWindow HannWindow", "10.4 to 11.4, rtx", "a window of int32 is refused", 17, *both("(float[2] x) => (int32[4] y) <int64 n = {4}> { y = OP <output_datatype = 6> (n) }", "6> (n)", "1> (n)")),
    ],
    "mean_of_halves": [
        Example("Mean", "10.0 to 11.4, rtx", f"{dtype} is multiplied by the wrong factor, near 0", 13, *both(f"({dtype}[2] x) => ({dtype}[2] y) {{ y = Mean (x, x) }}", f"{dtype}[", "float["))
        for dtype in ("float16", "bfloat16")
    ],
    "counted_type": [
        Example("Range", "8.4 to 9.0", "float16 is refused", 27, *both("() => (float16[n] y) <float16 a = {0}, float16 b = {3}, float16 c = {1}> { y = Range (a, b, c) }", "float16", "float")),
    ],
    "range_by_input": [
        Example("Range", "7.0 to 8.4, rtx", "its bounds follow from the input 'x', which holds floats", 11, *both("(float x, int64 n) => (float[n] y) <float a = {0}, float b = {2}> { c = Cast <to = 1> (n) y = Range (a, x, b) }", "(a, x, b)", "(a, b, b)", "(a, c, b)")),
    ],
    "drawn_bfloat16": [
        Example("RandomNormalLike RandomUniformLike", "rtx", "bfloat16 is refused", 22, *both("(bfloat16[2] x) => (bfloat16[2] y) { y = OP (x) }", "bfloat16", "float16")),
    ],
    # ranks
    "shape_in_rows": [
        Example("Expand", "7.0 to 11.4, rtx", "its shape has 2 dimensions; one is taken", 13, *both("(float[1,2] x) => (float[a,b] y) <int64[2,1] s = {2, 1}> { y = Expand (x, s) }", "[2,1] s", "[2] s")),
        Example("ConstantOfShape", "7.0 to 11.4, rtx", "its shape has 2 dimensions; one is taken", 13, *both("() => (float[a,b] y) <int64[2,1] s = {2, 1}> { y = ConstantOfShape (s) }", "[2,1] s", "[2] s")),
    ],
    "flattened_matrix": [
        Example("Flatten", "7.0 to 8.4", f"an input of {rank} dimensions is not flattened", 13, *both(f"(float{shape} x, float[2,3,4] w) => (float[a,b] y) {{ z = Abs (x) y = Flatten <axis = {axis}> (z) }}", f"float{shape} x", "float[2,3,4] x"))
        for rank, shape, axis in ((0, "", 0), (1, "[3]", 0), (1, "[3]", 1), (2, "[3,4]", 0), (2, "[3,4]", 2))
    ] + [
        Example("Flatten", "7.0 to 8.4", "an input of 2 dimensions is not flattened", 13, *both("(float[3,4] x) => (float[a,b] y) { z = Abs (x) y = Flatten <axis = 0> (z) }", "axis = 0", "axis = 1", "axis = -1")),
    ],
    "scattered_cache": [
        Example("TensorScatter", "10.15 to 11.4, rtx", "the mode 'circular' is refused", 24, *both(CACHE.replace("TensorScatter", 'TensorScatter <mode = "circular">'), "circular", "linear")),
        Example("TensorScatter", "10.15 to 11.4, rtx", "int32 is refused", 24, *both(CACHE.replace("float16", "int32"), "int32", "float16", "float", "bfloat16")),
        Example("TensorScatter", "10.15 to 11.4, rtx", "a cache of 3 dimensions is refused; four are taken", 24, *both(CACHE.replace("[2,3,", "[6,"), "[6,", "[2,3,")),
        Example("TensorScatter", "10.15 to 11.4, rtx", "axis 1 is refused; -2 is taken", 24, "(float[2,5,3,4] c, float[2,2,3,4] u) => (float[2,5,3,4] y) { y = TensorScatter <axis = 1> (c, u) }", (CACHE.replace("TensorScatter", "TensorScatter <axis = 2>"), CACHE.replace("TensorScatter", "TensorScatter <axis = -2>"))),
    ],
    "celu_number": [Example("Celu", "8.4", "an input without dimensions is refused", 12, *both("(float x) => (float y) { y = Celu (x) }", "(float x)", "(float[1] x)"), beside=("this parser computes Celu wrongly",))],
    "reversed_examples": [
        Example("ReverseSequence", "7.2.2 to 8.5", "how many examples there are is not static", 10, *both("(float[5,4] x, int64[N] n) => (float[5,4] y) { y = ReverseSequence (x, n) }", "int64[N]", "int64[4]")),
    ],
    "empty_kernel": [
        Example("Conv", "6.0 to 11.4, rtx", "weights without elements are refused", 11, *both("(float[1,1,4] x) => (float[1,a,b] y) <float[0,1,1] w = {}, float[1,1,1] v = {1}> { y = Conv (x, w) }", "(x, w)", "(x, v)")),
        Example("ConvTranspose", "6.0 to 11.4, rtx", "weights without elements are refused", 11, *both("(float[1,1,4] x) => (float[1,a,b] y) <float[1,0,1] w = {}, float[1,1,1] v = {1}> { y = ConvTranspose (x, w) }", "(x, w)", "(x, v)")),
    ],
    # names
    "flattened_input": [
        Example("Flatten", "7.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[3,4] x) => (float[3,4] y) { z = Abs (x) y = Flatten (x) }", "Flatten (x)", "Flatten (z)")),
        Example("Flatten", "7.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[3,4] x) => (float[a,b] y) { y = Flatten (x) }", "[3,4]", "[3,4,5]")),
    ],
    "dropped_input": [
        Example("Dropout", "7.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[3,4] x) => (float[3,4] y, bool[3,4] m) { z = Abs (x) y, m = Dropout (x) }", "Dropout (x)", "Dropout (z)")),
        Example("Dropout", "7.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, "(float[3,4] x) => (float[3,4] y, bool[3,4] m) { y, m = Dropout (x) }", ("(float[3,4] x) => (float[3,4] y) { y = Dropout (x) }",)),
    ],
    "attention_to_itself": [
        Example("Attention", "rtx", "queries and keys are one tensor, and the builder's process dies of it", 23, *both("(float16[1,2,2,16] q, float16[1,2,2,16] k) => (float16[] y) { i = Identity (q) y = Attention (q, q, q) }", "(q, q, q)", "(q, k, k)", "(q, k, q)")),
        Example("Attention", "rtx", "queries and keys are one tensor, and the builder's process dies of it", 23, *both("(float16[1,2,2,16] q, float16[1,2,2,16] k) => (float16[] y) { i = Identity (q) y = Attention (q, i, i) }", "(q, i, i)", "(q, k, i)")),
    ],
    # windows, quantization and the others
    "cubic_dimensions": [
        Example("Resize", "8.5 to 11.4, rtx", "cubic interpolation is taken in the last two dimensions alone", 13, *both('(float[1,1,4,4,4] x) => (float[a,b,c,d,e] y) <float[5] s = {1, 1, 2, 1, 1}> { y = Resize <mode = "cubic"> (x, , s) }', "1, 1, 2, 1, 1", "1, 1, 1, 2, 2"), beside=("cubic interpolation is refused",)),
    ],
    "hidden_size": [
        Example(op, "7.0 to 11.4, rtx", why, 7, *both(f"(float[3,2,4] x) => (float[3,1,2,5] y) <float[1,{g * 5},4] w = {{{', '.join(['1'] * g * 20)}}}, float[1,{g * 5},5] r = {{{', '.join(['1'] * g * 25)}}}> {{ y = {op} {given}(x, w, r) }}", f"{op} {given}(", f"{op} <hidden_size = 5> ("))
        for op, g in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
        for given, why in (("", "hidden_size is left out, and this parser does not look at the weights for it"), ("<hidden_size = -3> ", "hidden_size -3 is refused"))
    ],
    "computed_kernel": [
        Example(op, f"{first} to 8.4", "weights that are computed are refused, but for those of a DequantizeLinear", 13, *both(f"(float[1,1,4,4] x, float[1,1,2,2] w) => (float[a,b,c,d] y) <float[1,1,2,2] v = {{1, 1, 1, 1}}, int8[1,1,2,2] q = {{1, 1, 1, 1}}, float s = {{1}}, int8 z = {{0}}> {{ e = DequantizeLinear (q, s, z) y = {op} (x, w) }}", f"{op} (x, w)", f"{op} (x, v)", f"{op} <kernel_shape = [2, 2]> (x, e)"), beside=("its input 1 must be an initializer",))
        for op, first in (("Conv", "7.0"), ("ConvTranspose", "8.0"))
    ],
    "deconvolved_channels": [
        Example("ConvTranspose", "8.4 to 11.4, rtx", "the number of channels is not static", 13, *both("(float[1,C,4,4] x) => (float[a,b,c,d] y) <float[1,1,2,2] v = {1, 1, 1, 1}> { y = ConvTranspose (x, v) }", "[1,C,", "[1,1,", "[N,1,")),
    ],
    "average_pads": [
        Example("AveragePool", "7.0 to 8.4", f"the pads {pads} are refused", 11, *both(f"(float[1,1,8,8] x) => (float[a,b,c,d] y) {{ y = AveragePool <kernel_shape = [3, 3], pads = {pads}> (x) }}", f"pads = {pads}", "pads = [0, 0, 1, 0]", "pads = [1, 2, 1, 2]"))
        for pads in ("[1, 0, 0, 0]", "[0, 0, 2, 0]")
    ] + [
        Example("AveragePool", "7.0 to 8.4", "the pads [0, 2] are refused", 11, *both("(float[1,1,8] x) => (float[a,b,c] y) { y = AveragePool <kernel_shape = [3], pads = [0, 2]> (x) }", "[0, 2]", "[0, 1]")),
    ],
    "empty_last": [
        Example("Slice", "7.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[4,5] x) => (float[a,b] y) <int64[2] s = {1, 1}, int64[2] e = {3, 3}> { y = Slice (x, s, e, "", "") }', '"", ""', '""')),
        Example("Conv", "7.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[1,1,4,4] x) => (float[1,1,4,4] y) <float[1,1,1,1] w = {2}> { y = Conv (x, w, "") }', ', ""', "")),
        Example("Gemm", "7.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[2,1] x) => (float[2,1] y) <float[1,1] w = {2}> { y = Gemm (x, w, "") }', ', ""', "")),
        Example("Trilu", "8.5 to 11.4, rtx", "its last input has an empty name", 14, *both('(float[2,2] x) => (float[2,2] y) { y = Trilu <upper = 1> (x, "") }', ', ""', "")),
        Example("Squeeze", "8.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[2,1] x) => (float[2] y) { y = Squeeze (x, "") }', ', ""', "")),
        Example("Split", "8.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[2,2] x) => (float[1,2] y, float[1,2] z) { y, z = Split (x, "") }', ', ""', "")),
        Example("Dropout", "8.0 to 11.4, rtx", "its last input has an empty name", 13, *both('(float[2,2] x) => (float[2,2] y) { y = Dropout (x, "", "") }', '"", ""', '""')),
    ],
    "slice_counts": [
        Example("Slice", "rtx", "its inputs have 1 and 2 numbers", 13, *both("(float[4,5] x) => (float[a,b] y) <int64[2] s = {1, 1}, int64[2] e = {3, 3}, int64[1] f = {3}, int64[2] k = {0, 1}> { y = Slice (x, s, f, k) }", "(x, s, f, k)", "(x, s, e, k)")),
    ],
    "clip_weights": [
        Example("Clip", "rtx", "many constant integers without both bounds are refused", 13, *both(f"(int32[72] x) => (int32[72] y) <int32[72] c = {{{', '.join('3' * 72)}}}, int32 n = {{1}}, int32 m = {{2}}> {{ y = Clip (c, n) }}", "(c, n)", "(c, n, m)", "(x, n)")),
    ],
    "slice_lengths": [
        Example("Slice", "8.4", "how many dimensions are cut is not static", 13, *both("(float[4,5] x, int64[N] i, int64[2] t) => (float[a,b] y) <int64[2] e = {3, 3}, int64[2] k = {0, 1}> { s = Gather (t, i) y = Slice (x, s, e, k) }", "(x, s, e, k)", "(x, t, e, k)")),
    ],
    "split_outputs": [
        Example("Split", "10.0 to 11.4, rtx", "num_outputs is 2, and 1 are named", 18, "(float[4] x) => (float[2] y) { y = Split <num_outputs = 2> (x) }", ("(float[4] x) => (float[2] y, float[2] z) { y, z = Split <num_outputs = 2> (x) }",)),
    ],
    "kernel_shape_of_dequantized": [
        Example(op, targets, "kernel_shape is left out, and this parser does not look at dequantized weights for it", 13, *both(f"(float[1,1,4,4] x, int8[1,1,2,2] q) => (float[a,b,c,d] y) <float[1,1,2,2] w = {{1, 1, 1, 1}}, float s = {{1}}, int8 z = {{0}}> {{ e = DequantizeLinear (q, s, z) y = {op} (x, e) }}", f"{op} (x, e)", f"{op} (x, w)", f"{op} <kernel_shape = [2, 2]> (x, e)"), beside=("its input 1 must be an initializer",))
        for op, targets in (("Conv", "7.0 to 8.4"), ("ConvTranspose", "8.0"))
    ],
    "left_out_axis": [
        Example("QuantizeLinear", "8.0 to 10.1", "axis is left out, and this parser takes 0 for it", 13, *both("(float[2,2] x) => (int8[2,2] y) <float[2] s = {1, 2}, int8[2] z = {0, 0}, float[1] t = {1}, int8[1] e = {0}> { y = QuantizeLinear (x, s, z) }", "QuantizeLinear (x, s, z)", "QuantizeLinear <axis = 1> (x, s, z)", "QuantizeLinear <axis = 0> (x, s, z)", "QuantizeLinear (x, t, e)")),
        Example("DequantizeLinear", "8.0 to 10.1", "axis is left out, and this parser takes 0 for it", 13, *both("(int8[2,2] x) => (float[2,2] y) <float[2] s = {1, 2}, int8[2] z = {0, 0}> { y = DequantizeLinear (x, s, z) }", "DequantizeLinear", "DequantizeLinear <axis = 1>")),
    ],
    "quantized_number": [
        Example("QuantizeLinear", "8.0 to 8.6", "an input without dimensions is refused", 13, *both("(float x) => (int8[] y) <float s = {1}, int8 z = {0}> { y = QuantizeLinear (x, s, z) }", "float x", "float[1] x")),
        Example("DequantizeLinear", "8.0 to 8.6", "an input without dimensions is refused", 13, *both("(int8 x) => (float[] y) <float s = {1}, int8 z = {0}> { y = DequantizeLinear (x, s, z) }", "int8 x", "int8[1] x")),
    ],
    "left_out_zero": [
        Example("DequantizeLinear", "8.0 to 8.6", "the zero point is left out, which this parser refuses", 13, *both("(int8[2] x) => (float[2] y) <float s = {1}, int8 z = {0}> { y = DequantizeLinear (x, s) }", "(x, s)", "(x, s, z)")),
        Example("QuantizeLinear", "8.0 to 8.6", "the zero point is left out, which this parser refuses", 13, *both("(float[2] x) => (int8[2] y) <float s = {1}, int8 z = {0}> { y = QuantizeLinear (x, s) }", "(x, s)", "(x, s, z)"), beside=("uint8, which is what it returns without a zero point, is read as int8",)),
    ],
    "dequantized_int4": [
        Example("DequantizeLinear", "7.0 to 9.3", "int4 is refused", 21, *both("(int4[2] x, int8[2] v) => (float[2] y) <float s = {1}, int4 z = {0}, int8 e = {0}> { y = DequantizeLinear (x, s, z) }", "(x, s, z)", "(v, s, e)")),
    ],
    "dequantized_number": [
        Example("DequantizeLinear", "rtx", "a constant without a dimension is refused", 13, *both("() => (float y) <int8 q = {3}, int8[1] v = {3}, float s = {1}, int8 z = {0}> { y = DequantizeLinear (q, s, z) }", "(q, s", "(v, s")),
    ],
    "dequantized_uint4": [
        Example("DequantizeLinear", "7.0 to 11.4, rtx", "uint4 is refused", 21, *both("(uint4[2] x, int8[2] v) => (float[2] y) <float s = {1}, uint4 z = {0}, int8 e = {0}> { y = DequantizeLinear (x, s, z) }", "(x, s, z)", "(v, s, e)")),
    ],
    "quantized_axis": [
        Example("DequantizeLinear", "rtx", "the size of the axis that the scales stand along is not static", 13, *both("(int8[4,N] x) => (float[4,N] y) <float[2] s = {1, 1}, int8[2] z = {0, 0}> { y = DequantizeLinear (x, s, z) }", "[4,N]", "[N,2]")),
        Example("QuantizeLinear", "rtx", "the size of the axis that the scales stand along is not static", 13, *both("(float[4,N] x) => (int8[4,N] y) <float[2] s = {1, 1}, int8[2] z = {0, 0}> { y = QuantizeLinear (x, s, z) }", "[4,N]", "[N,2]")),
    ],
    "stashed_type": [
        Example("RMSNormalization", "10.15 to 11.4, rtx", "stash_type 3 is no type of floats", 23, *both("(float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, 3}> { y = RMSNormalization <stash_type = 3> (x, w) }", "stash_type = 3", "stash_type = 1", "stash_type = 10")),
    ],
}  # fmt: skip

# Of conditions that have examples elsewhere, too.
BESIDES: dict[str, list[Example]] = {
    "floats_alone": [
        *ints("TopK", "7.0 to 8.5", 11, "(TYPE[2,3] x) => (TYPE[a,b] y, int64[a,b] i) <int64[1] k = {1}> { y, i = TopK (x, k) }"),
        *ints("ArgMax ArgMin", "7.0 to 8.5", 13, "(TYPE[2,3] x) => (int64[a,b] y) { y = OP (x) }"),
        *ints("Sign", "8.2 to 8.4", 13, "(TYPE[2,3] x) => (TYPE[2,3] y) { y = Sign (x) }"),
    ],
    "no_booleans": [
        bools("Gather", "7.0 to 8.4", 13, "(TYPE[2,3] x) => (TYPE[2] y) <int64 i = {1}> { y = Gather <axis = 1> (x, i) }"),
        bools("GatherElements", "8.0 to 8.4", 13, "(TYPE[2,3] x) => (TYPE[1,1] y) <int64[1,1] i = {1}> { y = GatherElements (x, i) }"),
        bools("GatherND", "8.2 to 8.4", 13, "(TYPE[2,3] x) => (TYPE[3] y) <int64[1] i = {1}> { y = GatherND (x, i) }"),
        bools("Equal", "7.0 to 8.4", 13, "(TYPE[2,3] x) => (bool[2,3] y) { y = Equal (x, x) }"),
    ],
    "clip_tensors": [
        Example("Clip", "8.0 to 8.6", "without a lower bound it is taken in fp32 and int32, not in int8", 12, *both("(int8[2] x) => (int8[2] y) <int8 b = {1}> { y = Clip (x, , b) }", "(x, , b)", "(x, b, b)", "(x)")),
    ],
    "slice_steps": [
        Example("Slice", "rtx", "steps that are computed are refused in int32", 13, *both("(float[2,3] x, int32[1] c) => (float[a,b] y) <int32[1] s = {0}, int32[1] e = {1}, int32[1] a = {1}> { y = Slice (x, s, e, a, c) }", "(x, s, e, a, c)", "(x, s, e, a, e)")),
    ],
    "attention_kernel": [
        Example("Attention", "rtx", "there is no kernel for one head of one example", 23, *both("(float16[1,1,2,16] q, float16[1,1,2,16] k) => (float16[] y) { y = Attention (q, k, k) }", "[1,1,2,16]", "[1,2,2,16]", "[2,1,2,16]")),
        Example("Attention", "rtx", "there is no kernel for one query", 23, *both("(float16[1,2,1,16] q, float16[1,2,3,16] k) => (float16[] y) { y = Attention (q, k, k) }", "[1,2,1,16]", "[1,2,2,16]")),
        Example("Attention", "rtx", "there is no kernel for one query", 23, *both("(float[1,1,32] q, float[1,3,32] k) => (float[] y) { y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, k) }", "[1,1,32]", "[1,2,32]")),
    ],
}  # fmt: skip
