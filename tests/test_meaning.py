"""The functions that say what surgeon's own nodes compute."""

from __future__ import annotations

import onnx
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
