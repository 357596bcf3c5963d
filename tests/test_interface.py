"""What a user asks for before the rewriting: inputs in another form, a batch of any size."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from helpers import prepare
from onnx import ModelProto

import surgeon
from surgeon.app.cli import main
from surgeon.pipeline.dynamic_batch import Mixed

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def parsed(text: str) -> ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def run(model: ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


# ---- the batch -------------------------------------------------------------------------------------------------------

# What holds the batch of 1 or of several, and is repaired.
DYNAMIC = {
    "reshape": "g (float[1,4,2,2] x) => (float[1,16] y) <int64[2] s = {1, 16}> { y = Reshape (x, s) }",
    "reshape that leaves another size open": "g (float[1,4,2] x) => (float[1,8] y) <int64[2] s = {1, -1}> { y = Reshape (x, s) }",
    "heads in the batch": "g (float[1,3,8] x) => (float[1,3,8] y) <int64[4] a = {1, 3, 2, 4}, int64[3] b = {2, 3, 4}, int64[4] c = {1, 2, 3, 4}, int64[3] d = {1, 3, 8}> { t1 = Reshape (x, a) t2 = Transpose <perm = [0, 2, 1, 3]> (t1) t3 = Reshape (t2, b) t4 = Softmax <axis = -1> (t3) t5 = Reshape (t4, c) t6 = Transpose <perm = [0, 2, 1, 3]> (t5) y = Reshape (t6, d) }",
    "heads after the batch": "g (float[3,1,8] x) => (float[3,1,8] y) <int64[3] a = {3, 2, 4}, int64[3] d = {3, 1, 8}> { t1 = Reshape (x, a) t2 = Transpose <perm = [1, 0, 2]> (t1) t3 = Transpose <perm = [1, 2, 0]> (t1) t4 = MatMul (t2, t3) t5 = MatMul (t4, t2) t6 = Transpose <perm = [1, 0, 2]> (t5) y = Reshape (t6, d) }",
    "heads after the batch, then rows": "g (float[3,1,4] x) => (float[3,1,4] y) <int64[3] a = {3, 2, 2}, int64[2] r = {3, 4}, float[4,4] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}, int64[3] d = {3, 1, 4}> { t1 = Reshape (x, a) t2 = Transpose <perm = [1, 0, 2]> (t1) t3 = Transpose <perm = [1, 2, 0]> (t1) t4 = MatMul (t2, t3) t5 = MatMul (t4, t2) t6 = Transpose <perm = [1, 0, 2]> (t5) t7 = Reshape (t6, r) t8 = MatMul (t7, w) y = Reshape (t8, d) }",
    "a batch of four": "g (float[4,3,2] x) => (float[4,6] y) <int64[2] s = {4, 6}> { y = Reshape (x, s) }",
    "a token of each sample": "g (float[1,4,3] x) => (float[1,5,3] y) <float[1,1,3] c = {1, 2, 3}> { y = Concat <axis = 1> (c, x) }",
    "equal rows": "g (float[2,3] x) => (float[2,3] y) <float[2,1] c = {5, 5}> { y = Add (x, c) }",
    "sizes of a Resize": "g (float[1,3,4,4] x) => (float[1,3,8,6] y) <int64[4] s = {1, 3, 8, 6}> { y = Resize <mode = \"nearest\"> (x, , , s) }",
    "the end of a Slice": "g (float[1,3] x) => (float[1,3] y) <int64[1] z = {0}, int64[1] o = {1}> { y = Slice (x, z, o, z) }",
    "the initial states of an LSTM": "g (float[3,1,2] x) => (float[3,1,1,2] y) <float[1,8,2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}, float[1,8,2] r = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}, float[1,1,2] h = {0.5, 1}, float[1,1,2] c = {1, 2}> { y = LSTM <hidden_size = 2> (x, w, r, , , h, c) }",
    "a size that is computed": "g (float[1,3,4] x) => (float[1,12] y) <int64 i = {0}, int64[1] z = {0}, int64[1] m = {-1}> { s = Shape (x) n = Gather (s, i) u = Unsqueeze (n, z) t = Concat <axis = 0> (u, m) y = Reshape (x, t) }",
}  # fmt: skip


@pytest.mark.parametrize("name", DYNAMIC)
def test_each_sample_is_computed_as_alone(name: str) -> None:
    model = parsed(DYNAMIC[name])
    at = 1 if "LSTM" in name or "after" in name else 0
    made = prepare("dynamic_batch", model, dynamic_batch={"x": at} if at else True).model
    onnx.checker.check_model(made, full_check=True)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    size, rng = shape[at], np.random.default_rng(7)
    alone = [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]
    (together,) = run(made, x=np.concatenate(alone, at))
    axis = next(k for k, d in enumerate(made.graph.output[0].type.tensor_type.shape.dim) if d.dim_param == "batch")
    for k, x in enumerate(alone):
        (expected,) = run(model, x=x)
        found = np.take(together, range(k * size, (k + 1) * size), axis)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


# What mixes samples, and the node that is named.
MIXED = {
    "Softmax -> y": "g (float[2,4] x) => (float[2,4] y) { y = Softmax <axis = 0> (x) }",
    "Gather -> y": "g (float[1,4] x) => (float[4] y) <int64 i = {0}> { y = Gather (x, i) }",
    "Squeeze -> y": "g (float[1,4] x) => (float[4] y) <int64[1] i = {0}> { y = Squeeze (x, i) }",
    "Add -> y": "g (float[2,4] x) => (float[2,4] y) <float[2,1] c = {1, 2}> { y = Add (x, c) }",
    "ReduceMean -> m": "g (float[1,4] x) => (float[1,4] y) { m = ReduceMean <axes = [0]> (x) y = Sub (x, m) }",
    "Div -> y": "g (float[1,4] x) => (float[1,4] y) <int64 i = {0}> { s = Shape (x) n = Gather (s, i) f = Cast <to = 1> (n) y = Div (x, f) }",
    "Flatten -> y": "g (float[1,3,4] x) => (float[1,12] y) { y = Flatten <axis = 0> (x) }",
    "Flatten -> f": "g (float[1,3,4] x) => (float[3,4] y) { f = Flatten <axis = 2> (x) y = Relu (f) }",
    "Reshape -> y": "g (float[1,3,4] x) => (float[12] y) <int64[1] s = {-1}> { y = Reshape (x, s) }",
    "Concat -> c": "g (float[1,2] a, float[1,2] b) => (float[2,2] y) { c = Concat <axis = 0> (a, b) y = Neg (c) }",
    "Tile -> y": "g (float[1,2] x) => (float[2,2] y) <int64[2] r = {2, 1}> { y = Tile (x, r) }",
    "Pad -> y": "g (float[1,2] x) => (float[2,2] y) <int64[4] p = {1, 0, 0, 0}> { y = Pad (x, p) }",
    "CumSum -> y": "g (float[1,3] x) => (float[1,3] y) <int64 i = {0}> { y = CumSum (x, i) }",
    "TopK -> y": "g (float[1,3] x) => (float[1,3] y) <int64[1] k = {1}> { y, i = TopK <axis = 0> (x, k) }",
    "Split -> y": "g (float[2,3] x) => (float[1,3] y, float[1,3] z) { y, z = Split <axis = 0> (x) }",
    "SplitToSequence -> s": "g (float[1,3] x) => (float[1,3] y) { s = SplitToSequence <axis = 1> (x) y = ConcatFromSequence <axis = 1> (s) }",
}  # fmt: skip


@pytest.mark.parametrize("node", MIXED)
def test_the_node_that_mixes_samples_is_named(node: str) -> None:
    with pytest.raises(Mixed, match=f"dynamic: {node} "):
        prepare("dynamic_batch", parsed(MIXED[node]), dynamic_batch=True)


# What has no samples that could be told apart, and why.
REFUSED = {
    "size of the batch, by Shape": "g (float[1,4] x) => (float[1,4] y, int64[2] s) { y = Relu (x) s = Shape (x) }",
    "is not a tensor .sequence": "g (float[1,4] x) => (seq(float[1,4]) s) { s = SequenceConstruct (x) }",
    "is not a tensor .optional": "g (optional(float[1,4]) x) => (float[1,4] y) { y = OptionalGetElement (x) }",
    "batch of the model is empty": "g (float[0,4] x) => (float[0,4] y) { y = Relu (x) }",
    "output 'y' of Add": "g (float[1,3] x) => (float[1,3] y) <float c = {100}> { b = Greater (x, c) f = Cast <to = 1> (b) m = ReduceMax <axes = [0]> (f) y = Add (x, m) }",
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_an_output_without_a_place_for_each_sample_is_refused(why: str) -> None:
    with pytest.raises(Mixed, match=why):
        prepare("dynamic_batch", parsed(REFUSED[why]), dynamic_batch=True)


def test_a_batch_of_strings() -> None:
    model = parsed("g (string[2] x, string[2] y) => (string[2] z) { z = StringConcat (x, y) }")
    model.opset_import[0].version = 20
    made = prepare("dynamic_batch", model, dynamic_batch=True).model
    (found,) = run(made, x=np.array(["a", "b", "c"], object), y=np.array(["1", "2", "3"], object))
    assert found.tolist() == ["a1", "b2", "c3"]


def test_the_batch_has_a_name_of_its_own() -> None:
    made = prepare(
        "dynamic_batch", parsed("g (float[1,batch] x) => (float[1,batch] y) { y = Relu (x) }"), dynamic_batch=True
    ).model
    assert [d.dim_param for d in made.graph.output[0].type.tensor_type.shape.dim] == ["batch_2", "batch"]


def test_a_batch_that_moves_is_told() -> None:
    found = prepare(
        "dynamic_batch", parsed("g (float[1,3] x) => (float[3,1] y) { y = Transpose (x) }"), dynamic_batch=True
    )
    assert found.warnings == ["the batch of the output 'y' is its dimension 1, not the first one"]


def test_a_batch_axis_that_there_is_not() -> None:
    model = parsed("g (float[1,4] x) => (float[1,4] y) { y = Relu (x) }")
    with pytest.raises(surgeon.UsageError, match="no input 'z'"):
        prepare("dynamic_batch", model, dynamic_batch={"z": 0})
    with pytest.raises(surgeon.UsageError, match="no axis 2"):
        prepare("dynamic_batch", model, dynamic_batch={"x": 2})
    with pytest.raises(surgeon.ModelError, match="no input with a batch"):
        prepare("dynamic_batch", model, dynamic_batch={"x": None})


def test_an_input_without_a_batch_stays_what_it_is() -> None:
    model = parsed("g (float[1,4] x, float[1] f) => (float[1,4] y) { y = Mul (x, f) }")
    made = surgeon.rewrite(model, target="rtx", dynamic_batch={"f": None}).model
    assert [i.type.tensor_type.shape.dim[0].dim_param for i in made.graph.input] == ["batch", ""]


# ---- inputs ----------------------------------------------------------------------------------------------------------

IMAGE = "g (float[1,3,2,4] image) => (float[1,3,2,4] y) { y = Neg (image) }"


def test_an_image_of_bytes_with_the_channels_last() -> None:
    form = "uint8-nhwc:mean=1,2,3:scale=0.5,0.25,2"
    made = surgeon.rewrite(parsed(IMAGE), target="rtx", inputs={"image": form}).model
    pixels = np.random.default_rng(0).integers(0, 256, (1, 2, 4, 3), np.uint8)
    expected = (pixels.astype(np.float32) - np.float32([1, 2, 3])) * np.float32([0.5, 0.25, 2])
    (found,) = run(made, image=pixels)
    np.testing.assert_array_equal(found, -expected.transpose(0, 3, 1, 2))


def test_an_image_whose_channels_are_last_already() -> None:
    model = parsed("g (float16[N,2,4,3] image) => (float16[N,2,4,3] y) { y = Neg (image) }")
    made = prepare("inputs", model, inputs={"image": "uint8-nchw:scale=2"}).model
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 2, 4), np.uint8)
    (found,) = run(made, image=pixels)
    np.testing.assert_array_equal(found, -2 * pixels.transpose(0, 2, 3, 1).astype(np.float16))


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("uint8", "a type of uint8"),
        ("uint9-nhwc", "a type of uint8"),
        ("uint8-nhwc:mean=1,2", "mean has 2 numbers; 'image' has 3 channels"),
        ("uint8-nhwc:std=1", "not 'std=1'"),
        ("uint8-nhwc:mean=a", "not 'a'"),
        ("uint8-nhwc:mean=1:mean=2", "one mean"),
    ],
)
def test_a_form_that_does_not_fit(form: str, why: str) -> None:
    with pytest.raises(surgeon.UsageError, match=why):
        prepare("inputs", parsed(IMAGE), inputs={"image": form})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("g (float[2,3] image) => (float[2,3] y) { y = Neg (image) }", "has 2 dimensions"),
        ("g (int32[1,3,2,2] image) => (int32[1,3,2,2] y) { y = Neg (image) }", "is of int32"),
        ("g (float[1,3,2,2] x) => (float[1,3,2,2] y) { y = Neg (x) }", "no input 'image'"),
    ],
)
def test_an_input_that_is_no_image(text: str, why: str) -> None:
    with pytest.raises(surgeon.UsageError, match=why):
        prepare("inputs", parsed(text), inputs={"image": "uint8-nhwc"})


SIZED = """g (float[1,8,16,16] x, float[2] size) => (float[1,8,H,W] y) <int64[2] n = {1, 8}> {
    s = Cast <to = 7> (size)  f = Concat <axis = 0> (n, s)  y = Resize <mode = "linear"> (x, , , f) }"""


def test_floats_that_are_sizes_become_integers() -> None:
    refused = surgeon.check(parsed(SIZED), target="rtx").unsupported
    assert [n.why for n in refused] == ["a size follows from the input 'size', which holds floats"]
    made = surgeon.rewrite(parsed(SIZED), target="rtx", inputs={"size": "int64"})
    assert not made.report.untaken
    x = np.random.default_rng(0).standard_normal((1, 8, 16, 16)).astype(np.float32)
    (found,) = run(made.model, x=x, size=np.asarray([20, 30]))
    (expected,) = run(parsed(SIZED), x=x, size=np.float32([20, 30]))
    np.testing.assert_array_equal(found, expected)


def test_an_image_does_not_become_sizes() -> None:
    with pytest.raises(
        surgeon.UsageError, match="'image' cannot become int64: int64 or int32 is for an input of sizes"
    ):
        prepare("inputs", parsed(IMAGE), inputs={"image": "int64"})


def test_the_command_takes_both(tmp_path, capsys) -> None:
    onnx.save(parsed("g (float[1,3,2,4] image) => (float[1,24] y) <int64[2] s = {1, 24}> { y = Reshape (image, s) }"), tmp_path / "in.onnx")  # fmt: skip
    words = ["rewrite", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--target", "rtx"]
    assert main([*words, "--input", "image=uint8-nhwc", "--dynamic-batch"]) == 0
    assert "dynamic-batch" in capsys.readouterr().out
    made = onnx.load(tmp_path / "out.onnx")
    assert run(made, image=np.zeros((5, 2, 4, 3), np.uint8))[0].shape == (5, 24)
    for wrong in (["--input", "image"], ["--batch-axis", "image:0"], ["--dynamic-batch", "--batch-axis", "image"]):
        assert main([*words, *wrong]) == 2
