"""What TensorRT's parser understood of a model, evaluated with NumPy: a reference that needs no GPU.

`parse` lets the real ONNX parser (TensorRT-RTX, or TensorRT 8 and later) build its INetworkDefinition. `evaluate` walks
that network, layer by layer, with the meaning that TensorRT's API documents for each layer. Compared with ONNX Runtime
on the ONNX model it shows the parser's own mistakes: an attribute not read, a rounded constant, a mode kept at its
default. It says nothing about kernels: those need an engine and a GPU.

    network = parse("model.onnx")
    outputs = evaluate(network, {"x": x})       # {"y": ndarray}

Three parts: `definition` (the network as plain lists), `evaluation` (order, loops, conditionals, types) and `layers`
(one small function each, in one table).
"""

from surgeon.trt.network.definition import Layer, Network, NetworkError, ParserRejected, Tensor, parse, read
from surgeon.trt.network.evaluation import EvaluationError, UnsupportedLayer, evaluate, unsupported

__all__ = [
    "EvaluationError", "Layer", "Network", "NetworkError", "ParserRejected", "Tensor", "UnsupportedLayer", "evaluate",
    "parse", "read", "unsupported",
]  # fmt: skip
