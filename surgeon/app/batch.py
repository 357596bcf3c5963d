"""Many models: a process a model, a line each, and a manifest, so that a second run does what is left.

A failure, a crash too, is one model's alone. The manifest is a JSON line a model, added when its files are in their
places: a run that was killed is taken up where it stopped. A model that was finished just before, and has no line yet,
is known by its report, which has the hashes of all its files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surgeon.app.findings import FORMATS, Finding
from surgeon.app.record import sha256, versions
from surgeon.app.screen import Screen
from surgeon.errors import ModelError, UsageError
from surgeon.ir.files import read_all
from surgeon.ir.process import python

MANIFEST = "surgeon-manifest.jsonl"
REPORTS = "surgeon-reports"  # the folder of the models' JSON reports
# Starts the installed surgeon. `python -m surgeon` takes a folder of that name where the user is, as in a clone.
PROGRAM = "sys.argv[0] = 'surgeon'; from surgeon.__main__ import program; program()"
CRASHED = "the process ended by itself, with status {}"


@dataclass(frozen=True, slots=True)
class Unit(ABC):
    """One model of a batch, or one pair; `name` is its path below the folders that were given."""

    name: str
    sources: tuple[Path, ...]

    @abstractmethod
    def words(self) -> list[str]:
        """The command of `surgeon` for this model, but for the options that all share."""

    @abstractmethod
    def result(self, printed: str) -> dict[str, Any] | None:
        """What the manifest holds of the result, from what the process wrote or printed; None where there is none."""

    def prepare(self) -> None:  # noqa: B027
        """Do what has to be done before the process starts: nothing, for most."""

    def stands(self, entry: Mapping[str, Any]) -> bool:
        """Whether what an earlier run wrote is still there."""
        return True

    def finished(self, inputs: Mapping[str, str], shared: Mapping[str, Any]) -> dict[str, Any] | None:
        """The status and the result of an earlier run that wrote its files, and was killed before its manifest line.

        `inputs` are the hashes of the sources, `shared` the options and versions of this run.
        """
        return None


@dataclass(frozen=True, slots=True)
class Printing(Unit):
    """Models of which a command prints a JSON value, which the manifest has as `key`.

    more  further words of the command
    part  what the manifest has of the value
    """

    command: str
    key: str
    more: tuple[str, ...] = ()
    part: Callable[[Any], Any] = lambda value: value

    def words(self) -> list[str]:
        return [self.command, *map(word, self.sources), "--format", "json", *self.more]

    def result(self, printed: str) -> dict[str, Any] | None:
        try:
            return {self.key: self.part(json.loads(printed))}
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Rewriting(Unit):
    """A model to rewrite, and the places of the result and of its JSON report."""

    out: Path
    report: Path

    def prepare(self) -> None:
        for place in (self.out, self.report):
            place.parent.mkdir(parents=True, exist_ok=True)
        self.report.unlink(missing_ok=True)

    def words(self) -> list[str]:
        return ["rewrite", word(self.sources[0]), word(self.out), "--quiet", "--no-config", f"--report={self.report}"]

    def result(self, printed: str) -> dict[str, Any] | None:
        report = self._read()
        return None if report is None else self._result(report)

    def _read(self) -> dict[str, Any] | None:
        """The JSON report; None where there is none."""
        return json.loads(self.report.read_text(encoding="utf-8")) if self.report.exists() else None

    def _result(self, report: Mapping[str, Any]) -> dict[str, Any]:
        record = report["record"]
        return {
            "output": _digests(record["output"]),
            "target": report["target"],
            "nodes": [sum(report["ops"][side].values()) for side in ("before", "after")],
            "untaken": [report["untaken_before"], len(report["untaken"])],
            "rewrites": len(report["applied"]),
            "undone": len(report["undone"]),
            "bytes": [sum(f["bytes"] for f in record[side]) for side in ("input", "output")],
            "seconds": report["seconds"],
        }

    def stands(self, entry: Mapping[str, Any]) -> bool:
        places = ((self.out.parent / name, digest) for name, digest in entry["output"].items())
        return all(path.is_file() and sha256(path) == digest for path, digest in places)

    def finished(self, inputs: Mapping[str, str], shared: Mapping[str, Any]) -> dict[str, Any] | None:
        report = self._read()
        if report is None:
            return None
        record = report["record"]
        if (
            record["command"] != ["surgeon", *self.words(), *shared["options"]]
            or record["versions"] != shared["versions"]
        ):
            return None
        result = self._result(report)
        if _digests(record["input"]) != inputs or not self.stands(result):
            return None
        return {"status": record["exit_status"], **result}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one model ended: its entry of the manifest, and whether an earlier run had done it."""

    unit: Unit
    entry: dict[str, Any]
    skipped: bool = False


def units(given: Sequence[str], out: Path) -> list[Rewriting]:
    """The models of files and folders, and their places below `out`. Raises UsageError, ModelError."""
    found: dict[str, Rewriting] = {}
    for source, name in models(given):
        if out.resolve() in source.resolve().parents:
            raise UsageError(f"'{source}' is in '{out}', where the results go. Name another folder with -o.")
        if name in found:
            raise UsageError(
                f"'{found[name].sources[0]}' and '{source}' would both be written to '{out / name}'. Name a folder "
                "that holds both."
            )
        found[name] = Rewriting(name, (source,), out / name, out / REPORTS / f"{name}.json")
    if not found:
        raise UsageError(f"there is no .onnx file in {', '.join(given)}.")
    return list(found.values())


def models(given: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Each file, and each .onnx file in a folder and below, with its path below what was given. Raises ModelError."""
    for path in map(Path, given):
        if path.is_dir():
            yield from ((p, str(p.relative_to(path))) for p in sorted(path.rglob("*.onnx")) if p.is_file())
        elif path.exists():
            yield path, path.name
        else:
            raise ModelError(f"there is no file '{path}'.")


def word(path: Path) -> str:
    """A path as a word of a command: a name that begins with a hyphen would be an option."""
    return os.path.join(".", path) if str(path).startswith("-") else str(path)


def check_alone(args: argparse.Namespace, options: Sequence[str], what: str) -> None:
    """Raise UsageError where one of the options is given, each of which is for `what` alone."""
    for name in options:
        if getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} is for {what}")


def print_whole(
    outcomes: Sequence[Outcome],
    args: argparse.Namespace,
    screen: Screen,
    findings: Callable[[Outcome], Iterable[Finding]],
) -> None:
    """Print what a format for machines has of all outcomes together."""
    if args.format == "json":
        screen.text(json.dumps([o.entry for o in outcomes], indent=2, ensure_ascii=False))
    elif args.format in FORMATS:
        screen.text(FORMATS[args.format]([f for o in outcomes for f in findings(o)]))


def run_all(
    todo: Sequence[Unit],
    words: Sequence[str],
    manifest: str | Path | None,
    args: argparse.Namespace,
    screen: Screen,
    line: Callable[[Outcome], None],
    value: Callable[[Outcome], dict[str, Any]] = lambda outcome: outcome.entry,
) -> list[Outcome]:
    """Run the command of each model in a process of its own, `args.jobs` at a time.

    words     the options that all share
    manifest  the file of what is done; None keeps nothing
    line      prints an outcome, as it comes; with --format jsonl its JSON `value` is printed

    The outcomes are in the order of `todo`. On an interrupt the processes end, and nothing of theirs stays half
    written. Raises UsageError where there is no process.
    """
    if args.jobs < 1:
        raise UsageError(f"--jobs takes a number of processes, 1 at least, not {args.jobs}.")
    done = Manifest(None if manifest is None else Path(manifest))
    shared = {"options": list(words), "versions": versions()}
    processes = _Processes()
    outcomes: dict[Unit, Outcome] = {}
    skipped = 0
    with screen.progress() as progress, ThreadPoolExecutor(args.jobs) as pool:
        progress("models", 0, len(todo))
        futures = [pool.submit(_run, unit, words, shared, done, processes) for unit in todo]
        try:
            for future in as_completed(futures):
                outcome = future.result()
                outcomes[outcome.unit] = outcome
                if args.format == "text":
                    line(outcome)
                elif args.format == "jsonl":
                    screen.text(json.dumps(value(outcome) | {"skipped": outcome.skipped}, ensure_ascii=False))
                skipped += outcome.skipped  # what an earlier run did says nothing of the time that is left
                progress("models", len(outcomes) - skipped, len(todo) - skipped)
        except BaseException:
            processes.end()
            for future in futures:
                future.cancel()
            raise
    return [outcomes[unit] for unit in todo]


def _run(
    unit: Unit, words: Sequence[str], shared: dict[str, Any], manifest: Manifest, processes: _Processes
) -> Outcome:
    inputs = _hashes(unit.sources)
    earlier = manifest.done(unit, inputs, shared)
    if earlier is not None:
        return Outcome(unit, earlier, skipped=True)
    finished = unit.finished(inputs, shared)
    if finished is not None:
        entry = {"model": unit.name, "input": inputs, **shared, **finished}
        manifest.add(entry)
        return Outcome(unit, entry, skipped=True)
    unit.prepare()
    status, printed, said = processes.run([*python(PROGRAM), *unit.words(), *words])
    result = unit.result(printed) if status >= 0 else None  # one that a signal ended may have written, and not all
    if result is None:
        result = {"output": {}, "error": said.strip().removeprefix("surgeon: ") or CRASHED.format(status)}
    entry = {"model": unit.name, "input": inputs, **shared, "status": status, **result}
    manifest.add(entry)
    return Outcome(unit, entry)


def _hashes(sources: Sequence[Path]) -> dict[str, str]:
    """The hash of each file of the models by its name; of a model that cannot be read that of its file alone.

    The name of a file of a second model gets a number as a prefix.
    """
    found: dict[str, str] = {}
    for place, source in enumerate(sources):
        try:
            files: Sequence[Path] = read_all(source)[1]
        except ModelError:
            files = [source] if source.is_file() else []
        found |= {f"{place}/{path.name}" if place else path.name: sha256(path) for path in files}
    return found


class Manifest:
    """The file that says what is done: a JSON line a model, the last line of a model counts."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._entries: dict[str, dict[str, Any]] = {}
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
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
        return entry if unit.stands(entry) else None

    def add(self, entry: dict[str, Any]) -> None:
        if self._path is None:
            return
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _digests(files: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The hash of each file of a record by its name."""
    return {Path(file["path"]).name: file["sha256"] for file in files}


class _Processes:
    """The processes that run, so that an interrupt can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._ended = False

    def run(self, command: Sequence[str]) -> tuple[int, str, str]:
        """The exit status of a command, what it printed, and its standard error."""
        with self._lock:
            if self._ended:
                return -1, "", "interrupted"
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="backslashreplace"
            )
            self._running.add(process)
        printed, said = process.communicate()
        with self._lock:
            self._running.discard(process)
        return process.returncode, printed, said

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for process in self._running:
                process.terminate()
