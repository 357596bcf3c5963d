"""The nodes of a model that a target does not support, and the passes that fix them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surgeon.ir.model import Model
from surgeon.pipeline.advice import advice_for
from surgeon.pipeline.misplaced import Misplaced, misplaced
from surgeon.pipeline.option import of_model
from surgeon.pipeline.options import CheckOptions, Options
from surgeon.pipeline.run import judged
from surgeon.pipeline.session import rewrite_source
from surgeon.pipeline.source import ModelLike, Source
from surgeon.report import Report, counted, target_name
from surgeon.targets.target import Target
from surgeon.verdict_text import QUOTED
from surgeon.visible import visible

MOST_SHOWN = 12  # nodes in the `repr` of what was found, which fits one screen


@dataclass(frozen=True, slots=True)
class Untaken:
    """A node that the target does not support, by surgeon's table or in the words of a parser or builder.

    node      its label in the ONNX file, empty where an error names none
    fixed_by  the passes that rewrite it, empty where none does
    on_gpu    the DLA does not run it, the GPU beside it does
    advice    what else helps, where no pass rewrites it
    """

    node: str
    op: str
    why: str
    fixed_by: str = ""
    on_gpu: bool = False
    advice: str = ""

    @property
    def mended_by(self) -> str:
        """The former name of `fixed_by`."""
        return self.fixed_by

    @property
    def cure(self) -> str:
        """The former name of `advice`."""
        return self.advice

    def to_json(self) -> dict[str, Any]:
        """As the JSON of `surgeon check` has it, with the former names."""
        words = {"node": self.node, "op": self.op, "why": self.why}
        return {**words, "mended_by": self.fixed_by, "on_gpu": self.on_gpu, "cure": self.advice}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Untaken:
        return cls(*(value[key] for key in ("node", "op", "why", "mended_by", "on_gpu", "cure")))

    def __str__(self) -> str:
        where = f"{self.op} '{self.node}'" if self.node else "the model"
        return f"{where}: {self.why}"


@dataclass(frozen=True, slots=True, repr=False)
class Checked:
    """Which nodes of a model a target supports.

    target    as it was given, in full
    untaken   the nodes that the target rejects or reads with another meaning, in file order
    warnings  warnings of the passes, such as an epsilon that the exporter lost
    unknown   the nodes that may be supported: surgeon's table cannot decide
    rewrites  the passes that would rewrite the file, and how often
    misplaced the quantizers where the target loses by them
    """

    target: str
    untaken: list[Untaken]
    warnings: list[str]
    unknown: list[Untaken] = field(default_factory=list)
    rewrites: dict[str, int] = field(default_factory=dict)
    misplaced: list[Misplaced] = field(default_factory=list)

    @property
    def unsupported(self) -> list[Untaken]:
        """Another name of `untaken`."""
        return self.untaken

    @property
    def refused(self) -> list[Untaken]:
        """The unsupported nodes that the GPU beside a DLA does not run either."""
        return [u for u in self.untaken if not u.on_gpu]

    def __repr__(self) -> str:
        name = target_name(self.target)
        if not self.untaken:
            but = f" except {counted(len(self.unknown), 'unknown node')}" if self.unknown else ""
            lines = [f"Checked: {name} supports every node{but}, according to surgeon's table"]
        else:
            lines = [f"Checked: {name} does not support {counted(len(self.untaken), 'node')}"]
        for found in self.untaken[:MOST_SHOWN]:
            lines.append(f"  {found}; fixed by {found.fixed_by or 'no pass'}")
        if len(self.untaken) > MOST_SHOWN:
            lines.append(f"  and {len(self.untaken) - MOST_SHOWN} more")
        lines += [f"  {found}" for found in self.misplaced[:MOST_SHOWN]]
        lines += [f"  warning: {w}" for w in self.warnings[:MOST_SHOWN]]
        return "\n".join(map(visible, lines))


@of_model(CheckOptions)
def check(model: ModelLike, options: CheckOptions) -> Checked:
    """The nodes of a model that a target does not support, each with the passes that rewrite it.

    The model is a path, a ModelProto or a gs.Graph. The keywords are some of those of `surgeon.rewrite`. The model is
    not changed, and nothing is proved: `surgeon.rewrite` does that. Raises UsageError and ModelError.
    """
    source, asked = Source(model), Options.checked(options)
    file = source.model()
    refused, unknown = judged(file, asked.target)
    result = rewrite_source(source, asked)
    from surgeon.proof.loading import refuse_invalid  # what only asks for passes starts without it

    refuse_invalid(source.proto, result.model, result.base)
    report = result.report
    fixing = _fixed_by(report, file) if refused or unknown else {}
    nodes = [n for s in file.scopes for n in s.live()]
    ops = {n.label: n.op for n in nodes}
    makers = {o.name: n.label for n in nodes for o in n.outputs if o is not None}

    def fixer(node: str, why: str) -> str:
        """A reason may name a tensor upstream: then it is the pass that removes that tensor."""
        above = [fixing[makers[t]] for t in QUOTED.findall(why) if makers.get(t) in fixing]
        return above[0] if above and node in fixing else fixing.get(node, "")

    fixers, stay = [fixer(d.node, d.why) for d in refused], [d.node for d in report.untaken]
    advice = {} if all(fixers) else dict(zip(stay, advice_for(result, source, asked), strict=True))
    found = [
        Untaken(d.node, ops.get(d.node, ""), d.why, by, d.on_gpu, "" if by else advice.get(d.node, ""))
        for d, by in zip(refused, fixers, strict=True)
    ]
    unsure = [Untaken(d.node, ops.get(d.node, ""), d.why, fixer(d.node, d.why)) for d in unknown]
    rewrites = {g.pass_name: g.times for g in report.groups()}
    return Checked(str(asked.target), found, report.warnings, unsure, rewrites, misplaced(file, asked.target))


def fixed_by(model: ModelLike, *, target: str | Target | None = None) -> dict[str, str]:
    """Node label -> the passes that remove the node, or change its inputs, so that `target` supports it.

    Nothing is proved here. Raises UsageError and ModelError.
    """
    source = Source(model)
    report = rewrite_source(source, Options.checked(CheckOptions(target=target))).report
    return _fixed_by(report, source.model())


def _fixed_by(report: Report, file: Model) -> dict[str, str]:
    found = {name: a.pass_name for a in report.applied for name in (a.root, *a.removed)}
    made_by = {name: a.pass_name for a in report.applied for name in a.outputs}
    for node in (n for s in file.scopes for n in s.live()):
        changed = [made_by[v.name] for v in node.inputs if v is not None and v.name in made_by]
        if changed and node.label not in found:
            found[node.label] = "+".join(dict.fromkeys(changed))
    still = {d.node for d in (*report.untaken, *report.unknown)}
    return {name: passes for name, passes in found.items() if name not in still}
