"""The layers that can be evaluated: one function each, in one table by the layer's name in trt.LayerType.

A function takes the Layer (its attributes are read from `layer.native`, a TensorRT layer) and its inputs as arrays,
None for an input left out, and returns the output array, or a tuple of them. FP16 and BF16 reach it as float32, and
its float32 result is rounded to the layer's type by the caller. Meanings are those that NvInfer.h documents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from surgeon.trt.network.definition import Layer, NetworkError
from surgeon.trt.network.layers import arithmetic, movement, windows

LAYERS: dict[str, Callable[..., Any]] = {
    # one value in, one value out
    "ACTIVATION": arithmetic.activation,
    "CAST": arithmetic.cast,
    "CONSTANT": arithmetic.constant,
    "DEQUANTIZE": arithmetic.dequantize,
    "ELEMENTWISE": arithmetic.elementwise,
    "FILL": arithmetic.fill,
    "IDENTITY": arithmetic.cast,
    "PARAMETRIC_RELU": arithmetic.parametric_relu,
    "QUANTIZE": arithmetic.quantize,
    "SCALE": arithmetic.scale,
    "SELECT": arithmetic.select,
    "UNARY": arithmetic.unary,
    # values moved, not changed
    "CONCATENATION": movement.concatenation,
    "GATHER": movement.gather,
    "KV_CACHE_UPDATE": movement.kv_cache_update,
    "NON_ZERO": movement.non_zero,
    "ONE_HOT": movement.one_hot,
    "PADDING": movement.padding,
    "REVERSE_SEQUENCE": movement.reverse_sequence,
    "SCATTER": movement.scatter,
    "SHAPE": movement.shape,
    "SHUFFLE": movement.shuffle,
    "SLICE": movement.slice_,
    "SQUEEZE": movement.squeeze,
    "TOPK": movement.topk,
    "UNSQUEEZE": movement.unsqueeze,
    # many values in, one out
    "ATTENTION_INPUT": windows.attention,
    "ATTENTION_OUTPUT": windows.attention_output,
    "CONVOLUTION": windows.convolution,
    "CUMULATIVE": windows.cumulative,
    "DECONVOLUTION": windows.deconvolution,
    "EINSUM": windows.einsum,
    "GRID_SAMPLE": windows.grid_sample,
    "LRN": windows.lrn,
    "MATRIX_MULTIPLY": windows.matrix_multiply,
    "NMS": windows.nms,
    "NORMALIZATION": windows.normalization,
    "POOLING": windows.pooling,
    "REDUCE": windows.reduce,
    "RESIZE": windows.resize,
    "ROTARY_EMBEDDING": windows.rotary_embedding,
    "SOFTMAX": windows.softmax,
}


def limitation(layer: Layer) -> str:
    """Why this layer cannot be evaluated although its kind can: an attribute with no meaning here. Empty if it can."""
    find = _LIMITATIONS.get(layer.kind)
    return find(layer) if find else ""


def _constant(layer: Layer) -> str:
    try:
        arithmetic.constant(layer)
    except NetworkError as error:
        return str(error)
    return ""


def _fill(layer: Layer) -> str:
    operation = layer.native.operation.name
    return "" if operation == "LINSPACE" else f"{operation} has no reference: its values are random"


def _pooling(layer: Layer) -> str:
    kind = layer.native.type.name
    return "" if kind in ("MAX", "AVERAGE") else f"pooling type {kind}"


def _reduce(layer: Layer) -> str:
    operation = layer.native.op.name
    return "" if operation in windows.REDUCTIONS else f"reduce operation {operation}"


def _quantize(layer: Layer) -> str:
    kind = layer.outputs[0].type
    return "" if kind in arithmetic.QUANTIZED_RANGES else f"quantization to {kind}"


def _kv_cache_update(layer: Layer) -> str:
    form = getattr(layer.native, "update_form", None)
    return "" if form is None or form.name == "PADDED_BHND" else f"update form {form.name}"


def _attention(layer: Layer) -> str:
    attention = layer.native.attention
    extras = ("normalization_quantize_scale", "query_lengths", "key_value_lengths")
    used = [name for name in extras if getattr(attention, name, None) is not None]
    used += [
        f"{name}={form.name}"
        for name in ("query_form", "key_value_form")
        if (form := getattr(attention, name, None)) is not None and form.name != "PADDED_BHND"
    ]
    return f"attention with {', '.join(used)}" if used else ""


_LIMITATIONS: dict[str, Callable[[Layer], str]] = {
    "ATTENTION_INPUT": _attention,
    "CONSTANT": _constant,
    "FILL": _fill,
    "KV_CACHE_UPDATE": _kv_cache_update,
    "POOLING": _pooling,
    "QUANTIZE": _quantize,
    "REDUCE": _reduce,
}
