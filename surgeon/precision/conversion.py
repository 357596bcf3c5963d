"""The conversion to half precision: a model in fp16 or bf16, with fp32 islands around what does not survive that.

TensorRT 11 and TensorRT-RTX are strongly typed: they compute each node in the types that the file gives it, and have no
switch for fp16. `convert` writes the types.

What stays fp32     Softmax; exponentials, sums over an axis, divisions by a tensor, and numbers that grow faster than
                    inputs (squares, and what is computed from them) until a root or a division undoes that, unless
                    a run shows their numbers; a variance as the difference of two means; constants that the type
                    cannot represent, such as epsilons; what is computed from integers; what the size of a tensor is
                    computed from; scores that are ranked; the neighbours of Q/DQ nodes; If and Loop themselves, not
                    their bodies; nodes between two such parts where that saves a cast; and nodes whose numbers come
                    within a factor of 2 of the type's largest number in a run. A file with products in half
                    precision keeps what it has in fp32.
Runs                on `data`, else on inputs that occur (`inputs`). Half of them choose what stays fp32, the error is
                    measured on the others. Fewer than eight samples of `data`, and what is made of them, do both.
Tolerance           The error of each output, with every tensor of 16 bits rounded, is measured against the original.
                    Where it is above the tolerance, a search finds the nodes that cause it, by measuring: see `search`.
Casts               Each tensor is computed in one type and cast at most once, after its producer; casts between types
                    of 16 and 32 bits that the file has are replaced. Weights are stored in the type in which they are
                    read, and constants that nodes compute are stored too. A second conversion changes nothing.
Inputs, outputs     keep their types; `io_fp16` (--io-fp16) makes them half precision too.
When                After the stage LOWER of a rewrite, on the finished fp32 model. Every rewrite is then proved in fp32
                    to 1e-5 and this step to the tolerance, and neither hides the other; a node that the target supports
                    is an island of one node; nodes that LOWER wrote have its pass's name (`y~l2-norm/ReduceL2_1`), so
                    --keep-fp32 l2-norm finds them in any file. Before LOWER the windows of the proof would mix types,
                    and the passes would have to choose what they write by them.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
from onnx import ModelProto

from surgeon.errors import ModelError, UsageError
from surgeon.ir.files import with_inner_weights
from surgeon.ir.functions import ONNX, as_inliner_reads, at_opset, by_name, common_opset, opset_of, say_defaults
from surgeon.ir.graph import Node
from surgeon.ir.lattice import HALVES, Shapes
from surgeon.ir.model import Model
from surgeon.ir.protos import IR_WITH_DEFAULTS, all_nodes, copied, refill
from surgeon.ir.run import Runner, Unrunnable
from surgeon.ir.schemas import DOMAIN, newest_schemas
from surgeon.ir.weight_file import WeightFile, has_large_weights
from surgeon.pipeline.run import TRAINED
from surgeon.precision.border import Atom, Border
from surgeon.precision.comparison import (
    DOUBTED,
    GUESSED_PART,
    VARIED,
    VARIED_SEVERAL,
    Compared,
    Comparison,
    Metric,
    Moved,
    OutputError,
    moved_by_rounding,
)
from surgeon.precision.cost import FEW_SAMPLES, MOST_SAMPLES, Speed, cost_of
from surgeon.precision.data import SEVERAL, Samples
from surgeon.precision.default_load import make_loadable
from surgeon.precision.emit import Apart, Emitter
from surgeon.precision.formats import BF16, FP16, Format
from surgeon.precision.inputs import NoInputs, plausible, row_numbers
from surgeon.precision.operators import HEAVY, spectra
from surgeon.precision.plan import COMPUTED, Plan
from surgeon.precision.planner import SCALED, Planner
from surgeon.precision.ranges import THREADS, Ranges, measure
from surgeon.precision.result import PrecisionResult
from surgeon.precision.search import CLOSE, PARTS, Search
from surgeon.precision.settle import BETWEEN
from surgeon.precision.standard import LIMIT, QUANTIZED_LIMIT, TIMES_THE_ROUNDING, TooOld
from surgeon.report import Kept, Progress, counted, error_text
from surgeon.rules.meaning import with_functions, with_meanings
from surgeon.rules.registry import passes
from surgeon.targets.rows import NUMBERS
from surgeon.targets.target import Target

WAYS = {"fp16": (FP16, False), "bf16": (BF16, False), "half": (FP16, True)}  # (type, bf16 beyond its range)
# Where the same samples choose and judge, the islands are chosen for COMFORT of the tolerance. Else it is the first of
# these parts of it, because other inputs have other errors; where it leaves nothing in half precision, the next one is
# tried, and where the error on the other inputs is above COMFORT, one that is as much smaller as that is too large.
AIMS = (0.6, 0.9)
LOWEST_AIM = 0.2
SEARCHES = 1.5  # times the budget of the first search that all may spend
COMFORT = 0.7  # of the tolerance: a larger error on these inputs may be above it on others, and more is tried
UNWANTED = 1e15  # bytes: more than any other cost, for what leaves no product in half precision
STEPS = (
    "The model quantizes its numbers as it runs, and a last digit decides which step one gets: convert the model from "
    "before it was quantized."
)
IDLE = "no Conv or MatMul is in half precision"
MEASURED = "in 16 bits the error is above the tolerance"
RAISED = 22  # the first opset in which Conv, pooling and their like take bf16
RAISED_QUANTIZED = 19  # the first in which QuantizeLinear and DequantizeLinear take scales in half precision


def convert(
    model: ModelProto,
    *,
    way: str = "fp16",
    tolerance: float = LIMIT,
    metric: Metric | None = None,
    keep_fp32: Collection[str] = (),
    data: Iterable[Mapping[str, np.ndarray]] | None = None,
    repair_eps: float | None = None,
    target: str | Target | None = None,
    base: Path | None = None,
    shapes: Shapes | None = None,
    io_fp16: bool = False,
    verify: bool = True,
    allow_unproved: bool = False,
    allow_inexact: bool = False,
    original: ModelProto | None = None,
    start: Collection[str] = (),
    weights: WeightFile | None = None,
    steps: bool = True,
    progress: Progress = lambda phase, done, total: None,
) -> PrecisionResult:
    """Convert a model to half precision where that is exact enough. The model passed in is not changed.

    way             "fp16", "bf16", or "half": fp16, and bf16 where its range does not suffice
    tolerance       the largest error of an output, relative to its largest number
    metric          a score of the user's own in place of that error; 0 is equal
    keep_fp32       operators ("Softmax"), passes of surgeon ("l2-norm": the nodes that it made) and node globs
    data            inputs by name, several of them; without any, inputs that occur are drawn
    repair_eps      the epsilon for a divisor whose own is 0 in a file that was written in fp16
    target          what it does not support in half precision stays fp32
    base            the folder of the model's external weights
    shapes          sizes of inputs with symbolic dimensions, for inputs that are drawn
    io_fp16         the model's own inputs and outputs become half precision too; without it they keep their types
    verify          measure the error
    original        what the model is compared with, if that is not `model`
    start           labels of nodes that a search begins with in fp32, such as those of an earlier conversion
    weights         the file of an earlier conversion for the weights of a large model; a new one if it is not given
    steps           measure the error with the steps of quantizers, too; not where the caller compares the whole result
    allow_unproved  it is not a failure where they cannot be compared
    allow_inexact   the result may be written though it failed

    Raises UsageError where `data` does not fit the model or a word of `keep_fp32` names nothing.
    """
    low, wide = WAYS[way]
    given = data if data is None or isinstance(data, Samples) else Samples.of(data)
    feeds = None if given is None else given.checked(model)
    inlined = _inlined(with_inner_weights(model, base))
    target = Target.parse(target) if isinstance(target, str) else target
    if weights is None and has_large_weights(inlined):
        weights = WeightFile()
    if weights is not None:
        base = base or Path()
        weights.move(inlined)
    source = with_meanings(_raised(inlined, way, target))  # a plugin's result is its function's
    reference = source
    if original is not None:
        reference = with_meanings(with_inner_weights(original, base))
        if weights is not None:
            weights.move(reference)
    conversion = _Conversion(
        source, base, target, low=low, wide=wide, keep=keep_fp32, repair=repair_eps, io=io_fp16, start=start,
        apart=None if weights is None else Apart(weights),
    )  # fmt: skip
    result = PrecisionResult(model, way=way, tolerance=tolerance, allow_inexact=allow_inexact)
    result.base, result.weights = None if weights is None else base, weights
    samples, kind, known = _samples(reference, feeds, base, shapes, verify, result)
    chosen, held = samples.part(0, 2), samples.part(1, 2)
    own = 0 if feeds is None else len(feeds)
    if 0 < own < len(samples):  # there are some that are made of them
        chosen = held = samples
    seen = chosen.part(0, 1, FEW_SAMPLES) if chosen is held else chosen
    ranges = measure(source, seen, base) if len(samples) else None
    conversion.plans(ranges if known else None)
    islands: Mapping[Node, str] = {}
    if verify and ranges is not None:
        try:
            few = feeds is None or chosen is held
            against = partial(Comparison, reference, kind=kind, base=base, limit=tolerance, metric=metric, few=few)
            speed = conversion.speed = Speed.of(ranges, conversion.index)
            judged = held
            if chosen is held and speed.is_slow:
                judged = held.part(0, 1, VARIED if own == 1 else max(own, VARIED_SEVERAL))
            judging = against(judged, own=own)
            most = FEW_SAMPLES if speed.is_slow else MOST_SAMPLES
            compare = [judging if chosen is held else against(chosen.part(0, 1, most)), judging]
            conversion.ranges = ranges
            conversion.errors(compare[0], {})  # which of its samples are the worst
            islands = conversion.choose(compare, result, progress)
            result.judge = partial(_errors_of, compare[1])
            if compare[1].stepless and steps:
                worst = conversion.errors(against(held, stepless=False), islands)[0]
                _note_steps(worst, moved_by_rounding(reference, held, base), result)
        except Unrunnable as error:
            result.not_compared = _why_not_run(error)
    plan, emitter, converted = conversion.written(conversion.planners[0], islands)
    result.model, result.casts = _finished(converted, model, source), emitter.casts
    result.kept, result.gain = _kept(plan), _gain(plan)
    result.warnings = [*dict.fromkeys(plan.warnings), *result.warnings]
    result.half, result.single = _counts(plan)
    result.warnings += [TRAINED] if model.training_info and result.half else []
    if not verify:
        result.not_compared = "not requested"
    elif weights is None:
        told = make_loadable(result.model)
        result.warnings += [told] if told else []
    result.unproved = verify and bool(result.not_compared) and not allow_unproved
    return result


def _samples(
    model: ModelProto,
    feeds: Samples | None,
    base: Path | None,
    shapes: Shapes | None,
    verify: bool,
    result: PrecisionResult,
) -> tuple[Samples, str, bool]:
    """Inputs, their kind, and whether their numbers are those that occur; `result` gets their description."""
    if feeds is not None:
        if not len(feeds):
            raise UsageError("the calibration data has no inputs.")
        more = SEVERAL - len(feeds)
        if more > 0:
            of, rows = "it" if len(feeds) == 1 else "them", row_numbers(Model(model, base))
            ordered = ", row numbers in another order" if rows else ""
            result.inputs = [
                f"the data: {NUMBERS[len(feeds)]} sample{'s'[len(feeds) == 1 :]}, and {NUMBERS[more]} made from {of} "
                f"(mirrored, shifted, darker, noisy, with less contrast{ordered}), all used to choose what stays fp32 "
                "and to measure the errors"
            ]
            return feeds.varied(rows), "data", True
        half = (
            f"{len(feeds)} samples, every second one used to choose what stays fp32, the others to measure the errors"
        )
        result.inputs = [f"the data: {half}"]
        return feeds, "data", True
    if not verify:
        return Samples.of([]), "", False
    try:
        runner = Runner(model, base, threads=THREADS)
        found = plausible(model, runner.run, shapes)
    except Unrunnable as error:
        result.not_compared = _why_not_run(error)
        return Samples.of([]), "", False
    result.inputs = found.said
    return Samples.of(found.samples), "guessed", found.known


def _note_steps(worst: OutputError, own: Moved, result: PrecisionResult) -> None:
    """Say how far an output is from the original's with the steps of the quantizers. It fails if that is more than they
    explain, or if rounding the inputs alone moves an output so far that no comparison says anything.

    own  how far that moves the original's outputs, with the steps
    """
    result.inputs.append(
        "the quantizers without their steps, because the last digit of a number near the border of two steps decides "
        f"which step it gets; with the steps '{worst.output}' differs by {error_text(worst.relative)} of its largest "
        f"number (99 % of its numbers by at most {error_text(worst.quantile)}), and rounding the inputs alone moves an "
        f"output of the original by {error_text(own.largest)}"
    )
    if worst.relative <= result.tolerance:
        return
    why = (
        f"with the quantizers' steps the error {error_text(worst.relative)} is above the tolerance {result.tolerance:g}"
    )
    if worst.relative > TIMES_THE_ROUNDING * own.largest:
        result.errors = [replace(worst, why=why), *result.errors]
    elif own.mean > QUANTIZED_LIMIT:
        why += f", and rounding the inputs alone moves an output of the original by {error_text(own.mean)}"
        result.errors = [replace(worst, why=why), *result.errors]
    else:
        result.warnings.append(f"'{worst.output}': {why}; rounding the inputs alone explains it")


def _errors_of(comparison: Comparison, model: ModelProto) -> list[OutputError]:
    """The errors of a model in half precision as it is written."""
    index = Model(model, comparison.base)
    tensors = [o for s in index.scopes for n in s.live() for o in n.outputs if o is not None]
    types = {o.name: index.dtype(o) for o in tensors if index.dtype(o) in HALVES}
    return comparison.errors(with_meanings(model), types)


def _why_not_run(error: Unrunnable) -> str:
    return str(error) if isinstance(error, NoInputs | TooOld) else f"ONNX Runtime does not run it: {error}"


class _Conversion:
    """A model, and the conversions of it that are tried.

    planners  what is tried: by the ranges of a run, and by what operators do to numbers
    gains     whether the first leaves a product in half precision
    """

    def __init__(
        self,
        source: ModelProto,
        base: Path | None,
        target: Target | None,
        *,
        low: Format,
        wide: bool,
        keep: Collection[str],
        repair: float | None,
        io: bool,
        start: Collection[str],
        apart: Apart | None,
    ) -> None:
        self.index = Model(source, base)
        _check_words(keep, self.index)
        self.low, self.wide, self.keep, self.repair, self.io = low, wide, keep, repair, io
        self.target = target
        self.planners: list[Planner] = []
        self.gains = False
        self.doubting = False  # whether doubts about other inputs count
        self.speed, self.spent = Speed(0.0, 0.0), 0.0  # seconds, about
        self._measured: dict[tuple[Comparison, frozenset[Node], int | None], list[OutputError]] = {}
        self._last: tuple[tuple[Comparison, frozenset[Node], bool], Compared] | None = None
        self._costs: dict[frozenset[Node], float] = {}
        self.ranges: Ranges | None = None
        self.start, self.apart = frozenset(start), apart
        self.stopped = ""  # why the last search ended early
        self.spectra = spectra(self.index)

    def plans(self, ranges: Ranges | None) -> None:
        """Make the planners. What the target does not support in half precision is fp32 in all of them."""
        ways = (True, False) if ranges is not None else (False,)
        first = self._planner(ranges, ways[0], {})
        refused = {} if self.target is None else _refused(self.written(first, {})[2], self.index, self.target)
        if refused:
            first = self._planner(ranges, ways[0], refused)
        self.planners = [first, *(self._planner(ranges, lean, refused) for lean in ways[1:])]
        half, products = _gain(first.settled())
        self.gains = half > 0
        if products and not half and not self.keep:
            for planner in self.planners:
                planner.plan.single.update((n, IDLE) for n in planner.nodes if n not in planner.plan.single)
        if self.gains:
            self._join(first, ranges)

    def _join(self, planner: Planner, ranges: Ranges | None) -> None:
        """Keep in fp32 what is between parts in fp32, where that saves casts; but no product."""
        plan = planner.plan
        between = [
            n for n in planner.nodes if n not in plan.single and n.op not in HEAVY and n.graph is self.index.graph
        ]
        joined = {node for atom in Border(plan, between, (), ranges).cheapest({}, math.inf) for node in atom}
        plan.single.update((node, BETWEEN) for node in between if node in joined)

    def _planner(self, ranges: Ranges | None, lean: bool, refused: Mapping[str, str]) -> Planner:
        return Planner(
            self.index,
            low=self.low,
            wide=self.wide,
            keep=self.keep,
            ranges=ranges,
            lean=lean,
            refused=(lambda node: refused.get(_stem(node))) if refused else None,
            repair_eps=self.repair,
            io_half=self.io,
            rtx=self.target is not None and self.target.rtx,
        )

    def written(self, planner: Planner, islands: Mapping[Node, str]) -> tuple[Plan, Emitter, ModelProto]:
        plan = planner.settled(islands)
        emitter = Emitter(plan, self.apart)
        return plan, emitter, emitter.emit()

    def choose(self, compare: Sequence[Comparison], result: PrecisionResult, progress: Progress) -> Mapping[Node, str]:
        """The nodes that stay fp32 besides those of the first planner, with the error of each output in `result`.

        compare  on the inputs by which they are chosen, and on those on which the error is measured

        A conversion with small doubts about other inputs is searched first. A doubt alone refuses none: where none is
        found, doubts no longer count.
        """
        best: Mapping[Node, str] = {}
        search = partial(self._search, compare[0], result=result, progress=progress)
        budget = self.speed.budget
        for self.doubting in (True, False) if compare[0].few else (False,):
            best = self._chosen(compare, search, budget, result)
            budget /= 4
            if result.errors and all(e.ok and not self._is_doubtful(e, result.tolerance) for e in result.errors):
                if self.stopped:
                    result.warnings.append(f"{self.stopped}; what stays in fp32 may be more than is needed")
                return best
            if not any(e.doubt for errors in self._measured.values() for e in errors):
                break  # without doubts it would be the same
            if self.doubting:
                result.errors = []
        if not result.errors:  # no search found anything: the inputs by which it chose say so, whatever the others do
            result.errors = max((self.errors(part, best) for part in compare), key=self._score)
        if not all(e.ok for e in result.errors):
            result.warnings.append(self._why_refused(best, result, compare[0].original))
        return best

    def _chosen(
        self,
        compare: Sequence[Comparison],
        search: Callable[[float, float], Mapping[Node, str]],
        budget: float,
        result: PrecisionResult,
    ) -> Mapping[Node, str]:
        best: Mapping[Node, str] = {}
        comfort, ends = COMFORT * result.tolerance, self.spent + SEARCHES * budget
        same = compare[0] is compare[1]
        aim = comfort if same else AIMS[0] * result.tolerance
        tried = set[float]()
        while self.spent < ends and aim not in tried:
            tried.add(aim)
            found = search(aim, min(budget, ends - self.spent))
            if self._is_useless(self.planners[0].settled(found)):
                aim = aim if result.errors else AIMS[-1] * result.tolerance
                continue
            errors = self.errors(compare[1], found)
            score = self._score(errors)
            if not result.errors or score < self._score(result.errors):
                best, result.errors = found, errors
            if same or score <= comfort or aim <= LOWEST_AIM * result.tolerance:
                return best
            aim = min(aim, self._score(self.errors(compare[0], found)))
            aim *= max(0.5, CLOSE * comfort / max(score, 1e-30))
        return best

    def _is_useless(self, plan: Plan) -> bool:
        """Whether a plan leaves no product in half precision, where there was one."""
        return self.gains and not _gain(plan)[0]

    def _why_refused(self, islands: Mapping[Node, str], result: PrecisionResult, original: ModelProto) -> str:
        """Which nodes would have to stay fp32, how far the outputs are without that, and what to try."""
        worst = result.errors[0]
        nodes = [n for n in islands or self.planners[0].nodes if n.op in HEAVY]
        named = f"{nodes[0].label} to {nodes[-1].label}" if len(nodes) > 1 else nodes[0].label if nodes else "all nodes"
        other = "--bf16, " if self.low is FP16 and not self.wide else ""
        steps = any(n.op_type.startswith("DynamicQuantize") for n in all_nodes(original.graph))
        return (
            f"'{worst.output}' is off by {error_text(worst.relative)} of its largest number "
            f"(99 % of its numbers by at most {error_text(worst.quantile)}), and no conversion within the tolerance "
            f"{result.tolerance:g} was found that keeps a Conv or MatMul in half precision: the error builds up in the "
            f"{counted(len(nodes), 'node')} from {named}. Try a larger --tolerance, --metric with a score of your "
            f"own, {other}or more samples with --data." + f" {STEPS}" * steps
        )

    def _search(
        self,
        comparison: Comparison,
        aim: float,
        budget: float,
        *,
        result: PrecisionResult,
        progress: Progress,
    ) -> Mapping[Node, str]:
        """The cheapest nodes in fp32 with errors below `aim` that are found, with their reasons."""
        lean = self.planners[0]
        items = [n for n in lean.nodes if n not in lean.plan.single]
        ruled = {n: why for n, why in self.planners[-1].plan.single.items() if n not in lean.plan.single}

        border = Border(lean.plan, items, ruled, self.ranges)
        atoms = border.atoms

        def flat(chosen: frozenset[Atom]) -> frozenset[Node]:
            return frozenset(node for atom in chosen for node in atom)

        def those(nodes: Collection[Node]) -> frozenset[Atom]:
            return frozenset(atom for atom in atoms if any(node in nodes for node in atom))

        def reasons(nodes: Collection[Node]) -> dict[Node, str]:
            return {n: ruled.get(n, MEASURED) for n in items if n in nodes}

        whole, worst = (self._score(self.errors(comparison, {}, most=most)) for most in (None, FEW_SAMPLES))
        times = whole / worst if 0 < worst < math.inf else 1.0  # score of all samples, at least

        def score(chosen: frozenset[Atom]) -> float:
            nonlocal times
            islands = reasons(flat(chosen))
            worst = self._score(self.errors(comparison, islands, most=FEW_SAMPLES))
            if worst * times > aim:  # the others are not run
                return worst * times
            whole = self._score(self.errors(comparison, islands))
            times = min(times, whole / worst) if worst else times
            return whole

        def rough(chosen: frozenset[Atom]) -> float:
            return self._score(self.errors(comparison, reasons(flat(chosen)), most=1))

        search: Search[Atom] = Search(
            score, lambda chosen: self._cost(flat(chosen)), budget=budget, enough=aim, spent=lambda: self.spent,
            rough=rough, choose=border.cheapest, progress=progress,
            parts=min(PARTS, max(1, int(budget / 2 / self.speed.measurement))),
        )  # fmt: skip
        begun = frozenset(n for n in items if n.label in self.start)
        beyond = frozenset(n for p in self.planners for n in p.plan.other if n in items)  # fp32 in place of bf16
        ways = {frozenset(), frozenset(ruled), beyond | frozenset(ruled)}
        for (by, single, most), errors in self._measured.items():  # of an earlier search
            if by is comparison and most is None and self._score(errors) <= aim:
                ways.add(frozenset(n for n in items if n in single))
        starts = [*([begun] if begun else []), *sorted(ways, key=self._cost)]
        found = flat(search.cheapest(atoms, map(those, starts)))
        result.measured += search.measured
        self.stopped = search.stopped
        found = found.union(*(s for s in self.spectra if any(n.op in HEAVY for n in s & found)))
        return reasons(found)

    def _cost(self, nodes: frozenset[Node]) -> float:
        """What the conversion costs with some nodes in fp32."""
        if nodes not in self._costs:
            plan = self.planners[0].settled(dict.fromkeys(nodes, MEASURED))
            self._costs[nodes] = cost_of(plan, self.ranges) + (UNWANTED if self._is_useless(plan) else 0.0)
        return self._costs[nodes]

    def errors(
        self, comparison: Comparison, islands: Mapping[Node, str], *, most: int | None = None
    ) -> list[OutputError]:
        """The errors of the outputs with some nodes in fp32, worst first; `most` as of a Comparison."""
        plan = self.planners[0].settled(islands)
        key = comparison, frozenset(plan.single), most
        if key not in self._measured:
            this = *key[:2], most == 1
            if self._last is None or self._last[0] != this:
                emitter = Emitter(plan, self.apart)
                converted = with_functions(emitter.emit())
                self._last = this, comparison.compared(converted, emitter.half_types())
                self.spent += self.speed.conversion
            compared = self._last[1]
            before = len(compared.errors)
            self._measured[key] = comparison.errors_of(compared, most, quick=most == 1)
            self.spent += (len(compared.errors) - before) * self.speed.sample
        return self._measured[key]

    def _score(self, errors: Iterable[OutputError]) -> float:
        """That of the worst output."""
        return max((_score(e, self.doubting) for e in errors), default=0.0)

    def _is_doubtful(self, error: OutputError, tolerance: float) -> bool:
        """Whether an output may be wrong on inputs other than the guessed ones."""
        counts = self.doubting and not error.excuse and error.inputs == "guessed"
        return counts and error.doubt > DOUBTED * tolerance


def _score(error: OutputError, doubting: bool) -> float:
    """The error of an output: 0 where it is equal by more than that, and 1 where integers differ.

    On guessed inputs it counts for more, and a doubt counts too where doubts do. What another input is likely to have
    counts as if it were measured.
    """
    if error.excuse:
        return 0.0
    doubt = error.doubt / DOUBTED if doubting else 0.0
    if error.inputs == "guessed":
        return max(max(error.relative, error.likely) / GUESSED_PART, doubt)
    return max(error.relative if error.ok or error.relative > LIMIT else 1.0, error.likely, doubt)


def _raised(model: ModelProto, way: str, target: Target | None) -> ModelProto:
    """The model at an opset whose operators take the type, where the target reads it and ONNX's converter writes it."""
    nodes = list(all_nodes(model.graph))
    opset = RAISED if way != "fp16" else RAISED_QUANTIZED if any(n.op_type in SCALED for n in nodes) else 0
    is_read = target is None or target.opset >= opset
    return at_opset(model, opset) if is_read and all(n.domain in ONNX for n in nodes) else model


def _finished(converted: ModelProto, model: ModelProto, source: ModelProto) -> ModelProto:
    """The model with functions for surgeon's own nodes, or without where the file has none."""
    if any(f.domain == DOMAIN for f in model.functions):
        return with_meanings(converted)
    for node in all_nodes(converted.graph):  # of surgeon's own nodes: the file has no functions
        node.overload = "" if node.domain == DOMAIN else node.overload
    converted.ir_version = max(source.ir_version, IR_WITH_DEFAULTS)
    return converted


def _inlined(model: ModelProto) -> ModelProto:
    """A copy in which local functions are spelled out: their nodes have types only where they are used.

    Those of surgeon's own nodes stay functions. Raises ModelError where the functions have no opset in common.
    """
    copy = copied(model)
    if all(f.domain == DOMAIN for f in copy.functions):
        return copy
    own = [(f.domain, f.name) for f in copy.functions if f.domain == DOMAIN]
    functions = by_name(model.functions)
    used = {node.op_type for node in all_nodes(copy.graph) if node.domain in ONNX}
    opset = common_opset(used, opset_of(model), model.functions)
    if opset is None:
        declared = sorted({opset_of(holder) for holder in (model, *model.functions)})
        raise ModelError(
            "the model cannot be converted to half precision: it and its functions declare the opsets "
            f"{', '.join(map(str, declared))} of ONNX's operators, and some mean something else at the others. Export "
            "all at one opset."
        )
    if opset != opset_of(model):
        others = [o for o in copy.opset_import if o.domain not in ONNX]
        refill(copy.opset_import, [*others, onnx.helper.make_opsetid("", opset)])
    say_defaults(all_nodes(copy.graph), functions)
    refill(copy.functions, (as_inliner_reads(f, opset, functions) for f in model.functions))
    return onnx.inliner.inline_selected_functions(copy, own, exclude=True)


def _check_words(words: Collection[str], model: Model) -> None:
    """Raises UsageError where a word of --keep-fp32 names nothing."""
    if not words:
        return
    nodes = [n for s in model.scopes for n in s.live()]
    names = {p.name for p in passes(())} | {n.op for n in nodes} | {s.name for s in newest_schemas()}
    for word in words:
        if word in names or any(c in word for c in "*?["):
            continue
        if not any(n.name == word or f"~{word}/" in n.name for n in nodes):
            raise UsageError(
                f"--keep-fp32 takes an operator (Softmax), a pass (l2-norm) or a node glob; '{word}' is none of these."
            )


def _stem(node: Node) -> str:
    """The name of a node that the conversion does not change: its first output, without the suffix of a cast."""
    return next((o.name.split("~fp16")[0].split("~bf16")[0] for o in node.outputs if o is not None), node.label)


def _refused(converted: ModelProto, before: Model, target: Target) -> dict[str, str]:
    """The stem of a node -> why the target does not support it converted, for nodes that it supported before."""
    already = {_stem(n) for s in before.scopes for n in s.live() if target.why_unsupported(n) is not None}
    found = {}
    for scope in Model(converted, before.base).scopes:
        for node in scope.live():
            if _stem(node) in already:
                continue
            why = target.why_unsupported(node)
            if why is not None:
                found[_stem(node)] = f"{target} does not support it in half precision: {why}"
    return found


def _kept(plan: Plan) -> list[Kept]:
    """The nodes that stay fp32, islands first; without those that only read shapes or compare numbers."""
    reasons = [*plan.single.items(), *plan.fixed.items()]
    return [Kept(n.label, n.op, why) for n, why in reasons if why != COMPUTED and plan.float_outputs(n)]


def _gain(plan: Plan) -> tuple[int, int]:
    """How many of the products compute in half precision, and how many there are."""
    nodes = [n for scope in plan.model.scopes if not scope.is_function for n in scope.live() if n.op in HEAVY]
    return sum(n not in plan.single and n not in plan.fixed for n in nodes), len(nodes)


def _counts(plan: Plan) -> tuple[int, int]:
    """How many nodes that compute with floats do it in half precision, and how many in fp32."""
    nodes = [n for scope in plan.model.scopes if not scope.is_function for n in scope.live() if plan.float_outputs(n)]
    own = [n for n in nodes if not plan.is_cast(n) and n.key != "Constant" and plan.fixed.get(n) != COMPUTED]
    half = [n for n in own if HALVES & {plan.written(n, o.index) for o in n.outputs if o is not None}]
    return len(half), len(own) - len(half)
