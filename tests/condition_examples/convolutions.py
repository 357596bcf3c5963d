"""Examples of the conditions about convolutions."""

from __future__ import annotations

from condition_examples.example import Example, both

BAD_INPUT = "its input {} must be an initializer"
DECONVOLUTION = (
    "(float[1,1,5,5] x) => (float[1,1,c,d] y) <float[1,1,3,3] w = {1, 1, 1, 1, 1, 1, 1, 1, 1}>"
    "{ y = ConvTranspose <strides = [2, 2], output_shape = [11, 11]> (x, w) }"
)
BIASED = (
    "(float[1,1,5] x, float[1] b) => (float[1,1,c] y) <float[1,1,2] w = {1, 1}, float[1] bias = {1}>"
    "{ y = ConvTranspose <strides = [2], output_padding = [1], pads = [0, 0]> (x, w, b) }"
)
KERNEL = "(float[1,2,5,5] x, float[2,2,3,3] w, float[2] b) => (float[a,b,c,d] y) { y = OP (x, w, b) }"
SAME = '(float[1,1,8,5] x) => (float[] y) <float[1,1,3,4] w = {WEIGHTS}> { y = ConvTranspose <auto_pad = "SAME_UPPER", output_shape = [8, 10], strides = [1, 2]> (x, w) }'.replace(
    "WEIGHTS", ", ".join(["1"] * 12)
)
GROUPS = (
    "(float[1,C,5,5] x) => (float[] y) <float[2,2,1,2] w = {1, 1, 1, 1, 1, 1, 1, 1}> { y = Conv <group = 2> (x, w) }"
)

EXAMPLES: dict[str, list[Example]] = {
    "Conv.dtype.where": [
        Example("Conv", "11.0 to 11.4", "some GPUs have no kernel for groups of several channels in half precision", 11, *both("(float16[1,4,8,8] x, float16[4,2,1,1] w) => (float16[a,b,c,d] y) { y = Conv <group = 2> (x, w) }", "float16[4,2,1,1] w", "float16[4,1,1,1] w")),
    ],
    "output_shape": [
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape needs static sizes", 11, *both(DECONVOLUTION.replace("[1,1,5,5]", "[1,1,N,5]"), "[1,1,N,5]", "[1,1,5,5]")),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape needs static sizes", 11, *both(DECONVOLUTION.replace("[1,1,5,5]", "[1,1,N,5]"), "output_shape = [11, 11]", "kernel_shape = [3, 3]")),
        Example(
            "ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape is read wrongly where there is one spatial dimension, which is read as two", 11,
            *both("(float[1,1,5] x) => (float[1,1,n] y) <float[1,1,3] w = {1, 1, 1}> { y = ConvTranspose <strides = [2], output_shape = [11]> (x, w) }", "output_shape = [11]", "pads = [0, 0]"),
        ),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape asks for a negative padding", 11, *both(DECONVOLUTION.replace("[11, 11]", "[13, 11]"), "[13, 11]", "[12, 11]")),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape asks for a negative padding", 11, *both(DECONVOLUTION.replace("[11, 11]", "[11, 13], output_padding = [0, 1]"), "[11, 13]", "[11, 12]", "[9, 12]")),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_shape leaves an odd padding, of which it would cut more at the end than at the beginning", 11, *both(DECONVOLUTION.replace("[11, 11]", "[11, 10]"), "[11, 10]", "[11, 9]", "[12, 12]", '[10, 10], auto_pad = "SAME_UPPER"')),
    ],
    "ConvTranspose.output_padding.auto_pad": [
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_padding is not read with auto_pad 'VALID'", 11, *both(DECONVOLUTION.replace("output_shape = [11, 11]", 'output_padding = [0, 1], auto_pad = "VALID"'), "[0, 1], auto_pad", "[0, 0], auto_pad")),
        Example("ConvTranspose", "7.2.2 to 11.4, rtx", "output_padding is not read with auto_pad 'VALID'", 11, *both(DECONVOLUTION.replace("output_shape = [11, 11]", 'output_padding = [0, 1], auto_pad = "VALID"'), "VALID", "NOTSET")),
    ],
    "computed_bias": [
        Example("ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11, *both(BIASED, "pads = [0, 0]", "pads = [0, 1]"), beside=(BAD_INPUT.format(2),)),
        Example("ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11, *both(BIASED, "(x, w, b)", "(x, w, bias)", "(x, w)"), beside=(BAD_INPUT.format(2),)),
        Example("ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11, *both(BIASED.replace("pads = [0, 0]", "pads = [1, 0]"), "output_padding = [1]", "output_padding = [0]"), beside=(BAD_INPUT.format(2),)),
        Example(
            "ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11,
            *both(DECONVOLUTION.replace("[11, 11]", "[12, 11]").replace("float[1,1,5,5] x", "float[1,1,5,5] x, float[1] b").replace("(x, w)", "(x, w, b)"), "[12, 11]", "[11, 11]", "[9, 11]"), beside=(BAD_INPUT.format(2),),
        ),
        Example(
            "ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11,
            *both(DECONVOLUTION.replace("[11, 11]", "[12, 11], output_padding = [1, 0]").replace("float[1,1,5,5] x", "float[1,1,5,5] x, float[1] b").replace("(x, w)", "(x, w, b)"), "[12, 11]", "[10, 11]"), beside=(BAD_INPUT.format(2),),
        ),
        Example(
            "ConvTranspose", "8.5 to 11.4, rtx", "a computed bias is not added to what output_padding adds", 11,
            *both(DECONVOLUTION.replace("[11, 11]", "[10, 11], output_padding = [3, 0]").replace("float[1,1,5,5] x", "float[1,1,5,5] x, float[1] b").replace("(x, w)", "(x, w, b)"), "(x, w, b)", "(x, w)"), beside=(BAD_INPUT.format(2),),
        ),
    ],
    **{
        f"{op}.1.weights.maker": [Example(op, f"{first} to 8.4", "weights that are computed are refused, but for those of a DequantizeLinear", 13, *both(f"(float[1,1,4,4] x, float[1,1,2,2] w) => (float[a,b,c,d] y) <float[1,1,2,2] v = {{1, 1, 1, 1}}, int8[1,1,2,2] q = {{1, 1, 1, 1}}, float s = {{1}}, int8 z = {{0}}> {{ e = DequantizeLinear (q, s, z) y = {op} (x, w) }}", f"{op} (x, w)", f"{op} (x, v)", f"{op} <kernel_shape = [2, 2]> (x, e)"), beside=("its input 1 must be an initializer",))]
        for op, first in (("Conv", "7.0"), ("ConvTranspose", "8.0"))
    },
    "ConvTranspose.size": [
        Example("ConvTranspose", "8.4 to 11.4, rtx", "the number of channels is not static", 13, *both("(float[1,C,4,4] x) => (float[a,b,c,d] y) <float[1,1,2,2] v = {1, 1, 1, 1}> { y = ConvTranspose (x, v) }", "[1,C,", "[1,1,", "[N,1,")),
    ],
    **{
        f"{op}.kernel_shape.1.maker": [Example(op, targets, "kernel_shape is left out, and this parser does not look at dequantized weights for it", 13, *both(f"(float[1,1,4,4] x, int8[1,1,2,2] q) => (float[a,b,c,d] y) <float[1,1,2,2] w = {{1, 1, 1, 1}}, float s = {{1}}, int8 z = {{0}}> {{ e = DequantizeLinear (q, s, z) y = {op} (x, e) }}", f"{op} (x, e)", f"{op} (x, w)", f"{op} <kernel_shape = [2, 2]> (x, e)"), beside=("its input 1 must be an initializer",))]
        for op, targets in (("Conv", "7.0 to 8.4"), ("ConvTranspose", "8.0"))
    },
    "Conv.1.size": [
        *(Example("Conv ConvTranspose", "rtx", "the sizes of the weights are not static", 11, *both(KERNEL.replace("[2,2,3,3]", size), size, "[2,2,3,3]")) for size in ("[K,2,3,3]", "[2,K,3,3]", "[2,2,K,3]")),
    ],
    "Conv.2.size": [
        Example("Conv ConvTranspose", "rtx", "the sizes of the bias are not static", 11, *both(KERNEL.replace("float[2] b", "float[K] b"), "float[K] b", "float[2] b")),
    ],
    "other_kernel_shape": [
        Example("Conv ConvTranspose", "rtx", "kernel_shape [3, 1] is not that of the weights", 11, *both(KERNEL.replace("= OP", "= OP <kernel_shape = [3, 1]>"), "[3, 1]", "[3, 3]")),
    ],
    "wider_kernel": [
        Example("Conv", "rtx", "the kernel is wider than the image along dimension 3", 11, *both("(float[1,1,3,3] x) => (float[] y) <float[1,1,2,2] w = {1, 1, 1, 1}> { y = Conv <dilations = [1, 3]> (x, w) }", "dilations = [1, 3]", "dilations = [1, 2]", "dilations = [1, 3], pads = [0, 0, 0, 1]")),
    ],
    "output_shape_besides": [
        Example("ConvTranspose", "rtx", "output_shape is not read with auto_pad SAME_UPPER", 11, *both(SAME.replace("[8, 10]", "[8, 11]"), "[8, 11]", "[8, 10]")),
        Example("ConvTranspose", "rtx", "output_shape is not read with auto_pad SAME_UPPER", 11, *both(SAME.replace("[8, 10], strides = [1, 2]", "[8, 25], strides = [1, 5]"), "[8, 25], strides = [1, 5]", "[8, 20], strides = [1, 4]")),
        Example("ConvTranspose", "rtx", "output_shape is not read with auto_pad VALID", 11, *both(SAME.replace("SAME_UPPER", "VALID"), "output_shape = [8, 10], ", "")),
    ],
    "Conv.group.size": [
        Example("Conv", "8.4", "the number of channels of several groups is not static", 11, *both(GROUPS, "[1,C,5,5]", "[1,4,5,5]")),
    ],
}  # fmt: skip
