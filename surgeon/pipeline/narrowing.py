"""Carry types that a target lacks in those that it has, where the user allows it: `--allow-narrowing`.

float64                  in fp32, everywhere: TensorRT's parsers read it so, without a warning
uint64                   in int64, everywhere; its shifts as products and quotients
int16, uint16, uint32    inputs and outputs in int32 and int64, which hold all their numbers;
uint8 before 8.5         the pass widen-small-integers converts the tensors between them
"""

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError
from surgeon.ir.attributes import TYPES
from surgeon.ir.lattice import Shapes
from surgeon.ir.model import Model
from surgeon.ir.protos import all_nodes, given_inputs, holders, read_instead, refill
from surgeon.ir.retyping import narrowed, retyped
from surgeon.ir.run import Runner, must_run
from surgeon.pipeline.prepared import Asked, Prepared, Text, applied, fresh_name
from surgeon.proof.equality import TOLERANCE, compare, is_float
from surgeon.proof.feeds import EVERYDAY
from surgeon.proof.valid import valid_feeds
from surgeon.proof.whole import sizes_that_run
from surgeon.targets.target import Target

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
EVERYWHERE: dict[int, int] = {TensorProto.DOUBLE: FLOAT, TensorProto.UINT64: INT64}
OUTSIDE: dict[int, int] = {
    TensorProto.INT16: INT32,
    TensorProto.UINT16: INT32,
    TensorProto.UINT8: INT32,
    TensorProto.UINT32: INT64,
}
SPOKEN: dict[int, str] = {FLOAT: "fp32", TensorProto.DOUBLE: "float64"}


def narrowable(model: ModelProto, target: Target) -> dict[int, int]:
    """The types of the model that can be stored in others -> these."""
    inputs_and_outputs = {i.type.tensor_type.elem_type for i in (*model.graph.input, *model.graph.output)}
    held = inputs_and_outputs | set(_types_inside(model))
    found = {kind: to for kind, to in EVERYWHERE.items() if kind in held}
    lacking = {kind for kind in OUTSIDE if kind in inputs_and_outputs and not target.reads(kind)}
    return found | {kind: OUTSIDE[kind] for kind in lacking if target.int64 or OUTSIDE[kind] != INT64}


def _types_inside(model: ModelProto) -> Iterator[int]:
    """The types that weights, constants and casts name."""
    for holder, _ in holders(model):
        yield from (t.data_type for t in getattr(holder, "initializer", ()))
        for node in all_nodes(holder):
            for attribute in node.attribute:
                yield attribute.t.data_type
                yield from (attribute.i for name in TYPES if attribute.name == name)


def prepare(asked: Asked) -> Prepared | None:
    """The model in types that the target has, compared with the original on random inputs; None where it has them all.

    Raises ModelError where the two differ by more than fp32 rounds, or cannot be run.
    """
    options = asked.options
    kinds = narrowable(asked.model, options.target)
    if not kinds:
        return None
    source = asked.source
    made = retyped(source, {kind: to for kind, to in kinds.items() if kind in EVERYWHERE})
    if TensorProto.UINT64 in kinds:
        _write_shifts(made, source)
    _retype_outside(made, {kind: to for kind, to in kinds.items() if kind in OUTSIDE})
    error, integers = _measured(source, made, kinds, options.shapes) if options.proves else (None, "")
    pairs = zip((*source.graph.input, *source.graph.output), (*made.graph.input, *made.graph.output), strict=True)
    changed = [(old, new) for old, new in pairs if old.type.tensor_type.elem_type != new.type.tensor_type.elem_type]
    before = [Text.of_info(old) for old, _ in changed] or [Text(_name(k), _name(k)) for k in sorted(kinds)]
    after = [Text.of_info(new) for _, new in changed] or [Text(_name(k), _name(k)) for k in kinds.values()]
    record = applied("allow-narrowing", before, after, "the types", error=error)
    return Prepared(made, [record], [_said(kinds, error) + integers])


def _said(kinds: Mapping[int, int], error: float | None) -> str:
    carried = ", ".join(f"{_name(kind)} is stored in {_name(to)}" for kind, to in sorted(kinds.items()))
    if error is None:
        return f"{carried}; what that changes was not measured"
    if not error:
        return f"{carried}; on random inputs the outputs are the same"
    return f"{carried}; on random inputs the outputs differ by up to {error:.2g} of the largest"


def _name(kind: int) -> str:
    return SPOKEN.get(kind) or TensorProto.DataType.Name(kind).lower()


def _retype_outside(model: ModelProto, kinds: Mapping[int, int]) -> None:
    """Give inputs and outputs other types, with a Cast after each input and before each output."""
    graph, fresh = model.graph, fresh_name(model)
    makers, outputs = {name: node for node in graph.node for name in node.output}, {o.name for o in graph.output}
    front, behind = [], []
    for info in (*given_inputs(model), *graph.output):
        name, kind, maker = info.name, info.type.tensor_type.elem_type, makers.get(info.name)
        if kind not in kinds:
            continue
        if maker is None and name in outputs:
            raise ModelError(f"the output '{name}' is made by no node: it cannot get another type")
        inner = fresh(name, "Cast" if maker is None else "narrow")
        read_instead(graph, name, inner)
        if maker is None:
            front.append(helper.make_node("Cast", [name], [inner], name=inner, to=kind))
        else:
            maker.output[:] = [inner if made == name else made for made in maker.output]
            makers[name] = helper.make_node("Cast", [inner], [name], name=name, to=kinds[kind])
            behind.append(makers[name])
        info.type.tensor_type.elem_type = kinds[kind]
    refill(graph.node, [*front, *graph.node, *behind])


def _write_shifts(made: ModelProto, source: ModelProto) -> None:
    """Write shifts of uint64 as products and quotients by powers of 2: ONNX shifts no int64."""
    if not any(node.op_type == "BitShift" for node in source.graph.node):
        return
    graph, fresh = made.graph, fresh_name(made)
    indexed, two = Model(source), fresh("shift", "two")
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        shifted, by = map(indexed.graph.find, node.input) if node.op_type == "BitShift" else (None, None)
        if shifted is None or indexed.dtype(shifted) != TensorProto.UINT64:
            graph.node.append(node)
            continue
        power = fresh(node.output[0], "power")
        places = indexed.constant(by)
        if places is None:
            graph.node.append(helper.make_node("Pow", [two, node.input[1]], [power], name=power))
        else:
            graph.initializer.append(numpy_helper.from_array(np.asarray(1 << places.astype(np.int64)), power))
        left = any(a.name == "direction" and a.s == b"LEFT" for a in node.attribute)
        operands = [node.input[0], power]
        graph.node.append(helper.make_node("Mul" if left else "Div", operands, node.output, name=node.name))
    if any(two in node.input for node in graph.node):
        graph.initializer.append(numpy_helper.from_array(np.asarray(2, np.int64), two))


def _measured(before: ModelProto, after: ModelProto, kinds: Mapping[int, int], shapes: Shapes) -> tuple[float, str]:
    """The largest difference between the models on drawn numbers, as a part of the largest output; and what to
    report about integers that differ although not drawn, such as ranks of numbers that are equal in fp32.

    The original gets them in its own types, so what the inputs are rounded by counts, too. Raises ModelError.
    """
    integers: dict[str, str] = {}
    with must_run("what other types change cannot be measured: ONNX Runtime does not run it"):
        old, new = Runner(before), Runner(after)
        sized = sizes_that_run(before, old.run, shapes=shapes)
        types = {i.name: i.type.tensor_type.elem_type for i in after.graph.input}
        worst = 0.0
        for kind, feeds in valid_feeds(before, sized):
            if kind not in EVERYDAY:
                continue
            given = {name: narrowed(array, types[name]) for name, array in feeds.items()}
            rounded = {name: array.astype(feeds[name].dtype) for name, array in given.items()}
            results = zip(new.run(given), old.run(rounded), old.run(feeds), strict=True)
            for info, row in zip(before.graph.output, results, strict=True):
                what = f"the output '{info.name}' on {kind} inputs"
                if kind != "random" and TensorProto.DOUBLE in kinds and _are_other_integers(*row[:2]):
                    integers.setdefault(info.name, f"; of {what} integers differ")
                    continue
                worst = max(worst, _difference(what, *row))
    return worst, "".join(integers.values())


def _are_other_integers(found: np.ndarray, wanted: np.ndarray) -> bool:
    return not is_float(wanted.dtype) and found.shape == wanted.shape and bool((found != wanted).any())


def _difference(what: str, found: np.ndarray, rounded: np.ndarray, exact: np.ndarray) -> float:
    """How far a result is from the original's, `exact`, as a part of the largest number.

    It may be within the tolerance of fp32 from `rounded`, the original's on the rounded inputs, or about as near to
    `exact` as that is. Raises ModelError.
    """
    found = found.astype(exact.dtype)
    judged = compare(found, rounded, tolerance=TOLERANCE[FLOAT], finite=True, exact=lambda: exact)
    if judged.why:
        raise ModelError(f"other types change {what} by more than their rounding: {judged.why}")
    return compare(found, exact, tolerance=np.inf, finite=True).error if is_float(exact.dtype) else 0.0
