"""Quantize activations around zero, as TensorRT's int8 kernels do, where the user allows it: `--symmetric-int8`.

QuantizeLinear with a zero point     In int8 with a zero point of 0, and a scale that still holds the whole range. A Max
                                     or a Min before it keeps the end that the range had.
operators on its integers            On numbers, after a DequantizeLinear of its own: Reshape, Transpose, MaxPool, ..
QLinearConv, QLinearAdd, QGemm, ..   DequantizeLinear, Conv, Add or Gemm, QuantizeLinear.
other operators of com.microsoft     What the pass contrib makes of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, helper

from surgeon.errors import ModelError
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import Shapes
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, refill
from surgeon.ir.run import Runner, must_run
from surgeon.pipeline.options import Options
from surgeon.pipeline.prepared import Asked, Fresh, Prepared, Text, applied, fresh_name
from surgeon.pipeline.quantizers import LEVELS, Quantizer, array_of, grid_of, hold, quantizer_at
from surgeon.pipeline.run import Run
from surgeon.pipeline.source import Source
from surgeon.proof.cache import ProofCache
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import EVERYDAY
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import sizes_that_run
from surgeon.report import QUANTIZE, Applied

BY_AXIS = 13  # the opset from which DequantizeLinear takes a scale for each filter
MEASURED = EVERYDAY - {"zero"}  # one number again and again has no usual error
TIMES = 4  # so many times the error of the original's quantization is allowed: the steps are up to twice as wide
STEP = 1 / LEVELS  # and one step of the largest number, which an original may be off by and happens not to be


def prepare(asked: Asked) -> Prepared:
    """The model with activations quantized around zero.

    The new model is run next to the original and to one
    without those quantizers, on random inputs. Raises ModelError where it is farther from that than the original's own
    quantization explains, or cannot be run.
    """
    source, options = asked.source, asked.options
    made, first = standardized(source, options, asked.base, asked.known)
    found, left = _quantizers(Model(made))
    if not found:
        return Prepared(asked.model, [], [f"no activation became symmetric int8: {left or 'none has a zero point'}"])
    exact, before = copied(made), [Text.of(q.node) for q in found]
    _change(exact, _quantizers(Model(exact))[0], _unquantized)
    _change(made, found, _centred)
    errors = _measured(source, made, exact, options.shapes) if options.proves else None
    after = [Text.of(q.node) for q in found]
    record = applied("symmetric-int8", before, after, "the activations", error=errors and errors[1], strategy=QUANTIZE)
    return Prepared(made, [*first, record], [_said(len(found), errors), *([f"others stay: {left}"] if left else [])])


def standardized(
    source: ModelProto, options: Options, base: Path | None, known: ProofCache
) -> tuple[ModelProto, list[Applied]]:
    """The model with quantizers around ONNX's own operators of numbers, in place of operators of quantized numbers."""
    model = _with_numbers(source)
    passes = tuple(p for p in options.selected if p.standardizes)
    made, report = Run(Source(model, base), replace(options, selected=passes), known).result()
    return made, report.applied


def _said(count: int, errors: tuple[float, float] | None) -> str:
    carried = f"{count} activation{'s are' if count > 1 else ' is'} symmetric int8 now"
    if errors is None:
        return f"{carried}; what that changes was not measured"
    return (
        f"{carried}: on random inputs quantization changes the outputs by up to {errors[1]:.2g} of the largest number, "
        f"in the original by up to {errors[0]:.2g}"
    )


# ---- what is there ---------------------------------------------------------------------------------------------------


def _quantizers(model: Model) -> tuple[list[Quantizer], str]:
    """Those to move, and why others stay, of which the first is named."""
    found, left = [], []
    for node in model.graph.of(["QuantizeLinear"]):
        grid = grid_of(node, model)
        if grid is not None and grid[1].dtype == np.int8 and not grid[1]:  # around zero already
            continue
        why, quantizer = quantizer_at(node, model)
        if quantizer is not None:
            found.append(quantizer)
        else:
            left.append(f"{node.name or node.proto.output[0]} {why}")
    more = f", and {len(left) - 1} more" if len(left) > 1 else ""
    return found, left[0] + more if left else ""


# ---- what becomes of it ----------------------------------------------------------------------------------------------


class Product(NamedTuple):
    """An operator that multiplies quantized numbers: the positions of its inputs."""

    bias: int
    scale: int

    @property
    def zero(self) -> int:
        return self.scale + 1


# All begin with x, its scale and zero point, w, its scale and zero point.
PRODUCTS = {
    "QLinearConv": Product(bias=8, scale=6),
    "QLinearMatMul": Product(bias=8, scale=6),
    "com.microsoft::QGemm": Product(bias=6, scale=7),
}
# Each operand has a scale and a zero point after it, and so has the result.
PLAIN = {f"com.microsoft::QLinear{op}" for op in ("Add", "Mul", "AveragePool", "GlobalAveragePool")}


def _of_floats(node: Node) -> str:
    """The operator that computes the same of floats."""
    return node.op.removeprefix("QLinear").removeprefix("Q")


def _with_numbers(source: ModelProto) -> ModelProto:
    """A copy in which dequantized numbers are computed with, and quantized."""
    model = Model(copied(source))
    fresh = fresh_name(model.proto)
    written: list[NodeProto] = []
    for node in model.graph.live():
        product = PRODUCTS.get(node.key)
        if product is not None and _is_written(node, product, model):
            written.extend(_product(model, node, product, fresh))
        elif node.key in PLAIN and _is_plain(node, model):
            written.extend(_plain(model, node, fresh))
        else:
            written.append(node.proto)
    refill(model.proto.graph.node, written)
    return model.proto


def _is_written(node: Node, product: Product, model: Model) -> bool:
    """Whether all scales are constants, one of each activation; before opset 13 one of the weights, too."""
    given = [node.input_at(k) for k in (1, 2, 4, 5, product.bias, product.scale, product.zero)]
    if not all(model.constant(value) is not None for value in given if value is not None):
        return False
    by_channel = model.opset >= BY_AXIS and model.constant(node.input_at(3)) is not None
    single = [node.input_at(k) for k in ([1, product.scale] if by_channel else [1, 4, product.scale])]
    return all(array_of(model, value).size == 1 for value in single if value is not None)


def _scalar(model: Model, value: Value, fresh: Fresh) -> str:
    """One number without a dimension: a vector would be one for each channel."""
    return hold(model.proto, fresh(value.name, "scalar"), array_of(model, value).reshape(()))


def _product(model: Model, node: Node, product: Product, fresh: Fresh) -> Iterator[NodeProto]:
    x, x_scale, x_zero, w, w_scale, w_zero = node.inputs[:6]
    steps, weight_steps = array_of(model, x_scale), array_of(model, w_scale)
    op, stem = _of_floats(node), node.proto.output[0]
    bias, scale = node.input_at(product.bias), node.input_at(product.scale)

    def number(value: Value | None) -> str:
        if value is None:
            return ""
        array = array_of(model, value)
        return _scalar(model, value, fresh) if array.size == 1 and array.ndim else value.name

    axis: dict[str, Any] = {}
    shift = number(w_zero)
    if weight_steps.size > 1:
        last = array_of(model, w).ndim - 1
        columns = 0 if op == "Conv" or node.attrs.get("transB") else 1
        axis = {"axis": last if op == "MatMul" else columns}
        if w_zero is not None and array_of(model, w_zero).size == 1:
            each = np.full(weight_steps.shape, array_of(model, w_zero).reshape(()))
            shift = hold(model.proto, fresh(w_zero.name, "each"), each)
    a, b = fresh(stem, "x"), fresh(stem, "w")
    yield helper.make_node("DequantizeLinear", [_name(x), number(x_scale), number(x_zero)], [a], name=a)
    yield helper.make_node("DequantizeLinear", [_name(w), number(w_scale), shift], [b], name=b, **axis)
    inputs = [a, b]
    if bias is not None:
        step = steps.astype(np.float32).reshape(()) * weight_steps.astype(np.float32).reshape(-1)
        step *= np.float32(node.attrs.get("alpha", 1.0))
        shifts = (array_of(model, bias) * step).astype(steps.dtype)
        inputs.append(hold(model.proto, fresh(stem, "bias"), shifts))
    y = stem if scale is None else fresh(stem, "numbers")
    multiplied = helper.make_node(op, inputs, [y], name=node.name or y)
    multiplied.attribute.extend(node.proto.attribute)
    yield multiplied
    if scale is not None:
        grid = [number(scale), number(node.input_at(product.zero))]
        yield helper.make_node("QuantizeLinear", [y, *grid], [stem], name=fresh(stem, "quantize"))


def _name(value: Value | None) -> str:
    return "" if value is None else value.name


def _is_plain(node: Node, model: Model) -> bool:
    """Whether each operand and the result has one constant scale and one zero point."""
    grids = [*(value for k, value in enumerate(node.inputs[:-2]) if k % 3), *node.inputs[-2:]]
    return all(array_of(model, value).size == 1 for value in grids) and not node.attrs.get("channels_last")


def _plain(model: Model, node: Node, fresh: Fresh) -> Iterator[NodeProto]:
    stem, given, grid = node.proto.output[0], node.inputs[:-2], node.inputs[-2:]

    def numbers(values: Sequence[Value | None]) -> list[str]:
        return [_scalar(model, value, fresh) for value in values if value is not None]

    operands = []
    for k in range(0, len(given), 3):
        operands.append(fresh(stem, "operand"))
        dequantized = [_name(given[k]), *numbers(given[k + 1 : k + 3])]
        yield helper.make_node("DequantizeLinear", dequantized, operands[-1:], name=operands[-1])
    y = fresh(stem, "numbers")
    computed = helper.make_node(_of_floats(node), operands, [y], name=node.name or y)
    computed.attribute.extend(a for a in node.proto.attribute if a.name != "channels_last")
    yield computed
    yield helper.make_node("QuantizeLinear", [y, *numbers(grid)], [stem], name=fresh(stem, "quantize"))


Around = tuple[list[NodeProto], list[NodeProto]]  # the nodes that a quantizer gets before and after


def _change(
    model: ModelProto, quantizers: Sequence[Quantizer], how: Callable[[ModelProto, Quantizer, Fresh], Around]
) -> None:
    """Change each quantizer, and what is read after it."""
    graph, fresh = model.graph, fresh_name(model)
    around = {q.node.output[0]: how(model, q, fresh) for q in quantizers}
    nodes = []
    for node in graph.node:
        front, behind = around.get(node.output[0] if node.output else "", ([], []))
        nodes += [*front, node, *behind]
    other_types = {name for q in quantizers for node in (q.node, *q.moves) for name in node.output}
    refill(graph.node, nodes)
    refill(graph.value_info, [info for info in graph.value_info if info.name not in other_types])


def _centred(model: ModelProto, quantizer: Quantizer, fresh: Fresh) -> Around:
    """Give a quantizer int8 around zero, and have what moved its integers move numbers."""
    node, (low, high) = quantizer.node, quantizer.range
    stem, dtype = node.output[0], quantizer.scale.dtype
    scale = hold(model, fresh(stem, "scale"), np.array(max(-low, high) / LEVELS, dtype))
    grid = [scale, hold(model, fresh(stem, "zero"), np.zeros((), np.int8))]
    front, behind = [], []
    if -low != high:
        bound = hold(model, fresh(stem, "end"), np.array(low if -low < high else high, dtype))
        kept = fresh(stem, "kept")
        front = [helper.make_node("Max" if -low < high else "Min", [node.input[0], bound], [kept], name=kept)]
        node.input[0] = kept
    node.input[:] = [node.input[0], *grid]
    refill(node.attribute, [a for a in node.attribute if a.name != "output_dtype"])
    moved = fresh(stem, "numbers")
    if quantizer.moves:
        behind = [helper.make_node("DequantizeLinear", [stem, *grid], [moved], name=moved)]
    for end in quantizer.ends:
        if end.input[0] == stem:
            end.input[:] = [stem, *grid]
        else:
            _become(end, "Identity", end.input[:1])
    for move in quantizer.moves:
        move.input[0] = moved if move.input[0] == stem else move.input[0]
    return front, behind


def _unquantized(model: ModelProto, quantizer: Quantizer, fresh: Fresh) -> Around:
    """Have a quantizer bound its numbers to its range, and round nothing."""
    node, ends = quantizer.node, quantizer.range
    stem, kept = node.output[0], fresh(node.output[0], "kept")
    low, high = (hold(model, fresh(stem, "end"), np.array(end, quantizer.scale.dtype)) for end in ends)
    front = helper.make_node("Max", [node.input[0], low], [kept], name=kept)
    _become(node, "Min", [kept, high])
    for end in quantizer.ends:
        _become(end, "Identity", end.input[:1])
    return [front], []


def _become(node: NodeProto, op: str, inputs: Sequence[str]) -> None:
    node.op_type, node.input[:] = op, list(inputs)
    del node.attribute[:]


# ---- by how much that changes the outputs ----------------------------------------------------------------------------


def _measured(before: ModelProto, after: ModelProto, exact: ModelProto, shapes: Shapes) -> tuple[float, float]:
    """How far the original and the new model are from the numbers without quantization, as a part of the largest.

    Raises ModelError where the new one is too far.
    """
    old_worst = new_worst = 0.0
    with must_run("what symmetric int8 changes cannot be measured: ONNX Runtime does not run it"):
        old, new, free = Runner(before), Runner(after), Runner(exact)
        sized = sizes_that_run(before, old.run, shapes=shapes)
        for kind, feeds in valid_feeds(before, sized):
            if kind not in MEASURED:
                continue
            results = zip(old.run(feeds), new.run(feeds), free.run(feeds), strict=True)
            for info, (was, now, ideal) in zip(before.graph.output, results, strict=True):
                _check(f"the output '{info.name}' on {kind} inputs", was, now, ideal)
                old_worst = max(old_worst, _largest(was, ideal))
                new_worst = max(new_worst, _largest(now, ideal))
    return old_worst, new_worst


def _check(what: str, was: np.ndarray, now: np.ndarray, ideal: np.ndarray) -> None:
    if now.shape != ideal.shape:
        raise ModelError(f"symmetric int8 changes the sizes of {what}: {now.shape}, not {ideal.shape}")
    error, allowed = _usual(now, ideal), TIMES * _usual(was, ideal) + STEP
    if not error <= allowed:
        raise ModelError(
            f"symmetric int8 changes {what} by more than quantization explains: {error:.2g} of the largest number, "
            f"where {allowed:.2g} were allowed"
        )


def _usual(found: np.ndarray, ideal: np.ndarray) -> float:
    """The root of the mean square of the differences, as a part of the largest number."""
    return _part(found, ideal, lambda far: float(np.sqrt(np.mean(far**2))))


def _largest(found: np.ndarray, ideal: np.ndarray) -> float:
    return _part(found, ideal, lambda far: float(far.max()))


def _part(found: np.ndarray, ideal: np.ndarray, of: Callable[[np.ndarray], float]) -> float:
    """Of integers that are not quantized numbers, such as labels: 1 where they differ."""
    if not ideal.size or ideal.dtype.kind not in "fiub":
        return 0.0
    if not is_float(ideal.dtype) and ideal.dtype.itemsize > 1:
        return of((found != ideal).astype(float))
    wide = ideal.astype(np.float64)
    finite = np.isfinite(wide)
    top = float(np.abs(wide[finite]).max(initial=0)) or 1.0
    return of(np.abs(found.astype(np.float64) - wide)[finite] / top) if finite.any() else 0.0
