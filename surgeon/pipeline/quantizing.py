"""Pairs of QuantizeLinear and DequantizeLinear written into a model without quantizers, around zero in int8 or fp8."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, reads, refill
from surgeon.pipeline.placement import ONE_SCALE, RESIDUAL, Layer, channel_scales
from surgeon.pipeline.prepared import fresh_name
from surgeon.pipeline.quantizers import INT8, LEVELS, Eight, Grid, Unquantized, Weights, hold
from surgeon.pipeline.symmetric_int8 import BY_AXIS

EIGHT_BITS = np.iinfo(np.int8)
LEAST_FACTOR = 2.0**-12  # of a channel, next to the largest: fp16 holds it with all its digits


class Manner(NamedTuple):
    """How pairs are written.

    kind      the type of eight bits
    factored  the weights of a Conv have one scale, and a Mul after it has the factor of each channel
    alone     the layers of which the weights alone are in int8, as the file has them
    apart     the tensors that an Add reads as numbers, though a layer reads them from a pair
    biases    what is added to the bias of a Conv, by the name of its output
    switched  inputs of the model decide which pairs act, and with which scales: see `Writing`
    """

    kind: Eight = INT8
    factored: bool = False
    alone: Iterable[Layer] = ()
    apart: Collection[str] = ()
    biases: Mapping[str, np.ndarray] = MappingProxyType({})
    switched: bool = False


class Writing:
    """The model with pairs, and with weights of eight bits, for some layers.

    model     what is written
    switches  with `switched`: the bool input that has a pair act, by the tensor that is quantized
    sums      the one that has an Add read the pair, too
    scales    the input that is the scale of the pair
    """

    def __init__(
        self, bare: Unquantized, index: Model, grids: Mapping[Layer, Grid], manner: Manner | None = None
    ) -> None:
        self.bare, self.index, self.grids, self.manner = bare, index, grids, manner or Manner()
        self.model = copied(bare.model)
        self.fresh = fresh_name(self.model)
        self.switches: dict[str, str] = {}
        self.sums: dict[str, str] = {}
        self.scales: dict[str, str] = {}
        self._front: dict[str, list[NodeProto]] = {}  # new nodes by the first tensor that they read
        self._reads: dict[tuple[str, int], str] = {}  # what an input of a node, by its first output, reads now
        self._pairs: dict[tuple[str, np.float32], str] = {}
        self._held: dict[tuple[str, int, str], str] = {}
        self._factors: dict[str, list[NodeProto]] = {}  # what makes the output of a layer of what it makes now
        self._zero = hold(self.model, self.fresh("quantized", "zero"), self._steps(np.zeros(())))
        for layer, grid in grids.items():
            self._quantize(layer, grid)
        for layer in self.manner.alone:
            self._read(layer.node, 1, self._weights_alone(layer))
        for name, weights in bare.weights.items():
            self._keep_table(name, weights)
        self._write()

    def _steps(self, numbers: np.ndarray) -> np.ndarray:
        return self.manner.kind.steps(numbers)

    # ---- activations ----

    def _quantize(self, layer: Layer, grid: Grid) -> None:
        if self.manner.switched or not self._is_joined_in_int8(layer.x):
            self._read(layer.node, 0, self._pair(layer.x, grid.step))
        else:
            self._join(layer.x, grid.step)
        bias = self._bias(layer)
        if self.manner.factored and layer.node.op == "Conv" and (bias is not None or len(layer.node.inputs) < 3):
            self._read(layer.node, 1, self._factored(layer, bias))
            return
        self._read(layer.node, 1, self._weights(layer))
        if bias is not None and layer.y.name in self.manner.biases:
            self._read(layer.node, 2, self._held_bias(layer, bias))

    def _read(self, node: Node, position: int, name: str) -> None:
        self._reads[node.proto.output[0], position] = name

    def _is_joined_in_int8(self, value: Value) -> bool:
        """Whether a Concat makes a tensor that nothing but layers in int8 reads."""
        maker = value.producer
        taken = {layer.node for layer in self.grids if layer.x is value}
        return maker is not None and maker.op in ONE_SCALE and not value.is_output and taken == set(value.users)

    def _join(self, joined: Value, step: np.float32) -> None:
        """A pair of one scale on each input of a Concat."""
        maker = joined.producer
        assert maker is not None
        for position, value in enumerate(maker.inputs):
            if value is not None and not self.index.is_constant(value):
                self._read(maker, position, self._pair(value, step))

    def _pair(self, value: Value, step: np.float32) -> str:
        """The tensor after a pair on another one."""
        key = (value.name, step)
        if key not in self._pairs:
            self._pairs[key] = self._written_pair(value, step)
        return self._pairs[key]

    def _written_pair(self, value: Value, step: np.float32) -> str:
        scale = hold(self.model, self.fresh(value.name, "scale"), np.asarray(step))
        quantized, numbers = self.fresh(value.name, "quantized"), self.fresh(value.name, "dequantized")
        nodes = [
            helper.make_node("QuantizeLinear", [value.name, scale, self._zero], [quantized], name=quantized),
            helper.make_node("DequantizeLinear", [quantized, scale, self._zero], [numbers], name=numbers),
        ]
        if self.manner.switched:
            self.scales[value.name] = scale
            self.switches[value.name] = self.fresh(value.name, "switch")
            nodes.append(self._either(self.switches[value.name], numbers, value.name))
            numbers = nodes[-1].output[0]
        self._front.setdefault(value.name, []).extend(nodes)
        return numbers

    def _either(self, switch: str, numbers: str, otherwise: str) -> NodeProto:
        either = self.fresh(otherwise, "either")
        return helper.make_node("Where", [switch, numbers, otherwise], [either], name=either)

    # ---- weights ----

    def _weights(self, layer: Layer) -> str:
        key = (layer.weights.name, layer.channels, layer.x.name if self.manner.switched else "")
        if key not in self._held:
            held = self.bare.weights.get(layer.weights.name)
            made = self._dequantized(layer.weights.name, self._rounded(held, self._numbers(layer), layer.channels))
            if self.manner.switched:
                either = self._either(self.switches[layer.x.name], made, layer.weights.name)
                self._front.setdefault("", []).append(either)
                made = either.output[0]
            self._held[key] = made
        return self._held[key]

    def _numbers(self, layer: Layer) -> np.ndarray:
        array = self.index.constant(layer.weights)
        assert array is not None
        return array

    def _rounded(self, held: Weights | None, numbers: np.ndarray, axis: int) -> Weights:
        """Weights around zero: those of the file where they fit, else with a scale for each channel."""
        levels = self.manner.kind.levels
        if held is not None and held.fits and (held.scale.size == 1 or held.axis == axis):
            return held._replace(steps=held.steps.astype(np.int8))
        if self.index.opset < BY_AXIS:
            scale = np.abs(numbers).max(keepdims=True).reshape(1) / np.float32(levels)
        elif held is not None and (held.scale.size == 1 or held.axis == axis):
            scale = _widened(held, axis)
        else:
            scale = channel_scales(numbers, axis, levels)
        made = Weights(np.zeros(numbers.shape), scale, axis)
        return made._replace(steps=self._steps(numbers / made.factors))

    def _bias(self, layer: Layer) -> np.ndarray | None:
        """The constant bias of a Conv, with what is added to it; None where there is none."""
        added = self.manner.biases.get(layer.y.name)
        given = layer.node.input_at(2)
        array = self.index.constant(given) if given is not None and self.index.is_constant(given) else None
        if given is not None and array is None:
            return None
        return added if array is None else array if added is None else array + added

    def _held_bias(self, layer: Layer, bias: np.ndarray) -> str:
        given = layer.node.input_at(2)
        held = hold(self.model, self.fresh(layer.y.name, "bias"), bias)
        if not self.manner.switched:
            return held
        none = hold(self.model, self.fresh(layer.y.name, "none"), np.zeros_like(bias)) if given is None else given.name
        self._front.setdefault("", []).append(self._either(self.switches[layer.x.name], held, none))
        return str(self._front[""][-1].output[0])

    def _factored(self, layer: Layer, bias: np.ndarray | None) -> str:
        """Weights of one scale, and after the Conv a Mul by what each channel is larger, and its bias.

        The numbers are those of a scale for each channel. TensorRT-RTX 1.7.1 writes the results of a Conv in fp32 where
        its weights have several scales of fp16, and in fp16 where they have one.
        """
        numbers, y = self._numbers(layer), layer.y.name
        scales = channel_scales(numbers, layer.channels, self.manner.kind.levels)
        used = np.abs(numbers).reshape(numbers.shape[0], -1).max(axis=1) > 0
        common = scales[used].max(initial=np.float32(0)) or np.float32(1)
        factors = np.where(used, np.maximum(scales / common, LEAST_FACTOR), 1).astype(np.float32)
        beside = (-1, *[1] * (numbers.ndim - 1))
        steps = self._steps(numbers / (factors * common).reshape(beside))
        added = None if bias is None else bias.reshape(beside[:-1])
        self._factors[y] = self._scaling(y, factors.reshape(beside[:-1]), added)
        return self._dequantized(layer.weights.name, Weights(steps, np.reshape(common, (1,)), 0))

    def _weights_alone(self, layer: Layer) -> str:
        """Weights as the file has them, of one scale: a product's factor of each channel is a Mul after it."""
        held = self.bare.weights[layer.weights.name]
        if held.scale.size == 1:
            return self._weights(layer)
        common, bias = held.scale.max(), self._bias(layer)
        beta = np.float32(layer.node.attrs.get("beta", 1.0))
        added = None if bias is None else bias * beta
        self._factors[layer.y.name] = self._scaling(layer.y.name, held.scale / common, added)
        steps = held.steps.astype(np.int8)
        return self._dequantized(layer.weights.name, Weights(steps, np.reshape(common, (1,)), held.axis))

    def _scaling(self, y: str, factors: np.ndarray, bias: np.ndarray | None) -> list[NodeProto]:
        """A Mul of what a layer makes now, and an Add of its bias, which make the output of the layer."""
        last = self.fresh(y, "scaled") if bias is not None else y
        plain = self.fresh(y, "unscaled")
        held = hold(self.model, self.fresh(y, "factors"), factors)
        made = [helper.make_node("Mul", [plain, held], [last], name=f"{plain}_factors")]
        if bias is not None:
            added = hold(self.model, self.fresh(y, "bias"), bias)
            made.append(helper.make_node("Add", [last, added], [y], name=f"{plain}_bias"))
        return made

    def _dequantized(self, name: str, weights: Weights) -> str:
        """A DequantizeLinear of constants."""
        single = weights.scale.size == 1
        shape = () if single else (weights.scale.size,)
        steps = hold(self.model, self.fresh(name, self.manner.kind.name), weights.steps)
        scale = hold(self.model, self.fresh(name, "scale"), weights.scale.astype(np.float32).reshape(shape))
        zero = hold(self.model, self.fresh(name, "zero"), self._steps(np.zeros(shape)))
        made = self.fresh(name, "dequantized")
        axis: dict[str, Any] = {} if single else {"axis": weights.axis}
        node = helper.make_node("DequantizeLinear", [steps, scale, zero], [made], name=made, **axis)
        self._front.setdefault("", []).append(node)
        return made

    def _keep_table(self, name: str, weights: Weights) -> None:
        """A table that rows are looked up in stays in eight bits: it is read, and computes nothing."""
        value = self.index.graph.find(name)
        if value is None or not value.users or value.is_output or weights.steps.ndim < 2:
            return
        looked_up = all(user.op == "Gather" and user.inputs[0] is value for user in value.users)
        if looked_up and (weights.fits or self.index.opset >= BY_AXIS):
            axis = weights.axis if weights.scale.size > 1 else weights.steps.ndim - 1
            made = self._dequantized(name, self._rounded(weights, weights.numbers, axis))
            for user in value.users:
                self._read(user, 0, made)

    # ---- the protobuf ----

    def _write(self) -> None:
        graph = self.model.graph
        self._share_residuals()
        nodes = [*self._front.pop("", ())]
        inputs = [info.name for info in graph.input]
        nodes += [node for name in inputs for node in self._front.get(name, ())]
        for node in graph.node:
            for position in range(len(node.input)):
                key = (node.output[0] if node.output else "", position)
                node.input[position] = self._reads.get(key, node.input[position])
            if len(node.input) == 2 and (node.output[0], 2) in self._reads:
                node.input.append(self._reads[node.output[0], 2])
            after = self._factors.get(node.output[0], []) if node.output else []
            made = list(node.output)
            if after:
                del node.input[2:]
                node.output[0] = after[0].input[0]
            nodes += [node, *after, *(new for name in made for new in self._front.get(name, ()))]
        refill(graph.node, nodes)
        switches, scales = [*self.switches.values(), *self.sums.values()], self.scales.values()
        graph.input.extend(helper.make_tensor_value_info(switch, TensorProto.BOOL, []) for switch in switches)
        graph.input.extend(helper.make_tensor_value_info(scale, TensorProto.FLOAT, []) for scale in scales)
        read = {name for node in graph.node for name in reads(node)} | {o.name for o in graph.output}
        refill(graph.initializer, [t for t in graph.initializer if t.name in read])

    def _share_residuals(self) -> None:
        """Have an Add read the branch from the pair that a layer reads it from, but one branch alone."""
        by_name = {name: made for (name, _), made in self._pairs.items()}
        for node in self.index.graph.of(RESIDUAL):
            paired = [k for k, v in enumerate(node.inputs) if v is not None and v.name in by_name]
            computed = [v for v in node.inputs if v is not None and not self.index.is_constant(v)]
            if len(computed) != 2 or len(paired) != 1:
                continue
            value = node.inputs[paired[0]]
            assert value is not None
            if value.name not in self.manner.apart:
                self._read(node, paired[0], self._summed(value, by_name[value.name]))

    def _summed(self, value: Value, paired: str) -> str:
        """What an Add reads of a tensor with a pair."""
        if not self.manner.switched:
            return paired
        if value.name not in self.sums:
            self.sums[value.name] = self.fresh(value.name, "sum")
            self._front[value.name].append(self._either(self.sums[value.name], paired, value.name))
        return str(self._front[value.name][-1].output[0])


def _widened(held: Weights, axis: int) -> np.ndarray:
    """The scale of each channel: that of the file, where it holds the channel in int8."""
    others = tuple(a for a in range(held.steps.ndim) if a != axis)
    steps = np.broadcast_to(held.scale, held.steps.shape[axis : axis + 1])
    top, low = held.steps.max(axis=others), held.steps.min(axis=others)
    fits = (top <= EIGHT_BITS.max) & (low >= EIGHT_BITS.min)
    return (steps * np.where(fits, 1, np.maximum(top, -low) / LEVELS)).astype(np.float32)
