"""What operators make of the rows that a mask selects: passes/_row_dependence.py, asked row by row."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from asked import Asked
from surgeon.passes._row_dependence import PLACES, Reading, Rows, Sizes

from surgeon.rules.rule import Decline

INPUTS = (
    "bool[6] m, float[6,4] x, float[6,4,5] image, float[4,4] w, float[1,4] line, float[4] four, float[6,1] other, "
    "float[6,B] free, float[3,7,4] volume, float[2,6,4] two, float[1,8,9,9] picture, float[2,4,4] stack, "
    "int64[3] computed"
)
NUMBERS = {
    "zero": "0", "one_": "1", "two_": "2", "three": "3", "last": "-1", "both": "0, 1", "hw": "1, 2", "most": "100",
    "flat": "-1, 4", "kept": "0, 4", "pairs": "-1, 2, 2", "tail": "0, 2, 2", "wrong": "0, 0, 0", "rest": "0, -1",
    "line_": "4", "two_rows": "-1, 2",
}  # fmt: skip
GIVEN = " ".join(f"{name} = Constant <value_ints = [{v}]> ()" for name, v in NUMBERS.items())
# k is [1, K], t [K, 1], r [K, 4], q [K, 4, 5], s the sizes of q, n that of the rows, rf [K, B]
START = (
    "k = NonZero (m) t = Transpose (k) r = GatherND (x, t) q = GatherND (image, t) s = Shape (q) "
    "n = Shape <end = 1> (r) rf = GatherND (free, t) "
)
# (the nodes, what v is: the axis of its rows, or a list of sizes, or None, or why it is not known)
READ = [
    ("v = Identity (k)", 1),
    ("v = Identity (t)", 0),
    ("v = Identity (r)", 0),
    ("v = Identity (x)", None),
    ("v = Add (r, four)", 0),
    ("v = Add (line, r)", 0),
    ("v = Add (r, other)", "Add puts something else beside each row"),
    ("v = Add (r, t)", 0),
    ("v = Add (r, k)", "Add puts rows beside one another"),
    ("u = Transpose (r) v = Add (u, other)", 1),
    ("v = Mul (q, line_)", 0),
    ("v = Add (q, stack)", "Add puts something else beside each row"),
    ("u = Unsqueeze (r, zero) v = Add (u, two)", "Add puts something else beside each row"),
    ("u = Unsqueeze (r, zero) v = Add (u, r)", 1),
    ("u = Unsqueeze (r, last) v = Add (u, q)", 0),
    ("v = Mul (s, s)", "Mul computes with the number of positions"),
    ("f = Cast <to = 1> (s) v = Mul (f, r)", "a row is read as a size"),
    ("v = Transpose <perm = [2, 0, 1]> (q)", 1),
    ("v = Transpose (q)", 2),
    ("v = Transpose (s)", ["K", 4, 5]),
    ("v = Unsqueeze (r, zero)", 1),
    ("v = Unsqueeze (r, last)", 0),
    ("v = Unsqueeze (r, both)", 2),
    ("v = Unsqueeze (r, computed)", "its axes are computed"),
    ("v = Unsqueeze (s, zero)", ["K", 4, 5]),
    ("v = Squeeze (t, last)", 0),
    ("v = Squeeze (t)", "Squeeze without axes also drops the row dimension when one row is selected"),
    ("v = Squeeze (k, zero)", 0),
    ("v = Squeeze (t, zero)", "it drops the row dimension when one row is selected"),
    ("u = Unsqueeze (r, hw) v = Squeeze (u, hw)", 0),
    ("v = Gather (x, t)", 0),
    ("v = Gather <axis = 1> (image, k)", 2),
    ("v = Gather <axis = -1> (image, k)", 3),
    ("v = Gather <axis = 1> (r, zero)", 0),
    ("v = Gather <axis = 0> (r, zero)", "rows are taken by their number"),
    ("v = Gather <axis = 1> (q, hw)", 0),
    ("v = Gather <axis = 1> (r, t)", "rows are taken by their number"),
    ("u = Transpose (r) v = Gather <axis = 0> (u, both)", 1),
    ("u = Transpose (r) c = Constant <value_int = 1> () v = Gather <axis = 0> (u, c)", 0),
    ("u = Transpose (r) b2 = Unsqueeze (both, zero) v = Gather <axis = 0> (u, b2)", 2),
    ("v = Gather (s, zero)", ["K"]),
    ("v = Gather (s, both)", ["K", 4]),
    ("v = Gather (x, s)", "it takes what is at a size"),
    ("v = GatherND (x, k)", "rows are taken by rows"),
    ("v = GatherND <batch_dims = 1> (x, t)", "rows are taken by rows"),
    ("v = GatherND (r, t)", "rows are taken by rows"),
    ("v = GatherND (r, both)", "rows are taken by their number"),
    ("v = GatherND (x, s)", "rows are taken by their number"),
    ("u = Unsqueeze (t, zero) v = GatherND (x, u)", 1),
    ("v = Concat <axis = 1> (r, r)", 0),
    ("v = Concat <axis = -1> (r, r)", 0),
    ("v = Concat <axis = 0> (r, r)", "rows are put after something else"),
    ("v = Concat <axis = -2> (r, r)", "rows are put after something else"),
    ("v = Concat <axis = 1> (r, x)", "rows are put after something else"),
    ("v = Concat <axis = 0> (r, x)", "rows are put after something else"),
    ("u = Transpose (r) v = Concat <axis = 0> (u, u)", 1),
    ("u = Transpose (r) v = Concat <axis = 1> (u, r)", "rows are put after something else"),
    ("v = Concat <axis = 0> (s, four)", ["K", 4, 5, "four[0]", "four[1]", "four[2]", "four[3]"]),
    ("v = Concat <axis = 0> (s, flat)", ["K", 4, 5, -1, 4]),
    ("v = MatMul (r, w)", 0),
    ("v = MatMul (w, r)", "a product combines rows"),
    ("u = Transpose (r) v = MatMul (w, u)", 1),
    ("u = Transpose (r) v = MatMul (u, x)", "a product combines rows"),
    ("u = Transpose (r) v = MatMul (u, r)", "rows are multiplied by rows"),
    ("v = MatMul (r, stack)", "a product combines rows"),
    ("v = MatMul (q, stack)", "a product combines rows"),
    ("v = MatMul (r, four)", "a product combines rows"),
    ("u = Transpose <perm = [1, 2, 0]> (q) v = MatMul (w, u)", 2),
    ("v = MatMul (w, q)", 0),
    ("v = MatMul (s, w)", "sizes are multiplied as a matrix"),
    ("v = Gemm (r, w, four)", 0),
    ("v = Gemm (r, w)", 0),
    ("v = Gemm (r, w, line)", 0),
    ("v = Gemm (r, w, other)", "a product combines rows"),
    ("v = Gemm <transA = 1> (r, w)", "a product combines rows"),
    ("u = Transpose (r) v = Gemm (u, x)", "a product combines rows"),
    ("v = Gemm (w, r)", "a product combines rows"),
    ("v = Gemm (r, w, r)", "a product combines rows"),
    ("v = Softmax <axis = 1> (r)", 0),
    ("v = Softmax (r)", 0),
    ("v = Softmax <axis = 0> (r)", "Softmax looks along the positions"),
    ("v = Softmax <axis = -2> (r)", "Softmax looks along the positions"),
    ("v = LayerNormalization <axis = -1> (r, four)", 0),
    ("v = LayerNormalization <axis = 0> (r, r)", "LayerNormalization looks along the positions"),
    ("v = LayerNormalization <axis = 0> (r, four)", "LayerNormalization looks along the positions"),
    ("v = LayerNormalization <axis = 2> (q, k)", "LayerNormalization looks along the positions"),
    ("v = LayerNormalization <axis = 1> (r, r)", "LayerNormalization looks along the positions"),
    ("v = CumSum (r, one)", "CumSum is not known to compute each row by itself"),
    ("v = ArgMax <axis = 1> (r)", "ArgMax is not known to compute each row by itself"),
    ("v = ArgMax <axis = 0> (r)", "ArgMax is not known to compute each row by itself"),
    ("v = ReduceSum (r, one_)", 0),
    ("v = ReduceSum (r, zero)", "rows are reduced to one"),
    ("v = ReduceSum <keepdims = 0> (r, one_)", 0),
    ("v = ReduceSum <keepdims = 0> (r, zero)", None),
    ("v = ReduceSum <keepdims = 0> (r)", None),
    ("v = ReduceSum (r)", "rows are reduced to one"),
    ("v = ReduceSum <noop_with_empty_axes = 1> (r)", "its axes are not known"),
    ("v = ReduceSum (r, computed)", "its axes are computed"),
    ("u = Transpose <perm = [1, 0, 2]> (q) v = ReduceSum <keepdims = 0> (u, zero)", 0),
    ("u = Transpose <perm = [1, 0, 2]> (q) v = ReduceSum <keepdims = 0> (u, two_)", 1),
    ("u = Transpose <perm = [1, 0, 2]> (q) v = ReduceSum (u, zero)", 1),
    ("v = ReduceSum (s, zero)", "sizes are reduced"),
    ("v, b = Split <axis = 1> (r)", 0),
    ("a, v = Split <axis = 1> (r)", 0),
    ("v, b = Split <axis = 0> (r)", "rows are split"),
    ("v, b = Split <axis = -1> (r)", 0),
    ("v, b = Split <axis = -2> (r)", "rows are split"),
    ("a, v = TopK <axis = 1> (r, one)", "another output of TopK is read"),
    ("v, b = TopK <axis = 1> (r, one)", "TopK is not known to compute each row by itself"),
    ("i = Squeeze (t, last) v = RoiAlign (picture, r, i)", 0),
    ("i = Squeeze (t, last) v = RoiAlign (picture, x, i)", "its rois are not rows"),
    ("i = Squeeze (t, last) v = RoiAlign (q, r, i)", "its images are rows"),
    ("u = Transpose (r) i = Squeeze (t, last) v = RoiAlign (picture, u, i)", "its images are rows"),
    ("v = Conv (q, stack)", 0),
    ("v = Conv (image, q)", "Conv has weights of rows"),
    ("u = Transpose <perm = [1, 0, 2]> (q) v = Conv (u, stack)", "Conv computes several rows at once"),
    ("v = Shape (r)", ["K", 4]),
    ("v = Shape <start = 1> (q)", [4, 5]),
    ("v = Shape (x)", None),
    ("v = Shape (s)", None),
    ("z = Shape (r) v = ConstantOfShape (z)", 0),
    ("z = Concat <axis = 0> (s, s) v = ConstantOfShape (z)", "a tensor of several sizes of positions is made"),
    ("z = Shape <start = 1> (q) v = ConstantOfShape (z)", "a tensor of several sizes of positions is made"),
    ("v = Expand (t, flat)", "rows are expanded to something else"),
    ("z = Shape (r) v = Expand (t, z)", 0),
    ("z = Shape (r) v = Expand (four, z)", 0),
    ("z = Shape (r) v = Expand (x, z)", "rows are expanded to something else"),
    ("z = Shape (r) v = Expand (other, z)", "rows are expanded to something else"),
    ("v = Expand (r, kept)", "rows are expanded to something else"),
    ("v = Expand (r, s)", "rows are expanded to something else"),
    ("u = Unsqueeze (r, last) v = Expand (u, s)", 0),
    ("v = Expand (four, s)", 0),
    ("v = Reshape (r, flat)", 0),
    ("v = Reshape (r, kept)", 0),
    ("v = Reshape (r, rest)", "rows are combined"),
    ("v = Reshape (r, pairs)", 0),
    ("v = Reshape (r, tail)", 0),
    ("v = Reshape (r, wrong)", "its shape is not valid"),
    ("v = Reshape (r, two_rows)", "rows are combined"),
    ("v = Reshape (r, last)", "rows are combined"),
    ("v = Reshape (q, rest)", "rows are combined"),
    ("v = Reshape (q, flat)", "rows are combined"),
    ("v = Reshape <allowzero = 1> (r, kept)", "rows are combined"),
    ("v = Reshape (r, computed)", "rows are combined"),
    ("v = Reshape (s, flat)", "Reshape is not valid for what it reads"),
    ("z = Shape (r) v = Reshape (r, z)", 0),
    ("z = Shape (r) u = Unsqueeze (r, zero) v = Reshape (u, z)", 0),
    ("v = Reshape (t, last)", 0),
    ("v = Reshape (k, last)", 0),
    ("v = Flatten (r)", 0),
    ("v = Flatten <axis = 0> (r)", "rows are flattened"),
    ("v = Flatten (k)", "rows are flattened"),
    ("v = Flatten (q)", 0),
    ("v = Flatten (s)", ["K", 4, 5]),
    ("v = Slice (r, zero, two_, one_)", 0),
    ("v = Slice (r, zero, two_, zero)", "a part of the rows is taken"),
    ("v = Slice (r, zero, two_)", "a part of the rows is taken"),
    ("v = Slice (r, zero, two_, last)", 0),
    ("c = Gather (s, zero) v = Slice (r, zero, c, zero)", 0),
    ("c = Gather (s, zero) v = Slice (r, zero, c, one_)", "a part of the rows is taken"),
    ("c = Gather (s, zero) v = Slice (r, one_, c, zero)", "a part of the rows is taken"),
    ("c = Gather (s, zero) v = Slice (r, zero, c, zero, one_)", "a part of the rows is taken"),
    ("c = Gather (s, zero) v = Slice (r, zero, c)", "a part of the rows is taken"),
    ("c = Gather (s, one_) v = Slice (r, zero, c, zero)", "a part of the rows is taken"),
    ("v = Slice (s, zero, two_)", ["K", 4]),
    ("c = Gather (s, zero) v = Slice (x, zero, c, zero)", "a size says what is taken"),
    ("v = ScatterND (x, t, r)", None),
    ("v = ScatterND (r, t, r)", "rows are combined"),
    ("v = Dropout (r)", "Dropout is not known to compute each row by itself"),
    ('v = Einsum <equation = "ij,jk->ik"> (r, w)', "Einsum is not known to compute each row by itself"),
    ("v, b, c = Split <axis = 0> (s)", ["K"]),
    (
        "z = Concat <axis = 0> (n, line_) e = Expand (rf, z) v = Shape (e)",
        ["K", 4],
    ),
    (
        "z = Concat <axis = 0> (n, one_) e = Expand (rf, z) v = Shape (e)",
        ["K", "e[1]"],
    ),
    (
        "z = Concat <axis = 0> (line_, n, one_) e = Expand (rf, z) v = Shape (e)",
        [4, "K", "e[2]"],
    ),
    (
        "z = Concat <axis = 0> (line_, n, two_) e = Expand (rf, z) v = Shape (e)",
        [4, "K", 2],
    ),
    ("g = Slice (rf, zero, one_, one_) v = Shape (g)", ["K", 1]),
    ("g = Slice (rf, zero, two_, one_) v = Shape (g)", ["K", "g[1]"]),
    ("g = Slice (rf, one_, two_, one_) v = Shape (g)", ["K", "g[1]"]),
    ("g = Slice (rf, zero, one_, last) v = Shape (g)", ["K", 1]),
    ("g = Slice (rf, zero, one_, one_, one_) v = Shape (g)", ["K", "g[1]"]),
    ("g = Slice (rf, computed, one_, one_) v = Shape (g)", ["K", "g[1]"]),
    ("u = Unsqueeze (rf, one_) g = Slice (u, zero, one_, two_) v = Shape (g)", ["K", 1, 1]),
    ("u = Unsqueeze (rf, one_) g = Slice (u, both, hw, hw) v = Shape (g)", ["K", 1, "g[2]"]),
    ("v = Shape (rf)", ["K", "rf[1]"]),
    ("z = Shape (r) v = Equal (z, kept)", "a size is compared with another"),
    ("z = Shape (r) v = Equal (z, flat)", [0, 1]),
    ("z = Shape <start = 1> (q) y2 = Identity (s) h = Slice (s, one_, three) v = Equal (h, kept)", [0, 0]),
    ("o = Equal (s, pairs) v = Where (o, pairs, s)", ["K", 4, 5]),
    ("o = Equal (s, s) v = Where (o, pairs, s)", "a size is compared with another"),
    ("h = Slice (s, one_, three) v = Mul (h, line_)", [16, 20]),
    ("c = Gather (s, zero) v = Mul (c, line_)", "Mul computes with the number of positions"),
    ("v = Cast <to = 6> (s)", ["K", 4, 5]),
    ("v = Add (s, line_)", "Add computes with the number of positions"),
    ("c = Compress <axis = 0> (x, m) v = Add (c, four)", None),
    ("c = NonZero (r) v = Transpose (c)", 0),
]


def asked(body: str, opset: int = 17) -> Asked:
    return Asked(INPUTS, f"{GIVEN} {START} {body}", opset)


def answer(of: Callable[[], object]) -> object:
    """What is returned, or why it declines. A dimension without a name is `x[1]`, how many rows there are is `K`."""
    try:
        found = of()
    except Decline as why:
        return str(why)
    if isinstance(found, Rows):
        return found.axis
    if isinstance(found, Sizes):
        return ["K" if d == PLACES else f"{d[0].name}[{d[1]}]" if isinstance(d, tuple) else d
                for d in found.elements.reshape(-1)]  # fmt: skip
    return found


@pytest.mark.parametrize(("body", "expected"), READ)
def test_state(body: str, expected: object) -> None:
    tensors = asked(body)
    assert answer(lambda: Reading(tensors.b).state(tensors["v"])) == expected


# (the nodes, the rows that v combines)
COMBINED = [
    ("v = ReduceSum (r, zero)", 0),
    ("v = ReduceSum (r, one_)", ""),
    ("v = ReduceMax (r)", 0),
    ("v = ReduceMean <axes = [0]> (r)", 0),
    ("v = ReduceMean <axes = [0, 1]> (r)", "its mean is over other dimensions, too"),
    ("u = Transpose (r) v = ReduceSum (u, one_)", 1),
    ("u = Transpose (r) v = MatMul (u, r)", 1),
    ("u = Transpose (r) v = MatMul (u, x)", "it combines no rows"),
    ("v = MatMul (r, r)", "it does not sum over the positions"),
    ("p = Squeeze (t, last) v = MatMul (p, r)", "it does not sum over the positions"),
    ("p = Squeeze (t, last) u = Transpose (r) v = MatMul (u, p)", "it does not sum over the positions"),
    ("u = Softmax <axis = 0> (r) v = ReduceSum (u, zero)", 0),
    ("u = LogSoftmax <axis = 0> (r) v = ReduceSum (u, zero)", "LogSoftmax looks along the positions"),
    ("v = ReduceSum (s, zero)", "it combines no rows"),
]


@pytest.mark.parametrize(("body", "expected"), COMBINED)
def test_combined(body: str, expected: object) -> None:
    tensors = asked(body)
    node = tensors["v"].producer
    assert node is not None
    assert answer(lambda: Reading(tensors.b, meets=True).combined(node)) == expected


@pytest.mark.parametrize("meets", [False, True])
@pytest.mark.parametrize("body", ["v = Softmax <axis = 1> (r)", "u = Transpose (r) v = Softmax <axis = 1> (u)"])
def test_a_softmax_before_opset_13_looks_along_all_that_follows(body: str, meets: bool) -> None:
    tensors = asked(body, opset=12)
    why = "Softmax looks along the positions"
    assert answer(lambda: Reading(tensors.b, meets=meets).state(tensors["v"])) == why


def test_rows_after_a_compress() -> None:
    tensors = asked("c = Compress <axis = -1> (image, m) v = Transpose (c)")
    assert answer(lambda: Reading(tensors.b, after=("Compress",)).state(tensors["v"])) == 0
