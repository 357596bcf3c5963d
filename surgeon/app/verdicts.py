"""What `surgeon check` found in files, as JSON, as SARIF 2.1.0, or as workflow commands of GitHub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from surgeon import __version__
from surgeon.pipeline.check import Checked, Untaken
from surgeon.report import target_name

SCHEMA = 1
SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
NOT_TAKEN, UNKNOWN, WARNING, UNREADABLE = "not-taken", "unknown", "warning", "unreadable"
MEANINGS = {
    NOT_TAKEN: "The target refuses the node, or reads it with another meaning than ONNX's.",
    UNKNOWN: "Whether the target takes the node is not known.",
    WARNING: "What surgeon's passes would say of the file.",
    UNREADABLE: "The file cannot be read as an ONNX model.",
}
LEVELS = {NOT_TAKEN: "error", UNKNOWN: "note", WARNING: "warning", UNREADABLE: "error"}


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """One file: what was found in it, or why it cannot be read; `sure` says what the verdict rests on."""

    file: str
    target: str
    checked: Checked | None = None
    sure: str = ""
    error: str = ""

    @property
    def taken(self) -> bool:
        """Whether the target takes every node of which anything is known."""
        return self.checked is not None and not self.checked.untaken


def as_json(verdicts: Sequence[FileVerdict]) -> str:
    """All files as one JSON value."""
    value = {"schema": SCHEMA, "surgeon": __version__, "files": [_json(v) for v in verdicts]}
    return json.dumps(value, indent=2, ensure_ascii=False)


def as_sarif(verdicts: Sequence[FileVerdict]) -> str:
    """All files as one run of SARIF: a result for each node, warning and unreadable file."""
    results = [_result(v, kind, text, node) for v in verdicts for kind, text, node in _findings(v)]
    rules = [{"id": kind, "shortDescription": {"text": text}} for kind, text in MEANINGS.items()]
    driver = {"name": "surgeon", "version": __version__, "rules": rules}
    value = {"$schema": SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(value, indent=2, ensure_ascii=False)


def as_github(verdicts: Sequence[FileVerdict]) -> str:
    """A workflow command a line, which GitHub shows beside the file; empty where nothing was found."""
    levels = {"error": "error", "note": "notice", "warning": "warning"}
    lines = [
        f"::{levels[LEVELS[kind]]} file={_property(v.file)},title=surgeon {kind}::{_message(text)}"
        for v in verdicts
        for kind, text, _ in _findings(v)
    ]
    return "\n".join(lines)


FORMATS = {"json": as_json, "sarif": as_sarif, "github": as_github}


def _findings(verdict: FileVerdict) -> Iterator[tuple[str, str, str]]:
    """(kind, text, node) of everything that is to be said of a file."""
    if verdict.checked is None:
        yield UNREADABLE, verdict.error, ""
        return
    name = target_name(verdict.target)
    for found in verdict.checked.untaken:
        mended = f"mended by {found.mended_by}" if found.mended_by else "no pass mends it"
        yield NOT_TAKEN, f"{name} does not take {found}; {mended}", found.node
    for found in verdict.checked.unknown:
        yield UNKNOWN, f"{name}, {found}", found.node
    for warning in verdict.checked.warnings:
        yield WARNING, warning, ""


def _json(verdict: FileVerdict) -> dict[str, Any]:
    checked = verdict.checked
    return {
        "file": verdict.file,
        "target": verdict.target,
        "readable": checked is not None,
        "taken": verdict.taken,
        "sure": verdict.sure,
        "untaken": [] if checked is None else [_node(u) for u in checked.untaken],
        "unknown": [] if checked is None else [_node(u) for u in checked.unknown],
        "warnings": [] if checked is None else checked.warnings,
        "error": verdict.error,
    }


def _node(found: Untaken) -> dict[str, str]:
    return {"node": found.node, "op": found.op, "why": found.why, "mended_by": found.mended_by}


def _result(verdict: FileVerdict, kind: str, text: str, node: str) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": verdict.file.replace("\\", "/")}}}
    if node:
        location["logicalLocations"] = [{"name": node, "kind": "element"}]
    return {"ruleId": kind, "level": LEVELS[kind], "message": {"text": text}, "locations": [location]}


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
