"""The numbers of a tensor over many samples, as a histogram of their sizes, and the scale that each method finds.

A histogram has as many bins however many samples there are, so one pass over them suffices and memory does not grow.
"""

from collections.abc import Callable, Mapping

import numpy as np

from surgeon.pipeline.quantizers import Eight

BINS = 4096  # from 0 to the end, which doubles where a larger number comes
AT_ONCE = 1 << 20  # elements
PERCENT = 99.99
CANDIDATES = 48  # ends between FIRST of the largest number and all of it
FIRST = 0.15
LEVELS_OF_ENTROPY = 128  # of int8 on one side of 0


class Histogram:
    """The sizes of the numbers of a tensor.

    counts   how many are in each bin
    end      of the last bin; 0 before any number but 0
    largest  the largest size; inf or NaN where a number was not finite
    """

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.end = self.largest = 0.0

    def add(self, array: np.ndarray) -> None:
        """Count the numbers of an array."""
        flat = array.reshape(-1)
        for start in range(0, flat.size, AT_ONCE):
            self._add(np.abs(flat[start : start + AT_ONCE].astype(np.float32, copy=False)))

    def _add(self, sizes: np.ndarray) -> None:
        top = float(sizes.max(initial=0.0))
        if not np.isfinite(top) or not np.isfinite(self.largest):
            self.largest = top if not np.isfinite(top) else self.largest
            return
        self.largest = max(self.largest, top)
        if not self.largest:
            self.counts[0] += sizes.size
            return
        if not self.end:
            self.end = self.largest
        while self.end < top:
            self.counts[: BINS // 2] = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts[BINS // 2 :] = 0
            self.end *= 2
        bins = np.minimum(sizes.astype(np.float64) * (BINS / self.end), BINS - 1).astype(np.intp)
        self.counts += np.bincount(bins, minlength=BINS)

    @property
    def middles(self) -> np.ndarray:
        """The number in the middle of each bin."""
        return (np.arange(BINS) + 0.5) * (self.end / BINS)


def _percentile(found: Histogram, kind: Eight) -> float:
    """The end below which PERCENT of the numbers are."""
    below = np.cumsum(found.counts)
    last = int(np.searchsorted(below, below[-1] * PERCENT / 100))
    return min(found.largest, (last + 1) * found.end / BINS)


def _mse(found: Histogram, kind: Eight) -> float:
    """The end with the least mean square of the error."""
    ends = found.largest * np.geomspace(FIRST, 1.0, CANDIDATES)
    used = found.counts > 0
    sizes, counts = found.middles[used], found.counts[used]
    scales = ends[:, None] / kind.levels
    errors = ((kind.steps(sizes / scales).astype(np.float64) * scales - sizes) ** 2 * counts).sum(axis=1)
    return float(ends[int(errors.argmin())])


def _entropy(found: Histogram, kind: Eight) -> float:
    """The end with the least relative entropy between the numbers and their 128 levels, as TensorRT's calibrator."""
    counts = found.counts.astype(np.float64)
    counts[0] = counts[1]  # zeros are exact at every scale, and a Relu may make most numbers 0
    used = int(np.ceil(found.largest * BINS / found.end))
    first = min(LEVELS_OF_ENTROPY, used)
    ends = np.unique(np.linspace(first, used, CANDIDATES).astype(int))
    return float(min(ends, key=lambda last: _divergence(counts, last)) / used * found.largest)


def _divergence(counts: np.ndarray, last: int) -> float:
    """Between the numbers cut off after a bin, and those put into the levels."""
    p = counts[:last].copy()
    outside = counts[last:].sum()
    is_used = p > 0
    level = np.arange(last) * LEVELS_OF_ENTROPY // last
    sums = np.bincount(level, weights=p, minlength=LEVELS_OF_ENTROPY)
    places = np.bincount(level, weights=is_used, minlength=LEVELS_OF_ENTROPY)
    q = np.where(is_used, sums[level] / np.maximum(places[level], 1), 0)
    p[-1] += outside
    if not p.sum() or not q.sum():
        return np.inf
    p, q = p / p.sum(), q / q.sum()
    both = (p > 0) & (q > 0)
    missed = p[(p > 0) & ~both].sum()
    return float((p[both] * np.log(p[both] / q[both])).sum() + missed * np.log(1 / np.finfo(np.float32).eps))


METHODS: Mapping[str, Callable[[Histogram, Eight], float]] = {
    "max": lambda found, kind: found.largest,
    "percentile": _percentile,
    "entropy": _entropy,
    "mse": _mse,
}


def scale_of(found: Histogram, method: str, kind: Eight) -> np.ndarray:
    """The scale of a tensor by one of METHODS. The largest number must be finite and above 0."""
    return np.asarray(METHODS[method](found, kind) / kind.levels, np.float32)
