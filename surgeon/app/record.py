"""The audit record in a JSON report: which files, by their hashes, with which options and versions, and when."""

import argparse
import hashlib
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from surgeon.app.arguments import ASKED
from surgeon.pipeline.option import options_of
from surgeon.targets.installed import installed_version
from surgeon.version import __version__

PACKAGES = ("numpy", "onnx", "onnxruntime")
RUNTIMES = ("tensorrt", "tensorrt_rtx")
CHUNK = 1 << 20  # bytes that are read at once


def record(
    args: argparse.Namespace, sources: Sequence[Path], written: Mapping[Path, Path], exit_status: int
) -> dict[str, Any]:
    """The record of a run, field by field in docs/report.md.

    sources  the files that were read
    written  the files of the written model, each with the place where it can be read now
    """
    return {
        "command": ["surgeon", *args.argv],
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "exit_status": exit_status,
        "input": [described(path, path) for path in sources],
        "output": [described(path, now) for path, now in written.items()],
        "options": {o.name: getattr(args, o.name) for o in options_of(ASKED[args.command]).values()},
        "versions": versions(),
    }


def described(path: Path, now: Path) -> dict[str, Any]:
    """A file's absolute path, size and hash; `now` is where it can be read."""
    return {"path": str(path.absolute()), "bytes": now.stat().st_size, "sha256": sha256(now)}


def sha256(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal digits."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()


def versions() -> dict[str, str]:
    """The versions of surgeon, Python and what surgeon computes with; a TensorRT only where one is installed."""
    found = {"surgeon": __version__, "python": platform.python_version()}
    found |= {name: metadata.version(name) for name in PACKAGES}
    return found | {name: version for name in RUNTIMES if (version := installed_version(name))}
