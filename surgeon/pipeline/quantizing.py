"""Pairs of QuantizeLinear and DequantizeLinear written into a model without quantizers, around zero in int8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, reads, refill
from surgeon.pipeline.placement import LAYERS, ONE_SCALE, RESIDUAL, Layer, channel_scales
from surgeon.pipeline.prepared import fresh_name
from surgeon.pipeline.quantizers import LEVELS, Grid, Unquantized, Weights, hold
from surgeon.pipeline.symmetric_int8 import BY_AXIS

EIGHT_BITS = np.iinfo(np.int8)


class Writing:
    """The model with pairs, and with weights of int8, for some layers.

    model     what is written
    switches  with `switched`: the bool input that has a pair act, by the tensor that is quantized
    """

    def __init__(self, bare: Unquantized, index: Model, grids: Mapping[Layer, Grid], switched: bool = False) -> None:
        self.bare, self.index, self.grids, self.switched = bare, index, grids, switched
        self.model = copied(bare.model)
        self.fresh = fresh_name(self.model)
        self.switches: dict[str, str] = {}
        self._front: dict[str, list[NodeProto]] = {}  # new nodes by the first tensor that they read
        self._reads: dict[tuple[str, int], str] = {}  # what an input of a node, by its first output, reads now
        self._pairs: dict[tuple[str, np.float32], str] = {}
        self._held: dict[tuple[str, int], str] = {}
        self._zero = hold(self.model, self.fresh("quantized", "zero"), np.zeros((), np.int8))
        for layer, grid in grids.items():
            self._quantize(layer, grid)
        for name, weights in bare.weights.items():
            self._keep_table(name, weights)
        self._write()

    # ---- activations ----

    def _quantize(self, layer: Layer, grid: Grid) -> None:
        at = LAYERS[layer.node.op]
        if not self._is_joined_in_int8(layer.x):
            self._read(layer.node, at.x, self._pair(layer.x, grid.step))
        else:
            self._join(layer.x, grid.step)
        self._read(layer.node, at.weights, self._weights(layer))

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
        if self.switched:
            switch = self.switches.setdefault(value.name, self.fresh(value.name, "switch"))
            either = self.fresh(value.name, "either")
            nodes.append(helper.make_node("Where", [switch, numbers, value.name], [either], name=either))
            numbers = either
        self._front.setdefault(value.name, []).extend(nodes)
        return numbers

    # ---- weights ----

    def _weights(self, layer: Layer) -> str:
        key = (layer.weights.name, layer.channels)
        if key not in self._held:
            held = self.bare.weights.get(layer.weights.name)
            array = self.index.constant(layer.weights)
            assert array is not None
            self._held[key] = self._dequantized(layer.weights.name, self._in_int8(held, array, layer.channels))
        return self._held[key]

    def _in_int8(self, held: Weights | None, numbers: np.ndarray, axis: int) -> Weights:
        """Weights in int8 around zero: those of the file where they fit, else with a scale for each channel."""
        if held is not None and _fits(held.steps) and (held.scale.size == 1 or held.axis == axis):
            return held
        if self.index.opset < BY_AXIS:
            scale = np.abs(numbers).max(keepdims=True).reshape(1) / np.float32(LEVELS)
        elif held is not None and (held.scale.size == 1 or held.axis == axis):
            scale = _widened(held, axis)
        else:
            scale = channel_scales(numbers, axis)
        made = Weights(np.zeros(numbers.shape), scale, axis)
        return made._replace(steps=np.rint(numbers / made.factors).clip(-LEVELS, LEVELS))

    def _dequantized(self, name: str, weights: Weights) -> str:
        """A DequantizeLinear of constants."""
        single = weights.scale.size == 1
        shape = () if single else (weights.scale.size,)
        integers = hold(self.model, self.fresh(name, "int8"), weights.steps.astype(np.int8))
        scale = hold(self.model, self.fresh(name, "scale"), weights.scale.astype(np.float32).reshape(shape))
        zero = hold(self.model, self.fresh(name, "zero"), np.zeros(shape, np.int8))
        made = self.fresh(name, "dequantized")
        axis: dict[str, Any] = {} if single else {"axis": weights.axis}
        node = helper.make_node("DequantizeLinear", [integers, scale, zero], [made], name=made, **axis)
        self._front.setdefault("", []).append(node)
        return made

    def _keep_table(self, name: str, weights: Weights) -> None:
        """A table that rows are looked up in stays in eight bits: it is read, and computes nothing."""
        value = self.index.graph.find(name)
        if value is None or not value.users or value.is_output or weights.steps.ndim < 2:
            return
        looked_up = all(user.op == "Gather" and user.inputs[0] is value for user in value.users)
        if looked_up and (_fits(weights.steps) or self.index.opset >= BY_AXIS):
            axis = weights.axis if weights.scale.size > 1 else weights.steps.ndim - 1
            made = self._dequantized(name, self._in_int8(weights, weights.numbers, axis))
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
            nodes += [node, *(new for name in node.output for new in self._front.get(name, ()))]
        refill(graph.node, nodes)
        graph.input.extend(
            helper.make_tensor_value_info(switch, TensorProto.BOOL, []) for switch in self.switches.values()
        )
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
            self._read(node, paired[0], by_name[value.name])


def _fits(steps: np.ndarray) -> bool:
    return bool(EIGHT_BITS.min <= steps.min() and steps.max() <= EIGHT_BITS.max)


def _widened(held: Weights, axis: int) -> np.ndarray:
    """The scale of each channel: that of the file, where it holds the channel in int8."""
    others = tuple(a for a in range(held.steps.ndim) if a != axis)
    steps = np.broadcast_to(held.scale, held.steps.shape[axis : axis + 1])
    top, low = held.steps.max(axis=others), held.steps.min(axis=others)
    fits = (top <= EIGHT_BITS.max) & (low >= EIGHT_BITS.min)
    return (steps * np.where(fits, 1, np.maximum(top, -low) / LEVELS)).astype(np.float32)
