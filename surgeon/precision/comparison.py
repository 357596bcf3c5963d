"""How far a converted model is from its fp32 original, output by output."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.ir.run import Runner
from surgeon.precision.data import Samples
from surgeon.precision.ranges import THREADS
from surgeon.precision.standard import LIMIT, Error, Standard, Trial, chosen_indices, error_of, fed
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import Feeds

MOST_KEPT = 4  # samples whose outputs of the original stay in memory
# A user's own score, of the inputs, the original's outputs and the converted model's, each by name. 0 is equal.
Metric = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray], Mapping[str, np.ndarray]], float]


@dataclass(frozen=True, slots=True)
class OutputError:
    """The largest error of one output over some inputs, against the fp32 original; see `standard`.

    output    its name, or that of the user's own score
    inputs    "data", which is the user's, or "guessed"
    relative  max|a - b| / max|b|, inf where a number became inf or NaN
    largest   max|b|
    quantile  99 % of the elements differ by at most this, relative to max|b|
    cosine    of the angle between the two outputs
    why       how it differs; empty where it is equal
    excuse    why integers or chosen rows count as equal although some of them differ
    """

    output: str
    inputs: str
    relative: float
    largest: float
    quantile: float = 0.0
    cosine: float = 1.0
    why: str = ""
    excuse: str = ""

    @property
    def ok(self) -> bool:
        """Whether the output is equal by the standard."""
        return not self.why

    @property
    def verdict(self) -> str:
        """Equal, and why if the error does not decide; or how it differs."""
        return self.why or (f"equal: {self.excuse}" if self.excuse else "equal")

    def to_json(self) -> dict[str, Any]:
        return {
            "output": self.output,
            "inputs": self.inputs,
            "relative": self.relative if math.isfinite(self.relative) else None,
            "quantile": self.quantile if math.isfinite(self.quantile) else None,
            "cosine": self.cosine,
            "largest": self.largest,
            "ok": self.ok,
            "verdict": self.verdict,
        }


class Comparison:
    """The fp32 original on some inputs, with which converted models are compared one after the other.

    original  the model
    samples   inputs by name; the original's outputs for the first few are kept
    kind      of the inputs: "data" or "guessed"
    base      the folder of the original's external weights
    limit     the tolerance
    metric    the user's own score, instead of the error of each output
    stepless  whether quantizers are without their steps, where there are some; False: never

    Raises Unrunnable where ONNX Runtime does not run the original.
    """

    def __init__(
        self,
        original: ModelProto,
        samples: Samples,
        *,
        kind: str,
        base: Path | None,
        limit: float = LIMIT,
        metric: Metric | None = None,
        stepless: bool = True,
    ) -> None:
        self.original, self.kind, self.base, self.limit, self._metric = original, kind, base, limit, metric
        self.samples = samples
        self._names = [o.name for o in original.graph.output]
        self._expected: list[list[np.ndarray]] = []
        self._reference: Runner | None = None
        self._chosen = chosen_indices(original)
        self._allowed, self.stepless = stepless, False

    def errors(self, converted: ModelProto, types: Mapping[str, int] | None = None) -> list[OutputError]:
        """The largest error of each output, worst first; `types` as in `rounded`. Raises Unrunnable."""
        standard = Standard(
            self.original,
            converted,
            self.base,
            limit=self.limit,
            types=types,
            chosen=self._chosen,
            stepless=self._allowed,
        )
        if standard.stepless != self.stepless:
            self.stepless, self._expected, self._reference = standard.stepless, [], None
        after = Runner(standard.evaluated, self.base, threads=THREADS)
        worst: dict[str, OutputError] = {}
        for turn, feeds in enumerate(self.samples):
            expected = self._original(turn, standard, feeds)
            given = after.run(fed(standard.evaluated, feeds))
            for found in self._errors_of(Trial(standard, self.kind, feeds, expected), given):
                known = worst.get(found.output)
                if known is None or _rank(found) > _rank(known):
                    worst[found.output] = found
        return sorted(worst.values(), key=_rank, reverse=True)

    def _original(self, turn: int, standard: Standard, feeds: Feeds) -> list[np.ndarray]:
        """The original's outputs for the sample with that index."""
        if turn < len(self._expected):
            return self._expected[turn]
        if self._reference is None:
            self._reference = Runner(standard.reference, self.base, threads=THREADS)
        made = self._reference.run(fed(standard.reference, feeds))
        if turn < MOST_KEPT:
            self._expected.append(made)
        return made

    def _errors_of(self, trial: Trial, given: Sequence[np.ndarray]) -> list[OutputError]:
        if self._metric is None:
            return [_error(trial, index, name, given[index]) for index, name in enumerate(self._names)]
        expected, found = (dict(zip(self._names, arrays, strict=True)) for arrays in (trial.expected, given))
        value = score(self._metric, trial.feeds, expected, found)
        why = "" if value <= self.limit else f"the score {value:g} is above the tolerance {self.limit:g}"
        return [OutputError(getattr(self._metric, "__name__", "metric"), self.kind, value, 0.0, why=why)]


def score(metric: Metric, *sides: Mapping[str, np.ndarray]) -> float:
    """What a user's function returns; inf for NaN. Raises UsageError where it fails."""
    try:
        value = float(metric(*sides))
    except Exception as error:  # the user's own code
        raise UsageError(f"the metric failed: {type(error).__name__}: {error}.") from None
    return math.inf if math.isnan(value) else value


def _rank(error: OutputError) -> tuple[bool, float]:
    return not error.ok, error.relative


def _error(trial: Trial, index: int, name: str, given: np.ndarray) -> OutputError:
    """One output of one run."""
    found = trial.difference(index, given)
    expected = trial.expected[index]
    if not is_float(expected.dtype):
        share = 0.0
        if expected.dtype != object and given.shape == expected.shape and expected.size:
            share = float((given != expected).mean())
        largest = float(np.abs(expected.astype(np.float64)).max(initial=0.0)) if expected.dtype.kind in "iub" else 0.0
        return OutputError(name, trial.kind, share, largest, why=found.why, excuse=found.excuse)
    error: Error = error_of(given, expected)
    if found.excuse:
        error = error._replace(relative=found.error)
    return OutputError(
        name, trial.kind, error.relative, error.largest, error.quantile, error.cosine, found.why, found.excuse
    )
