"""Warnings of graphs of which a release was reported to compute wrong numbers."""

from __future__ import annotations

import onnx
import pytest
from helpers import model
from onnx import ModelProto

import surgeon

TURNED = """<ir_version: 8, opset_import: ["": 17]> g (bool c, float[1,1,8,6] x) => (float[1,1,12,16] y)
<float[4] scales = {1, 1, 2, 2}> {
    s = If (c) <then_branch = a () => (float[1,1,8,6] t) { t = Relu (x) },
        else_branch = b () => (float[1,1,8,6] e) { e = Neg (x) }>
    r = Transpose <perm = [0, 1, 3, 2]> (s)
    y = Resize <mode = "nearest"> (r, , scales)
}"""
DEFORMABLE = """(float[2,4,8,8] v, float[2,5,3,2] g, float[2,1,5,3] l) => (float[2,4,5] y) <int64[1] last = {-1}> {
    s = GridSample <mode = "bilinear"> (v, g)
    w = Softmax <axis = -1> (l)
    m = Mul (s, w)
    y = ReduceSum <keepdims = 0> (m, last)
}"""
ATTENTION = """(TYPE[1,2,8,16] q, TYPE[1,2,16,8] k, TYPE[1,2,8,16] v, TYPE[1] s) => (TYPE[1,2,8,16] y) {
    a = Mul (q, s)
    b = Mul (k, s)
    p = MatMul (a, b)
    w = Softmax <axis = -1> (p)
    y = MatMul (w, v)
}"""
SUMS = """(float[4,2] x) => (float[4,2] y, float[4,2] z) <int64 a = {0}, int64 b = {1}> {
    y = CumSum (x, a)
    z = CumSum <reverse = 0> (x, b)
}"""
C2F = """(TYPE[1,4,8,8] x, TYPE[4,4,1,1] w) => (TYPE[1,8,8,8] y) {
    c = Conv (x, w)
    s = Sigmoid (c)
    a = Mul (c, s)
    m = Add (x, a)
    y = Concat <axis = 1> (x, m)
}"""
MIXED = """(float16[1,2,8,8] x, float[1,5,3,2] g) => (float[1,2,5,3] y) {
    w = Cast <to = 1> (x)
    y = GridSample <mode = "bilinear"> (w, g)
}"""
TURNED_INPUT = """(float16[2,8,2,16] q, float16[2,2,16,8] k, float16[2,2,8,16] v) => (float16[2,2,8,16] y) {
    t = Transpose <perm = [0, 2, 1, 3]> (q)
    p = MatMul (t, k)
    w = Softmax <axis = -1> (p)
    y = MatMul (w, v)
}"""
FEWER_KEYS = """(float[BATCH,64,16] q, float[BATCH,16,64] t, float[16,16,4,4] w) => (float[BATCH,64,16] y)
<int64[4] image = {0, 16, 8, 8}, int64[3] tokens = {0, 16, -1}> {
    i = Reshape (t, image)
    c = Conv <strides = [4, 4]> (i, w)
    k = Reshape (c, tokens)
    p = MatMul (q, k)
    s = Softmax <axis = -1> (p)
    v = Transpose <perm = [0, 2, 1]> (k)
    y = MatMul (s, v)
}"""
REST = """(int64[N] x, int64[N,9] s) => (int64[N] y, int64[N] z) <int64 n = {32}> {
    y = Mod (x, n)
    a = ArgMax <axis = 1, keepdims = 0> (s)
    z = Mod (a, n)
}"""
PATCHES = "(float[1,3,56,56] x, float[8,3,14,14] w) => (float[1,8,4,4] y) { y = Conv <strides = [14, 14]> (x, w) }"
TRUTHS = "(bool[4] a, bool[4] b) => (bool[4] y, float[4] z) { y = Or (a, b)  z = Cast <to = 1> (y) }"


@pytest.mark.parametrize(
    ("made", "target", "source"),
    [
        (model(SUMS), "10.11", "#4551"),
        (model(SUMS), "11.1", "#4551"),
        (model(SUMS), "10.7", ""),
        (model(SUMS.replace("b = {1}", "b = {0}")), "10.11", ""),
        (model(SUMS.replace("b = {1}", "b = {0}").replace("reverse = 0", "reverse = 1")), "10.11", "#4513"),
        (model(C2F.replace("TYPE", "float16")), "11.2", "#4854"),
        (model(C2F.replace("TYPE", "float")), "11.2", ""),
        (model(C2F.replace("TYPE", "float16").replace("(x, m)", "(a, m)")), "11.2", ""),
        (model(MIXED), "10.14", "#4074"),
        (model(TURNED_INPUT), "11.2", "#4826"),
        (model(FEWER_KEYS.replace("BATCH", "B")), "11.1", "#4853"),
        (model(FEWER_KEYS.replace("BATCH", "1")), "11.1", ""),
        (model(REST), "10.7", "#4702"),
        (model(REST.replace("y = Mod (x, n)", "y = Identity (x)")), "10.7", ""),
        (model(PATCHES), "10.14", "#4678"),
        (model(TRUTHS), "10.12", "#4512"),
        (onnx.parser.parse_model(TURNED), "11.1", "#4846"),
        (onnx.parser.parse_model(TURNED), "10.9", ""),
        (model(DEFORMABLE), "11.1", "#4813"),
        (model(DEFORMABLE), "10.13", "#22873"),
        (model(DEFORMABLE), "10.9", ""),
        (model(ATTENTION.replace("TYPE", "float16")), "10.16", "#4837"),
        (model(ATTENTION.replace("TYPE", "float")), "10.16", ""),
        (model(ATTENTION.replace("TYPE", "float")), "10.7", "#4333"),
        (model(ATTENTION.replace("TYPE", "float").replace("Mul (k, s)", "Identity (k)")), "10.7", ""),
    ],
)
def test_a_known_bug_is_said_for_its_releases(made: ModelProto, target: str, source: str) -> None:
    found = [w for w in surgeon.check(made, target=target).warnings if w.startswith("known bug")]
    assert any(source in w for w in found) if source else not found, found


def test_a_transpose_in_the_branches_of_an_if_is_not_the_known_bug() -> None:
    made = onnx.parser.parse_model(TURNED)
    result = surgeon.rewrite(made, target="11.1", options={"sink_transposes": 1})
    assert [a.pass_name for a in result.report.applied] == ["if-branch-ranks"]
    assert not any(w.startswith("known bug") for w in surgeon.check(result.model, target="11.1").warnings)
