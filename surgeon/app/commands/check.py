"""`surgeon check`: the nodes that a target does not take, and the passes that mend them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from surgeon.app import arguments
from surgeon.app.commands import DONE, FAILED
from surgeon.app.screen import Screen
from surgeon.app.text import by_reason
from surgeon.pipeline.check import check
from surgeon.report import counted, target_name

HEADERS = ("node", "operator", "mended by", "why")


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    target, title = arguments.target_of(args)
    screen.line(f"{args.model}, {title}")
    found = check(
        args.model,
        target=target,
        plugins=arguments.words(args.plugins),
        strategy=arguments.strategies(args.strategy),
        only=arguments.only(args.only),
        skip=arguments.skips(args.skip),
        passes=args.passes,
    )
    rows = [(r.node, r.op, r.mended_by or "no pass", r.why) for r in found.untaken]
    _print_rows(rows, screen)
    screen.table("warning", ("",), [(w,) for w in found.warnings], "warn")
    name = target_name(str(target))
    if not rows:
        screen.line(f"{name} takes every node, as far as surgeon's table knows", "good")
        return DONE
    mended = sum(bool(r.mended_by) for r in found.untaken)
    mend = f"passes mend {mended}; surgeon rewrite {shlex.quote(args.model)} OUT.onnx --target {target}"
    screen.line(f"{name} does not take {counted(len(rows), 'node')}; {mend if mended else 'no pass mends that'}", "bad")
    return FAILED


def _print_rows(rows: Sequence[tuple[str, ...]], screen: Screen) -> None:
    """One table in a pipe; on a terminal a table for each reason."""
    if not screen.terminal:
        screen.table("not taken", HEADERS, rows, "bad")
        return
    for reason, alike in by_reason(rows).items():
        screen.table(f"not taken: {reason}", HEADERS[:-1], [r[:-1] for r in alike], "bad")
