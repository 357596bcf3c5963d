"""Near misses: the model of each case with one thing changed, and what its pass makes of that, as tests/near/ has it.

    python tests/near_misses.py                              record those of every case anew
    python tests/near_misses.py clip l2_norm                 those of these passes
    python tests/near_misses.py --show clip/relu "t: Relu -> Abs"      the model, and what becomes of it

tests/near/clip.txt has a case a block, and below it a line for each near miss: what is changed, and the answer.

    relu
        t: Relu -> Abs => left
        t: is an output => left
        low: first element raised => becomes 2 Clip, Relu

`becomes` gives the operators, `ends` stands for an error. Neither numbers nor reasons are kept: the cases have those.
Only the pass of the case runs, without the proof. So a record changes with that pass, and with what it shares.

Kept are those that take a way through passes/ that no case of the pass, and none kept before, took. Of each case at
most MOST, none slower than SLOWEST. Whatever is kept as `becomes` has been compared with the model before in ONNX
Runtime, on every kind of input. What differs there is printed as a defect, and not recorded.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import casefile
import numpy as np
import onnx
from casefile import Case
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

HERE = Path(__file__).parent / "near"
ROOT = Path(__file__).resolve().parent.parent
DEADLY = {"num_outputs"}  # ONNX's own inference ends the process where it is less than there are outputs
MOST = 6  # of one case
TRIED = 60  # of one case, drawn by its name
SLOWEST = 0.03  # seconds for an answer: more is not kept
TARGETS = ("7.1", "8.4", "8.6", "10.9", "11.0", "rtx")
OPSETS = (6, 9, 12, 13, 17, 18, 20)
SWAPPED = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Max": "Min", "Min": "Max", "Relu": "Abs",
    "Sigmoid": "Tanh", "Greater": "Less", "Less": "Greater", "ReduceMean": "ReduceSum", "ReduceSum": "ReduceMax",
    "Sqrt": "Exp", "Exp": "Neg", "Where": "Where", "And": "Or", "Reshape": "Expand", "Squeeze": "Unsqueeze",
}  # fmt: skip


class Near(NamedTuple):
    """A near miss: what is changed, in words; the model; the options of surgeon.rewrite."""

    words: str
    model: ModelProto
    options: dict[str, Any]


# ---- one thing changed -----------------------------------------------------------------------------------------------


def near_misses(case: Case, wanted: set[str] | None = None) -> Iterator[Near]:
    """Every near miss of a case, or those that are wanted. No two have the same words."""
    options = {**case.options, "verify": "none", "only": case.options["only"] or [case.pass_name]}
    for words, edit in dict(_edits(case)).items():
        if wanted is None or words in wanted:
            model = _copy(case.model)
            edit(model)
            yield Near(words, model, options)
    plugins = [] if options["plugins"] else ["surgeon"]
    others = {f"for {target}": {"target": target} for target in TARGETS if target != options["target"]}
    others["with plugins" if plugins else "without plugins"] = {"plugins": plugins}
    for words, other in others.items():
        if wanted is None or words in wanted:
            yield Near(words, case.model, {**options, **other})


Edit = tuple[str, Callable[[Any], None]]


def _edits(case: Case) -> Iterator[Edit]:
    model = case.model
    for index, node in enumerate(nodes_of(model)):
        for words, edit in _node_edits(node, operators_beside(case.path.parent)):
            yield f"{_label(node)}: {words}", _at(nodes_of, index, edit)
    for index, (name, tensor) in enumerate(tensors_of(model)):
        for words, edit in _tensor_edits(tensor):
            yield f"{name}: {words}", _at(lambda m: [t for _, t in tensors_of(m)], index, edit)
    for index, given in enumerate(model.graph.input):
        if given.type.HasField("tensor_type"):
            for words, edit in _input_edits(given):
                yield f"{given.name}: {words}", _at(lambda m: m.graph.input, index, edit)
    yield from _model_edits(model)


def _at(find: Callable[[ModelProto], Any], index: int, edit: Callable[[Any], None]) -> Callable[[ModelProto], None]:
    return lambda model: edit(find(model)[index])


def _copy(model: ModelProto) -> ModelProto:
    """The model, which says nothing of the sizes of what it computes."""
    copy = ModelProto.FromString(model.SerializeToString())
    del copy.graph.value_info[:]
    for made in copy.graph.output:
        for dim in made.type.tensor_type.shape.dim:
            dim.Clear()
    return copy


def nodes_of(model: ModelProto) -> list[NodeProto]:
    """Every node: of the graph, of bodies, of functions."""
    found: list[NodeProto] = []

    def walk(nodes: Any) -> None:
        for node in nodes:
            found.append(node)
            for attribute in node.attribute:
                for body in (attribute.g, *attribute.graphs):
                    walk(body.node)

    walk(model.graph.node)
    for function in model.functions:
        walk(function.node)
    return found


def tensors_of(model: ModelProto) -> list[tuple[str, TensorProto]]:
    """(name, tensor) of every initializer of the graph, and of every tensor in an attribute."""
    found = [(t.name, t) for t in model.graph.initializer]
    return found + [(_label(n), a.t) for n in nodes_of(model) for a in n.attribute if a.type == AttributeProto.TENSOR]


def _label(node: NodeProto) -> str:
    return next((name for name in node.output if name), node.op_type)


@cache
def operators_beside(folder: Path) -> dict[tuple[int, int], list[str]]:
    """The operators in a folder's cases, by how many inputs and outputs they have there."""
    found: dict[tuple[int, int], set[str]] = {}
    for path in sorted(folder.glob("*.onnxtxt")):
        for node in nodes_of(casefile.load(path).model):
            if not node.domain:
                found.setdefault((len(node.input), len(node.output)), set()).add(node.op_type)
    return {key: sorted(names) for key, names in found.items()}


def _node_edits(node: NodeProto, beside: dict[tuple[int, int], list[str]]) -> Iterator[Edit]:
    others = {SWAPPED.get(node.op_type, node.op_type), *beside.get((len(node.input), len(node.output)), [])}
    for other in sorted(others - {node.op_type, "Constant"}):
        if not node.domain:
            yield f"{node.op_type} -> {other}", lambda n, other=other: setattr(n, "op_type", other)
    if len(node.input) > 1 and not node.domain:
        yield "the first two inputs swapped", lambda n: _put(n.input, [n.input[1], n.input[0], *n.input[2:]])
        yield "without its last input", lambda n: _put(n.input, n.input[:-1])
        yield "the first input twice", lambda n: _put(n.input, [n.input[0], n.input[0], *n.input[2:]])
        yield "the second input twice", lambda n: _put(n.input, [n.input[1], n.input[1], *n.input[2:]])
    for attribute in node.attribute:
        if attribute.ref_attr_name or attribute.name in DEADLY or node.domain:
            continue
        yield f"without {attribute.name}", lambda n, name=attribute.name: _without(n, name)
        for value in _other_values(helper.get_attribute_value(attribute)):
            yield f"{attribute.name} = {_text(value)}", lambda n, k=attribute.name, v=value: _set(n, k, v)
    for name, value in _unwritten(node):
        yield f"{name} = {_text(value)}", lambda n, k=name, v=value: _set(n, k, v)


def _put(field: Any, values: Any) -> None:
    values = list(values)
    del field[:]
    field.extend(values)


def _without(node: NodeProto, name: str) -> None:
    _put(node.attribute, [AttributeProto.FromString(a.SerializeToString()) for a in node.attribute if a.name != name])


def _set(node: NodeProto, name: str, value: Any) -> None:
    _without(node, name)
    node.attribute.append(helper.make_attribute(name, value))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


STRINGS = {
    b"SAME_UPPER": b"SAME_LOWER", b"NOTSET": b"SAME_UPPER", b"VALID": b"SAME_UPPER", b"constant": b"edge",
    b"reflect": b"edge", b"edge": b"reflect", b"nearest": b"linear", b"linear": b"nearest", b"cubic": b"linear",
    b"none": b"tanh", b"tanh": b"none", b"forward": b"reverse", b"reverse": b"forward", b"avg": b"max", b"max": b"avg",
    b"half_pixel": b"asymmetric", b"asymmetric": b"half_pixel", b"bilinear": b"nearest", b"add": b"mul",
    b"align_corners": b"half_pixel", b"floor": b"ceil", b"LEFT": b"RIGHT", b"RIGHT": b"LEFT", b"DCR": b"CRD",
}  # fmt: skip


def _other_values(value: Any) -> list[Any]:
    if isinstance(value, int):
        return [value + 1, value - 1, 1 - value] if value not in (0, 1) else [1 - value, -1, 2]
    if isinstance(value, float):
        return [2 * value or 1.0, -value or -1.0, 0.0 if value else 0.5]
    if isinstance(value, bytes):
        return [STRINGS[value]] if value in STRINGS else []
    if isinstance(value, list | tuple) and value and isinstance(value[0], int):
        value = list(value)
        ends = [[value[0] + 1, *value[1:]], [*value[:-1], value[-1] + 1], [v - 1 for v in value], value[::-1]]
        return [v for v in ends if v != value]
    return []


def _unwritten(node: NodeProto) -> Iterator[tuple[str, Any]]:
    """(name, another value than its default) of the attributes that the node leaves to their defaults."""
    try:
        schema = onnx.defs.get_schema(node.op_type, onnx.defs.onnx_opset_version(), node.domain)
    except onnx.defs.SchemaError:
        return
    written = {a.name for a in node.attribute}
    for name, attribute in sorted(schema.attributes.items()):
        if name not in written and attribute.default_value.type:
            for value in _other_values(helper.get_attribute_value(attribute.default_value))[:1]:
                yield name, value


def _first(array: np.ndarray, value: Any) -> np.ndarray:
    changed = array.copy()
    changed.reshape(-1)[:1] = value(changed.reshape(-1)[:1])
    return changed


def _last(array: np.ndarray, value: Any) -> np.ndarray:
    return _first(array.reshape(-1)[::-1], value)[::-1].reshape(array.shape)


ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "first element raised": lambda a: _first(a, lambda v: v + np.ones((), a.dtype)),
    "last element raised": lambda a: _last(a, lambda v: v + np.ones((), a.dtype)),
    "first element lowered": lambda a: _first(a, lambda v: v - np.ones((), a.dtype)),
    "last element doubled": lambda a: _last(a, lambda v: v + v),
    "negated": lambda a: (-a).astype(a.dtype),
    "all 0": np.zeros_like,
    "all 1": np.ones_like,
    "all -1": lambda a: np.full_like(a, -1),
    "a third of it": lambda a: (a / np.asarray(3, a.dtype)).astype(a.dtype),
    "first element NaN": lambda a: _first(a, lambda v: np.nan) if a.dtype.kind == "f" else a,
    "last element infinite": lambda a: _last(a, lambda v: np.inf) if a.dtype.kind == "f" else a,
    "one more axis": lambda a: a[None],
    "one axis less": lambda a: a[0] if a.ndim else a,
    "as a column": lambda a: a[..., None],
    "without axes of one": np.squeeze,
    "its first element alone": lambda a: a.reshape(-1)[0] if a.size else a,
    "one element more": lambda a: np.concatenate([a, a[-1:]]) if a.ndim and a.size else a,
    "without elements": lambda a: a[:0] if a.ndim else a,
}


def _tensor_edits(tensor: TensorProto) -> Iterator[Edit]:
    array = numpy_helper.to_array(tensor)
    if array.dtype == bool:
        yield "negated", lambda t: t.CopyFrom(numpy_helper.from_array(~array, t.name))
        return
    if array.dtype.kind not in "iuf":
        return
    for words, change in ARRAYS.items():
        with np.errstate(all="ignore"):
            try:
                other = np.asarray(change(array))
            except (IndexError, OverflowError, ValueError):
                continue
        if other.shape != array.shape or not np.array_equal(other, array):
            yield words, lambda t, other=other: t.CopyFrom(numpy_helper.from_array(other, t.name))


def _input_edits(given: onnx.ValueInfoProto) -> Iterator[Edit]:
    dims = list(given.type.tensor_type.shape.dim)
    shape = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]
    shapes: dict[str, list[Any]] = {
        "one more axis": ["more", *shape],
        "one axis less": shape[1:],
        "sizes not known": [None] * len(shape),
        "sizes of 1": [1] * len(shape),
        "sizes of 0": [0] * len(shape),
    }
    for axis, size in enumerate(shape):
        at = f"axis {axis}"
        raised = size + 1 if isinstance(size, int) else 3
        shapes[f"{at} of {raised}"] = [*shape[:axis], raised, *shape[axis + 1 :]]
        if isinstance(size, int):
            shapes[f"{at} not known"] = [*shape[:axis], None, *shape[axis + 1 :]]
    for words, other in shapes.items():
        if other != shape:
            yield words, lambda v, other=other: v.CopyFrom(_value(v, other))


def _value(given: onnx.ValueInfoProto, shape: list[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(given.name, given.type.tensor_type.elem_type, shape)


def _model_edits(model: ModelProto) -> Iterator[Edit]:
    outputs = {o.name for o in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in outputs:
                yield f"{name}: is an output", lambda m, name=name: _read_outside(m, name)
    for given in model.graph.input:
        yield f"{given.name}: comes from a node", lambda m, name=given.name: _computed(m, name)
    for tensor in model.graph.initializer:
        yield f"{tensor.name}: computed", lambda m, name=tensor.name: _an_input(m, name)
    for name, type_ in (("float16", TensorProto.FLOAT16), ("double", TensorProto.DOUBLE), ("int32", TensorProto.INT32)):
        yield f"in {name}", lambda m, type_=type_: _retyped(m, TensorProto.FLOAT, type_)
    for opset in OPSETS:
        yield f"opset {opset}", lambda m, opset=opset: _at_opset(m, opset)
    if model.graph.value_info:
        yield "its own shapes kept", lambda m: m.graph.value_info.extend(model.graph.value_info)


def _read_outside(model: ModelProto, name: str) -> None:
    """After a node of its own, whose output has the type that is found for the tensor."""
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {v.name: v.type for v in inferred.graph.value_info}
    if name in types:
        model.graph.output.add(name=name, type=types[name])


def _computed(model: ModelProto, name: str) -> None:
    for given in model.graph.input:
        if given.name == name:
            given.name = f"{name}_given"
    model.graph.node.insert(0, helper.make_node("Neg", [f"{name}_given"], [name]))


def _an_input(model: ModelProto, name: str) -> None:
    tensor = next(t for t in model.graph.initializer if t.name == name)
    if name not in {i.name for i in model.graph.input}:
        model.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
    model.graph.initializer.remove(tensor)


def _retyped(model: ModelProto, old: int, new: int) -> None:
    """Every tensor of the one type has the other."""

    def graph(g: GraphProto) -> None:
        for value in (*g.input, *g.output, *g.value_info):
            if value.type.tensor_type.elem_type == old:
                value.type.tensor_type.elem_type = new
        for tensor in g.initializer:
            retype(tensor)

    def retype(tensor: TensorProto) -> None:
        if tensor.data_type == old:
            array = numpy_helper.to_array(tensor)
            with np.errstate(all="ignore"):
                array = array.astype(helper.tensor_dtype_to_np_dtype(new))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    graph(model.graph)
    for node in nodes_of(model):
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                graph(body)
            if attribute.type == AttributeProto.TENSOR:
                retype(attribute.t)
            if attribute.name == "to" and attribute.i == old:
                attribute.i = new


def _at_opset(model: ModelProto, opset: int) -> None:
    for entry in model.opset_import:
        if not entry.domain:
            entry.version = opset


# ---- what becomes of it ----------------------------------------------------------------------------------------------


def rewritten(model: ModelProto, options: dict[str, Any]) -> Any:
    """What surgeon makes of a model."""
    import surgeon  # here: the mutation run imports this module before each mutant imports surgeon

    return surgeon.rewrite(model, **options)


def answer(near: Near) -> str:
    """What surgeon makes of it: `left`, `ends` or `becomes` and the operators."""
    from surgeon.errors import SurgeonError
    from surgeon.report import LIKELY_INVALID

    try:
        result = rewritten(near.model, near.options)
    except SurgeonError:
        return "ends"
    failed = [d for d in (*result.report.declined, *result.report.unknown) if d.why.startswith(LIKELY_INVALID)]
    assert not failed, failed
    if not result.report.applied:
        return "left"
    operators = sorted(Counter(node.op_type for node in result.model.graph.node).items())
    return "becomes " + ", ".join(f"{count} {op}" if count > 1 else op for op, count in operators)


def recorded(folder: str) -> dict[str, dict[str, str]]:
    """{case: {what is changed: the answer}} of a folder of cases, as recorded."""
    path, name = HERE / f"{folder}.txt", ""
    found: dict[str, dict[str, str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        words, arrow, said = line.strip().partition(" => ")
        if arrow:
            found[name][words] = said
        else:
            name = words
            found[name] = {}
    return found


def answers(case: Case, wanted: set[str]) -> dict[str, str]:
    """{what is changed: the answer} for the wanted near misses of a case that there are."""
    return {near.words: answer(near) for near in near_misses(case, wanted)}


# ---- the recorder ----------------------------------------------------------------------------------------------------


class Ways:
    """Notes the ways that are taken through passes/: which instruction follows which."""

    FOLDER = str(ROOT / "passes")

    def __init__(self) -> None:
        self.taken: set[tuple[str, int, int, int]] = set()

    def __enter__(self) -> Ways:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(self.FOLDER):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        last, taken = -1, self.taken
        where = (code.co_filename, code.co_firstlineno)

        def step(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal last
            if event == "opcode":
                taken.add((*where, last, frame.f_lasti))
                last = frame.f_lasti
            return step

        return step


def is_sound(near: Near) -> bool:
    """Whether ONNX's checker takes it, types and shapes too."""
    from surgeon.ir.definitions import in_own_domain

    try:
        onnx.checker.check_model(in_own_domain(ModelProto.FromString(near.model.SerializeToString())), full_check=True)
    except Exception:
        return False
    return True


def defect(near: Near) -> str | None:
    """What is wrong with what becomes of it; "" where nothing is, None where ONNX Runtime cannot tell or dies."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as child:
        try:
            return child.submit(_difference, near).result()
        except BrokenProcessPool:
            return None


def _difference(near: Near) -> str | None:
    from helpers import compare_models

    from surgeon.ir.definitions import by_definition

    before = ModelProto.FromString(near.model.SerializeToString())
    after = rewritten(near.model, near.options).model
    error, why = compare_models(by_definition(before), by_definition(after))  # some of after's nodes may be before's
    return None if error is None else why


def chosen(folder: str) -> Iterator[tuple[Case, Near, str]]:
    """(case, near miss, answer) for those near misses that a folder's record keeps, before they are judged."""
    cases = [casefile.load(p) for p in sorted((casefile.HERE / folder).glob("*.onnxtxt"))]
    with Ways() as ways:
        for case in cases:
            rewritten(case.model, {**case.options, "verify": "none"})
    seen, known = set(ways.taken), set()
    for case in cases:
        kept = 0
        nears = list(near_misses(case))
        random.Random(f"{folder}/{case.path.stem}").shuffle(nears)
        for near in nears[:TRIED]:
            if kept == MOST or not is_sound(near):
                continue
            try:
                with Ways() as ways:
                    said = answer(near)
            except Exception as error:
                print(f"DEFECT {folder}/{case.path.stem} {near.words}: {type(error).__name__}: {error}", flush=True)
                continue
            whole = hash(frozenset(ways.taken))
            if ways.taken <= seen and whole in known:
                continue
            seen |= ways.taken
            known.add(whole)
            kept += 1
            yield case, near, said


def record(folder: str) -> str:
    """Write a folder's record. Returns what it says of it."""
    found: dict[str, dict[str, str]] = {}
    dropped = 0
    for case, near, said in chosen(folder):
        started = time.process_time()
        answer(near)
        if time.process_time() - started > SLOWEST:
            continue
        if said.startswith("becomes"):
            wrong = defect(near)
            if wrong:
                print(f"DEFECT {folder}/{case.path.stem} {near.words}: {wrong}", flush=True)
            if wrong != "":
                dropped += 1
                continue
        found.setdefault(case.path.stem, {})[near.words] = said
    lines = [
        row for name, rows in found.items() for row in (name, *(f"    {w} => {s}" for w, s in sorted(rows.items())))
    ]
    HERE.mkdir(exist_ok=True)
    (HERE / f"{folder}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{folder}: {sum(map(len, found.values()))} recorded, {dropped} left out: wrong, or not run by ONNX Runtime"


def show(name: str, words: str) -> None:
    """Print a near miss and what becomes of it, as ONNX text."""
    case = casefile.load(casefile.HERE / f"{name}.onnxtxt")
    near = next(n for n in near_misses(case) if n.words == words)
    print(f"{onnx.printer.to_text(near.model)}\n# ---- {answer(near)}")
    print(onnx.printer.to_text(rewritten(near.model, near.options).model))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", default=sorted({p.parent.name for p in casefile.paths()}))
    parser.add_argument("--show", nargs=2, metavar=("CASE", "WORDS"))
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.show:
        show(*args.show)
        return
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("fork")) as pool:
        for said in pool.map(record, args.folders):
            print(said, flush=True)


if __name__ == "__main__":
    main()
