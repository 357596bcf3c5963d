"""The quantizers of a model: which tensors are quantized, between which numbers, and the model without them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError
from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.operators import MOVES, OPERATORS, words
from surgeon.ir.protos import copied, reads, reads_instead, refill
from surgeon.ir.ranges import Ranges
from surgeon.pipeline.prepared import Fresh, fresh_name
from surgeon.report import counted
from surgeon.targets.target import Target

# Operators that hand integers of their first input on as they are.
HAND_ON = frozenset(op for op in MOVES if OPERATORS[op].elements == (0,)) | {"MaxPool"}
LEVELS = 127  # of int8 on each side of zero
CLIP_BY_INPUTS = 11  # the opset from which Clip has its ends as inputs
LARGEST = np.finfo(np.float32).max
SIGNIFICANT = 1e-6  # so much of a number may differ where it went through a scale of fp32
# By ONNX, and by NVIDIA's domain `trt`: from a tensor to its numbers of few bits, and back.
QUANTIZES = words(
    "QuantizeLinear TRT_FP8QuantizeLinear TRT_INT4QuantizeLinear TRT_FP4DynamicQuantize TRT_MXFP8DynamicQuantize"
)
DEQUANTIZES = words("DequantizeLinear TRT_FP8DequantizeLinear TRT_INT4DequantizeLinear TRT_MXFP8DequantizeLinear")
INTEGERS = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32})


class Eight(NamedTuple):
    """A type of eight bits around zero that has a scale.

    name    as options and reports call it
    elem    its TensorProto.DataType
    levels  its largest number
    opset   the first in which QuantizeLinear makes it
    """

    name: str
    elem: int
    levels: int
    opset: int

    def steps(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers in units of the scale, as the type holds them."""
        dtype = helper.tensor_dtype_to_np_dtype(self.elem)
        limited = numbers.clip(-self.levels, self.levels)
        return np.asarray(np.rint(limited) if dtype.kind == "i" else limited).astype(dtype)


INT8 = Eight("int8", int(TensorProto.INT8), LEVELS, 10)
FP8 = Eight("fp8", int(TensorProto.FLOAT8E4M3FN), 448, 19)


class Quantizer(NamedTuple):
    """A QuantizeLinear: what it makes is dequantized in `ends`, some of it after `moves`."""

    node: NodeProto
    scale: np.ndarray
    zero: np.ndarray
    moves: list[NodeProto]
    ends: list[NodeProto]

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest number that it holds."""
        limits, scale, zero = np.iinfo(self.zero.dtype), float(self.scale), int(self.zero)
        return (limits.min - zero) * scale, (limits.max - zero) * scale


def array_of(model: Model, value: Value | None) -> np.ndarray:
    """The elements of a constant; none of any other tensor."""
    found = model.constant(value)
    return np.zeros(0, np.float32) if found is None else found


def grid_of(
    node: Node, model: Model, bits: Collection[int] = (8,), *, any_scale: bool = False
) -> tuple[np.ndarray, np.ndarray] | None:
    """The scale and the zero point of a quantizer of so many bits, each one number; None for any other.

    any_scale  the scale may be 0, negative or NaN
    """
    shift = node.input_at(2)
    scale, zero = array_of(model, node.input_at(1)), np.zeros(1, np.uint8) if shift is None else array_of(model, shift)
    is_integer = zero.dtype.kind in "iu" and 8 * zero.dtype.itemsize in bits
    if scale.size != 1 or zero.size != 1 or not is_integer or not (any_scale or scale.reshape(()) > 0):
        return None
    return scale.reshape(()), zero.reshape(())


def quantizer_at(
    node: Node, model: Model, bits: Collection[int] = (8,), *, any_scale: bool = False
) -> tuple[str, Quantizer | None]:
    """(why it cannot be moved, the quantizer of so many bits)."""
    grid = grid_of(node, model, bits, any_scale=any_scale)
    if grid is None:
        return "has a computed scale, one for each channel, or one of another type", None
    scale, zero = grid
    quantizer = Quantizer(node.proto, scale, zero, [], [])
    todo = [value for value in node.outputs if value is not None]
    while todo:
        value = todo.pop()
        if value.is_output:
            return f"makes '{value.name}', an output of the model", None
        for reader in value.users:
            called = f"'{reader.name or reader.proto.output[0]}'"
            is_first = reader.graph is node.graph and reader.inputs[0] is value
            if is_first and reader.op == "DequantizeLinear":
                back = grid_of(reader, model, bits, any_scale=any_scale)
                if back is None or not np.array_equal(back[0], scale, equal_nan=True) or back[1] != zero:
                    return f"is dequantized with another scale by {called}", None
                quantizer.ends.append(reader.proto)
            elif is_first and _moves(reader):
                quantizer.moves.append(reader.proto)
                todo += [made for made in reader.outputs if made is not None]
            else:
                return f"is read by {called}, a {reader.op}", None
    return "", quantizer


def _moves(node: Node) -> bool:
    """Whether it hands its first input on as it is."""
    if node.key == "Resize":
        crops = node.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
        return node.attr("mode") == "nearest" and not crops
    return node.key in HAND_ON


def hold(model: ModelProto, name: str, array: np.ndarray) -> str:
    """A new initializer; returns its name."""
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return name


# ---- the model without them ------------------------------------------------------------------------------------------


class Grid(NamedTuple):
    """The numbers that a tensor was quantized between, and the step of int8 around zero that holds them."""

    low: float
    high: float
    step: np.float32

    @classmethod
    def between(cls, low: float, high: float) -> Grid:
        return cls(low, high, np.float32(max(-low, high) / LEVELS))

    @classmethod
    def of(cls, quantizer: Quantizer) -> Grid:
        """That of a quantizer. One around zero keeps its step, to the bit."""
        low, high = quantizer.range
        if quantizer.zero == {np.dtype(np.int8): 0, np.dtype(np.uint8): LEVELS + 1}.get(quantizer.zero.dtype):
            return cls(low, high, np.float32(quantizer.scale))
        return cls.between(low, high)

    def joined(self, other: Grid | None) -> Grid:
        """The one of the two that holds more."""
        return self if other is None or self.step >= other.step else other


class Weights(NamedTuple):
    """Weights as the file has them: `steps` of `scale`, which is one number or one along `axis`."""

    steps: np.ndarray
    scale: np.ndarray
    axis: int

    @property
    def factors(self) -> np.ndarray:
        """The scale, broadcast to the weights."""
        shape = [1] * self.steps.ndim
        if self.scale.size > 1:
            shape[self.axis] = self.scale.size
        return self.scale.reshape(shape)

    @property
    def fits(self) -> bool:
        """Whether int8 holds the steps."""
        limits = np.iinfo(np.int8)
        return bool(limits.min <= self.steps.min() and self.steps.max() <= limits.max)

    @property
    def numbers(self) -> np.ndarray:
        """As floats. What fp32 does not hold, as that of a mask, is its largest number."""
        with np.errstate(over="ignore"):
            numbers = self.steps.astype(np.float32) * self.factors.astype(np.float32)
        return np.asarray(numbers.clip(-LARGEST, LARGEST))


class Unquantized(NamedTuple):
    """A model without quantizers.

    grids    of the tensors that were quantized, by name
    weights  the initializers that were dequantized, by name
    dropped  the quantizers whose scale is not a positive finite number
    left     what stays quantized as it is, and why
    unknown  the weights whose scale is NaN: they stay dequantized
    """

    model: ModelProto
    grids: dict[str, Grid]
    weights: dict[str, Weights]
    dropped: list[str]
    left: list[str]
    unknown: list[str]

    def check(self) -> None:
        """Raise ModelError where nothing says what numbers weights are."""
        if self.unknown:
            raise ModelError(f"the scale of the weights '{self.unknown[0]}' is NaN, so their values are unknown.")


def unquantized(source: ModelProto) -> Unquantized:
    """A copy of a model in which quantized tensors and weights are numbers.

    A quantizer whose range begins at 0 is an activation that was merged into it: that becomes Relu, or Clip.
    """
    made = copied(source)
    index = Model(made)
    found, fresh = Unquantized(made, {}, {}, [], [], []), fresh_name(made)
    instead: dict[str, str] = {}
    given = {info.name for info in made.graph.input}
    gone = {node.proto.output[0] for node in index.graph.of(["DequantizeLinear"]) if _is_weight(node, index, found)}
    activations: dict[str, NodeProto] = {}  # by what the quantizer made
    for node in index.graph.of(["QuantizeLinear"]):
        if node.inputs[0] is not None and index.is_constant(node.inputs[0]):
            made_of = _weights_of(node, index, found)
            instead |= made_of
            gone |= made_of.keys()
            continue
        why, quantizer = quantizer_at(node, index, (8, 16), any_scale=True)
        if quantizer is None:
            found.left.append(f"{node.label} {why}")
            continue
        x, q = node.proto.input[0], node.proto.output[0]
        instead |= {q: x, **{end.output[0]: end.input[0] for end in quantizer.ends}}
        gone |= {proto.output[0] for proto in (quantizer.node, *quantizer.ends)}
        if not (np.isfinite(quantizer.scale) and quantizer.scale > 0):
            found.dropped.append(node.label)
            continue
        grid = Grid.of(quantizer)
        if grid.low == 0 and node.inputs[0] is not None and node.inputs[0].producer is not None:
            activations[q] = _activation(index, x, grid, fresh)
            instead[q] = activations[q].output[0]
        names = [instead[q], *(name for move in quantizer.moves for name in move.output)]
        found.grids.update({name: grid.joined(found.grids.get(name)) for name in names})
    for node in index.graph.of(["DequantizeLinear"]):
        end, is_input = node.outputs[0], node.inputs[0] is not None and node.inputs[0].name in given
        if is_input and end is not None and (of_input := grid_of(node, index)) is not None:
            found.grids[end.name] = Grid.of(Quantizer(node.proto, *of_input, [], []))
    renamed = rewired(found, instead, gone, activations)
    _without_idle(found, [renamed.get(node.output[0], node.output[0]) for node in activations.values()])
    return found


def _weights_of(node: Node, model: Model, found: Unquantized) -> dict[str, str]:
    """What is read in place of weights that a QuantizeLinear and DequantizeLinear round; nothing where others read it.

    Their scale is noted where it is around zero.
    """
    x, q = node.inputs[0], node.outputs[0]
    assert x is not None and q is not None
    ends = list(q.users)
    if q.is_output or not ends or any(end.op != "DequantizeLinear" or end.graph is not node.graph for end in ends):
        return {}
    numbers, scale, zero = (array_of(model, node.input_at(k)) for k in range(3))
    axis = int(node.attrs.get("axis", 1)) % max(numbers.ndim, 1)
    fits = scale.size == 1 or (numbers.ndim and numbers.shape[axis] == scale.size)
    if numbers.dtype == np.float32 and fits and zero.dtype == np.int8 and not zero.any() and (scale > 0).all():
        held = Weights(numbers, scale.reshape(-1), axis)
        steps = np.rint(numbers / held.factors).clip(-LEVELS - 1, LEVELS)
        found.weights[x.name] = held._replace(steps=steps.astype(np.int64))
    return {q.name: x.name, **{end.proto.output[0]: q.name for end in ends}}


def _is_weight(node: Node, model: Model, found: Unquantized) -> bool:
    """Whether a DequantizeLinear reads constants; it is noted as weights, or as a bias."""
    x, output = array_of(model, node.inputs[0]), node.outputs[0]
    scale, zero = array_of(model, node.input_at(1)), array_of(model, node.input_at(2))
    maker = None if node.inputs[0] is None else node.inputs[0].producer
    if maker is not None and maker.op == "QuantizeLinear":
        return False
    if not x.size or not scale.size or output is None or output.is_output or node.attrs.get("block_size"):
        return False
    if scale.dtype != np.float32 or x.dtype.kind not in "iu":
        return False
    if np.isnan(scale).any():
        found.unknown.append(output.name)
        return False
    if np.isinf(scale).any():
        found.dropped.append(node.label)
        scale = scale.clip(max=LARGEST / LEVELS)
    axis = int(node.attrs.get("axis", 1))
    if scale.size > 1 and not (-x.ndim <= axis < x.ndim and x.shape[axis] == scale.size):
        return False
    held = Weights(x.astype(np.int64), scale.reshape(-1), axis % max(x.ndim, 1))
    if zero.size:
        shift = Weights(x, zero.reshape(-1).astype(np.int64), held.axis).factors
        held = held._replace(steps=held.steps - shift)
    hold(found.model, output.name, held.numbers)
    if x.dtype.itemsize == 1:
        found.weights[output.name] = held
    return True


def rewired(
    found: Unquantized, instead: Mapping[str, str], gone: Collection[str], written: Mapping[str, NodeProto]
) -> dict[str, str]:
    """Take the nodes away that make the tensors `gone`, and have others read what is read instead.

    written  nodes in place of those
    Returns the tensors that are called as an output of the model now.
    """
    graph = found.model.graph
    ends = [o.name for o in graph.output if o.name in instead]
    kept = []
    for node in graph.node:
        if node.output and node.output[0] in gone:
            kept += [written[node.output[0]]] if node.output[0] in written else []
        else:
            kept.append(node)
    made = {name for node in kept for name in node.output}
    renamed: dict[str, str] = {}
    for end in ends:
        source = _source(end, instead)
        if source in made and source not in renamed and source not in {o.name for o in graph.output}:
            renamed[source] = end
        else:
            kept.append(helper.make_node("Identity", [source], [end]))
    for node in kept:
        for name in set(reads(node)):
            source = _source(name, instead)
            reads_instead(node, name, renamed.get(source, source))
        node.output[:] = [renamed.get(name, name) for name in node.output]
    found.grids.update({end: found.grids[source] for source, end in renamed.items() if source in found.grids})
    refill(graph.node, kept)
    infos = graph.value_info
    eight = (TensorProto.INT8, TensorProto.UINT8)
    refill(infos, [i for i in infos if i.name not in instead and i.type.tensor_type.elem_type not in eight])
    return renamed


def _source(name: str, instead: Mapping[str, str]) -> str:
    while name in instead:
        name = instead[name]
    return name


def _without_idle(found: Unquantized, activations: Iterable[str]) -> None:
    """Take the activations away that read no number below 0."""
    index, instead = Model(found.model), {}
    for name in activations:
        value = index.graph.find(name)
        read = None if value is None or value.producer is None else value.producer.inputs[0]
        if read is not None and Ranges(index).of(read).low >= 0:
            instead[name] = read.name
            found.grids[read.name] = found.grids[name].joined(found.grids.get(read.name))
    rewired(found, instead, instead, {})


def _activation(model: Model, name: str, grid: Grid, fresh: Fresh) -> NodeProto:
    """Relu; Clip where the upper end of the range is a round number, as that of a ReLU6 is."""
    high, made = round(grid.high), fresh(name, "activated")
    if not high or abs(grid.high - high) > SIGNIFICANT * high:
        return helper.make_node("Relu", [name], [made], name=made)
    if model.opset < CLIP_BY_INPUTS:
        return helper.make_node("Clip", [name], [made], name=made, min=0.0, max=float(high))
    ends = [hold(model.proto, fresh(made, word), np.float32(end)) for word, end in (("low", 0), ("high", high))]
    return helper.make_node("Clip", [name, *ends], [made], name=made)


# ---- types that the target lacks -------------------------------------------------------------------------------------


def without_lacking_types(source: ModelProto, target: Target) -> tuple[ModelProto, list[str]]:
    """The model where such activations are numbers and such weights floats, and a sentence on them; else the model."""
    if not any(node.op_type in DEQUANTIZES for node in source.graph.node):
        return source, []
    found = Unquantized(copied(source), {}, {}, [], [], [])
    index = Model(found.model)
    instead: dict[str, str] = {}
    gone: set[str] = set()
    weights = 0
    for node in index.graph.live():
        x, end = node.inputs[0] if node.inputs else None, node.outputs[0] if node.outputs else None
        if node.op not in DEQUANTIZES or x is None or end is None or index.dtype(x) in INTEGERS:
            continue
        maker = x.producer
        if maker is not None and maker.op in QUANTIZES and maker.inputs[0] is not None:
            if target.why_unsupported(maker) or target.why_unsupported(node):
                instead[end.name] = maker.inputs[0].name
                gone |= {end.name, *maker.proto.output}
        elif target.why_unsupported(node) and (numbers := index.constant(end)) is not None:
            hold(found.model, end.name, numbers)
            gone.add(end.name)
            weights += 1
    if not gone:
        return source, []
    rewired(found, instead, gone, {})
    many = f"{counted(len(set(instead.values())), 'tensor')} and {counted(weights, 'weight')}"
    return found.model, [f"{many} of types that {target} lacks became floats"]
