"""Where a model comes from: a path, a ModelProto or a gs.Graph, which gives a fresh copy to each run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import onnx
from onnx import ModelProto

from surgeon.errors import ModelError, SurgeonError, UsageError
from surgeon.ir.call_sizes import check_calls
from surgeon.ir.definitions import in_own_domain
from surgeon.ir.files import SMALL, UNWRITABLE, as_text, read_all, without_data
from surgeon.ir.model import Model
from surgeon.ir.protos import IR_WITH_DEFAULTS, all_graphs, copied
from surgeon.ir.run import Unrunnable
from surgeon.ir.validity import check_required
from surgeon.pipeline.repairs import has_faults, repair, sort

if TYPE_CHECKING:
    from onnx_graphsurgeon import Graph

ModelLike: TypeAlias = "ModelProto | str | os.PathLike[str] | Graph"
REFUSALS = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError)  # of an unknown type


class Source:
    """A model that a run reads, and never changes.

    path   the file, where it is one
    base   the folder of its external weights
    files  those that were read
    repairs what was wrong in it and had one reading only, a sentence for each kind
    """

    def __init__(self, given: ModelLike, base: Path | None = None) -> None:
        """Raises UsageError where `given` is neither a path nor a ModelProto nor a gs.Graph."""
        self.path: Path | None = None
        self.base = base
        self.files: Sequence[Path] = ()
        self.repairs: Sequence[str] = ()
        self._proto: ModelProto | None = None
        self._looked_at: ModelProto | None = None  # of a file: what the next `proto` gives, read once
        if isinstance(given, ModelProto):
            check_calls(given)
            is_faulty = has_faults(given)
            self._proto = copied(given) if is_faulty else given
            self.repairs = repair(self._proto) if is_faulty else ()
        elif isinstance(given, str | os.PathLike):
            self.path = Path(given)
            self.base = self.path.parent
        elif type(given).__module__.startswith("onnx_graphsurgeon"):
            from surgeon.pipeline.interop import from_gs

            self._proto = from_gs(given)
        else:
            raise UsageError(f"surgeon rewrites a path, an onnx.ModelProto or a gs.Graph, not {type(given).__name__}.")

    def changed(self, model: ModelProto) -> Source:
        """A source with the same files and another model."""
        made = Source(model, self.base)
        made.files, made.repairs = self.files, self.repairs
        return made

    def look(self) -> ModelProto:
        """The model without its external weights, for who changes nothing. Raises ModelError."""
        if self._proto is not None:
            return self._proto
        if self._looked_at is None:
            self._looked_at = self.proto()
        return self._looked_at

    def proto(self) -> ModelProto:
        """A copy of the model, without its external weights. Raises ModelError."""
        if self._looked_at is not None:
            model, self._looked_at = self._looked_at, None
            return model
        if self.path is not None:
            model, self.files = read_all(self.path)
            self.repairs = repair(model)
            return model
        return ModelProto() if self._proto is None else copied(self._proto)

    def model(self) -> Model:
        """The model in memory. Raises ModelError where a node leaves out an attribute that it needs."""
        model = Model(self.proto(), self.base)
        for scope in model.standing_scopes():
            check_required(scope)
        return model

    def invalid(self, *, full_check: bool = False) -> str:
        """Why onnx.checker refuses the model; empty where it does not."""
        most = sys.maxsize
        try:
            given = self.proto() if self.path is None else as_text(self.path)
            onnx.checker.check_model(given, full_check=full_check)
            return ""
        except (*REFUSALS, ModelError):
            pass
        except UNWRITABLE:
            most = SMALL
        # Again without external weights: the checker follows no links, finds none of a model in memory, and opens no
        # file whose name is not UTF-8; and without large ones where the model has more than it takes. ONNX Runtime and
        # TensorRT load models without a shape of an output, a name of a graph or an order of the nodes, so these are
        # completed; and models of IR version 3 whose weights are not inputs, and functions of another opset than the
        # model. ONNX Runtime's operators get a domain of which the checker knows nothing: its optimizers write some in
        # ONNX's own.
        try:
            model = in_own_domain(without_data(self.proto(), most))
            _complete(model.graph)
            model.ir_version = max(model.ir_version, IR_WITH_DEFAULTS)
            for part in (*_functions_apart(model), _with_output_shapes(model)):
                onnx.checker.check_model(part, full_check=full_check)
        except REFUSALS as error:
            return f"the ONNX checker refuses the input model: {str(error).strip().splitlines()[0]}"
        return ""

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Raise ModelError where something fails for a model that ONNX forbids: that is the model's fault."""
        try:
            yield
        except SurgeonError:
            raise
        except MemoryError:
            raise ModelError("the model needs more memory than there is.") from None
        except RecursionError:
            raise ModelError("bodies are nested too deeply in the model, or nodes refer to each other.") from None
        except Unrunnable as error:
            raise ModelError(f"ONNX Runtime does not run the model: {error}.") from None
        except Exception as error:
            why = self.invalid(full_check=True)
            if not why:
                raise
            raise ModelError(f"{why.rstrip('.')}. Repair the model, or export it again.") from error


def _functions_apart(model: ModelProto) -> list[ModelProto]:
    """Models of one function each, which are taken out of the model: each declares the opsets of its nodes."""
    if len({tuple(sorted((o.domain, o.version) for o in m.opset_import)) for m in (model, *model.functions)}) < 2:
        return []
    parts = [
        ModelProto(
            ir_version=model.ir_version,
            opset_import=function.opset_import,
            graph=onnx.GraphProto(name="graph"),
            functions=[function],
        )
        for function in model.functions
    ]
    del model.functions[:]
    return parts


def _with_output_shapes(model: ModelProto) -> ModelProto:
    """The model itself, with the inferred shape of each output that declares none; without dimensions where none is
    inferred, which the checker does not look at."""
    tensors = [o for o in model.graph.output if o.type.HasField("tensor_type")]
    missing = [o for o in tensors if not o.type.tensor_type.HasField("shape")]
    if not missing:
        return model
    inferred = {o.name: o for o in onnx.shape_inference.infer_shapes(model).graph.output}
    for output in missing:
        output.type.tensor_type.shape.CopyFrom(inferred[output.name].type.tensor_type.shape)
    return model


def _complete(graph: onnx.GraphProto) -> None:
    """Name a graph and the bodies in it, and put their nodes into topological order."""
    for holder in all_graphs(graph):
        holder.name = holder.name or "graph"
        sort(holder)
