"""One run does what two would: a second one finds nothing, and writes the same bytes."""

from __future__ import annotations

import casefile
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto

import surgeon
from surgeon.pipeline.source import Source
from surgeon.precision import convert

NORM = "F (x, s, b, m, v) => (y) { y = BatchNormalization <epsilon: float = 0.01> (x, s, b, m, v) }"
NORM_CALL = "(float[2,3] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2,3] y)"
# Of each: the opset of the model, that of its function, the model's graph, the function, whether the call goes for 8.0.
FUNCTIONS = {
    "the model has no node": (12, 15, f"{NORM_CALL} {{ y = my.F (x, s, b, m, v) }}", NORM, True),
    "its nodes mean the same": (12, 15, f"{NORM_CALL} {{ t = Relu (x) y = my.F (t, s, b, m, v) }}", NORM, True),
    "its nodes mean something else": (
        12,
        15,
        f"{NORM_CALL} {{ t = Softmax <axis = 1> (x) u = Relu (t) y = my.F (u, s, b, m, v) }}",
        NORM,
        True,
    ),
    "the function is older": (
        13,
        11,
        "(float[2,3] x) => (float[2,3] y) { t = Relu (x) y = my.F (t) }",
        "F (x) => (y) { y = Softmax <axis = 1> (x) }",
        False,
    ),
    "an operator is deprecated": (
        9,
        15,
        "(float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 2}> { t = Upsample (x, s) y = my.F (t) }",
        "F (x) => (y) { y = LeakyRelu <alpha = 0.1> (x) }",
        True,
    ),
}


def of_two_opsets(kind: str) -> ModelProto:
    opset, inner, graph, function, _ = FUNCTIONS[kind]
    text = (
        f'<ir_version: 8, opset_import: ["" : {opset}, "my" : 1]> g {graph}\n'
        f'<domain: "my", opset_import: ["" : {inner}]> {function}'
    )
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("target", ["7.0", "8.0", "8.4", "9.0", "rtx"])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_function_of_another_opset_goes_in_the_first_run(kind: str, target: str) -> None:
    once = surgeon.rewrite(of_two_opsets(kind), target=target)
    twice = surgeon.rewrite(once.model, target=target)
    assert twice.model.SerializeToString() == once.model.SerializeToString()
    assert len(twice.report.untaken) == len(once.report.untaken)
    assert not once.report.undone
    if target == "8.0":
        assert bool(once.model.functions) is not FUNCTIONS[kind][-1]
    onnxruntime.InferenceSession(once.model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_functions_of_two_versions_of_a_domain_stay_apart() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1, "my" : 1]>'
        "g (int64[2] x) => (float[2] y, float[2] z) { y = my.F (x) z = ai.onnx.ml.Scaler <scale = [2.0]> (x) }"
        '<domain: "my", opset_import: ["ai.onnx.ml" : 3]>'
        "F (x) => (y) { y = ai.onnx.ml.LabelEncoder <keys_int64s = [1], values_floats = [2.0]> (x) }"
    )
    result = surgeon.rewrite(model, target="8.4", verify="none", only="inline")
    assert [d.why for d in result.report.declined] == [
        "the function my::F declares version 3 of ai.onnx.ml, the model 1, and LabelEncoder is another operator there"
    ]


LISTED = """<ir_version: 3, opset_import: ["" : 18]>
g (float[N,2,2,4] x) => (float[N,2,2,4] y) <
    int64[5] split = {-1, 2, 2, 4, 1}, int64[4] whole = {-1, 2, 2, 4}, int64[3] axes = {1, 2, 4},
    float eps = {0.001}, float[1,1,1,4,1] w = {1, 2, 3, 4}, float[1,1,1,4,1] b = {5, 6, 7, 8}
> {
    r = Reshape (x, split)
    m = ReduceMean <keepdims = 1> (r, axes)
    d = Sub (r, m)
    q = Mul (d, d)
    v = ReduceMean <keepdims = 1> (q, axes)
    e = Add (v, eps)
    s = Sqrt (e)
    i = Reciprocal (s)
    a = Mul (i, w)
    ma = Mul (m, a)
    c = Sub (b, ma)
    ra = Mul (r, a)
    t = Add (ra, c)
    y = Reshape (t, whole)
}"""


def test_weights_that_are_no_inputs_turn_no_rewrite_off_at_ir_version_3() -> None:
    model = onnx.parser.parse_model(LISTED)
    assert Source(model).invalid() == ""
    once = surgeon.rewrite(model, target="8.4")
    assert once.report.applied
    half = convert(once.model, target="8.4").model
    again = surgeon.rewrite(half, target="8.4")
    assert convert(again.model, target="8.4").model.SerializeToString() == half.SerializeToString()


# What passes find once the types are those of half precision, with the target.
LATER = {
    "attention/native": "rtx",
    "if_branch_ranks/squeeze": "8.4",
    "int8_weight_readers/numbers": "rtx",
    "l2_norm/sum_in_fp16": "8.4",
    "layer_norm/variance_in_fp16": "rtx",
    "sequence/rebuilt": "8.4",
}


@pytest.mark.parametrize("case", LATER)
def test_half_precision_is_done_in_one_run(case: str) -> None:
    model = casefile.load(casefile.HERE / f"{case}.onnxtxt").model
    once = surgeon.rewrite(model, target=LATER[case], fp16=True)
    twice = surgeon.rewrite(once.model, target=LATER[case], fp16=True)
    assert once.precision is not None and not once.precision.failed
    assert twice.model.SerializeToString() == once.model.SerializeToString()
    assert not once.report.undone and not twice.report.undone
