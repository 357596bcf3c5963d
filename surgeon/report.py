"""What a run did, as one value: `Report`, which the command line prints and writes as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

SCHEMA = 1


class Window(Protocol):
    """What was rewritten: its nodes, each with a `label` and a `text`, and the tensors that are read outside it."""

    @property
    def nodes_before(self) -> Sequence[Any]:
        """In the order of the file."""

    @property
    def nodes_after(self) -> Sequence[Any]: ...

    @property
    def read_instead(self) -> Sequence[str]:
        """A line for each tensor that went without a node in its place."""

    @property
    def output_names(self) -> list[str]: ...


class Applied(NamedTuple):
    """One rewrite that stays. `max_error`: the largest proved difference, relative to the largest output; None
    unproved. What is asked of the window is read from it then: a run makes thousands."""

    pass_name: str
    strategy: str
    root: str
    window: Window
    max_error: float | None = None

    @property
    def outputs(self) -> list[str]:
        return self.window.output_names

    @property
    def removed(self) -> list[str]:
        """The nodes that went, by name."""
        return [n.label for n in self.window.nodes_before]

    @property
    def added(self) -> list[str]:
        """The nodes that stand there now, by name."""
        return [n.label for n in self.window.nodes_after]

    @property
    def before(self) -> list[str]:
        """The window as the file had it, a line a node."""
        return [n.text for n in self.window.nodes_before]

    @property
    def after(self) -> list[str]:
        """The window as it stands now, a line a node."""
        return [*(n.text for n in self.window.nodes_after), *self.window.read_instead]

    def to_json(self) -> dict[str, Any]:
        return {
            "pass": self.pass_name,
            "strategy": self.strategy,
            "root": self.root,
            "outputs": self.outputs,
            "removed": self.removed,
            "added": self.added,
            "max_error": self.max_error,
        }


@dataclass(frozen=True, slots=True)
class Declined:
    """A pattern that held where the rewrite was not made, and why."""

    pass_name: str
    node: str
    why: str

    def to_json(self) -> dict[str, Any]:
        return {"pass": self.pass_name, "node": self.node, "why": self.why}


@dataclass(slots=True)
class Report:
    """`undone`: rewrites that failed their proof. `untaken`: nodes of the result that the target does not take."""

    surgeon: str
    target: str
    applied: list[Applied] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    undone: list[Declined] = field(default_factory=list)
    untaken: list[Declined] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    verify: dict[str, Any] = field(default_factory=lambda: {"mode": "window", "skipped": []})
    ops_before: dict[str, int] = field(default_factory=dict)
    ops_after: dict[str, int] = field(default_factory=dict)
    opset_before: int = 0
    opset_after: int = 0
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the exit status is 1: something was undone, or whole models differ, or the target refuses a node."""
        return bool(self.undone or self.untaken or self.verify.get("failed"))

    def to_json(self) -> dict[str, Any]:
        """The report's JSON value, field by field in docs/report.md."""
        return {
            "schema": SCHEMA,
            "surgeon": self.surgeon,
            "target": self.target,
            "failed": self.failed,
            "undone": [d.to_json() for d in self.undone],
            "untaken": [d.to_json() for d in self.untaken],
            "warnings": [*self.warnings, *(f"{d.node}: not taken by {self.target}: {d.why}" for d in self.untaken)],
            "verify": dict(self.verify),
            "applied": [a.to_json() for a in self.applied],
            "declined": [d.to_json() for d in self.declined],
            "ops": {"before": dict(sorted(self.ops_before.items())), "after": dict(sorted(self.ops_after.items()))},
            "opset": {"before": self.opset_before, "after": self.opset_after},
            "seconds": round(self.seconds, 3),
        }


__all__ = ["SCHEMA", "Applied", "Declined", "Report", "Window"]
