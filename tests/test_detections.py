"""A fixed number of detections: the rows that count, the padding after them, and what cannot have any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from helpers import prepare

import surgeon
from surgeon.app.cli import main
from surgeon.pipeline.detections import Dependent
from surgeon.proof.whole import prove_models

# As YOLO is exported with its post-processing: image, box, score and class of each detection; and the indices.
DETECTOR = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,20,7] pred) => (float[K,7] found, int64[K,3] indices)
<int64[1] most = {4}, float[1] overlap = {0.5}, float[1] least = {0.1}, int64[1] zero = {0}, int64[1] four = {4},
 int64[1] seven = {7}, int64[1] two = {2}, int64[1] one = {1}, int64[2] ends = {0, 2}> {
    boxes = Slice (pred, zero, four, two)
    classes = Slice (pred, four, seven, two)
    scores = Transpose <perm = [0, 2, 1]> (classes)
    indices = NonMaxSuppression <center_point_box = 1> (boxes, scores, most, overlap, least)
    of_boxes = Gather <axis = 1> (indices, ends)
    box = GatherND (boxes, of_boxes)
    best = GatherND (scores, indices)
    score = Unsqueeze (best, one)
    ends_as_floats = Cast <to = 1> (of_boxes)
    found = Concat <axis = 1> (ends_as_floats, box, score)
}"""
# As torchvision's nms, of which the first ten are kept, and what else is made of them.
KEPT = """<ir_version: 8, opset_import: ["" : 11]> g (float[30,4] boxes, float[30] scores) => (OUTPUT y)
<int64 most = {9223372036854775807}, float overlap = {0.5}, int64[1] zero = {0}, int64[1] two = {2},
 int64[1] three = {3}, int64[1] one = {1}, int64[1] ten = {10}> {
    picture = Unsqueeze <axes = [0]> (boxes)
    classes = Unsqueeze <axes = [0, 1]> (scores)
    indices = NonMaxSuppression (picture, classes, most, overlap)
    column = Slice (indices, two, three, one)
    kept = Squeeze <axes = [1]> (column)
    first = Slice (kept, zero, ten, zero)
    found = Gather (scores, first)
    y = OPERATOR
}"""

WITHOUT = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg (x) }'


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[Any]:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)


def kept(operator: str, output: str = "float[K]") -> onnx.ModelProto:
    return onnx.parser.parse_model(KEPT.replace("OPERATOR", operator).replace("OUTPUT", output))


@pytest.mark.parametrize("count", [5, 40])
def test_the_rows_of_a_detector_stand_in_front_of_the_padding(count: int) -> None:
    model = onnx.parser.parse_model(DETECTOR)
    result = surgeon.rewrite(model, target="rtx", detections=count)
    assert [a.pass_name for a in result.report.applied] == ["detections", "non-max-suppression"]
    assert not result.report.untaken and "of more than" in result.report.warnings[0]
    sizes = [[d.dim_value for d in o.type.tensor_type.shape.dim] for o in result.model.graph.output]
    assert sizes == [[count, 7], [count, 3], [1]]
    feeds = {"pred": np.random.default_rng(0).random((1, 20, 7)).astype(np.float32)}
    (rows, indices), (padded, filled, number) = run(model, feeds), run(result.model, feeds)
    real = min(count, len(rows))
    assert 5 < len(rows) < 40 and number.tolist() == [real]
    np.testing.assert_array_equal(padded[:real], rows[:real])
    np.testing.assert_array_equal(filled[:real], indices[:real])
    assert (filled[real:] == -1).all()


@pytest.mark.parametrize("threshold", ["x = Abs (overlap)", "x = Mul (overlap, half)", "x = Sigmoid (overlap)"])
def test_thresholds_that_are_inputs_are_drawn_where_they_are_valid(threshold: str) -> None:
    """ONNX Runtime takes those from 0 to 1. The number of rows may be an input, too."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,10,4] boxes, float[1,1,10] scores, int64[1] most, float[1] overlap, float[1] least)
          => (int64[K,3] indices) <float[1] half = {{0.5}}> {{
            {threshold}
            indices = NonMaxSuppression (boxes, scores, most, x, least)
        }}""")
    result = surgeon.rewrite(model, target="10.9", detections=5)
    assert [a.pass_name for a in result.report.applied] == ["detections"] and not result.report.failed
    comparison = prove_models(model, model)
    assert comparison.ok, comparison


def test_where_nothing_is_found_no_row_counts() -> None:
    result = surgeon.rewrite(onnx.parser.parse_model(DETECTOR), target="8.4", detections=3)
    padded, filled, number = run(result.model, {"pred": np.zeros((1, 20, 7), np.float32)})
    assert padded.shape == (3, 7) and (filled == -1).all() and number.tolist() == [0]


def test_what_is_cut_off_behind_keeps_its_rows() -> None:
    model = kept("Neg (found)")
    made = prepare("detections", model, detections=25).model
    rng = np.random.default_rng(0)
    feeds = {"boxes": rng.random((30, 4)).astype(np.float32), "scores": rng.random(30).astype(np.float32)}
    (rows,), (padded, number) = run(model, feeds), run(made, feeds)
    assert padded.shape == (10,) and number[0] >= len(rows)
    np.testing.assert_array_equal(padded[: len(rows)], rows)


@pytest.mark.parametrize(
    ("operator", "output", "why"),
    [
        ("Softmax <axis = 0> (found)", "float[K]", "Softmax -> y"),
        ("ReduceMax <keepdims = 0> (found)", "float", "ReduceMax -> y"),
        ("Shape (found)", "int64[1]", "the output 'y' says how many rows"),
        ("Concat <axis = 0> (found, scores)", "float[K]", "Concat -> y"),
    ],
)
def test_what_depends_on_all_rows_is_named(operator: str, output: str, why: str) -> None:
    with pytest.raises(Dependent, match=why):
        prepare("detections", kept(operator, output), detections=25)


@pytest.mark.parametrize(
    ("target", "first"), [("rtx", "rewrite with"), ("8.4", "TensorRT 8.5 supports it, or rewrite with")]
)
def test_without_the_option_the_command_names_it(
    target: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(onnx.parser.parse_model(DETECTOR), tmp_path / "in.onnx")
    main(["rewrite", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--target", target])
    assert f"advice: {first} --detections N" in capsys.readouterr().out
    main(["check", str(tmp_path / "in.onnx"), "--target", target, "--no-parser"])
    assert f"advice  NonMaxSuppression  {first} --detections N" in capsys.readouterr().out


def test_the_command_fixes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(onnx.parser.parse_model(DETECTOR), tmp_path / "in.onnx")
    words = ["rewrite", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--target", "rtx"]
    assert main([*words, "--detections", "7"]) == 0
    assert "detections" in capsys.readouterr().out
    assert [o.name for o in onnx.load(tmp_path / "out.onnx").graph.output] == ["found", "indices", "detections"]
    assert main([*words, "--detections", "0"]) == 2
    onnx.save(onnx.parser.parse_model(WITHOUT), tmp_path / "in.onnx")
    assert main([*words, "--detections", "7"]) == 2
