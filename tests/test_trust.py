"""A folder must not run code: what stands in the current folder, in a configuration file or in a report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

NORM = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] y = InstanceNormalization <epsilon = 0.001> (x, s, b)
}"""
# Each is imported by surgeon, by a library, or by a process that surgeon starts.
IMPORTED = ("__future__", "json", "numpy", "onnx", "onnxruntime", "polygraphy", "signal", "surgeon_evil", "threading")
Captured = pytest.CaptureFixture[str]


def surgeon(folder: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "surgeon", *map(str, words)]
    return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with a model."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / ".git").mkdir()
    onnx.save(onnx.parser.parse_model(NORM), folder / "in.onnx")
    return folder


# ---- modules in the current folder -----------------------------------------------------------------------------------


def test_no_module_of_the_current_folder_is_imported(folder: Path) -> None:
    """Neither by `python -m surgeon`, nor by the process that loads models, nor by one that a batch starts."""
    for name in IMPORTED:
        (folder / f"{name}.py").write_text("open('ran', 'a').write(f'{__name__}\\n')\n")
    (folder / "evil.egg-info").mkdir()
    (folder / "evil.egg-info" / "entry_points.txt").write_text("[surgeon.passes]\nevil = surgeon_evil\n")
    (folder / "evil.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    done = surgeon(folder, "rewrite", ".", "-o", "out/", "--target", "8.4")
    assert done.returncode == 0 and "1 done" in done.stdout, done.stderr
    assert not (folder / "ran").exists(), (folder / "ran").read_text()
