"""What `surgeon check` found in files, as JSON and as findings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surgeon.app.findings import NOT_TAKEN, ON_GPU, UNKNOWN, UNREADABLE, WARNING, Finding
from surgeon.pipeline.check import Checked, Untaken
from surgeon.pipeline.misplaced import Misplaced
from surgeon.report import target_name
from surgeon.version import __version__

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """One file: what was found in it, or why it cannot be read; `sure` is the evidence for the verdict."""

    file: str
    target: str
    checked: Checked | None = None
    sure: str = ""
    error: str = ""

    @property
    def taken(self) -> bool:
        """Whether the target supports every known node; a node that the GPU beside a DLA runs counts as supported."""
        return self.checked is not None and not self.checked.refused

    def to_json(self) -> dict[str, Any]:
        checked = self.checked
        return {
            "file": self.file,
            "target": self.target,
            "readable": checked is not None,
            "taken": self.taken,
            "sure": self.sure,
            "untaken": [] if checked is None else [u.to_json() for u in checked.untaken],
            "unknown": [] if checked is None else [u.to_json() for u in checked.unknown],
            "misplaced": [] if checked is None else [m.to_json() for m in checked.misplaced],
            "warnings": [] if checked is None else checked.warnings,
            "error": self.error,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FileVerdict:
        """The verdict that `to_json` wrote, but for what a rewrite would do."""
        if not value["readable"]:
            return cls(value["file"], value["target"], error=value["error"])
        untaken, unknown = ([Untaken.from_json(u) for u in value[key]] for key in ("untaken", "unknown"))
        placed = [Misplaced(**found) for found in value["misplaced"]]
        checked = Checked(value["target"], untaken, value["warnings"], unknown, misplaced=placed)
        return cls(value["file"], value["target"], checked, value["sure"])

    def findings(self) -> Iterator[Finding]:
        """All findings in the file."""
        if self.checked is None:
            yield Finding(self.file, UNREADABLE, self.error)
            return
        name = target_name(self.target)
        for found in self.checked.untaken:
            by = f"fixed by {found.fixed_by}" if found.fixed_by else "no pass fixes it"
            by += f"; advice: {found.advice}" if found.advice else ""
            kind = ON_GPU if found.on_gpu else NOT_TAKEN
            yield Finding(self.file, kind, f"{name} does not support {found}; {by}", found.node)
        for found in self.checked.unknown:
            yield Finding(self.file, UNKNOWN, f"{name}, {found}", found.node)
        for placed in self.checked.misplaced:
            yield Finding(self.file, WARNING, str(placed), placed.node)
        for warning in self.checked.warnings:
            yield Finding(self.file, WARNING, warning)


def as_json(verdicts: Sequence[FileVerdict]) -> str:
    """All files as one JSON value."""
    value = {"schema": SCHEMA, "surgeon": __version__, "files": [v.to_json() for v in verdicts]}
    return json.dumps(value, indent=2, ensure_ascii=False)
