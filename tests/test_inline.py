"""Functions of which onnx's inliner alone would make something else."""

import onnx
import pytest
from helpers import ops

import surgeon
from surgeon import precision

HEAD = '<ir_version: 9, opset_import: ["" : 17, "d" : 1]> '


@pytest.mark.parametrize("verify", ["window", "none"])
def test_a_default_that_a_call_leaves_out_is_said(verify: str) -> None:
    proto = onnx.parser.parse_model(
        HEAD
        + """g (float[3] x) => (float[3] y) { y = d.F (x) }
        <domain: "d", opset_import: ["" : 17]> F <by: float = 0.25> (a) => (r) {
            r = LeakyRelu <alpha: float = @by> (a) }"""
    )
    result = surgeon.rewrite(proto, target="8.4", verify=verify)
    (node,) = result.model.graph.node
    assert (node.op_type, node.attribute[0].f) == ("LeakyRelu", 0.25)


def test_a_default_counts_where_half_precision_inlines() -> None:
    proto = onnx.parser.parse_model(
        HEAD
        + """g (float[3] x) => (float[3] y) { y = d.F (x) }
        <domain: "d", opset_import: ["" : 17]> F <by: float = 0.25> (a) => (r) {
            r = LeakyRelu <alpha: float = @by> (a) }"""
    )
    (node,) = [n for n in precision.convert(proto).model.graph.node if n.op_type == "LeakyRelu"]
    assert node.attribute[0].f == 0.25


def test_a_default_behind_an_attribute_that_a_call_leaves_out_is_said() -> None:
    proto = onnx.parser.parse_model(
        HEAD
        + """g (float[3] x) => (float[3] y) { y = d.F (x) }
        <domain: "d", opset_import: ["" : 17, "d" : 1]> F <by> (a) => (r) { r = d.G <be: float = @by> (a) }
        <domain: "d", opset_import: ["" : 17]> G <be: float = 0.25> (a) => (r) {
            r = LeakyRelu <alpha: float = @be> (a) }"""
    )
    (node,) = surgeon.rewrite(proto, target="8.4", verify="none").model.graph.node
    assert (node.op_type, node.attribute[0].f) == ("LeakyRelu", 0.25)


def test_a_function_may_hand_its_input_on() -> None:
    proto = onnx.parser.parse_model(
        HEAD
        + """g (float[3] x) => (float[3] z) { w, v = d.F (x) z = Add (w, v) }
        <domain: "d", opset_import: ["" : 17]> F (a) => (a, r) { r = Relu (a) }"""
    )
    result = surgeon.rewrite(proto, target="8.4", verify="none")
    assert ops(result.model) == ["Relu", "Add"]
    assert [list(n.input) for n in result.model.graph.node] == [["x"], ["x", "v"]]


def test_what_a_function_imports_the_model_does() -> None:
    proto = onnx.parser.parse_model(
        HEAD
        + """g (float[2,3] x) => (float[2,3] y) { y = d.F (x) }
        <domain: "d", opset_import: ["" : 17, "com.microsoft" : 1]> F (a) => (r) {
            t = com.microsoft.QuickGelu <alpha = 1.0> (a) r = Relu (t) }"""
    )
    result = surgeon.rewrite(proto, target="8.4")
    assert not result.report.undone and not result.model.functions
    onnx.checker.check_model(result.model)


@pytest.mark.parametrize("target", ["8.4", "rtx"])
@pytest.mark.parametrize(
    "text",
    [
        """{ y = d.F (x) }
        <domain: "d", opset_import: ["" : 17]> F (a) => (r) {
            t = MeanVarianceNormalization <axes = [2, 3]> (a) r = Relu (t) }""",
        """{ c = Constant <value = bool {1}> ()
        y = If (c) <then_branch = t () => (float[1,3,32,32] u) { u = MeanVarianceNormalization <axes = [2, 3]> (x) },
            else_branch = e () => (float[1,3,32,32] v) { v = Neg (x) }> }""",
    ],
    ids=["in a function", "in a known branch"],
)
def test_onnx_own_definition_counts_inside_too(text: str, target: str) -> None:
    """ONNX Runtime's MeanVarianceNormalization leaves out the 1e-9: one side of a window by it, the other by ONNX."""
    proto = onnx.parser.parse_model(HEAD + "g (float[1,3,32,32] x) => (float[1,3,32,32] y) " + text)
    assert not surgeon.rewrite(proto, target=target).report.failed
