"""`surgeon rewrite` of several models: one line for each, and a table of the results."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from surgeon.app.arguments import RewriteArguments
from surgeon.app.batch import MANIFEST, Outcome, Rewriting, check_alone, print_whole, run_all, units
from surgeon.app.commands import DONE, FAILED, UNTAKEN, WORST_FIRST, WRONG, ended, known, worst
from surgeon.app.findings import UNREADABLE, Finding, of_report
from surgeon.app.screen import Screen
from surgeon.pipeline.option import words_of
from surgeon.proof.cache import ProofCache, place_of_proofs
from surgeon.report import counted, target_name
from surgeon.verdict_text import size_text

WORDS = {WRONG: "unreadable", FAILED: "undone or differs", UNTAKEN: "not all supported", DONE: "done"}
ALONE = ("check", "explain", "report", "diff", "write_calibration_cache")  # options that are for one model


def run(args: argparse.Namespace) -> int:
    """Rewrite every model into the folder `args.out`; the exit status is the worst of any."""
    check_alone(args, ALONE, "one model. Each model's JSON report is written without it.")
    screen = Screen(args.quiet)
    out = Path(args.out)
    todo = units(args.models, out)
    if args.format == "text":
        _print_warnings(args, screen)

    def line(outcome: Outcome) -> None:
        screen.line(_line(outcome), "" if outcome.entry["status"] in (DONE, UNTAKEN) else "bad")

    outcomes = run_all(todo, words_of(RewriteArguments, vars(args)), out / MANIFEST, args, screen, line)
    if args.format == "text":
        _print_table(outcomes, screen)
    print_whole(outcomes, args, screen, _findings)
    status = worst([o.entry["status"] for o in outcomes])
    return ended(status, args.exit_zero)


def _print_warnings(args: argparse.Namespace, screen: Screen) -> None:
    """Print what each model's report says of the file of proofs: once for all of them."""
    if args.no_cache or args.verify == "none":
        return
    for warning in ProofCache(place_of_proofs()).warnings:
        screen.line(f"warning  {warning}", "warn")


def _findings(outcome: Outcome) -> Iterator[Finding]:
    """What the JSON report of one model says."""
    unit, entry = outcome.unit, outcome.entry
    if "error" in entry:
        yield Finding(str(unit.sources[0]), UNREADABLE, entry["error"])
    elif isinstance(unit, Rewriting):
        yield from of_report(str(unit.sources[0]), json.loads(unit.report.read_text(encoding="utf-8")))


def _line(outcome: Outcome) -> str:
    """How one model ended, as the manifest's entry says."""
    entry = outcome.entry
    if "error" in entry:
        return f"{entry['model']}  FAILED: {' '.join(entry['error'].split())}"
    (_, nodes), (_, untaken) = entry["nodes"], entry["untaken"]
    said = f"{target_name(entry['target'])} supports {nodes - untaken} of {counted(nodes, 'node')}"
    said += f"; {counted(entry['rewrites'], 'rewrite')}" + (f", {entry['undone']} undone" if entry["undone"] else "")
    end = "done before" if outcome.skipped else f"{entry['seconds']:.1f} s"
    return f"{entry['model']}  {said}; {end}"


def _print_table(outcomes: Sequence[Outcome], screen: Screen) -> None:
    entries = [o.entry for o in outcomes]
    rows = []
    for status in reversed(WORST_FIRST):
        alike = [e for e in entries if known(e["status"]) == status]
        if alike:
            rows.append((WORDS.get(status, ""), str(len(alike)), *_sums([e for e in alike if "error" not in e])))
    plain = ("{}", "{} models", "{} rewrites", "{} unsupported before", "{} now", "{} smaller")
    screen.table("result", ("result", "models", "rewrites", "unsupported before", "now", "smaller"), rows, plain=plain)
    skipped = sum(o.skipped for o in outcomes)
    done = sum(e["status"] == DONE for e in entries)
    before = f", {skipped} of them done before" if skipped else ""
    screen.line(f"{counted(len(entries), 'model')}{before}; {done} done", "good" if done == len(entries) else "bad")


def _sums(entries: Sequence[dict[str, Any]]) -> tuple[str, str, str, str]:
    before, now = (sum(e["untaken"][k] for e in entries) for k in (0, 1))
    written = [e["bytes"] for e in entries if e["output"]]
    return str(sum(e["rewrites"] for e in entries)), str(before), str(now), size_text(sum(a - b for a, b in written))
