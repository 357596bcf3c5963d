"""Random windows of every rule, with one thing changed, for a fixed number of seconds; and what that found before."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from helpers import model
from onnx import ModelProto

import surgeon
from surgeon.ir.run import load_error

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import fuzz

SECONDS = 8.0


def test_random_windows_come_out_right() -> None:
    """As many seeds as fit, from the same one on; `benchmarks/fuzz.py --seeds N:N+1` shows one of them again."""
    until, found, seed = time.monotonic() + SECONDS, [], 0
    while time.monotonic() < until:
        verdict, said = fuzz.judge(seed)
        if verdict not in (fuzz.RIGHT, fuzz.SKIPPED):
            found.append(f"seed {seed}: {verdict}: {said}")
        seed += 1
    assert not found, "\n".join(found)
    assert seed > 20


@pytest.mark.parametrize("target", ["7.1", "8.4", "rtx"])
@pytest.mark.parametrize(
    "proto",
    [
        model("(float[N,3] x) => (y) { y = MeanVarianceNormalization (x) }", opset=20),
        model("(float[N,3] x) => (y) { y = LpNormalization <axis = 2, p = 2> (x) }", opset=20),
        model("(float[N] x, float[N] s, float[N] f) => (y) { a = InstanceNormalization (x, s, s) y = Mul (a, f) }"),
    ],
    ids=["MeanVarianceNormalization", "LpNormalization", "InstanceNormalization"],
)
def test_what_runs_on_nothing_still_loads(proto: ModelProto, target: str) -> None:
    """ONNX Runtime loads these, and they name axes that there are not."""
    assert not load_error(proto)
    assert not load_error(surgeon.rewrite(proto, target=target, verify="none").model)
