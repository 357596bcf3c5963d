"""What one run knows: the model, the target, and how each pass lowers its canonical nodes there."""

from collections import ChainMap
from collections.abc import Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from surgeon.ir.graph import Graph, Node, Value
from surgeon.ir.model import Model
from surgeon.ir.schemas import DOMAIN
from surgeon.rules.pattern import roots
from surgeon.rules.rule import Pass
from surgeon.targets.target import Target


class Lowering(NamedTuple):
    """How a canonical node is lowered: `keep`, `decompose` or `plugin`, and the library that the plugin is from."""

    strategy: str
    library: str = ""


class Context:
    """One run's model, target, passes and options.

    strategies  pass name -> strategy, over the target's own choice
    plugins     the libraries that plugin nodes may come from, in order of preference
    options     what single passes read
    """

    def __init__(
        self,
        model: Model,
        passes: Iterable[Pass],
        target: Target,
        *,
        strategies: Mapping[str, str] | None = None,
        plugins: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.target = target
        self.passes = {p.name: p for p in passes}
        self.strategies = dict(strategies or {})
        self._keeping = {p.name for p in self.passes.values() if p.keeps}
        self.plugins = tuple(plugins)
        given = options or {}
        self.options = {p.name: {n: given[n] for n in p.options if n in given} for p in self.passes.values()}
        self.memo: dict[Hashable, Any] = {}  # what bodies computed in this run, by a key of their own
        self._last_number: MutableMapping[str, int] = {}
        self._lowering: dict[str, dict[str, set[str]]] | None = None  # operator -> pass -> its strategies for it

    def is_lowered(self, key: str) -> bool:
        """Whether a pass of the run writes nodes of an operator out."""
        return any("decompose" in strategies for strategies in self._passes_lowering(key).values())

    def _passes_lowering(self, key: str) -> Mapping[str, set[str]]:
        """The passes that lower nodes of an operator, each with its strategies for it."""
        if self._lowering is None:
            self._lowering = {}
            for rule in (r for p in self.passes.values() for r in p.rules):
                if rule.strategy is None:
                    continue
                for root in roots(rule.pattern):
                    self._lowering.setdefault(root.key, {}).setdefault(rule.pass_name, set()).add(rule.strategy)
        return self._lowering.get(key, {})

    def lowering(self, p: Pass, node: Node) -> Lowering:
        """How a pass lowers its canonical node: as the user says, else as the target asks."""
        forced = self.strategies.get(p.name)
        kept = forced == "keep" or (forced is None and p.name in self._keeping and self._is_supported_exactly(node))
        if kept and node.proto.domain != DOMAIN:  # no target keeps a node of surgeon's own
            return Lowering("keep")
        for library in self.libraries_asked(p):
            if not self.refusal(p, library, node):
                return Lowering("plugin", library)
        return Lowering("decompose")

    def lowering_of(self, value: Value) -> str:
        """The strategy for the node that makes `value`, by the passes that lower its operator.

        One whose strategy the user chose comes first, then one with a plugin. Without such a pass the target decides.
        """
        node = value.producer
        if node is None:
            return "keep"
        found = {name: self.lowering(self.passes[name], node).strategy for name in self._passes_lowering(node.key)}
        chosen = [strategy for name, strategy in found.items() if name in self.strategies]
        if chosen or "plugin" in found.values():
            return chosen[0] if chosen else "plugin"
        return "keep" if self._is_supported_exactly(node) else "decompose"

    def _is_supported_exactly(self, node: Node) -> bool:
        return self.target.why_unsupported(node, rewriting=True, exactly=True) is None

    def libraries_asked(self, p: Pass) -> Sequence[str]:
        """The libraries that plugin nodes of the pass may come from, in order; none where no plugin is asked for."""
        wanted = self.strategies.get(p.name, "plugin" if self.plugins else "decompose")
        if wanted != "plugin":
            return ()
        offered = {r.library for r in p.rules if r.strategy == "plugin"}
        return [library for library in self.plugins or ("surgeon",) if library in offered]

    def refusal(self, p: Pass, library: str, node: Node) -> str:
        """Why the library's plugin does not take the node; empty where it does."""
        rules = (r for r in p.rules if r.strategy == "plugin" and r.library == library)
        return next((why for r in rules if r.refuses is not None and (why := r.refuses(self.model, node))), "")

    def fresh_name(self, graph: Graph, stem: str) -> str:
        """`stem_n` with the first number n that no tensor in sight has."""
        number = self._last_number.get(stem, 0) + 1
        while graph.find(name := f"{stem}_{number}") is not None:
            number += 1
        self._last_number[stem] = number
        return name

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Give the names of what is made inside, and taken away there, to what is made later."""
        kept, self._last_number = self._last_number, ChainMap({}, self._last_number)
        try:
            yield
        finally:
            self._last_number = kept
