"""ONNX Runtime's own operators in NumPy, as ContribOperators.md defines them, for onnx's reference evaluator.

The proof asks here where ONNX Runtime's CPU has no kernel (GroupNorm, NhwcConv, anything in half precision), and where
its kernel strays from the definition: lookup tables and other orders of rounding in QLinear operators, activations that
MatMulNBits rounds to eight bits. Nothing is shared with the pass that writes the operators out.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from surgeon.ir import contrib
from surgeon.ir.attributes import read_attribute
from surgeon.ir.functions import opset_of
from surgeon.ir.grouped_attention import grouped_attention
from surgeon.ir.lattice import HALVES
from surgeon.ir.operators import words
from surgeon.ir.protos import all_nodes, copied, refill
from surgeon.ir.schemas import schema

DEFINED = "surgeon.definition"  # the domain of nodes that are to be computed by their definition
# What normalises a sum -> what normalises, in ONNX Runtime's reading at every opset, and where its bias is.
NORMS = {
    "SkipLayerNormalization": ("LayerNormalization", 4),
    "SkipSimplifiedLayerNormalization": ("SimplifiedLayerNormalization", 3),
}
SHIFTED = frozenset({"QLinearAdd", "QLinearAveragePool", "QLinearMul"})  # their zero point is added before they round
ROUND, CAST_LIKE = 11, 15  # the opsets from which on there are Round and CastLike
# Of these ONNX Runtime's kernel rounds otherwise than the definition does; of GroupQueryAttention it makes other rows
# that are not specified.
STRAYING = words("GroupQueryAttention QLinearAdd QLinearAveragePool QLinearMul QLinearReduceMean QLinearSoftmax")


def strays(node: NodeProto, half: bool) -> bool:
    """Whether ONNX Runtime computes the node otherwise than its definition says, or has no kernel for this form.

    half  whether the node is in a window of half precision
    """
    if node.domain != contrib.DOMAIN:
        return False
    if half and node.op_type in IN_HALF:  # the CPU's kernel computes in fp32, where a graphics card's does not
        return True
    if node.op_type in NORMS:  # the kernel takes batches that do not go together
        return True
    if node.op_type == "MatMulNBits":
        return any(a.name == "accuracy_level" and a.i for a in node.attribute)
    if node.op_type == "MultiHeadAttention":  # packed
        return len(node.input) < 3 or not node.input[2]
    return node.op_type in STRAYING


def by_definition(model: ModelProto) -> ModelProto:
    """The model itself, with nodes that ONNX Runtime computes otherwise spelled out or moved to the domain DEFINED."""
    graph = model.graph
    half = any(i.type.tensor_type.elem_type in HALVES for i in graph.input)
    if not any(strays(node, half) for node in graph.node):
        return model
    opset = opset_of(model)
    rows = [spelled(n, opset, half) if strays(n, half) else [n] for n in graph.node]
    if all(row is not None for row in rows):
        refill(graph.node, [n for row in rows for n in row or ()])
        return model
    theirs = [n for n in graph.node if n.domain == contrib.DOMAIN]
    if any(n.op_type not in DEFINITIONS for n in theirs):  # the reference evaluator would not run the others
        return model
    found = [n for n in theirs if strays(n, half)]
    for node in found:
        node.domain = DEFINED
    if found:
        model.opset_import.append(helper.make_opsetid(DEFINED, 1))
    return model


def spelled(node: NodeProto, opset: int, half: bool) -> list[NodeProto] | None:
    """The definition of a node in operators that ONNX Runtime computes as it says; None where there is none here."""
    attrs = {a.name: read_attribute(a) for a in node.attribute}
    if node.op_type == "MatMulNBits":
        plain = copied(node)
        refill(plain.attribute, [a for a in node.attribute if a.name != "accuracy_level"])
        return [plain]
    if node.op_type in NORMS:
        return None if half and opset < CAST_LIKE else _normalized(node, attrs, half)
    if node.op_type in SHIFTED and opset < ROUND:
        return None
    inputs = 8 if node.op_type in ("QLinearAdd", "QLinearMul") else 5
    is_whole = all(node.input) and len(node.input) == inputs  # none is left out
    if not node.op_type.startswith("QLinear") or attrs.get("channels_last") or not is_whole:
        return None
    made: list[NodeProto] = []

    def make(op: str, *inputs: str, **given: Any) -> str:
        made.append(helper.make_node(op, inputs, [f"{node.output[0]}~{len(made)}"], **given))
        return str(made[-1].output[0])

    given = list(node.input)
    if node.op_type == "QLinearAdd":
        total = make("Add", make("DequantizeLinear", *given[:3]), make("DequantizeLinear", *given[3:6]))
        return _shifted(node, make("Div", total, given[6]), make, made)
    if node.op_type == "QLinearMul":
        one = make("Constant", value=helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]))
        whole = [make("DequantizeLinear", x, one, zero) for x, zero in (given[0:3:2], given[3:6:2])]
        factor = make("Div", make("Mul", given[1], given[4]), given[6])
        return _shifted(node, make("Mul", make("Mul", *whole), factor), make, made)
    result = _applied(node.op_type, make("DequantizeLinear", *given[:3]), attrs, opset, make)
    if node.op_type == "QLinearAveragePool":
        return _shifted(node, make("Div", result, given[3]), make, made)
    made.append(helper.make_node("QuantizeLinear", [result, *given[-2:]], list(node.output)))
    return made


def _shifted(node: NodeProto, y: str, make: Any, made: list[NodeProto]) -> list[NodeProto]:
    """With numbers that are shifted by the zero point before they are rounded, as the kernels do it."""
    shift = make("Cast", node.input[-1], to=TensorProto.FLOAT)
    whole = make("Round", make("Add", y, shift))
    one = make("Constant", value=helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]))
    back = [make("Sub", whole, shift), one, node.input[-1]]
    made.append(helper.make_node("QuantizeLinear", back, list(node.output)))
    return made


def _normalized(node: NodeProto, attrs: dict[str, Any], half: bool) -> list[NodeProto] | None:
    """The sum, and the normalisation of it; in fp32 where half precision may be read, as the kernel computes."""
    if any(node.output[1:3]):
        return None
    norm, place = NORMS[node.op_type]
    given, outputs = [*node.input, *[""] * 5], [*node.output, *[""] * 4]
    made: list[NodeProto] = []

    def make(op: str, *inputs: str, output: str = "", **given: Any) -> str:
        made.append(helper.make_node(op, inputs, [output or f"{outputs[0]}~{len(made)}"], **given))
        return str(made[-1].output[0])

    def read(name: str) -> str:
        return make("Cast", name, to=TensorProto.FLOAT) if half else name

    def write(op: str, *inputs: str, output: str, **given: Any) -> str:
        found = make(op, *inputs, output="" if half else output, **given)
        if half:
            make("CastLike", found, node.input[0], output=output)
        return found

    total = make("Add", read(given[0]), read(given[1]))
    if given[place]:
        total = make("Add", total, read(given[place]))
    if outputs[3]:
        write("Identity", total, output=outputs[3])
    weights = [read(w) for w in given[2:place] if w]
    write(norm, total, *weights, output=outputs[0], axis=-1, epsilon=attrs.get("epsilon", 1e-12))
    return made


def _applied(kind: str, x: str, attrs: dict[str, Any], opset: int, make: Any) -> Any:
    """What is between the two of DequantizeLinear and QuantizeLinear."""
    given = {name: v for name, v in attrs.items() if name not in ("channels_last", "opset")}
    op = kind.removeprefix("QLinear")
    if op == "ReduceMean" and opset >= 18:
        axes = helper.make_tensor("axes", TensorProto.INT64, [len(given["axes"])], given["axes"])
        return make("ReduceMean", x, make("Constant", value=axes), keepdims=given["keepdims"])
    if op == "Softmax" and attrs["opset"] < 13 <= opset:
        rows = make("Softmax", make("Flatten", x, axis=attrs.get("axis", -1)), axis=-1)
        return make("Reshape", rows, make("Shape", x))
    return make(op, x, **given)


def in_own_domain(model: ModelProto) -> ModelProto:
    """The model itself, with what ONNX's checker refuses and ONNX Runtime runs in the domain of that.

    Its operators that are in ONNX's own domain, and those that ONNX has deprecated: GroupNormalization of opset 18.
    """
    opset = opset_of(model)
    found = [n for n in all_nodes(model.graph) if contrib.is_onnxruntimes(n, opset) or _is_deprecated(n, opset)]
    for node in found:
        node.domain = contrib.DOMAIN
    if found and not any(o.domain == contrib.DOMAIN for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid(contrib.DOMAIN, 1))
    return model


def _is_deprecated(node: NodeProto, opset: int) -> bool:
    known = schema(node.op_type, "", opset) if node.domain in ("", "ai.onnx") else None
    return known is not None and bool(known.deprecated)


# ---- floating point --------------------------------------------------------------------------------------------------


def _wide(x: np.ndarray | None) -> Any:
    """Half precision is computed in fp32."""
    return x.astype(np.float32) if x is not None and x.dtype.kind not in "iub" and x.dtype.itemsize < 4 else x


def _gelu(x: np.ndarray) -> Any:
    erf = np.vectorize(math.erf, otypes=[x.dtype])
    return x * (1 + erf(x / math.sqrt(2))) / 2 if x.size else x


def _sigmoid(x: np.ndarray) -> Any:
    return 1 / (1 + np.exp(-x))


def _softmax(x: np.ndarray, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def bias_gelu(x: Any, bias: Any = None) -> Any:
    return _gelu(_sum(x, bias))


def fast_gelu(x: Any, bias: Any = None) -> Any:
    x = _sum(x, bias)
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))) / 2


def bias_split_gelu(x: Any, bias: Any) -> Any:
    left, right = np.split(x + bias, 2, axis=-1)
    return left * _gelu(right)


def fused_matmul(
    a: Any, b: Any, alpha: Any, transA: Any, transB: Any, transBatchA: Any = 0, transBatchB: Any = 0
) -> Any:
    return alpha * np.matmul(_turned(a, transA, transBatchA), _turned(b, transB, transBatchB))


def _turned(x: np.ndarray, trans: int, batch: int) -> np.ndarray:
    if batch:
        x = np.moveaxis(x, 0, -2)
    return np.swapaxes(x, -1, -2) if trans else x


def _sum(x: Any, *others: Any) -> Any:
    for other in others:
        x = x if other is None else x + other
    return x


# ---- normalisations --------------------------------------------------------------------------------------------------


def _layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    y = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + epsilon)
    return _sum(y * gamma, beta)


def skip_layer_norm(x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, epsilon: Any = 1e-12) -> Any:
    total = _sum(x, skip, bias)
    return _layer_norm(total, gamma, beta, epsilon), None, None, total


def skip_rms_norm(x: Any, skip: Any, gamma: Any, bias: Any = None, epsilon: Any = 1e-12) -> Any:
    total = _sum(x, skip, bias)
    root = np.sqrt((total * total).mean(axis=-1, keepdims=True) + epsilon)
    return total / root * gamma, None, None, total


def group_norm(x: Any, gamma: Any, beta: Any, activation: Any, channels_last: Any, epsilon: Any, groups: Any) -> Any:
    x = np.moveaxis(x, -1, 1) if channels_last else x
    split = x.reshape(x.shape[0], groups, -1)
    centred = split - split.mean(axis=-1, keepdims=True)
    normal = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + epsilon)
    y = normal.reshape(x.shape) * gamma.reshape(1, -1, 1, 1) + beta.reshape(1, -1, 1, 1)
    y = y * _sigmoid(y) if activation else y
    return np.moveaxis(y, 1, -1) if channels_last else y


def skip_group_norm(x: Any, gamma: Any, beta: Any, skip: Any, bias: Any = None, **attrs: Any) -> Any:
    last = attrs["channels_last"]
    if skip.ndim == 2:
        skip = skip[:, None, None, :] if last else skip[:, :, None, None]
    total = _sum(x, skip, bias if bias is None or last else bias.reshape(1, -1, 1, 1))
    return group_norm(total, gamma, beta, **attrs), total


def embedding(
    ids: Any, segments: Any, words: Any, places: Any, segment_table: Any, gamma: Any, beta: Any, mask: Any = None,
    positions: Any = None, epsilon: Any = 1e-12, mask_index_type: Any = None,
) -> Any:  # fmt: skip
    rows = places[np.arange(ids.shape[1])[None] if positions is None else positions]
    total = _sum(words[ids] + rows, None if segments is None else segment_table[segments])
    counted = np.zeros(len(ids), np.int32) if mask is None else (mask == 1).sum(axis=1).astype(np.int32)
    return _layer_norm(total, gamma, beta, epsilon), counted, total


# ---- attention -------------------------------------------------------------------------------------------------------


def _attended(
    q: Any, k: Any, v: Any, mask: Any, added: Any, scale: Any, unidirectional: Any, mask_filter_value: Any
) -> Any:
    """Of [batch, heads, positions, size]."""
    queries, keys = q.shape[2], k.shape[2]
    scores = _sum(_product(q * q.dtype.type(scale or 1 / math.sqrt(q.shape[3])), np.swapaxes(k, 2, 3)), added)
    lowest = np.finfo(scores.dtype).min
    if mask is not None:
        seen = _seen(mask, q.shape[0], keys)
        if mask_filter_value < lowest:  # it is added in fp32, where nothing is left of a score beside it
            scores = np.where(seen, scores, lowest)
        else:
            scores = scores + np.where(seen, 0, mask_filter_value).astype(scores.dtype)
    if unidirectional:
        scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, lowest)
    y = np.moveaxis(_product(_softmax(_wide(scores)).astype(q.dtype), v), 1, 2)
    return y.reshape(*y.shape[:2], -1)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product in the type of its factors, as the kernels of graphics cards leave it; they add up in fp32."""
    found: np.ndarray = (_wide(a) @ _wide(b)).astype(a.dtype)
    return found


def _seen(mask: np.ndarray, batch: int, keys: int) -> np.ndarray:
    if mask.ndim == 1:
        ends, starts = (mask, np.zeros_like(mask)) if len(mask) == batch else mask.reshape(2, batch)
        positions = np.arange(keys)
        return ((positions < ends[:, None]) & (positions >= starts[:, None]))[:, None, None]
    if mask.ndim == 2 and mask.shape[1] == 1:  # stands for none
        return np.ones((1, 1, 1, 1), bool)
    return (mask > 0)[:, None, None] if mask.ndim == 2 else (mask > 0)[:, None]


def _by_heads(x: np.ndarray, heads: int) -> np.ndarray:
    return np.moveaxis(x.reshape(*x.shape[:2], heads, -1), 2, 1)


def attention(
    x: Any, weights: Any, bias: Any = None, mask: Any = None, past: Any = None, added: Any = None, length: Any = None,
    num_heads: Any = 1, qkv_hidden_sizes: Any = None, scale: Any = None, unidirectional: Any = 0,
    mask_filter_value: Any = -10000.0, **others: Any,
) -> Any:  # fmt: skip
    ends = np.cumsum(qkv_hidden_sizes or [weights.shape[1] // 3] * 3)[:2]
    return _of_one(
        _sum(_product(x, weights), bias), ends, mask, past, added, num_heads, scale, unidirectional, mask_filter_value
    )


def quantized_attention(
    x: Any, weights: Any, bias: Any, x_scale: Any, scale_of_weights: Any, mask: Any = None, x_zero: Any = None,
    zero_of_weights: Any = None, past: Any = None, num_heads: Any = 1, scale: Any = None, unidirectional: Any = 0,
    mask_filter_value: Any = -10000.0, **others: Any,
) -> Any:  # fmt: skip
    projected = integers_to_floats(x, weights, x_scale, scale_of_weights, x_zero, zero_of_weights, bias)
    ends = np.arange(1, 3) * (weights.shape[1] // 3)
    return _of_one(projected, ends, mask, past, None, num_heads, scale, unidirectional, mask_filter_value)


def _of_one(
    projected: Any, ends: Any, mask: Any, past: Any, added: Any, num_heads: int, scale: Any, unidirectional: Any,
    mask_filter_value: Any,
) -> Any:  # fmt: skip
    """Attention of queries, keys and values that are concatenated in one tensor."""
    q, k, v = (_by_heads(part, num_heads) for part in np.split(projected, ends, axis=-1))
    if past is not None:
        k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
    y = _attended(q, k, v, mask, added, scale, unidirectional, mask_filter_value)
    return y, np.stack([k, v]) if k.shape == v.shape else None


def multi_head(
    query: Any, key: Any = None, value: Any = None, bias: Any = None, mask: Any = None, added: Any = None,
    past_key: Any = None, past_value: Any = None, length: Any = None, indirection: Any = None, num_heads: Any = 1,
    scale: Any = None, unidirectional: Any = 0, mask_filter_value: Any = -10000.0,
) -> Any:  # fmt: skip
    if query.ndim == 5:
        q, k, v = (np.moveaxis(query[:, :, :, part], 2, 1) for part in range(3))
    elif value is None:
        q, (k, v) = _by_heads(query, num_heads), (np.moveaxis(key[:, :, :, part], 2, 1) for part in range(2))
    elif key.ndim == 4:
        own, bias = (0 if bias is None else bias[: query.shape[2]]), None  # that of keys by heads is in them
        q, k, v = _by_heads(query + own, num_heads), key, value
    else:
        q, k, v = (_by_heads(part, num_heads) for part in (query, key, value))
    if bias is not None:
        widths = np.cumsum([num_heads * part.shape[3] for part in (q, k)])
        rows = (part.reshape(1, num_heads, 1, -1) for part in np.split(bias, widths))
        q, k, v = (part + row for part, row in zip((q, k, v), rows, strict=True))
    if past_key is not None:
        k, v = np.concatenate([past_key, k], axis=2), np.concatenate([past_value, v], axis=2)
    return _attended(q, k, v, mask, added, scale, unidirectional, mask_filter_value), k, v, None


def rotary(x: Any, positions: Any, cos: Any, sin: Any, interleaved: Any = 0, num_heads: Any = 0, **others: Any) -> Any:
    half, whole = cos.shape[1], x.ndim == 4
    heads = num_heads or x.shape[-1] // (2 * half)
    y = np.moveaxis(x, 1, 2) if whole else x.reshape(*x.shape[:2], heads, -1)
    y = y.copy()
    rows = positions if positions.ndim == 2 else positions + np.arange(y.shape[1])[None]
    c, s = cos[rows][:, :, None], sin[rows][:, :, None]
    one, other = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    real, imaginary = y[..., one].copy(), y[..., other].copy()
    y[..., one], y[..., other] = real * c - imaginary * s, real * s + imaginary * c
    return np.moveaxis(y, 2, 1) if whole else y.reshape(x.shape)


# ---- quantized -------------------------------------------------------------------------------------------------------


def _numbers(x: np.ndarray, scale: Any, zero: Any) -> Any:
    shift = 0 if zero is None else np.asarray(zero, np.int32)
    return (x.astype(np.int32) - shift).astype(np.float32) * np.asarray(scale, np.float32).reshape(())


def _integers(x: np.ndarray, scale: Any, zero: Any, like: np.ndarray) -> np.ndarray:
    dtype = like.dtype if zero is None else zero.dtype
    limits = np.iinfo(dtype)
    whole = np.rint(x / np.asarray(scale, np.float32).reshape(())) + (0 if zero is None else np.float32(zero))
    found: np.ndarray = np.clip(whole, limits.min, limits.max).astype(dtype)
    return found


def _shifted_integers(y: Any, zero: Any, like: np.ndarray) -> np.ndarray:
    """Integers that are shifted by the zero point before they are rounded, as some kernels do it."""
    shift = np.float32(0 if zero is None else zero)
    found: np.ndarray = _integers(y + shift, np.float32(1), np.zeros((), like.dtype), like)
    return found


def qlinear_add(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any = None
) -> Any:
    total = _numbers(a, a_scale, a_zero) + _numbers(b, b_scale, b_zero)
    return _shifted_integers(total / scale, zero, a)


def qlinear_mul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any = None
) -> Any:
    whole = _numbers(a, np.float32(1), a_zero) * _numbers(b, np.float32(1), b_zero)
    return _shifted_integers(whole * (a_scale * b_scale / scale), zero, a)


def _of_numbers(compute: Any) -> Any:
    """An operator of one quantized tensor, by what it makes of the numbers."""

    def run(x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, **attrs: Any) -> Any:
        return _integers(compute(_numbers(x, x_scale, x_zero), **attrs), scale, zero, x)

    return run


def _softmax_at(x: Any, axis: Any, opset: Any = 13) -> Any:
    if opset >= 13:
        return _softmax(x, axis)
    lead = int(np.prod(x.shape[: axis % x.ndim], dtype=np.int64))
    return _softmax(x.reshape(lead, -1)).reshape(x.shape)


def qlinear_global_pool(x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any, channels_last: Any = 0) -> Any:
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    total = _numbers(x, np.float32(1), x_zero).sum(axis=axes, keepdims=True, dtype=np.float32)
    factor = x_scale / (scale * np.float32(math.prod(x.shape[a] for a in axes)))
    return _integers(total * factor, np.float32(1), zero, x)


def qlinear_pool(
    x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None, channels_last: Any = 0, **attrs: Any
) -> Any:
    numbers = _numbers(x, x_scale, x_zero)
    y = _by_reference("AveragePool", np.moveaxis(numbers, -1, 1) if channels_last else numbers, **attrs)
    return _shifted_integers((np.moveaxis(y, 1, -1) if channels_last else y) / scale, zero, x)


def _by_reference(op: str, *inputs: Any, **attrs: Any) -> Any:
    """What ONNX's operator makes of inputs."""
    from onnx.reference import ReferenceEvaluator

    given = {f"x{k}": x for k, x in enumerate(inputs) if x is not None}
    node = helper.make_node(op, list(given), ["y"], **{name: v for name, v in attrs.items() if v is not None})
    outputs: Any = ReferenceEvaluator(node).run(None, given)
    return outputs[0]


def qlinear_concat(scale: Any, zero: Any, *parts: Any, axis: Any = 0) -> Any:
    whole = [_numbers(*parts[k : k + 3]) for k in range(0, len(parts), 3)]
    return _integers(np.concatenate(whole, axis=axis), scale, zero, zero)


def qlinear_where(
    condition: Any, x: Any, x_scale: Any, x_zero: Any, y: Any, y_scale: Any, y_zero: Any, scale: Any, zero: Any
) -> Any:
    return _integers(np.where(condition, _numbers(x, x_scale, x_zero), _numbers(y, y_scale, y_zero)), scale, zero, x)


def qgemm(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, c: Any = None, scale: Any = None,
    zero: Any = None, alpha: Any = 1.0, transA: Any = 0, transB: Any = 0,
) -> Any:  # fmt: skip
    one, other = (a.T if transA else a), (b.T if transB else b)
    total = (one.astype(np.int32) - a_zero.astype(np.int32)) @ (other.astype(np.int32) - b_zero.astype(np.int32))
    factor = a_scale * b_scale * np.float32(alpha)
    y = _sum(total, c).astype(np.float32) * (factor if scale is None else factor / scale)
    return y if scale is None else _integers(y, np.float32(1), zero, a)


def integers_to_floats(
    a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None, bias: Any = None
) -> Any:
    one, other = (x.astype(np.int32) - (0 if z is None else z.astype(np.int32)) for x, z in ((a, a_zero), (b, b_zero)))
    return _sum((one @ other).astype(a_scale.dtype) * (a_scale * b_scale), bias)


def n_bits(
    a: Any, packed: Any, scales: Any, zeros: Any = None, order: Any = None, bias: Any = None, K: Any = 0, N: Any = 0,
    bits: Any = 4, block_size: Any = 0, **others: Any,
) -> Any:  # fmt: skip
    blocks = -(-K // block_size)
    weights = np.zeros((N, K), a.dtype)
    rows, scale = packed.reshape(N, -1), scales.reshape(N, blocks)
    for column in range(K):
        number = _number(rows, column, bits)
        block = column // block_size if order is None else order[column]
        if zeros is None:
            zero: Any = 2 ** (bits - 1)
        else:
            zero = (
                _number(zeros.reshape(N, -1), block, bits)
                if zeros.dtype == np.uint8
                else zeros.reshape(N, blocks)[:, block]
            )
        weights[:, column] = (number - zero) * scale[:, block]
    return _sum(a @ weights.T, bias)


def _number(rows: np.ndarray, column: int, bits: int) -> Any:
    """The numbers of a column of packed rows."""
    each = 8 // bits
    return (rows[:, column // each].astype(np.int32) >> (bits * (column % each))) & (2**bits - 1)


def bias_softmax(x: Any, bias: Any, axis: Any = 1, is_inner_broadcast: Any = 0) -> Any:
    total = x + bias
    return _softmax(total.reshape(*total.shape[: axis % x.ndim], -1)).reshape(total.shape)


# The activations that ONNX Runtime fuses into NhwcFusedConv -> what they make of a number and their parameters.
ACTIVATIONS: dict[str, Any] = {
    "Clip": np.clip,
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
    "LeakyRelu": lambda x, alpha=0.01: np.where(x < 0, alpha * x, x),
    "Relu": lambda x: np.where(x < 0, 0, x),
    "Sigmoid": _sigmoid,
    "Tanh": np.tanh,
}


def nhwc_fused_conv(
    x: Any, w: Any, bias: Any = None, added: Any = None, activation: Any = "", activation_params: Any = (), **attrs: Any
) -> Any:
    y = nhwc_conv(_wide(x), np.moveaxis(_wide(w), 1, -1), _wide(bias), **attrs).astype(x.dtype)
    y = _sum(y, added)
    return ACTIVATIONS[activation](_wide(y), *(activation_params or ())).astype(x.dtype) if activation else y


def nhwc_conv(x: Any, w: Any, bias: Any = None, **attrs: Any) -> Any:
    y = _by_reference("Conv", np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1), bias, **attrs)
    return np.moveaxis(y, 1, -1)


# ---- for the reference evaluator -------------------------------------------------------------------------------------

DEFINITIONS: dict[str, Any] = {
    "Attention": attention,
    "BiasAdd": lambda x, bias, skip: x + bias + skip,
    "BiasGelu": bias_gelu,
    "BiasSoftmax": bias_softmax,
    "BiasSplitGelu": bias_split_gelu,
    "EmbedLayerNormalization": embedding,
    "FastGelu": fast_gelu,
    "FusedMatMul": fused_matmul,
    "Gelu": bias_gelu,
    "GemmFastGelu": lambda x, w, bias=None: fast_gelu(np.matmul(x, w), bias),
    "GroupNorm": group_norm,
    "GroupQueryAttention": grouped_attention,
    "MatMulIntegerToFloat": integers_to_floats,
    "MatMulNBits": n_bits,
    "MultiHeadAttention": multi_head,
    "NhwcConv": nhwc_conv,
    "NhwcFusedConv": nhwc_fused_conv,
    "QAttention": quantized_attention,
    "QGemm": qgemm,
    "QLinearAdd": qlinear_add,
    "QLinearAveragePool": qlinear_pool,
    "QLinearConcat": qlinear_concat,
    "QLinearGlobalAveragePool": qlinear_global_pool,
    "QLinearLeakyRelu": _of_numbers(lambda x, alpha: np.where(x < 0, np.float32(alpha) * x, x)),
    "QLinearMul": qlinear_mul,
    "QLinearReduceMean": _of_numbers(
        lambda x, axes=(), keepdims=1: x.mean(axis=tuple(axes), keepdims=bool(keepdims), dtype=np.float32)
    ),
    "QLinearSigmoid": _of_numbers(_sigmoid),
    "QLinearSoftmax": _of_numbers(_softmax_at),
    "QLinearWhere": qlinear_where,
    "QuickGelu": lambda x, alpha: x * _sigmoid(alpha * x),
    "RotaryEmbedding": rotary,
    "SkipGroupNorm": skip_group_norm,
    "SkipLayerNormalization": skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_rms_norm,
    "TransposeMatMul": fused_matmul,
}


# What is between their products, sums and activations is of their type.
IN_HALF = frozenset({"Attention", "GroupQueryAttention", "MultiHeadAttention", "NhwcFusedConv"})


@cache
def definitions() -> list[Any]:
    """The operators as classes of onnx's reference evaluator, in their own domain and in that of definitions."""
    from onnx.reference.op_run import OpRun

    def run(self: Any, *inputs: np.ndarray | None, **attrs: Any) -> tuple[Any, ...]:
        define = DEFINITIONS[self.onnx_node.op_type]
        given = {a.name: read_attribute(a) for a in self.onnx_node.attribute}
        spec = contrib.schema(self.onnx_node.op_type)
        assert spec is not None
        defaults = {n: read_attribute(a.default_value) for n, a in spec.attributes.items() if a.default_value.type}
        found = define(*(inputs if self.onnx_node.op_type in IN_HALF else map(_wide, inputs)), **{**defaults, **given})
        kind = next((x.dtype for x in inputs if x is not None and x.dtype.kind not in "iub"), None)
        outputs = found if isinstance(found, tuple) else (found,)
        wanted = outputs[: len(self.onnx_node.output)]
        return tuple(_narrow(o, kind) for o in wanted)

    made = []
    for op in DEFINITIONS:
        for domain in (contrib.DOMAIN, DEFINED):
            made.append(type(op, (OpRun,), {"op_domain": domain, "op_schema": contrib.schema(op), "_run": run}))
    return made


def _narrow(found: Any, kind: Any) -> Any:
    """A result in the type of the inputs; an output that the definition does not explain is empty."""
    if found is None:
        return np.zeros(0, np.float32)
    return found.astype(kind) if kind is not None and found.dtype.kind not in "iub" else found
