"""Answers to "why (not)?": what each pass makes of one node, and which nodes of a model a target does not take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surgeon.errors import UsageError, did_you_mean
from surgeon.ir.files import read
from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.pipeline.check import called
from surgeon.pipeline.session import rewrite
from surgeon.report import Applied, Report
from surgeon.rules import registry
from surgeon.rules.attempts import attempts_at
from surgeon.rules.driver import Driver
from surgeon.rules.rule import Pass, Stage
from surgeon.targets.target import Target

REACH = 6  # how many nodes further down a pattern is looked for that may contain the node


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `pass_name` says of the pattern whose root is the node `root`."""

    pass_name: str
    root: str
    text: str


@dataclass(slots=True)
class Explanation:
    """`node` as a person writes it, `applied` the rewrites that take it away, `untaken` why the target refuses it."""

    node: str
    verdicts: list[Verdict] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    untaken: str = ""


def verdicts(
    path: Path,
    wanted: str,
    *,
    target: Target,
    only: Sequence[str] | None = None,
    passes: Sequence[str] = (),
    **options: Any,
) -> Explanation:
    """What each pass makes of the node called `wanted` (or that makes the tensor `wanted`).
    Raises UsageError, ModelError.

    `options` are those of `surgeon.rewrite`: plugins, strategy, skip, options.
    """
    report = rewrite(path, target=target, only=only, passes=passes, verify="none", **options).report
    model = Model(read(path), path.parent)
    node = _find(model, wanted)
    found = Explanation(node.text, untaken=target.takes(node) or target.mistyped(node) or "")
    found.applied = [a for a in report.applied if node.label in a.removed]
    names, _ = _split(options.get("skip", ()))
    selected = registry.select(registry.passes(passes), only, names)
    driver = Driver(
        model,
        selected,
        target,
        strategies=dict(options.get("strategy") or {}),
        plugins=options.get("plugins", ()),
        options=options.get("options"),
    )
    as_filed = list(_verdicts_at(node, node, selected, driver, report, 0))
    driver.run_stage(Stage.CLEAN)  # patterns are looked for in the cleaned graph
    roots = [(node, 0), *_below(node)] if node.alive else []
    cleaned = [v for root, distance in roots for v in _verdicts_at(root, node, selected, driver, report, distance)]
    found.verdicts = _best(cleaned or as_filed)
    return found


def _split(skip: Sequence[str]) -> tuple[list[str], list[str]]:
    return [s for s in skip if ":" not in s], [s for s in skip if ":" in s]


def _find(model: Model, wanted: str) -> Node:
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


def _verdicts_at(
    root: Node, node: Node, passes: Sequence[Pass], driver: Driver, report: Report, distance: int
) -> Iterator[tuple[int, Verdict]]:
    """(how much of the pattern held, what to say) for each pattern that starts at `root` and may reach `node`."""
    by_name = {p.name: p for p in passes}
    refused = {(d.pass_name, d.node): d.why for d in report.declined}
    for name, stage, match, attempt in attempts_at(root, passes, driver.model):
        if match is not None:
            if node not in match.nodes:
                continue
            yield (
                len(match.nodes) + 1000,
                Verdict(name, root.label, _matched(by_name[name], stage, root, driver, report, refused)),
            )
        elif attempt.held > distance or not distance:
            held = f" ({attempt.held} nodes of the pattern hold)" if attempt.held > 1 else ""
            yield (
                attempt.held,
                Verdict(name, root.label, f"no: {attempt.why or 'the inputs or attributes are others'}{held}"),
            )


def _matched(
    p: Pass, stage: Stage, root: Node, driver: Driver, report: Report, refused: Mapping[tuple[str, str], str]
) -> str:
    if any(p.name in a.pass_name.split("+") and root.label in (a.root, *a.removed) for a in report.applied):
        return "matched, and rewritten"
    if (p.name, root.label) in refused:
        return f"matched, but declined: {refused[p.name, root.label]}"
    larger = [a.pass_name for a in report.applied if root.label in a.removed]
    if larger:
        return f"matched, but '{larger[0]}' took a larger window"
    if stage is not Stage.LOWER:
        return "matched, and left as it stands: another operator is spelled like that, or surgeon would write the same"
    why = driver.target.takes(root)
    return "matched, and left as it stands" + (f": {called(str(driver.target))} takes it" if why is None else "")


def _best(found: Iterable[tuple[int, Verdict]]) -> list[Verdict]:
    """For each pass the verdict that came furthest, those first that came furthest of all."""
    best: dict[str, tuple[int, Verdict]] = {}
    for held, verdict in found:
        if verdict.pass_name not in best or held > best[verdict.pass_name][0]:
            best[verdict.pass_name] = held, verdict
    return [v for _, v in sorted(best.values(), key=lambda hv: (-hv[0], hv[1].pass_name))]
