"""`surgeon compare`: two models on the same inputs, and with --bisect the window that makes them differ."""

from __future__ import annotations

import argparse
from pathlib import Path

from surgeon.app import arguments
from surgeon.app.commands import DONE, FAILED
from surgeon.app.screen import Screen
from surgeon.trt.bisect import bisect_files, check_folder
from surgeon.trt.compare import compare
from surgeon.trt.comparison import COLUMNS, PLAIN, Comparison
from surgeon.trt.handover import polygraphy_command


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    if args.bisect is not None:
        read = [args.original, args.rewritten, *([args.data] if args.data else [])]
        check_folder(Path(args.bisect), *map(Path, read))
    sources = arguments.tactic_sources(args)
    with screen.progress() as progress:
        comparison = compare(
            args.original,
            args.rewritten,
            shapes=arguments.shapes(args.shapes),
            data=args.data,
            network=args.network,
            engine=args.trt,
            runtime=args.runtime,
            plugins=args.plugin_library,
            tactic_sources=sources,
            save_inputs=args.save_inputs,
            save_outputs=args.save_outputs,
            progress=progress,
        )
    screen.line(f"{args.original} against {args.rewritten}")
    for side in comparison.sides:
        screen.table(side.title, COLUMNS, side.rows(), plain=PLAIN)
    for note in comparison.notes:
        screen.line(note, "warn")
    command = polygraphy_command(
        comparison,
        args.original,
        args.rewritten,
        inputs=args.save_inputs,
        outputs=args.save_outputs,
        plugins=args.plugin_library,
        tactic_sources=sources,
    )
    screen.line(f"in Polygraphy: {command}", "dim")
    if args.bisect is not None and not comparison.ok:
        _bisect(args, comparison, screen)
    screen.line(comparison.verdict, "good" if comparison.ok else "bad")
    return DONE if comparison.ok else FAILED


def _bisect(args: argparse.Namespace, comparison: Comparison, screen: Screen) -> None:
    culprit = bisect_files(Path(args.original), Path(args.rewritten), comparison)
    if isinstance(culprit, str):
        screen.line(f"no window is to blame: {culprit}", "bad")
        return
    screen.line(str(culprit), "bad")
    folder = Path(args.bisect)
    for path in culprit.save(folder):
        screen.line(f"written to {path}")
    screen.line(f"see it again, in {folder}: surgeon compare {culprit.again}")
