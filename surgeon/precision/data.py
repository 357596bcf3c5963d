"""Samples: inputs that the user gives, read one at a time, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
from onnx import ModelProto, helper

from surgeon.errors import UsageError, did_you_mean
from surgeon.ir.protos import given_inputs
from surgeon.proof.feeds import Feeds

Load = Callable[[], Feeds]  # reads a sample
# Of a variant of a sample: noise, by the standard deviation of its numbers, their distance to their mean, and to 0.
NOISE, CONTRAST, DARK = 0.1, 0.5, 0.4
FEW = 8  # elements of an axis that is not shifted, such as channels


class Samples:
    """Several samples, each {input name: array}. Iterating reads them again.

    loads  returns a function for each sample, in order, that reads it
    """

    def __init__(self, loads: Callable[[], Iterable[Load]]) -> None:
        self._loads = loads
        self._length: int | None = None

    @classmethod
    def of(cls, items: Iterable[Mapping[str, np.ndarray]]) -> Samples:
        """Samples in memory."""
        kept = [dict(item) for item in items]
        return cls(lambda: [partial(dict, item) for item in kept])

    def __iter__(self) -> Iterator[Feeds]:
        for load in self._loads():
            yield load()

    def __len__(self) -> int:
        if self._length is None:  # to count may be to read every file
            self._length = sum(1 for _ in self._loads())
        return self._length

    def part(self, start: int, step: int, most: int | None = None) -> Samples:
        """Every `step`-th sample from that of number `start` on, `most` of them."""
        return Samples(lambda: islice((load for k, load in enumerate(self._loads()) if k % step == start), most))

    def picked(self, numbers: Sequence[int]) -> Samples:
        """The samples of these numbers, in their order."""

        def loads() -> list[Load]:
            found = list(self._loads())
            return [found[number] for number in numbers]

        return Samples(loads)

    def without(self, start: int, step: int) -> Samples:
        """All samples but those of `part(start, step)`."""
        return Samples(lambda: (load for k, load in enumerate(self._loads()) if k % step != start))

    def varied(self, rows: Collection[str] = ()) -> Samples:
        """The samples, and as many made of them as make SEVERAL; see VARIANTS. Integers stay, but for the order of row
        numbers.

        rows  the names of inputs that are row numbers of a table, such as token ids

        Few samples say little about the error on others: how far the errors of these are apart says more.
        """

        def loads() -> Iterator[Load]:
            given = list(self._loads())
            yield from given
            for number, change in enumerate(VARIANTS[: max(0, SEVERAL - len(given))]):
                yield partial(_variant, given[number % len(given)], change, number, rows)

        return Samples(loads)

    def checked(self, model: ModelProto) -> Samples:
        """The samples in the types of a model's inputs.

        Where the arrays of a sample have an axis more than the inputs, it is that of several samples. Iterating raises
        UsageError where an array is missing or unknown.
        """

        ranks = _ranks(model)

        def loads() -> Iterator[Load]:
            for load in self._loads():
                first = load()
                if not first or any(ranks.get(name) != np.ndim(array) - 1 for name, array in first.items()):
                    yield partial(check_feeds, model, first)
                    continue
                for k in range(min(len(array) for array in first.values())):
                    yield partial(check_feeds, model, {name: array[k] for name, array in first.items()})

        return Samples(loads)


Change = Callable[[np.ndarray, Sequence[int]], np.ndarray]  # an array, and its axes, the longest first


def _faint(array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    mean, noise = array.mean(dtype=np.float64), NOISE * array.std(dtype=np.float64)
    return np.asarray(mean + CONTRAST * (array - mean) + noise * _noise(array))


def _noise(array: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(array.shape)


def _mirrored(array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    return np.flip(array, axes[0])


def _across(array: np.ndarray, axes: Sequence[int]) -> int:
    """The second longest axis that is not one of channels; else the longest."""
    return next((axis for axis in axes[1:] if array.shape[axis] > FEW), axes[0])


def _shifted(array: np.ndarray, part: int, axis: int) -> np.ndarray:
    return np.roll(array, array.shape[axis] // part, axis)


# Those that move errors most come first: a search measures few of them.
VARIANTS: Sequence[Change] = (
    lambda array, axes: _mirrored(_faint(array, axes), axes),
    lambda array, axes: DARK * array,
    lambda array, axes: _shifted(_mirrored(array, [_across(array, axes)]), 4, _across(array, axes)),
    _mirrored,
    _faint,
    lambda array, axes: _shifted(array, 2, axes[0]),
    lambda array, axes: array + NOISE * array.std(dtype=np.float64) * _noise(array),
)


SEVERAL = 1 + len(VARIANTS)  # samples, of which one half can choose, and the other give the errors


def _variant(load: Load, change: Change, number: int, rows: Collection[str]) -> Feeds:
    """A sample with each array of floats changed, and row numbers in another order."""
    found = load()
    for name, array in found.items():
        if not array.size or not array.ndim:
            continue
        axes = sorted(range(array.ndim), key=lambda axis: (-array.shape[axis], -axis))
        if array.dtype.kind == "f":
            found[name] = np.asarray(change(array, axes)).astype(array.dtype)
        elif name in rows:
            order = np.random.default_rng(number).permutation(array.shape[axes[0]])
            found[name] = np.take(array, order, axes[0])
    return found


def _ranks(model: ModelProto) -> dict[str, int | None]:
    """The rank of each input; None where it is not declared."""
    types = {i.name: i.type.tensor_type for i in given_inputs(model)}
    return {name: len(kind.shape.dim) if kind.HasField("shape") else None for name, kind in types.items()}


def check_feeds(model: ModelProto, feeds: Feeds) -> Feeds:
    """The arrays of the model's inputs, in the inputs' types. Raises UsageError on one that is missing or unknown."""
    inputs = {i.name: i for i in given_inputs(model)}
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


def load_data(path: str | Path) -> Samples:
    """The samples of `x.npz` (an array for each input), of a folder of such files, or of a Polygraphy data loader.

    Raises UsageError where the path is none of them.
    """
    where = Path(path)
    if where.is_dir():
        files = sorted(where.glob("*.npz"))
        if not files:
            raise UsageError(f"the folder '{where}' has no .npz file.")
        return Samples(lambda: [partial(_read, file) for file in files])
    if not where.is_file():
        raise UsageError(f"there is no data file '{where}'.")
    if where.suffix == ".npz":
        _read(where)
        return Samples(lambda: [partial(_read, where)])
    if where.suffix != ".py":
        raise UsageError(
            f"'{where}' is neither an .npz file, nor a folder of them, nor a Polygraphy data loader script (.py)."
        )
    return Samples(_script(where))


def _read(file: Path) -> Feeds:
    how = "Write one with numpy.savez(path, **inputs)."
    if not is_zipfile(file):  # NumPy's own error speaks of pickled objects
        raise UsageError(f"'{file}' is not an .npz file. {how}")
    try:
        with np.load(file) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise UsageError(f"'{file}' does not hold arrays: {str(error).rstrip('.')}. {how}") from None


def _imported(where: Path, function: str) -> Any:
    """A function of a Python file. Raises UsageError where there is none."""
    from polygraphy.exception import PolygraphyException
    from polygraphy.logger import G_LOGGER
    from polygraphy.mod import import_from_script

    if not where.is_file():
        raise UsageError(f"there is no file '{where}'.")
    try:
        with G_LOGGER.verbosity(G_LOGGER.CRITICAL + 1):  # what it would say is in the error
            return import_from_script(str(where), function)
    except PolygraphyException as error:
        first = str(error).strip().splitlines()[0]
        raise UsageError(f"'{where}' defines no function {function}(): {first}") from None
    except Exception as error:  # the user's own code
        raise UsageError(f"'{where}' failed: {type(error).__name__}: {error}.") from None


def _script(where: Path) -> Callable[[], Iterator[Load]]:
    """What calls a script's `load_data()`: the convention of `polygraphy run --data-loader-script`."""
    loader = _imported(where, "load_data")

    def made() -> Iterator[Load]:
        try:
            for feeds in loader():
                yield partial(dict, {name: np.asarray(array) for name, array in feeds.items()})
        except Exception as error:
            raise UsageError(f"load_data() of '{where}' failed: {type(error).__name__}: {error}.") from None

    return made


def load_metric(named: str) -> Callable[..., float]:
    """The function of FILE.py:FUNCTION. Raises UsageError where there is none."""
    file, mark, function = named.rpartition(":")
    if not mark or not file.endswith(".py"):
        raise UsageError(f"--metric takes FILE.py:FUNCTION, not '{named}'.")
    found: Callable[..., float] = _imported(Path(file), function)
    return found
