"""int64 constants that a parser cuts to int32: what is known of a node holds, when the constants are cut."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser

import surgeon
from surgeon.ir.model import Model
from surgeon.ir.run import Runner
from surgeon.pipeline.run import judged
from surgeon.targets.int64_narrowing import HIGHEST, LOWEST
from surgeon.targets.target import Target

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g (int64[4] x, bool[4] m, float[6] f) => '
BIG, SMALL = "<int64 c = {3000000000}>", "<int64 c = {-9223372036854775808}>"
FILLED = "z = ConstantOfShape <value = int64[1] {-3000000000}> (s)"
WITH_ZERO = "<int64 c = {-9223372036854775808}, int64 z = {0}>"
ENDS = "<int64[1] e = {9223372036854775807}, int64[1] r = {-9223372036854775807}, int64[1] s = {1}, "
ENDS += "int64[1] b = {-1}, int64[1] a = {0}>"
PADS = "<int64 c = {3000000000}, int64 z = {0}, int64[2] p = {1, 1}, int64[4] i = {3, 0, 1, 2}>"
X = np.array([LOWEST, 0, HIGHEST - 1, HIGHEST])
FEEDS = {"x": X, "m": np.array([True, False, True, False]), "f": np.arange(6, dtype=np.float32)}
UNNOTICED = {
    "greater": f"(bool[4] y) {BIG} {{ y = Greater (x, c) }}",
    "mirrored": f"(bool[4] y) {SMALL} {{ y = Greater (c, x) }}",
    "least": f"(int64[4] y) {BIG} {{ y = Min (x, c) }}",
    "upper bound": f"(int64[4] y) {BIG} {{ y = Clip (x, , c) }}",
    "lower bound": f"(int64[4] y) {SMALL} {{ y = Clip (x, c) }}",
    "mask": f"(bool y) {WITH_ZERO} {{ w = Where (m, x, c) v = ReduceMax <keepdims = 0> (w) y = Greater (v, z) }}",
    "mask within": f"(int64[4] y) {WITH_ZERO} {{ w = Where (m, x, c) y = Max (w, z) }}",
    "end of a slice": f"(float[k] y) {ENDS} {{ y = Slice (f, s, e, a) }}",
    "backward": f"(float[6] y) {ENDS} {{ y = Slice (f, b, r, a, b) }}",
    "padded": f"(bool[6] y) {PADS} {{ w = Pad (x, p, c) y = Greater (w, z) }}",
    "scattered": f"(bool[4] y) {PADS} {{ w = Where (m, x, c) r = ScatterElements (x, i, w) y = Greater (r, z) }}",
    "as truth": f"(bool[4] y) {BIG} {{ w = Where (m, x, c) y = Cast <to = 9> (w) }}",
}
NOTICED = {
    "less": (f"(bool[4] y) {BIG} {{ y = Less (x, c) }}", "int64-comparisons"),
    "equal": ("(bool[4] y) <int64 c = {2147483648}> { y = Equal (c, x) }", "int64-comparisons"),
    "as floats": (f"(float[4] y) {BIG} {{ w = Where (m, x, c) y = Cast <to = 1> (w) }}", "int64-comparisons"),
    "sum": (f"(int64[4] y) {BIG} {{ y = Add (x, c) }}", ""),
    "greatest": (f"(int64[4] y) {BIG} {{ y = Max (x, c) }}", ""),
    "mask": (f"(int64[4] y) {SMALL} {{ y = Where (m, x, c) }}", ""),
    "filled": (f"(int64[4] y) {{ s = Shape (x) {FILLED} y = Mul (x, z) }}", ""),
}


@pytest.mark.parametrize("text", UNNOTICED.values(), ids=UNNOTICED)
def test_what_notices_nothing_is_taken(text: str) -> None:
    model = parser.parse_model(HEAD + text)
    assert judged(Model(model), Target.parse("8.4")) == ([], [])
    assert _agree(model, _cut(model))


@pytest.mark.parametrize(("text", "mended"), NOTICED.values(), ids=NOTICED)
def test_what_computes_something_else_is_said_or_mended(text: str, mended: str) -> None:
    model = parser.parse_model(HEAD + text)
    (found,) = surgeon.check(model, target="8.4").untaken
    assert "which this parser cuts to" in found.why
    assert found.fixed_by == mended
    assert not surgeon.check(model, target="9.0").untaken
    if found.op != "Mul":  # ConstantOfShape: its attribute is not a constant that `_cut` cuts
        assert not _agree(model, _cut(model))
    if mended:
        written = surgeon.rewrite(model, target="8.4").model
        assert _agree(model, written)
        assert _agree(model, _cut(written))


def _cut(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its constants cut, as the parser does."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.data_type == TensorProto.INT64:
            cut = np.clip(numpy_helper.to_array(tensor), LOWEST, HIGHEST)
            tensor.CopyFrom(numpy_helper.from_array(cut, tensor.name))
    return made


def _agree(model: onnx.ModelProto, other: onnx.ModelProto) -> bool:
    """Whether two models compute the same of numbers that int32 holds."""
    feeds = {info.name: FEEDS[info.name] for info in model.graph.input}
    return all(map(np.array_equal, Runner(model).run(feeds), Runner(other).run(feeds)))
