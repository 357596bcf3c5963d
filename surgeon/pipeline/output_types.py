"""Say the types of outputs that the file names without one.

A tensor from the middle of a model becomes an output by its name alone: `graph.output.append(ValueInfoProto(name=n))`.
ONNX Runtime infers its type. TensorRT refuses the model, and so does ONNX's checker, without which nothing
is proved.
"""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto

from surgeon.ir.lattice import value_info, without_names
from surgeon.ir.model import Model
from surgeon.pipeline.prepared import OUTPUTS_CHANGE, Prepared, Text, change, described


def with_output_types(model: ModelProto, *, base: Path | None) -> Prepared | None:
    """The model whose outputs have the types that inference finds; None where it finds nothing that the file lacks."""
    if all(info.type.WhichOneof("value") for info in model.graph.output):
        return None
    made = ModelProto()
    made.CopyFrom(model)
    inferred, changed = Model(made, base), []
    for info in made.graph.output:
        value = inferred.graph.find(info.name)
        if info.type.WhichOneof("value") or value is None or not inferred.dtype(value):
            continue
        before = Text(info.name, info.name)
        info.CopyFrom(value_info(info.name, inferred.dtype(value), without_names(inferred.shape(value))))
        changed.append((before, Text(info.name, described(info))))
    if not changed:
        return None
    befores, afters = zip(*changed, strict=True)
    return Prepared(made, [change(befores, afters, "the outputs")(OUTPUTS_CHANGE, 0.0)])


__all__ = ["with_output_types"]
