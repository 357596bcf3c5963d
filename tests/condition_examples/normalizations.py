"""Examples of the conditions about normalisations and Dropout."""

from __future__ import annotations

from condition_examples.example import Example, both

PLUGIN = "it runs as a plugin that needs cuDNN, fp32 initializers, and 3 to 5 dimensions"
INSTANCE = "(float[1,2,3] x) => (float[1,2,3] y) <float[2] s = {1, 1}, float16[2] h = {1, 1}> { y = InstanceNormalization (x, s, s) }"
GROUP = (
    "(float[1,4,3,3] x) => (float[a,b,c,d] y) <float[4] s = {1, 1, 1, 1}>"
    "{ y = GroupNormalization <num_groups = 2> (x, s, s) }"
)
CHANNELS = "(float[1,2,3,4] x) => (float[1,2,3,4] y) <float[2] s = {1, 1}, float[1] one = {1}, float[1,2] row = {1, 1}> { y = InstanceNormalization (x, s, s) }"

BATCH = "(float[1,2,3] x) => (float[1,2,3] y) <float[2] s = {1, 1}> { y = BatchNormalization (x, s, s, s, s) }"

EXAMPLES: dict[str, list[Example]] = {
    "BatchNormalization.outputs": [
        Example("BatchNormalization", "8.0 to 11.4, rtx", "more than one output is refused", 7, *both(BATCH.replace("{ y =", "{ y, m ="), "{ y, m =", "{ y =")),
    ],
    "InstanceNormalization.where": [
        Example("InstanceNormalization", "10.0 to 11.4, rtx", "input, scale and bias are of different types", 6, *both(INSTANCE.replace("(x, s, s)", mixed), mixed, "(x, s, s)"), beside=(PLUGIN,))
        for mixed in ("(x, h, s)", "(x, s, h)", "(x, h, h)")
    ] + [
        Example("InstanceNormalization", "10.0 to 11.4, rtx", "input, scale and bias are of different types", 6, INSTANCE.replace("(x, s, s)", "(x, h, s)"), (INSTANCE.replace("{ y = InstanceNormalization (x,", "{ t = com.custom.Foo (x) y = InstanceNormalization (t,"),), beside=(PLUGIN,)),
    ],
    "GroupNormalization.opset": [Example("GroupNormalization", "10.0 to 10.8", "the scale by channel of opset 21 is refused", 21, GROUP, (GROUP,), (20,), ("GroupNormalization is not in opset 17, the newest that this parser reads",))],
    "Dropout.2.value": [
        Example("Dropout", "8.0 to 11.4, rtx", "training mode is refused", 12, *both("(float[2] x) => (float[2] y) <float r = {0.5}, bool t = {1}> { y = Dropout (x, r, t) }", "t = {1}", "t = {0}")),
        Example("Dropout", "8.0 to 11.4, rtx", "training mode is refused", 12, *both("(float[2] x) => (float[2] y) <float r = {0.5}, bool t = {1}> { y = Dropout (x, r, t) }", "(x, r, t)", "(x, r)")),
    ],
    "instance_of_one": [
        Example("InstanceNormalization", "rtx", "one number for each channel is refused", 6, *both("(float[1,2,1,1] x) => (float[a,b,c,d] y) <float[2] s = {1, 1}> { y = InstanceNormalization (x, s, s) }", "[1,2,1,1]", "[1,2,1,2]", "[1,2,1,N]")),
        Example("InstanceNormalization", "rtx", "one number for each channel is refused", 6, "(float[1,2,1,1] x) => (float[] y) <float[2] s = {1, 1}> { y = InstanceNormalization (x, s, s) }", ("(float[2,1,1,1] x) => (float[] y) <float[1] s = {1}> { y = InstanceNormalization (x, s, s) }",)),
    ],
    "Dropout.weights.outputs": [
        Example("Dropout", "8.4, rtx", "weights are refused together with a mask", 13, *both("(float[2] x) => (float[2] y, bool[2] m) <float[2] w = {1, 2}> { z = Neg (x) y, m = Dropout (w) }", "(w)", "(z)")),
    ],
    "no_normalized_axis": [
        Example("Hardmax", "rtx", "axis 4 is not one of the 2 dimensions", 13, *both("(float[2,3] x) => (float[2,3] y) { y = Hardmax <axis = 4> (x) }", "= 4>", "= 1>")),
        Example("ScatterElements", "rtx", "axis -3 is not one of the 2 dimensions", 13, *both("(float[4,2] x, int64[3,2] i, float[3,2] u) => (float[4,2] y) { y = ScatterElements <axis = -3> (x, i, u) }", "= -3>", "= -2>")),
        Example("LayerNormalization", "rtx", "axis 2 is not one of the 2 dimensions", 17, *both("(float[2,3] x) => (float[2,3] y) <float[3] s = {1, 1, 1}> { y = LayerNormalization <axis = 2> (x, s) }", "= 2>", "= 1>", "= -1>")),
        Example("RMSNormalization", "rtx", "axis 2 is not one of the 2 dimensions", 23, *both("(float[2,3] x) => (float[2,3] y) <float[1] s = {1}> { y = RMSNormalization <axis = 2> (x, s) }", "= 2>", "= 1>", "= -1>")),
    ],
    "other_channels": [
        Example("InstanceNormalization", "rtx", why, 6, *both(CHANNELS.replace("(x, s, s)", call), call, "(x, s, s)"))
        for call, why in (("(x, s, one)", "the bias has 1 numbers for 2 channels"), ("(x, row, s)", "a scale of 2 dimensions is refused; one is supported"))
    ],
    "Dropout.weights.empty": [
        Example("Dropout", "rtx", "weights without elements are refused", 13, *both("(float[2,0] x) => (float[] y) <float[2,0] w = {}> { y = Dropout (w) }", "(w)", "(x)")),
    ],
}  # fmt: skip
