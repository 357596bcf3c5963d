"""Models that once came out wrong, invalid, or otherwise in a second run; each is right, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon.ir.run import load_error
from surgeon.proof import sizes, usual_sizes

MODELS = sorted((Path(__file__).parent / "models").glob("*.onnx"))


@pytest.mark.parametrize("target", ["8.4", "10.9"])
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_what_is_written_loads_and_a_second_run_changes_nothing(path: Path, target: str) -> None:
    first = surgeon.rewrite(path, target=target, verify="none")
    second = surgeon.rewrite(first.model, target=target, verify="none")
    assert second.model.SerializeToString(deterministic=True) == first.model.SerializeToString(deterministic=True)
    assert not load_error(first.model) or load_error(onnx.load(path))


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_without_the_proof_nothing_comes_out_that_the_proof_undoes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usual_sizes, "SECONDS", 1.0)  # of a model that runs at no sizes all are tried
    monkeypatch.setattr(sizes, "MOST_ELEMENTS", 1 << 16)
    assert not surgeon.rewrite(path, target="10.9").report.undone
