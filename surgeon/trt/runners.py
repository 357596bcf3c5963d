"""The ways to run a model, each as a Polygraphy runner: what `surgeon compare` compares.

    OnnxRuntime     Polygraphy's OnnxrtRunner, optimisations off; onnx's reference evaluator where that has no kernel
    ParsedNetwork   what TensorRT's parser understood, evaluated with NumPy (surgeon.trt.network); needs no GPU
    Engine          Polygraphy's TrtRunner over an engine of surgeon.trt.engine; needs a GPU

A way is started on a model and gives a `Running`, which maps inputs to outputs, both by name.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import ModelProto
from polygraphy import cuda, util
from polygraphy.backend.base import BaseRunner
from polygraphy.backend.onnxrt import OnnxrtRunner
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType
from polygraphy.logger import G_LOGGER

from surgeon.errors import EngineError, UsageError
from surgeon.ir.files import is_large
from surgeon.ir.lattice import declared_shape, without_names
from surgeon.ir.protos import given_inputs
from surgeon.ir.run import Runner, Unrunnable
from surgeon.report import Progress
from surgeon.rules.meaning import with_functions
from surgeon.trt.engine import plugin_library, serialized, tactics
from surgeon.trt.runtime import RTX, PolygraphyLog, choose_runtime, gpu, title, use

Feeds = dict[str, np.ndarray]


class Running:
    """A started runner: call it with inputs by name for outputs by name.
    A context manager: leaving it frees the runner.

    `title` names the way. An engine may hold integers narrower than ONNX says (`narrows`):
    its inputs are narrowed to it.
    """

    def __init__(self, title: str, runner: BaseRunner, narrows: bool = False) -> None:
        self.title = title
        self._runner = runner
        self._narrows = narrows

    def __enter__(self) -> Running:
        with PolygraphyLog() as log:
            try:
                self._runner.activate()
            # Polygraphy's own type, TensorRT's, and those of the CUDA libraries that it loads.
            except Exception as error:
                raise EngineError(f"{self.title} does not start: {_reason(error, log)}") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with PolygraphyLog():
            self._runner.deactivate()

    def __call__(self, feeds: Feeds) -> Feeds:
        """Run once. Raises Unrunnable where it does not run on these inputs."""
        with PolygraphyLog() as log:
            try:
                given = self._narrowed(feeds) if self._narrows else feeds
                found = self._runner.infer(given, check_inputs=self._narrows)
                return {name: np.array(value) for name, value in found.items()}
            except Unrunnable:
                raise
            except Exception as error:  # ONNX Runtime's own types, Polygraphy's, TensorRT's
                raise Unrunnable(_reason(error, log)) from None

    def _narrowed(self, feeds: Feeds) -> Feeds:
        """TensorRT up to 9 takes int64 as int32, and says so in the engine's own types."""
        types = {n: t.dtype for n, t in self._runner.get_input_metadata(use_numpy_dtypes=False).items()}
        return {n: a.astype(types[n].numpy()) if n in types and a.dtype.kind in "iu" else a for n, a in feeds.items()}


def _reason(error: Exception, log: PolygraphyLog) -> str:
    """The error of TensorRT or ONNX Runtime, else the exception; in one line."""
    return ("; ".join(log.told()) or " ".join(str(error).split()) or type(error).__name__)[:600]


class Way(Protocol):
    """How a model is run."""

    @property
    def title(self) -> str: ...

    def start(self, model: ModelProto, path: Path | None = None, inputs: Sequence[Feeds] = ()) -> Running:
        """Prepare a model, which `path` holds as a file where there is one; `inputs` are those that it will be run on.

        Raises EngineError, or Unrunnable, with the reason where this way does not take it.
        """
        ...


# ---- ONNX Runtime ----------------------------------------------------------------------------------------------------


class OnnxRuntime:
    """ONNX Runtime, optimisations off; nodes of surgeon's own get the functions that say what they mean."""

    title = "ONNX Runtime"

    def start(self, model: ModelProto, path: Path | None = None, inputs: Sequence[Feeds] = ()) -> Running:
        runnable = with_functions(model)
        folder = None if path is None else path.parent
        runs = Runner(runnable, folder)
        is_own = runs.session is None or runs.may_not_end
        return Running(self.title, _own(runnable, runs) if is_own else OnnxrtRunner(runs.session))


class FunctionRunner(BaseRunner):  # type: ignore[misc]
    """A function from inputs by name to outputs by name; `inputs` are their names, types and shapes."""

    def __init__(self, prefix: str, inputs: Iterable[tuple[str, DataType, Any]], run: Callable[[Feeds], Feeds]) -> None:
        super().__init__(prefix=prefix)
        self._inputs, self._run = list(inputs), run

    def get_input_metadata_impl(self) -> TensorMetadata:
        meta = TensorMetadata()
        for name, dtype, shape in self._inputs:
            meta.add(name, dtype, shape)
        return meta

    def infer_impl(self, feed_dict: Feeds) -> Feeds:
        started = time.perf_counter()
        found = self._run(feed_dict)
        self.inference_time = time.perf_counter() - started
        return found


def _own(model: ModelProto, runs: Runner) -> FunctionRunner:
    """surgeon's own runner, for what ONNX Runtime has no kernel for or cannot take from NumPy (bfloat16).

    It is for a Loop that may have no end, too: its runs have a limit of time."""
    names = [o.name for o in model.graph.output]
    inputs = [
        (i.name, DataType.from_dtype(i.type.tensor_type.elem_type, "onnx"), without_names(declared_shape(i)))
        for i in given_inputs(model)
    ]
    return FunctionRunner("surgeon", inputs, lambda feeds: dict(zip(names, runs.run(feeds), strict=True)))


# ---- what TensorRT's parser understood -------------------------------------------------------------------------------


class ParsedNetwork:
    """The network that TensorRT's parser builds, evaluated. `runtime` is "tensorrt" or "rtx";
    None takes what is there."""

    def __init__(self, runtime: str | None = None) -> None:
        self._module = None if runtime is None else choose_runtime(runtime)
        self.title = "the parser's network"

    def start(self, model: ModelProto, path: Path | None = None, inputs: Sequence[Feeds] = ()) -> Running:
        from surgeon.trt.network import evaluate, parse, unsupported

        with as_file(model, path) as file:
            network = parse(file, self._module)
        missing = unsupported(network)
        if missing:
            raise Unrunnable(f"the parser's network cannot be evaluated: {'; '.join(missing)}")
        self.title = f"the network of {network.runtime}"
        shapes = [[None if d < 0 else d for d in t.shape or ()] for t in network.inputs]
        read = [(t.name, DataType.from_dtype(t.dtype), s) for t, s in zip(network.inputs, shapes, strict=True)]
        return Running(self.title, FunctionRunner("tensorrt-network", read, partial(evaluate, network)))


# ---- engines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Engine:
    """An engine built for the inputs that it is started with, and run. See `engine_way`."""

    trt: Any
    libraries: Sequence[str] = ()
    sources: Sequence[Any] | None = None
    progress: Progress | None = None

    @property
    def title(self) -> str:
        return title(self.trt)

    @property
    def words(self) -> list[str]:
        """The options of `surgeon compare` that run it so again."""
        sources = None if self.sources is None else ",".join(s.name.lower() for s in self.sources) or "none"
        return [
            "--trt",
            *(word for library in self.libraries for word in ("--plugin-library", library)),
            *([] if sources is None else ["--tactic-sources", sources]),
            *(["--with", "rtx"] if self.trt.__name__ == RTX else []),
        ]

    def start(self, model: ModelProto, path: Path | None = None, inputs: Sequence[Feeds] = ()) -> Running:
        with as_file(model, path) as file:
            data = serialized(
                self.trt,
                file,
                profiles=lambda network: [profile_of(network, inputs)] if inputs else [],
                libraries=self.libraries,
                sources=self.sources,
                progress=self.progress,
            )
        with PolygraphyLog():
            from polygraphy.backend.trt import EngineFromBytes

            return Running(self.title, trt_runner(EngineFromBytes(data)), narrows=True)


class EngineFile:
    """An engine that a file holds, run as it is. `way` is the TensorRT and the libraries that it needs."""

    def __init__(self, way: Engine, path: Path) -> None:
        self._way, self._path = way, path
        self.title = f"the engine, on {way.title}"
        self._runner: Any = None

    def start(self, model: ModelProto, path: Path | None = None, inputs: Sequence[Feeds] = ()) -> Running:
        """Load the engine. Raises EngineError where it does not load."""
        with PolygraphyLog() as log:
            from polygraphy.backend.trt import EngineFromBytes, LoadPlugins

            for library in self._way.libraries:
                LoadPlugins(plugins=[library])()
            try:
                self._runner = trt_runner(EngineFromBytes(self._path.read_bytes())())
            except Exception as error:  # Polygraphy's own type, and TensorRT's
                raise EngineError(f"'{self._path}' does not load: {_reason(error, log)}") from None
        return Running(self.title, self._runner, narrows=True)

    def shapes(self, model: ModelProto) -> dict[str, tuple[int, ...]]:
        """The sizes of the inputs that the first profile of the started engine is best at.

        Raises UsageError where the engine has other inputs and outputs than the model.
        """
        engine, found = self._runner.engine, {}
        for name in self._runner.get_input_metadata(use_numpy_dtypes=False):
            if hasattr(engine, "get_tensor_profile_shape"):
                found[name] = tuple(engine.get_tensor_profile_shape(name, 0)[1])
            else:  # TensorRT 8.2 to 8.4
                found[name] = tuple(engine.get_profile_shape(0, name)[1])
        own = {t.name for t in (*given_inputs(model), *model.graph.output)}
        differing = own.symmetric_difference(self._names())
        if differing:
            raise UsageError(f"the model and the engine have different tensors: {', '.join(sorted(differing))}.")
        return found

    def _names(self) -> list[str]:
        """The inputs and outputs."""
        engine = self._runner.engine
        if hasattr(engine, "num_io_tensors"):
            return [engine.get_tensor_name(k) for k in range(engine.num_io_tensors)]
        return [engine.get_binding_name(k) for k in range(engine.num_bindings // engine.num_optimization_profiles)]


def engine_way(
    runtime: str | None = None,
    plugins: Sequence[str | Path] = (),
    tactic_sources: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Engine:
    """Engines of a TensorRT that runs here; arguments as in `surgeon.trt.engine.build`.

    Raises UsageError where none does (no TensorRT, no GPU), EngineError where it is installed and does not load.
    """
    libraries = [plugin_library(p) for p in plugins]
    if runtime is not None:
        choose_runtime(runtime)
    if not gpu():
        raise UsageError("an engine needs a GPU, and the CUDA driver finds none on this machine.")
    trt = use(choose_runtime(runtime))
    return Engine(trt, libraries, tactics(trt, tactic_sources), progress)


def profile_of(network: Any, inputs: Sequence[Feeds]) -> dict[str, list[tuple[int, ...]]]:
    """The smallest, the first and the largest shape of each dynamic input; of a shape tensor its values."""
    found = {}
    for tensor in (network.get_input(i) for i in range(network.num_inputs)):
        arrays = [feeds[tensor.name] for feeds in inputs if tensor.name in feeds]
        if not arrays or (not tensor.is_shape_tensor and all(d >= 0 for d in tensor.shape)):
            continue
        sizes = np.stack([a.reshape(-1) if tensor.is_shape_tensor else np.asarray(a.shape) for a in arrays])
        found[tensor.name] = [tuple(int(n) for n in s) for s in (sizes.min(axis=0), sizes[0], sizes.max(axis=0))]
    return found


def trt_runner(engine: Any, **options: Any) -> BaseRunner:
    """Polygraphy's TrtRunner, or where TensorRT is older than Polygraphy asks for, `BindingsRunner`."""
    from polygraphy.backend.trt import TrtRunner
    from polygraphy.mod.trt_importer import lazy_import_trt

    trt = lazy_import_trt()
    named = hasattr(trt, "TensorIOMode")  # from TensorRT 8.5 on
    return TrtRunner(engine, **options) if named else BindingsRunner(engine, name=options.get("name"))


class BindingsRunner(BaseRunner):  # type: ignore[misc]
    """Polygraphy's TrtRunner for TensorRT 8.2 to 8.4, whose engines know inputs and outputs by number alone.

    `engine` is a trt.ICudaEngine or a callable that gives one. The first optimisation profile is used.
    """

    def __init__(self, engine: Any, name: str | None = None) -> None:
        super().__init__(name=name, prefix="trt-runner")
        self._engine = engine

    def activate_impl(self) -> None:
        self.engine, _ = util.invoke_if_callable(self._engine)
        self.context = self.engine.create_execution_context()
        if not self.context:
            G_LOGGER.critical("Invalid Context. See error log for details.")

    def get_input_metadata_impl(self) -> TensorMetadata:
        meta = TensorMetadata()
        for index, name in self._bindings(inputs=True):
            shape = [None if d < 0 else d for d in self.engine.get_binding_shape(index)]
            meta.add(name, self._dtype(index), shape)
        return meta

    def infer_impl(self, feed_dict: Mapping[str, np.ndarray]) -> Feeds:
        started = time.perf_counter()
        pointers = [0] * self.engine.num_bindings
        results = {}
        with contextlib.ExitStack() as held:
            for index, name in self._bindings(inputs=True):
                array = np.ascontiguousarray(feed_dict[name])
                if not self.context.set_binding_shape(index, array.shape):
                    G_LOGGER.critical(f"the engine's profile does not take the shape {array.shape} for '{name}'")
                if self.engine.is_shape_binding(index):
                    self.context.set_shape_input(index, array.reshape(-1).tolist())
                pointers[index] = held.enter_context(self._buffer(index, array.shape)).copy_from(array).ptr
            for index, name in self._bindings(inputs=False):
                results[name] = held.enter_context(self._buffer(index, tuple(self.context.get_binding_shape(index))))
                pointers[index] = results[name].ptr
            if not self.context.execute_v2(pointers):
                G_LOGGER.critical("`execute_v2()` failed. Please see the logging output above for details.")
            found = {name: buffer.numpy() for name, buffer in results.items()}
        self.inference_time = time.perf_counter() - started
        return found

    def deactivate_impl(self) -> None:
        del self.context, self.engine

    def _bindings(self, inputs: bool) -> Iterator[tuple[int, str]]:
        """Each profile has bindings of its own; the first profile's come first."""
        for index in range(self.engine.num_bindings // self.engine.num_optimization_profiles):
            if self.engine.binding_is_input(index) == inputs:
                yield index, self.engine.get_binding_name(index)

    def _dtype(self, index: int) -> DataType:
        return DataType.from_dtype(self.engine.get_binding_dtype(index), "tensorrt")

    def _buffer(self, index: int, shape: tuple[int, ...]) -> cuda.DeviceArray:
        """On the GPU; never of no bytes, since TensorRT accepts no null pointer, not even for an empty tensor."""
        buffer = cuda.DeviceArray((max(1, *shape),) if 0 in shape else shape, self._dtype(index))
        return buffer.resize(shape)


# ---- files -----------------------------------------------------------------------------------------------------------


@contextmanager
def as_file(model: ModelProto, path: Path | None = None) -> Iterator[Path]:
    """A file that holds the model: `path`, or one that goes when the context is left. TensorRT parses files."""
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="surgeon-") as folder:
        file = Path(folder) / "model.onnx"
        save(model, file)
        yield file


def save(model: ModelProto, path: Path) -> None:
    """Write a model that holds its weights; one of more than 1 GiB with the weights in a file beside it."""
    large = is_large(model)
    onnx.save_model(model, str(path), save_as_external_data=large, location=f"{path.name}.data" if large else None)
