"""Examples of the conditions about the names of a model's inputs."""

from __future__ import annotations

from condition_examples.example import Example, both

GATHERING = (
    "(float[2] x, bool go, int64 k) => (float[2] z, float[n,2] y) <int64 n = {2147483647}> { g = Identity (go) z, y = Loop (n, g, x) <body = b"
    " (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] u) { d = Identity (c) t = Neg (s) u = Abs (s) }> }"
)

EXAMPLES: dict[str, list[Example]] = {
    "looped_input": [
        Example("Loop", "7.0 to 11.4, rtx", "the model's input 'go' would be called 'c' in the engine", 13, *both(GATHERING.replace("Loop (n, g,", "Loop (k, go,"), "(k, go,", "(k, g,")),
        Example("Loop", "7.0 to 11.4, rtx", "the model's input 'go' would be called 'c' in the engine", 13, *both(GATHERING.replace("Loop (n, g,", "Loop (k, go,"), "bool go", "bool[1] go")),
    ],
    "transposed_input": [
        Example("Transpose", "8.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[2,3] x) => (float[2,3] y) { z = Abs (x) y = Transpose <perm = [0, 1]> (x) }", "(x) }", "(z) }")),
        Example("Transpose", "8.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[2,3] x) => (float[a,b] y) { y = Transpose <perm = [0, 1]> (x) }", "0, 1", "1, 0")),
        Example("Transpose", "8.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[2] x) => (float[2] y) { y = Transpose (x) }", "(float[2] x) => (float[2] y)", "(float[2,2] x) => (float[2,2] y)")),
    ],
    "flattened_input": [
        Example("Flatten", "7.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[3,4] x) => (float[3,4] y) { z = Abs (x) y = Flatten (x) }", "Flatten (x)", "Flatten (z)")),
        Example("Flatten", "7.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[3,4] x) => (float[a,b] y) { y = Flatten (x) }", "[3,4]", "[3,4,5]")),
    ],
    "dropped_input": [
        Example("Dropout", "7.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, *both("(float[3,4] x) => (float[3,4] y, bool[3,4] m) { z = Abs (x) y, m = Dropout (x) }", "Dropout (x)", "Dropout (z)")),
        Example("Dropout", "7.0 to 8.4", "the model's input 'x' would be called '__y' in the engine", 13, "(float[3,4] x) => (float[3,4] y, bool[3,4] m) { y, m = Dropout (x) }", ("(float[3,4] x) => (float[3,4] y) { y = Dropout (x) }",)),
    ],
}  # fmt: skip
