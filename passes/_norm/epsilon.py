"""The epsilon of a normalisation, and what its variance is multiplied with."""

from dataclasses import replace
from typing import Any

import numpy as np

from surgeon import Builder, Value, elements, require, require_some

from .window import Normalisation

# The sums that the means may be: the variance's may have another divisor than their count, the others may not.
VARIANCE = "square"
STEMS = ("first", "second", "folded", "fast", VARIANCE)


def with_epsilon(b: Builder, n: Normalisation, found: dict[str, Any]) -> Normalisation:
    """The normalisation with its epsilon and its factor, from what the pattern bound.

    A pass asks for them when it knows that the window is its own, for a lost epsilon becomes a warning. With a variance
    that is `ratio` times the mean of the squares, d / sqrt(ratio v + e) = d / sqrt(v + e / ratio) / sqrt(ratio).
    """
    require("outside" not in found, "epsilon is added to the root, not under it")
    ratio = _ratio(b, int(np.prod(n.sizes)) if n.is_static else None, found)
    epsilon = found.get("epsilon")
    require(epsilon is None or epsilon.size == 1, "epsilon differs from element to element")
    given = 0.0 if epsilon is None else _number(epsilon)
    require(given >= 0, "epsilon is negative")
    return replace(n, epsilon=float(np.float32(_mended(b, given) / ratio)), factor=ratio**-0.5)


def _mended(b: Builder, epsilon: float) -> float:
    """The epsilon of the file, or the user's where an exporter or a type lost it; either way the report says so."""
    if epsilon > 0:
        return epsilon
    wanted = b.options.get("repair_eps")
    if wanted is None:
        b.warn("lost epsilon: the variance has none, so a constant input divides by zero; --repair-eps gives it one")
        return 0.0
    b.warn(f"lost epsilon: {float(wanted):g} repairs it, as asked for")
    b.tolerance = 1e30  # the user asked for other numbers than the file's
    return float(wanted)


def _ratio(b: Builder, count: int | None, found: dict[str, Any]) -> float:
    """What the variance is multiplied with, against the mean of the squares.

    `count`: the number of elements of which a mean is taken. Every other sum must be over it.
    """
    ratio = 1.0
    for name, given in found.items():
        stem, _, what = name.rpartition("_")
        if what not in ("count", "share", "factor", "divisor") or stem not in STEMS:
            continue
        value = _static_number(b, given)
        require(value > 0, "one element has no unbiased variance")
        if what in ("count", "share"):
            whole = require_some(count, "the number of elements is not static, so the sum is not a mean of known size")
            value = whole / value if what == "count" else whole * value
            require(value > 0, "no elements have no mean")
            require(stem == VARIANCE or abs(value - 1) < 1e-6, "a sum is not divided by the number of its elements")
        ratio *= 1 / value if what == "divisor" else value
    return ratio


def _static_number(b: Builder, given: Any) -> float:
    """The number that a tensor holds, from its value or from the shapes that it is computed from; else declines."""
    array = b.value(given)
    if array is None and isinstance(given, Value):
        sizes = elements(b, given)
        array = np.asarray(sizes) if sizes and isinstance(sizes[0], int) else None
    why = "the number of elements is not static, so Bessel's correction has no constant value"
    array = require_some(array, why)
    require(array.size == 1, why)
    return _number(array)


def _number(array: np.ndarray) -> float:
    return float(np.asarray(array, np.float64).reshape(()))
