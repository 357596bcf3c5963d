"""Options from a file: `surgeon.toml`, or `[tool.surgeon]` in `pyproject.toml`, in this folder or its project's root.

The command line comes first: an option that it names is not read from the file. The file is no program: passes that it
names run only where the user trusts their folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surgeon.app import trust
from surgeon.app.screen import complain
from surgeon.errors import UsageError, did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAMES = ("surgeon.toml", "pyproject.toml")
COMMANDS = ("rewrite", "fix", "check")  # those that read the file
LISTS = ("only", "skip", "plugins", "passes")
KEYS = ("target", "shapes", "strategy", *LISTS)


def apply(args: argparse.Namespace, folder: Path) -> None:
    """Set the options that the command line leaves out from the file, and say which file that is.

    Raises UsageError where the file says nonsense, or names passes in a folder that is not trusted.
    """
    found = _found(folder) if args.command in COMMANDS else None
    if found is None:
        return
    path, table = found
    _check(path, table)
    taken = {
        name: words for name, words in _words(path, table).items() if hasattr(args, name) and not getattr(args, name)
    }
    if not args.quiet:
        complain(f"options from '{path}': {', '.join(taken) or 'none, the command line has them all'}")
    for name, words in taken.items():
        setattr(args, name, words)
    if "target" in taken:
        args.target_from = str(path)
    if "passes" in taken:
        args.passes = [trust.allowed(place, path) for place in args.passes]


def _found(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """The file with options for surgeon: in the folder, else in the root of its project. None where there is none."""
    for place in dict.fromkeys((folder, trust.project_of(folder) or folder)):
        for name in NAMES:
            path = place / name
            if not path.is_file():
                continue
            if not trust.owned_by(path, folder):  # anybody may write a file into a folder for all, such as /tmp
                complain(f"'{path}' is another user's, and is not read")
                continue
            table = _table(path)
            if table is not None:
                return path, table
    return None


def _table(path: Path) -> Mapping[str, Any] | None:
    """The options in a file; None where it has none."""
    data = path.read_bytes()
    if path.name == "pyproject.toml" and b"surgeon" not in data:
        return None
    try:
        table: dict[str, Any] = tomllib.loads(data.decode())
    except ValueError as error:
        raise UsageError(f"'{path}' is not TOML: {error}.") from None
    if path.name == "surgeon.toml":
        return table
    tool = table.get("tool", {}).get("surgeon")
    return tool if isinstance(tool, dict) else None


def _check(path: Path, table: Mapping[str, Any]) -> None:
    for name, value in table.items():
        if name not in KEYS:
            raise UsageError(f"'{path}' has an option '{name}', which there is not.{did_you_mean(name, KEYS)}")
        if name == "target" and not isinstance(value, str):
            raise UsageError(f"the target in '{path}' is text, such as \"8.4\", not {value!r}.")
        if name in LISTS and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
            raise UsageError(f"{name} in '{path}' is a list of texts, not {value!r}.")
        if name in ("shapes", "strategy") and not isinstance(value, dict):
            raise UsageError(f"{name} in '{path}' is a table, not {value!r}.")


def _words(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the command line would have them; folders are relative to the file."""
    found: dict[str, Any] = dict(table)
    if "passes" in table:
        found["passes"] = [str(path.parent / folder) for folder in table["passes"]]
    if "shapes" in table:
        found["shapes"] = [f"{name}:{_sizes(sizes)}" for name, sizes in table["shapes"].items()]
    if "strategy" in table:
        found["strategy"] = [f"{name}={strategy}" for name, strategy in table["strategy"].items()]
    return found


def _sizes(given: Any) -> str:
    return "x".join(map(str, given)) if isinstance(given, list) else str(given)
