"""What an engine of TensorRT runs: the layers that its inspector lists, and the times that its profiler measures.

Needs TensorRT 8.4 or newer and the GPU. The inspector's JSON is documented (IEngineInspector), the words in it are not:
what is read was found in TensorRT 8.4.1. A layer whose sizes or types are not understood is an EngineError.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from surgeon.errors import EngineError
from surgeon.ir.lattice import Shapes
from surgeon.proof.feeds import Feeds
from surgeon.trt.program import BITS, DTYPES, LAYER, Engine, Kernel, Program, Tensor
from surgeon.trt.runners import Running, trt_runner
from surgeon.trt.runtime import PolygraphyLog, compute_capability, title

RUNS = 20  # of which the median time counts, after one that does not count
COPIES = {"Concatenation", "NoOp", "Padding", "Reformat", "Shuffle", "Slice", "Cast"}
NO_KERNEL = {"NoOp", "Constant"}  # layers for which nothing runs
TYPES = {  # what the words for a format have in them -> the type in `BITS`; the first that is found counts
    r"bf16|bfloat16": "bf16", r"fp16|\bhalf\b": "half", r"fp32|\bfloat\b": "float",
    "int8": "int8", "int32": "int32", "int64": "int64", "bool": "bool", "fp8": "fp8",
}  # fmt: skip
# Between the names of nodes in that of a layer.
FUSED = re.compile(r"PWN\(|\{ForeignNode\[|\.\.\.|\]\}|, | \+ |\)+(?=,|$| \+)")
NUMBERED = re.compile(r"_\d+$")  # the second layer of a node has its name and a number
UNNAMED = re.compile(r"\(Unnamed Layer\* \d+\) \[\w+\]|^(Reformatting CopyNode|ONNXTRT_).*")


def inspected(
    trt: Any, data: bytes, shapes: Shapes, names: Collection[str] = (), values: Feeds | None = None
) -> Engine:
    """The layers of an engine and their times, by TensorRT's own inspector and profiler.

    shapes  of the dynamic inputs; the engine's first profile must take them
    names   of the model's nodes; where there are none, a layer's name is all that is known of its nodes
    values  of inputs of integers; the others are 1

    Raises EngineError where the engine does not start, or was built without the names of its layers.
    """
    from polygraphy.backend.trt import EngineFromBytes

    with PolygraphyLog():
        runner = trt_runner(EngineFromBytes(data))
    with Running(title(trt), runner, narrows=True) as running, PolygraphyLog():
        feeds = _feeds(runner, shapes, values or {})
        running(feeds)
        inspector = runner.engine.create_engine_inspector()
        inspector.execution_context = runner.context
        text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
        times = _Times(trt)
        runner.context.profiler = times.profiler
        for _ in range(RUNS):
            running(feeds)
        memory = int(runner.engine.device_memory_size)
    return Engine(title(trt), (program_of(text, times.median(), memory, compute_capability(), names),))


def program_of(
    text: str, milliseconds: Mapping[str, float], memory: int, gpu: str, names: Collection[str] = ()
) -> Program:
    """The program that the inspector's JSON describes.

    milliseconds  of each layer by its name
    memory        bytes for activations
    """
    try:
        layers = json.loads(text)["Layers"]
    except (json.JSONDecodeError, KeyError, TypeError):
        raise EngineError("TensorRT's inspector answers in a form that surgeon does not know.") from None
    if any(isinstance(layer, str) for layer in layers):
        raise EngineError(
            "the engine holds the names of its layers alone. Build it with `trtexec --profilingVerbosity=detailed`, or "
            "give the model."
        )
    kernels = tuple(_kernel(layer, milliseconds, names) for layer in layers if layer.get("LayerType") not in NO_KERNEL)
    return Program((gpu,), 0, kernels, sum(map(_weights, layers)), memory, branches=False)


def _kernel(layer: Mapping[str, Any], milliseconds: Mapping[str, float], names: Collection[str]) -> Kernel:
    name, kind = layer["Name"], layer.get("ParameterType") or layer.get("LayerType", "")
    return Kernel(
        name,
        (kind,),
        kind in COPIES or layer.get("LayerType") in COPIES,
        _nodes(layer, names),
        tuple(dict.fromkeys(map(_tensor, layer.get("Inputs", ())))),  # a square reads its input once
        tuple(map(_tensor, layer.get("Outputs", ()))),
        milliseconds.get(name),
    )


def _nodes(layer: Mapping[str, Any], names: Collection[str]) -> tuple[str, ...]:
    """The nodes of the model: from what the parser noted (TensorRT 8.6 on), else from the layer's name."""
    noted = layer.get("Metadata", "")
    if noted:
        return tuple(dict.fromkeys(LAYER.split(noted.removeprefix("[ONNX Layer: ").removesuffix("]"))))
    found = (part.strip() for part in FUSED.split(layer["Name"]))
    if not names:
        return tuple(dict.fromkeys(part for part in found if part and not UNNAMED.match(part)))
    own = (part if part in names else NUMBERED.sub("", part) for part in found)
    return tuple(dict.fromkeys(part for part in own if part in names))


def _tensor(entry: Mapping[str, Any]) -> Tensor:
    words = " ".join(str(entry.get(key, "")) for key in ("Format/Datatype", "Datatype", "Format"))
    kind = _type(words)
    if kind is None:
        raise EngineError(f"surgeon does not know the type of tensor '{entry.get('Name')}': '{words.strip()}'.")
    dims = entry.get("Dimensions", ())
    size = None if any(d < 0 for d in dims) else math.prod(dims) * BITS[kind] // 8
    on_gpu = entry.get("Location", "Device") == "Device"
    return Tensor(entry["Name"], DTYPES.get(kind, kind), size, entry["Name"], on_gpu, constant=False)


def _type(words: str) -> str | None:
    """The type that these words name, a key of `BITS`; None where they name none."""
    return next((kind for word, kind in TYPES.items() if re.search(word, words, re.IGNORECASE)), None)


def _weights(layer: Mapping[str, Any]) -> int:
    """Bytes of a layer's weights and bias."""
    held = (layer.get(key) or {} for key in ("Weights", "Bias"))
    return sum(w.get("Count", 0) * BITS[_type(str(w.get("Type"))) or "float"] // 8 for w in held if isinstance(w, dict))


def _feeds(runner: Any, shapes: Shapes, values: Feeds) -> Feeds:
    """Normal numbers; where an input is of integers, the given ones or 1: a valid index and size of most models."""
    rng = np.random.default_rng(0)
    feeds = {}
    for name, meta in runner.get_input_metadata(use_numpy_dtypes=True).items():
        shape = tuple(shapes.get(name) or [1 if size is None else size for size in meta.shape])
        is_float = np.dtype(meta.dtype).kind == "f"
        drawn = rng.standard_normal(shape) if is_float else values.get(name, np.ones(shape))
        feeds[name] = drawn.astype(meta.dtype)
    return feeds


class _Times:
    """Milliseconds of each layer in each run, from TensorRT's profiler."""

    def __init__(self, trt: Any) -> None:
        found: defaultdict[str, list[float]] = defaultdict(list)

        class Profiler(trt.IProfiler):  # type: ignore[misc]
            def __init__(self) -> None:
                trt.IProfiler.__init__(self)

            def report_layer_time(self, layer_name: str, ms: float) -> None:
                found[layer_name].append(ms)

        self._found = found
        self.profiler = Profiler()

    def median(self) -> dict[str, float]:
        return {name: float(np.median(times)) for name, times in self._found.items()}
