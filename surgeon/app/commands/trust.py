"""`surgeon trust`: the folders whose Python a configuration file or a report may run."""

from __future__ import annotations

import argparse

from surgeon.app import trust
from surgeon.app.commands import DONE
from surgeon.app.screen import Screen
from surgeon.errors import UsageError


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    if not (args.folders or args.forget or args.list):
        raise UsageError("name a folder to trust, or give --list or --forget DIR. See surgeon trust --help.")
    for folder in args.forget:
        screen.line(f"'{trust.forget(folder)}' is not trusted any more")
    for folder in args.folders:
        real = trust.add(folder)
        screen.line(f"'{real}' and what is below it may run code", "good")
        if why := trust.open_to_others(real):
            screen.line(f"warning  {why}: whoever writes there runs code as you", "warn")
    if args.list:
        _print_list(screen)
    return DONE


def _print_list(screen: Screen) -> None:
    rows = [(str(f), "" if f.is_dir() else "not there any more") for f in trust.recorded()]
    rows += [(str(f), f"from {trust.VARIABLE}") for f in trust.from_variable()]
    screen.table("trusted", ("folder", "note"), rows)
    if not rows:
        screen.line("no folder is trusted")
