"""Weights of few bits stored as raw bytes, where the target misreads or refuses them as numbers of 32 bits.

onnx.helper.make_tensor writes the numbers of uint8, int4 and float4e2m1 into int32_data; see `dtypes.is_spelled`.
"""

from __future__ import annotations

from onnx import TensorProto, numpy_helper

from surgeon.ir.files import all_tensors
from surgeon.ir.protos import copied
from surgeon.pipeline.prepared import Asked, Prepared, Text, applied
from surgeon.targets.dtypes import is_spelled


def prepare(asked: Asked) -> Prepared | None:
    """The model with such weights as bytes; None where there are none."""
    if not any(map(is_spelled, all_tensors(asked.model))):
        return None
    made = copied(asked.model)
    found = [tensor for tensor in all_tensors(made) if is_spelled(tensor)]
    before = [_text(tensor, "int32_data") for tensor in found]
    for tensor in found:
        data = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
        tensor.ClearField("int32_data")
        tensor.raw_data = data
    after = [_text(tensor, "raw_data") for tensor in found]
    return Prepared(made, [applied("raw-weights", before, after, "the weights", error=0.0)])


def _text(tensor: TensorProto, field: str) -> Text:
    kind = TensorProto.DataType.Name(tensor.data_type).lower()
    return Text(tensor.name, f"{tensor.name}: {kind}[{','.join(map(str, tensor.dims))}] in {field}")
