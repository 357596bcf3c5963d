"""`surgeon rewrite`: rewrite a model, prove it, write it and its reports; with --explain, one node's answers."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from surgeon.app import arguments
from surgeon.app.commands import DONE, FAILED
from surgeon.app.explain import explain_node
from surgeon.app.screen import Screen
from surgeon.app.summary import closing, print_precision, print_report, print_window
from surgeon.errors import UsageError
from surgeon.ir.files import check_writable, put
from surgeon.pipeline.session import Result, rewrite
from surgeon.report import Report, target_name
from surgeon.targets.target import Target

if TYPE_CHECKING:
    from surgeon.precision import PrecisionResult


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    if args.explain is not None:
        return _explain(args, screen)
    if args.out is None and not args.check:
        raise UsageError("say where to write the model: surgeon rewrite IN.onnx OUT.onnx, or --check to write nothing.")
    options = arguments.pass_options(args)
    _check_half(args)
    source, out = Path(args.model), None if args.check else Path(args.out)
    reports = [Path(r) for r in args.report]
    _check_places(out, reports, [source])
    target, title = arguments.target_of(args)
    screen.line(f"{source}, {title}")
    result = _rewritten(args, source, target, options, screen)
    _check_places(out, reports, result.files)
    report = result.report
    started = time.perf_counter()
    half = _to_half(result, args, target, options) if args.fp16 else None
    report.seconds += time.perf_counter() - started
    withheld = args.strict and bool(report.untaken)
    written = "" if out is None or withheld else args.out
    _write(result, half, Path(written) if written else None, _report_files(report, half, reports, source, written))
    print_report(report, screen, diff=args.diff, each=bool(args.verbose))
    if half is not None:
        print_precision(half, screen, bool(args.verbose))
    where = _where(args, withheld)
    screen.line(f"{closing(report)}; {where}, {report.seconds:.1f} s", "bad" if report.failed else "good")
    changed = args.check and (bool(report.applied) or (half is not None and half.half > 0))
    return FAILED if changed or report.failed or (half is not None and half.failed) else DONE


# ---- arguments -------------------------------------------------------------------------------------------------------


def _check_half(args: argparse.Namespace) -> None:
    for name in ("keep_fp32", "io_fp16", "data"):
        if getattr(args, name) and not args.fp16:
            raise UsageError(f"--{name.replace('_', '-')} goes with --fp16.")


def _check_places(out: Path | None, reports: Sequence[Path], sources: Sequence[Path]) -> None:
    """Raise ModelError where a file cannot be written, or is one of `sources`; UsageError where two are one."""
    places = reports if out is None else [out, *reports]
    for path in places:
        check_writable(path, *sources)
    if out is not None and any(out.resolve() == r.resolve() for r in reports):
        raise UsageError(f"--report and the model cannot both be written to '{out}'.")


# ---- running ---------------------------------------------------------------------------------------------------------


def _rewritten(
    args: argparse.Namespace, source: Path, target: Target, options: Mapping[str, float], screen: Screen
) -> Result:
    with screen.progress() as progress:
        return rewrite(
            source,
            target=target,
            plugins=arguments.words(args.plugins),
            strategy=arguments.strategies(args.strategy),
            only=arguments.only(args.only),
            skip=arguments.skips(args.skip),
            verify=args.verify,
            shapes=arguments.shapes(args.shapes),
            passes=args.passes,
            allow_unproved=args.allow_unproved,
            options=options,
            progress=progress,
        )


def _to_half(result: Result, args: argparse.Namespace, target: Target, options: Mapping[str, float]) -> PrecisionResult:
    from surgeon.precision import convert, load_data  # a plain rewrite starts without them

    return convert(
        result.model,
        keep_fp32=arguments.words(args.keep_fp32),
        data=None if args.data is None else load_data(args.data),
        repair_eps=options.get("repair_eps"),
        target=target,
        base=result.base,
        shapes=arguments.shapes(args.shapes),
        io_fp16=args.io_fp16,
        verify=args.verify != "none",
        allow_unproved=args.allow_unproved,
    )


# ---- writing ---------------------------------------------------------------------------------------------------------


def _report_files(
    report: Report, half: PrecisionResult | None, paths: Sequence[Path], source: Path, written: str
) -> dict[Path, bytes]:
    """The reports by their places: a page for R.html, JSON else."""
    from surgeon.app.html.page import render  # a run without a page starts without it

    found = {}
    for path in paths:
        is_page = path.suffix in (".html", ".htm")
        text = render(report, title=source.name, written=written, precision=half) if is_page else _json(report, half)
        found[path] = text.encode(errors="backslashreplace")
    return found


def _json(report: Report, half: PrecisionResult | None) -> str:
    written = report.to_json() | ({} if half is None else {"precision": half.to_json()})
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def _write(result: Result, half: PrecisionResult | None, out: Path | None, reports: Mapping[Path, bytes]) -> None:
    """Write the model and the reports, all of them whole or none; without `out` the reports alone."""
    if out is None:
        put(reports)
    elif half is not None:
        half.save(out, reports)
    else:
        result.save(out, reports)


def _where(args: argparse.Namespace, withheld: bool) -> str:
    if args.check:
        return "nothing written (--check)"
    return "nothing written (--strict)" if withheld else f"written to {args.out}"


# ---- one node --------------------------------------------------------------------------------------------------------


def _explain(args: argparse.Namespace, screen: Screen) -> int:
    target, title = arguments.target_of(args)
    screen.line(f"{args.model}, {title}")
    found = explain_node(
        Path(args.model),
        args.explain,
        target=target,
        plugins=arguments.words(args.plugins),
        strategy=arguments.strategies(args.strategy),
        only=arguments.only(args.only),
        skip=arguments.skips(args.skip),
        passes=args.passes,
        options=arguments.pass_options(args),
    )
    screen.line(found.node)
    screen.table("verdict", ("pass", "at", "verdict"), [(f.pass_name, f.root, f.text) for f in found.findings])
    if found.untaken:
        screen.line(f"{target_name(str(target))} does not take this node: {found.untaken}", "bad")
    for applied in found.applied:
        print_window(applied, screen)
    if not found.findings and not found.applied:
        screen.line("no pass has a pattern for it")
    return DONE
