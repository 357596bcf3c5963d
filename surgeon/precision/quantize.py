"""A model in eight bits, from data: `--int8` and `--fp8`.

1. One pass over the samples counts the numbers that each layer reads: see `histograms`.
2. Each tensor gets the scale with the least error of the model's outputs, among those of all methods.
3. A search drops the pairs that cause the error until it is within the tolerance, as few as it can: see `search`.
4. The error is measured on other samples.

The error of an output is the root of the mean square of the differences, relative to that of the numbers: the steps of
eight bits move each number a little, and the largest difference of a million numbers says nothing of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper

from surgeon.errors import ModelError, UsageError
from surgeon.ir.functions import at_opset
from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, returning
from surgeon.ir.run import Runner
from surgeon.pipeline.calibration_cache import float_tensors
from surgeon.pipeline.options import Options
from surgeon.pipeline.placement import HEAVIER, Layer, Traffic, channel_scales, layers, left_out
from surgeon.pipeline.prepared import Prepared, Text, applied, fresh_name
from surgeon.pipeline.quantizers import FP8, INT8, Eight, Grid, Unquantized, hold, without_lacking_types
from surgeon.pipeline.quantizing import Manner, Writing
from surgeon.pipeline.source import Source
from surgeon.pipeline.symmetric_int8 import BY_AXIS
from surgeon.precision.data import Samples
from surgeon.precision.distance import Distances
from surgeon.precision.histograms import METHODS, Histogram, scale_of
from surgeon.precision.ranges import THREADS
from surgeon.precision.repair_qdq import measured_sizes, numbers_of, opened, run_on_data
from surgeon.precision.rounding import rounded
from surgeon.precision.search import Search
from surgeon.precision.standard import QUANTIZED_LIMIT, fed
from surgeon.proof.feeds import Feeds
from surgeon.report import QUANTIZE, Progress, counted, grouped
from surgeon.rules.meaning import with_functions

AIMS = (0.8, 0.5, 0.3)  # parts of the tolerance by which pairs are chosen, as other inputs have other errors
CHOOSE = 4  # samples by which scales and pairs are chosen
HELD = 32  # samples on which the error is measured
EVERY = 4  # one of so many samples is held back from the calibration
AT_ONCE = 1 << 26  # elements of the tensors that one run returns
BEST = 2  # methods
ALIKE = 0.02  # two scales that differ by so much of themselves are one
SUM = 0.1  # of a layer: what it costs that an Add reads numbers
SECONDS = 60.0  # that choosing may take at about PRODUCTS a second
PRODUCTS = 1e10
FEWEST, MOST = 24, 160  # measurements of a search
SATURATES = 1.5  # a number so many times as large as what its scale holds
DEAD = "the numbers that it reads are 0 in all samples"
TOO_FAR = "its {} makes the error too large"


class Item(NamedTuple):
    """What a search may drop: the pair of a tensor, or that an Add reads that pair too."""

    name: str
    is_sum: bool = False


class Choice(NamedTuple):
    """Scales by one method, the biases and the pairs that are dropped with them, and the error on unseen samples."""

    error: float
    method: str
    scales: dict[str, float]
    biases: dict[str, np.ndarray]
    dropped: frozenset[Item]


class Checked(NamedTuple):
    """A model in eight bits, and what compares with its original the model that is written in the end.

    scales  of its tensors by name, for a calibration cache
    error   of a written model on the samples that the calibration did not use
    score   of the outputs of one sample: see `Distances.score`
    check   a sentence on that. Raises ModelError where it is above the tolerance
    """

    prepared: Prepared
    scales: Mapping[str, float]
    error: Callable[[ModelProto], float]
    score: Callable[..., float]
    check: Callable[[ModelProto], str]


def quantized(source: Source, options: Options, data: Samples) -> Checked:
    """The model with pairs and weights of eight bits. Raises UsageError, and ModelError where that cannot be."""
    kind = FP8 if options.fp8 else INT8
    whole, told = opened(source.proto(), source.base)
    whole, lacking = without_lacking_types(whole, options.target)
    model = at_opset(whole, max(BY_AXIS, kind.opset))
    if any(n.op_type in ("QuantizeLinear", "QLinearConv", "QLinearMatMul") for n in model.graph.node):
        raise UsageError(f"--{kind.name} is for a model without quantizers. For others there is --repair-qdq.")
    quantization = Quantization(model, options, data, kind)
    made = quantization.result()
    after = [Text.of(n) for n in made.graph.node if n.op_type == "QuantizeLinear"]
    record = applied(kind.name, [], after, "the quantizers", error=quantization.after, strategy=QUANTIZE)
    prepared = Prepared(made, [record], [*told, *lacking, *quantization.said()])
    return Checked(
        prepared, quantization.all_scales(), quantization.error_of, quantization.unseen.score(), quantization.check
    )


class Quantization:
    """One model that is quantized.

    free    the model without pairs, on the samples that choose scales and pairs
    unseen  the same on the samples on which the error is measured
    scales  of the tensors that layers read, by name
    after   the error on samples that chose nothing
    """

    def __init__(self, model: ModelProto, options: Options, data: Samples, kind: Eight) -> None:
        self.options, self.kind = options, kind
        self.bare = Unquantized(model, {}, {}, [], [], [])
        self.model = Model(model)
        self.tolerance = QUANTIZED_LIMIT if options.tolerance is None else options.tolerance
        self.progress: Progress = options.progress or (lambda phase, done, total: None)
        samples = data.checked(model)
        self.count = len(samples)
        if not self.count:
            raise UsageError("the calibration data has no inputs.")
        self.calibration, self.held = _split(samples, self.count)
        self.after, self.method = np.inf, ""
        self.left: dict[Node, str] = {}
        self.sizes: dict[str, int] = {}
        self.found = self._layers()
        self.histograms = self._counted()
        self._leave_dead()
        self.free = Distances(model, Samples.of(self.calibration.part(0, 1, CHOOSE)), options)
        self.unseen = self.free.on(self.held)
        self.scales: dict[str, float] = {}
        self.biases: dict[str, np.ndarray] = {}
        self.sums: list[str] = []
        self.share = cache(self._share)
        self.single: dict[str, Trial] = {}  # of the tensor that was measured last

    def result(self) -> ModelProto:
        """The model. Raises ModelError where no layer is left in eight bits."""
        self.trial = self._trial(self.found, {})
        choices = []
        for method, scales in self._scales():
            self.method, self.scales = method, scales
            choices.append(self._choice())
            if choices[-1].error <= self.tolerance:
                break
        self.single.clear()
        self.after, self.method, self.scales, self.biases, dropped = min(choices, key=lambda choice: choice.error)
        self._drop(dropped)
        if not self.found:
            raise ModelError(self._nothing_left())
        if self.after > self.tolerance and not self.options.allow_inexact:
            raise ModelError(self._too_far(self.after))
        read = {layer.x.name for layer in self.found}
        self.sums = [item.name for item in dropped if item.is_sum and item.name in read]
        return Writing(self.bare, self.model, self._grids(self.found), self._manner(self.sums)).model

    def _choice(self) -> Choice:
        """The pairs that are dropped with the scales, and the error on samples that chose neither."""
        plain = self._trial(self.found, {})
        self.biases = self._biases()
        self.trial = self._trial(self.found, self.biases)
        every = self._switches([])
        if plain.error(every, self.scales) < self.trial.error(every, self.scales):
            self.biases, self.trial = {}, plain
        items = cache(self._items)  # measured where pairs have to be dropped
        for aim in AIMS:
            dropped = self._dropped(aim * self.tolerance, items)
            unseen = Trial(self.trial.writing, self.unseen, self.trial.runner)
            error = unseen.error(self._switches(dropped), self.scales)
            if error <= self.tolerance:
                break
        return Choice(error, self.method, self.scales, self.biases, dropped)

    def _trial(self, found: Iterable[Layer], biases: Mapping[str, np.ndarray]) -> Trial:
        manner = Manner(self.kind, biases=biases, switched=True)
        return Trial(Writing(self.bare, self.model, self._grids(found, 1.0), manner), self.free)

    def _manner(self, apart: Collection[str]) -> Manner:
        factored = self.options.target.rtx and self.options.way != "" and self.kind is INT8
        return Manner(self.kind, factored=factored, apart=apart, biases=self.biases)

    def _layers(self) -> list[Layer]:
        """The layers that may compute in eight bits. Raises ModelError where there are none."""
        every = list(layers(self.model))
        lean = self.options.tune and self.kind is INT8
        whys = {k.node: left_out(k, self.model, self.options.target, slow=not lean) for k in every}
        if lean:  # what saves no bytes is not tried
            sizes = measured_sizes(self.model, next(iter(self.calibration)))
            able = {node for node, why in whys.items() if not why}
            chosen = Traffic(every, self.model, sizes.get, wide=2 if self.options.way else 4).chosen(able)
            whys |= dict.fromkeys(able - chosen, HEAVIER)
        self.left = {node: why for node, why in whys.items() if why}
        found = [layer for layer in every if layer.node not in self.left]
        for layer in found:
            weights = self.model.constant(layer.weights)
            if weights is not None and not np.isfinite(weights).all():
                raise ModelError(f"the weights '{layer.weights.name}' have numbers that are not finite: no scale fits.")
        if not found:
            said = "; ".join(dict.fromkeys(self.left.values())) or "it has no Conv, MatMul or Gemm with fp32 weights"
            raise ModelError(f"no layer of the model can compute in {self.kind.name}: {said}.")
        return found

    # ---- calibration ----

    def _counted(self) -> dict[str, Histogram]:
        """The numbers that layers read, from one pass over the samples."""
        read = dict.fromkeys(layer.x.name for layer in self.found)
        others = float_tensors(self.model) if self.options.write_calibration_cache is not None else ()
        names = list(read | dict.fromkeys(value.name for value in others))
        found = {name: Histogram() for name in names}
        given = {info.name for info in self.bare.model.graph.input}
        for name in given & read.keys():
            if not all(np.isfinite(feeds[name]).all() for feeds in self.held):
                raise ModelError(f"'{name}' has numbers that are not finite in the data: no scale fits it.")
        parts: list[list[str]] = []
        runners: list[Runner] = []
        for turn, feeds in enumerate(self.calibration):
            self.progress("calibrating", turn, self.count)
            for name in given & found.keys():
                found[name].add(feeds[name])
            if not runners:
                parts = self._parts([name for name in names if name not in given], feeds)
                runners = [Runner(returning(self.bare.model, part), threads=THREADS) for part in parts]
            for part, runner in zip(parts, runners, strict=True):
                for name, array in zip(part, run_on_data(runner, feeds), strict=True):
                    found[name].add(array)
            for name in read:
                if not np.isfinite(found[name].largest):
                    raise ModelError(
                        f"'{name}' has numbers that are not finite, in sample {turn + 1} of the data: no scale fits it."
                    )
        return found

    def _parts(self, names: Sequence[str], feeds: Feeds) -> list[list[str]]:
        """The tensors in parts that one run may return: memory is the limit."""
        probe = Runner(returning(self.bare.model, names), threads=THREADS)
        sizes = [a.size for a in run_on_data(probe, feeds)] if names else []
        self.sizes = dict(zip(names, sizes, strict=True))
        parts: list[list[str]] = []
        total = AT_ONCE
        for name, size in zip(names, sizes, strict=True):
            total += size
            if total > AT_ONCE:
                parts.append([])
                total = size
            parts[-1].append(name)
        return parts

    def _leave_dead(self) -> None:
        dead = {name for name, found in self.histograms.items() if not found.largest}
        self.left |= {layer.node: DEAD for layer in self.found if layer.x.name in dead}
        self.found = [layer for layer in self.found if layer.x.name not in dead]
        if not self.found:
            named = ", ".join(f"'{name}'" for name in sorted(dead))
            raise ModelError(f"no layer of the model can compute in {self.kind.name}: {DEAD}: {named}.")

    # ---- scales ----

    def _scales(self) -> list[tuple[str, dict[str, float]]]:
        """The scale of each tensor: by the method that the user names, else by the BEST with the least error, and max.

        A method may cut off what the samples that choose do not have, and others do: then the next is tried.
        """
        names = list(self.trial.writing.switches)
        asked = self.options.calibration
        methods = [asked] if asked else ["max", "mse"] if self.kind is FP8 else list(METHODS)
        by_method = {m: {n: float(scale_of(self.histograms[n], m, self.kind)) for n in names} for m in methods}
        if asked:
            return [(asked, by_method[asked])]
        sets = {**by_method, "the best of each tensor": self._best_of_each(by_method)}
        every = self._switches([])
        errors = {m: self.trial.error(every, scales) for m, scales in sets.items()}
        best = sorted(sets, key=errors.__getitem__)[:BEST]
        return [(method, sets[method]) for method in dict.fromkeys([*best, "max"])]

    def _best_of_each(self, by_method: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """For each tensor the scale with which its pair alone moves the outputs least."""
        found: dict[str, float] = {}
        names = list(self.trial.writing.switches)
        for turn, name in enumerate(names):
            self.progress("choosing scales", turn, len(names))
            candidates: list[float] = []
            for scales in by_method.values():
                if all(abs(scales[name] - other) > ALIKE * other for other in candidates):
                    candidates.append(scales[name])
            errors = [self.share(Item(name), scale) for scale in candidates] if len(candidates) > 1 else [0.0]
            found[name] = candidates[int(np.argmin(errors))]
        return found

    def _biases(self) -> dict[str, np.ndarray]:
        """What eight bits alone change the mean of each channel of a Conv by, from one pass over the samples."""
        convs = [layer for layer in self.found if layer.node.op == "Conv"]
        if not convs:
            return {}
        runner = Runner(alone(self.bare.model, self.model, convs, self.scales, self.kind), threads=THREADS)
        sums = [np.zeros(layer.sizes[0]) for layer in convs]
        part = self.calibration.part(0, 1, HELD)
        for feeds in part:
            for total, means in zip(sums, run_on_data(runner, feeds), strict=True):
                total += means.reshape(means.shape[0], -1).mean(axis=0)
        return {k.y.name: (total / len(part)).astype(np.float32) for k, total in zip(convs, sums, strict=True)}

    def all_scales(self) -> dict[str, float]:
        """The scale of each tensor that was counted, in the order of the model.

        What a layer in floating point reads has none: TensorRT computes a layer without a scale in floating point.
        """
        method = self.method if self.method in METHODS else "mse"
        floats = {node.inputs[0] for node in self.left}
        found: dict[str, float] = {}
        for value in float_tensors(self.model):
            counts = self.histograms.get(value.name)
            if counts is None or value in floats or not 0 < counts.largest < np.inf:
                continue
            found[value.name] = self.scales.get(value.name) or float(scale_of(counts, method, self.kind))
        return found

    # ---- dropping ----

    def _items(self) -> list[Item]:
        """What a search may drop, that first which alone moves the outputs most."""
        writing = self.trial.writing
        items = [*map(Item, writing.switches), *(Item(name, is_sum=True) for name in writing.sums)]
        return sorted(items, key=lambda item: self.share(item, self.scales[item.name]), reverse=True)

    def _share(self, item: Item, scale: float) -> float:
        """The error that one pair makes alone: in its layers, or in an Add, too."""
        trial = self._single(item.name)
        sums = dict.fromkeys(trial.writing.sums.values(), item.is_sum)
        return trial.error(dict.fromkeys(trial.writing.switches.values(), True) | sums, {item.name: scale}, most=2)

    def _single(self, name: str) -> Trial:
        """The model with the pair of one tensor: it runs in a third of the time of the one with all."""
        if name not in self.single:
            self.single.clear()  # before another one takes as much memory
            self.single[name] = self._trial([layer for layer in self.found if layer.x.name == name], {})
        return self.single[name]

    def _dropped(self, aim: float, items: Callable[[], list[Item]]) -> frozenset[Item]:
        """The fewest of the pairs without which the error is below `aim`."""
        if self.trial.error(self._switches([]), self.scales) <= aim:
            return frozenset()
        users = Counter(layer.x.name for layer in self.found)

        def cost(dropped: frozenset[Item]) -> float:
            return sum(SUM if item.is_sum else users[item.name] for item in dropped)

        def score(dropped: frozenset[Item]) -> float:
            return self.trial.error(self._switches(dropped), self.scales) / aim

        search: Search[Item] = Search(score, cost, budget=self._budget(), progress=self.progress)
        return search.cheapest(items(), [frozenset()])

    def _budget(self) -> int:
        """How many sets a search may measure: as many as take about SECONDS, counted in the model's arithmetic."""
        products = sum(
            self.sizes.get(k.x.name, 0) * float(k.sizes[k.channels] * np.prod(k.sizes[2:])) for k in self.found
        )
        return max(FEWEST, min(MOST, int(SECONDS * PRODUCTS / max(CHOOSE * products, 1.0))))

    def _switches(self, dropped: Collection[Item]) -> dict[str, bool]:
        """Which of the trial's inputs are true where some items are dropped."""
        writing = self.trial.writing
        on = {switch: Item(name) not in dropped for name, switch in writing.switches.items()}
        return on | {switch: not {Item(name), Item(name, True)} & set(dropped) for name, switch in writing.sums.items()}

    def _drop(self, dropped: Iterable[Item]) -> None:
        names = {item.name for item in dropped if not item.is_sum}
        why = TOO_FAR.format(self.kind.name)
        self.left |= {layer.node: why for layer in self.found if layer.x.name in names}
        self.found = [layer for layer in self.found if layer.x.name not in names]

    def _grids(self, found: Iterable[Layer], scale: float | None = None) -> dict[Layer, Grid]:
        steps = {k: self.scales[k.x.name] if scale is None else scale for k in found}
        top = self.kind.levels
        return {layer: Grid(-top * step, top * step, np.float32(step)) for layer, step in steps.items()}

    # ---- what the report has ----

    def _nothing_left(self) -> str:
        return (
            f"no layer computes in {self.kind.name} within the tolerance {self.tolerance:g} of the error."
            f"{self._saturated()} Try a larger --tolerance, or more samples with --data."
        )

    def _too_far(self, error: float) -> str:
        return (
            f"the error on samples that the calibration did not use is {error:.2g}, above the tolerance "
            f"{self.tolerance:g}.{self._saturated()} Give more samples with --data, or a larger --tolerance."
        )

    def _saturated(self) -> str:
        """A sentence on the tensor that those samples saturate most; empty where the scales hold all numbers."""
        tops = dict.fromkeys(self.scales, 0.0)
        for name, array in numbers_of(self.bare.model, tops, self.held):
            tops[name] = max(tops[name], float(np.abs(array).max(initial=0)))
        ends = {name: self.kind.levels * scale for name, scale in self.scales.items()}
        worst = max(tops, key=lambda name: tops[name] / ends[name], default="")
        if not worst or tops[worst] <= SATURATES * ends[worst]:
            return ""
        top, end = tops[worst], ends[worst]
        return f" '{worst}' saturates: its numbers there are up to {top:.3g}, and its scale holds {end:.3g}."

    def error_of(self, written: ModelProto) -> float:
        """The error of a written model on the samples that the calibration did not use."""
        standard = rounded(with_functions(written)) or with_functions(written)
        runner = Runner(standard, threads=THREADS)
        return self.unseen.error(lambda feeds: runner.run(fed(standard, feeds)))

    def check(self, written: ModelProto) -> str:
        """A sentence on the error of the written model. Raises ModelError where it is above the tolerance."""
        error = self.error_of(written)
        if error > self.tolerance and not self.options.allow_inexact:
            raise ModelError(self._too_far(error))
        return f"the written model, run whole next to the original on these samples: the outputs change by {error:.2g}"

    def said(self) -> list[str]:
        """What computes in eight bits, what does not and why, and the error."""
        int8, every, name = len(self.found), len(self.found) + len(self.left), self.kind.name
        other = "the one sample" if self.count == 1 else f"{counted(len(self.held), 'other sample')}"
        lines = [
            f"{int8} of {counted(every, 'layer')} with weights {'computes' if int8 == 1 else 'compute'} in {name}, by "
            f"ranges of {counted(len(self.calibration), 'sample')} (method: {self.method}); on {other} the outputs "
            f"change by {self.after:.2g} (the root mean square, relative to that of the outputs; the tolerance is "
            f"{self.tolerance:g})"
        ]
        if self.count == 1:
            lines.append("one sample gave the ranges and the error: on others the error may be larger, so give more")
        by_why = grouped((why, node.label) for node, why in self.left.items())
        lines += [f"{counted(len(n), 'layer')} in floating point: {why}: {', '.join(n)}" for why, n in by_why.items()]
        if self.sums:
            lines.append(
                f"{counted(len(self.sums), 'tensor')} in floating point for an Add, and in {name} for a layer: "
                f"{', '.join(self.sums)}"
            )
        return lines


def _split(samples: Samples, count: int) -> tuple[Samples, Samples]:
    """Those for the calibration, and those for the error."""
    if count == 1:
        return samples, samples
    every = min(EVERY, count)
    return samples.without(every - 1, every), samples.part(every - 1, every, HELD)


def alone(
    model: ModelProto, index: Model, convs: Iterable[Layer], scales: Mapping[str, float], kind: Eight
) -> ModelProto:
    """A model that returns how far the mean of each channel of each Conv moves where that one alone has eight bits."""
    probe = returning(model, ())
    fresh = fresh_name(probe)
    zero = hold(probe, fresh("quantized", "zero"), kind.steps(np.zeros(())))
    pairs: dict[str, str] = {}
    for layer in convs:
        x, y = layer.x.name, layer.y.name
        if x not in pairs:
            scale, steps, pairs[x] = (
                hold(probe, fresh(x, "scale"), np.array(scales[x], np.float32)),
                fresh(x, "steps"),
                fresh(x, "rounded"),
            )
            probe.graph.node.append(helper.make_node("QuantizeLinear", [x, scale, zero], [steps]))
            probe.graph.node.append(helper.make_node("DequantizeLinear", [steps, scale, zero], [pairs[x]]))
        numbers = index.constant(layer.weights)
        assert numbers is not None
        by_channel = channel_scales(numbers, layer.channels, kind.levels).reshape(-1, *[1] * (numbers.ndim - 1))
        rounded = kind.steps(numbers / by_channel).astype(np.float32) * by_channel
        node = copied(layer.node.proto)
        node.input[0], node.input[1] = pairs[x], hold(probe, fresh(y, "weights"), rounded)
        node.name, node.output[0] = "", fresh(y, "alone")
        gap, mean = fresh(y, "gap"), fresh(y, "mean")
        probe.graph.node.append(node)
        probe.graph.node.append(helper.make_node("Sub", [y, node.output[0]], [gap]))
        probe.graph.node.append(helper.make_node("GlobalAveragePool", [gap], [mean]))
        probe.graph.output.append(ValueInfoProto(name=mean))
    return probe


class Trial:
    """The model with pairs that inputs switch on, next to the model without any."""

    def __init__(self, writing: Writing, distances: Distances, runner: Runner | None = None) -> None:
        self.writing, self.distances = writing, distances
        self.runner = runner or Runner(writing.model, threads=THREADS)

    def error(self, switches: Mapping[str, bool], scales: Mapping[str, float], most: int | None = None) -> float:
        """The error of the outputs with some pairs."""
        given = {name: np.array(on) for name, on in switches.items()}
        given |= {self.writing.scales[name]: np.array(scale, np.float32) for name, scale in scales.items()}
        return self.distances.error(lambda feeds: self.runner.run({**feeds, **given}), most)
