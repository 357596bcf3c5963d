"""`surgeon rewrite`: rewrite a model, prove it, write it and its reports; --explain: which passes match a node."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from surgeon.app import arguments
from surgeon.app.commands import CHANGES, DONE, ended, status_of
from surgeon.app.explain import Explanation, explain_nodes
from surgeon.app.screen import Screen
from surgeon.app.summary import closing, print_precision, print_report, print_reports, print_window
from surgeon.app.written import PAGES, Done, check_places, formatted, report_files
from surgeon.errors import UsageError
from surgeon.ir.files import Content, put, size_of
from surgeon.pipeline.advice import advice_for
from surgeon.pipeline.option import from_text
from surgeon.pipeline.options import CheckOptions, Options, RewriteOptions
from surgeon.pipeline.session import Result
from surgeon.pipeline.source import Source
from surgeon.report import counted, target_name
from surgeon.targets.target import Target
from surgeon.trt.rewriting import rewritten
from surgeon.verdict_text import answer

if TYPE_CHECKING:
    from surgeon.trt.program import Program


def run(args: argparse.Namespace) -> int:
    if _is_batch(args):
        from surgeon.app.commands import many  # one model starts without it

        return many.run(args)
    _take_places(args)
    if args.explain is not None:
        return _explain(args, Screen(args.quiet))
    screen = Screen(args.quiet or args.format != "text")
    if args.out is None and not args.check:
        raise UsageError("name the file to write: surgeon rewrite IN.onnx OUT.onnx, or --check to write nothing.")
    if args.check and args.write_calibration_cache is not None:
        raise UsageError("--check writes nothing: leave it out, or --write-calibration-cache.")
    source, out = Path(args.model), None if args.check else Path(args.out)
    reports = [Path(r) for r in args.report]
    check_places(out, reports, [source])
    _, title = arguments.target_of(args)
    screen.line(f"{source}, {title}")
    done = _rewritten(args, source, screen)
    check_places(out, reports, done.result.files)
    report = done.result.report
    status = status_of(report, changes=args.check and done.changes, broken=done.half is not None and done.half.failed)
    inexact = done.half is not None and done.half.withheld
    withheld = inexact or (args.strict and bool(report.refused))
    written = None if withheld else out
    saved = _write(done, written, report_files(args, done, reports, source, written, status))
    print_report(report, screen, diff=args.diff, each=bool(args.verbose), advice=done.advice)
    if done.half is not None:
        print_precision(done.half, screen, bool(args.verbose))
    style = "good" if status in (DONE, CHANGES) else "bad"
    print_reports(reports, screen)
    screen.line(
        f"{closing(report, converted=done.half)}; {_where(args, withheld, inexact)}, {report.seconds:.1f} s",
        "bad" if report.broken else "",
    )
    screen.line(answer(report, saved, done.half), style)
    if args.format != "text":
        screen.text(formatted(args, done, status))
    return ended(status, args.exit_zero)


def _is_batch(args: argparse.Namespace) -> bool:
    """Whether there are several models, or the results go to a folder."""
    if args.out is None:
        return False
    several = len(args.models) > 1 or Path(args.models[0]).is_dir()
    return several or args.out.endswith("/") or Path(args.out).is_dir()


def _take_places(args: argparse.Namespace) -> None:
    """Set `args.model` and `args.out` from the given paths. Raises UsageError."""
    args.model, *more = args.models
    if len(more) > 1 or (more and args.out is not None):
        raise UsageError("several models go into a folder: surgeon rewrite A.onnx B.onnx -o OUT/.")
    args.out = more[0] if more else args.out


def _rewritten(args: argparse.Namespace, source: Path, screen: Screen) -> Done:
    given = Source(source)
    with screen.progress() as progress:
        options = Options.checked(from_text(RewriteOptions, vars(args), progress=progress))
        result = rewritten(given, options)
    runs: tuple[str, Program | None] = ("", None)
    if options.target.rtx and any(Path(r).suffix in PAGES for r in args.report):
        runs = _runs(result, source, options.target)
    return Done(result, advice_for(result, given, options), runs)


def _runs(result: Result, source: Path, target: Target) -> tuple[str, Program | None]:
    """What TensorRT-RTX runs of a result, for the page."""
    from surgeon.trt.kernels import told  # a run without such a page starts without it

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / source.name
        result.save(place)
        found = told(place, source, target)
    return found.text, None if found.after is None else found.after.program


def _write(done: Done, out: Path | None, reports: dict[Path, Content]) -> int | None:
    """Write the model and the reports, all of them complete or none; without `out` only the reports.

    Returns by how many bytes the model is smaller than its source; None without `out`.
    """
    if out is None:
        put(reports)
        return None
    before = size_of(done.result.files)
    return before - size_of(done.result.save(out, reports))


def _where(args: argparse.Namespace, withheld: bool, inexact: bool) -> str:
    if args.check:
        return "nothing written (--check)"
    if inexact:
        return "nothing written (--allow-inexact writes it)"
    return "nothing written (--strict)" if withheld else f"written to {args.out}"


def _explain(args: argparse.Namespace, screen: Screen) -> int:
    target, title = arguments.target_of(args)
    screen.line(f"{args.model}, {title}")
    asked = from_text(CheckOptions, vars(args))
    explained = explain_nodes(Path(args.model), args.explain, asked, every=bool(args.verbose))
    for found in explained:
        _print_explanation(found, target_name(str(target)), screen)
    return DONE


def _print_explanation(found: Explanation, name: str, screen: Screen) -> None:
    screen.line(found.node, "head")
    screen.table("verdict", ("pass", "at", "verdict"), [(f.pass_name, f.root, f.text) for f in found.findings])
    if not found.findings:
        passes = f"of {counted(found.others, 'pass', 'passes')} nearly matches it; -v lists them"
        screen.line(f"no pattern {passes}" if found.others else "no pass has a pattern for it")
    if found.untaken:
        later = "; the rewrites upstream fix that" if found.mended else ""
        screen.line(f"{name} does not support this node as it is: {found.untaken}{later}", "warn" if later else "bad")
    rows = [(a.pass_name, a.root, ", ".join(a.outputs)) for a in found.upstream]
    screen.table("upstream", ("pass", "at", "it makes"), rows)
    for applied in found.applied:
        print_window(applied, screen)
