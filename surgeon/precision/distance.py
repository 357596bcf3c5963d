"""How far the outputs of a quantized model are from the original's, over many samples, as one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy

import numpy as np
from onnx import ModelProto

from surgeon.ir.run import Runner, must_run
from surgeon.pipeline.options import Options
from surgeon.precision.comparison import score
from surgeon.precision.data import Samples, load_metric
from surgeon.precision.ranges import THREADS
from surgeon.precision.standard import kinds_of, row_gaps, squares
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import Feeds

Run = Callable[[Feeds], Sequence[np.ndarray]]
KEPT = 1 << 24  # elements of the original's outputs that stay in memory


class Distances:
    """A model on some samples, from which the outputs of others are measured.

    The distance of an output is the root of the mean square of the differences, relative to the root of the mean square
    of the numbers, over all samples. Of integers it is the share that differs. Rows that the model chooses are compared
    with the nearest row. A user's own score takes its place: the largest of any sample.
    """

    def __init__(self, model: ModelProto, samples: Samples, options: Options) -> None:
        self.samples = samples
        self._metric = load_metric(options.metric) if isinstance(options.metric, str) else options.metric
        self.names = [output.name for output in model.graph.output]
        self.chosen = kinds_of(model).chosen
        with must_run("ONNX Runtime does not run the model"):
            self._runner = Runner(model, threads=THREADS)
        self._kept: list[Sequence[np.ndarray]] = []

    def on(self, samples: Samples) -> Distances:
        """The same model on other samples."""
        other = copy(self)
        other.samples, other._kept = samples, []
        return other

    def expected(self, turn: int, feeds: Feeds) -> Sequence[np.ndarray]:
        """The outputs of the model for the sample with that index."""
        if turn < len(self._kept):
            return self._kept[turn]
        with must_run("ONNX Runtime does not run the model on the data"):
            found = self._runner.run(feeds)
        if turn == len(self._kept) and sum(a.size for outputs in self._kept for a in outputs) < KEPT:
            self._kept.append(found)
        return found

    def error(self, run: Run, most: int | None = None) -> float:
        """The largest distance of an output; inf where one has another shape, or has become inf or NaN."""
        if self._metric is not None:
            return max(self._scores(run, most), default=0.0)
        return max(self.errors(run, most), default=0.0)

    def _scores(self, run: Run, most: int | None) -> Iterator[float]:
        """The user's own score of each sample."""
        assert self._metric is not None
        for turn, feeds in enumerate(self.samples.part(0, 1, most)):
            sides = (dict(zip(self.names, arrays, strict=True)) for arrays in (self.expected(turn, feeds), run(feeds)))
            yield score(self._metric, feeds, *sides)

    def errors(self, run: Run, most: int | None = None) -> list[float]:
        """The distance of each output."""
        apart, size = np.zeros(len(self.names)), np.zeros(len(self.names))
        for turn, feeds in enumerate(self.samples.part(0, 1, most)):
            for index, (now, exact) in enumerate(zip(run(feeds), self.expected(turn, feeds), strict=True)):
                added = _squares(now, exact, index in self.chosen)
                apart[index] += added[0]
                size[index] += added[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            return [float(x) for x in np.where(apart > 0, np.sqrt(apart / size), 0.0)]

    def score(self) -> Callable[..., float]:
        """A score of one sample, as of --metric: the distance of an output, relative to its numbers on all samples."""
        sizes = np.zeros(len(self.names))
        for turn, feeds in enumerate(self.samples):
            outputs = self.expected(turn, feeds)
            sizes += [
                _squares(exact, exact, k in self.chosen)[1] / len(self.samples) for k, exact in enumerate(outputs)
            ]

        def root_mean_square(
            feeds: Feeds, expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]
        ) -> float:
            sides = zip(found.values(), expected.values(), strict=True)
            sums = (_squares(now, exact, k in self.chosen)[0] for k, (now, exact) in enumerate(sides))
            parts = (
                math.sqrt(apart / size) if size else math.inf for apart, size in zip(sums, sizes, strict=True) if apart
            )
            return max(parts, default=0.0)

        return root_mean_square


def _squares(now: np.ndarray, exact: np.ndarray, is_chosen: bool) -> tuple[float, float]:
    """The sum of the squares of the differences, and that of the numbers."""
    if now.shape != exact.shape and not (is_chosen and now.ndim == exact.ndim and now.size):
        return np.inf, 1.0
    if not is_float(exact.dtype):
        return (float((now != exact).sum()), float(exact.size)) if now.shape == exact.shape else (1.0, 1.0)
    if not is_chosen:
        return squares(now, exact)
    wide = exact.astype(np.float64)
    numbers = wide[np.isfinite(wide)]
    gaps = row_gaps(now, exact) * float(np.abs(numbers).max(initial=0.0))
    return float((gaps**2).sum()) * (exact.size / max(gaps.size, 1)), float((numbers**2).sum())
