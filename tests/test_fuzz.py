"""Random windows of every rule, with one thing changed, for a fixed number of seconds; and what that found before."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from helpers import model
from onnx import ModelProto

import surgeon
from surgeon.ir.run import load_error

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import fuzz
from splices import spliced


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 1000), marks=pytest.mark.long)], ids=str)
def test_random_windows_come_out_right(seeds: range) -> None:
    """`benchmarks/fuzz.py --seeds N:N+1` shows one of them again."""
    judged = map(fuzz.judge, seeds)
    assert [str(j) for j in judged if j.outcome not in fuzz.GOOD] == []


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 44), marks=pytest.mark.long)], ids=str)
def test_parts_of_the_samples_are_right(seeds: range) -> None:
    """`benchmarks/fuzz.py --models FOLDER`: other types, sizes, names, functions and sparse weights."""
    files = sorted((Path(__file__).resolve().parent.parent / "samples").rglob("*.onnx"))
    judged = [fuzz.judge(seed, partial(spliced, files)) for seed in seeds]
    assert [str(j) for j in judged if j.outcome not in fuzz.GOOD] == []
    assert sum(j.outcome == fuzz.RIGHT for j in judged) >= len(seeds) / 4


def judged_by_turns(seed: int) -> fuzz.Judged:
    """Ends its process at seed 4, and never returns at seed 3."""
    if seed == 4:
        os._exit(7)
    if seed == 3:
        time.sleep(1000)
    return fuzz.Judged(seed, fuzz.RIGHT)


def test_a_process_that_dies_or_hangs_costs_one_seed() -> None:
    judged = list(fuzz.in_processes(range(2, 8), 2, time.time() + 1000, judged_by_turns, patience=1.0))
    assert sorted((j.seed, j.outcome) for j in judged) == [
        (2, fuzz.RIGHT), (3, fuzz.HUNG), (4, fuzz.DIED), (5, fuzz.RIGHT), (6, fuzz.RIGHT), (7, fuzz.RIGHT)
    ]  # fmt: skip


@pytest.mark.parametrize("target", ["7.1", "8.4", "rtx"])
@pytest.mark.parametrize(
    "proto",
    [
        model("(float[N,3] x) => (y) { y = MeanVarianceNormalization (x) }", opset=20),
        model("(float[N,3] x) => (y) { y = LpNormalization <axis = 2, p = 2> (x) }", opset=20),
        model("(float[N] x) => (y) { s = SequenceConstruct (x) y = ConcatFromSequence <axis = 1> (s) }"),
        model("(float[N] x) => (y) { s = SequenceConstruct (x) y = ConcatFromSequence <new_axis = 2, axis = 0> (s) }"),
        model("(float[N] x, float[N] s, float[N] f) => (y) { a = InstanceNormalization (x, s, s) y = Mul (a, f) }"),
    ],
    ids=["MeanVarianceNormalization", "LpNormalization", "axis", "new_axis", "InstanceNormalization"],
)
def test_what_runs_on_nothing_still_loads(proto: ModelProto, target: str) -> None:
    """ONNX Runtime loads these, and they name axes that there are not."""
    assert not load_error(proto)
    assert not load_error(surgeon.rewrite(proto, target=target, verify="none").model)
