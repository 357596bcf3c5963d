"""Numbers for the symbolic dimensions of a pair of models, so that both can be run.

A dimension has a number, a name, or neither. `sized_inputs` gives every dimension a number, by one choice of sizes.
Where the original runs with none of them, the next choice is tried:

1. GROWN: small sizes of their own, then the same made longer, or made alike.
2. One name gets a size that an input or a constant has.
3. USUAL: the sizes of images, for whole models.
4. Where there is an If, it may ask whether a size is 1: one name gets that in 2, and all do, last of all.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from onnx import ModelProto, TensorProto

from surgeon.ir.lattice import Dim, Shape
from surgeon.ir.protos import constants_in
from surgeon.proof.feeds import SizedInput

DeclaredInput = tuple[str, int, Shape]  # its name, its element type, its shape with names and unknown dimensions
MOST_ELEMENTS = 1 << 26  # of an input: to draw and compare as many takes 2 GB
TOO_LARGE = f"at the sizes tried an input has more than {MOST_ELEMENTS} elements"
# A formula's size is at least this, if it can be: one element has no variance, and all is rounding there.
FEWEST = 4
# What the sizes grow by until the original runs, and whether they are alike: convolutions of sound need many samples,
# and exporters name the length of a sentence and that of its mask by two names.
GROWN = ((0, False), (0, True), (64, False), (64, True), (1024, False))
# The sizes that networks for images are made for, two at a time: (the first dimension, each other one).
USUAL = (((1, 64), (2, 96)), ((1, 32), (2, 112)), ((1, 224), (2, 256)), ((1, 160), (1, 320)), ((1, 512), (1, 640)))
# The sizes with which an If that asks whether a size is 1 takes that branch; torch.squeeze is exported as one.
SINGLE = (((2, 1), (3, 1)), ((1, 1), (1, 1)))
INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64})
MOST_BORROWED = 8  # sizes of inputs and constants, tried for each symbolic dimension


@dataclass(frozen=True, slots=True)
class SizeChoice:
    """One way to choose the sizes of symbolic dimensions.

    longer    what they get more, but for first dimensions
    alike     whether all are of one size, but for first dimensions, which are of another
    usual     (size of a first dimension, size of any other), at each turn; then nothing else counts
    borrowed  one name, and the size that it gets because something else in the model has it
    below     what drawn integers are below: positions in a table, of which that of sentence types has two rows, and a
              batch of one image one; the lower it is, the fewer elements of a mask are true
    """

    longer: int = 0
    alike: bool = False
    usual: tuple[tuple[int, int], ...] = ()
    borrowed: tuple[str, int] | None = None
    below: int = 4


FIRST_CHOICE = SizeChoice()


def choices(inputs: Sequence[DeclaredInput], model: ModelProto, *, images: bool = False) -> Iterator[SizeChoice]:
    """The choices of small sizes, those of images where they are asked for, then sizes of 1, which prove the least.

    `model` says which sizes can be borrowed or are asked for.
    """
    has_if = any(n.op_type == "If" for n in model.graph.node)
    for longer, alike in GROWN:
        yield SizeChoice(longer, alike)
        if not longer and any(elem in INTEGERS or elem == TensorProto.BOOL for _, elem, _ in inputs):
            yield SizeChoice(longer, alike, below=2)
            yield SizeChoice(longer, alike, below=1)
    # where a scale is one number a channel, its size is that of channels
    shapes = [*(shape for _, _, shape in inputs), *(t.dims for t in constants_in(model.graph).values())]
    sizes = dict.fromkeys(d for dims in shapes for d in dims if isinstance(d, int) and d > 1)
    for borrowed in product(symbols_of(inputs), list(sizes)[:MOST_BORROWED]):
        yield SizeChoice(borrowed=borrowed)
    yield from (SizeChoice(borrowed=(symbol, 1)) for symbol in symbols_of(inputs) if has_if)
    if images and all(isinstance(d, int) for _, _, shape in inputs for d in shape):
        return
    yield from (SizeChoice(usual=usual) for usual in USUAL if images)
    yield from (SizeChoice(usual=usual) for usual in SINGLE if has_if)


def symbols_of(inputs: Sequence[DeclaredInput]) -> list[str]:
    """The names of dimensions, each once."""
    return list(dict.fromkeys(d for _, _, shape in inputs for d in shape if isinstance(d, str)))


def sized_inputs(
    inputs: Sequence[DeclaredInput], *, largest_pad: int, fixed: Mapping[str, int], choice: SizeChoice = FIRST_CHOICE
) -> Iterator[list[SizedInput]]:
    """The inputs with every dimension a number: twice, or once where all are known.

    largest_pad  sizes are larger than this: what is padded by reflection must be longer than the pad
    fixed        the sizes of names that somebody gives, and that no choice changes

    A turn in which an input would have more than MOST_ELEMENTS elements is left out.
    """
    chooser = _Chooser(inputs, largest_pad, fixed, choice)
    for turn in range(chooser.turns()):
        sized = chooser.inputs_at(turn)
        if not any(_is_too_large(dims) for _, _, dims in sized):
            yield sized


def _is_too_large(dims: tuple[int, ...]) -> bool:
    return math.prod(dims) > MOST_ELEMENTS


@dataclass(frozen=True, slots=True)
class _Chooser:
    """Chooses numbers for the dimensions of some inputs, one set of them at each turn."""

    inputs: Sequence[DeclaredInput]
    largest_pad: int
    fixed: Mapping[str, int]
    choice: SizeChoice

    def turns(self) -> int:
        dims = [d for _, _, shape in self.inputs for d in shape]
        is_open = any(d is None or (isinstance(d, str) and d not in self._named()) for d in dims)
        return 2 if is_open else 1

    def inputs_at(self, turn: int) -> list[SizedInput]:
        sizes = self._symbols(turn)
        return [
            (name, elem, tuple(self._dim(d, axis, len(shape), sizes, turn) for axis, d in enumerate(shape)))
            for name, elem, shape in self.inputs
        ]

    def _named(self) -> dict[str, int]:
        borrowed = self.choice.borrowed
        return {**({} if borrowed is None else dict([borrowed])), **self.fixed}

    def _symbols(self, turn: int) -> dict[str, int]:
        """A size for each name of a dimension."""
        if self.choice.usual:
            return self._usual(turn)
        symbols, named = symbols_of(self.inputs), self._named()
        formulas = {s: formula for s in symbols if (formula := _formula(s)) is not None}
        names = {s: _names_in(formulas[s]) if s in formulas else [s] for s in symbols}
        firsts = {n for s in self._first_dims() if isinstance(s, str) for n in names[s]}
        plain: dict[str, int] = {}
        computed: dict[str, int] = {}
        for longer in (self.choice.longer, *(more for more, _ in GROWN if more > self.choice.longer)):
            plain = {}
            for k, name in enumerate(dict.fromkeys(n for s in symbols for n in names[s])):
                size = self._plain((name not in firsts) if self.choice.alike else k, turn)
                plain[name] = named.get(name, size + (0 if name in firsts else longer))
            computed = {s: named.get(s, _evaluated(formula, plain)) for s, formula in formulas.items()}
            if all(size >= (FEWEST if longer < 64 else 1) for size in computed.values()):
                return {**plain, **computed}
        return {**plain, **{s: max(size, 1) for s, size in computed.items()}}

    def _usual(self, turn: int) -> dict[str, int]:
        firsts, named = self._first_dims(), self._named()
        return {s: named.get(s, self.choice.usual[turn][s not in firsts]) for s in symbols_of(self.inputs)}

    def _first_dims(self) -> set[Dim]:
        """The first dimensions of the inputs that have more than one."""
        return {shape[0] for _, _, shape in self.inputs if len(shape) > 1}

    def _plain(self, k: int, turn: int) -> int:
        """The size of the k-th name; the first one is a batch, and small, unless something is padded."""
        if k == 0 and self.largest_pad < 2:
            return (2, 3)[turn]
        return self.largest_pad + (9, 14)[turn] + 2 * k + (k == 0)

    def _dim(self, dim: Dim, axis: int, rank: int, sizes: Mapping[str, int], turn: int) -> int:
        if isinstance(dim, int):
            return dim
        if isinstance(dim, str):
            return sizes[dim]
        if self.choice.usual:
            return self.choice.usual[turn][axis > 0 or rank == 1]
        if axis == 0 and rank > 1 and self.largest_pad < 2:
            return (2, 3)[turn]
        # By the distance from the end, so that unknown sizes broadcast.
        return self.largest_pad + max(1, (11, 16)[turn] - 2 * (rank - axis))


class Symbols:
    """The dimensions of some inputs whose sizes are free, by name, and the inputs at any sizes of them.

    free  names of dimensions, those in formulas too, and one for each distance from the end at which a dimension has
          none; not those that are `fixed`
    """

    def __init__(self, inputs: Sequence[DeclaredInput], fixed: Mapping[str, int]) -> None:
        self.inputs = inputs
        self.fixed = fixed
        self._formulas = {s: formula for s in symbols_of(inputs) if (formula := _formula(s)) is not None}
        names = [name for _, _, shape in inputs for name in self.names(shape)]
        plain = (n for s in names if s for n in (_names_in(self._formulas[s]) if s in self._formulas else [s]))
        self.free = [s for s in dict.fromkeys(plain) if s not in fixed]

    def sized(self, sizes: Mapping[str, int]) -> list[SizedInput] | None:
        """The inputs with a number for every dimension; None where a formula gives none, or one is too large."""
        known = {**sizes, **self.fixed}
        known.update({s: _evaluated(f, known) for s, f in self._formulas.items() if s not in known})
        if min(known.values(), default=0) < 0:
            return None
        found = [
            (
                name,
                elem,
                tuple(d if isinstance(d, int) else known[self._name(d, k, len(shape))] for k, d in enumerate(shape)),
            )
            for name, elem, shape in self.inputs
        ]
        return None if any(_is_too_large(dims) for _, _, dims in found) else found

    def of(self, sized: Sequence[SizedInput]) -> dict[str, int] | None:
        """The size of each free dimension in inputs that have numbers; None where a formula hides one, or two inputs
        have another size for the same name."""
        found: dict[str, int] = {}
        for (_, _, declared), (_, _, shape) in zip(self.inputs, sized, strict=True):
            for name, size in zip(self.names(declared), shape, strict=True):
                if name in self.free and found.setdefault(name, size) != size:
                    return None
        return found if len(found) == len(self.free) else None

    def names(self, shape: Shape) -> list[str]:
        """The names of the dimensions of a shape; empty where one has a number."""
        return [self._name(d, axis, len(shape)) for axis, d in enumerate(shape)]

    @staticmethod
    def _name(dim: Dim, axis: int, rank: int) -> str:
        """The name of a dimension; empty where it has a number."""
        if isinstance(dim, int):
            return ""
        return dim if isinstance(dim, str) else f"#{rank - axis}"


# ---- formulas --------------------------------------------------------------------------------------------------------
# PyTorch's newer exporter names a dimension by its formula, such as '4*s10'.

OPERATIONS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


@cache
def _formula(symbol: str) -> ast.expr | None:
    """A dimension's name as a formula of other names; None where it is a plain name, or anything else."""
    try:
        parsed = ast.parse(symbol, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    allowed = (ast.BinOp, ast.Constant, ast.Name, ast.Load, *OPERATIONS)
    if isinstance(parsed, ast.Name) or not all(isinstance(n, allowed) for n in ast.walk(parsed)):
        return None
    constants = [n.value for n in ast.walk(parsed) if isinstance(n, ast.Constant)]
    return parsed if all(type(c) is int and c < 2**31 for c in constants) else None


def _names_in(formula: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(formula) if isinstance(n, ast.Name)]


def _evaluated(formula: ast.AST, sizes: Mapping[str, int]) -> int:
    """The formula's value; 0 where it has none, or none that is a size."""
    if isinstance(formula, ast.Name):
        return sizes[formula.id]
    if isinstance(formula, ast.Constant):
        assert isinstance(formula.value, int)
        return formula.value
    assert isinstance(formula, ast.BinOp)
    left, right = _evaluated(formula.left, sizes), _evaluated(formula.right, sizes)
    if isinstance(formula.op, ast.FloorDiv | ast.Mod) and right == 0:
        return 0
    if isinstance(formula.op, ast.Pow) and not (0 <= right <= 8):
        return 0
    return OPERATIONS[type(formula.op)](left, right)
