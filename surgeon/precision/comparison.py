"""How far a converted model is from its fp32 original, tensor by tensor of its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from surgeon.ir.run import Runner, Unrunnable
from surgeon.precision.standard import LIMIT, Standard, Trial, fed
from surgeon.proof.equality import Difference, is_float
from surgeon.proof.feeds import Feeds
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import sizes_that_run

KINDS = ("random", "large")  # of inputs that are always named: standard normal numbers, and the same times 1e3


@dataclass(frozen=True, slots=True)
class OutputError:
    """One output on one kind of inputs, against the fp32 original, as `Standard` has it.

    output    its name
    inputs    the kind of inputs
    relative  max|a - b| / max|b|, inf where a number became inf or NaN
    largest   max|b|
    rounding  `relative` of the fp32 original when its weights and inputs alone are rounded to fp16, which no conversion
              avoids
    why       how it differs; empty where it is equal
    excuse    what a large error is equal by; empty where it is small
    """

    output: str
    inputs: str
    relative: float
    largest: float
    rounding: float = 0.0
    why: str = ""
    excuse: str = ""

    @property
    def ok(self) -> bool:
        """Whether the output is equal by the standard."""
        return not self.why

    @property
    def verdict(self) -> str:
        """Equal, by which excuse, or how it differs."""
        return self.why or (f"equal: {self.excuse}" if self.excuse else "equal")

    def to_json(self) -> dict[str, Any]:
        return {
            "output": self.output,
            "inputs": self.inputs,
            "relative": self.relative if math.isfinite(self.relative) else None,
            "rounding": self.rounding if math.isfinite(self.rounding) else None,
            "largest": self.largest,
            "ok": self.ok,
            "verdict": self.verdict,
        }


def output_errors(
    original: ModelProto,
    converted: ModelProto,
    *,
    base: Path | None,
    data: Sequence[Feeds] | None,
    shapes: Mapping[str, Sequence[int]] | None,
) -> tuple[list[OutputError], str]:
    """The error of each output on every kind of inputs that fp16 holds and on `data`, worst first; and why there is
    none.

    base    the folder of the original's external weights
    data    inputs by name
    shapes  the shapes of inputs that are symbolic in the file
    """
    names = [o.name for o in original.graph.output]
    worst: dict[tuple[str, str], OutputError] = {}
    try:
        standard = Standard(original, converted, base)
        before, after = Runner(standard.reference, base), Runner(standard.evaluated, base)

        def expected(feeds: Feeds) -> list[np.ndarray]:
            return before.run(fed(standard.reference, feeds))

        for kind, feeds in _inputs(original, data, shapes, expected, standard):
            trial = Trial(standard, kind, feeds, expected(feeds))
            given = after.run(fed(standard.evaluated, feeds))
            for index, name in enumerate(names):
                found = _error(trial, index, name, given[index])
                known = worst.get((name, kind))
                if known is None or _rank(found) > _rank(known):
                    worst[name, kind] = found
    except Unrunnable as error:
        return [], str(error) if "opset" in str(error) else f"ONNX Runtime does not run it: {error}"
    return sorted(worst.values(), key=_rank, reverse=True), ""


def told(errors: Sequence[OutputError]) -> list[OutputError]:
    """Those that a table names: what differs, the data and KINDS, and of other inputs the worst where it is worse."""
    found: list[OutputError] = []
    for output in dict.fromkeys(e.output for e in errors):
        own = [e for e in errors if e.output == output]
        always = [e for e in own if not e.ok or e.inputs in (*KINDS, "data")]
        largest = max((e.relative for e in always), default=-1.0)
        found += always + [e for e in own if e not in always and e.relative > largest][:1]
    return sorted(found, key=_rank, reverse=True)


def _rank(error: OutputError) -> tuple[bool, float]:
    return not error.ok, error.relative


def _error(trial: Trial, index: int, name: str, given: np.ndarray) -> OutputError:
    """One output of one run."""
    found = trial.difference(index, given)
    expected = trial.expected[index]
    if not is_float(expected.dtype):
        largest = float(np.abs(expected.astype(np.float64)).max(initial=0.0)) if expected.dtype.kind in "iub" else 0.0
        return OutputError(name, trial.kind, 1.0 if found.why else 0.0, largest, why=found.why)
    relative, largest = _relative(given, expected, found)
    return OutputError(name, trial.kind, relative, largest, trial.rounding(index)[1], found.why, found.excuse)


def _relative(given: np.ndarray, expected: np.ndarray, found: Difference) -> tuple[float, float]:
    """(max|a - b| / max|b|, max|b|) where b is finite; the first is inf where a shape or a number is lost."""
    if given.shape != expected.shape:
        return math.inf, 0.0
    a, b = given.astype(np.float64), expected.astype(np.float64)
    counted = np.isfinite(b)
    largest = float(np.abs(b[counted]).max(initial=0.0))
    if not np.isfinite(a[counted]).all():
        return (math.inf if found.why else found.error), largest
    gap = float(np.abs(a[counted] - b[counted]).max(initial=0.0))
    if largest:
        return gap / largest, largest
    return (math.inf if gap else 0.0), largest


def _inputs(
    model: ModelProto,
    data: Sequence[Feeds] | None,
    shapes: Mapping[str, Sequence[int]] | None,
    run: Callable[[Feeds], Any],
    standard: Standard,
) -> Iterator[tuple[str, Feeds]]:
    """(kind, feeds): the data, then what is drawn, of sizes on which `run` runs the original. Raises Unrunnable."""
    for feeds in data or ():
        yield "data", feeds
    try:
        sizes = sizes_that_run(model, run, shapes=shapes)
    except Unrunnable:
        if data:
            return  # it is what counts
        raise
    for kind, feeds in valid_feeds(model, sizes):
        if standard.takes(kind):
            yield kind, feeds


__all__ = ["KINDS", "LIMIT", "OutputError", "output_errors", "told"]
