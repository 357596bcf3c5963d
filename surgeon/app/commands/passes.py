"""`surgeon passes`: a line for each pass."""

from __future__ import annotations

import argparse

from surgeon.app.commands import DONE
from surgeon.app.screen import Screen
from surgeon.rules.registry import passes


def run(args: argparse.Namespace) -> int:
    rows = []
    for p in passes(args.passes):
        stages = ", ".join(s.value for s in p.stages)
        rows.append((p.name, stages, ", ".join(p.strategies) or "-", p.doc.splitlines()[0]))
    Screen(args.quiet).table("pass", ("name", "stages", "strategies", "what it does"), rows)
    return DONE
