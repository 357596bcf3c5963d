"""A rewritten model tried: run beside its original on inputs that occur, and built where its TensorRT is installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from surgeon.errors import EngineError, SurgeonError, UsageError
from surgeon.ir.files import read
from surgeon.ir.protos import given_inputs
from surgeon.ir.run import Runner, Unrunnable
from surgeon.pipeline.freezing import frozen
from surgeon.pipeline.options import EIGHTS, WEIGHTS, Options
from surgeon.pipeline.session import Result
from surgeon.pipeline.source import Source
from surgeon.precision.comparison import Comparison, OutputError
from surgeon.precision.data import Samples
from surgeon.precision.inputs import plausible
from surgeon.precision.ranges import THREADS
from surgeon.proof.randomness import why_random
from surgeon.report import error_text
from surgeon.rules.meaning import with_functions
from surgeon.trt.engine import serialized
from surgeon.trt.profiles import Profile, guessed_profile, shape_text, with_values
from surgeon.trt.runtime import RTX, title, use
from surgeon.verdict_text import size_text

# Options that change what a model computes, and print by how much.
ON_PURPOSE = (*EIGHTS, *WEIGHTS, "symmetric_int8", "repair_qdq", "calibration_cache", "allow_narrowing", "repair_eps")


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
    size     of the engine, in bytes
    why      why it was not built; empty where it was
    """

    runtime: str
    size: int = 0
    why: str = ""

    def __str__(self) -> str:
        return (
            f"{self.runtime} {f'does not build it: {self.why}' if self.why else f'builds it, {size_text(self.size)}'}"
        )


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
    at = ", ".join(f"{name} {shape_text(array.shape)}" for name, array in found.samples[0].items())
    why = _why_not_compared(before, same, result, options)
    if why:
        return Ran(found.ranges(), at, why=why)
    comparison = Comparison(before, Samples.of(found.samples[:1]), kind="guessed", base=source.base)
    return Ran(found.ranges(), at, comparison.errors(after)[0])


def _why_not_compared(before: ModelProto, same: bool, result: Result, options: Options) -> str:
    if not same:
        return "an option changes its inputs"
    if result.precision is not None:
        return "the conversion was, see above"
    changed = [f"--{name.replace('_', '-')}" for name in ON_PURPOSE if getattr(options, name, None)]
    if changed:
        return f"{changed[0]} changes the numbers on purpose, and the error is above"
    return why_random(before, result.model) if options.proves else "--verify none"


def _interface(model: ModelProto) -> list[tuple[str, int, list[int | None]]]:
    """Name, type and sizes of each input; None for a size that is not fixed."""
    inputs = ((i.name, i.type.tensor_type) for i in given_inputs(model))
    return [(name, t.elem_type, [d.dim_value if d.dim_value > 0 else None for d in t.shape.dim]) for name, t in inputs]


def built_for(file: Path, profile: Profile) -> tuple[Profile, TrialBuild]:
    """Build an engine with TensorRT-RTX, which takes seconds: for a profile, or for its usual shapes alone where that
    fails. The profile it builds for, else the one that was given."""
    alone = {name: (usual, usual, usual) for name, (_, usual, _) in profile.items()}
    built = _built(file, profile)
    again = _built(file, alone) if built.why and alone != profile else built
    return (profile, built) if again.why or again is built else (alone, again)


def _built(file: Path, profile: Profile) -> TrialBuild:
    trt = use(RTX)
    try:
        profiles = with_values([profile] if profile else [], read(file), "surgeon build", file.parent)
        return TrialBuild(title(trt), len(serialized(trt, file, profiles=profiles)))
    except (EngineError, UsageError) as error:
        return TrialBuild(title(trt), why=" ".join(" ".join(map(str, error.args)).split()))
