"""The inputs on which a rewrite must hold: random and adversarial ones."""

from __future__ import annotations  # numpy loads numpy.random where an annotation that names it is evaluated

import math
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from onnx import TensorProto, helper

from surgeon.ir.lattice import FLOATS, HALVES

LARGEST_INPUT = 1e18  # of the finite ones: what is larger may overflow on either side
EVERYDAY = frozenset({"random", "zero", "zero rows", "large", "shifted"})  # the kinds of everyday numbers
NOT_FINITE = frozenset({"inf", "nan"})
OUT_OF_RANGE = NOT_FINITE | {"huge"}  # here kernels saturate, each at a place of its own
NEXT_TO_NOTHING = frozenset({"zero", "zero rows", "tiny", "denormal"})
NOT_COUNTED = NOT_FINITE | {"denormal"}  # the steps between denormal numbers are large against the numbers themselves
WORDS = ("", "a", "B", "aB", "A b", " c ", "é", "Ü", "0", "-1.5", "nan", "a,b")
Feeds = dict[str, np.ndarray]
SizedInput = tuple[str, int, tuple[int, ...]]  # its name, its element type, its shape


def feeds_of(
    inputs: Sequence[SizedInput],
    seed: int = 0,
    numbers: Collection[str] = (),
    below: int = 4,
    kinds: Collection[str] = (),
) -> Iterator[tuple[str, Feeds]]:
    """(kind, feeds) for the kinds of input on which a rewrite must hold; every kind is finite but `inf` and `nan`.

    inputs   what the model takes
    seed     of what is drawn at random
    numbers  names of integer inputs that are neither positions nor sizes: for them there are kinds with negative and
             with large integers. Any other integer is from 0 on and less than `below`: a position or a size
    below    what those integers are less than; where it is 2 or 1, one truth in 4 or in 8 is true, else every other one
    kinds    those that are drawn; all unless given
    """
    draws = _Draws(inputs, np.random.default_rng(seed), below)
    rng, normal = draws.rng, draws.normal
    drawn: list[tuple[str, Callable[[], Feeds]]] = [("random", lambda: draws.feeds(lambda s, e: normal(s)))]
    if numbers:
        drawn += [
            (
                "negative integer",
                lambda: _with_integers(draws, numbers, lambda r, s, d: _with_signs(r.integers(1, 100, s, d))),
            ),
            ("large integer", lambda: _with_integers(draws, numbers, _large_integers)),
        ]
    if any(elem in FLOATS for _, elem, _ in inputs):
        drawn += [
            ("zero", lambda: draws.feeds(lambda s, e: np.zeros(s))),
            ("zero rows", lambda: draws.feeds(lambda s, e: _zero_rows(normal(s)))),
            ("tiny", lambda: draws.feeds(lambda s, e: normal(s) * 1e-7)),
            ("large", lambda: draws.feeds(lambda s, e: normal(s) * 1e3)),
            ("shifted", lambda: draws.feeds(lambda s, e: normal(s) + 5.0)),
            ("negative zero", lambda: draws.feeds(lambda s, e: np.where(rng.random(s) < 0.5, -0.0, normal(s)))),
            ("denormal", lambda: draws.feeds(lambda s, e: normal(s) * (1e-7 if e in HALVES else 1e-41))),
            ("huge", lambda: draws.feeds(lambda s, e: _huge(normal(s), e))),
            ("inf", lambda: draws.feeds(lambda s, e: _sprinkle(normal(s), rng, (np.inf, -np.inf)))),
            ("nan", lambda: draws.feeds(lambda s, e: _sprinkle(normal(s), rng, (np.nan,)))),
        ]
    for kind, draw in drawn:
        if not kinds or kind in kinds:
            yield kind, draw()


class _Draws:
    """Draws arrays for inputs, one after the other from the same random numbers."""

    def __init__(self, inputs: Sequence[SizedInput], rng: np.random.Generator, below: int) -> None:
        self.inputs = inputs
        self.below = below
        self.rng = rng

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.rng.standard_normal(shape)

    def feeds(self, floats: Callable[[tuple[int, ...], int], np.ndarray]) -> Feeds:
        """An array for every input; `floats` makes those that hold floats, of a shape and an element type."""
        return {name: self._array(shape, elem, floats) for name, elem, shape in self.inputs}

    def _array(
        self, shape: tuple[int, ...], elem: int, floats: Callable[[tuple[int, ...], int], np.ndarray]
    ) -> np.ndarray:
        dtype = helper.tensor_dtype_to_np_dtype(elem)
        if elem in FLOATS:
            with np.errstate(over="ignore"):
                return np.asarray(floats(shape, elem), np.float64).astype(dtype)
        if elem == TensorProto.STRING:
            return np.asarray(np.asarray(WORDS, object)[self.rng.integers(0, len(WORDS), shape)], object).reshape(shape)
        if dtype == np.bool_:
            return np.asarray(self.rng.integers(0, max(2, 8 // self.below), shape) == 1)
        return self.rng.integers(0, self.below, shape).astype(dtype)


def _with_integers(draws: _Draws, numbers: Collection[str], draw: Callable[..., np.ndarray]) -> Feeds:
    """Random numbers, and for the inputs that are `numbers` what `draw` makes."""
    integers = {n: draw(draws.rng, s, helper.tensor_dtype_to_np_dtype(e)) for n, e, s in draws.inputs if n in numbers}
    return {**draws.feeds(lambda s, e: draws.normal(s)), **integers}


def _huge(x: np.ndarray, elem: int) -> np.ndarray:
    """Numbers about as large as LARGEST_INPUT; in fp16, as its largest one. The squares of all of them have a sum."""
    if elem == TensorProto.FLOAT16:
        return x * 1.5e4
    most = min(LARGEST_INPUT, math.sqrt(float(np.finfo(np.float32).max) / max(1, x.size)))
    return np.clip(x * (most / 4), -most, most)


def _large_integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Integers from half of the type's range on, without the lowest one, which has no opposite."""
    most = np.iinfo(dtype).max
    return _with_signs(rng.integers(most // 2, most, shape, dtype, endpoint=True))


def _with_signs(x: np.ndarray) -> np.ndarray:
    """Make every other number negative, the first one too, where the type has signs."""
    if x.dtype.kind != "i":
        return x
    return np.where(np.arange(x.size).reshape(x.shape) % 2, x, -x)


def _zero_rows(x: np.ndarray) -> np.ndarray:
    """Write a row of zeros along each axis."""
    if not x.size:
        return x
    for axis in range(x.ndim):
        x[tuple(slice(None) if a == axis else axis % x.shape[a] for a in range(x.ndim))] = 0.0
    return x


def _sprinkle(x: np.ndarray, rng: np.random.Generator, values: Sequence[float]) -> np.ndarray:
    """Write each of some values to one element in 50, and to one at least."""
    flat = x.reshape(-1)
    if not flat.size:
        return x
    for value in values:
        flat[rng.integers(0, flat.size, max(1, flat.size // 50))] = value
    return x
