"""Counts, sums and positions that a rewritten window keeps in a type that does not hold them all.

They grow with the sizes of the inputs, and the size at which they no longer fit is often too large to be run. So they
are bounded: a position is below its dimension, a sum at most as large as its terms times their number. A symbolic
dimension may be as large as any.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from onnx import ModelProto, TensorProto

from surgeon.errors import ModelError
from surgeon.ir.following import Closure, readers
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import FLOATS
from surgeon.ir.model import Model
from surgeon.ir.operators import COMMUTATIVE, COMPARES, LOCATES, MEASURES, MOVES, RETURNS_BOOL, ROUNDS
from surgeon.ir.protos import copied
from surgeon.ir.ranges import UNKNOWN, Range, Ranges, range_of_type
from surgeon.proof.integer_roles import INTEGER_TYPES, roles
from surgeon.proof.pair import ModelPair
from surgeon.proof.probes import CUTS
from surgeon.targets.condition import dtype_name

LARGEST_SIZE = (1 << 31) - 1  # of a symbolic dimension: TensorRT's own are no larger
# Up to which number a type holds each integer, of the types that do not hold each size.
HOLDS_UP_TO: dict[int, int] = {elem: cut - 1 for elem, cut in CUTS.items() if cut <= LARGEST_SIZE}
LARGEST_HALF = int(np.finfo(np.float16).max)
SMALL_TYPES = frozenset({TensorProto.BOOL, *HOLDS_UP_TO}) - FLOATS
Lost = tuple[int, float, int]  # what a type holds, what may be there, the type
EXTENDS = COMMUTATIVE & ROUNDS  # sums and products of sizes
SUMS = frozenset({"CumSum", "ReduceL1", "ReduceSum"})
SUMMING = SUMS | {"MatMul"}
COUNTED = MEASURES | LOCATES | SUMMING | {"Range", "TopK"}


def too_large(pair: ModelPair) -> str:
    """Which integers the rewritten window does not hold, and the original does; empty where none are known.

    Where all sizes are known the window is run with the largest numbers, and nothing has to be bounded.
    """
    known = roles(pair)
    is_sized = "size" in known.values() or any(not isinstance(d, int) for _, _, shape in pair.inputs for d in shape)
    if not is_sized:
        return ""
    places = frozenset(name for name, role in known.items() if role != "number")
    counts = places or any(n.op_type in COUNTED for n in pair.after.graph.node)
    if not counts or not _casts(pair.after):
        return ""
    before, after = _Counts.of(pair.before, places), _Counts.of(pair.after, places)
    if before is None or after is None:
        return ""
    lost = min((*after.lost(), *_lost_outputs(before, after)), default=None)
    if lost is None or min((*before.lost(), *_lost_outputs(before, before)), default=lost)[0] < lost[0]:
        return ""
    held, largest, elem = lost
    of = dtype_name(elem)
    return f"integers up to {largest:.3g} are computed in {of}, which holds each integer only up to {held}"


def _casts(model: ModelProto) -> bool:
    """Whether a model makes integers of floats, or narrow numbers of others."""
    casts = (n for n in model.graph.node if n.op_type == "Cast" and not n.domain)
    return any(a.i in HOLDS_UP_TO or a.i in INTEGER_TYPES for n in casts for a in n.attribute)


def _maker(value: Value | None) -> Node | None:
    """The node that makes a tensor, before moves and casts."""
    node = None if value is None else value.producer
    while node is not None and node.key in MOVES | {"Cast"}:
        read = node.inputs[0] if node.inputs else None
        node = None if read is None else read.producer
    return node


def _read_by_maker(value: Value) -> Sequence[Value | None]:
    """What the node reads that makes a tensor."""
    node = _maker(value)
    return () if node is None else node.inputs


def _lost_outputs(before: _Counts, after: _Counts) -> Iterator[Lost]:
    """The integers that the original returns, where a side makes them of floats that do not hold them."""
    for original, output in zip(before.model.graph.outputs, after.model.graph.outputs, strict=True):
        found = before.ranges.of(original)
        largest = max(abs(found.low), abs(found.high))
        if not found.whole or not math.isfinite(largest):
            continue
        for value in _integers_before(output, after.model):
            elem = after.model.dtype(value)
            if HOLDS_UP_TO.get(elem, largest) < largest:
                yield HOLDS_UP_TO[elem], largest, elem


def _integers_before(value: Value, model: Model) -> Iterator[Value]:
    """The floats of which a tensor of integers is made by a Cast and by moves."""
    node = value.producer
    while node is not None and node.inputs and node.inputs[0] is not None:
        read = node.inputs[0]
        if node.key == "Cast" and model.dtype(read) in FLOATS:
            yield read
        if node.key != "Cast" and node.key not in MOVES:
            return
        node = read.producer


class _Counts:
    """The ranges of tensors that are bounded by sizes; `places` are the inputs that are positions or sizes."""

    def __init__(self, model: Model, places: Collection[str]) -> None:
        self.model = model
        self.places = places
        self.ranges = Ranges(model, self._unknown)
        self._known_sizes = Closure(self._is_size, _read_by_maker)

    @classmethod
    def of(cls, model: ModelProto, places: Collection[str]) -> _Counts | None:
        """Those of a side; None where that cannot be read."""
        try:
            return cls(Model(copied(model)), places)
        except ModelError:
            return None

    def lost(self) -> Iterator[Lost]:
        """The tensors of integers that their types do not hold."""
        for node in self.model.graph.nodes:
            value = node.outputs[0] if node.outputs else None
            elem = 0 if value is None else self.model.dtype(value)
            if value is None or elem not in HOLDS_UP_TO or not self._is_counted(node):
                continue
            found = self.before_it_is_held(value)
            largest = max(abs(found.low), abs(found.high))
            is_lost = found.whole and HOLDS_UP_TO[elem] < largest < math.inf
            if is_lost and (elem not in FLOATS or self._is_read_as_integer(value, node.key in SUMMING)):
                yield HOLDS_UP_TO[elem], largest, elem
            elif is_lost and elem == TensorProto.FLOAT16 and largest > LARGEST_HALF:  # infinite
                yield LARGEST_HALF, largest, elem

    def _is_counted(self, node: Node) -> bool:
        """Whether it counts what is given, or casts what is counted: of what is computed the bounds are rough."""
        counts = _maker(node.inputs[0]) if node.key == "Cast" else node
        if counts is None:
            return node.inputs[0] is not None and node.inputs[0].name in self.places
        if counts.key in EXTENDS:  # sizes that are multiplied
            return all(self._known_sizes.holds(i) for i in counts.inputs if i is not None)
        if counts.key not in COUNTED:
            return False
        terms = _maker(counts.inputs[0]) if counts.key in SUMMING else None
        return terms is None or terms.key in RETURNS_BOOL | COUNTED

    def _is_size(self, value: Value) -> bool | None:
        """Whether a tensor is a size or an integer; None for a sum or a product, which is one where its parts are."""
        found, node = self.model.constant(value), _maker(value)
        if found is not None:
            return bool(np.all(found == np.floor(found)))
        if node is not None and node.key in EXTENDS:
            return None
        return node is not None and node.key in MEASURES

    def before_it_is_held(self, value: Value) -> Range:
        """Between which numbers the elements are before the tensor's type wraps them around."""
        node = value.producer
        assert node is not None
        if node.key == "Cast" and node.inputs[0] is not None:
            return self.ranges.of(node.inputs[0])
        return self._counted(node, value) or self.ranges.of(value)

    def _is_read_as_integer(self, value: Value, is_sum: bool) -> bool:
        """Whether a tensor of floats becomes integers, or is a sum that is compared, before anything is made of it."""
        for node, _ in readers([value], lambda node: node.key in MOVES):
            reads = node.key == "Cast" or (is_sum and node.key in COMPARES)
            if reads and any(o is not None and self.model.dtype(o) not in FLOATS for o in node.outputs):
                return True
        return False

    def _unknown(self, value: Value) -> Range:
        node = value.producer
        found = None if node is None else self._counted(node, value)
        if found is not None:
            return found
        elem = self.model.dtype(value)
        if node is None and value.name in self.places:
            return Range(-LARGEST_SIZE, LARGEST_SIZE, whole=True)
        return range_of_type(elem) if elem in SMALL_TYPES else UNKNOWN

    def _counted(self, node: Node, value: Value) -> Range | None:
        """The range of a count, a position or a sum; None of anything else."""
        read = node.inputs[0] if node.inputs else None
        if read is None or node.key not in COUNTED:
            return None
        if node.key == "Size":
            return Range(0, math.prod(self._sizes(read)), whole=True)
        if node.key in MEASURES | LOCATES or (node.key == "TopK" and value is node.outputs[1]):
            return Range(0, max(self._sizes(read), default=1), whole=True)
        if node.key == "Range":
            start, limit, _ = (self.ranges.of(v) for v in node.inputs if v is not None)
            return Range(min(start.low, limit.low), max(start.high, limit.high), start.whole and limit.whole)
        if node.key == "MatMul" and node.inputs[1] is not None:
            a, b = self.ranges.of(read), self.ranges.of(node.inputs[1])
            weights = self.model.constant(node.inputs[1])
            of_column = max(abs(b.low), abs(b.high)) * self._sizes(read)[-1]
            if weights is not None and weights.ndim > 1:
                of_column = float(np.abs(weights.astype(np.float64)).sum(-2).max(initial=0.0))
            largest = max(abs(a.low), abs(a.high)) * of_column
            low = 0.0 if a.low >= 0 and b.low >= 0 else -largest
            return Range(low, largest, a.whole and b.whole, a.nan or b.nan)
        if node.key in SUMS:
            terms, of = self._terms(node, read), self.ranges.of(read)
            return Range(terms * min(of.low, 0), terms * max(of.high, 0), of.whole, of.nan)
        return None

    def _terms(self, node: Node, read: Value) -> int:
        """How many elements it adds up for one."""
        sizes, axes = self._sizes(read), node.attr("axes")
        if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
            axes = self.model.constant(node.inputs[1])
        if axes is None or not len(np.reshape(axes, -1)) or self.model.shape(read) is None:
            return math.prod(sizes)
        return math.prod(sizes[int(axis)] for axis in np.reshape(axes, -1))

    def _sizes(self, value: Value) -> list[int]:
        shape = self.model.shape(value)
        return [LARGEST_SIZE] if shape is None else [d if isinstance(d, int) else LARGEST_SIZE for d in shape]
