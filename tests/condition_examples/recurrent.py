"""Examples of the conditions about LSTM, GRU and RNN."""

from __future__ import annotations

from condition_examples.example import Example, both


def recurrent(op: str, attributes: str) -> str:
    """A bidirectional LSTM, GRU or RNN with these attributes too."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    return (
        f"(float[3,1,4] x, float[2,{gates * 5},4] w, float[2,{gates * 5},5] r) => (float[3,2,1,5] y)"
        f'{{ y = {op} <hidden_size = 5, direction = "bidirectional"{attributes}> (x, w, r) }}'
    )


def activations(op: str, last: str) -> str:
    """The activations of both directions, the last of the second one given."""
    first = {"LSTM": '"Sigmoid", "Tanh", "Tanh"', "GRU": '"Sigmoid", "Tanh"', "RNN": '"Tanh"'}[op]
    return f', activations = [{first}, {first.rpartition(chr(34) + "Tanh")[0]}"{last}"]'


LAST_STATE = "in a branch of an If only its last state is read"
IN_A_BRANCH = "(float[2,1,2] x, bool c, int64 m, float[1,2] h) => (float[1,2] z) { z = If (c) <then_branch = t () => (float[1,2] a) { NODE a = Neg (y) }, else_branch = e () => (float[1,2] b) { b = Neg (h) }> }"

EXAMPLES: dict[str, list[Example]] = {
    "LSTM.hidden_size": [
        Example(op, "7.0 to 11.4, rtx", why, 7, *both(f"(float[3,2,4] x) => (float[3,1,2,5] y) <float[1,{g * 5},4] w = {{{', '.join(['1'] * g * 20)}}}, float[1,{g * 5},5] r = {{{', '.join(['1'] * g * 25)}}}> {{ y = {op} {given}(x, w, r) }}", f"{op} {given}(", f"{op} <hidden_size = 5> ("))
        for op, g in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
        for given, why in (("", "hidden_size is left out, and this parser does not look at the weights for it"), ("<hidden_size = -3> ", "hidden_size -3 is refused"))
    ],
    "reverse_activations": [
        Example(
            op, "rtx" if op == "RNN" else "7.0 to 11.4, rtx", "the reverse pass has other activations than the forward one", 14,
            recurrent(op, activations(op, "Relu")), (recurrent(op, activations(op, "Tanh")), recurrent(op, "")),
        )
        for op in ("LSTM", "GRU", "RNN")
    ],
    "reverse_numbers": [
        Example(
            op, "rtx", f"the reverse pass has another {name} than the forward one", 14,
            recurrent(op, f", {name} = [0.5, 1.0]"),
            (recurrent(op, f", {name} = [0.5, 0.5]"), recurrent(op, f", {name} = [0.5, 0.5, 1.0]"), recurrent(op, f", {name} = [0.5, 1.0]").replace("bidirectional", "reverse")),
        )
        for op in ("LSTM", "GRU", "RNN")
        for name in ("activation_alpha", "activation_beta")
    ],
    "misshapen": [
        Example(op, "8.4, rtx", f"its input {place} does not have the shape that follows from the data and hidden_size", 14, *both(f"(float[3,2,4] x, float[1,{5 * gates},4] w, float[1,{5 * gates},5] r, float[1,{10 * gates}] b, float[1,2,5] h) => (float[] y) {{ y = {op} <hidden_size = 5> (x, w, r, b, , h) }}".replace(old.format(5 * gates, 10 * gates), new.format(5 * gates, 10 * gates)), new.format(5 * gates, 10 * gates), old.format(5 * gates, 10 * gates)))
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
        for place, old, new in ((1, "float[1,{0},4] w", "float[1,{0},3] w"), (2, "float[1,{0},5] r", "float[1,{0},4] r"), (3, "float[1,{1}] b", "float[1,{0}] b"), (5, "float[1,2,5] h", "float[1,2,4] h"))
    ],
    "endless_build": [
        Example("GRU", "rtx", "with one example and a state of 5 numbers, the builder crashes", 14, *both("(float[4,1,2] x, float[4,2,2] t, float[3,1,2] u) => (float[] y) <float[1,15,2] w = {W}, float[1,15,5] r = {R}> { y = GRU <hidden_size = 5> (x, w, r) }".replace("{W}", "{" + ", ".join(["1"] * 30) + "}").replace("{R}", "{" + ", ".join(["1"] * 75) + "}"), "(x, w", "(t, w", "(u, w")),
    ],
    "unread_steps": [
        *(
            Example(op, "rtx", LAST_STATE, 14, *both(f"(float[2,1,2] x, bool c, float[1,{gates},2] w, float[1,{gates},1] r) => (float[1,1,1] z) <int64[3] n = {{0,0,0}}, int64[3] e = {{1,1,1}}> {{ q = Slice (x, n, e) z = If (c) <then_branch = t () => (float[1,1,1] a) {{ y, h = {op} <hidden_size = 1> (x, w, r) a = Neg (h) }}, else_branch = e () => (float[1,1,1] b) {{ b = Neg (q) }}> }}", "a = Neg (h)", "k = Constant <value_ints = [0]> () s = ReduceSum <keepdims = 0> (y, k) a = Add (s, h)"))
            for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
        ),
        Example("Scan", "rtx", LAST_STATE, 14, *both(IN_A_BRANCH.replace("NODE", "y, s = Scan <num_scan_inputs = 1, body = b (float[1,2] j, float[1,2] i) => (float[1,2] k, float[1,2] o) { k = Add (j, i) o = Neg (i) }> (h, x)"), "a = Neg (y)", "n = Constant <value_ints = [0]> () g = ReduceSum <keepdims = 0> (s, n) a = Add (y, g)")),
        Example("Loop", "rtx", LAST_STATE, 14, *both(IN_A_BRANCH.replace("NODE", "t = Constant <value = bool {1}> () y, s = Loop <body = b (int64 i, bool d, float[1,2] j) => (bool e, float[1,2] k, float[1,2] o) { e = Identity (d) k = Neg (j) o = Abs (j) }> (m, t, h)"), "a = Neg (y)", "n = Constant <value_ints = [0]> () g = ReduceSum <keepdims = 0> (s, n) a = Add (y, g)")),
    ],
}  # fmt: skip
