"""Which folders may run Python code that the user did not name on the command line.

A configuration file names folders of passes, and a report those of its run and perhaps a data loader: whoever wrote
such a file would run code as the user. So code runs only below a folder that `surgeon trust` has recorded, or that the
environment variable SURGEON_TRUST names.

The record is a JSON list of real paths in the user's own configuration. A link to another place is judged by where it
leads, and a recorded folder that has become a link is not trusted any more.
"""

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surgeon import private_files
from surgeon.errors import UsageError
from surgeon.private_files import HAS_OWNERS, NotPrivateError

VARIABLE = "SURGEON_TRUST"  # absolute folders, with os.pathsep between them
MARKS = (".git", "pyproject.toml")  # what the root of a project has


def allowed(code: str | Path, named_by: Path) -> str:
    """The real path of a folder of passes, or of a Python file, that may run.

    named_by  the file that names it: a configuration file or a report

    Raises UsageError where its folder is not trusted, or a Python file in it leads to one that is not.
    """
    real = _real(code)
    if not real.exists():
        raise UsageError(f"'{named_by}' names '{code}', and there is no such file or folder.")
    files = sorted(real.glob("*.py")) if real.is_dir() else [real]
    trusted, ignored = _from_variable()
    recorded, why = _recorded_for(real, named_by)
    ignored += why
    for folder in dict.fromkeys([*([real] if real.is_dir() else []), *(_real(file).parent for file in files)]):
        if not _is_below(folder, [*trusted, *recorded]):
            raise UsageError(_refusal(folder, named_by, ignored))
    return str(real)


def allowed_texts(texts: Mapping[str, Any], named_by: Path) -> dict[str, Any]:
    """The texts of options, with the real paths of the code that they name. Raises UsageError where it may not run.

    Code is in passes, in a metric, and in data that are neither arrays nor a folder of them.
    """
    found = dict(texts)
    found["passes"] = [allowed(place, named_by) for place in texts.get("passes", ())]
    data, metric = texts.get("data"), texts.get("metric")
    if data is not None and Path(data).suffix != ".npz" and not Path(data).is_dir():
        found["data"] = allowed(data, named_by)
    if metric is not None and ":" in metric:
        file, _, function = metric.rpartition(":")
        found["metric"] = f"{allowed(file, named_by)}:{function}"
    return {name: text for name, text in found.items() if name in texts}


def project_of(folder: Path) -> Path | None:
    """The root of the project that a folder is in: the nearest folder upwards with .git or pyproject.toml."""
    return next((f for f in (folder, *folder.parents) if any(os.path.exists(f / mark) for mark in MARKS)), None)


def owned_by(path: Path, *others: Path) -> bool:
    """Whether a file is the user's own, the system's, or of the same owner as one of `others`."""
    if not HAS_OWNERS:
        return True
    return path.stat().st_uid in {0, os.geteuid(), *(other.stat().st_uid for other in others)}


def open_to_others(folder: Path) -> str:
    """Why other users may change what is in a folder; empty where they cannot."""
    try:
        private_files.make_folder(folder)
    except NotPrivateError as error:
        return str(error)
    return ""


# ---- the record ------------------------------------------------------------------------------------------------------


def add(folder: str | Path) -> Path:
    """Trust a folder and what is below it, and return its real path. Raises UsageError."""
    real = _real(folder)
    if not real.is_dir():
        raise UsageError(f"'{folder}' is not a folder.")
    known = recorded()
    if real not in known:
        _write([*known, real])
    return real


def forget(folder: str | Path) -> Path:
    """Trust a folder no more, and return the path that was recorded. Raises UsageError where it was not."""
    known = recorded()
    for path in (_real(folder), Path(os.path.abspath(folder))):  # a link today may have been a folder then
        if path in known:
            _write([k for k in known if k != path])
            return path
    above = next((k for k in known if _is_below(_real(folder), [k])), None)
    covered = f" It is below '{above}', which is." if above else ""
    raise UsageError(f"'{folder}' is not in the list of trusted folders.{covered}")


def recorded() -> list[Path]:
    """The folders of the record. Raises UsageError where the record does not count."""
    place = place_of_record()
    found, why = _read(place)
    if why:
        raise UsageError(f"{why} Look at it, and delete it.")
    return found


def place_of_record() -> Path:
    """The file of the record: in $XDG_CONFIG_HOME, else in ~/.config. Raises UsageError where there is no home.

    $SURGEON_CACHE does not move it: a pipeline may keep its cache in the checkout.
    """
    given = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".config"
    except RuntimeError:
        base = Path()
    if not base.is_absolute():
        raise UsageError(f"there is no home folder to keep the list of trusted folders in. Set {VARIABLE} instead.")
    return _real(base / "surgeon") / "trusted.json"


def _read(place: Path) -> tuple[list[Path], str]:
    """The folders of the record, or why it does not count."""
    try:
        told = json.loads(private_files.read(place))
    except (FileNotFoundError, NotADirectoryError):
        return [], ""
    except NotPrivateError as error:
        return [], f"the list of trusted folders is not counted: {error}."
    except (OSError, ValueError) as error:
        return [], f"the list of trusted folders, '{place}', cannot be read: {error}."
    if not isinstance(told, list) or not all(isinstance(t, str) and os.path.isabs(t) for t in told):
        return [], f"the list of trusted folders, '{place}', is not a JSON list of absolute paths, and is not counted."
    return [Path(t) for t in told], ""


def _write(folders: list[Path]) -> None:
    place = place_of_record()
    try:
        private_files.make_folder(place.parent).chmod(0o700)
        private_files.replace(place, json.dumps([str(f) for f in folders], indent=1).encode())
    except NotPrivateError as error:
        raise UsageError(f"the list of trusted folders cannot be kept: {error}.") from None


# ---- who is trusted --------------------------------------------------------------------------------------------------


def from_variable() -> list[Path]:
    """The folders that the environment variable names."""
    return _from_variable()[0]


def _from_variable() -> tuple[list[Path], list[str]]:
    """The folders that the environment variable names, and a sentence on each that is not absolute."""
    given = [word for word in os.environ.get(VARIABLE, "").split(os.pathsep) if word]
    relative = [word for word in given if not os.path.isabs(word)]
    ignored = [f"{VARIABLE} names '{word}', which is not an absolute path and is not counted." for word in relative]
    return [_real(word) for word in given if os.path.isabs(word)], ignored


def _recorded_for(code: Path, named_by: Path) -> tuple[list[Path], list[str]]:
    """The folders of the record, and why it does not count for this code.

    A checkout may be the home folder, as in a container: it must not bring its own record.
    """
    try:
        place = place_of_record()
    except UsageError as error:
        return [], [str(error)]
    for asking in (code, _real(named_by).parent):
        root = project_of(asking) or (None if _is_below(_home(), [asking]) else asking)
        if root is not None and _is_below(place, [root]):
            return [], [
                f"the list of trusted folders, '{place}', is below '{root}' as the code is, and is not counted."
            ]
    found, why = _read(place)
    return found, [why] if why else []


def _home() -> Path:
    """The user's home folder as the system has it, whatever the environment says."""
    if not HAS_OWNERS:
        return _real(os.path.expanduser("~"))
    import pwd  # Windows has none

    try:
        return _real(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:  # a user of a container that the system does not know
        return Path(os.devnull)


def _refusal(folder: Path, named_by: Path, ignored: list[str]) -> str:
    named = shlex.quote(str(folder))
    sentences = [
        f"'{named_by}' asks to run the Python files in '{folder}', and that folder is not trusted. Read them first.",
        f"Then type `surgeon trust {named}`, which is kept, or set {VARIABLE}={named} for one run or a pipeline.",
    ]
    return " ".join([*sentences, *(why[:1].upper() + why[1:] for why in ignored)])


def _is_below(path: Path, folders: list[Path]) -> bool:
    return any(folder == path or folder in path.parents for folder in folders)


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))
