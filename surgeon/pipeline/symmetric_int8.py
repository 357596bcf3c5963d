"""Quantize activations around zero, as TensorRT's int8 kernels do, where the user allows it: `--symmetric-int8`.

QuantizeLinear with a zero point     In int8 with a zero point of 0, and a scale that still holds the whole range. A Max
                                     or a Min in front keeps the end that the range had.
operators on its integers            On numbers, behind a DequantizeLinear of its own: Reshape, Transpose, MaxPool, ..
QLinearConv, QLinearAdd, QGemm, ..   DequantizeLinear, Conv, Add or Gemm, QuantizeLinear.
other operators of com.microsoft     What the pass contrib makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError
from surgeon.ir.files import with_weights
from surgeon.ir.operators import MOVES, OPERATORS
from surgeon.ir.protos import copied, names_read
from surgeon.ir.run import Runner, Unrunnable
from surgeon.pipeline.prepared import Asked, Prepared, Text, applied, fresh_name
from surgeon.pipeline.run import Run
from surgeon.pipeline.source import Source
from surgeon.proof.equality import is_float
from surgeon.proof.feeds import EVERYDAY
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import sizes_that_run, whole_pair
from surgeon.report import Applied

# Operators that hand integers of their first input on as they are.
HAND_ON = frozenset(op for op in MOVES if OPERATORS[op].elements == (0,)) | {"MaxPool"}
LEVELS = 127  # of int8 on each side of zero
BY_AXIS = 13  # the opset from which DequantizeLinear takes a scale for each filter
MEASURED = EVERYDAY - {"zero"}  # one number again and again has no usual error
TIMES = 4  # so many times the error of the original's quantization is allowed: the steps are up to twice as wide
STEP = 1 / LEVELS  # and one step of the largest number, which an original may be off by and happens not to be


class Quantizer(NamedTuple):
    """A QuantizeLinear to move: what it makes is dequantized in `ends`, some of it behind `moves`."""

    node: NodeProto
    scale: np.ndarray
    zero: np.ndarray
    moves: list[NodeProto]
    ends: list[NodeProto]

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the largest number that it holds."""
        limits, scale, zero = np.iinfo(self.zero.dtype), float(self.scale), int(self.zero)
        return (limits.min - zero) * scale, (limits.max - zero) * scale


def prepare(asked: Asked) -> Prepared:
    """The model with activations quantized around zero.

    The new model is run next to the original and to one
    without those quantizers, on drawn inputs. Raises ModelError where it is farther from that than the original's own
    quantization explains, or cannot be run.
    """
    model, options = asked.model, asked.options
    source = with_weights(model, asked.base)
    made, first = _standardized(_with_numbers(source), asked)
    found, left = _quantizers(made)
    if not found:
        return Prepared(model, [], [f"no activation became symmetric int8: {left or 'none has a zero point'}"])
    exact, before = copied(made), [Text.of(q.node) for q in found]
    _change(exact, _quantizers(exact)[0], _unquantized)
    _change(made, found, _centred)
    errors = _measured(source, made, exact, options.shapes) if options.proves else None
    after = [Text.of(q.node) for q in found]
    record = applied("symmetric-int8", before, after, "the activations", error=errors and errors[1])
    return Prepared(made, [*first, record], [_said(len(found), errors), *([f"others stay: {left}"] if left else [])])


def _standardized(model: ModelProto, asked: Asked) -> tuple[ModelProto, list[Applied]]:
    """The model with ONNX's own operators in place of ONNX Runtime's."""
    passes = tuple(p for p in asked.options.selected if p.standardizes)
    made, report = Run(Source(model, asked.base), replace(asked.options, selected=passes), asked.known).result()
    return made, report.applied


def _said(count: int, errors: tuple[float, float] | None) -> str:
    carried = f"{count} activation{'s are' if count > 1 else ' is'} symmetric int8 now"
    if errors is None:
        return f"{carried}; what that changes was not measured"
    return (
        f"{carried}: on drawn inputs quantization moves the outputs by up to {errors[1]:.2g} of the largest number, "
        f"and that of the original by up to {errors[0]:.2g}"
    )


# ---- what is there ---------------------------------------------------------------------------------------------------


def _constants(model: ModelProto) -> Mapping[str, np.ndarray]:
    """The weights, and what Constant nodes hold as a tensor."""
    given = {i.name for i in model.graph.input}
    found = {t.name: t for t in model.graph.initializer if t.name not in given}
    nodes = [n for n in model.graph.node if n.op_type == "Constant"]
    found |= {node.output[0]: a.t for node in nodes for a in node.attribute if a.name == "value"}
    return _Arrays(found)


class _Arrays(dict[str, np.ndarray]):
    """Tensors by name, each made an array when it is asked for."""

    def __init__(self, tensors: Mapping[str, TensorProto]) -> None:
        super().__init__()
        self._tensors = tensors

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __missing__(self, name: str) -> np.ndarray:
        self[name] = numpy_helper.to_array(self._tensors[name])
        return self[name]


def _quantizers(model: ModelProto) -> tuple[list[Quantizer], str]:
    """Those to move, and why others stay, of which the first is named."""
    graph, constants = model.graph, _constants(model)
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in dict.fromkeys(names_read(node)):
            readers.setdefault(name, []).append(node)
    outputs = {o.name for o in graph.output}
    found, left = [], []
    for node in graph.node:
        if node.domain or node.op_type != "QuantizeLinear":
            continue
        why, quantizer = _quantizer(node, readers, outputs, constants)
        if quantizer is not None:
            found.append(quantizer)
        elif why:
            left.append(f"{node.name or node.output[0]} {why}")
    more = f", and {len(left) - 1} more" if len(left) > 1 else ""
    return found, left[0] + more if left else ""


def _quantizer(
    node: NodeProto,
    readers: Mapping[str, list[NodeProto]],
    outputs: Collection[str],
    constants: Mapping[str, np.ndarray],
) -> tuple[str, Quantizer | None]:
    """(why it stays, the quantizer); neither where it is symmetric."""
    grid = _grid(node, constants)
    if grid is None:
        return "has a computed scale, one for each channel, or one of another type", None
    scale, zero = grid
    if zero.dtype == np.int8 and not zero:
        return "", None
    quantizer = Quantizer(node, scale, zero, [], [])
    todo = [node.output[0]]
    while todo:
        name = todo.pop()
        if name in outputs:
            return f"makes '{name}', an output of the model", None
        for reader in readers.get(name, ()):
            if reader.op_type == "DequantizeLinear" and reader.input[0] == name:
                if _grid(reader, constants) != (scale, zero):
                    return f"is dequantized with another scale by '{reader.name or reader.output[0]}'", None
                quantizer.ends.append(reader)
            elif reader.input[0] == name and _moves(reader):
                quantizer.moves.append(reader)
                todo += [made for made in reader.output if made]
            else:
                return f"is read by '{reader.name or reader.output[0]}', a {reader.op_type}", None
    return "", quantizer


def _moves(node: NodeProto) -> bool:
    """Whether it hands its first input on as it is."""
    given = {a.name: a.s for a in node.attribute}
    if node.op_type == "Resize" and not node.domain:
        crops = given.get("coordinate_transformation_mode") == b"tf_crop_and_resize"
        return given.get("mode", b"nearest") == b"nearest" and not crops
    return node.op_type in HAND_ON and not node.domain


def _grid(node: NodeProto, constants: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """The scale and the zero point of a quantizer, each one number; None for any other."""
    if len(node.input) < 2 or node.input[1] not in constants:
        return None
    shift = _input(node, 2)
    if shift and shift not in constants:
        return None
    scale, zero = constants[node.input[1]], constants[shift] if shift else np.uint8(0)
    if scale.size != 1 or zero.size != 1 or zero.dtype not in (np.uint8, np.int8) or not scale.reshape(()) > 0:
        return None
    return scale.reshape(()), zero.reshape(())


# ---- what becomes of it ----------------------------------------------------------------------------------------------


class Product(NamedTuple):
    """An operator that multiplies quantized numbers: its name without, and the places of its inputs."""

    op: str
    bias: int
    scale: int

    @property
    def zero(self) -> int:
        return self.scale + 1


# All begin with x, its scale and zero point, w, its scale and zero point.
PRODUCTS = {
    ("", "QLinearConv"): Product("Conv", bias=8, scale=6),
    ("", "QLinearMatMul"): Product("MatMul", bias=8, scale=6),
    ("com.microsoft", "QGemm"): Product("Gemm", bias=6, scale=7),
}
# Operators of com.microsoft without: each operand has a scale and a zero point behind it, and so has the result.
PLAIN = {
    "QLinearAdd": "Add",
    "QLinearMul": "Mul",
    "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
}


def _with_numbers(source: ModelProto) -> ModelProto:
    """A copy in which dequantized numbers are computed with, and quantized."""
    model = copied(source)
    constants, fresh = _constants(model), fresh_name(model)
    opset = next((o.version for o in model.opset_import if not o.domain), 1)
    written: list[NodeProto] = []
    for node in model.graph.node:
        product = PRODUCTS.get((node.domain, node.op_type))
        if product is not None and _is_written(node, product, constants, opset):
            written.extend(_product(model, node, product, constants, fresh))
        elif node.domain == "com.microsoft" and node.op_type in PLAIN and _is_plain(node, constants):
            written.extend(_plain(model, node, constants, fresh))
        else:
            written.append(node)
    del model.graph.node[:]
    model.graph.node.extend(written)
    return model


def _input(node: NodeProto, place: int) -> str:
    return node.input[place] if place < len(node.input) else ""


def _is_written(node: NodeProto, product: Product, constants: Mapping[str, np.ndarray], opset: int) -> bool:
    """Whether all scales are constants, one of each activation; before opset 13 one of the weights, too."""
    places = (1, 2, 4, 5, product.bias, product.scale, product.zero)
    if not all(name in constants for place in places if (name := _input(node, place))):
        return False
    single = [1, product.scale] if opset >= BY_AXIS and node.input[3] in constants else [1, 4, product.scale]
    return all(constants[name].size == 1 for place in single if (name := _input(node, place)))


def _product(
    model: ModelProto,
    node: NodeProto,
    product: Product,
    constants: Mapping[str, np.ndarray],
    fresh: Callable[[str, str], str],
) -> Iterator[NodeProto]:
    x, x_scale, x_zero, w, w_scale, w_zero = node.input[:6]
    stem, bias, scale = node.output[0], _input(node, product.bias), _input(node, product.scale)

    def number(name: str) -> str:
        """One number without a dimension: a vector would be one for each channel."""
        array = constants[name] if name else np.zeros(0)
        return _hold(model, fresh(name, "scalar"), array.reshape(())) if array.size == 1 and array.ndim else name

    attrs = {a.name: a for a in node.attribute}
    by_channel = constants[w_scale].size > 1
    columns = 0 if product.op == "Conv" or ("transB" in attrs and attrs["transB"].i) else 1
    axis: dict[str, Any] = {"axis": columns if product.op != "MatMul" else constants[w].ndim - 1} if by_channel else {}
    shift = number(w_zero)
    if by_channel and w_zero and constants[w_zero].size == 1:
        each = np.full(constants[w_scale].shape, constants[w_zero].reshape(()))
        shift = _hold(model, fresh(w_zero, "each"), each)
    a, b = fresh(stem, "x"), fresh(stem, "w")
    yield helper.make_node("DequantizeLinear", [x, number(x_scale), number(x_zero)], [a], name=a)
    yield helper.make_node("DequantizeLinear", [w, number(w_scale), shift], [b], name=b, **axis)
    inputs = [a, b]
    if bias:
        step = constants[x_scale].astype(np.float32).reshape(()) * constants[w_scale].astype(np.float32).reshape(-1)
        step *= np.float32(attrs["alpha"].f if "alpha" in attrs else 1.0)
        inputs.append(_hold(model, fresh(stem, "bias"), (constants[bias] * step).astype(constants[x_scale].dtype)))
    y = fresh(stem, "numbers") if scale else stem
    multiplied = helper.make_node(product.op, inputs, [y], name=node.name or y)
    multiplied.attribute.extend(node.attribute)
    yield multiplied
    if scale:
        grid = [number(scale), number(_input(node, product.zero))]
        yield helper.make_node("QuantizeLinear", [y, *grid], [stem], name=fresh(stem, "quantize"))


def _is_plain(node: NodeProto, constants: Mapping[str, np.ndarray]) -> bool:
    """Whether each operand and the result has one constant scale and one zero point."""
    grids = [*(name for k, name in enumerate(node.input[:-2]) if k % 3), *node.input[-2:]]
    one_each = all(name in constants and constants[name].size == 1 for name in grids)
    return one_each and not any(a.name == "channels_last" and a.i for a in node.attribute)


def _plain(
    model: ModelProto, node: NodeProto, constants: Mapping[str, np.ndarray], fresh: Callable[[str, str], str]
) -> Iterator[NodeProto]:
    stem, given, grid = node.output[0], list(node.input[:-2]), node.input[-2:]

    def numbers(names: Sequence[str]) -> list[str]:
        return [_hold(model, fresh(name, "scalar"), constants[name].reshape(())) for name in names]

    operands = []
    for k in range(0, len(given), 3):
        operands.append(fresh(stem, "operand"))
        dequantized = [given[k], *numbers(given[k + 1 : k + 3])]
        yield helper.make_node("DequantizeLinear", dequantized, operands[-1:], name=operands[-1])
    y = fresh(stem, "numbers")
    computed = helper.make_node(PLAIN[node.op_type], operands, [y], name=node.name or y)
    computed.attribute.extend(a for a in node.attribute if a.name != "channels_last")
    yield computed
    yield helper.make_node("QuantizeLinear", [y, *numbers(grid)], [stem], name=fresh(stem, "quantize"))


def _hold(model: ModelProto, name: str, array: np.ndarray) -> str:
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return name


class Around(NamedTuple):
    """The nodes that a quantizer gets in front and behind."""

    front: list[NodeProto]
    behind: list[NodeProto]


def _change(
    model: ModelProto,
    quantizers: Sequence[Quantizer],
    how: Callable[[ModelProto, Quantizer, Callable[[str, str], str]], Around],
) -> None:
    """Change each quantizer, and what is read behind it."""
    graph, fresh = model.graph, fresh_name(model)
    around = {q.node.output[0]: how(model, q, fresh) for q in quantizers}
    nodes = []
    for node in graph.node:
        front, behind = around.get(node.output[0] if node.output else "", Around([], []))
        nodes += [*front, node, *behind]
    other_types = {name for q in quantizers for node in (q.node, *q.moves) for name in node.output}
    infos = [info for info in graph.value_info if info.name not in other_types]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.value_info.extend(infos)


def _centred(model: ModelProto, quantizer: Quantizer, fresh: Callable[[str, str], str]) -> Around:
    """Give a quantizer int8 around zero, and have what moved its integers move numbers."""
    node, (low, high) = quantizer.node, quantizer.range
    stem, dtype = node.output[0], quantizer.scale.dtype
    scale = _hold(model, fresh(stem, "scale"), np.array(max(-low, high) / LEVELS, dtype))
    grid = [scale, _hold(model, fresh(stem, "zero"), np.zeros((), np.int8))]
    front, behind = [], []
    if -low != high:
        bound = _hold(model, fresh(stem, "end"), np.array(low if -low < high else high, dtype))
        kept = fresh(stem, "kept")
        front = [helper.make_node("Max" if -low < high else "Min", [node.input[0], bound], [kept], name=kept)]
        node.input[0] = kept
    node.input[:] = [node.input[0], *grid]
    _keep(node, lambda name: name != "output_dtype")
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
    return Around(front, behind)


def _unquantized(model: ModelProto, quantizer: Quantizer, fresh: Callable[[str, str], str]) -> Around:
    """Have a quantizer bound its numbers to its range, and round nothing."""
    node, ends = quantizer.node, quantizer.range
    stem, kept = node.output[0], fresh(node.output[0], "kept")
    low, high = (_hold(model, fresh(stem, "end"), np.array(end, quantizer.scale.dtype)) for end in ends)
    front = helper.make_node("Max", [node.input[0], low], [kept], name=kept)
    _become(node, "Min", [kept, high])
    for end in quantizer.ends:
        _become(end, "Identity", end.input[:1])
    return Around([front], [])


def _become(node: NodeProto, op: str, inputs: Sequence[str]) -> None:
    node.op_type, node.input[:] = op, list(inputs)
    _keep(node, lambda name: False)


def _keep(node: NodeProto, wanted: Callable[[str], bool]) -> None:
    """Take the attributes away whose names are not wanted."""
    kept = [a for a in node.attribute if wanted(a.name)]
    del node.attribute[:]
    node.attribute.extend(kept)


# ---- by how much that changes the outputs ----------------------------------------------------------------------------


def _measured(
    before: ModelProto, after: ModelProto, exact: ModelProto, shapes: Mapping[str, Sequence[int]]
) -> tuple[float, float]:
    """How far the original and the new model are from the numbers without quantization, as a part of the largest.

    Raises ModelError where the new one is too far.
    """
    old_worst = new_worst = 0.0
    try:
        old, new, free = Runner(before), Runner(after), Runner(exact)
        sized = sizes_that_run(whole_pair(before, before, shapes=shapes), old.run)
        for kind, feeds in valid_feeds(before, sized):
            if kind not in MEASURED:
                continue
            results = zip(old.run(feeds), new.run(feeds), free.run(feeds), strict=True)
            for info, (was, now, ideal) in zip(before.graph.output, results, strict=True):
                _check(f"the output '{info.name}' on {kind} inputs", was, now, ideal)
                old_worst = max(old_worst, _largest(was, ideal))
                new_worst = max(new_worst, _largest(now, ideal))
    except Unrunnable as error:
        raise ModelError(
            f"what symmetric int8 changes cannot be measured: ONNX Runtime does not run it: {error}"
        ) from None
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
    """Of integers that are no quantized numbers, such as labels: 1 where they differ."""
    if not ideal.size or ideal.dtype.kind not in "fiub":
        return 0.0
    if not is_float(ideal.dtype) and ideal.dtype.itemsize > 1:
        return of((found != ideal).astype(float))
    wide = ideal.astype(np.float64)
    finite = np.isfinite(wide)
    top = float(np.abs(wide[finite]).max(initial=0)) or 1.0
    return of(np.abs(found.astype(np.float64) - wide)[finite] / top) if finite.any() else 0.0


__all__ = ["prepare"]
