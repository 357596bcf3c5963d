"""The reports of a rewrite: as files, R.json and R.html, and as what --format prints."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surgeon.app.findings import FORMATS, Finding, of_report
from surgeon.app.record import record
from surgeon.errors import UsageError
from surgeon.ir.files import Content, check_writable
from surgeon.pipeline.session import Result
from surgeon.report import Conversion

if TYPE_CHECKING:
    from surgeon.trt.program import Program

PAGES = (".html", ".htm")  # suffixes of a report that is a page


@dataclass(frozen=True, slots=True)
class Done:
    """The result for a model, and the advice for unsupported nodes.

    kernels  what TensorRT-RTX runs of it, in one line and kernel by kernel, where that is known
    """

    result: Result
    advice: list[str]
    kernels: tuple[str, Program | None] = ("", None)

    @property
    def half(self) -> Conversion | None:
        """The conversion to half precision; None where none was asked for."""
        return self.result.precision

    @property
    def changes(self) -> bool:
        """Whether something changed."""
        return bool(self.result.report.applied) or (self.half is not None and self.half.half > 0)


def check_places(out: Path | None, reports: Sequence[Path], sources: Sequence[Path]) -> None:
    """Raise ModelError where a file cannot be written, or is one of `sources`; UsageError where two are one."""
    places = reports if out is None else [out, *reports]
    for path in places:
        check_writable(path, *sources)
    for path in reports:
        if path.suffix not in (*PAGES, ".json") and path != out:
            raise UsageError(f"--report writes R.json or R.html, not '{path}'.")
    if out is not None and any(out.resolve() == r.resolve() for r in reports):
        raise UsageError(f"--report and the model cannot both be written to '{out}'.")


def report_files(
    args: argparse.Namespace, done: Done, paths: Sequence[Path], source: Path, out: Path | None, status: int
) -> dict[Path, Content]:
    """The reports by path: a page for R.html, else JSON."""
    found: dict[Path, Content] = {}
    for path in paths:
        if path.suffix in PAGES:
            found[path] = _page(done, source.name, "" if out is None else str(out)).encode(errors="backslashreplace")
        else:
            found[path] = partial(_json, args, done, status)
    return found


def formatted(args: argparse.Namespace, done: Done, status: int, more: Iterable[Finding] = (), **also: Any) -> str:
    """What --format prints of one model.

    more  findings besides those of the report
    also  fields besides those of the report
    """
    value = _report(done)
    if args.format in FORMATS:
        changes = getattr(args, "check", False)
        return FORMATS[args.format]([*of_report(args.model, value, changes=changes), *more])
    value |= {"exit_status": status, **also}
    return json.dumps(value, indent=2 if args.format == "json" else None, ensure_ascii=False)


def _page(done: Done, title: str, written: str) -> str:
    from surgeon.html.page import render  # a run without a page starts without it

    text, program = done.kernels
    of_engine = () if program is None else program.kernels
    return render(
        done.result.report, title=title, written=written, precision=done.half, cures=done.advice, runs=text,
        kernels=of_engine,
    )  # fmt: skip


def _report(done: Done) -> dict[str, Any]:
    """The JSON report, but for the record of the run."""
    written = done.result.report.to_json()
    for entry, cure in zip(written["untaken"], done.advice, strict=True):
        entry["cure"] = cure
    if done.half is not None:
        written["precision"] = done.half.to_json()
    return written


def _json(args: argparse.Namespace, done: Done, status: int, files: Mapping[Path, Path]) -> bytes:
    """The JSON report, with the record of the run; `files` are those of the written model."""
    written = _report(done)
    written["record"] = record(args, done.result.files, files, status)
    return (json.dumps(written, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace")
