"""Whether ONNX Runtime still loads a rewritten model."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from surgeon.errors import ModelError
from surgeon.ir.default_load import Load
from surgeon.ir.protos import add_small_weights
from surgeon.ir.run import load_error
from surgeon.ir.schemas import operators
from surgeon.rules.meaning import with_functions

# What ONNX Runtime says of a model that ONNX forbids.
FAULTS = re.compile(
    r"Type \(tensor\(\w+\)\) of output arg|Type parameter \(\w+\) of Optype|\[(?:Shape|Type)InferenceError\]|"
    r"two nodes with same node name|Duplicate definition"
)
UNREGISTERED = re.compile(r"No Op registered for (\w+) with domain_version")


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


def refuse_invalid(original: Callable[[], ModelProto], after: ModelProto, folder: str | Path | None) -> None:
    """Raise ModelError where ONNX Runtime loads neither model because ONNX forbids it: no TensorRT is to be promised
    such a model. What it cannot run for want of a kernel or of a library is another thing."""
    why = _of_the_model(load_error(with_functions(_without_weights(after)), folder))
    if not why or not _of_the_model(load_error(with_functions(_without_weights(original())), folder)):
        return
    if _of_the_model(load_error(with_functions(after), folder)):
        raise ModelError(
            f"ONNX forbids the model, so ONNX Runtime does not load it: {why}. Correct that, or export again."
        )


def _of_the_model(why: str) -> str:
    """The reason why a model is not loaded, where the model is at fault; else empty."""
    operator = UNREGISTERED.search(why)
    if operator is not None:
        return _reason(why) if operator[1] in operators("") else ""
    return _reason(why) if FAULTS.search(why) else ""


def _reason(why: str) -> str:
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (?:This is an invalid model\. )?", "", why).rstrip(". ")


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
    # loaded without the weights (512 MB of them took 3.6 s); with them where only that settles it
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
