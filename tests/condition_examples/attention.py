"""Examples of the conditions about Attention and RotaryEmbedding."""

from __future__ import annotations

from condition_examples.example import Example, both

ATTENTION = (
    "(float16[1,2,2,16] q, float16[1,2,2,16] k, float16[1,2,2,17] w, float16[2,2] m, int64[1] n, float[1,2,2,2] f)"
    " => (float16[1,2,2,16] y) { y = Attention (q, k, k) }"
)
FLAT = "(float[1,2,32] q, float[1,2,32] k, float[2,2] m) => (float[1,2,32] y) { y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, k, m) }"


def attention(call: str, *taken: str) -> tuple[str, tuple[str, ...]]:
    return both(ATTENTION, "y = Attention (q, k, k)", call)[1][0], (
        ATTENTION,
        *(ATTENTION.replace("y = Attention (q, k, k)", t) for t in taken),
    )


ROTATED = "(float[2,4,4,8] x, int64[2,4] p, float[9,4] c, float[K,L] d) => (float[2,4,4,8] y) { y = RotaryEmbedding (x, c, c, p) }"
MIXED = "queries, keys, values and the mask are of different types"

EXAMPLES: dict[str, list[Example]] = {
    "attention_sizes": [Example("Attention", "rtx", "keys and values of different sizes are refused", 23, *attention("y = Attention (q, k, w)", "y = Attention (q, w, w)")),
        Example("Attention", "rtx", "keys and values of different sizes are refused", 23, ATTENTION.replace("(q, k, k)", "(q, k, w)"), tuple(ATTENTION.replace("(q, k, k)", "(q, k, w)").replace(old, new) for old, new in (("float16[1,2,2,16] k", "float16[] k"), ("float16[1,2,2,17] w", "float16[] w"), ("float16[1,2,2,17] w", "float16[1,2,2,16] w")))),
        Example("Attention", "rtx", "keys and values of different sizes are refused", 23, *both("(float16[1,2,4,16] q, float16[1,2,N,16] k, float16[1,2,4,16] v) => (float16[] y) { y = Attention (q, k, v) }", "float16[1,2,4,16] v", "float16[1,2,M,16] v", "float16[1,2,N,16] v")),
    ],
    "attention_kernel": [
        Example("Attention", "rtx", f"there is no kernel for {dtype}", 23, *both(ATTENTION.replace("float16", dtype), dtype, "float16", "bfloat16"))
        for dtype in ("float", "double")
    ] + [
        Example("Attention", "rtx", "there is no kernel for float", 23, *both(ATTENTION.replace("float16", "float"), "float[", "float16[")),
        Example("Attention", "rtx", "there is no kernel for heads of 8", 23, *both(ATTENTION.replace("16]", "8]"), "8]", "16]", "256]")),
        Example("Attention", "rtx", "there is no kernel for heads of 512", 23, *both(ATTENTION.replace("16]", "512]"), "512]", "256]")),
        Example("Attention", "rtx", "there is no kernel for heads of 12", 23, *both(ATTENTION.replace("16]", "12]").replace("(q, k, k)", "(q, k, k, m)").replace("float16[2,2] m", "bool[2,2] m"), "bool[2,2] m", "float16[2,2] m")),
        Example("Attention", "rtx", "there is no kernel for float", 23, *both(FLAT, "(q, k, k, m)", "(q, k, k)")),
        Example("Attention", "rtx", "there is no kernel for float", 23, *both("(float[1,2,64] q, float[1,3,32] k, float[1,3,64] w) => (float[1,2,64] y) { y = Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, k) }", "kv_num_heads = 2> (q, k, k)", "kv_num_heads = 4> (q, w, w)")),
        Example("Attention", "rtx", "there is no kernel for float", 23, *both(FLAT, "float[", "float16[")),
        Example("Attention", "rtx", "there is no kernel for heads of 8", 23, *both(FLAT.replace("(q, k, k, m)", "(q, k, k)").replace("q_num_heads = 2, kv_num_heads = 2", "q_num_heads = 4, kv_num_heads = 4, is_causal = 1").replace("float[", "float16["), ", is_causal = 1", "")),
    ] + [
        Example("Attention", "rtx", "there is no kernel for one head of one example", 23, *both("(float16[1,1,2,16] q, float16[1,1,2,16] k) => (float16[] y) { y = Attention (q, k, k) }", "[1,1,2,16]", "[1,2,2,16]", "[2,1,2,16]")),
        Example("Attention", "rtx", "there is no kernel for one query", 23, *both("(float16[1,2,1,16] q, float16[1,2,3,16] k) => (float16[] y) { y = Attention (q, k, k) }", "[1,2,1,16]", "[1,2,2,16]")),
        Example("Attention", "rtx", "there is no kernel for one query", 23, *both("(float[1,1,32] q, float[1,3,32] k) => (float[] y) { y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, k) }", "[1,1,32]", "[1,2,32]")),
    ],
    "attention_to_itself": [
        Example("Attention", "rtx", "queries and keys are one tensor, and the builder crashes", 23, *both("(float16[1,2,2,16] q, float16[1,2,2,16] k) => (float16[] y) { i = Identity (q) y = Attention (q, q, q) }", "(q, q, q)", "(q, k, k)", "(q, k, q)")),
        Example("Attention", "rtx", "queries and keys are one tensor, and the builder crashes", 23, *both("(float16[1,2,2,16] q, float16[1,2,2,16] k) => (float16[] y) { i = Identity (q) y = Attention (q, i, i) }", "(q, i, i)", "(q, k, i)")),
    ],
    "rotated_sizes": [
        Example("RotaryEmbedding", "rtx", why, 23, *both(ROTATED.replace(old, new), new, old))
        for why, old, new in (
            ("the size of the heads is not static", "float[2,4,4,8] x", "float[2,4,4,H] x"),
            ("of the sizes of data and positions one is static, the other is not", "int64[2,4] p", "int64[B,4] p"),
            ("of the sizes of data and positions one is static, the other is not", "float[2,4,4,8] x", "float[2,4,S,8] x"),
            ("the size of the cache is not static", "(x, c, c, p)", "(x, d, d, p)"),
        )
    ] + [
        Example("RotaryEmbedding", "rtx", "of the sizes of data and cache one is static, the other is not", 23, *both("(float[2,4,4,8] x, float[2,4,4] c) => (float[] y) { y = RotaryEmbedding (x, c, c) }".replace(old, new), new, old))
        for old, new in (("float[2,4,4,8] x", "float[B,4,4,8] x"), ("float[2,4,4,8] x", "float[2,4,S,8] x"), ("[2,4,4] c", "[B,4,4] c"))
    ] + [Example("RotaryEmbedding", "rtx", "the cache has other sizes than the data", 23, *both("(float[2,4,4,8] x, float[1,4,4] c) => (float[] y) { y = RotaryEmbedding (x, c, c) }", "float[1,4,4]", "float[2,4,4]"))],
    "attention_types": [
        Example("Attention", "rtx", MIXED, 23, *both("(float16[2,4,3,64] q, float16[2,4,3,64] k, bfloat16[2,4,3,64] v) => (float16[] y) { y = Attention (q, k, v) }", "bfloat16", "float16")),
        Example("Attention", "rtx", MIXED, 23, *both("(float16[2,4,3,64] q, float16[2,4,3,64] k, float[3,3] m) => (float16[] y) { y = Attention (q, k, k, m) }", "float[3,3]", "float16[3,3]", "bool[3,3]")),
    ],
}  # fmt: skip
