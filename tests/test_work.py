"""How much a rewrite does for each node: calls of functions, which are the same on a busy machine. Seconds are not."""

from __future__ import annotations

import cProfile
import pstats
import sys
from pathlib import Path

import onnx
import pytest

import surgeon

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import speed

STEP = 200  # nodes
# Calls for a node, of Python and of C: what Python 3.11 counted on 28 November 2026, and 5 % more.
MOST = {"leaky": 99, "ordinary": 127, "torchscript": 103, "dynamo": 101, "l2": 283, "near_miss": 153}


def calls(name: str, nodes: int, folder: Path) -> int:
    """How many calls a rewrite without proof makes."""
    source = folder / "in.onnx"
    onnx.save(getattr(speed, name)(nodes), source)
    profile = cProfile.Profile()
    profile.runcall(surgeon.rewrite_file, source, folder / "out.onnx", target="10.9", verify="none")
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", MOST)
def test_a_further_node_costs_few_calls_however_many_there_are(name: str, tmp_path: Path) -> None:
    """A preparation that walks over the model once more shows here, and a rule that looks at every node."""
    calls(name, STEP, tmp_path)  # pays for what is done once a process
    small, middle, large = (calls(name, times * STEP, tmp_path) for times in (1, 2, 4))
    assert (large - middle) / (2 * STEP) < MOST[name]
    assert (large - middle) / 2 < 1.02 * (middle - small)
