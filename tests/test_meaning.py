"""The functions that say what surgeon's own nodes compute."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from helpers import model, ops

import surgeon

NORMS = """(float[2,4,8,8] a) => (float[2,4,8,8] r)
    <float[4] s = {1.0, 2.0, 0.5, 3.0}, float[4] z = {0.0, 1.0, 2.0, 0.5}> {
        m = InstanceNormalization <epsilon = 1e-5> (a, s, z)
        n = Tanh (m)
        o = InstanceNormalization <epsilon = 1e-5> (n, s, z)
        p = Relu (o)
        q = Sigmoid (p)
        r = InstanceNormalization <epsilon = 1e-3> (q, s, z)
    }"""


def _written(proto: onnx.ModelProto) -> bytes:
    return proto.SerializeToString(deterministic=True)


@pytest.mark.parametrize("verify", ["window", "none"])
@pytest.mark.parametrize("library", ["surgeon", "stock"])
def test_functions_are_numbered_in_the_order_of_the_file(library: str, verify: str) -> None:
    """Not in the order in which passes made their nodes: a second run, which makes none, wrote other numbers."""
    first = surgeon.rewrite(model(NORMS), target="8.4", plugins=[library])
    assert first.report.applied and len({f.overload for f in first.model.functions}) > 1
    second = surgeon.rewrite(first.model, target="8.4", plugins=[library], verify=verify)
    assert not second.report.applied and _written(second.model) == _written(first.model)


@pytest.mark.parametrize(("epsilon", "warned"), [("1e-3", True), ("1e-5", False)])
def test_overloads_are_warned_of_once(epsilon: str, warned: bool) -> None:
    """ONNX Runtime up to 1.23 runs the first function for nodes with other attributes too."""
    text = NORMS.replace("1e-3", epsilon).replace("p = Relu (o)", "p = Abs (o)")
    first = surgeon.rewrite(model(text), target="8.4", plugins=["surgeon"])
    for report in (first.report, surgeon.rewrite(first.model, target="8.4", plugins=["surgeon"]).report):
        assert ["SurgeonInstanceNorm" in w and "1.23" in w for w in report.warnings] == [True] * warned


@pytest.mark.parametrize("library", ["surgeon", "stock"])
def test_types_are_known_behind_plugin_nodes_without_a_proof(library: str) -> None:
    """ONNX's inference stops at a node without a schema, so it must have been there before such a node comes."""
    options = {"target": "8.4", "plugins": [library]}
    unproved = surgeon.rewrite(model(NORMS), verify="none", **options)  # type: ignore[arg-type]
    assert sum(op.startswith(("Surgeon", "InstanceNormalization_")) for op in ops(unproved.model)) == 3
    assert _written(unproved.model) == _written(surgeon.rewrite(model(NORMS), **options).model)  # type: ignore[arg-type]


def test_plugin_nodes_inside_a_function_of_the_file_are_evaluated_right() -> None:
    """ONNX Runtime takes the first overload of a function inside another one: with plugin nodes there is no other."""
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 19, "my.dom" : 1]>
        g (float[2,6,2,8] x) => (float[2,6,2,8] y) <int64[1] axis = {2}, float e = {0.5}> {
          t = my.dom.Unit (x) n = ReduceL2 <keepdims = 1> (t, axis) a = Add (n, e) y = Div (t, a)
        }
        <domain: "my.dom", opset_import: ["" : 19]>
        Unit (X) => (Y) { axis = Constant <value: tensor = int64[1] {-1}> () n = ReduceL2 <keepdims = 1> (X, axis)
          Y = Div (X, n) }"""
    )
    result = surgeon.rewrite(proto, target="10.9", plugins=["surgeon"])
    assert [n.op_type for n in result.model.graph.node].count("SurgeonL2Norm") == 2
    x = np.random.default_rng(0).normal(size=(2, 6, 2, 8)).astype(np.float32)
    before, after = (
        onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"x": x})[0] for m in (proto, result.model)
    )
    np.testing.assert_allclose(after, before, rtol=1e-5)


@pytest.mark.parametrize("library", ["surgeon", "stock"])
@pytest.mark.parametrize("opset", [7, 8])
def test_plugin_nodes_of_an_opset_without_integer_constants(opset: int, library: str) -> None:
    """Constant holds no integers before opset 9, and ONNX Runtime checks that inside a function."""
    graph = (
        "(float[2,3,8,8] x, float[3] s, float[3] z) => (float[2,3,8,8] y) <float[3] s = {1,2,3}, float[3] z = {0,0,1}>"
    )
    text = graph + "{ y = InstanceNormalization <epsilon = 1e-3> (x, s, z) }"
    result = surgeon.rewrite(model(text, opset=opset, ir=3), target="8.4", plugins=[library])
    assert not result.report.failed
    assert ops(result.model) == [{"surgeon": "SurgeonInstanceNorm", "stock": "InstanceNormalization_TRT"}[library]]
