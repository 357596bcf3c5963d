"""Many models in one run: a process each, resumable, the same bytes as one by one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import onnx.parser
import pytest
from program import on_terminal

import surgeon
from surgeon.app import screen
from surgeon.app.batch import MANIFEST, REPORTS
from surgeon.app.cli import main

ROOT = Path(__file__).resolve().parent.parent
NORM = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3,8,8] y) <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}> {
  [norm] y = InstanceNormalization <epsilon = EPS> (x, s, b)
}"""
Captured = pytest.CaptureFixture[str]


def models(folder: Path, count: int) -> Path:
    folder.mkdir()
    (folder / "deep").mkdir()
    for k in range(count):
        place = folder / "deep" if k % 2 else folder
        onnx.save(onnx.parser.parse_model(NORM.replace("EPS", f"{k + 1}e-3")), place / f"m{k}.onnx")
    return folder


def run(*words: str | Path) -> int:
    return main([str(w) for w in words])


def entries(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / MANIFEST).read_text().splitlines()]


def written(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*.onnx"))}


def heed_interrupts() -> None:
    """A shell starts what runs after it deaf to Ctrl-C, and so all that comes from there, this test among them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def alive(out: Path) -> bool:
    """Whether a process still runs whose command names the folder (on Linux; elsewhere nobody knows)."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(out).encode() in command.read_bytes():
                return True
    return False


def one_by_one(folder: Path) -> dict[str, bytes]:
    results = {p: surgeon.rewrite(p, target="8.4") for p in sorted(folder.rglob("*.onnx"))}
    return {str(p.relative_to(folder)): r.model.SerializeToString(deterministic=True) for p, r in results.items()}


def test_a_folder_and_its_summary(tmp_path: Path, capsys: Captured) -> None:
    source, out = models(tmp_path / "in", 4), tmp_path / "out"
    assert run("rewrite", source, "-o", out, "--jobs", "2", "--target", "8.4") == 0
    printed = capsys.readouterr().out.splitlines()
    lines = sorted(line.split("  ")[0] for line in printed[:4])
    assert lines == ["deep/m1.onnx", "deep/m3.onnx", "m0.onnx", "m2.onnx"]
    assert all("TensorRT 8.4 supports 9 of 9 nodes; 1 rewrite; " in line for line in printed[:4])
    assert printed[-1] == "4 models; 4 done"
    assert printed[-2].startswith("result  done  4 models  4 rewrites  4 unsupported before  0 now")
    assert written(out) == one_by_one(source)
    assert sorted(p.name for p in (out / REPORTS).rglob("*.json")) == [f"m{k}.onnx.json" for k in range(4)]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_shows_how_many_models_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "PATIENCE", 0.0)
    given = models(tmp_path / "given", 2)
    status, lines = on_terminal(100, "rewrite", given, "-o", tmp_path / "out", "--jobs", "1", "--target", "8.4")
    shown = "\n".join(lines)
    assert status == 0 and "0/2" in shown and re.search(r"1/2 about \d+ s left", shown)
    assert all(f"{name}  TensorRT 8.4 supports" in shown for name in written(tmp_path / "out"))


def test_a_batch_inside_a_clone_runs_the_installed_surgeon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder `surgeon` where the user is is not what runs."""
    source = models(tmp_path / "in", 1)
    (tmp_path / "surgeon").mkdir()
    (tmp_path / "surgeon" / "__init__.py").write_text("raise ImportError('the folder of the clone')")
    monkeypatch.chdir(tmp_path)
    assert run("rewrite", source, "-o", "out", "--target", "8.4") == 0


@pytest.mark.usefixtures("batches_here")
def test_a_failure_stops_nothing(tmp_path: Path, capsys: Captured) -> None:
    source, out = models(tmp_path / "in", 2), tmp_path / "out"
    (source / "broken.onnx").write_bytes(b"no model")
    assert run("rewrite", source, "-o", out, "--target", "8.4", "--format", "jsonl") == 2
    told = {e["model"]: e for e in map(json.loads, capsys.readouterr().out.splitlines())}
    assert told["broken.onnx"]["status"] == 2 and "is not an ONNX model" in told["broken.onnx"]["error"]
    assert told["m0.onnx"]["status"] == 0 == told["deep/m1.onnx"]["status"]
    assert list(written(out)) == ["deep/m1.onnx", "m0.onnx"]
    assert run("rewrite", source, "-o", out, "--target", "8.4", "--exit-zero") == 2, "it is not read all the same"


@pytest.mark.usefixtures("batches_here")
def test_a_model_that_was_finished_without_its_line_is_not_done_again(tmp_path: Path, capsys: Captured) -> None:
    """A run that is killed between a model's end and its line of the manifest leaves just that."""
    source, out = models(tmp_path / "in", 2), tmp_path / "out"
    words = ["rewrite", source, "-o", out, "--target", "8.4", "--format", "jsonl"]
    assert run(*words) == 0
    lines = sorted(entries(out), key=str)

    def skipped() -> set[str]:
        (out / MANIFEST).write_text("")
        capsys.readouterr()
        assert run(*words) == 0
        return {e["model"] for e in map(json.loads, capsys.readouterr().out.splitlines()) if e["skipped"]}

    assert skipped() == {"m0.onnx", "deep/m1.onnx"}
    assert sorted(entries(out), key=str) == lines
    (out / "m0.onnx").write_bytes(b"half of it")
    assert skipped() == {"deep/m1.onnx"}
    onnx.save(onnx.parser.parse_model(NORM.replace("EPS", "0.5")), source / "m0.onnx")
    assert skipped() == {"deep/m1.onnx"}
    words.append("--verify=none")
    assert skipped() == set()


@pytest.mark.usefixtures("batches_here")
def test_a_second_run_does_what_changed(tmp_path: Path, capsys: Captured) -> None:
    source, out = models(tmp_path / "in", 3), tmp_path / "out"
    words = ["rewrite", source, "-o", out, "--target", "8.4"]

    def skipped(*more: str) -> set[str]:
        capsys.readouterr()
        assert run(*words, "--format", "jsonl", *more) == 0
        return {e["model"] for e in map(json.loads, capsys.readouterr().out.splitlines()) if e["skipped"]}

    assert skipped() == set()
    assert skipped() == {"m0.onnx", "deep/m1.onnx", "m2.onnx"}
    (out / "m0.onnx").write_bytes(b"somebody else's")
    onnx.save(onnx.parser.parse_model(NORM.replace("EPS", "0.5")), source / "m2.onnx")
    assert skipped() == {"deep/m1.onnx"}
    assert written(out) == one_by_one(source)
    assert skipped("--skip", "fold") == set()


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_half_way_and_taken_up_again(
    number: signal.Signals, tmp_path: Path, capsys: Captured, request: pytest.FixtureRequest
) -> None:
    source, out = models(tmp_path / "in", 5), tmp_path / "out"
    command = [sys.executable, "-m", "surgeon", "rewrite", source, "-o", out, "--jobs", "2", "--target", "8.4"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    while not (out / MANIFEST).exists() or len(entries(out)) < 1:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    os.kill(process.pid, number)
    said = process.communicate()[1]
    assert process.returncode == (130 if number == signal.SIGINT else -number), said
    before = [e["model"] for e in entries(out) if "error" not in e]
    assert 1 <= len(before) < 5
    if number == signal.SIGKILL:
        with (out / MANIFEST).open("a") as file:
            file.write('{"model": "m0.on')  # what a kill in the middle of a line leaves
        while alive(out):  # the processes of the killed run end by themselves
            time.sleep(0.05)
    finished = {
        p: p.stat().st_mtime_ns for p in out.rglob("*.onnx") if (out / REPORTS / f"{p.relative_to(out)}.json").exists()
    }
    assert len(finished) >= len(before), "some may have no line yet"
    request.getfixturevalue("batches_here")
    assert run("rewrite", source, "-o", out, "--target", "8.4") == 0
    assert f"5 models, {len(finished)} of them done before; 5 done" in capsys.readouterr().out
    assert all(p.stat().st_mtime_ns == written_at for p, written_at in finished.items())
    done = [e["model"] for e in entries(out) if "error" not in e]
    assert sorted(done) == sorted(set(done)) and len(done) == 5, "no model is done twice"
    assert written(out) == one_by_one(source)


@pytest.mark.usefixtures("batches_here")
def test_pairs_of_two_folders(tmp_path: Path, capsys: Captured) -> None:
    """One is changed, one is not there, one cannot be read; a second run does what gave no result."""
    source, out = models(tmp_path / "in", 4), tmp_path / "out"
    assert run("rewrite", source, "-o", out, "--target", "8.4") == 0
    onnx.save(onnx.parser.parse_model(NORM.replace("EPS", "0.9")), out / "deep" / "m1.onnx")
    (out / "m2.onnx").unlink()
    (out / "deep" / "m3.onnx").write_bytes(b"no model")
    capsys.readouterr()
    words = ["compare", source, out, "--jobs", "2", "-o", tmp_path / "compared.jsonl", "--no-trt"]
    assert run(*words) == 2
    *lines, last = capsys.readouterr().out.splitlines()
    told = dict(line.split("  ", 1) for line in lines)
    assert told["m0.onnx"].startswith("the models agree on ") and "largest error " in told["m0.onnx"]
    assert told["deep/m1.onnx"].startswith("the models differ (")
    assert told["m2.onnx"].startswith("FAILED: there is no file") and "is not an ONNX model" in told["deep/m3.onnx"]
    assert last == "1 of 4 pairs agree; 2 could not be compared"
    assert run(*words, "--format", "jsonl", "--exit-zero") == 2
    again = {e["model"]: e["skipped"] for e in map(json.loads, capsys.readouterr().out.splitlines())}
    assert again == {"m0.onnx": True, "deep/m1.onnx": True, "m2.onnx": False, "deep/m3.onnx": False}
    assert run(*words, "--format", "github") == 2
    kinds = [line.split("::")[1].split("title=surgeon ")[1] for line in capsys.readouterr().out.splitlines()]
    assert sorted(kinds) == ["differs", "unreadable", "unreadable"]


def test_what_compares_one_pair_alone(tmp_path: Path, capsys: Captured) -> None:
    source = models(tmp_path / "in", 2)
    assert run("compare", source, source, "--bisect", tmp_path / "b") == 2
    assert "--bisect is for one pair" in capsys.readouterr().err
    assert run("compare", source, source / "m0.onnx") == 2
    assert "folder by folder" in capsys.readouterr().err


@pytest.mark.usefixtures("batches_here")
@pytest.mark.parametrize("form", ["sarif", "github", "json"])
def test_what_a_batch_found_for_machines(form: str, tmp_path: Path, capsys: Captured) -> None:
    source = models(tmp_path / "in", 1)
    (source / "broken.onnx").write_bytes(b"no model")
    assert run("rewrite", source, "-o", tmp_path / "out", "--target", "8.4", "--format", form) == 2
    printed = capsys.readouterr().out
    if form == "github":
        (line,) = printed.splitlines()
        assert line.startswith("::error file=") and "title=surgeon unreadable::" in line
    elif form == "sarif":
        (found,) = json.loads(printed)["runs"][0]["results"]
        assert found["ruleId"] == "unreadable"
    else:
        assert [e["model"] for e in json.loads(printed)] == ["broken.onnx", "m0.onnx"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["in/a.onnx", "in/b.onnx", "c.onnx"], "-o OUT/"),
        (["in", "in/a.onnx", "-o", "out/"], "would both be written to"),
        (["in", "-o", "out/", "--check"], "--check is for one model"),
        (["in", "-o", "out/", "--jobs", "0"], "1 at least"),
        (["in", "-o", "in"], "is in 'in'"),
        (["empty", "-o", "out/"], "there is no .onnx file in empty"),
        (["no.onnx", "-o", "out/"], "there is no file 'no.onnx'"),
    ],
)
def test_what_does_not_go_together(
    words: list[str], said: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "empty").mkdir()
    for name in ("a", "b"):
        onnx.save(onnx.parser.parse_model(NORM.replace("EPS", "1e-3")), tmp_path / "in" / f"{name}.onnx")
    assert run("rewrite", *words, "--target", "8.4") == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_name_that_begins_with_a_hyphen_is_no_option(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are the folder's: one such as --passes=mine would run code."""
    (tmp_path / "in").mkdir()
    onnx.save(onnx.parser.parse_model(NORM.replace("EPS", "0.1")), tmp_path / "in" / "--skip=instance-norm.onnx")
    monkeypatch.chdir(tmp_path / "in")
    assert run("rewrite", ".", "-o", "../out/", "--target", "8.4") == 0
    assert run("check", ".", "-o", "../checked.jsonl", "--target", "8.4") == 1
    printed = capsys.readouterr().out
    assert "1 rewrite; " in printed and "1 cannot be read" not in printed
