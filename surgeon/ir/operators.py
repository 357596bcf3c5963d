"""What ONNX defines of its operators, a row an operator: the one place where sets of their names come from.

operators.toml has the rows, and explains the traits and the other columns. The other modules ask in set expressions,
such as `ELEMENTWISE - COMPARES`. `tests/test_operators.py` runs what a row says.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from surgeon.ir.data_file import data_beside

Positions = tuple[int, ...]


class Operator(NamedTuple):
    """One row. `elements` is None where the results have those of every input."""

    traits: frozenset[str]
    elements: Positions | None = (0,)
    shape: Positions = ()
    axes: Positions = ()
    positions: Positions = ()
    weights: Positions = ()
    limited: Positions = ()
    neutral: float | None = None
    range: tuple[float, float] = (-math.inf, math.inf)
    numpy: Callable[..., Any] | None = None


def _row(row: dict[str, Any]) -> Operator:
    facts: dict[str, Any] = {name: tuple(fact) if isinstance(fact, list) else fact for name, fact in row.items()}
    facts["traits"] = words(row.get("traits", ""))
    if row.get("elements") == "every":
        facts["elements"] = None
    if "numpy" in row:
        facts["numpy"] = getattr(np, row["numpy"])
    return Operator(**facts)


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


OPERATORS = {name: _row(row) for name, row in data_beside(__file__).items()}


def having(trait: str) -> frozenset[str]:
    """The operators that have a trait."""
    return frozenset(name for name, row in OPERATORS.items() if trait in row.traits)


ELEMENTWISE, BROADCASTS, COMMUTATIVE = map(having, ("elementwise", "broadcasts", "commutative"))
RISING, FALLING, ALONG, BATCH = map(having, ("rising", "falling", "along", "batch"))
KEEP_ZERO, BENDS_AT_ZERO = having("zero"), having("bends")
MOVES, KEEP_ORDER, FILLS, PICKS = map(having, ("moves", "order", "fills", "picks"))
EXACT, ROUNDS, CONTINUOUS, WHOLE = map(having, ("exact", "rounds", "continuous", "whole"))
COMPARES, LOGICAL, RETURNS_BOOL = having("compares"), having("logical"), having("bool")
MEASURES, LOCATES, REDUCES = having("measures"), having("locates"), having("reduces")
PRODUCTS, SLIDES, INTERPOLATES = having("products"), having("slides"), having("interpolates")
BOUNDED = frozenset(name for name, row in OPERATORS.items() if math.isfinite(row.range[1] - row.range[0]))
NORMALIZES, QUANTIZES, RANDOM, HOLDS = map(having, ("normalizes", "quantizes", "random", "holds"))
COUNTS = having("counts")
