"""Models that need no opset of ONNX's own operators, until a rewrite writes the first node of them."""

from __future__ import annotations

import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto

import surgeon

SCALER = """<ir_version: 8, opset_import: ["ai.onnx.ml" : 1]>
g (float[1,4] x) => (float[1,4] y) { y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x) }"""
STRINGS = """<ir_version: 8, opset_import: ["ai.onnx.ml" : 2]>
g (int64[1,4] x) => (string[1,4] y) {
    y = ai.onnx.ml.LabelEncoder <keys_int64s = [1, 2], values_strings = ["a", "b"]> (x)
}"""
IMAGE = """<ir_version: 8, opset_import: ["ai.onnx.ml" : 1]>
g (float[1,3,2,2] x) => (float[1,3,2,2] y) { y = ai.onnx.ml.Binarizer <threshold = 0.5> (x) }"""
FUNCTION = """<ir_version: 8, opset_import: ["ai.onnx.ml" : 1, "custom" : 1]>
g (float[1,4] x) => (float[1,4] y) { y = custom.F (x) }
<domain: "custom", opset_import: ["" : 17, "ai.onnx.ml" : 1]>
F (x) => (y) { t = ai.onnx.ml.Binarizer <threshold = 0.5> (x) y = Relu (t) }"""


def opsets(model: ModelProto) -> dict[str, int]:
    return {o.domain: o.version for o in model.opset_import}


def is_loaded(model: ModelProto) -> bool:
    onnx.checker.check_model(model, full_check=True)
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return True


@pytest.mark.parametrize(("target", "opset"), [("7.0", 11), ("8.0", 13), ("8.4", 13), ("rtx", 13)])
def test_what_is_written_is_of_an_opset_that_the_target_reads(target: str, opset: int) -> None:
    made = surgeon.rewrite(onnx.parser.parse_model(SCALER), target=target).model
    assert opsets(made) == {"ai.onnx.ml": 1, "": opset}
    assert is_loaded(made)
    again = surgeon.rewrite(made, target=target).model
    assert again.SerializeToString() == made.SerializeToString()


def test_where_nothing_is_written_nothing_is_declared() -> None:
    model = onnx.parser.parse_model(STRINGS)
    before = model.SerializeToString()
    assert surgeon.rewrite(model, target="8.4").model.SerializeToString() == before == model.SerializeToString()


def test_the_opset_of_a_function_is_that_of_the_model() -> None:
    made = surgeon.rewrite(onnx.parser.parse_model(FUNCTION), target="rtx").model
    assert opsets(made)[""] == 17
    assert is_loaded(made)


def test_an_image_of_bytes_declares_it() -> None:
    made = surgeon.rewrite(onnx.parser.parse_model(IMAGE), target="rtx", inputs={"x": "uint8-nhwc"}).model
    assert is_loaded(made)
