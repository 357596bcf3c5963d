"""Every sample's README shows commands and what they print: both are run, and must agree, as tests/blocks.py says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from blocks import blocks, compared, try_page

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "samples"
# python_plugin needs a GPU; tests/test_notebook.py runs the notebook.
READMES = [
    p for p in sorted(SAMPLES.glob("*/README.md")) if p.parent.name not in {"cluster", "notebook", "python_plugin"}
]


@pytest.mark.parametrize("readme", READMES, ids=lambda p: p.parent.name)
def test_readme_shows_what_is_printed(readme: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    folder = tmp_path / "sample"
    shutil.copytree(readme.parent, folder)
    assert any(b.language == "console" for b in blocks(readme.read_text(encoding="utf-8")))
    try_page(readme, folder, pytestconfig.getoption("--write-console"))


@pytest.mark.long
def test_the_demo_works_without_tensorrt_rtx(tmp_path: Path) -> None:
    code = f"""import sys; sys.modules["tensorrt_rtx"] = None; sys.argv[1:] = [{str(tmp_path)!r}]
import runpy; runpy.run_path("samples/demo.py", run_name="__main__")"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "TensorRT-RTX is not installed here" in done.stdout
    assert {p.suffix for p in tmp_path.iterdir()} == {".onnx", ".json"}


def test_every_sample_has_a_readme() -> None:
    folders = {p.name for p in SAMPLES.iterdir() if p.is_dir() and not p.name.startswith("_")}
    assert folders == {p.parent.name for p in SAMPLES.glob("*/README.md")}


def test_a_worse_error_is_noticed() -> None:
    compared("error 2.0e-07, 0.3 s", "error 9.0e-07, 12.8 s")
    with pytest.raises(AssertionError, match="grew"):
        compared("error 2.0e-07", "error 3.0e-06")
    with pytest.raises(AssertionError):
        compared("16x  224 -> 0 nodes", "16x  225 -> 0 nodes")


# The notes' numbers, by hand: Clip(-2, 2) on the numbers from -4 to 4, and PRelu with slopes 0.5, 1 and 2 on the same.
CLIPPED = np.array([-2, -2, -2, -1, 0, 1, 2, 2, 2], np.float32).reshape(1, 1, 3, 3)
SLOPED = np.stack(
    [
        np.array([-2, -1.5, -1, -0.5, 0, 1, 2, 3, 4], np.float32).reshape(3, 3),
        np.array([-4, -3, -2, -1, 0, 1, 2, 3, 4], np.float32).reshape(3, 3),
        np.array([-8, -6, -4, -2, 0, 1, 2, 3, 4], np.float32).reshape(3, 3),
    ]
)[None]


@pytest.mark.parametrize("target", ["7.1", "8.4", "10.9", "rtx"])
@pytest.mark.parametrize(("name", "expected"), [("activation_clip", CLIPPED), ("parametric_relu", SLOPED)])
def test_worked_examples_keep_their_numbers(name: str, expected: np.ndarray, target: str) -> None:
    import surgeon

    result = surgeon.rewrite(SAMPLES / "worked_examples" / f"{name}.onnx", target=target)
    assert not result.report.failed, result.report.to_json()
    x = np.arange(-4, 5, dtype=np.float32).reshape(1, 1, 3, 3).repeat(expected.shape[1], axis=1)
    session = onnxruntime.InferenceSession(result.model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, expected)


MODELS = sorted(SAMPLES.glob("*/*.onnx"))


@pytest.mark.parametrize("target", ["8.4", "rtx"])
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_every_sample_model_is_proved_and_taken(path: Path, target: str) -> None:
    import surgeon

    result = surgeon.rewrite(path, target=target)
    assert not result.report.undone
    assert not result.report.untaken
    assert not [d for d in result.report.declined if d.why.startswith("unproved")]
    onnx.checker.check_model(result.model, full_check=True)
