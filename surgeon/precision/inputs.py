"""Inputs that occur: what a model may get, guessed from its inputs' shapes, types, names and first readers.

An image input has 3 or 1 channels and two large dimensions: its numbers are those of a photograph, from 0 to 1 and
normalized, or from 0 to 255 where the model divides them itself. Integers that a Gather reads as rows of a table are
below the number of rows. Masks are true, except at the end. Lengths are the length of the longest input. A waveform has
numbers from -1 to 1. Any other input gets standard normal numbers, and is not `known`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import FLOATS, Shape
from surgeon.ir.model import Model
from surgeon.ir.operators import MOVES
from surgeon.ir.run import Unrunnable
from surgeon.proof.feeds import Feeds, SizedInput
from surgeon.proof.pair import ModelPair
from surgeon.proof.sizes import TOO_LARGE, USUAL, SizeChoice, all_choices
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import whole_pair

SAMPLES = 6  # every second one is what the error of a conversion is measured on, the others choose what stays fp32
LARGE = 16  # of a dimension: an image's are at least so large
STROKES = 60
LONG = 400  # samples of a waveform at least
IMAGES = (((1, 224), (1, 224)), ((1, 320), (1, 320)))  # one image, and the sizes of its sides; see `SizeChoice`
BYTE = 32.0  # numbers by which a model divides or shifts pixels from 0 to 255 are larger
CHANNELS = (3, 1)
WAVES = (0.013, 0.07, 0.31)  # of a waveform, in radians a sample
Draw = Callable[[np.random.Generator, tuple[int, ...], int], np.ndarray]  # random numbers, a shape, the sample's number


@dataclass(frozen=True, slots=True)
class Guess:
    """What an input is taken for, in words, and how a sample of it is drawn."""

    said: str
    draw: Draw


@dataclass(frozen=True, slots=True)
class Plausible:
    """Inputs that were drawn.

    samples  inputs by name
    said     what each input is taken for, with its shape
    known    whether that is known of every floating-point input
    """

    samples: list[Feeds]
    said: list[str]
    known: bool

    @property
    def held(self) -> list[Feeds]:
        """Those on which the error of a conversion is measured."""
        return self.samples[1::2]


def plausible(
    model: ModelProto, run: Callable[[Feeds], Any], shapes: Mapping[str, Sequence[int]] | None = None
) -> Plausible:
    """Inputs of the first sizes on which `run` runs the model. Raises Unrunnable where there are none.

    shapes  the shapes of inputs with symbolic dimensions, by name
    """
    guesses = _guesses(Model(model))
    pair = whole_pair(model, model, shapes=shapes)
    why = ""
    for choice in _choices(pair, any("image" in g.said for g in guesses.values())):
        for sized in list(pair.sizes(choice))[:1]:
            for taken in (guesses, {}):
                samples = list(_samples(pair, sized, choice, taken))
                try:
                    run(samples[0])
                except Unrunnable as error:
                    why = why or str(error)
                    continue
                said = [_said(name, shape, taken.get(name)) for name, _, shape in sized]
                floats = [name for name, elem, _ in sized if elem in FLOATS]
                return Plausible(samples, said, all(name in taken for name in floats))
    raise Unrunnable(why or TOO_LARGE)


def _said(name: str, shape: tuple[int, ...], guess: Guess | None) -> str:
    return f"'{name}' {list(shape)}: {guess.said if guess is not None else 'random numbers'}"


def _choices(pair: ModelPair, has_image: bool) -> Iterator[SizeChoice]:
    """The choices of sizes: one sample of a usual size first, since small ones are mostly border."""
    for usual in (*(IMAGES if has_image else ()), *USUAL):
        yield SizeChoice(usual=usual)
    yield from all_choices(pair.inputs, pair.before)


def _samples(
    pair: ModelPair, sized: Sequence[SizedInput], choice: SizeChoice, guesses: Mapping[str, Guess]
) -> Iterator[Feeds]:
    longest = max((max(shape, default=1) for _, _, shape in sized), default=1)
    for turn in range(SAMPLES):
        rng = np.random.default_rng(turn)
        _, feeds = next(valid_feeds(pair.before, sized, seed=turn, below=choice.below, kinds=("random",)))
        for name, elem, shape in sized:
            guess = guesses.get(name)
            if guess is not None:
                array = np.full(shape, longest) if guess is LENGTH else guess.draw(rng, shape, turn)
                feeds[name] = np.asarray(array).astype(helper.tensor_dtype_to_np_dtype(elem)).reshape(shape)
        yield feeds


# ---- what an input is ------------------------------------------------------------------------------------------------


def _guesses(model: Model) -> dict[str, Guess]:
    """What each input of a model is taken for; without those about which nothing is known."""
    weights = {t.name for t in model.proto.graph.initializer}
    found = {}
    for info in model.proto.graph.input:
        value = model.graph.values.get(info.name)
        if info.name in weights or value is None:
            continue
        guess = _guess(model, value)
        if guess is not None:
            found[info.name] = guess
    return found


def _guess(model: Model, value: Value) -> Guess | None:
    elem, shape, name = model.dtype(value), model.shape(value), value.name.lower()
    readers = list(_readers(value))
    if elem in FLOATS or elem == TensorProto.UINT8:
        if shape is not None and _is_image(shape):
            is_bytes = elem == TensorProto.UINT8 or any(_scales_bytes(model, n) for n in readers)
            return BYTES if is_bytes else PHOTO
        if elem in FLOATS and shape is not None and _is_waveform(shape) and "feat" not in name:
            return WAVEFORM
        return None
    if elem == TensorProto.BOOL or "mask" in name:
        return MASK
    if elem not in (TensorProto.INT64, TensorProto.INT32):
        return None
    rows = [r for r in (_rows(model, n, value) for n in readers) if r]
    if rows:
        return _ids(min(rows))
    return LENGTH if "len" in name else None


def _readers(value: Value) -> Iterator[Node]:
    """The nodes that read a tensor, also through nodes that move or cast its numbers."""
    todo, seen = [value], set()
    while todo:
        for user in todo.pop().users:
            if user in seen:
                continue
            seen.add(user)
            yield user
            if user.op in MOVES - {"Gather", "GatherND", "GatherElements"} | {"Cast"}:
                todo += [o for o in user.outputs if o is not None]


def _is_image(shape: Shape) -> bool:
    """Whether an image, or a batch of them, has such a shape: NCHW, NHWC, CHW or HWC."""
    if len(shape) not in (3, 4):
        return False
    sizes = shape[-3:]
    for channels, large in ((sizes[0], sizes[1:]), (sizes[2], sizes[:2])):
        if channels in CHANNELS and all(not isinstance(d, int) or d >= LARGE for d in large):
            return len(shape) == 4 or channels == CHANNELS[0]
    return False


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


def _rows(model: Model, node: Node, value: Value) -> int | None:
    """The number of rows of the table that a Gather indexes by the tensor; None for any other node."""
    if node.key != "Gather" or node.inputs[0] is None or not model.is_constant(node.inputs[0]):
        return None
    shape, axis = model.shape(node.inputs[0]), node.attr("axis") or 0
    rows = shape[axis] if shape else None
    return rows if isinstance(rows, int) else None


# ---- how it is drawn -------------------------------------------------------------------------------------------------


def _photograph(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers from 0 to 1, alike among neighbours as in a photograph, with sharp strokes as in a printed page."""
    last = shape[-1] in CHANNELS and shape[-2] >= LARGE
    height, width = (shape[-3], shape[-2]) if last else (shape[-2], shape[-1])
    rest = tuple(shape[:-3]) + (shape[-1] if last else shape[-3],)
    found, scale, step = np.zeros((*rest, height, width)), 1.0, max(height, width)
    while step >= 1:
        noise = rng.random((*rest, -(-height // step), -(-width // step)))
        found += scale * noise.repeat(step, -2).repeat(step, -1)[..., :height, :width]
        scale, step = scale * 0.6, step // 2
    found -= found.min()
    found /= found.max() or 1.0
    for _ in range(STROKES):  # edges, bars and letters
        tall, wide = (int(rng.integers(1, max(2, size // 3))) for size in (height, width))
        top, left = (int(rng.integers(0, size)) for size in (height, width))
        place = (..., slice(top, top + (tall if rng.random() < 0.5 else 2)), slice(left, left + wide))
        found[place] = rng.random()
    return np.moveaxis(found, -3, -1) if last else found


def _photo(rng: np.random.Generator, shape: tuple[int, ...], turn: int) -> np.ndarray:
    image = _photograph(rng, shape)
    return (image, (image - 0.45) / 0.225, 2 * image - 1)[turn // 2 % 3]  # of every two samples one chooses


def _waveform(rng: np.random.Generator, shape: tuple[int, ...], turn: int) -> np.ndarray:
    length = max(shape)
    tones = sum(np.sin(w * (turn + 1) * np.arange(length) + rng.random() * 6) for w in WAVES)
    wave: np.ndarray = 0.2 * tones * np.hanning(length)
    return wave.reshape([length if d == length else 1 for d in shape]) + 0.01 * rng.standard_normal(shape)


def _mask(rng: np.random.Generator, shape: tuple[int, ...], turn: int) -> np.ndarray:
    found = np.ones(shape)
    if turn // 2 % 2 and shape and shape[-1] > 2:
        found[..., -(shape[-1] // 3) :] = 0
    return found


def _ids(rows: int) -> Guess:
    return Guess(f"row numbers of a table of {rows}", lambda rng, shape, turn: rng.integers(0, rows, shape))


PHOTO = Guess("an image, from 0 to 1 and normalized", _photo)
BYTES = Guess("an image, from 0 to 255", lambda rng, shape, turn: np.round(255 * _photograph(rng, shape)))
WAVEFORM = Guess("a waveform, from -1 to 1", _waveform)
MASK = Guess("a mask, all true, and false at the end", _mask)
LENGTH = Guess("the length of the longest input", lambda rng, shape, turn: np.ones(shape))  # see `_samples`

__all__ = ["Plausible", "plausible"]
