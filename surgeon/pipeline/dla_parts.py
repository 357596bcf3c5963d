"""How a model splits between a DLA and the GPU beside it, and where a cut leaves one part for the DLA."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.report import counted

MOST_NAMED = 3  # tensors at a cut


def parts_of(model: Model, on_gpu: Collection[str]) -> list[str]:
    """A sentence about the tensors that pass between DLA and GPU, and one about a cut; none where DLA runs it all.

    on_gpu  the labels of the nodes that the GPU runs
    """
    nodes = [n for n in model.graph.live() if n.op != "Constant"]
    gpu = {n for n in nodes if n.label in on_gpu}
    if not gpu or len(gpu) == len(nodes):
        return []
    passed = {v.name for n in nodes for v in _made_by_others(n) if (v.producer in gpu) != (n in gpu)}
    said = [
        f"DLA runs {len(nodes) - len(gpu)} of {counted(len(nodes), 'node')}, and {counted(len(passed), 'tensor')} "
        f"{'passes' if len(passed) == 1 else 'pass'} between it and the GPU"
    ]
    first = _before_the_gpu(nodes, gpu)
    later = len(nodes) - len(gpu) - len(first)
    rest = [n for n in nodes if n not in first]
    ends = list(dict.fromkeys(v.name for n in rest for v in _made_by_others(n) if v.producer in first))
    if not ends or len(passed) <= len(ends):
        return said
    named = ", ".join(f"'{e}'" for e in ends[:MOST_NAMED])
    more = f" and {len(ends) - MOST_NAMED} more" if len(ends) > MOST_NAMED else ""
    also = f", also {counted(later, 'node')} that DLA supports" if later else ""
    said.append(
        f"cut the model at {named}{more}: then DLA runs the {counted(len(first), 'node')} before the cut and the GPU "
        f"the rest{also}, and {counted(len(ends), 'tensor')} {'passes' if len(ends) == 1 else 'pass'} in place of "
        f"{len(passed)}"
    )
    return ["; ".join(said)]


def _made_by_others(node: Node) -> Iterator[Value]:
    """The inputs of a node that another node computes from the model's inputs."""
    for value in node.inputs:
        if value is not None and value.producer is not None and value.varies:
            yield value


def _before_the_gpu(nodes: list[Node], gpu: Collection[Node]) -> set[Node]:
    """The nodes that DLA runs before any node of the GPU was run."""
    found: set[Node] = set()
    for node in nodes:
        if node not in gpu and all(v.producer in found for v in _made_by_others(node)):
            found.add(node)
    return found
