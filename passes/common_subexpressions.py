"""Compute once what several nodes compute: masks, rotary tables, sizes that are written again in each layer.

Why       TensorRT before 10 runs such nodes again for every layer: a mask of 24 layers took 90 % of the time of a GPT.
          Constants that are equal in each layer become weights of their own, as large as the mask.
Rewrites  f(x), f(x)           ->   f(x), read twice
          Add(x, y), Add(y, x)  ->   Add(x, y), read twice; and so for every commutative operator
          f(x) in a body of If, Loop or Scan, where the graph around it has f(x) before   ->   that one
          Equal inputs are one tensor, or constants of up to four million elements, all the same.
Kept      Random operators, sequences, quantizers: one beside each reader says what runs in eight bits. Nodes with
          bodies, calls of functions, operators of other domains, and what names an output of the graph.
          It runs last: a window with a tensor that other nodes read, too, would fit no pattern.
Exact     Bit for bit.
Price     None: nodes go, and none are added.
"""

import math
from collections.abc import Hashable, Sequence

from onnx import TensorProto

from surgeon import Editor, Node, Stage, Value, model_rule
from surgeon.ir.graph import Graph
from surgeon.ir.operators import COMMUTATIVE, HOLDS, OPERATORS, QUANTIZES, RANDOM
from surgeon.ir.protos import SMALL_TENSOR

ONCE = frozenset(OPERATORS) - RANDOM - HOLDS - QUANTIZES - {"Constant", "Dropout"}
COMPARED = 1 << 22  # elements: larger constants are equal where they are one tensor

Known = dict[Hashable, list[Node]]  # nodes by what is quickly compared of them


@model_rule(stage=Stage.LOWER, last=True)
def once(editor):
    for scope in editor.model.scopes:
        if scope.parent is None:
            _merge(editor, scope, [{}])


def _merge(editor: Editor, graph: Graph, known: Sequence[Known]) -> None:
    """Merge the nodes of a scope and of its bodies with those before them; `known` has those of the scopes around."""
    for node in graph.live():
        for body in node.bodies:
            _merge(editor, body, [*known, {}])
        if node.key not in ONCE or node.bodies:
            continue
        # A body reads no more tensors of the graph around than it did.
        reads_around = len(known) == 1 or any(v is not None and not v.is_written for v in node.inputs)
        first = _first(editor, node, known if reads_around else known[-1:])
        if first is None:
            continue
        if not editor.excluded(node) and not any(o is not None and o.is_output for o in node.outputs):
            builder = editor.builder(node)
            builder.matched = (*(first.origin.removed if first.origin is not None else (first,)), node)
            editor.replace(node, first.outputs, builder)


def _first(editor: Editor, node: Node, known: Sequence[Known]) -> Node | None:
    """The known node that computes the same; None where there is none, and then the node is known, too."""
    quick = node.key, frozenset([v for v in node.inputs if v is not None and v.varies])
    if not any(quick in nodes for nodes in known):
        known[-1][quick] = [node]  # nearly always alone, so its key need not be made
        return None
    for nodes in known:
        if alone := nodes.get(quick):
            nodes.setdefault(_key(editor, alone[0]), []).append(alone.pop())
    key = _key(editor, node)
    found = next((n for nodes in known for n in nodes.get(key, ()) if _is_same(editor, n, node)), None)
    if found is None:
        known[-1].setdefault(quick, [])
        known[-1].setdefault(key, []).append(node)
    return found


def _key(editor: Editor, node: Node) -> Hashable:
    """What decides whether nodes compute the same; of large constants the types and sizes."""
    attributes = sorted(a.SerializeToString(deterministic=True) for a in node.proto.attribute)
    inputs = tuple([_input_key(editor, v) for v in _operands(node)])
    return node.key, inputs, tuple(attributes), tuple(o is None for o in node.outputs)


def _operands(node: Node) -> Sequence[Value | None]:
    """The inputs; those of a commutative operator in an order that does not depend on the file's."""
    if node.key not in COMMUTATIVE or len(node.inputs) != 2:  # the sum of three numbers depends on the order
        return node.inputs
    return sorted((v for v in node.inputs if v is not None), key=lambda v: (v.is_written, v.name))


def _input_key(editor: Editor, value: Value | None) -> Hashable:
    if value is None or not value.is_written or editor.model.dtype(value) == TensorProto.STRING:
        return value
    tensor = value.tensor
    if tensor is None or math.prod(tensor.dims) <= SMALL_TENSOR:
        return editor.model.fingerprint(value) or value
    return tensor.data_type, tuple(tensor.dims)


def _is_same(editor: Editor, one: Node, other: Node) -> bool:
    """Whether nodes of the same key have equal large constants: the weights of q, k and v have the same sizes."""
    pairs = zip(_operands(one), _operands(other), strict=True)
    return one.alive and all(v is w or _are_equal(editor, v, w) for v, w in pairs)


def _are_equal(editor: Editor, one: Value | None, other: Value | None) -> bool:
    """Whether constants of one type and size have the same elements."""
    tensor = None if one is None else one.tensor
    if tensor is None or math.prod(tensor.dims) <= SMALL_TENSOR:
        return True
    return math.prod(tensor.dims) <= COMPARED and editor.model.fingerprint(one) == editor.model.fingerprint(other)
