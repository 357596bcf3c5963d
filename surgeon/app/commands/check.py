"""`surgeon check`: the nodes that a target does not take, how sure that is, and the passes that mend them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from surgeon.app import arguments
from surgeon.app.commands import DONE, FAILED, WRONG
from surgeon.app.screen import Screen, complain
from surgeon.app.text import by_reason
from surgeon.app.verdicts import FORMATS, FileVerdict
from surgeon.errors import ModelError, UsageError
from surgeon.pipeline.check import Checked, Untaken, check
from surgeon.report import counted, target_name
from surgeon.targets.sureness import basis
from surgeon.targets.target import Target

HEADERS = ("node", "operator", "mended by", "why")


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    target, title = arguments.target_of(args)
    verdicts = []
    for file in _files(args.models):
        if args.format == "text":
            screen.line(f"{file}, {title}")
        verdicts.append(_verdict(file, args, target))
        if args.format == "text":
            _print(verdicts[-1], screen)
    if args.format == "text":
        _print_sum(verdicts, target, screen)
    elif text := FORMATS[args.format](verdicts):
        print(text)
    return _status(verdicts)


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
        inside = sorted(str(p) for p in Path(name).rglob("*.onnx") if p.is_file())
        if not inside:
            raise UsageError(f"the folder '{name}' has no .onnx file.")
        found += inside
    return found


# ---- one file --------------------------------------------------------------------------------------------------------


def _verdict(file: str, args: argparse.Namespace, target: Target) -> FileVerdict:
    try:
        checked = check(
            file,
            target=target,
            plugins=arguments.words(args.plugins),
            strategy=arguments.strategies(args.strategy),
            only=arguments.only(args.only),
            skip=arguments.skips(args.skip),
            passes=args.passes,
        )
    except (ModelError, OSError) as error:
        return FileVerdict(file, str(target), error=str(error))
    verdict = FileVerdict(file, str(target), checked, basis(target))
    return _with_parser(verdict, target) if args.parser else verdict


def _with_parser(verdict: FileVerdict, target: Target) -> FileVerdict:
    """The same with what the parser of the target says, where that TensorRT is installed here."""
    from surgeon.trt.ask import ask  # a check for another target starts without TensorRT

    answer = ask(verdict.file, target)
    if answer is None or verdict.checked is None:
        return verdict
    known = {u.node for u in verdict.checked.untaken}
    refused = [u for u in answer.refused if not u.node or u.node not in known]
    if refused:
        return replace(verdict, checked=_joined(verdict.checked, refused), sure=f"measured here: {answer.parser}")
    return verdict if known else replace(verdict, sure=f"measured here: {answer.parser} parses it")


def _joined(checked: Checked, refused: list[Untaken]) -> Checked:
    named = {u.node for u in refused}
    return replace(
        checked,
        untaken=[*checked.untaken, *refused],
        unknown=[u for u in checked.unknown if u.node not in named],
    )


# ---- printing --------------------------------------------------------------------------------------------------------


def _print(verdict: FileVerdict, screen: Screen) -> None:
    if verdict.checked is None:
        complain(verdict.error)
        return
    checked, name = verdict.checked, target_name(verdict.target)
    _print_groups("not taken", checked.untaken, screen, "bad")
    _print_groups("not known", checked.unknown, screen, "warn")
    screen.table("warning", ("",), [(w,) for w in checked.warnings], "warn")
    if verdict.taken:
        of_these = f" but {counted(len(checked.unknown), 'node')} that it cannot know" if checked.unknown else ""
        screen.line(f"{name} takes every node{of_these} ({verdict.sure})", "good")
        return
    mended = sum(bool(u.mended_by) for u in checked.untaken)
    rewrite = f"surgeon rewrite {shlex.quote(verdict.file)} OUT.onnx --target {verdict.target}"
    mend = f"passes mend {mended}; {rewrite}" if mended else "no pass mends that"
    screen.line(f"{name} does not take {counted(len(checked.untaken), 'node')}; {mend}", "bad")


def _print_groups(word: str, found: Sequence[Untaken], screen: Screen, style: str) -> None:
    """A reason, and below it the nodes that it is the reason of."""
    rows = [(u.node, u.op, u.mended_by or "no pass", u.why) for u in found]
    for reason, alike in by_reason(rows).items():
        screen.group(f"{word}: {reason}", HEADERS[:-1], [row[:-1] for row in alike], style)


def _print_sum(verdicts: Sequence[FileVerdict], target: Target, screen: Screen) -> None:
    if len(verdicts) == 1:
        return
    unreadable = sum(v.checked is None for v in verdicts)
    taken = sum(v.taken for v in verdicts)
    said = [f"{taken} of {len(verdicts)} files are taken by {target_name(str(target))}"]
    said += [f"{unreadable} cannot be read"] if unreadable else []
    screen.line("; ".join(said), "good" if taken == len(verdicts) else "bad")
