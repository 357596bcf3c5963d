"""What ONNX Runtime's own operators (`com.microsoft`) take and return: schemas, which onnx does not have.

The source is ONNX Runtime's ContribOperators.md. A schema here serves three ends: the defaults of attributes, the types
of tensors, and the inference of shapes after a node. It is not registered with onnx.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import onnx
from onnx import NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper

from surgeon.ir.data_file import data_beside
from surgeon.ir.lattice import read_type

DOMAIN = "com.microsoft"
# What ONNX Runtime reads in ONNX's own domain -> the opset from which ONNX has it; 0 where it never had.
IN_ONNX = {"LayerNormalization": 17, "SimplifiedLayerNormalization": 0}
Infer = Callable[[Any], None]  # takes onnx's InferenceContext
FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32


# ---- inference -------------------------------------------------------------------------------------------------------


def _like(*positions: int) -> Infer:
    """Outputs of the types and shapes of inputs, in this order."""

    def infer(ctx: Any) -> None:
        for index, position in enumerate(positions):
            if index < ctx.get_num_outputs() and _is_given(ctx, position):
                ctx.set_output_type(index, ctx.get_input_type(position))

    return infer


def _as(op: str, *positions: int, opset: int = 17, quantized: bool = False) -> Infer:
    """The output that ONNX's operator `op` has for these inputs, with the node's attributes.

    quantized  whether the inputs stand for fp32, and the output is of the type of the first one
    """

    def infer(ctx: Any) -> None:
        given = [p for p in positions if _is_given(ctx, p)]
        types = {f"x{p}": _of_elem(ctx.get_input_type(p), FLOAT if quantized else None) for p in given}
        found = _returned(ctx, op, types, opset)
        if found is not None:
            ctx.set_output_type(0, _of_elem(found, _elem(ctx, 0) if quantized else None))

    return infer


def _returned(ctx: Any, op: str, types: dict[str, TypeProto], opset: int = 17) -> TypeProto | None:
    """What ONNX's operator `op` returns for these inputs, with the node's attributes; None where nothing is known."""
    spec = defs.get_schema(op, opset, "")
    node = helper.make_node(op, list(types), ["y"])
    node.attribute.extend(a for n in spec.attributes if (a := ctx.get_attribute(n)) is not None)
    opsets = [helper.make_opsetid("", opset)]
    return onnx.shape_inference.infer_node_outputs(spec, node, types, opset_imports=opsets).get("y")


def _of_elem(given: TypeProto, elem: int | None) -> TypeProto:
    if elem is None:
        return given
    copy = TypeProto()
    copy.CopyFrom(given)
    copy.tensor_type.elem_type = elem
    return copy


def _is_given(ctx: Any, position: int) -> bool:
    return position < ctx.get_num_inputs() and bool(ctx.has_input(position))


def _shape(ctx: Any, position: int) -> list[int | str | None] | None:
    """The dimensions of an input; None where the rank is not known."""
    return _dims(ctx.get_input_type(position)) if _is_given(ctx, position) else None


def _dims(kind: TypeProto | None) -> list[int | str | None] | None:
    shape = None if kind is None else read_type(kind).shape
    return None if shape is None else list(shape)


def _set(ctx: Any, index: int, elem: int, shape: Sequence[int | str | None] | None) -> None:
    if index < ctx.get_num_outputs():
        ctx.set_output_type(index, helper.make_tensor_type_proto(elem, shape))


def _elem(ctx: Any, position: int) -> int:
    return int(ctx.get_input_type(position).tensor_type.elem_type)


def _int(ctx: Any, name: str, default: int = 0) -> int:
    found = ctx.get_attribute(name)
    return default if found is None else int(found.i)


def _product(a: list[Any] | None, b: list[Any] | None) -> list[Any] | None:
    """The shape of a matrix product of two shapes; None where it is not known."""
    if not a or not b or len(a) < 2 or len(b) < 2:
        return None
    batch: list[Any] = []
    for k in range(max(len(a), len(b)) - 2, 0, -1):
        one, other = (s[-2 - k] if len(s) >= 2 + k else 1 for s in (a, b))
        batch.append(other if one == 1 else one if other in (1, one) or isinstance(one, int) else None)
    return [*batch, a[-2], b[-1]]


def _returns(like: int, shape: Callable[[Any], list[Any] | None]) -> Infer:
    """An output of the element type of the input `like`, and of the shape that a function finds; None: not known."""
    return lambda ctx: _set(ctx, 0, _elem(ctx, like), shape(ctx))


def _fused_matmul(ctx: Any) -> list[Any] | None:
    return _product(_turned(ctx, 0, "A"), _turned(ctx, 1, "B"))


def _turned(ctx: Any, position: int, name: str) -> list[Any] | None:
    shape = _shape(ctx, position)
    if shape is None or len(shape) < 2:
        return shape
    if _int(ctx, f"transBatch{name}"):
        shape = [*shape[1:-1], shape[0], shape[-1]]
    return [*shape[:-2], shape[-1], shape[-2]] if _int(ctx, f"trans{name}") else shape


def _float_product(weights: int, like: int) -> Infer:
    """A matrix product of input 0 and another, of the element type of an input."""
    return _returns(like, lambda ctx: _product(_shape(ctx, 0), _shape(ctx, weights)))


def _last(size: Callable[[Any, Any], Any]) -> Infer:
    """The shape of the first input with another last dimension, which follows from it and the attributes."""

    def shape(ctx: Any) -> list[Any] | None:
        given = _shape(ctx, 0)
        return [*given[:-1], size(ctx, given[-1])] if given else None

    return _returns(0, shape)


def _columns(ctx: Any, depth: Any) -> int:
    return _int(ctx, "N" if _int(ctx, "transB", 1) else "K")


def _gemm(ctx: Any) -> None:
    a, b = _shape(ctx, 0), _shape(ctx, 3)
    elem = _elem(ctx, 8) if _is_given(ctx, 8) else FLOAT
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        _set(ctx, 0, elem, None)
        return
    _set(ctx, 0, elem, [a[1 if _int(ctx, "transA") else 0], b[0 if _int(ctx, "transB") else 1]])


def _attention(ctx: Any, like: int, past: int) -> None:
    elem = _elem(ctx, like)
    x, weights = _shape(ctx, 0), _shape(ctx, 1)
    if x is None or len(x) != 3:
        _set(ctx, 0, elem, None)
        return
    sizes = ctx.get_attribute("qkv_hidden_sizes")
    merged = weights[1] if weights is not None and len(weights) == 2 else None
    hidden = sizes.ints[2] if sizes is not None else merged // 3 if isinstance(merged, int) else None
    _set(ctx, 0, elem, [x[0], x[1], hidden])
    heads = _int(ctx, "num_heads")
    size = hidden // heads if isinstance(hidden, int) and heads and sizes is None else None
    _set(ctx, 1, elem, [2, x[0], heads or None, None if _is_given(ctx, past) else x[1], size])


def _times(a: Any, b: Any) -> int | None:
    return a * b if isinstance(a, int) and isinstance(b, int) else None


def _multi_head(ctx: Any) -> None:
    q, v, elem = _shape(ctx, 0), _shape(ctx, 2), _elem(ctx, 0)
    heads = _int(ctx, "num_heads") or None
    if q is None or len(q) not in (3, 5):
        shape = None
    elif len(q) == 5:
        shape = [q[0], q[1], _times(q[2], q[4])]
    elif v is not None and len(v) == 3:
        shape = [q[0], q[1], v[2]]
    elif v is not None and len(v) == 4:
        shape = [q[0], q[1], _times(v[1], v[3])]
    else:
        shape = q
    _set(ctx, 0, elem, shape)
    for index in (1, 2):
        _set(ctx, index, elem, None if q is None else [q[0], heads, None, None])
    _set(ctx, 3, elem, None if q is None else [q[0], heads, q[1], None])


def _grouped(ctx: Any) -> None:
    q, k, past = (_shape(ctx, p) for p in (0, 1, 3))
    heads, kv_heads = _int(ctx, "num_heads"), _int(ctx, "kv_num_heads")
    if q is None or len(q) != 3 or not heads or not kv_heads:
        _set(ctx, 0, _elem(ctx, 0), None)
        return
    size = q[2] // (heads if _is_given(ctx, 1) else heads + 2 * kv_heads) if isinstance(q[2], int) else None
    _set(ctx, 0, _elem(ctx, 0), [*q[:2], None if size is None else heads * size])
    rows = (k or q)[1] if past is None else None
    for index in (1, 2):
        _set(ctx, index, _elem(ctx, 0), [q[0], kv_heads, rows, size])


def _embed(ids: int, words: int, elem_of: int) -> Infer:
    def infer(ctx: Any) -> None:
        given, table, elem = _shape(ctx, ids), _shape(ctx, words), _elem(ctx, elem_of)
        known = given is not None and table is not None and len(given) == 2 and len(table) == 2
        shape = [*(given or []), (table or [None])[-1]] if known else None
        _set(ctx, 0, elem, shape)
        _set(ctx, 1, INT32, None if given is None else given[:1])
        _set(ctx, 2, elem, shape)

    return infer


def _skip_norm(ctx: Any) -> None:
    ctx.set_output_type(0, ctx.get_input_type(0))
    if ctx.get_num_outputs() > 3:
        ctx.set_output_type(3, ctx.get_input_type(0))


def _channels_last(
    op: str, *, elem_of: int = 0, weights: int | None = None, filters_last: bool = False, default: int = 0
) -> Infer:
    """The output of ONNX's Conv or pool, whose input and output have the channels last where an attribute says so.

    weights       the input with the filters
    filters_last  whether those have their channels last, too
    default       what the attribute is where a node has none
    """

    def shape(ctx: Any) -> list[Any] | None:
        last = bool(_int(ctx, "channels_last", default))
        given = [(_shape(ctx, 0), last)] + ([] if weights is None else [(_shape(ctx, weights), filters_last)])
        if any(s is None or len(s) < 3 for s, _ in given):
            return None
        shapes = [[s[0], s[-1], *s[1:-1]] if turned else s for s, turned in given if s is not None]
        types = {f"x{k}": helper.make_tensor_type_proto(FLOAT, s) for k, s in enumerate(shapes)}
        found = _dims(_returned(ctx, op, types))
        return [found[0], *found[2:], found[1]] if found is not None and last else found

    return _returns(elem_of, shape)


def _gathered(ctx: Any) -> list[Any] | None:
    """The rows of a table of packed numbers, which has as many columns as its last dimension holds of them."""
    table, indices = _shape(ctx, 0), _shape(ctx, 1)
    if table is None or indices is None:
        return None
    if _elem(ctx, 0) == TensorProto.UINT8 and isinstance(table[-1], int):
        table = [*table[:-1], table[-1] * (8 // _int(ctx, "bits", 4))]
    axis = _int(ctx, "gather_axis") % len(table)
    return [*table[:axis], *indices, *table[axis + 1 :]]


def _lstm(ctx: Any) -> None:
    x, states, elem = _shape(ctx, 0), _shape(ctx, 2), _elem(ctx, 0)
    if x is None or states is None or len(x) != 3 or len(states) != 3:
        return
    _set(ctx, 0, elem, [x[0], states[0], x[1], states[1]])
    for index in (1, 2):
        _set(ctx, index, elem, [states[0], x[1], states[1]])


def _concat(ctx: Any) -> list[Any] | None:
    parts = [_shape(ctx, p) for p in range(2, ctx.get_num_inputs(), 3)]
    axis = _int(ctx, "axis")
    if parts[0] is None or None in parts:
        return None
    sizes = [s[axis] for s in parts if s is not None]
    numbers = [s for s in sizes if isinstance(s, int)]
    shape = list(parts[0])
    shape[axis] = sum(numbers) if len(numbers) == len(sizes) else None
    return shape


def _expanded(ctx: Any) -> list[Any] | None:
    shape, axis = _shape(ctx, 0), ctx.get_input_data(1)
    if shape is None or axis is None:
        return None
    where = int(numpy_helper.to_array(axis).reshape(())) % (len(shape) + 1)
    return [*shape[:where], 1, *shape[where:]]


def _quantized(ctx: Any) -> None:
    elem = _elem(ctx, 2) if _is_given(ctx, 2) else int(TensorProto.UINT8)
    _set(ctx, 0, elem, _shape(ctx, 0))


def is_onnxruntimes(node: NodeProto, opset: int) -> bool:
    """Whether a node in ONNX's own domain is ONNX Runtime's operator at an opset of the model."""
    first = IN_ONNX.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    return first is not None and (not first or opset < first)


# ---- the table -------------------------------------------------------------------------------------------------------

# What infers the outputs of those that have not simply the type and the shape of their first input.
INFER: dict[str, Infer] = {
    "Attention": partial(_attention, like=0, past=4),
    "BiasSplitGelu": _last(lambda ctx, n: n // 2 if isinstance(n, int) else None),
    "CDist": _returns(0, lambda ctx: [(_shape(ctx, p) or [None])[0] for p in (0, 1)]),
    "DequantizeLinear": _returns(1, partial(_shape, position=0)),
    "DynamicQuantizeLSTM": _lstm,
    "DynamicQuantizeMatMul": _float_product(1, 0),
    "EmbedLayerNormalization": _embed(0, 2, 2),
    "ExpandDims": _returns(0, _expanded),
    "FusedConv": _as("Conv", 0, 1, 2),
    "FusedGemm": _as("Gemm", 0, 1, 2),
    "FusedMatMul": _returns(0, _fused_matmul),
    "GatherBlockQuantized": _returns(2, _gathered),
    "GemmFastGelu": _float_product(1, 0),
    "GroupQueryAttention": _grouped,
    "MatMulBnb4": _last(_columns),
    "MatMulIntegerToFloat": _float_product(1, 2),
    "MatMulNBits": _last(lambda ctx, n: _int(ctx, "N")),
    "MultiHeadAttention": _multi_head,
    "NhwcConv": _channels_last("Conv", weights=1, filters_last=True, default=1),
    "NhwcFusedConv": _channels_last("Conv", weights=1, default=1),
    "NhwcMaxPool": _channels_last("MaxPool", default=1),
    "QAttention": partial(_attention, like=3, past=8),
    "QEmbedLayerNormalization": _embed(0, 2, 8),
    "QGemm": _gemm,
    "QLinearAdd": _as("Add", 0, 3, quantized=True),
    "QLinearAveragePool": _channels_last("AveragePool"),
    "QLinearConcat": _returns(1, _concat),
    "QLinearConv": _channels_last("Conv", elem_of=7, weights=3),
    "QLinearGlobalAveragePool": _channels_last("GlobalAveragePool"),
    "QLinearMul": _as("Mul", 0, 3, quantized=True),
    "QLinearReduceMean": _as("ReduceMean", 0, opset=13, quantized=True),
    "QLinearWhere": _as("Where", 0, 1, 4),
    "QuantizeLinear": _quantized,
    "SkipGroupNorm": _like(0, 0),
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_norm,
    "TransposeMatMul": _returns(0, _fused_matmul),
}
# The types of attributes without a default, where those are not single integers.
KINDS = {
    "FLOAT": "activation_alpha activation_beta activation_gamma clip k_norm_epsilon q_norm_epsilon scale swiglu_limit",
    "STRINGS": "activations",
    "STRING": "activation_type auto_pad direction k_quant_type metric v_quant_type",
    "FLOATS": "activation_params",
    "INTS": "axes dilations kernel_shape pads qkv_hidden_sizes strides",
}
FIXED = {"B": "tensor(bool)", "F": "tensor(float)"}
ANY = [
    f"tensor({kind})"
    for kind in ["float", "float16", "bfloat16", "double", "uint8", "int8", "uint16", "int16", "int32", "int64", "bool"]
]


@cache
def table() -> dict[str, dict[str, str]]:
    """The rows of contrib.toml, which explains them, by operator."""
    return data_beside(__file__)


@cache
def schema(op: str) -> defs.OpSchema | None:
    """The schema of an operator of `com.microsoft`; None for one that surgeon does not know."""
    row = table().get(op)
    if row is None:
        return None
    inputs, outputs, attributes = (row.get(key, "").split() for key in ("inputs", "outputs", "attributes"))
    names = {part.partition(":")[2] for part in (*inputs, *outputs)} - set(FIXED)
    spec = defs.OpSchema(
        op,
        DOMAIN,
        1,
        inputs=[_formal(text) for text in inputs],
        outputs=[_formal(text if k == 0 else text.replace(":", "?:")) for k, text in enumerate(outputs)],
        type_constraints=[(name, ANY, "") for name in sorted(names)],
        attributes=[_attribute(text) for text in attributes],
    )
    spec.set_type_and_shape_inference_function(_silent(INFER.get(op, _like(0))))
    return spec


def _formal(text: str) -> defs.OpSchema.FormalParameter:
    name, _, kind = text.partition(":")
    options = defs.OpSchema.FormalParameterOption
    option = {"?": options.Optional, "*": options.Variadic}.get(name[-1], options.Single)
    return defs.OpSchema.FormalParameter(
        name.rstrip("?*"), FIXED.get(kind, kind), param_option=option, is_homogeneous=option is not options.Variadic
    )


def _attribute(text: str) -> defs.OpSchema.Attribute:
    """An attribute: with its default, or of the type that its name tells."""
    name, _, default = text.partition("=")
    if name == "fused_activation":  # GroupNorm has one of that name that is a number
        return defs.OpSchema.Attribute("activation", defs.OpSchema.AttrType.STRING, "", required=False)
    if not default:
        kind = next((kind for kind, names in KINDS.items() if name in names.split()), "INT")
        return defs.OpSchema.Attribute(name, getattr(defs.OpSchema.AttrType, kind), "", required=False)
    number = float(default) if "." in default or "e" in default else int(default)
    return defs.OpSchema.Attribute(name, helper.make_attribute(name, number))


def _silent(infer: Infer) -> Infer:
    """Inference that leaves a node alone of which it makes nothing: an exception would end that of the whole model."""

    def inferred(ctx: Any) -> None:
        try:
            infer(ctx)
        except Exception:  # a valid node of types or ranks that are not known
            return

    return inferred
