"""Which nodes of a model a target does not take, and which passes mend them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surgeon.ir.files import read
from surgeon.ir.model import Model
from surgeon.pipeline.session import rewrite, untaken
from surgeon.report import Report
from surgeon.targets.target import Target

QUOTED = re.compile("'([^']+)'")


@dataclass(frozen=True, slots=True)
class Untaken:
    """A node that the target does not take, by surgeon's table or in the words of a parser or builder.

    `node`: its label in the ONNX file, empty where an error names none. `mended_by`: the passes that rewrite it, empty
    where none does.
    """

    node: str
    op: str
    why: str
    mended_by: str = ""

    def __str__(self) -> str:
        where = f"{self.op} '{self.node}'" if self.node else "the model"
        return f"{where}: {self.why}"


@dataclass(frozen=True, slots=True)
class Checked:
    """`untaken`: the nodes that a target rejects or reads with another meaning, in file order. `warnings`: what the
    passes would say of the file, such as an epsilon that its exporter lost."""

    untaken: list[Untaken]
    warnings: list[str]


def called(target: str) -> str:
    """A target as a sentence calls it: "TensorRT 8.4", "TensorRT-RTX"."""
    return "TensorRT-RTX" if target == "rtx" else f"TensorRT {target}"


def check(path: Path, *, target: Target, **options: Any) -> Checked:
    """What `target` does not take, each node with the passes that rewrite it, and what the passes say of the file.

    `options` are those of `surgeon.rewrite`. Nothing is proved here: `surgeon rewrite` does that.
    """
    model = Model(read(path), path.parent)
    refused = untaken(model, target)
    report = rewrite(path, target=target, verify="none", **options).report
    mending = _mended_by(report, model) if refused else {}
    nodes = [n for s in model.scopes for n in s.live()]
    ops = {n.label: n.op for n in nodes}
    makers = {o.name: n.label for n in nodes for o in n.outputs if o is not None}

    def mender(node: str, why: str) -> str:
        """A reason may name a tensor further up: then it is the pass that takes that tensor away."""
        above = [mending[makers[t]] for t in QUOTED.findall(why) if makers.get(t) in mending]
        return above[0] if above and node in mending else mending.get(node, "")

    found = [Untaken(d.node, ops.get(d.node, ""), d.why, mender(d.node, d.why)) for d in refused]
    return Checked(found, report.warnings)


def mended_by(path: Path, *, target: Target, **options: Any) -> dict[str, str]:
    """Node label -> the passes that take the node away, or change what it reads, on the way to what `target` takes.

    `options` are those of `surgeon.rewrite`. Nothing is proved here.
    """
    report = rewrite(path, target=target, verify="none", **options).report
    return _mended_by(report, Model(read(path), path.parent))


def _mended_by(report: Report, file: Model) -> dict[str, str]:
    found = {name: a.pass_name for a in report.applied for name in (a.root, *a.removed)}
    made_by = {name: a.pass_name for a in report.applied for name in a.outputs}
    for node in (n for s in file.scopes for n in s.live()):
        changed = [made_by[v.name] for v in node.inputs if v is not None and v.name in made_by]
        if changed and node.label not in found:
            found[node.label] = "+".join(dict.fromkeys(changed))
    still = {d.node for d in report.untaken}
    return {name: passes for name, passes in found.items() if name not in still}
