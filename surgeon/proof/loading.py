"""Whether ONNX Runtime still loads a rewritten model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onnx import ModelProto

from surgeon.ir.protos import add_small_weights
from surgeon.ir.run import load_error
from surgeon.rules.meaning import with_functions


def refused(original: Callable[[], ModelProto], after: ModelProto, folder: str | Path | None) -> str:
    """Why ONNX Runtime does not load the rewritten model, where it loads the original, which is asked for where that
    matters; else empty.

    Loaded without the weights, which takes 0.2 s for ten thousand nodes (512 MB of weights took 3.6 s); with them where
    only that settles it.
    """
    if not load_error(with_functions(_without_weights(after))):
        return ""
    before = original()
    if load_error(with_functions(_without_weights(before))):
        return ""
    why = load_error(with_functions(after), folder)
    return why if why and not load_error(with_functions(before), folder) else ""


def _without_weights(model: ModelProto) -> ModelProto:
    """A copy with inputs in place of the larger initializers."""
    copy = ModelProto(ir_version=max(model.ir_version, 4))
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    graph, source = copy.graph, model.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.sparse_initializer.extend(source.sparse_initializer)
    add_small_weights(graph, model)
    return copy
