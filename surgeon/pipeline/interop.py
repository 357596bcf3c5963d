"""onnx-graphsurgeon: graphs taken and given, and its functions as passes,
with what a round trip through it drops restored.

    @surgeon.gs_pass
    def drop_identities(graph):            # a gs.Graph, edited in place
        for node in graph.nodes: ...

onnx-graphsurgeon drops metadata, doc strings, quantization annotations and unused initializers, and it writes into the
model that it imports. So a pass gets a graph of a copy, and from what it gives back only the nodes and tensors that it
changed are taken; everything else is the file's own. What it changed may be anywhere, so the proof is the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from surgeon.errors import ModelError, PassError
from surgeon.ir.files import is_same_tensor, with_weights
from surgeon.ir.functions import by_name
from surgeon.ir.lattice import Shapes
from surgeon.ir.model import Model
from surgeon.ir.protos import copied, given_inputs, label_of, named_by_training, reads, refill
from surgeon.ir.schemas import DOMAIN
from surgeon.pipeline.prepared import Change, Text
from surgeon.report import Applied, Declined
from surgeon.rules.meaning import with_meanings
from surgeon.rules.rule import Decline, ModelRule, Stage

if TYPE_CHECKING:
    from onnx_graphsurgeon import Graph

    from surgeon.pipeline.options import Options
    from surgeon.proof.judge import Verdict

GraphFunction = Callable[[Any], Any]
# Two nodes of one operator may have different functions: then each function has an overload, and each node names one.
# onnx-graphsurgeon forgets both, and has no place for them: its objects have them as this Python attribute.
OVERLOAD = "overload"


class GraphRule(ModelRule):
    """A pass that is a function over a `gs.Graph`. Runs before surgeon's own passes, with stage LOWER after them."""

    __slots__ = ()


@overload
def gs_pass(function: GraphFunction, /) -> GraphRule: ...
@overload
def gs_pass(*, stage: Stage) -> Callable[[GraphFunction], GraphRule]: ...
def gs_pass(function: GraphFunction | None = None, /, *, stage: Stage = Stage.CLEAN) -> Any:
    """Mark a function over a `gs.Graph` as a pass.

    It edits the graph in place or returns another; `surgeon.require` declines. It need not clean up or sort. It runs
    once over the whole model, and its result stays only where both whole models compute the same.
    `@gs_pass(stage=Stage.LOWER)` runs after surgeon's own passes, on what they wrote for the target.
    """
    if function is None:
        return lambda body: GraphRule(body, stage)
    return GraphRule(function, stage)


def to_graphsurgeon(model: ModelProto, base: Path | None = None) -> Any:
    """A `gs.Graph` of a copy of the model, weights from the folder `base` included."""
    import onnx_graphsurgeon as gs

    copy = copied(with_weights(model, base))
    graph = gs.import_onnx(copy)
    _remember_overloads(graph, copy)
    return graph


def from_gs(graph: Graph) -> ModelProto:
    """The ModelProto of an onnx-graphsurgeon graph, its nodes in topological order. The graph is not changed.

    Unlike `gs.export_onnx` it keeps what tells the functions of plugin nodes apart: their overloads.
    """
    model = _exported(graph)
    if any(f.domain == DOMAIN for f in model.functions):  # the user may have imported it, and so lost the overloads
        model = with_meanings(model)
    return Model(model).sync()


def _exported(graph: Any) -> ModelProto:
    """What `gs.export_onnx` makes of a graph, with the overloads of its objects."""
    import onnx_graphsurgeon as gs

    model: ModelProto = gs.export_onnx(graph, do_type_check=False)
    _give_back_overloads(graph, model)
    return model


# ---- running passes --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """The model after the passes, and what they did to it."""

    model: ModelProto
    applied: list[Applied] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    undone: list[Declined] = field(default_factory=list)


def run_graph_rules(rules: Iterable[ModelRule], model: ModelProto, base: Path | None, options: Options) -> Outcome:
    """Run functions over `gs.Graph`s one after the other; each result stays only where the whole models agree."""
    outcome = Outcome(model)
    for rule in rules:
        try:
            after = changed_by(rule.body, outcome.model, base, rule.pass_name)
        except Decline as refusal:
            outcome.declined.append(Declined(rule.pass_name, "the graph", str(refusal)))
            continue
        if after is None:
            continue
        record = _applied(rule, outcome.model, after)
        verdict = _compare(outcome.model, after, base, options.shapes) if options.proves else None
        if verdict is not None and verdict.ok is False:
            outcome.undone.append(Declined(rule.pass_name, record.root, verdict.why))
        elif verdict is not None and verdict.ok is None and not options.allow_unproved:
            outcome.declined.append(Declined(rule.pass_name, record.root, f"unproved: {verdict.why}"))
        else:
            outcome.model = after
            outcome.applied.append(record._replace(max_error=None if verdict is None else verdict.max_error))
    return outcome


def changed_by(
    function: GraphFunction, model: ModelProto, base: Path | None = None, name: str = "gs-pass"
) -> ModelProto | None:
    """What `function` makes of the model, with what onnx-graphsurgeon drops restored; None where it changed nothing.

    Raises PassError where the function or onnx-graphsurgeon fails, and lets `Decline` through.
    """
    try:
        graph = to_graphsurgeon(model, base)
        untouched = _exported(graph)
    except Exception as error:
        raise PassError(
            f"onnx-graphsurgeon cannot read this model ({type(error).__name__}: {error}), so the pass '{name}' cannot "
            f"run. Leave it out with --skip {name}."
        ) from error
    try:
        given = function(graph)
        touched = _exported(graph if given is None else given)
    except Decline:
        raise
    except Exception as error:
        raise PassError(
            f"the pass '{name}' failed: {type(error).__name__}: {error}. Leave it out with --skip {name}, or fix it."
        ) from error
    return restored(model, untouched, touched, base)


def restored(
    model: ModelProto, untouched: ModelProto, touched: ModelProto, base: Path | None = None
) -> ModelProto | None:
    """The model with what differs between two exports of it, before and after an edit; None where nothing differs."""
    after = copied(model)
    changed = _restore_nodes(after.graph, untouched.graph, touched.graph)
    changed |= _restore_tensors(after.graph, model.graph, touched.graph, base, named_by_training(model))
    changed |= _restore_infos(
        after.graph.input, untouched.graph.input, touched.graph.input, {t.name for t in model.graph.initializer}
    )
    changed |= _restore_infos(after.graph.output, untouched.graph.output, touched.graph.output, set())
    changed |= _restore_header(after, untouched, touched)
    if not changed:
        return None
    _drop_stale(after.graph, model.graph)
    try:
        return Model(after, base).sync()
    except ModelError as error:
        raise PassError(f"the edited graph is not valid: {error}") from None


def _restore_nodes(graph: GraphProto, untouched: GraphProto, touched: GraphProto) -> bool:
    """Nodes that the edit left alone are the file's own; the others keep doc string and metadata
    of what they replace."""
    originals: dict[bytes, list[NodeProto]] = {}
    by_outputs: dict[tuple[str, ...], NodeProto] = {}
    for exported, original in zip(untouched.node, graph.node, strict=True):
        originals.setdefault(exported.SerializeToString(deterministic=True), []).append(original)
        by_outputs[tuple(original.output)] = original
    nodes, same = [], len(touched.node) == len(untouched.node)
    for node in touched.node:
        known = originals.get(node.SerializeToString(deterministic=True))
        if known:
            nodes.append(copied(known.pop(0)))
            continue
        same = False
        fresh, stood_here = copied(node), by_outputs.get(tuple(node.output))
        if stood_here is not None:
            fresh.metadata_props.extend(stood_here.metadata_props)
            if stood_here.doc_string:
                fresh.doc_string = stood_here.doc_string
            if stood_here.overload and fresh.op_type == stood_here.op_type:
                fresh.overload = stood_here.overload
        nodes.append(fresh)
    if same:
        return False  # at most their order differs, and the file's own is topological
    refill(graph.node, nodes)
    return True


def _restore_tensors(
    graph: GraphProto, original: GraphProto, touched: GraphProto, base: Path | None, trained: Collection[str]
) -> bool:
    """Equal weights are the file's own (external ones stay external); those that lost their last reader leave."""
    exported = {t.name: t for t in touched.initializer}
    read_before, read_after = _reads(original), _reads(graph).union(trained)
    made = {o for n in graph.node for o in n.output}
    kept, changed = [], False
    for tensor in original.initializer:
        now = exported.pop(tensor.name, None)
        if tensor.name in made or (tensor.name in read_before and tensor.name not in read_after):
            changed = True
        elif now is None or is_same_tensor(tensor, now, base):
            kept.append(tensor)
        else:
            kept.append(now)
            changed = True
    added = [t for t in exported.values() if t.name in read_after]
    if changed or added:
        refill(graph.initializer, [*kept, *added])
    return changed or bool(added)


def _reads(graph: GraphProto) -> set[str]:
    """The tensors that nodes, bodies included, and the graph's outputs read."""
    return {o.name for o in graph.output} | {name for node in graph.node for name in reads(node)}


def _restore_infos(infos: Any, untouched: Any, touched: Any, weights: set[str]) -> bool:
    """The inputs or outputs: those exported alike are the file's own; `weights` listed among the inputs stay."""
    if [i.SerializeToString() for i in untouched] == [i.SerializeToString() for i in touched]:
        return False
    originals = {i.name: i for i in infos}
    exported = {i.name: i.SerializeToString() for i in untouched}
    fresh = [i for i in infos if i.name in weights]
    fresh += [
        originals[i.name] if exported.get(i.name) == i.SerializeToString() else i
        for i in touched
        if i.name not in weights
    ]
    refill(infos, map(copied, fresh))
    return True


def _restore_header(after: ModelProto, untouched: ModelProto, touched: ModelProto) -> bool:
    before = {o.domain: o.version for o in untouched.opset_import}
    changed = False
    for entry in touched.opset_import:
        if before.get(entry.domain) == entry.version:
            continue
        mine = [o for o in after.opset_import if o.domain == entry.domain]
        if mine:
            mine[0].version = entry.version
        else:
            after.opset_import.append(entry)
        changed = True
    known = {name: f.SerializeToString(deterministic=True) for name, f in by_name(untouched.functions).items()}
    now = {name: f.SerializeToString(deterministic=True) for name, f in by_name(touched.functions).items()}
    if known == now:
        return changed
    originals = {n: copied(f) for n, f in by_name(after.functions).items()}
    refill(
        after.functions,
        [originals[k] if known.get(k) == v else onnx.FunctionProto.FromString(v) for k, v in now.items()],
    )
    return True


def _drop_stale(graph: GraphProto, original: GraphProto) -> None:
    """Types and annotations of tensors that another node makes now, or none, no longer hold."""
    before = {o: n.SerializeToString(deterministic=True) for n in original.node for o in n.output}
    now = {o: n.SerializeToString(deterministic=True) for n in graph.node for o in n.output}
    fixed = {t.name for t in graph.initializer} | {i.name for i in graph.input}
    for rows, key in ((graph.value_info, "name"), (graph.quantization_annotation, "tensor_name")):
        for position in range(len(rows) - 1, -1, -1):
            name = getattr(rows[position], key)
            if name not in fixed and (name not in now or before.get(name) != now[name]):
                del rows[position]


# ---- what the report says --------------------------------------------------------------------------------------------


def _applied(rule: ModelRule, before: ModelProto, after: ModelProto) -> Applied:
    old = {n.SerializeToString(deterministic=True): n for n in before.graph.node}
    new = {n.SerializeToString(deterministic=True): n for n in after.graph.node}
    removed = [n for k, n in old.items() if k not in new]
    added = [n for k, n in new.items() if k not in old]
    made = {o for n in added for o in n.output}
    outputs = [o for n in removed for o in n.output if o in made]
    root = label_of(removed[0]) if removed else "the graph"
    window = Change([Text.of(n) for n in removed], [Text.of(n) for n in added], outputs)
    return Applied(rule.pass_name, rule.stage.value, root, window)


def _compare(before: ModelProto, after: ModelProto, base: Path | None, shapes: Shapes) -> Verdict:
    from surgeon.proof.judge import Verdict
    from surgeon.proof.whole import prove_models

    if _interface(before) != _interface(after):
        return Verdict(False, None, "it changes the names or types of the model's inputs or outputs")
    return prove_models(before, after, base=base, shapes=shapes)


def _interface(model: ModelProto) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    inputs, outputs = (
        [(i.name, i.type.tensor_type.elem_type) for i in infos] for infos in (given_inputs(model), model.graph.output)
    )
    return inputs, outputs


# ---- overloads of local functions ------------------------------------------------------------------------------------


def _remember_overloads(graph: Any, model: ModelProto) -> None:
    """Write onto the objects of a `gs.Graph` the overloads of the model that it was imported from."""
    for thing, proto in _pairs(graph, model):
        if proto.overload:
            setattr(thing, OVERLOAD, proto.overload)


def _give_back_overloads(graph: Any, model: ModelProto) -> None:
    """Give a model that was exported from a `gs.Graph` the overloads of the graph's objects."""
    for thing, proto in _pairs(graph, model):
        overload = vars(thing).get(OVERLOAD)  # a graph's own getattr takes any name for an operator
        if overload:
            proto.overload = overload


def _pairs(graph: Any, model: ModelProto) -> Iterator[tuple[Any, NodeProto | FunctionProto]]:
    """Each node and function of a `gs.Graph`, with its proto. Both sides have the same order."""
    yield from _nodes(graph.nodes, model.graph.node)
    for function, proto in zip(graph.functions, model.functions, strict=True):
        yield function, proto
        made = len(proto.node) - len(function.nodes)  # an export puts the constants first, as nodes
        yield from _nodes(function.nodes, proto.node[made:])


def _nodes(nodes: Sequence[Any], protos: Sequence[NodeProto]) -> Iterator[tuple[Any, NodeProto]]:
    """Each node with its proto, those of bodies included."""
    for node, proto in zip(nodes, protos, strict=True):
        yield node, proto
        for attribute in proto.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _nodes(node.attrs[attribute.name].nodes, attribute.g.node)
