"""What a run did, as one value: `Report`, which the command line prints and writes as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar

from surgeon.visible import visible

K = TypeVar("K")
V = TypeVar("V")
SCHEMA = 1
# How far a rewrite is proved, best first. Of quantizers, which change the numbers, the error is measured.
TESTED, MEASURED, UNPROVED = "tested", "measured", "unproved"
GRADES = (TESTED, MEASURED, UNPROVED)
QUANTIZE = "quantize"  # the strategy of what adds, moves and removes quantizers
MOST_SHOWN = 6  # rows of each kind in a report's `repr`, which fits one screen
Progress = Callable[[str, int, int], None]  # what a long run calls with (phase, done, total)


class Line(Protocol):
    """A node as a report shows it: its name and its text."""

    @property
    def label(self) -> str: ...

    @property
    def text(self) -> str: ...


class Change(Protocol):
    """What a rewrite changed: the nodes before and after, and the tensors that are read outside them."""

    @property
    def nodes_before(self) -> Sequence[Line]:
        """The removed nodes, in the order of the file."""

    @property
    def nodes_after(self) -> Sequence[Line]:
        """The added nodes."""

    @property
    def read_instead(self) -> Sequence[str]:
        """A line for each removed tensor that no new node replaces."""

    @property
    def output_names(self) -> list[str]:
        """The tensors that nodes outside the window read."""


LIKELY_INVALID = "the node is likely invalid: "  # and the error in which a pass or a condition ended
LEFT = "not better"  # of what `--tune` tried and did not keep


class Applied(NamedTuple):
    """One rewrite that is kept.

    max_error  the largest proved difference, relative to the largest output; None where it is not proved

    What is asked of `change` is read from it then: a run makes thousands.
    """

    pass_name: str
    strategy: str
    root: str
    change: Change
    max_error: float | None = None

    @property
    def grade(self) -> str:
        """Whether its window was run before and after."""
        if self.max_error is None:
            return UNPROVED
        return MEASURED if self.strategy == QUANTIZE else TESTED

    @property
    def outputs(self) -> list[str]:
        """The tensors that nodes outside the window read."""
        return self.change.output_names

    @property
    def removed(self) -> list[str]:
        """The removed nodes, by name."""
        return [n.label for n in self.change.nodes_before]

    @property
    def added(self) -> list[str]:
        """The added nodes, by name."""
        return [n.label for n in self.change.nodes_after]

    @property
    def before(self) -> list[str]:
        """The window as the file had it, one line for each node."""
        return [n.text for n in self.change.nodes_before]

    @property
    def after(self) -> list[str]:
        """The window as it is now, one line for each node."""
        return [*(n.text for n in self.change.nodes_after), *self.change.read_instead]

    def to_json(self) -> dict[str, Any]:
        return {
            "pass": self.pass_name,
            "strategy": self.strategy,
            "root": self.root,
            "outputs": self.outputs,
            "removed": self.removed,
            "added": self.added,
            "max_error": self.max_error,
            "grade": self.grade,
        }


@dataclass(frozen=True, slots=True)
class Declined:
    """A pattern that matched where the rewrite was not made, and why; or a node that the target does not support.

    on_gpu  of such a node: the DLA does not run it, the GPU beside it does
    """

    pass_name: str
    node: str
    why: str
    on_gpu: bool = False

    def to_json(self) -> dict[str, Any]:
        found = {"pass": self.pass_name, "node": self.node, "why": self.why}
        return found | {"on_gpu": True} if self.on_gpu else found


class Group(NamedTuple):
    """All rewrites of one pass and strategy: how many, the removed and added nodes, and the largest error.

    `max_error` is None where one of them is not proved; `grade` is the lowest of any.
    """

    pass_name: str
    strategy: str
    times: int
    removed: int
    added: int
    max_error: float | None
    grade: str
    rewrites: Sequence[Applied] = ()


class _Asked(TypedDict):
    mode: str
    skipped: list[str]


class Verified(_Asked, total=False):
    """What was proved.

    mode       "window", "full" or "none", as it was asked for
    skipped    the roots of rewrites that are not proved, of those that were to be
    max_error  the largest difference of the whole models, where they were compared, with what quantizers change
    compared   False where the whole models could not be compared
    failed     how the whole models differ, or why they were not compared; there only where that is a failure
    """

    max_error: float | None
    compared: bool
    failed: str


@dataclass(slots=True, repr=False)
class Report:
    """What a run did to a model.

    undone          rewrites that failed their proof
    untaken         nodes of the result that the target does not support
    untaken_before  how many nodes of the original it does not support, or may not support
    unknown         nodes of the result for which it is unknown whether the target supports them
    tuned           what `--tune` tried, and what each gave
    """

    surgeon: str
    target: str
    applied: list[Applied] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    undone: list[Declined] = field(default_factory=list)
    untaken: list[Declined] = field(default_factory=list)
    unknown: list[Declined] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    verify: Verified = field(default_factory=lambda: Verified(mode="window", skipped=[]))
    ops_before: dict[str, int] = field(default_factory=dict)
    ops_after: dict[str, int] = field(default_factory=dict)
    opset_before: int = 0
    opset_after: int = 0
    untaken_before: int = 0
    seconds: float = 0.0
    tuned: list[str] = field(default_factory=list)

    def follow(self, later: Report) -> None:
        """Add what a further run did to the result of this one."""
        self.applied = [*self.applied, *later.applied]
        self.declined = later.declined
        self.undone = list(dict.fromkeys([*self.undone, *later.undone]))
        self.warnings = list(dict.fromkeys([*self.warnings, *later.warnings]))
        self.verify["skipped"] = [*self.verify["skipped"], *later.verify["skipped"]]
        self.untaken, self.unknown = later.untaken, later.unknown
        self.ops_after, self.opset_after = later.ops_after, later.opset_after

    @property
    def broken(self) -> bool:
        """Whether something was undone, or whole models differ or could not be compared."""
        return bool(self.undone or self.verify.get("failed"))

    @property
    def failed(self) -> bool:
        """Whether it is broken, or the target does not support a node of the result."""
        return bool(self.broken or self.refused)

    @property
    def unsupported(self) -> list[Declined]:
        """Another name of `untaken`."""
        return self.untaken

    @property
    def refused(self) -> list[Declined]:
        """The unsupported nodes that the GPU beside a DLA does not run either."""
        return [d for d in self.untaken if not d.on_gpu]

    @property
    def nodes_before(self) -> int:
        """The nodes of the original, those of bodies and local functions included."""
        return sum(self.ops_before.values())

    @property
    def nodes_after(self) -> int:
        """The nodes of the result, those of bodies and local functions included."""
        return sum(self.ops_after.values())

    def groups(self) -> list[Group]:
        """The rewrites by pass and strategy, in alphabetical order."""
        found = grouped(((a.pass_name, a.strategy), a) for a in self.applied)
        return [_group(name, strategy, those) for (name, strategy), those in sorted(found.items())]

    def errors(self, grade: str) -> list[float]:
        """The errors of the rewrites of a grade."""
        return [a.max_error for a in self.applied if a.grade == grade and a.max_error is not None]

    def to_json(self) -> dict[str, Any]:
        """The report's JSON value, field by field in docs/report.md."""
        return {
            "schema": SCHEMA,
            "surgeon": self.surgeon,
            "target": self.target,
            "failed": self.failed,
            "undone": [d.to_json() for d in self.undone],
            "untaken": [d.to_json() for d in self.untaken],
            "unknown": [d.to_json() for d in self.unknown],
            "untaken_before": self.untaken_before,
            "warnings": [*self.warnings, *(f"{d.node}: unsupported by {self.target}: {d.why}" for d in self.untaken)],
            "verify": dict(self.verify),
            "applied": [a.to_json() for a in self.applied],
            "declined": [d.to_json() for d in self.declined],
            "ops": {"before": dict(sorted(self.ops_before.items())), "after": dict(sorted(self.ops_after.items()))},
            "opset": {"before": self.opset_before, "after": self.opset_after},
            "seconds": round(self.seconds, 3),
            **({"tuned": self.tuned} if self.tuned else {}),
        }

    def __repr__(self) -> str:
        rows = [("  " + "  ".join(cells)).rstrip() for cells in self._rows()]
        return "\n".join(map(visible, [f"Report: {self._headline()}", *rows]))

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        from html import escape  # a start is faster without it

        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in cells) for cells in self._rows())
        table = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<p>{escape(self._headline())}</p><table>{table}</table>"

    def _headline(self) -> str:
        nodes = f"{self.nodes_before} -> {self.nodes_after} nodes"
        said = [counted(len(self.applied), "rewrite"), nodes]
        said += [f"{len(self.declined)} declined"] if self.declined else []
        failed = "; FAILED" if self.failed else ""
        return f"{', '.join(said)} for {target_name(self.target)}, {self.seconds:.1f} s{failed}"

    def _rows(self) -> list[tuple[str, ...]]:
        """(kind, what, ...) of the most important entries, at most MOST_SHOWN of each kind."""
        applied = [
            (g.pass_name, f"{g.strategy}, {g.times}x, {g.removed} -> {g.added} nodes, error {error_text(g.max_error)}")
            for g in self.groups()
        ]
        rows = _shown("applied", applied)
        rows += _shown("undone", [(d.node, d.why) for d in self.undone])
        rows += _shown("unsupported", [(d.node, d.why) for d in self.untaken])
        rows += _shown("unknown", [(d.node, d.why) for d in self.unknown])
        if self.verify.get("failed"):
            rows.append(("whole models", "", self.verify["failed"]))
        return rows + _shown("warning", [("", w) for w in self.warnings])


def _group(name: str, strategy: str, those: Sequence[Applied]) -> Group:
    removed, added = sum(len(a.removed) for a in those), sum(len(a.added) for a in those)
    errors = [a.max_error for a in those if a.max_error is not None]
    grade = max((a.grade for a in those), key=GRADES.index)
    error = max(errors) if len(errors) == len(those) else None
    return Group(name, strategy, len(those), removed, added, error, grade, those)


def _shown(kind: str, entries: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [(kind, *entry) for entry in entries]
    left = len(rows) - MOST_SHOWN
    return [*rows[:MOST_SHOWN], (kind, "", f"and {left} more")] if left > 0 else rows


@dataclass(frozen=True, slots=True)
class Kept:
    """A node that computes in fp32, or whose types were left alone, and why."""

    node: str
    op: str
    why: str

    def to_json(self) -> dict[str, str]:
        return {"node": self.node, "op": self.op, "why": self.why}


@dataclass(slots=True, kw_only=True)
class Conversion:
    """What a conversion to half precision did.

    kept          the nodes that stay fp32, islands first
    warnings      what the user has to know
    errors        of the outputs against the fp32 original, worst first: `surgeon.precision.comparison.OutputError`
    not_compared  why there are none; empty where the models were compared
    unproved      whether that is a failure: it is, unless `allow_unproved` permits it
    half          how many nodes compute in half precision
    single        how many compute in fp32
    casts         how many Cast nodes are between the two
    way           "fp16", "bf16" or "half"
    tolerance     what the error of an output may be
    inputs        what the models were compared on, in words
    measured      how many conversions were measured to find what stays fp32
    allow_inexact whether it may be written though it failed
    gain          how many of the Conv, MatMul and the like compute in half precision, and how many there are
    """

    kept: list[Kept] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[Any] = field(default_factory=list)
    not_compared: str = ""
    unproved: bool = False
    half: int = 0
    single: int = 0
    casts: int = 0
    way: str = "fp16"
    tolerance: float = 0.0
    inputs: list[str] = field(default_factory=list)
    measured: int = 0
    allow_inexact: bool = False
    gain: tuple[int, int] = (0, 0)

    @property
    def failed(self) -> bool:
        """Whether the error of an output is above the tolerance, or not known."""
        return self.unproved or any(not e.ok for e in self.errors)

    @property
    def withheld(self) -> bool:
        """Whether the model must not be written."""
        return self.failed and not self.allow_inexact

    @property
    def type_text(self) -> str:
        """What it converts to, in words."""
        return "half precision" if self.way == "half" else self.way

    @property
    def failure(self) -> str:
        """Why the conversion failed, in one sentence; empty where it did not."""
        if not self.failed:
            return ""
        worst = next((f"'{e.output}': {e.why}" for e in self.errors if not e.ok), self.not_compared)
        return f"the conversion to {self.type_text} failed: {worst}"

    @property
    def worst(self) -> float | None:
        """The largest relative error of any output; None where nothing was compared."""
        return self.errors[0].relative if self.errors else None

    @property
    def is_apart(self) -> bool:
        """Whether the weights are written to a file of their own."""
        return False

    def to_json(self) -> dict[str, Any]:
        return {
            "type": self.way,
            "nodes": {"half": self.half, "fp32": self.single, "casts": self.casts},
            "kept": [k.to_json() for k in self.kept],
            "tolerance": self.tolerance,
            "inputs": self.inputs,
            "measured": self.measured,
            "max_error": self.worst if self.worst is not None and math.isfinite(self.worst) else None,
            "not_compared": self.not_compared,
            "outputs": [e.to_json() for e in self.errors],
        }


# ---- words -----------------------------------------------------------------------------------------------------------


def target_name(target: str) -> str:
    """The name of a target in a sentence: "TensorRT 8.4", "TensorRT-RTX"."""
    return "TensorRT-RTX" if target == "rtx" else f"TensorRT {target}"


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, in the order in which they come."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def counted(count: int, word: str, several: str = "") -> str:
    """A number and its word: "1 node", "2 nodes"; `several` is the plural if it is irregular."""
    return f"{count} {word}" if count == 1 else f"{count} {several or f'{word}s'}"


def error_text(error: float | None) -> str:
    """A proved error as text: "2.1e-07", "0", or "not proved" for None."""
    if error is None:
        return "not proved"
    return f"{error:.1e}" if error else "0"
