"""`surgeon targets`: every name of a target, the TensorRT that it stands for, and who says so."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from surgeon.app.commands import DONE
from surgeon.app.screen import Screen
from surgeon.targets import names, tables
from surgeon.targets.releases import RELEASES, dotted
from surgeon.targets.target import LAST_DLA, Target

HEADERS = ("name", "TensorRT", "what it reads, or who says so")


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    screen.table("target", HEADERS, list(_rows()))
    default = Target.default()
    screen.line(f"without --target: {default} ({default.note})")
    return DONE


def _rows() -> Iterator[tuple[str, str, str]]:
    for version in RELEASES:
        operators = len(tables.importers(version, rtx=False))
        yield dotted(version), dotted(version), f"opset {tables.opset_of(version)}, {operators} operators"
    rtx = Target.parse("rtx")
    operators = len(tables.importers(rtx.version, rtx=True))
    yield "rtx", f"RTX {tables.RTX_MEASURED}", f"opset {rtx.opset}, {operators} operators, measured"
    yield "VERSION+dla", f"up to {LAST_DLA}.x", f"{len(tables.DLA_NATIVE)} operators that DLA runs itself"
    yield "installed", "", "what Python can import here; an error where nothing can be"
    yield from names.aliases()
