"""Store integers of 8 and 16 bits, and unsigned ones of 32, in a type that TensorRT computes with.

Why       TensorRT has uint8 as the type of inputs and outputs alone, from 8.5 on, and reads it by Cast. It has no type
          of 16 bits and no unsigned one of 32. Models of images begin with uint8 pixels that are transposed, cut or
          scaled before the Cast; audio and medical images are of 16 bits.
Rewrites  op(x of uint8)                          ->  Cast<uint8>(op(Cast<int32>(x))), of Add, Sub and Mul modulo 256
          Cast<uint8>(x), x of another type       ->  Cast<uint8>(Cast<int32>(x) modulo 256)
          Cast<T>(Cast<uint8>(x)), x of 0 to 255  ->  Cast<T>(x)
          the same of int16 and uint16 modulo 65536; of uint32 in int64 modulo 2^32
Exact     Bit for bit, where ONNX says what comes out: what a float beyond the type's range becomes it does not say.
Price     A Cast before and after, two nodes more for Add, Sub and Mul. In ONNX Runtime on one thread: Transpose of
          [1,224,224,3] 0.06 ms next to 0.05, Add of [64,512] 0.13 next to 0.005.

It is done for operators that move numbers about, for arithmetic, comparisons and bits. MaxPool, DepthToSpace,
SpaceToDepth and Resize are stored in fp32: what Resize interpolates is cut off, as ONNX Runtime does it. Of a type
that the target does not read, an input of the model stays what it is, and with it all of that type:
--allow-narrowing makes it int32, and uint32 int64.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from surgeon import FLOATS, Builder, Editor, Node, Stage, Value, model_rule
from surgeon.ir.model import Model
from surgeon.ir.operators import COMPARES, ELEMENTWISE, FILLS, MOVES, PICKS, REDUCES
from surgeon.ir.ranges import Ranges
from surgeon.targets.unsupported import Kind

FORMERLY = "small-integers"


# What may return integers beyond the limits of what it reads: of integers alone, so no trait.
OVERFLOWING = frozenset({"Abs", "Add", "BitShift", "BitwiseNot", "Mul", "Neg", "Sub"})
BITS = frozenset({"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
COMPUTING = PICKS & (ELEMENTWISE | REDUCES) - {"Where"} | BITS | {"Div", "Mod"}  # nothing beyond the type's limits
COMPARING = COMPARES | {"ArgMax", "ArgMin"}
IN_FLOAT = frozenset({"DepthToSpace", "MaxPool", "Resize", "SpaceToDepth"})  # ONNX Runtime has no kernel for int32
MOVING = (MOVES | FILLS | PICKS) - COMPUTING - IN_FLOAT - {"GlobalMaxPool", "MaxUnpool", "TensorScatter", "Unique"}
FILLING = frozenset({"ConstantOfShape"})
CARRIED = OVERFLOWING | COMPUTING | COMPARING | MOVING | IN_FLOAT | FILLING
INT32, FLOAT = TensorProto.INT32, TensorProto.FLOAT
CARRIERS: dict[int, int] = {
    TensorProto.UINT8: INT32,
    TensorProto.INT16: INT32,
    TensorProto.UINT16: INT32,
    TensorProto.UINT32: TensorProto.INT64,
}


@model_rule(stage=Stage.FUSE)
def carry(editor):
    target, model = editor.target, editor.model
    if not target.has_other_types(model):
        return
    given = {info.type.tensor_type.elem_type for info in model.proto.graph.input}
    kinds = {kind for kind, wide in CARRIERS.items() if target.reads(kind) or kind not in given}
    if not target.int64:
        kinds -= {TensorProto.UINT32}
    for node in list(editor.nodes((CARRIED | {"Cast"}).__contains__)):
        if not node.alive or editor.excluded(node) or all(v is None or model.is_constant(v) for v in node.outputs):
            continue
        if node.key == "Resize" and node.attr("mode") != "nearest" and not _is_cut_off(model, node):
            continue  # it computes, and rounds in a way of its own
        if node.key.startswith("Scatter") and node.attr("reduction") in ("add", "mul"):
            continue  # how many numbers meet in one position is not known
        if node.key == "Cast" and node.attr("to") not in CARRIERS:
            _read_behind(editor, node)
        elif (why := target.why_unsupported(node)) is None or why.kind is Kind.OPSET:
            continue
        elif node.key == "Cast":
            if node.attr("to") in kinds:
                _wrapped(editor, node)
        else:
            found = {model.dtype(v) for v in (*node.inputs, *node.outputs) if v is not None} & kinds
            if len(found) == 1 and not _has_eight_bits(node, *found):
                _carried_through(editor, node, *found)


def _read_behind(editor: Editor, node: Node) -> None:
    """Have a Cast read what a Cast to a small type before it reads, where that changes nothing."""
    b, source = editor.builder(node), node.inputs[0]
    carrier = None if source is None else _carrier(editor, b, source)
    if carrier is None:
        b.undo()
        return
    editor.replace(node, [b.Cast(carrier, to=node.attr("to"))], b)


def _wrapped(editor: Editor, node: Node) -> None:
    """Have a Cast to a small type read integers of its range."""
    b, source, kind = editor.builder(node), node.inputs[0], node.attr("to")
    if source is None or node.outputs[0] is None or _carrier(editor, b, node.outputs[0]) is not None:
        b.undo()
        return
    if kind == TensorProto.UINT32 and editor.model.dtype(source) in FLOATS:  # each runtime has its own way beyond 2^31
        return
    editor.replace(node, [_narrowed(b, _widened(editor, b, source, CARRIERS[kind]), kind, wraps=True)], b)


def _carried_through(editor: Editor, node: Node, kind: int) -> None:
    """Put the node between Casts."""
    b, types = editor.builder(node), editor.model.dtype
    wide = FLOAT if node.key in IN_FLOAT else CARRIERS[kind]
    inputs = [v if v is None or types(v) != kind else _widened(editor, b, v, wide) for v in node.inputs]
    if node.key == "BitShift":
        made = _shifted(editor, b, node, kind, inputs[0])
        if made is None:
            b.undo()
            return
    else:
        attrs = dict(node.attrs)
        if node.key in FILLING:
            number = numpy_helper.to_array(node.attr("value"))
            attrs["value"] = numpy_helper.from_array(number.astype(helper.tensor_dtype_to_np_dtype(wide)))
        made = b.node(node.op, inputs, len(node.outputs), "", attrs)
    if node.key == "Resize" and node.attr("mode") != "nearest":
        made = b.Floor(made)
    found = made if isinstance(made, tuple) else (made,)
    wraps = node.key in OVERFLOWING or (node.key == "Div" and _limits(kind)[0] < 0)  # -32768 / -1 is beyond
    outputs = [
        new if old is None or types(old) != kind or not old.is_read else _narrowed(b, new, kind, wraps=wraps)
        for old, new in zip(node.outputs, found, strict=True)
    ]
    read = zip(node.outputs, outputs, strict=True)
    editor.replace(node, [new if old is not None and old.is_read else None for old, new in read], b)


def _shifted(editor: Editor, b: Builder, node: Node, kind: int, x: Value | None) -> Value | None:
    """A shift by known positions, which is a product or a quotient; None where they are not known."""
    places = None if node.inputs[1] is None else editor.model.constant(node.inputs[1])
    width = _limits(kind)[1].bit_length()
    if places is None or x is None or (places >= width).any():
        return None
    powers = b.constant(1 << places.astype(np.int64), CARRIERS[kind])
    return b.Mul(x, powers) if node.attr("direction") == "LEFT" else b.Div(x, powers)


def _is_cut_off(model: Model, node: Node) -> bool:
    """Whether ONNX Runtime's kernel interpolates images of uint8 in fp32, and leaves the fraction out: it has others
    for images with their channels last and with antialias."""
    given, found = (None if v is None else model.shape(v) for v in (node.inputs[0], node.outputs[0]))
    if given is None or found is None or len(given) != 4 or given[1] is None or given[1] != found[1]:
        return False
    plain = not node.attr("antialias") and node.attr("coordinate_transformation_mode") != "tf_crop_and_resize"
    return plain and node.attr("mode") == "linear"


def _has_eight_bits(node: Node, kind: int) -> bool:
    """Whether a node computes with the bits of the model's own uint8: the pass bitwise asks 8 of them, not 31."""
    inner = any(v is not None and v.producer is not None for v in node.inputs)
    return node.op.startswith("Bit") and kind == TensorProto.UINT8 and not inner


def _widened(editor: Editor, b: Builder, value: Value, wide: int) -> Value:
    known = editor.model.constant(value)
    if known is not None:
        return b.constant(known, wide)
    carrier = _carrier(editor, b, value)
    if carrier is not None and editor.model.dtype(carrier) == wide:
        return carrier
    return b.Cast(value if carrier is None else carrier, to=wide)


def _limits(kind: int) -> tuple[int, int]:
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(kind))
    return int(limits.min), int(limits.max)


def _narrowed(b: Builder, value: Value, kind: int, *, wraps: bool) -> Value:
    """The numbers in a small type, modulo its range where they may be beyond it."""
    lowest, highest = _limits(kind)
    if wraps and lowest:
        value = b.Add(b.Mod(b.Sub(value, lowest), highest - lowest + 1), lowest)
    elif wraps:
        value = b.Mod(value, highest + 1)
    return b.Cast(value, to=kind)


def _carrier(editor: Editor, b: Builder, value: Value) -> Value | None:
    """The numbers of a tensor of a small type in the type that a Cast made it of; None where they may be others."""
    maker = value.producer
    if maker is None or maker.key != "Cast" or maker.attr("to") not in CARRIERS:
        return None
    source = maker.inputs[0]
    if source is None:
        return None
    ranges = Ranges(editor.model)
    found = ranges.of(source)
    if not found.whole or not found.is_within(*_limits(maker.attr("to"))):
        return None
    b.matched = (*b.matched, maker, *ranges.reasons(source))  # the proof must see what keeps them within the type
    return source
