"""Whether ONNX Runtime's default options load a model in half precision: some releases end their process over it."""

from collections.abc import Iterator, Mapping

from onnx import ModelProto, NodeProto, TensorProto, helper

from surgeon.ir.default_load import ENDS, Load
from surgeon.ir.protos import refill

MOVED = "A Transpose before a MatMul by weights was moved after it: ONNX Runtime's MatmulTransposeFusion"
ENDED = (
    "ONNX Runtime's default optimisations end its process on this model. Load it with "
    "disabled_optimizers=['MatmulTransposeFusion', 'ConstantSharing'], or with a newer ONNX Runtime"
)


def ends_process(model: ModelProto) -> bool:
    """Whether a process of its own does not survive loading the model with ONNX Runtime's default options.

    An error message of ONNX Runtime does not count, and a model that is too large to pass on is not tried.
    """
    return (Load(model).answer() or "").startswith(ENDS)


def make_loadable(model: ModelProto) -> str:
    """Edit the model where ONNX Runtime's default options end their process over it; what the user has to know.

    ONNX Runtime 1.32 ends over a Transpose that keeps the last axis before a MatMul by constant weights in half
    precision. The two change places, which is exact: the weights multiply the last axis alone.
    """
    if not ends_process(model):
        return ""
    moved = _move_transposes(model)
    if moved and not ends_process(model):
        return f"{MOVED} ends the process over it in half precision ({moved} nodes)"
    return ENDED


def _move_transposes(model: ModelProto) -> int:
    """Move each Transpose that a MatMul by weights reads, and that keeps the last axis, after it; how many."""
    graph = model.graph
    ranks = {t.name: len(t.dims) for t in graph.initializer if t.data_type == TensorProto.FLOAT16}
    makers = {name: node for node in graph.node for name in node.output}
    nodes: list[NodeProto] = []
    moved = 0
    for node in graph.node:
        swapped = list(_swapped(node, makers, ranks))
        nodes += swapped or [node]
        moved += bool(swapped)
    if moved:
        refill(graph.node, _read_ones(nodes, graph.output))
    return moved


def _swapped(node: NodeProto, makers: Mapping[str, NodeProto], ranks: Mapping[str, int]) -> Iterator[NodeProto]:
    """The MatMul of what the Transpose before it reads, and the Transpose after it; nothing for any other node."""
    if node.op_type != "MatMul" or node.domain or ranks.get(node.input[1]) != 2:
        return
    transpose = makers.get(node.input[0])
    if transpose is None or transpose.op_type != "Transpose" or transpose.domain:
        return
    perm = next((list(a.ints) for a in transpose.attribute if a.name == "perm"), [])
    if not perm or perm[-1] != len(perm) - 1:
        return
    product = f"{node.output[0]}~{transpose.name or 'Transpose'}"
    yield helper.make_node("MatMul", [transpose.input[0], node.input[1]], [product], name=node.name)
    yield helper.make_node("Transpose", [product], [node.output[0]], name=f"{node.name}~Transpose", perm=perm)


def _read_ones(nodes: list[NodeProto], outputs: object) -> list[NodeProto]:
    """The nodes without the Transposes that nothing reads any more."""
    read = {name for node in nodes for name in node.input} | {o.name for o in outputs}  # type: ignore[attr-defined]
    bodied = {name for node in nodes for a in node.attribute for inner in a.g.node for name in inner.input}
    return [n for n in nodes if n.op_type != "Transpose" or n.output[0] in read or n.output[0] in bodied]
