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


@pytest.mark.parametrize(
    ("made", "target", "source"),
    [
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
    assert len(found) == bool(source) and all(source in w for w in found), found


def test_a_transpose_in_the_branches_of_an_if_is_not_the_known_bug() -> None:
    made = onnx.parser.parse_model(TURNED)
    result = surgeon.rewrite(made, target="11.1", options={"sink_transposes": 1})
    assert [a.pass_name for a in result.report.applied] == ["if-branch-ranks"]
    assert not any(w.startswith("known bug") for w in surgeon.check(result.model, target="11.1").warnings)
