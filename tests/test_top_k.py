"""TopK beyond what TensorRT supports, whose cases would hold thousands of constants."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnxruntime as ort
import pytest

import surgeon

SORT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,4000] x) => (float[2,3900] v, int64[2,3900] i) <int64[1] k = {3900}> {
  v, i = TopK <largest = LARGEST> (x, k)
}"""


@pytest.mark.parametrize("largest", [0, 1])
def test_more_than_is_taken_is_sorted_by_comparison(largest: int) -> None:
    model = onnx.parser.parse_model(SORT.replace("LARGEST", str(largest)))
    result = surgeon.rewrite(model, target="rtx", verify="none")
    assert [(a.pass_name, a.strategy) for a in result.report.applied] == [("top-k", "decompose")]
    assert not result.report.untaken
    x = np.random.default_rng(0).integers(-50, 50, (2, 4000)).astype(np.float32)  # most are equal to others
    x[0, 7] = np.inf
    x[1, 9] = -np.inf
    before, after = (ort.InferenceSession(m.SerializeToString()).run(None, {"x": x}) for m in (model, result.model))
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one, other)
