"""What passes over If share: a branch, and the nodes after it, written out beside the If."""

from collections.abc import Mapping, Sequence

from surgeon import Builder, Node, Value
from surgeon.ir.graph import Graph

from ._copy import constants_of, copied, present

BRANCHES = ("then_branch", "else_branch")


def written_out(b: Builder, body: Graph, values: Mapping[Value, Value] | None = None) -> list[Value]:
    """What a branch returns, computed where the builder's root is; `values`: what it reads in place of others."""
    tensors = {old.name: new for old, new in (values or {}).items()} | constants_of(b, body)
    copied(b, [present(n) for n in body.live()], tensors)
    return [tensors.get(v.name, v) for v in body.outputs]


def again(b: Builder, node: Node, values: Mapping[Value, Value]) -> Sequence[Value]:
    """The outputs of a node, computed once more of other inputs."""
    inputs = [None if v is None else values.get(v, v) for v in node.inputs]
    made = b.node(node.op, inputs, len(node.outputs), node.proto.domain, dict(node.attrs))
    return made if isinstance(made, tuple) else (made,)
