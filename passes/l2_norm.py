"""Fuse an L2 normalisation, however it was exported, and write it with the fewest kernels that the target has.

Why       Exporters spell x / ||x|| as two to twelve nodes. TensorRT 8.4 runs the SSD spelling as five kernels: 82 us
          for 1x64x256x256 on an H200, 49 us through ReduceL2, 35 us as ReduceL2, Max and Div, 9 us in one kernel of
          its own. In fp16 its sum of squares overflows from 65504 on.
Rewrites  x / max(||x||, e)       -> mode max_norm          x / (||x|| + e)         -> mode add_norm (e = 0: no epsilon)
          x / sqrt(max(sum, e))   -> mode max_sum           x / sqrt(sum + e)       -> mode add_sum
          x * min(1 / ||x||, e)   -> mode min_reciprocal    each with a weight per channel, before or after it
          The norm may be a ReduceL2, a ReduceSum of any spelling of the square, a ReduceSumSquare or an Einsum; its
          root a Sqrt or a Pow; the division a Div or a multiplication by any reciprocal. Casts, Expand, and an
          Unsqueeze or Reshape that gives a reduced axis back, are seen through;
          a weight spread over the other axes is folded back.
          LpNormalization (p = 2) gives 0 for a row of zeros. That is max_norm with an epsilon of 2^-75, which lies
          below every norm but 0 that a sum in fp32 can have (sqrt(2^-149)): TensorRT's own lowering takes five layers
          and sums in the input's type. x / where(norm == 0, 1, norm) is the same.
          decompose: ReduceL2, Max or Add, Div. max_sum is max_norm with the root of e, min_reciprocal max_norm with
          1 / e; for fp16 and bf16 between a Cast to fp32 and one back. TensorRT-RTX's ReduceL2 of fp16 sums in fp32 by
          itself: there, a file without Casts gets none. plugin: one SurgeonL2Norm.
Exact     To rounding, with sums in fp32 whatever narrower type the input has; max_sum becomes max_norm bit for bit.
Price     LpNormalization of [1,64,56,56]: 3 nodes, 0.17 ms in ONNX Runtime on one thread next to 0.26 of its own. Every
          other spelling gets shorter, but for the two Casts of half precision.
Kept      Several axes, L1, a norm with a second reader, GRN, RMS norms (a mean, not a sum),
          constants (`fold` has them).
Epsilon   Where it was lost on the way to the file (1e-12 is 0 in fp16; PyTorch's dynamo exporter deletes `+ e` at or
          below 1e-8) a warning says `lost epsilon`, and --repair-eps puts one back.
"""

import re
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from surgeon import ANY, HALVES, PLUGIN, Builder, Node, Pattern, Value, attr, const, meaning, op, require, rule, var
from surgeon.ir.model import Model
from surgeon.rules.dimensions import bare
from surgeon.targets.condition import dtype_name

from ._norm.spelling import maybe_cast
from ._shapes import no_larger, output_of

OPTIONS = ("repair_eps",)

WIDTH: dict[int, int] = {TensorProto.FLOAT16: 1, TensorProto.BFLOAT16: 1, TensorProto.FLOAT: 2, TensorProto.DOUBLE: 3}
BELOW_EVERY_NORM = 2.0**-75
FX_NODE = "pkg.torch.onnx.fx_node"  # what PyTorch's dynamo exporter records with each node

x = var("x")


# ---- patterns --------------------------------------------------------------------------------------------------------


def seen_through(p: Pattern) -> Pattern:
    """`p`, or what one operator makes of it that changes no element.

    The body proves that its shape is what it must be.
    """
    shaped = op.Expand(p, ANY) | op.Tile(p, ANY) | op.Unsqueeze(p, ANY) | op.Reshape(p, ANY)
    return shaped | op.Cast(p) | op.CastLike(p, ANY) | op.Identity(p) | p


def number(name: str) -> Pattern:
    """A constant, perhaps in the type of another tensor."""
    return const(name) | op.CastLike(const(name), ANY)


def root(p: Pattern) -> Pattern:
    return op.Sqrt(p) | op.Pow(p, 0.5)


def floored(p: Pattern, name: str) -> Pattern:
    return op.Clip(p, number(name)) | op.Max(p, number(name))


def inverse_of(p: Pattern) -> Pattern:
    return op.Reciprocal(p) | op.Div(1, p) | op.Pow(p, -1)


reduced = maybe_cast(x)
size = op.Abs(reduced)
square = size * size | op.Pow(size, 2) | reduced * reduced | op.Pow(reduced, 2)
axes = const("axes")
total: Pattern = seen_through(
    op.ReduceSum(maybe_cast(square), axes)
    | op.ReduceSumSquare(size | reduced, axes)
    | op.Einsum(reduced, reduced, equation=attr("equation"))
)
total = seen_through(floored(total, "floor_sum") | total + number("added_sum") | total)
length: Pattern = seen_through(seen_through(op.ReduceL2(size | reduced, axes) | root(total)))
ones = (
    number("one") | op.Expand(const("one"), op.Shape(length)) | op.ConstantOfShape(op.Shape(length), value=attr("fill"))
)
no_zero = op.Where(op.Equal(length, 0), ones, length)
norm = seen_through(
    seen_through(floored(length, "floor") | length + number("added") | no_zero | op.Relu(length) | length)
)

inverse: Pattern = inverse_of(norm) | op.Pow(total, -0.5) | root(inverse_of(total))
inverse = seen_through(
    op.Min(inverse, number("bound")) | op.Clip(inverse, None, number("bound")) | op.Mul(inverse, 1) | inverse
)

gain = const("gain") | op.Expand(const("gain"), ANY)
numerator = maybe_cast(x) * gain | maybe_cast(x)
normalised = numerator / norm | numerator * inverse | maybe_cast(x) * (inverse * gain) | maybe_cast(x) * (gain / norm)


# ---- the meaning -----------------------------------------------------------------------------------------------------


@meaning("L2Norm", "SurgeonL2Norm")
def l2_norm(f, x, weight=None, *, axis, epsilon, mode):
    """x over its norm along `axis`; sums in fp32 for narrower types. `weight` has one element for each of that axis."""
    half = f.dtype in HALVES
    if half:
        f.compute_in(TensorProto.FLOAT)
        x = f.Cast(x, to=TensorProto.FLOAT)
        weight = weight and f.Cast(weight, to=TensorProto.FLOAT)
    y = _spelled(f, x, axis, epsilon, mode)
    y = f.Mul(y, weight) if weight is not None else y
    return f.Cast(y, to=f.dtype) if half else y


def _spelled(f: Any, x: Any, axis: int, epsilon: float, mode: str) -> Any:
    """x over its norm, as the mode says: the file's own spelling, without the casts."""
    if mode in ("max_sum", "add_sum"):
        squares = f.ReduceSumSquare(x, axes=[axis], keepdims=1)
        return f.Div(x, f.Sqrt(_at_least(f, squares, epsilon) if mode == "max_sum" else f.Add(squares, epsilon)))
    norm = f.ReduceL2(x, axes=[axis], keepdims=1)
    if mode == "min_reciprocal":
        inverse = f.Reciprocal(norm)
        return f.Mul(x, f.Clip(inverse, max=epsilon) if f.opset < 8 else f.Min(inverse, epsilon))
    return f.Div(x, _at_least(f, norm, epsilon) if mode == "max_norm" else f.Add(norm, epsilon))


def _at_least(f: Any, value: Any, floor: float) -> Any:
    """max(value, floor); Max broadcasts from opset 8 on."""
    return f.Clip(value, min=floor) if f.opset < 8 else f.Max(value, floor)


# ---- FUSE ------------------------------------------------------------------------------------------------------------


@rule(normalised)
def fuse(b, x, axes=None, equation=None, gain=None, one=None, fill=None, **epsilons):
    """`epsilons`: floor, added (on the norm), floor_sum, added_sum (on the sum), bound (on the reciprocal).

    `one` or `fill` replaces a norm of 0.
    """
    require(b.value(x) is None, "it normalises a constant, which `fold` computes")
    dtype, out = b.dtype(x), b.dtype(output_of(b.root))
    require(dtype in WIDTH and out in WIDTH, "the type is not known, or not a floating-point type")
    if equation is None:
        require(axes.size == 1, f"one axis expected, got {axes.reshape(-1).tolist()}")
    axis = int(axes.reshape(-1)[0]) if equation is None else _summed_axis(equation)
    for node in b.matched:
        if node.key in ("Cast", "CastLike") and b.value(node.inputs[0]) is None:
            inner = b.dtype(output_of(node))
            fits = inner == dtype or WIDTH.get(inner, 0) > WIDTH[dtype]
            require(fits, f"it computes in {dtype_name(inner)} what is {dtype_name(dtype)}")
    reduction = next(n for n in b.matched if n.key in ("ReduceL2", "ReduceSum", "ReduceSumSquare", "Einsum"))
    _require_shapes(b, x, axis, keepdims=equation is None and bool(reduction.attr("keepdims")))
    one = one if fill is None else numpy_helper.to_array(fill)
    mode, epsilon = _epsilon(b, epsilons) if one is None else _without_zero(b, x, axis, one, epsilons)
    if not any(n.key == "Cast" or b.target.sums_in_fp32(n.key) for n in b.matched):
        _say_that_it_widens(b, dtype)
    weight = None if gain is None else _weight(b, x, axis, gain)
    wide = x if out == dtype else b.Cast(x, to=out)
    return b.L2Norm(wide, weight, domain="surgeon", axis=axis, epsilon=epsilon, mode=mode)


@rule(op.LpNormalization(x, p=2, axis=attr("axis")))
def lp_normalization(b, x, axis):
    require(b.value(x) is None, "it normalises a constant, which `fold` computes")
    require(b.dtype(x) in WIDTH, "the type is not known")
    rank = b.rank(x)
    require(rank is None or -rank <= axis < rank, f"the axis {axis} is none of its {rank}")
    _say_that_it_widens(b, b.dtype(x))
    return b.L2Norm(x, domain="surgeon", axis=axis, epsilon=_below_every_norm(b.dtype(x)), mode="max_norm")


attributes: dict[str, Any] = {name: attr(name) for name in ("axis", "epsilon", "mode")}
bare_node = op.L2Norm(x, domain="surgeon", **attributes)


@rule(op.Mul(bare_node, gain))
def weighted(b, x, gain, **attributes):
    return b.L2Norm(x, _weight(b, x, attributes["axis"], gain), domain="surgeon", **attributes)


island = op.Cast(x)


@rule(
    op.Cast(
        op.L2Norm(island, domain="surgeon", **attributes)
        | op.L2Norm(island, var("weight"), domain="surgeon", **attributes),
        to=attr("to"),
    )
)
def in_an_island(b, x, to, weight=None, **attributes):
    """The casts of an fp32 island are part of the meaning of a half-precision L2Norm."""
    require(b.dtype(x) == to, "it changes the type")
    require(to in HALVES)
    return b.L2Norm(x, weight, domain="surgeon", **attributes)


def _say_that_it_widens(b: Builder, dtype: int) -> None:
    """Warn that a sum of fp16 or bf16 is in fp32 now."""
    if dtype in HALVES:
        name = dtype_name(dtype)
        b.warn(
            f"the sum of squares moves from {name} to fp32: TensorRT would sum in {name}, where it overflows or loses "
            "digits"
        )


# ---- what no pattern can say -----------------------------------------------------------------------------------------


def _summed_axis(equation: str) -> int:
    """The axis over which Einsum(x, x) sums squares: 'nc,nc->n' gives 1. Declines any other product."""
    operands, _, result = equation.replace(" ", "").partition("->")
    one, _, other = operands.partition(",")
    gone = [k for k, letter in enumerate(one) if letter not in result]
    squares = one == other and one.isalpha() and len(set(one)) == len(one)
    fits = squares and len(gone) == 1 and one.replace(one[gone[0]], "") == result
    require(fits, f"Einsum '{equation}' is not a sum of squares along one axis")
    return gone[0]


def _require_shapes(b: Builder, x: Value, axis: int, keepdims: bool) -> None:
    """Decline where the norm does not meet x as a norm with kept dimensions would. It is followed from the reduction to
    the division."""
    whole = b.dims(x)
    rank = None if whole is None else len(whole)
    # without its first axis, a norm meets x as it should
    kept, first = keepdims, rank is not None and axis % rank == 0
    for node in reversed(b.matched):  # from the reduction down to the root
        if node.key not in ("Expand", "Tile", "Unsqueeze", "Reshape") or b.value(node.inputs[0]) is not None:
            continue
        if node.key == "Unsqueeze":
            gives_back = not kept and _restores(b, node, axis, rank)
            require(gives_back, "Unsqueeze does not give back the axis that was reduced")
        elif node.key == "Reshape":
            gives_back = _has_kept_shape(b, output_of(node), axis, whole)
            require(gives_back, "it cannot be shown that Reshape gives back the axis that was reduced")
        elif node.key == "Tile":
            fits = kept and _tiles_to(b, node, axis, whole)
            require(fits, "it cannot be shown that Tile makes the norm no larger than the input")
        else:
            require(kept or first, "the norm is expanded without the axis that was reduced")
            fits = _expands_to(b, node, whole, x)
            require(fits, "it cannot be shown that Expand makes the norm no larger than the input")
        kept = True
    require(kept or first, "keepdims is 0, and nothing gives back the axis that was reduced")


def _restores(b: Builder, unsqueeze: Node, axis: int, rank: int | None) -> bool:
    at = b.value(unsqueeze.operands()[1])
    if at is None or at.size != 1:
        return False
    given = int(at.reshape(-1)[0])
    return given == axis if rank is None else given % rank == axis % rank


def _has_kept_shape(b: Builder, value: Value, axis: int, whole: list[Any] | None) -> bool:
    """Whether a reshaped norm has x's dimensions but for a 1 at `axis`; one that is unknown follows from the others."""
    shape = b.shape(value)
    if shape is None or whole is None or len(shape) != len(whole):
        return False
    at = axis % len(whole)
    differing = [d for a, d in enumerate(shape) if a != at and d != whole[a]]
    follows = len(differing) == 1 and not isinstance(differing[0], int)
    return shape[at] == 1 and (not differing or follows)


def _expands_to(b: Builder, expand: Node, whole: list[Any] | None, x: Value) -> bool:
    """Whether an Expand makes the norm no larger than x."""
    target = expand.inputs[1]
    shape = target.producer if target is not None else None
    if shape is not None and shape.key == "Shape" and shape.inputs[0] is not None and bare(shape.inputs[0]) is bare(x):
        return "start" not in shape.attrs and "end" not in shape.attrs
    return no_larger(b.elements(target), whole) or no_larger(b.dims(output_of(expand)), whole)


def _tiles_to(b: Builder, tile: Node, axis: int, whole: list[Any] | None) -> bool:
    """Whether a Tile repeats the norm along the reduced axis alone, as often as x has elements there."""
    repeats = b.elements(tile.inputs[1])
    if repeats is None or whole is None or len(repeats) != len(whole):
        return False
    return all(t == 1 or (a == axis % len(whole) and t == whole[a]) for a, t in enumerate(repeats))


def _weight(b: Builder, x: Value, axis: int, gain: np.ndarray) -> Value:
    """The factor as one element for each of the axis, 1 along the others; declines where it varies along them."""
    whole = b.known_dims(x)
    require(gain.size > 1 and gain.ndim <= len(whole), "the factor is not a weight for each channel")
    at = axis % len(whole) - (len(whole) - gain.ndim)
    fits = at >= 0 and gain.shape[at] > 1 and gain.shape[at] == whole[axis % len(whole)]
    require(fits, "the factor has not one element for each of the normalised axis")
    for node in b.matched:
        if node.key == "Expand" and b.value(node.inputs[0]) is gain:
            fits = _expands_to(b, node, whole, x)
            require(fits, "it cannot be shown that Expand makes the factor no larger than the input")
    require(no_larger(gain.shape, whole), "it cannot be shown that the factor is no larger than the input")
    first = gain[tuple(slice(None) if k == at else slice(0, 1) for k in range(gain.ndim))]
    same = np.array_equal(np.broadcast_to(first, gain.shape), gain)
    require(same, "the factor varies along other axes than the normalised one")
    if first.shape == gain.shape:
        source = next((v for n in b.matched for v in n.inputs if v is not None and b.value(v) is gain), None)
        if source is not None:
            return source
    return b.constant(np.ascontiguousarray(first))


# ---- epsilon ---------------------------------------------------------------------------------------------------------

MODES = {
    "floor": "max_norm",
    "added": "add_norm",
    "floor_sum": "max_sum",
    "added_sum": "add_sum",
    "bound": "min_reciprocal",
}


def _epsilon(b: Builder, found: dict[str, np.ndarray]) -> tuple[str, float]:
    """(mode, epsilon rounded to fp32); says so where there is none, and repairs a lost one where the user asks."""
    rectified = any(n.key == "Relu" for n in b.matched)
    require(len(found) + rectified <= 1, "it has more than one epsilon")
    if rectified:
        return _repaired(b, "a Relu is where a floor above 0 would", "max_norm")
    if not found:
        return _without_epsilon(b)
    ((name, array),) = found.items()
    array = _as_used(b, array)
    require(array.size == 1 and array.ndim <= 1, "epsilon differs from element to element, or makes the norm larger")
    value = float(array.astype(np.float64).reshape(()))
    rounded = float(np.float32(value))
    require(np.isfinite(rounded) and value >= 0 and (rounded > 0 or value == 0), f"epsilon is {value:g}")
    require(value > 0 or name != "bound", "the reciprocal is bounded by 0")
    if value > 0:
        return MODES[name], rounded
    dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
    return _repaired(b, f"it is 0 in the file, in {dtype_name(dtype)}", MODES[name])


def _without_zero(
    b: Builder, x: Value, axis: int, one: np.ndarray, epsilons: dict[str, np.ndarray]
) -> tuple[str, float]:
    """(mode, epsilon) of a norm that becomes `one` where it is 0."""
    require(not epsilons and (one == 1).all(), "a norm of 0 becomes something else than 1")
    single = one.size == 1 and one.ndim <= 1
    require(single or no_larger(one.shape, _reduced_dims(b, x, axis)), "the 1 makes the norm larger")
    return "max_norm", _below_every_norm(b.dtype(x))


def _as_used(b: Builder, array: np.ndarray) -> np.ndarray:
    """The constant in the type that a CastLike gives it."""
    for node in b.matched:
        if node.key == "CastLike" and b.value(node.inputs[0]) is array:
            return array.astype(helper.tensor_dtype_to_np_dtype(b.dtype(output_of(node))))
    return array


def _reduced_dims(b: Builder, x: Value, axis: int) -> list[Any] | None:
    """The dimensions of x with 1 for the axis; None where the rank is unknown."""
    whole = b.dims(x)
    return whole and [1 if a == axis % len(whole) else d for a, d in enumerate(whole)]


def _below_every_norm(dtype: int) -> float:
    """An epsilon that changes no norm but 0."""
    require(dtype != TensorProto.DOUBLE, "no fp32 epsilon lies below every norm that a sum of doubles can have")
    return BELOW_EVERY_NORM


def _without_epsilon(b: Builder) -> tuple[str, float]:
    """(mode, epsilon) of a norm without one, with a warning that says whether its source had one."""
    record = _deleted_addition(b)
    if record is not None:
        node, name = record
        why = (
            f"PyTorch's record of {node.label} reads {name}, which the file does not have: the exporter deleted an "
            "addition at or below 1e-8"
        )
        return _repaired(b, why, "add_sum" if node.key in ("Sqrt", "Pow") else "add_norm")
    if any(FX_NODE in {p.key for p in n.proto.metadata_props} for n in b.matched):
        b.warn("no epsilon, as in the model's source: a row of zeros gives NaN")
        return "add_norm", 0.0
    if b.options.get("repair_eps") is not None:
        return _repaired(b, "the file has none, and does not say whether its source had one", "add_norm")
    b.warn("no epsilon: a row of zeros gives NaN, and the file does not say whether its source had one")
    return "add_norm", 0.0


def _deleted_addition(b: Builder) -> tuple[Node, str] | None:
    """The lowest matched node whose record names as its argument a sum that is not a tensor of the file."""
    for node in reversed(b.matched):
        for prop in node.proto.metadata_props:
            if prop.key == FX_NODE:
                arguments = prop.value.partition("args = ")[2]
                for name in re.findall(r"%(add(?:_\d+)?)\b", arguments):
                    if node.graph.find(name) is None:
                        return node, f"%{name}"
    return None


def _repaired(b: Builder, why: str, mode: str) -> tuple[str, float]:
    """(mode, epsilon) with the epsilon that the user gives for a lost one; without it, no epsilon and a warning."""
    wanted = b.options.get("repair_eps")
    if wanted is None:
        b.warn(f"lost epsilon: {why}. A row of zeros gives NaN; --repair-eps puts an epsilon back")
        return "add_norm", 0.0
    b.warn(f"lost epsilon: {why}. It is {float(wanted):g} now, as requested")
    b.tolerance = 1e30  # the user asked for other numbers than the file's: the proof sees to NaN and inf alone
    return mode, float(np.float32(wanted))


# ---- LOWER -----------------------------------------------------------------------------------------------------------

either = bare_node | op.L2Norm(x, var("weight"), domain="surgeon", **attributes)


@rule(either, strategy="decompose")
def decompose(b, x, axis, epsilon, mode, weight=None):
    dtype = b.dtype(x)
    half = _is_widened(b, dtype, epsilon, mode)
    wide = b.Cast(x, to=TensorProto.FLOAT) if half else x
    y = b.Div(wide, _divisor(b, wide, axis, epsilon, mode))
    if not half:
        return b.Mul(y, weight) if weight is not None else y
    if weight is not None and b.dtype(weight) == TensorProto.FLOAT:
        return b.Cast(b.Mul(y, weight), to=dtype)
    y = b.Cast(y, to=dtype)
    return b.Mul(y, weight) if weight is not None else y


def _is_widened(b: Builder, dtype: int, epsilon: float, mode: str) -> bool:
    """Whether the norm is computed in fp32 between Casts: of halves, unless the target's ReduceL2 does so by itself.
    That one rounds the norm to fp16, as the file must have done. The epsilon must be a number in fp16."""
    if dtype != TensorProto.FLOAT16 or mode == "add_sum" or not b.target.sums_in_fp32("ReduceL2"):
        return dtype in HALVES
    written = b.root.origin
    if written is None or any(n.key in ("Cast", "CastLike") for n in written.removed):
        return True
    return epsilon != 0 and not 0 < np.float16(_floor(epsilon, mode)) < np.inf


def _floor(epsilon: float, mode: str) -> float:
    """The number that is added to the norm, or that the norm is at least."""
    floor = np.float32(epsilon)
    if mode == "max_sum":
        floor = np.sqrt(floor)
    return float(np.float32(1) / floor if mode == "min_reciprocal" else floor)


def _divisor(b: Builder, x: Value, axis: int, epsilon: float, mode: str) -> Value:
    if mode == "add_sum":
        return b.Sqrt(b.Add(b.ReduceSumSquare(x, axes=[axis], keepdims=1), epsilon))
    norm: Value = b.ReduceL2(x, axes=[axis], keepdims=1)
    if mode == "add_norm":
        return b.Add(norm, epsilon) if epsilon else norm
    return _at_least(b, norm, _floor(epsilon, mode))


def _refuses(model: Model, node: Node) -> str:
    x = node.inputs[0]
    return "the plugin has no double precision" if x is not None and model.dtype(x) == TensorProto.DOUBLE else ""


@rule(either, strategy="plugin", refuses=_refuses)
def plugin(b, x, weight=None, **attributes):
    return b.SurgeonL2Norm(x, weight, **attributes, **PLUGIN)
