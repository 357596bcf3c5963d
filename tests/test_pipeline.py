"""samples/pipeline: the job in shell and in Python holds, leaves its artifacts, and fails where it should."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import program
import pytest

ROOT = Path(__file__).resolve().parent.parent
PROFILE = "features:1x64,8x64,32x64"
pytest.importorskip("tensorrt_rtx")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "samples" / "pipeline", tmp_path / "sample")
    assert python(tmp_path / "sample", "make_model.py")[0] == 0
    return tmp_path / "sample"


def run(folder: Path, *words: str) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SURGEON": f"{sys.executable} -m surgeon"}
    done = subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_shell(folder: Path) -> None:
    status, said = run(folder, "sh", "pipeline.sh", "head.onnx", "rtx", "job", "--profile", PROFILE)
    assert status == 0, said
    assert said.splitlines()[0].startswith("check          exit 4")
    job = folder / "job"
    assert {p.name for p in job.iterdir()} == {
        "check.txt", "rewrite.txt", "again.txt", "compare.txt", "build.txt", "fp16.txt", "build_fp16.txt",
        "report.json", "report.html", "fp16.json", "fp16.html",
        "model.onnx", "model.engine", "model_fp16.onnx", "model_fp16.engine",
    }  # fmt: skip
    assert json.loads((job / "report.json").read_text())["applied"][0]["pass"] == "l2-norm"
    assert "<svg" in (job / "report.html").read_text(encoding="utf-8")
    assert json.loads((job / "fp16.json").read_text())["precision"]["max_error"] <= 2e-3


def python(folder: Path, script: str, *words: str) -> tuple[int, str]:
    done = program.python(Path(script), *words, cwd=folder, merged=True)
    return done.returncode, done.stdout


@pytest.mark.long
@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_shell_fails_where_a_step_does(folder: Path) -> None:
    status, said = run(folder, "sh", "pipeline.sh", "head.onnx", "rtx", "job", "--profile", "other:1x64")
    assert status == 2 and "build          exit 2" in said
    assert (folder / "job" / "report.html").exists() and (folder / "job" / "fp16.html").exists()
    assert run(folder, "sh", "pipeline.sh", "nothing.onnx", "rtx", "job")[0] == 2


def test_python(folder: Path) -> None:
    status, said = python(folder, "pipeline.py", "head.onnx", "rtx", "job", PROFILE)
    assert status == 0, said
    job = folder / "job"
    summary = json.loads((job / "summary.json").read_text())
    assert list(summary["steps"]) == ["rewrite", "again", "compare", "build", "fp16", "build_fp16"]
    assert all(s["ok"] for s in summary["steps"].values())
    kinds = {t.name: t.data_type for t in onnx.load(job / "model_fp16.onnx").graph.initializer}
    assert kinds["w1"] == kinds["w2"] == onnx.TensorProto.FLOAT16
    assert "Kept in fp32" in (job / "fp16.html").read_text(encoding="utf-8")


def test_python_fails_where_a_step_does(folder: Path) -> None:
    assert python(folder, "pipeline.py", "nothing.onnx", "rtx", "job")[0] == 2
    assert python(folder, "pipeline.py", "head.onnx", "rtx", "job", "features:8x64")[0] == 2
    status, said = python(folder, "pipeline.py", "head.onnx", "rtx", "job", "features:1x65,8x65,32x65")
    assert status in (1, 2), said
