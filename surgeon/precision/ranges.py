"""The range of every tensor on calibration data: one run of the fp32 model with its intermediate tensors as outputs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto

from surgeon.ir.model import Model
from surgeon.ir.protos import returning
from surgeon.ir.run import Runner, must_run
from surgeon.precision.formats import FAMILY, computes_in_half
from surgeon.precision.rounding import cast_external
from surgeon.proof.exact import widened
from surgeon.proof.feeds import Feeds

THREADS = 2  # of ONNX Runtime: with a fixed number, results do not depend on the machine
AT_ONCE = 256  # tensors that the first run returns
CHUNK = 1 << 16  # elements whose range is found in the processor's cache
MOST_AT_ONCE = 1 << 26  # bytes that a run should return: memory is the limit, not time


@dataclass(slots=True)
class Ranges:
    """The largest |number| of each tensor by name, and the smallest that is not 0, over all feeds."""

    _largest: dict[str, float] = field(default_factory=dict)
    _smallest: dict[str, float] = field(default_factory=dict)
    _elements: dict[str, int] = field(default_factory=dict)
    feeds: int = 0

    def largest(self, name: str) -> float | None:
        """The largest finite |number| of a tensor; None where it was not measured, inside a body for example."""
        return self._largest.get(name)

    def smallest(self, name: str) -> float | None:
        """The smallest |number| of a tensor that is not 0; None where nothing else was measured."""
        return self._smallest.get(name)

    def elements(self, name: str) -> int:
        """How many elements a tensor has; 0 where it was not measured."""
        return self._elements.get(name, 0)

    def add(self, name: str, array: np.ndarray) -> None:
        """Note the range of a tensor on one feed. What is not finite in fp32 stays so in any type: a mask of -inf, and
        NaN in the row that it hides."""
        self._elements[name] = max(self._elements.get(name, 0), array.size)
        largest, smallest, flat = 0.0, np.inf, array.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            size = np.abs(flat[start : start + CHUNK])
            part = float(size.max())
            largest = max(largest, part if np.isfinite(part) else float(size[np.isfinite(size)].max(initial=0)))
            bits = size.view(f"u{size.itemsize}") - 1  # in the order of the numbers, and of 0 the largest
            smallest = min(smallest, float(size[bits.argmin()]) or np.inf)
        self._largest[name] = max(self._largest.get(name, 0.0), largest)
        if smallest < np.inf:
            self._smallest[name] = min(self._smallest.get(name, np.inf), smallest)


def measure(model: ModelProto, data: Iterable[Feeds], base: Path | None = None) -> Ranges:
    """The range of each float tensor of the main graph, from a run of the model on every item of `data`.

    A model in half precision runs in fp32: what overflows in it has a range then, and what is inf or NaN in any type
    has none.

    data  inputs by name; it is iterated several times
    base  the folder of the model's external weights

    Raises ModelError where ONNX Runtime does not run the model on them.
    """
    if computes_in_half(model):
        model = widened(cast_external(model, base), TensorProto.FLOAT)
    index = Model(model, base)
    outputs = [v for n in index.graph.live() for v in n.outputs if v is not None]
    names = [v.name for v in outputs if index.dtype(v) in FAMILY]
    found = Ranges()
    for feeds in data:
        found.feeds += 1
        for name, array in feeds.items():
            if array.dtype.kind == "f":
                found.add(name, array)
    start, count = 0, AT_ONCE
    while start < len(names):
        part, held = names[start : start + count], 0
        for results in _run(model, part, data, base):
            held = max(held, sum(array.nbytes for array in results))
            for name, array in zip(part, results, strict=True):
                found.add(name, array)
        start += count
        count = max(AT_ONCE, count * MOST_AT_ONCE // max(held, 1))
    return found


def _run(model: ModelProto, names: list[str], data: Iterable[Feeds], base: Path | None) -> Iterator[list[np.ndarray]]:
    """The tensors of those names on each item."""
    with must_run("ONNX Runtime does not run the model on the calibration data"):
        floats = {i.name for i in model.graph.input if i.type.tensor_type.elem_type == TensorProto.FLOAT}
        runner = Runner(returning(model, names), base, threads=THREADS)
        for feeds in data:
            yield runner.run(
                {n: a.astype(np.float32) if a.dtype.itemsize == 2 and n in floats else a for n, a in feeds.items()}
            )
