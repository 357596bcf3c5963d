"""What the user asks of passes: nodes that they leave alone, and passes of their own that are never applied."""

from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase

from surgeon.ir.graph import Node
from surgeon.report import target_name
from surgeon.rules.builder import name_of_rewrite
from surgeon.rules.context import Context
from surgeon.rules.index import Index
from surgeon.rules.match import match
from surgeon.rules.pattern import roots
from surgeon.rules.rule import Rule

Excluded = Callable[[str, Node], bool]  # whether a pass was asked to leave a node alone, or failed its proof there


class Overruled:
    """Where a pass of the user's matched and another pass was applied, or the target supports the node."""

    def __init__(self, context: Context, is_excluded: Excluded) -> None:
        self._context = context
        self._is_excluded = is_excluded
        self._index = Index((r.pattern, r) for p in context.passes.values() if not p.own for r in p.rules)
        self._declined: set[tuple[str, Node]] = set()
        self._lost: dict[str, dict[str, str]] = {}  # pass -> name of the rewrite -> the pass that was applied

    def __bool__(self) -> bool:
        """Whether the user has passes in the run."""
        return bool(self._index.operators)

    def decline(self, rule: Rule, node: Node) -> None:
        """Note that a pass of the user's itself left a node alone."""
        self._declined.add((rule.pass_name, node))

    def note(self, nodes: Iterable[Node], winner: str) -> None:
        """Note the passes that match at one of the nodes, which the pass `winner` is about to replace."""
        for node in nodes:
            for rule in self._matching(node):
                if rule.pass_name != winner:
                    self._lost.setdefault(rule.pass_name, {})[name_of_rewrite(node)] = winner

    def warnings(self, applied: Collection[str]) -> Iterator[str]:
        """A sentence for each pass of the user's that matched and is not in `applied`."""
        for p in self._context.passes.values():
            if p.own or p.name in applied:
                continue
            if lost := self._lost.get(p.name):
                winners = " and ".join(f"'{name}'" for name in dict.fromkeys(lost.values()))
                instead = f"{winners} {'was' if len(set(lost.values())) == 1 else 'were'} applied instead"
                yield f"{_matched(p.name, len(lost))}: {instead}"
            elif kept := self._count_kept(p.name):
                supports = f"{target_name(str(self._context.target))} supports what it matched"
                yield f"{_matched(p.name, kept)}: {supports}. --strategy {p.name}=decompose applies it all the same"

    def _matching(self, node: Node) -> Iterator[Rule]:
        """The user's rules that match at a node, and were not asked to leave it alone."""
        model = self._context.model
        for pattern, rule in self._index.at(node, model.constants.is_constant):
            at = rule.pass_name, node
            if at not in self._declined and not self._is_excluded(*at) and match(pattern, node, model) is not None:
                yield rule

    def _count_kept(self, pass_name: str) -> int:
        """How many nodes a pass matches and leaves to the target, which supports them."""
        p = self._context.passes[pass_name]
        lowers = {root.key for r in p.rules if r.strategy == "decompose" for root in roots(r.pattern)}
        nodes = [n for scope in self._context.model.scopes for n in scope.of(lowers)]
        kept = [n for n in nodes if self._context.lowering(p, n).strategy == "keep"]
        return sum(any(rule.pass_name == pass_name for rule in self._matching(node)) for node in kept)


def _matched(name: str, times: int) -> str:
    return f"your pass '{name}' matched {times} time{'' if times == 1 else 's'} and was never applied"


class Skips:
    """(pass name, node glob) pairs, and which of them have met no node so far."""

    def __init__(self, pairs: Collection[tuple[str, str]]) -> None:
        self._pairs = tuple(pairs)
        self._unmet = dict.fromkeys(self._pairs)

    def meet(self, nodes: Iterable[Node]) -> None:
        """Note which globs name one of the file's nodes."""
        found = list(nodes) if self._pairs else []
        for name, glob in self._pairs:
            if any(_is_called(node, glob) for node in found):
                self._unmet.pop((name, glob), None)

    def applies(self, pass_name: str, node: Node) -> bool:
        """Whether the user asked the pass to leave this node alone."""
        met = [(name, glob) for name, glob in self._pairs if name == pass_name and _is_called(node, glob)]
        for pair in met:  # of a node that surgeon made, which the file does not have
            self._unmet.pop(pair, None)
        return bool(met)

    def warnings(self) -> list[str]:
        """A sentence for each pair that has met no node."""
        return [f"--skip {name}:{glob} matches no node" for name, glob in self._unmet]


def _is_called(node: Node, glob: str) -> bool:
    """Whether a node's name, or its label where it has none, is like the glob."""
    return fnmatchcase(node.name or node.label, glob)
