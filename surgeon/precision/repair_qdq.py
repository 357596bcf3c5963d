"""Place pairs of QuantizeLinear and DequantizeLinear where the target gains from them: `--repair-qdq`.

All quantizers are taken out of the model, and written again where `placement` says that they belong: around zero, with
the ranges and the weights that the file has. The result is run next to the file and to the model without quantizers.
Pairs that raise the error are dropped, those that raise it most first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto

from surgeon.errors import ModelError, UsageError
from surgeon.ir.files import with_weights
from surgeon.ir.functions import at_opset
from surgeon.ir.graph import Value
from surgeon.ir.model import Model
from surgeon.ir.protos import IR_WITH_DEFAULTS, copied, given_inputs, read_instead, refill, returning
from surgeon.ir.run import Runner, Unrunnable, must_run
from surgeon.pipeline.calibration_cache import Found, Line, float_tensors, read_cache, scales_of
from surgeon.pipeline.options import Options
from surgeon.pipeline.placement import Layer, Placed, followed, placed, traffic_of
from surgeon.pipeline.prepared import Prepared, Text, applied, fresh_name
from surgeon.pipeline.quantizers import Grid, Unquantized, unquantized
from surgeon.pipeline.quantizing import Manner, Writing
from surgeon.pipeline.source import Source
from surgeon.pipeline.symmetric_int8 import BY_AXIS, standardized
from surgeon.precision.data import Samples
from surgeon.precision.distance import Distances
from surgeon.precision.inputs import plausible
from surgeon.precision.ranges import THREADS
from surgeon.precision.search import fewest
from surgeon.precision.standard import QUANTIZED_LIMIT, row_gaps
from surgeon.proof.cache import ProofCache, place_of_proofs
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import Feeds
from surgeon.report import QUANTIZE, Applied, counted, grouped

MOST = 16  # samples on which the error is measured
NO_LAYER = "of tensors that no layer in int8 reads"
TOO_FAR = "its int8 makes the error too large"
# What ONNX Runtime's optimizer calls the sizes of a MatMul with its Add, again in a file that has such names already:
# 1.32 then refuses the file.
FUSED_SIZES = re.compile(r"gemm_(input|output)_shape")
SHOWN = 3  # names of inputs that become weights
SATURATED = 0.5  # of the numbers of a tensor: its scale is a mistake
LITTLE = 0.01  # of the bytes: int8 that saves less gains nothing
MARGIN = 0.7  # of the file's error on some inputs, so that it is not above on others


def repaired(source: Source, options: Options, data: Samples | None) -> Prepared:
    """The model with its quantizers placed anew. Raises UsageError, and ModelError where it cannot be run.

    data  inputs on which the error is measured; drawn ones where it is None
    """
    given, base = source.proto(), source.base
    whole, told = opened(given, base)
    model = at_opset(whole, BY_AXIS)
    known = ProofCache(place_of_proofs() if options.cache and options.proves else None)
    standard, first = standardized(model, options, base, known)
    bare = unquantized(standard)
    bare.check()
    if not bare.grids:
        why = f": {bare.left[0]}" if bare.left else ""
        return Prepared(given, [], [f"--repair-qdq found no quantizer to place{why}"])
    repair = Repair(model, bare, options, data)
    made, record = repair.result()
    return Prepared(made, [*first, record], [*told, *repair.said()])


def with_scales(source: Source, options: Options, data: Samples | None) -> Prepared:
    """A model without quantizers in int8, by the scales of a calibration cache.

    Raises UsageError where the cache or the model is not of that kind, ModelError where the model cannot be run, or no
    layer in int8 is within the tolerance on the data.
    """
    assert options.calibration_cache is not None
    whole, told = opened(source.proto(), source.base)
    model = at_opset(whole, BY_AXIS)
    if any(n.op_type == "QuantizeLinear" for n in model.graph.node):
        raise UsageError("--calibration-cache is for a model without quantizers. For others there is --repair-qdq.")
    lines = read_cache(Path(options.calibration_cache))
    found = scales_of(lines, Model(model))
    bare = Unquantized(copied(model), found.grids, {}, [], [], [])
    repair = Repair(None, bare, options, data)
    made, record = repair.result("calibration-cache")
    return Prepared(made, [record], [*told, *repair.said(), *_of_lines(lines, found, repair.placed)])


def _of_lines(lines: Sequence[Line], found: Found, placed: Placed) -> list[str]:
    """How many lines are used, and why each of the others is not."""
    used = {found.lines[layer.x.name] for layer in placed.int8}
    unused = [line.name for line in lines if line.name not in used]
    whys = grouped((found.unused.get(name, NO_LAYER), name) for name in unused)
    said = [f"{len(used)} of {counted(len(lines), 'line')} of the cache are scales of quantizers"]
    return said + [f"{counted(len(names), 'line')} {why}: {', '.join(names)}" for why, names in whys.items()]


def opened(source: ModelProto, base: Path | None) -> tuple[ModelProto, list[str]]:
    """A model with its weights, as TensorRT's parser and ONNX Runtime read it; and a sentence on that, or nothing."""
    model = with_weights(source, base)
    told = _without_defaults(model)
    taken = {t.name for t in model.graph.initializer if FUSED_SIZES.match(t.name)}
    fresh = fresh_name(model) if taken else None
    for tensor in model.graph.initializer:
        if fresh is not None and tensor.name in taken:
            old, tensor.name = tensor.name, fresh(tensor.name, "sizes")
            read_instead(model.graph, old, tensor.name)
    return model, told


def _without_defaults(model: ModelProto) -> list[str]:
    """Make weights of the inputs of a model that have a default; returns a sentence on them, or nothing.

    TensorRT's parser makes no input of one that has an initializer. Before IR version 4 every weight was written so.
    """
    given = given_inputs(model)
    names = [info.name for info in model.graph.input if info not in given]
    refill(model.graph.input, given)
    is_old = model.ir_version < IR_WITH_DEFAULTS
    model.ir_version = max(model.ir_version, IR_WITH_DEFAULTS)
    if is_old or not names:
        return []
    shown = f"{', '.join(names[:SHOWN])}{f' and {len(names) - SHOWN} more' if len(names) > SHOWN else ''}"
    return [f"{counted(len(names), 'input')} with a default became weights, as TensorRT's parser reads them: {shown}"]


class Error(NamedTuple):
    """How far outputs are from those without quantizers.

    largest  the largest difference, as a part of the largest number
    usual    the root of the mean square, as `Distances` gives it
    """

    largest: float = 0.0
    usual: float = 0.0

    def times(self, factor: float) -> Error:
        return Error(*(factor * part for part in self))

    def is_within(self, other: Error) -> bool:
        return self.largest <= other.largest and self.usual <= other.usual


class Repair:
    """One model whose quantizers are placed anew.

    source  the file, whose error is not to rise; None where it has no quantizers: then the tolerance is the limit on
            data, and nothing on drawn inputs
    """

    def __init__(self, source: ModelProto | None, bare: Unquantized, options: Options, data: Samples | None) -> None:
        self.source, self.bare, self.options = source, bare, options
        self.model = Model(bare.model)
        self.drawn = data is None
        if data is None:
            drawn = plausible(bare.model, Runner(bare.model).run, options.shapes).samples
            grids = bare.grids  # the ranges that the file has for inputs
            self.feeds = [{n: _scaled(a, grids[n]) if n in grids else a for n, a in feeds.items()} for feeds in drawn]
        else:
            self.feeds = list(data.checked(bare.model).part(0, 1, MOST))
        self.saturated = {} if self.drawn else self._saturated()
        for name in self.saturated:
            del bare.grids[name]
        followed(float_tensors(self.model), bare.grids)
        self.distances = Distances(bare.model, Samples.of(self.feeds), options)
        self.expected = [self.distances.expected(turn, feeds) for turn, feeds in enumerate(self.feeds)]
        self.largest = [_largest(outputs) for outputs in zip(*self.expected, strict=True)]
        self.tolerance = QUANTIZED_LIMIT if options.tolerance is None else options.tolerance
        self.unmeasured = ""
        self.before = self._error_before()
        self.after = Error()
        self.sizes, grids = measured_sizes(self.model, self.feeds[0]), bare.grids
        self.traffic = traffic_of(self.model, options.target, self.sizes.get, bare.weights)
        self.placed = placed(self.model, options.target, self.traffic, lambda layer: layer.x.name in grids)

    def result(self, called: str = "repair-qdq") -> tuple[ModelProto, Applied]:
        """The model, and the record of the change."""
        made = self._within_the_error()
        nodes = () if self.source is None else self.source.graph.node
        before = [Text.of(n) for n in nodes if "Quantize" in n.op_type or "QLinear" in n.op_type]
        after = [Text.of(n) for n in made.graph.node if n.op_type == "QuantizeLinear"]
        return made, applied(called, before, after, "the quantizers", error=self.after.largest, strategy=QUANTIZE)

    def said(self) -> list[str]:
        """What became of the quantizers, and of the error."""
        int8, found = len(self.placed.int8), len(self.placed.int8) + len(self.placed.left)
        inputs = "random inputs" if self.drawn else "the data"
        was = "" if self.source is None else f", and was {self.before.largest:.2g} before"
        if self.unmeasured:
            was = f", and could not be measured before, since ONNX Runtime does not run the file: {self.unmeasured}"
        lines = [
            f"{int8} of {counted(found, 'layer')} with weights {'computes' if int8 == 1 else 'compute'} in int8; the "
            f"largest error of an output on {inputs} is {self.after.largest:.2g} of the largest number{was}"
        ]
        if self.source is None and self.drawn:
            lines.append("the error on inputs that occur was not measured: with --data, --tolerance limits it")
        elif self.source is None:
            lines.append(
                f"on the data the outputs change by {self.after.usual:.2g} (the root mean square, relative to that of "
                f"the outputs; the tolerance is {self.tolerance:g})"
            )
        whys = Counter(self.placed.left.values())
        lines += [f"{counted(n, 'layer')} in floating point: {why}" for why, n in whys.most_common()]
        if alone := len(self._alone(self.placed.int8)):
            lines.append(
                f"of {counted(alone, 'layer')} in floating point the weights alone are in int8, as in the file"
            )
        part = 1.0 if self.traffic is None else self.traffic.saved({layer.node for layer in self.placed.int8})
        if part < LITTLE:
            lines.append(
                f"int8 saves {part:.1%} of the bytes that TensorRT-RTX moves for the layers: deploy the model without "
                "quantizers, with --fp16, which halves them"
            )
        why = "is not a positive finite number: it is not quantized any more"
        lines += [f"the scale of '{name}' {why}" for name in self.bare.dropped]
        lines += [
            f"'{name}' saturates: {share:.0%} of its numbers on the data are outside of what its scale holds, from "
            f"{low:.3g} to {high:.3g}; it is not quantized any more"
            for name, (share, (low, high, _)) in self.saturated.items()
        ]
        lines += [f"stays as it is: {why}" for why in self.bare.left]
        return lines

    def _saturated(self) -> dict[str, tuple[float, Grid]]:
        """The tensors of which most numbers on the data are outside of their ranges, with the part that is."""
        outside = dict.fromkeys(self.bare.grids, 0.0)
        for name, array in numbers_of(self.bare.model, outside, self.feeds):
            low, high, step = self.bare.grids[name]
            outside[name] += float(np.mean((array < low - step) | (array > high + step))) / len(self.feeds)
        return {name: (share, self.bare.grids[name]) for name, share in outside.items() if share > SATURATED}

    # ---- the error ----

    def _error_before(self) -> Error:
        """That of the file, inf where ONNX Runtime does not run it; without a file what the options allow."""
        if self.source is None:
            return Error(np.inf, np.inf if self.drawn else self.tolerance)
        try:
            return self._error(self.source)
        except Unrunnable as error:
            self.unmeasured = str(error)
            return Error(np.inf, np.inf)

    def _error(self, model: ModelProto) -> Error:
        runner = Runner(model)
        found = [runner.run(feeds) for feeds in self.feeds]
        made = iter(found)
        usual = self.distances.error(lambda feeds: next(made))
        return Error(max(map(self._largest_gap, found, self.expected), default=0.0), usual)

    def _largest_gap(self, found: Sequence[np.ndarray], ideal: Sequence[np.ndarray]) -> float:
        """The largest difference of an output, as a part of its largest number; inf where one has another shape."""
        worst = 0.0
        for index, (now, exact, top) in enumerate(zip(found, ideal, self.largest, strict=True)):
            if now.shape != exact.shape:
                return np.inf
            if exact.dtype.kind in "fiub" or is_float(exact.dtype):
                gap = float(_gaps(now, exact, index in self.distances.chosen).max(initial=0)) / top
                worst = max(worst, np.inf if np.isnan(gap) else gap)
        return worst

    def _within_the_error(self) -> ModelProto:
        """The model with as many of the pairs as keep the error below that of the file, the worst dropped first.

        Raises ModelError where there is no file, and no pair is within the tolerance.
        """
        placed = self.placed
        made = self._written(placed.int8)
        self.after = self._error(made)
        if self.after.is_within(self.before.times(MARGIN)):
            return made
        worst = self._by_share()
        for margin in (MARGIN, 1.0):
            self.placed = self._without(worst[: self._fewest(worst, self.before.times(margin), placed)], placed)
            if self.placed.int8 or self._alone([]):
                break
        if self.source is None and not self.placed.int8:
            self.placed = placed
            if self.options.allow_inexact:
                return made
            raise ModelError(
                f"no layer computes in int8 within the tolerance {self.tolerance:g} of the error: all of them change "
                f"the outputs by {self.after.usual:.2g} on the data. Try a larger --tolerance, or --int8 with the data."
            )
        made = self._written(self.placed.int8)
        self.after = self._error(made)
        return made

    def _fewest(self, worst: Sequence[Value], allowed: Error, placed: Placed) -> int:
        """How many of the worst have to be dropped until the error is allowed."""

        def is_within(count: int) -> bool:
            return self._error(self._written(self._without(worst[:count], placed).int8)).is_within(allowed)

        return fewest(is_within, -1, len(worst))

    def _without(self, dropped: Iterable[Value], placed: Placed) -> Placed:
        """The layers without those that read a tensor that is dropped."""
        values = set(dropped)
        return placed.without({k.node for k in placed.int8 if k.x in values}, TOO_FAR, self.traffic)

    def _by_share(self) -> list[Value]:
        """The quantized tensors, those first that alone make the largest error for the bytes that they save."""
        tensors = list(dict.fromkeys(layer.x for layer in self.placed.int8))
        writing = Writing(self.bare, self.model, self._grids(self.placed.int8), Manner(switched=True))
        off = dict.fromkeys([*writing.switches.values(), *writing.sums.values()], np.array(False))
        runner = Runner(writing.model)
        int8 = {layer.node for layer in self.placed.int8}

        def share(tensor: Value) -> float:
            names = (s for named in (writing.switches, writing.sums) for x, s in named.items() if x == tensor.name)
            on = off | dict.fromkeys(names, np.array(True))
            return self.distances.error(lambda feeds: runner.run({**feeds, **on}), 1)

        def worth(tensor: Value) -> float:
            if self.traffic is None:
                return 1.0
            return max(1.0, -sum(self.traffic.gain(k.node, int8) for k in self.placed.int8 if k.x is tensor))

        return sorted(tensors, key=lambda tensor: share(tensor) / np.sqrt(worth(tensor)), reverse=True)

    # ---- writing ----

    def _grids(self, int8: Iterable[Layer]) -> dict[Layer, Grid]:
        return {layer: self.bare.grids[layer.x.name] for layer in int8}

    def _written(self, int8: Iterable[Layer]) -> ModelProto:
        layers = list(int8)
        return Writing(self.bare, self.model, self._grids(layers), Manner(alone=self._alone(layers))).model

    def _alone(self, int8: Iterable[Layer]) -> list[Layer]:
        """The other layers, of which int8 weights alone save bytes."""
        if self.traffic is None:
            return []
        nodes = {layer.node for layer in int8}
        return [k for k in self.traffic.layers if k.node not in nodes and self.traffic.saved_alone(k)]


def _gaps(now: np.ndarray, exact: np.ndarray, is_chosen: bool) -> np.ndarray:
    """How far apart the elements of an output are, or its rows where they are chosen; of integers whether they are."""
    if not is_float(exact.dtype):
        return np.asarray(now != exact, np.float64)
    if is_chosen:
        return np.asarray(row_gaps(now, exact) * float(np.abs(exact[np.isfinite(exact)]).max(initial=0)))
    wide = exact.astype(np.float64)
    return np.asarray(np.abs(now.astype(np.float64) - wide)[np.isfinite(wide)])


def _largest(outputs: Iterable[np.ndarray]) -> float:
    """The largest finite number of an output on all inputs; 1 where there is none but 0."""
    tops = [np.abs(a[np.isfinite(a)]).max(initial=0) for a in outputs if is_float(a.dtype)]
    return float(max(tops, default=0)) or 1.0


# ---- inputs ----------------------------------------------------------------------------------------------------------


def _scaled(array: np.ndarray, grid: Grid) -> np.ndarray:
    """The array between the ends of a range. One around zero says how large numbers are, not which sign they have."""
    low, high = (float(end) for end in (array.min(initial=0), array.max(initial=0)))
    if array.dtype != np.float32 or low == high:
        return array
    if abs(grid.low + grid.high) <= 2 * grid.step:
        return np.asarray(array * (grid.high / max(-low, high)), np.float32)
    return np.asarray(grid.low + (array - low) * ((grid.high - grid.low) / (high - low)), np.float32)


def numbers_of(model: ModelProto, names: Container[str], samples: Iterable[Feeds]) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of those names on each sample, inputs first. Tensors in bodies are left out. Raises ModelError."""
    made = [name for node in model.graph.node for name in node.output if name in names]
    runner = Runner(returning(model, [*made, *(o.name for o in model.graph.output)]), threads=THREADS)
    for feeds in samples:
        yield from ((name, array) for name, array in feeds.items() if name in names)
        yield from zip(made, run_on_data(runner, feeds), strict=False)


def run_on_data(runner: Runner, feeds: Feeds) -> list[np.ndarray]:
    """What a model makes of a sample. Raises ModelError."""
    with must_run("ONNX Runtime does not run the model on the data"):
        return runner.run(feeds)


def measured_sizes(model: Model, feeds: Feeds) -> dict[Value, int]:
    """The number of elements of each float tensor of the main graph, from one run."""
    values = [v for n in model.graph.live() for v in n.outputs if v is not None and model.dtype(v) == TensorProto.FLOAT]
    probe = returning(model.proto, (v.name for v in values))
    sizes = {v: r.size for v, r in zip(values, Runner(probe).run(feeds), strict=True)}
    return sizes | {v: a.size for name, a in feeds.items() if (v := model.graph.find(name)) is not None}
