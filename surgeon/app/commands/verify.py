"""`surgeon verify REPORT`: the files of a report's record are those of then, and its proofs hold again."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from surgeon.app import arguments
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
        wrong += _done_again(then)
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
    if not isinstance(report, dict) or not report.get("record"):
        raise UsageError(f"'{path}' is no report with a record: `surgeon rewrite --report {path.name}` writes one.")
    return report


def _changed(record: Mapping[str, Any]) -> Iterator[str]:
    """A line for each file that is not what it was."""
    for side in ("input", "output"):
        for file in record[side]:
            path = Path(file["path"])
            if not path.is_file():
                yield f"{side} '{path}' is not there any more"
            elif sha256(path) != file["sha256"]:
                yield f"{side} '{path}' is another file than it was then"


def _done_again(then: Mapping[str, Any]) -> Iterator[str]:
    """Rewrite the input again with the options of then, in a folder that goes; a line for each difference."""
    record = then["record"]
    with tempfile.TemporaryDirectory() as folder:
        out, report = Path(folder, Path(record["input"][0]["path"]).name), Path(folder, "report.json")
        options = argparse.Namespace(**record["options"] | {"target": then["target"]})
        words = ["rewrite", record["input"][0]["path"], str(out), *shared_words(options), "-q", f"--report={report}"]
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
