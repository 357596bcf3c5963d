"""Completion in the shell, by argcomplete: options, commands, targets and passes."""

import argparse
from collections.abc import Iterator
from typing import Any

from surgeon.errors import UsageError

ASKED = "_ARGCOMPLETE"  # the variable that a shell sets while it asks


def answer(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks what may be next, and leave the process."""
    import argcomplete

    for action in actions(parser):
        if action.dest in ("target", "old", "new"):
            vars(action)["completer"] = _targets  # the attribute that argcomplete looks for
        elif action.dest in ("only", "skip") or action.metavar == "PASS":
            vars(action)["completer"] = _passes
    argcomplete.autocomplete(parser)


def script(shell: str) -> str:
    """What a shell evaluates to complete the words of `surgeon`. Raises UsageError without argcomplete."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise UsageError("completion needs the package argcomplete: pip install argcomplete.") from None
    return str(shellcode(["surgeon"], shell=shell))


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from actions(inner)


def _targets(**_: Any) -> list[str]:
    from surgeon.targets import names
    from surgeon.targets.releases import RELEASES, dotted

    return ["rtx", "installed", *map(dotted, RELEASES), *(alias.name for alias in names.aliases())]


def _passes(**_: Any) -> list[str]:
    from surgeon.rules.registry import passes

    return [p.name for p in passes()]
