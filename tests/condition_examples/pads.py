"""Examples of the conditions about Pad."""

from __future__ import annotations

from condition_examples.example import Example, both

PAD = "(float[1,2,4,4] x) => (float[a,b,c,d] y) <int64[8] p = {0, 0, 1, 0, 0, 0, 0, 1}, float v = {0}>"
HALF = "(float16[1,2,4,4] x, float[1,2,4,4] z) => (float16[a,b,c,d] y) <int64[8] p = {0, 0, 1, 0, 0, 0, 0, 1}, float16 v = {1}>"
WRAPPED = '(float[5] x) => (float[6] y) <int64[2] p = {-1, 2}> { y = Pad <mode = "wrap"> (x, p) }'

EXAMPLES: dict[str, list[Example]] = {
    "Pad.2.value": [Example("Pad", "6.0 to 8.0", "only padding with 0 is supported", 13, *both(f"{PAD} {{ y = Pad (x, p, v) }}".replace("v = {0}", "v = {1}"), "float v = {1}", "float v = {0}", "float[0] v = {}"))],
    "Pad.where": [
        Example("Pad", "8.2 to 8.4", "the empty third input is read as a tensor", 13, *both(f'{PAD} {{ y = Pad (x, p, "") }}', '(x, p, "")', "(x, p)", "(x, p, v)")),
        Example("Pad", "6.0 to 8.0", "the pads must be an initializer", 1, "(float[1,2,4,4] x) => (float[a,b,c,d] y) { y = Pad <paddings = [0, 0, 1, 0, 0, 0, 0, 1]> (x) }", ("(float[1,2,4,4] x) => (float[a,b,c,d] y) { y = Pad <pads = [0, 0, 1, 0, 0, 0, 0, 1]> (x) }",), (2,), beside=("paddings is not read: pads is",))
    ],
    "Pad.1.value": [Example("Pad", "6.0 to 10.3", "negative pads are refused", 13, *both(f"{PAD} {{ y = Pad (x, p) }}".replace("0, 0, 1, 0", "0, 0, -1, 0"), "-1", "0", "1"))],
    "last_two": [
        Example("Pad", "6.0 to 7.2.2", "only the last two dimensions are padded", 13, *both(f"{PAD} {{ y = Pad (x, p) }}".replace("{0, 0, 1, 0, 0, 0, 0, 1}", p), p, "{0, 0, 1, 1, 0, 0, 1, 1}"))
        for p in ("{0, 1, 0, 0, 0, 0, 0, 0}", "{0, 0, 0, 0, 0, 1, 0, 0}")
    ],
    "any_two": [
        Example(
            "Pad", "8.0", "only two dimensions are padded at once", 13,
            *both(f"{PAD} {{ y = Pad (x, p) }}".replace("{0, 0, 1, 0, 0, 0, 0, 1}", "{0, 1, 1, 0, 0, 0, 0, 1}"), "{0, 1, 1, 0, 0, 0, 0, 1}", "{0, 1, 1, 0, 0, 1, 1, 0}", "{1, 0, 0, 0, 0, 0, 0, 0}"), beside=("only the last two dimensions are padded",),
        )
    ],
    "Pad.mode.2.dtype.value": [
        Example("Pad", "8.2", "an fp16 padding value is read as fp32", 13, *both(f"{HALF} {{ y = Pad (x, p, v) }}", "Pad (x, p, v)", "Pad (x, p)", 'Pad <mode = "edge"> (x, p, v)', "Pad (z, p, v)"), beside=("only padding with 0 is supported",)),
        Example("Pad", "8.2", "an fp16 padding value is read as fp32", 13, *both(f"{HALF} {{ y = Pad (x, p, v) }}", "v = {1}", "v = {0}"), beside=("only padding with 0 is supported",)),
    ],
    "Pad.mode.1.value": [
        Example("Pad", "rtx", "negative pads would wrap what they crop", 19, *both(WRAPPED, "{-1, 2}", "{1, 2}")),
        Example("Pad", "rtx", "negative pads would wrap what they crop", 19, *both(WRAPPED, '"wrap"', '"edge"', '"reflect"')),
    ],
}  # fmt: skip
