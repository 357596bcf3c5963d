"""The nodes that the user asked passes to leave alone."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from surgeon.ir.graph import Node


class Skips:
    """(pass name, node glob) pairs, and which of them have met no node so far."""

    def __init__(self, pairs: Collection[tuple[str, str]]) -> None:
        self._pairs = tuple(pairs)
        self._unmet = dict.fromkeys(self._pairs)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def meet(self, nodes: Iterable[Node]) -> None:
        """Note which globs name one of the file's nodes."""
        if not self._pairs:
            return
        found = list(nodes)
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
