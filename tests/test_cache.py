"""The file of proofs: what is taken from it, what is not, and what is no error."""

from __future__ import annotations

import time
from pathlib import Path

import onnx
import pytest
from helpers import model

import surgeon
from surgeon.app.cli import main
from surgeon.app.screen import Screen
from surgeon.proof import cache, prove
from surgeon.proof.cache import ProofCache, place_of_proofs
from surgeon.proof.judge import Verdict

LEAKY = "(float[2,N] x) => (float[2,N] y) <float c = {0.25}> { m = Mul (x, c)  y = Max (x, m) }"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The pairs that were run."""
    pairs: list[object] = []
    judge = prove.judge

    def watched(pair, *args, **options):  # type: ignore[no-untyped-def]
        pairs.append(pair)
        return judge(pair, *args, **options)

    monkeypatch.setattr(prove, "judge", watched)
    return pairs


def test_a_second_run_proves_nothing_anew(judged: list[object]) -> None:
    reports = [surgeon.rewrite(model(LEAKY), target="10.9", cache=True).report for _ in range(2)]
    assert len(judged) == 1
    assert [a.max_error for a in reports[0].applied] == [a.max_error for a in reports[1].applied]


def test_without_the_cache_everything_is_proved(judged: list[object]) -> None:
    for _ in range(2):
        surgeon.rewrite(model(LEAKY), target="10.9")
    assert len(judged) == 2


def test_the_command_line_has_the_cache_unless_told_otherwise(judged: list[object], tmp_path: Path) -> None:
    onnx.save(model(LEAKY), tmp_path / "in.onnx")
    words = ["rewrite", str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--target", "10.9"]
    assert (main(words), main(words), len(judged)) == (0, 0, 1)
    assert main([*words, "--no-cache"]) == 0 and len(judged) == 2


def test_what_did_not_hold_is_not_kept() -> None:
    place = place_of_proofs()
    proofs = ProofCache(place)
    proofs.update({b"good": Verdict(True, 1e-6, "said"), b"bad": Verdict(False, 1.0, "why"), b"none": Verdict(None)})
    proofs.save()
    assert dict(ProofCache(place)) == {b"good": Verdict(True, 1e-6, "said")}


def test_what_is_broken_in_the_file_is_passed_over() -> None:
    place = place_of_proofs()
    assert place is not None
    proofs = ProofCache(place)
    proofs[b"good"] = Verdict(True, None)
    proofs.save()
    with open(place, "ab") as file:
        file.write(b'["abcd", 0.0, ""\n[1]\n\xff\xfe\n["zz", 0, ""]\n')
    assert dict(ProofCache(place)) == {b"good": Verdict(True, None)}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SURGEON_CACHE", str(tmp_path / "file"))
    assert len(surgeon.rewrite(model(LEAKY), target="10.9", cache=True).report.applied) == 1


def test_other_code_has_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    before = place_of_proofs()
    monkeypatch.setattr(cache, "_code", lambda: "other")
    assert place_of_proofs() != before


def test_a_file_that_has_grown_large_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_of_proofs()
    monkeypatch.setattr(cache, "MOST_BYTES", 10)
    for name in (b"first", b"second"):
        proofs = ProofCache(place)
        proofs[name] = Verdict(True)
        proofs.save()
    assert set(ProofCache(place)) == {b"second"}


def test_a_pipe_gets_a_line_of_progress_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    with Screen().progress() as progress:
        for now[0], done in ((1.0, 1), (5.5, 2), (6.0, 3), (11.0, 4)):
            progress("proving", done, 9)
    assert capsys.readouterr().err == "proving 2 of 9\nproving 4 of 9\n"
