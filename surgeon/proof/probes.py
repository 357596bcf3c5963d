"""Further inputs on which a window must hold: the sizes and the numbers at which it may begin to do something else.

`feeds` has what every pair of models is tried on. A window is small, so much more is tried on it:

1. Sizes: small ones, equal and different ones, none, a large one, and those that the window names.
2. Floats: without gaps around zero, of every binade, halves, and the constants of the window, all with neighbours.
3. Integers: the whole range of their type, every valid position, counts.
"""

from __future__ import annotations  # numpy loads numpy.random where an annotation that names it is evaluated

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, combinations_with_replacement, permutations, product

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.ir.lattice import FLOATS, HALVES
from surgeon.ir.operators import (
    BOUNDED,
    ELEMENTWISE,
    EXACT,
    FILLS,
    INTERPOLATES,
    LOCATES,
    MEASURES,
    MOVES,
    OPERATORS,
    RETURNS_BOOL,
    ROUNDS,
    words,
)
from surgeon.ir.protos import nodes_of
from surgeon.proof.breakpoints import Side, feeds_at_breakpoints, sizes_at_breakpoints
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import LARGEST_INPUT, WORDS, Feeds, SizedInput
from surgeon.proof.integer_roles import INTEGER_TYPES, Role, divisors, roles
from surgeon.proof.pair import ModelPair
from surgeon.proof.sizes import Symbols

SMALL = (1, 2, 3, 5, 8)
# One dimension, and the others: a size may count where it is 2, 3, 4 times another.
TWICE_AND_MORE = ((4, 2), (6, 2), (4, 1))
LARGE = (130, 64)  # the second one is what kernels and exporters like: a power of two
LARGEST_SEARCHED = 1 << 25  # elements of the inputs at a size at which a window may have a breakpoint
LARGEST_SAMPLED = 1 << 12  # a size beyond which fp32 rounds a position by more than a sample may move
TRIED_BEFORE = 1 << 11  # at what is larger a window is run where it is quick at this size
LARGEST_NAMED = 1 << 18  # of the numbers of a window that are taken for sizes
FURTHEST_BACK = -1024  # a number below is not a position from the end: masks add -10000, attention grows with squares
MOST_NAMED = 12
MOST_MULTIPLIED = 4  # of them, by each other
LARGEST_PRODUCT = 1 << 10
MOST_PROBED = 1 << 20  # elements that all the probes of a window may draw, weights counted in part
MOST_AT_BREAKPOINTS = 1 << 26  # the same of the sizes at which a comparison of sizes changes: some are large
ENOUGH = 1 << 11  # elements of an input in which the numbers are tried, where its sizes are chosen
FEW = 600  # elements of inputs: at an end of them, where a size counts, their signs are not a sample
MOST_RUNS = 16  # of one kind of numbers, where its inputs are small
MOST_OF_ONE_SIGN = 2
MOST_INTEGER_RUNS = 100  # the same of integers and positions: each row of a table, each number of 8 bits
LARGEST_COUNT = 1 << 12  # of the numbers of a window that are taken for a count
LARGEST_OF_COUNTS = 64  # the same of several counts together: they may be multiplied
FEW_COUNTS = 4  # that are tried of each of several counts, where the others are 1
MOST_DERIVED = 8  # numbers of a window whose sums, products and quotients are tried, too
MOST_PAIRED = 4  # runs with each number of a window beside each other one
DENSE = 2048
LARGE_HALVES = (40, 400, 8000)
CLOSE = (1, 1 << 6, 1 << 11)  # steps of their type that numbers are apart, which a narrower type does not show
SPREAD = 1e4  # between the constants that are tried in one tensor
HEAD = 12  # integers that are tried first, whatever the inputs hold: both ends, and what the window names
BINADES = 14  # in one tensor: less than what the tolerance hides
OF_ONE_SIGN = frozenset({"scaled", "huge", "beyond"})  # of what is tiny the squares are denormal
Probe = tuple[str, Feeds]  # the kind of input, and the feeds


@dataclass(frozen=True)
class Window:
    """What the probes want to know about a pair."""

    pair: ModelPair

    @cached_property
    def given(self) -> dict[tuple[str, tuple[int, ...]], np.ndarray]:
        """The integers that a run of the whole model has there, by name and shape."""
        met = ((n, x) for feeds in self.pair.met for n, x in feeds.items() if not is_float(x.dtype))
        return {(n, x.shape): x for n, x in met}

    @cached_property
    def sides(self) -> list[Side]:
        return [Side(m, self.pair.folder) for m in self.pair.both]

    @cached_property
    def numbers(self) -> list[float]:
        """The numbers that either side has as a constant or as an attribute, each once."""
        found = dict.fromkeys(x for m in self.pair.both for x in _numbers(m))
        return [x for x in found if math.isfinite(x)]

    @cached_property
    def derived(self) -> list[float]:
        """What the first of these numbers make of each other: a * x + b > c has its breakpoint at a quotient."""
        few = self.numbers[:MOST_DERIVED]
        made = (x for a in few for b in few for x in (a + b, a - b, a * b, a / b if b else math.inf))
        return [x for x in dict.fromkeys(made) if math.isfinite(x)]

    @cached_property
    def strings(self) -> list[str]:
        return list(dict.fromkeys(x for m in self.pair.both for x in _strings(m)))

    @cached_property
    def roles(self) -> Mapping[str, Role]:
        return roles(self.pair)

    @cached_property
    def divisors(self) -> frozenset[str]:
        return divisors(self.pair)

    @cached_property
    def divides(self) -> bool:
        """Whether a side divides, or takes a remainder."""
        return any(n.op_type in ("Div", "Mod") for m in self.pair.both for n in nodes_of(m))

    @cached_property
    def weights(self) -> int:
        """How many elements the constants of the larger side have."""
        return max(sum(_elements(tuple(t.dims)) for t in m.graph.initializer) for m in self.pair.both)

    @cached_property
    def never_overflows(self) -> bool:
        """Whether no side makes larger numbers of what it reads: it holds up to the largest one of its type. Another's
        pass may not overflow where the original does not."""
        sides = self.pair.both if self.pair.is_own else (self.pair.before,)
        return all(n.op_type in NO_LARGER for m in sides for n in m.graph.node)

    @cached_property
    def mixes(self) -> bool:
        """Whether a result of either side may depend on what is beside a number."""
        return any(n.op_type not in ONE_BY_ONE or n.domain for m in self.pair.both for n in m.graph.node)

    @cached_property
    def rounds(self) -> bool:
        """Whether the original rounds: what it chooses of numbers that are close is as its kernels round."""
        return any(n.domain or n.op_type in ROUNDS or n.op_type not in OPERATORS for n in nodes_of(self.pair.before))

    @cached_property
    def runs_on_nothing(self) -> bool:
        """Whether both sides can be tried on tensors without elements."""
        may_run = all(n.op_type in RUNS_ON_NOTHING and not n.domain for m in self.pair.both for n in m.graph.node)
        return may_run and not any(_is_undefined_on_nothing(n, self.pair.before) for n in self.pair.before.graph.node)

    def may_be_refused(self, sized: Sequence[SizedInput]) -> bool:
        """Whether a size was chosen at which a rewritten window may refuse to run: it is 0, and a Reshape of it cannot
        tell what -1 is, or it is no more than the largest pad."""
        chosen = [
            d
            for (_, _, dims), (_, _, shape) in zip(sized, self.pair.inputs, strict=True)
            for d, declared in zip(dims, shape, strict=True)
            if not isinstance(declared, int)
        ]
        least = min(chosen, default=1)
        reshapes = any(n.op_type == "Reshape" for n in nodes_of(self.pair.after))
        return 0 < least <= self.pair.largest_pad or (least == 0 and (reshapes or self.pair.largest_pad > 0))

    def cost(self, sized: Sequence[SizedInput]) -> int:
        """What a run takes, in elements."""
        return sum(_elements(dims) for _, _, dims in sized) + self.weights // 4 + 64


POSITION = "position"
SATURATED = "saturated"  # every number is where Sigmoid, Tanh, Exp and Erf are next to their ends
# Whose results are no larger than what they read, or bounded.
NO_LARGER = (
    EXACT - INTERPOLATES
    | RETURNS_BOOL
    | LOCATES
    | MEASURES
    | ELEMENTWISE & BOUNDED
    | {"LeakyRelu", "Log", "PRelu", "Sqrt"}
)
# Operators that make each number of those at the same position, or move numbers about. Of others it may count what is
# beside a number: a maximum of negative ones alone, for example.
ONE_BY_ONE = ELEMENTWISE | MOVES | FILLS | MEASURES
ONE_BY_ONE |= {"Constant", "ConstantOfShape", "DequantizeLinear", "QuantizeLinear"}
# Operators that ONNX Runtime runs on tensors without elements: others, such as InstanceNormalization, end the process
# of one release or another.
RUNS_ON_NOTHING = words(
    "Abs Add And Cast Ceil Celu Clip Concat Constant ConstantOfShape Cos CumSum Div Elu Equal Erf Exp Expand Flatten "
    "Floor Gather Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual "
    "Log MatMul Max MaxPool Mean Min Mish Mod Mul Neg Not Or PRelu Pad Pow Range Reciprocal ReduceL1 ReduceL2 "
    "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape "
    "Round Selu Shape Sigmoid Sign Sin Size Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Swish Tan Tanh "
    "ThresholdedRelu Tile Transpose Unsqueeze Where Xor"
)


# ---- sizes -----------------------------------------------------------------------------------------------------------


def probed_sizes(window: Window, is_quick: Callable[[Sequence[SizedInput]], bool]) -> Iterator[list[SizedInput]]:
    """The inputs of a window at other sizes than those chosen first, each once; none where all sizes are known.

    is_quick  whether both sides run at some sizes without taking long: larger ones are tried where they do. What a
              window makes of a size may grow with its square
    """
    symbols = window.pair.symbols
    free = symbols.free
    if not free:
        return
    seen: set[tuple[int, ...]] = set()
    quick = _Quick(symbols, is_quick)
    for sizes in (*_small(len(free)), *_named(len(free), window), *_large(len(free))):
        if sizes in seen or (0 in sizes and not window.runs_on_nothing):
            continue
        seen.add(sizes)
        sized = symbols.sized(dict(zip(free, sizes, strict=True)))
        if sized is None or (_is_empty(sized) and not window.runs_on_nothing):
            continue
        if quick.allows(sizes):
            yield sized


class _Quick:
    """Whether a window is run at large sizes: where it is quick at smaller ones."""

    def __init__(self, symbols: Symbols, is_quick: Callable[[Sequence[SizedInput]], bool]) -> None:
        self._symbols, self._is_quick = symbols, is_quick
        self._known: dict[tuple[int, ...], bool] = {}

    def allows(self, sizes: tuple[int, ...]) -> bool:
        if max(sizes, default=0) <= TRIED_BEFORE:
            return True
        tried = tuple(min(s, TRIED_BEFORE) for s in sizes)
        if tried not in self._known:
            before = self._symbols.sized(dict(zip(self._symbols.free, tried, strict=True)))
            self._known[tried] = before is not None and self._is_quick(before)
        return self._known[tried]


def _small(count: int) -> Iterator[tuple[int, ...]]:
    """Equal sizes, then different ones: each dimension gets each of the small sizes, and is the largest one once."""
    for size in SMALL:
        yield tuple(size for _ in range(count))
    for turn in range(len(SMALL)):
        yield tuple(SMALL[(turn + k) % len(SMALL)] for k in range(count))
        yield tuple(SMALL[(turn - k) % len(SMALL)] for k in range(count))
    for k in range(count):
        yield _one(count, k, 0, 3)
        yield _one(count, k, 1, 4)
        yield from (_one(count, k, size, others) for size, others in TWICE_AND_MORE)
    yield (0,) * count


def _named(count: int, window: Window) -> Iterator[tuple[int, ...]]:
    """The sizes that the window names, products of two, and those beside them: of a last position the first wrong size
    is two above."""
    named = list(dict.fromkeys([*_as_sizes(window.numbers), *(d + 1 for d in _weight_sizes(window) if d > 3)]))
    named = named[:MOST_NAMED]
    products = [a * b for a, b in combinations_with_replacement(named[:MOST_MULTIPLIED], 2) if a * b <= LARGEST_PRODUCT]
    for number in dict.fromkeys([*named, *products]):
        for size, k, others in product((number, number + 1, number - 1, number + 2), range(count), (2, 1)):
            yield _one(count, k, size, others)
    two = (permutations(named[:MOST_MULTIPLIED], 2), permutations(range(count), 2))
    for (a, b), (one, other) in product(*two):  # two dimensions of two sizes
        yield tuple(a if k == one else b if k == other else 2 for k in range(count))
    if window.pair.is_own:  # the rest takes as long as all before
        return
    whole = [int(abs(x)) for x in window.numbers if float(x).is_integer() and 1 < abs(x) < LARGEST_PRODUCT]
    if count == 3:
        yield from permutations(list(dict.fromkeys(whole))[:MOST_MULTIPLIED], 3)
    for size, pair in product(named[:MOST_MULTIPLIED], combinations(range(count), 2)):
        yield tuple(size if k in pair else 1 for k in range(count))


def _as_sizes(numbers: Iterable[float]) -> Iterator[int]:
    """Those of some numbers that may be sizes, each once."""
    whole = (int(x) for x in numbers if float(x).is_integer())
    return iter(dict.fromkeys(abs(x) for x in whole if abs(x) >= 4 and FURTHEST_BACK < x < LARGEST_NAMED))


def _large(count: int) -> Iterator[tuple[int, ...]]:
    for k, large in product(range(count), LARGE):
        yield _one(count, k, large, 2)


def _one(count: int, k: int, size: int, others: int) -> tuple[int, ...]:
    return tuple(size if i == k else others for i in range(count))


def breakpoint_sizes(
    window: Window, side: Side, is_quick: Callable[[Sequence[SizedInput]], bool]
) -> Iterator[list[SizedInput]]:
    """The inputs at sizes on either side of the breakpoints of the two sides."""
    symbols = window.pair.symbols
    quick, seen = _Quick(symbols, is_quick), set[tuple[int, ...]]()
    samples = any(n.op_type in INTERPOLATES for n in nodes_of(window.pair.before))

    def sized(sizes: tuple[int, ...]) -> list[SizedInput] | None:
        return symbols.sized(dict(zip(symbols.free, sizes, strict=True)))

    def feeds_at(sizes: tuple[int, ...]) -> Feeds | None:
        found = sized(sizes)
        if found is None or sum(math.prod(d for d in dims if d) for *_, dims in found) > LARGEST_SEARCHED:
            return None  # numpy refuses the other sizes beside a size of 0, too
        return {n: np.zeros(s, _dtype(e)) for n, e, s in found}

    for sizes in sizes_at_breakpoints(side, len(symbols.free), feeds_at):
        if sizes in seen or (samples and max(sizes, default=0) > LARGEST_SAMPLED):
            continue
        seen.add(sizes)
        if (found := sized(sizes)) and (window.runs_on_nothing or not _is_empty(found)) and quick.allows(sizes):
            yield found


def breakpoint_feeds(window: Window, side: Side, sized: Sequence[SizedInput]) -> Iterator[Probe]:
    """(kind, feeds): the numbers on either side of the breakpoints of the two sides."""
    plain = (n for n, e, s in sized if (e in FLOATS or window.roles.get(n) == "number") and _elements(s))
    base = random_feeds(window, sized, np.random.default_rng(7))
    for feeds in feeds_at_breakpoints(side, base, [n for n in plain if n not in window.divisors], mixes=window.mixes):
        yield "breakpoint", feeds


def roomy_sizes(window: Window) -> Iterator[list[SizedInput]]:
    """The inputs at sizes that hold many numbers, where sizes can be chosen."""
    symbols = window.pair.symbols
    if not symbols.free:
        return
    for most in (ENOUGH, ENOUGH // 8):
        for spread in (0, 1):  # different sizes, then equal ones
            sides = [most]
            for _, _, shape in window.pair.inputs:
                known = math.prod(d for d in shape if isinstance(d, int))
                count = sum(not isinstance(d, int) for d in shape)
                if count:
                    sides.append(int((max(most, 1) / max(known, 1)) ** (1 / count)))
            side = max(min(sides), 2)
            sizes = {s: max(side - (0 if spread else 2 * k), 2) for k, s in enumerate(symbols.free)}
            sized = symbols.sized(sizes)
            if sized is not None:
                yield sized


# ---- numbers ---------------------------------------------------------------------------------------------------------


def probed_floats(window: Window, sized: Sequence[SizedInput]) -> Iterator[Probe]:
    """(kind, feeds): the numbers at which a window may bend, jump or saturate, at one size of its inputs."""
    rng = np.random.default_rng(1)
    base = random_feeds(window, sized, rng)
    floats = [(name, elem, dims) for name, elem, dims in sized if elem in FLOATS and _elements(dims)]
    if floats:
        halves = {n: np.resize(_usual_pool("half", e), math.prod(s)).reshape(s) for n, e, s in floats}
        if len(floats) > 1:
            yield "equal", {**base, **halves}
            yield "next to equal", {**base, **_one_step_apart(halves)}
            yield "negative zero", {**base, **{n: rng.choice((0.0, -0.0), s).astype(_dtype(e)) for n, e, s in floats}}
        if len(floats) > 1 and not window.pair.is_own:
            infinite = {n: np.where(np.abs(x) > 19, np.copysign(np.inf, x), x) for n, x in halves.items()}
            yield "inf", {**base, **{n: x.astype(halves[n].dtype) for n, x in infinite.items()}}
            for name, *_ in floats:  # one input alone has a NaN
                place = np.arange(base[name].size).reshape(base[name].shape) % FEW == 0
                yield "nan", {**base, name: np.where(place, np.nan, base[name]).astype(base[name].dtype)}
        for kind, pool in _pools(window, floats):
            yield from _filled(kind, floats, pool, base, MOST_INTEGER_RUNS if kind == "constant" else MOST_RUNS)
            if window.mixes and kind in OF_ONE_SIGN:
                for sign in (1, -1):
                    one_sign = {elem: sign * np.abs(numbers) for elem, numbers in pool.items()}
                    yield from _filled(kind, floats, one_sign, base, MOST_OF_ONE_SIGN)
        named = np.asarray([x for x in window.numbers[:MOST_DERIVED] if abs(x) < LARGEST_INPUT], np.float64)
        for _ in range(MOST_PAIRED if len(floats) > 1 and named.size else 0):
            yield "constant", {**base, **{n: rng.choice(_with_neighbours(named, e), s) for n, e, s in floats}}
        yield "spread", {**base, **{n: _spread(rng, e, s) for n, e, s in floats}}
        for steps in CLOSE if window.mixes and not window.rounds else ():
            yield "close", {**base, **{n: _close(rng, e, s, steps) for n, e, s in floats}}
        for sign in (1, -1):
            in_order = {n: np.sort(base[n], None)[::sign].reshape(s) for n, _, s in floats}
            yield "in order", {**base, **in_order}
            normal = {n: (sign * np.abs(rng.standard_normal(s))).astype(_dtype(e)) for n, e, s in floats}
            yield "one sign", {**base, **normal}
            saturated = {n: (sign * rng.uniform(8, 40, s)).astype(_dtype(e)) for n, e, s in floats}
            yield SATURATED, {**base, **saturated}


def probed_integers(window: Window, sized: Sequence[SizedInput]) -> Iterator[Probe]:
    """(kind, feeds): the integers, truths, counts and axes at which a window may do something else."""
    base = random_feeds(window, sized, np.random.default_rng(1))
    numbers = [x for x in sized if window.roles.get(x[0]) == "number" and _elements(x[2])]
    if numbers:
        pools = {elem: _integer_pool(window, elem) for _, elem, _ in numbers}
        for kind, feeds in _filled("integer", numbers, pools, base, MOST_INTEGER_RUNS):
            yield kind, {**feeds, **{n: without_zero(feeds[n]) for n in feeds if n in window.divisors}}
        for high in (True, False):
            ends = {n: _at_an_end(e, s, high) for n, e, s in numbers if _dtype(e).itemsize <= 2}
            if ends:
                yield "integer", {**base, **ends}
        if len(numbers) > 1 and not window.divisors:
            same = {n: np.resize(pools[e], math.prod(s)).reshape(s) for n, e, s in numbers}
            yield "equal", {**base, **same}
            yield "next to equal", {**base, **_one_step_apart(same)}
    for name, elem, dims in sized:
        if elem == TensorProto.BOOL:
            for value in (True, False):
                yield "one truth", {**base, name: np.full(dims, value)}
                if math.prod(dims):
                    yield "one truth", {**base, name: (np.arange(math.prod(dims)) == 1).reshape(dims) == value}
        size = math.prod(dims)
        if window.roles.get(name) in ("length", "size") and size:
            counts = _counts(window, LARGEST_COUNT if size == 1 else LARGEST_OF_COUNTS)
            alone = (np.where(np.arange(size) == k, count, 1) for count in counts[:FEW_COUNTS] for k in range(size))
            for values in (*_cut(counts, size, most=MOST_INTEGER_RUNS), *(alone if size > 1 else ())):
                yield "count", {**base, name: _as(values, elem).reshape(dims)}


def probed_positions(window: Window, sized: Sequence[SizedInput]) -> Iterator[Iterator[Probe]]:
    """For each input of positions or lengths the feeds that reach every row, of one guess of how many rows there are
    after the other, largest first: the first guess with which the original runs is right."""
    rng = np.random.default_rng(2)
    base = random_feeds(window, sized, rng)
    rows = sorted({d for _, _, dims in sized for d in dims} | _weight_sizes(window), reverse=True)[:8]
    for name, elem, dims in sized:
        role = window.roles.get(name)
        if role not in ("position", "length") or not math.prod(dims):
            continue
        for most, least in product(rows, (-1, 0, 1) if role == "length" else (-1, 0)):
            if most:
                end = most + 1 if role == "length" else most
                values = np.arange(-most if least < 0 and (_dtype(elem).kind == "i") else max(least, 0), end)
                ends = values[[0, -1, *rng.integers(0, values.size, 6)]]
                pool = np.concatenate([ends, rng.permutation(values)])
                yield (
                    (POSITION, {**base, name: _as(part, elem).reshape(dims)})
                    for part in _cut(pool, _elements(dims), most=MOST_INTEGER_RUNS)
                )
        yield iter(())  # the guesses of another input follow


def sized_feeds(window: Window, sized: Sequence[SizedInput], rng: np.random.Generator) -> Iterator[Feeds]:
    """Random inputs of probed sizes; where they hold few numbers, the same with the other sign, and all truths, too."""
    feeds = random_feeds(window, sized, rng)
    yield feeds
    if sum(_elements(dims) for _, _, dims in sized) <= FEW:
        yield {name: _turned(x) for name, x in feeds.items()}


def _turned(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.bool_:
        return np.ones_like(x)
    return -x if is_float(x.dtype) else x


def random_feeds(window: Window, sized: Sequence[SizedInput], rng: np.random.Generator) -> Feeds:
    """Normal numbers, integers from 0 to 3, either truth, and words; of what is given that, where the sizes are its."""
    drawn = {name: _random(window, elem, dims, rng) for name, elem, dims in sized}
    return {name: window.given.get((name, x.shape), x) for name, x in drawn.items()}


def _random(window: Window, elem: int, dims: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if elem in FLOATS:
        return rng.standard_normal(dims).astype(_dtype(elem))
    if elem == TensorProto.STRING:
        words = np.asarray([*window.strings, *WORDS], object)
        return np.asarray(words[rng.integers(0, len(words), dims)], object).reshape(dims)
    return rng.integers(0, 2 if elem == TensorProto.BOOL else 4, dims).astype(_dtype(elem))


def _pools(window: Window, floats: Sequence[SizedInput]) -> Iterator[tuple[str, dict[int, np.ndarray]]]:
    """(kind, for each type its numbers)"""
    types = {elem for _, elem, _ in floats}
    for alike in _of_one_size(window):
        yield "constant", {elem: _with_neighbours(np.asarray(alike, np.float64), elem) for elem in types}
    for kind in ("half", "dense", "wide"):
        yield kind, {elem: _usual_pool(kind, elem) for elem in types}
    for lowest in LARGE_HALVES:
        yield "half", {elem: _halves_from(lowest, elem) for elem in types}
    for kind, lowest in _scales(window, types):
        yield kind, {elem: _scale(lowest, elem) for elem in types}
    if window.never_overflows:
        yield "beyond", {elem: _largest(elem) for elem in types}


def _of_one_size(window: Window) -> Iterator[list[float]]:
    """A window's numbers and their opposites, in parts within which the tolerance does not hide the small ones."""
    most = math.inf if window.never_overflows and not window.pair.is_own else LARGEST_INPUT
    part: list[float] = []
    for size in sorted({abs(x) for x in (*window.numbers[:64], *window.derived) if abs(x) < most}):
        if part and size > SPREAD * max(next((abs(x) for x in part if x), size), 1e-300):
            yield part
            part = []
        part += [size, -size]
    if part:
        yield part


@cache
def _usual_pool(kind: str, elem: int) -> np.ndarray:
    if kind == "half":
        return _with_neighbours(np.arange(-40, 41) / 2, elem)
    reach, count = (10.0, DENSE) if kind == "dense" else (110.0, DENSE // 4)
    return _mixed(np.linspace(-reach, reach, count, endpoint=False), elem)


@cache
def _scale(lowest: int, elem: int) -> np.ndarray:
    """Numbers of either sign of BINADES binades."""
    with np.errstate(over="ignore"):
        steps = np.exp2(lowest + np.linspace(0, BINADES, 64, endpoint=False))
    return _mixed(np.concatenate([steps, -steps]), elem)


def _mixed(values: np.ndarray, elem: int) -> np.ndarray:
    return _as(np.random.default_rng(4).permutation(values), elem)


def _scales(window: Window, types: Iterable[int]) -> Iterator[tuple[str, int]]:
    """(kind, the power of two that the smallest of BINADES binades begins with)"""
    infos = [ml_dtypes.finfo(_dtype(elem)) for elem in types]  # type: ignore[no-untyped-call]
    lowest = max(int(np.log2(float(i.smallest_normal))) for i in infos)
    highest = min(int(np.log2(float(i.max))) for i in infos)
    for exponent in range(max(lowest, -150), min(highest - BINADES + 1, 150), BINADES):
        if exponent + BINADES <= 60:
            yield "tiny" if exponent < -16 else "scaled" if exponent < 16 else "huge", exponent
        elif window.never_overflows:
            yield "beyond", exponent
    if window.never_overflows:
        yield "beyond", highest + 1 - BINADES


def _close(rng: np.random.Generator, elem: int, dims: tuple[int, ...], steps: int) -> np.ndarray:
    """Numbers that are some steps of their type apart, many of them equal."""
    eps = float(ml_dtypes.finfo(_dtype(elem)).eps)  # type: ignore[no-untyped-call]
    return (1 + rng.integers(0, 8, dims) * (steps * eps)).astype(_dtype(elem))


def _spread(rng: np.random.Generator, elem: int, dims: tuple[int, ...]) -> np.ndarray:
    """Numbers of either sign, small ones beside large ones."""
    least = -3.0 if elem in HALVES else -8.0
    return (rng.choice((-1, 1), dims) * 10 ** rng.uniform(least, 2.0, dims)).astype(_dtype(elem))


@cache
def _largest(elem: int) -> np.ndarray:
    """Numbers next to the largest of a type, of either sign. That one itself counts as saturated."""
    most = float(ml_dtypes.finfo(_dtype(elem)).max)  # type: ignore[no-untyped-call]
    below = most * np.asarray([0.9999, 0.998, 0.99, 0.98, 0.95, 0.9])
    return _mixed(np.concatenate([below, -below]), elem)


@cache
def _halves_from(lowest: int, elem: int) -> np.ndarray:
    """Halves of one size, beside which the tolerance is no more than a tenth; no two are opposites."""
    rng = np.random.default_rng(lowest)
    whole = rng.choice(np.arange(lowest, 2 * lowest), 24, replace=False)
    return _as(rng.choice((1, -1), 24) * (whole + 0.5), elem)


def _with_neighbours(values: np.ndarray, elem: int) -> np.ndarray:
    """Numbers, what the type has next to them, and what is a little further off."""
    with np.errstate(over="ignore"):
        own = values.astype(_dtype(elem))
        beside = [np.nextafter(own, own.dtype.type(way)).astype(np.float64) for way in (np.inf, -np.inf)]
        found = np.concatenate([own.astype(np.float64), *beside, values * 1.001, values * 0.999])
        return _mixed(found[np.isfinite(found.astype(own.dtype))], elem)


def _integer_pool(window: Window, elem: int) -> np.ndarray:
    """Integers of the whole range of a type: all small ones, each power of two, what the window names, both ends."""
    info = np.iinfo(_dtype(elem))
    rng = np.random.default_rng(3)
    named = [int(x) + d for x in (*window.numbers, *window.derived) if float(x).is_integer() for d in (-1, 0, 1)]
    powers = [s * (1 << k) + d for k in range(info.bits) for s in (1, -1) for d in (-1, 0, 1)]
    spread = [int(s * 2.0 ** rng.uniform(0, info.bits)) for _ in range(100) for s in (1, -1)]
    wanted = [info.min, info.max, *named, *(-x for x in named), *powers, *range(-130, 260), *spread]
    # The lowest one of a type with signs, divided by -1, ends the process.
    lowest = info.min + (info.min < 0 and window.divides)
    found = np.asarray(list(dict.fromkeys(x for x in wanted if lowest <= x <= info.max)), _dtype(elem))
    return np.concatenate([found[:HEAD], rng.permutation(found[HEAD:])])


def _at_an_end(elem: int, dims: tuple[int, ...], high: bool) -> np.ndarray:
    """Numbers next to the highest or the lowest of a type, whose sums are even and odd."""
    info, rng = np.iinfo(_dtype(elem)), np.random.default_rng(6)
    least = info.max - 3 if high else info.min
    return rng.integers(least, least + 4, dims, _dtype(elem))


def _one_step_apart(feeds: Feeds) -> Feeds:
    """Each input but the first one moved by one step of its type, every other element upwards."""
    return {n: x if k == 0 else _moved(x) for k, (n, x) in enumerate(feeds.items())}


def _moved(x: np.ndarray) -> np.ndarray:
    up = np.arange(x.size).reshape(x.shape) % 2 == 0
    if is_float(x.dtype):
        moved = np.where(up, np.nextafter(x, x.dtype.type(np.inf)), np.nextafter(x, x.dtype.type(-np.inf)))
        return np.asarray(moved, x.dtype)
    info = np.iinfo(x.dtype)
    return np.where(up & (x < info.max), x + x.dtype.type(1), np.where(x > info.min, x - x.dtype.type(1), x))


def _counts(window: Window, most: int) -> np.ndarray:
    named = [int(x) + d for x in window.numbers if float(x).is_integer() and 2 < abs(x) < most for d in (-1, 0, 1)]
    return np.asarray(list(dict.fromkeys([4, 1, 0, 7, 2, -1, 3, -2, 5, 9, 6, -3, *named, 12, 17])))


def _filled(
    kind: str, inputs: Sequence[SizedInput], pools: Mapping[int, np.ndarray], base: Feeds, most: int = MOST_RUNS
) -> Iterator[Probe]:
    """The inputs filled with the numbers of the pools until all are used, each input in an order of its own."""
    parts = [
        [p.reshape(dims) for p in _cut(pools[elem], _elements(dims), k, most)]
        for k, (_, elem, dims) in enumerate(inputs)
    ]
    for turn in range(max(map(len, parts))):
        yield kind, {**base, **{x[0]: p[turn % len(p)] for x, p in zip(inputs, parts, strict=True)}}


def _cut(pool: np.ndarray, size: int, shift: int = 0, most: int = MOST_RUNS) -> Iterator[np.ndarray]:
    """A pool in parts of some size, the last one filled up, no more than `most`. `shift`: which of some inputs it is
    for, so that not all get the same number at the same position."""
    rolled = np.roll(pool, shift * 37) if shift else pool
    for turn in range(min(-(-pool.size // size), most)):
        yield np.resize(rolled[turn * size : (turn + 1) * size], size)


def _as(values: np.ndarray, elem: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(_dtype(elem))


def without_zero(x: np.ndarray) -> np.ndarray:
    """Integers with 1 in place of 0."""
    return np.where(x == 0, np.asarray(1, x.dtype), x) if x.dtype.kind in "iu" else x


def _elements(dims: tuple[int, ...]) -> int:
    return math.prod(dims)


def _dtype(elem: int) -> np.dtype:
    return np.dtype(helper.tensor_dtype_to_np_dtype(elem))


# ---- what a window says ----------------------------------------------------------------------------------------------

# The first integer that a narrow type does not hold.
CUTS = {
    TensorProto.INT8: 1 << 7, TensorProto.UINT8: 1 << 8, TensorProto.INT16: 1 << 15, TensorProto.UINT16: 1 << 16,
    TensorProto.INT32: 1 << 31, TensorProto.UINT32: 1 << 32, TensorProto.BFLOAT16: (1 << 8) + 1,
    TensorProto.FLOAT16: (1 << 11) + 1, TensorProto.FLOAT: (1 << 24) + 1, TensorProto.DOUBLE: (1 << 53) + 1,
}  # fmt: skip
MOST_OF_A_CONSTANT = 64  # elements: those of a larger one are weights


def _numbers(model: ModelProto) -> Iterator[float]:
    """The numbers of the constants and attributes of a model, its functions and its bodies."""
    for tensor in _tensors(model):
        if tensor.data_type in FLOATS | INTEGER_TYPES and math.prod(tensor.dims) <= MOST_OF_A_CONSTANT:
            found = [float(x) for x in numpy_helper.to_array(tensor).reshape(-1)]
            from_end = [-x for x in found if tensor.data_type in INTEGER_TYPES and x <= FURTHEST_BACK]
            yield from (*found, *from_end)
    for node in nodes_of(model):
        for attribute in node.attribute:
            is_type = node.op_type == "Cast" and attribute.name == "to"
            own = (attribute.f, attribute.i, *attribute.floats, *attribute.ints)
            values = (CUTS.get(attribute.i, 0),) if is_type else own
            yield from (float(v) for v in values if v)


def _strings(model: ModelProto) -> Iterator[str]:
    for attribute in (a for node in nodes_of(model) for a in node.attribute):
        yield from (s.decode(errors="replace") for s in (attribute.s, *attribute.strings) if s)
    for tensor in _tensors(model):
        if tensor.data_type == TensorProto.STRING and math.prod(tensor.dims) <= MOST_OF_A_CONSTANT:
            yield from (s.decode(errors="replace") for s in tensor.string_data)


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from model.graph.initializer
    for node in nodes_of(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.g.initializer


def _is_empty(sized: Sequence[SizedInput]) -> bool:
    """Whether an input has no elements: a size may follow from others, by which it is 0."""
    return any(0 in dims for _, _, dims in sized)


def _is_undefined_on_nothing(node: NodeProto, model: ModelProto) -> bool:
    """Whether a Reshape may be asked for -1 beside a 0 that means no elements, which ONNX forbids."""
    known = {t.name for t in model.graph.initializer}
    allows = any(a.name == "allowzero" and a.i for a in node.attribute)
    return node.op_type == "Reshape" and allows and node.input[1] not in known


def _weight_sizes(window: Window) -> set[int]:
    return {d for m in window.pair.both for t in m.graph.initializer for d in t.dims}
