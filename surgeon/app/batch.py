"""Many models: a process a model, a line each, and a manifest, so that a second run does what is left.

A failure, a crash too, is one model's alone. The manifest is a JSON line a model, added when its files stand in their
places: a run that was killed is taken up where it stopped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surgeon.app.record import sha256, versions
from surgeon.errors import ModelError, UsageError
from surgeon.ir.files import read_all

MANIFEST = "surgeon-manifest.jsonl"
REPORTS = "surgeon-reports"  # the folder of the models' JSON reports
CRASHED = "the process ended by itself, with status {}"


@dataclass(frozen=True, slots=True)
class Unit:
    """One model of a batch: where it is, and where it goes; `name` is its path below the folders that were given."""

    source: Path
    out: Path
    report: Path
    name: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one model ended: its entry of the manifest, and whether an earlier run had done it."""

    entry: dict[str, Any]
    skipped: bool = False


def units(given: Sequence[str], out: Path) -> list[Unit]:
    """The models of files and folders, and their places below `out`. Raises UsageError, ModelError."""
    found: dict[str, Unit] = {}
    for source, name in _models(given):
        if out.resolve() in source.resolve().parents:
            raise UsageError(f"'{source}' stands in '{out}', where the results go. Name another folder with -o.")
        if name in found:
            raise UsageError(
                f"'{found[name].source}' and '{source}' would both be written to '{out / name}'. Name a folder that "
                "holds both."
            )
        found[name] = Unit(source, out / name, out / REPORTS / f"{name}.json", name)
    if not found:
        raise UsageError(f"there is no .onnx file in {', '.join(given)}.")
    return list(found.values())


def _models(given: Sequence[str]) -> Iterator[tuple[Path, str]]:
    for path in map(Path, given):
        if path.is_dir():
            yield from ((p, str(p.relative_to(path))) for p in sorted(path.rglob("*.onnx")))
        elif path.exists():
            yield path, path.name
        else:
            raise ModelError(f"there is no file '{path}'.")


def run_all(
    todo: Sequence[Unit], words: Sequence[str], out: Path, jobs: int, told: Callable[[Outcome], None]
) -> list[Outcome]:
    """Rewrite each model in a process of its own, `jobs` at a time, and tell each outcome as it comes.

    `words` are the options of `surgeon rewrite` that all share. On an interrupt the processes end, and nothing of
    theirs stays half written.
    """
    out.mkdir(parents=True, exist_ok=True)
    manifest = Manifest(out / MANIFEST)
    shared = {"options": list(words), "versions": versions()}
    processes = _Processes()
    outcomes = []
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(_run, unit, words, shared, manifest, processes) for unit in todo]
        try:
            for future in as_completed(futures):
                outcomes.append(future.result())
                told(outcomes[-1])
        except BaseException:
            processes.end()
            for future in futures:
                future.cancel()
            raise
    return outcomes


def _run(
    unit: Unit, words: Sequence[str], shared: dict[str, Any], manifest: Manifest, processes: _Processes
) -> Outcome:
    inputs = _hashes(unit.source)
    earlier = manifest.done(unit, inputs, shared)
    if earlier is not None:
        return Outcome(earlier, skipped=True)
    for place in (unit.out, unit.report):
        place.parent.mkdir(parents=True, exist_ok=True)
    unit.report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "surgeon", "rewrite", str(unit.source), str(unit.out), *words]
    status, said = processes.run([*command, "--quiet", "--report", str(unit.report)])
    entry = {"model": unit.name, "input": inputs, **shared, "status": status, **_result(unit, status, said)}
    manifest.add(entry)
    return Outcome(entry)


def _hashes(source: Path) -> dict[str, str]:
    """The hash of each file of a model by its name; of a model that cannot be read that of its file alone."""
    try:
        files: Sequence[Path] = read_all(source)[1]
    except ModelError:
        files = [source] if source.is_file() else []
    return {path.name: sha256(path) for path in files}


def _result(unit: Unit, status: int, said: str) -> dict[str, Any]:
    """What the manifest holds of a model's result."""
    if not unit.report.exists():
        why = said.strip().removeprefix("surgeon: ") or CRASHED.format(status)
        return {"output": {}, "error": why}
    report = json.loads(unit.report.read_text(encoding="utf-8"))
    record = report["record"]
    return {
        "output": {Path(f["path"]).name: f["sha256"] for f in record["output"]},
        "target": report["target"],
        "nodes": [sum(report["ops"][side].values()) for side in ("before", "after")],
        "untaken": [report["untaken_before"], len(report["untaken"])],
        "rewrites": len(report["applied"]),
        "undone": len(report["undone"]),
        "bytes": [sum(f["bytes"] for f in record[side]) for side in ("input", "output")],
        "seconds": report["seconds"],
    }


class Manifest:
    """The file that says what is done: a JSON line a model, the last line of a model counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._entries: dict[str, dict[str, Any]] = {}
        if not path.exists():
            return
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]  # a run that was killed may have left half a line
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        for line in whole.splitlines():
            entry = json.loads(line)
            self._entries[entry["model"]] = entry

    def done(self, unit: Unit, inputs: dict[str, str], shared: dict[str, Any]) -> dict[str, Any] | None:
        """The entry of a model that is done: the same input, options and versions, and its files as they were written.

        A model whose process gave no result is tried again.
        """
        entry = self._entries.get(unit.name)
        if entry is None or "error" in entry or entry["input"] != inputs:
            return None
        if any(entry[key] != value for key, value in shared.items()):
            return None
        stands = all(_stands(unit.out.parent / name, digest) for name, digest in entry["output"].items())
        return entry if stands else None

    def add(self, entry: dict[str, Any]) -> None:
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _stands(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path) == digest


class _Processes:
    """The processes that run, so that an interrupt can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._ended = False

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """The exit status of a command, and what it said on standard error."""
        with self._lock:
            if self._ended:
                return -1, "interrupted"
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="backslashreplace"
            )
            self._running.add(process)
        said = process.communicate()[1]
        with self._lock:
            self._running.discard(process)
        return process.returncode, said

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for process in self._running:
                process.terminate()


__all__ = ["MANIFEST", "REPORTS", "Outcome", "Unit", "run_all", "units"]
