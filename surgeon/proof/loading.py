"""Whether ONNX Runtime still loads a rewritten model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from surgeon.ir.default_load import Load
from surgeon.ir.protos import add_small_weights
from surgeon.ir.run import load_error
from surgeon.rules.meaning import with_functions


@dataclass(frozen=True, slots=True)
class Loading:
    """What ONNX Runtime says against a rewritten model and its original; empty where it loads the rewritten one."""

    after: str = ""
    before: str = ""

    @property
    def worse(self) -> bool:
        """Whether it loads the original, and not the rewritten model."""
        return bool(self.after and not self.before)


def load_both(original: Callable[[], ModelProto], after: ModelProto, folder: str | Path | None = None) -> Loading:
    """Load the rewritten model in ONNX Runtime, and the original where that fails. Raises SurgeonError."""
    why = load_error(with_functions(after), folder)
    return Loading(why, load_error(with_functions(original()), folder)) if why else Loading()


def refused(
    original: Callable[[], ModelProto], after: ModelProto, folder: str | Path | None, begun: Load | None = None
) -> str:
    """Why ONNX Runtime loads the original and not the rewritten model; else empty.

    Its default options are asked, in a process of its own: `begun`, where that was asked for before. Where neither of
    the two loads so, or nothing is known, a load without optimisations decides.
    """
    load = begun or Load(with_functions(after), folder)
    why = load.answer()
    if why == "":
        return ""
    if why and Load(with_functions(original()), folder).answer() == "":
        return why
    return _refused_here(original, after, folder)


def _refused_here(original: Callable[[], ModelProto], after: ModelProto, folder: str | Path | None) -> str:
    """`refused`, in this process and without optimisations.

    Loaded without the weights (512 MB of them took 3.6 s); with them where only that settles it.
    """
    if not load_both(lambda: _without_weights(original()), _without_weights(after)).worse:
        return ""
    whole = load_both(original, after, folder)
    return whole.after if whole.worse else ""


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
