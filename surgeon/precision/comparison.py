"""How far a converted model is from its fp32 original, output by output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, ValueInfoProto

from surgeon.errors import UsageError
from surgeon.ir.iteration import RECURRENT
from surgeon.ir.model import Model
from surgeon.ir.protos import all_nodes, copied
from surgeon.ir.run import Runner
from surgeon.precision.data import Samples
from surgeon.precision.formats import FP16
from surgeon.precision.operators import scored_outputs
from surgeon.precision.ranges import THREADS
from surgeon.precision.rounding import rounded
from surgeon.precision.standard import LIMIT, Standard, Trial, error_of, fed, kinds_of, mean_error
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import Feeds
from surgeon.report import error_text
from surgeon.rules.meaning import with_functions

GUESSED_PART = 0.6  # of the tolerance that an error on guessed inputs may reach, since it may be larger on others
DOUBTED = 10.0  # times the tolerance that a doubt may be: less leaves little in fp16, for inputs that may not occur
NEARER = 2.0  # as small as on these inputs an output may be on others, by this
SCALES = 4.0  # where the largest numbers of samples differ by more, so do the inputs
SHORT = 64  # numbers of an output that may nearly cancel all at once
STEEPEST = 0.25  # the slope of a Softmax of two equal scores
# A small score of a Sigmoid is off by the error of its logit, relative to itself. Where all scores of a sample are
# small, that is the error of the output. The largest error among many logits is about twice the error of the largest
# logit, so half of it counts.
FAINT_SCORE = DOUBTED / 2
MOST_HELD = 8  # samples whose outputs of the original stay in memory
# Of few samples and their variants: the logarithms of the errors are taken to be normal, and another input to be this
# many standard deviations above their mean. The variants of one sample are more alike than several samples.
DEVIATIONS, OF_SEVERAL = 3.0, 2.0
VARIED, VARIED_SEVERAL = 6, 4  # samples, of one or of several of the user's: fewer say nothing of another input
GUESSED = 3  # of those that are guessed
# A recurrent node may make a small rounding a large error in the few steps in which its state turns. Roundings that are
# so many times as large, one way or the other, show more of these steps. Elsewhere errors grow in proportion.
ENLARGED = 8.0
SMALLEST = 0.1  # of the largest error: smaller ones count as this
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
    doubt     on few inputs: how far the error in what a Sigmoid or a Softmax reads would move a score near a half or
              a small one, or the error of an output of few numbers where it is smallest
    likely    on few samples and their variants: the error that another input may have
    enlarged  the error when roundings are ENLARGED times as large, divided by that; 0 where it was not measured
    """

    output: str
    inputs: str
    relative: float
    largest: float
    quantile: float = 0.0
    cosine: float = 1.0
    why: str = ""
    excuse: str = ""
    doubt: float = 0.0
    likely: float = 0.0
    enlarged: float = 0.0

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


@dataclass(frozen=True, slots=True)
class _Scored:
    """An output of scores: its index, what the Sigmoid or the Softmax reads, and the axis of the latter."""

    index: int
    logits: str
    axis: int | None

    def doubt(self, given: np.ndarray, expected: np.ndarray) -> float:
        """How far a score near a half, or a small one of a Sigmoid, would move if the error of its logit were the
        largest of those."""
        if given.shape != expected.shape or not expected.size or not np.isfinite(given).all():
            return math.inf
        gaps = given.astype(np.float64) - expected
        if self.axis is None:
            near = np.abs(expected) <= np.abs(expected).min() + 4
            return FAINT_SCORE * float(np.abs(gaps[near]).max())
        if expected.ndim == 0 or expected.shape[self.axis] < 2:
            return 0.0
        first = np.argpartition(expected, -2, self.axis).take([-2, -1], self.axis)
        two = np.take_along_axis(gaps, first, self.axis)
        return STEEPEST * float(np.abs(np.diff(two, axis=self.axis)).max())


@dataclass(slots=True)
class Compared:
    """A converted model, and what it returns after its outputs.

    enlarged  makes the runners of the model with ENLARGED roundings; None where that is not measured
    errors    of each output on the samples that it was run on, by their numbers
    seen      those that were run with ENLARGED roundings as well
    """

    standard: Standard
    runner: Runner
    logits: list[str]
    enlarged: Callable[[], list[Runner]] | None
    errors: dict[int, list[OutputError]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)


class Comparison:
    """The fp32 original on some inputs, with which converted models are compared one after the other.

    original  the model
    samples   inputs by name; the original's outputs for the first few are kept
    kind      of the inputs: "data" or "guessed"
    base      the folder of the original's external weights
    limit     the tolerance; an error on guessed inputs may be GUESSED_PART of it
    metric    the user's own score, instead of the error of each output
    stepless  whether quantizers are without their steps, where there are some; False: never
    few       whether the samples are guessed, or made of a few: others may find more, or less, so errors have doubts
    own       how many of the first are the user's, where the others are made of them

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
        few: bool = False,
        own: int = 1,
    ) -> None:
        self.original, self.kind, self.base, self.limit, self._metric = original, kind, base, limit, metric
        self.samples = samples
        self._names = [o.name for o in original.graph.output]
        self._expected: dict[int, list[np.ndarray]] = {}
        self._short: set[str] = set()  # outputs of few numbers
        self._reference: Runner | None = None
        self._logits: list[str] = []  # what the reference returns after its outputs
        self._kinds = kinds_of(original)
        self._scored = self._scores() if few and metric is None else []
        self._allowed, self.stepless, self.few, self._own = stepless, False, few, own
        self._recurs = few and metric is None and any(n.op_type in RECURRENT for n in all_nodes(original.graph))
        self._worst_first: list[int] = []  # numbers of samples, by the errors of the first model

    def _scores(self) -> list[_Scored]:
        found = []
        for name, node in scored_outputs(Model(self.original, self.base)).items():
            if node.inputs[0] is not None and name in self._names:
                axis = node.attr("axis") if node.key == "Softmax" else None
                found.append(_Scored(self._names.index(name), node.inputs[0].name, axis))
        return found

    def errors(self, converted: ModelProto, types: Mapping[str, int] | None = None) -> list[OutputError]:
        """The largest error of each output, worst first; see `compared`."""
        return self.errors_of(self.compared(converted, types))

    def compared(self, converted: ModelProto, types: Mapping[str, int] | None = None) -> Compared:
        """A converted model, not run yet; `types` as in `rounded`. Raises Unrunnable."""
        standard = Standard(
            self.original,
            converted,
            self.base,
            limit=self.limit,
            types=types,
            kinds=self._kinds,
            stepless=self._allowed,
        )
        if standard.stepless != self.stepless:
            self.stepless, self._expected, self._reference = standard.stepless, {}, None
        evaluated, logits = self._with_logits(standard.evaluated)
        runner = Runner(evaluated, self.base, threads=THREADS)
        enlarged = cache(partial(self._enlarged, converted, types)) if self._recurs and not standard.stepless else None
        return Compared(standard, runner, logits, enlarged)

    def _enlarged(self, converted: ModelProto, types: Mapping[str, int] | None) -> list[Runner]:
        """What run a converted model with ENLARGED roundings, up for down in the second one."""
        spelled = with_functions(converted)
        models = (rounded(spelled, types, self.base, times) for times in (ENLARGED, -ENLARGED))
        return [Runner(model, self.base, threads=THREADS) for model in models if model is not None]

    def errors_of(self, compared: Compared, most: int | None = None, *, quick: bool = False) -> list[OutputError]:
        """The largest error of each output, worst first. Raises Unrunnable.

        most   on so many of the samples, those with the largest errors of the first model first, where they are known
        quick  without quantiles and cosines
        """
        order = self._worst_first[:most]
        samples = zip(order, self.samples.picked(order), strict=True) if order else enumerate(self.samples)
        found: dict[int, list[OutputError]] = {}
        for number, feeds in islice(samples, most):
            if number not in compared.errors:
                compared.errors[number] = self._errors_on(number, feeds, compared, quick)
            if most is None and compared.enlarged is not None and number not in compared.seen:
                self._enlarge(number, feeds, compared)
            found[number] = compared.errors[number]
        if most is None and not order:
            largest = {number: max((0.0, *(e.relative for e in of if not e.excuse))) for number, of in found.items()}
            self._worst_first = sorted(found, key=lambda number: -largest[number])
        worst = [self._worst(of_output) for of_output in zip(*found.values(), strict=True)]
        return sorted(worst, key=_rank, reverse=True)

    def _errors_on(self, number: int, feeds: Feeds, compared: Compared, quick: bool) -> list[OutputError]:
        """The error of each output on the sample of that number."""
        standard = compared.standard
        expected = self._original(number, standard, feeds)
        made = self.few and (number >= self._own or self.kind == "guessed")
        given = compared.runner.run(fed(standard.evaluated, feeds))
        trial = Trial(standard, self.kind, feeds, expected, quick, made)
        return list(self._errors_of(trial, given, compared.logits))

    def _enlarge(self, number: int, feeds: Feeds, compared: Compared) -> None:
        """Measure the sample of that number with ENLARGED roundings, too."""
        assert compared.enlarged is not None
        compared.seen.add(number)
        expected, errors = self._original(number, compared.standard, feeds), compared.errors[number]
        for runner in compared.enlarged():
            far = runner.run(fed(compared.standard.evaluated, feeds))
            errors = [_with_enlarged(*of_output) for of_output in zip(errors, far, expected, strict=False)]
        compared.errors[number] = errors

    def _worst(self, errors: Sequence[OutputError]) -> OutputError:
        """The largest of the errors of an output, with what they leave open on other inputs."""
        sizes = [(error.relative * error.largest, error.largest) for error in errors]
        largest = [max(error.relative, error.enlarged) for error in errors if error.largest]
        worst = replace(max(errors, key=_rank), doubt=max(e.doubt for e in errors), likely=self._likely(largest))
        return self._doubted(worst, sizes) if worst.output in self._short else worst

    def _doubted(self, error: OutputError, sizes: Sequence[tuple[float, float]]) -> OutputError:
        """The error of an output of few numbers, such as logits, doubted where few inputs give it: they may nearly
        cancel on another, and their error be that of the worst.

        sizes  the largest difference and the largest number of each sample
        """
        gap, smallest = max(gap for gap, _ in sizes), min(largest for _, largest in sizes)
        alike = smallest * SCALES >= max(largest for _, largest in sizes) > 0
        if not self.few or not alike or not math.isfinite(gap):
            return error
        return replace(error, doubt=max(error.doubt, NEARER * gap / smallest))

    def _likely(self, relative: Sequence[float]) -> float:
        """The error that another input may have, by how far the errors of a sample and its variants are apart; of
        guessed samples only where a node is recurrent."""
        errors = np.array(relative)
        fewest = VARIED if self._own == 1 else VARIED_SEVERAL
        if self.kind == "guessed":
            fewest = GUESSED if self._recurs else len(errors) + 1
        if not self.few or len(errors) < fewest or not np.isfinite(errors).all():
            return 0.0
        logs = np.log(np.maximum(errors, SMALLEST * errors.max() or 1e-30))
        deviations = DEVIATIONS if self._own == 1 else OF_SEVERAL
        return float(np.exp(logs.mean() + deviations * logs.std(ddof=1)))

    def _with_logits(self, model: ModelProto) -> tuple[ModelProto, list[str]]:
        """The model with what makes scores after its outputs, and the names of these: a conversion may lack some."""
        made = {name for node in model.graph.node for name in node.output}
        names = sorted({s.logits for s in self._scored} & made - set(self._names))
        if not names:
            return model, names
        copy = copied(model)
        copy.graph.output.extend(ValueInfoProto(name=name) for name in names)
        return copy, names

    def _original(self, number: int, standard: Standard, feeds: Feeds) -> list[np.ndarray]:
        """The original's outputs for the sample of that number."""
        if number in self._expected:
            return self._expected[number]
        if self._reference is None:
            reference, self._logits = self._with_logits(standard.reference)
            self._reference = Runner(reference, self.base, threads=THREADS)
        made = self._reference.run(fed(standard.reference, feeds))
        named = zip(self._names, made, strict=False)
        self._short |= {name for name, array in named if is_float(array.dtype) and array.size <= SHORT}
        if len(self._expected) < MOST_HELD:
            self._expected[number] = made
        return made

    def _errors_of(self, trial: Trial, given: Sequence[np.ndarray], logits: Sequence[str]) -> Iterator[OutputError]:
        if self._metric is None:
            doubts = self._doubts(trial, given, logits)
            for index, name in enumerate(self._names):
                yield self._guarded(_error(trial, index, name, given[index]), doubts.get(index, 0.0))
            return
        expected, found = (dict(zip(self._names, arrays, strict=False)) for arrays in (trial.expected, given))
        value = score(self._metric, trial.feeds, expected, found)
        why = "" if value <= self.limit else f"the score {value:g} is above the tolerance {self.limit:g}"
        yield OutputError(getattr(self._metric, "__name__", "metric"), self.kind, value, 0.0, why=why)

    def _doubts(self, trial: Trial, given: Sequence[np.ndarray], logits: Sequence[str]) -> dict[int, float]:
        """The doubt about each output of scores, by its index."""
        after = dict(zip((*self._names, *logits), given, strict=True))
        before = dict(zip((*self._names, *self._logits), trial.expected, strict=True))
        in_both = [s for s in self._scored if s.logits in after and s.logits in before]
        return {s.index: s.doubt(after[s.logits], before[s.logits]) for s in in_both}

    def _guarded(self, error: OutputError, doubt: float) -> OutputError:
        """The error of an output, with what guessed inputs leave open."""
        error = replace(error, doubt=doubt)
        if not self.few or self.kind != "guessed" or error.why or error.excuse:
            return error
        if error.relative > GUESSED_PART * self.limit:
            part = f"{GUESSED_PART:g} of the tolerance {self.limit:g}, the limit without --data"
            return replace(error, why=f"the error {error_text(error.relative)} is above {part}")
        return error


def score(metric: Metric, *sides: Mapping[str, np.ndarray]) -> float:
    """What a user's function returns; inf for NaN. Raises UsageError where it fails."""
    try:
        value = float(metric(*sides))
    except Exception as error:  # the user's own code
        raise UsageError(f"the metric failed: {type(error).__name__}: {error}.") from None
    return math.inf if math.isnan(value) else value


class Moved(NamedTuple):
    """How far rounding the inputs moves an output: the largest error of an element, and the root of the mean square."""

    largest: float
    mean: float


def moved_by_rounding(model: ModelProto, samples: Iterable[Feeds], base: Path | None = None) -> Moved:
    """The largest errors of an output, its steps included, when the floating-point inputs are rounded to fp16.

    Raises Unrunnable.
    """
    runner = Runner(model, base)
    found = Moved(0.0, 0.0)
    for feeds in samples:
        rounded = {name: FP16.rounded(a) if a.dtype == np.float32 else a for name, a in feeds.items()}
        for a, b in zip(runner.run(rounded), runner.run(feeds), strict=True):
            if is_float(b.dtype) and b.size:
                errors = error_of(a, b, quick=True).relative, mean_error(a, b)
                found = Moved(*map(max, found, errors))
    return found


def _rank(error: OutputError) -> tuple[bool, float]:
    return not error.ok, error.relative


def _with_enlarged(error: OutputError, far: np.ndarray, expected: np.ndarray) -> OutputError:
    """The error of an output, with that of a run with ENLARGED roundings if it is larger than in the last one."""
    if error.excuse or not is_float(expected.dtype):
        return error
    relative = error_of(far, expected, quick=True).relative / ENLARGED
    return replace(error, enlarged=max(error.enlarged, relative)) if math.isfinite(relative) else error


def _error(trial: Trial, index: int, name: str, given: np.ndarray) -> OutputError:
    """One output of one run."""
    found = trial.difference(index, given)
    expected = trial.expected[index]
    if not is_float(expected.dtype) or index in trial.standard.kinds.whole:
        share = 0.0
        if expected.dtype != object and given.shape == expected.shape and expected.size:
            share = float((given != expected).mean())
        largest = float(np.abs(expected.astype(np.float64)).max(initial=0.0)) if expected.dtype.kind in "iubf" else 0.0
        return OutputError(name, trial.kind, share, largest, why=found.why, excuse=found.excuse)
    error = trial.measured.get(index) or error_of(given, expected, quick=trial.quick)
    if found.excuse:
        error = error._replace(relative=found.error)
    return OutputError(
        name, trial.kind, error.relative, error.largest, error.quantile, error.cosine, found.why, found.excuse
    )
