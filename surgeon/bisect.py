"""Which rewrite makes two models differ: the first window of the second whose inputs agree and whose output does not.

Tensors that carry the same name in both models cut both into windows. Each window of the rewritten model is run on the
values that the *original* has at its inputs, next to the original's own, so rounding does not pile up on the way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper

from .files import external_files
from .meaning import DOMAIN
from .prove import NOT_FINITE, TOLERANCE, Runner, Unrunnable, compare

Feeds = dict[str, np.ndarray]
MADE = re.compile(r"~([a-z0-9-]+)/")  # new tensors and nodes are called <old output>~<pass>/<Op>_<n>


@dataclass(slots=True)
class Culprit:
    """The window that differs: `output` is its tensor, `passes` made its nodes, `nodes` are those of the rewritten model."""

    output: str
    passes: list[str]
    nodes: list[str]
    why: str
    before: ModelProto
    after: ModelProto
    feeds: Feeds = field(default_factory=dict)

    def __str__(self) -> str:
        made = f"made by {', '.join(self.passes)}" if self.passes else "by no node that carries a pass's name"
        return f"the first tensor that differs is '{self.output}', {made}: {self.why}"

    def save(self, folder: Path) -> list[Path]:
        """Write the window of both models, and its inputs, as files that run by themselves."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / "window_original.onnx", folder / "window_rewritten.onnx", folder / "inputs.npz"]
        for path, model in zip(paths, (self.before, self.after), strict=False):
            path.write_bytes(model.SerializeToString(deterministic=True))
        np.savez(paths[2], **self.feeds)  # type: ignore[arg-type]
        return paths


def bisect(
    before: ModelProto, after: ModelProto, feeds: Feeds, base: Path | None = None, kind: str = "random"
) -> Culprit | None:
    """The first window that differs on `feeds`; None where every window agrees by itself.

    `base` is the folder of external weights: they are read. Every tensor that the models share is kept at once, so this
    takes the memory of all activations. Raises Unrunnable where the original does not run.
    """
    first, second = (_with_weights(m, base) for m in (before, after))
    shared = _shared(first, second)
    values = _values(first, shared, feeds)
    made = {o: n for n in first.graph.node for o in n.output}
    made_after = {o: n for n in second.graph.node for o in n.output}
    for name in [o for n in second.graph.node for o in n.output if o in values]:
        if _same_node(made[name], made_after[name]):
            continue
        found = _differs(name, first, second, values, kind)
        if found is not None:
            return found
    return None


def _with_weights(model: ModelProto, base: Path | None) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    if base is not None and external_files(copy):
        onnx.external_data_helper.load_external_data_for_model(copy, str(base))
    return copy


def _shared(before: ModelProto, after: ModelProto) -> list[str]:
    made = {o for n in before.graph.node for o in n.output if o}
    return [o for n in after.graph.node for o in n.output if o in made]


def _values(model: ModelProto, names: Sequence[str], feeds: Feeds) -> Feeds:
    """The named tensors and the inputs, computed by the model."""
    whole = ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend([onnx.ValueInfoProto(name=n) for n in names])
    return {**feeds, **dict(zip(names, Runner(whole).run(feeds), strict=True))} if names else dict(feeds)


def _same_node(a: NodeProto, b: NodeProto) -> bool:
    """Whether both models compute the tensor by the same node from tensors of the same names."""
    return a.op_type == b.op_type and a.input == b.input and a.output == b.output and a.attribute == b.attribute


def _differs(name: str, before: ModelProto, after: ModelProto, values: Feeds, kind: str) -> Culprit | None:
    left, right = _window(before, name, values), _window(after, name, values)
    inputs = {i.name: values[i.name] for m in (left, right) for i in m.graph.input}
    expected = values[name]
    nodes = [n.name or f"{n.op_type} -> {n.output[0]}" for n in right.graph.node]
    passes = list(
        dict.fromkeys(p for n in right.graph.node for text in (n.name, *n.input, *n.output) for p in MADE.findall(text))
    )
    try:
        (given,) = Runner(right).run({i.name: values[i.name] for i in right.graph.input})
    except Unrunnable as error:
        return Culprit(name, passes, nodes, f"it does not run: {error}", left, right, inputs)
    tolerance = TOLERANCE.get(helper.np_dtype_to_tensor_dtype(expected.dtype), 0.0)
    found = compare(given, expected, tolerance, kind not in NOT_FINITE)
    return Culprit(name, passes, nodes, found.why, left, right, inputs) if found.why else None


def _window(model: ModelProto, output: str, values: Feeds) -> ModelProto:
    """The nodes between `output` and the nearest tensors whose values are known, as a model."""
    made = {o: n for n in model.graph.node for o in n.output if o}
    weights = {t.name: t for t in model.graph.initializer}
    wanted: set[int] = set()
    inputs: dict[str, None] = {}
    stack = [output]
    while stack:
        name = stack.pop()
        if name in weights:
            continue
        node = made.get(name)
        if node is None or (name in values and name != output):
            if name in values:
                inputs[name] = None
            continue
        if id(node) in wanted:
            continue
        wanted.add(id(node))
        stack += [i for i in _reads(node) if i]
    nodes = [n for n in model.graph.node if id(n) in wanted]
    read = {i for n in nodes for i in _reads(n)}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(values[n].dtype), values[n].shape)
        for n in inputs
    ]
    graph = helper.make_graph(
        nodes, "window", infos, [onnx.ValueInfoProto(name=output)], [t for n, t in weights.items() if n in read]
    )
    window = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    if any(n.domain not in ("", "ai.onnx") for n in nodes) or any(f.domain != DOMAIN for f in model.functions):
        window.functions.extend(model.functions)
    return window


def _reads(node: NodeProto) -> list[str]:
    """What a node reads, captures of its bodies included; names that a body makes itself are found nowhere and ignored."""
    found, stack = list(node.input), [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    while stack:
        body: GraphProto = stack.pop()
        for inner in body.node:
            found += inner.input
            stack += [a.g for a in inner.attribute if a.type == onnx.AttributeProto.GRAPH]
        found += [o.name for o in body.output]
    return found
