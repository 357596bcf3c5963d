"""Search for breakpoints: the inputs and the sizes at which a comparison in a window changes its result.

The constants of a window give the breakpoint of x > 3. That of sqrt(x * 7) > 3, of a mean, or of a size divided by two
is found by search: both operands of each comparison are read at numbers that are far apart, and between two numbers
with different results the breakpoint is found by bisection.

1. Where an operand has the shape of an input, each element of that is searched by itself, all at once.
2. Else the whole input is one number.
3. Where the operands follow from sizes alone, a size is searched.

What rounds to integers (Floor, a Cast, a Div of integers) is searched like a comparison: it has a breakpoint where the
result steps to another integer.
"""

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

from surgeon.errors import ModelError
from surgeon.ir.operators import BENDS_AT_ZERO, COMPARES, MEASURES, WHOLE
from surgeon.ir.protos import constants_in, reads, refill, returning
from surgeon.ir.run import Runner, Unrunnable
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import LARGEST_INPUT, Feeds

COMPARED = COMPARES | {"Max", "Min"}
STEPS_UP = WHOLE | {"BitShift", "Cast", "Div", "QuantizeLinear"}  # to integers, or of them

MOST_COMPARISONS = 16  # comparisons of one side that are searched, and as many steps
MOST_STEP = 1e4  # of a result that steps by one: what is larger hides the step in the tolerance
STEPPED = (3.0, 300.0)  # how large the numbers are between which steps are looked for
BESIDE_OTHERS = (30.0,)  # the same of numbers that are compared, where another input has a say
FEW_OCTAVES = 3  # of sizes in which a result steps: one that steps in more is seen at small sizes
MOST_FOUND = 64  # breakpoints of one comparison
NEXT_TO_ZERO = 1e-18
MANY = 200  # from here on the other dimensions are 1
LARGEST_OCTAVE = 25  # of sizes: beyond 2^24 no breakpoint is looked for
SLOW = 0.02  # seconds of the processor for two runs, beyond which no larger size is tried
SORTED = 1 << 12  # elements
MOST_RUNS = 1000  # of a side, for the search
PATIENCE = 3.0  # seconds of the search of a side, before the next run is not begun
STEPS = tuple(s * 2.0**k for k in range(-24, 61) for s in (1, 1.4))
COARSE = tuple(2.0**k for k in range(-10, 21, 3))
BESIDE = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # how far from a breakpoint numbers are tried, relative to it
BESIDE_A_WHOLE = (0.0, 1e-3)

Sizes = tuple[int, ...]


class Comparison(NamedTuple):
    """Two operands of a comparison: names of tensors, or a number. They have a breakpoint where they are equal.

    kind  compared  some node asks for it
          bend      a function has a breakpoint at zero
          crossing  a sum with a number crosses zero: a narrow function of it may be wrong there alone
          step      `one` is a result that steps from integer to integer; of a Mod the quotient of both does
          held      `other` is `one` in another type, which may not hold it
    """

    one: str
    other: str | float
    kind: Literal["compared", "bend", "crossing", "step", "held"]


@dataclass(frozen=True)
class Side:
    """One model of a pair, with the operands of its comparisons as outputs."""

    model: ModelProto
    folder: str | Path | None

    @cached_property
    def pairs(self) -> list[Comparison]:
        """The comparisons whose breakpoints are not constants of the window."""
        found = (t for node in self.model.graph.node if not node.domain for t in self._pairs(node))
        pairs = list(dict.fromkeys(t for t in found if not self._is_known(t)))
        steps = [t for t in pairs if t.kind in ("step", "held")]
        return [t for t in pairs if t not in steps][:MOST_COMPARISONS] + steps[:MOST_COMPARISONS]

    @cached_property
    def of_sizes(self) -> list[Comparison]:
        """Those whose operands follow from sizes alone."""
        free = self._free_of_data
        return [t for t in self.pairs if all(isinstance(o, float) or o in free for o in (t.one, t.other))]

    @cached_property
    def of_data(self) -> list[Comparison]:
        return [t for t in self.pairs if t not in self.of_sizes]

    def _pairs(self, node: NodeProto) -> Iterator[Comparison]:
        yield from _pairs(node)
        data = [i for i in node.input if i and i not in self._free_of_data]
        if node.op_type == "Sub" and len(data) == 1:
            yield Comparison(node.input[0], node.input[1], "crossing")
        elif node.op_type == "Add" and len(data) == 1:
            yield Comparison(node.output[0], 0.0, "crossing")
        elif node.op_type in STEPS_UP:
            yield Comparison(node.output[0], 0.0, "step")
            if node.op_type == "Cast" and not data:
                yield Comparison(node.input[0], node.output[0], "held")
        elif node.op_type == "Mod":
            yield Comparison(node.input[0], node.input[1], "step")
        if node.op_type in ("BitShift", "Mul") and not data:  # of sizes: where it wraps around, the quotient is another
            yield Comparison(node.output[0], node.input[0], "step")

    def _is_known(self, pair: Comparison) -> bool:
        """Whether it is an input that is compared with a constant, or two constants are."""
        if pair.kind in ("step", "held"):
            return pair.one in self._constants
        inputs = {i.name for i in self.model.graph.input}
        known = [isinstance(o, float) or o in self._constants for o in (pair.one, pair.other)]
        given = [o in inputs for o in (pair.one, pair.other)]
        return all(a or b for a, b in zip(known, given, strict=True))

    @cached_property
    def _constants(self) -> dict[str, np.ndarray]:
        tensors = constants_in(self.model.graph)
        return {name: numpy_helper.to_array(t) for name, t in tensors.items() if not t.external_data}

    @cached_property
    def _free_of_data(self) -> frozenset[str]:
        free = set(self._constants)
        for node in self.model.graph.node:
            holds_bodies = any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)
            if node.op_type in MEASURES or (not holds_bodies and all(i in free for i in node.input if i)):
                free.update(node.output)
        return frozenset(free)

    @cached_property
    def _runner(self) -> Runner | None:
        made = {o for n in self.model.graph.node for o in n.output}
        read = dict.fromkeys(o for t in self.pairs for o in (t.one, t.other) if isinstance(o, str) and o in made)
        try:
            return Runner(_cut_to(self.model, read), self.folder)
        except (Unrunnable, ModelError):
            return None

    def said(self, feeds: Feeds, pairs: Sequence[Comparison]) -> list[np.ndarray] | None:
        """What comparisons say on some inputs: -1, 0 or 1 for each element; None where the side does not run."""
        runner = self._runner
        if runner is None:
            return None
        try:
            results = runner.run(feeds)
        except Unrunnable:
            return None
        names = [o.name for o in runner.model.graph.output]
        values = {**self._constants, **feeds, **dict(zip(names, results, strict=True))}
        return [_said(values, pair) for pair in pairs]


def _cut_to(model: ModelProto, names: Collection[str]) -> ModelProto:
    """A copy of a model that returns these tensors, without the nodes that they do not need."""
    made, wanted, nodes = returning(model, names), set(names), list[NodeProto]()
    for node in reversed(made.graph.node):
        if not wanted.isdisjoint(node.output):
            wanted.update(reads(node))
            nodes.append(node)
    refill(made.graph.node, nodes[::-1])
    return made


def _pairs(node: NodeProto) -> Iterator[Comparison]:
    if node.op_type in COMPARED:
        yield from (Comparison(a, b, "compared") for a, b in itertools.combinations(node.input, 2))
    elif node.op_type == "Clip":
        yield from (Comparison(node.input[0], bound, "compared") for bound in node.input[1:] if bound)
        yield from (Comparison(node.input[0], a.f, "compared") for a in node.attribute)
    elif node.op_type == "ThresholdedRelu":
        yield from (Comparison(node.input[0], a.f, "compared") for a in node.attribute)
    elif node.op_type in BENDS_AT_ZERO:  # of what shows both signs on random inputs nothing is searched
        yield Comparison(node.input[0], 0.0, "bend")


def _said(values: Mapping[str, np.ndarray], pair: Comparison) -> np.ndarray:
    a, b = (np.asarray(o) if isinstance(o, float) else values[o] for o in (pair.one, pair.other))
    if a.dtype.kind in "OUS" or a.dtype == np.bool_:
        return np.zeros(0, np.int8)
    if pair.kind == "step":
        return _integers(a if isinstance(pair.other, float) else _quotient(a, b))
    if pair.kind == "held":
        return np.asarray(a.astype(np.float64) == b.astype(np.float64))
    try:
        return np.asarray(np.greater(a, b).astype(np.int8) - np.less(a, b).astype(np.int8))
    except ValueError:  # shapes that do not go together: an operator that broadcasts otherwise
        return np.zeros(0, np.int8)


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(np.floor(a.astype(np.float64) / b.astype(np.float64)))


def _integers(x: np.ndarray) -> np.ndarray:
    """The numbers of a result that steps; none where some are not integers."""
    if not is_float(x.dtype):
        return x
    wide = np.nan_to_num(x.astype(np.float64), posinf=0.0, neginf=0.0)
    return wide if (wide == np.floor(wide)).all() else np.zeros(0, np.float64)


# ---- inputs ----------------------------------------------------------------------------------------------------------


def feeds_at_breakpoints(side: Side, base: Feeds, inputs: Sequence[str], *, mixes: bool) -> Iterator[Feeds]:
    """Inputs on either side of the breakpoints of a side; one input at a time, the others as in `base`.

    mixes  whether what is compared may depend on what is beside a number
    """
    first = side.said(base, side.of_data) if side.of_data else None
    if first is None:
        return
    search = _Search(side, base)
    for name in inputs:
        like, points, wholes = base[name], [np.zeros(0, base[name].dtype)], list[np.ndarray]()
        for pair, said in zip(side.of_data, first, strict=True):
            if not said.size or (pair.kind == "bend" and np.unique(said).size > 1):
                continue
            reaches = STEPPED if pair.kind == "step" else BESIDE_OTHERS if len(inputs) > 1 else ()
            if said.shape == like.shape:
                yield from ({**base, name: ends} for ends in search.at_own_places(name, pair, reaches))
            if pair.kind == "step":
                continue
            if said.shape == like.shape:
                points.append(_beside(*search.near(name, pair, STEPS, search.of_elements), BESIDE))
            if said.shape != like.shape or (mixes and pair.kind != "crossing"):
                of: Of
                for of in (np.full_like, _times):
                    asked = partial(search.of_wholes, of)
                    found = _beside(*search.near(name, pair, COARSE, asked), BESIDE_A_WHOLE)
                    wholes.extend(of(like, number) for number in dict.fromkeys(found.tolist()))
        # Half of the numbers are the usual ones: next to what is small alone all is rounding.
        parts = _parts(np.concatenate(points), like.reshape(-1)[::2])
        yield from ({**base, name: _between(part, like)} for part in parts)
        yield from ({**base, name: whole} for whole in wholes)


Asked = Callable[[str, Comparison, np.ndarray], "np.ndarray | None"]  # what a comparison says of numbers of an input
Of = Callable[[np.ndarray, float], np.ndarray]  # the input that one number makes of its random numbers


@dataclass
class _Search:
    """Looks for the numbers of an input that are breakpoints of a comparison."""

    side: Side
    base: Feeds
    runs: int = 0
    ends: dict[tuple[Of, str, bytes], dict[Comparison, complex]] = field(default_factory=dict)
    until: float = field(default_factory=lambda: time.monotonic() + PATIENCE)

    @property
    def is_over(self) -> bool:
        return self.runs > MOST_RUNS or time.monotonic() > self.until

    def near(self, name: str, pair: Comparison, steps: Sequence[float], asked: Asked) -> tuple[np.ndarray, np.ndarray]:
        """Neighbours of the input's type, lower and higher ones, between which what a comparison says changes."""
        ladder = _ladder(self.base[name].dtype, steps)
        said = asked(name, pair, ladder)
        if said is None:
            return ladder[:0], ladder[:0]
        changed = np.flatnonzero(said[1:] != said[:-1])[:MOST_FOUND]
        return _halved(ladder[changed], ladder[changed + 1], said[changed], lambda values: asked(name, pair, values))

    def at_own_places(self, name: str, pair: Comparison, reaches: Sequence[float]) -> Iterator[np.ndarray]:
        """Arrays of the input's shape, two at a time, whose elements are next to each other: between them the answer
        changes. Each element is searched at its own position: what it is divided by may be another number there."""
        like = self.base[name]
        for reach in reaches:
            rng = np.random.default_rng(int(reach))
            low = (reach * rng.standard_normal(like.shape)).astype(like.dtype)
            high = (low + reach * rng.uniform(0.1, 1, like.shape)).astype(like.dtype)
            first, last = self._says(name, pair, low), self._says(name, pair, high)
            if first is None or last is None or first.shape != like.shape or last.shape != like.shape:
                return
            counts = (first != last) & (np.abs(first.astype(np.float64)) <= MOST_STEP)
            high = np.where(counts, high, low)
            yield from _halved(low, high, first, lambda values: self._says(name, pair, values))

    def of_elements(self, name: str, pair: Comparison, values: np.ndarray) -> np.ndarray | None:
        """What it says of numbers that are beside each other in the input."""
        found = [self._says(name, pair, part) for part in _parts(values, self.base[name])]
        if any(said is None or said.shape != self.base[name].shape for said in found):
            return None
        return np.concatenate([said.reshape(-1) for said in found if said is not None] or [values])[: values.size]

    def of_wholes(self, of: Of, name: str, pair: Comparison, values: np.ndarray) -> np.ndarray | None:
        """What it says if one number makes the whole input: the least and the most, as parts may differ."""
        found = [self._ends(of, name, value).get(pair) for value in values]
        return None if None in found else np.asarray(found)

    def _ends(self, of: Of, name: str, number: Any) -> Mapping[Comparison, complex]:
        """The most and the least that each comparison says; most of them are searched at the same numbers."""
        key = of, name, number.tobytes()
        if key not in self.ends:
            pairs = [pair for pair in self.side.of_data if pair.kind != "step"]
            said = self._said(name, pairs, of(self.base[name], number))
            if said is None:
                return {}
            self.ends[key] = {p: complex(x.max(), x.min()) for p, x in zip(pairs, said, strict=True) if x.size}
        return self.ends[key]

    def _said(self, name: str, pairs: Sequence[Comparison], values: np.ndarray) -> list[np.ndarray] | None:
        self.runs += 1
        return None if self.is_over else self.side.said({**self.base, name: values}, pairs)

    def _says(self, name: str, pair: Comparison, values: np.ndarray) -> np.ndarray | None:
        said = self._said(name, [pair], values)
        return None if said is None else said[0]


def _between(numbers: np.ndarray, like: np.ndarray) -> np.ndarray:
    """An array with some numbers at every other place."""
    found = like.flatten()
    found[::2] = numbers
    return np.asarray(found.reshape(like.shape))


def _times(like: np.ndarray, factor: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(like * np.asarray(factor, like.dtype), like.dtype)


def _parts(values: np.ndarray, like: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers in arrays like another one, the last one filled up."""
    for start in range(0, values.size, max(like.size, 1)):
        part = values[start : start + like.size]
        yield np.pad(part, (0, like.size - part.size), mode="edge").reshape(like.shape)


def _halved(
    low: np.ndarray, high: np.ndarray, first: np.ndarray, asked: Callable[[np.ndarray], np.ndarray | None]
) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours of a type between which an answer changes: it is `first` at `low`, and another one at `high`."""
    one, other = _ordered(low), _ordered(high)
    for _ in range(low.dtype.itemsize * 8):
        if (other - one <= 1).all():
            break
        middle = (one >> 1) + (other >> 1) + (one & other & 1)
        said = asked(_from_ordered(middle, low.dtype))
        if said is None or said.shape != first.shape:  # how many there are may depend on the numbers (Unique)
            break
        one, other = np.where(said == first, middle, one), np.where(said == first, other, middle)
    return _from_ordered(one, low.dtype), _from_ordered(other, low.dtype)


def _beside(low: np.ndarray, high: np.ndarray, parts: Sequence[float]) -> np.ndarray:
    """Numbers on either side of breakpoints, near and a little further off; integers next to them."""
    ends = np.concatenate([low, high])
    if is_float(ends.dtype):
        wide = ends.astype(np.float64)
        found = np.unique(np.concatenate([wide * (1 + sign * part) for sign in (1, -1) for part in parts]))
        # What has its breakpoint at 0 ends at numbers whose squares are denormal, beside which all is rounding.
        found = found[(found == 0) | (np.abs(found) > NEXT_TO_ZERO)]
        return np.random.default_rng(5).permutation(found).astype(ends.dtype)
    info = np.iinfo(ends.dtype)
    whole = dict.fromkeys(min(max(int(x) + d, info.min), info.max) for x in ends for d in (-1, 0, 1))
    return np.asarray(list(whole), ends.dtype)


def _ladder(dtype: np.dtype, steps: Sequence[float]) -> np.ndarray:
    """Numbers of a type, small and large, in order."""
    if is_float(dtype):
        most = min(float(ml_dtypes.finfo(dtype).max), LARGEST_INPUT)  # type: ignore[no-untyped-call]
        some = [s for s in steps if s < most]
        return np.asarray([-s for s in reversed(some)] + [0.0, *some]).astype(dtype)
    info = np.iinfo(dtype)
    whole = dict.fromkeys(int(s) for s in steps if 1 <= s < info.max)
    return np.asarray([x for x in (*(-w for w in reversed(whole)), 0, *whole) if x >= info.min], dtype)


def _ordered(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the numbers, next to each other where these are."""
    if not is_float(x.dtype):
        return x.astype(np.int64)
    bits = x.view(np.dtype(f"int{x.dtype.itemsize * 8}"))
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits).astype(np.int64)


def _from_ordered(integers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if not is_float(dtype):
        return integers.astype(dtype)
    bits = integers.astype(np.dtype(f"int{dtype.itemsize * 8}"))
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits).astype(bits.dtype).view(dtype)


# ---- sizes -----------------------------------------------------------------------------------------------------------


def sizes_at_breakpoints(side: Side, count: int, feeds_at: Callable[[Sizes], Feeds | None]) -> Iterator[Sizes]:
    """The sizes of `count` free dimensions on either side of those that are breakpoints of a side.

    feeds_at  inputs of some sizes; None where they cannot be made, or are too large
    """
    if not side.of_sizes:
        return

    known: dict[Sizes, tuple[bytes, ...] | None] = {}

    def said(sizes: Sizes) -> tuple[bytes, ...] | None:
        if sizes not in known:
            feeds = feeds_at(sizes)
            found = None if feeds is None else side.said(feeds, side.of_sizes)
            known[sizes] = None if found is None else tuple(_seen(x).tobytes() for x in found)
        return known[sizes]

    def one_of(of: Callable[[int], Sizes], k: int, size: int) -> bytes | None:
        """What the comparison of that number says of a size."""
        answers = said(of(size))
        return None if answers is None else answers[k]

    until = time.monotonic() + PATIENCE
    for one in (*range(count), None):
        octaves = dict.fromkeys(range(len(side.of_sizes)), 0)

        def of(size: int, one: int | None = one) -> Sizes:
            others = 2 if size < MANY else 1
            return tuple(size if one is None or k == one else others for k in range(count))

        # Odd ones: of a power of two, and of its square, each type of floats holds all digits.
        for low, high in itertools.pairwise((1 << k) + 1 for k in range(LARGEST_OCTAVE)):
            begun = time.process_time()
            first, last = said(of(low)), said(of(high))
            if first is None or last is None or time.monotonic() > until:
                break
            is_slow = time.process_time() - begun > SLOW
            for k in (k for k, octave in octaves.items() if octave < FEW_OCTAVES and first[k] != last[k]):
                octaves[k] += side.of_sizes[k].kind == "step"
                found = _between_sizes(low, high, partial(one_of, of, k))
                yield from (of(size) for size in found)
            if is_slow:  # what a window makes of a size may grow with its square
                break


def _seen(x: np.ndarray) -> np.ndarray:
    """The different elements; of many the ends alone, as sorting them takes long."""
    return np.unique(x) if x.size <= SORTED else np.asarray([x.reshape(-1)[0], x.reshape(-1)[-1], x.min(), x.max()])


def _between_sizes(low: int, high: int, said: Callable[[int], bytes | None]) -> tuple[int, ...]:
    """The sizes on either side of one between two others at which an answer changes."""
    first = said(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if said(middle) == first else (low, middle)
    return low, high, high + 1, max(low - 1, 1)
