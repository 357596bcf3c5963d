"""The parser's INetworkDefinition as plain lists of layers and tensors."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from surgeon.errors import EngineError, SurgeonError
from surgeon.ir.files import as_text


class NetworkError(SurgeonError):
    """Something about TensorRT's network: the parser rejected the model, or the network cannot be evaluated."""


class ParserRejected(NetworkError, EngineError):
    """TensorRT's parser rejected the model; the message has its own words and names the ONNX nodes."""


# Why a table: TensorRT's own nptype() raises for every type that NumPy lacks.
NUMPY_TYPES: dict[str, np.dtype] = {
    "FLOAT": np.dtype(np.float32),
    "HALF": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "INT8": np.dtype(np.int8),
    "UINT8": np.dtype(np.uint8),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "BOOL": np.dtype(np.bool_),
    "FP8": np.dtype(ml_dtypes.float8_e4m3fn),
}


@dataclass(frozen=True)
class Tensor:
    """One tensor: a number unique in its network, its name, TensorRT type name (FLOAT, HALF, ...) and shape.

    A dimension unknown before run time is -1; the whole shape is None where TensorRT cannot compute it.
    """

    id: int
    name: str
    type: str
    shape: tuple[int, ...] | None

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type of the values; KeyError for a type that has none here (INT4, FP4, E8M0)."""
        return NUMPY_TYPES[self.type]


@dataclass(frozen=True)
class Layer:
    """One layer: `kind` is its name in trt.LayerType, an input left out is None.

    `native` is the TensorRT layer, cast to its own class: attributes are read from it. `scope` numbers the loop or
    conditional that a boundary layer belongs to, None for every other layer.
    """

    kind: str
    name: str
    onnx_node: str
    native: Any
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    scope: int | None = None

    def __str__(self) -> str:
        where = f" ({self.onnx_node})" if self.onnx_node and self.onnx_node != self.name else ""
        return f"{self.kind} layer '{self.name}'{where}"


@dataclass(frozen=True)
class Network:
    """What the parser built: the layers in network order (not always a topological one), inputs and outputs."""

    layers: tuple[Layer, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    runtime: str
    # Weights and layers live in the parser, the builder and the network: they must outlive every read.
    keep_alive: tuple[Any, ...] = field(default=(), repr=False)


def parse(path: str | os.PathLike[str], runtime: str | None = None) -> Network:
    """Parse an ONNX file with TensorRT's own parser and return the network that it built.

    `runtime` is the Python module, "tensorrt_rtx" or "tensorrt"; without it the first of the two that can be imported
    (TensorRT-RTX first: it parses without a GPU). Raises ParserRejected with the parser's messages and the ONNX nodes,
    NetworkError where the file or the module is missing.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise NetworkError(f"there is no model file '{path}'")
    trt = _import_runtime(runtime)
    logger = _collecting_logger(trt)
    logger.lines.clear()
    try:
        builder = trt.Builder(logger)
    except TypeError as error:  # the binding's way to say that the C++ factory returned null
        raise NetworkError(f"{trt.__name__} has no builder on this machine: {logger.lines or error}") from error
    known = trt.NetworkDefinitionCreationFlag.__members__  # where the version has them: types are the model's own
    flags = (1 << int(known[name]) for name in ("EXPLICIT_BATCH", "STRONGLY_TYPED") if name in known)
    network = builder.create_network(sum(flags))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(as_text(path)):
        raise ParserRejected(_rejection(path, trt, parser, logger.lines))
    return read(network, logger, builder, parser)


def read(network: Any, *keep_alive: Any) -> Network:
    """The layers and tensors of any trt.INetworkDefinition, one loaded by Polygraphy or built by hand, say.

    Pass in `keep_alive` what its weights live in: the builder, the parser, NumPy arrays. The network's layers are cast
    to their own classes in place.
    """
    trt = sys.modules[type(network).__module__]
    runtime = importlib.import_module(trt.__name__.split(".")[-1])
    classes = {name.lower(): getattr(trt, name) for name in dir(trt) if name.startswith("I") and name.endswith("Layer")}
    tensors, scopes = _Tensors(), _Scopes()
    inputs = tuple(tensors.of(network.get_input(i)) for i in range(network.num_inputs))
    outputs = tuple(tensors.of(network.get_output(i)) for i in range(network.num_outputs))
    layers = tuple(_layer(network.get_layer(i), classes, tensors, scopes) for i in range(network.num_layers))
    return Network(layers, inputs, outputs, f"{runtime.__name__} {runtime.__version__}", (network, *keep_alive))


def weights_array(weights: Any) -> np.ndarray:
    """Weights of a layer as a flat array, of size 0 where it has none. NetworkError for packed 4-bit types."""
    if isinstance(weights, np.ndarray):
        return weights.reshape(-1)
    if weights.size == 0:
        return np.zeros(0, np.float32)
    kind = weights.dtype.name
    if kind not in NUMPY_TYPES:
        raise NetworkError(f"weights of type {kind} cannot be read")
    return _raw_weights(weights, NUMPY_TYPES[kind])


class _Weights(ctypes.Structure):
    """nvinfer1::Weights of NvInferRuntimeBase.h: DataType type; void const* values; int64_t count."""

    _fields_ = [("type", ctypes.c_int32), ("values", ctypes.c_void_p), ("count", ctypes.c_int64)]


def _raw_weights(weights: Any, dtype: np.dtype) -> np.ndarray:
    """BF16 and FP8 weights: the binding shows neither values nor address, so read the C++ object that it wraps.

    A pybind11 object holds that pointer right after Python's own object header. Type and count must agree with what
    the binding says before anything is read.
    """
    if not any(base.__name__ == "pybind11_object" for base in type(weights).__mro__):
        raise NetworkError(f"weights of type {weights.dtype.name} cannot be read from this binding")
    address = ctypes.c_void_p.from_address(id(weights) + object.__basicsize__).value
    native = _Weights.from_address(address or 0) if address else _Weights()
    if native.type != int(weights.dtype) or native.count != weights.size or not native.values:
        raise NetworkError(f"weights of type {weights.dtype.name} cannot be read from this binding")
    data = ctypes.string_at(native.values, weights.nbytes)
    return np.frombuffer(data, dtype=dtype)


def _import_runtime(runtime: str | None) -> ModuleType:
    names = (runtime,) if runtime else ("tensorrt_rtx", "tensorrt")
    reasons = []
    for name in names:
        try:
            return importlib.import_module(name)
        except (ImportError, OSError) as error:  # OSError: the wheel is there, a CUDA library is not
            reasons.append(f"{name}: {error}")
    raise NetworkError("no TensorRT can be imported (" + "; ".join(reasons) + ")")


@cache
def _collecting_logger(trt: ModuleType) -> Any:
    """The one logger of this process: TensorRT goes on writing to the first that it was given, so none may ever die."""

    class Logger(trt.ILogger):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.lines: list[str] = []

        def log(self, severity: Any, text: str) -> None:
            if severity <= trt.ILogger.Severity.ERROR:
                self.lines.append(text)

    return Logger()


def _rejection(path: str, trt: ModuleType, parser: Any, log: list[str]) -> str:
    errors = [parser.get_error(i) for i in range(parser.num_errors)]
    lines = [f"{trt.__name__} {trt.__version__} rejects '{path}':"]
    lines += [f"  {_onnx_node(error)}: {error.desc()} [{error.func()}]" for error in errors]
    if not errors:  # the parser gave up without an error of its own: the log is all there is
        lines += [f"  {line}" for line in log]
    return "\n".join(lines)


def _onnx_node(error: Any) -> str:
    """The node of a parser error in words. node_name() and node_operator() are missing before TensorRT 10."""
    if error.node() < 0:
        return "model"
    name = error.node_name() if hasattr(error, "node_name") else ""
    operator = error.node_operator() if hasattr(error, "node_operator") else ""
    return " ".join(part for part in (f"node {error.node()}", operator, f"'{name}'" if name else "") if part)


# Layers whose Python class is not named after their trt.LayerType.
_CLASS_NAMES = {"CONDITIONAL_INPUT": "IIfConditionalInputLayer", "CONDITIONAL_OUTPUT": "IIfConditionalOutputLayer"}
_LOOP_KINDS = ("TRIP_LIMIT", "RECURRENCE", "ITERATOR", "LOOP_OUTPUT")
_CONDITIONAL_KINDS = ("CONDITION", "CONDITIONAL_INPUT", "CONDITIONAL_OUTPUT")


def _layer(native: Any, classes: dict[str, Any], tensors: _Tensors, scopes: _Scopes) -> Layer:
    kind = native.type.name  # before the cast: IPoolingLayer.type is its pooling type
    node = getattr(native, "metadata", "").removeprefix("[ONNX Layer: ").removesuffix("]")
    sources = [native.get_input(i) for i in range(native.num_inputs)]
    inputs = tuple(None if source is None else tensors.of(source) for source in sources)
    outputs = tuple(tensors.of(native.get_output(i)) for i in range(native.num_outputs))
    cls = classes.get(_CLASS_NAMES.get(kind, f"I{kind}Layer").replace("_", "").lower())
    if cls is not None:  # get_layer gives the base class, and the binding shows no cast of its own
        native.__class__ = cls
    return Layer(kind, native.name, node, native, inputs, outputs, scopes.of(kind, native))


class _Tensors:
    """Tensors by the identity of their wrappers: a name would not do, the API lets two tensors share one.

    The binding gives the same wrapper for the same tensor as long as somebody holds it, so all are held here.
    """

    def __init__(self) -> None:
        self.known: dict[int, tuple[Tensor, Any]] = {}

    def of(self, native: Any) -> Tensor:
        if id(native) not in self.known:
            tensor = Tensor(len(self.known), native.name, native.dtype.name, _shape(native))
            self.known[id(native)] = tensor, native
        return self.known[id(native)][0]


class _Scopes:
    """Loops and conditionals by the identity of their wrappers, numbered as they come."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, Any]] = {}

    def of(self, kind: str, native: Any) -> int | None:
        if kind not in _LOOP_KINDS and kind not in _CONDITIONAL_KINDS:
            return None
        owner = native.loop if kind in _LOOP_KINDS else native.conditional
        return self.known.setdefault(id(owner), (len(self.known), owner))[0]


def _shape(native: Any) -> tuple[int, ...] | None:
    try:
        return tuple(native.shape)
    except (RuntimeError, ValueError):
        return None
