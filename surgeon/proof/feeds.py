"""The inputs on which a rewrite must hold: random and adversarial ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16})
HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
LARGEST = 1e18  # finite inputs beyond this may overflow on either side
NOT_FINITE = frozenset({"inf", "nan"})
OUT_OF_RANGE = NOT_FINITE | {"huge"}  # here kernels saturate, each at a place of its own
NEXT_TO_NOTHING = frozenset({"zero", "zero rows", "tiny", "denormal"})
NOT_COUNTED = NOT_FINITE | {"denormal"}  # the steps between denormal numbers are large against the numbers themselves
Feeds = dict[str, np.ndarray]


def feeds_of(
    infos: Sequence[tuple[str, int, tuple[int, ...]]], seed: int = 0, numbers: Collection[str] = ()
) -> Iterator[tuple[str, Feeds]]:
    """(kind, feeds) for the kinds of input on which a rewrite must hold; every kind is finite but `inf` and `nan`.

    An integer is between 0 and 3, and may be a position or a size. Those called in `numbers` are neither: there are
    kinds with negative and with large ones.
    """
    rng = np.random.default_rng(seed)
    floats = [i for i in infos if i[1] in FLOATS]

    def feed(make: Any) -> Feeds:
        found: Feeds = {}
        for name, elem, shape in infos:
            dtype = helper.tensor_dtype_to_np_dtype(elem)
            if elem in FLOATS:
                with np.errstate(over="ignore"):
                    found[name] = np.asarray(make(shape, elem), np.float64).astype(dtype)
            elif dtype == np.bool_:
                found[name] = rng.integers(0, 2, shape).astype(np.bool_)
            else:
                found[name] = rng.integers(0, 4, shape).astype(dtype)
        return found

    def normal(shape: tuple[int, ...]) -> np.ndarray:
        return rng.standard_normal(shape)

    yield "random", feed(lambda s, e: normal(s))
    for kind, draw in (("negative integer", _small_integers), ("large integer", _large_integers)) if numbers else ():
        drawn = {n: draw(rng, s, helper.tensor_dtype_to_np_dtype(e)) for n, e, s in infos if n in numbers}
        yield kind, {**feed(lambda s, e: normal(s)), **drawn}
    if not floats:
        return
    yield "zero", feed(lambda s, e: np.zeros(s))
    yield "zero rows", feed(lambda s, e: _zero_rows(normal(s)))
    yield "tiny", feed(lambda s, e: normal(s) * 1e-7)
    yield "large", feed(lambda s, e: normal(s) * 1e3)
    yield "shifted", feed(lambda s, e: normal(s) + 5.0)
    yield "negative zero", feed(lambda s, e: np.where(rng.random(s) < 0.5, -0.0, normal(s)))
    yield "denormal", feed(lambda s, e: normal(s) * (1e-41 if e not in HALVES else 1e-7))
    yield (
        "huge",
        feed(
            lambda s, e: (
                np.clip(normal(s) * (LARGEST / 4), -LARGEST, LARGEST) if e != TensorProto.FLOAT16 else normal(s) * 1.5e4
            )
        ),
    )
    yield "inf", feed(lambda s, e: _sprinkle(normal(s), rng, (np.inf, -np.inf)))
    yield "nan", feed(lambda s, e: _sprinkle(normal(s), rng, (np.nan,)))


def _small_integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Without 0, which nothing is divided by."""
    return _with_signs(rng.integers(1, 100, shape, dtype))


def _large_integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """From half of the type's range on; without the lowest number, which has no opposite."""
    most = np.iinfo(dtype).max
    return _with_signs(rng.integers(most // 2, most, shape, dtype, endpoint=True))


def _with_signs(x: np.ndarray) -> np.ndarray:
    """Every other number negative, the first one too, where the type has signs."""
    return np.where(np.arange(x.size).reshape(x.shape) % 2, x, -x) if x.dtype.kind == "i" else x


def _zero_rows(x: np.ndarray) -> np.ndarray:
    """One row of zeros along each axis."""
    for axis in range(x.ndim if x.size else 0):
        x[tuple(slice(None) if a == axis else axis % x.shape[a] for a in range(x.ndim))] = 0.0
    return x


def _sprinkle(x: np.ndarray, rng: np.random.Generator, values: Sequence[float]) -> np.ndarray:
    flat = x.reshape(-1)
    for value in values:
        if flat.size:
            flat[rng.integers(0, flat.size, max(1, flat.size // 50))] = value
    return x
