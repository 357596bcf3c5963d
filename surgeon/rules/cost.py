"""Whether a rewrite pays: by how many nodes there are before and after, and by what the target's measurements say.

The measurements are asked about whole rewrites, lowered and with all that they were built on. What the target does not
support is rewritten whatever it costs.
"""

import math
from collections.abc import Iterable, Iterator

from onnx import TensorProto

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import HALVES, Shape, static_sizes
from surgeon.ir.model import Model
from surgeon.ir.operators import ELEMENTWISE, KEEP_ORDER, MEASURES, MOVES, REDUCES, SLIDES
from surgeon.rules.window import Rewrite
from surgeon.targets.plans import Window
from surgeon.targets.target import Target

CONVOLUTIONS = ("Conv", "ConvTranspose")
FREE = MEASURES | {"Constant"}
SHORT = "already as short as this target allows"


def size(nodes: Iterable[Node], target: Target) -> tuple[int, int, int]:
    """How many nodes a DLA leaves to the GPU, how many compute, and how many there are with those that only reshape.

    Shapes count for nothing, nor do constants: a scope or an IR version without initializers has a node for each.
    """
    counted = [node for node in nodes if node.key not in FREE]
    refused = sum(target.why_unsupported(node, rewriting=True) is not None for node in counted if target.dla)
    return refused, len(computing(counted)), len(counted)


def computing(nodes: Iterable[Node]) -> list[str]:
    """The operators of the nodes that compute, in order."""
    return sorted(node.key for node in nodes if node.key not in FREE and node.key not in KEEP_ORDER)


def is_double_inside(model: Model, nodes: Iterable[Node], root: Node) -> bool:
    """Whether nodes compute in double precision, which no TensorRT has, what the root returns in another type."""
    wide = {node: any(o is not None and model.dtype(o) == TensorProto.DOUBLE for o in node.outputs) for node in nodes}
    return any(wide.values()) and not wide[root]


class Cost:
    """Asks a target's measurements about rewrites of a model."""

    def __init__(self, model: Model, target: Target) -> None:
        self._model = model
        self._target = target
        self._rows = target.plans

    def why_worse(self, record: Rewrite) -> str | None:
        """Why the target runs the file's nodes better than the rewrite; None where no measurement says so.

        A rewrite that a body warned of, or that changes numbers on request, is kept whatever it costs.
        """
        if not self._rows or record.warnings or record.tolerance != 1.0:
            return None
        gone, made = _operators(record.removed), _operators(record.added)
        rows = [row for row in self._rows if row.may_fit(gone, made)]
        if not rows or any(self._target.why_unsupported(n, rewriting=True, exactly=True) for n in record.removed):
            return None
        window = self._window(record)
        return next((row.reason for row in rows if row.fits(window)), None)

    def _window(self, record: Rewrite) -> Window:
        own, results = record.removed.keys() | record.made.keys(), record.outputs
        read = {v for n in record.removed for v in n.inputs if v is not None}
        inputs = [v for v in read if v.producer not in record.removed and not self._is_constant(v)]
        others = {n for v in inputs for n in v.users if n not in own}
        makers = [n for v in inputs for n in _makers(v)]
        users = [n for v in results for n in v.users]
        readers = [n for n in users if not any(map(self._is_constant, n.inputs))]
        reductions = [n for n in record.removed if n.key in REDUCES]
        groups = list(self._groups([*record.removed, *makers]))
        convolved = [self._is_convolved(v) for v in inputs]
        near = zip(
            convolved, (next((n for n in _makers(v) if n.key not in KEEP_ORDER), None) for v in inputs), strict=True
        )
        convolutions = sum(len(scope.of(CONVOLUTIONS)) for scope in self._model.scopes)
        facts = {
            "half": any(self._model.dtype(v) in HALVES for v in results),
            "one_channel": any(self._channels(v) == 1 for v in results),
            "last_axis": all(self._is_over_last_axis(n) for n in reductions),
            "whole": any(self._is_over_everything(n) for n in reductions),
            "grouped": bool(groups),
            "uneven": any(channels % 16 for channels in groups),
            "shared": bool(others),
            "fusible": any(n is not None and n.key in ELEMENTWISE | MOVES and not by for by, n in near),
            "convolved": any(convolved),
            "into_convolution": any(n.key in CONVOLUTIONS for n in users),
            "averaged": any(n.key in ("GlobalAveragePool", "ReduceMean") for n in users),
            "convolution": convolutions > 0,
            "convolutions": convolutions > 1,
        }
        pads = (word for n in record.added if n.key == "Pad" for word in self._padded(n))
        words = {word for word, holds in facts.items() if holds}
        return Window(
            facts={*words, *pads, *_operators({*makers, *readers} - own)},
            elements=max(map(self._elements, reductions), default=0),
        )

    def _padded(self, node: Node) -> Iterator[str]:
        """The mode of a Pad, and whether it pads columns and rows, as far as that is known."""
        yield node.attr("mode")
        given = node.input_at(1)
        pads = node.attr("pads") if given is None else self._model.constant(given)
        if pads is not None and len(pads):
            last = len(pads) // 2 - 1
            padded = {k % (last + 1) == last for k, count in enumerate(pads) if count}
            yield from (["columns"] if True in padded else []) + (["rows"] if False in padded else [])

    def _is_convolved(self, value: Value | None, most: int = 3) -> bool:
        """Whether the kernel of a convolution or a pooling makes a tensor: with what is elementwise of one tensor, and
        an Add."""
        node = None if value is None else value.producer
        if node is None or node.key in SLIDES:
            return node is not None
        read = [v for v in node.inputs if not self._is_constant(v)]
        taken_in = node.key in ELEMENTWISE and (len(read) == 1 or node.key == "Add")
        return taken_in and most > 0 and any(self._is_convolved(v, most - 1) for v in read)

    def _is_constant(self, value: Value | None) -> bool:
        return value is not None and self._model.constant(value) is not None

    def _groups(self, nodes: Iterable[Node]) -> Iterator[int]:
        """The numbers of channels that a Reshape among the nodes puts into groups."""
        for x, y in ((n.inputs[0], n.outputs[0]) for n in nodes if n.key == "Reshape"):
            whole, split = (self._channels(v) for v in (x, y))
            if whole > split > 0:  # the Reshape after the norm makes more channels than it reads
                yield whole

    def _channels(self, value: Value | None) -> int:
        """The size of axis 1; 0 where it is not known."""
        shape = None if value is None else self._model.shape(value)
        size = shape[1] if shape is not None and len(shape) > 1 else None
        return size if isinstance(size, int) else 0

    def _is_over_last_axis(self, node: Node) -> bool:
        """Whether a reduction is known to be over the last axis alone."""
        shape, axes = self._reduced(node)
        return axes == [-1] or (shape is not None and axes == [len(shape) - 1])

    def _is_over_everything(self, node: Node) -> bool:
        """Whether a reduction is known to make one element of all."""
        sizes = static_sizes(self._reduced(node)[0] or (None,))
        return sizes is not None and math.prod(sizes) == self._elements(node)

    def _elements(self, node: Node) -> int:
        """How many elements a reduction makes one of; 0 where that is not known."""
        shape, axes = self._reduced(node)
        sizes = static_sizes(tuple(shape[axis] for axis in axes)) if shape is not None and axes else None
        return math.prod(sizes) if sizes else 0

    def _reduced(self, node: Node) -> tuple[Shape | None, list[int] | None]:
        """The shape of what a reduction reads, and its axes; None for what is not known."""
        x, axes = node.inputs[0], node.attr("axes")
        if axes is None and len(node.inputs) > 1:
            value = self._model.constant(node.inputs[1])
            axes = None if value is None else value.reshape(-1).tolist()
        return None if x is None else self._model.shape(x), axes


def _makers(value: Value) -> Iterator[Node]:
    """The node that makes a tensor; where it only reshapes another tensor, those that make that one, too."""
    node = value.producer
    while node is not None:
        yield node
        source = node.inputs[0] if node.key in KEEP_ORDER else None
        node = None if source is None else source.producer


def _operators(nodes: Iterable[Node]) -> set[str]:
    return {node.key for node in nodes}
