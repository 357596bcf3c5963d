"""`surgeon fix`: rewrite, prove, ask the real parser, load in ONNX Runtime, and print one verdict."""

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surgeon.app import arguments
from surgeon.app.commands import DONE, UNTAKEN, status_of
from surgeon.app.findings import NOT_TAKEN, Finding
from surgeon.app.screen import Screen
from surgeon.app.summary import closing, print_interface, print_precision, print_report, print_reports
from surgeon.app.written import Done, check_places, formatted, report_files
from surgeon.ir.files import put
from surgeon.pipeline.option import from_text
from surgeon.pipeline.options import Options, RewriteOptions
from surgeon.pipeline.source import Source
from surgeon.trt.fix import Fixed, Parsed, place_of
from surgeon.trt.fix import fixed as fix_source


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet or args.format != "text")
    source, reports = Path(args.model), [Path(r) for r in args.report]
    given = Source(source)
    out = place_of(given, args.out)
    check_places(out, reports, [source])
    _, title = arguments.target_of(args)
    screen.line(f"{source}, {title}")
    with screen.progress() as progress:
        options = Options.checked(from_text(RewriteOptions, vars(args), progress=progress))
        fixed = fix_source(given, out, options)
    report, status = fixed.report, _status(fixed)
    done = Done(fixed.result, fixed.advice, (fixed.kernels, fixed.program))
    # After the model, which the parser and ONNX Runtime judged.
    contents = report_files(args, done, reports, source, out if fixed.files else None, status)
    files = {path: path for path in fixed.files}
    put({path: text if isinstance(text, bytes) else text(files) for path, text in contents.items()})
    print_interface(given.look(), fixed.result.model, screen, bool(args.verbose))
    stays = {d.node for d in report.untaken}  # what was declined elsewhere does not matter if all else is well
    declined = [d for d in report.declined if args.verbose or d.node in stays]
    print_report(report, screen, each=bool(args.verbose), advice=fixed.advice, declined=declined)
    if done.half is not None:
        print_precision(done.half, screen, bool(args.verbose))
    print_reports(reports, screen)
    where = f"written to {fixed.path}" if fixed.files else "nothing written (--allow-inexact writes it)"
    bad = "" if fixed.files and not report.broken else "bad"
    screen.line(f"{closing(report, converted=done.half)}; {where}, {report.seconds:.1f} s", bad)
    if fixed.files:
        _print_parsed(fixed.parsed, screen)
        loaded = fixed.loaded
        screen.line(str(loaded), "bad" if loaded.worse else "warn" if loaded.why else "good")
    if fixed.ran is not None:
        screen.line(str(fixed.ran), "bad" if fixed.ran.differs else "warn" if fixed.ran.why else "good")
    if fixed.built is not None:
        screen.line(str(fixed.built), "bad" if fixed.built.why else "good" if fixed.built.size else "warn")
    if fixed.kernels:
        screen.line(fixed.kernels)
    for hint in filter(None, (fixed.types, fixed.quantizers)):
        screen.line(hint, "warn")
    screen.line(fixed.verdict, "good" if status == DONE else "bad")
    if fixed.setting:
        screen.line("with this fixed all of this works:")
        screen.command(f"  surgeon fix {shlex.quote(args.model)} --for {options.target} --set {fixed.setting}")
    if fixed.command:
        screen.line(f"next{fixed.where}:")
        screen.command(f"  {fixed.command}")
        for name, text in fixed.elsewhere.items():
            screen.line(f"the same values for {name}:")
            screen.command(f"  {text}")
    if args.format != "text":
        screen.text(formatted(args, done, status, list(_findings(args.model, fixed.parsed)), fix=_json(fixed)))
    return status


def _json(fixed: Fixed) -> dict[str, Any]:
    """What `fix` knows beside the report."""
    parsed = fixed.parsed
    return {
        "parser": parsed.parser,
        "refused": [{"node": r.node, "op": r.op, "why": r.why} for r in parsed.refused],
        "not_parsed": parsed.why_not,
        "not_loaded": fixed.loaded.why,
        "kernels": fixed.kernels,
        "types": fixed.types,
        "quantizers": fixed.quantizers,
        "setting": fixed.setting,
        "command": fixed.command,
        "elsewhere": dict(fixed.elsewhere),
    }


def _findings(file: str, parsed: Parsed) -> Iterator[Finding]:
    """The nodes that the target's own parser refuses."""
    for r in parsed.refused:
        yield Finding(file, NOT_TAKEN, f"{parsed.parser} refuses {r.node or 'the model'}: {r.why}", r.node)


def _status(fixed: Fixed) -> int:
    half = fixed.result.precision
    status = status_of(fixed.report, broken=fixed.loaded.worse or fixed.fails or (half is not None and half.failed))
    return UNTAKEN if status == DONE and fixed.parsed.refused else status


def _print_parsed(parsed: Parsed, screen: Screen) -> None:
    if not parsed.refused:
        screen.line(str(parsed), "warn" if parsed.why_not else "good")
        return
    rows = [(r.node or "the model", r.op or "-", r.why) for r in parsed.refused]
    screen.table("refused", ("node", "operator", "why"), rows, "bad")
