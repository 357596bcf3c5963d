"""What is wrong in a file and has one reading only: repaired when it is read, and said.

What has two readings is left as it is, so that ONNX Runtime or the graph refuses it.
"""

import math
from collections.abc import Callable, Collection
from itertools import chain

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from surgeon.ir import contrib
from surgeon.ir.files import is_same_tensor
from surgeon.ir.functions import ONNX
from surgeon.ir.protos import all_graphs, bodied, constants_in, in_topological_order, label_of, reads, refill, unused
from surgeon.ir.schemas import attributes_of_any_opset, first_opset, opset_of_definition, schema

SCALES, SIZES = 2, 3  # inputs of Resize
OMITTED = 13  # the opset from which on its scales may be left out


def repair(model: ModelProto) -> list[str]:
    """Repair a model in place; a sentence for each kind of repair."""
    graphs = list(all_graphs(model.graph))
    notes = [mend(graph) for graph in graphs for mend in OF_A_GRAPH]
    used = {n.op_type for g in graphs for n in g.node if n.domain in ONNX}
    notes += [_raise_opset(model, used), _drop_scales(model) if "Resize" in used else ""]
    return list(dict.fromkeys(filter(None, notes)))


def has_faults(model: ModelProto) -> bool:
    """Whether `repair` may change a model, from its nodes and the names of its initializers."""
    skeleton = ModelProto()
    skeleton.opset_import.extend(model.opset_import)
    skeleton.graph.node.extend(model.graph.node)
    skeleton.graph.initializer.extend(TensorProto(name=t.name) for t in model.graph.initializer)
    return any(_has_both(n) for g in all_graphs(model.graph) for n in g.node) or bool(repair(skeleton))


def _rename_nodes(graph: GraphProto) -> str:
    """Names of nodes say nothing but who is meant: the second of two gets a number."""
    names = [node.name for node in graph.node if node.name]
    taken = set(names)
    if len(taken) == len(names):
        return ""
    seen: set[str] = set()
    renamed = 0
    for node in graph.node:
        if node.name in seen:
            node.name = unused(node.name, taken)
            taken.add(node.name)
            renamed += 1
        if node.name:
            seen.add(node.name)
    return f"repaired: {renamed} nodes had the name of another one, which ONNX Runtime refuses; they are renamed"


def _drop_equal_initializers(graph: GraphProto) -> str:
    """Two initializers of one name, equal to the byte, are one."""
    kept: dict[str, TensorProto] = {}
    dropped = []
    for place, tensor in enumerate(graph.initializer):
        first = kept.setdefault(tensor.name, tensor)
        if first is tensor:
            continue
        is_elsewhere = TensorProto.EXTERNAL in (first.data_location, tensor.data_location)
        if first == tensor if is_elsewhere else is_same_tensor(first, tensor):
            dropped.append(place)
    if not dropped:
        return ""
    name = graph.initializer[dropped[0]].name
    for place in reversed(dropped):
        del graph.initializer[place]
    return f"repaired: the initializer '{name}' was in the file twice, with the same values; one is left"


def sort(graph: GraphProto) -> str:
    """A node after the ones that it reads: ONNX asks for that order, and only one graph is meant by any other."""
    nodes = graph.node[:]
    made = [node.output[:] for node in nodes]
    read = [reads(node) for node in nodes] if bodied(nodes) else [node.input[:] for node in nodes]
    later = set(chain.from_iterable(made)) - {""}
    for names, outputs in zip(read, made, strict=True):
        if not later.isdisjoint(names):
            refill(graph.node, in_topological_order(graph.node, "the graph"))
            return "repaired: a node was listed before one that it reads; the nodes are sorted"
        later.difference_update(outputs)
    return ""


def _drop_unknown_attributes(graph: GraphProto) -> str:
    """An attribute that its operator has in no opset says nothing; one of another opset may."""
    found = [(node, a) for node in graph.node for a in node.attribute[:] if not _may_have(node, a.name)]
    if not found:
        return ""
    node, name = found[0][0], found[0][1].name
    for holder, attribute in found:
        holder.attribute.remove(attribute)
    why = "in any opset, and ONNX Runtime refuses it; it is removed"
    return f"repaired: {node.op_type} has no attribute '{name}' {why}"


def _may_have(node: NodeProto, attribute: str) -> bool:
    is_known = node.domain in ONNX and bool(first_opset(node.op_type))
    return not is_known or attribute in attributes_of_any_opset(node.op_type, "")


# ---- Resize ----------------------------------------------------------------------------------------------------------


def _drop_scales(model: ModelProto) -> str:
    """A Resize with scales and sizes that agree computes the same by its sizes."""
    both = [(g, n) for g in all_graphs(model.graph) for n in g.node if _has_both(n)]
    if not both:
        return ""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in (*inferred.input, *inferred.value_info)
    }
    done = [(g, n) for g, n in both if _agree(n, _constants(g), shapes.get(n.input[0], []))]
    for graph, node in done:
        node.input[SCALES] = _no_scales(graph, node, model)
    if not done:
        return ""
    label = label_of(done[0][1])
    return f"repaired: {label} had scales and sizes, which ONNX forbids; they agree, and the scales are removed"


def _has_both(node: NodeProto) -> bool:
    both = node.op_type == "Resize" and node.domain in ONNX and len(node.input) > SIZES
    return both and bool(node.input[SIZES] and node.input[SCALES])


def _constants(graph: GraphProto) -> dict[str, TensorProto]:
    return {name: t for name, t in constants_in(graph).items() if t.data_location != TensorProto.EXTERNAL}


def _agree(node: NodeProto, held: dict[str, TensorProto], shape: list[int]) -> bool:
    """Whether the scales of a Resize give its sizes: both constants, and the shape of its input known."""
    scales, sizes = held.get(node.input[SCALES]), held.get(node.input[SIZES])
    if scales is None or sizes is None or not math.prod(scales.dims):
        return False
    by, to = numpy_helper.to_array(scales).ravel().tolist(), numpy_helper.to_array(sizes).ravel().tolist()
    axes = next((list(a.ints) for a in node.attribute if a.name == "axes"), list(range(len(to))))
    if not len(by) == len(to) == len(axes) or not shape:
        return False
    return all(shape[a] > 0 and abs(shape[a] * scale - size) < 1 for a, scale, size in zip(axes, by, to, strict=True))


def _no_scales(graph: GraphProto, node: NodeProto, model: ModelProto) -> str:
    """What stands for omitted scales: nothing, and up to opset 12 a tensor without elements."""
    if all(o.version >= OMITTED for o in model.opset_import if o.domain in ONNX):
        return ""
    name = f"{node.output[0]}_no_scales"
    graph.initializer.append(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[0]))
    return name


OF_A_GRAPH: tuple[Callable[[GraphProto], str], ...] = (
    _rename_nodes,
    _drop_equal_initializers,
    sort,
    _drop_unknown_attributes,
)


# ---- the opset -------------------------------------------------------------------------------------------------------


def _raise_opset(model: ModelProto, used: Collection[str]) -> str:
    """Declare the first opset that has every operator used, where no other one changes its meaning by that."""
    declared = [o for o in model.opset_import if o.domain in ONNX]
    if len(declared) != 1 or declared[0].version < 1:
        return ""
    opset = declared[0].version
    late = {op: first_opset(op) for op in {*used} - {*contrib.IN_ONNX} if schema(op, "", opset) is None}
    late = {op: first for op, first in late.items() if first > opset}
    if not late:
        return ""
    needed = max(late.values())
    if any(opset_of_definition(op, opset) != opset_of_definition(op, needed) for op in {*used} - {*late}):
        return ""
    declared[0].version = needed
    op = max(sorted(late), key=lambda name: late[name])
    return f"repaired: the model declared opset {opset}, and {op} is an operator from {needed} on; it declares {needed}"
