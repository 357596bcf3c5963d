"""What the normalisation passes share: the spellings of (x - mean) / sqrt(variance + epsilon),
and how a body reads them.

The patterns say which operators stand where; `read` then checks, on the nodes that matched, what no pattern can: that
every mean is taken over the same axes, that a mean which was reshaped or expanded meets x as a mean with kept
dimensions would, and that the counts of sums are what they must be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from surgeon import ANY, Builder, Stage, const, op, require, var
from surgeon.ir.graph import Node, Value
from surgeon.rules.pattern import Pattern

from ._shapes import Dim, cancel, dims, elements, no_larger
from ._types import FLOATS, HALVES

SHAPING = frozenset({"Reshape", "Expand", "Unsqueeze", "Squeeze"})
REDUCING = frozenset({"ReduceMean", "ReduceSum", "ReduceSumSquare", "GlobalAveragePool"})
LOST = 1e-8  # PyTorch's dynamo exporter deletes `+ epsilon` at or below this

T = TypeVar("T")
Factor = Any  # an array, or a Value that the model computes
Writer = Callable[..., Value]  # of a normalisation as one node: (b, source, n, (scale, shift), dtype)


# ---- patterns --------------------------------------------------------------------------------------------------------


def shaped(p: Pattern, times: int = 2) -> Pattern:
    """`p`, with up to `times` operators behind it that change its shape alone."""
    for _ in range(times):
        p = p | op.Reshape(p, ANY) | op.Expand(p, ANY) | op.Unsqueeze(p, ANY) | op.Squeeze(p, ANY)
    return p


def cast(p: Pattern) -> Pattern:
    return p | op.Cast(p)


def square(p: Pattern) -> Pattern:
    return p * p | op.Pow(p, 2)


def mean(p: Pattern, name: str) -> Pattern:
    """A mean over any axes, as an average or as a sum over a count."""
    total = shaped(op.ReduceSum(p, ANY), 1)
    return shaped(
        op.ReduceMean(p, ANY)
        | op.GlobalAveragePool(p)
        | op.Div(total, var(f"{name}_count"))
        | op.Mul(total, const(f"{name}_share"))
    )


def mean_of_squares(p: Pattern, name: str) -> Pattern:
    """The mean of squares, times anything: n / (n - 1) for Bessel's correction, most of all."""
    plain = mean(square(p), name) | shaped(op.Div(op.ReduceSumSquare(p, ANY), var(f"{name}_count")))
    return plain | shaped(
        op.Div(op.Mul(plain, var(f"{name}_factor")), var(f"{name}_divisor")) | op.Mul(plain, const(f"{name}_factor"))
    )


class Spelling:
    """The ways to write a normalisation of the tensor `x`: `bare` without, `scaled` and `affine` with what is
    multiplied and added to it. Not `centred`: x / sqrt(mean of squares + epsilon).

    Bound names: `epsilon` (absent: none), `outside` (an epsilon that is added to the root), `scale` and `shift` (inside
    the formula), `outer_scale` and `outer_shift` (applied to the result).
    """

    def __init__(self, x: Pattern, centred: bool = True) -> None:
        scale, shift = var("scale"), var("shift")
        if centred:
            spread = self._variance(x)
            centre = cast(mean(self._view(x), "first"))  # PyTorch's newer exporter sums in fp32 what it names fp16
            deviation = cast(op.Sub(cast(x), centre) | op.Add(cast(x), -centre))
        else:
            spread = mean_of_squares(cast(x), "square")
            deviation = cast(x)
        safe = op.Add(cast(spread), const("epsilon")) | cast(spread)
        root = shaped(op.Sqrt(safe) | op.Pow(safe, 0.5))
        inverse = shaped(
            op.Reciprocal(root) | op.Div(1, root) | op.Pow(safe, -0.5) | op.Sqrt(op.Reciprocal(safe) | op.Div(1, safe))
        )
        gain = op.Mul(inverse, scale) | inverse | op.Div(scale, root)
        direct = (
            op.Div(deviation, root)
            | op.Mul(deviation, gain)
            | op.Div(op.Mul(deviation, scale), root)
            | op.Mul(op.Mul(deviation, scale), inverse)
            | op.Div(deviation | op.Mul(deviation, scale), op.Add(root, const("outside")))
        )
        self.bare = direct
        if centred:
            product, centre = op.Mul(cast(x), gain), mean(self._view(x), "folded")
            minus = op.Mul(-centre, gain) | -op.Mul(centre, gain)
            self.bare = direct | (
                op.Add(product, op.Sub(shift, op.Mul(centre, gain)))
                | op.Add(product, op.Add(minus, shift))
                | op.Add(product, minus)
                | op.Sub(product, op.Mul(centre, gain))
            )
        self.scaled = op.Mul(cast(self.bare), var("outer_scale"))
        self.affine = op.Add(cast(self.scaled | self.bare), var("outer_shift")) | self.scaled | self.bare

    @staticmethod
    def _view(x: Pattern) -> Pattern:
        """The tensor of which the statistics are taken: x, or x with its spatial dimensions in one."""
        return x | op.Reshape(x, ANY) | op.Cast(x)

    def _variance(self, x: Pattern) -> Pattern:
        view = self._view(x)
        deviation = cast(op.Sub(view, mean(self._view(x), "second")) | op.Sub(view, mean(view, "second")))
        centre = mean(self._view(x), "second")
        fast = op.Sub(mean(square(self._view(x)), "fast"), square(centre))
        return mean_of_squares(deviation, "square") | op.Max(fast, 0) | op.Relu(fast) | fast


def scaled_behind(node: Pattern) -> Pattern:
    """What is multiplied to a normalisation that is one node."""
    return op.Mul(cast(node), var("outer_scale"))


def affine_behind(node: Pattern) -> Pattern:
    """What is multiplied or added to a normalisation that is one node."""
    return scaled_behind(node) | op.Add(cast(node), var("outer_shift"))


def known(value: T | None, why: str) -> T:
    """The value. Declines where there is none."""
    require(value is not None, why)
    assert value is not None
    return value


# ---- reading a match -------------------------------------------------------------------------------------------------


@dataclass
class Normalisation:
    """(x - mean) / sqrt(variance + epsilon) over `axes`, times `factor`, times the scales, plus the shifts, in order.

    `dims` and `rank` are those of `x`, `axes` are not negative and in order.
    Each of `affine` is ("Mul" | "Add", tensor).
    `found` is what the pattern bound, from which `count` takes the epsilon and the factor.
    """

    x: Value
    dims: list[Dim]
    axes: tuple[int, ...]
    epsilon: float = 0.0
    factor: float = 1.0
    affine: list[tuple[str, Value]] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def sizes(self) -> list[Dim]:
        """Those of the axes."""
        return [self.dims[a] for a in self.axes]

    def channels(self, axis: int) -> int | None:
        """The size of an axis, where it is known."""
        return self.dims[axis] if isinstance(self.dims[axis], int) else None

    @property
    def trailing(self) -> bool:
        return self.axes == tuple(range(self.rank - len(self.axes), self.rank))


def read(b: Builder, x: Value, **found: Any) -> Normalisation:
    """The axes and the affine part of a match of `Spelling` over the tensor `x`. Declines where they are none."""
    shape = known(dims(b, x), f"the rank of '{x.name}' is not known")
    require(b.dtype(x) in FLOATS, "the input is not of a floating-point type")
    layout = _Layout(b, x)
    layout.visit(b.root)
    affine = [("Mul", found["scale"])] if "scale" in found else []
    affine += [("Add", found["shift"])] if "shift" in found else []
    affine += [("Mul", found["outer_scale"])] if "outer_scale" in found else []
    affine += [("Add", found["outer_shift"])] if "outer_shift" in found else []
    return Normalisation(x, shape, layout.axes_of_x(), affine=affine, found=found)


def node_behind(b: Builder, x: Value, epsilon: float, native: Writer, own: Writer, **found: Any) -> Value:
    """For a match of `scaled_behind` or `affine_behind` over a node that normalises x: the node with what stands behind
    it taken into its weights, by the writer for its `axis` or its `axes`; declines without a word. Written out, a node
    leaves its neutral weights away, and the next run would take what stands behind it for them."""
    shape = known(dims(b, x), "")
    dtype, result = b.dtype(x), b.dtype(b.root.outputs[0])  # type: ignore[arg-type]
    require(dtype == result or (dtype == TensorProto.FLOAT and result in HALVES), "")  # to a wider type rounds first
    axes = found["axes"] if "axes" in found else range(found["axis"] % len(shape), len(shape))
    kinds = {"scale": "Mul", "bias": "Add", "outer_scale": "Mul", "outer_shift": "Add"}  # in this order
    affine = [(kind, found[name]) for name, kind in kinds.items() if name in found]
    n = Normalisation(x, shape, tuple(axes), epsilon, affine=affine)
    parts = known(merged(b, n, n.axes, dtype, weights=True), "")
    y = typed(b, (own if "axes" in found else native)(b, x, n, parts, dtype), result)
    require_fewer(b)
    return y


def count(b: Builder, n: Normalisation) -> None:
    """Fill in `epsilon` and `factor`, once a pass knows that the window is its own. Declines where it is none."""
    found = n.found
    require("outside" not in found, "epsilon is added to the root, not under it")
    ratio = _ratio(b, int(np.prod(n.sizes)) if all(isinstance(s, int) for s in n.sizes) else None, found)
    epsilon = found.get("epsilon")
    require(epsilon is None or epsilon.size == 1, "epsilon differs from element to element")
    value = float(np.asarray(epsilon, np.float64).reshape(())) if epsilon is not None else 0.0
    require(value >= 0, "epsilon is negative")
    n.epsilon, n.factor = float(np.float32(mended_epsilon(b, value) / ratio)), ratio**-0.5


def mended_epsilon(b: Builder, epsilon: float) -> float:
    """The epsilon of the file, or the user's where an exporter or a type lost it; either way the report says so."""
    if epsilon > 0:
        return epsilon
    wanted = b.options.get("repair_eps")
    if wanted is None:
        b.warn("lost epsilon: the variance has none, so a constant input divides by zero; --repair-eps gives it one")
        return 0.0
    b.warn(f"lost epsilon: {float(wanted):g} repairs it, as asked for")
    b.tolerance = 1e30  # the user asked for other numbers than the file's
    return float(wanted)


# Of the sums that a norm's mean and variance may be: "square" may leave Bessel's correction in, "fast" may not.
STEMS = ("first", "second", "folded", "fast", "square")


def _ratio(b: Builder, count: int | None, found: dict[str, Any]) -> float:
    """What the variance is multiplied with, against the mean of the squares; every sum must stand over its count."""

    def number(given: Any) -> float:
        array = b.value(given)
        if array is None and isinstance(given, Value):
            found = elements(b, given)
            array = np.asarray(found) if found and isinstance(found[0], int) else None
        require(
            array is not None and array.size == 1,
            "the number of elements is not static, so Bessel's correction has no constant value",
        )
        return float(np.asarray(array, np.float64).reshape(()))

    ratio = 1.0
    for name, given in found.items():
        stem, _, what = name.rpartition("_")
        if what not in ("count", "share", "factor", "divisor") or stem not in STEMS:
            continue
        value = number(given)
        require(value > 0, "one element has no unbiased variance")
        if what in ("count", "share"):
            require(count is not None, "the number of elements is not static, so the sum is no mean of known size")
            assert count is not None
            value = count / value if what == "count" else count * value
            require(value > 0, "no elements have no mean")
            require(stem == "square" or abs(value - 1) < 1e-6, "a sum is not divided by the number of its elements")
        ratio *= 1 / value if what == "divisor" else value
    return ratio


class _Layout:
    """Walks the matched nodes and sees that each mean meets x with its dimensions kept.

    A tensor is "full" (it varies like x, in the layout of x or of a view of x), "reduced" (a statistic) or neither.
    """

    def __init__(self, b: Builder, x: Value) -> None:
        self.b, self.x = b, x
        self.matched = set(b.matched)
        self.roles: dict[Value, tuple[str, Value | None, bool]] = {x: ("full", x, True)}
        self.axes: dict[Value, tuple[int, ...]] = {}

    def visit(self, root: Node) -> None:
        self._role(root.outputs[0])
        for node in self.matched:
            if node.key not in SHAPING and node.key not in REDUCING:
                self._check_meeting(node)

    def axes_of_x(self) -> tuple[int, ...]:
        """The axes of x over which all the statistics are taken."""
        found = {self._translated(layout, axes) for layout, axes in self.axes.items()}
        require(len(found) == 1, "the means are taken over different axes")
        return found.pop()

    def _role(self, value: Value | None) -> tuple[str, Value | None, bool]:
        """(role, layout, whether its dimensions are kept by construction)"""
        if value is None:
            return "other", None, True
        if value in self.roles:
            return self.roles[value]
        node = value.producer
        self.roles[value] = ("other", None, True)
        if node is not None and node in self.matched:
            self.roles[value] = self._role_of(node, value)
        return self.roles[value]

    def _role_of(self, node: Node, value: Value) -> tuple[str, Value | None, bool]:
        role, layout, kept = self._role(node.inputs[0])
        if node.key in REDUCING:
            require(role == "full" and layout is not None, "a mean is taken of something else")
            assert layout is not None
            axes = self._axes(node, layout)
            require(self.axes.setdefault(layout, axes) == axes, "the means are taken over different axes")
            return "reduced", layout, node.key == "GlobalAveragePool" or bool(node.attr("keepdims"))
        if node.key in SHAPING:
            if role == "full":
                return "full", value, True  # a view of x
            if node.key == "Expand" and role == "reduced":
                self._require_kept_sizes(node)
            return role, layout, False
        if node.key == "Cast" and role == "reduced":
            self._require_type(value)
        roles = [self._role(i) for i in node.inputs]
        full = [r for r in roles if r[0] == "full"]
        if full:
            return "full", full[0][1], True
        reduced = [r for r in roles if r[0] == "reduced"]
        if reduced:
            return "reduced", reduced[0][1], all(r[2] for r in reduced)
        return "other", None, True

    def _require_kept_sizes(self, expand: Node) -> None:
        """A size that is not known may be 1, which an Expand to a number makes more of: of the result, too."""
        given, wanted = dims(self.b, expand.inputs[0]) or [], elements(self.b, expand.inputs[1]) or []  # type: ignore[arg-type]
        pairs = zip(reversed(given), reversed(wanted), strict=False)
        grows = any(isinstance(w, int) and w != 1 and not isinstance(g, int) for g, w in pairs)
        require(not grows, "it cannot be shown that Expand makes a mean no larger than the input")

    def _require_type(self, value: Value) -> None:
        """A statistic is of the type of x, or of a wider one."""
        own, given = self.b.dtype(self.x), self.b.dtype(value)
        wider = given in FLOATS and (given == TensorProto.DOUBLE or given == TensorProto.FLOAT and own in HALVES)
        require(given == own or wider, "a mean or a variance is cast to a narrower type")

    def _axes(self, node: Node, layout: Value) -> tuple[int, ...]:
        rank = self._rank(layout)
        if node.key == "GlobalAveragePool":
            return tuple(range(2, rank))
        operands = node.operands()
        axes = self.b.value(operands[1]) if len(operands) > 1 else None
        require(axes is not None and axes.size, "the axes of a mean are not constant")
        assert axes is not None
        return tuple(sorted(int(a) % rank for a in axes.reshape(-1)))

    def _rank(self, layout: Value) -> int:
        return len(known(dims(self.b, layout), f"the rank of '{layout.name}' is not known"))

    def _translated(self, layout: Value, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Axes of a view of x as axes of x: the view keeps the leading dimensions and has the others in one."""
        if layout is self.x:
            return axes
        view, whole = dims(self.b, layout), dims(self.b, self.x)
        assert view is not None and whole is not None
        kept = len(view) - 1
        require(
            axes == (kept,) and kept < len(whole) and view[:kept] == whole[:kept],
            "the statistics are those of another shape",
        )
        return tuple(range(kept, len(whole)))

    def _check_meeting(self, node: Node) -> None:
        """A statistic that meets a full tensor must have its rank, one at the reduced axes, and no larger dimension."""
        roles = [(i, *self._role(i)) for i in node.inputs]
        full = next((r for r in roles if r[1] == "full"), None)
        if full is None:
            return
        layout = full[2]
        assert layout is not None
        for value, role, source, kept in roles:
            if role == "full":
                require(source is layout, "it mixes two shapes of the same tensor")
            if role != "reduced" or (kept and source is layout):
                continue
            whole, mine = dims(self.b, layout), dims(self.b, value)  # type: ignore[arg-type]
            axes = self.axes.get(layout) or (self.axes_of_x() if layout is self.x else ())
            fits = (
                whole is not None
                and mine is not None
                and len(whole) == len(mine)
                and all(
                    mine[a] in (1, whole[a])
                    if a in axes
                    else mine[a] == whole[a] or not isinstance(mine[a], int) or not isinstance(whole[a], int)
                    for a in range(len(whole))
                )
            )
            require(fits, "a mean does not stand where its own dimensions were")


# ---- factors ---------------------------------------------------------------------------------------------------------


def along(b: Builder, value: Value, n: Normalisation, axes: Sequence[int]) -> Factor | None:
    """A tensor that multiplies x, as one that varies along `axes` of x alone, of their sizes in one row-major vector.

    An array where the values are constant (full spatial copies are folded; one number stays one), the tensor itself
    otherwise; None where it varies along other axes too or broadcasts x. Declines where it may broadcast x: where an
    axis of unknown size has one element at run time, a vector along it makes more of it, and one of ones alone, too.
    """
    shape = b.shape(value)
    if shape is None or len(shape) > n.rank:
        return None
    sizes = [n.dims[a] for a in axes]
    array = b.value(value)
    if array is not None and array.size == 1:
        return array.reshape(1)
    if array is not None:
        own = [1] * (n.rank - array.ndim) + list(array.shape)
        may_grow = any(own[a] != 1 and not isinstance(n.dims[a], int) for a in axes)
        require(
            not may_grow, f"a factor or a shift of shape {list(array.shape)} may make the result larger than its input"
        )
        if any(d not in (1, n.dims[a]) for a, d in enumerate(own)) or not all(isinstance(s, int) for s in sizes):
            return None
        return _folded(np.asarray(array), n.rank, axes, [int(s) for s in sizes])
    padded = [1] * (n.rank - len(shape)) + list(shape)
    fits = all(padded[a] == n.dims[a] if a in axes else padded[a] == 1 for a in range(n.rank))
    return value if fits else None


def _folded(array: np.ndarray, rank: int, axes: Sequence[int], sizes: list[int]) -> np.ndarray | None:
    array = array.reshape([1] * (rank - array.ndim) + list(array.shape))
    for axis in range(rank):
        if axis in axes or array.shape[axis] == 1:
            continue
        if not array.shape[axis]:
            return None
        first = np.take(array, [0], axis)
        if not np.array_equal(np.broadcast_to(first, array.shape), array):
            return None
        array = first
    if any(array.shape[a] not in (1, s) for a, s in zip(axes, sizes, strict=True)):
        return None
    kept = array.reshape([array.shape[a] for a in axes])
    return np.broadcast_to(kept, sizes).reshape(-1)


def of_full_shape(b: Builder, n: Normalisation) -> bool:
    """Whether a scale or shift is as large as what is normalised, as the weights of a layer over several axes are."""
    for _, value in n.affine:
        shape = b.shape(value)
        if (
            shape is not None
            and len(shape) >= n.rank - n.axes[0]
            and (b.value(value) is not None or len(shape) == len(n.axes))
        ):
            padded = [1] * (n.rank - len(shape)) + list(shape)
            if all(
                padded[a] == n.dims[a]
                or (isinstance(padded[a], int) and padded[a] != 1 and not isinstance(n.dims[a], int))
                for a in n.axes
            ):
                return True
    return False


def numpy_type(dtype: int) -> np.dtype:
    require(dtype, "its type is not known")
    return np.dtype(helper.tensor_dtype_to_np_dtype(dtype))


def is_constant(factor: Factor | None, value: float) -> bool:
    return isinstance(factor, np.ndarray) and bool((factor.astype(np.float64) == value).all())


def is_uniform(b: Builder, value: Value, number: float) -> bool:
    """Whether every element is the number: a constant, or a ConstantOfShape of whatever shape."""
    array = b.value(value)
    node = value.producer
    if array is None and node is not None and node.key == "ConstantOfShape":
        filled = node.attr("value")
        array = np.zeros(1) if filled is None else numpy_helper.to_array(filled)
    return is_constant(array, number)


def times(b: Builder, one: Factor, other: Factor) -> Factor:
    """The product of two factors of one shape; constants are multiplied here, in float64."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.astype(np.float64) * other.astype(np.float64)
    if is_constant(one, 1):
        return other
    return one if is_constant(other, 1) else b.Mul(_typed(b, one, other), _typed(b, other, one))


def plus(b: Builder, one: Factor, other: Factor) -> Factor:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.astype(np.float64) + other.astype(np.float64)
    if is_constant(one, 0):
        return other
    return one if is_constant(other, 0) else b.Add(_typed(b, one, other), _typed(b, other, one))


def _typed(b: Builder, factor: Factor, other: Factor) -> Factor:
    """A constant that meets a computed factor has that one's type."""
    return factor.astype(numpy_type(b.dtype(other))) if isinstance(factor, np.ndarray) else factor


def vector(b: Builder, factor: Factor, size: int | None, dtype: int) -> Value:
    """A factor as a tensor of one dimension and of type `dtype`."""
    if isinstance(factor, np.ndarray):
        return b.constant(
            np.ascontiguousarray(np.broadcast_to(factor, (size,)) if size else factor).astype(numpy_type(dtype))
        )
    flat = _unshaped(b, factor)
    return flat if b.dtype(flat) in (dtype, 0) else b.Cast(flat, to=dtype)


def of_shape(b: Builder, value: Value, sizes: Sequence[int]) -> Any:
    """A vector as a tensor of the given sizes, an array where it is constant."""
    array = b.value(value)
    return b.Reshape(value, np.asarray(sizes, np.int64)) if array is None else array.reshape(sizes)


def _unshaped(b: Builder, value: Value) -> Value:
    """The tensor as one dimension: what stood there before an exporter reshaped it, where it did."""
    source = value
    while source.producer is not None and source.producer.key in ("Reshape", "Unsqueeze"):
        source = source.producer.inputs[0]  # type: ignore[assignment]
        if b.rank(source) == 1:
            return source
    return value if b.rank(value) == 1 else b.Reshape(value, np.asarray([-1], np.int64))


def merged(
    b: Builder, n: Normalisation, axes: Sequence[int], dtype: int, weights: bool = False
) -> tuple[Factor, Factor] | None:
    """(scale, shift) of the whole affine part as factors along `axes`; None where a part varies along other axes.

    As `weights`, a computed factor must have the dimensions of `axes` alone: a residual of a batch of one is none.
    """
    unit = np.full(1, n.factor)
    scale: Factor = unit
    shift: Factor = np.zeros(1)
    for kind, value in n.affine:
        factor = along(b, value, n, axes)
        if factor is None or (weights and isinstance(factor, Value) and len(b.shape(factor) or ()) > len(axes)):
            return None
        if isinstance(factor, Value):
            factor = vector(b, factor, None, dtype)
        if kind == "Add":
            shift = plus(b, shift, factor)
            continue
        scale = times(b, scale, factor)
        shift = shift if is_constant(shift, 0) else times(b, shift, factor)
    return scale, shift


def apply_affine(b: Builder, y: Value, n: Normalisation) -> Value:
    """The affine part as operators of its own, where it is none of one number a channel."""
    if n.factor != 1:
        y = b.Mul(y, n.factor)
    for kind, value in n.affine:
        if is_uniform(b, value, 1 if kind == "Mul" else 0) and no_larger(b.shape(value), n.dims):
            continue
        y = b.node(kind, [y, value], 1, "", {})
    return y


def typed(b: Builder, x: Value, dtype: int) -> Value:
    return x if b.dtype(x) == dtype else b.Cast(x, to=dtype)


def source_through(b: Builder, x: Value, perm: Sequence[int]) -> Value:
    """Transpose(x, perm), or what x was transposed from where the two undo each other."""
    node = x.producer
    if node is not None and undoes_transpose(x, perm) and node.inputs[0] is not None:
        return node.inputs[0]
    return b.Transpose(x, perm=list(perm))


def undoes_transpose(x: Value, perm: Sequence[int]) -> bool:
    node = x.producer
    return node is not None and node.key == "Transpose" and cancel(node.attr("perm"), perm)


def instance_axis(b: Builder, n: Normalisation) -> int | None:
    """Where the channels are, if the window is an instance normalisation: 1, the last axis, or None."""
    last = n.rank - 1
    if n.rank < 3:
        return None
    if n.axes == tuple(range(2, n.rank)):
        behind = replace(n, affine=n.affine or [("Mul", v) for v in _factors_behind(b.root.outputs[0])])
        if n.rank > 3 and of_full_shape(b, behind) and not _varies_along(b, behind, 1):
            return None  # the weights of a layer normalisation over several axes
        return 1 if n.rank > 3 or _by_channel(b, n) else None
    if n.axes == tuple(range(1, last)) and (n.rank > 3 or _varies_along(b, n, last)):
        return last
    return None


def _by_channel(b: Builder, n: Normalisation) -> bool:
    """Over [N, C, L], the last axis alone may also be a layer normalisation: the affine part tells,
    or a reshape before it."""
    if _varies_along(b, n, 1) or _varies_along(b, n, 2):
        return not _varies_along(b, n, 2)
    behind = replace(n, affine=[("Mul", v) for v in _factors_behind(b.root.outputs[0])])
    if _varies_along(b, behind, 1) or _varies_along(b, behind, 2):
        return not _varies_along(b, behind, 2)
    source = n.x.producer
    if source is not None and source.key == "Cast" and source.inputs[0] is not None:
        source = source.inputs[0].producer
    return source is not None and source.key == "Reshape"


def _factors_behind(value: Value | None) -> list[Value]:
    """What the only reader of a tensor multiplies it with or adds to it."""
    readers = list(value.users) if value is not None else []
    if len(readers) == 1 and readers[0].key == "Cast":
        return _factors_behind(readers[0].outputs[0])
    if len(readers) != 1 or readers[0].key not in ("Mul", "Add"):
        return []
    return [i for i in readers[0].inputs if i is not None and i is not value]


def _varies_along(b: Builder, n: Normalisation, axis: int) -> bool:
    """Whether the shape of a scale or shift has more than one element along an axis, and along that one alone."""
    for _, value in n.affine:
        shape = b.shape(value)
        if (
            shape is not None
            and len(shape) <= n.rank
            and [n.rank - len(shape) + a for a, d in enumerate(shape) if d != 1] == [axis]
        ):
            return True
    return False


def narrowed(b: Builder, x: Value, dtype: int) -> Value:
    """x in the type `dtype` of the result: what a file cast to a wider type for the statistics alone, or x cast."""
    cast = _cast_from(b, x, dtype)
    if cast is None or cast.inputs[0] is None:
        return typed(b, x, dtype)
    if cast not in b.matched:  # others read it too: it stays, and the window has to know where x is from
        b.matched = (*b.matched, cast)
    return cast.inputs[0]


def working_type(b: Builder, x: Value, dtype: int) -> int:
    """The type to normalise in: `dtype`, that of the result, or the wider one of an x that is nowhere in `dtype`, such
    as a residual stream in fp32 beside layers in fp16. The result is cast then."""
    wider = dtype in HALVES and b.dtype(x) == TensorProto.FLOAT and _cast_from(b, x, dtype) is None
    return TensorProto.FLOAT if wider else dtype


def _cast_from(b: Builder, x: Value, dtype: int) -> Node | None:
    """The Cast that made x from a tensor of the type `dtype`, if x is of another."""
    node = x.producer
    if b.dtype(x) == dtype or node is None or node.key != "Cast" or node.inputs[0] is None:
        return None
    return node if b.dtype(node.inputs[0]) == dtype else None


def centred_already(b: Builder, x: Value) -> bool:
    """Whether x is y - mean(y): its mean square is a variance."""
    node = x.producer
    while node is not None and node.key == "Cast" and node.inputs[0] is not None:
        node = node.inputs[0].producer
    if node is None or node.key != "Sub" or node.inputs[1] is None:
        return False
    source = node.inputs[1].producer
    while source is not None and source.key in SHAPING and source.inputs[0] is not None:
        source = source.inputs[0].producer
    return source is not None and source.key in REDUCING


def grouped_last(n: Normalisation) -> bool:
    """Whether x is [N, spatial..., groups, channels of a group] and all but N and the groups is normalised."""
    return n.rank >= 4 and n.axes == (*range(1, n.rank - 2), n.rank - 1)


# ---- writing ---------------------------------------------------------------------------------------------------------


def normalised(b: Builder, x: Value, axes: Sequence[int], epsilon: float, centred: bool = True) -> Value:
    """The normalisation in the fewest operators; sums of fp16 and bf16 in fp32, in which type the result is then."""
    wide = b.Cast(x, to=TensorProto.FLOAT) if b.dtype(x) in HALVES else x
    deviation = b.Sub(wide, b.ReduceMean(wide, axes=list(axes), keepdims=1)) if centred else wide
    variance = b.ReduceMean(b.Mul(deviation, deviation), axes=list(axes), keepdims=1)
    return b.Div(deviation, b.Sqrt(b.Add(variance, epsilon) if epsilon else variance))


def along_axes(b: Builder, factor: Factor, sizes: Sequence[Dim], dtype: int, neutral: float) -> Any:
    """A vector along the axes of these sizes as a factor that broadcasts against x; None where it changes nothing."""
    if is_constant(factor, neutral):
        return None
    target = [d if isinstance(d, int) else -1 for d in sizes]
    if isinstance(factor, np.ndarray):
        return (factor if factor.size == 1 else factor.reshape(target)).astype(numpy_type(dtype))
    return factor if len(target) == 1 else of_shape(b, vector(b, factor, None, dtype), target)


def channels_behind(
    b: Builder, x: Value, scale: Value, bias: Value, outer_scale: Value | None = None, outer_shift: Value | None = None
) -> tuple[Value, Value]:
    """The scale and the bias of a node, one number a channel each, with the factor or the shift behind it taken in."""
    shape = known(dims(b, x), f"the rank of '{x.name}' is not known")
    kind, factor = ("Add", outer_shift) if outer_scale is None else ("Mul", outer_scale)
    assert factor is not None
    require({b.rank(scale), b.rank(bias)} <= {1, None}, "")
    dtype = b.dtype(x)
    known_scale, known_bias = b.value(scale), b.value(bias)
    size = shape[1] if isinstance(shape[1], int) else known_scale.size if known_scale is not None else None
    sizes = [*shape[:1], size or shape[1], *shape[2:]]
    n = Normalisation(x, sizes, tuple(range(2, len(shape))), affine=[(kind, factor)])
    found = along(b, factor, n, [1])
    # the sum of two branches, which nobody takes for an affine part
    residual = kind == "Add" and b.value(factor) is None
    require(
        found is not None,
        "" if residual else f"the {'scale' if kind == 'Mul' else 'shift'} behind it is not one number a channel",
    )
    if not isinstance(found, np.ndarray):
        found = vector(b, found, size, dtype)
    s, t = (scale if known_scale is None else known_scale), (bias if known_bias is None else known_bias)
    if kind == "Add":
        return scale, vector(b, plus(b, t, found), size, dtype)
    return (
        vector(b, times(b, s, found), size, dtype),
        vector(b, t if is_constant(t, 0) else times(b, t, found), size, dtype),
    )


def by_channel(b: Builder, value: Value, rank: int) -> Any:
    """A vector of channels as a factor of [N, C, ...]: an array, or a tensor of that shape."""
    array = b.value(value)
    if array is not None:
        return array.reshape([-1, *[1] * (rank - 2)])
    source = value.producer.inputs[0] if value.producer is not None and value.producer.key == "Reshape" else None
    own = b.shape(source) if source is not None else None
    shape: list[Dim] = [] if own is None else [1] * (rank - len(own)) + list(own)
    if len(shape) == rank and all(d == 1 for a, d in enumerate(shape) if a != 1):
        return source
    return b.Reshape(value, np.asarray([-1, *[1] * (rank - 2)], np.int64))


def with_affine(b: Builder, y: Value, scale: Factor | Value | None, shift: Factor | Value | None, dtype: int) -> Value:
    """y * scale + shift, without what changes nothing, in the type of y;
    the result in `dtype`, as computed factors are."""
    if any(isinstance(f, Value) and b.value(f) is None for f in (scale, shift)):
        y = typed(b, y, dtype)
    for kind, factor, neutral in (("Mul", scale, 1.0), ("Add", shift, 0.0)):
        if factor is None or is_constant(factor if isinstance(factor, np.ndarray) else b.value(factor), neutral):
            continue
        if isinstance(factor, np.ndarray):
            factor = b.constant(factor.astype(numpy_type(b.dtype(y))))
        elif b.dtype(factor) != b.dtype(y):
            known = b.value(factor)
            factor = (
                b.constant(known.astype(numpy_type(b.dtype(y)))) if known is not None else b.Cast(factor, to=b.dtype(y))
            )
        y = b.node(kind, [y, factor], 1, "", {})
    return typed(b, y, dtype)


def declared_opset(b: Builder) -> int:
    """The opset that the written model declares: old targets want theirs, and the next run starts from that."""
    return min(b.opset, b.target.opset) if b.target.lowers_opset else b.opset


def chain(b: Builder, n: Normalisation, source: Value, centred: bool = True) -> list[str]:
    """The operators that `normalised` of `source` and `with_affine` write for this window."""
    affine = [kind for kind, factor in n.affine if not is_uniform(b, factor, 1 if kind == "Mul" else 0)]
    return [
        *(["ReduceMean", "Sub"] if centred else []),
        *["Mul", "ReduceMean", *(["Add"] if n.epsilon else []), "Sqrt", "Div"],
        *(affine or (["Mul"] if n.factor != 1 else [])),
        *(["Cast", "Cast"] if b.dtype(source) in HALVES else []),
    ]


def require_fewer(b: Builder) -> None:
    """Decline, without a word, where what is made so far is no fewer nodes than what matched; the reshape of a factor
    counts for nothing."""
    made = [m for m in b.made if m.alive and m.key != "Constant" and m.key not in SHAPING]
    require(len(made) < len(b.matched), "")


def of_the_file(node: Node) -> bool:
    """Whether the file has the node: as it stands, or where CLEAN copied it from, such as a function."""
    return node.origin is None or node.origin.strategy == Stage.CLEAN.value


def require_shorter(b: Builder, operators: Sequence[str]) -> None:
    """Decline to write nodes of these operators for a window of no more, unless it has some in double
    precision, which no TensorRT has.

    So the file keeps its own spelling, which TensorRT may know, where there is nothing to gain; so what surgeon wrote
    is not written again. A window of the file that lost its epsilon is read all the same:
    the report must say so, or mend it. A window that reads like what would be written is no news.
    """
    if b.warnings and of_the_file(b.root):
        return
    wide = any(o is not None and b.dtype(o) == TensorProto.DOUBLE for node in b.matched for o in node.outputs)
    needed = wide and b.dtype(b.root.outputs[0]) != TensorProto.DOUBLE  # type: ignore[arg-type]
    readers = list(b.root.outputs[0].users)  # type: ignore[union-attr]
    inner = (
        len(readers) == 1
        and readers[0].key in ("Mul", "Add")
        and any(i is not None and b.value(i) is not None for i in readers[0].inputs)
    )
    written = sorted(m.key for m in b.matched) == sorted(operators)
    silent = inner or written or not of_the_file(b.root)  # a larger window has said so, or surgeon wrote it
    require(
        len(b.matched) > len(operators) or needed,
        "" if silent else "no operator at this opset that the target takes, and no shorter spelling",
    )
