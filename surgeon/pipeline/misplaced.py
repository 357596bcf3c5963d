"""Quantizers that are where they do not belong, by the rules of `placement`: what each costs, and what fixes it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon.ir.files import with_weights
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import static_sizes
from surgeon.ir.model import Model
from surgeon.ir.operators import ELEMENTWISE, NORMALIZES, REDUCES
from surgeon.pipeline.placement import FUSED, LAYERS, ONE_SCALE, RESIDUAL, TRANSPARENT, placed, traffic_of
from surgeon.pipeline.quantizers import array_of, grid_of, unquantized
from surgeon.targets.target import Target

QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")
REFUSED = "TensorRT refuses the node"
UNFUSED = "the two do not become one kernel"
FLOATS = "the layer computes in floating point"
SLOWER = "int8 does not make it faster"
ROUNDED = "numbers are rounded, and nothing computes in int8"
REPAIR = "--symmetric-int8 --repair-qdq"
NOTHING = "only a new quantization of the original"
IN_FLOATS = ELEMENTWISE | NORMALIZES | REDUCES | {"AveragePool", "GlobalAveragePool", "Softmax"}  # no int8 is gained


class Kind(NamedTuple):
    """What is wrong with a quantizer, what that costs, and the options that fix it: see `Misplaced`."""

    why: str
    cost: str
    fixed_by: str | None = REPAIR


UINT8 = Kind("it quantizes to uint8", REFUSED)
ZERO = Kind("its zero point is not 0", REFUSED)
BIAS = Kind("it dequantizes an int32 bias", REFUSED, "")
SCALE = Kind("its scale is not a positive finite number", "what reads it becomes NaN")
UNKNOWN = Kind("the scale of its weights is NaN", "nothing says what numbers they are", None)
BEFORE_ACTIVATION = Kind("it is between a layer and its activation", UNFUSED)
AFTER_CONCAT = Kind("it is after a Concat, not on its inputs", "the Concat copies floats, and a kernel quantizes them")
AFTER_TRANSPOSED = Kind("it is after ConvTranspose and Relu, which no int8 kernel computes", UNFUSED)
BOTH_BRANCHES = Kind("it is on the second input of an Add too", "the layer and the Add do not become one kernel")
ONE_INPUT = Kind("the activation or the weights alone are quantized", FLOATS)
GAINS_NOTHING = Kind("what reads it gains nothing from int8", ROUNDED)
OUTPUT = Kind("it quantizes an output of the model", ROUNDED)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A node of the file.

    node      its label
    op        its operator
    why       what is wrong
    cost      what the engine loses
    fixed_by  the options of `surgeon rewrite` that fix it; empty where it does by itself, None where nothing does
    """

    node: str
    op: str
    why: str
    cost: str
    fixed_by: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def how(self) -> str:
        """What fixes it."""
        return NOTHING if self.fixed_by is None else f"surgeon rewrite {self.fixed_by}".rstrip()

    def __str__(self) -> str:
        return f"{self.op} '{self.node}': {self.why}; {self.cost}; {self.how} fixes it"


def misplaced(model: Model, target: Target) -> list[Misplaced]:
    """The quantizers of the main graph that do not belong where they are, in the order of the file."""
    if not model.graph.of(QUANTIZERS):
        return []
    nodes, (left, alone) = model.graph.of([*QUANTIZERS, *LAYERS, *RESIDUAL]), _in_floats(model, target)
    found = [_of(node, kind) for node in nodes if node.label not in alone for kind in _kinds(node, model)]
    return [*found, *(_of(n, Kind(left[n.label], SLOWER)) for n in nodes if n.label in left and all(_quantized(n)))]


def _of(node: Node, kind: Kind) -> Misplaced:
    return Misplaced(node.label, node.op, *kind)


def _in_floats(model: Model, target: Target) -> tuple[dict[str, str], set[str]]:
    """Why layers stay in floating point, by label, and the labels of those whose weights alone belong in int8."""
    without = unquantized(with_weights(model.proto, model.base))
    bare = Model(without.model)

    def size(value: Value) -> int | None:
        sizes = static_sizes(bare.shape(value))
        return None if sizes is None else int(np.prod(sizes))

    traffic = traffic_of(bare, target, size, without.weights)
    left = {node.label: why for node, why in placed(bare, target, traffic, lambda layer: True).left.items()}
    alone = [] if traffic is None else [k.node.label for k in traffic.layers if traffic.saved_alone(k)]
    return left, set(alone)


def _kinds(node: Node, model: Model) -> Iterator[Kind]:
    if node.op in LAYERS:
        if any(_quantized(node)) and not all(_quantized(node)):
            yield ONE_INPUT
    elif node.op in RESIDUAL:
        if all(_pair(v) is not None for v in node.inputs):
            yield BOTH_BRANCHES
    elif node.op == "DequantizeLinear":
        yield from _of_dequantizer(node, model)
    else:
        yield from _of_quantizer(node, model)


def _quantized(layer: Node) -> list[bool]:
    """Whether the activation is, and the weights are."""
    return [_is_quantized(layer.input_at(k)) for k in range(2)]


def _is_quantized(value: Value | None) -> bool:
    """Whether a tensor is dequantized, or joined of such or moved."""
    maker = None if value is None else value.producer
    if maker is not None and maker.op in ONE_SCALE:
        return all(map(_is_quantized, maker.inputs))
    if maker is not None and maker.op in TRANSPARENT:
        return _is_quantized(maker.inputs[0])
    return _dequantizer(value) is not None


def _dequantizer(value: Value | None) -> Node | None:
    maker = None if value is None else value.producer
    return maker if maker is not None and maker.op == "DequantizeLinear" else None


def _pair(value: Value | None) -> Node | None:
    """The QuantizeLinear before the DequantizeLinear that makes a tensor."""
    end = _dequantizer(value)
    maker = None if end is None or end.inputs[0] is None else end.inputs[0].producer
    return maker if maker is not None and maker.op == "QuantizeLinear" else None


def _of_dequantizer(node: Node, model: Model) -> Iterator[Kind]:
    x, scale = node.inputs[0], model.constant(node.input_at(1))
    if x is not None and model.dtype(x) == TensorProto.INT32:
        yield BIAS
    elif scale is not None and np.isnan(scale).any() and array_of(model, x).size:
        yield UNKNOWN
    elif scale is not None and not (np.isfinite(scale) & (scale > 0)).all():
        yield SCALE
    elif _pair(node.outputs[0]) is None and array_of(model, node.input_at(2)).any():
        yield ZERO


def _of_quantizer(node: Node, model: Model) -> Iterator[Kind]:
    scale, grid = model.constant(node.input_at(1)), grid_of(node, model)
    if scale is not None and not (np.isfinite(scale) & (scale > 0)).all():
        yield SCALE
    elif grid is not None and grid[1].dtype == np.uint8:
        yield UINT8
    elif grid is not None and grid[1]:
        yield ZERO
    if node.inputs[0] is None or model.is_constant(node.inputs[0]):
        return
    ends = [end for end in _readers(node) if end.op == "DequantizeLinear"]
    readers = [reader for end in ends for reader in _readers(end)]
    maker = node.inputs[0].producer
    if maker is not None:
        if maker.op in LAYERS and any(_is_activation(r) for r in readers):
            yield BEFORE_ACTIVATION
        elif maker.op in ONE_SCALE and all(user.op == "QuantizeLinear" for user in node.inputs[0].users):
            yield AFTER_CONCAT
        elif maker.op == "Relu" and _is_transposed(maker):
            yield AFTER_TRANSPOSED
        elif readers and all(r.op in IN_FLOATS - RESIDUAL for r in readers):
            yield GAINS_NOTHING
    if any(v.is_output for end in ends for v in end.outputs if v is not None):
        yield OUTPUT


def _readers(node: Node) -> list[Node]:
    return [user for value in node.outputs if value is not None for user in value.users]


def _is_activation(node: Node) -> bool:
    """Whether it computes elements of one tensor, in the kernel of what makes that."""
    return node.key in FUSED - RESIDUAL and sum(_dequantizer(v) is not None for v in node.inputs) == 1


def _is_transposed(relu: Node) -> bool:
    maker = None if relu.inputs[0] is None else relu.inputs[0].producer
    return maker is not None and maker.op == "ConvTranspose" and any(_quantized(maker))
