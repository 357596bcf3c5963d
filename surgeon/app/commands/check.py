"""`surgeon check`: the nodes that a target does not support, how sure that is, and the passes that fix them."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surgeon.app import arguments
from surgeon.app.batch import Outcome, Printing, models, run_all
from surgeon.app.commands import DONE, FAILED, WRONG, ended
from surgeon.app.findings import FORMATS, NOT_TAKEN, ON_GPU, UNKNOWN, UNREADABLE, WARNING, Finding
from surgeon.app.screen import Screen, complain
from surgeon.errors import ModelError, UsageError
from surgeon.pipeline.check import Checked, Untaken, check
from surgeon.pipeline.misplaced import Misplaced
from surgeon.pipeline.option import from_text, words_of
from surgeon.pipeline.options import CheckOptions
from surgeon.report import counted, grouped, target_name
from surgeon.targets.evidence import basis
from surgeon.targets.target import Target
from surgeon.verdict_text import merged, nameless, shared_reason
from surgeon.version import __version__

HEADERS = ("node", "operator", "fixed by")
SCHEMA = 1


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    target, title = arguments.target_of(args)
    files = _files(args.models)
    if len(files) > 1 or args.out is not None:
        verdicts = _many(files, args, target, screen)
    else:
        verdicts = [_verdict(files[0], args, target)]
        if args.format == "text":
            screen.line(f"{files[0]}, {title}")
            _print(verdicts[0], screen)
    if args.format in FORMATS and (text := FORMATS[args.format]([f for v in verdicts for f in v.findings()])):
        screen.text(text)
    elif args.format == "json" or (args.format == "jsonl" and len(files) == 1 and args.out is None):
        one = args.format == "jsonl"
        screen.text(json.dumps(verdicts[0].to_json(), ensure_ascii=False) if one else as_json(verdicts))
    return ended(_status(verdicts), args.exit_zero)


def _status(verdicts: Sequence[FileVerdict]) -> int:
    if any(v.checked is None for v in verdicts):
        return WRONG
    return DONE if all(v.taken for v in verdicts) else FAILED


def _files(given: Sequence[str]) -> list[str]:
    """The files, and in place of a folder every .onnx file in it and below. Raises UsageError where it has none."""
    found = []
    for name in given:
        if not Path(name).is_dir():
            found.append(name)
            continue
        inside = [str(path) for path, _ in models([name])]
        if not inside:
            raise UsageError(f"the folder '{name}' has no .onnx file.")
        found += inside
    return found


# ---- many files ------------------------------------------------------------------------------------------------------


def _many(files: Sequence[str], args: argparse.Namespace, target: Target, screen: Screen) -> list[FileVerdict]:
    """The verdict on each file, from its own process, printed as it comes."""
    if args.format == "text":
        screen.line(f"{counted(len(files), 'file')}, {arguments.target_of(args)[1]}")

    def line(outcome: Outcome) -> None:
        verdict = _verdict_of(outcome, target)
        screen.line(f"{verdict.file}  {_sentence(verdict)}", "" if verdict.taken else "bad")
        if args.verbose and not verdict.taken:
            _print_nodes(verdict, screen)

    more = ("--quiet", "--no-config")
    todo = [Printing(f, (Path(f),), "check", "verdict", more, lambda value: value["files"][0]) for f in files]
    words = words_of(CheckOptions, vars(args)) + ([] if args.parser else ["--no-parser"])
    outcomes = run_all(todo, words, args.out, args, screen, line, lambda o: _verdict_of(o, target).to_json())
    verdicts = [_verdict_of(o, target) for o in outcomes]
    if args.format == "text":
        _print_sum(verdicts, target, screen)
    return verdicts


def _verdict_of(outcome: Outcome, target: Target) -> FileVerdict:
    file = str(outcome.unit.sources[0])
    if "error" in outcome.entry:
        return FileVerdict(file, str(target), error=outcome.entry["error"])
    return FileVerdict.from_json(outcome.entry["verdict"])


# ---- one file --------------------------------------------------------------------------------------------------------


def _verdict(file: str, args: argparse.Namespace, target: Target) -> FileVerdict:
    try:
        checked = check(file, **vars(from_text(CheckOptions, vars(args))) | {"target": target})
    except (ModelError, OSError) as error:
        return FileVerdict(file, str(target), error=str(error))
    verdict = FileVerdict(file, str(target), checked, basis(target))
    return _with_parser(verdict, target) if args.parser else verdict


def _with_parser(verdict: FileVerdict, target: Target) -> FileVerdict:
    """The verdict with the refusals of the target's parser, where that TensorRT is installed here."""
    from surgeon.trt.refusals import ask  # a check for another target starts without TensorRT

    answer = ask(verdict.file, target)
    if answer is None or answer.why_not or verdict.checked is None:
        return verdict
    known = {u.node for u in verdict.checked.untaken}
    refused = [u for u in answer.refused if not u.node or u.node not in known]
    if refused:
        checked, named = verdict.checked, {u.node for u in refused}
        unknown = [u for u in checked.unknown if u.node not in named]
        checked = replace(checked, untaken=[*checked.untaken, *refused], unknown=unknown)
        return replace(verdict, checked=checked, sure=f"measured here: {answer.parser}")
    return verdict if known else replace(verdict, sure=f"measured here: {answer.parser} parses it")


# ---- printing --------------------------------------------------------------------------------------------------------


def _print(verdict: FileVerdict, screen: Screen) -> None:
    if verdict.checked is None:
        complain(verdict.error)
        return
    _print_nodes(verdict, screen)
    screen.line(_sentence(verdict), "good" if verdict.taken else "bad")
    if any(u.fixed_by for u in (*verdict.checked.untaken, *verdict.checked.unknown)):
        screen.command(f"  surgeon fix {shlex.quote(verdict.file)} --for {verdict.target}")


def _print_nodes(verdict: FileVerdict, screen: Screen) -> None:
    if verdict.checked is None:
        return
    print_groups("unsupported", verdict.checked.untaken, screen, "bad")
    advice = dict.fromkeys((u.op, u.advice) for u in verdict.checked.untaken if u.advice)
    screen.table("advice", ("operator", "advice"), list(advice))
    print_groups("unknown", verdict.checked.unknown, screen, "warn")
    found = verdict.checked.misplaced
    rows = [(m.node, m.op, m.how, f"{m.why}; {m.cost}") for m in found]
    _print_rows("misplaced", rows, screen, "warn")
    screen.table("warning", ("",), [(w,) for w in merged(verdict.checked.warnings)], "warn")


def _sentence(verdict: FileVerdict) -> str:
    """The verdict on one file."""
    if verdict.checked is None:
        return f"FAILED: {' '.join(verdict.error.split())}"
    untaken, name = verdict.checked.untaken, target_name(verdict.target)
    if not untaken:
        unknown = len(verdict.checked.unknown)
        except_these = f" except {counted(unknown, 'unknown node')}" if unknown else ""
        return f"{name} supports every node{except_these} ({verdict.sure})"
    mended = sum(bool(u.fixed_by) for u in untaken)
    mend = f"surgeon can fix {mended}" if mended else "no pass fixes this"
    gpu = len(untaken) - len(verdict.checked.refused)
    runs = f"; the GPU runs {gpu} of them" if gpu else ""
    return f"{name}: {counted(len(untaken), 'unsupported node')}{runs}; {mend}"


def print_groups(word: str, found: Sequence[Untaken], screen: Screen, style: str) -> None:
    """Print each reason, and below it its nodes."""
    _print_rows(word, [(u.node, u.op, u.fixed_by or "no pass", u.why) for u in found], screen, style)


def _print_rows(word: str, rows: Sequence[tuple[str, ...]], screen: Screen, style: str) -> None:
    for reason, alike in _by_reason(rows).items():
        screen.group(f"{word}: {reason}", HEADERS, [row[:-1] for row in alike], style)


def _by_reason(rows: Iterable[tuple[str, ...]]) -> dict[str, list[tuple[str, ...]]]:
    """Rows by their last cell, a reason; reasons that differ only in names are one."""
    groups = grouped((nameless(row[-1]), row) for row in rows).values()
    return {shared_reason([r[-1] for r in alike]): alike for alike in groups}


def _print_sum(verdicts: Sequence[FileVerdict], target: Target, screen: Screen) -> None:
    """Print the unsupported nodes by operator, and how many files are supported."""
    pairs = ((u, v.file) for v in verdicts if v.checked is not None for u in v.checked.untaken)
    found = grouped(((u.op or "-", u.fixed_by or "no pass"), file) for u, file in pairs)
    rows = [(op, str(len(files)), str(len(set(files))), by) for (op, by), files in sorted(found.items())]
    plain = ("{}", "{} nodes", "{} files", "{}")
    screen.table("unsupported", ("operator", "nodes", "files", "fixed by"), rows, "bad", plain)
    unreadable = sum(v.checked is None for v in verdicts)
    taken = sum(v.taken for v in verdicts)
    said = [f"{target_name(str(target))} supports {taken} of {counted(len(verdicts), 'file')}"]
    said += [f"{unreadable} cannot be read"] if unreadable else []
    screen.line("; ".join(said), "good" if taken == len(verdicts) else "bad")


# ---- the verdict on a file -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """One file: what was found in it, or why it cannot be read; `sure` is the evidence for the verdict."""

    file: str
    target: str
    checked: Checked | None = None
    sure: str = ""
    error: str = ""

    @property
    def taken(self) -> bool:
        """Whether the target supports every known node; a node that the GPU beside a DLA runs counts as supported."""
        return self.checked is not None and not self.checked.refused

    def to_json(self) -> dict[str, Any]:
        checked = self.checked
        return {
            "file": self.file,
            "target": self.target,
            "readable": checked is not None,
            "taken": self.taken,
            "sure": self.sure,
            "untaken": [] if checked is None else [u.to_json() for u in checked.untaken],
            "unknown": [] if checked is None else [u.to_json() for u in checked.unknown],
            "misplaced": [] if checked is None else [m.to_json() for m in checked.misplaced],
            "warnings": [] if checked is None else checked.warnings,
            "error": self.error,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FileVerdict:
        """The verdict that `to_json` wrote, but for what a rewrite would do."""
        if not value["readable"]:
            return cls(value["file"], value["target"], error=value["error"])
        untaken, unknown = ([Untaken.from_json(u) for u in value[key]] for key in ("untaken", "unknown"))
        placed = [Misplaced(**found) for found in value["misplaced"]]
        checked = Checked(value["target"], untaken, value["warnings"], unknown, misplaced=placed)
        return cls(value["file"], value["target"], checked, value["sure"])

    def findings(self) -> Iterator[Finding]:
        """All findings in the file."""
        if self.checked is None:
            yield Finding(self.file, UNREADABLE, self.error)
            return
        name = target_name(self.target)
        for found in self.checked.untaken:
            by = f"fixed by {found.fixed_by}" if found.fixed_by else "no pass fixes it"
            by += f"; advice: {found.advice}" if found.advice else ""
            kind = ON_GPU if found.on_gpu else NOT_TAKEN
            yield Finding(self.file, kind, f"{name} does not support {found}; {by}", found.node)
        for found in self.checked.unknown:
            yield Finding(self.file, UNKNOWN, f"{name}, {found}", found.node)
        for placed in self.checked.misplaced:
            yield Finding(self.file, WARNING, str(placed), placed.node)
        for warning in self.checked.warnings:
            yield Finding(self.file, WARNING, warning)


def as_json(verdicts: Sequence[FileVerdict]) -> str:
    """All files as one JSON value."""
    value = {"schema": SCHEMA, "surgeon": __version__, "files": [v.to_json() for v in verdicts]}
    return json.dumps(value, indent=2, ensure_ascii=False)
