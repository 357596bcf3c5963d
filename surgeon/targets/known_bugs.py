"""Graphs of which a release was reported to compute wrong numbers, or not to build them: a row a bug, with its source.

The parser supports these nodes, and no error is printed. So `check` and `rewrite` warn, and change nothing.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from surgeon.ir.following import readers
from surgeon.ir.graph import Node
from surgeon.ir.lattice import FLOATS, HALVES
from surgeon.ir.model import Model
from surgeon.ir.operators import ELEMENTWISE, LOCATES, MEASURES, MOVES
from surgeon.targets.condition import constant_of, dtype_of, is_weights, shape_of
from surgeon.targets.releases import Range, between, dotted, since
from surgeon.targets.target import Target

STEPS = 12  # nodes between a GridSample and the weights of its samples, or between the products of an attention
PATCH = [14, 14]


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


def _of(model: Model, *operators: str) -> Iterator[Node]:
    return (node for scope in model.scopes for node in scope.of(operators))


def _maker(node: Node | None, position: int = 0) -> Node | None:
    value = None if node is None else node.input_at(position)
    return None if value is None else value.producer


def _is(node: Node | None, operator: str) -> bool:
    return node is not None and node.op == operator


def _past(node: Node | None, through: Callable[[Node], bool]) -> Node | None:
    """A node, or the first above it along first inputs that is not passed `through`."""
    for _ in range(STEPS):
        if node is None or not through(node):
            return node
        node = _maker(node)
    return None


def _deformable(model: Model) -> Iterator[Node]:
    """GridSample of which a product with the results of a Softmax is taken."""
    for product in _of(model, "Mul"):
        sides = [_past(_maker(product, position), lambda node: node.key in MOVES) for position in (0, 1)]
        if {None if side is None else side.op for side in sides} == {"GridSample", "Softmax"}:
            yield product


def _attention(model: Model) -> Iterator[tuple[Node, Node, Node]]:
    """The nodes of an attention: the MatMul of queries and keys, the Softmax, and the MatMul of its results."""
    for softmax in _of(model, "Softmax"):
        above = _past(_maker(softmax), lambda n: n.op in ELEMENTWISE)
        made = [o for o in softmax.outputs if o is not None]
        below = next((user for user, _ in readers(made, lambda n: n.op == "Cast") if user.op == "MatMul"), None)
        if above is not None and above.op == "MatMul" and below is not None:
            yield above, softmax, below


def _attention_of_turned_input(model: Model) -> Iterator[Node]:
    """An attention in half precision that reads the Transpose of an input of the model."""
    for product, _, weighted in _attention(model):
        turned = [n for n in (_maker(product, 0), _maker(product, 1), _maker(weighted, 1)) if n is not None]
        is_given = any(n.op == "Transpose" and _maker(n) is None and not is_weights(n.input_at(0)) for n in turned)
        if is_given and dtype_of(product) in HALVES:
            yield product


def _attention_of_fewer_keys(model: Model) -> Iterator[Node]:
    """SegFormer's attention of several images: a Conv of the tokens, as an image, makes fewer keys."""
    for product, softmax, _ in _attention(model):
        image = _maker(_past(_maker(product, 1), lambda n: n.op != "Conv"))
        if image is not None and image.op in MOVES and (shape_of(softmax) or (1,))[0] != 1:
            yield product


def _sums(model: Model) -> Iterator[Node]:
    """CumSum beside others that differ in axis or direction."""
    nodes = _of(model, "CumSum")
    found = {node: (str(constant_of(node, 1)), node.attr("reverse"), node.attr("exclusive")) for node in nodes}
    return iter(found if len(set(found.values())) > 1 else ())


def _strided(model: Model) -> Iterator[Node]:
    """Add, in half precision, of an activated Conv to a tensor that a Concat reads, too."""
    for add in _of(model, "Add"):
        for value, other in ((add.input_at(0), 1), (add.input_at(1), 0)):
            joined = value is not None and any(user.op == "Concat" for user in value.users)
            activated = _past(_maker(add, other), lambda n: n.op in ELEMENTWISE)
            if joined and _is(activated, "Conv") and dtype_of(add) in HALVES:
                yield add


def _large_remainders(model: Model) -> Iterator[Node]:
    """Mod of integers that are neither sizes nor positions, which fp32 holds."""
    sizes = MEASURES | LOCATES | {"TopK"}
    for node in _of(model, "Mod"):
        maker = _past(_maker(node), lambda n: n.op in MOVES or n.op == "Cast")
        if dtype_of(node) not in FLOATS and (maker is None or maker.op not in sizes):
            yield node


def _read_truths(model: Model) -> Iterator[Node]:
    """Or whose result is an output of the model, and is cast."""
    for node in _of(model, "Or"):
        made = node.outputs[0]
        if made in model.graph.outputs and any(user.op == "Cast" for user in made.users):
            yield node


# From public reports: a model shows a bug by its operators and how they are joined.
BUGS = (
    Bug(
        between((11, 1), (11, 2)),
        lambda model: (n for n in _of(model, "Resize") if _is(t := _maker(n), "Transpose") and _is(_maker(t), "If")),
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
        "gave wrong boxes: 10.13 on Jetson AGX Thor and on T4, 10.14 on sm_86",
        "use another release, or the plugin MultiscaleDeformableAttnPlugin_TRT",
        "ultralytics/ultralytics#22873, lightly-ai/lightly-train#917, NVIDIA/TensorRT#4813",
    ),
    Bug(
        between((10, 14), (10, 14)),
        lambda model: (
            n for n in _of(model, "GridSample") if (c := _maker(n)) and c.op == "Cast" and dtype_of(c) in HALVES
        ),
        "a GridSample in fp32 of a tensor in half precision",
        "gave wrong numbers",
        "use another release, or one type for both",
        "pytorch/TensorRT#4074",
    ),
    Bug(
        between((10, 13), (11, 2)),
        lambda model: (softmax for _, softmax, _ in _attention(model) if dtype_of(softmax) in HALVES),
        "attention in fp16 or bf16",
        "gave wrong numbers on sm_120 (GeForce RTX 50), where it becomes one fused kernel; fp32 was right. YOLOv10, "
        "which has one, gave wrong boxes in fp16 with 10.13 on Jetson Thor",
        "keep its MatMul in fp32 (--keep-fp32), or mark the result of the Softmax as an output",
        "NVIDIA/TensorRT#4837, #4820",
    ),
    Bug(
        between((11, 2), (11, 2)),
        _attention_of_turned_input,
        "attention in fp16 or bf16 that reads the Transpose of an input of the model",
        "gave wrong numbers: the fused kernel reads the input in the order of the Transpose",
        "keep its MatMul in fp32 (--keep-fp32), or give the input in the order that the attention reads",
        "NVIDIA/TensorRT#4826",
    ),
    Bug(
        between((10, 11), (11, 1)),
        _attention_of_fewer_keys,
        "attention of more than one image whose keys a Conv makes of the tokens (SegFormer)",
        "gave wrong numbers in fp32 and fp16, on sm_89 and sm_120; one image was right",
        "build it for a batch of 1",
        "NVIDIA/TensorRT#4853",
    ),
    Bug(
        since(10, 8),
        _sums,
        "CumSum beside another one along another axis or in the other direction",
        "gave the same sums for both, with 10.11 and 10.12; no later release is reported to be right",
        "use TensorRT 10.7 or earlier, or write one of them as a MatMul with a triangle of ones",
        "NVIDIA/TensorRT#4513, #4551, onnx/onnx-tensorrt#1034",
    ),
    Bug(
        between((11, 2), (11, 2)),
        _strided,
        "an Add, in half precision, of an activated Conv to a tensor that a Concat reads, too (YOLO's C2f)",
        "gave wrong numbers on sm_120: the fused kernel reads the buffer of the Concat as if it were dense",
        "keep that Conv in fp32 (--keep-fp32)",
        "NVIDIA/TensorRT#4854",
    ),
    Bug(
        between((10, 14), (10, 14)),
        lambda model: (n for n in _of(model, "Conv") if n.attr("strides") == PATCH == list(shape_of(n, 1) or ())[2:]),
        "a Conv with a kernel and strides of 14x14 (the patches of a ViT)",
        "gave wrong numbers in fp32 on sm_86",
        "use another release",
        "NVIDIA/TensorRT#4678",
    ),
    Bug(
        between((10, 7), (10, 7)),
        _large_remainders,
        "a Mod of integers that may be above 16777216",
        "gave -1 for 18542495 mod 32, which is 31, on sm_86",
        "divide after the engine, or by a power of two with a BitwiseAnd",
        "NVIDIA/TensorRT#4702",
    ),
    Bug(
        between((10, 12), (10, 12)),
        _read_truths,
        "an Or that is an output of the model, and is cast",
        "gave wrong truths in that output, on sm_86; what the Cast made was right",
        "make the Cast an output in its place",
        "NVIDIA/TensorRT#4512",
    ),
    Bug(
        between((10, 7), (10, 7)),
        lambda model: (s for p, s, _ in _attention(model) if _is(_maker(p), "Mul") and _is(_maker(p, 1), "Mul")),
        "attention of which both factors are scaled (torch's scaled_dot_product_attention)",
        "gave wrong numbers, in fp32 too",
        "use TensorRT 10.8 or later, or scale one factor alone",
        "NVIDIA/TensorRT#4333",
    ),
    Bug(
        between((10, 14), (10, 16)),
        lambda model: (node for node in _of(model, "Attention") if node.graph.parent is not None),
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
