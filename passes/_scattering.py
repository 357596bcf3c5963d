"""What the scattering operators have in common: how updates meet in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from surgeon import Builder
from surgeon.ir.graph import Value
from surgeon.ir.lattice import FLOATS

LARGEST = 2**24  # elements of the table of every place and every update
OPERATORS = {"add": "Add", "mul": "Mul", "max": "Greater", "min": "Less"}
COMPARISONS = ("Greater", "Less")
REDUCTIONS = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}


def neutral(reduction: str, dtype: int) -> np.ndarray:
    """What changes nothing where it is added, multiplied, or compared."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if reduction in ("add", "mul"):
        return np.asarray(0 if reduction == "add" else 1).astype(kind)
    sign = -1 if reduction == "max" else 1
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.asarray(limits.min if sign < 0 else limits.max, kind)
    return np.asarray(sign * np.inf).astype(kind)


def combined(b: Builder, reduction: str, data: Value, updates: Value) -> Value:
    """Each place of the data with its one update; as ONNX Runtime has it, a NaN among the updates is no extreme."""
    operator = OPERATORS[reduction]
    made: Value = b.node(operator, [updates, data] if operator in COMPARISONS else [data, updates], 1, "", {})
    return b.Where(made, updates, data) if operator in COMPARISONS else made


def entries(b: Builder, reduction: str, there: Value, updates: Value) -> Value:
    """The update where it meets its place, what changes nothing elsewhere and for the NaN of an extreme."""
    dtype = b.dtype(updates)
    if OPERATORS[reduction] in COMPARISONS and dtype in FLOATS:
        there = b.And(there, b.Equal(updates, updates))
    made: Value = b.Where(there, updates, neutral(reduction, dtype))
    return made


def reduced(b: Builder, reduction: str, table: Value, axis: int) -> Value:
    """All updates of each place as one."""
    made: Value = getattr(b, REDUCTIONS[reduction])(table, axes=[axis], keepdims=0)
    return made


def counted(b: Builder, indices: Value, size: Any) -> Value:
    """Indices that count from the front."""
    made: Value = b.Where(b.Less(indices, 0), b.Add(indices, size), indices)
    return made
