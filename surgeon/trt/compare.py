"""Two models on the same inputs: through ONNX Runtime, as TensorRT's parser understood the second, and on its engine.

Polygraphy runs them and its Comparator counts the differences; whether they may be is decided by
`surgeon.precision.standard`, as for `--fp16`.
"""

import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto
from polygraphy.comparator import (
    Comparator,
    CosineSimilarityCompareFunc,
    IterationResult,
    L2CompareFunc,
    PsnrCompareFunc,
    RunResults,
    SimpleCompareFunc,
)
from polygraphy.logger import G_LOGGER

from surgeon.errors import EngineError, ModelError, UsageError
from surgeon.ir.files import beginning, check_writable, read_all
from surgeon.ir.protos import given_inputs
from surgeon.ir.run import Runner, Unrunnable, must_run
from surgeon.pipeline.freezing import frozen, sizes_fixed_in
from surgeon.precision.data import load_data
from surgeon.precision.inputs import plausible
from surgeon.precision.standard import Standard, Trial, fed
from surgeon.proof.feeds import NOT_COUNTED, NOT_FINITE
from surgeon.proof.randomness import why_random
from surgeon.proof.whole import whole_pair
from surgeon.report import Progress
from surgeon.trt.comparison import Comparison, Figures, Shapes, Side, Statistics, save_runs
from surgeon.trt.engine import plugin_library
from surgeon.trt.program import MAGIC, is_engine
from surgeon.trt.runners import Engine, EngineFile, Feeds, OnnxRuntime, ParsedNetwork, Way, engine_way
from surgeon.trt.runtime import CLASSIC, RTX, choose_runtime

Inputs = tuple[str, Feeds, list[np.ndarray]]  # their kind, the arrays by name, and what the original makes of them
Run = Callable[[Feeds], Feeds]  # inputs by name to outputs by name; raises Unrunnable


def compare(
    original: str | os.PathLike[str],
    rewritten: str | os.PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    data: str | None = None,
    tolerance: float | None = None,
    network: bool = False,
    engine: bool | None = None,
    runtime: str | None = None,
    plugins: Sequence[str | Path] = (),
    tactic_sources: Sequence[str] | None = None,
    save_inputs: str | None = None,
    save_outputs: str | None = None,
    progress: Progress = lambda phase, done, total: None,
) -> Comparison:
    """Run both models on random and adversarial inputs (or those of `data`) and compare output by output.

    A model in half precision is compared on inputs that occur, see `surgeon.precision.inputs`. So is an engine that
    `rewritten` holds: it runs on a GPU, with the sizes of its first profile, and may compute in half precision.

    shapes    sizes of symbolic dimensions, by input
    values    of inputs of the original that `rewritten` does not have: what `surgeon rewrite --set` froze them to
    data      an .npz file, a folder of them, or a Polygraphy data loader script (a .py with a function load_data)
    tolerance of the error of an output, relative to its largest number, where `rewritten` is in half precision: 0.01
              unless given; of a quantized model it is relative to the root of the mean square, and 0.15
    network   evaluate the network that TensorRT's parser builds of `rewritten` too:
              needs TensorRT or TensorRT-RTX, no GPU
    engine    run `rewritten` on TensorRT too: None where that can be done (a note says why not), True in any case
    runtime, plugins, tactic_sources   of the engine, as in `surgeon.trt.engine.build`
    save_*    files for the inputs, and for the original's outputs on them, in Polygraphy's JSON; of surgeon's own
              inputs the finite ones, since Polygraphy counts a NaN as different from a NaN

    Raises ModelError where a model cannot be read or run, UsageError where the inputs are others, or where the engine
    is asked for and no TensorRT runs here; EngineError where TensorRT refuses a model that it was
    asked to run or to parse.
    """
    original, rewritten = Path(original), Path(rewritten)
    built = _engine_of(original, rewritten, runtime, network or engine is False, plugins)
    before, files = read_all(original)
    after, more = (before, [rewritten]) if built else read_all(rewritten)
    sizes = sizes_fixed_in(after, before)
    before, _ = frozen(before, {**sizes, **(values or {})})
    after = before if built else after
    _check_interfaces(before, after)
    for saved in (save_inputs, save_outputs):
        if saved is not None:
            check_writable(Path(saved), *files, *more, *([Path(data)] if data else []))
    if save_inputs and save_outputs and Path(save_inputs).resolve() == Path(save_outputs).resolve():
        raise UsageError(f"inputs and outputs cannot both be written to '{save_inputs}'.")
    if runtime is not None:
        choose_runtime(runtime)
    for library in plugins:
        plugin_library(library)
    names = [o.name for o in before.graph.output]
    with contextlib.ExitStack() as held:
        second = held.enter_context(built.start(before)) if built else None
        usual = built.shapes(before) if built else None  # whatever the sizes are: it refuses another model's engine
        shapes = shapes or usual
        with must_run("the models cannot be compared", end="."):
            pair = whole_pair(before, after, shapes=shapes)
            standard = Standard(
                before, after, original.parent, rewritten.parent, tolerance, types={} if built else None
            )
        random = why_random(before, after)
        if random:
            raise ModelError(f"the models cannot be compared: {random}.")
        inputs = _inputs(standard, original, shapes, data)
        dynamic = [name for name, _, dims in pair.inputs if not all(isinstance(d, int) for d in dims)]
        comparison = Comparison(shapes=_ranges(dynamic, [feeds for _, feeds, _ in inputs]))
        comparison.notes += [f"the rewritten model has {size} for '{name}': no other size is compared"
                             for name, size in sizes.items()]  # fmt: skip
        if standard.converted:
            comparison.tolerance = standard.limit
            comparison.notes.append(MAY_ROUND.format(standard.limit) if built else standard.statement())
        with must_run(f"ONNX Runtime does not run the rewritten model '{rewritten}'"):
            second = second or held.enter_context(OnnxRuntime().start(standard.evaluated, rewritten))
        first_way = built or OnnxRuntime()
        runs: list[tuple[Side, Run]] = [(Side(first_way), lambda feeds: second(fed(standard.evaluated, feeds)))]
        parsed = ParsedNetwork(runtime) if network else None
        further = _further_ways(
            comparison, parsed, engine, partial(engine_way, runtime, plugins, tactic_sources, progress)
        )
        for way in () if built else further:
            try:
                running = held.enter_context(way.start(after, rewritten, [feeds for _, feeds, _ in inputs]))
            except Unrunnable as error:
                comparison.notes.append(str(error))
                continue
            except EngineError as error:
                if engine or not isinstance(way, Engine):
                    raise
                comparison.notes.append(f"TensorRT is not run: {error}")
                continue
            runs.append((Side(way), lambda feeds, run=running: run(fed(after, feeds))))  # type: ignore[misc]
        for side, _ in runs:
            side.statistics = [Statistics(n) for n in names]
            comparison.sides.append(side)
        for done, (kind, feeds, expected) in enumerate(inputs):
            progress("comparing", done, len(inputs))
            trial = Trial(standard, kind, feeds, expected)
            for side, run in runs:
                _compare_one(side, run, trial, comparison)
                if side.differing is None and not side.ok:
                    side.differing = kind, feeds
    if not any(array.size for _, _, outputs in inputs for array in outputs):
        raise ModelError(f"the outputs of '{original}' have no elements on these inputs: nothing was compared.")
    ran = [(feeds, dict(zip(names, outputs, strict=True))) for kind, feeds, outputs in inputs if kind not in NOT_FINITE]
    if save_inputs or save_outputs:
        save_runs(ran, save_inputs, save_outputs)
    return comparison


def _engine_of(
    original: Path, rewritten: Path, runtime: str | None, of_models: bool, plugins: Sequence[str | Path]
) -> EngineFile | None:
    """The engine that `rewritten` holds; None for any other file. Raises UsageError where none can run."""
    if is_engine(beginning(original)):
        raise UsageError(f"'{original}' is an engine. Give the ONNX model first, and the engine second.")
    if not is_engine(beginning(rewritten)):
        return None
    if of_models:
        raise UsageError(f"'{rewritten}' is an engine: --network and --no-trt are for ONNX models.")
    own = RTX if beginning(rewritten).startswith(MAGIC) else CLASSIC
    return EngineFile(engine_way(runtime or own, plugins), rewritten)


def _further_ways(
    comparison: Comparison, network: ParsedNetwork | None, engine: bool | None, on_engine: Callable[[], Engine]
) -> Iterator[Way]:
    if network is not None:
        yield network
    if engine is False:
        return
    try:
        yield on_engine()
    except (UsageError, EngineError) as error:
        if engine:
            raise
        comparison.notes.append(f"TensorRT is not run: {error}")


def _ranges(dynamic: Collection[str], inputs: Sequence[Feeds]) -> dict[str, Shapes]:
    found: dict[str, Shapes] = {}
    for name in dynamic:
        shapes = [feeds[name].shape for feeds in inputs]
        if len({len(s) for s in shapes}) == 1:
            smallest, largest = (tuple(f(sizes) for sizes in zip(*shapes, strict=True)) for f in (min, max))
            found[name] = smallest, shapes[0], largest
    return found


def _compare_one(side: Side, run: Run, trial: Trial, comparison: Comparison) -> None:
    kind = trial.kind
    side.runs += 1
    try:
        given = run(trial.feeds)
    except Unrunnable as error:
        for statistics in side.statistics:
            statistics.why = statistics.why or f"on {kind} inputs it does not run: {error}"
        return
    for index, statistics in enumerate(side.statistics):
        b = trial.expected[index]
        a = as_onnx(given[statistics.output], b)
        found = trial.difference(index, a, by_models=isinstance(side.way, OnnxRuntime))
        if found.why and kind == "denormal" and isinstance(side.way, Engine):
            found = trial.difference(index, a, math.inf)
            text = FLUSHED.format(side.title)
            comparison.notes += [text] if text not in comparison.notes else []
        if kind not in NOT_COUNTED:
            counted = figures(kind, a, b)
            if index in trial.measured:
                counted = replace(counted, error=trial.measured[index].relative)
            statistics.add(counted, found)
        if found.why and not statistics.why:
            statistics.why = f"on {kind} inputs {found.why}"


MAY_ROUND = (
    "an engine may compute in half precision: it runs on inputs that occur, and errors up to {:g} of an output's "
    "largest number count as equal"
)
FLUSHED = (
    "on denormal inputs {} differs, as kernels do that flush denormal numbers to zero: only shapes, NaN and inf "
    "count there"
)


def as_onnx(given: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Integers in ONNX's own type: TensorRT up to 9 computes int64 as int32."""
    return given.astype(expected.dtype) if given.dtype.kind in "iu" and expected.dtype.kind in "iu" else given


def figures(kind: str, given: np.ndarray, expected: np.ndarray) -> Figures:
    """Polygraphy's Comparator on one output, over the numbers that both sides have.

    They go in as float64: Polygraphy squares fp32 in fp32, where 1e20 overflows, knows no bfloat16 of NumPy, and makes
    a single NaN the result of every statistic.
    """
    if expected.dtype.kind in "OSU":  # text: there is nothing to count
        return Figures(kind)
    if given.shape != expected.shape:
        return Figures(kind, math.inf, math.inf, math.inf, math.inf, math.nan, -math.inf)
    a, b = given.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1)
    known = np.isfinite(a) & np.isfinite(b)
    if not known.any():
        return Figures(kind)
    a, b = a[known], b[known]
    results = RunResults([(n, [IterationResult({"": v}, 0.0, n)]) for n, v in (("given", a), ("expected", b))])
    functions = [
        SimpleCompareFunc(check_error_stat="max"),
        L2CompareFunc(),
        CosineSimilarityCompareFunc(),
        PsnrCompareFunc(),
    ]
    with G_LOGGER.verbosity(), np.errstate(all="ignore"):
        simple, l2, cosine, psnr = (
            result["given", "expected"][0][""]
            for result in Comparator.compare_accuracy(results, compare_func=functions)
        )
    scale = float(np.abs(b).max())
    error = simple.max_absdiff / scale if scale else (math.inf if simple.max_absdiff else 0.0)
    return Figures(kind, error, simple.max_absdiff, simple.max_reldiff, l2.l2_norm, cosine.cosine_similarity, psnr.psnr)


def _inputs(
    standard: Standard, original: Path, shapes: Mapping[str, Sequence[int]] | None, data: str | None
) -> list[Inputs]:
    """The inputs on which the original runs. Raises ModelError where it does not run, UsageError without inputs."""
    model = standard.reference
    with must_run(f"ONNX Runtime does not run the original model '{original}'"):
        runner = Runner(model, standard.base)

    def run(feeds: Feeds) -> list[np.ndarray]:
        return runner.run(fed(model, feeds))

    try:
        if data is not None:
            found = [("the given", feeds, run(feeds)) for feeds in load_data(data).checked(model)]
            if not found:
                raise UsageError(f"'{data}' gives no inputs.")
            return found
        guessed = plausible(model, run, shapes)
        if standard.converted:
            return [("guessed", feeds, run(feeds)) for feeds in guessed.held]
        standard.judge = standard.judge_of([guessed.samples[0], guessed.resized()], runner)
        return list(standard.judge.runs())
    except Unrunnable as error:
        raise ModelError(f"'{original}' is not compared: {error}.") from None


def _check_interfaces(before: ModelProto, after: ModelProto) -> None:
    for what, left, right in (
        ("input", *([i.name for i in given_inputs(m)] for m in (before, after))),
        ("output", [o.name for o in before.graph.output], [o.name for o in after.graph.output]),
    ):
        if left != right:
            raise UsageError(
                f"the models have different {what}s: {', '.join(left) or 'none'} and {', '.join(right) or 'none'}. "
                "Compare a model with its own rewritten form; --set gives the value of an input that it no longer has."
            )
