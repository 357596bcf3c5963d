"""The judge: runs both sides of a pair on the inputs of `feeds`, and says whether their results are equal.

ONNX Runtime runs both, without optimisations. What equal means for two arrays is in `equality`. Results that are
not equal by that rule may still be, where rounding alone makes the difference; see `Judge.difference`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto

from surgeon.ir.lattice import HALVES
from surgeon.ir.operators import INTERPOLATES, NORMALIZES
from surgeon.ir.protos import all_nodes, copied, holders, nodes_of, types_held
from surgeon.ir.run import Reference, Runner, Unrunnable
from surgeon.proof import hidden
from surgeon.proof.equality import (
    TIMES_THE_ORIGINAL,
    TOLERANCE,
    Difference,
    compare,
    is_float,
    smallest_normal,
    tolerance_of,
)
from surgeon.proof.exact import Exact, widen_stash
from surgeon.proof.feeds import NOT_COUNTED, NOT_FINITE, Feeds, SizedInput, feeds_of
from surgeon.proof.held import too_large
from surgeon.proof.integer_roles import divisors, plain_integers
from surgeon.proof.nan_unreliable_kernels import BlindSpots
from surgeon.proof.pair import ModelPair
from surgeon.proof.probes import (
    MOST_AT_BREAKPOINTS,
    MOST_PROBED,
    POSITION,
    SATURATED,
    Probe,
    Window,
    breakpoint_feeds,
    breakpoint_sizes,
    probed_floats,
    probed_integers,
    probed_positions,
    probed_sizes,
    random_feeds,
    roomy_sizes,
    sized_feeds,
    without_zero,
)
from surgeon.proof.randomness import why_random
from surgeon.proof.sizes import FIRST_CHOICE, TOO_LARGE, SizeChoice
from surgeon.proof.valid import Valid
from surgeon.proof.weights import few_differ

AT_OTHER_SIZES = frozenset({"random", "zero", "large", "shifted", "inf"})  # of a window that has probes of its own
MOST_EXCUSED = 1e-2  # a relative difference beyond which nothing that ONNX Runtime's optimizations do excuses it
KERNEL_NOISE = 1e-3  # a relative difference that a single kernel's rounding may make; the definition decides

# ONNX Runtime's kernels of these subtract large numbers, which ONNX's definitions do not: InstanceNorm is
# x * (scale / std) + (bias - mean * scale / std) there, and the variance of the others E[x^2] - E[x]^2. Where the
# elements of a row are close to each other, nothing is left but that rounding. That of MeanVarianceNormalization leaves
# out the 1e-9 which its definition adds to the deviation. Sigmoid is a quotient of polynomials: below -14 it is a
# hundredth off.
STRAYS = NORMALIZES - {"LRN", "LpNormalization", "RMSNormalization"} | {"Sigmoid", "Swish"}
# ONNX Runtime's kernel cuts an inf off at the type's maximum where it has no bound, which ONNX's definition passes on.
# Where two such meet, inf - inf is 0 there.
CUTS_INF = frozenset({"Clip"})
# ONNX Runtime's kernels reduce int32 and int64 in double: beyond 2^53 that is rounded, and it ends at the type's limit.
IN_DOUBLE = frozenset({"ReduceProd", "ReduceSum"})
# ONNX Runtime's Resize takes no part of an axis that keeps its length, but the whole.
CROPPED = "tf_crop_and_resize"

PATIENCE = 10.0  # seconds that the probes of one window may take, before the next one is not begun
SLOW = 0.05  # seconds of the processor for both sides at a size of TRIED_BEFORE, beyond which no larger one is tried
OUTPUT_IS_CHEAP = 16  # elements of an output cost as much as one of an input, which is drawn and evaluated, too

Equality = Callable[[np.ndarray, np.ndarray], Difference]  # of (what stands for the original, the original)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the proof says about a pair of models.

    ok         True: equal. False: not equal. None: that could not be found out
    max_error  the largest difference, relative to the largest output, over the finite inputs of `feeds`, without the
               denormal ones; probes look for differences, and have rows of which a kernel makes nothing but rounding
    why        why they differ or were not compared; where they are equal, what has to be reported about it
    unsized    whether the original ran with none of the sizes that were chosen; others may do
    """

    ok: bool | None
    max_error: float | None = None
    why: str = ""
    unsized: bool = False

    @classmethod
    def different(cls, why: str, error: float | None = None) -> Verdict:
        return cls(False, error, why)

    @classmethod
    def unproved(cls, why: str, *, unsized: bool = False) -> Verdict:
        return cls(None, None, why, unsized)


def judge(
    pair: ModelPair,
    choice: SizeChoice = FIRST_CHOICE,
    *,
    slack: float = 1.0,
    own_rounding: bool = False,
    probed: bool = False,
    kinds: Collection[str] = (),
) -> Verdict:
    """Run both sides of a pair on every kind of input, at each size, and compare all outputs.

    choice        how symbolic dimensions get their sizes
    slack         what the tolerance is multiplied by: a rewrite that is an approximation says so
    own_rounding  a model in half precision may be as far from an exact evaluation as the original's own rounding,
                  operator by operator, takes that (four times as far, as everywhere): ONNX Runtime leaves most of that
                  rounding out, and a deep model makes much of little
    probed        whether it is a window, on which the further inputs of `probes` are tried
    kinds         of input that are tried; all unless given
    """
    random = why_random(*pair.both)
    if random:
        return Verdict.unproved(random)
    try:
        before = pair.runner("before")
    except Unrunnable as error:
        return Verdict.unproved(f"ONNX Runtime does not run the original window: {error}")
    try:
        after = pair.runner("after")
    except Unrunnable as error:
        return Verdict.different(f"ONNX Runtime does not run the rewritten window: {error}")
    if after.lacking and not before.lacking:
        return Verdict.different(f"ONNX Runtime runs the original window, not the rewritten one: {after.lacking}")
    after.follow(before)
    if HALVES.isdisjoint(types_held(pair.before)) and not HALVES.isdisjoint(types_held(pair.after)):
        after.refer()  # ONNX Runtime leaves out a rounding to half precision between two kernels of fp32
    try:
        return Judge(pair, slack=slack, own_rounding=own_rounding, probed=probed).verdict(choice, kinds)
    finally:
        before.end()
        after.end()


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """Both sides, run on the same inputs. `exact` and `exact_after` evaluate each side in a wider type.

    probed  whether the inputs are a probe's: unlike the usual ones these have rows whose elements hardly differ
    drops_rounding  whether a Cast to a narrower type is gone: what it rounded off is not noise of the original
    where   which sizes the inputs have, where these are probed: a row of one element has no variance, and what a norm
            makes of it is rounding, so that KERNEL_NOISE is not a difference there
    """

    kind: str
    feeds: Feeds
    expected: list[np.ndarray]
    results: list[np.ndarray]
    exact: Exact
    exact_after: Exact
    slack: float
    probed: bool = False
    where: str = ""
    drops_rounding: bool = False

    @property
    def is_noisy(self) -> bool:
        """Whether rounding may be as large as the numbers: of few elements, or next to where functions end."""
        return bool(self.where) or self.kind == SATURATED

    def is_no_more_than_moved(self, index: int) -> bool:
        """Whether no number of an output is further from the original's than that moves where its inputs do."""
        moved = self.exact.moved(index)
        if moved is None or not moved.shape == self.expected[index].shape == self.results[index].shape:
            return False
        a, b = (x.astype(np.float64) for x in (self.results[index], self.expected[index]))
        with np.errstate(all="ignore"):
            near = np.isfinite(moved) & (np.abs(a - b) <= moved)
            return bool(((a == b) | near | (np.isnan(a) & np.isnan(b))).all())

    def equality(self, index: int, *, at_least: float = 0.0) -> Equality:
        """The rule by which arrays are compared that stand for an output; `at_least`: no smaller tolerance will do."""
        own = tolerance_of(self.expected[index].dtype) * self.slack
        return partial(
            compare,
            tolerance=max(own, at_least, KERNEL_NOISE if self.is_noisy else 0.0),
            finite=self.kind not in NOT_FINITE,
            exact=None if self.drops_rounding else partial(self.exact.output, index),
            rounding=partial(self.exact.rounding, index),
            cut_off=self.kind == "inf",
        )


class _Budget:
    """What the probes of a window may still take: elements, and seconds."""

    def __init__(self, elements: int) -> None:
        self.all = self.left = elements
        self.until = time.monotonic() + PATIENCE

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.until

    def allows(self, cost: int, left: float = 0.0) -> bool:
        """Whether a run of so many elements may be made, and a part of all is left for others; it is counted where it
        may."""
        if cost > self.left - left * self.all or self.is_late:
            return False
        self.left -= cost
        return True


class Judge:
    """Judges one pair whose sides both load; the arguments are those of `judge`."""

    def __init__(
        self, pair: ModelPair, *, slack: float = 1.0, own_rounding: bool = False, probed: bool = False
    ) -> None:
        self.is_probed = probed
        self.pair = pair
        self.slack = slack
        self.own_rounding = own_rounding
        self.reads_halves = any(elem in HALVES for _, elem, _ in pair.inputs)
        self.holds_halves = not HALVES.isdisjoint(types_held(pair.before))
        self.blind = BlindSpots(pair.before, pair.folder)
        self.unknown: set[int] = set()  # outputs after an operator that did not see each NaN, on some finite inputs
        self.known: set[int] = set()  # outputs that were equal on random inputs
        self.valid = Valid(pair.before)
        self.strays = _has(pair.before, STRAYS) or _has(pair.after, STRAYS)
        # Where it takes samples is computed, and it jumps between them. A jump that was searched for is within the
        # rounding of both sides, and shows nothing.
        self.samples = _has(pair.before, INTERPOLATES)
        self.cuts_inf = _has(pair.before, CUTS_INF) or _has(pair.after, CUTS_INF)
        self.in_double = _has(pair.before, IN_DOUBLE) or _has(pair.after, IN_DOUBLE)
        resizes = (n for n in nodes_of(pair.before) if n.op_type == "Resize")
        self.drops_rounding = not self.reads_halves and _narrows(pair.before) > _narrows(pair.after)
        self.crops = any(a.s == CROPPED.encode() for n in resizes for a in n.attribute)
        self.is_one_by_one = hidden.rounds_one_by_one(pair.before)
        self.divisors = divisors(pair)
        self.max_error = 0.0
        self.note = ""
        self.why = ""  # why the original did not run, the first time
        self.made = 0  # elements of the outputs of the last run

    @property
    def before(self) -> Runner:
        return self.pair.runner("before")

    @property
    def after(self) -> Runner:
        return self.pair.runner("after")

    def verdict(self, choice: SizeChoice, kinds: Collection[str]) -> Verdict:
        """Try one set of inputs after the other, until one shows a difference."""
        runs = 0
        for kind, feeds, expected in self.runs(choice, kinds):
            runs += 1
            verdict = self._tried(kind, feeds, expected)
            if verdict is not None:
                return verdict
        if not runs:
            return Verdict.unproved(f"the original window does not run: {self.why or TOO_LARGE}", unsized=True)
        if self.unknown - self.known:
            return Verdict.unproved(f"the original window does not run: {self.blind.reason}", unsized=True)
        if self.is_probed:
            known = few_differ(self.pair) or ("" if self.samples else too_large(self.pair))
            if known:
                return Verdict.different(known)
            return self._probed(choice) or Verdict(True, self.max_error, self.note)
        return Verdict(True, self.max_error, self.note)

    def runs(
        self, choice: SizeChoice = FIRST_CHOICE, kinds: Collection[str] = ()
    ) -> Iterator[tuple[str, Feeds, list[np.ndarray]]]:
        """(kind, inputs, what the original makes of them) for the inputs on which it runs."""
        integers = plain_integers(self.pair)
        for turn, (infos, given) in enumerate(self.pair.runs(choice)):
            for kind, drawn in feeds_of(infos, numbers=integers, below=choice.below, kinds=kinds):
                if turn and self.is_probed and kind not in AT_OTHER_SIZES:
                    continue
                if kind in self.blind.kinds:
                    continue
                try:
                    feeds, expected = self._asked({**drawn, **given})
                except Unrunnable as error:
                    self.why = self.why or str(error)
                    break
                yield kind, feeds, expected

    def _probed(self, choice: SizeChoice) -> Verdict | None:
        """The verdict where a probe shows a difference; probes that the original does not run say nothing."""
        window, budget = Window(self.pair), _Budget(MOST_PROBED)
        rng = np.random.default_rng(0)
        sized, _ = next(self.pair.runs(choice))
        roomy = next((s for s in roomy_sizes(window) if self._runs(random_feeds(window, s, rng), self.before)), sized)
        others = (other for side in window.sides for other in breakpoint_sizes(window, side, self._are_quick))
        found = (
            self._at_sizes(window, others, _Budget(MOST_AT_BREAKPOINTS))
            or self._at_numbers(window, roomy, budget)
            or self._at_sizes(window, probed_sizes(window, self._are_quick), budget)
        )
        if found is None and budget.is_late:
            self.note = self.note or f"its inputs are slow to run: the probes ended after {PATIENCE:.0f} s"
        return found

    def _at_numbers(self, window: Window, roomy: Sequence[SizedInput], budget: _Budget) -> Verdict | None:
        """The verdict where numbers at one size of the inputs show a difference."""
        for probes, left in _families(window, roomy):
            for kind, feeds in probes:
                if kind == "breakpoint" and self.samples:
                    break
                if kind in self.blind.kinds:
                    continue
                # a small input may be expanded to a large output
                if not budget.allows(max(window.cost(roomy), self.made // OUTPUT_IS_CHEAP), left):
                    break
                verdict, runs = self._probe(kind, feeds)
                if verdict is not None:
                    return verdict
                if kind == POSITION and not runs:
                    break
        return None

    def _at_sizes(self, window: Window, sizes: Iterable[Sequence[SizedInput]], budget: _Budget) -> Verdict | None:
        """The verdict where some sizes show a difference."""
        rng = np.random.default_rng(0)
        for other in sizes:
            if not budget.allows(window.cost(other)):
                continue
            where = " of " + " x ".join(str(list(dims)) for _, _, dims in other)
            for feeds in sized_feeds(window, other, rng):
                if window.may_be_refused(other) and not self._runs(feeds, self.after):
                    continue
                verdict, _ = self._probe("random", feeds, where)
                if verdict is not None:
                    return verdict
        return None

    def _asked(self, feeds: Feeds) -> tuple[Feeds, list[np.ndarray]]:
        """Inputs, and what the original makes of them: those without a divisor of 0 where it runs no other. Raises
        Unrunnable."""
        feeds = self.valid.of(feeds)
        try:
            return feeds, self.before.run(feeds)
        except Unrunnable:
            if not any((feeds[name] == 0).any() for name in self.divisors & feeds.keys()):
                raise
        feeds = self._divisible(feeds)
        return feeds, self.before.run(feeds)

    def _divisible(self, feeds: Feeds) -> Feeds:
        """The inputs without a divisor of 0."""
        return {**feeds, **{name: without_zero(feeds[name]) for name in self.divisors & feeds.keys()}}

    def _runs(self, feeds: Feeds, side: Runner) -> bool:
        try:
            side.run(self._divisible(self.valid.of(feeds)))
        except Unrunnable:
            return False
        return True

    def _are_quick(self, sized: Sequence[SizedInput]) -> bool:
        """Whether both sides run at some sizes in little time."""
        feeds = random_feeds(Window(self.pair), sized, np.random.default_rng(0))
        begun = time.process_time()
        return self._runs(feeds, self.before) and self._runs(feeds, self.after) and time.process_time() - begun < SLOW

    def _probe(self, kind: str, feeds: Feeds, where: str = "") -> tuple[Verdict | None, bool]:
        """(the verdict where the inputs show a difference, whether the original runs)"""
        try:
            feeds, expected = self._asked(feeds)
        except Unrunnable:
            return None, False
        return self._tried(kind, feeds, expected, probed=True, where=where), True

    def _tried(
        self, kind: str, feeds: Feeds, expected: list[np.ndarray], *, probed: bool = False, where: str = ""
    ) -> Verdict | None:
        """The verdict where the inputs show a difference; None where they show none.

        probed  whether the inputs are a probe's
        where   of which sizes they are, if the kind does not say it
        """
        try:
            results = self.after.run(feeds)
        except Unrunnable as error:
            return Verdict.different(f"on {kind} inputs{where} the rewritten window does not run: {error}")
        self.made = sum(x.size for x in expected)
        trial = self.trial(kind, feeds, expected, results, probed=probed, where=where)
        for index in range(len(expected)):
            found = self.difference(trial, index)
            if (found.why or not _has_number(expected[index])) and self.blind.hides(feeds, index):
                self.unknown.add(index)
                continue
            if self.is_probed and not found.why:
                found = replace(found, why=self._hidden(trial, index))
            if kind == "random":
                self.known.add(index)
            if found.why:
                strays = self._strays(trial, index)
                return Verdict.different(f"on {kind} inputs{where} {found.why}{strays}", found.error)
            if not probed and kind not in NOT_COUNTED:
                self.max_error = max(self.max_error, found.error)
        return None

    def _hidden(self, trial: JudgedRun, index: int) -> str:
        """A difference that the tolerance hides; see `hidden`."""
        a, b = trial.results[index], trial.expected[index]
        if self.slack != 1.0 or a is b or a.tobytes() == b.tobytes():
            return ""
        cuts = self.cuts_inf and trial.kind != "nan"  # a Clip keeps a NaN
        found = "" if self.pair.is_own or cuts else hidden.made_finite(a, b, trial.exact, index)
        if found:
            return found
        if trial.kind in hidden.NOT_LOOKED_AT:
            return ""
        signs = ""
        if hidden.has_signs(self.pair.before, trial.kind, is_own=self.pair.is_own):
            signs = hidden.other_sign(a, b, zeros=index in self.pair.signed_zeros)
        if signs or trial.is_noisy or self.strays or self.samples:
            return signs
        found = self._lost(trial, index, b)
        if not found or not self.holds_halves:
            return found
        # ONNX Runtime leaves out the rounding to half precision between two kernels that it has in fp32 alone.
        defined = _by_definition(self.pair.before, trial.feeds, index, self.pair.folder)
        return found if defined is None else self._lost(trial, index, defined)

    def _lost(self, trial: JudgedRun, index: int, expected: np.ndarray) -> str:
        """What a tolerance hides of a result that stands for `expected`."""
        given, exact = trial.results[index], trial.exact
        found = hidden.bias(given, expected, exact, index) if trial.kind in hidden.HAS_MEDIAN else ""
        return found or hidden.lost_element(given, expected, exact, index, sums=not self.is_one_by_one)

    def trial(
        self,
        kind: str,
        feeds: Feeds,
        expected: list[np.ndarray],
        results: list[np.ndarray],
        *,
        probed: bool = False,
        where: str = "",
    ) -> JudgedRun:
        """Both sides' results on some inputs, to be compared."""
        exact = Exact(self.pair.before, feeds, self.reads_halves, expected, kind, self.pair.folder)
        exact_after = Exact(self.pair.after, feeds, self.reads_halves, results, kind, self.pair.folder_of("after"))
        return JudgedRun(
            kind, feeds, expected, results, exact, exact_after, self.slack, probed, where, self.drops_rounding
        )

    def difference(self, trial: JudgedRun, index: int) -> Difference:
        """The difference of one output. There is none in these cases:

        1. The results are equal by the rule of `equality`.
        2. In a wider type both sides are equal, and what is left is below the smallest normal number; or it is little,
           and by ONNX's definition there is none: it is a single kernel's rounding.
        3. In a wider type both sides are equal, and by ONNX's definition the original rounds as much in half precision.
           That counts where `own_rounding` says so, and where what half precision does not hold makes no number at all
           of the original: ONNX Runtime computes x / 1e-12 in fp32.
        4. Where a kernel of STRAYS or a CROPPED Resize makes the difference, on inputs of inf one of CUTS_INF, or of
           integers one of IN_DOUBLE, ONNX's definitions of both sides are equal. On a probe it is enough that such a
           kernel is farther from its own definition than the two sides are from each other: that input shows nothing.
        5. It is no more than the original itself moves by where its inputs move by a few steps of their type. That
           counts where `own_rounding` says so (what a whole model divides by may be next to zero), and in half
           precision, where one step of a number is more than any tolerance after a steep function; and on a probe up
           to KERNEL_NOISE: the exponential of 10,000 keeps few digits.
        6. Where `own_rounding` says so: it is about as large as what ONNX Runtime's own optimizations make of the
           original, and at most MOST_EXCUSED. That takes one run, and is asked first.
        """
        optimized = self.optimized_as_far(trial, index) if self.own_rounding else None
        if optimized is not None:
            return optimized
        equality = trial.equality(index)
        found = equality(trial.results[index], trial.expected[index])
        strays = self.strays and math.isfinite(found.gap) or self.cuts_inf and trial.kind == "inf"
        strays = strays or self.crops or self.in_double and trial.expected[index].dtype in (np.int32, np.int64)
        if found.why and strays:
            by_definition = self._difference_by_definition(trial, index)
            if by_definition is not None and not by_definition.why:
                return by_definition
            if self.strays and trial.probed and self._is_lost(trial, index, found):
                return Difference(0.0)
        counts = self.own_rounding or self.holds_halves or (trial.probed and found.error <= KERNEL_NOISE)
        if found.why and counts and trial.is_no_more_than_moved(index):
            return Difference(found.error)
        if not found.why or self.drops_rounding or not self._agree_in_wider_type(trial, index):
            return found
        if found.gap <= smallest_normal(trial.expected[index].dtype):
            return Difference(found.error)
        if found.error <= KERNEL_NOISE and self._agree_by_definition(trial, index, equality):
            return Difference(found.error)
        if self.holds_halves and (self.own_rounding or math.isinf(found.error)):
            defined = _by_definition(self.pair.before, trial.feeds, index, self.pair.folder)
            if defined is not None and not equality(trial.results[index], defined).why:
                reason = "no more than its rounding in half precision does"
                self.note = self.note or f"on {trial.kind} inputs {found.why}: {reason}"
                return Difference(0.0)
        return found

    def optimized_as_far(self, trial: JudgedRun, index: int) -> Difference | None:
        """The difference, where ONNX Runtime's optimizations move the original about as far; else None."""
        given, expected = trial.results[index], trial.expected[index]
        if not is_float(expected.dtype):
            return None
        rule = partial(compare, tolerance=tolerance_of(expected.dtype), finite=trial.kind not in NOT_FINITE)
        found = rule(given, expected)
        if not found.why or not math.isfinite(found.gap) or found.error > MOST_EXCUSED:
            return None
        try:
            moved = rule(self._optimized.run(trial.feeds)[index], expected)
        except Unrunnable:
            return None
        if not math.isfinite(moved.gap) or found.gap > TIMES_THE_ORIGINAL * moved.gap:
            return None
        moves = f"ONNX Runtime's own optimizations change the original by {moved.error:.1e}"
        return Difference(found.error, excuse=f"{moves}; the difference is {found.error:.1e}, at most {MOST_EXCUSED:g}")

    @cached_property
    def _optimized(self) -> Runner:
        """The original with ONNX Runtime's own optimizations. Raises Unrunnable."""
        return Runner(self.pair.before, self.pair.folder, optimized=True)

    def _agree_in_wider_type(self, trial: JudgedRun, index: int) -> bool:
        """Whether both sides give the same numbers in a wider type. ONNX Runtime says so where it has the kernels: to
        the evaluator two operators may be one that ONNX Runtime tells apart."""
        a, b = trial.exact_after.output(index), trial.exact.output(index)
        if a is None or b is None or a.shape != b.shape:
            return False
        equality = trial.equality(index, at_least=TOLERANCE[TensorProto.FLOAT16] if self.holds_halves else 0.0)
        # Of 1e-12 half precision makes 0, and 0 / 0 of what a constant divides: only where both are numbers.
        return not equality(a, np.where(np.isfinite(a), b, np.nan)).why

    def _agree_by_definition(self, trial: JudgedRun, index: int, equality: Equality) -> bool:
        """Whether the rewritten side, as ONNX defines it, gives one of these:

        1. What ONNX Runtime made of the original.
        2. What the original is by definition: ONNX Runtime leaves the rounding to fp16 out between two kernels that it
           has in fp32 alone.
        """
        after = _by_definition(self.pair.after, trial.feeds, index, self.pair.folder_of("after"))
        if after is None:
            return False
        if not equality(after, trial.expected[index]).why:
            return True
        before = _by_definition(self.pair.before, trial.feeds, index, self.pair.folder)
        return before is not None and not equality(after, before).why

    def _is_lost(self, trial: JudgedRun, index: int, found: Difference) -> bool:
        """Whether the original's kernel is farther from its definition than the difference that was found."""
        defined = _by_definition(self.pair.before, trial.feeds, index, self.pair.folder)
        if defined is None or defined.shape != trial.expected[index].shape:
            return False
        with np.errstate(all="ignore"):
            away = np.abs(defined.astype(np.float64) - trial.expected[index].astype(np.float64))
        return bool(np.nanmax(away, initial=0.0) >= found.gap)

    def _difference_by_definition(self, trial: JudgedRun, index: int) -> Difference | None:
        """The difference between what ONNX defines both sides to be, in their own type, and in a wider one where the
        evaluator runs both in that; None where it does not run them in their own."""
        before = _by_definition(self.pair.before, trial.feeds, index, self.pair.folder)
        after = _by_definition(self.pair.after, trial.feeds, index, self.pair.folder_of("after"))
        wide, wide_after = trial.exact.defined(index), trial.exact_after.defined(index)
        if before is None or after is None:
            return None
        tolerance = tolerance_of(before.dtype) * self.slack
        rule = partial(compare, tolerance=tolerance, finite=trial.kind not in NOT_FINITE)
        if wide is None or wide_after is None:
            return rule(after, before)
        in_wider_type = rule(wide_after, wide)
        return in_wider_type if in_wider_type.why else rule(after, before, exact=lambda: wide)

    def _strays(self, trial: JudgedRun, index: int) -> str:
        """What to add to a verdict where ONNX Runtime itself strays from ONNX: old ones have wrong kernels."""
        equality = trial.equality(index)
        sides = ((self.before, trial.expected, "the original"), (self.after, trial.results, "the rewritten window"))
        return "".join(
            _stray(runner, trial.feeds, index, results[index], side, equality) for runner, results, side in sides
        )


def _families(window: Window, sized: Sequence[SizedInput]) -> Iterator[tuple[Iterator[Probe], float]]:
    """Probes of one kind at one size of the inputs, and the part of the budget that they leave for others."""
    yield probed_floats(window, sized), 1 / 2
    yield probed_integers(window, sized), 1 / 4
    for side in window.sides:
        yield breakpoint_feeds(window, side, sized), 1 / 4
    for probes in probed_positions(window, sized):
        yield probes, 1 / 8


def _stray(runner: Runner, feeds: Feeds, index: int, result: np.ndarray, side: str, equality: Equality) -> str:
    """What to say of a side whose result is not what ONNX defines; empty where it is, or that is not known."""
    if runner.session is None:
        return ""
    defined = _by_definition(runner.model, feeds, index, runner.folder)
    if defined is None or not equality(result, defined).why:
        return ""
    import onnxruntime as ort

    return f"; ONNX Runtime {ort.__version__} computes {side} differently from onnx's reference evaluator"


def _has_number(array: np.ndarray) -> bool:
    """Whether an array has an element that is not NaN."""
    return not is_float(array.dtype) or not np.isnan(array.astype(np.float64)).all()


def _narrows(model: ModelProto) -> int:
    """How many nodes cast to half precision."""
    casts = (a.i for n in nodes_of(model) if n.op_type == "Cast" for a in n.attribute if a.name == "to")
    return sum(to in HALVES for to in casts)


def _has(model: ModelProto, operators: frozenset[str]) -> bool:
    """Whether a model has one of some operators, in its functions and bodies, too."""
    return any(n.op_type in operators for n in nodes_of(model))


def _by_definition(model: ModelProto, feeds: Feeds, index: int, folder: str | Path | None) -> np.ndarray | None:
    """An output as onnx's reference evaluator computes it in the model's own types; None where it cannot.

    How one operator rounds inside is its runtime's, and no difference between two models. ONNX Runtime computes the
    variance as E[x^2] - E[x]^2 for LayerNormalization up to 1.23 and for GroupNormalization, whose definition is
    spelled like that: where the elements of a group are few and close to each other, nothing is left of 1e-5. So what
    has a `stash_type` computes in double here; every other operator, as the file's own, rounds as its type does.
    """
    stashed = copied(model)
    for holder, opset in holders(stashed):
        for node in all_nodes(holder):
            widen_stash(node, TensorProto.DOUBLE, opset)
    try:
        return Reference(stashed, folder).run(feeds)[index]
    except Unrunnable:
        return None
