"""`surgeon verify REPORT`: repeat a recorded run, and compare its files and its proofs."""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from surgeon.app import trust
from surgeon.app.arguments import RewriteArguments, parser
from surgeon.app.commands import DONE, FAILED, rewrite
from surgeon.app.record import sha256, versions
from surgeon.app.screen import Screen
from surgeon.errors import ModelError, UsageError
from surgeon.pipeline.option import options_of, words_of
from surgeon.report import counted

SAME = ("pass", "strategy", "root", "outputs", "removed", "added")  # what a rewrite must have in common with then


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    then = _read(Path(args.report))
    record = then["record"]
    for name, now in versions().items():
        before = record["versions"].get(name)
        if before != now:
            screen.line(f"warning  {name} was {before or 'not installed'} then, and is {now} now", "warn")
    wrong = list(_changed(record))
    if not any(line.startswith("input") for line in wrong):
        wrong += _done_again(then, Path(args.report))
    for line in wrong:
        screen.line(line, "bad")
    proved = counted(len(then["applied"]), "rewrite")
    if not wrong:
        screen.line(f"the files are the same as on {record['date']}; {proved} made and proved again", "good")
    return FAILED if wrong else DONE


def _read(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"there is no file '{path}'.") from None
    except ValueError as error:
        raise ModelError(f"'{path}' is not JSON: {error}.") from None
    if not _is_whole(report):
        raise UsageError(f"'{path}' is not a report with a record: `surgeon rewrite --report {path.name}` writes one.")
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
    """A line for each file that changed."""
    for side in ("input", "output"):
        for file in record[side]:
            path = Path(file["path"])
            if not path.is_file():
                yield f"{side} '{path}' is missing"
            elif sha256(path) != file["sha256"]:
                yield f"{side} '{path}' has changed since then"


def _done_again(then: Mapping[str, Any], path: Path) -> Iterator[str]:
    """Rewrite the input again with the recorded options, in a temporary folder; a line for each difference.

    Whoever wrote the report chose its words: none of them names a place to write to, and code that they name runs only
    from a folder that the user trusts.
    """
    source = Path(then["record"]["input"][0]["path"]).absolute()  # a word that begins with a hyphen would be an option
    texts = _texts(then, path)
    with tempfile.TemporaryDirectory() as folder:
        out, report = Path(folder, source.name), Path(folder, "report.json")
        asked = words_of(RewriteArguments, texts)
        words = ["rewrite", str(source), str(out), *asked, "-q", f"--report={report}"]
        again = parser(words).parse_args(words)
        again.argv = words
        rewrite.run(again)
        now = json.loads(report.read_text(encoding="utf-8"))
    rewrites = [[[a[key] for key in SAME] for a in side["applied"]] for side in (then, now)]
    if rewrites[0] != rewrites[1]:
        yield f"the rewrites differ: {len(rewrites[0])} then, {len(rewrites[1])} now"
    if now["undone"] != then["undone"]:
        yield f"the undone rewrites differ: {len(then['undone'])} then, {len(now['undone'])} now"
    hashes = [[f["sha256"] for f in side["record"]["output"][:1]] for side in (then, now)]
    if hashes[0] and hashes[1] and hashes[0] != hashes[1]:
        yield "the written model differs"


def _texts(then: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The texts of the recorded options, and the defaults of those that the record omits.

    Raises UsageError where one is of another type, or names code in a folder that is not trusted.
    """
    recorded, texts = then["record"]["options"], {}
    for o in options_of(RewriteArguments).values():
        text = next((recorded[name] for name in (o.name, o.old_name) if name in recorded), o.kind.default)
        if not o.kind.is_text(text):
            raise UsageError(
                f"the record of '{path}' has an invalid value of the option '{o.name}': {json.dumps(text)}."
            )
        texts[o.name] = text
    return trust.allowed_texts(texts | {"target": then["target"]}, path)
