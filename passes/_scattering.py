"""Scatter operators: how several updates of one position are combined."""

from typing import Any

import numpy as np
from onnx import helper

from surgeon import FLOATS, Builder, Value, require
from surgeon.ir.operators import OPERATORS

LARGEST = 2**24  # elements of the table of every position and every update
MEETING = {"add": "Add", "mul": "Mul", "max": "Greater", "min": "Less"}
COMPARISONS = ("Greater", "Less")
REDUCTIONS = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}


REDUCING = ("ReduceMean", *REDUCTIONS.values())


def neutral(op: str, dtype: int) -> np.ndarray:
    """What changes nothing as an operand or an element of this operator."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    number = OPERATORS[op].neutral
    assert number is not None
    if kind.kind in "iu" and np.isinf(number):
        limits = np.iinfo(kind)
        return np.asarray(limits.min if number < 0 else limits.max, kind)
    return np.asarray(number).astype(kind)


def combined(b: Builder, reduction: str, data: Value, updates: Value) -> Value:
    """Each place of the data with its one update; as ONNX Runtime has it, a NaN among the updates is not an extreme."""
    operator = MEETING[reduction]
    made: Value = b.node(operator, [updates, data] if operator in COMPARISONS else [data, updates], 1, "", {})
    return b.Where(made, updates, data) if operator in COMPARISONS else made


def entries(b: Builder, reduction: str, there: Value, updates: Value) -> Value:
    """The update where it meets its position, what changes nothing elsewhere and for the NaN of an extreme."""
    dtype = b.dtype(updates)
    if MEETING[reduction] in COMPARISONS and dtype in FLOATS:
        there = b.And(there, b.Equal(updates, updates))
    return b.Where(there, updates, neutral(REDUCTIONS[reduction], dtype))


def reduced(b: Builder, reduction: str, table: Value, axis: int) -> Value:
    """All updates of each position as one."""
    operator = REDUCTIONS[reduction]
    require(b.has_op(operator, b.dtype(table)), f"{operator} does not take the type of its updates")
    return getattr(b, operator)(table, axes=[axis], keepdims=0)


def nonnegative(b: Builder, indices: Value, size: Any) -> Value:
    """Indices that count from the front."""
    return b.Where(b.Less(indices, 0), b.Add(indices, size), indices)
