"""DynamicQuantizeLSTM: an LSTM whose input, and whose state at each step, is quantized by its own range."""

from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

from surgeon import Builder, Value, require

from .._arithmetic import EXACT
from .._copy import copied
from .table import FLOAT, asks_for, body, in_place, known

GATES = 4
HALF = 16  # integers are taken apart into 16 * upper + lower where their sums may pass what fp32 holds
FLAT = ("forward", "reverse", "bidirectional")


@body("DynamicQuantizeLSTM")
def lstm(b, x, w, r, bias, lengths, first_h, first_c, peepholes, *scales):
    attr = b.root.attr
    require(lengths is None, "its samples are of different lengths")
    require(peepholes is None, "it has peepholes")
    require(not attr("clip") and not attr("input_forget"), "it clips, or couples its gates")
    require(b.opset >= 11, "before opset 11 there is no Round")
    require(not attr("activations"), "it names its activations")
    direction = attr("direction") or "forward"
    require(direction in FLAT, f"{direction} is not a direction")
    weights, states = (known(b, v, "weight") for v in (w, r))
    factors = [known(b, v, "scale or zero point") for v in scales]
    directions, width = len(weights) if weights.ndim else 0, weights.shape[-1] if weights.ndim else 0
    fits = weights.ndim == states.ndim == 3 and states.shape == (directions, width // 4, width) and width % 4 == 0
    require(fits and directions == 1 + (direction == "bidirectional"), "its weights do not fit one another")
    counts = (directions, directions * width)
    fits = all(f.ndim and len(f) == directions and f.size in counts for f in factors)
    require(fits, "a scale or a zero point has no number for each direction")
    require(bias is None or b.shape(bias) == (directions, 2 * width), "its bias does not fit its weights")
    numbers, scale, zero = b.DynamicQuantizeLinear(x, outputs=3)
    results = []
    for k in range(len(weights)):
        w_scale, w_zero, r_scale, r_zero = (f[k].reshape(-1) for f in factors)
        total = b.MatMulInteger(numbers, weights[k], zero, _single(w_zero))
        gates = b.Mul(b.Cast(total, to=FLOAT), b.Mul(scale, _single(w_scale)))
        start = [_state(b, v, k, x, states.shape[1]) for v in (first_h, first_c)]
        shift = _bias(b, bias, k, weights.shape[2])
        backwards = direction == "reverse" or k == 1
        tensors = {"x": gates, "h0": start[0], "c0": start[1]}
        scan = _step(states[k], _single(r_zero), _single(r_scale), shift, backwards)
        copied(b, [scan], tensors)
        results.append([tensors[name] for name in ("h", "c", "y")])
    h, c, y = ([row[k] for row in results] for k in range(3))
    whole = b.Concat(*(b.Unsqueeze(v, axes=[1]) for v in y), axis=1) if asks_for(b, 0) else None
    last = [b.Concat(*(b.Unsqueeze(v, axes=[0]) for v in part), axis=0) if asks_for(b, k) else None
            for k, part in ((1, h), (2, c))]  # fmt: skip
    return in_place(b, whole, *last)


def _single(array: np.ndarray) -> np.ndarray:
    """One number without a dimension; one for each column as it is."""
    return array.reshape(()) if array.size == 1 else array


def _state(b: Builder, first: Value | None, k: int, x: Value, hidden: int) -> Value:
    """The state of a direction before the first step: zeros where none is given."""
    if first is not None:
        return b.Gather(first, k, axis=0)
    shape = b.shape(x)
    batch = shape[1] if shape is not None else None
    if isinstance(batch, int):
        return b.constant(np.zeros((batch, hidden), np.float32))
    count = b.Slice(b.Shape(x), starts=[1], ends=[2], axes=[0])
    return b.Expand(np.zeros((1, 1), np.float32), b.Concat(count, [hidden], axis=0))


def _bias(b: Builder, bias: Value | None, k: int, width: int) -> np.ndarray:
    if bias is None:
        return np.zeros(width, np.float32)
    rows = known(b, bias, "bias")[k]
    total: np.ndarray = rows[:width] + rows[width:]
    return total


def _step(r: np.ndarray, zero: np.ndarray, scale: np.ndarray, bias: np.ndarray, backwards: bool) -> NodeProto:
    """A Scan over the steps: gates are in the order input, output, forget, cell."""
    nodes: list[NodeProto] = []
    tensors: list[str] = []

    def make(op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> list[str]:
        names = [f"n{len(nodes)}_{k}" for k in range(outputs)]
        nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names

    def constant(array: np.ndarray | np.generic) -> str:
        name = f"k{len(tensors)}"
        tensors.append(name)
        nodes.append(helper.make_node("Constant", [], [name], value=helper.make_tensor(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.tobytes(), raw=True)))  # fmt: skip
        return name

    whole_r = r.astype(np.float32) - zero.astype(np.float32)
    zero_, most = constant(np.float32(0)), constant(np.float32(255))
    low, high = (*make("ReduceMin", "h_in", keepdims=0), *make("ReduceMax", "h_in", keepdims=0))
    low, high = (*make("Min", low, zero_), *make("Relu", high))
    (spread,) = make("Div", *make("Sub", high, low), most)
    (h_scale,) = make("Where", *make("Equal", spread, zero_), constant(np.float32(1)), spread)
    (shift,) = make("Sub", zero_, *make("Div", low, h_scale))
    (h_zero,) = make("Round", *make("Clip", shift, zero_, most))
    (moved,) = make("Add", *make("Round", *make("Div", "h_in", h_scale)), h_zero)
    (numbers,) = make("Sub", *make("Clip", moved, zero_, most), h_zero)
    if 255 * np.abs(whole_r).sum(axis=0).max(initial=0) < EXACT:
        (total,) = make("MatMul", numbers, constant(whole_r))
    else:
        (upper,) = make("Floor", *make("Div", numbers, constant(np.float32(HALF))))
        (lower,) = make("Sub", numbers, *make("Mul", upper, constant(np.float32(HALF))))
        parts = [
            make("Cast", *make("MatMul", part, constant(whole_r)), to=TensorProto.INT32)[0] for part in (upper, lower)
        ]
        (total,) = make("Add", *make("Mul", parts[0], constant(np.int32(HALF))), parts[1])
        (total,) = make("Cast", total, to=TensorProto.FLOAT)
    (product,) = make("Mul", total, *make("Mul", h_scale, constant(scale)))
    (whole,) = make("Add", *make("Add", "x_in", product), constant(bias))
    size = r.shape[0]
    starts = [constant(np.array([k * size], np.int64)) for k in range(GATES + 1)]
    axis = constant(np.array([1], np.int64))
    i, o, f, g = (make("Slice", whole, starts[k], starts[k + 1], axis)[0] for k in range(GATES))
    i, o, f = (make("Sigmoid", gate)[0] for gate in (i, o, f))
    kept, new = make("Mul", f, "c_in"), make("Mul", i, *make("Tanh", g))
    nodes.append(helper.make_node("Add", [*kept, *new], ["c_out"]))
    nodes.append(helper.make_node("Mul", [o, *make("Tanh", "c_out")], ["h_out"]))
    nodes.append(helper.make_node("Identity", ["h_out"], ["y_out"]))
    widths = {"h": size, "c": size, "y": size, "x": GATES * size}
    infos, outs = (
        [helper.make_tensor_value_info(f"{name}_{way}", TensorProto.FLOAT, [None, widths[name]]) for name in names]
        for way, names in (("in", "hcx"), ("out", "hcy"))
    )
    graph: GraphProto = helper.make_graph(nodes, "step", infos, outs)
    way = [int(backwards)]
    return helper.make_node("Scan", ["h0", "c0", "x"], ["h", "c", "y"], num_scan_inputs=1, body=graph,
                            scan_input_directions=way, scan_output_directions=way)  # fmt: skip
