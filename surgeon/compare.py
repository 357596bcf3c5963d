"""Two models on the same inputs: through ONNX Runtime, and through what TensorRT's parser understood of the second."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper

from .bisect import Culprit, bisect
from .errors import ModelError, UsageError, did_you_mean
from .files import check_writable, external_files, read
from .graph import Model
from .meaning import DOMAIN, attach
from .prove import (
    HALVES,
    NOT_COUNTED,
    NOT_FINITE,
    TOLERANCE,
    Reference,
    Runner,
    Unrunnable,
    Window,
    compare,
    feeds_of,
    whole_window,
    widened,
)

Progress = Callable[[str, int, int], None]
Feeds = dict[str, np.ndarray]


@dataclass(slots=True)
class Statistics:
    """One output over all inputs, each figure the worst: `absolute` max|a-b|, `relative` to the largest |b|, `cosine` of the
    angle between the two, `psnr` in dB. `kind` is the kind of input that gave the largest relative difference."""

    output: str
    kind: str = "-"
    absolute: float = 0.0
    relative: float = 0.0
    cosine: float = 1.0
    psnr: float = math.inf
    why: str = ""
    noisy: bool = False

    @property
    def verdict(self) -> str:
        """Equal within the type's tolerance; or where the original itself is off by more than that, no further off."""
        return self.why or ("equal to the original's own rounding" if self.noisy else "equal")

    def add(self, kind: str, after: np.ndarray, before: np.ndarray) -> float:
        """Take in one run; its own relative difference, 0 where the two have no number in common."""
        if after.shape != before.shape:
            return 0.0
        a, b = after.astype(np.float64).reshape(-1), before.astype(np.float64).reshape(-1)
        known = np.isfinite(a) & np.isfinite(b)
        a, b = a[known], b[known]
        if not a.size:
            return 0.0
        gap, scale = float(np.abs(a - b).max()), float(np.abs(b).max())
        relative = gap / scale if scale else (math.inf if gap else 0.0)
        if self.kind == "-" or relative > self.relative:
            self.kind, self.relative, self.absolute = kind, relative, gap
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            norm = float(np.linalg.norm(a / (scale or 1)) * np.linalg.norm(b / (scale or 1)))
            if norm and math.isfinite(norm):
                self.cosine = min(self.cosine, float(a / scale @ (b / scale)) / norm)
            noise = float(np.mean(((a - b) / (scale or 1)) ** 2))
        if noise:
            self.psnr = min(self.psnr, -10 * math.log10(noise))
        return relative


@dataclass(slots=True)
class Side:
    """One way of running the second model, against ONNX Runtime on the first."""

    title: str
    statistics: list[Statistics] = field(default_factory=list)
    runs: int = 0

    @property
    def ok(self) -> bool:
        return not any(s.why for s in self.statistics)

    def rows(self) -> list[tuple[str, ...]]:
        return [
            (
                s.output,
                s.kind,
                f"{s.absolute:.1e}",
                f"{s.relative:.1e}",
                f"{s.cosine:.6f}",
                "-" if math.isinf(s.psnr) else f"{s.psnr:.0f} dB",
                s.verdict,
            )
            for s in self.statistics
        ]


@dataclass(slots=True)
class Comparison:
    """`notes` say what could not be run, and why."""

    sides: list[Side] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    differing: tuple[str, Feeds] | None = None  # the kind and values of the first inputs on which ONNX Runtime differs

    @property
    def ok(self) -> bool:
        return bool(self.sides) and all(s.ok for s in self.sides)

    @property
    def verdict(self) -> str:
        bad = [s.title for s in self.sides if not s.ok]
        if not self.sides:
            return "nothing could be compared"
        if bad:
            return f"the models differ ({', '.join(bad)})"
        return f"the models agree on {self.sides[0].runs} sets of inputs ({', '.join(s.title for s in self.sides)})"


def compare_files(
    original: Path,
    rewritten: Path,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    data: str | None = None,
    network: bool = False,
    save_inputs: str | None = None,
    save_outputs: str | None = None,
    progress: Progress = lambda phase, done, total: None,
) -> Comparison:
    """Run both models on random and adversarial inputs (or those of the npz file `data`) and compare output by output.

    shapes   sizes of symbolic dimensions, by input
    save_*   files for the inputs, and for the original's outputs on them, in Polygraphy's JSON
    network  evaluate the network that TensorRT's parser builds of `rewritten` too: needs TensorRT or TensorRT-RTX, no GPU

    Raises ModelError where a model cannot be read or run, UsageError where the inputs are others.
    """
    before, after = read(original), _with_functions(read(rewritten))
    _check_interfaces(before, after)
    names = [o.name for o in before.graph.output]
    window, symbols = whole_window(before, after, shapes or {})
    comparison = Comparison()
    sides = [(Side("ONNX Runtime"), _runner(after, rewritten, "rewritten"))]
    if network:
        _add_network(sides, comparison, rewritten)
    for side, _ in sides:
        side.statistics = [Statistics(n) for n in names]
        comparison.sides.append(side)
    floor = 0.0
    if computes_in_half(after) and not computes_in_half(before):
        floor = TOLERANCE[TensorProto.FLOAT16]
        comparison.notes.append(
            f"the second model computes in half precision: differences up to {floor:g} count as equal"
        )
    reference = _runner(before, original, "original")
    inputs = list(_inputs(window, symbols, data))
    ran: list[tuple[Feeds, list[np.ndarray]]] = []
    for done, (kind, feeds, half) in enumerate(inputs):
        progress("comparing", done, len(inputs))
        try:
            expected = reference(feeds)
        except Unrunnable as error:
            comparison.notes.append(f"on {kind} inputs the original does not run: {error}")
            continue
        if save_inputs or save_outputs:
            ran.append((feeds, expected))
        exact = _exact(before, feeds, half)
        for side, run in sides:
            before_this = side.ok
            _compare_one(side, run, kind, feeds, expected, exact, floor)
            if before_this and not side.ok and side is comparison.sides[0]:
                comparison.differing = kind, feeds
    if not any(s.runs for s in comparison.sides):
        raise ModelError(
            f"'{original}' runs on none of the inputs that surgeon tried: {comparison.notes[0]}. Give sizes that it takes with --shapes, or inputs with --data."
        )
    if save_inputs or save_outputs:
        _save(ran, names, save_inputs, save_outputs)
    return comparison


def _save(
    ran: Sequence[tuple[Feeds, list[np.ndarray]]], names: Sequence[str], inputs: str | None, outputs: str | None
) -> None:
    """What `polygraphy run` takes with --load-inputs and --load-outputs."""
    from polygraphy.comparator import IterationResult, RunResults
    from polygraphy.json import save_json

    for path in (inputs, outputs):
        if path is not None:
            check_writable(Path(path))
    if inputs is not None:
        save_json([feeds for feeds, _ in ran], inputs)
    if outputs is not None:
        results = [
            IterationResult(dict(zip(names, given, strict=True)), runner_name="onnxrt-surgeon") for _, given in ran
        ]
        save_json(RunResults([("onnxrt-surgeon", results)]), outputs)


def bisect_files(original: Path, rewritten: Path, comparison: Comparison) -> Culprit | None:
    """The window that makes two models differ, on the inputs on which `comparison` saw it; None where there is none."""
    if comparison.differing is None:
        return None
    kind, feeds = comparison.differing
    return bisect(read(original), _with_functions(read(rewritten)), feeds, original.parent, kind)


def _compare_one(
    side: Side,
    run: Callable[[Feeds], list[np.ndarray]],
    kind: str,
    feeds: Feeds,
    expected: list[np.ndarray],
    exact: Callable[[int], Iterator[np.ndarray]],
    floor: float,
) -> None:
    side.runs += 1
    try:
        given = run(feeds)
    except Unrunnable as error:
        for statistics in side.statistics:
            statistics.why = statistics.why or f"on {kind} inputs it does not run: {error}"
        return
    for index, (a, b, statistics) in enumerate(zip(given, expected, side.statistics, strict=True)):
        tolerance = (
            max(floor, TOLERANCE.get(helper.np_dtype_to_tensor_dtype(b.dtype), 0.0)) if b.dtype.kind == "f" else 0.0
        )
        found = compare(a, b, tolerance, kind not in NOT_FINITE, exact(index))
        if kind not in NOT_COUNTED:
            statistics.noisy |= statistics.add(kind, a, b) > tolerance
        if found.why and not statistics.why:
            statistics.why = f"on {kind} inputs {found.why}"


def computes_in_half(model: ModelProto) -> bool:
    """Whether a weight is in half precision, or something is cast to it."""
    casts = (a.i for n in model.graph.node if n.op_type == "Cast" for a in n.attribute if a.name == "to")
    return any(kind in HALVES for kind in (*(t.data_type for t in model.graph.initializer), *casts))


def _exact(model: ModelProto, feeds: Feeds, half: bool) -> Callable[[int], Iterator[np.ndarray]]:
    """The original evaluated more exactly (float64; float32 for half precision), for differences that are its own noise."""
    results: list[list[np.ndarray]] = []

    def of(index: int) -> Iterator[np.ndarray]:
        if not results:
            kind = 1 if half else 11
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            wide = {
                k: v.astype(dtype) if v.dtype.kind == "f" or v.dtype.name == "bfloat16" else v for k, v in feeds.items()
            }
            try:
                results.append((Runner if half else Reference)(widened(model, kind)).run(wide))
            except Unrunnable:
                results.append([])
        if index < len(results[0]) and results[0][index].dtype.kind == "f":
            yield results[0][index].astype(np.float64)

    return of


def _inputs(window: Window, symbols: Mapping[str, int], data: str | None) -> Iterator[tuple[str, Feeds, bool]]:
    """(kind, feeds, whether an input is in half precision)"""
    half = any(elem in (10, 16) for _, elem, _ in window.inputs)
    if data is not None:
        for feeds in _load(data, window):
            yield "the given", feeds, half
        return
    for infos in window.sizes(dict(symbols)):
        for kind, feeds in feeds_of(infos):
            yield kind, feeds, half


def _load(data: str, window: Window) -> list[Feeds]:
    from .precision import load_data

    try:
        items = load_data(data)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"'{data}' does not hold arrays: {error}. Write one with numpy.savez(path, **inputs)."
        ) from None
    wanted = [name for name, _, _ in window.inputs]
    for found in items:
        for name in wanted:
            if name not in found:
                raise UsageError(f"'{data}' has no array for the input '{name}'.{did_you_mean(name, found)}")
    return [{name: found[name] for name in wanted} for found in items]


def _check_interfaces(before: ModelProto, after: ModelProto) -> None:
    for what, left, right in (
        ("input", _input_names(before), _input_names(after)),
        ("output", [o.name for o in before.graph.output], [o.name for o in after.graph.output]),
    ):
        if left != right:
            raise UsageError(
                f"the models have different {what}s: {', '.join(left) or 'none'} and {', '.join(right) or 'none'}. Compare a model with its own rewritten form."
            )


def _input_names(model: ModelProto) -> list[str]:
    weights = {t.name for t in model.graph.initializer}
    return [i.name for i in model.graph.input if i.name not in weights]


def _with_functions(model: ModelProto) -> ModelProto:
    """surgeon's own nodes carry their meaning: a model written for TensorRT 9.0 to 10.6 leaves it out."""
    if any(f.domain == DOMAIN for f in model.functions) or not any(n.domain == DOMAIN for n in model.graph.node):
        return model
    indexed = Model(model)
    attach(indexed)
    return indexed.sync()


def _runner(model: ModelProto, path: Path, which: str) -> Callable[[Feeds], list[np.ndarray]]:
    try:
        return Runner(model, str(path) if external_files(model) else None).run
    except Unrunnable as error:
        raise ModelError(f"ONNX Runtime does not run the {which} model '{path}': {error}") from None


def _add_network(
    sides: list[tuple[Side, Callable[[Feeds], list[np.ndarray]]]], comparison: Comparison, path: Path
) -> None:
    """The network that the parser builds, where every layer of it can be evaluated; else a note that names the others."""
    from .network import EvaluationError, evaluate, parse, unsupported

    network = parse(path)
    missing = unsupported(network)
    if missing:
        comparison.notes.append(f"the parser's network cannot be evaluated: {'; '.join(missing)}")
        return

    def run(feeds: Feeds) -> list[np.ndarray]:
        try:
            found = evaluate(network, feeds)
        except EvaluationError as error:
            raise Unrunnable(str(error)) from None
        return [found[t.name] for t in network.outputs]

    sides.append((Side(f"the network of {network.runtime}"), run))
