"""The record of one rewrite: the nodes of the file that went, and those that are there now."""

from __future__ import annotations

from dataclasses import dataclass, field

from surgeon.ir.attributes import shown
from surgeon.ir.graph import PLACE, Node, Value
from surgeon.rules.rule import LOWERING, Stage

LOWERED = Stage.LOWER.value  # the strategy of a rewrite of the stage LOWER by a rule that has none


@dataclass(eq=False, slots=True, kw_only=True)
class Rewrite:
    """One rewrite of a window.

    passes     the passes that took part, the first one first
    strategy   "decompose", "plugin", or the name of the stage
    root       the node that the window ends in
    keys       (pass name, output name) of each part, by which a later run leaves it out
    removed    the file's nodes that went
    made       the nodes that the rules made, those that went since among them
    matched    the file's nodes that the patterns explained
    aliases    tensors that went without a node in their place, and what their readers read now
    warnings   what the bodies reported
    tolerance  factor over the proof's tolerance that a body asked for
    max_error  the largest proved difference, relative to the largest output; None unproved
    part_of    the rewrite that builds on this one and has absorbed it
    """

    passes: list[str]
    strategy: str
    root: Node
    keys: list[tuple[str, str]]
    removed: dict[Node, None]
    made: dict[Node, None]
    matched: list[Node]
    aliases: dict[Value, Value]
    warnings: list[str] = field(default_factory=list)
    tolerance: float = 1.0
    max_error: float | None = None
    part_of: Rewrite | None = None

    @property
    def name(self) -> str:
        return self.passes[0] if len(self.passes) == 1 else "+".join(dict.fromkeys(self.passes))

    @property
    def added(self) -> dict[Node, None]:
        """The nodes that are there now."""
        return {n: None for n in self.made if n.alive}

    @property
    def whole(self) -> Rewrite:
        """The rewrite that has absorbed this one, or this one itself."""
        found = self
        while found.part_of is not None:
            found = found.part_of
        step = self
        while step.part_of is not None:  # shortens the way: thousands may have absorbed one another
            step.part_of, step = found, step.part_of
        return found

    @property
    def nodes_before(self) -> list[Node]:
        """The file's nodes, in its order."""
        return sorted(self.removed, key=PLACE)

    @property
    def nodes_after(self) -> list[Node]:
        """As they are."""
        return sorted(self.added, key=lambda n: n.graph.position(n))

    @property
    def read_instead(self) -> list[str]:
        """What the readers of a tensor that went without a node in its place read now: `y = x`, `pads = [0, 1]`."""
        return [
            f"{old.name} = {new.name if new.tensor is None or new.is_input else shown(new.tensor)}"
            for old, new in self.aliases.items()
        ]

    @property
    def output_names(self) -> list[str]:
        """The outputs; those of the root where nothing reads it any more."""
        return [o.name for o in self.outputs] or [o.name for o in self.root.outputs if o is not None]

    @property
    def outputs(self) -> list[Value]:
        """The tensors of the window that something outside it reads, in the order of the file."""
        added = self.added
        return [
            o
            for n in reversed(self.removed)
            for o in n.outputs
            if o is not None and (o.producer in added or o in self.aliases)
        ]

    def absorb(self, origin: Rewrite) -> None:
        """Make an earlier rewrite, whose nodes this one took away, a part of this one.

        What the earlier one holds is added to, not copied: each rewrite may absorb the one before it.
        """
        self.passes = [*origin.passes, *[p for p in self.passes if p not in origin.passes]]
        origin.keys += self.keys
        origin.matched += self.matched
        origin.warnings += self.warnings
        origin.removed |= self.removed
        origin.made |= self.made
        origin.aliases |= self.aliases
        self.keys, self.matched, self.warnings = origin.keys, origin.matched, origin.warnings
        self.removed, self.made, self.aliases = origin.removed, origin.made, origin.aliases
        if self.strategy == LOWERED:  # by a rule that has none: what the origin chose says more
            self.strategy = origin.strategy if origin.strategy in LOWERING else LOWERED
        self.tolerance = max(self.tolerance, origin.tolerance)
        if origin.root.origin is None:
            self.root = origin.root
        origin.part_of = self
