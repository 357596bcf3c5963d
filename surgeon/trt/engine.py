"""Engines through Polygraphy's loaders: parse, build, save.

A refusal names its ONNX node and the pass that fixes it.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surgeon import guard
from surgeon.errors import EngineError, UsageError, did_you_mean
from surgeon.ir.files import as_text, check_writable, put, read, read_all
from surgeon.precision.formats import computes_in_half
from surgeon.precision.standard import is_quantized
from surgeon.report import Progress
from surgeon.targets.target import Target
from surgeon.trt.profiles import Profile, check_profiles, with_values
from surgeon.trt.program import engine_of, summary
from surgeon.trt.refusals import refusal_lines, refusals
from surgeon.trt.runtime import RTX, PolygraphyLog, choose_runtime, title, use

Profiles = Sequence[Profile] | Callable[[Any], Sequence[Profile]]  # the second: of the parsed INetworkDefinition


@dataclass(frozen=True, slots=True)
class Built:
    """`size` in bytes, `seconds` of parsing and building, `runtime` such as "TensorRT-RTX 1.7.1.116".

    kernels  what the engine runs, in one line; empty where it cannot be read
    """

    path: Path
    size: int
    seconds: float
    runtime: str
    notes: list[str] = field(default_factory=list)
    kernels: str = ""


def build(
    model: str | Path,
    engine_path: str | Path,
    *,
    runtime: str | None = None,
    profiles: Sequence[Profile] = (),
    fp16: bool = False,
    plugins: Sequence[str | Path] = (),
    timing_cache: str | Path | None = None,
    tactic_sources: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Built:
    """Build the engine of an ONNX file.

    runtime         "tensorrt" or "rtx"; None: see `choose_runtime`
    profiles        for each optimisation profile, the (min, opt, max) shape of each dynamic input; with a dynamic input
                    there must be one
    fp16            let TensorRT choose fp16 kernels: TensorRT up to 10 alone, whose networks are weakly typed
    plugins         shared libraries to load first
    timing_cache    a file to read, where it is there, and to add to
    tactic_sources  the libraries whose kernels TensorRT may use, by the names of trt.TacticSource; None: its own choice
    progress        called with (phase, step, steps) where the version has IProgressMonitor

    Raises EngineError with every refused node and the pass that could fix it, UsageError, ModelError.
    """
    source, path = Path(model), Path(engine_path)
    proto, files = read_all(source)
    for place in (path, *([Path(timing_cache)] if timing_cache is not None else [])):
        check_writable(place, *files)
    trt = use(choose_runtime(runtime))
    if fp16 and Target.parse("rtx" if trt.__name__ == RTX else trt.__version__).strongly_typed:
        raise UsageError(
            f"{title(trt)} is strongly typed: it reads each tensor's type from the model, and has no fp16 flag. "
            "Convert the model with `surgeon rewrite --fp16`, and build the result."
        )
    command = f"surgeon build {shlex.join([str(source), str(path)])}"
    check_profiles(profiles, proto, command, source.parent)
    libraries = [plugin_library(p) for p in plugins]
    sources = tactics(trt, tactic_sources)
    started = time.perf_counter()
    notes = []
    chosen = with_values(profiles, proto, command, source.parent)
    engine = serialized(
        trt, source, profiles=chosen, fp16=fp16, libraries=libraries, cache=timing_cache, sources=sources,
        progress=progress,
    )  # fmt: skip
    put({path: engine})
    if timing_cache is not None and trt.__name__ == RTX:
        notes.append(f"{title(trt)} keeps no timing cache: --timing-cache does nothing")
    return Built(path, len(engine), time.perf_counter() - started, title(trt), notes, _kernels(engine))


def _kernels(engine: bytes) -> str:
    try:
        return summary(engine_of(engine).programs[0])
    except EngineError:  # of TensorRT, or of a TensorRT-RTX whose engines are not known
        return ""


def serialized(
    trt: Any,
    source: Path,
    *,
    profiles: Profiles = (),
    fp16: bool = False,
    libraries: Sequence[str] = (),
    cache: str | Path | None = None,
    sources: Sequence[Any] | None = None,
    capability: Any = None,
    detailed: bool = False,
    progress: Progress | None = None,
) -> bytes:
    """The engine of an ONNX file, by Polygraphy's loaders put together; arguments as in `build`, checked.

    capability  the trt.ComputeCapability to build for, with TensorRT-RTX; None is its own choice
    detailed    the engine keeps what TensorRT's inspector says of its layers

    It stays bytes: making it runnable needs a GPU. Raises EngineError with every refused node.
    """
    guard.lift()
    with PolygraphyLog() as log:
        from polygraphy.backend import trt as backend
        from polygraphy.exception import PolygraphyException

        # A model that says where it computes in half precision or in int8 keeps its types, its fp32 islands above all;
        # elsewhere, and in versions without the flag, TensorRT chooses. From TensorRT 11 on and in TensorRT-RTX
        # there is nothing to choose.
        flags, model = trt.NetworkDefinitionCreationFlag.__members__, read(source)
        quantized = is_quantized(model)
        typed = not fp16 and "STRONGLY_TYPED" in flags and (quantized or computes_in_half(model))
        network: Any = backend.NetworkFromOnnxPath(as_text(source), strongly_typed=typed)
        if libraries:
            network = backend.LoadPlugins(plugins=list(libraries), obj=network)
        if trt.__name__ == RTX:
            cache = None  # it warns about each of the calls and does nothing
            options: dict[str, Any] = {}
        else:
            options = {"tactic_sources": sources, "fp16": fp16, "int8": quantized and not typed}
        path = None if cache is None else str(cache)
        if path is not None and Path(path).exists():
            options["load_timing_cache"] = path
        if detailed:
            options["profiling_verbosity"] = trt.ProfilingVerbosity.DETAILED
        if progress is not None and hasattr(trt, "IProgressMonitor"):
            options["progress_monitor"] = _monitor(trt, progress)
        config = _config(trt, profiles, options, capability)
        try:
            return bytes(backend.EngineBytesFromNetwork(network, config, save_timing_cache=path)())
        except PolygraphyException:
            raise EngineError(*refusal_lines(trt, source, refusals(trt, source, log))) from None
        except RuntimeError as error:  # the binding's way to refuse the shapes of a profile
            raise EngineError(f"{title(trt)} refuses '{source}': {error}") from None
        except TypeError as error:  # the binding's way to say that the C++ factory returned null
            said = "; ".join(log.told()) or str(error)
            raise EngineError(f"{title(trt)} has no builder on this machine: {said}") from None


def _config(trt: Any, profiles: Profiles, options: dict[str, Any], capability: Any) -> Callable[[Any, Any], Any]:
    """What Polygraphy calls with (builder, network) for the builder's configuration; `options` are Polygraphy's."""
    from polygraphy.backend import trt as backend

    def config(builder: Any, network: Any) -> Any:
        chosen = profiles(network) if callable(profiles) else profiles
        made_profiles = [backend.Profile() for _ in chosen]
        for profile, shapes in zip(made_profiles, chosen, strict=True):
            for name, (smallest, usual, largest) in shapes.items():
                profile.add(name, min=tuple(smallest), opt=tuple(usual), max=tuple(largest))
        options["profiles"] = made_profiles or None
        if trt.__name__ == RTX:
            from polygraphy.backend.tensorrt_rtx import CreateConfigRTX

            made = CreateConfigRTX(**options)(builder, network)
            if capability is not None:
                made.num_compute_capabilities = 1
                made.set_compute_capability(capability, 0)
            return made
        return backend.CreateConfig(**options)(builder, network)

    return config


def tactics(trt: Any, names: Sequence[str] | None) -> list[Any] | None:
    """Members of trt.TacticSource by name, whatever the case; an empty list allows none,
    None leaves TensorRT its choice."""
    if names is None:
        return None
    if trt.__name__ == RTX:
        raise UsageError(f"{title(trt)} has no tactic sources: leave out --tactic-sources.")
    known = {name.lower(): member for name, member in trt.TacticSource.__members__.items()}
    for name in names:
        if name.lower() not in known:
            raise UsageError(f"{title(trt)} has no tactic source '{name}'.{did_you_mean(name.lower(), known)}")
    return [known[name.lower()] for name in names]


def _monitor(trt: Any, progress: Progress) -> Any:
    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self.steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            self.steps[phase_name] = num_steps

        def step_complete(self, phase_name: str, step: int) -> bool:
            progress(phase_name, step, self.steps.get(phase_name, 0))
            return True

        def phase_finish(self, phase_name: str) -> None:
            self.steps.pop(phase_name, None)

    return Monitor()


def plugin_library(path: str | Path) -> str:
    """The absolute path of a shared library. Raises UsageError where there is none."""
    if not Path(path).is_file():
        raise UsageError(f"there is no plugin library '{path}'. `surgeon plugins build` makes surgeon's own.")
    return str(Path(path).resolve())
