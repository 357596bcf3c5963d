"""Graphs of which a release was reported to compute wrong numbers, or not to build them: a row a bug, with its source.

The parser supports these nodes, and no error is printed. So `check` and `rewrite` warn, and change nothing.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from surgeon.ir.following import readers
from surgeon.ir.graph import Node
from surgeon.ir.lattice import HALVES
from surgeon.ir.model import Model
from surgeon.ir.operators import ELEMENTWISE, MOVES
from surgeon.targets.condition import dtype_of
from surgeon.targets.releases import Range, between, dotted
from surgeon.targets.target import Target

STEPS = 12  # nodes between a GridSample and the weights of its samples, or between the products of an attention


class Bug(NamedTuple):
    """A bug of some releases.

    targets  the releases that have it, as far as it was reported
    finds    the nodes of a model that show it
    what     the graph, in words
    does     what the release does with it, and on which GPU
    avoided  what to do
    source   the report
    """

    targets: Range
    finds: Callable[[Model], Iterator[Node]]
    what: str
    does: str
    avoided: str
    source: str


def _maker(node: Node | None, position: int = 0) -> Node | None:
    value = None if node is None else node.input_at(position)
    return None if value is None else value.producer


def _past(node: Node | None, through: Callable[[Node], bool]) -> Node | None:
    """A node, or the first above it along first inputs that is not passed `through`."""
    for _ in range(STEPS):
        if node is None or not through(node):
            return node
        node = _maker(node)
    return None


def _deformable(model: Model) -> Iterator[Node]:
    """GridSample of which a product with the results of a Softmax is taken."""
    for scope in model.scopes:
        for product in scope.of(["Mul"]):
            sides = [_past(_maker(product, position), lambda node: node.key in MOVES) for position in (0, 1)]
            kinds = {None if side is None else side.op for side in sides}
            if kinds == {"GridSample", "Softmax"}:
                yield product


def _scores(softmax: Node) -> Node | None:
    """The node above a Softmax, past elementwise ones: in an attention the MatMul of queries and keys."""
    return _past(_maker(softmax), lambda n: n.op in ELEMENTWISE)


def _attention(model: Model) -> Iterator[Node]:
    """The Softmax of an attention: its input is computed from a MatMul, and its results go into another one."""
    for scope in model.scopes:
        for softmax in scope.of(["Softmax"]):
            above, made = _scores(softmax), [o for o in softmax.outputs if o is not None]
            into = readers(made, lambda n: n.op == "Cast")
            if above is not None and above.op == "MatMul" and any(user.op == "MatMul" for user, _ in into):
                yield softmax


def _attention_of_scaled(model: Model) -> Iterator[Node]:
    """The attention of torch's scaled_dot_product_attention: both factors are scaled before their product."""
    for softmax in _attention(model):
        product = _scores(softmax)
        if all((side := _maker(product, k)) is not None and side.op == "Mul" for k in (0, 1)):
            yield softmax


def _turned_if(model: Model) -> Iterator[Node]:
    """Resize of a Transpose of the result of an If."""
    for scope in model.scopes:
        for resize in scope.of(["Resize"]):
            turned = _maker(resize)
            chosen = _maker(turned) if turned is not None and turned.op == "Transpose" else None
            if chosen is not None and chosen.op == "If":
                yield resize


def _attention_in_if(model: Model) -> Iterator[Node]:
    for scope in model.scopes:
        if scope.parent is not None:
            yield from scope.of(["Attention"])


BUGS = (
    Bug(
        between((11, 1), (11, 2)),
        _turned_if,
        "a Resize of the Transpose of an If",
        "gave numbers that are off by more than the values themselves, on sm_75 and sm_86",
        "--option sink_transposes=1 puts the Transpose into the branches of the If",
        "NVIDIA/TensorRT#4846",
    ),
    Bug(
        between((11, 0), (11, 1)),
        _deformable,
        "deformable attention (GridSample, weighted by a Softmax)",
        "gave wrong boxes and scores in fp32 for a detector of the kind of DETR",
        "use TensorRT 10.13 or earlier (not on Thor), or the plugin MultiscaleDeformableAttnPlugin_TRT",
        "NVIDIA/TensorRT#4813",
    ),
    Bug(
        between((10, 13), (10, 14)),
        _deformable,
        "deformable attention (GridSample, weighted by a Softmax)",
        "gave wrong boxes: 10.13 on Jetson AGX Thor for RT-DETR, 10.14 on sm_86 for DEIMv2",
        "use another release, or the plugin MultiscaleDeformableAttnPlugin_TRT",
        "ultralytics/ultralytics#22873, NVIDIA/TensorRT#4813",
    ),
    Bug(
        between((10, 13), (11, 2)),
        lambda model: (n for n in _attention(model) if dtype_of(n, 0) in HALVES),
        "attention in fp16 or bf16",
        "gave wrong numbers on sm_120 (GeForce RTX 50), where it becomes one fused kernel; fp32 was right",
        "keep its MatMul in fp32 (--keep-fp32), or mark the result of the Softmax as an output",
        "NVIDIA/TensorRT#4837",
    ),
    Bug(
        between((10, 7), (10, 7)),
        _attention_of_scaled,
        "attention of which both factors are scaled (torch's scaled_dot_product_attention)",
        "gave wrong numbers, in fp32 too",
        "use TensorRT 10.8 or later, or scale one factor alone",
        "NVIDIA/TensorRT#4333",
    ),
    Bug(
        between((10, 14), (10, 16)),
        _attention_in_if,
        "an Attention inside an If",
        "fails to build in Myelin",
        "write it as MatMul and Softmax: surgeon rewrite --strategy attention=decompose",
        "NVIDIA/TensorRT#4757, #4739",
    ),
)


def bugs_of(model: Model, target: Target) -> list[str]:
    """A warning for each known bug of a target that a model shows."""
    return [said for bug in BUGS if (said := _warning(bug, model, target))]


def _warning(bug: Bug, model: Model, target: Target) -> str:
    if target.rtx or not bug.targets.covers(target.version):
        return ""
    found = list(dict.fromkeys(bug.finds(model)))
    if not found:
        return ""
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"known bug of TensorRT {dotted(target.version)}: {bug.what}, as here at {found[0].label}{more}, {bug.does}. "
        f"Compare the engine with ONNX Runtime; {bug.avoided}. Source: {bug.source}"
    )
