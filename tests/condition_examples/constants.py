"""Examples of the conditions about Constant, Range and random numbers."""

from __future__ import annotations

from condition_examples.example import Example, both

EXAMPLES: dict[str, list[Example]] = {
    "Constant.value": [
        Example("Constant", "6.0 to 7.2.2", "no attribute of a Constant but 'value' is read", 13, *both("() => (float y) { y = Constant <value_float = 3.0> () }", "value_float = 3.0", "value = float {3}")),
    ],
    **{
        f"Constant.{name}": [
            Example("Constant", "8.0 to 9.1", f"{name} is read as {read}", 13, f"() => (int64[n] y) {{ y = Constant <{name} = {value}> () }}", ("() => (int64[n] y) { y = Constant <value = int64 {3}> () }", "() => (float y) { y = Constant <value_float = 3.0> () }"), beside=("no attribute of a Constant but 'value' is read",))
        ]
        for name, value, read in (("value_int", "3", "a float: the constant would be 0"), ("value_ints", "[3]", "floats: the constant would be empty"))
    },
    "RandomUniform.where": [
        Example("RandomUniform", "rtx", "high is not above low", 1, *both("() => (float[2] y) { y = RandomUniform <low = 1.0, shape = [2]> () }", "low = 1.0", "low = 0.5", "low = 1.0, high = 1.5")),
        Example("RandomUniformLike", "rtx", "high is not above low", 1, *both("(float[2] x) => (float[2] y) { y = RandomUniformLike <high = 0.0> (x) }", "high = 0.0", "high = 0.5")),
    ],
    "RandomNormal.where": [
        Example("RandomNormal", "rtx", "a scale that is not positive is refused", 1, *both("() => (float[2] y) { y = RandomNormal <scale = 0.0, shape = [2]> () }", "scale = 0.0", "scale = 0.5")),
        Example("RandomNormalLike", "rtx", "a scale that is not positive is refused", 1, *both("(float[2] x) => (float[2] y) { y = RandomNormalLike <scale = 0.0> (x) }", "scale = 0.0", "scale = 0.5")),
    ],
    "Constant.made.where": [
        Example("Constant", "8.4", "a constant of booleans that is an output is read as int32", 13, *both("() => (bool[2] y) { y = Constant <value = bool[2] {1, 0}> () }", "bool[2]", "float[2]")),
    ],
}  # fmt: skip
