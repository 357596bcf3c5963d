"""A model without the quantizers of types that the target lacks, such as fp8 before 9.0 and NVFP4 before 10.8."""

from __future__ import annotations

from onnx import ModelProto, TensorProto

from surgeon.ir.model import Model
from surgeon.ir.operators import words
from surgeon.ir.protos import copied
from surgeon.pipeline.quantizers import Unquantized, hold, rewired
from surgeon.report import counted
from surgeon.targets.target import Target

# By ONNX, and by NVIDIA's domain `trt`: from a tensor to its numbers of few bits, and back.
QUANTIZES = words(
    "QuantizeLinear TRT_FP8QuantizeLinear TRT_INT4QuantizeLinear TRT_FP4DynamicQuantize TRT_MXFP8DynamicQuantize"
)
DEQUANTIZES = words("DequantizeLinear TRT_FP8DequantizeLinear TRT_INT4DequantizeLinear TRT_MXFP8DequantizeLinear")
INTEGERS = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32})


def without_lacking_types(source: ModelProto, target: Target) -> tuple[ModelProto, list[str]]:
    """The model where such activations are numbers and such weights floats, and a sentence on them; else the model."""
    if not any(node.op_type in DEQUANTIZES for node in source.graph.node):
        return source, []
    found = Unquantized(copied(source), {}, {}, [], [], [])
    index = Model(found.model)
    instead: dict[str, str] = {}
    gone: set[str] = set()
    weights = 0
    for node in index.graph.live():
        x, end = node.inputs[0] if node.inputs else None, node.outputs[0] if node.outputs else None
        if node.op not in DEQUANTIZES or x is None or end is None or index.dtype(x) in INTEGERS:
            continue
        maker = x.producer
        if maker is not None and maker.op in QUANTIZES and maker.inputs[0] is not None:
            if target.why_unsupported(maker) or target.why_unsupported(node):
                instead[end.name] = maker.inputs[0].name
                gone |= {end.name, *maker.proto.output}
        elif target.why_unsupported(node) and (numbers := index.constant(end)) is not None:
            hold(found.model, end.name, numbers)
            gone.add(end.name)
            weights += 1
    if not gone:
        return source, []
    rewired(found, instead, gone, {})
    many = f"{counted(len(set(instead.values())), 'tensor')} and {counted(weights, 'weight')}"
    return found.model, [f"{many} of types that {target} lacks became floats"]
