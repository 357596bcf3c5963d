"""What Loop and Scan have in common where their iterations are written out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from surgeon import Builder, Node, Value, require
from surgeon.ir.graph import Graph

from ._copy import constants_of, copied, drop_unread, present, reads_of_function

ITERATIONS = 64
NODES = 4096


class Body(NamedTuple):
    """A body that is written out: the nodes of an iteration, and the constants that all iterations share."""

    graph: Graph
    nodes: list[Node]
    constants: dict[str, Value]

    @classmethod
    def of(cls, b: Builder) -> Body:
        """The body of the builder's root."""
        graph = b.root.bodies[0]
        require(not reads_of_function(graph), "its body reads an attribute of its function")
        constants, nodes = constants_of(b, graph), []
        for node in graph.live():
            known = b.value(node.outputs[0]) if node.key == "Constant" else None
            if known is None or known.dtype.kind not in "biuf":
                nodes.append(node)
            else:
                constants[node.proto.output[0]] = b.constant(known)
        return cls(graph, nodes, constants)

    def iterate(self, b: Builder, given: Iterable[Value]) -> list[Value]:
        """Write an iteration out; the tensors that it returns."""
        require(len(b.made) + len(self.nodes) <= NODES, f"written out it has more than {NODES} nodes")
        tensors = {**self.constants, **dict(zip((i.name for i in self.graph.proto.input), given, strict=True))}
        copied(b, [present(n) for n in self.nodes], tensors)
        return [tensors.get(v.name, v) for v in self.graph.outputs]


def is_asked_for(b: Builder) -> bool:
    """Whether the target refuses the node as it is, or the user has it written out."""
    return "unroll" in b.options or b.why_unsupported(b.root) is not None


def most(b: Builder) -> int:
    """How many iterations are written out."""
    return int(b.options.get("unroll", ITERATIONS))


def settled(b: Builder, outputs: Sequence[Any]) -> tuple[Value | None, ...]:
    """The outputs that are read, without the nodes that served others alone."""
    read = [new if old is not None and old.is_read else None for old, new in zip(b.root.outputs, outputs, strict=False)]
    drop_unread(b, read)
    return tuple(read)
