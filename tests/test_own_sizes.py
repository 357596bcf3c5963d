"""Dimensions of inputs that share a name by accident get names of their own."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest
from onnx import ModelProto

import surgeon

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
# A model, and the sizes that its inputs have afterwards. `Q` stands for the name that the exporter wrote.
MODELS = {
    "two inputs that are not read together": (
        "g (float[Q,3] x, float[Q,3] y) => (float[Q,3] a, float[Q,3] b) { a = Relu (x) b = Relu (y) }",
        [["x_0", 3], ["y_0", 3]],
    ),
    "the batch and the sizes of an image": (
        "g (float[Q,3,Q,Q] x) => (float[Q,3,Q,Q] a) { a = Relu (x) }",
        [["x_0", 3, "x_2", "x_3"]],
    ),
    "a sentence, its mask and its kinds": (
        "g (int64[Q,Q] i, int64[Q,Q] m, int64[Q,Q] k) => (int64[Q,Q] a) { t = Mul (i, m) a = Add (t, k) }",
        [["i_0", "i_1"]] * 3,
    ),
    "two sizes of one input": (
        "g (float[Q,Q] x, float[Q] y) => (float[Q,Q] a, float[Q] b) { a = MatMul (x, x) b = Relu (y) }",
        [["x_0", "x_0"], ["y_0"]],
    ),
    "a name that is taken": (
        "g (float[Q] x, float[Q] y, float[x_0] z) => (float[Q] a, float[Q] b, float[x_0] c) "
        "{ a = Relu (x) b = Relu (y) c = Relu (z) }",
        [["x_0_"], ["y_0"], ["x_0"]],
    ),
}
KEPT = {
    "a sum": "g (float[Q,3] x, float[Q,3] y) => (float[Q,3] a) { a = Add (x, y) }",
    "a name that was given": "g (float[batch] x, float[batch] y) => (float[batch] a, float[batch] b) "
    "{ a = Relu (x) b = Relu (y) }",
    "one size": "g (float[Q,3] x) => (float[Q,3] a) { a = Relu (x) }",
    "a size of 1 that is broadcast": "g (float[Q] x, float[Q] y) => (float[Q] a) { t = Mul (x, x) a = Add (t, y) }",
}


def parsed(text: str, name: str = "?") -> ModelProto:
    model = onnx.parser.parse_model(HEAD + text)
    for info in (*model.graph.input, *model.graph.output):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param == "Q":
                dim.dim_param = name
    return model


def sizes(model: ModelProto) -> list[list[int | str]]:
    return [[d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input]


def builds(model: ModelProto, **given: tuple[int, ...]) -> bool:
    """Whether TensorRT-RTX builds an engine for inputs of these sizes."""
    trt = pytest.importorskip("tensorrt_rtx")
    builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, trt.Logger(trt.Logger.INTERNAL_ERROR))
    assert parser.parse(model.SerializeToString())
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    for name, shape in given.items():
        profile.set_shape(name, shape, shape, shape)
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config) is not None


@pytest.mark.parametrize("what", MODELS)
@pytest.mark.parametrize("name", ["?", "None", "unk__7"])
def test_sizes_that_may_differ_get_names_of_their_own(what: str, name: str) -> None:
    text, expected = MODELS[what]
    result = surgeon.rewrite(parsed(text, name), target="rtx")
    assert sizes(result.model) == expected
    assert [a.pass_name for a in result.report.applied] == ["own-sizes"]
    onnx.checker.check_model(result.model, full_check=True)
    assert not surgeon.rewrite(result.model, target="rtx").report.applied


@pytest.mark.parametrize("what", KEPT)
def test_sizes_that_must_be_equal_keep_their_name(what: str) -> None:
    model = parsed(KEPT[what])
    result = surgeon.rewrite(model, target="rtx")
    assert sizes(result.model) == sizes(model)
    assert not result.report.applied


def test_the_height_and_the_width_of_a_picture_may_differ() -> None:
    model = parsed("g (float[batch,3,side,side] x) => (float[batch,3,side,side] a) { a = Relu (x) }")
    result = surgeon.rewrite(model, target="rtx")
    assert sizes(result.model) == [["batch", 3, "x_2", "x_3"]]
    square = "g (float[1,1,side,side] x) => (float[1,1,side,side] a) { a = MatMul (x, x) }"
    assert sizes(surgeon.rewrite(parsed(square), target="rtx").model) == [[1, 1, "side", "side"]]


def test_sizes_of_two_names_may_be_equal() -> None:
    """A product, whose sizes an exporter named by their places."""
    text = "g (float[unk__1,unk__2] x, float[unk__1,unk__2] y) => (float[a,b] z) { z = MatMul (x, y) }"
    result = surgeon.rewrite(parsed(text), target="rtx")
    assert sizes(result.model) == [["x_0", "y_0"], ["y_0", "y_1"]]
    assert not result.report.warnings


def test_rtx_builds_it_for_sizes_that_differ() -> None:
    model = parsed(MODELS["two inputs that are not read together"][0])
    assert not builds(model, x=(2, 3), y=(5, 3))
    assert builds(surgeon.rewrite(model, target="rtx").model, x=(2, 3), y=(5, 3))


def test_a_parser_that_reads_no_names_needs_none() -> None:
    model = parsed(MODELS["two inputs that are not read together"][0])
    assert not surgeon.rewrite(model, target="8.4").report.applied
    assert surgeon.rewrite(model, target="8.5").report.applied


def test_the_user_may_say_sizes_that_differ() -> None:
    model = parsed(MODELS["two inputs that are not read together"][0])
    result = surgeon.rewrite(model, target="rtx", shapes={"x": (2, 3), "y": (5, 3)}, verify="full")
    assert sizes(result.model) == [["x_0", 3], ["y_0", 3]]


def test_what_does_not_run_keeps_its_names_and_is_told() -> None:
    text = (
        "g (float[Q,3] x, float[Q,3] y) => (float[Q,3] a) <float[2,2] w = {1, 2, 3, 4}> "
        "{ t = MatMul (x, w) a = Add (t, y) }"
    )
    result = surgeon.rewrite(parsed(text), target="rtx", verify="none")
    assert sizes(result.model) == [["?", 3], ["?", 3]]
    assert "inputs share the sizes ?, and whether they must is not known" in result.report.warnings[0]
