"""What TensorRT runs of a model, and how that differs from what it runs of another: `surgeon kernels`.

For TensorRT-RTX no GPU is needed: `surgeon.trt.program` reads the engine that it builds. TensorRT builds on a GPU,
where `surgeon.trt.inspector` asks its inspector and its profiler.
"""

import re
import shlex
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from surgeon.errors import EngineError, SurgeonError, UsageError, did_you_mean
from surgeon.ir.files import content, read, read_all, size_of, write
from surgeon.ir.lattice import Shapes
from surgeon.ir.process import Crashed, Exceeded, survived
from surgeon.pipeline.options import Options
from surgeon.precision.rewriting import samples_of
from surgeon.precision.tuning import Measure, Moved
from surgeon.proof.feeds import Feeds
from surgeon.report import Progress
from surgeon.targets.target import Target
from surgeon.trt.engine import plugin_library, serialized, tactics
from surgeon.trt.inspector import inspected
from surgeon.trt.profiles import Profile, names_of_dynamic, typical_shapes, usual_values
from surgeon.trt.program import MAGIC, Engine, Kernel, Program, engine_of, is_engine, summary
from surgeon.trt.refusals import why_not
from surgeon.trt.runtime import CLASSIC, RTX, choose_runtime, gpu, importable, title, use

SECONDS = 60.0  # that a build may take whose engine is not kept
LARGE = 1_000_000_000  # bytes of a model that is not built only to count its kernels


@dataclass(frozen=True, slots=True)
class Seen:
    """What TensorRT runs of a file.

    shapes   of the inputs, as the engine was built; empty where the file is an engine
    dynamic  the inputs of the model whose sizes were chosen
    size     of the engine, in bytes; 0 where the file is one
    """

    path: Path
    engine: Engine
    shapes: dict[str, list[int]]
    dynamic: Collection[str] = ()
    size: int = 0

    @property
    def program(self) -> Program:
        """The first program: that of the first optimization profile."""
        return self.engine.programs[0]

    @property
    def built_for(self) -> str:
        """The sizes of the dynamic inputs: "built for ids:1x128 mask:1x128"; empty where there are none."""
        sizes = [f"{name}:{'x'.join(map(str, self.shapes[name]))}" for name in self.dynamic]
        return f"built for {' '.join(sizes)}" if sizes else ""

    def to_json(self) -> dict[str, Any]:
        """The JSON value: every program and every kernel, sizes in bytes."""
        return {
            "file": str(self.path),
            "runtime": self.engine.runtime,
            "shapes": self.shapes,
            "programs": [program_to_json(p) for p in self.engine.programs],
        }


def program_to_json(program: Program) -> dict[str, Any]:
    """The totals of a program, and its kernels in the order of the engine."""
    whole = {"gpus": list(program.gpus), "profile": program.profile, **totals(program)}
    names = {name: name for name in ("name", "computes", "nodes", "types", "bytes_read", "bytes_written", "uncounted")}
    names |= {"copy": "is_copy", "milliseconds": "milliseconds"}
    return {**whole, "kernels": [{key: getattr(k, name) for key, name in names.items()} for k in program.kernels]}


def totals(program: Program) -> dict[str, Any]:
    """The totals of a program for JSON, sizes in bytes."""
    fused, attentions = program.attention
    counts = {"kernel_count": len(program.kernels), "copies": program.copies}
    counts |= {"attention_fused": fused, "attentions": attentions}
    names = ("bytes", "weights", "activations", "uncounted", "branches", "milliseconds")
    return {**counts, **{name: getattr(program, name) for name in names}}


def kernels(
    file: str | Path,
    *,
    shapes: Shapes | None = None,
    like: Shapes | None = None,
    compute_capability: str | None = None,
    runtime: str | None = None,
    plugins: Sequence[str | Path] = (),
    tactic_sources: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Seen:
    """What TensorRT runs of an ONNX file, for which it builds an engine, or of an engine that it has built.

    shapes              sizes of dynamic inputs; None is a usual size of each
    like                sizes of inputs of another model, which are taken where they fit
    compute_capability  of the GPU, such as "8.6"; None is TensorRT-RTX's default, 8.0 and later

    The others are those of `surgeon.trt.engine.build`.

    An engine has its sizes and its GPU already. Raises EngineError where TensorRT does not build the model or the
    engine is not understood, UsageError, ModelError.
    """
    path = Path(file)
    if is_engine(content(path)):
        return Seen(path, _read(path, content(path)), {})
    model = read(path)
    sizes = typical_shapes(model, path.parent, shapes or {}, like or {})
    trt = use(choose_runtime(runtime))
    values = cache(partial(usual_values, model, path.parent, sizes))
    engine = serialized(
        trt, path, profiles=partial(_profiles, sizes, values), detailed=trt.__name__ != RTX,
        capability=None if compute_capability is None else _capability(trt, compute_capability),
        libraries=[plugin_library(p) for p in plugins], sources=tactics(trt, tactic_sources),
        progress=progress,
    )  # fmt: skip
    names = {n.name for n in model.graph.node}
    return Seen(path, _read(path, engine, sizes, names, values), sizes, names_of_dynamic(model), len(engine))


def _read(
    path: Path,
    data: bytes,
    sizes: Shapes | None = None,
    names: Collection[str] = (),
    values: Callable[[], Feeds] = dict,
) -> Engine:
    try:
        if data.startswith(MAGIC) or not (importable(CLASSIC) and gpu()):
            return engine_of(data)
        return inspected(use(CLASSIC), data, sizes or {}, names, values())
    except EngineError as error:
        raise EngineError(f"'{path}': {error}") from None


def _profiles(shapes: Shapes, values: Callable[[], Feeds], network: Any) -> list[Profile]:
    """One profile: one shape for each dynamic input, and usual values for an input that decides a shape."""
    found = {}
    for tensor in (network.get_input(k) for k in range(network.num_inputs)):
        if tensor.is_shape_tensor:
            value = values().get(tensor.name, np.ones(shapes[tensor.name], dtype=int))
            found[tensor.name] = [tuple(value.reshape(-1).tolist())] * 3
        elif any(size < 0 for size in tensor.shape):
            found[tensor.name] = [tuple(shapes[tensor.name])] * 3
    return [found] if found else []


def _capability(trt: Any, text: str) -> Any:
    """The member of trt.ComputeCapability for "8.6", "86" or "sm86". Raises UsageError."""
    if not hasattr(trt, "ComputeCapability"):
        raise UsageError(f"{title(trt)} builds for the GPU of this machine: leave out --compute-capability.")
    known = {n: m for n, m in trt.ComputeCapability.__members__.items() if n.startswith("SM")}
    name = "SM" + re.sub(r"^(sm_?)?", "", text.strip().lower()).replace(".", "")
    if name not in known:
        names = [f"{n[2:-1]}.{n[-1]}" for n in known]
        raise UsageError(f"TensorRT-RTX has no compute capability '{text}'.{did_you_mean(text, names)}")
    return known[name]


# ---- a rewritten model -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """What TensorRT-RTX runs of a rewritten model, in one line.

    after    the programs and their kernels; None where nothing is known
    gave_up  "takes longer than 60 s to build it"; empty where it does not
    """

    text: str = ""
    after: Seen | None = None
    gave_up: str = ""


def told(written: Path, original: Path | None, target: Target, like: Shapes | None = None) -> Told:
    """What TensorRT-RTX runs of a rewritten model and its original, each built in a process of its own.

    original  built for the same sizes; None where it is not a file
    like      the sizes of dynamic inputs; None is a usual size of each

    Empty where the target is another one, where no TensorRT-RTX is installed, and where it does not build the model.
    An engine that takes longer than SECONDS is given up, which the text says.
    """
    if not target.rtx or why_not(target):
        return Told()
    if size_of(read_all(written)[1]) > LARGE:
        return Told(f"the kernels of so large a model are not counted: surgeon kernels {shlex.quote(str(written))}")
    try:
        after = survived(partial(kernels, written, like=like, runtime="rtx"), seconds=SECONDS)
    except Exceeded as limit:
        why = f"{limit} to build it"
        return Told(f"the kernels are not counted: TensorRT-RTX {why}", gave_up=why)
    except (SurgeonError, Crashed):
        return Told()
    sizes = f"; {after.built_for}" if after.dynamic else ""
    if original is None:
        return Told(f"{summary(after.program)}{sizes}", after)
    try:
        before = survived(partial(kernels, original, like=after.shapes, runtime="rtx"), seconds=SECONDS).program
    except Exceeded as limit:
        return Told(f"{summary(after.program)}; TensorRT-RTX {limit} to build the original{sizes}", after)
    except (SurgeonError, Crashed):
        return Told(f"{summary(after.program)}; TensorRT-RTX does not build the original{sizes}", after)
    return Told(f"{summary(after.program, before)}{sizes}", after)


# ---- two programs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes of two models, and the kernels that compute them in each."""

    nodes: tuple[str, ...]
    before: tuple[Kernel, ...]
    after: tuple[Kernel, ...]

    @property
    def more_bytes(self) -> int:
        """How many bytes more the second one moves."""
        return sum(k.bytes for k in self.after) - sum(k.bytes for k in self.before)

    @property
    def is_same(self) -> bool:
        """Whether both run the same: as many kernels, which compute the same, and as many bytes."""
        return [(k.computes, k.bytes, k.types) for k in self.before] == [
            (k.computes, k.bytes, k.types) for k in self.after
        ]


def parts(before: Program, after: Program) -> list[Part]:
    """Two programs, cut into parts that have no node in common, in the order of the second."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    every = [*before.kernels, *after.kernels]
    for kernel in every:
        for node in kernel.nodes:
            root[find(node)] = find(kernel.nodes[0])
    groups: dict[str, tuple[list[Kernel], list[Kernel]]] = {}
    for k, kernel in enumerate([*after.kernels, *before.kernels]):
        key = find(kernel.nodes[0]) if kernel.nodes else f"\0{kernel.name}"
        groups.setdefault(key, ([], []))[k < len(after.kernels)].append(kernel)
    return [
        Part(tuple(dict.fromkeys(n for k in (*old, *new) for n in k.nodes)), tuple(old), tuple(new))
        for old, new in groups.values()
    ]


# ---- what --tune measures --------------------------------------------------------------------------------------------


def measure_of(options: Options, base: Path | None) -> Measure:
    """What measures engines for `--tune`, at the sizes of the first sample of the data if there is one.

    Raises UsageError where no TensorRT-RTX is installed.

    base  the folder of the model's external weights
    """
    why = why_not(options.target)
    if why:
        raise UsageError(f"--tune builds engines, and {why}.")
    samples = None if options.shapes else samples_of(options)
    first: Feeds = next(iter(samples or ()), {})
    return partial(_moved, base, options.shapes or {name: array.shape for name, array in first.items()})


def _moved(base: Path | None, shapes: Shapes, model: ModelProto) -> Moved | None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.onnx"
        write(model, place, base)
        try:
            program = survived(partial(kernels, place, like=shapes, runtime="rtx")).program
        except (SurgeonError, Crashed):
            return None
    return Moved(program.bytes, len(program.kernels))
