"""Weights of a rewritten window that are the original's but for a few elements: those no random input shows.

A table of many rows, or the factors of a long sum, are compared themselves. What a pass makes of weights, it makes of
all: it moves them, or scales them, each slice along an axis by a number of its own. Where most elements say so, the
others have to.
"""

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from surgeon.errors import ModelError
from surgeon.ir.model import Model
from surgeon.ir.operators import OPERATORS
from surgeon.ir.protos import constants_in, copied
from surgeon.proof.equality import is_float
from surgeon.proof.pair import ModelPair

FEWEST = 64  # elements: each of a smaller constant counts on random inputs
MOST = 1 << 25  # elements of a constant that is looked at
MOST_AXES = 4
MOST_OF_THEM = 0.9  # that say what was made of all
ROUNDED = 1e-5  # part of an element that rounding may change
MASKING = 1e3  # numbers from here on stand for infinity: which one does not matter


def few_differ(pair: ModelPair) -> str:
    """What a constant of the rewritten window has in a few elements; empty where none is like that."""
    before, after = (dict(_large(m)) for m in pair.both)
    indices = {i for n in pair.after.graph.node for i in _indices(n)}
    after = {name: x for name, x in after.items() if name not in indices}
    old = {(x.shape, x.tobytes()) for x in before.values()}
    for x in (x for x in after.values() if (x.shape, x.tobytes()) not in old):
        for source in (y for y in before.values() if y.size == x.size and y.dtype == x.dtype):
            count = _count_of_others(x, source)
            if count:
                of = f"{count} of the {x.size} elements of a constant"
                return f"{of} are not computed from the original's as the others are"
    return ""


def _indices(node: NodeProto) -> Iterator[str]:
    """The inputs that are positions or sizes: several numbers may be one position."""
    row = OPERATORS.get(node.op_type)
    if row is not None and not node.domain:
        yield from (i for k, i in enumerate(node.input) if k in {*row.positions, *row.shape, *row.axes, *row.limited})


def _large(model: ModelProto) -> Iterator[tuple[str, np.ndarray]]:
    """The large constants of a model, and what it computes of constants."""
    known = constants_in(model.graph)
    arrays = [(name, numpy_helper.to_array(t)) for name, t in known.items() if _is_looked_at(t)]
    if any(all(i in known for i in node.input) for node in model.graph.node if node.input):
        arrays += _computed(model)
    for name, x in arrays:
        if FEWEST <= x.size <= MOST and (is_float(x.dtype) or x.dtype.kind in "biu"):
            yield name, x


def _is_looked_at(tensor: TensorProto) -> bool:
    return not tensor.external_data and FEWEST <= int(np.prod(tensor.dims, dtype=np.float64)) <= MOST


def _computed(model: ModelProto) -> Iterator[tuple[str, np.ndarray]]:
    """What nodes compute of constants, by name."""
    try:
        of = Model(copied(model))
        made = ((o.name, of.constant(o)) for n in of.graph.nodes for o in n.outputs if o is not None)
        yield from ((name, x) for name, x in made if x is not None)
    except ModelError:
        return


def _count_of_others(x: np.ndarray, source: np.ndarray) -> int:
    """How many elements differ from what is made of `source` otherwise; 0 where nothing is known to be made of it."""
    for arranged in _arranged(source, x.shape):
        others = _others(x.astype(np.float64), arranged.astype(np.float64))
        if others is not None:
            return others
    return 0


def _arranged(source: np.ndarray, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """An array in each order of its axes, in another shape."""
    yield source.reshape(shape)
    if source.ndim <= MOST_AXES:
        orders = (o for o in permutations(range(source.ndim)) if o != tuple(range(source.ndim)))
        yield from (source.transpose(o).reshape(shape) for o in orders)


def _others(x: np.ndarray, source: np.ndarray) -> int | None:
    """How many elements are not `source` times the factor of their slice; None where no axis has such factors."""
    counts = np.isfinite(x) & np.isfinite(source) & (np.abs(x) < MASKING) & (np.abs(source) < MASKING)
    with np.errstate(all="ignore"):
        ratio = np.where(counts & (source != 0), x / source, np.nan)
    if np.isnan(ratio).all():
        return None
    for axis in (None, *range(x.ndim)):
        if axis is not None and x.shape[axis] * FEWEST > x.size:  # a slice of few elements has any factor
            continue
        rest = None if axis is None else tuple(k for k in range(x.ndim) if k != axis)
        with np.errstate(all="ignore"):
            found = np.nanmedian(ratio, axis=rest, keepdims=True)
        factor = np.asarray(np.nan_to_num(found))
        off = counts & ~(np.abs(x - source * factor) <= ROUNDED * np.abs(x))
        if off.sum() <= (1 - MOST_OF_THEM) * x.size:
            return int(off.sum())
    return None
