"""Examples of the conditions about pooling."""

from __future__ import annotations

from condition_examples.example import Example, both

POOL = (
    "(float[1,1,4,1] x) => (float[1,1,n,1] y) { y = OP <kernel_shape = [1, 1], strides = [2, 1], ceil_mode = 1> (x) }"
)

EXAMPLES: dict[str, list[Example]] = {
    "pool_rounded_up": [
        Example(
            operators, targets, "with ceil_mode 1 it has a last window that begins in the padding", 19, POOL,
            (POOL.replace("ceil_mode = 1", "ceil_mode = 0"), POOL.replace("[1,1,4,1] x", "[1,1,3,1] x"), POOL.replace("[1,1,4,1] x", "[1,1,N,1] x"), POOL.replace("[1,1,4,1] x", "[] x"), POOL.replace("ceil_mode = 1", 'ceil_mode = 1, auto_pad = "SAME_UPPER"')),
        )
        for operators, targets in (("AveragePool MaxPool", "6.0 to 11.4, rtx"), ("LpPool", "7.2.2 to 11.4, rtx"))
    ],
    "pool_part": [
        Example(
            "LpPool", "rtx", "with ceil_mode 1 a last window that is partly beyond the padding is divided by its part", 18,
            *both(
                "(float[1,1,3,1] x) => (float[1,1,n,1] y) { y = LpPool <kernel_shape = [2, 1], strides = [2, 1], ceil_mode = 1> (x) }", "[2, 1], ceil_mode = 1",
                "[2, 1], ceil_mode = 0", "[1, 1], ceil_mode = 1", '[2, 1], ceil_mode = 1, auto_pad = "SAME_UPPER"',
            ),
        ),
        Example("LpPool", "rtx", "with ceil_mode 1 a last window that is partly beyond the padding is divided by its part", 18, *both("(float[1,1,4,1] x) => (float[1,1,n,1] y) { y = LpPool <kernel_shape = [3, 1], strides = [2, 1], pads = [0, 0, 0, 0], ceil_mode = 1> (x) }", "[0, 0, 0, 0]", "[0, 0, 1, 0]")),
    ],
    "GlobalLpPool.p": [
        Example("GlobalLpPool", "7.1 to 11.4, rtx", f"the power {p} is computed of x, not of its absolute value", 2, *both(f"(float[1,2,3] x) => (float[1,2,1] y) {{ y = GlobalLpPool <p = {p}> (x) }}", f"<p = {p}> ", "<p = 2> ", "<p = 4> ", ""))
        for p in (1, 3)
    ],
    "average_pads": [
        Example("AveragePool", "7.0 to 8.4", f"the pads {pads} are refused", 11, *both(f"(float[1,1,8,8] x) => (float[a,b,c,d] y) {{ y = AveragePool <kernel_shape = [3, 3], pads = {pads}> (x) }}", f"pads = {pads}", "pads = [0, 0, 1, 0]", "pads = [1, 2, 1, 2]"))
        for pads in ("[1, 0, 0, 0]", "[0, 0, 2, 0]")
    ] + [
        Example("AveragePool", "7.0 to 8.4", "the pads [0, 2] are refused", 11, *both("(float[1,1,8] x) => (float[a,b,c] y) { y = AveragePool <kernel_shape = [3], pads = [0, 2]> (x) }", "[0, 2]", "[0, 1]")),
    ],
    "padding_alone": [
        Example("AveragePool", "rtx", "the pads [1, 0, 0, 0] are as large as the window [1, 3], and are not counted", 11, *both("(float[1,1,4,4] x) => (float[] y) { y = AveragePool <kernel_shape = [1, 3], pads = [1, 0, 0, 0]> (x) }", "pads = [1, 0, 0, 0]", "pads = [0, 2, 0, 0]", "pads = [1, 0, 0, 0], count_include_pad = 1")),
    ],
}  # fmt: skip
