"""What ONNX's checker refuses and runtimes load: outputs without a type, a graph without a name, old operators."""

from __future__ import annotations

from pathlib import Path

import casefile
import onnx
import onnx.parser
import pytest
from helpers import prepare
from onnx import ModelProto, ValueInfoProto

import surgeon
from surgeon.report import LIKELY_INVALID

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x) => (float[N,3] y) { a = Softplus (x) m = Identity (a) y = Relu (m) }"""


def with_output(name: str, text: str = MODEL) -> ModelProto:
    """The model whose tensor `name` is an output, too, by its name alone."""
    model = onnx.parser.parse_model(text)
    model.graph.output.append(ValueInfoProto(name=name))
    return model


def builds(model: ModelProto) -> bool:
    """Whether TensorRT-RTX builds an engine."""
    trt = pytest.importorskip("tensorrt_rtx")
    builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    network = builder.create_network(0)
    if not trt.OnnxParser(network, trt.Logger(trt.Logger.INTERNAL_ERROR)).parse(model.SerializeToString()):
        return False
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (2, 3), (2, 3), (2, 3))
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config) is not None


def test_an_output_without_a_type_gets_one() -> None:
    model = with_output("m")
    assert not builds(model)
    result = surgeon.rewrite(model, target="rtx")
    assert [i.type.tensor_type.elem_type for i in result.model.graph.output] == [onnx.TensorProto.FLOAT] * 2
    assert [d.dim_value for d in result.model.graph.output[1].type.tensor_type.shape.dim] == [0, 3]
    assert builds(result.model)
    onnx.checker.check_model(result.model, full_check=True)


def test_the_rest_of_the_model_is_rewritten_and_proved() -> None:
    report = surgeon.rewrite(with_output("a"), target="rtx").report
    assert [a.pass_name for a in report.applied] == ["output-types", "identity"]
    assert not report.undone


def test_a_second_run_changes_nothing() -> None:
    once = surgeon.rewrite(with_output("m"), target="rtx").model
    assert not surgeon.rewrite(once, target="rtx").report.applied


def test_what_inference_does_not_know_stays_as_it_is() -> None:
    text = MODEL.replace('"" : 17', '"" : 17, "mine" : 1').replace("{ a =", "{ s = mine.What (x) a =")
    model = with_output("s", text)
    assert prepare("declaring.output_types", model) is None


def test_a_graph_without_a_name_turns_no_rewrite_off() -> None:
    model = onnx.parser.parse_model(MODEL)
    model.graph.ClearField("name")
    report = surgeon.rewrite(model, target="rtx").report
    assert [a.pass_name for a in report.applied] == ["identity"]


def test_an_operator_that_onnx_has_deprecated_turns_no_rewrite_off() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[2,4,5] x) => (float[2,4,5] y) '
        "<float[2] s = {1, 2}, float[2] b = {0, 1}> "
        "{ a = Identity (x) y = GroupNormalization <num_groups = 2> (a, s, b) }"
    )
    report = surgeon.rewrite(model, target="rtx").report
    assert [a.pass_name for a in report.applied] == ["identity"]


def test_an_operator_newer_than_the_opset_has_its_defaults() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) { y = Swish (x) }'
    )
    made = surgeon.rewrite(model, target="8.4", verify="none").model
    assert [n.op_type for n in made.graph.node] == ["Sigmoid", "Mul"]
    onnx.checker.check_model(made, full_check=True)


@pytest.mark.parametrize(("name", "good", "bad", "kind"), [
    ("mod/largest_divisor", "int32 d = {1073741823}", "int32[0] d = {}", "declined"),
    ("nonzero_rows/added", 'reduction = "max"', 'reduction = "avg"', "declined"),
    ("instance_norm/stock_plugin_3d", "float[2] b = {0.25, 3}", "float[3] b = {0.25, 3, 1}", "declined"),
    ("loop_trip_count/by_its_own_number", "int64 top = {9223372036854775807}", "int64[0] top = {}", "unknown"),
])  # fmt: skip
def test_a_node_that_a_pass_or_a_condition_cannot_read_is_left_alone(
    name: str, good: str, bad: str, kind: str, tmp_path: Path
) -> None:
    text = (casefile.HERE / f"{name}.onnxtxt").read_text(encoding="utf-8")
    (tmp_path / "case.onnxtxt").write_text(text.replace(good, bad, 1))
    case = casefile.load(tmp_path / "case.onnxtxt")
    report = surgeon.rewrite(case.model, **case.options).report
    assert any(d.why.startswith(LIKELY_INVALID) for d in getattr(report, kind)), report


def test_a_node_that_is_invalid_is_not_written_at_another_opset() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { r = Reshape (x, x) y = Neg (r) }'
    report = surgeon.rewrite(onnx.parser.parse_model(text), target="8.4").report
    assert [(d.pass_name, d.why) for d in report.declined] == [("opset", "its shape is tensor(float)")]
