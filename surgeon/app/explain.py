"""Answers to "why (not)?": what each pass makes of one node of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from surgeon.errors import UsageError, did_you_mean
from surgeon.ir.files import read
from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.pipeline.session import rewrite
from surgeon.report import Applied, Report, target_name
from surgeon.rules import registry
from surgeon.rules.attempts import attempts_at
from surgeon.rules.driver import Driver
from surgeon.rules.rule import Pass, Stage
from surgeon.targets.target import Target

REACH = 6  # how many nodes further down a pattern is looked for that may contain the node


@dataclass(frozen=True, slots=True)
class Finding:
    """What `pass_name` says of the pattern whose root is the node `root`."""

    pass_name: str
    root: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of one node.

    node      the node as a person writes it
    findings  the best finding of each pass that has a pattern for it
    applied   the rewrites that take it away
    untaken   why the target does not take it; empty where it does
    """

    node: str
    findings: list[Finding]
    applied: list[Applied]
    untaken: str


def explain_node(
    path: Path,
    wanted: str,
    *,
    target: Target,
    plugins: Sequence[str] = (),
    strategy: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
    skip: Sequence[str] = (),
    passes: Sequence[str] = (),
    options: Mapping[str, float] | None = None,
) -> Explanation:
    """Say what each pass makes of the node called `wanted`, or of the node that makes the tensor `wanted`.

    The keywords are those of `surgeon.rewrite`. Nothing is proved and nothing is written.
    Raises UsageError where there is no such node, and ModelError.
    """
    report = rewrite(
        path,
        target=target,
        plugins=plugins,
        strategy=strategy,
        only=only,
        skip=skip,
        passes=passes,
        options=options,
        verify="none",
    ).report
    model = Model(read(path), path.parent)
    node = _find(model, wanted)
    text, untaken = node.text, target.takes(node) or target.mistyped(node) or ""
    applied = [a for a in report.applied if node.label in a.removed]
    selected = registry.select(registry.passes(passes), only, [s for s in skip if ":" not in s])
    driver = Driver(model, selected, target, strategies=strategy, plugins=plugins, options=options)
    search = _Search(node, selected, driver, report)
    as_filed = list(search.findings_at(node, 0))
    driver.run_stage(Stage.CLEAN)  # patterns are looked for in the cleaned graph
    roots = [(node, 0), *_below(node)] if node.alive else []
    cleaned = [found for root, distance in roots for found in search.findings_at(root, distance)]
    return Explanation(text, _best(cleaned or as_filed), applied, untaken)


def _find(model: Model, wanted: str) -> Node:
    """The node of that name, else the one that makes a tensor of that name, else the one with that label."""
    nodes = [n for scope in model.scopes for n in scope.live()]
    for test in (
        lambda n: n.name == wanted,
        lambda n: any(o is not None and o.name == wanted for o in n.outputs),
        lambda n: n.label == wanted,
    ):
        for node in nodes:
            if test(node):
                return node
    raise UsageError(
        f"no node is called '{wanted}', and none makes a tensor of that name."
        f"{did_you_mean(wanted, [n.label for n in nodes])}"
    )


def _below(node: Node) -> Iterator[tuple[Node, int]]:
    """The readers of the node's outputs, their readers, and so on, with the distance."""
    seen, row = {node}, [node]
    for distance in range(1, REACH + 1):
        row = [u for n in row for o in n.outputs if o is not None for u in o.users if u not in seen]
        for reader in dict.fromkeys(row):
            seen.add(reader)
            yield reader, distance


WHOLE = 1000  # is added to the nodes of a pattern that holds whole: it goes before any that holds in part


@dataclass(frozen=True, slots=True)
class _Search:
    """The patterns of `passes`, looked for in the driver's model, and what a run reported of them."""

    node: Node
    passes: Sequence[Pass]
    driver: Driver
    report: Report

    def findings_at(self, root: Node, distance: int) -> Iterator[tuple[int, Finding]]:
        """(how much of the pattern held, what to say) for each pattern at `root` that may reach the node.

        `distance`: how many nodes the root is below the node.
        """
        by_name = {p.name: p for p in self.passes}
        for name, stage, match, attempt in attempts_at(root, self.passes, self.driver.model):
            if match is not None:
                if self.node in match.nodes:
                    text = self.matched(by_name[name], stage, root)
                    yield len(match.nodes) + WHOLE, Finding(name, root.label, text)
            elif attempt.held > distance or not distance:
                held = f" ({attempt.held} nodes of the pattern hold)" if attempt.held > 1 else ""
                why = attempt.why or "the inputs or attributes are others"
                yield attempt.held, Finding(name, root.label, f"no: {why}{held}")

    def matched(self, p: Pass, stage: Stage, root: Node) -> str:
        """What became of a pattern that holds."""
        applied = self.report.applied
        if any(p.name in a.pass_name.split("+") and root.label in (a.root, *a.removed) for a in applied):
            return "matched, and rewritten"
        declined = {(d.pass_name, d.node): d.why for d in self.report.declined}
        if (p.name, root.label) in declined:
            return f"matched, but declined: {declined[p.name, root.label]}"
        larger = [a.pass_name for a in applied if root.label in a.removed]
        if larger:
            return f"matched, but '{larger[0]}' took a larger window"
        if stage is not Stage.LOWER:
            return (
                "matched, and left as it stands: another operator is spelled like that, or surgeon would write the same"
            )
        if self.driver.target.takes(root) is not None:
            return "matched, and left as it stands"
        return f"matched, and left as it stands: {target_name(str(self.driver.target))} takes it"


def _best(found: Iterable[tuple[int, Finding]]) -> list[Finding]:
    """For each pass the finding that came furthest, those first that came furthest of all."""
    best: dict[str, tuple[int, Finding]] = {}
    for held, finding in found:
        if finding.pass_name not in best or held > best[finding.pass_name][0]:
            best[finding.pass_name] = held, finding
    return [finding for _, finding in sorted(best.values(), key=lambda pair: (-pair[0], pair[1].pass_name))]
