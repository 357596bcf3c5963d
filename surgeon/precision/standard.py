"""When whole models are equal: `--fp16`, `compare`, `--bisect` and the reports use this one standard.

A model that computes in the types of its original is held to the rule of `surgeon.proof.equality`, on every kind of
inputs. One that was converted to half precision is held to a tolerance:

1. It is evaluated with every tensor of 16 bits rounded (see `rounding`), because ONNX Runtime's CPU kernels hide
   overflow. The original is evaluated in fp32.
2. The error of an output is max|a - b| / max|b|, over the numbers of the original that are finite. It must not be above
   the tolerance, which is `LIMIT` unless the user gives one. Nothing excuses a larger error.
3. Integers, such as labels and positions, must be equal, also those that are stored as floats. As many may differ as
   rounding the weights and inputs alone changes, times TIMES_THE_ROUNDING, or one of a thousand.
4. Where a TopK, an ArgMax or a NonMaxSuppression chooses the rows of an output, rows with nearly equal scores may come
   in another order, and so may positions, which are all different. For each row of the original there must be one
   within the tolerance; as many may be missing as in rule 3.
5. Quantizers have no steps (see `steps`): with them, the error of a last digit becomes one of a 127th.
6. The inputs are the user's, else those of `inputs`, which occur.

One to which quantizers were added is held to `QUANTIZED_LIMIT` unless the user gives a tolerance. Its steps count, and
the error of an output is the root of the mean square of a - b, relative to that of b: the largest error of an element
is often that of a number near the border of two steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from surgeon.ir.lattice import HALVES
from surgeon.ir.model import Model
from surgeon.ir.operators import QUANTIZES
from surgeon.ir.protos import all_nodes, copied, types_held
from surgeon.ir.run import Runner, Unrunnable
from surgeon.precision.formats import computes_in_half, kept_or_rounded
from surgeon.precision.operators import chosen_outputs, whole_outputs
from surgeon.precision.ranges import THREADS
from surgeon.precision.rounding import GIVEN, cast_external, rounded
from surgeon.precision.steps import without_steps
from surgeon.proof.equality import Difference, compare, is_float, tolerance_of
from surgeon.proof.exact import widened
from surgeon.proof.feeds import NOT_FINITE, Feeds
from surgeon.proof.judge import Judge, JudgedRun
from surgeon.proof.pair import SideName
from surgeon.proof.whole import whole_pair
from surgeon.report import error_text
from surgeon.rules.meaning import with_functions

LIMIT = 0.01  # relative to the largest number of an output
FAINT = 1e-3  # where the largest number is smaller, the model may have found nothing
QUANTIZED_LIMIT = 0.15  # of the error of a quantized model: the cosine of two outputs is 0.99 then
TIMES_THE_ROUNDING = 2.0  # as many integers may differ as rounding the weights and inputs alone changes
RARE = 1e-3  # of the integers of an output may differ, such as those at the borders of a mask
MOST_COLUMNS = 64  # of the rows that are compared one by one
QUANTILE = 0.99  # of the elements of an output


class TooOld(Unrunnable):
    """Half precision cannot be evaluated in the opset of a model; the message is a whole sentence."""


class Standard:
    """Whether one model may replace another.

    quantized  whether the second one has quantizers and the first has none
    converted  whether it was converted to half precision, as those are whose `types` are given, or quantized
    limit      the largest error of an output that is allowed then
    kinds      the outputs that have rules of their own
    reference  what is run for the first one
    evaluated  what ONNX Runtime runs for the second one
    base       the folder of the external weights of the first, `base_after` that of the second one
    types      the types of the tensors of 16 bits of the second one, where they are known
    stepless   whether the quantizers are without their steps

    Raises Unrunnable where the second one cannot be evaluated in half precision.
    """

    def __init__(
        self,
        before: ModelProto,
        after: ModelProto,
        base: Path | None = None,
        base_after: Path | None = None,
        limit: float | None = None,
        types: Mapping[str, int] | None = None,
        kinds: Kinds | None = None,
        stepless: bool = True,
    ) -> None:
        self.base, self.base_after = base, base_after or base
        self.quantized = is_quantized(after) and not is_quantized(before)
        self.limit = (QUANTIZED_LIMIT if self.quantized else LIMIT) if limit is None else limit
        self.reference, self.evaluated = with_functions(before), with_functions(after)
        self.converted = self.quantized or types is not None or _halves(after) > _halves(before)
        self._rough: Runner | None = None
        self.stepless = False
        self.kinds = kinds or Kinds()
        if not self.converted:
            return
        self.kinds = kinds or kinds_of(before)
        if computes_in_half(before):
            self.reference = widened(cast_external(self.reference, base), TensorProto.FLOAT)
        self._before = with_functions(before)
        strict = rounded(self.evaluated, types, self.base_after)
        if strict is None:
            raise TooOld("the model's opset is older than 9, in which half precision cannot be evaluated here")
        reference = without_steps(self.reference, base)
        self.stepless = stepless and reference is not self.reference
        self.evaluated = without_steps(strict, self.base_after) if self.stepless else strict
        self.reference = reference if self.stepless else self.reference

    @cached_property
    def judge(self) -> Judge:
        """The judge of `surgeon rewrite --verify full`, of a pair that was not converted."""
        return self.judge_of()

    def judge_of(self, met: Sequence[Feeds] = (), runner: Runner | None = None) -> Judge:
        """A judge whose sizes, and integers, are those of some inputs; `runner` runs the first model."""
        pair = whole_pair(self.reference, self.evaluated, base=self.base)
        runners: dict[SideName, Runner] = {} if runner is None else {"before": runner}
        return Judge(replace(pair, folder_after=self.base_after, met=tuple(met), runners=runners), own_rounding=True)

    def tolerance(self, dtype: np.dtype) -> float:
        """How far apart two results of a type may be, relative to the largest number; 0 for integers."""
        own = tolerance_of(dtype)
        holds_floats = is_float(dtype) or dtype.kind == "O"  # a sequence may
        return max(own, self.limit) if self.converted and holds_floats else own

    def statement(self) -> str:
        """The sentence of a report on two models where the second was converted."""
        if self.quantized:
            return (
                "the second model is quantized: an output counts as equal if the root mean square of its errors is at "
                f"most {self.limit:g} of that of its numbers"
            )
        return (
            "the second model computes in half precision: it runs with every tensor of 16 bits rounded, and errors up "
            f"to {self.limit:g} of an output's largest number count as equal"
        )

    def error_of(self, given: np.ndarray, expected: np.ndarray, *, quick: bool = False) -> Error:
        """The error of an output by this standard."""
        error = error_of(given, expected, quick=quick)
        if not self.quantized or not np.isfinite(error.relative):
            return error
        return error._replace(relative=mean_error(given, expected))

    def rough(self, feeds: Feeds) -> list[np.ndarray]:
        """The original's outputs with weights and inputs rounded to fp16. Raises Unrunnable."""
        if self._rough is None:
            model = self.reference
            if computes_in_half(self._before):
                model = rounded(self._before, base=self.base) or model
            self._rough = Runner(_with_rounded_weights(model), self.base, threads=THREADS)
        given = {n: kept_or_rounded(x) for n, x in fed(self._rough.model, feeds).items()}
        return self._rough.run(given)


class Kinds(NamedTuple):
    """The indices of the outputs whose rows are chosen, and of those whose floats are integers."""

    chosen: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()


def kinds_of(model: ModelProto) -> Kinds:
    """The outputs that have rules of their own."""
    index = Model(model)
    named = chosen_outputs(index), whole_outputs(index)
    numbered = list(enumerate(output.name for output in model.graph.output))
    return Kinds(*(frozenset(number for number, name in numbered if name in names) for names in named))


class Error(NamedTuple):
    """How far an output is from the original's.

    relative  max|a - b| / max|b|; inf where a shape is another, or a number became inf or NaN
    quantile  a share of QUANTILE of the elements differs by at most this, relative to max|b|
    cosine    of the angle between the two, 1 where they are alike
    largest   max|b|
    """

    relative: float
    quantile: float
    cosine: float
    largest: float


def error_of(given: np.ndarray, expected: np.ndarray, *, quick: bool = False) -> Error:
    """The error of an output of numbers, over those of the original that are finite.

    quick  without the quantile and the cosine
    """
    if given.shape != expected.shape:
        return Error(np.inf, np.inf, 0.0, 0.0)
    wide = np.float32 if quick and given.dtype == expected.dtype == np.float32 else np.float64
    a, b = given.astype(wide, copy=False).reshape(-1), expected.astype(wide, copy=False).reshape(-1)
    counted = np.isfinite(b)
    if not counted.all():
        a, b = a[counted], b[counted]
    if not a.size:
        return Error(0.0, 0.0, 1.0, 0.0)
    largest = float(np.abs(b).max())
    if not np.isfinite(a).all():
        return Error(np.inf, np.inf, 0.0, largest)
    gaps = np.abs(a - b)
    if quick:
        gap = float(gaps.max())
        return Error(gap / largest if largest else (np.inf if gap else 0.0), 0.0, 1.0, largest)
    scale = largest or (np.inf if not gaps.any() else 0.0)
    with np.errstate(divide="ignore"):
        relative, quantile = (float(np.float64(x) / scale) for x in (gaps.max(), np.quantile(gaps, QUANTILE)))
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return Error(relative, quantile, float(a @ b) / size if size else float(not gaps.any()), largest)


def mean_error(given: np.ndarray, expected: np.ndarray) -> float:
    """The root of the mean square of the errors, relative to that of the numbers of the original that are finite."""
    apart, size = squares(given, expected)
    return math.sqrt(apart / size) if size else (math.inf if apart else 0.0)


def squares(given: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """The sum of the squares of the errors, and that of the numbers of the original that are finite.

    The first is inf where the original has a finite number and the other model has none.
    """
    wide = expected.astype(np.float64)
    finite = np.isfinite(wide)
    gaps = given.astype(np.float64)[finite] - wide[finite]
    with np.errstate(over="ignore"):
        return (float((gaps**2).sum()) if np.isfinite(gaps).all() else math.inf), float((wide[finite] ** 2).sum())


def row_gaps(given: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """For each row of `expected` the distance of the nearest row of `given`, relative to the largest number.

    A row is what the last axis holds, such as the numbers of a box; or an element, where the last axis is long.
    """
    width = expected.shape[-1] if expected.ndim > 1 and expected.shape[-1] <= MOST_COLUMNS else 1
    a, b = (x.astype(np.float64).reshape(-1, width) for x in (given, expected))
    finite = b[np.isfinite(b)]
    scale = float(np.abs(finite).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        gaps = [np.nan_to_num(np.abs(a - row).max(axis=1), nan=np.inf).min(initial=np.inf) for row in b]
    return np.asarray(gaps) / scale


@dataclass
class Trial:
    """One set of inputs, and the original's outputs.

    quick     without the quantiles and cosines of errors
    made      whether the inputs are not the user's: what nearly equal scores choose on them says little
    measured  the errors of the outputs that were looked at, by index
    """

    standard: Standard
    kind: str
    feeds: Feeds
    expected: Sequence[np.ndarray]
    quick: bool = False
    made: bool = False
    measured: dict[int, Error] = field(default_factory=dict)
    _results: list[np.ndarray] = field(default_factory=list)
    _rough: list[np.ndarray] | None = None

    def difference(
        self, index: int, given: np.ndarray, tolerance: float | None = None, *, by_models: bool = True
    ) -> Difference:
        """The difference of the output with that index; `tolerance` counts where it is wider than the standard's.

        by_models  whether ONNX Runtime ran the second model: then what the two models are counts, too
        """
        expected = self.expected[index]
        if self.standard.converted and expected.dtype != object:
            return self._of_converted(index, given, expected, tolerance)
        self._results[index] = given
        if by_models and tolerance is None and not self.standard.converted:
            return self.standard.judge.difference(self._judged, index)
        as_far = self.standard.judge.optimized_as_far(self._judged, index) if tolerance is None else None
        return as_far or compare(
            given,
            expected,
            tolerance=self.standard.tolerance(expected.dtype) if tolerance is None else tolerance,
            finite=self.kind not in NOT_FINITE,
            exact=partial(self._judged.exact.output, index),
            rounding=partial(self._judged.exact.rounding, index),
            cut_off=self.kind == "inf",
        )

    @cached_property
    def _judged(self) -> JudgedRun:
        """The results so far beside the original's, for the judge."""
        feeds = fed(self.standard.reference, self.feeds)
        return self.standard.judge.trial(self.kind, feeds, list(self.expected), self._results)

    def __post_init__(self) -> None:
        self._results = list(self.expected)

    def _of_converted(self, index: int, given: np.ndarray, expected: np.ndarray, tolerance: float | None) -> Difference:
        if given.shape != expected.shape:
            return Difference(np.inf, f"it returns the shape {list(given.shape)} instead of {list(expected.shape)}")
        if not is_float(expected.dtype) or index in self.standard.kinds.whole:
            return self._of_integers(index, given, expected)
        error = self.measured[index] = self.standard.error_of(given, expected, quick=self.quick)
        if index in self.standard.kinds.chosen and not error.relative <= self.standard.limit:
            return self._of_rows(index, given, expected, error)
        limit = self.standard.limit if tolerance is None else max(tolerance, self.standard.limit)
        if error.relative <= limit:
            return Difference(error.relative)
        if not np.isfinite(error.relative):
            return Difference(np.inf, "numbers became inf or NaN")
        why = f"the error {error_text(error.relative)} is above the tolerance {limit:g}"
        if error.largest < FAINT:
            why += f" of numbers up to {error.largest:.1g}; give inputs on which the model finds something"
        return Difference(error.relative, why, error.relative * error.largest)

    def _of_integers(self, index: int, given: np.ndarray, expected: np.ndarray) -> Difference:
        """Integers, bools or texts: twice as many may differ as rounding the weights and inputs alone changes.

        A share of RARE may anyway, of a quantized model or on inputs that are made one of the limit.
        """
        differing = int((given != expected).sum())
        if not differing:
            return Difference(0.0)
        share = self.standard.limit if self.standard.quantized or self.made else RARE
        if differing <= share * expected.size:
            return Difference(0.0, excuse=f"{differing} of {expected.size} results differ")
        size, rough = expected.size, self._rounded(index)
        changed = 0 if rough is None or rough.shape != expected.shape else int((rough != expected).sum())
        if differing <= TIMES_THE_ROUNDING * changed:
            why = f"{differing} of {size} results differ; rounding the weights and inputs alone changes {changed}"
            return Difference(0.0, excuse=why)
        if index in self.standard.kinds.chosen and np.unique(expected).size == size:
            missing = int((~np.isin(expected, given)).sum())
            changed = 0 if rough is None else int((~np.isin(expected, rough)).sum())
            if missing <= TIMES_THE_ROUNDING * changed:
                return Difference(0.0, excuse=_in_another_order(missing, size, changed))
        return Difference(np.inf, f"{differing} of {size} results differ")

    def _of_rows(self, index: int, given: np.ndarray, expected: np.ndarray, error: Error) -> Difference:
        """Chosen rows: at most twice as many of the original's may be missing as rounding alone changes.

        On inputs that are made, a share of the limit may.
        """
        limit = self.standard.limit
        gaps = row_gaps(given, expected)
        missing = int((gaps > limit).sum())
        if self.made and 0 < missing <= limit * gaps.size:
            near = f"{gaps.size - missing} of {gaps.size} rows are the same"
            return Difference(float(gaps[gaps <= limit].max(initial=0.0)), excuse=f"{near}, on inputs that are made")
        changed, rough = 0, self._rounded(index)
        if missing and rough is not None and rough.shape == expected.shape:
            changed = int((row_gaps(rough, expected) > limit).sum())
        if missing <= TIMES_THE_ROUNDING * changed:
            excuse = _in_another_order(missing, len(gaps), changed)
            return Difference(float(gaps[gaps <= limit].max(initial=0.0)), excuse=excuse)
        why = f"{missing} of {len(gaps)} chosen rows are not the original's within the tolerance {limit:g}"
        return Difference(error.relative, why, error.relative * error.largest)

    def _rounded(self, index: int) -> np.ndarray | None:
        """The output with that index where only weights and inputs are rounded; None where that does not run."""
        try:
            if self._rough is None:
                self._rough = self.standard.rough(self.feeds)
        except Unrunnable:
            return None
        return self._rough[index]


def _in_another_order(missing: int, size: int, changed: int) -> str:
    same = f"{size - missing} of {size} rows are the same, in another order"
    return f"{same}; rounding the weights and inputs alone changes {changed}" if missing else same


def fed(model: ModelProto, feeds: Feeds) -> Feeds:
    """The feeds under the names and in the types of a model's inputs; `rounded` gives those of 16 bits a suffix."""
    inputs = {i.name.removesuffix(GIVEN): i for i in model.graph.input}
    found: Feeds = {}
    for name, array in feeds.items():
        info = inputs[name]
        if not is_float(array.dtype):
            found[info.name] = array
            continue
        with np.errstate(over="ignore"):
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            found[info.name] = np.asarray(array).astype(dtype, copy=False)
    return found


def is_quantized(model: ModelProto) -> bool:
    """Whether a model computes in eight bits or fewer, or stores weights so."""
    return any(node.op_type in QUANTIZES or node.op_type == "DequantizeLinear" for node in all_nodes(model.graph))


def _halves(model: ModelProto) -> int:
    """How many weights, inputs and casts of a model are in half precision."""
    return sum(elem in HALVES for elem in types_held(model))


def _with_rounded_weights(model: ModelProto) -> ModelProto:
    """The model with every fp32 weight that fits into fp16 rounded to it; external weights stay as they are."""
    copy = copied(model)
    for tensor in copy.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.data_location != TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(kept_or_rounded(numpy_helper.to_array(tensor)), tensor.name))
    return copy
