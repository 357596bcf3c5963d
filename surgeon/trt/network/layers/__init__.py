"""The layers that can be evaluated: a function for each name of trt.LayerType.

A function takes the Layer (its attributes are read from `layer.native`, a TensorRT layer) and its inputs as arrays,
None for an input left out, and returns the output array, or a tuple of them. FP16 and BF16 reach it as float32, and
its float32 result is rounded to the layer's type by the caller. Meanings are those that NvInfer.h documents.
"""

from collections.abc import Callable
from inspect import isfunction
from typing import Any

from surgeon.trt.network.definition import Layer, NetworkError
from surgeon.trt.network.layers import arithmetic, movement, windows

# Each function of these modules is called as the layer that it evaluates.
LAYERS: dict[str, Callable[..., Any]] = {
    name.rstrip("_").upper(): function
    for module in (arithmetic, movement, windows)
    for name, function in vars(module).items()
    if isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
} | {"IDENTITY": arithmetic.cast}


def limitation(layer: Layer) -> str:
    """Why this layer cannot be evaluated although its kind can: an attribute with no meaning here. Empty if it can."""
    native, kind = layer.native, layer.kind
    if kind == "CONSTANT":
        return _why_no_weights(layer)
    if kind == "FILL" and native.operation.name != "LINSPACE":
        return f"{native.operation.name} has no reference: its values are random"
    if kind == "POOLING" and native.type.name not in ("MAX", "AVERAGE"):
        return f"pooling type {native.type.name}"
    if kind == "REDUCE" and native.op.name not in windows.REDUCTIONS:
        return f"reduce operation {native.op.name}"
    if kind == "QUANTIZE" and layer.outputs[0].type not in arithmetic.QUANTIZED_RANGES:
        return f"quantization to {layer.outputs[0].type}"
    if kind == "KV_CACHE_UPDATE" and (form := _other_form(native, "update_form")):
        return f"update form {form}"
    if kind == "ATTENTION_INPUT":
        return _limitation_of_attention(native.attention)
    return ""


def _why_no_weights(layer: Layer) -> str:
    try:
        arithmetic.constant(layer)
    except NetworkError as error:
        return str(error)
    return ""


def _other_form(native: Any, name: str) -> str:
    """The form of a tensor, where that is another one than is evaluated."""
    form = getattr(native, name, None)
    return "" if form is None or form.name == "PADDED_BHND" else str(form.name)


def _limitation_of_attention(attention: Any) -> str:
    extras = ("normalization_quantize_scale", "query_lengths", "key_value_lengths")
    used = [name for name in extras if getattr(attention, name, None) is not None]
    used += [f"{n}={form}" for n in ("query_form", "key_value_form") if (form := _other_form(attention, n))]
    return f"attention with {', '.join(used)}" if used else ""
