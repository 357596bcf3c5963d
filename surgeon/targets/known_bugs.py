"""Graphs of which a release was reported to compute wrong numbers, or not to build them: known_bugs.toml has the rows.

The parser supports these nodes, and no error is printed. So `check` and `rewrite` warn, and change nothing.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple, TypeAlias

from surgeon.ir.data_file import data_beside
from surgeon.ir.following import readers
from surgeon.ir.graph import Node
from surgeon.ir.lattice import FLOATS, HALVES
from surgeon.ir.model import Model
from surgeon.ir.operators import ELEMENTWISE, LOCATES, MEASURES, MOVES
from surgeon.targets.condition import constant_of, dtype_of, is_weights, shape_of
from surgeon.targets.releases import Range, dotted, parse
from surgeon.targets.target import Target

STEPS = 12  # nodes between a GridSample and the weights of its samples, or between the products of an attention
PATCH = [14, 14]


Finder: TypeAlias = "Callable[[Model], Iterator[Node]]"
FINDERS: dict[str, Finder] = {}


class Bug(NamedTuple):
    """A row of the file, which explains the fields."""

    targets: Range
    finds: Finder
    what: str
    does: str
    avoided: str
    source: str


def finder(finds: Finder) -> Finder:
    """Mark what finds the nodes of a model that show a bug; a row names it."""
    FINDERS[finds.__name__] = finds
    return finds


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


@finder
def deformable(model: Model) -> Iterator[Node]:
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


@finder
def attention_of_turned_input(model: Model) -> Iterator[Node]:
    """An attention in half precision that reads the Transpose of an input of the model."""
    for product, _, weighted in _attention(model):
        turned = [n for n in (_maker(product, 0), _maker(product, 1), _maker(weighted, 1)) if n is not None]
        is_given = any(n.op == "Transpose" and _maker(n) is None and not is_weights(n.input_at(0)) for n in turned)
        if is_given and dtype_of(product) in HALVES:
            yield product


@finder
def attention_of_fewer_keys(model: Model) -> Iterator[Node]:
    """SegFormer's attention of several images: a Conv of the tokens, as an image, makes fewer keys."""
    for product, softmax, _ in _attention(model):
        image = _maker(_past(_maker(product, 1), lambda n: n.op != "Conv"))
        if image is not None and image.op in MOVES and (shape_of(softmax) or (1,))[0] != 1:
            yield product


@finder
def sums(model: Model) -> Iterator[Node]:
    """CumSum beside others that differ in axis or direction."""
    nodes = _of(model, "CumSum")
    found = {node: (str(constant_of(node, 1)), node.attr("reverse"), node.attr("exclusive")) for node in nodes}
    return iter(found if len(set(found.values())) > 1 else ())


@finder
def strided(model: Model) -> Iterator[Node]:
    """Add, in half precision, of an activated Conv to a tensor that a Concat reads, too."""
    for add in _of(model, "Add"):
        for value, other in ((add.input_at(0), 1), (add.input_at(1), 0)):
            joined = value is not None and any(user.op == "Concat" for user in value.users)
            activated = _past(_maker(add, other), lambda n: n.op in ELEMENTWISE)
            if joined and _is(activated, "Conv") and dtype_of(add) in HALVES:
                yield add


@finder
def large_remainders(model: Model) -> Iterator[Node]:
    """Mod of integers that are neither sizes nor positions, which fp32 holds."""
    sizes = MEASURES | LOCATES | {"TopK"}
    for node in _of(model, "Mod"):
        maker = _past(_maker(node), lambda n: n.op in MOVES or n.op == "Cast")
        if dtype_of(node) not in FLOATS and (maker is None or maker.op not in sizes):
            yield node


@finder
def read_truths(model: Model) -> Iterator[Node]:
    """Or whose result is an output of the model, and is cast."""
    for node in _of(model, "Or"):
        made = node.outputs[0]
        if made in model.graph.outputs and any(user.op == "Cast" for user in made.users):
            yield node


@finder
def resize_of_a_transposed_if(model: Model) -> Iterator[Node]:
    return (n for n in _of(model, "Resize") if _is(t := _maker(n), "Transpose") and _is(_maker(t), "If"))


@finder
def grid_sample_in_fp32(model: Model) -> Iterator[Node]:
    """GridSample of what is cast from half precision."""
    return (n for n in _of(model, "GridSample") if (c := _maker(n)) and c.op == "Cast" and dtype_of(c) in HALVES)


@finder
def patches(model: Model) -> Iterator[Node]:
    """The Conv that cuts an image into the patches of a ViT."""
    return (n for n in _of(model, "Conv") if n.attr("strides") == PATCH == list(shape_of(n, 1) or ())[2:])


@finder
def attention_in_half(model: Model) -> Iterator[Node]:
    return (softmax for _, softmax, _ in _attention(model) if dtype_of(softmax) in HALVES)


@finder
def scaled_attention(model: Model) -> Iterator[Node]:
    """An attention whose queries and keys are both scaled."""
    return (s for p, s, _ in _attention(model) if _is(_maker(p), "Mul") and _is(_maker(p, 1), "Mul"))


@finder
def attention_in_a_branch(model: Model) -> Iterator[Node]:
    return (node for node in _of(model, "Attention") if node.graph.parent is not None)


@cache
def bugs() -> tuple[Bug, ...]:
    """The rows of known_bugs.toml."""
    rows = data_beside(__file__)["bugs"]
    return tuple(Bug(**row | {"targets": parse(row["targets"]), "finds": FINDERS[row["finds"]]}) for row in rows)


def bugs_of(model: Model, target: Target) -> list[str]:
    """A warning for each known bug of a target that a model shows."""
    return [said for bug in bugs() if (said := _warning(bug, model, target))]


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
