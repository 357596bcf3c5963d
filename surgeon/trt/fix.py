"""Rewrite a model, prove and write it, ask the real parser, load it, and give the next command."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from onnx import ModelProto, TensorProto

from surgeon.errors import EngineError, SurgeonError, UsageError
from surgeon.ir.files import check_writable, read, size_of
from surgeon.ir.following import readers
from surgeon.ir.lattice import FLOATS, static_sizes
from surgeon.ir.model import Model
from surgeon.ir.operators import COMPARES, MOVES
from surgeon.ir.process import Crashed, Exceeded, survived
from surgeon.ir.protos import given_inputs, types_held
from surgeon.ir.run import Runner, Unrunnable
from surgeon.pipeline.advice import advice_for
from surgeon.pipeline.check import Untaken
from surgeon.pipeline.freezing import frozen
from surgeon.pipeline.misplaced import REPAIR, misplaced
from surgeon.pipeline.option import P, by_keyword
from surgeon.pipeline.options import EIGHTS, WEIGHTS, Options, RewriteOptions
from surgeon.pipeline.session import Result
from surgeon.pipeline.source import ModelLike, Source
from surgeon.precision.comparison import Comparison, OutputError
from surgeon.precision.data import Samples
from surgeon.precision.formats import computes_in_half
from surgeon.precision.inputs import plausible
from surgeon.precision.ranges import THREADS
from surgeon.precision.standard import is_quantized
from surgeon.proof.loading import load_both
from surgeon.proof.randomness import why_random
from surgeon.report import Report, counted, error_text, target_name
from surgeon.rules.meaning import with_functions
from surgeon.targets.dtypes import PACKED
from surgeon.targets.target import Target
from surgeon.trt.engine import serialized
from surgeon.trt.kernels import LARGE, Told, told
from surgeon.trt.kernels import SECONDS as BUILD_SECONDS
from surgeon.trt.profiles import (
    Profile,
    guessed_profile,
    names_of_dynamic,
    profile_texts,
    provider_options,
    shape_text,
    trtexec_shapes,
    with_values,
)
from surgeon.trt.program import Program
from surgeon.trt.refusals import ask, why_not
from surgeon.trt.rewriting import rewritten
from surgeon.trt.runtime import RTX, title, use
from surgeon.verdict_text import answer, size_text
from surgeon.visible import visible

SECONDS = 60.0  # after which no further value of an input is tried
MOST_SETTINGS = 4  # values that are tried
SUFFIX = ".trt.onnx"  # of what is written, where no name is given
# Options that change what a model computes, and print by how much.
ON_PURPOSE = (*EIGHTS, *WEIGHTS, "symmetric_int8", "repair_qdq", "calibration_cache", "allow_narrowing", "repair_eps")


@dataclass(frozen=True, slots=True)
class Parsed:
    """Whether the target's own parser accepts the written model.

    parser   its name and version; empty where none was asked
    refused  the nodes that it refuses, in its own words
    why_not  why none was asked
    """

    parser: str = ""
    refused: tuple[Untaken, ...] = ()
    why_not: str = ""

    def __str__(self) -> str:
        if self.why_not:
            return f"predicted from surgeon's table, not parsed: {self.why_not}"
        return f"{self.parser} {'refuses' if self.refused else 'parses'} it"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Whether ONNX Runtime loads the written model.

    worse  whether it loads the original, and not this
    why    why it does not load it; empty if it does
    """

    worse: bool = False
    why: str = ""

    def __str__(self) -> str:
        return self.why or "ONNX Runtime loads it"


@dataclass(frozen=True, slots=True, repr=False)
class Fixed:
    """The result of `fix`.

    path     the file that was written; nothing was where the error of a conversion is above the tolerance
    result   the rewritten model, and the report
    parsed   what the target's own parser says
    loaded   what ONNX Runtime says
    advice   for each entry of `report.untaken`
    files    the files of the written model
    saved    by how many bytes they are smaller than the original; None where that was not a file
    ran      the whole model on inputs that occur; None where nothing was written
    built    whether TensorRT-RTX builds it; None where that is not the target or not installed
    types    that a strongly typed target computes the model in fp32, and the options that change that; else empty
    quantizers   how many quantizers of the original gain nothing as they are, and the options that place them anew
    setting  a value for `--set` with which all of this works, where it does not without: "sr=16000"; else empty
    where    where `command` is to be typed; empty for here
    command  the command that builds an engine; empty if the model is not ready for it
    elsewhere  where an input is read as sizes: what gives ONNX Runtime the same values, and TensorRT's own program
               where `command` is surgeon's
    kernels  what TensorRT-RTX runs of it, in one line; empty for other targets, and where no TensorRT-RTX is here
    program  the same, kernel by kernel; None where that is not known
    """

    path: Path
    result: Result
    parsed: Parsed
    loaded: Loaded
    advice: list[str]
    files: list[Path]
    saved: int | None
    ran: Ran | None
    built: TrialBuild | None
    types: str
    quantizers: str
    setting: str
    where: str
    command: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    kernels: str = ""
    program: Program | None = None

    @property
    def report(self) -> Report:
        """What was done."""
        return self.result.report

    @property
    def ok(self) -> bool:
        """Whether nothing failed, the target supports every node, and what could be tried of the file worked."""
        return _is_ready(self.result, self.parsed, self.loaded) and not self.fails

    @property
    def fails(self) -> bool:
        """Whether the whole model differs from its original, or TensorRT-RTX does not build it."""
        return (self.ran is not None and self.ran.differs) or (self.built is not None and bool(self.built.why))

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        said = answer(self.report, self.saved, self.result.precision)
        if self.parsed.refused:
            return f"{self.parsed.parser} refuses {self.path}; {said}"
        if self.ran is not None and self.ran.differs:
            return f"the whole model differs; {said}"
        return f"{self.built.runtime} does not build {self.path}; {said}" if self.built and self.built.why else said

    @property
    def _place(self) -> str:
        half = self.result.precision
        return "nothing written" if half is not None and half.withheld else f"written to {self.path}"

    def __repr__(self) -> str:
        lines = [f"Fixed: {self.verdict}", f"  {self._place}", f"  {self.parsed}"]
        lines += [f"    {node}" for node in self.parsed.refused]
        tried = (self.loaded, self.ran, self.built, self.kernels, self.types, self.quantizers)
        lines += [f"  {text}" for text in tried if text is not None and str(text)]
        if self.setting:
            lines.append(f"  with --set {self.setting} all of this works")
        if self.command:
            lines.append(f"  next{self.where}: {self.command}")
        return "\n".join(map(visible, lines))


class FixFunction(Protocol[P]):
    """A function of a model, a file and options."""

    def __call__(
        self, model: ModelLike, out: str | Path | None = None, *args: P.args, **options: P.kwargs
    ) -> Fixed: ...


def _fixing(asked: Callable[P, object]) -> Callable[[Callable[..., Fixed]], FixFunction[P]]:
    return partial(by_keyword, asked)


@_fixing(RewriteOptions)
def fix(model: ModelLike, out: str | Path | None = None, *, options: RewriteOptions) -> Fixed:
    """Rewrite a model for a target, prove and write it, ask the real parser, and load it in ONNX Runtime.

    model  a path, a ModelProto or a gs.Graph
    out    the file to write; None is MODEL.trt.onnx beside the model, which must be a path then

    The keywords are those of `surgeon.rewrite`. The parser is asked where the target's own TensorRT is installed
    here. Raises UsageError and ModelError; a rewrite that fails its proof is undone and in `report.undone`.
    """
    return fixed(Source(model), out, Options.checked(options))


def fixed(source: Source, out: str | Path | None, options: Options) -> Fixed:
    """`fix`, of a source and options that are checked."""
    started = time.perf_counter()
    place = place_of(source, out)
    result = rewritten(source, options)
    withheld = result.precision is not None and result.precision.withheld
    files = [] if withheld else result.save(place)
    report = result.report
    report.seconds = time.perf_counter() - started
    parsed = Parsed(why_not="nothing was written") if withheld else _parsed(place, options.target)
    loaded = _loaded(source, result)
    tried = None if withheld else ran(source, result, options)
    profile = {} if tried is None else tried.profile
    built, runs = None, Told()
    ready = tried is not None and _is_ready(result, parsed, loaded) and not tried.differs
    if parsed.parser and not parsed.refused and options.target.rtx:
        runs = told(place, source.path, options.target, {name: opt for name, (_, opt, _) in profile.items()})
        if ready:
            profile, built = _tried(place, profile, runs, size_of(files))
    ready = ready and (built is None or not built.why)
    stays = not ready or bool(report.refused)
    where, command = next_command(place, profile, options.target, result.model) if ready else ("", "")
    return Fixed(
        path=place,
        result=result,
        parsed=parsed,
        loaded=loaded,
        advice=advice_for(result, source, options),
        files=files,
        saved=size_of(result.files) - size_of(files) if result.files and files else None,
        ran=tried,
        built=built,
        types="" if options.way else _types(result.model, options.target),
        quantizers="" if options.symmetric_int8 else _quantizers(source, options.target),
        setting=_setting(source, result.model, options, profile) if stays and not withheld else "",
        where=where,
        command=command,
        elsewhere=_elsewhere(place, profile, options.target, result.model) if command else {},
        kernels=runs.text,
        program=None if runs.after is None else runs.after.program,
    )


def _setting(source: Source, model: ModelProto, options: Options, profile: Profile) -> str:
    """A value of an input or the size of a dimension, as `--set` has it, with which the target supports and builds the
    whole model; or nothing."""
    if options.values or not 0 < model.ByteSize() < LARGE:
        return ""
    until = time.monotonic() + SECONDS
    for name, value in islice(_values_that_occur(model, profile), MOST_SETTINGS):
        if time.monotonic() > until:
            return ""
        asked = replace(options, values={name: value}, verify="none", write_calibration_cache=None)
        with TemporaryDirectory() as folder, suppress(SurgeonError):
            tried = fixed(source, Path(folder) / "set.onnx", asked)
            if tried.ok and not tried.report.refused:
                return f"{name}={value}"
    return ""


def _values_that_occur(proto: ModelProto, profile: Profile) -> Iterator[tuple[str, str]]:
    """Inputs of sizes, rates and flags with values that they may have: those that nodes compare them with, both values
    of a bool, and the sizes that are usual. Then the dimensions that are not static, each with its usual size."""
    model, dynamic = Model(proto), set(names_of_dynamic(proto))
    for info in given_inputs(proto):
        value = model.graph.values[info.name]
        dtype, sizes = model.dtype(value), static_sizes(model.shape(value))
        is_one_number = sizes is not None and math.prod(sizes) == 1
        if is_one_number and dtype == TensorProto.BOOL:
            yield from ((info.name, truth) for truth in ("true", "false"))
        elif is_one_number and dtype not in FLOATS:
            read = readers([value], lambda node: node.key in MOVES or node.key == "Cast", most=MOST_SETTINGS**2)
            beside = [model.constant(i) for node, _ in read if node.key in COMPARES for i in node.inputs]
            found = {int(number) for array in beside if array is not None for number in array.reshape(-1)}
            yield from ((info.name, str(number)) for number in sorted(found, reverse=True))
        if info.name in profile and info.name not in dynamic:
            yield info.name, ",".join(map(str, profile[info.name][1]))
    open_ones = [i for i in given_inputs(proto) if i.name in dynamic and i.name in profile]
    usual = (zip(i.type.tensor_type.shape.dim, profile[i.name][1], strict=True) for i in open_ones)
    yield from {dim.dim_param: str(size) for row in usual for dim, size in row if dim.dim_param}.items()


def _is_ready(result: Result, parsed: Parsed, loaded: Loaded) -> bool:
    converted = result.precision is None or not result.precision.failed
    return converted and not (result.report.failed or parsed.refused or loaded.worse)


def place_of(source: Source, out: str | Path | None) -> Path:
    """The file to write. Raises UsageError, and ModelError where it cannot be written or is the model itself."""
    if source.path is None:
        if out is None:
            raise UsageError("a model in memory has no path: give a path as `out`.")
        place, own = Path(out), []
    else:
        place, own = Path(out or source.path.with_suffix(SUFFIX)), [source.path]
    check_writable(place, *own)
    return place


def _parsed(file: Path, target: Target) -> Parsed:
    found = ask(str(file), target)
    if found is None:
        return Parsed(why_not=why_not(target) or "the TensorRT that is installed here does not load")
    return Parsed("" if found.why_not else found.parser, tuple(found.refused), found.why_not)


def _loaded(source: Source, result: Result) -> Loaded:
    try:
        loading = load_both(source.proto, result.model, result.base)
    except SurgeonError as error:  # ONNX Runtime does not load itself
        return Loaded(why=f"not loaded: {error}")
    if not loading.after:
        return Loaded()
    if result.precision is not None and "NOT_IMPLEMENTED" in loading.after:
        return Loaded(why=f"ONNX Runtime has no kernel for these types on a CPU, and does not load it: {loading.after}")
    said = "the original and not this" if loading.worse else "neither the original nor this"
    return Loaded(loading.worse, f"ONNX Runtime loads {said}: {loading.after}")


def _types(model: ModelProto, target: Target) -> str:
    """What a strongly typed target makes of a model whose floats are all fp32; empty for any other."""
    if not target.strongly_typed or TensorProto.FLOAT not in types_held(model) or computes_in_half(model):
        return ""
    return (
        f"{target_name(str(target))} computes in the types of the file, and this one has fp32: "
        "--fp16, --bf16 or --half converts it"
    )


def _quantizers(source: Source, target: Target) -> str:
    """What is wrong with the quantizers of the original; empty without any, and where all of them gain something."""
    if not is_quantized(source.look()):
        return ""
    seen = misplaced(Model(source.look(), source.base), target)
    if unknown := [m for m in seen if m.fixed_by is None]:
        return str(unknown[0])
    found = len({m.node for m in seen if m.fixed_by})
    if not found:
        return ""
    return (
        f"{counted(found, 'node')} with quantizers {'gains' if found == 1 else 'gain'} nothing from int8 as the file "
        f"has them: {REPAIR} places them anew, and surgeon check names them"
    )


def _elsewhere(out: Path, profile: Profile, target: Target, model: ModelProto) -> dict[str, str]:
    """What gives other programs the values of inputs that are read as sizes, by their names; empty without any."""
    if target.dla or profile.keys() <= set(names_of_dynamic(model)):
        return {}
    provider, options = provider_options(profile, target)
    found = {"ONNX Runtime": f"providers=[({provider!r}, {options})]"}
    command = _trtexec(out, profile, target, model)
    return found if why_not(target) else {command[0]: shlex.join(command), **found}


def next_command(out: Path, profile: Profile, target: Target, model: ModelProto) -> tuple[str, str]:
    """Where to type the next command, and the command: surgeon build if the target builds here, else trtexec."""
    if not why_not(target):
        words = ["surgeon", "build", str(out), str(out.with_suffix(".engine"))]
        for name, text in profile_texts(profile).items():
            words += ["--profile", f"{name}:{text}"]
        return "", shlex.join(words)
    return f", on a machine with {target_name(str(target))}", shlex.join(_trtexec(out, profile, target, model))


def _trtexec(out: Path, profile: Profile, target: Target, model: ModelProto) -> list[str]:
    """The words of the command of TensorRT's own program."""
    engine = out.with_suffix(".engine")
    words = ["tensorrt_rtx" if target.rtx else "trtexec", f"--onnx={out.name}", f"--saveEngine={engine.name}"]
    if target.dla:  # its sizes are static: a profile has one for all three
        profile = {name: (opt, opt, opt) for name, (_, opt, _) in profile.items()}
    words += trtexec_shapes(profile) + _typing(model, target)
    return [*words, "--useDLACore=0", "--allowGPUFallback", "--fp16"] if target.dla else words


def _typing(model: ModelProto, target: Target) -> list[str]:
    """The options of trtexec without which TensorRT up to 10 does not compute in the types of the file."""
    if target.strongly_typed:
        return []
    is_small = computes_in_half(model) or not PACKED.isdisjoint(types_held(model))
    if is_small and target.typed_on_request and not target.dla:  # a DLA computes in the types of flags
        return ["--stronglyTyped"]
    return ["--int8"] if is_quantized(model) else []


# ---- the result, tried -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of the whole model, before and after.

    profile  the smallest, usual and largest shape of each dynamic input of the result
    at       the shapes of all inputs of the run; empty where nothing ran
    worst    the output with the largest error; None where the two were not compared
    why      why nothing ran or was compared; empty where all was
    """

    profile: Profile
    at: str = ""
    worst: OutputError | None = None
    why: str = ""

    @property
    def differs(self) -> bool:
        return self.worst is not None and not self.worst.ok

    def __str__(self) -> str:
        if not self.at:
            return f"the whole model was not run: {self.why}"
        if self.worst is None:
            return f"whole model at {self.at}: not compared: {self.why}"
        error = "no error" if self.worst.relative == 0 else f"largest error {error_text(self.worst.relative)}"
        return f"whole model before and after at {self.at}: {error}, {self.worst.verdict}"


@dataclass(frozen=True, slots=True)
class TrialBuild:
    """An engine that was built and not kept.

    runtime  such as "TensorRT-RTX 1.7.1.116"
    size     of the engine, in bytes; 0 where it was not built
    why      why it does not build; empty where it does, and where that was not tried
    untried  why it was not tried to the end; empty where it was
    """

    runtime: str
    size: int = 0
    why: str = ""
    untried: str = ""

    def __str__(self) -> str:
        if self.why:
            return f"{self.runtime} does not build it: {self.why}"
        if self.untried:
            return f"the command below was not tried: {self.runtime} {self.untried}"
        return f"{self.runtime} builds it, {size_text(self.size)}"


def ran(source: Source, result: Result, options: Options) -> Ran:
    """Run the original and the result once, at sizes at which the original runs."""
    try:
        return _ran(source, result, options)
    except (Unrunnable, SurgeonError) as error:
        return Ran(guessed_profile(result.model), why=str(error).rstrip("."))


def _ran(source: Source, result: Result, options: Options) -> Ran:
    before, after = frozen(source.proto(), options.values)[0], result.model
    same = _interface(before) == _interface(after)
    runner = Runner(with_functions(before if same else after), source.base, threads=THREADS)
    found = plausible(with_functions(after), runner.run, result.shapes if same else None)
    at = ", ".join(f"{name} {shape_text(array.shape)}".rstrip() for name, array in found.samples[0].items())
    why = _why_not_compared(before, same, result, options)
    if why:
        return Ran(found.ranges(), at, why=why)
    comparison = Comparison(before, Samples.of(found.samples[:1]), kind="guessed", base=source.base)
    return Ran(found.ranges(), at, comparison.errors(after)[0])


def _why_not_compared(before: ModelProto, same: bool, result: Result, options: Options) -> str:
    if not same:
        return "an option changes its inputs"
    if result.precision is not None:
        return "see the error of the conversion above"
    changed = [f"--{name.replace('_', '-')}" for name in ON_PURPOSE if getattr(options, name, None)]
    if changed:
        return f"{changed[0]} changes the numbers on purpose, and the error is above"
    return why_random(before, result.model) if options.proves else "--verify none"


def _interface(model: ModelProto) -> list[tuple[str, int, list[int | None]]]:
    """Name, type and sizes of each input; None for a size that is not fixed."""
    inputs = ((i.name, i.type.tensor_type) for i in given_inputs(model))
    return [(name, t.elem_type, [d.dim_value if d.dim_value > 0 else None for d in t.shape.dim]) for name, t in inputs]


def _tried(file: Path, profile: Profile, runs: Told, size: int) -> tuple[Profile, TrialBuild]:
    """`built_for`, where it is worth a build: not of a large model, and not again where the kernels were counted."""
    why = "takes minutes for a model above 1 GB" if size >= LARGE else runs.gave_up
    if why:
        return profile, TrialBuild(title(use(RTX)), untried=why)
    if runs.after is not None and not profile:
        return profile, TrialBuild(title(use(RTX)), runs.after.size)
    return built_for(file, profile)


def built_for(file: Path, profile: Profile) -> tuple[Profile, TrialBuild]:
    """Build an engine with TensorRT-RTX, which takes seconds: for a profile, or for its usual shapes alone where that
    fails. The profile it builds for, else the one that was given."""
    alone = {name: (usual, usual, usual) for name, (_, usual, _) in profile.items()}
    built = _built(file, profile)
    again = _built(file, alone) if built.why and alone != profile else built
    return (profile, built) if again.why or again is built else (alone, again)


def _built(file: Path, profile: Profile) -> TrialBuild:
    runtime = title(use(RTX))
    try:
        return TrialBuild(runtime, survived(partial(_size_of_engine, file, profile), seconds=BUILD_SECONDS))
    except Exceeded as limit:
        return TrialBuild(runtime, untried=f"{limit} to build it")
    except Crashed as crash:
        return TrialBuild(runtime, why=f"it crashes ({crash})")
    except (EngineError, UsageError) as error:
        return TrialBuild(runtime, why=" ".join(" ".join(map(str, error.args)).split()))


def _size_of_engine(file: Path, profile: Profile) -> int:
    profiles = with_values([profile] if profile else [], read(file), "surgeon build", file.parent)
    return len(serialized(use(RTX), file, profiles=profiles))
