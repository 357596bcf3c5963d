"""Every model of the corpus, for the targets that differ most: what surgeon writes is valid,
equal and final.

`tests/corpus` holds 493 exports of 115 modules by PyTorch's two exporters and tf2onnx;
`index.json` says which is which.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import onnx
import pytest
from helpers import compare_models

import surgeon
from surgeon.errors import ModelError
from surgeon.pipeline import session
from surgeon.proof.cache import ProofCache

CORPUS = Path(__file__).parent / "corpus"
INDEX: list[dict[str, Any]] = json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))
TARGETS = ("8.4", "10.9", "rtx")
# Pads computed from sizes: the sizes that a comparison chooses by itself are too small for them.
SHAPES = {
    "tf_pad_reflect_computed__tf2onnx_nchw": {"x": (1, 3, 21, 18)},
    "tf_pad_reflect_computed__tf2onnx_op": {"x": (1, 21, 18, 3)},
}
# Tf's Erfc is not an ONNX operator: neither the checker nor ONNX Runtime takes these files.
INVALID = {row["file"] for row in INDEX if row["module"] == "tf_gelu"}


@lru_cache(maxsize=1)
def _checked(file: str) -> bool:
    try:
        onnx.checker.check_model(str(CORPUS / file), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


PROOFS = ProofCache(None)


@pytest.fixture(autouse=True)
def _proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files and targets have the same windows: each is proved once."""
    monkeypatch.setattr(session, "ProofCache", lambda _: PROOFS)


@lru_cache(maxsize=len(TARGETS))
def _difference(file: str, written: bytes) -> str:
    """Why a file and what was written for it are not equal; the targets mostly get the same."""
    original, result = onnx.load(CORPUS / file), onnx.ModelProto.FromString(written)
    return compare_models(original, result, shapes=_shapes(file))[1]


def _shapes(file: str) -> dict[str, tuple[int, ...]] | None:
    return next((shapes for start, shapes in SHAPES.items() if file.startswith(start)), None)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("file", [row["file"] for row in INDEX])
def test_corpus(file: str, target: str) -> None:
    result = surgeon.rewrite(CORPUS / file, target=target)
    report = result.report
    assert not report.undone, report.undone
    written = result.model.SerializeToString(deterministic=True)
    second = surgeon.rewrite(result.model, target=target)
    assert not second.report.applied, f"a second run applies {[a.pass_name for a in second.report.applied]}"
    assert second.model.SerializeToString(deterministic=True) == written, "a second run writes different bytes"
    if file in INVALID:
        assert not report.applied
        return
    assert not report.untaken, "the target rejects, or reads wrongly, what surgeon wrote"
    if _checked(file):
        onnx.checker.check_model(result.model, full_check=True)
    if report.applied:
        assert not _difference(file, written)


def test_the_corpus_is_whole() -> None:
    assert len(INDEX) == 493 == len(list(CORPUS.glob("*.onnx")))


def test_invalid_models_are_declined_not_crashed_on() -> None:
    for file in sorted(INVALID):
        try:
            result = surgeon.rewrite(CORPUS / file, target="8.4")
        except ModelError:
            continue
        assert not result.report.applied and not _checked(file)
