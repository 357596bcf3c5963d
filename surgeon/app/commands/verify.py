"""`surgeon verify REPORT`: the files of a report's record are those of then, and its proofs hold again."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from surgeon.app import arguments, trust
from surgeon.app.commands import DONE, FAILED, rewrite
from surgeon.app.commands.many import shared_words
from surgeon.app.record import sha256, versions
from surgeon.app.screen import Screen
from surgeon.errors import ModelError, UsageError
from surgeon.report import counted

SAME = ("pass", "strategy", "root", "outputs", "removed", "added")  # what a rewrite must have in common with then


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    then = _read(Path(args.report))
    record = then["record"]
    for name, now in versions().items():
        before = record["versions"].get(name)
        if before != now:
            screen.line(f"warning  {name} was {before or 'not there'} then, and is {now} now", "warn")
    wrong = list(_changed(record))
    if not any(line.startswith("input") for line in wrong):
        wrong += _done_again(then, Path(args.report))
    for line in wrong:
        screen.line(line, "bad")
    proved = counted(len(then["applied"]), "rewrite")
    if not wrong:
        screen.line(f"the files are those of {record['date']}; {proved} made and proved again", "good")
    return FAILED if wrong else DONE


def _read(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"there is no file '{path}'.") from None
    except ValueError as error:
        raise ModelError(f"'{path}' is not JSON: {error}.") from None
    if not _is_whole(report):
        raise UsageError(f"'{path}' is no report with a record: `surgeon rewrite --report {path.name}` writes one.")
    return report


def _is_whole(report: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a report has the fields that are read here, each of its type."""
    if not _has(report, target=str, applied=list, undone=list, record=dict):
        return False
    record = report["record"]
    if not _has(record, date=str, versions=dict, options=dict, input=list, output=list) or not record["input"]:
        return False
    files = (*record["input"], *record["output"])
    return all(_has(file, path=str, sha256=str) for file in files) and all(
        _has(rewrite, **dict.fromkeys(SAME, object)) for rewrite in report["applied"]
    )


def _has(value: Any, **fields: type) -> bool:
    return isinstance(value, dict) and all(name in value and isinstance(value[name], f) for name, f in fields.items())


def _changed(record: Mapping[str, Any]) -> Iterator[str]:
    """A line for each file that is not what it was."""
    for side in ("input", "output"):
        for file in record[side]:
            path = Path(file["path"])
            if not path.is_file():
                yield f"{side} '{path}' is not there any more"
            elif sha256(path) != file["sha256"]:
                yield f"{side} '{path}' is another file than it was then"


def _done_again(then: Mapping[str, Any], path: Path) -> Iterator[str]:
    """Rewrite the input again with the options of then, in a folder that goes; a line for each difference.

    Whoever wrote the report chose its words: none of them names a place to write to, and code that they name runs only
    from a folder that the user trusts.
    """
    source = Path(then["record"]["input"][0]["path"]).absolute()  # a word that begins with a hyphen would be an option
    options = _options(then, path)
    with tempfile.TemporaryDirectory() as folder:
        out, report = Path(folder, source.name), Path(folder, "report.json")
        words = ["rewrite", str(source), str(out), *shared_words(options), "-q", f"--report={report}"]
        again = arguments.parser().parse_args(words)
        again.argv = words
        rewrite.run(again)
        now = json.loads(report.read_text(encoding="utf-8"))
    rewrites = [[[a[key] for key in SAME] for a in side["applied"]] for side in (then, now)]
    if rewrites[0] != rewrites[1]:
        yield f"{len(rewrites[0])} rewrites were made then, and {len(rewrites[1])} or others are made now"
    if now["undone"] != then["undone"]:
        yield f"{len(then['undone'])} were undone then, and {len(now['undone'])} or others are undone now"
    hashes = [[f["sha256"] for f in side["record"]["output"][:1]] for side in (then, now)]
    if hashes[0] and hashes[1] and hashes[0] != hashes[1]:
        yield "what is written now has other bytes"


def _options(then: Mapping[str, Any], path: Path) -> argparse.Namespace:
    """The options of then, and for those that the record leaves out their defaults.

    Raises UsageError where one is of another type, or names code in a folder that is not trusted.
    """
    options = arguments.parser().parse_args(["rewrite", "IN", "OUT"])
    for name, value in then["record"]["options"].items():
        if not hasattr(options, name):
            continue  # of another version, which a warning names
        if not _may_be(value, getattr(options, name)):
            raise UsageError(
                f"the record of '{path}' has the option '{name}' as {json.dumps(value)}, which it cannot be."
            )
        setattr(options, name, value)
    options.target = then["target"]
    options.passes = [trust.allowed(place, path) for place in options.passes]
    if options.data is not None and Path(str(options.data)).suffix != ".npz":  # all else is a script
        options.data = trust.allowed(str(options.data), path)
    return options


def _may_be(value: Any, default: Any) -> bool:
    """Whether an option with that default may have a value: a list is one of texts."""
    if isinstance(default, list):
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    if isinstance(default, bool):
        return isinstance(value, bool)
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))
