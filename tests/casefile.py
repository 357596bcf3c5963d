"""Case files: a model as ONNX text, a line that says what becomes of it, and the model that is expected.

    # target: 8.4                       what to pass to surgeon.rewrite; each line optional
    # strategy: leaky-relu=decompose
    # plugins: surgeon
    # option: repair_eps=1e-6
    # only: leaky-relu, identity        the passes that run; without it, all of them
    # verify: none                      without a proof, as for what ONNX Runtime does not load
    # warns: a row of zeros gives NaN   words of a warning that the report must give; each line one warning
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,3] x) => (float[N,3] y) { ... }
    # ---- becomes                      or "# ---- is left alone: <why>"
    <...> g (...) => (...) { ... }

    python tests/casefile.py tests/cases/my_pass/a_case.onnxtxt

prints how a case ends, as surgeon rewrites it now: what to compare with what was meant, and to paste.

"is left alone" takes the words of the reason that the report must give for it, or "no pattern" where nothing matches,
or "as it would be written" where what matches is what surgeon would write: neither is reported.
Float constants are compared as written, tensor names only where the outside sees them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.printer
from onnx import AttributeProto, GraphProto, ModelProto, numpy_helper

HERE = Path(__file__).parent / "cases"
MARK = "# ----"
# Not run by some ONNX Runtime before 1.24: ReduceMax with noop_with_empty_axes, and Attention, of which onnx's
# reference evaluator knows no nonpad_kv_seqlen and refuses no mask of another size.
NOT_RUN = {"opset/reduce_axes", "attention/lengths", "attention/mask_of_another_name"}


@dataclass
class Case:
    path: Path
    model: ModelProto
    expected: ModelProto | None
    why: str
    options: dict[str, Any] = field(default_factory=dict)
    warns: list[str] = field(default_factory=list)

    @property
    def pass_name(self) -> str:
        return self.path.parent.name.replace("_", "-")


def paths() -> list[Path]:
    return sorted(HERE.glob("*/*.onnxtxt"))


def load(path: Path) -> Case:
    head, mark, tail = path.read_text(encoding="utf-8").partition(MARK)
    assert mark, f"{path} has no line '{MARK} becomes' or '{MARK} is left alone: why'"
    verdict, _, rest = tail.partition("\n")
    verdict = verdict.strip()
    options, warns = _options(head), re.findall(r"^# warns: (.+)$", head, flags=re.MULTILINE)
    model = _parse(head)
    if verdict == "becomes":
        return Case(path, model, _parse(rest), "", options, warns)
    assert verdict.startswith("is left alone:"), f"{path}: '{verdict}' is neither 'becomes' nor 'is left alone: why'"
    return Case(path, model, None, verdict.removeprefix("is left alone:").strip(), options, warns)


def _options(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {"target": "10.9", "strategy": {}, "plugins": [], "options": {}, "only": None}
    for line in text.splitlines():
        key, colon, value = line.removeprefix("#").strip().partition(":")
        if not line.startswith("#") or not colon:
            continue
        value = value.strip()
        if key == "target":
            found["target"] = value
        elif key == "strategy":
            found["strategy"].update(item.strip().split("=") for item in value.split(","))
        elif key == "plugins":
            found["plugins"] = [v.strip() for v in value.split(",")]
        elif key == "verify":
            found["verify"] = value
        elif key == "only":
            found["only"] = [v.strip() for v in value.split(",")]
        elif key == "option":
            name, _, given = value.partition("=")
            found["options"][name.strip()] = float(given)
    return found


def _parse(text: str) -> ModelProto:
    body = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return onnx.parser.parse_model(body)


# ---- the same model, whatever its inner names are --------------------------------------------------------------------


def canonical(model: ModelProto) -> list[str]:
    """The model as lines in which inner tensors are numbered in the order of their nodes and
    constants are written out."""
    lines = [f"opset {sorted((o.domain, o.version) for o in model.opset_import if o.domain != 'surgeon')}"]
    lines += _graph_lines(model.graph, {}, "")
    return lines


def _graph_lines(graph: GraphProto, outer: dict[str, str], indent: str) -> Iterator[str]:
    names = dict(outer)
    names.update({i.name: i.name for i in graph.input})
    names.update({o.name: o.name for o in graph.output})
    for tensor in graph.initializer:
        names[tensor.name] = _array(numpy_helper.to_array(tensor))
    count = 0
    yield indent + "inputs " + ", ".join(i.name for i in graph.input)
    for node in graph.node:
        if node.op_type == "Constant" and not node.domain:
            from surgeon.ir.attributes import constant_value

            names[node.output[0]] = _array(constant_value(node))
            continue
        for name in node.output:
            if name and name not in names:
                names[name] = f"%{count}"
                count += 1
        inputs = [names.get(i, i) for i in node.input]
        attrs = sorted(f"{a.name}={_attribute(a)}" for a in node.attribute if a.type != AttributeProto.GRAPH)
        op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        yield (
            f"{indent}{', '.join(names.get(o, '') for o in node.output)} = "
            f"{op}<{', '.join(attrs)}>({', '.join(inputs)})"
        )
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield f"{indent}  {attribute.name}:"
                yield from _graph_lines(attribute.g, names, indent + "    ")
    yield indent + "outputs " + ", ".join(o.name for o in graph.output)


def _array(array: np.ndarray) -> str:
    flat = ", ".join(
        f"{v:.7g}" if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else str(v)
        for v in array.reshape(-1).tolist()
    )
    return f"{array.dtype}{list(array.shape)}{{{flat}}}"


def _attribute(attribute: AttributeProto) -> str:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return _array(numpy_helper.to_array(value))
    return str(list(value)) if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS) else str(value)


# ---- a case's end ----------------------------------------------------------------------------------------------------

KINDS = "int|ints|string|strings|tensor|tensors|graph|graphs|type_proto"  # a float might read as an int without it


def ending(path: Path) -> str:
    """The line that says what becomes of a case's model, and the model, as surgeon rewrites it now."""
    import surgeon

    text = path.read_text(encoding="utf-8").partition(MARK)[0]
    model = _parse(text)
    result = surgeon.rewrite(model, **_options(text))
    if result.report.undone:
        return "\n".join(f"undone: {d.node}: {d.why}" for d in result.report.undone)
    if canonical(result.model) != canonical(model):
        return f"{MARK} becomes\n{_as_text(result.model)}"
    own = path.parent.name.replace("_", "-")
    reasons = [d.why for d in result.report.declined if own in d.pass_name.split("+")]
    return "\n".join(f"{MARK} is left alone: {why}" for why in reasons or ["no pattern"])


def _as_text(model: ModelProto) -> str:
    """The model as short ONNX text: no functions, no inner types, inner tensors under short names."""
    short = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, graph=model.graph)
    graph = short.graph
    del graph.value_info[:]
    outside = {value.name for value in (*graph.input, *graph.output)}
    made = [name for node in graph.node for name in node.output if name]
    names = {name: f"t{k}" for k, name in enumerate(dict.fromkeys(n for n in made if n not in outside))}
    names |= {tensor.name: f"c{k}" for k, tensor in enumerate(graph.initializer) if tensor.name not in outside}
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    _rename(graph, names)
    text = onnx.printer.to_text(short).replace('[""] ', "")
    text = re.sub(rf"(\w+): (?:{KINDS}) = ", r"\1 = ", text).replace("=  {", "= {")
    return re.sub(r"\A<\s*(.*?),\s*(opset_import: .*?)\s*>", r"<\1, \2>", text, flags=re.DOTALL)


def _rename(graph: GraphProto, names: dict[str, str]) -> None:
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        node.ClearField("name")
        node.ClearField("overload")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, names)
    for value in graph.output:
        value.name = names.get(value.name, value.name)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(ending(Path(given)))
