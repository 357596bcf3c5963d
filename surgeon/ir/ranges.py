"""Between which numbers the elements of a tensor are, as far as it follows from constants, types and operators."""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import FLOATS
from surgeon.ir.model import Model
from surgeon.ir.operators import BOUNDED, ELEMENTWISE, FALLING, FILLS, MOVES, OPERATORS, PICKS, RISING, WHOLE

MOST = 400  # tensors that are looked at for one of them
ROUNDED = 16  # steps of its type that a mean of a few numbers may be off


class Range(NamedTuple):
    """The lowest and the highest number that a tensor may hold.

    low, high  an int where the type is one of integers, so that int64 is exact; -inf and inf where there is no bound
    whole      whether each number is an integer
    nan        whether there may be NaN
    """

    low: float
    high: float
    whole: bool = False
    nan: bool = False

    def is_within(self, low: float, high: float) -> bool:
        """Whether every element is a number from `low` to `high`."""
        return not self.nan and low <= self.low and self.high <= high


UNKNOWN = Range(-math.inf, math.inf, nan=True)
ZERO = Range(0, 0, whole=True)


def range_of_type(elem: int) -> Range:
    """What a type holds: UNKNOWN for floats, and for what has no numbers."""
    if elem == TensorProto.BOOL:
        return Range(0, 1, whole=True)
    try:
        limits = ml_dtypes.iinfo(helper.tensor_dtype_to_np_dtype(elem))  # type: ignore[no-untyped-call]
    except (KeyError, ValueError, TypeError):
        return UNKNOWN
    return Range(int(limits.min), int(limits.max), whole=True)


def range_of_array(array: np.ndarray) -> Range | None:
    """What an array holds; None where it has no elements, or no numbers."""
    if not array.size or array.dtype.kind in "OUSc":
        return None
    if array.dtype.kind in "iub":
        return Range(int(array.min()), int(array.max()), whole=True)
    wide = array.astype(np.float64)
    if np.isnan(wide).any():
        return UNKNOWN
    return Range(float(wide.min()), float(wide.max()), bool((wide == np.floor(wide)).all()))


class Ranges:
    """The ranges of a model's tensors.

    unknown  what is known of a tensor of which nothing follows; what its type holds, unless it is given
    follows  whether ranges are followed through a node; through every one, unless it is given
    """

    def __init__(
        self,
        model: Model,
        unknown: Callable[[Value], Range] | None = None,
        follows: Callable[[Node], bool] = lambda node: True,
    ) -> None:
        self.model = model
        self._unknown = unknown or (lambda value: range_of_type(model.dtype(value)))
        self._follows = follows
        self._found: dict[Value, Range] = {}

    def of(self, value: Value) -> Range:
        """The range of a tensor."""
        stack = [value]
        while stack:
            missing = [v for v in self._reads(stack[-1]) if v not in self._found]
            if missing and len(self._found) + len(stack) < MOST:
                stack += missing
                continue
            top = stack.pop()
            if top not in self._found:
                self._found[top] = self._range(top)
        return self._found[value]

    def reasons(self, value: Value) -> list[Node]:
        """The nodes from which the range of a tensor follows, the last one first."""
        nodes: dict[Node, None] = {}
        stack = [value]
        while stack:
            top = stack.pop()
            node = top.producer
            if node is None or self.model.is_constant(top) or self.of(top) == self._unknown(top):
                continue
            nodes[node] = None
            stack += [v for v in self._reads(top) if self._matters(v, top)]
        return list(nodes)

    def given(self, operand: Any) -> Range:
        """The range of what a node reads: a tensor, or an attribute of an older opset."""
        if isinstance(operand, np.ndarray):
            return range_of_array(operand) or UNKNOWN
        found = self._found.get(operand)
        return self._unknown(operand) if found is None else found

    def _matters(self, read: Value, value: Value) -> bool:
        """Whether the range of a tensor is another one where nothing is known of one that its node reads."""
        known, self._found[read] = self._found[read], self._unknown(read)
        changed = self._range(value) != self._found[value]
        self._found[read] = known
        return changed

    def _node(self, value: Value) -> Node | None:
        """The node through which the range of a tensor is followed."""
        node = value.producer
        if node is None or node.key not in KNOWN or self.model.is_constant(value) or not self._follows(node):
            return None
        return node if value is node.outputs[0] or node.key == "Split" else None

    def _reads(self, value: Value) -> list[Value]:
        node = self._node(value)
        return [] if node is None else [v for v in _numbers(node) if isinstance(v, Value)]

    def _range(self, value: Value) -> Range:
        array, node = self.model.constant(value), self._node(value)
        found = range_of_array(array) if array is not None else None if node is None else self._computed(node)
        if found is None:
            return self._unknown(value)
        elem = self.model.dtype(value)
        if elem in FLOATS:
            kind = helper.tensor_dtype_to_np_dtype(elem)
            with np.errstate(over="ignore"):
                low, high = (float(np.float64(end).astype(kind)) for end in found[:2])
            return Range(low, high, found.whole, found.nan)
        held = range_of_type(elem)  # what is beyond it wraps around
        return found if elem and found.is_within(held.low, held.high) else self._unknown(value)

    def _computed(self, node: Node) -> Range | None:
        """The range of a node's first output; None where nothing follows."""
        op, given = node.key, [self.given(v) for v in _numbers(node) if v is not None]
        if op in SPECIAL:
            return SPECIAL[op](self, node, given)
        if op in AT_ENDS:
            return _at_ends(op, given)
        if op in MOVES | PICKS:
            return _joined(given)
        if op in FILLS:
            return _joined([*given, ZERO])
        if op in ENDING:
            may_be_nan = op in MAKES_NAN or any(g.nan or math.isinf(g.high - g.low) for g in given)
            return Range(*OPERATORS[op].range, op in WHOLE, may_be_nan)
        return None


def _numbers(node: Node) -> Sequence[Any]:
    """What a node reads of which its results have numbers, or with which it computes them."""
    row, operands = OPERATORS.get(node.key), node.operands()
    if row is None or row.elements is None or node.key in ELEMENTWISE:
        return operands
    return [operands[k] for k in row.elements if k < len(operands)]


# ---- what operators make of ranges -----------------------------------------------------------------------------------

# These return no number below some end, or above one. Of finite numbers some make NaN: a root of one below 0.
ENDING = frozenset(op for op, row in OPERATORS.items() if row.range != (-math.inf, math.inf))
MAKES_NAN = ENDING - BOUNDED | {"Acos", "Asin"}
# Of these the lowest and the highest result are at ends of what they read.
AT_ENDS = frozenset(op for op in RISING | FALLING | {"Mul", "Sub"} if OPERATORS[op].numpy is not None)


def _joined(parts: Sequence[Range]) -> Range | None:
    if not parts:
        return None
    low, high = min(p.low for p in parts), max(p.high for p in parts)
    return Range(low, high, all(p.whole for p in parts), any(p.nan for p in parts))


def _at_ends(op: str, given: Sequence[Range]) -> Range | None:
    function: Any = OPERATORS[op].numpy
    whole = all(g.whole for g in given)
    kind = object if all(isinstance(end, int) for g in given for end in g[:2]) else np.float64  # ints of any size
    with np.errstate(invalid="ignore"):
        ends = [_folded(function, [np.asarray(end, kind) for end in row]) for row in product(*(g[:2] for g in given))]
    if any(end != end for end in ends):  # inf - inf, 0 * inf
        return None
    return Range(min(ends), max(ends), whole or op in WHOLE, any(g.nan for g in given))


def _folded(function: Any, row: Sequence[np.ndarray]) -> Any:
    found = function(row[0]) if len(row) == 1 else reduce(function, row)
    return found.item() if isinstance(found, np.ndarray | np.generic) else found


def _cast(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    (x,), to = given, node.attr("to")
    if to in FLOATS:
        return x
    held = range_of_type(to)
    if to == TensorProto.BOOL or not x.is_within(held.low, held.high):
        return held
    return Range(math.trunc(x.low), math.trunc(x.high), whole=True)


def _clip(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range:
    x, *bounds = (None if v is None else ranges.given(v) for v in node.operands())
    assert x is not None
    low, high, whole, nan = x
    for bound, choose in zip(bounds, (max, min), strict=False):
        if bound is not None:
            low, high = choose(low, bound.low), choose(high, bound.high)
            whole, nan = whole and bound.whole, nan or bound.nan
    return Range(low, high, whole, nan)


def _where(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    """Where(a < b, a, b) is the smaller one, and b where a is NaN; Where(a > b, a, b) is the larger one."""
    _, a, b = given
    asked, *chosen = node.inputs
    test = None if asked is None else asked.producer
    if test is not None and test.key in ("Less", "Greater") and list(test.inputs) == chosen and not b.nan:
        choose = min if test.key == "Less" else max
        return Range(choose(a.low, b.low), choose(a.high, b.high), a.whole and b.whole)
    return _joined([a, b])


def _sub(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    """A remainder, where it is a - c * (a / c) of integers."""
    a, product_of = node.inputs[0], _maker(node, 1, "Mul")
    quotient = None if product_of is None else _maker(product_of, 0, "Div")
    if a is None or product_of is None or quotient is None or quotient.inputs[0] is not a:
        return _at_ends("Sub", given)
    divisor, again = (ranges.given(n.inputs[1]) for n in (product_of, quotient))
    if not given[0].whole or ranges.model.dtype(a) in FLOATS or divisor != again or divisor.low != divisor.high:
        return _at_ends("Sub", given)
    most = abs(divisor.low) - 1
    return Range(0 if given[0].low >= 0 else -most, 0 if given[0].high <= 0 else most, whole=True)


def _maker(node: Node, position: int, op: str) -> Node | None:
    read = node.inputs[position]
    maker = None if read is None else read.producer
    return maker if maker is not None and maker.key == op else None


def _mul(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    """0 times what has no bound may be NaN; of numbers of which none is below 0 no product is."""
    found = _at_ends("Mul", given)
    return Range(0, math.inf, nan=True) if found is None and min(g.low for g in given) >= 0 else found


def _mean(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range:
    """The sign of a mean, of which 0 may be a part: it is rounded."""
    low, high, _, nan = given[0]
    return Range(0 if low >= 0 else -math.inf, 0 if high <= 0 else math.inf, nan=nan)


def _div(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    """Of integers; nothing is known of a quotient by 0. Of floats the sign."""
    x, y = given
    if ranges.model.dtype(_output(node)) in FLOATS:
        return Range(0, math.inf, nan=True) if x.low >= 0 and y.low > 0 else None
    if not (x.whole and y.whole and y.low >= 0):
        return None
    least = max(y.low, 1)
    ends = [int(abs(end) // by) * (-1 if end < 0 else 1) for end in x[:2] for by in (least, max(y.high, least))]
    return Range(min(ends), max(ends), whole=True)


def _mod(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    """Of integers by positive ones, with the sign of these."""
    x, y = given
    if node.attr("fmod") or not (x.whole and y.whole and y.low >= 0):
        return None
    most = max(y.high - 1, 0)
    return Range(0, min(x.high, most) if x.low >= 0 else most, whole=True)


def _bits(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range:
    bits = max(int(end).bit_length() for g in given for end in g[:2])
    signed = any(g.low < 0 for g in given)
    if node.key == "BitwiseAnd" and not signed:
        return Range(0, min(g.high for g in given), whole=True)
    return Range(-(1 << bits) if signed else 0, (1 << bits) - 1, whole=True)


def _constant_of_shape(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    filled = node.attr("value")
    return Range(0.0, 0.0, whole=True) if filled is None else range_of_array(numpy_helper.to_array(filled))


def _resize(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    """Elements, or means of them, that are rounded; a region beyond the image has another number."""
    mode, crops = node.attr("mode"), node.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    if crops or mode not in ("nearest", "linear"):
        return None
    low, high, _, nan = given[0]
    elem = ranges.model.dtype(_output(node))
    if mode == "nearest" or elem not in FLOATS:
        return given[0]
    off = ROUNDED * float(ml_dtypes.finfo(helper.tensor_dtype_to_np_dtype(elem)).eps)  # type: ignore[no-untyped-call]
    return Range(low - abs(low) * off, high + abs(high) * off, nan=nan)


def _pad(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    return _joined(given if len(given) > 1 or node.attr("mode") not in (None, "constant") else [*given, ZERO])


def _scatter(ranges: Ranges, node: Node, given: Sequence[Range]) -> Range | None:
    return _joined(given) if node.attr("reduction") in (None, "none", "max", "min") else None


def _output(node: Node) -> Value:
    value = node.outputs[0]
    assert value is not None
    return value


# Operators whose ranges follow from no trait: each has a function of its own.
SPECIAL: dict[str, Callable[[Ranges, Node, Sequence[Range]], Range | None]] = {
    "AveragePool": _mean,
    "BitwiseAnd": _bits,
    "BitwiseOr": _bits,
    "BitwiseXor": _bits,
    "Cast": _cast,
    "Clip": _clip,
    "ConstantOfShape": _constant_of_shape,
    "Div": _div,
    "GlobalAveragePool": _mean,
    "Mod": _mod,
    "Mul": _mul,
    "Pad": _pad,
    "Resize": _resize,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Sub": _sub,
    "Where": _where,
}
KNOWN = SPECIAL.keys() | AT_ENDS | MOVES | PICKS | FILLS | ENDING
