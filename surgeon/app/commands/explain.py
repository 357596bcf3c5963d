"""`surgeon explain PASS`: print the description of one pass."""

from __future__ import annotations

import argparse
from pathlib import Path

from surgeon.app.commands import DONE
from surgeon.app.screen import Screen
from surgeon.rules.registry import find, passes


def run(args: argparse.Namespace) -> int:
    p = find(passes(args.passes), args.name)
    screen = Screen(args.quiet)
    screen.line(p.name, "head")
    screen.lines(p.doc)
    screen.line()
    screen.line(f"Stages      {', '.join(s.value for s in p.stages)}")
    screen.line(f"Strategies  {', '.join(p.strategies) or 'none: it does not lower'}")
    if p.options:
        screen.line(f"Options     {', '.join(p.options)}")
    path = Path(p.path)
    screen.line(f"File        {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return DONE
