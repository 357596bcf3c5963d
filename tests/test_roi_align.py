"""RoiAlign in every form that is written out, against ONNX Runtime's own."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx.parser
import onnxruntime as ort
import pytest

import surgeon

TEXT = """<ir_version: 8, opset_import: ["" : 16]>
g (float[N,3,8,9] x, float[R,4] r, int64[R] k) => (float[R,3,2,3] y) {
  y = RoiAlign <output_height = 2, output_width = 3, sampling_ratio = RATIO, spatial_scale = 0.5,
                coordinate_transformation_mode = "MODE", mode = "KIND"> (x, r, k)
}"""


FORMS = [*product(["avg"], [0, 1, 2, 3]), ("max", 1), ("max", 2)]


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize(("mode", "ratio"), FORMS)
@pytest.mark.parametrize("pictures", [1, 4])
def test_rois_within_and_outside_of_the_picture(coordinates: str, mode: str, ratio: int, pictures: int) -> None:
    text = TEXT.replace("MODE", coordinates).replace("RATIO", str(ratio)).replace("N,", f"{pictures},", 1)
    text = text.replace("KIND", mode)
    model = onnx.parser.parse_model(text)
    proved = pictures == 4 and coordinates == "half_pixel"
    result = surgeon.rewrite(model, target="rtx", verify="window" if proved else "none")
    assert [a.pass_name.split("+")[0] for a in result.report.applied] == ["roi-align"]
    assert not result.report.untaken
    draw = np.random.default_rng(0)
    corners = draw.uniform(-8, 24, (40, 2))
    rois = np.concatenate([corners, corners + draw.uniform(-2, 20, (40, 2))], 1)
    rois[:4] = [[0, 0, 17.9, 15.9], [-2, -2, 18, 16], [2, 2, 2, 2], [-40, -40, 40, 40]]
    feeds = {
        "x": draw.standard_normal((pictures, 3, 8, 9)).astype(np.float32),
        "r": rois.astype(np.float32),
        "k": draw.integers(0, pictures, 40),
    }
    before, after = (ort.InferenceSession(m.SerializeToString()).run(None, feeds)[0] for m in (model, result.model))
    assert np.allclose(before, after, rtol=1e-4, atol=1e-5)


def test_a_picture_whose_rois_come_from_outside() -> None:
    """Its only valid position is 0: an ONNX Runtime that checks runs nothing else."""
    text = TEXT.replace("MODE", "half_pixel").replace("RATIO", "0").replace("N,", "1,", 1).replace("KIND", "avg")
    result = surgeon.rewrite(onnx.parser.parse_model(text), target="rtx", cache=False)
    assert not result.report.untaken
    assert not result.report.declined
