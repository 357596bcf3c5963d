"""A window evaluated exactly, with names in the place of sizes.

A tensor has an axis for each name, and an element for each of a few places along it. All places along an axis that
nothing is added up over go the same way: there is one. A sum over the elements of an axis depends on a few sums of
functions of them; see `Room` for how many places stand for any number of elements.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from onnx import GraphProto, NodeProto, numpy_helper

from surgeon.ir.attributes import constant_value, read_attribute
from surgeon.ir.schemas import defaults
from surgeon.proof.field import (
    ELEMENTWISE,
    ONE,
    ZERO,
    Forbidden,
    Functions,
    NotCertified,
    Number,
    add,
    div,
    exactly,
    greater,
    mul,
    sub,
)

END = 2**31 - 1
BROADCAST = "1"  # the name of an axis of one element


class Reduced(Exception):
    """Ends an evaluation that adds up over an axis of one place; the message is its name."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """The elements of a tensor, and its axes by name; without axes it is a single number."""

    axes: tuple[str, ...]
    elements: np.ndarray  # of Number, with an axis for each name

    @classmethod
    def of(cls, number: Number, rank: int = 0) -> Tensor:
        """One number, as a tensor of so many axes."""
        return cls((BROADCAST,) * rank, _array(number).reshape((1,) * rank))


Held = list[Tensor]  # what a sequence or an optional has


class Room:
    """How many places an axis has, and what stands for its size.

    A mean over any number of elements is a mean over a few places with weights: the weights and the elements are drawn,
    and the size is a number of its own. The means of r functions, of which no sum with factors is constant, take any
    values over r + 2 such places, whatever the elements are. So what holds for them holds at every size; and a window
    takes no more means than it has nodes that reduce.
    """

    def __init__(self, functions: Functions, places: dict[str, int]) -> None:
        self._functions, self.places = functions, places
        self._weights: dict[str, list[Number]] = {}
        self._sizes: dict[str, Number] = {}

    def shape(self, axes: Sequence[str]) -> tuple[int, ...]:
        """How many places each axis has."""
        return tuple(self.places.get(a, 1) for a in axes)

    def size(self, axis: str) -> Number:
        """How many elements an axis has: the number of its name, or one that is not known."""
        if axis.isdigit():
            return exactly(float(axis))
        if axis not in self._sizes:
            self._sizes[axis] = self._functions.unknown(self._functions.random.uniform(2.0, 50.0))
        return self._sizes[axis]

    def weights(self, axis: str) -> list[Number]:
        """What the places of an axis weigh; all together 1. Raises Reduced where it has one place for all elements."""
        if axis == BROADCAST:
            return [ONE]
        if axis not in self.places:
            raise Reduced(axis)
        if axis not in self._weights:
            drawn = [
                self._functions.unknown(self._functions.random.uniform(0.2, 1.0)) for _ in range(self.places[axis])
            ]
            total = functools.reduce(add, drawn)
            self._weights[axis] = [div(d, total) for d in drawn]
        return self._weights[axis]


@dataclass(frozen=True, slots=True)
class Scope:
    """What the nodes of one graph have made so far.

    tensors  what is evaluated, by name
    arrays   constants by name
    shapes   the axes that a Shape returned, by name
    """

    opset: int
    tensors: dict[str, Tensor | Held]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def inner(self) -> Scope:
        """The scope of a body, which sees what stands around it."""
        return Scope(self.opset, dict(self.tensors), dict(self.arrays), dict(self.shapes))

    def put(self, name: str, made: Tensor | Held | np.ndarray) -> None:
        """Keep what a node made."""
        if isinstance(made, np.ndarray):
            self.arrays[name] = made
        else:
            self.tensors[name] = made

    def output(self, name: str) -> Tensor:
        """The tensor that the graph returns under a name."""
        found = self.tensors.get(name)
        if isinstance(found, Tensor):
            return found
        if found is None and name in self.arrays and self.arrays[name].size == 1:
            return Tensor.of(exactly(float(self.arrays[name].reshape(()))), self.arrays[name].ndim)
        raise NotCertified("an output that is no tensor of numbers")


class Evaluation:
    """The elements of a window's outputs for one draw of its inputs."""

    def __init__(self, functions: Functions, room: Room) -> None:
        self.functions, self.room = functions, room

    def run(self, graph: GraphProto, inputs: dict[str, Tensor], opset: int) -> list[Tensor]:
        """The graph's outputs. Raises NotCertified at a node that it does not evaluate."""
        return self._outputs(graph, Scope(opset, dict(inputs)))

    def _outputs(self, graph: GraphProto, scope: Scope) -> list[Tensor]:
        """Evaluate the nodes of a graph one behind the other; its outputs."""
        for initializer in graph.initializer:
            scope.put(initializer.name, numpy_helper.to_array(initializer))
        for node in graph.node:
            self._evaluate(node, scope)
        return [scope.output(o.name) for o in graph.output]

    def _evaluate(self, node: NodeProto, scope: Scope) -> None:
        """Evaluate one node, and keep what it makes."""
        if node.op_type == "If":
            for name, made in zip(node.output, self._outputs(_branch(node, scope), scope.inner()), strict=True):
                scope.put(name, made)
            return
        if node.op_type == "Shape" and not node.attribute:
            source = scope.tensors.get(node.input[0])
            if isinstance(source, Tensor):
                scope.shapes[node.output[0]] = source.axes
                return
        scope.put(node.output[0], self._made(node, scope))

    def _made(self, node: NodeProto, scope: Scope) -> Tensor | Held | np.ndarray:
        """What a node makes."""
        if node.op_type == "Constant":
            value = constant_value(node)
            if value is None:
                raise NotCertified("a Constant that is no tensor")
            return value
        step = _Step(self, node, scope)
        if node.op_type in SEQUENCES and not node.domain:
            return SEQUENCES[node.op_type](step)
        return step.result()


def _branch(node: NodeProto, scope: Scope) -> GraphProto:
    """The branch of an If that its constant condition takes."""
    condition = scope.arrays.get(node.input[0])
    if condition is None or condition.size != 1:
        raise NotCertified("an If whose condition is computed")
    wanted = "then_branch" if bool(condition.reshape(())) else "else_branch"
    branch: GraphProto = next(a.g for a in node.attribute if a.name == wanted)
    return branch


class _Step:
    """One node, and what it reads."""

    def __init__(self, evaluation: Evaluation, node: NodeProto, scope: Scope) -> None:
        self.functions, self.room, self.node, self.scope = evaluation.functions, evaluation.room, node, scope
        given = {a.name: read_attribute(a) for a in node.attribute}
        self.attrs = {**defaults(node.op_type, node.domain, scope.opset), **given}

    @cached_property
    def operands(self) -> list[Tensor | None]:
        return [self.operand(name) if name else None for name in self.node.input]

    def operand(self, name: str) -> Tensor:
        """The tensor of a name."""
        found = self.scope.tensors.get(name)
        if isinstance(found, Tensor):
            return found
        if found is not None:
            raise NotCertified(f"{self.node.op_type} of a sequence")
        if name not in self.scope.arrays:
            raise NotCertified(f"{self.node.op_type} of sizes")
        array = self.scope.arrays[name]
        if array.size != 1:
            raise NotCertified(f"{self.node.op_type} by a constant of {array.size} elements")
        return Tensor.of(exactly(float(array.reshape(()))), array.ndim)

    def result(self) -> Tensor:
        """What the node makes."""
        op = self.node.op_type
        if self.node.domain:
            raise NotCertified(f"{self.node.domain}.{op}")
        if op == "ConstantOfShape" and self.node.input[0] in self.scope.shapes:
            value = self.attrs.get("value")
            number = exactly(0.0 if value is None else float(np.ravel(value)[0]))
            axes = self.scope.shapes[self.node.input[0]]
            return Tensor(axes, np.broadcast_to(_array(number), self.room.shape(axes)))
        if op in REDUCING:
            return REDUCING[op](self)
        if op in AXES:
            return self._moved(AXES[op](self))
        if op not in ELEMENTWISE:
            raise NotCertified(f"{op} does more than act on each element")
        return self.each(lambda *values: ELEMENTWISE[op](self, *values), *self.operands)

    def each(self, compute: Callable[..., Number], *operands: Tensor | None) -> Tensor:
        """What is computed of each element of tensors that go together; an operand may be left out."""
        known = [t for t in operands if t is not None]
        axes = _together(self.node.op_type, [t.axes for t in known])
        places = iter(range(len(known)))
        order = [None if t is None else next(places) for t in operands]

        def computed(*values: Number) -> Number:
            return compute(*(None if k is None else values[k] for k in order))

        made = np.frompyfunc(computed, len(known), 1)(*(t.elements for t in known))
        return Tensor(axes, _array(made))

    def _moved(self, axes: tuple[str, ...]) -> Tensor:
        """The first operand with its axes moved, left out, added or repeated."""
        elements, shape = self.first.elements, self.room.shape(axes)
        if self.node.op_type == "Transpose":
            order = self.numbers(len(self.node.input), "perm") or list(reversed(range(len(axes))))
            return Tensor(axes, elements.transpose(order))
        if elements.size == int(np.prod(shape)):
            return Tensor(axes, elements.reshape(shape))
        return Tensor(axes, np.broadcast_to(elements, shape))

    @property
    def first(self) -> Tensor:
        """The first operand."""
        return self.operand(self.node.input[0])

    def numbers(self, position: int, attribute: str = "") -> list[int] | None:
        """The whole numbers of a constant input, or of the attribute that was one; None where it is left out."""
        if attribute in self.attrs:
            return [int(v) for v in np.atleast_1d(self.attrs[attribute])]
        if position >= len(self.node.input) or not self.node.input[position]:
            return None
        if self.node.input[position] not in self.scope.arrays:
            raise NotCertified(f"{self.node.op_type} by numbers that are computed")
        return [int(v) for v in self.scope.arrays[self.node.input[position]].reshape(-1)]

    def sequence(self) -> list[Tensor]:
        """The sequence that is the first operand."""
        found = self.scope.tensors.get(self.node.input[0])
        if not isinstance(found, list):
            raise NotCertified(f"{self.node.op_type} of what is no known sequence")
        return found


def _array(made: object) -> np.ndarray:
    """Numbers as an array, a single one too."""
    if isinstance(made, np.ndarray):
        return made
    array = np.empty((), object)
    array[()] = made
    return array


def _together(op: str, all_axes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The axes of what is made of tensors that are broadcast, aligned at the last one."""
    rank = max((len(axes) for axes in all_axes), default=0)
    found: list[str] = []
    for k in range(1, rank + 1):
        names = {axes[-k] for axes in all_axes if len(axes) >= k} - {BROADCAST}
        if len(names) > 1:
            raise NotCertified(f"{op} of tensors whose axes are not alike")
        found.insert(0, next(iter(names), BROADCAST))
    return tuple(found)


# ---- sums over axes --------------------------------------------------------------------------------------------------


def _mean(s: _Step, t: Tensor, over: Sequence[int]) -> Tensor:
    """The mean over some axes, which are kept as axes of one element."""
    elements, axes = t.elements, list(t.axes)
    for axis in over:
        weights = s.room.weights(axes[axis])
        parts = np.split(elements, elements.shape[axis], axis)
        weighted = [np.frompyfunc(functools.partial(mul, w), 1, 1)(p) for w, p in zip(weights, parts, strict=True)]
        elements = functools.reduce(np.frompyfunc(add, 2, 1), weighted)
        axes[axis] = BROADCAST
    return Tensor(tuple(axes), elements)


def _count(s: _Step, t: Tensor, over: Sequence[int]) -> Tensor:
    """How many elements some axes have."""
    return Tensor.of(functools.reduce(mul, (s.room.size(t.axes[axis]) for axis in over), ONE))


def _over(s: _Step, t: Tensor) -> list[int]:
    """The axes that a Reduce names, from the front; all where it names none."""
    named = s.numbers(1, "axes")
    if not named:
        if s.attrs.get("noop_with_empty_axes"):
            raise NotCertified(f"{s.node.op_type} over nothing")
        return list(range(len(t.axes)))
    if any(not -len(t.axes) <= a < len(t.axes) for a in named):
        raise Forbidden(f"{s.node.op_type} over an axis that there is not")
    return sorted({a % len(t.axes) for a in named})


def _kept(s: _Step, t: Tensor, over: Sequence[int]) -> Tensor:
    """The reduced tensor with the axes of one element that it keeps."""
    if s.attrs.get("keepdims", 1):
        return t
    axes = tuple(a for k, a in enumerate(t.axes) if k not in over)
    return Tensor(axes, t.elements.reshape(s.room.shape(axes)))


def _reduce(
    of: Callable[[_Step, Number], Number],
    *,
    is_mean: bool = False,
    behind: Callable[[_Step, Number], Number] | None = None,
) -> Callable[[_Step], Tensor]:
    """The sum or the mean of a function of each element, and what is made of that."""

    def reduced(s: _Step) -> Tensor:
        over = _over(s, s.first)
        made = _mean(s, s.each(functools.partial(of, s), s.first), over)
        if not is_mean:
            made = s.each(mul, made, _count(s, s.first, over))
        if behind is not None:
            made = s.each(functools.partial(behind, s), made)
        return _kept(s, made, over)

    return reduced


def _normalised(s: _Step, over: Sequence[int], *, centred: bool, epsilon: Number) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) over some axes."""
    x = s.first
    deviation = s.each(sub, x, _mean(s, x, over)) if centred else x
    variance = _mean(s, s.each(lambda v: mul(v, v), deviation), over)
    deviated = s.each(lambda v: s.functions.sqrt(add(v, epsilon)), variance)
    return s.each(div, deviation, deviated)


def _layer_norm(s: _Step) -> Tensor:
    rank = len(s.first.axes)
    over = range(int(s.attrs.get("axis", -1)) % rank, rank)
    centred = s.node.op_type == "LayerNormalization"
    made = _normalised(s, list(over), centred=centred, epsilon=exactly(float(s.attrs.get("epsilon", 1e-5))))
    _, scale, *bias = s.operands
    made = s.each(mul, made, scale) if scale is not None else made
    return s.each(add, made, bias[0]) if bias and bias[0] is not None else made


def _instance_norm(s: _Step) -> Tensor:
    x, scale, bias = s.operands
    assert x is not None and scale is not None and bias is not None
    if len(x.axes) < 3:
        raise Forbidden("an InstanceNormalization of less than three axes")
    made = _normalised(s, range(2, len(x.axes)), centred=True, epsilon=exactly(float(s.attrs.get("epsilon", 1e-5))))
    return s.each(add, s.each(mul, made, _of_channels(s, scale)), _of_channels(s, bias))


def _of_channels(s: _Step, vector: Tensor) -> Tensor:
    """A number for each channel, as a tensor that goes with N, C, ..."""
    x = s.first
    if vector.axes not in ((x.axes[1],), (BROADCAST,)):
        raise Forbidden("a number for each channel that there is not")
    axes = (vector.axes[0], *(BROADCAST for _ in x.axes[2:]))
    return Tensor(axes, vector.elements.reshape(s.room.shape(axes)))


def _pooled(s: _Step) -> Tensor:
    if len(s.first.axes) < 3:
        raise Forbidden("a GlobalAveragePool of less than three axes")
    return _mean(s, s.first, range(2, len(s.first.axes)))


def _lp_normalised(s: _Step) -> Tensor:
    if s.attrs.get("p", 2) != 2:
        raise NotCertified("an LpNormalization by another norm than the second")
    axis = int(s.attrs.get("axis", -1))
    if not -len(s.first.axes) <= axis < len(s.first.axes):
        raise Forbidden("an LpNormalization over an axis that there is not")
    over = [axis % len(s.first.axes)]
    squares = _mean(s, s.each(lambda v: mul(v, v), s.first), over)
    norm = s.each(lambda v, n: s.functions.sqrt(mul(v, n)), squares, _count(s, s.first, over))
    return s.each(div, s.first, norm)


REDUCING: dict[str, Callable[[_Step], Tensor]] = {
    "ReduceMean": _reduce(lambda s, a: a, is_mean=True),
    "ReduceSum": _reduce(lambda s, a: a),
    "ReduceSumSquare": _reduce(lambda s, a: mul(a, a)),
    "ReduceL1": _reduce(lambda s, a: greater(a, sub(ZERO, a))),
    "ReduceL2": _reduce(lambda s, a: mul(a, a), behind=lambda s, a: s.functions.sqrt(a)),
    "GlobalAveragePool": _pooled,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "LpNormalization": _lp_normalised,
}
MEANS = {"LayerNormalization": 2, "InstanceNormalization": 2}  # that a node takes; any other of REDUCING takes one


def most_means(nodes: Iterator[NodeProto]) -> int:
    """How many means some nodes take, at most."""
    return sum(MEANS.get(n.op_type, 1) for n in nodes if n.op_type in REDUCING)


# ---- sequences -------------------------------------------------------------------------------------------------------


def _at(s: _Step) -> Tensor:
    held, (index,) = s.sequence(), s.numbers(1) or [0]
    if not -len(held) <= index < len(held):
        raise Forbidden("a place outside of a sequence")
    return held[index]


def _has_element(s: _Step) -> np.ndarray:
    found = s.scope.tensors.get(s.node.input[0]) if s.node.input and s.node.input[0] else []
    return np.asarray(bool(found) if isinstance(found, list) else found is not None)


def _element(s: _Step) -> Tensor:
    found = s.scope.tensors.get(s.node.input[0])
    if not isinstance(found, list):
        return s.first
    if not found:
        raise Forbidden("the element of an optional without one")
    return found[0]


SEQUENCES: dict[str, Callable[[_Step], Tensor | Held | np.ndarray]] = {
    "SequenceConstruct": lambda s: [s.operand(name) for name in s.node.input],
    "SequenceEmpty": lambda s: [],
    "SequenceAt": _at,
    "SequenceLength": lambda s: np.asarray(len(s.sequence()), np.int64),
    "Optional": lambda s: [s.operand(name) for name in s.node.input if name],
    "OptionalHasElement": _has_element,
    "OptionalGetElement": _element,
}

# ---- axes ------------------------------------------------------------------------------------------------------------


def _same(s: _Step) -> tuple[str, ...]:
    return s.first.axes


def _transposed(s: _Step) -> tuple[str, ...]:
    axes = s.first.axes
    order = s.numbers(len(s.node.input), "perm") or list(reversed(range(len(axes))))
    if len(order) != len(axes):
        raise Forbidden("a Transpose of another rank")
    return tuple(axes[k] for k in order)


def _unsqueezed(s: _Step) -> tuple[str, ...]:
    axes, at = list(s.first.axes), s.numbers(1, "axes") or []
    rank = len(axes) + len(at)
    if len({a % rank for a in at}) < len(at):
        raise Forbidden("an Unsqueeze of one axis twice")
    for k in sorted(a % rank for a in at):
        axes.insert(k, "1")
    return tuple(axes)


def _squeezed(s: _Step) -> tuple[str, ...]:
    axes, at = s.first.axes, s.numbers(1, "axes")
    gone = {a % len(axes) for a in at} if at is not None else {k for k, name in enumerate(axes) if name == "1"}
    if any(axes[k] != "1" for k in gone):
        raise NotCertified("a Squeeze of an axis that need not be 1")
    return tuple(name for k, name in enumerate(axes) if k not in gone)


def _reshaped(s: _Step) -> tuple[str, ...]:
    """A Reshape that copies each axis."""
    wanted = s.numbers(1, "shape") or []
    if s.attrs.get("allowzero") or len(wanted) != len(s.first.axes) or any(wanted[:-1]) or wanted[-1] not in (0, -1):
        raise NotCertified("a Reshape that does more than copy each axis")
    return s.first.axes


def _whole(s: _Step) -> tuple[str, ...]:
    """A Slice of everything."""
    starts, ends, steps = s.numbers(1, "starts"), s.numbers(2, "ends"), s.numbers(4)
    if any(starts or [1]) or any(e < END for e in ends or [0]) or any(step != 1 for step in steps or []):
        raise NotCertified("a Slice that may leave something out")
    return s.first.axes


def _all_are(position: int, attribute: str, wanted: int, each: int = 0) -> Callable[[_Step], tuple[str, ...]]:
    """Nothing is added to any axis: every number is the `wanted` one, and there are `each` for an axis."""

    def kept(s: _Step) -> tuple[str, ...]:
        numbers = s.numbers(position, attribute)
        if each and numbers is not None and len(s.node.input) < 4 and len(numbers) != each * len(s.first.axes):
            raise Forbidden(f"{s.node.op_type} of another rank")
        if any(n != wanted for n in numbers or [wanted - 1]):
            raise NotCertified(f"{s.node.op_type} by something else than {wanted}")
        return s.first.axes

    return kept


def _expanded(s: _Step) -> tuple[str, ...]:
    """An Expand by ones, of a constant to the sizes of a tensor, or of a tensor to its own."""
    wanted = s.scope.shapes.get(s.node.input[1])
    if wanted is None:
        return _all_are(1, "shape", 1)(s)
    if s.first.axes not in ((), wanted):
        raise NotCertified("an Expand to the sizes of another tensor")
    return wanted


def _alone(s: _Step) -> tuple[str, ...]:
    if len(s.node.input) > 1 or len(s.node.output) > 1:
        raise NotCertified(f"{s.node.op_type} of several tensors")
    return s.first.axes


def _flattened(s: _Step) -> tuple[str, ...]:
    """A Flatten of two axes into two."""
    if len(s.first.axes) != 2 or s.attrs["axis"] not in (1, -1):
        raise NotCertified("a Flatten that does more than copy each axis")
    return s.first.axes


AXES: dict[str, Callable[[_Step], tuple[str, ...]]] = {
    "Identity": _same,
    "CastLike": _same,
    "Dropout": _same,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
    "Squeeze": _squeezed,
    "Reshape": _reshaped,
    "Flatten": _flattened,
    "Slice": _whole,
    "Pad": _all_are(1, "pads", 0, 2),
    "Tile": _all_are(1, "repeats", 1, 1),
    "Expand": _expanded,
    "Concat": _alone,
    "Split": _alone,
}
