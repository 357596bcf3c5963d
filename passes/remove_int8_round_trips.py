"""Remove round trips through uint8 and int8 of integers that are stored as fp32 before and after.

Why       What is computed with quantized numbers in fp32 is between Casts to uint8 or int8 and back.
          No TensorRT has uint8 between two nodes.
Rewrites  Cast<to fp32>(Cast<to uint8>(x)), x whole and within uint8   ->   x
          the same with Reshape, Transpose, MaxPool, Concat and the like between the two   ->   those, of x
Exact     To the bit. That x is whole and within the type follows from Round, Min, Max and Clip before it.
Price     None: nodes go. What is in place of QuantizeLinear is of the pass quantized-arithmetic.
"""

from onnx import TensorProto

from surgeon import Editor, Node, Stage, Value, model_rule
from surgeon.ir.operators import MOVES
from surgeon.ir.ranges import Ranges

from ._arithmetic import LIMITS, WIDER
from ._shapes import input_of

FORMERLY = "detour"
HANDED_ON = MOVES | {"MaxPool"}


@model_rule(stage=Stage.LOWER)
def detour(editor):
    """From the inputs down, so that what one node passes on is known when the next is looked at."""
    for node in list(editor.nodes({"Cast", *HANDED_ON}.__contains__)):
        if node.alive and not editor.excluded(node):
            (_straighten if node.key == "Cast" else _move)(editor, node)


def _straighten(editor: Editor, cast: Node) -> None:
    source, kind = _carried(editor, cast.inputs[0]), cast.attr("to")
    if source is not None and kind in WIDER:
        b = editor.builder(cast)
        editor.replace(cast, [source if kind == editor.model.dtype(source) else b.Cast(source, to=kind)], b)


def _move(editor: Editor, node: Node) -> None:
    """Let a node that passes elements on pass on numbers of fp32."""
    count = len(node.inputs) if node.key == "Concat" else 1
    sources = [_carried(editor, v) for v in node.inputs[:count]]
    if not all(sources) or len(node.outputs) != 1:
        return
    b = editor.builder(node)
    narrow = editor.model.dtype(input_of(node))
    moved = b.node(node.op, [*sources, *node.inputs[count:]], 1, "", node.attrs)
    editor.replace(node, [b.Cast(moved, to=narrow)], b)


def _carried(editor: Editor, value: Value | None) -> Value | None:
    """The tensor of fp32 or int32 that a narrow one holds the numbers of; None where there is none."""
    maker = None if value is None else value.producer
    if maker is None or maker.key != "Cast" or maker.attr("to") not in LIMITS:
        return None
    source = maker.inputs[0]
    if source is None or editor.model.dtype(source) not in (TensorProto.FLOAT, TensorProto.INT32):
        return None
    found = Ranges(editor.model).of(source)
    return source if found.whole and found.is_within(*LIMITS[maker.attr("to")]) else None
