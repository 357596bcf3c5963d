"""Assign, reduce and count by a mask without the positions where it is true.

Why       NonZero returns as many positions as the mask has true elements: a size that is known at run time alone.
          TensorRT-RTX 1.7.1 and releases before 8.5 have no NonZero; later ones stop the GPU at it.
          PyTorch exports x[mask] = v, masked_scatter and x[mask].mean() with it, TensorFlow its boolean_mask.
Rewrites  ScatterND(x, Transpose(NonZero(mask)), v expanded)       ->  Where(mask, v, x)
          the same with GatherND(v, Transpose(NonZero(mask))), all of it sliced, and with arithmetic on such updates
          the same with the first elements of v                    ->  Where(mask, v in the order of the mask, x)
          Reduce of what GatherND, Gather or Compress takes by it  ->  Reduce(Where(mask, x, what changes nothing))
          the number of positions, for targets without NonZero     ->  ReduceSum(mask)
          NonZero of a constant                                    ->  the positions
          NonZero of a tensor that repeats one number, as torch.arange is exported  ->  Ranges of its sizes, and
          before opset 11, which has no Range, Loops that count
Exact     Bit for bit; sums and means in another order, to rounding. The mean of nothing is 0, as in ONNX Runtime.
Price     Every element is computed, the others too, in kernels of a fixed size. ONNX Runtime, [64,256,256], half of the
          mask true, on a loaded machine: x[x < 0] = 7 53 ms instead of 356, the mean 66 ms instead of 548. A Loop
          that counts to 512 takes 0.54 ms, next to 0.01.

That the mask has the sizes of the data must be known.
"""

import numpy as np
from onnx import GraphProto, TensorProto, helper, numpy_helper

from surgeon import FLOATS, Builder, Node, Stage, Value, any_of, attr, const, op, require, require_some, rule
from surgeon.ir.operators import ELEMENTWISE, KEEP_ORDER

from ._copy import made_of
from ._nonzero import COUNT, lacks_nonzero, mask_of, same_places, see, takes_first
from ._scattering import REDUCING, neutral
from ._shapes import input_of


def arange(b: Builder, number: Value) -> Value:
    """[0, 1, ..., number - 1] of a scalar int64: a Range, and before opset 11 a Loop that adds up."""
    if b.opset >= 11:
        return b.Range(0, number, 1)
    inputs = [number, b.constant(True), b.constant(0)]
    return made_of(b, helper.make_node("Loop", [], [], body=_body()), inputs, 2)[1]


def _body() -> GraphProto:
    """Pass the condition on, return the state, and add 1 to it."""
    scalars = {n: helper.make_tensor_value_info(n, TensorProto.INT64, []) for n in ("k", "state", "next", "here")}
    goes, stays = (helper.make_tensor_value_info(n, TensorProto.BOOL, []) for n in ("goes", "stays"))
    nodes = [
        helper.make_node("Identity", ["goes"], ["stays"]),
        helper.make_node("Identity", ["state"], ["here"]),
        helper.make_node("Constant", [], ["one"], value=helper.make_tensor("one", TensorProto.INT64, [], [1])),
        helper.make_node("Add", ["state", "one"], ["next"]),
    ]
    inputs, outputs = [scalars["k"], goes, scalars["state"]], [stays, scalars["next"], scalars["here"]]
    return helper.make_graph(nodes, "count", inputs, outputs)


ONE_VALUE = KEEP_ORDER | {"Expand", "Tile"}
SIZES = COUNT | {"Concat", "Gather", "Shape", "Slice"}


# ---- assignment ------------------------------------------------------------------------------------------------------


@rule(op.ScatterND("x", "places", "updates"))
def assign(b, x, places, updates):
    mask = require_some(mask_of(b, places))
    require(b.root.attr("reduction") in (None, "none"))
    over = _require_same_sizes(b, mask, x)
    rest = b.rank(x) - over
    updates = _all_of(b, updates, places) if not rest else updates
    spread = _first_elements(b, updates, places, mask) if not rest else None
    if spread is None:
        spread = _spread(b, updates, places, (over, rest), {})
    return b.Where(_shown(b, mask, rest), spread, x)


def _see_sizes(b: Builder, value: Value | None) -> None:
    """Take into the window how a vector of sizes is computed from the positions."""
    node = None if value is None else value.producer
    if node is not None and node.key in SIZES:
        see(b, node)
        for v in node.inputs[:1] if node.key != "Concat" else node.inputs:
            _see_sizes(b, v)


def _require_same_sizes(b: Builder, mask: Value, x: Value) -> int:
    """How many dimensions the mask has; declines unless they are the first ones of x."""
    some, whole = b.known_dims(mask), b.known_dims(x)
    require(some and some == whole[: len(some)], "the mask is not known to have the sizes of the data")
    return len(some)


def _shown(b: Builder, mask: Value, rest: int) -> Value:
    """The mask as bool, broadcast over the `rest` of the dimensions."""
    shown = mask if b.dtype(mask) == TensorProto.BOOL else b.Cast(mask, to=TensorProto.BOOL)
    rank = b.known_rank(mask)
    return b.Unsqueeze(shown, axes=list(range(rank, rank + rest))) if rest else shown


def _spread(b: Builder, value: Value, places: Value, form: tuple[int, int], made: dict[Value, Value]) -> Value:
    """Updates, a row for each position, as a tensor that broadcasts to the data and has each row at its position.
    `made` keeps what was made of each tensor: one that two nodes read is computed once."""
    if value not in made:
        made[value] = _spread_anew(b, value, places, form, made)
    return made[value]


def _spread_anew(b: Builder, value: Value, places: Value, form: tuple[int, int], made: dict[Value, Value]) -> Value:
    single = _single(b, value)
    if single is not None:
        return single
    node = require_some(value.producer, "its updates are not a tensor with an element for each of the data")
    see(b, node)
    if node.key in ("ConstantOfShape", "Expand"):
        _see_sizes(b, node.inputs[-1])
    if node.key == "ConstantOfShape":
        filled = node.attr("value")
        array = np.zeros(1, np.float32) if filled is None else numpy_helper.to_array(filled)
        require(array.size == 1, "its ConstantOfShape has no one value")
        return b.constant(array.reshape(()), b.dtype(value))
    if node.key == "Expand" and b.known_rank(input_of(node)) <= form[1]:
        return input_of(node)  # each row is the same
    if node.key == "GatherND" and same_places(b, input_of(node, 1), places):
        source = input_of(node)  # with batch_dims it has a dimension more
        mask = mask_of(b, places)
        assert mask is not None
        _require_same_sizes(b, mask, source)
        require(b.rank(source) == sum(form), "its updates are of another rank")
        return source
    require(node.key in ELEMENTWISE, f"its updates come from {node.op}")
    inputs = [None if v is None else _spread(b, v, places, form, made) for v in node.inputs]
    return b.node(node.op, inputs, 1, "", node.attrs)


def _single(b: Builder, value: Value) -> Value | None:
    """The one element that a tensor repeats, in at most one dimension; None where it is not known to repeat one."""
    while (shape := b.shape(value)) is None or any(d != 1 for d in shape):
        node = value.producer
        if node is None or node.key not in ONE_VALUE:
            return None
        see(b, node)
        if node.key in ("Expand", "Tile"):
            _see_sizes(b, node.inputs[1])
        value = input_of(node)
    return value if len(shape) <= 1 else b.Reshape(value, [1])


def _all_of(b: Builder, value: Value, places: Value) -> Value:
    """What was taken by the mask, after a Slice of as many elements as there are positions: that takes all."""
    node = value.producer
    if node is None or node.key != "Slice" or not takes_first(b, node, places):
        return value
    nodes, source = [node], input_of(node)
    while source.producer is not None and source.producer.key == "Reshape":
        if b.rank(input_of(source.producer)) != 1:
            break
        nodes.append(source.producer)
        source = input_of(source.producer)
    taken = source.producer
    if taken is None or taken.key != "GatherND" or not same_places(b, input_of(taken, 1), places):
        return value
    see(b, *nodes)
    return source


def _first_elements(b: Builder, value: Value, places: Value, mask: Value) -> Value | None:
    """masked_scatter: the first elements of a vector, one for each position; None for other updates."""
    node = value.producer
    if node is None or node.key != "Slice" or not takes_first(b, node, places):
        return None
    see(b, node)
    shape = b.known_shape(mask)
    require(sum(not isinstance(d, int) for d in shape) <= 1, "the mask has several sizes that are not static")
    flat = b.Reshape(b.Cast(_shown(b, mask, 0), to=TensorProto.INT32), [-1])
    order = b.Sub(b.CumSum(flat, 0), b.constant(np.asarray(1, np.int32)))
    taken = b.Gather(input_of(node), b.Max(order, b.constant(np.asarray(0, np.int32))), axis=0)
    sizes = [d if isinstance(d, int) else -1 for d in shape]
    return b.Reshape(taken, sizes)


# ---- what is taken by a mask and reduced -----------------------------------------------------------------------------

taken = (
    op.GatherND("x", "places", batch_dims=0)
    | op.Gather("x", op.Squeeze(op.NonZero("mask"), ...), axis=0)  # before what any positions match
    | op.Gather("x", op.Squeeze("places", ...), axis=0)
    | op.Compress("x", "mask", axis=0)
)


@rule(any_of(op[name](taken, ...) for name in REDUCING))
def reduce(b, x, places=None, mask=None):
    mask = require_some(mask if places is None else mask_of(b, places))
    require(b.dtype(x) in FLOATS)
    over = _require_same_sizes(b, mask, x)
    rest = b.rank(x) - over
    squeezes = [n for n in b.matched if n.key == "Squeeze"]
    named = all([*n.operands(), None][1] is not None for n in squeezes) or (rest == 0 and not b.root.attr("keepdims"))
    require(named, "Squeeze without axes also drops the row dimension when one row is selected")
    axes = _axes(b, b.root, over, rest)
    shown = _shown(b, mask, rest)
    filled = b.Where(shown, x, neutral("ReduceSum" if b.root.op == "ReduceMean" else b.root.op, b.dtype(x)))
    if b.root.op != "ReduceMean":
        return getattr(b, b.root.op)(filled, axes=axes, keepdims=b.root.attr("keepdims"))
    require(axes == list(range(over)), "its mean is over other dimensions, too")
    total = b.ReduceSum(filled, axes=axes, keepdims=b.root.attr("keepdims"))
    count = b.ReduceSum(b.Cast(_shown(b, mask, 0), to=b.dtype(x)), keepdims=0, axes=list(range(over)))
    return b.Div(total, b.Max(count, 1.0))


def _axes(b: Builder, node: Node, over: int, rest: int) -> list[int]:
    """The dimensions of the data over which what was taken from it is reduced, its first one among them."""
    given = [*node.operands(), None][1]
    if given is None:
        require(not node.attr("noop_with_empty_axes"), "it reduces nothing")
        axes = list(range(1 + rest))
    else:
        array = require_some(b.value(given), "its axes are computed")
        axes = sorted({int(a) % (1 + rest) for a in array.reshape(-1)})
    require(axes[:1] == [0], "it does not reduce over the positions")
    require(over == 1 or not node.attr("keepdims"), "it keeps the one dimension of several")
    return [*range(over), *(a - 1 + over for a in axes[1:])]


# ---- counting, and masks that are known ------------------------------------------------------------------------------


sizes_of_places, sizes_of_positions = op.Shape("places"), op.Shape(op.NonZero("mask"))


@rule(
    op.Gather(sizes_of_places, 0) | op.Gather(sizes_of_positions, 1)
    | op.Slice(sizes_of_places, 0, 1, ...) | op.Slice(sizes_of_positions, 1, "end", ...),
    targets=lacks_nonzero,
)  # fmt: skip
def count(b, places=None, mask=None, end=None):
    mask = require_some(mask if places is None else mask_of(b, places))
    require(not any(n.attr("start") for n in b.matched))
    rank, shape = b.known_rank(mask), b.known_shape(b.root.outputs[0])
    require(shape in ((), (1,)), "it takes several sizes")
    number = b.Cast(_shown(b, mask, 0), to=TensorProto.INT64)
    found = b.ReduceSum(number, axes=list(range(rank)), keepdims=0)
    return b.Reshape(found, shape) if shape else found


@rule(op.NonZero(const("known")), stage=Stage.CLEAN)
def known_places(b, known):
    require(not b.root.outputs[0].is_output, "it names an output of the graph")
    return b.constant(np.stack(np.nonzero(np.atleast_1d(known))).astype(np.int64))


@rule(op.NonZero(op.ConstantOfShape("sizes", value=attr("filled"))), targets=lacks_nonzero)
def all_places(b, sizes, filled):
    require(filled is not None and numpy_helper.to_array(filled).all())
    rank = b.static_size(sizes, 0)
    require(rank, "the mask has no dimensions")
    numbers = [b.Gather(sizes, axis, axis=0) for axis in range(rank)]
    along = [arange(b, number) for number in numbers]
    if rank > 1:
        spread = [b.Expand(b.Unsqueeze(v, axes=list(range(1, rank - axis))), sizes) for axis, v in enumerate(along)]
        along = [b.Reshape(v, [-1]) for v in spread]
    rows = [b.Unsqueeze(v, axes=[0]) for v in along]
    return rows[0] if rank == 1 else b.Concat(*rows, axis=0)
