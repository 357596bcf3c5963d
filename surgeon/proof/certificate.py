"""Whether a rule holds for all sizes: its windows are evaluated exactly, with names in the place of sizes.

A window is certified where, before and behind the rewrite, it has operators of four kinds alone:

1. Those that act on each element by itself, with constants of one element. All elements go the same way. So what one
   element becomes, evaluated once with an unknown number, is what every element of every tensor becomes.
2. Those that move axes, or keep the elements where they are: Transpose, Unsqueeze, Squeeze, Identity, a Slice of all,
   a Pad by 0, a Tile by 1. They are evaluated on axes that are names and no numbers.
3. Sums and means over whole axes of any size, and the normalisations that are made of them (see `symbolic.Room`).
4. Sequences and optionals that are made in the window, and an If on a constant.

Arithmetic is exact in a field (see `field`). Two different rational functions of degree d agree at a random element
with a probability below d / 2^53, the number of elements that are drawn from (Schwartz and Zippel). Their degrees here
are below 2^10.

Between two places where a comparison turns, a window is one such function. Elements are drawn between any two
neighbours of the constants, their products and quotients, and over all magnitudes up to 10^4. A region that they all
miss is not seen.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import onnx
import onnx.inliner
from onnx import GraphProto, ModelProto, numpy_helper

from surgeon.ir.attributes import constant_value
from surgeon.ir.lattice import declared_dim
from surgeon.ir.run import load_error
from surgeon.proof.field import Forbidden, Functions, NotCertified
from surgeon.proof.instances import alternatives, instances, of_root
from surgeon.proof.symbolic import BROADCAST, Evaluation, Reduced, Room, Tensor, most_means
from surgeon.report import FOR_ALL_SIZES, TESTED
from surgeon.rules.meaning import with_functions
from surgeon.rules.rule import Rule

ERROR = 2.0**-43  # of one element: degrees below 2^10 over 2^53 numbers

# ---- two windows -----------------------------------------------------------------------------------------------------


def difference(before: ModelProto, after: ModelProto, seed: int = 0) -> str:
    """Where two models of the same inputs differ for some sizes; empty where they do not.

    Raises NotCertified where one of them does more than this evaluates.
    """
    pair = [_spelled(m) for m in (before, after)]
    places: dict[str, int] = {}
    enough = most_means(chain(*(m.graph.node for m in pair))) + 2
    seen = 0
    for number in _drawn(_constants(pair[0]) | _constants(pair[1]), seed):
        found = None
        while found is None:
            try:
                found = _evaluated(pair, number, seed + seen, places)
            except Reduced as axis:
                places[str(axis)] = enough
            except NotCertified as why:
                if not _is_of_the_element(why):
                    raise
                break
        if found is None:
            continue
        told = _told(*found)
        if told:
            return f"{told} at {number:g}"
        seen += told is not None
    if not seen:
        raise NotCertified("no element that could be evaluated")
    return ""


def _spelled(model: ModelProto) -> ModelProto:
    """The model with what surgeon's own nodes mean in their place."""
    meant = with_functions(model)
    return onnx.inliner.inline_local_functions(meant) if meant.functions else meant


def _told(before: Sequence[Tensor], after: Sequence[Tensor], guessed: bool) -> str | None:
    """How the outputs of both sides differ; None where a guessed root may make them, since they are real numbers next
    to each other."""
    for one, other in zip(before, after, strict=True):
        if one.axes != other.axes:
            return f"axes {one.axes} became {other.axes}"
        for a, b in zip(one.elements.flat, other.elements.flat, strict=True):
            if a.field == b.field:
                continue
            if guessed and math.isclose(a.real, b.real, rel_tol=1e-6):
                return None
            return f"it is {b.real:g} instead of {a.real:g}"
    return ""


def _evaluated(
    pair: Sequence[ModelProto], number: float, seed: int, places: dict[str, int]
) -> tuple[list[Tensor], list[Tensor], bool]:
    """The outputs of both models for one draw of inputs, and whether a root in them was guessed."""
    functions = Functions(seed)
    room = Room(functions, places)
    inputs = _inputs(pair[0].graph, number, functions, room)
    found = []
    for model in pair:
        opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        found.append(Evaluation(functions, room).run(model.graph, inputs, opset))
    return found[0], found[1], functions.guessed


def _is_of_the_element(why: NotCertified) -> bool:
    """Whether another element may be evaluated: this one is a pole, or lies at a border."""
    return str(why).startswith(("a division", "two numbers", "the logarithm", "a square root"))


def _inputs(graph: GraphProto, number: float, functions: Functions, room: Room) -> dict[str, Tensor]:
    """The inputs: the first one begins with what is drawn, others follow it in another order. Axes have names."""
    found: dict[str, Tensor] = {}
    held = {t.name for t in graph.initializer}
    for k, info in enumerate(i for i in graph.input if i.name not in held):
        axes = tuple(_name(dim, f"{info.name}#{a}") for a, dim in enumerate(info.type.tensor_type.shape.dim))
        elements = np.empty(room.shape(axes), object)
        for place in np.ndindex(elements.shape):
            drawn = number if k == 0 else functions.random.uniform(-4.0, 4.0)
            elements[place] = functions.unknown(drawn * (functions.random.uniform(-2.0, 2.0) if any(place) else 1.0))
        found[info.name] = Tensor(axes, elements)
    return found


def _name(dim: onnx.TensorShapeProto.Dimension, unnamed: str) -> str:
    """What an axis is called: by its name, or by its size."""
    size = declared_dim(dim)
    return unnamed if size is None else BROADCAST if size == 1 else str(size)


def _constants(model: ModelProto) -> set[float]:
    arrays: list[np.ndarray | None] = [numpy_helper.to_array(t) for t in model.graph.initializer]
    arrays += [constant_value(n) for n in model.graph.node if n.op_type == "Constant"]
    numbers = {abs(float(a.reshape(()))) for a in arrays if a is not None and a.size == 1 and a.dtype.kind == "f"}
    numbers |= {abs(a.f) for n in model.graph.node for a in n.attribute if a.f}
    return {n for n in numbers if math.isfinite(n)}


def _drawn(constants: Sequence[float] | set[float], seed: int) -> list[float]:
    """Elements of all magnitudes, and between any two places where a comparison with the constants may turn."""
    drawn = random.Random(seed)
    magnitudes = [2.0 ** drawn.uniform(k, k + 1) for k in range(-12, 6)]
    products = {a * b for a in constants for b in constants} | {a / b for a in constants for b in constants if b}
    turns = sorted({0.0, *constants, *products})
    # Nearer than that they are one number, rounded.
    apart = [(low, high) for low, high in pairwise(turns) if high - low > 1e-5 * high]
    between = [low + (high - low) * drawn.uniform(0.25, 0.75) for low, high in apart]
    below = [c * 10.0**-k for c in sorted(constants) for k in (1, 2, 3)]  # so that a sum of many is below it, too
    return [sign * n for n in (*magnitudes, *between, *below) for sign in (1.0, -1.0) if n < 1e4]


# ---- a rule ----------------------------------------------------------------------------------------------------------

FEWEST = 5  # windows without which nothing is said of a rule


@dataclass(frozen=True, slots=True)
class Certificate:
    """How far a rule is proved.

    grade         FOR_ALL_SIZES where every window drawn that the rule rewrites is certified, else TESTED
    windows       how many were certified
    taken, alternatives  of the pattern's alternatives, those that they take, and all
    why           why the grade is TESTED; empty where it is not
    """

    rule: str
    stage: str
    grade: str
    windows: int
    taken: int
    alternatives: int
    why: str


def certify(rule: Rule, tries: int = 200, most: int = 20) -> Certificate:
    """Draw windows of a rule and evaluate them, until there are `most` and each spelling at its root is among them.

    What it proves no further is proved window by window, by running it.
    """
    taken: set[tuple[int, int]] = set()
    spellings = of_root(rule.pattern)
    windows, why = 0, ""
    for instance in instances(rule, tries):
        try:
            why = difference(instance.before, instance.after)
        except Forbidden:
            continue
        except NotCertified as reason:
            why = str(reason)
        if why and load_error(with_functions(instance.before)):
            why = ""  # it is no model
            continue
        if why or (windows >= most and spellings <= taken):
            break
        windows += 1
        taken |= instance.taken
    if not why and windows < FEWEST:
        why = "too few windows can be drawn from its pattern alone"
    if not why and not spellings <= taken:
        why = f"of the {len(spellings)} spellings at its root only {len(spellings & taken)} can be drawn"
    grade = TESTED if why else FOR_ALL_SIZES
    return Certificate(
        rule.body.__name__, rule.stage.value, grade, windows, len(taken), len(alternatives(rule.pattern)), why
    )
