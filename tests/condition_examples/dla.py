"""Examples of the conditions about DLA."""

from __future__ import annotations

from collections.abc import Iterable

from condition_examples.example import Example, both
from surgeon.targets.conditions import dla

ALL = "dla 6.0 to 10.16"
GPU = "DLA does not change the shape of a tensor: {} would run on the GPU"
X = "(float[1,3,8,8] x) => "
RELU = (f"{X}(float[1,3,8,8] y) {{ y = Relu (x) }}",)
SIZES = "DLA has batches to 4096 and other sizes to 8192"
SLICE = f"{X}(float[a,b,c,d] y) <int64[1] s = {{0}}, int64[1] e = {{2}}, int64[1] a = {{1}}, int64[1] t = {{1}}> {{ y = Slice (x, s, e, a, t) }}"

ONES = ", ".join(["1"] * 36)
CONV = f"{X}(float[] y) <float[3,3,2,2] w = {{{ONES}}}> {{ y = OP <ATTR> (x, w) }}"
DECONV = f"{X}(float[] y) <float[3,3,2,2] w = {{{ONES}}}> {{ y = ConvTranspose <ATTR> (x, w) }}"
POOL = "(float[1,3,16,8] x) => (float[] y) { y = OP <kernel_shape = [8, 1], ATTR> (x) }"
OF_CONV = "DLA has kernels to 32, a padding to 31, strides to 8 and dilations to 32 for a Conv"
OF_DECONV = "DLA has a ConvTranspose of one group with kernels to 32, without padding and dilations"
OF_POOL = "DLA pools windows to 8 with a padding to 7 and strides to 16, without dilations"


def each(why: str, rows: Iterable[tuple[str, int, str]], old: str, *new: str) -> list[Example]:
    """An example of each (operators, opset, model); `why` may name {op}."""
    return [Example(ops, ALL, why.format(op=ops), opset, *both(text, old, *new)) for ops, opset, text in rows]


EXAMPLES: dict[str, list[Example]] = {
    dla.gpu_fallback.name: [
        Example("Softplus", ALL, "DLA has no Softplus: it would run on the GPU", 1, *both("(float[2] x) => (float[2] y) { y = Softplus (x) }", "Softplus", "Tanh", "LeakyRelu")),
    ],
    dla.reshapes.name: [
        Example("Flatten", ALL, GPU.format("Flatten"), 9, f"{X}(float[1,192] y) {{ y = Flatten (x) }}", RELU),
        Example("Reshape", ALL, GPU.format("Reshape"), 13, f"{X}(float[1,192] y) <int64[2] s = {{1, 192}}> {{ y = Reshape (x, s) }}", RELU),
        Example("Squeeze", ALL, GPU.format("Squeeze"), 11, f"{X}(float[3,8,8] y) {{ y = Squeeze <axes = [0]> (x) }}", RELU),
        Example("Unsqueeze", ALL, GPU.format("Unsqueeze"), 11, f"{X}(float[1,1,3,8,8] y) {{ y = Unsqueeze <axes = [0]> (x) }}", RELU),
    ],
    dla.sizes.name: [
        *each(SIZES, (
            ("Relu Sigmoid", 6, "(float[1,3,8,8193] x) => (float[1,3,8,8193] y) { y = OP (x) }"),
            ("Add Mul", 7, "(float[1,3,8,8193] x) => (float[1,3,8,8193] y) { y = OP (x, x) }"),
            ("Concat", 4, "(float[1,3,8,8193] x) => (float[a,b,c,d] y) { y = OP <axis = 1> (x, x) }"),
            ("Conv", 1, "(float[1,1,8,8193] x) => (float[a,b,c,d] y) <float[1,1,1,1] w = {1}> { y = OP (x, w) }"),
            ("MaxPool", 1, "(float[1,1,8,8193] x) => (float[a,b,c,d] y) { y = OP <kernel_shape = [2, 2]> (x) }"),
        ), "8193", "8192", "N"),
        Example("Relu", ALL, SIZES, 6, *both("(float[4097,3,8,8] x) => (float[4097,3,8,8] y) { y = OP (x) }", "4097", "4096")),
    ],
    dla.moved_ranks.name: each("DLA runs {op} on four dimensions only", (
        ("Concat", 4, "(float[1,3,8] x) => (float[] y) { y = Concat <axis = 1> (x, x) }"),
        ("Slice", 1, "(float[1,3,8] x) => (float[] y) { y = Slice <starts = [0], ends = [2], axes = [1]> (x) }"),
        ("Softmax", 13, "(float[1,3,8] x) => (float[] y) { y = Softmax <axis = 1> (x) }"),
        ("Split", 2, "(float[1,3,8] x) => (float[] y) { y = Split <axis = 1, split = [3]> (x) }"),
        ("Transpose", 1, "(float[1,3,8] x) => (float[] y) { y = Transpose (x) }"),
    ), "[1,3,8]", "[1,3,8,8]", "[]"),
    dla.concat_axis.name: [
        Example("Concat", ALL, "DLA concatenates along the channels (axis 1) only", 4, *both(f"{X}(float[a,b,c,d] y) {{ y = Concat <axis = 3> (x, x) }}", "axis = 3", "axis = 1")),
        Example("Concat", ALL, "DLA concatenates along the channels (axis 1) only", 11, *both(f"{X}(float[a,b,c,d] y) {{ y = Concat <axis = -1> (x, x) }}", "axis = -1", "axis = -3")),
    ],
    dla.conv_limits.name: [
        Example("Conv", ALL, OF_CONV, 1, *both(CONV.replace("ATTR", bad), bad, good))
        for bad, good in (("pads = [32, 0, 0, 0]", "pads = [31, 0, 0, 0]"), ("strides = [9, 1]", "strides = [8, 1]"), ("dilations = [33, 1]", "dilations = [2, 1]"))
    ],
    dla.deconv_limits.name: [
        Example("ConvTranspose", ALL, OF_DECONV, 1, *both(DECONV.replace("ATTR", bad), bad, good))
        for bad, good in (("pads = [1, 1, 1, 1]", "pads = [0, 0, 0, 0]"), ("group = 3", "group = 1"), ("dilations = [2, 2]", "dilations = [1, 1]"))
    ],
    dla.pool_limits.name: [
        Example("AveragePool MaxPool", ALL, OF_POOL, 7, *both(POOL.replace("ATTR", bad), bad, good))
        for bad, good in (("pads = [8, 0, 8, 0]", "pads = [7, 0, 7, 0]"), ("strides = [17, 1]", "strides = [16, 1]"))
    ],
    dla.divisions.name: [
        Example(op, "dla 6.0 to 8.6", f"DLA has no {op} before 8.6.12", 7, "(float[1,3,8,8] x) => (float[1,3,8,8] y) { y = OP (x, x) }", ("(float[1,3,8,8] x) => (float[1,3,8,8] y) { y = Mul (x, x) }",))
        for op in ("Div", "Pow")
    ],
    dla.split_batch.name: [
        Example("Split", ALL, "DLA does not split along the batch", 2, *both("(float[2,3,8,8] x) => (float[] y) { y = Split <axis = 0, split = [2]> (x) }", "axis = 0, split = [2]", "axis = 1, split = [3]")),
        Example("Split", ALL, "DLA does not split along the batch", 2, *both("(float[2,3,8,8] x) => (float[] y) { y = Split <axis = -4, split = [2]> (x) }", "axis = -4, split = [2]", "axis = -3, split = [3]")),
    ],
    dla.slice_steps.name: [
        Example("Slice", ALL, "DLA slices with a step of 1 only", 10, SLICE.replace("t = {1}", "t = {2}"), (SLICE,)),
    ],
    dla.slice_batch.name: [
        Example("Slice", ALL, "DLA does not slice along the batch", 10, SLICE.replace("a = {1}", "a = {0}"), (SLICE,)),
        Example("Slice", ALL, "DLA does not slice along the batch", 10, SLICE.replace("a = {1}", "a = {-4}"), (SLICE,)),
    ],
}  # fmt: skip
