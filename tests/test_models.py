"""Models that once came out wrong, invalid, or otherwise in a second run; each is right, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon.ir.run import load_error

MODELS = sorted((Path(__file__).parent / "models").glob("*.onnx"))


@pytest.mark.parametrize("target", ["8.4", "10.9"])
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_what_is_written_loads_and_a_second_run_changes_nothing(path: Path, target: str) -> None:
    first = surgeon.rewrite(path, target=target, verify="none")
    second = surgeon.rewrite(first.model, target=target, verify="none")
    assert second.model.SerializeToString(deterministic=True) == first.model.SerializeToString(deterministic=True)
    assert not load_error(first.model) or load_error(onnx.load(path))


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_without_the_proof_nothing_comes_out_that_the_proof_undoes(path: Path) -> None:
    assert not surgeon.rewrite(path, target="10.9").report.undone
