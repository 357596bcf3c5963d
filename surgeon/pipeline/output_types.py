"""Add the inferred type to outputs that the file declares without one.

A tensor from the middle of a model becomes an output by its name alone: `graph.output.append(ValueInfoProto(name=n))`.
ONNX Runtime infers its type. TensorRT refuses the model, and so does ONNX's checker, without which nothing is proved.
"""

from __future__ import annotations

from surgeon.ir.lattice import value_info, without_names
from surgeon.ir.model import Model
from surgeon.ir.protos import copied
from surgeon.pipeline.prepared import Asked, Prepared, Text, applied


def prepare(asked: Asked) -> Prepared | None:
    """The model whose outputs have the types that inference finds; None where it finds nothing that the file lacks."""
    if all(info.type.WhichOneof("value") for info in asked.model.graph.output):
        return None
    made = copied(asked.model)
    inferred, changed = Model(made, asked.base), []
    for info in made.graph.output:
        value = inferred.graph.find(info.name)
        if info.type.WhichOneof("value") or value is None or not inferred.dtype(value):
            continue
        before = Text(info.name, info.name)
        info.CopyFrom(value_info(info.name, inferred.dtype(value), without_names(inferred.shape(value))))
        changed.append((before, Text.of_info(info)))
    if not changed:
        return None
    befores, afters = zip(*changed, strict=True)
    return Prepared(made, [applied("output-types", befores, afters, "the outputs", error=0.0)])
