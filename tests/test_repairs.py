"""Models that are wrong already: repaired where one reading is possible, else refused, and never promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import program
import pytest
from helpers import model
from onnx import ModelProto, TensorProto, numpy_helper

import surgeon
from surgeon.errors import ModelError

RELU = "(float[2,3] x) => (float[2,3] y) { a = Relu (x)  y = Neg (a) }"
HARD_SWISH = "(float[2,3] x) => (float[2,3] y) { y = HardSwish (x) }"
RESIZE = """(float[1,3,8,8] x) => (float[1,3,OUT] y)
<float[4] sc = {1, 1, 2, 2}, int64[4] sz = {1, 3, OUT}, float[0] roi = {}> {
    c = Relu (x)
    y = Resize <mode = "nearest"> (c, roi, sc, sz)
}"""


def doubled_names() -> ModelProto:
    made = model(RELU)
    for node in made.graph.node:
        node.name = "n"
    return made


def unsorted() -> ModelProto:
    made = model(RELU)
    first, second = (type(n).FromString(n.SerializeToString()) for n in made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend([second, first])
    return made


def doubled_weights(second: float) -> ModelProto:
    made = model("(float[2,3] x) => (float[2,3] y) <float[3] w = {1, 1, 1}> { y = Mul (x, w) }")
    made.graph.initializer.append(numpy_helper.from_array(np.array([1, 1, second], np.float32), "w"))
    return made


def resize(width: int, opset: int) -> ModelProto:
    return model(RESIZE.replace("OUT", f"16,{width}"), opset=opset)


def old_opset() -> ModelProto:
    made = model(HARD_SWISH)
    made.opset_import[0].version = 11
    return made


def short_weight() -> ModelProto:
    made = model("(float[2,3] x) => (float[2,3] y) <float[3] w = {1, 1, 1}> { y = Mul (x, w) }")
    made.graph.initializer[0].CopyFrom(TensorProto(name="w", data_type=1, dims=[3], float_data=[1.0]))
    return made


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (doubled_names(), "had the name of another one"),
        (unsorted(), "the nodes are sorted"),
        (doubled_weights(1), "in the file twice"),
        (resize(16, 13), "had scales and sizes"),
        (resize(16, 12), "had scales and sizes"),
        (old_opset(), "declared opset 11"),
        (model("(float[2,3] x) => (float[2,3] y) { y = Relu <bogus = 1> (x) }"), "Relu has no attribute 'bogus'"),
    ],
    ids=["names", "order", "weights", "resize", "resize up to 12", "opset", "attribute"],
)
def test_what_has_one_reading_is_repaired_and_said(wrong: ModelProto, said: str) -> None:
    before = wrong.SerializeToString()
    result = surgeon.rewrite(wrong, target="10.9", verify="none")
    assert wrong.SerializeToString() == before
    assert [w for w in result.report.warnings if w.startswith("repaired: ") and said in w]
    onnxruntime.InferenceSession(result.model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [w for w in surgeon.check(wrong, target="10.9").warnings if said in w]
    again = surgeon.rewrite(result.model, target="10.9", verify="none")
    assert not [w for w in again.report.warnings if w.startswith("repaired: ")]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (doubled_weights(2), "two initializers are called 'w'"),
        (resize(24, 13), "Either `sizes` or `scales`"),
        (short_weight(), "the tensor 'w' holds 1 entries"),
        (model("(float[2,3] x) => (float[2] y) { y = Shape (x) }"), r"output arg \(y\).*tensor\(int64\)"),
        (model("(float[2,3] x) => (int32[2] y) { y = ArgMax <axis = 1, keepdims = 0> (x) }"), "output arg"),
        (model("(float[2,3] x) => (float[2] y) { s = Shape (x)  y = Mul (s, x) }"), "bound to different types"),
        (
            model("(float[2,3] x) => (float[2,5] y) <float[2,5] w = {1,1,1,1,1,1,1,1,1,1}> { y = MatMul (x, w) }"),
            "MatMul",
        ),
    ],
    ids=["weights", "resize", "short", "output type", "output type of ArgMax", "types", "sizes"],
)
def test_what_has_two_readings_is_refused(wrong: ModelProto, said: str) -> None:
    for function in (surgeon.rewrite, surgeon.check):
        with pytest.raises(ModelError, match=said):
            function(wrong, target="10.9")


def test_a_model_that_only_lacks_a_kernel_is_not_refused() -> None:
    made = model(
        "(bfloat16[1,2,4,4] x, bfloat16[2,2,2,2] w) => (bfloat16[1,2,5,5] y) { y = ConvTranspose (x, w) }", opset=22
    )
    surgeon.check(made, target="11.2")


def test_a_model_with_the_same_names_in_a_body_keeps_them() -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (bool c, float[2] x) => (float[2] y) {'
        "[n] y = If (c) <then_branch = a () => (float[2] t) { [m] t = Relu (x) },"
        "else_branch = b () => (float[2] e) { [m] e = Neg (x) }> }"
    )
    assert not surgeon.rewrite(made, target="10.9", verify="none").report.warnings


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    data = model("(float[2,3] xAAAA) => (float[2,3] y) { y = Relu (xAAAA) }").SerializeToString()
    path = tmp_path / "in.onnx"
    path.write_bytes(data.replace(b"xAAAA", b"x\xff\xfe\xc3("))
    for command in (["check", path], ["rewrite", path, tmp_path / "out.onnx"], ["fix", path]):
        done = program.surgeon(*command, "--target", "10.9")
        assert done.returncode == 2 and "has a name that is not UTF-8" in done.stderr
