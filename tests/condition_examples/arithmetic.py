"""Examples of the conditions about Einsum, Mod, STFT and comparisons."""

from __future__ import annotations

from condition_examples.example import Example, both

EINSUM = '(float[2,2] x) => (float[a,b] y) { y = Einsum <equation = "ij,jk->ik"> (x, x) }'
BOOLEANS = "an output that is computed from boolean constants only is refused"
DIVIDED = "an integer constant is divided by 0, and the parser crashes"

EXAMPLES: dict[str, list[Example]] = {
    "Einsum.equation": [
        Example("Einsum", "8.2 to 8.6", "more than two operands are refused", 12, *both(EINSUM.replace("ij,jk->ik", "ij,jk,kl->il").replace("(x, x)", "(x, x, x)"), "ij,jk,kl->il", "ij,jk->ik", "ij->ij")),
        Example("Einsum", "8.2 to 8.6", "an ellipsis is refused", 12, *both(EINSUM.replace("ij,jk->ik", "...j,jk->...k"), "...j,jk->...k", "ij,jk->ik")),
        Example("Einsum", "8.2 to 11.4, rtx", "capital letters are refused", 12, *both(EINSUM.replace("ij,jk->ik", "Ij,jk->Ik"), "Ij,jk->Ik", "ij,jk->ik")),
        Example("Einsum", "8.2 to 10.11", "a diagonal is refused", 12, *both(EINSUM.replace("ij,jk->ik", "i j, k k -> i k"), "i j, k k -> i k", "i j, j k -> i k")),
        Example("Einsum", "9.0 to 10.11", "a diagonal is refused", 12, *both(EINSUM.replace("ij,jk->ik", "...ii,jk->..."), "...ii,jk", "...ij,jk"), beside=("an ellipsis is refused",)),
    ],
    "Mod.fmod.dtype": [
        Example("Mod", "8.5 to 11.4, rtx", "fmod 0 supports integers only", 13, "(float[2] x) => (float[2] y) { y = Mod (x, x) }", (
            "(int32[2] x) => (int32[2] y) { y = Mod (x, x) }", "(int64[2] x) => (int64[2] y) { y = Mod (x, x) }", "(float[2] x) => (float[2] y) { y = Mod <fmod = 1> (x, x) }", "(float[2] x) => (float[2] y) { t = com.custom.Foo (x) y = Mod (t, t) }",
        )),
        Example("Mod", "rtx", "int8 is refused", 13, *both("(int8[2] x, int8[2] z) => (int8[2] y) { y = Mod <fmod = 1> (x, z) }", "int8", "float")),
    ],
    "STFT.rank.size": [Example("STFT", "10.5 to 11.4, rtx", "a complex signal is refused", 17, *both("(float[1,12,2] x) => (float[1,F,B,2] y) <int64 s = {2}, int64 n = {4}> { y = STFT <onesided = 0> (x, s, , n) }", "12,2]", "12,1]", "12]"))],
    "Div.0.1.dtype.value": [
        Example("Div", "rtx", DIVIDED, 14, *both(f"(int64[2] x) => (int64[2] y) <{dtype}[2] a = {{3, 4}}, {dtype}[2] b = {{1, 0}}> {{ y = Div (a, b) }}", "{1, 0}", "{1, 2}"))
        for dtype in ("int32", "int64")
    ]
    + [
        Example("Div", "rtx", DIVIDED, 14, *both("(float[2] x) => (float[2] y) <int64[2] a = {3, 4}, int64[2] b = {1, 0}> { y = Div (a, b) }", "int64[2]", "float[2]")),
        Example("Mod", "rtx", DIVIDED, 13, *both("(int64[2] x) => (int64[2] y) <int64[2] a = {3, 4}, int64[2] b = {1, 0}> { y = Mod (a, b) }", "(a, b)", "(x, b)")),
    ],
    "equal_bytes": [
        Example("Equal", "rtx", "uint8 of 1 and 2 dimensions is refused", 13, *both("(uint8[2,3] x, uint8[3] z) => (bool[2,3] y) { y = Equal (x, z) }", "uint8[3]", "uint8[2,1]", "uint8[1,3]")),
        Example("Equal", "rtx", "uint8 of 1 and 2 dimensions is refused", 13, *both("(uint8[2,3] x, uint8[3] z) => (bool[2,3] y) { y = Equal (x, z) }", "uint8", "int32")),
    ],
    "booleans_alone": [
        Example("Equal", "rtx", BOOLEANS, 13, *both("(bool[1,2] x) => (bool[1,2] y) <bool[1,2] a = {1, 0}, bool[1,1] b = {1}> { y = Equal (a, b) }", "(a, b)", "(x, b)", "(a, x)")),
        Example("Equal", "rtx", BOOLEANS, 13, *both("(float[2] x) => (bool[1,2] y) <bool[1,2] a = {1, 0}, bool[1,2] b = {1, 1}> { y = Equal (a, b) }", "bool[1,2]", "bool[2]")),
        Example("Equal", "rtx", BOOLEANS, 13, *both("(float[2] x) => (bool[1,2] y) <bool[1,2] a = {1, 0}, bool[1,2] b = {1, 1}> { y = Equal (a, b) }", "<bool[1,2] a = {1, 0}, bool[1,2] b = {1, 1}>", "<float[1,2] a = {1, 0}, float[1,2] b = {1, 1}>")),
        Example("Where", "rtx", BOOLEANS, 16, *both("(bool[1,2] x) => (bool[1,2] y) <bool[1,2] a = {1, 0}, bool[1,2] b = {1, 1}> { y = Where (a, b, a) }", "(a, b, a)", "(x, b, a)", "(a, b, x)"), beside=()),
    ],
}  # fmt: skip
