"""Inputs that occur: what a model may get, guessed from its inputs' shapes, types, names and first readers.

An image input has 3 or 1 channels and two large dimensions: its numbers are those of a photograph, from 0 to 1 and
normalized, or from 0 to 255 where the model divides them itself. Integers that a Gather reads as rows of a table are
below the number of rows. Masks are true, except at the end. Lengths are the length of the longest input. A waveform has
numbers from -1 to 1, those of speech. Up to four numbers are from 0 to 1. Any other input gets random numbers, and is
not `known`. `drawing` draws them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, TensorProto, helper

from surgeon.ir.following import readers
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import FLOATS, Shape, Shapes
from surgeon.ir.model import Model
from surgeon.ir.operators import MOVES
from surgeon.ir.protos import given_inputs
from surgeon.ir.run import Unrunnable
from surgeon.precision.drawing import features, image, kind_of, waveform
from surgeon.proof.feeds import Feeds, SizedInput
from surgeon.proof.pair import ModelPair
from surgeon.proof.sizes import INTEGERS, TOO_LARGE, Symbols, choices
from surgeon.proof.usual_sizes import Role, different, farthest, is_image, larger, smaller, usual_sizes
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import whole_pair, worth_a_run
from surgeon.targets.tables import SHAPE_INPUTS

SAMPLES = 6  # every second one is what the error of a conversion is measured on, the others choose what stays fp32
LONG = 400  # samples of a waveform at least
BYTE = 32.0  # numbers by which a model divides or shifts pixels from 0 to 255 are larger
FEW_NUMBERS = 4
SIDE, TOKENS = 128, 64  # what a size is taken to be: the height and width of an image, and the length of a text
Range: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int]]  # the smallest, usual and largest shape
Draw = Callable[[np.random.Generator, tuple[int, ...], int], np.ndarray]  # random numbers, a shape, the sample's number


@dataclass(frozen=True, slots=True)
class Guess:
    """What an input is taken for, in words, and how a sample of it is drawn."""

    said: str
    draw: Draw


@dataclass
class Plausible:
    """Inputs that were drawn.

    samples  inputs by name
    said     what each input is taken for, with its shape
    known    whether that is known of every floating-point input
    """

    samples: list[Feeds]
    said: list[str]
    known: bool
    _drawn: _Drawn

    @property
    def held(self) -> list[Feeds]:
        """Those on which the error of a conversion is measured."""
        return self.samples[1::2]

    def resized(self) -> Feeds:
        """Inputs of other sizes, on which the model runs, too; of the same where it runs at no others."""
        return next(self._drawn.at(self._drawn.limit(different)))

    def ranges(self) -> dict[str, Range]:
        """The smallest, usual and largest shape of each dynamic input, found by running the model.

        Of an input of which sizes are computed it is the smallest, usual and largest values.
        """
        drawn = self._drawn
        limits = drawn.limit(smaller), drawn.sized, drawn.limit(larger)
        shapes = {
            name: (smallest, usual, largest)
            for (name, _, dims), (*_, smallest), (*_, usual), (*_, largest) in zip(
                drawn.pair.inputs, *limits, strict=True
            )
            if not all(isinstance(d, int) for d in dims)
        }
        return shapes | drawn.value_ranges([next(drawn.at(sized)) for sized in limits], set(shapes))


class NoInputs(Unrunnable):
    """A model runs on none of the inputs that are drawn for it; the message is a whole sentence."""


def plausible(model: ModelProto, run: Callable[[Feeds], Any], shapes: Shapes | None = None) -> Plausible:
    """Inputs of the first sizes on which `run` runs the model. Raises NoInputs where there are none.

    shapes  the shapes of inputs with symbolic dimensions, by name; a size may be 0
    """
    pair, guesses, why = whole_pair(model, model, shapes=shapes), _guesses(Model(model)), ""
    symbols = pair.symbols
    for sized, below in _sizes(pair, symbols, guesses):
        for taken in (guesses, {})[: 1 + bool(guesses)]:
            drawn = _Drawn(pair, symbols, run, taken, sized, below)
            refusal = drawn.refusal(sized)
            if not refusal:
                said = [_said(name, shape, taken.get(name)) for name, _, shape in sized]
                floats = [name for name, elem, _ in sized if elem in FLOATS]
                return Plausible(list(drawn.at(sized)), said, all(name in taken for name in floats), drawn)
            why = why or refusal
    raise NoInputs(
        f"the model runs on none of the inputs that surgeon tried: {why or TOO_LARGE}. Give sizes that it takes with "
        "--shapes, or inputs with --data"
    )


def _sizes(pair: ModelPair, symbols: Symbols, guesses: Mapping[str, Guess]) -> Iterator[tuple[list[SizedInput], int]]:
    """The sizes to try, and what drawn integers are below there."""
    are_drawn = any(elem in INTEGERS and name not in guesses for name, elem, _ in pair.inputs)
    usual = (
        ([sized], below) for sized in usual_sizes(symbols, pair.before) for below in ((4, 1) if are_drawn else (4,))
    )
    others = ((list(pair.sizes(c))[:1], c.below) for c in choices(pair.inputs, pair.before, images=True))
    return ((sizes[0], below) for sizes, below in worth_a_run(pair, chain(usual, others)))


@dataclass(frozen=True)
class _Drawn:
    """How the inputs of a model are drawn: of which sizes, what each is taken for, what other integers are below."""

    pair: ModelPair
    symbols: Symbols
    run: Callable[[Feeds], Any]
    taken: Mapping[str, Guess]
    sized: Sequence[SizedInput]
    below: int

    def at(self, sized: Sequence[SizedInput]) -> Iterator[Feeds]:
        """Samples of some sizes."""
        return _samples(self.pair, sized, self.below, self.taken)

    def refusal(self, sized: Sequence[SizedInput]) -> str:
        """Why the model does not run at these sizes; empty where it does."""
        try:
            self.run(next(self.at(sized)))
        except Unrunnable as error:
            return str(error)
        return ""

    def value_ranges(self, feeds: Sequence[Feeds], dynamic: Collection[str]) -> dict[str, Range]:
        """The values of inputs of which sizes are computed, at the smallest, the usual and the largest shapes."""
        values = {
            name: [array[name].reshape(-1) for array in feeds]
            for name, guess in self.taken.items()
            if name not in dynamic and (guess is SIZE or guess is LENGTH)
        }
        found: dict[str, Range] = {}
        for name, (low, usual, high) in values.items():
            if self.taken[name] is SIZE:
                low, high = (self._value(name, usual, feeds[1], times) for times in ((1 / 4, 1 / 2), (4, 2)))
            elif np.array_equal(low, high):
                low = self._value(name, usual, feeds[1], (1 / usual.max(initial=1), 1 / 2))
            found[name] = tuple(low.tolist()), tuple(usual.tolist()), tuple(high.tolist())
        return found

    def _value(self, name: str, usual: np.ndarray, feeds: Feeds, times: Sequence[float]) -> np.ndarray:
        """A value so many times as large with which the model runs; the usual one where there is none."""
        for factor in times:
            value = np.maximum(usual * factor, 1).astype(usual.dtype)
            with contextlib.suppress(Unrunnable):
                self.run({**feeds, name: value.reshape(feeds[name].shape)})
                return value
        return usual

    def limit(self, limits: Callable[[Role, int], Sequence[int]]) -> list[SizedInput]:
        """The farthest of these sizes at which the model runs."""
        return farthest(self.symbols, self.sized, self.pair.before, lambda sized: not self.refusal(sized), limits)


def _said(name: str, shape: tuple[int, ...], guess: Guess | None) -> str:
    return f"'{name}' {list(shape)}: {guess.said if guess is not None else 'random numbers'}"


def _samples(pair: ModelPair, sized: Sequence[SizedInput], below: int, guesses: Mapping[str, Guess]) -> Iterator[Feeds]:
    longest = _longest(pair.before, sized)
    for turn in range(SAMPLES):
        rng = np.random.default_rng(turn)
        _, feeds = next(valid_feeds(pair.before, sized, seed=turn, below=below, kinds=("random",)))
        for name, elem, shape in sized:
            guess = guesses.get(name)
            if guess is None and elem in FLOATS and len(shape) > 1:
                feeds[name] = features(rng, shape, turn).astype(feeds[name].dtype)
            if guess is not None:
                array = np.full(shape, longest) if guess is LENGTH else guess.draw(rng, shape, turn)
                feeds[name] = np.asarray(array).astype(helper.tensor_dtype_to_np_dtype(elem)).reshape(shape)
        yield feeds


def _longest(model: ModelProto, sized: Sequence[SizedInput]) -> int:
    """The largest dimension that is not the batch: of those without a declared size, where there are some."""
    declared = {
        (i.name, axis)
        for i in model.graph.input
        for axis, dim in enumerate(i.type.tensor_type.shape.dim)
        if dim.HasField("dim_value")
    }
    sizes = {(name, axis): size for name, _, shape in sized for axis, size in enumerate(shape) if axis}
    free = [size for key, size in sizes.items() if key not in declared]
    return max(free or sizes.values(), default=1)


# ---- what an input is ------------------------------------------------------------------------------------------------


def _guesses(model: Model) -> dict[str, Guess]:
    """What each input of a model is taken for; without those about which nothing is known."""
    found = {}
    for info in given_inputs(model.proto):
        guess = _guess(model, model.graph.values[info.name])
        if guess is not None:
            found[info.name] = guess
    return found


def _guess(model: Model, value: Value) -> Guess | None:
    elem, shape, name = model.dtype(value), model.shape(value), value.name.lower()
    nodes = _read_by(value)
    rows = _fewest_rows(model, value, nodes)
    if rows:
        return _ids(rows)
    if elem in FLOATS or elem == TensorProto.UINT8:
        if shape is not None and is_image(shape):
            is_bytes = elem == TensorProto.UINT8 or any(_scales_bytes(model, n) for n in nodes)
            return BYTES if is_bytes else PHOTO
        if elem in FLOATS and shape is not None and _is_waveform(shape) and "feat" not in name:
            return WAVEFORM
        return FEW if elem in FLOATS and shape is not None and _is_few(shape) else None
    if elem == TensorProto.BOOL or "mask" in name:
        return MASK
    if elem not in (TensorProto.INT64, TensorProto.INT32):
        return None
    if _is_short(shape) and _is_size(model, value):
        return LENGTH if "len" in name else SIZE
    known = [n for n in (_compared_number(model, n) for n in nodes) if n is not None]
    if known:
        return Guess(f"{known[0]}, which the model compares it with", lambda rng, shape, turn: np.full(shape, known[0]))
    return LENGTH if "len" in name else None


def _is_waveform(shape: Shape) -> bool:
    long = [d for d in shape[1:] if d != 1]
    return len(shape) in (2, 3) and len(long) == 1 and isinstance(long[0], int) and long[0] >= LONG


def _scales_bytes(model: Model, node: Node) -> bool:
    """Whether the node scales or shifts pixels from 0 to 255."""
    if node.key not in ("Div", "Mul", "Sub", "Add") or len(node.inputs) != 2:
        return False
    arrays = [model.constant(v) for v in node.inputs if v is not None and model.is_constant(v)]
    numbers = np.abs(np.concatenate([a.reshape(-1) for a in arrays if a is not None] or [np.zeros(1)]))
    if not numbers.size or not numbers.all():
        return False
    return bool((1 / numbers if node.key == "Mul" else numbers).max() >= BYTE)


def row_numbers(model: Model) -> set[str]:
    """The inputs of integers that are row numbers of a table, such as token ids."""
    values = [model.graph.values[info.name] for info in given_inputs(model.proto)]
    return {v.name for v in values if v.name and model.dtype(v) not in FLOATS and _fewest_rows(model, v, _read_by(v))}


def _read_by(value: Value) -> list[Node]:
    """The nodes that read an input, after what moves or casts it."""
    movers = MOVES - {"Gather", "GatherND", "GatherElements"} | {"Cast"}
    return [node for node, _ in readers([value], lambda node: node.op in movers)]


def _fewest_rows(model: Model, value: Value, nodes: Sequence[Node]) -> int:
    """The rows of the smallest table that a Gather indexes by the tensor; 0 where none does."""
    is_index = model.dtype(value) in FLOATS | {TensorProto.INT64, TensorProto.INT32}
    return min((r for r in (_rows(model, n) for n in nodes) if r and is_index), default=0)


def _rows(model: Model, node: Node) -> int | None:
    """The number of rows of the table that a Gather indexes by the tensor; None for any other node."""
    if node.key != "Gather" or node.inputs[0] is None or not model.is_constant(node.inputs[0]):
        return None
    shape, axis = model.shape(node.inputs[0]), node.attr("axis") or 0
    rows = shape[axis] if shape else None
    return rows if isinstance(rows, int) else None


def _is_short(shape: Shape | None) -> bool:
    """Whether sizes may have such a shape: one number, or a vector."""
    return shape is not None and len(shape) < 2


def _is_few(shape: Shape) -> bool:
    """Whether a tensor holds a number, or a few of them."""
    return len(shape) < 2 and math.prod(d if isinstance(d, int) else 1 for d in shape) <= FEW_NUMBERS


def _is_size(model: Model, value: Value) -> bool:
    """Whether sizes are computed of a tensor, in numbers and vectors."""
    read = readers([value], lambda user: all(o is None or _is_short(model.shape(o)) for o in user.outputs))
    return any(user.input_at(k) is tensor for user, tensor in read for k in SHAPE_INPUTS.get(user.key, ()))


def _compared_number(model: Model, node: Node) -> int | None:
    """The number that an Equal compares something with; None for any other node."""
    if node.key != "Equal":
        return None
    arrays = [model.constant(v) for v in node.inputs if v is not None and model.is_constant(v)]
    return next((int(a.reshape(-1)[0]) for a in arrays if a is not None and a.size == 1), None)


# ---- how it is drawn -------------------------------------------------------------------------------------------------


def _photo(rng: np.random.Generator, shape: tuple[int, ...], turn: int) -> np.ndarray:
    found = image(rng, shape, turn)
    return (found, (found - 0.45) / 0.225, 2 * found - 1)[kind_of(turn)]


def _mask(rng: np.random.Generator, shape: tuple[int, ...], turn: int) -> np.ndarray:
    found = np.ones(shape)
    if turn // 2 % 2 and shape and shape[-1] > 2:
        found[..., -(shape[-1] // 3) :] = 0
    return found


def _ids(rows: int) -> Guess:
    def draw(rng: np.random.Generator, shape: tuple[int, ...], turn: int) -> np.ndarray:
        found = rng.integers(0, rows, shape)
        return found if kind_of(turn) < 2 else found * _mask(rng, shape, 2).astype(int)  # and 0 at the end

    return Guess(f"row numbers of a table of {rows}", draw)


PHOTO = Guess("an image, from 0 to 1 and normalized", _photo)
BYTES = Guess("an image, from 0 to 255", lambda rng, shape, turn: np.round(255 * image(rng, shape, turn)))
WAVEFORM = Guess("a waveform, from -1 to 1", waveform)
MASK = Guess("a mask, all true, and false at the end", _mask)
FEW = Guess("a number from 0 to 1", lambda rng, shape, turn: rng.uniform(0.05, 1, shape))
SIZE = Guess("a size", lambda rng, shape, turn: np.full(shape, SIDE if shape == (2,) else TOKENS))
LENGTH = Guess("the length of the longest input", lambda rng, shape, turn: np.ones(shape))  # see `_samples`
