"""`surgeon completion SHELL`: what a shell evaluates, so that Tab completes commands, options, targets and passes."""

from __future__ import annotations

import argparse

from surgeon.app.commands import DONE
from surgeon.app.completion import script
from surgeon.app.screen import Screen


def run(args: argparse.Namespace) -> int:
    Screen(args.quiet).text(script(args.shell))
    return DONE
