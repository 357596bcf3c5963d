"""Sizes of symbolic dimensions at which a model is of use: a batch of 1, an image of 224, a sentence of 64.

`usual_sizes` proposes them, the likeliest first; the caller tries which of them run. A size that the graph forces, such
as a height of 48 or 17 tokens, is a size of its constants, or is found by trying one dimension or two at a time.
`farthest` finds how far each dimension may go from there.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Literal, NamedTuple, TypeAlias

from onnx import ModelProto, numpy_helper

from surgeon.ir.graph import Node
from surgeon.ir.inference import contradiction
from surgeon.ir.iteration import RECURRENT
from surgeon.ir.lattice import FLOATS, Dim, Shape
from surgeon.ir.model import Model
from surgeon.ir.operators import BROADCASTS
from surgeon.ir.protos import constants_in, copied
from surgeon.proof.feeds import SizedInput
from surgeon.proof.sizes import INTEGERS, DeclaredInput, Symbols

Role: TypeAlias = Literal["batch", "channels", "side", "length", "steps"]
Sizes: TypeAlias = dict[str, int]  # the size of each symbolic dimension by name
CHANNELS = (3, 1, 4)  # of an image
LARGE = 16  # an image's height and width are at least so large
USUAL: Mapping[Role, tuple[int, ...]] = {
    "channels": CHANNELS,
    "side": (224, 320, 48, 32, 64, 96, 112, 128, 160, 256, 384, 512, 640),
    "length": (64, 512, 16, 32, 128, 256, 1024, 4096, 16000, 1, 8),
    "batch": (1, 2, 4),
    "steps": (512, 64, 16, 1),  # of a recurrent operator on numbers: what rounding adds builds up over them
}
FIRST = 2  # sizes that all dimensions of a role are given before one is tried by itself
MOST_FORCED = 24  # sizes of constants that are tried
LARGEST = 4096  # size of a dimension before something is flattened
# The axes of the first two inputs that must be of one size.
EQUAL = {"MatMul": (-1, -2), "BatchNormalization": (1, 0), **dict.fromkeys(RECURRENT, (-1, -1))}
MOST_CONSTANT = 8  # numbers of a constant that may be sizes
SECONDS = 20.0  # after which no further sizes are tried
FARTHEST = 3  # proposals for the end of a range
STEP = 32  # of the heights and widths of images
MOST_ELEMENTS = 1 << 23  # of all inputs: to draw more takes seconds for each proposal
SLOW = 4.0  # seconds that a run at the largest sizes may take


def usual_sizes(symbols: Symbols, model: ModelProto, seconds: float = SECONDS) -> Iterator[list[SizedInput]]:
    """The inputs with a number for every dimension, the likeliest sizes first, for so many seconds."""
    until = time.process_time() + seconds
    asked = _Asked.of(symbols, model)
    seen: set[tuple[int, ...]] = set()
    role_of = _roles(symbols, asked)
    for sizes in _proposed(role_of, model, symbols.inputs):
        if time.process_time() > until:
            return
        key = tuple(sizes.values())
        sized = None if key in seen else symbols.sized({**sizes, **asked.widths})
        seen.add(key)
        if sized is not None:
            yield sized


def _roles(symbols: Symbols, asked: "_Asked") -> dict[str, Role]:
    """What each free dimension is taken for; those whose size weights fix are left out."""
    measured = {n for _, elem, shape in symbols.inputs if elem in FLOATS for n in symbols.names(shape)}
    firsts = {symbols.names(shape)[0] for _, _, shape in symbols.inputs if 1 < len(shape) < 4 and not is_image(shape)}
    found: dict[str, Role] = dict.fromkeys(asked.steps & measured, "steps")
    found |= dict.fromkeys((asked.slides & firsts) - found.keys(), "length")
    for first in (True, False):  # what is a batch anywhere is one everywhere
        for _, _, shape in symbols.inputs:
            for axis, name in enumerate(symbols.names(shape)):
                is_batch = axis == 0 and len(shape) > 1 and not (len(shape) == 3 and is_image(shape))
                if name in symbols.free and is_batch == first:
                    found.setdefault(name, "batch" if first else _role(shape, axis))
    return {name: found.get(name, "length") for name in symbols.free if name not in asked.widths}


class _Asked(NamedTuple):
    """What operators ask of symbolic dimensions, such as those of [frames, features].

    steps   the names of those over which recurrent ones step
    slides  the names of those over which convolutions slide
    widths  the size of those that weights and constants fix
    """

    steps: frozenset[str]
    slides: frozenset[str]
    widths: Mapping[str, int]

    @classmethod
    def of(cls, symbols: Symbols, model: ModelProto) -> "_Asked":
        if not symbols.free:
            return cls(frozenset(), frozenset(), {})
        index = Model(model)
        live = list(index.graph.live())
        shapes = {node: [None if v is None else index.shape(v) for v in node.inputs] for node in live}
        first = {node: read[0] for node, read in shapes.items() if read and read[0]}
        steps = frozenset(x[0] for node, x in first.items() if node.key in RECURRENT and isinstance(x[0], str))
        slides = frozenset(d for n, x in first.items() if n.key == "Conv" for d in x[2:] if isinstance(d, str))
        pairs = (pair for node, read in shapes.items() for pair in _equal(node, read))
        widths = {a: b for a, b in pairs if isinstance(a, str) and isinstance(b, int) and b > 1}
        asked = cls(steps, slides, widths)
        usual = symbols.sized({**widths, **{name: USUAL[role][0] for name, role in _roles(symbols, asked).items()}})
        if usual is None or not contradiction(index)(usual):
            return asked
        return asked._replace(widths={**widths, **_flattened(symbols, asked, model)})


def _equal(node: Node, shapes: Sequence[Shape | None]) -> Iterator[tuple[Dim, Dim]]:
    """Pairs of sizes that must be equal: of what a node reads, and of its weights or the other operand."""
    first, second = [*shapes, None, None][:2]
    if not first or not second:
        return
    if node.key in BROADCASTS:
        both = list(zip(reversed(first), reversed(second), strict=False))
        yield from (*both, *((b, a) for a, b in both))
    elif node.key == "Gemm":
        yield first[not node.attr("transA")], second[bool(node.attr("transB"))]
    elif node.key == "Conv" and isinstance(second[1], int):
        yield first[1], second[1] * (node.attr("group") or 1)
    elif node.key in EQUAL and len(first) > 1 and (node.key != "MatMul" or len(second) > 1):
        yield first[EQUAL[node.key][0]], second[EQUAL[node.key][1]]


def is_image(shape: Shape) -> bool:
    """Whether an image, or a batch of them, has such a shape: NCHW, NHWC, CHW or HWC."""
    if len(shape) not in (3, 4):
        return False
    sizes = shape[-3:]
    for channels, large in ((sizes[0], sizes[1:]), (sizes[2], sizes[:2])):
        if channels in CHANNELS[:2] and all(not isinstance(d, int) or d >= LARGE for d in large):
            return len(shape) == 4 or channels == CHANNELS[0]
    return False


def _role(shape: Shape, axis: int) -> Role:
    if len(shape) == 4 and axis == 1 and not isinstance(shape[1], int) and shape[3] not in CHANNELS:
        return "channels"
    may_be_image = len(shape) == 4 and any(not isinstance(d, int) or d in CHANNELS for d in (shape[1], shape[3]))
    return "side" if may_be_image or is_image(shape) else "length"


def _proposed(role_of: Mapping[str, Role], model: ModelProto, inputs: Sequence[DeclaredInput]) -> Iterator[Sizes]:
    """Sizes of all dimensions: the usual ones, then others of one dimension, of all of a role, and of two."""
    usual = {name: USUAL[role][0] for name, role in role_of.items()}
    forced = _forced(model, inputs)
    tried = {role: list(dict.fromkeys([*sizes, *forced])) for role, sizes in USUAL.items()}
    names = sorted(role_of, key=lambda name: role_of[name] == "batch")  # a batch is hardly ever forced

    def alike() -> Iterator[Sizes]:
        present = (tried[role] if role in role_of.values() else (0,) for role in ("side", "length"))
        for side, length in product(*present):
            same = {"side": side, "length": length}
            yield {name: same.get(role, usual[name]) for name, role in role_of.items()}

    yield from islice(alike(), FIRST)
    # inputs with a batch each mostly have one batch, whatever its names are
    yield from ({n: size if role == "batch" else usual[n] for n, role in role_of.items()} for size in USUAL["batch"])
    yield from ({**usual, name: size} for name in names for size in USUAL[role_of[name]])
    yield from alike()
    yield from ({**usual, name: size} for name in names for size in forced)
    for a, b in combinations(names, 2):
        both = product(enumerate(tried[role_of[a]]), enumerate(tried[role_of[b]]))
        nearest = sorted(both, key=lambda pair: pair[0][0] + pair[1][0])  # to the first of those that are tried
        yield from ({**usual, a: x, b: y} for (_, x), (_, y) in nearest)


def _flattened(symbols: Symbols, asked: _Asked, model: ModelProto) -> Sizes:
    """Sizes at which each sample has as many elements where it is flattened as the weights after that have rows."""
    copy = copied(model)
    dims = {i.name: i.type.tensor_type.shape.dim for i in copy.graph.input}
    role_of = _roles(symbols, asked)
    usual = {**asked.widths, **{name: USUAL[role][0] for name, role in role_of.items()}}

    def missing(sizes: Sizes) -> list[int]:
        for name, _, shape in symbols.sized({**usual, **sizes}) or ():
            for dim, size in zip(dims[name], shape, strict=True):
                dim.dim_value = size
        return [rows - given for given, rows in _flat_sizes(Model(copy))]

    sides = [name for name, role in role_of.items() if role == "side"]
    for names in (sides, *([name] for name, role in role_of.items() if role != "batch")):
        low, high = 1, LARGEST
        while low < high:
            middle = (low + high) // 2
            is_small = max(missing(dict.fromkeys(names, middle)), default=0) > 0
            low, high = (middle + 1, high) if is_small else (low, middle)
        found = dict.fromkeys(names, low)
        if low > 1 and names and not any(missing(found)):
            return found
    return {}


def _flat_sizes(index: Model) -> Iterator[tuple[int, int]]:
    """Of each product of weights with what is flattened: the elements of a sample, 0 if not known, and the rows."""
    for node in index.graph.live():
        data, weights = (*node.inputs, None, None)[:2]
        maker = data.producer if node.op in ("MatMul", "Gemm") and data is not None else None
        if maker is None or weights is None or maker.op not in ("Reshape", "Flatten"):
            continue
        given, *target = (() if v is None else index.shape(v) or () for v in maker.inputs)
        rows = (index.shape(weights) or (None, None))[bool(node.attr("transB"))]
        if len(given) > 2 and isinstance(rows, int) and target in ([], [(2,)]):
            known = [d for d in given[1:] if isinstance(d, int)]
            yield math.prod(known) if len(known) == len(given) - 1 else 0, rows


def _forced(model: ModelProto, inputs: Sequence[DeclaredInput]) -> list[int]:
    """Sizes that the graph may ask for: of its inputs, and those in its constants, the most frequent first."""
    counts: Counter[int] = Counter(d for _, _, shape in inputs for d in shape if isinstance(d, int))
    for tensor in constants_in(model.graph).values():
        counts.update(tensor.dims)
        if tensor.data_type in INTEGERS and len(tensor.dims) < 2 and sum(tensor.dims) <= MOST_CONSTANT:
            counts.update(map(int, numpy_helper.to_array(tensor).reshape(-1)))
    return [size for size, _ in counts.most_common() if 1 < size <= 1 << 16][:MOST_FORCED]


def farthest(
    symbols: Symbols,
    opt: Sequence[SizedInput],
    model: ModelProto,
    runs: Callable[[Sequence[SizedInput]], bool],
    limits: Callable[[Role, int], Sequence[int]],
) -> list[SizedInput]:
    """The inputs at the sizes that are farthest from `opt` and at which the model runs.

    runs    whether the model runs at some sizes
    limits  the sizes to try for a dimension of a role and a usual size, the farthest first, FARTHEST at most
    """
    usual = symbols.of(opt)
    if usual is None:
        return list(opt)
    started = time.process_time()
    runs(opt)
    seconds = time.process_time() - started
    role_of = _roles(symbols, _Asked.of(symbols, model))

    def moved(names: Sequence[str], sizes: Sizes) -> Sizes:
        """The sizes with those of some dimensions as far away as the model still runs."""
        for k in range(FARTHEST):
            proposed = {name: limits(role_of[name], usual[name]) for name in names}
            to = {name: found[k] for name, found in proposed.items() if k < len(found)}
            sized = symbols.sized({**sizes, **to})
            if to and sized and seconds * elements(sized) / elements(opt) < SLOW and runs(sized):
                return {**sizes, **to}
        return sizes

    sizes = usual
    for role in USUAL:
        names = [name for name, r in role_of.items() if r == role]
        further = moved(names, sizes)
        for name in names if further == sizes else ():
            further = moved([name], further)
        sizes = further
    return symbols.sized(sizes) or list(opt)


def elements(sized: Sequence[SizedInput]) -> int:
    """How many numbers all inputs have together; 1 at least."""
    return max(1, sum(math.prod(shape) for _, _, shape in sized))


def smaller(role: Role, usual: int) -> list[int]:
    """What MIN may be of a dimension; nothing where that is the usual size."""
    if role == "side":
        return [size for size in (usual // k // STEP * STEP for k in (4, 2)) if size]
    return [size for size in (1, 8, usual // 2) if size < usual] if role in ("length", "steps") else []


def larger(role: Role, usual: int) -> list[int]:
    """What MAX may be of a dimension."""
    times: dict[Role, tuple[int, ...]] = {
        "batch": (8, 4, 2),
        "length": (8, 4, 2),
        "steps": (8, 4, 2),
        "side": (2,),
        "channels": (),
    }
    return [usual * k for k in times[role]]


def different(role: Role, usual: int) -> list[int]:
    """Another size of a dimension, which does not make a run slow."""
    return [usual * 2] if role == "batch" else smaller(role, usual)
