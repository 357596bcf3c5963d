"""What a match of a normalisation says, as the passes read it: the axes, the affine part, the epsilon.

A mean keeps its dimensions, or is reshaped or expanded until it meets x again. The nodes that matched are followed from
x to the root; each mean must meet x as one with kept dimensions would.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from onnx import TensorProto

from surgeon import FLOATS, HALVES, Builder, Dim, Node, Value, require, require_some

from .._shapes import output_of

SHAPING = frozenset({"Reshape", "Expand", "Unsqueeze", "Squeeze"})
REDUCING = frozenset({"ReduceMean", "ReduceSum", "ReduceSumSquare", "GlobalAveragePool"})


@dataclass(frozen=True)
class _Role:
    """What a tensor of the match is to x.

    full      it varies like x. `layout` is x, or the view of x whose shape it has.
    reduced   it is a statistic of `layout`. `dims` are its dimensions, named as those of `layout`.
    other     it is neither.
    """

    kind: Literal["full", "reduced", "other"]
    layout: Value | None = None
    dims: tuple[Dim, ...] | None = None


OTHER = _Role("other")


class _Walk:
    """Finds the roles of the tensors of a match, and the axes that are reduced in each layout."""

    def __init__(self, b: Builder, x: Value) -> None:
        self.b, self.x = b, x
        self.matched = frozenset(b.matched)
        self.roles = {x: _Role("full", x)}
        self.axes: dict[Value, tuple[int, ...]] = {}

    def axes_of_x(self) -> tuple[int, ...]:
        """The axes of x over which all the means are taken."""
        found = {self._translated(layout, axes) for layout, axes in self.axes.items()}
        require(len(found) == 1, "the means are taken over different axes")
        return found.pop()

    def role(self, value: Value | None) -> _Role:
        """What a tensor is to x."""
        if value is None:
            return OTHER
        if value not in self.roles:
            node = value.producer
            self.roles[value] = OTHER
            if node is not None and node in self.matched:
                self.roles[value] = self._role_of(node, value)
        return self.roles[value]

    def _role_of(self, node: Node, value: Value) -> _Role:
        first = self.role(node.inputs[0])
        if node.key in REDUCING:
            return self._role_of_mean(node, first)
        if node.key in SHAPING:
            return self._role_of_shaped(node, value, first)
        if node.key == "Cast" and first.kind == "reduced":
            own, given = self.b.dtype(self.x), self.b.dtype(value)
            wider = given in FLOATS and (given == TensorProto.DOUBLE or given == TensorProto.FLOAT and own in HALVES)
            require(given == own or wider, "a mean or a variance is cast to a narrower type")
        roles = [self.role(i) for i in node.inputs]
        for role in roles:
            if role.kind == "full":
                return _Role("full", role.layout)
        reduced = [role for role in roles if role.kind == "reduced"]
        if not reduced:
            return OTHER
        alike = all(role.dims == reduced[0].dims for role in reduced)
        pairs = zip(node.inputs, roles, strict=True)
        others = [self.b.dims(i) for i, role in pairs if role is OTHER and i is not None]
        raised = reduced[0].dims is not None and any(o is None or len(o) > len(reduced[0].dims) for o in others)
        return reduced[0] if alike and not raised else _Role("reduced", reduced[0].layout, self._inferred(value))

    def _role_of_mean(self, node: Node, source: _Role) -> _Role:
        assert source.layout is not None  # the patterns take a mean of x, or of what varies like x
        axes = self._reduced_axes(node, source.layout)
        require(self.axes.setdefault(source.layout, axes) == axes, "the means are taken over different axes")
        keeps = node.key == "GlobalAveragePool" or node.attr("keepdims")
        whole = enumerate(self._dims(source.layout))
        made = [1 if a in axes else d for a, d in whole if keeps or a not in axes]
        return _Role("reduced", source.layout, tuple(made))

    def _role_of_shaped(self, node: Node, value: Value, source: _Role) -> _Role:
        if source.kind == "full":
            return _Role("full", value)  # a view of x
        if node.key == "Expand" and source.kind == "reduced":
            self._require_kept_sizes(node)
        if source.kind == "other":
            return OTHER
        return _Role("reduced", source.layout, self._shaped(node, source.dims) or self._inferred(value))

    def _inferred(self, value: Value) -> tuple[Dim, ...] | None:
        found = self.b.dims(value)
        return None if found is None else tuple(found)

    def _shaped(self, node: Node, given: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
        """The dimensions of a mean of the dimensions `given` after a node that shapes it; None where they do not
        follow from these."""
        second = [*node.operands(), None][1]
        constant = self.b.value(second)
        wanted = self.b.elements(second) if constant is None else [int(d) for d in constant.reshape(-1)]
        if given is None or wanted is None or None in wanted:
            return None
        if node.key == "Reshape":
            return _reshaped(given, wanted)
        if node.key == "Expand":
            return _expanded(given, wanted)
        if constant is None:
            return None
        rank = len(given) + (len(wanted) if node.key == "Unsqueeze" else 0)
        at = {axis % rank for axis in wanted}
        if node.key == "Squeeze":
            return tuple(d for axis, d in enumerate(given) if axis not in at)
        own = iter(given)
        return tuple(1 if axis in at else next(own, None) for axis in range(rank))

    def _require_kept_sizes(self, expand: Node) -> None:
        """Decline where an Expand may make a mean larger than x. A size that is not known may be 1. An Expand to a
        number makes more of that one, and so of the result."""
        source = expand.inputs[0]
        given = [] if source is None else self.b.dims(source) or []
        wanted = self.b.elements(expand.inputs[1]) or []
        pairs = zip(reversed(given), reversed(wanted), strict=False)
        grows = any(isinstance(w, int) and w != 1 and not isinstance(g, int) for g, w in pairs)
        require(not grows, "it cannot be shown that Expand makes a mean no larger than the input")

    def _reduced_axes(self, node: Node, layout: Value) -> tuple[int, ...]:
        rank = len(self._dims(layout))
        if node.key == "GlobalAveragePool":
            return tuple(range(2, rank))
        operands = node.operands()
        axes = self.b.value(operands[1]) if len(operands) > 1 else None
        axes = require_some(axes, "the axes of a mean are not constant")
        require(axes.size, "the axes of a mean are not constant")
        return tuple(sorted(int(a) % rank for a in axes.reshape(-1)))

    def _dims(self, value: Value) -> list[Dim]:
        return self.b.known_dims(value)

    def _translated(self, layout: Value, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Axes of a view of x as axes of x: the view keeps the leading dimensions and has the others in one."""
        if layout is self.x:
            return axes
        view, whole = self._dims(layout), self._dims(self.x)
        kept = len(view) - 1
        same = axes == (kept,) and kept < len(whole) and view[:kept] == whole[:kept]
        require(same, "the statistics are those of another shape")
        return tuple(range(kept, len(whole)))

    def require_that_means_fit(self, node: Node) -> None:
        """Decline where a mean meets a full tensor otherwise than with its own dimensions kept."""
        roles = [(value, self.role(value)) for value in node.inputs]
        layout = next((role.layout for _, role in roles if role.kind == "full"), None)
        if layout is None:
            return
        for value, role in roles:
            if role.kind == "full":
                require(role.layout is layout, "it mixes two shapes of the same tensor")
            if value is not None and role.kind == "reduced":
                require(self._fits(role.dims, layout), "a mean is not where its own dimensions were")

    def _fits(self, own: tuple[Dim, ...] | None, layout: Value) -> bool:
        """Whether the dimensions of a mean are those of a full tensor, or one at the reduced axes. One in place of
        a size that is not known is that size: Reshape, Squeeze and Unsqueeze keep the number of elements."""
        whole = self._dims(layout)
        if own is None or len(whole) != len(own):
            return False
        axes = self.axes.get(layout) or (self.axes_of_x() if layout is self.x else ())
        return all(
            mine == full or (mine == 1 and (axis in axes or not isinstance(full, int)))
            for axis, (mine, full) in enumerate(zip(own, whole, strict=True))
        )


def _expanded(given: tuple[Dim, ...], wanted: list[Dim]) -> tuple[Dim, ...]:
    """The dimensions after an Expand, None for one that may be either of two."""
    rank = max(len(given), len(wanted))
    pairs = zip((1,) * (rank - len(given)) + given, [1] * (rank - len(wanted)) + wanted, strict=True)
    return tuple(w if d == 1 else d if isinstance(d, int) or w in (1, d) else None for d, w in pairs)


def _reshaped(given: tuple[Dim, ...], wanted: list[Dim]) -> tuple[Dim, ...] | None:
    """The dimensions after a Reshape; None where what -1 is made of is not one of those given."""
    made = [given[axis] if d == 0 and axis < len(given) else d for axis, d in enumerate(wanted)]
    left = [d for d in given if d != 1]
    for d in made:
        if d in left:
            left.remove(d)
        elif d not in (1, -1):
            return None
    if len(left) > (-1 in made):
        return None
    return tuple(next(iter(left), 1) if d == -1 else d for d in made)


# What is around a normalisation, in the order in which it is applied: the name that is bound, and its operator.
AFFINE = {"scale": "Mul", "shift": "Add", "bias": "Add", "outer_scale": "Mul", "outer_shift": "Add"}


@dataclass(frozen=True)
class Normalisation:
    """(x - mean) / sqrt(variance + epsilon) over `axes`, times `factor`, then what `affine` says, in order.

    `dims` are those of `x`; `axes` are not negative and in order; each of `affine` is ("Mul" | "Add", tensor).
    """

    x: Value
    dims: list[Dim]
    axes: tuple[int, ...]
    epsilon: float = 0.0
    factor: float = 1.0
    affine: tuple[tuple[str, Value], ...] = ()

    @property
    def rank(self) -> int:
        """The number of x's dimensions."""
        return len(self.dims)

    @property
    def sizes(self) -> list[Dim]:
        """The dimensions of the axes."""
        return [self.dims[a] for a in self.axes]

    @property
    def is_static(self) -> bool:
        """Whether the sizes of all the axes are known."""
        return all(isinstance(size, int) for size in self.sizes)

    @property
    def is_trailing(self) -> bool:
        """Whether the axes are the last ones of x."""
        return self.axes == tuple(range(self.rank - len(self.axes), self.rank))

    def channels(self, axis: int) -> int | None:
        """The size of an axis; None where it is not known."""
        size = self.dims[axis]
        return size if isinstance(size, int) else None


def read(b: Builder, x: Value, found: dict[str, Any]) -> Normalisation:
    """The axes and the affine part of a match of `Spelling` over the tensor `x`; `found` is what the pattern bound.

    The epsilon and the factor are not read yet: `with_epsilon` does that. Declines where the means are taken
    over several sets of axes, or are not where their own dimensions were.
    """
    shape = b.known_dims(x)
    require(b.dtype(x) in FLOATS, "the input is not of a floating-point type")
    walk = _Walk(b, x)
    walk.role(output_of(b.root))
    for node in b.matched:
        if node.key not in SHAPING and node.key not in REDUCING:
            walk.require_that_means_fit(node)
    return Normalisation(x, shape, walk.axes_of_x(), affine=affine_of(found))


def affine_of(found: dict[str, Any]) -> tuple[tuple[str, Value], ...]:
    """The factors and the shifts that a pattern bound, as `Normalisation.affine` has them."""
    return tuple((operator, found[name]) for name, operator in AFFINE.items() if name in found)


def outer_part(found: dict[str, Any]) -> str | None:
    """What a pattern bound after the formula, 'scale' or else 'shift'; None where it bound neither."""
    if "outer_scale" in found:
        return "scale"
    return "shift" if "outer_shift" in found else None


# The sums that the means may be: the variance's may have another divisor than their count, the others may not.
VARIANCE = "square"
STEMS = ("first", "second", "folded", "fast", VARIANCE)


def with_epsilon(b: Builder, n: Normalisation, found: dict[str, Any]) -> Normalisation:
    """The normalisation with its epsilon and its factor, from what the pattern bound.

    A pass asks for them when it knows that the window is its own, for a lost epsilon becomes a warning. With a variance
    that is `ratio` times the mean of the squares, d / sqrt(ratio v + e) = d / sqrt(v + e / ratio) / sqrt(ratio).
    """
    require("outside" not in found, "epsilon is added to the root, not under it")
    ratio = _ratio(b, int(np.prod(n.sizes)) if n.is_static else None, found)
    epsilon = found.get("epsilon")
    require(epsilon is None or epsilon.size == 1, "epsilon differs from element to element")
    given = 0.0 if epsilon is None else _number(epsilon)
    require(given >= 0, "epsilon is negative")
    return replace(n, epsilon=float(np.float32(_mended(b, given) / ratio)), factor=ratio**-0.5)


def _mended(b: Builder, epsilon: float) -> float:
    """The epsilon of the file, or the user's where an exporter or a type lost it; either way the report says so."""
    if epsilon > 0:
        return epsilon
    wanted = b.options.get("repair_eps")
    if wanted is None:
        b.warn("lost epsilon: the variance has none, so a constant input divides by zero; --repair-eps gives it one")
        return 0.0
    b.warn(f"lost epsilon: {float(wanted):g} repairs it, as requested")
    b.tolerance = 1e30  # the user asked for other numbers than the file's
    return float(wanted)


def _ratio(b: Builder, count: int | None, found: dict[str, Any]) -> float:
    """What the variance is multiplied with, against the mean of the squares. `count`: the number of elements of which a
    mean is taken. Every other sum must be over it."""
    ratio = 1.0
    for name, given in found.items():
        stem, _, what = name.rpartition("_")
        if what not in ("count", "share", "factor", "divisor") or stem not in STEMS:
            continue
        value = _static_number(b, given)
        require(value > 0, "one element has no unbiased variance")
        if what in ("count", "share"):
            whole = require_some(count, "the number of elements is not static, so the sum is not a mean of known size")
            value = whole / value if what == "count" else whole * value
            require(value > 0, "no elements have no mean")
            require(stem == VARIANCE or abs(value - 1) < 1e-6, "a sum is not divided by the number of its elements")
        ratio *= 1 / value if what == "divisor" else value
    return ratio


def _static_number(b: Builder, given: Any) -> float:
    """The number that a tensor holds, from its value or from the shapes that it is computed from; else declines."""
    array = b.value(given)
    if array is None and isinstance(given, Value):
        sizes = b.elements(given)
        array = np.asarray(sizes) if sizes and isinstance(sizes[0], int) else None
    why = "the number of elements is not static, so Bessel's correction has no constant value"
    array = require_some(array, why)
    require(array.size == 1, why)
    return _number(array)


def _number(array: np.ndarray) -> float:
    return float(np.asarray(array, np.float64).reshape(()))
