"""If, Loop and Scan."""

from collections.abc import Iterable

from onnx import TensorProto, numpy_helper

from surgeon.ir.files import with_data
from surgeon.ir.following import sources
from surgeon.ir.graph import Graph, Node, Value, scopes_of
from surgeon.ir.lattice import HALVES
from surgeon.ir.operators import COMPARES, ELEMENTWISE, KEEP_ORDER, LOGICAL, MEASURES
from surgeon.ir.sizes import shape_slice
from surgeon.targets.condition import (
    condition,
    constant_of,
    dtype_name,
    dtype_of,
    handed_on,
    is_weights,
    rank_of,
    shape_of,
)
from surgeon.targets.dtypes import MOST_DIMENSIONS, PACKED
from surgeon.targets.releases import RTX, between, since
from surgeon.targets.rows import below, read, refuses, some
from surgeon.targets.tables import SHAPE_INPUTS

# fmt: off
(many_conditions,) = read(__file__, "many_conditions")
stateless_scan = refuses("Scan", since(7, 0, rtx=True),
                         where=lambda node: len(node.proto.input) == node.attr("num_scan_inputs"),
                         reason="a Scan without state is refused",
                         source="onnx-tensorrt@84b5be1 to @96e7811: stateVars.at(0); measured with TensorRT-RTX 1.7.1")
ROWS = tuple(
    refuses("Scan", since(7, 0, rtx=True), attr={name: some(below(0))},
            reason=f"a negative axis in {{name}} is counted from {MOST_DIMENSIONS} dimensions",
            source="onnx-tensorrt@84b5be1 to @96e7811: convertAxis(axis, Dims::MAX_DIMS); measured with TensorRT-RTX "
                   "1.7.1: ILoopOutputLayer has illegal `axis` of value 7")
    for name in ("scan_input_axes", "scan_output_axes")
)
# fmt: on


@condition("Loop", since(7, 0, rtx=True),
           source="onnx-tensorrt@6f64911 to @96e7811: registerTensor(cond, body.input(1).name()) of a "
                  "condition that is given; measured with TensorRT 8.4.1.5 and TensorRT-RTX: `Node input "
                  "was not registered`")  # fmt: skip
def loop_condition(node: Node) -> str | None:
    name = None if node.input_at(1) is not None else _read_in_body(node, 1)
    return None if name is None else f"the condition is left out, and its body reads it as '{name}'"


def _read_in_body(node: Node, position: int) -> str | None:
    """What a body calls the input that it gets there; None where it does not read it."""
    body = node.bodies[0]
    value = body.values[body.proto.input[position].name]
    return value.name if value.users or value in body.outputs else None


NO_LIMIT = 2**31 - 1  # how exporters spell a Loop that its condition ends


def _has_limit(node: Node) -> bool:
    """Whether the parser sees a limit on the iterations; an initializer that a caller may replace is fixed to it."""
    given = node.input_at(0)
    if given is None:
        return False
    if given.tensor is None:
        trips = constant_of(node, 0)
    else:
        trips = numpy_helper.to_array(with_data(given.tensor, node.graph.model.base))
    return trips is None or int(trips.reshape(-1)[0]) < NO_LIMIT


@condition("Loop", RTX,
           source="measured with TensorRT-RTX 1.7.1: cannot infer the shape of scan output since no trip "
                  "limit was set")  # fmt: skip
def endless_loop(node: Node) -> str | None:
    if _has_limit(node) or not _returns_rows(node):
        return None
    return "what each iteration returns is refused without a limit on the iterations"


@condition("Loop", between((7, 0), (8, 4)),
           source="onnx-tensorrt@6f64911 to @63d626b: a counter is made where a limit is given, and be "
                  "it 2147483647; measured with TensorRT 8.4.1.5: `Node input was not registered`")  # fmt: skip
def unlimited_loop(node: Node) -> str | None:
    return None if node.input_at(0) is not None else _number_without_limit(node)


@condition("Loop", since(8, 5, rtx=True),
           source="onnx-tensorrt@fdeeaca to @96e7811: isMaxTripCount; measured with TensorRT-RTX 1.7.1: "
                  "`Node input was not registered`; 2147483646 is taken")  # fmt: skip
def uncounted_loop(node: Node) -> str | None:
    return None if _has_limit(node) else _number_without_limit(node)


def _number_without_limit(node: Node) -> str | None:
    name = _read_in_body(node, 0)
    return None if name is None else f"it has no limit on the iterations, and its body reads their number as '{name}'"


@condition("Loop", since(7, 0, rtx=True),
           source="onnx-tensorrt@84b5be1 to @96e7811: addLoopOutput(kCONCATENATE).setInput(1, "
                  "tripLimit); measured with TensorRT-RTX: its output has as many rows as the limit")  # fmt: skip
def ended_early(node: Node) -> str | None:
    if not _returns_rows(node) or node.input_at(0) is None or _runs_on(node.bodies[0]):
        return None
    return "what the iterations return has a row for each that the limit allows, though the condition may end it"


def _returns_rows(loop: Node) -> bool:
    """Whether each iteration of a Loop returns something beside its condition and state."""
    return len(loop.bodies[0].proto.output) - 1 > max(len(loop.proto.input) - 2, 0)


def _runs_on(body: Graph) -> bool:
    """Whether the condition that a body returns is the one that it was given, or true."""
    returned, given = handed_on(body.outputs[0]), body.proto.input[1].name
    if returned is None or returned.name == given:
        return returned is not None
    known = body.model.constant(returned)
    return known is not None and bool(known.reshape(-1)[0])


@condition("Loop", since(7, 0, rtx=True),
           source="TensorRT: IRecurrenceLayer must have inputs with same shape; measured with "
                  "TensorRT-RTX 1.7.1")  # fmt: skip
def growing_state(node: Node) -> str | None:
    body = node.bodies[0]
    for info, result in zip(body.proto.input[2:], body.outputs[1:], strict=False):
        maker = result.producer
        read = [] if maker is None else [v.name for v in maker.inputs if v is not None]
        if maker is not None and maker.key == "Concat" and len(read) > 1 and info.name in read:
            return f"its state '{info.name}' grows"
    return None


@condition("Loop", between((7, 2, 2), (8, 5)),
           source="onnx-tensorrt@803e699 to @fdeeaca addLoopCounter: Dims{1, 1}, from 8.6 on "
                  "convertToScalar; measured with TensorRT 8.4.1.5: inputs to IRecurrenceLayer have "
                  "different dimensions")  # fmt: skip
def numbered_rows(node: Node) -> str | None:
    body = node.bodies[0]
    number = body.values[body.proto.input[0].name]
    if body.model.shape(number) != ():
        return None
    deeper = _one_deeper(body, number)
    for result in body.outputs[1:]:
        if result in deeper:
            return f"the number of the iteration has a dimension there, and so '{result.name}' has one more"
    return None


def is_number(value: Value) -> bool:
    """Whether a tensor is the number of the iteration in the body of a Loop."""
    holder = value.graph.holder
    return holder is not None and holder.key == "Loop" and value.name == value.graph.proto.input[0].name


def _one_deeper(body: Graph, number: Value) -> set[Value]:
    """What has one dimension more in a body where the number of its iteration has one."""
    deeper = {number}
    for node in body.live():
        made, read = node.outputs[0] if node.outputs else None, [v for v in node.inputs if v is not None]
        if made is None or deeper.isdisjoint(read):
            continue
        shapes = [body.model.shape(value) for value in (made, *read)]
        if None in shapes:
            continue
        rank, *ranks = (0 if shape is None else len(shape) for shape in shapes)
        broadcast = max(had + (value in deeper) for had, value in zip(ranks, read, strict=True))
        if node.key == "Gather" or (node.key in ELEMENTWISE and broadcast > rank):
            deeper.add(made)
    return deeper


@condition("If", since(8, 0),
           source="`IIfConditionalOutputLayer inputs must have the same shape`; other sizes of one rank "
                  "are taken, as was measured with TensorRT-RTX")  # fmt: skip
def branches_of_other_rank(node: Node) -> str | None:
    model, (then, other) = node.graph.model, node.bodies
    for one, two in zip(then.outputs, other.outputs, strict=True):
        ranks = {len(shape) for shape in map(model.shape, (one, two)) if shape is not None}
        if len(ranks) == 2:
            return f"its branches return {min(ranks)} and {max(ranks)} dimensions"
    return None


@condition("If", RTX,
           source="measured with TensorRT-RTX 1.7.1: Must have inputs with equal ranks when condition is "
                  "not a build-time constant")  # fmt: skip
def undecided_branches(node: Node) -> str | None:
    why = branches_of_other_rank.check(node)
    return None if why is None or is_decided(node.input_at(0)) else f"{why}, and its condition is not constant"


@condition("If", between((8, 4), (8, 4)),
           source="measured with TensorRT 8.4.1.5: IIfConditionalOutputLayer inputs must have the same "
                  "shape")  # fmt: skip
def branches_of_other_sizes(node: Node) -> str | None:
    sizes = _unequal_results(node)
    return None if sizes is None else f"its branches return the sizes {sizes[0]} and {sizes[1]}"


@condition("If", RTX, source="measured with TensorRT-RTX 1.7.1: Assertion n.outputs.size() == 1 failed, graphScope.cpp")
def nested_sizes(node: Node) -> str | None:
    for value in (value for body in node.bodies for value in body.outputs):
        sizes = _unequal_results(value.producer) if value.producer is not None else None
        if sizes is not None:
            return f"a branch returns what an If makes in the sizes {sizes[0]} and {sizes[1]}"
    return None


def _unequal_results(node: Node) -> tuple[list[int], list[int]] | None:
    """The static sizes of a result of an If that its branches make in different ones of one rank."""
    if node.key != "If":
        return None
    for one, other in zip(*(body.outputs for body in node.bodies), strict=True):
        left, right = map(node.graph.model.shape, (one, other))
        if left is None or right is None or len(left) != len(right):
            continue
        pairs = [(a, b) for a, b in zip(left, right, strict=True) if isinstance(a, int) and isinstance(b, int)]
        if any(a != b for a, b in pairs):
            return [a for a, _ in pairs], [b for _, b in pairs]
    return None


@condition("If", RTX,
           source="measured with TensorRT-RTX 1.7.1: MyelinCheckException: bb.cpp, append_to->parent() "
                  "== this; two dimensions are taken")  # fmt: skip
def slid_over_weights(node: Node) -> str | None:
    for inner in (inner for body in node.bodies for inner in body.of(SLIDING)):
        if rank_of(inner) == 3 and all(is_weights(value) for value in inner.inputs):
            return f"a branch holds {inner.op} of weights with one spatial dimension"
    return None


SLIDING = ("AveragePool", "Conv", "MaxPool")
DECIDING = COMPARES | LOGICAL | KEEP_ORDER | {"Cast"}


def is_decided(value: Value | None) -> bool:
    """Whether a number follows from constants and static sizes, those of tensors with other dynamic ones included."""
    if value is None or value.graph.model.constant(value) is not None:
        return value is not None
    maker = value.producer
    if maker is None:
        return False
    if maker.key in DECIDING:
        return all(is_decided(given) for given in maker.inputs if given is not None)
    return maker.key == "Gather" and _is_static_size(maker)


def _is_static_size(gather: Node) -> bool:
    sizes, position = gather.input_at(0), constant_of(gather, 1)
    if sizes is None or sizes.producer is None or sizes.producer.key != "Shape" or position is None:
        return False
    shape = shape_of(sizes.producer)
    kept = () if shape is None else shape_slice(sizes.producer, shape)
    return all(-len(kept) <= p < len(kept) and isinstance(kept[p], int) for p in map(int, position.reshape(-1)))


@condition("Dropout If Loop Scan TopK", RTX,
           source="measured with TensorRT-RTX 1.7.1: Node has more output tensors than TRT expected")  # fmt: skip
def left_out_output(node: Node) -> str | None:
    made = node.proto.output
    bodies = [len(body.proto.output) - (node.key == "Loop") for body in node.bodies]
    if all(made) and all(len(made) == count for count in bodies if node.key in ("If", "Loop")):
        return None
    return "an output is left out"


@condition("Split", RTX, source="measured with TensorRT-RTX: it crashes while it parses")
def left_out_part(node: Node) -> str | None:
    return None if all(node.proto.output) else "an output is left out, and the parser crashes"


@condition("If", RTX,
           source="measured with TensorRT-RTX 1.7.1: has datatype UInt8 but is not network-level IO; "
                  "Tensor has datatype FP8 but is not consumed by")  # fmt: skip
def captured_small_type(node: Node) -> str | None:
    read = ((body, v) for body in node.bodies for n in body.live() for v in n.inputs)
    for value in (v for body, v in read if v is not None and v.graph is not body):
        dtype = node.graph.model.dtype(value)
        if dtype == TensorProto.UINT8 or (dtype in PACKED and not is_weights(value)):
            return f"a branch reads '{value.name}' from outside, which is of {dtype_name(dtype)}"
    return None


@condition("If", RTX, source="measured with TensorRT-RTX 1.7.1: Quantized constant is only allowed before DQ")
def captured_twice(node: Node) -> str | None:
    one, other = (_dequantized_from_outside(body) for body in node.bodies)
    for value in (value for value in one if value in other):
        dtype = dtype_name(node.graph.model.dtype(value))
        return f"both branches dequantize '{value.name}' from outside, which is of {dtype}"
    return None


def _dequantized_from_outside(body: Graph) -> list[Value]:
    """The weights outside of a body, of int8 and smaller types, that its DequantizeLinear nodes read."""
    read = (node.input_at(0) for node in body.of(["DequantizeLinear"]))
    held = (value for value in read if value is not None and value.graph is not body and is_weights(value))
    return [value for value in held if body.model.dtype(value) in (TensorProto.INT8, *PACKED)]


@condition("Loop", RTX, source="measured with TensorRT-RTX 1.7.1: MyelinCheckException: gvn.cpp, ssa_validation")
def widened_in_each(node: Node) -> str | None:
    for value in _returned_each_time(node):
        maker = value.producer
        if maker is None or maker.key not in ("Cast", "CastLike") or _follows(maker.inputs, maker.graph):
            continue
        made = maker.graph.model.dtype(maker.outputs[0]) if maker.outputs[0] is not None else 0
        if dtype_of(maker) in HALVES and made in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return "each iteration returns the same numbers of 16 bits, cast to fp32"
    return None


@condition("Loop Scan", RTX,
           source="measured with TensorRT-RTX 1.7.1: MyelinCheckException: tensor.cpp, never be called "
                  "on mod_t tensors")  # fmt: skip
def drawn_in_each(node: Node) -> str | None:
    for value in _returned_each_time(node):
        maker = value.producer
        if maker is not None and maker.key in DRAWN and not _is_drawn_plainly(maker, value):
            return f"each iteration returns what {maker.op} draws, scaled or in another type than fp32"
    return None


DRAWN = {  # random operators, and the bounds, or the mean and the deviation, of what needs no more layers
    "RandomNormal": {"mean": 0, "scale": 1},
    "RandomNormalLike": {"mean": 0, "scale": 1},
    "RandomUniform": {"low": 0, "high": 1},
    "RandomUniformLike": {"low": 0, "high": 1},
}


def _is_drawn_plainly(maker: Node, made: Value) -> bool:
    if made.graph.model.dtype(made) not in (0, TensorProto.FLOAT):
        return False
    return all(maker.attrs.get(name, plain) == plain for name, plain in DRAWN[maker.key].items())


def _returned_each_time(node: Node) -> list[Value]:
    """What the iterations of a Loop or Scan return, after its condition and state."""
    given = len(node.proto.input)
    before = 1 + max(given - 2, 0) if node.key == "Loop" else given - node.attr("num_scan_inputs")
    return node.bodies[0].outputs[before:]


def _follows(values: Iterable[Value | None], body: Graph) -> bool:
    """Whether one of these follows from what each iteration is given: its number, the state, a part of what is scanned.
    Sizes are left out: they are the same each time."""
    given = {info.name for info in body.proto.input}
    return any(v.graph is body and v.name in given for v in sources(values, lambda n: n.key not in MEASURES))


@condition("Loop Scan", RTX,
           source="measured with TensorRT-RTX 1.7.1: Assertion newNodeOrder.size() == g.nodes.size() "
                  "failed, graphScope.cpp")  # fmt: skip
def shape_of_each(node: Node) -> str | None:
    for body in node.bodies:
        for inner in (inner for scope in scopes_of(body) for inner in scope.of(SHAPE_INPUTS)):
            if _follows((inner.input_at(position) for position in SHAPE_INPUTS[inner.key]), body):
                return f"the shape that {inner.op} in its body makes follows from the iteration"
    return None
