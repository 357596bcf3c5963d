"""Examples of conditions for tests/test_conditions.py: of attributes that are not read, and of what a fuzzer found."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """One reason of one condition.

    targets  every target that gives it: "8.2 to 9.3, rtx"; "dla 8.2 to 10.16" of DLA alone
    why      the reason, word for word
    opset    the model's
    refused  the model; its node is the one that makes `y`, and OP stands for each of `operators`
    taken    the same with one thing changed, which each of these targets takes; empty where it refuses every node
    opsets   of `taken` where it is another than that of `refused`: the one thing that changed
    beside   what other conditions say of `refused`: of the release before, the release behind, and TensorRT-RTX
    """

    operators: str
    targets: str
    why: str
    opset: int
    refused: str
    taken: tuple[str, ...] = ()
    opsets: tuple[int, ...] = ()
    beside: tuple[str, ...] = ()


def both(text: str, old: str, *new: str) -> tuple[str, tuple[str, ...]]:
    """A model, and the same with `old` replaced by each of `new`."""
    assert old in text
    return text, tuple(text.replace(old, n) for n in new)


# ---- attributes that are not read ------------------------------------------------------------------------------------

TOP_K = "(float[3,4] x) => (float[3,2] y, int64[3,2] i) <int64[1] k = {2}> { y, i = TopK <largest = 0> (x, k) }"
LEGACY = (
    "(float[1,2,4,4] x, float[2] b, float[1,2,1,1] c) => (float[1,2,4,4] y) { y = OP <axis = 1, broadcast = 1> (x, b) }"
)
LOGICAL = LEGACY.replace("float[", "bool[")
COMPARED = LEGACY.replace("=> (float", "=> (bool")
PER_ACTIVATION = "(float[1,2,3] x, float[1,2] z, float[2,3] s) => (float[1,2,3] y) { y = BatchNormalization <spatial = 0> (x, s, s, s, s) }"
SCAN = (
    "(float[2,3,4] x, float[2,4] i) => (float[2,4] y, float[2,3,4] z) { y, z = Scan <num_scan_inputs = 1, body = b"
    " (float[4] s, float[4] e) => (float[4] o, float[4] p) { o = Add (s, e) p = Identity (o) }> (, i, x) }"
)
SCAN_9 = SCAN.replace("(, i, x)", "(i, x)").replace("float[2,3,4] x, float[2,4] i", "float[3,4] x, float[4] i")
SPARSE = "{0} is refused"

MORE: dict[str, list[Example]] = {
    "TopK.largest": [Example("TopK", "6.0 to 8.4", "largest 0 is not read: the largest would come back", 11, *both(TOP_K, "largest = 0", "largest = 1"))],
    "ArgMax.select_last_index": [
        Example("ArgMax ArgMin", "6.0 to 7.2.2", "select_last_index 1 is not read: the first of equals would be chosen", 12, *both("(float[3,4] x) => (int64[1,4] y) { y = OP <select_last_index = 1> (x) }", "index = 1", "index = 0")),
    ],
    "not_spatial": [
        Example("BatchNormalization", "7.0 to 11.4, rtx", "spatial 0 is not read: there would be one scale a channel", 7, *both(PER_ACTIVATION, "spatial = 0", "spatial = 1"), beside=("its input 1 must be an initializer",)),
        Example("BatchNormalization", "7.0 to 11.4, rtx", "spatial 0 is not read: there would be one scale a channel", 7, *both(PER_ACTIVATION, "(x, s", "(z, s"), beside=("its input 1 must be an initializer",)),
    ],
    "legacy_broadcast": [
        Example("Add Sub Mul Div", "7.0 to 11.4, rtx", "operands of different ranks are refused below opset 7", 6, LEGACY, (LEGACY.replace("(x, b)", "(x, c)"), LEGACY.replace(" <axis = 1, broadcast = 1>", "")), (6, 7)),
        Example("Pow", "7.0 to 11.4, rtx", "operands of different ranks are refused below opset 7", 1, *both(LEGACY, "(x, b)", "(x, c)")),
        Example("And Or", "7.0 to 11.4, rtx", "operands of different ranks are refused below opset 7", 1, *both(LOGICAL, "(x, b)", "(x, c)")),
        Example("Xor", "8.4 to 11.4, rtx", "operands of different ranks are refused below opset 7", 1, *both(LOGICAL, "(x, b)", "(x, c)")),
        Example("Equal Greater Less", "7.0 to 11.4, rtx", "operands of different ranks are refused below opset 7", 1, *both(COMPARED, "(x, b)", "(x, c)")),
    ],
    "batched_scan": [
        Example("Scan", "7.0 to 11.4, rtx", "opset 8 scans each example of a batch, and this parser hands the whole batch to the body", 8, SCAN, (SCAN_9,), (9,)),
    ],
    "constant_kind": [
        Example("Constant", "8.0 to 11.4, rtx", f"{kind} is refused", 12, f"() => (string[2] y) {{ y = Constant <{kind} = {value}> () }}", ("() => (float[1] y) { y = Constant <value = float[1] {1.0}> () }",), beside=("no attribute of a Constant but 'value' is read",))
        for kind, value in (("value_string", '"a"'), ("value_strings", '["a", "b"]'))
    ],
    "upsample_scales": [
        Example("Upsample", "6.0 to 11.4, rtx", "height_scale and width_scale are not read: scales is", 1, "(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Upsample <height_scale = 2.0, width_scale = 2.0> (x) }", ("(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x) }",), (7,)),
    ],
    "pad_paddings": [
        Example("Pad", "8.2 to 11.4, rtx", "paddings is not read: pads is", 1, "(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Pad <paddings = [0, 0, 1, 1, 0, 0, 1, 1]> (x) }", ("(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Pad <pads = [0, 0, 1, 1, 0, 0, 1, 1]> (x) }",), (2,), beside=("the pads must be an initializer",)),
    ],
}  # fmt: skip
