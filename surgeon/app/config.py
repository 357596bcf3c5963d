"""Options from a file: `surgeon.toml`, or `[tool.surgeon]` in `pyproject.toml`, in this folder or its project's root.

The command line comes first: an option that it names is not read from the file. The file is not a program: passes that
it names run only where the user trusts their folder.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surgeon.app import arguments, trust
from surgeon.app.screen import complain
from surgeon.errors import UsageError, did_you_mean
from surgeon.ir.data_file import toml
from surgeon.pipeline.option import Flag, options_of

NAMES = ("surgeon.toml", "pyproject.toml")


def apply(args: argparse.Namespace, folder: Path) -> None:
    """Set the options that the command line leaves out from the file, and say which file that is.

    Raises UsageError if the file is wrong, or names passes in a folder that is not trusted.
    """
    asked = arguments.ASKED.get(args.command)
    found = None if asked is None or args.no_config else _found(folder)
    if asked is None or found is None:
        return
    path, table = found
    given = arguments.given(args.argv)
    names = {o.name for o in options_of(asked).values()} - given
    taken = {name: text for name, text in _texts(path, table).items() if name in names}
    if not args.quiet:
        complain(f"options from '{path}': {', '.join(taken) or 'none, the command line has them all'}")
    for name, text in trust.allowed_texts(taken, path).items():
        setattr(args, name, text)
    if "target" in taken:
        args.target_from = str(path)


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
        table = toml(data.decode())
    except ValueError as error:
        raise UsageError(f"'{path}' is not TOML: {error}.") from None
    if path.name == "surgeon.toml":
        return table
    tool = table.get("tool", {}).get("surgeon")
    return tool if isinstance(tool, dict) else None


def _texts(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """Name of an option -> its text, for what a file has; its paths are relative to it.

    A key is the name of an option, or the keyword of Python: `allow-plugins`, `allow_plugins` and `plugins` are one.
    Raises UsageError for a key that there is not, for a value of another type, and for two keys of one option.
    """
    known = options_of(arguments.RewriteArguments)
    by_name = {o.name: o for o in known.values()}
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        o = by_name.get(name) or known.get(name)
        if o is None:
            meant = did_you_mean(name, {*known, *by_name})
            raise UsageError(f"'{path}' has an unknown option '{key}'.{meant}")
        if not o.kind.fits(value):
            raise UsageError(f"{key} in '{path}' is {o.kind.wanted}, not {value!r}.")
        if o.name in found:
            raise UsageError(f"'{path}' has two keys for {o.flag}.")
        inverse = isinstance(o.kind, Flag) and o.kind.inverse and name not in by_name  # `cache`, not `no_cache`
        found[o.name] = not value if inverse else o.kind.beside(o.kind.text(value), path.parent)
    return found
