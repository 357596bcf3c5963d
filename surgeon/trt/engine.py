"""Engines through Polygraphy's loaders: parse, build, save; a refusal is told with its ONNX node
and the pass to mend it.

TensorRT where it and a GPU are there, else TensorRT-RTX, which parses and builds ahead of time on a machine without a
GPU (its module is `tensorrt_rtx`). Polygraphy decides between the two when it is first imported,
so one process drives one.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import io
import logging
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from surgeon.errors import EngineError, SurgeonError, UsageError, did_you_mean
from surgeon.ir.files import as_text, check_writable, put, read, read_all
from surgeon.ir.lattice import declared_dim
from surgeon.pipeline.check import Untaken, mended_by
from surgeon.proof.feeds import HALVES
from surgeon.report import Progress
from surgeon.targets.target import Target

CLASSIC, RTX = "tensorrt", "tensorrt_rtx"
Profile = Mapping[str, Sequence[Sequence[int]]]  # input name -> (min, opt, max) shapes
Profiles = Sequence[Profile] | Callable[[Any], Sequence[Profile]]  # the second: of the parsed INetworkDefinition


@dataclass(frozen=True, slots=True)
class Built:
    """`size` in bytes, `seconds` of parsing and building, `runtime` such as "TensorRT-RTX 1.7.1.116"."""

    path: Path
    size: int
    seconds: float
    runtime: str
    notes: list[str] = field(default_factory=list)


# ---- which TensorRT --------------------------------------------------------------------------------------------------


def choose_runtime(asked: str | None = None) -> str:
    """The module to build with: the one asked for ("tensorrt", "rtx"), else what is there. Raises UsageError."""
    known = {None: None, CLASSIC: CLASSIC, "rtx": RTX, RTX: RTX}
    if asked not in known:
        raise UsageError(f"no TensorRT is called '{asked}'.{did_you_mean(str(asked), [CLASSIC, 'rtx'])}")
    wanted = known[asked]
    if wanted is not None and not _importable(wanted):
        raise UsageError(f"the Python package '{wanted}' cannot be imported here. {_how_to_install(wanted)}")
    if wanted is not None:
        return wanted
    if _importable(CLASSIC) and gpu():
        return CLASSIC
    if _importable(RTX):
        return RTX
    if _importable(CLASSIC):
        raise UsageError(
            "TensorRT builds engines on a GPU, and this machine has none that its driver offers. TensorRT-RTX builds "
            "without: install surgeon with the extra 'rtx'."
        )
    raise UsageError(
        "no TensorRT can be imported here. Install surgeon with the extra 'rtx' (TensorRT-RTX, which builds without a "
        "GPU), or the package tensorrt."
    )


def _importable(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _how_to_install(module: str) -> str:
    return (
        "Install surgeon with the extra 'rtx'."
        if module == RTX
        else "Install the package tensorrt of the version that you deploy."
    )


def gpu() -> bool:
    """Whether the CUDA driver is there and has a device."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def use(runtime: str) -> Any:
    """Tell Polygraphy which of the two it drives, and return the module.
    Raises UsageError where it drives the other."""
    wanted = runtime == RTX
    if "polygraphy.backend.trt" not in sys.modules:
        os.environ["POLYGRAPHY_USE_TENSORRT_RTX"] = "1" if wanted else "0"
    with contextlib.redirect_stdout(io.StringIO()):  # it announces there that its own output will have no colours
        from polygraphy import config

    if "polygraphy.backend.trt" not in sys.modules:
        config.USE_TENSORRT_RTX = wanted  # Polygraphy reads it again when its TensorRT backend is first imported
    if wanted != config.USE_TENSORRT_RTX:
        raise UsageError(
            "this process already uses Polygraphy with the other of TensorRT and TensorRT-RTX. Use a process for each."
        )
    try:
        return importlib.import_module(runtime)
    except (ImportError, OSError) as error:
        raise EngineError(
            f"{runtime} is installed but does not load: {error}. A CUDA library that it needs is missing or too old."
        ) from error


def title(trt: Any) -> str:
    """ "TensorRT-RTX 1.7.1.116", "TensorRT 10.9.0.34"."""
    return f"{'TensorRT-RTX' if trt.__name__ == RTX else 'TensorRT'} {trt.__version__}"


def target_of(trt: Any) -> Target:
    """The row of surgeon's own table for a TensorRT module."""
    return Target.parse("rtx" if trt.__name__ == RTX else ".".join(str(trt.__version__).split(".")[:3]))


# ---- building --------------------------------------------------------------------------------------------------------


def build(
    model: str | Path,
    out: str | Path,
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
    profiles        for each optimisation profile, the (min, opt, max) shape of each dynamic input
    fp16            let TensorRT choose fp16 kernels: TensorRT up to 10 alone, whose networks are weakly typed
    plugins         shared libraries to load first
    timing_cache    a file to read, where it is there, and to add to
    tactic_sources  the libraries whose kernels TensorRT may use, by the names of trt.TacticSource; None: its own choice
    progress        called with (phase, step, steps) where the version has IProgressMonitor

    Raises EngineError with every refused node and the pass that could mend it, UsageError, ModelError.
    """
    source, path = Path(model), Path(out)
    proto, files = read_all(source)
    for place in (path, *([Path(timing_cache)] if timing_cache is not None else [])):
        check_writable(place, *files)
    trt = use(choose_runtime(runtime))
    if fp16 and (trt.__name__ == RTX or int(trt.__version__.split(".")[0]) >= 11):
        raise UsageError(
            f"{title(trt)} is strongly typed: it takes each tensor's type from the model and has no fp16 switch. "
            "Convert the model with `surgeon rewrite --fp16` and build that."
        )
    _check_profiles(profiles, proto)
    libraries = [plugin_library(p) for p in plugins]
    sources = tactics(trt, tactic_sources)
    started = time.perf_counter()
    notes = _fixed_shapes(proto, profiles)
    try:
        engine = serialized(
            trt, source, profiles=profiles, fp16=fp16, libraries=libraries, cache=timing_cache, sources=sources,
            progress=progress,
        )  # fmt: skip
    except EngineError as error:
        raise EngineError("\n  ".join([str(error), *notes])) from None
    put({path: engine})
    if timing_cache is not None and trt.__name__ == RTX:
        notes.append(f"{title(trt)} keeps no timing cache: --timing-cache does nothing")
    return Built(path, len(engine), time.perf_counter() - started, title(trt), notes)


def serialized(
    trt: Any,
    source: Path,
    *,
    profiles: Profiles = (),
    fp16: bool = False,
    libraries: Sequence[str] = (),
    cache: str | Path | None = None,
    sources: Sequence[Any] | None = None,
    progress: Progress | None = None,
) -> bytes:
    """The engine of an ONNX file, by Polygraphy's loaders put together; arguments as in `build`, checked.

    It stays bytes: making it runnable needs a GPU. Raises EngineError with every refused node.
    """
    with polygraphy_log() as log:
        from polygraphy.backend import trt as backend
        from polygraphy.exception import PolygraphyException

        # A model that says where it computes in half precision keeps its types, its fp32 islands above all; elsewhere,
        # and in versions without the flag, TensorRT chooses. From TensorRT 11 on and in TensorRT-RTX
        # there is nothing to choose.
        flags = trt.NetworkDefinitionCreationFlag.__members__
        typed = not fp16 and "STRONGLY_TYPED" in flags and computes_in_half(read(source))
        network: Any = backend.NetworkFromOnnxPath(as_text(source), strongly_typed=typed)
        if libraries:
            network = backend.LoadPlugins(plugins=list(libraries), obj=network)
        if trt.__name__ == RTX:
            cache = None  # it warns about each of the calls and does nothing
        config = _config(trt, profiles, fp16, cache, sources, progress)
        path = None if cache is None else str(cache)
        try:
            return bytes(backend.EngineBytesFromNetwork(network, config, save_timing_cache=path)())
        except PolygraphyException:
            raise EngineError(_told(trt, source, _refusals(trt, source, log))) from None
        except TypeError as error:  # the binding's way to say that the C++ factory returned null
            said = "; ".join(told(log)) or str(error)
            raise EngineError(f"{title(trt)} has no builder on this machine: {said}") from None


def computes_in_half(model: Any) -> bool:
    """Whether an input or a weight of a ModelProto is in half precision, or something is cast to it."""
    inputs = (i.type.tensor_type.elem_type for i in model.graph.input)
    casts = (a.i for n in model.graph.node if n.op_type == "Cast" for a in n.attribute if a.name == "to")
    return any(kind in HALVES for kind in (*inputs, *(t.data_type for t in model.graph.initializer), *casts))


def _config(
    trt: Any,
    profiles: Profiles,
    fp16: bool,
    cache: str | Path | None,
    sources: Sequence[Any] | None,
    progress: Progress | None,
) -> Callable[[Any, Any], Any]:
    """What Polygraphy calls with (builder, network) for the builder's configuration."""
    from polygraphy.backend import trt as backend

    options: dict[str, Any] = {}
    if cache is not None and Path(cache).exists():
        options["load_timing_cache"] = str(cache)
    if progress is not None and hasattr(trt, "IProgressMonitor"):
        options["progress_monitor"] = _monitor(trt, progress)

    def config(builder: Any, network: Any) -> Any:
        chosen = profiles(network) if callable(profiles) else profiles
        options["profiles"] = [_polygraphy_profile(backend, p) for p in chosen] or None
        if trt.__name__ == RTX:
            from polygraphy.backend.tensorrt_rtx import CreateConfigRTX

            return CreateConfigRTX(**options)(builder, network)
        return backend.CreateConfig(fp16=fp16, tactic_sources=sources, **options)(builder, network)

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


def _polygraphy_profile(backend: Any, shapes: Profile) -> Any:
    profile = backend.Profile()
    for name, (smallest, usual, largest) in shapes.items():
        profile.add(name, min=tuple(smallest), opt=tuple(usual), max=tuple(largest))
    return profile


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


def _check_profiles(profiles: Sequence[Profile], proto: Any) -> None:
    inputs = {i.name: i for i in proto.graph.input}
    for profile in profiles:
        for name, shapes in profile.items():
            if name not in inputs:
                raise UsageError(f"the model has no input '{name}'.{did_you_mean(name, inputs)}")
            rank = len(inputs[name].type.tensor_type.shape.dim)
            for shape in shapes:
                if len(shape) != rank:
                    raise UsageError(
                        f"the input '{name}' has {rank} dimensions; its profile gives {'x'.join(map(str, shape))}."
                    )
            smallest, usual, largest = shapes
            if not all(a <= b <= c for a, b, c in zip(smallest, usual, largest, strict=True)):
                raise UsageError(
                    f"the profile of '{name}' goes from the smallest shape over the usual one to the largest, each "
                    "dimension in that order."
                )


def plugin_library(path: str | Path) -> str:
    """The absolute path of a shared library. Raises UsageError where there is none."""
    if not Path(path).is_file():
        raise UsageError(f"there is no plugin library '{path}'. `surgeon plugins build` makes surgeon's own.")
    return str(Path(path).resolve())


def _fixed_shapes(proto: Any, profiles: Sequence[Profile]) -> list[str]:
    """What Polygraphy makes of dynamic inputs that a profile leaves out: one shape, each unknown size 1."""
    weights = {t.name for t in proto.graph.initializer}
    given = set.intersection(*map(set, profiles)) if profiles else set()
    notes = []
    for info in proto.graph.input:
        dims = [declared_dim(d) for d in info.type.tensor_type.shape.dim]
        if info.name in weights | given or all(isinstance(d, int) for d in dims):
            continue
        shape = "x".join(str(d) if isinstance(d, int) else "1" for d in dims)
        notes.append(
            f"the input '{info.name}' is dynamic and has no --profile: the engine takes {shape} alone; --profile "
            f"{info.name}:MIN,OPT,MAX allows others"
        )
    return notes


# ---- why not ---------------------------------------------------------------------------------------------------------


# Polygraphy's own words beside TensorRT's: that something went wrong,
# and that it wants TensorRT 8.5 (it builds with 8.2 to 8.4 too).
SEVERITY = re.compile(r"^(\[[A-Z!]\] )+")
NOISE = ("Could not parse", "Invalid Engine", "is installed, but version")


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def polygraphy_log() -> Iterator[list[str]]:
    """What Polygraphy and TensorRT say at the level ERROR, kept off the terminal."""
    from polygraphy.logger import G_LOGGER

    collector, python = _Collector(), logging.getLogger("Polygraphy")
    before, propagated = G_LOGGER.use_python_logging_system, python.propagate
    colours, G_LOGGER.colors = G_LOGGER.colors, False
    G_LOGGER.use_python_logging_system = True
    python.addHandler(collector)
    python.propagate = False
    try:
        yield collector.lines
    finally:
        python.removeHandler(collector)
        python.propagate = propagated
        G_LOGGER.use_python_logging_system, G_LOGGER.colors = before, colours


def told(log: Sequence[str]) -> list[str]:
    """What TensorRT itself said, each thing once and in one line."""
    lines = dict.fromkeys(SEVERITY.sub("", " ".join(line.split())) for line in log)
    return [line for line in lines if not any(noise in line for noise in NOISE)]


def _refusals(trt: Any, source: Path, log: Sequence[str]) -> list[Untaken]:
    """The parser's own errors, or where it took the model, what the builder logged;
    each with the pass that mends it."""
    found = list(dict.fromkeys(_parser_errors(trt, source)))
    if not found:
        proto = read(source)
        found = [_builder_error(line, proto) for line in told(log)]
    mending = _mending(source, target_of(trt)) if found else {}
    return [replace(r, mended_by=mending.get(r.node, "")) for r in found]


def _parser_errors(trt: Any, source: Path) -> list[Untaken]:
    """Parse once more, by hand: Polygraphy's loader turns the parser's errors into text and drops the nodes."""
    from polygraphy.backend.trt.util import get_trt_logger

    proto = read(source)
    builder = trt.Builder(get_trt_logger())
    explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    parser = trt.OnnxParser(network, get_trt_logger())
    if parser.parse_from_file(as_text(source)):
        return []
    return [_parser_error(parser.get_error(i), proto) for i in range(parser.num_errors)] or [
        Untaken("", "", "the parser gives no reason")
    ]


def _parser_error(error: Any, proto: Any) -> Untaken:
    """TensorRT 10 names the node; before that there is its number."""
    why = " ".join(str(error.desc()).split())
    name = error.node_name() if hasattr(error, "node_name") else ""
    op = error.node_operator() if hasattr(error, "node_operator") else ""
    nodes = proto.graph.node
    if not name and 0 <= error.node() < len(nodes) and op in ("", nodes[error.node()].op_type):
        node = nodes[error.node()]
        return Untaken(label(node), node.op_type, why)
    return Untaken(name, op, why)


def _builder_error(line: str, proto: Any) -> Untaken:
    named = [n for n in proto.graph.node if n.name and n.name in line]
    why = " ".join(line.split())
    if not named:
        return Untaken("", "", why)
    node = max(named, key=lambda n: len(n.name))
    return Untaken(label(node), node.op_type, why)


def _mending(source: Path, target: Target) -> dict[str, str]:
    try:
        return mended_by(source, target=target)
    except SurgeonError:  # surgeon does not read the model either: then there is nothing to advise
        return {}


def label(node: Any) -> str:
    """A NodeProto as reports call it: its name, or its operator and first output."""
    return node.name or f"{node.op_type} -> {node.output[0] if node.output else '?'}"


def _told(trt: Any, source: Path, refusals: Sequence[Untaken]) -> str:
    lines = [f"{title(trt)} does not take '{source}'."]
    for refusal in refusals:
        lines.append(f"  {refusal}")
        if "Plugin not found" in refusal.why and trt.__name__ != RTX:  # that one has no plugins
            lines.append(
                "    load the library that has it with --plugins LIB; `surgeon plugins build` makes surgeon's own"
            )
        elif refusal.mended_by:
            lines.append(
                f"    the pass '{refusal.mended_by}' may mend this: "
                f"surgeon rewrite {shlex.quote(str(source))} OUT.onnx --target {target_of(trt)}"
            )
        elif refusal.node:
            lines.append(f"    no pass rewrites this node for {target_of(trt)}")
    return "\n".join(lines)
