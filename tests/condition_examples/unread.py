"""Examples of the conditions about attributes that a parser does not read."""

from __future__ import annotations

from condition_examples.example import Example, both

PER_ACTIVATION = "(float[1,2,3] x, float[1,2] z, float[2,3] s) => (float[1,2,3] y) { y = BatchNormalization <spatial = 0> (x, s, s, s, s) }"
SCAN = (
    "(float[2,3,4] x, float[2,4] i) => (float[2,4] y, float[2,3,4] z) { y, z = Scan <num_scan_inputs = 1, body = b"
    " (float[4] s, float[4] e) => (float[4] o, float[4] p) { o = Add (s, e) p = Identity (o) }> (, i, x) }"
)
SCAN_9 = SCAN.replace("(, i, x)", "(i, x)").replace("float[2,3,4] x, float[2,4] i", "float[3,4] x, float[4] i")
LEGACY = "(float[2,3] x, float[3] b, float[2,3] c) => (float[2,3] y) { y = OP (x, c) }"
BROADCAST = (
    "(float[1,2,4,4] x, float[2] b, float[1,2,1,1] c) => (float[1,2,4,4] y) { y = OP <axis = 1, broadcast = 1> (x, b) }"
)
RANKS = "operands of different ranks are refused below opset 7"
PLAIN = "it is refused below opset 7"
COMPARED = LEGACY.replace("=> (float", "=> (bool")
LOGICAL = LEGACY.replace("float[", "bool[")

EXAMPLES: dict[str, list[Example]] = {
    "BatchNormalization.spatial.where": [
        Example("BatchNormalization", "7.0 to 11.4, rtx", "spatial 0 is not read: there would be one scale for each channel", 7, *both(PER_ACTIVATION, "spatial = 0", "spatial = 1"), beside=("its input 1 must be an initializer",)),
        Example("BatchNormalization", "7.0 to 11.4, rtx", "spatial 0 is not read: there would be one scale for each channel", 7, *both(PER_ACTIVATION, "(x, s", "(z, s"), beside=("its input 1 must be an initializer",)),
    ],
    "Scan.opset": [
        Example("Scan", "7.0 to 11.4, rtx", "opset 8 scans each example of a batch, and this parser passes the whole batch to the body", 8, SCAN, (SCAN_9,), (9,)),
    ],
    "Constant.sparse_value": [
        Example("Constant", "8.0 to 11.4, rtx", f"{kind} is refused", 12, f"() => (string[2] y) {{ y = Constant <{kind} = {value}> () }}", ("() => (float[1] y) { y = Constant <value = float[1] {1.0}> () }",), beside=("no attribute of a Constant but 'value' is read",))
        for kind, value in (("value_string", '"a"'), ("value_strings", '["a", "b"]'))
    ],
    "Upsample.height_scale": [
        Example("Upsample", "6.0 to 11.4, rtx", "height_scale and width_scale are not read: scales is", 1, "(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Upsample <height_scale = 2.0, width_scale = 2.0> (x) }", ("(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x) }",), (7,)),
    ],
    "Pad.paddings": [
        Example("Pad", "8.2 to 11.4, rtx", "paddings is not read: pads is", 1, "(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Pad <paddings = [0, 0, 1, 1, 0, 0, 1, 1]> (x) }", ("(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Pad <pads = [0, 0, 1, 1, 0, 0, 1, 1]> (x) }",), (2,), beside=("the pads must be an initializer",)),
    ],
    "MatMul.opset.where": [
        Example("MatMul", "7.0 to 11.4, rtx", RANKS, 1, *both("(float[3,2] x, float[4,2,4] z, float[2,4] w) => (float[] y) { y = MatMul (x, z) }", "(x, z)", "(x, w)")),
        Example("PRelu", "7.0 to 11.4, rtx", RANKS, 6, *both("(float[2,3] x) => (float[] y) <float[3] s = {1, 1, 1}, float[1,3] t = {1, 1, 1}> { y = PRelu (x, s) }", "(x, s)", "(x, t)")),
    ],
    "Add.opset.where": [
        Example("Add Sub Mul Div", "7.0 to 9.3", RANKS, 6, BROADCAST, (BROADCAST.replace("(x, b)", "(x, c)"), BROADCAST.replace(" <axis = 1, broadcast = 1>", "")), (6, 7), beside=(PLAIN,)),
        Example("Pow", "7.0 to 9.3", RANKS, 1, *both(BROADCAST, "(x, b)", "(x, c)"), beside=(PLAIN,)),
        Example("And Or", "7.0 to 9.3", RANKS, 1, *both(BROADCAST.replace("float[", "bool["), "(x, b)", "(x, c)"), beside=(PLAIN,)),
        Example("Xor", "8.4 to 9.3", RANKS, 1, *both(BROADCAST.replace("float[", "bool["), "(x, b)", "(x, c)"), beside=(PLAIN,)),
        Example("Equal Greater Less", "7.0 to 9.3", RANKS, 1, *both(BROADCAST.replace("=> (float", "=> (bool"), "(x, b)", "(x, c)"), beside=(PLAIN,)),
    ],
    "Add.opset": [
        *(Example(ops, "10.0 to 11.4, rtx", PLAIN, 6, text, (text,), (7,), beside=before) for ops, text, before in (("Add Sub Mul Div", LEGACY, ()), ("Max Mean Min Sum", LEGACY, ()))),
        Example("Pow", "10.0 to 11.4, rtx", PLAIN, 1, LEGACY, (LEGACY,), (7,)),
        Example("And Or Xor", "10.0 to 11.4, rtx", PLAIN, 1, LOGICAL, (LOGICAL,), (7,)),
        Example("Equal Greater Less", "10.0 to 11.4, rtx", PLAIN, 1, COMPARED, (COMPARED,), (9,)),
    ],
}  # fmt: skip
