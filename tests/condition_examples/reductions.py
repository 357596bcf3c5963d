"""Examples of the conditions about reductions."""

from __future__ import annotations

from condition_examples.example import Example, both

REDUCE = "ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"
REDUCED = "(float[2,3] x) => (float[a,b] y) <int64[0] none = {}, int64[1] one = {1}> { y = OP (x, none) }"

EXAMPLES: dict[str, list[Example]] = {
    "reduce_axes": [
        Example(
            operators, targets, "the axes are an input, which this parser does not read: it would reduce over every axis", 18,
            *both("(float[2,3] x) => (float[a,b] y) <int64[1] k = {1}, int64[2] all = {-1, 0}, int64[0] none = {}> { y = OP (x, k) }", "(x, k)", "(x)", "(x, all)", *(["(x, none)"] if operators == REDUCE else [])),
        )
        for operators, targets in ((REDUCE, "6.0 to 9.3"), ("ReduceSum ReduceLogSum", "6.0 to 7.2.2"))
    ],
    "TopK.1.value": [
        Example(
            "TopK", "6.0 to 11.4, rtx", "K = 3841 is refused; 0 to 3840 are supported", 11,
            *both("(float[1,4000] x) => (float[1,a] y, int64[1,a] i) <int64[1] k = {3841}> { y, i = TopK (x, k) }", "3841", "3840"),
        )
    ],
    "ReduceSum.1.value": [
        Example("ReduceSum", "8.0 to 8.4", "axes without any number are refused", 13, *both(REDUCED, "(x, none)", "(x, one)", "(x)")),
        Example("ReduceSum", "8.0 to 8.4", "axes without any number are refused", 13, *both(REDUCED.replace("OP (", "OP <noop_with_empty_axes = 1> ("), "(x, none)", "(x, one)"), beside=("the axes are an input, which this parser does not read: it would reduce over every axis",)),
    ],
    "normalized_axes": [
        Example("MeanVarianceNormalization", "8.5 to 11.4, rtx", "the axes [0, 2, 3] are more than the 3 dimensions", 13, *both("(float[2,3,4] x) => (float[] y) { y = MeanVarianceNormalization (x) }", "[2,3,4]", "[2,3,4,5]")),
    ],
}  # fmt: skip
