"""Which passes match a node of a model, why the others do not, and which rewrites upstream change its inputs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from surgeon.errors import UsageError, did_you_mean
from surgeon.ir.files import read
from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.pipeline.options import CheckOptions, Options
from surgeon.pipeline.session import rewrite_source
from surgeon.pipeline.source import Source
from surgeon.report import Applied, Report, grouped, target_name
from surgeon.rules.attempts import attempts_at
from surgeon.rules.driver import Driver
from surgeon.rules.rule import Pass, Stage

REACH = 6  # nodes: so far down a pattern is looked for that may contain the node, and so far up a rewrite
NEAR = 2  # nodes of a pattern that must hold before a person hears of it
GLOB = frozenset("*?[")
MOST_NODES = 5  # names of nodes in an error


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict of `pass_name` on the pattern whose root is the node `root`."""

    pass_name: str
    root: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of one node.

    node      the text of the node
    findings  the verdict of each pass whose pattern matches or nearly matches; equal ones are one
    others    how many more passes have a pattern with such an operator
    applied   the rewrites that remove it
    upstream  the rewrites whose results it reads; all within reach if they make the target support it
    untaken   why the target does not support it as the file has it; empty if it does
    mended    whether the target supports it after the rewrites
    """

    node: str
    findings: list[Finding]
    others: int
    applied: list[Applied]
    upstream: list[Applied]
    untaken: str
    mended: bool


def explain_nodes(path: Path, wanted: str, given: CheckOptions, *, every: bool = False) -> list[Explanation]:
    """Explain the node called `wanted`, the one that makes the tensor `wanted`, or each node that the glob `wanted`
    matches.

    `every`: patterns that do not come near, too. Nothing is proved and nothing is written. Raises UsageError where
    there is no such node, and ModelError.
    """
    options = Options.checked(given)
    report, target, selected = rewrite_source(Source(path), options).report, options.target, options.selected
    model = Model(read(path), path.parent)
    nodes = _find(model, wanted)
    driver = options.driver(model)
    asked = [_Asked(node, str(target.why_unsupported(node) or ""), _up(node)) for node in nodes]
    texts = [node.text for node in nodes]
    as_filed = [_search(a.node, selected, driver, report) for a in asked]
    driver.run_stage(Stage.CLEAN)  # patterns are looked for in the cleaned graph
    cleaned = [_search(a.node, selected, driver, report) if a.node.alive else [] for a in asked]
    for stage in (Stage.FUSE, Stage.LOWER):
        driver.run_stage(stage)
    driver.settle()
    found = []
    for a, text, early, late in zip(asked, texts, as_filed, cleaned, strict=True):
        findings, others = _relevant(late or early, every)
        applied = [r for r in report.applied if a.node.label in r.removed]
        mended = bool(a.untaken) and a.node.alive and target.why_unsupported(a.node) is None
        reach = REACH if mended else 1
        made = {o: r for r in report.applied for o in r.outputs}
        upstream = [made[name] for name, distance in a.above if name in made and distance <= reach]
        upstream = [r for r in dict.fromkeys(upstream) if r not in applied]
        found.append(Explanation(text, findings, others, applied, upstream, a.untaken, mended))
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """A node as the file has it: why the target does not support it, and the tensors above it with their distance."""

    node: Node
    untaken: str
    above: list[tuple[str, int]]


def _find(model: Model, wanted: str) -> list[Node]:
    """The node of that name, else the one that makes a tensor of that name, else the one with that label, else those
    that the glob names. Raises UsageError."""
    nodes = [n for scope in model.scopes for n in scope.live()]
    for test in (
        lambda n: n.name == wanted,
        lambda n: any(o is not None and o.name == wanted for o in n.outputs),
        lambda n: n.label == wanted,
    ):
        for node in nodes:
            if test(node):
                return [node]
    if GLOB & set(wanted):
        named = [n for n in nodes if fnmatchcase(n.label, wanted)]
        if not named:
            raise UsageError(f"no node has a name like '{wanted}'.")
        return named
    raise UsageError(
        f"no node is called '{wanted}', and none makes a tensor of that name."
        f"{did_you_mean(wanted, [n.label for n in nodes], most=MOST_NODES)}"
    )


def _up(node: Node) -> list[tuple[str, int]]:
    """The tensors that the node reads, those that their makers read, and so on, with the distance."""
    found: dict[str, int] = {}
    row = [node]
    for distance in range(1, REACH + 1):
        read = [i for n in row for i in n.inputs if i is not None and i.name not in found]
        found |= dict.fromkeys((i.name for i in read), distance)
        row = [i.producer for i in read if i.producer is not None]
    return list(found.items())


def _search(node: Node, passes: Sequence[Pass], driver: Driver, report: Report) -> list[tuple[int, Finding]]:
    """What each pattern says that may reach the node, in the driver's graph as it is now."""
    search = _Search(node, passes, driver, report)
    return [found for root, distance in [(node, 0), *_below(node)] for found in search.findings_at(root, distance)]


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
                held = f" ({attempt.held} nodes of the pattern match)" if attempt.held > 1 else ""
                why = attempt.why or "the inputs or attributes differ"
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
            return f"matched, but '{larger[0]}' was applied instead"
        if stage is not Stage.LOWER:
            return "matched, but unchanged: another operator has the same form, or surgeon would write the same"
        if self.driver.target.why_unsupported(root, rewriting=True) is not None:
            return "matched, but unchanged"
        return f"matched, but unchanged: {target_name(str(self.driver.target))} supports it"


def _relevant(found: Iterable[tuple[int, Finding]], every: bool) -> tuple[list[Finding], int]:
    """Of each pass the finding that came furthest, as far as it came near, and how many passes did not.

    Passes that say the same of the same root are one finding.
    """
    best: dict[str, tuple[int, Finding]] = {}
    for held, finding in found:
        if finding.pass_name not in best or held > best[finding.pass_name][0]:
            best[finding.pass_name] = held, finding
    near = [(held, finding) for held, finding in best.values() if every or held >= NEAR]
    ranked = sorted(near, key=lambda pair: (-pair[0], pair[1].pass_name))
    alike = grouped(((finding.root, finding.text), finding.pass_name) for _, finding in ranked)
    findings = [Finding(", ".join(names), root, text) for (root, text), names in alike.items()]
    return findings, len(best) - len(near)
