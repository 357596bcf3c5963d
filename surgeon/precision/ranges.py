"""The range of every tensor on calibration data: one run of the fp32 model with its intermediate tensors as outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper

from surgeon.errors import ModelError, UsageError, did_you_mean
from surgeon.ir.model import Model
from surgeon.ir.run import Runner, Unrunnable
from surgeon.precision.half import FAMILY
from surgeon.proof.feeds import Feeds

AT_ONCE = 256  # tensors fetched by one run: memory, not time, is what limits it


@dataclass(slots=True)
class Ranges:
    """The largest |number| of each tensor by name, and the smallest that is not 0, over all feeds."""

    _largest: dict[str, float] = field(default_factory=dict)
    _smallest: dict[str, float] = field(default_factory=dict)
    feeds: int = 0

    def largest(self, name: str) -> float | None:
        """The largest |number| of a tensor; None where it was not measured (inside a body, say), inf where a number was
        not finite."""
        return self._largest.get(name)

    def smallest(self, name: str) -> float | None:
        """The smallest |number| of a tensor that is not 0; None where nothing else was measured."""
        return self._smallest.get(name)

    def add(self, name: str, array: np.ndarray) -> None:
        """Note the range of a tensor on one feed."""
        size = np.abs(array.astype(np.float64))
        self._largest[name] = max(self._largest.get(name, 0.0), float(np.nan_to_num(size, nan=np.inf).max(initial=0.0)))
        there = size[size > 0]
        if there.size:
            self._smallest[name] = min(self._smallest.get(name, np.inf), float(there.min()))


def measure(model: ModelProto, data: Iterable[Feeds], base: Path | None = None) -> Ranges:
    """The range of each float tensor of the main graph, from a run of the model on every item of `data`.

    data  {input name: array} each
    base  the folder of the model's external weights

    Raises UsageError where the data does not fit the model's inputs, ModelError where ONNX Runtime does not run it.
    """
    index = Model(model, base)
    outputs = [v for n in index.graph.live() for v in n.outputs if v is not None]
    names = [v.name for v in outputs if index.dtype(v) in FAMILY]
    found = Ranges()
    items = [check_feeds(model, feeds) for feeds in data]
    if not items:
        raise UsageError("the calibration data holds no inputs.")
    for feeds in items:
        for name, array in feeds.items():
            if array.dtype.kind == "f":
                found.add(name, array)
    for start in range(0, len(names), AT_ONCE):
        part = names[start : start + AT_ONCE]
        for results in _run(model, part, items, base):
            for name, array in zip(part, results, strict=True):
                found.add(name, array)
    found.feeds = len(items)
    return found


def _run(model: ModelProto, names: list[str], items: list[Feeds], base: Path | None) -> Iterator[list[np.ndarray]]:
    """The tensors of those names on each item."""
    probe = ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(ValueInfoProto(name=n) for n in names)
    try:
        runner = Runner(probe, base)
        for feeds in items:
            yield runner.run(feeds)
    except Unrunnable as error:
        raise ModelError(f"ONNX Runtime does not run the model on the calibration data: {error}") from None


def check_feeds(model: ModelProto, feeds: Feeds) -> Feeds:
    """The arrays of the model's inputs, in the inputs' types. Raises UsageError on one that is missing or unknown."""
    weights = {t.name for t in model.graph.initializer}
    inputs = {i.name: i for i in model.graph.input if i.name not in weights}
    for name in feeds:
        if name not in inputs:
            raise UsageError(
                f"the data has an array '{name}', and the model no such input.{did_you_mean(name, inputs)}"
            )
    for name in inputs:
        if name not in feeds:
            raise UsageError(f"the data has no array for the input '{name}'; it has {', '.join(feeds) or 'none'}.")
    types = {n: helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for n, i in inputs.items()}
    return {n: np.asarray(feeds[n]).astype(types[n], copy=False) for n in inputs}


def load_data(path: str | Path) -> list[Feeds]:
    """Inputs from `x.npz` (an array for each input) or from a Polygraphy data loader script (a function `load_data`).

    Raises UsageError where the file is neither.
    """
    where = Path(path)
    if not where.is_file():
        raise UsageError(f"there is no data file '{where}'.")
    if where.suffix == ".npz":
        try:
            with np.load(where) as arrays:
                return [{name: arrays[name] for name in arrays.files}]
        except (OSError, ValueError, EOFError, AttributeError, BadZipFile) as error:  # AttributeError: one array alone
            raise UsageError(
                f"'{where}' does not hold arrays: {str(error).rstrip('.')}. Write one with numpy.savez(path, **inputs)."
            ) from None
    if where.suffix != ".py":
        raise UsageError(f"'{where}' is neither an .npz file nor a Polygraphy data loader script (.py).")
    return _from_script(where)


def _from_script(where: Path) -> list[Feeds]:
    """What the script's `load_data()` gives: the convention of `polygraphy run --data-loader-script`."""
    from polygraphy.exception import PolygraphyException
    from polygraphy.logger import G_LOGGER
    from polygraphy.mod import import_from_script

    try:
        with G_LOGGER.verbosity(G_LOGGER.CRITICAL + 1):  # what it would say is in the error
            loader: Any = import_from_script(str(where), "load_data")
    except PolygraphyException as error:
        raise UsageError(f"'{where}' defines no function load_data(): {str(error).strip().splitlines()[0]}") from None
    except Exception as error:  # the user's own code
        raise UsageError(f"'{where}' failed: {type(error).__name__}: {error}.") from None
    try:
        return [{name: np.asarray(array) for name, array in feeds.items()} for feeds in loader()]
    except Exception as error:
        raise UsageError(f"load_data() of '{where}' failed: {type(error).__name__}: {error}.") from None


__all__ = ["Ranges", "check_feeds", "load_data", "measure"]
