"""benchmarks/mutation.py on a pass of three guards: it names the guard that has no case, and no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PASS = '''"""Abs of Neg.

Why      For a test.
"""

from surgeon import Stage, op, require, rule, var

x = var("x")


@rule(op.Abs(op.Neg(x)), stage=Stage.FUSE)
def fuse(b, x):
    rank = len(b.shape(x))
    require(rank < 3, "three dimensions")
    require(rank > 0, "no case asks")
    return b.Abs(x)
'''
HEAD = "# only: toy\n"
CASES = {
    "fused": HEAD
    + """<ir_version: 8, opset_import: ["" : 17]> g (float[2,2] x) => (float[2,2] y) { n = Neg (x) y = Abs (n) }
# ---- becomes
<ir_version: 8, opset_import: ["" : 17]> g (float[2,2] x) => (float[2,2] y) { y = Abs (x) }
""",
    "long": HEAD
    + """<ir_version: 8, opset_import: ["" : 17]> g (float[2,2,2] x) => (float[2,2,2] y) { n = Neg (x) y = Abs (n) }
# ---- is left alone: three dimensions
""",
}


def survivors(folder: Path) -> tuple[list[str], str]:
    """(the lines of --survivors, all that is printed) for the toy pass."""
    (folder / "passes").mkdir()
    (folder / "passes" / "toy.py").write_text(PASS, encoding="utf-8")
    (folder / "cases" / "toy").mkdir(parents=True)
    for name, text in CASES.items():
        (folder / "cases" / "toy" / f"{name}.onnxtxt").write_text(text, encoding="utf-8")
    out = folder / "survivors.txt"
    options = ["--passes", folder / "passes", "--cases", folder / "cases", "--survivors", out, "--verbose"]
    command = [sys.executable, ROOT / "benchmarks" / "mutation.py", *options]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out.read_text(encoding="utf-8").splitlines(), done.stdout


def test_the_guard_without_a_case_survives_and_the_others_die(tmp_path: Path) -> None:
    found, printed = survivors(tmp_path)
    dropped = "toy.py:15: dropped: require(rank > 0, 'no case asks')"
    assert dropped in found and "toy.py:15: 0 -> 1" in found
    assert f"SURVIVES: {dropped}" in printed
    assert "case toy/long: toy.py:14: dropped: require(rank < 3, 'three dimensions')" in printed
    assert "case toy/long: toy.py:14: 3 -> 4" in printed
    assert "toy.py:12: fuse without its @rule" in printed
    assert not [line for line in found if ":15:" not in line], found


def test_mypy_that_no_mutant_asked_need_not_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case kills each mutant."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from mutation_types import Types

    with Types(tmp_path):
        pass
