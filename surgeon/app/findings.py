"""The findings in files for machines: SARIF 2.1.0, or workflow commands of GitHub."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surgeon.report import target_name
from surgeon.version import __version__
from surgeon.visible import visible

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
NOT_TAKEN, UNKNOWN, WARNING, UNREADABLE = "unsupported", "unknown", "warning", "unreadable"
UNDONE, CHANGES, DIFFERS, ON_GPU = "undone", "changes", "differs", "on-gpu"
# What was found, by kind: its level in SARIF, and what it means.
KINDS = {
    NOT_TAKEN: ("error", "The target refuses the node, or reads it with another meaning than ONNX's."),
    ON_GPU: ("note", "The DLA does not run the node: the GPU beside it does."),
    UNDONE: ("error", "A rewrite failed its proof and was undone."),
    DIFFERS: ("error", "Two models give different numbers on the same inputs, or could not be compared."),
    CHANGES: ("warning", "A rewrite would change the file."),
    UNKNOWN: ("note", "Whether the target supports the node is unknown."),
    WARNING: ("warning", "A warning of surgeon's passes about the file."),
    UNREADABLE: ("error", "The file cannot be read as an ONNX model."),
}
ANNOTATIONS = {"error": "error", "note": "notice", "warning": "warning"}  # GitHub's word for a level


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found in a file; `kind` is a key of KINDS, `node` is empty where it is about no node."""

    file: str
    kind: str
    text: str
    node: str = ""


def as_sarif(findings: Sequence[Finding]) -> str:
    """All findings as one run of SARIF."""
    rules = [{"id": kind, "shortDescription": {"text": text}} for kind, (_, text) in KINDS.items()]
    driver = {"name": "surgeon", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_result(f) for f in findings]}
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def as_github(findings: Sequence[Finding]) -> str:
    """One workflow command per line, which GitHub shows beside the file; empty where nothing was found."""
    return "\n".join(
        f"::{ANNOTATIONS[KINDS[f.kind][0]]} file={_property(f.file)},title=surgeon {f.kind}::{_message(f.text)}"
        for f in findings
    )


FORMATS = {"sarif": as_sarif, "github": as_github}


def of_report(file: str, report: Mapping[str, Any], *, changes: bool = False) -> Iterator[Finding]:
    """The findings in a rewrite's JSON report; `changes`: also that a rewrite would change the file."""
    name = target_name(report["target"])
    for entry in report["undone"]:
        yield Finding(file, UNDONE, f"{entry['pass']} at {entry['node']} was undone: {entry['why']}", entry["node"])
    for entry in report["untaken"]:
        cure = f"; advice: {entry['cure']}" if "cure" in entry else ""
        kind = ON_GPU if entry.get("on_gpu") else NOT_TAKEN
        yield Finding(file, kind, f"{name} does not support {entry['node']}: {entry['why']}{cure}", entry["node"])
    if report["verify"].get("failed"):
        yield Finding(file, DIFFERS, f"the whole models differ: {report['verify']['failed']}")
    if changes and report["applied"]:
        passes = ", ".join(sorted({entry["pass"] for entry in report["applied"]}))
        yield Finding(file, CHANGES, f"surgeon rewrite would make {len(report['applied'])} rewrites: {passes}")
    for text in report["warnings"][: len(report["warnings"]) - len(report["untaken"])]:
        yield Finding(file, WARNING, text)


def _result(found: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": found.file.replace("\\", "/")}}}
    if found.node:
        location["logicalLocations"] = [{"name": found.node, "kind": "element"}]
    message = {"text": found.text}
    return {"ruleId": found.kind, "level": KINDS[found.kind][0], "message": message, "locations": [location]}


def _message(text: str) -> str:
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
