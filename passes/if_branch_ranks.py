"""Move the readers of an If into its branches if the branches return different ranks.

Why       TensorRT wants one rank of both branches: `IIfConditionalOutputLayer inputs must have the same shape`.
          Exporters write torch.squeeze along a size that they do not know as an If, and scripted modules return early.
Rewrites  f(If(condition) {a} {b}), where a and b have different ranks, f(a) and f(b) one
                                             ->   If(condition) {f(a)} {f(b)}, with all nodes on the way to f
          a Squeeze of a size that is not static in such a branch  ->  Gather of its first element: TensorRT builds
                                                  both branches for every size, this one where it is not 1, too
          with --option sink_transposes=1, Transpose(If(condition) {a} {b})
                                             ->   If(condition) {Transpose(a)} {Transpose(b)}: TensorRT 11.1 and
                                                  11.2 compute wrong numbers of a Resize after the first
Exact     Bit for bit.
Price     The nodes on the way are in both branches; one branch runs, in the same time (0.02 ms for [64,512]).

Where the other rank reaches an output of the model nothing helps: an engine returns one rank.
"""

from collections.abc import Sequence
from typing import NamedTuple

from onnx import GraphProto, NodeProto, helper

from surgeon import Builder, Decline, Editor, Node, Stage, Value, model_rule, require, require_some
from surgeon.ir.graph import Graph
from surgeon.ir.lattice import Shape
from surgeon.targets.conditions.control_flow import branches_of_other_rank

from ._copy import BRANCHES, again, made_of, present, reads_of_function, written_out
from ._shapes import input_of

FORMERLY = "if-rank"
OPTIONS = ("sink_transposes",)  # 1: `turned` runs
MOST = 64  # nodes on the way
FIRST = "first~"  # the constant 0 in a branch that is copied


class Way(NamedTuple):
    """The nodes after an If through which the two ranks go, in order, and those after which there is one.

    shapes  of what the nodes make: as the first branch has it, and as the second
    """

    nodes: list[Node]
    ends: list[Node]
    shapes: dict[Value, tuple[Shape, Shape]]


@model_rule(stage=Stage.CLEAN)
def sink(editor):
    for node in list(editor.nodes({"If"}.__contains__)):
        refused = node.alive and branches_of_other_rank.check(node) is not None
        if not refused or editor.excluded(node) or editor.why_unsupported(node) is None:
            continue
        builder = editor.builder(node)
        try:
            way = _way(builder)
        except Decline as reason:
            editor.decline(node, str(reason))
            continue
        finally:
            builder.undo()
        if any(map(editor.excluded, way.ends)):  # by whose outputs the rewrites are called
            continue
        for end in way.ends:
            _sink(editor, node, way, end)


@model_rule(stage=Stage.CLEAN)
def turned(editor):
    for node in list(editor.nodes({"Transpose"}.__contains__)):
        builder = editor.builder(node)
        if not builder.options.get("sink_transposes") or editor.excluded(node):
            continue
        chosen, made = node.inputs[0].producer, node.outputs[0]
        if chosen is None or chosen.op != "If" or chosen.graph is not node.graph:
            continue
        if any(map(reads_of_function, (chosen.body(name) for name in BRANCHES))):
            editor.decline(node, "a branch reads an attribute of its function")
            continue
        shape = editor.model.shape(made)
        if shape is None:
            editor.decline(node, "its rank is not known")
            continue
        _sink(editor, chosen, Way([node], [node], {made: (shape, shape)}), node)


def _way(b: Builder) -> Way:
    """The nodes that go into the branches, found by writing both branches out beside one another."""
    node, bodies = b.root, [b.root.body(name) for name in BRANCHES]
    read = [o is not None and (o.is_output or bool(o.users)) for o in node.outputs]
    require(sum(read) == 1, "several of its outputs are read")
    out = node.outputs[read.index(True)]
    assert out is not None
    pairs = {out: tuple(written_out(b, body)[read.index(True)] for body in bodies)}
    split, way = [out], Way([], [], {})
    for reader in [n for n in node.graph.live() if n.place > node.place and n not in b.made]:
        if not any(v in split for v in reader.reads()):
            continue
        require(not reader.bodies, "a body reads it")
        require(len(way.nodes) < MOST, f"more than {MOST} nodes are between it and one rank")
        both = [again(b, reader, {v: pair[k] for v, pair in pairs.items()}) for k in range(2)]
        way.nodes.append(reader)
        differs = False
        for old, *new in zip(reader.outputs, *both, strict=True):
            if old is None:
                continue
            shapes = [require_some(b.shape(v), f"the rank of '{old.name}' is not known") for v in new]
            pairs[old], way.shapes[old] = tuple(new), (shapes[0], shapes[1])
            differs |= len(shapes[0]) != len(shapes[1])
        if differs:
            split += [o for o in reader.outputs if o is not None]
        else:
            way.ends.append(reader)
    returned = next((v.name for v in split if v.is_output), None)
    require(returned is None, f"the output '{returned}' has one rank or another, and an engine returns one")
    return way


def _sink(editor: Editor, node: Node, way: Way, end: Node) -> None:
    """Put an If that returns what `end` does in its place."""
    nodes = _behind(end, way.nodes)
    whole = present(node)
    proto = NodeProto(op_type="If")
    for k, name in enumerate(BRANCHES):
        body = GraphProto()
        body.CopyFrom(next(a.g for a in whole.attribute if a.name == name))
        _gather_squeezed(node.body(name), body)
        names = {o.name: info.name for o, info in zip(node.outputs, body.output, strict=True) if o is not None}
        for sunk in nodes:
            names.update({o.name: f"{o.name}~{name}" for o in sunk.outputs if o is not None})
            copy = body.node.add()
            copy.CopyFrom(sunk.proto)
            copy.input[:] = [names.get(n, n) for n in copy.input]
            copy.output[:] = [names.get(n, n) for n in copy.output]
        del body.output[:]
        body.output.extend(
            helper.make_tensor_value_info(names[o.name], editor.model.dtype(o), way.shapes[o][k])
            for o in end.outputs
            if o is not None
        )
        proto.attribute.append(helper.make_attribute(name, body))
    builder = editor.builder(end)
    first = {FIRST: builder.constant(0)}
    editor.replace(end, made_of(builder, proto, node.inputs, len(end.outputs), first), builder)


def _gather_squeezed(graph: Graph, body: GraphProto) -> None:
    """Write each Squeeze of one size that is not static, in the copy `body` of a branch, as a Gather."""
    for node in graph.of(["Squeeze"]):
        shape, axes = graph.model.shape(input_of(node)), graph.model.constant([*node.operands(), None][1])
        if shape is None or axes is None or axes.size != 1 or isinstance(shape[int(axes.reshape(-1)[0])], int):
            continue
        for proto in body.node:
            if list(proto.output) == list(node.proto.output):
                gather = helper.make_node(
                    "Gather", [proto.input[0], FIRST], proto.output, axis=int(axes.reshape(-1)[0])
                )
                proto.CopyFrom(gather)


def _behind(end: Node, nodes: Sequence[Node]) -> list[Node]:
    """Those of some nodes that `end` is computed by, itself the last."""
    needed = {end}
    for node in reversed(nodes):
        made = [o for o in node.outputs if o is not None]
        if any(reader in needed for o in made for reader in o.users):
            needed.add(node)
    return [n for n in nodes if n in needed]
