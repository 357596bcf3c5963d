"""Layers that compute each output value from one value of each input: activations, arithmetic, types, constants."""

from collections.abc import Callable

import numpy as np

from surgeon.trt.network.definition import Layer, weights_array
from surgeon.trt.network.layers import kernels

f32 = np.float32

# Smallest and largest value of the types that a QUANTIZE layer may produce here.
QUANTIZED_RANGES = {"INT8": (-128, 127), "UINT8": (0, 255), "FP8": (-448, 448)}


def constant(layer: Layer) -> np.ndarray:
    return weights_array(layer.native.weights).reshape(tuple(layer.native.shape))


def cast(layer: Layer, x: np.ndarray) -> np.ndarray:
    """CAST and IDENTITY: to the type that the network gives the output. FP8 has no infinity: it saturates."""
    if layer.outputs[0].type == "FP8":
        x = np.clip(x.astype(f32), *QUANTIZED_RANGES["FP8"])
    return x.astype(layer.outputs[0].dtype)


def select(layer: Layer, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(condition, x, y)


def parametric_relu(layer: Layer, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.where(x < 0, slope * x, x)


def _erf(x: np.ndarray) -> np.ndarray:
    return kernels.run("Erf", x)


ACTIVATIONS: dict[str, Callable[[np.ndarray, np.float32, np.float32], np.ndarray]] = {
    "RELU": lambda x, a, b: np.maximum(x, x.dtype.type(0)),
    "SIGMOID": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "TANH": lambda x, a, b: np.tanh(x),
    "LEAKY_RELU": lambda x, a, b: np.where(x >= 0, x, a * x),
    "ELU": lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x)),
    "SELU": lambda x, a, b: np.where(x > 0, b * x, b * a * np.expm1(x)),
    "SOFTSIGN": lambda x, a, b: x / (1 + np.abs(x)),
    "SOFTPLUS": lambda x, a, b: a * np.logaddexp(f32(0), b * x),
    "CLIP": lambda x, a, b: np.maximum(a, np.minimum(b, x)),
    "HARD_SIGMOID": lambda x, a, b: np.maximum(f32(0), np.minimum(f32(1), a * x + b)),
    "SCALED_TANH": lambda x, a, b: a * np.tanh(b * x),
    "THRESHOLDED_RELU": lambda x, a, b: np.where(x > a, x, f32(0)),
    "GELU_ERF": lambda x, a, b: f32(0.5) * x * (1 + _erf(f32(np.sqrt(0.5)) * x)),
    "GELU_TANH": lambda x, a, b: kernels.run("Gelu", x, approximate="tanh"),
}


def activation(layer: Layer, x: np.ndarray) -> np.ndarray:
    result = ACTIVATIONS[layer.native.type.name](x, f32(layer.native.alpha), f32(layer.native.beta))
    return result.astype(x.dtype)  # an integer clipped by float bounds stays an integer


NAMED_AS_IN_NUMPY = "exp log sqrt abs sin cos tan sinh cosh ceil floor sign isinf isnan"
UNARIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{name.upper(): getattr(np, name) for name in NAMED_AS_IN_NUMPY.split()},
    **{f"A{name.upper()}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "RECIP": lambda x: x.dtype.type(1) / x,
    "NEG": np.negative,
    "ERF": _erf,
    "NOT": np.logical_not,
    "ROUND": np.rint,
}


def unary(layer: Layer, x: np.ndarray) -> np.ndarray:
    return UNARIES[layer.native.op.name](x)


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Integers truncate towards zero, as in C; NumPy's own division rounds down."""
    if x.dtype.kind == "f":
        return np.asarray(x / y)
    quotient = np.floor_divide(x, y)
    return np.asarray(quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype))


ELEMENTWISE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "SUB": np.subtract,
    "DIV": _divide,
    "POW": np.power,
    "FLOOR_DIV": lambda x, y: np.floor(x / y) if x.dtype.kind == "f" else np.floor_divide(x, y),
    "AND": np.logical_and,
    "OR": np.logical_or,
    "XOR": np.logical_xor,
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "LESS": np.less,
}


def elementwise(layer: Layer, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ELEMENTWISE[layer.native.op.name](x, y)


def scale(layer: Layer, x: np.ndarray) -> np.ndarray:
    """(x * scale + shift) ^ power; weights of size 0 stand for 1, 0 and 1."""
    factor, shift, power = (_scale_weights(layer, x, name) for name in ("scale", "shift", "power"))
    if factor is not None:
        x = x * factor
    if shift is not None:
        x = x + shift
    return x if power is None else np.power(x, power)


def _scale_weights(layer: Layer, x: np.ndarray, name: str) -> np.ndarray | None:
    weights = weights_array(getattr(layer.native, name))
    if weights.size == 0:
        return None
    values, axis = weights.astype(f32), layer.native.channel_axis
    if layer.native.mode.name == "UNIFORM":
        return values.reshape(())
    if layer.native.mode.name == "CHANNEL":
        return values.reshape([-1] + [1] * (x.ndim - 1 - axis))
    return values.reshape(x.shape[axis:])


def fill(
    layer: Layer, shape: np.ndarray | None = None, start: np.ndarray | None = None, step: np.ndarray | None = None
) -> np.ndarray:
    """LINSPACE: start + sum over the dimensions of index * step; the attributes stand in for inputs left out."""
    dims = tuple(layer.native.shape) if shape is None else tuple(int(d) for d in shape)
    dtype = layer.outputs[0].dtype
    first = np.asarray(layer.native.alpha if start is None else start).astype(dtype)
    steps = np.asarray(layer.native.beta if step is None else step).astype(dtype).reshape(-1)
    result = np.full(dims, first, dtype)
    for axis, size in enumerate(dims):
        index = np.arange(size, dtype=dtype) * steps[axis]
        result += index.reshape([-1] + [1] * (len(dims) - 1 - axis))
    return result


def quantize(layer: Layer, x: np.ndarray, scales: np.ndarray, zero_point: np.ndarray | None = None) -> np.ndarray:
    low, high = QUANTIZED_RANGES[layer.outputs[0].type]
    values = x / _spread(layer, scales.astype(f32), x)
    if layer.outputs[0].type != "FP8":
        values = np.rint(values)  # half to even
    if zero_point is not None:
        values = values + _spread(layer, zero_point.astype(f32), x)
    return np.asarray(np.clip(values, low, high).astype(layer.outputs[0].dtype))


def dequantize(layer: Layer, x: np.ndarray, scales: np.ndarray, zero_point: np.ndarray | None = None) -> np.ndarray:
    values = x.astype(f32)
    if zero_point is not None:
        values = values - _spread(layer, zero_point.astype(f32), x)
    return np.asarray(values * _spread(layer, scales.astype(f32), x))


def _spread(layer: Layer, values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A scale or zero point for each value of x: one for all, one for each index of the axis, or one for each block."""
    if values.size == 1:
        return values.reshape(())
    if values.ndim == 1 and x.ndim > 1:
        return values.reshape([-1] + [1] * (x.ndim - 1 - layer.native.axis % x.ndim))
    for axis, size in enumerate(x.shape):
        values = np.repeat(values, size // values.shape[axis], axis)
    return values
