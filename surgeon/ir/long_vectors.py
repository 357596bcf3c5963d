"""Whether a model has, or may compute from constants, a vector so long that ONNX's inference cannot follow its values.

That of an Add, a Gather or a Cast takes 100 bytes and more for each element. Nothing is computed here: of the tensors
that follow from constants alone it is bounded how large their numbers and how many these are.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from surgeon.ir.attributes import constant_value
from surgeon.ir.operators import OPERATORS, words

LONG = 2**16  # elements of a vector
HELD = 2**20  # elements of a vector that the file holds: it has grown with that
MOST_SIZES = 64  # elements of a tensor that may be sizes: of the numbers of a longer one nothing is known
COUNTING = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.FLOAT, TensorProto.DOUBLE})
# Of the operators whose result has a shape that elements of inputs decide, those that may have more than they read.
FEWER = frozenset({"Compress", "Slice", "Split", "TopK"})
SIZED = {op: row.shape for op, row in OPERATORS.items() if row.shape and op not in FEWER}
# How large numbers may grow in an operator: sums and products of as many as it reads, or beyond any bound. In others
# they do not; that bound is rough, and no trait.
GROWTH = {
    **dict.fromkeys(words("Add CumSum Mean ReduceL1 ReduceSum Sub Sum"), "sum"),
    **dict.fromkeys(words("BitShift Einsum Gemm MatMul Mul Pow ReduceProd ReduceSumSquare"), "product"),
    **dict.fromkeys(words("Cosh Div Exp Reciprocal Sinh Tan"), "unbound"),
}


class _Bound(NamedTuple):
    """No element of a tensor is farther from 0, and it has no more elements."""

    value: float
    elements: float


SHAPE = _Bound(1.0, 8.0)  # of whose elements nothing is known here: they are sizes of the model's tensors


def has_long_vector(graph: GraphProto, nodes: Iterable[NodeProto]) -> bool:
    """Whether a vector is, or may become, longer than LONG.

    `nodes` are those of the graph and of its bodies, in order.
    """
    shapes = (info.type.tensor_type.shape.dim for info in graph.input)
    if any(len(dims) == 1 and dims[0].dim_value > LONG for dims in shapes):
        return True
    if any(len(t.dims) == 1 and t.dims[0] > HELD for t in graph.initializer):
        return True
    bounds: dict[str, _Bound | TensorProto] = {t.name: t for t in graph.initializer if _counts(t)}

    def known(name: str) -> _Bound:
        """The bound of a tensor; that of a constant is read when it is asked for, as few are."""
        found = bounds[name]
        if isinstance(found, TensorProto):
            found = bounds[name] = _of_tensor(found)
        return found

    for node in nodes:
        if node.op_type == "Constant":
            found = _of_constant(node)
            if found is not None:
                bounds[node.output[0]] = found
            continue
        if node.op_type in ("Shape", "Size"):
            bounds[node.output[0]] = SHAPE
            continue
        names = [name for name in node.input if name] if bounds else []
        if bounds.keys().isdisjoint(names):
            continue
        named = [node.input[k] for k in SIZED.get(node.op_type, ()) if k < len(node.input)]
        sizes = [known(name) for name in named if name in bounds]
        if any(b.value > LONG and b.elements <= 2 for b in sizes):  # more sizes make no vector
            return True
        if not bounds.keys() >= set(names):
            continue
        given = [known(name) for name in names]
        made = _of_results(node.op_type, given, sizes)
        if made.elements > max(LONG, *(b.elements for b in given)):
            return True
        bounds.update(dict.fromkeys(node.output, made))
    return False


def _counts(tensor: TensorProto) -> bool:
    """Whether a tensor may be sizes, or what these are computed of, and its elements are at hand."""
    return tensor.data_type in COUNTING and tensor.data_location != TensorProto.EXTERNAL


def _of_tensor(tensor: TensorProto) -> _Bound:
    count = math.prod(tensor.dims)
    return _Bound(1.0, count) if count > MOST_SIZES else _of_array(numpy_helper.to_array(tensor))


def _of_constant(node: NodeProto) -> _Bound | TensorProto | None:
    """The bound of a Constant, or its tensor; None of text and of what a function's caller says."""
    attribute = node.attribute[0] if len(node.attribute) == 1 else None
    if attribute is None or attribute.name not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        return None
    if attribute.name == "value":
        return attribute.t if _counts(attribute.t) else None
    array = constant_value(node)
    return None if array is None else _of_array(array)


def _of_array(array: np.ndarray) -> _Bound:
    largest = float(np.abs(array.astype(np.float64)).max(initial=0.0))
    return _Bound(largest if math.isfinite(largest) else math.inf, array.size)


def _of_results(op: str, given: Sequence[_Bound], sizes: Sequence[_Bound]) -> _Bound:
    """The bound of what an operator makes of tensors, some of which are sizes."""
    value, count = max(b.value for b in given), max(b.elements for b in given)
    growth = GROWTH.get(op)
    if growth == "unbound":
        return _Bound(math.inf, count)
    if growth == "sum":
        return _Bound(value * max(count, len(given)), count)
    if growth == "product":
        factors = max(count, 2.0) * value if op in ("BitShift", "Pow") else count + 1
        return _Bound(_power(max(value, 2.0), factors), count)
    if op == "Concat":
        return _Bound(value, sum(b.elements for b in given))
    if sizes and op != "Reshape" and all(b.elements <= 2 for b in sizes):
        return _Bound(value, count * max(_power(b.value, b.elements) for b in sizes))
    return _Bound(value, count)


def _power(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf
