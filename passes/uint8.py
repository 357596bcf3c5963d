"""Carry uint8 between two nodes in int32.

Why       TensorRT has uint8 as the type of inputs and outputs alone, from 8.5 on, and reads it by Cast. Models of
          images begin with uint8 pixels that are transposed, cut or scaled before the Cast.
Rewrites  op(x of uint8)                          ->  Cast<uint8>(op(Cast<int32>(x))), of Add, Sub and Mul modulo 256
          Cast<T>(Cast<uint8>(x)), x of 0 to 255  ->  Cast<T>(x)
Exact     Bit for bit.

It is done for operators that move numbers about, for arithmetic and comparisons. MaxPool, DepthToSpace, SpaceToDepth
and Resize to the nearest are carried in fp32.
"""

from __future__ import annotations

from onnx import TensorProto

from surgeon import Builder, Editor, Stage, model_rule
from surgeon.ir.graph import Node, Value

OVERFLOWING = frozenset({"Add", "Mul", "Sub"})
COMPUTING = frozenset({"Div", "Max", "Min", "ReduceMax", "ReduceMin"})
COMPARING = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
MOVING = frozenset({
    "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose",
    "Unsqueeze", "Where",
})  # fmt: skip
IN_FLOAT = frozenset({"DepthToSpace", "MaxPool", "Resize", "SpaceToDepth"})  # ONNX Runtime has no kernel for int32
CARRIED = OVERFLOWING | COMPUTING | COMPARING | MOVING | IN_FLOAT
UINT8, INT32, FLOAT = TensorProto.UINT8, TensorProto.INT32, TensorProto.FLOAT


@model_rule(stage=Stage.FUSE)
def carry(editor):
    target, model = editor.target, editor.model
    if not target.reads(UINT8) or not target.has_other_types(model):
        return False
    changed = False
    for node in list(editor.nodes((CARRIED | {"Cast"}).__contains__)):
        if not node.alive or editor.excluded(node) or all(v is None or model.is_constant(v) for v in node.outputs):
            continue
        if node.key == "Resize" and node.attr("mode") != "nearest":
            continue  # it computes, and rounds in a way of its own
        if node.key == "Cast":
            changed |= _read_behind(editor, node)
        elif target.mistyped(node) and UINT8 in {
            model.dtype(v) for v in (*node.inputs, *node.outputs) if v is not None
        }:
            changed |= _carried_through(editor, node)
    return changed


def _read_behind(editor: Editor, node: Node) -> bool:
    """Have a Cast read what a Cast to uint8 in front of it reads, where that changes nothing."""
    b, source = editor.builder(node), node.inputs[0]
    carrier = None if source is None else _carrier(editor, b, source)
    if carrier is None:
        b.undo()
        return False
    editor.replace(node, [b.Cast(carrier, to=node.attr("to"))], b)
    return True


def _carried_through(editor: Editor, node: Node) -> bool:
    """Put the node between Casts."""
    b, types = editor.builder(node), editor.model.dtype
    wide = FLOAT if node.key in IN_FLOAT else INT32
    inputs = [v if v is None or types(v) != UINT8 else _widened(editor, b, v, wide) for v in node.inputs]
    made = b.node(node.op, inputs, len(node.outputs), "", dict(node.attrs))
    found = made if isinstance(made, tuple) else (made,)
    outputs = [
        new if old is None or types(old) != UINT8 or not _is_read(old) else _narrowed(b, node, new)
        for old, new in zip(node.outputs, found, strict=True)
    ]
    read = zip(node.outputs, outputs, strict=True)
    editor.replace(node, [new if old is not None and _is_read(old) else None for old, new in read], b)
    return True


def _is_read(value: Value) -> bool:
    return bool(value.users) or value.is_output


def _widened(editor: Editor, b: Builder, value: Value, wide: int) -> Value:
    known = editor.model.constant(value)
    if known is not None:
        return b.constant(known, wide)
    carrier = _carrier(editor, b, value)
    if carrier is not None and editor.model.dtype(carrier) == wide:
        return carrier
    made: Value = b.Cast(value if carrier is None else carrier, to=wide)
    return made


def _narrowed(b: Builder, node: Node, value: Value) -> Value:
    made: Value = b.Cast(b.Mod(value, 256) if node.key in OVERFLOWING else value, to=UINT8)
    return made


def _carrier(editor: Editor, b: Builder, value: Value) -> Value | None:
    """The numbers of a uint8 tensor in the type that a Cast made it of; None where they may be others."""
    maker = value.producer
    if maker is None or maker.key != "Cast" or maker.attr("to") != UINT8:
        return None
    source, seen = maker.inputs[0], [maker]
    if source is None or not _is_within(editor, source, seen):
        return None
    b.matched = (*b.matched, *seen)  # the proof must see what keeps the numbers within 0 to 255
    return source


def _is_within(editor: Editor, value: Value, seen: list[Node]) -> bool:
    """Whether every number of a tensor is a whole one from 0 to 255; `seen` gets the nodes that say so."""
    known = editor.model.constant(value)
    if known is not None:
        return known.dtype.kind in "iu" and bool(((known >= 0) & (known <= 255)).all())
    maker = value.producer
    if maker is None:
        return False
    seen.append(maker)
    if maker.key == "Cast":
        source = maker.inputs[0]
        if source is None or maker.attr("to") == TensorProto.INT8:  # which has no 128
            return False
        return editor.model.dtype(source) == UINT8 or _is_within(editor, source, seen)
    if maker.key == "Mod":
        divisor = editor.model.constant(maker.inputs[1])
        return divisor is not None and bool((divisor == 256).all()) and not maker.attr("fmod")
    if maker.key not in COMPUTING | MOVING | IN_FLOAT or (maker.key == "Div" and editor.model.dtype(value) != INT32):
        return False
    read = maker.inputs[1:] if maker.key == "Where" else maker.inputs
    several = read if maker.key in ("Concat", "Where", "Max", "Min", "Div") else read[:1]
    return all(v is not None and _is_within(editor, v, seen) for v in several)
