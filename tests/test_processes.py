"""Each command in a process of its own: it ends and prints there as it does in the process of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import program
import pytest
from blocks import PROGRESS, settled

from surgeon.app.arguments import COMMANDS

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float a = {0.1}, float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] n = InstanceNormalization <epsilon = 0.001> (x, s, b)
  [times] m = Mul(n, a)
  [larger] y = Max(n, m)
}"""
LOG = "[E] [TRT] In node 3 (parseGraph): UNSUPPORTED_NODE: No importer registered for op: Mish\n"
WORDS = {
    "fix": ["in.onnx", "--for", "8.4"],
    "rewrite": ["in.onnx", "new.onnx", "--target", "8.4", "--fp16", "--report", "new.html"],
    "check": ["in.onnx", "--target", "8.4"],
    "why": ["log", "--target", "8.4"],
    "verify": ["report.json"],
    "build": ["out.onnx", "out.engine", "--with", "rtx", "--profile", "x:1x3x8x8"],
    "kernels": ["out.onnx", "--against", "in.onnx", "--shapes", "x:1x3x8x8"],
    "compare": ["in.onnx", "out.onnx", "--no-trt"],
    "passes": [],
    "explain": ["leaky-relu"],
    "targets": [],
    "trust": ["--list"],
    "diff-targets": ["8.4", "10.9", "in.onnx"],
    "plugins": ["build", "--tensorrt-root", "none"],
    "completion": ["bash"],
}


def test_each_command_is_among_them() -> None:
    assert set(WORDS) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_a_process_of_its_own(command: str, tmp_path: Path) -> None:
    """Written files too, but for what varies in them: so a library that one command loads is loaded by that command."""
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "in.onnx")
    (tmp_path / "log").write_text(LOG)
    made = program.surgeon("rewrite", "in.onnx", "out.onnx", "--target", "8.4", "--report", "report.json", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    before = set(tmp_path.iterdir())
    script = Path(sys.executable).with_name("surgeon.exe" if sys.platform == "win32" else "surgeon")
    real = subprocess.run(
        [script, command, *WORDS[command]], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True
    )
    written = {p.name for p in set(tmp_path.iterdir()) - before}
    for path in set(tmp_path.iterdir()) - before:
        path.unlink()
    here = program.surgeon(command, *WORDS[command], cwd=tmp_path)
    assert (here.returncode, settled(here.stdout)) == (real.returncode, settled(real.stdout))
    assert PROGRESS.sub("", settled(here.stderr)) == PROGRESS.sub("", settled(real.stderr))
    assert {p.name for p in set(tmp_path.iterdir()) - before} == written
    assert real.returncode < 5 and (real.stdout or real.stderr)


@pytest.mark.parametrize("name", ["surgeon", "other"])
def test_garbage_is_collected_again_after_the_imports(name: str) -> None:
    code = (
        f"import gc, sys; sys.argv = ['{name}', '--version']\n"
        "from surgeon.__main__ import program\n"
        "try: program()\n"
        "except SystemExit: print(gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"
