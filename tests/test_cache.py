"""The file of proofs: what is taken from it, what is not, and what is not an error."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
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
from surgeon.report import Report

NOBODY = 65534
posix = pytest.mark.skipif(os.name != "posix", reason="files have no owner and no mode here")
needs_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives a file away")
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


# ---- whom it believes ------------------------------------------------------------------------------------------------

WRONG = '''"""A pass that is wrong on purpose."""
from surgeon import Stage, const, op, rewrite, var
x, c = var("x"), const("c")

@rewrite(op.Max(x, op.Mul(x, c)), stage=Stage.FUSE)
def wrong(b, x, c):
    return b.Relu(x)
'''


@pytest.fixture
def poisoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of proofs, with a line in it that says of a wrong rewrite of LEAKY that it holds."""
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "wrong.py").write_text(WRONG)
    asked: list[bytes] = []
    identify = prove._asked

    def watched(*args):  # type: ignore[no-untyped-def]
        asked.append(identify(*args))
        return asked[-1]

    with monkeypatch.context() as patched:
        patched.setattr(prove, "_asked", watched)
        assert wrongly_rewritten(tmp_path).undone
    place = place_of_proofs()
    assert place is not None and not place.exists()
    place.write_text("".join(json.dumps([key.hex(), 0.0, ""]) + "\n" for key in asked))
    place.chmod(0o600)
    return place


def wrongly_rewritten(tmp_path: Path) -> Report:
    options = {"target": "10.9", "passes": tmp_path / "passes", "only": ["wrong"], "cache": True}
    return surgeon.rewrite(model(LEAKY), **options).report  # type: ignore[arg-type]


def test_a_line_that_this_user_wrote_is_believed(poisoned: Path, tmp_path: Path) -> None:
    """The line does what the next tests are about."""
    report = wrongly_rewritten(tmp_path)
    assert (len(report.applied), report.undone, report.warnings) == (1, [], [])


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@posix
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o620), "other users can write '{}' (mode 0620); a new file takes its place"),
        (lambda path: path.chmod(0o602), "other users can write '{}' (mode 0602); a new file takes its place"),
        (a_link, "'{}' is a link; a new file takes its place"),
        pytest.param(
            lambda path: os.chown(path, NOBODY, NOBODY),
            "another user (nobody) owns '{}'; a new file takes its place",
            marks=needs_root,
        ),
    ],
)
def test_a_line_in_a_file_of_others_is_not_believed(
    spoil: Callable[[Path], None], why: str, poisoned: Path, tmp_path: Path
) -> None:
    spoil(poisoned)
    report = wrongly_rewritten(tmp_path)
    assert (len(report.undone), report.applied) == (1, [])
    assert report.warnings == [f"proofs of earlier runs are not used: {why.format(poisoned)}"]
    surgeon.rewrite(model(LEAKY), target="10.9", cache=True)
    assert stat.S_IMODE(poisoned.lstat().st_mode) == 0o600
    report = wrongly_rewritten(tmp_path)
    assert (len(report.undone), report.warnings) == (1, []), "the line went with the file"


@posix
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda folder: folder.chmod(0o770), "other users can write '{}' (mode 0770); "),
        (lambda folder: folder.chmod(0o1777), "other users can write '{}' (mode 1777); "),
        pytest.param(
            lambda folder: os.chown(folder, NOBODY, NOBODY), "another user (nobody) owns '{}'; ", marks=needs_root
        ),
    ],
)
def test_a_line_in_a_folder_of_others_is_not_believed(
    spoil: Callable[[Path], None], why: str, poisoned: Path, tmp_path: Path
) -> None:
    spoil(poisoned.parent)
    before = poisoned.read_bytes()
    for _ in range(2):
        report = wrongly_rewritten(tmp_path)
        assert (len(report.undone), report.applied) == (1, [])
        (warning,) = report.warnings
        assert why.format(poisoned.parent) in warning and "SURGEON_CACHE" in warning
        surgeon.rewrite(model(LEAKY), target="10.9", cache=True)
        assert poisoned.read_bytes() == before, "nothing is written there, either"


@posix
def test_a_shared_cache_is_believed_where_it_is_asked_for(
    poisoned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned.chmod(0o666)
    poisoned.parent.chmod(0o777)
    monkeypatch.setenv("SURGEON_SHARED_CACHE", str(poisoned.parent))
    report = wrongly_rewritten(tmp_path)
    assert len(report.applied) == 1
    assert report.warnings == [
        f"proofs of earlier runs are believed, whoever wrote them to '{poisoned.parent}' (SURGEON_SHARED_CACHE)"
    ]


@posix
def test_a_shared_cache_has_the_modes_of_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURGEON_SHARED_CACHE", str(tmp_path / "shared"))
    before = os.umask(0o002)
    try:
        report = surgeon.rewrite(model(LEAKY), target="10.9", cache=True).report
    finally:
        os.umask(before)
    (file,) = (tmp_path / "shared").iterdir()
    assert [stat.S_IMODE(p.stat().st_mode) for p in (file, file.parent)] == [0o664, 0o775]
    assert report.warnings == [], "nothing was read"


@posix
def test_what_an_older_surgeon_wrote_is_believed(poisoned: Path, tmp_path: Path) -> None:
    """Others could read its file and its folder. They cannot read the file any more once a line is added."""
    poisoned.chmod(0o644)
    poisoned.parent.chmod(0o755)
    report = wrongly_rewritten(tmp_path)
    assert (len(report.applied), report.warnings) == (1, [])
    surgeon.rewrite(model(LEAKY), target="10.9", cache=True)
    assert stat.S_IMODE(poisoned.stat().st_mode) == 0o600


@posix
@pytest.mark.usefixtures("batches_here")
def test_many_models_say_it_once(poisoned: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("a.onnx", "b.onnx"):
        onnx.save(model(LEAKY), tmp_path / name)
    poisoned.parent.chmod(0o777)
    words = [str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "-o", str(tmp_path / "out"), "--target", "10.9"]
    assert main(["rewrite", *words]) == 0
    assert capfd.readouterr().out.count("proofs of earlier runs are not used") == 1
    for report in (tmp_path / "out" / "surgeon-reports").iterdir():
        assert json.loads(report.read_text())["warnings"][0].startswith("proofs of earlier runs are not used")


def test_a_pipe_gets_a_line_of_progress_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    with Screen().progress() as progress:
        for now[0], done in ((1.0, 1), (5.5, 2), (6.0, 3), (11.0, 4)):
            progress("proving", done, 9)
    assert capsys.readouterr().err == "proving 2 of 9, about 16 s left\nproving 4 of 9, about 12 s left\n"
