"""Where pairs of QuantizeLinear and DequantizeLinear belong: the one table that placing, checking and repairing read.

LAYERS         the operators that compute in int8, with the inputs that get a pair: the activation, and the weights with
               one scale a channel. The bias stays a float. Products without weights, as in attention, get none.
LEFT_OUT       the layers that stay in floating point, and why: rows, of which the first that fits decides.
ALONE          the products whose weights alone are in int8 where the activation is not, for TensorRT-RTX: its kernel
               reads the eight bits, and the numbers stay those of the file.
TRANSPARENT    what only moves numbers, and MaxPool: it has the scale of its input, and no pair of its own.
ONE_SCALE      Concat: a pair on each input, all with one scale, and none after it.
RESIDUAL       Add: the branch that a layer reads as int8, too, is read from the same pair, the other one as numbers.
everything else, such as normalisations, Softmax, Sigmoid and pooling by average, computes in floating point: no pair.
So a layer's own activation never reads a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from surgeon.ir.following import readers, sources
from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.operators import ELEMENTWISE, KEEP_ORDER, MOVES, PRODUCTS
from surgeon.pipeline.quantizers import LEVELS, Grid, Weights
from surgeon.targets.target import Target

Sizes = Callable[[Value], int | None]  # the number of elements of a tensor; None where it is not known


# The axis of the weights, of so many dimensions, that is the channels. The activation is the first input of a layer,
# the weights are the second.
LAYERS: Mapping[str, Callable[[Node, int], int]] = {
    "Conv": lambda node, rank: 0,
    "ConvTranspose": lambda node, rank: 1,
    "Gemm": lambda node, rank: 0 if node.attr("transB") else 1,
    "MatMul": lambda node, rank: rank - 1,
}
ALONE = frozenset({"MatMul", "Gemm"})
TRANSPARENT = MOVES | {"MaxPool"}
ONE_SCALE = frozenset({"Concat"})
RESIDUAL = frozenset({"Add"})
NARROW = 16  # channels: TensorRT's int8 kernels take 32 at once, and pad fewer
FUSED = ELEMENTWISE | {"BatchNormalization"}  # what an engine computes in the kernel of what is before it


class Layer(NamedTuple):
    """An operator with weights, which may compute in int8."""

    node: Node
    x: Value
    y: Value
    weights: Value
    sizes: tuple[int, ...]  # of the weights
    channels: int  # the axis of the weights

    @property
    def group(self) -> int:
        return int(self.node.attrs.get("group", 1))

    @property
    def narrowest(self) -> int:
        """The smaller number of channels, before and after it."""
        rows = self.sizes[1 - self.channels if len(self.sizes) > 1 else 0]
        if self.node.op == "MatMul":
            rows = self.sizes[-2]
        grouped = self.node.op in ("Conv", "ConvTranspose")
        before, after = rows * (self.group if grouped else 1), self.sizes[self.channels]
        return min(before, after * (self.group if self.node.op == "ConvTranspose" else 1))

    @property
    def fills_half(self) -> bool:
        """Whether it is a Conv with 16 channels on one side, or of groups: an int8 kernel of TensorRT pads the rest."""
        after, before = self.sizes[0], self.sizes[1]
        if self.node.op != "Conv" or (after % 8 and before % 8):
            return False
        return max(after, before) >= NARROW or (self.group > 1 and after % 8 == 0)


class LeftOut(NamedTuple):
    """A row: the layers that stay in floating point, why, and where that is from.

    slow  it is slower in int8, and not refused: int8 by --int8 has it nevertheless, as that of ModelOpt
    """

    why: str
    source: str
    fits: Callable[[Layer, Target], bool]
    slow: bool = False


LEFT_OUT = (
    LeftOut(
        "fewer than 16 channels are too few for an int8 kernel",
        "NVIDIA ModelOpt leaves out the same; TensorRT pads the channels of int8 to 32",
        lambda layer, target: layer.narrowest < NARROW and not layer.fills_half,
    ),
    LeftOut(
        "fewer than 16 channels are too few for an int8 kernel",
        "TensorRT pads the channels of int8 to 32",
        lambda layer, target: layer.narrowest < NARROW,
        slow=True,
    ),
    LeftOut(
        "TensorRT-RTX has no int8 kernel for it, and dequantizes its weights at each run",
        "measured with TensorRT-RTX 1.7.1: 64 channels of 28x28, 6.19 MB next to 5.58 in fp32",
        lambda layer, target: target.rtx and layer.node.op == "ConvTranspose",
    ),
    LeftOut(
        "TensorRT has no int8 kernel for ConvTranspose with its activation",
        "NVIDIA/TensorRT#2597 and #2280: the quantizer after it is not fused, and 8.4 finds no implementation",
        lambda layer, target: (
            layer.node.op == "ConvTranspose" and any(u.key in FUSED - RESIDUAL for u in layer.y.users)
        ),
    ),
    LeftOut(
        "TensorRT-RTX copies the int8 input of a grouped convolution to three times its size",
        "measured with TensorRT-RTX 1.7.1: depthwise, 128 channels of 28x28, 2.42 MB next to 1.61 in fp32",
        lambda layer, target: target.rtx and layer.group > 1,
        slow=True,
    ),
)
TOO_LARGE = "nodes compute the weights, which are too large to be stored"
HEAVIER = "in int8 TensorRT-RTX moves more bytes: larger results cost more than smaller weights save"


def layers(model: Model) -> Iterator[Layer]:
    """The operators of the main graph that have an activation and constant weights, both fp32."""
    for node in model.graph.of(LAYERS):
        x, weights, y = node.inputs[0], node.inputs[1], node.outputs[0]
        if x is None or weights is None or y is None or node.attrs.get("transA"):
            continue
        sizes = model.shape(weights) or ()
        known = tuple(d for d in sizes if isinstance(d, int))
        if len(known) < max(2, len(sizes)) or not model.is_constant(weights) or model.is_constant(x):
            continue
        if model.dtype(weights) == model.dtype(x) == TensorProto.FLOAT:
            yield Layer(node, x, y, weights, known, LAYERS[node.op](node, len(known)))


def left_out(layer: Layer, model: Model, target: Target, *, slow: bool = False) -> str:
    """Why a layer stays in floating point; empty where it computes in int8.

    slow  it computes in int8 where it is slower in it, too
    """
    if layer.weights.tensor is None and model.constant(layer.weights) is None:
        return TOO_LARGE
    return next((row.why for row in LEFT_OUT if not (slow and row.slow) and row.fits(layer, target)), "")


# ---- the bytes that an engine moves ----------------------------------------------------------------------------------


class Traffic:
    """The bytes that TensorRT-RTX moves for the layers of a model, by which of them compute in int8.

    Its kernels, as the plans of engines by TensorRT-RTX 1.7.1 show them (27 November 2026):

    a layer in fp32   reads fp32, computes what is elementwise after it, and writes fp32.
    a layer in int8   reads int8 and writes fp32; the next kernel reads that, computes what is elementwise, and writes
                      fp32 or int8, or both.
    QuantizeLinear    is a kernel of its own after a layer in fp32, and part of any other kernel.

    weights alone     are read as int8, and the results are written and read as those of a layer in int8.

    wide   the bytes of a number that is not int8: 2 where the rest of the model is in half precision
    alone  the layers whose weights may be int8 while the activation is not
    """

    def __init__(
        self, found: list[Layer], model: Model, sizes: Sizes, wide: int = 4, alone: Collection[Node] = ()
    ) -> None:
        self.layers, self.model, self.sizes, self.wide, self.alone = found, model, sizes, wide, alone
        self.at = {layer.node: layer for layer in found}
        self.stored: dict[Layer, list[Value]] = {}
        self._makers: dict[Value, set[Node | None]] = {}
        for layer in found:
            self.stored[layer] = list(_stored(layer.y))

    def chosen(self, able: set[Node]) -> set[Node]:
        """Those of the layers whose int8 saves bytes: the better end of two descents, from all of them and from none.

        A layer of unknown sizes is taken.
        """
        unsized = {n for n in able if not all(map(self.sizes, (self.at[n].x, self.at[n].y)))}
        free = sorted(able - unsized, key=lambda n: n.place)
        ends = [self._descended(set(start) | unsized, free) for start in (free, ())]
        return min(ends, key=self.total)

    def _descended(self, int8: set[Node], free: list[Node]) -> set[Node]:
        while True:
            gains = [(self.gain(node, int8), k) for k, node in enumerate(free)]
            best, k = max(gains, default=(0, 0))
            if best <= 0:
                return int8
            int8 ^= {free[k]}

    def gain(self, node: Node, int8: set[Node]) -> int:
        """The bytes that changing one layer saves."""
        layer, other = self.at[node], int8 ^ {node}
        near = dict.fromkeys([layer.x, *self.stored[layer]])
        return sum(self._tensor(t, int8) - self._tensor(t, other) for t in near) + (
            self._own(layer, int8) - self._own(layer, other)
        )

    def total(self, int8: set[Node]) -> int:
        """All bytes of the layers and of the tensors between them."""
        tensors = dict.fromkeys(t for layer in self.layers for t in (layer.x, *self.stored[layer]))
        return sum(self._tensor(t, int8) for t in tensors) + sum(self._own(layer, int8) for layer in self.layers)

    def _own(self, layer: Layer, int8: set[Node]) -> int:
        weights = math.prod(layer.sizes)
        if layer.node in int8:
            return weights + 2 * self.wide * (self.sizes(layer.y) or 0)
        return self.wide * weights - self.saved_alone(layer)

    def saved_alone(self, layer: Layer) -> int:
        """The bytes that int8 weights alone save next to floats; 0 where they save none."""
        if layer.node not in self.alone:
            return 0
        return max(0, (self.wide - 1) * math.prod(layer.sizes) - 2 * self.wide * (self.sizes(layer.y) or 0))

    def saved(self, int8: set[Node]) -> float:
        """The part that int8 in some layers, and weights alone in others, save of the bytes for all in floats."""
        every = self.total(set()) + sum(map(self.saved_alone, self.layers))
        return 1 - self.total(int8) / max(every, 1)

    def _tensor(self, tensor: Value, int8: set[Node]) -> int:
        """The bytes that are written and read of a tensor between two kernels."""
        size = self.sizes(tensor) or 0
        narrow = sum(user in int8 and self.at[user].x is tensor for user in tensor.users)
        added = any(user.op in RESIDUAL for user in tensor.users)
        wide = sum(not (user in int8 and self.at[user].x is tensor) for user in tensor.users if user.key not in FUSED)
        fused = any(user.key in FUSED and user.op not in RESIDUAL for user in tensor.users)
        apart = self._apart(tensor, int8)
        written = 1 if wide or fused or tensor.is_output or not narrow else apart
        read = narrow + added + 1 + self.wide * apart if narrow else self.wide * added
        return int(size * (self.wide * (written * bool(tensor.producer) + wide + fused) + read))

    def _apart(self, tensor: Value, int8: set[Node]) -> float:
        """The part of a tensor that a kernel of its own quantizes; of a Concat each input is quantized."""
        maker = tensor.producer
        if maker is not None and maker.op in ONE_SCALE:
            sizes = {v: self.sizes(v) or 0 for v in maker.inputs if v is not None}
            return sum(size * self._apart(v, int8) for v, size in sizes.items()) / max(sum(sizes.values()), 1)
        return any(m is None or (m.op in PRODUCTS and m not in int8) for m in self._made_by(tensor))

    def _made_by(self, tensor: Value) -> set[Node | None]:
        """The kernels that make a tensor: the nodes before what is elementwise; None for an input of the model."""
        if tensor not in self._makers:
            found = (v.producer for v in sources([tensor], _is_fused) if not self.model.is_constant(v))
            self._makers[tensor] = {node for node in found if node is None or not _is_fused(node)}
        return self._makers[tensor]


def _is_fused(node: Node) -> bool:
    """Whether it is part of the kernel that makes what it reads."""
    return node.key in FUSED or node.key in KEEP_ORDER


def _stored(value: Value) -> Iterator[Value]:
    """The tensors that are written after a layer: those that something else than its own kernel reads."""
    fused = [user for user, _ in readers([value], lambda node: node.key in FUSED) if user.key in FUSED]
    for made in dict.fromkeys([value, *(v for user in fused for v in user.outputs if v is not None)]):
        after = [user for user in made.users if user.key in FUSED]
        if made.is_output or len(after) < len(made.users) or any(u.op in RESIDUAL for u in after):
            yield made


# ---- placing ---------------------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """Which layers compute in int8, and why others do not, by node."""

    int8: list[Layer]
    left: dict[Node, str]

    def without(self, nodes: Collection[Node], why: str, traffic: Traffic | None = None) -> Placed:
        """Those nodes in floating point, too, and what saves no bytes next to them."""
        kept = {layer.node for layer in self.int8} - set(nodes)
        chosen = kept if traffic is None else traffic.chosen(kept)
        left = dict.fromkeys(nodes, why) | dict.fromkeys(kept - chosen, HEAVIER)
        return Placed([layer for layer in self.int8 if layer.node in chosen], self.left | left)


def traffic_of(model: Model, target: Target, sizes: Sizes, weights: Mapping[str, Weights]) -> Traffic | None:
    """What counts the bytes of a model without quantizers, whose file had these weights; None for other targets."""
    if not target.rtx:
        return None
    found = list(layers(model))
    products = [k for k in found if k.node.op in ALONE and not _is_turned(k.x)]
    alone = {k.node for k in products if _is_exact(k, weights.get(k.weights.name), model)}
    return Traffic(found, model, sizes, alone=alone)


def _is_turned(value: Value) -> bool:
    """Whether a Transpose makes it: after a Conv, TensorRT-RTX 1.7.1 then dequantizes the weights at each run."""
    makers = (v.producer for v in sources([value], lambda node: node.key in KEEP_ORDER))
    return any(node is not None and node.op == "Transpose" for node in makers)


def _is_exact(layer: Layer, held: Weights | None, model: Model) -> bool:
    """Whether int8 holds the weights with one scale, or with factors of the results."""
    if held is None or not held.fits:
        return False
    bias = layer.node.input_at(2)
    return held.scale.size == 1 or (held.axis == layer.channels and (bias is None or model.is_constant(bias)))


def placed(model: Model, target: Target, traffic: Traffic | None, is_known: Callable[[Layer], bool]) -> Placed:
    """The layers of a model without quantizers that are to compute in int8.

    traffic   for what a target is measured to run worse
    is_known  whether the range of a layer's activation is known
    """
    found = list(layers(model))
    left = {layer.node: left_out(layer, model, target) for layer in found}
    unknown = "the range of its input is not known"
    left |= {layer.node: unknown for layer in found if not left[layer.node] and not is_known(layer)}
    able = Placed([k for k in found if not left[k.node]], {node: why for node, why in left.items() if why})
    return able.without((), "", traffic)


def followed(tensors: Iterable[Value], grids: dict[str, Grid]) -> dict[str, str]:
    """Add the ranges of what only moves numbers; returns, by name, the tensor that each has its range of.

    A Concat has the largest range of its inputs. The tensors are in the order of the model.
    """
    found: dict[str, str] = {}
    for value in tensors:
        node = value.producer
        if node is None or value.name in grids or node.op not in TRANSPARENT | ONE_SCALE:
            continue
        read = node.inputs if node.op in ONE_SCALE else node.inputs[:1]
        known = [v.name for v in read if v is not None and v.name in grids]
        if len(known) == len(read):
            found[value.name] = max(known, key=lambda name: grids[name].step)
            grids[value.name] = grids[found[value.name]]
    return found


def channel_scales(weights: np.ndarray, axis: int, levels: int = LEVELS) -> np.ndarray:
    """The scale of each channel that holds its weights in that many levels; 1 for a channel of zeros."""
    others = tuple(a for a in range(weights.ndim) if a != axis)
    top = np.asarray(np.abs(weights).max(axis=others), np.float32)
    return np.asarray(np.where(top > 0, top / levels, 1), np.float32)
