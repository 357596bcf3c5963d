"""Nodes for `benchmarks/verdict.py`: valid ones of every operator, drawn from ONNX's own schemas.

A recipe draws shapes that fit each other, and the attributes and inputs that must fit them. Everything else, from types
to the other attributes, is drawn from the schema of the opset. What may be an attribute or an input goes where the
schema has it. This file is long because each operator has its recipe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper
from verdict_changes import change

OPSETS = range(7, 26)
FLOAT, HALF, INT32, INT64, BOOL = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.BOOL,
)
NAMED = {f"tensor({name.lower()})": number for name, number in TensorProto.DataType.items()}
USUAL = (FLOAT, FLOAT, FLOAT, FLOAT, HALF, INT32, INT64, BOOL)
STRINGS = {  # attribute -> its values, where the schema does not list them
    "auto_pad": ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "direction": ("forward", "reverse", "bidirectional"),
    "approximate": ("none", "tanh"),
    "mode": ("constant", "reflect", "edge", "wrap"),
    "reduction": ("none", "add", "mul", "max", "min"),
}
NEVER = {"consumed_inputs", "kernel_shape", "axis", "axes", "output_shape", "auto_pad", "stash_type"}


class Unfit(Exception):
    """The operator has no such node at this opset: another one is drawn."""


@dataclass
class Net:
    """A model that grows around one node."""

    r: Random
    opset: int
    inputs: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    names: int = 0

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def chance(self, part: float) -> bool:
        return self.r.random() < part

    def size(self) -> int:
        return self.r.choice((1, 2, 2, 3, 4, 5)) if self.r.random() > 0.008 else 0

    def shape(self, low: int = 0, high: int = 6) -> list[int]:
        return [
            self.size()
            for _ in range(self.r.choice([n for n in (0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 6) if low <= n <= high]))
        ]

    def numbers(self, shape: list[int], dtype: int) -> np.ndarray:
        draw = np.random.default_rng(self.r.getrandbits(32))
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        if dtype == BOOL:
            return draw.random(shape) < 0.5
        if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16):
            return np.asarray(draw.normal(size=shape)).astype(kind)
        return np.asarray(draw.integers(0 if "u" in np.dtype(kind).name[:1] else -4, 8, size=shape)).astype(kind)

    def given(self, value: np.ndarray, constant: float = 0.0) -> str:
        """A tensor of this value: an input, an initializer, a Constant or what a neighbour makes."""
        dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
        name = self.fresh("t")
        if self.chance(constant):
            tensor = numpy_helper.from_array(value, name)
            if self.chance(0.7):
                self.weights.append(tensor)
            else:
                self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
            return name
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(value.shape)))
        self.feeds[name] = value
        if not self.chance(0.25):
            return name
        made = self.fresh("t")
        self.nodes.append(
            helper.make_node(
                "Identity" if dtype != FLOAT else self.r.choice(["Neg", "Relu", "Identity", "Sigmoid"]), [name], [made]
            )
        )
        return made


Drawn = dict[str, Any]
Recipe = Callable[[Net, "Drawing"], None]


@dataclass
class Drawing:
    """One node while it is drawn: what is at each input and attribute of its schema."""

    net: Net
    schema: defs.OpSchema
    types: dict[str, int] = field(default_factory=dict)
    at: dict[str, str] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    more: list[str] = field(default_factory=list)
    outputs: int = 1

    def dtype(self, formal: str) -> int:
        """The type of an input, the same for all that share a type variable."""
        spec = next(i for i in self.schema.inputs if i.name == formal)
        if spec.type_str in self.types:
            return self.types[spec.type_str]
        allowed = [
            NAMED[t]
            for t in sorted(spec.types)
            if t in NAMED and t not in ("tensor(string)", "tensor(complex64)", "tensor(complex128)")
        ]
        usual = [t for t in USUAL if t in allowed]
        if not allowed:
            raise Unfit
        drawn = self.net.r.choice(usual if usual and not self.net.chance(0.2) else allowed)
        self.types[spec.type_str] = drawn
        return drawn

    def has(self, name: str) -> bool:
        return any(i.name == name for i in self.schema.inputs)

    def put(self, formal: str, shape: list[int], constant: float = 0.15, value: Any = None) -> None:
        """An input by its name in the schema."""
        if not self.has(formal):
            raise Unfit
        dtype = self.dtype(formal)
        if value is None:
            array = self.net.numbers(shape, dtype)
        else:
            array = np.asarray(value).astype(helper.tensor_dtype_to_np_dtype(dtype)).reshape(shape)
        self.at[formal] = self.net.given(array, constant)

    def first(self, shape: list[int], constant: float = 0.1) -> None:
        self.put(self.schema.inputs[0].name, shape, constant)

    def either(self, name: str, values: list[int], constant: float = 0.85, scalar: bool = False) -> None:
        """An attribute, or the input of that name, where the schema has it."""
        if name in self.schema.attributes:
            self.attrs[name] = values[0] if scalar else values
        elif self.has(name):
            self.put(name, [] if scalar else [len(values)], constant, values)

    def known(self, name: str) -> bool:
        return name in self.schema.attributes


# ---- recipes ---------------------------------------------------------------------------------------------------------


def elementwise(net: Net, d: Drawing) -> None:
    d.first(net.shape())


def broadcast(net: Net, d: Drawing) -> None:
    shape = net.shape()
    for spec in (
        d.schema.inputs[:2] if d.schema.inputs[0].option != defs.OpSchema.FormalParameterOption.Variadic else ()
    ):
        part = shape[net.r.randrange(len(shape) + 1) :] if net.chance(0.4) else shape
        d.put(spec.name, [1 if net.chance(0.2) else s for s in part], 0.3)
    if d.schema.name in ("Div", "Mod"):  # what 0 divides is anybody's
        for name in ("A", "B"):
            _without_zero(net, d.at[name])
    if d.schema.name == "Mod" and d.dtype("A") in (FLOAT, HALF, TensorProto.DOUBLE, TensorProto.BFLOAT16):
        d.attrs["fmod"] = 1


def _without_zero(net: Net, name: str) -> None:
    """1 for each 0 of a tensor that is given."""
    for place, tensor in enumerate(net.weights):
        if tensor.name == name:
            value = numpy_helper.to_array(tensor)
            net.weights[place] = numpy_helper.from_array(np.where(value == 0, np.ones_like(value), value), name)
    if name in net.feeds:
        value = net.feeds[name]
        net.feeds[name] = np.where(value == 0, np.ones_like(value), value)


def variadic(net: Net, d: Drawing) -> None:
    shape, formal = net.shape(), d.schema.inputs[0].name
    for _ in range(net.r.choice((1, 2, 2, 3))):
        part = shape[net.r.randrange(len(shape) + 1) :] if net.chance(0.3) else shape
        dtype = d.dtype(formal)
        d.more.append(net.given(net.numbers([1 if net.chance(0.2) else s for s in part], dtype), 0.2))


def where(net: Net, d: Drawing) -> None:
    shape = net.shape()
    for spec in d.schema.inputs:
        d.put(spec.name, shape[net.r.randrange(len(shape) + 1) :] if net.chance(0.3) else shape, 0.2)


def prelu(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    d.put("X", shape)
    d.put("slope", [1 if net.chance(0.4) else s for s in shape[net.r.randrange(len(shape)) :]], 0.8)


def axis_of(net: Net, rank: int, extra: int = 0) -> int:
    return net.r.randrange(-rank, rank + extra) if rank else 0


def over_axis(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    d.first(shape)
    if net.chance(0.75):
        d.attrs["axis"] = axis_of(net, len(shape))


def flatten(net: Net, d: Drawing) -> None:
    shape = net.shape(0)
    d.first(shape)
    if net.chance(0.7) or not shape:
        d.attrs["axis"] = net.r.randrange(0, len(shape) + 1)


def reduce(net: Net, d: Drawing) -> None:
    shape = net.shape(0)
    d.first(shape)
    if shape and net.chance(0.8):
        d.either(
            "axes",
            [
                a - len(shape) * net.chance(0.3)
                for a in sorted(net.r.sample(range(len(shape)), net.r.randint(1, len(shape))))
            ],
            0.9,
        )


def arg(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    d.first(shape)
    d.attrs["axis"] = axis_of(net, len(shape))


def top_k(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    d.first(shape)
    axis = axis_of(net, len(shape))
    d.attrs["axis"] = axis
    k = net.r.randint(1, shape[axis])
    d.attrs.update({"k": k}) if d.known("k") else d.put("K", [1], 0.8, [k])
    d.outputs = 2


def transpose(net: Net, d: Drawing) -> None:
    shape = net.shape()
    d.first(shape)
    if net.chance(0.8):
        d.attrs["perm"] = net.r.sample(range(len(shape)), len(shape))


def reshape(net: Net, d: Drawing) -> None:
    shape = net.shape()
    d.first(shape)
    total = math.prod(shape)
    to = net.r.choice(
        [[total], [1, total], [-1], [total, 1, 1], [-1, 1], shape[::-1], [0, -1] if shape else [1], [0] * len(shape)]
    )
    if d.known("allowzero") and 0 not in to and net.chance(0.3):
        d.attrs["allowzero"] = 1
    d.put("shape", [len(to)], 0.85, to)


def squeeze(net: Net, d: Drawing) -> None:
    shape = [1 if net.chance(0.4) else s for s in net.shape(1)]
    d.first(shape)
    ones = [i for i, s in enumerate(shape) if s == 1]
    if ones and net.chance(0.8):
        d.either("axes", sorted(net.r.sample(ones, net.r.randint(1, len(ones)))), 0.9)


def unsqueeze(net: Net, d: Drawing) -> None:
    shape = net.shape(0, 4)
    d.first(shape)
    count = net.r.randint(1, 2)
    axes = net.r.sample(range(len(shape) + count), count)
    d.either("axes", [a - (len(shape) + count) * net.chance(0.2) for a in axes], 0.9)


def concat(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    axis = axis_of(net, len(shape))
    d.attrs["axis"] = axis
    for _ in range(net.r.randint(1, 3)):
        part = list(shape)
        part[axis] = net.size()
        d.more.append(net.given(net.numbers(part, d.dtype("inputs")), 0.2))


def split(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    axis = axis_of(net, len(shape))
    parts = [net.size() for _ in range(net.r.randint(1, 3))]
    if net.chance(0.4):
        parts = [parts[0]] * len(parts)
    shape[axis] = sum(parts)
    d.first(shape)
    d.attrs["axis"] = axis
    d.outputs = len(parts)
    if len(set(parts)) == 1 and net.chance(0.5):
        if d.known("num_outputs"):
            d.attrs["num_outputs"] = len(parts)
        return
    d.either("split", parts, 0.85)


def slices(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    d.first(shape)
    axes = net.r.sample(range(len(shape)), net.r.randint(1, len(shape)))
    starts = [net.r.randrange(-shape[a], shape[a]) for a in axes]
    ends = [net.r.choice([shape[a], 2**31 - 1, 2**63 - 1, -1, net.r.randint(0, shape[a])]) for a in axes]
    if d.known("starts"):
        d.attrs.update(starts=starts, ends=ends, axes=axes)
        return
    held = 0.85 if net.chance(0.8) else 0.0
    d.put("starts", [len(axes)], held, starts) if d.has("starts") else None
    d.types.setdefault("Tind", INT64)
    d.put("ends", [len(axes)], held, [min(e, 2**31 - 1) for e in ends] if d.types["Tind"] == INT32 else ends)
    if net.chance(0.9) or len(axes) < len(shape):
        d.put("axes", [len(axes)], 0.9, axes)
    if net.chance(0.5):
        d.put("steps", [len(axes)], held, [net.r.choice((1, 1, 2, -1)) for _ in axes])


def gather(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    axis = axis_of(net, len(shape))
    d.put("data", shape, 0.3)
    wanted = net.shape(0, 3)
    d.attrs["axis"] = axis
    index = np.random.default_rng(net.r.getrandbits(32)).integers(
        -shape[axis] if net.opset > 10 else 0, shape[axis], size=wanted
    )
    d.put("indices", wanted, 0.6, index)


def gather_elements(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    axis = axis_of(net, len(shape))
    d.attrs["axis"] = axis
    d.put("data", shape, 0.2)
    wanted = [net.r.randint(1, s) for s in shape]
    index = np.random.default_rng(net.r.getrandbits(32)).integers(0, shape[axis], size=wanted)
    d.put("indices", wanted, 0.5, index)
    if d.has("updates"):
        d.put("updates", wanted, 0.3)


def gather_nd(net: Net, d: Drawing) -> None:
    shape = net.shape(1, 4)
    d.put("data", shape, 0.2)
    batch = net.r.randint(0, len(shape) - 1) if d.known("batch_dims") and net.chance(0.3) else 0
    depth = net.r.randint(1, len(shape) - batch)
    if batch:
        d.attrs["batch_dims"] = batch
    wanted = [*shape[:batch], net.r.randint(1, 3), depth]
    draw = np.random.default_rng(net.r.getrandbits(32))
    index = np.stack([draw.integers(0, shape[batch + i], size=wanted[:-1]) for i in range(depth)], axis=-1)
    d.put("indices", wanted, 0.5, index)
    if d.has("updates"):
        d.put("updates", [*wanted[:-1], *shape[depth:]], 0.3)


def image(net: Net, low: int = 1, high: int = 3) -> tuple[list[int], int]:
    """[N, C, D1...] with sizes that windows fit into, and the number of the spatial dimensions."""
    spatial = net.r.choice([n for n in (1, 2, 2, 2, 3) if low <= n <= high])
    return [net.r.choice((1, 2)), net.r.choice((1, 2, 4)), *(net.r.randint(4, 8) for _ in range(spatial))], spatial


def window(net: Net, d: Drawing, spatial: int, kernel: list[int]) -> None:
    if net.chance(0.5):
        d.attrs["strides"] = [net.r.randint(1, 3) for _ in range(spatial)]
    if d.known("dilations") and net.chance(0.25):
        d.attrs["dilations"] = [net.r.choice((1, 1, 2)) for _ in range(spatial)]
    if net.chance(0.25):
        d.attrs["auto_pad"] = net.r.choice(STRINGS["auto_pad"])
    if net.chance(0.5) and d.attrs.get("auto_pad", "NOTSET") == "NOTSET":
        d.attrs["pads"] = [net.r.randint(0, max(kernel[i % spatial] - 1, 0)) for i in range(2 * spatial)]


def pool(net: Net, d: Drawing) -> None:
    shape, spatial = image(net)
    d.put("X", shape)
    kernel = [net.r.randint(1, 3) for _ in range(spatial)]
    d.attrs["kernel_shape"] = kernel
    window(net, d, spatial, kernel)
    if d.schema.name == "MaxPool" and net.chance(0.05):
        d.outputs = 2


def conv(net: Net, d: Drawing) -> None:
    shape, spatial = image(net)
    groups = net.r.choice([g for g in (1, 1, 2, 4) if shape[1] % g == 0])
    kernel = [net.r.randint(1, 3) for _ in range(spatial)]
    back = d.schema.name == "ConvTranspose"
    made = groups * net.r.randint(1, 2)
    d.put("X", shape)
    d.put("W", [shape[1], made // groups, *kernel] if back else [made, shape[1] // groups, *kernel], 0.85)
    if net.chance(0.5):
        d.put("B", [made], 0.85)
    if groups > 1 or net.chance(0.2):
        d.attrs["group"] = groups
    if net.chance(0.6):
        d.attrs["kernel_shape"] = kernel
    window(net, d, spatial, kernel)
    if back and net.chance(0.25):
        d.attrs["output_padding"] = [net.r.randrange(max(s, 1)) for s in d.attrs.get("strides", [1] * spatial)]
    elif back and net.chance(0.15):
        d.attrs["output_shape"] = [s * t for s, t in zip(shape[2:], d.attrs.get("strides", [1] * spatial), strict=True)]
        d.attrs.pop("pads", None)


def normalized(net: Net, d: Drawing) -> None:
    shape = net.shape(2)
    names = [i.name for i in d.schema.inputs]
    d.put(names[0], shape)
    for name in names[1:]:
        d.put(name, [shape[1]], 0.85, np.abs(np.random.default_rng(net.r.getrandbits(32)).normal(size=shape[1])) + 0.5)


def group_norm(net: Net, d: Drawing) -> None:
    shape, _ = image(net)
    groups = net.r.choice([g for g in (1, 2, 4) if shape[1] % g == 0])
    d.attrs["num_groups"] = groups
    d.put("X", shape)
    for name in ("scale", "bias"):
        d.put(name, [groups if net.opset < 21 else shape[1]], 0.85)


def layer_norm(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    axis = axis_of(net, len(shape))
    d.attrs["axis"] = axis
    names = [i.name for i in d.schema.inputs]
    d.put(names[0], shape)
    d.put(names[1], shape[axis:], 0.8)
    if len(names) > 2 and net.chance(0.7):
        d.put(names[2], shape[axis:], 0.8)
    if len(d.schema.outputs) > 1 and net.chance(0.05):
        d.outputs = net.r.randint(2, len(d.schema.outputs))


def matmul(net: Net, d: Drawing) -> None:
    n, k, m = net.size(), net.size(), net.size()
    batch = net.shape(0, 3)
    left, right = [*batch, n, k], [*batch, k, m]
    if net.chance(0.4):
        right = right[-2:]
    if net.chance(0.15):
        left = [k]
    if net.chance(0.15):
        right = [k]
    d.put("A", left, 0.1)
    d.put("B", right, 0.5)


def gemm(net: Net, d: Drawing) -> None:
    n, k, m = net.size(), net.size(), net.size()
    flip, turn = net.chance(0.3), net.chance(0.5)
    d.attrs.update({"transA": 1} if flip else {})
    d.attrs.update({"transB": 1} if turn else {})
    d.put("A", [k, n] if flip else [n, k])
    d.put("B", [m, k] if turn else [k, m], 0.7)
    if net.chance(0.7) or net.opset < 11:
        d.put("C", net.r.choice([[m], [1, m], [n, m], [1], [], [n, 1]]), 0.8)


def expand(net: Net, d: Drawing) -> None:
    shape = [1 if net.chance(0.4) else s for s in net.shape(0, 4)]
    wanted = [net.size() if s == 1 else s for s in shape]
    d.put("input", shape)
    wanted = net.shape(0, 1) + wanted
    d.put("shape", [len(wanted)], 0.85, wanted)


def tile(net: Net, d: Drawing) -> None:
    shape = net.shape(1, 4)
    d.put("input", shape)
    d.put("repeats", [len(shape)], 0.85, [net.r.randint(1, 3) for _ in shape])


def pad(net: Net, d: Drawing) -> None:
    shape = [s + 2 for s in net.shape(1, 4)]
    d.put("data", shape)
    mode = net.r.choice(STRINGS["mode"][: 4 if net.opset >= 19 else 3])
    if net.chance(0.8):
        d.attrs["mode"] = mode
    axes = (
        sorted(net.r.sample(range(len(shape)), net.r.randint(1, len(shape))))
        if d.has("axes") and net.chance(0.3)
        else []
    )
    count = len(axes or shape)
    d.either("pads", [net.r.choice((0, 0, 1, 2, -1 if net.chance(0.2) else 0)) for _ in range(2 * count)], 0.85)
    if d.has("constant_value") and net.chance(0.4):
        d.put("constant_value", [], 0.85)
    if axes:
        d.put("axes", [count], 0.85, axes)


def clip(net: Net, d: Drawing) -> None:
    d.first(net.shape())
    if d.known("min"):
        if net.chance(0.7):
            d.attrs.update(min=-0.5, max=0.5)
        return
    for name, value in (("min", -1), ("max", 2)):
        if net.chance(0.7):
            d.put(
                name,
                [],
                0.85,
                abs(value)
                if name == "max"
                else value
                * (
                    d.dtype("min")
                    not in (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
                ),
            )


def cast(net: Net, d: Drawing) -> None:
    d.first(net.shape(0, 4))
    allowed = [
        NAMED[t] for t in sorted(d.schema.outputs[0].types) if t in NAMED and "string" not in t and "complex" not in t
    ]
    usual = [t for t in USUAL if t in allowed]
    d.attrs["to"] = net.r.choice(usual if net.chance(0.8) else allowed)


def cast_like(net: Net, d: Drawing) -> None:
    d.first(net.shape(0, 4))
    d.put("target_type", [1], 0.5)


def resize(net: Net, d: Drawing) -> None:
    shape, spatial = image(net, 1, 3)
    factors = [1.0, 1.0, *(net.r.choice((0.5, 1.0, 1.5, 2.0, 3.0)) for _ in range(spatial))]
    sizes = [max(1, math.floor(s * f)) for s, f in zip(shape, factors, strict=True)]
    name = d.schema.inputs[0].name
    d.put(name, shape)
    modes = ("nearest", "linear") if net.opset < 11 else ("nearest", "nearest", "linear", "cubic")
    d.attrs["mode"] = net.r.choice(modes)
    if net.opset < 11:
        d.put("scales", [len(shape)], 0.9, factors)
        return
    for attribute, values in (
        (
            "coordinate_transformation_mode",
            (
                "half_pixel",
                "pytorch_half_pixel",
                "align_corners",
                "asymmetric",
                "half_pixel_symmetric" if net.opset >= 19 else "asymmetric",
                "tf_crop_and_resize" if net.chance(0.1) else "half_pixel",
                "tf_half_pixel_for_nn" if net.opset < 13 else "asymmetric",
            ),
        ),
        ("nearest_mode", ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    ):
        if net.chance(0.8):
            d.attrs[attribute] = net.r.choice(values)
    if net.opset < 13 or d.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        d.put("roi", [2 * len(shape)], 0.95, [0.0] * len(shape) + [1.0] * len(shape))
    if net.chance(0.5):
        d.put("scales", [len(shape)], 0.9, factors)
        return
    if net.opset < 13:
        d.put("scales", [0], 1.0, [])
    d.put("sizes", [len(shape)], 0.9, sizes)


def upsample(net: Net, d: Drawing) -> None:
    shape, spatial = image(net, 2, 2)
    factors = [1.0, 1.0, *(net.r.choice((1.0, 2.0, 3.0)) for _ in range(spatial))]
    d.put("X", shape)
    d.either("scales", factors, 0.95)
    d.attrs["mode"] = net.r.choice(("nearest", "linear"))


def depth(net: Net, d: Drawing) -> None:
    block = net.r.randint(1, 2)
    d.put("input", [net.size(), net.size() * block**2, net.size() * block, net.size() * block])
    d.attrs["blocksize"] = block


def global_pool(net: Net, d: Drawing) -> None:
    d.put("X", image(net)[0])


def recurrent(net: Net, d: Drawing) -> None:
    steps, batch, wide, hidden = net.size(), net.size(), net.size(), net.size()
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[d.schema.name]
    direction = net.r.choice(STRINGS["direction"])
    ways = 2 if direction == "bidirectional" else 1
    d.attrs["hidden_size"] = hidden
    if net.chance(0.7) or ways == 2:
        d.attrs["direction"] = direction
    held = 1.0 if net.chance(0.9) else 0.0
    d.put("X", [steps, batch, wide], 0.0)
    d.put("W", [ways, gates * hidden, wide], held)
    d.put("R", [ways, gates * hidden, hidden], held)
    if net.chance(0.6):
        d.put("B", [ways, 2 * gates * hidden], held)
    if net.chance(0.25):
        d.put("sequence_lens", [batch], 0.5, [net.r.randint(1, steps) for _ in range(batch)])
    if net.chance(0.4):
        d.put("initial_h", [ways, batch, hidden], 0.4)
    if d.has("initial_c") and net.chance(0.4):
        d.put("initial_c", [ways, batch, hidden], 0.4)
    if d.has("P") and net.chance(0.15):
        d.put("P", [ways, 3 * hidden], held)
    if net.chance(0.2):
        d.attrs["clip"] = 1.5
    if d.schema.name == "GRU" and net.chance(0.5):
        d.attrs["linear_before_reset"] = 1
    d.outputs = net.r.randint(1, len(d.schema.outputs))


def scaled(net: Net, d: Drawing) -> None:
    name = d.schema.name
    shape = net.shape(1, 4)
    x = d.schema.inputs[0].name
    axis = net.r.randrange(len(shape))
    per_axis = d.known("axis") and net.chance(0.3)
    if name == "QuantizeLinear":
        d.types["T2"] = d.types["T3"] = net.r.choice((TensorProto.INT8, TensorProto.INT8, TensorProto.UINT8))
    else:
        d.types[next(i.type_str for i in d.schema.inputs if i.name == x)] = net.r.choice(
            (
                TensorProto.INT8,
                TensorProto.INT8,
                TensorProto.UINT8,
                TensorProto.INT32 if net.chance(0.3) else TensorProto.INT8,
            )
        )
    zero = d.schema.inputs[2].name
    d.put(x, shape, 0.3)
    size = [shape[axis]] if per_axis else []
    if per_axis:
        d.attrs["axis"] = axis
    elif d.known("axis"):
        d.attrs["axis"] = 0
    d.put(d.schema.inputs[1].name, size, 0.9, np.full(size, net.r.choice((0.5, 0.25, 1.0))))
    if net.chance(0.7):
        d.put(zero, size, 0.95, np.full(size, 0 if net.chance(0.8) else 3))


def einsum(net: Net, d: Drawing) -> None:
    sizes = {c: net.size() for c in "bhijkBI"}
    equation = net.r.choice(
        (
            "ij,jk->ik",
            "bij,bjk->bik",
            "bhid,bhjd->bhij",
            "ij->ji",
            "ii->i",
            "i,j->ij",
            "bij->bi",
            "ij,jk,kb->ib",
            "...ij,...jk->...ik",
            "bij,kj",
            "BI,Ij->Bj",
            "ij,ij->",
        )
    )
    d.attrs["equation"] = equation
    sizes["d"] = net.size()
    for term in equation.split("->")[0].split(","):
        shape = [sizes[c] for c in term.replace("...", "b")]
        d.more.append(net.given(net.numbers(shape, d.dtype("Inputs")), 0.2))


def one_hot(net: Net, d: Drawing) -> None:
    d.put("indices", net.shape(0, 3), 0.1)
    d.types["T2"] = net.r.choice((INT64, INT64, INT32))
    d.put("depth", net.r.choice(([], [1])) if net.opset > 10 else [], 0.8, net.r.randint(2, 5))
    d.put("values", [2], 0.8)


def cum_sum(net: Net, d: Drawing) -> None:
    shape = net.shape(1)
    d.put("x", shape)
    d.put("axis", [], 0.9, axis_of(net, len(shape)))


def ranged(net: Net, d: Drawing) -> None:
    held = 0.8 if net.chance(0.7) else 0.0
    for name, value in (
        ("start", net.r.randint(-2, 2)),
        ("limit", net.r.randint(3, 9)),
        ("delta", net.r.randint(1, 3)),
    ):
        d.put(name, [], held, value)


def constant_of_shape(net: Net, d: Drawing) -> None:
    shape = net.shape()
    d.put("input", [len(shape)], 0.7, shape)
    if net.chance(0.7):
        dtype = net.r.choice(USUAL)
        d.attrs["value"] = numpy_helper.from_array(net.numbers([1], dtype))


def constant(net: Net, d: Drawing) -> None:
    allowed = [
        v for v in NAMED.values() if v not in (TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128)
    ]
    kind = net.r.choice(
        [
            a
            for a in (
                "value",
                "value",
                "value",
                "value_float",
                "value_floats",
                "value_int",
                "value_ints",
                "sparse_value",
            )
            if d.known(a)
        ]
    )
    dtype = net.r.choice(USUAL if net.chance(0.5) else [t for t in allowed if t <= 13 or t == 16])
    d.attrs[kind] = {
        "value": numpy_helper.from_array(net.numbers(net.shape(), dtype)),
        "value_float": 1.5,
        "value_floats": [1.5, 2.0],
        "value_int": 3,
        "value_ints": [1, 2, 3],
        "sparse_value": helper.make_sparse_tensor(
            helper.make_tensor("s", FLOAT, [2], [1.0, 2.0]), helper.make_tensor("i", INT64, [2], [0, 3]), [5]
        ),
    }[kind]


def random_values(net: Net, d: Drawing) -> None:
    if d.known("shape"):
        d.attrs["shape"] = net.shape(1)
    else:
        d.first(net.shape(1))


def windowed(net: Net, d: Drawing) -> None:
    d.put("size", [], 0.8, net.r.randint(2, 9))


def reverse_sequence(net: Net, d: Drawing) -> None:
    shape = net.shape(2)
    batch = net.r.randint(0, 1)
    if batch == 0 or net.chance(0.3):
        d.attrs.update(batch_axis=batch, time_axis=1 - batch)
    d.put("input", shape)
    d.put("sequence_lens", [shape[batch]], 0.4, [net.r.randint(1, shape[1 - batch]) for _ in range(shape[batch])])


def grid_sample(net: Net, d: Drawing) -> None:
    shape, spatial = image(net, 2, 3 if net.opset >= 20 else 2)
    d.put("X", shape)
    d.put("grid", [shape[0], *(net.size() for _ in range(spatial)), spatial], 0.2)
    modes = ("linear", "nearest", "cubic") if net.opset >= 20 else ("bilinear", "nearest", "bicubic")
    d.attrs["mode"] = net.r.choice(modes[: 2 if spatial == 3 else 3])


def attention(net: Net, d: Drawing) -> None:
    batch, heads, length, keys, wide = (
        1,
        net.r.choice((1, 2, 4)),
        net.size() + 1,
        net.size() + 1,
        net.r.choice((8, 16, 24, 40)),
    )
    if net.chance(0.3):
        d.types["T1"] = d.types["T2"] = HALF
    else:
        d.types["T1"] = d.types["T2"] = net.r.choice((FLOAT, HALF, TensorProto.BFLOAT16))
    if net.chance(0.4):
        d.attrs.update(q_num_heads=heads, kv_num_heads=heads)
        d.put("Q", [batch, length, heads * wide], 0)
        d.put("K", [batch, keys, heads * wide], 0)
        d.put("V", [batch, keys, heads * wide], 0)
    else:
        d.put("Q", [batch, heads, length, wide], 0)
        d.put("K", [batch, heads, keys, wide], 0)
        d.put("V", [batch, heads, keys, wide], 0)
    if net.chance(0.4):
        d.types["U"] = net.r.choice((BOOL, d.types["T1"]))
        d.put("attn_mask", [length, keys], 0.4)
    if net.chance(0.3):
        d.attrs["is_causal"] = 1


def rotary(net: Net, d: Drawing) -> None:
    batch, heads, length, wide = net.size(), net.size(), net.size(), net.r.choice((4, 8))
    d.put("X", [batch, heads, length, wide])
    positions = net.chance(0.5)
    table = [9, wide // 2] if positions else [batch, length, wide // 2]
    d.put("cos_cache", table, 0.5)
    d.put("sin_cache", table, 0.5)
    if positions:
        d.put("position_ids", [batch, length], 0.5, np.random.default_rng(1).integers(0, 9, size=[batch, length]))


def eye(net: Net, d: Drawing) -> None:
    d.put("input", net.shape(2, 2))
    if net.chance(0.5):
        d.attrs["dtype"] = net.r.choice((FLOAT, HALF, INT32, INT64, BOOL))


def trilu(net: Net, d: Drawing) -> None:
    d.put("input", net.shape(2))
    if net.chance(0.3):
        d.put("k", [], 0.9, net.r.randint(-1, 1))


def dropout(net: Net, d: Drawing) -> None:
    d.first(net.shape())
    d.outputs = 2 if net.chance(0.15) else 1


def anything(net: Net, d: Drawing) -> None:
    """Inputs of one shape, for an operator without a recipe."""
    shape = net.shape(0, 4)
    for spec in d.schema.inputs:
        if spec.option != defs.OpSchema.FormalParameterOption.Optional or net.chance(0.3):
            d.put(spec.name, shape if net.chance(0.8) else net.shape(0, 1), 0.3)


def stft(net: Net, d: Drawing) -> None:
    length, parts = net.r.randint(8, 16), net.r.choice(([], [1], [2]))
    frame = net.r.randint(2, 8)
    d.put("signal", [net.size(), length, *parts])
    d.types["T2"] = net.r.choice((INT64, INT32))
    d.put("frame_step", [], 0.9, net.r.randint(1, 4))
    if net.chance(0.5):
        d.put("window", [frame], 0.8)
    if net.chance(0.6) or "window" not in d.at:
        d.put("frame_length", [], 0.9, frame)
    if parts == [2]:
        d.attrs["onesided"] = 0


def tensor_scatter(net: Net, d: Drawing) -> None:
    batch, length, wide, steps = net.size(), net.r.randint(3, 6), net.size(), net.r.randint(1, 3)
    d.put("past_cache", [batch, length, wide])
    d.put("update", [batch, steps, wide])
    if net.chance(0.6):
        d.put("write_indices", [batch], 0.5, np.zeros(batch))
    d.attrs["axis"] = net.r.choice((1, -2))


def scan(net: Net, d: Drawing) -> None:
    """A Scan with a state, or without; forward or backward."""
    length, wide = net.r.randint(1, 4), net.size()
    state = net.chance(0.85)
    held = [net.given(net.numbers([wide], FLOAT))] if state else []
    d.more += [*held, net.given(net.numbers([length, wide], FLOAT))]
    float_ = helper.make_tensor_value_info
    inputs = [float_("e", FLOAT, [wide])]
    nodes = [helper.make_node("Neg", ["e"], ["p"])]
    outputs = [float_("p", FLOAT, [wide])]
    if state:
        inputs.insert(0, float_("s", FLOAT, [wide]))
        outputs.insert(0, float_("o", FLOAT, [wide]))
        nodes.append(helper.make_node("Add", ["s", "e"], ["o"]))
    d.attrs.update(num_scan_inputs=1, body=helper.make_graph(nodes, "body", inputs, outputs))
    for name in ("scan_input_directions", "scan_output_directions", "scan_input_axes"):
        if net.chance(0.15):
            d.attrs[name] = [net.r.randint(0, 1)]
    d.outputs = len(outputs)


def loop(net: Net, d: Drawing) -> None:
    """A Loop that has one tensor and returns another a time."""
    shape, count = net.shape(0, 3), net.r.randint(0, 3)
    trips = net.given(np.asarray(count, np.int64), 0.6) if net.chance(0.85) else ""
    go = net.given(np.asarray(True), 0.5) if net.chance(0.85) else ""
    d.more += [trips, go, net.given(net.numbers(shape, FLOAT))]
    kind, scans = helper.make_tensor_value_info, net.chance(0.4)
    nodes = [helper.make_node("Identity", ["c"], ["k"]), helper.make_node("Neg", ["s"], ["t"])]
    if not trips:
        net.weights.append(numpy_helper.from_array(np.asarray(2, np.int64), "two"))
        nodes[0] = helper.make_node("Less", ["i", "two"], ["k"])
    outputs = [kind("k", BOOL, []), kind("t", FLOAT, shape)]
    if scans:
        nodes.append(helper.make_node("Abs", ["s"], ["u"]))
        outputs.append(kind("u", FLOAT, shape))
    inputs = [kind("i", INT64, []), kind("c", BOOL, []), kind("s", FLOAT, shape)]
    d.attrs["body"] = helper.make_graph(nodes, "body", inputs, outputs)
    d.outputs = len(outputs) - 1


def branches(net: Net, d: Drawing) -> None:
    """An If whose branches return tensors of one shape, or of two."""
    shape = net.shape(0, 3)
    x, dtype = net.given(net.numbers(shape, FLOAT)), FLOAT
    d.more.append(net.given(np.asarray(net.chance(0.5)), 0.3))
    made = []
    for name in ("then_branch", "else_branch"):
        nodes = [helper.make_node(net.r.choice(("Neg", "Identity", "Relu")), [x], [f"{name}_y"])]
        if net.chance(0.15):
            nodes = [
                helper.make_node(
                    "Constant", [], [f"{name}_y"], value=numpy_helper.from_array(net.numbers(shape, dtype))
                )
            ]
        if net.chance(0.1):
            nodes = [helper.make_node("ReduceSum", [x], [f"{name}_y"], keepdims=net.r.randint(0, 1))]
        made.append(helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(f"{name}_y")]))
    d.attrs.update(then_branch=made[0], else_branch=made[1])


TABLE: tuple[tuple[str, Recipe], ...] = (
    ("And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual Add Sub Mul Div Pow Mod", broadcast),
    ("BitShift BitwiseAnd BitwiseOr", broadcast),
    ("Max Min Sum Mean", variadic),
    ("Softmax LogSoftmax Hardmax LpNormalization", over_axis),
    ("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean", reduce),
    ("ReduceMin ReduceProd ReduceSum ReduceSumSquare", reduce),
    ("AveragePool MaxPool LpPool", pool),
    ("GlobalAveragePool GlobalMaxPool GlobalLpPool MeanVarianceNormalization LRN", global_pool),
    ("Conv ConvTranspose", conv),
    ("InstanceNormalization BatchNormalization", normalized),
    ("LayerNormalization RMSNormalization", layer_norm),
    ("LSTM GRU RNN", recurrent),
    ("QuantizeLinear DequantizeLinear", scaled),
    ("RandomNormal RandomUniform RandomNormalLike RandomUniformLike", random_values),
    ("HannWindow HammingWindow BlackmanWindow", windowed),
    ("GatherElements Scatter ScatterElements", gather_elements),
    ("GatherND ScatterND", gather_nd),
    ("DepthToSpace SpaceToDepth", depth),
    ("ArgMax ArgMin", arg),
    ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu", elementwise),
    ("HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round", elementwise),
    ("Selu Shape Shrink Sigmoid Sign Sin Sinh Size Softplus Softsign Sqrt Swish Tan Tanh", elementwise),
    ("ThresholdedRelu BitwiseNot", elementwise),
    ("STFT", stft),
    ("TensorScatter", tensor_scatter),
    ("Scan", scan),
    ("Loop", loop),
    ("If", branches),
    ("Attention", attention),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("Clip", clip),
    ("Concat", concat),
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("CumSum", cum_sum),
    ("Dropout", dropout),
    ("Einsum", einsum),
    ("Expand", expand),
    ("EyeLike", eye),
    ("Flatten", flatten),
    ("Gather", gather),
    ("Gemm", gemm),
    ("GridSample", grid_sample),
    ("GroupNormalization", group_norm),
    ("MatMul", matmul),
    ("OneHot", one_hot),
    ("PRelu", prelu),
    ("Pad", pad),
    ("Range", ranged),
    ("Reshape", reshape),
    ("Resize", resize),
    ("ReverseSequence", reverse_sequence),
    ("RotaryEmbedding", rotary),
    ("Slice", slices),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("TopK", top_k),
    ("Transpose", transpose),
    ("Trilu", trilu),
    ("Unsqueeze", unsqueeze),
    ("Upsample", upsample),
    ("Where", where),
)
OTHERS = sorted(
    {s.name for s in defs.get_all_schemas() if s.domain == ""} - {op for ops, _ in TABLE for op in ops.split()}
)
RECIPES: dict[str, Recipe] = {op: recipe for operators, recipe in TABLE for op in operators.split()}


def others(net: Net, d: Drawing) -> None:
    """Attributes that the recipe left out, each with a small chance."""
    for name, spec in d.schema.attributes.items():
        if name in d.attrs or name in NEVER or not net.chance(0.15):
            continue
        kind = defs.OpSchema.AttrType
        if spec.type == kind.FLOAT:
            d.attrs[name] = net.r.choice((0.25, 0.5, 1.0, 2.0))
        elif spec.type == kind.INT and (spec.default_value.i in (0, 1) and spec.default_value.type == 2):
            d.attrs[name] = net.r.randint(0, 1)


def node_of(net: Net, op: str) -> tuple[Any, Drawing]:
    """A node of an operator at the net's opset; raises Unfit where it has none."""
    try:
        schema = defs.get_schema(op, net.opset, "")
    except Exception as error:
        raise Unfit from error
    if schema.deprecated:
        raise Unfit
    drawing = Drawing(net, schema)
    RECIPES.get(op, anything)(net, drawing)
    others(net, drawing)
    names = drawing.more or [drawing.at.get(i.name, "") for i in schema.inputs]
    while names and not names[-1]:
        names.pop()
    outputs = [net.fresh("y") for _ in range(drawing.outputs)]
    return helper.make_node(op, names, outputs, **drawing.attrs), drawing


def inside(net: Net, node: Any) -> list[Any]:
    """The node in the branch of an If, or in the body of a Loop of one iteration."""
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    made = [net.fresh("z") for _ in outputs]
    if net.chance(0.5):
        net.feeds["go"] = np.asarray(net.chance(0.5))
        net.inputs.append(helper.make_tensor_value_info("go", BOOL, []))
        twin = onnx.NodeProto()
        twin.CopyFrom(node)
        twin.output[:] = [f"{name}_" if name else "" for name in node.output]
        others_ = [helper.make_empty_tensor_value_info(name) for name in twin.output if name]
        then, other = helper.make_graph([node], "then", [], outputs), helper.make_graph([twin], "else", [], others_)
        return [helper.make_node("If", ["go"], made, then_branch=then, else_branch=other)]
    net.weights.append(numpy_helper.from_array(np.asarray(1, np.int64), "trips"))
    body = helper.make_graph(
        [node, helper.make_node("Identity", ["c"], ["d"])], "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("c", BOOL, [])],
        [helper.make_tensor_value_info("d", BOOL, []), *outputs])  # fmt: skip
    net.weights.append(numpy_helper.from_array(np.asarray(True), "yes"))
    return [helper.make_node("Loop", ["trips", "yes"], made, body=body)]


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]] | None:
    """A model around one node, and what to feed it; None where the draw fits no schema."""
    r = Random(seed)
    net = Net(r, r.choice(OPSETS))
    op = r.choice(sorted(RECIPES)) if r.random() < 0.95 else r.choice(OTHERS)
    try:
        node, _ = node_of(net, op)
        if net.chance(0.4) and not op.startswith("Random"):  # ONNX Runtime dies of bounds that cross
            change(net, node, defs.get_schema(op, net.opset, ""))
        nodes = [node] if net.chance(0.92) else inside(net, node)
    except (Unfit, KeyError, ValueError, OverflowError):
        return None
    last = nodes[-1]
    net.nodes += nodes
    outputs = [helper.make_empty_tensor_value_info(name) for name in last.output if name]
    graph = helper.make_graph(net.nodes, "g", net.inputs, outputs, net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", net.opset)], ir_version=10)
    if net.chance(0.15):
        _name_sizes(net, model)
    elif net.chance(0.01):
        _unrank(net, model)
    return model, net.feeds


def _unrank(net: Net, model: onnx.ModelProto) -> None:
    """An input of which no shape is said."""
    if model.graph.input:
        net.r.choice(list(model.graph.input)).type.tensor_type.ClearField("shape")


def _name_sizes(net: Net, model: onnx.ModelProto) -> None:
    """Symbolic sizes for some dimensions of the inputs, each its own name."""
    for info in model.graph.input:
        for number, dim in enumerate(info.type.tensor_type.shape.dim):
            if net.chance(0.4):
                dim.dim_param = f"{info.name}_{number}"
