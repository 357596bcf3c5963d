"""`surgeon fix`: rewrite, prove, ask the real parser, load in ONNX Runtime, and print one verdict."""

from __future__ import annotations

import argparse
from pathlib import Path

from surgeon.app import arguments
from surgeon.app.commands import DONE, UNTAKEN, status_of
from surgeon.app.screen import Screen
from surgeon.app.summary import closing, print_precision, print_report
from surgeon.pipeline.option import from_text
from surgeon.pipeline.options import Options, RewriteOptions
from surgeon.pipeline.source import Source
from surgeon.report import Declined, Report
from surgeon.trt.fix import Fixed, Loaded, Parsed
from surgeon.trt.fix import fixed as fix_source


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    source = Path(args.model)
    _, title = arguments.target_of(args)
    screen.line(f"{source}, {title}")
    with screen.progress() as progress:
        options = Options.checked(from_text(RewriteOptions, vars(args), progress=progress))
        fixed = fix_source(Source(source), args.out, options)
    report = fixed.report
    declined = report.declined if args.verbose else _of_what_stays(report)
    print_report(report, screen, each=bool(args.verbose), advice=fixed.advice, declined=declined)
    half = fixed.result.precision
    if half is not None:
        print_precision(half, screen, bool(args.verbose))
    done = closing(report, converted=half)
    inexact = half is not None and half.withheld
    where = "nothing written (--allow-inexact writes it)" if inexact else f"written to {fixed.path}"
    screen.line(f"{done}; {where}, {report.seconds:.1f} s", "bad" if report.broken or inexact else "")
    _print_parsed(fixed.parsed, screen)
    _print_loaded(fixed.loaded, screen)
    status = _status(fixed)
    screen.line(fixed.verdict, "good" if status == DONE else "bad")
    if fixed.command:
        screen.line(f"next{fixed.where}:")
        screen.command(f"  {fixed.command}")
    return status


def _of_what_stays(report: Report) -> list[Declined]:
    """What was declined at nodes that are still unsupported: the rest does not matter if all else is well."""
    stays = {d.node for d in report.untaken}
    return [d for d in report.declined if d.node in stays]


def _status(fixed: Fixed) -> int:
    half = fixed.result.precision
    status = status_of(fixed.report, broken=fixed.loaded.worse or (half is not None and half.failed))
    return UNTAKEN if status == DONE and fixed.parsed.refused else status


def _print_parsed(parsed: Parsed, screen: Screen) -> None:
    if not parsed.refused:
        screen.line(str(parsed), "warn" if parsed.why_not else "good")
        return
    rows = [(r.node or "the model", r.op or "-", r.why) for r in parsed.refused]
    screen.table("refused", ("node", "operator", "why"), rows, "bad")


def _print_loaded(loaded: Loaded, screen: Screen) -> None:
    style = "bad" if loaded.worse else "warn" if loaded.why else "good"
    screen.line(str(loaded), style)
