"""What a run is asked for: the options of `surgeon.rewrite`, `fix` and `check`, checked, as one frozen value.

These dataclasses are the one place of the options. `surgeon.pipeline.option` says what is made from their fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surgeon.errors import UsageError, did_you_mean
from surgeon.ir.lattice import Shapes
from surgeon.ir.model import Model
from surgeon.pipeline.option import (
    File,
    Flag,
    Number,
    Pairs,
    Paths,
    Text,
    Words,
    option,
    options_of,
    shapes_apart,
    sizes,
    words,
)
from surgeon.report import Progress
from surgeon.rules import registry
from surgeon.rules.driver import Driver
from surgeon.rules.rule import ModelRule, Pass
from surgeon.targets.target import Target

Verify: TypeAlias = Literal["window", "full", "none"]
Folders: TypeAlias = str | Path | Iterable[str | Path]
MODES = ("window", "full", "none")
WAYS = ("fp16", "bf16", "half")  # of a conversion
EIGHTS = ("int8", "fp8")  # by ranges from data
WEIGHTS = ("int4", "fp8_weights")  # of weights alone
METHODS = ("max", "percentile", "entropy", "mse")  # of a calibration
LIBRARIES = ("surgeon", "stock")
NUMBER = "NAME=NUMBER, such as repair_prelu=1"
AXIS = "INPUT:AXIS, such as h0:1 or size:none"


def axis_of(text: str, item: str, flag: str) -> int | None:
    """The dimension that is the batch of an input; None for `none`. Raises UsageError."""
    if not (text.isdecimal() or text == "none"):
        raise UsageError(f"{flag} takes {AXIS}, not '{item}'.")
    return None if text == "none" else int(text)


def number_of(text: str, item: str, flag: str) -> float:
    """A number that a pass reads. Raises UsageError."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise UsageError(f"{flag} takes {NUMBER}, not '{item}'.")
    return found


# fmt: off
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CheckOptions:
    """What `check` takes, which is part of what `rewrite` and `fix` take.

    `progress` is called with (phase, done, total). Every other field is an option of the command line, too.
    """

    target: str | Target | None = option(None, Text(), "target", "the TensorRT that runs the model: 8.4, rtx, 8.6+dla, "
        "installed, jetpack-5.1.2 (`surgeon targets` lists all); default: the installed one, else 10.9", metavar="T")
    plugins: Iterable[str] = option((), Words(), "target", "plugin libraries whose nodes may be written, in order "
        "of preference: surgeon, stock (TensorRT's own)", flag="--allow-plugins", metavar="NAMES", old="--plugins")
    strategy: Mapping[str, str] | None = option(None,
        Pairs("=", "PASS=STRATEGY, such as l2-norm=decompose", parts=words), "passes",
        "what a pass writes: keep, decompose or plugin; default: the target decides", metavar="PASS=S",
        python='what a pass writes, such as {"l2-norm": "plugin"}: keep, decompose or plugin')
    only: Iterable[str] | None = option(None, Words(), "passes", "run only these passes", metavar="PASS")
    skip: Iterable[str] = option((), Words(whole=":"), "passes", "skip a pass, or skip it on nodes matching NODE, "
        "which may have wildcards", metavar="PASS[:NODE]",
        python='skip passes, or skip one on matching nodes: "l2-norm:/head/*"')
    passes: Folders = option((), Paths(), "passes", "a folder with your own passes, one Python file each",
        metavar="DIR")
    options: Mapping[str, float] | None = option(None, Pairs("=", NUMBER, number_of), "passes",
        "set a number that a pass reads; `surgeon explain PASS` names them", flag="--option", metavar="NAME=X",
        python='numbers that passes read, such as {"repair_prelu": 1}; a pass names its own in OPTIONS')
    repair_eps: float | None = option(None, Number(float), "passes", "the epsilon for normalizations whose "
        "epsilon was lost in the export, such as 1e-12", metavar="E")
    progress: Progress | None = None


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RewriteOptions(CheckOptions):
    """What `rewrite` and `fix` take."""

    verify: Verify = option("window", Text(MODES, "window"), "proof", "prove each rewrite (window, the default), whole "
        "models too (full), or nothing (none)")
    allow_unproved: bool = option(False, Flag(), "proof", "keep rewrites that cannot be proved because ONNX "
        "Runtime does not run them; whole models that cannot be compared are not a failure")
    cache: bool = option(False, Flag(inverse=True), "proof", "prove every rewrite again; do not use the proofs of "
        "earlier runs", flag="--no-cache", python="use the proofs of earlier runs, in a file of the user's cache")
    shapes: Shapes | None = option(None, Pairs(":", "INPUT:SIZES, such as x:1x3x224x224", sizes, shapes_apart),
        "sizes and inputs", "sizes of inputs with symbolic dimensions, with commas between inputs: a:1x512,b:2x1x128",
        metavar="X:1x3x224x224",
        python='sizes of inputs with symbolic dimensions, for the proof: {"x": (1, 3, 224, 224)}')
    declared: Mapping[str, str] | None = option(None, Pairs(":", "TENSOR:SIZES, such as y:Nx256"), "sizes and inputs",
        "shape of a custom operator's output, with its type if it is not float: Y:Nx256,float16",
        flag="--custom-shape", metavar="Y:Nx256", old="--shape",
        python='shapes of the outputs of custom operators, with the type if it is not float: {"y": "Nx256,float16"}')
    inputs: Mapping[str, str] | None = option(None, Pairs("=", "INPUT=FORM, such as image=uint8-nhwc"),
        "sizes and inputs", "type and layout of an image input: uint8-nhwc, or uint8-nhwc:mean=127.5:scale=0.00784 for "
        "(pixel - mean) * scale; int64 for a float input that holds sizes",
        flag="--input", metavar="X=FORM",
        python='type and layout of image inputs, such as {"image": "uint8-nhwc:mean=127.5:scale=0.00784"}; the Cast, '
        "the Transpose and (pixel - mean) * scale become part of the model")
    values: Mapping[str, Any] | None = option(None, Pairs("=", "NAME=VALUE, such as sr=16000 or batch=1"),
        "sizes and inputs", "freeze an input to a value, so that it becomes a constant, or a named dimension to a "
        "size (checked)",
        flag="--set", metavar="X=VALUE",
        python='freeze inputs to values, such as {"sr": 16000}: they become constants; named dimensions to sizes')
    dynamic_batch: bool | Mapping[str, int | None] = option(False, Flag(), "sizes and inputs",
        "make the batch dimension dynamic (checked: samples do not interact)")
    batch_axis: Mapping[str, int | None] | None = option(None, Pairs(":", AXIS, axis_of), "sizes and inputs",
        "with --dynamic-batch: the batch dimension of an input, where it is not 0; none if it has no batch",
        metavar="X:AXIS",
        python='with dynamic_batch: the batch dimension of inputs where it is not 0, such as {"h0": 1, "size": None}')
    detections: int | None = option(None, Number(int), "sizes and inputs",
        "pad each NonMaxSuppression to N rows; adds an output with the number of valid rows", metavar="N")
    fp16: bool = option(False, Flag(), "precision", "convert to fp16 as well; what fp16 cannot compute stays fp32")
    bf16: bool = option(False, Flag(), "precision", "convert to bf16 as well: fp32's range, fewer digits than fp16")
    half: bool = option(False, Flag(), "precision", "convert to fp16, and to bf16 where the range of fp16 is too small")
    tolerance: float | None = option(None, Number(float), "precision", "the largest allowed error of an "
        "output. In half precision: relative to its largest number, default 0.01. Of a quantized model: the root mean "
        "square of the differences, relative to that of the output, default 0.15", metavar="E")
    keep_fp32: Iterable[str] = option((), Words(), "precision",
        "operators, passes or nodes (with wildcards) that stay fp32", metavar="NAMES")
    io_fp16: bool = option(False, Flag(), "precision", "also convert the model's inputs and outputs")
    tune: bool = option(False, Flag(), "tuning", "try more rewrites, build an engine of TensorRT-RTX for each "
        "(needs no GPU), and keep those that move fewer bytes")
    tune_seconds: float | None = option(None, Number(float), "tuning",
        "with --tune: the time limit in seconds; default 300", metavar="S")
    allow_narrowing: bool = option(False, Flag(), "precision",
        "convert types that the target lacks, such as float64 to fp32; prints the error")
    int8: bool = option(False, Flag(), "int8", "quantize to int8 with ranges from --data; layers that cause a large "
        "error stay in floating point (fp16 for TensorRT 11 and TensorRT-RTX)")
    fp8: bool = option(False, Flag(), "int8", "the same in fp8 (e4m3)")
    calibration: str | None = option(None, Text(METHODS), "int8", "with --int8 or --fp8: how ranges are found: max, "
        "percentile, entropy or mse; default: the one with the least error", metavar="METHOD")
    symmetric_int8: bool = option(False, Flag(), "int8", "give the activations of a quantized model a "
        "zero point of 0, as TensorRT's int8 kernels need it; prints the error")
    repair_qdq: bool = option(False, Flag(), "int8", "with --symmetric-int8: remove all quantizers, and add new "
        "ones where the target gains from int8; the error does not rise")
    calibration_cache: str | Path | None = option(None, File(), "int8", "quantize to int8 with the scales of a "
        "calibration cache that TensorRT up to 10 wrote; with --data, --tolerance limits the error", metavar="FILE")
    write_calibration_cache: str | Path | None = option(None, File(), "int8", "write the scales of --int8, or of a "
        "model that has quantizers, as a calibration cache for TensorRT up to 10", metavar="FILE")
    int4: bool = option(False, Flag(), "weights", "store the weights of MatMul and Gemm in int4, with a scale for each "
        "block; needs no data; prints the error")
    fp8_weights: bool = option(False, Flag(), "weights", "the same in fp8 (e4m3)")
    data: str | Path | Iterable[Mapping[str, Any]] | None = option(None, File(), "data",
        "your inputs, for the error, the choice of what stays fp32 and the ranges of int8: an .npz file of one sample "
        "or of several along a first axis, a folder of such files, or a Polygraphy data loader (.py)", metavar="X.npz",
        python="your inputs, for the error, the choice of what stays fp32 and the ranges of int8: a path as for "
        "`--data`, or arrays by name")
    metric: str | Callable[..., float] | None = option(None, File(), "data", "your own score in place of the error: a "
        "function of the inputs, the original's outputs and the converted model's, each by name; 0 is equal",
        metavar="FILE.py:FUNCTION")
    allow_inexact: bool = option(False, Flag(), "data", "write the converted model even if its error is above the "
        "tolerance, or unknown")
# fmt: on


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Options(RewriteOptions):
    """A run's options. All names in them exist, and go together with the target.

    target        what the model is for
    selected      the passes that run
    tuning        the passes that `tune` tries
    strategies    what a pass writes, by name
    libraries     the plugin libraries, in order of preference
    skipped       (pass name, node glob) pairs; passes that are skipped whole are not in `selected`
    pass_options  what single passes read
    batch_axes    the dimension of the batch by input, where the batch is to become dynamic; else None
    notes         what a person should know of these options
    """

    target: Target
    shapes: Shapes
    inputs: Mapping[str, str]
    values: Mapping[str, Any]
    declared: Mapping[str, str]
    keep_fp32: tuple[str, ...]
    selected: tuple[Pass, ...]
    tuning: tuple[Pass, ...]
    strategies: Mapping[str, str]
    libraries: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]
    pass_options: Mapping[str, float]
    batch_axes: Mapping[str, int | None] | None
    notes: tuple[str, ...]

    @classmethod
    def checked(cls, asked: CheckOptions) -> Options:
        """What is asked for, checked. Raises UsageError and PassError."""
        whole = asked if isinstance(asked, RewriteOptions) else RewriteOptions(**vars(asked), verify="none")
        if whole.verify not in MODES:
            raise UsageError(f"verify is one of {', '.join(MODES)}, not '{whole.verify}'.")
        _check_half(whole)
        chosen = _target(asked.target)
        _check_tune(whole, chosen)
        offered = registry.passes([asked.passes] if isinstance(asked.passes, str | Path) else asked.passes)
        skip, only = list(_several(asked.skip)), None if asked.only is None else list(_several(asked.only))
        names, globs = _split_skips(skip, offered)
        libraries = tuple(_several(asked.plugins))
        _check_libraries(libraries, chosen)
        fp16 = whole.fp16 or (_quantizes(whole) and chosen.strongly_typed and not (whole.bf16 or whole.half))
        resolved = {"target": chosen, "fp16": fp16, "keep_fp32": tuple(_several(whole.keep_fp32))}
        tables = {name: getattr(whole, name) or {} for name in ("shapes", "inputs", "values", "declared")}
        return cls(
            **vars(whole) | resolved | tables,
            selected=tuple(registry.select(offered, only, names)),
            tuning=tuple(registry.select(offered, [p.name for p in offered if p.tunes], names)),
            strategies=_strategies(asked.strategy or {}, offered, chosen),
            libraries=libraries,
            skipped=globs,
            pass_options=_pass_options(asked, offered),
            batch_axes=_batch_axes(whole),
            notes=_notes([*(only or ()), *skip, *(asked.strategy or ())], offered),
        )

    @property
    def way(self) -> str:
        """Which conversion is asked for: "fp16", "bf16" or "half"; empty for none."""
        return next((way for way in WAYS if getattr(self, way)), "")

    @property
    def quantizes(self) -> bool:
        """Whether a model without quantizers is quantized, so that the tolerance is that of its error."""
        return _quantizes(self)

    @property
    def proves(self) -> bool:
        """Whether rewrites are proved."""
        return self.verify != "none"

    def driver(self, model: Model, excluded: Collection[tuple[str, str]] = ()) -> Driver:
        """What rewrites a model; `excluded` are (pass name, output name) pairs that are left out."""
        return Driver(
            model,
            self.selected,
            self.target,
            strategies=self.strategies,
            plugins=self.libraries,
            skip=self.skipped,
            exclude=excluded,
            options=self.pass_options,
        )

    def without_rules(self, rules: Collection[ModelRule]) -> Options:
        """The same options without some rules over whole models."""
        passes = (replace(p, model_rules=tuple(r for r in p.model_rules if r not in rules)) for p in self.selected)
        return replace(self, selected=tuple(passes))


def _target(given: str | Target | None) -> Target:
    if isinstance(given, Target):
        return given
    if not isinstance(given, str | None):
        raise UsageError(f"a target is text, such as '8.4', not the {type(given).__name__} {given!r}.")
    return Target.default() if given is None else Target.parse(given)


def _batch_axes(asked: RewriteOptions) -> Mapping[str, int | None] | None:
    """The dimensions that are given; None where the batch stays as it is. Raises UsageError."""
    given, axes = asked.dynamic_batch, dict(asked.batch_axis or {})
    if isinstance(given, bool):
        if axes and not given:
            raise UsageError("--batch-axis needs --dynamic-batch.")
        return axes if given else None
    return {**given, **axes}


def _quantizes(asked: RewriteOptions) -> bool:
    return any(getattr(asked, name) for name in (*EIGHTS, *WEIGHTS))


def _check_half(asked: RewriteOptions) -> None:
    ways = [way for way in WAYS if getattr(asked, way)]
    if len(ways) > 1:
        raise UsageError(f"--{ways[0]} and --{ways[1]} do not go together.")
    if asked.repair_qdq and not asked.symmetric_int8:
        raise UsageError("--repair-qdq needs --symmetric-int8: TensorRT quantizes around zero.")
    if asked.calibration_cache is not None and asked.symmetric_int8:
        raise UsageError("--calibration-cache is for a model without quantizers, --symmetric-int8 for one with them.")
    if asked.write_calibration_cache is not None and asked.fp8:
        raise UsageError("--write-calibration-cache needs --int8, not --fp8: a cache has scales of int8.")
    _check_eight(asked)
    for name in ("tolerance", "keep_fp32", "io_fp16", "data", "metric", "allow_inexact", "calibration"):
        given = getattr(asked, name)
        goes_with = EIGHTS if name == "calibration" else (*WAYS, *EIGHTS, *WEIGHTS)
        goes_with = (*goes_with, "repair_qdq") if name == "data" else goes_with
        goes_with = (*goes_with, "calibration_cache") if name in ("data", "tolerance", "allow_inexact") else goes_with
        if any(getattr(asked, other) for other in goes_with) or given in (None, False, (), []):
            continue
        *others, last = (f"--{other.replace('_', '-')}" for other in goes_with)
        raise UsageError(f"{options_of(RewriteOptions)[name].flag} needs {', '.join(others)} or {last}.")
    if asked.tolerance is not None and not 0 < asked.tolerance < math.inf:
        raise UsageError(f"--tolerance takes a number above 0, such as 0.01, not {asked.tolerance:g}.")


def _check_tune(asked: RewriteOptions, target: Target) -> None:
    seconds = asked.tune_seconds
    if asked.tune and not target.rtx:
        raise UsageError("--tune needs --target rtx: the engines of other targets need a GPU.")
    if seconds is not None and not asked.tune:
        raise UsageError("--tune-seconds needs --tune.")
    if seconds is not None and not 0 < seconds < math.inf:
        raise UsageError(f"--tune-seconds takes a number above 0, such as 300, not {seconds:g}.")


def _check_eight(asked: RewriteOptions) -> None:
    """Raises UsageError where a calibration is asked for without data, or together with what excludes it."""
    if not _quantizes(asked):
        return
    asks = [f"--{n.replace('_', '-')}" for n in (*EIGHTS, *WEIGHTS, "symmetric_int8") if getattr(asked, n)]
    asks += ["--calibration-cache"] if asked.calibration_cache is not None else []
    if len(asks) > 1:
        raise UsageError(f"{asks[0]} and {asks[1]} do not go together.")
    if asked.data is None and not (asked.int4 or asked.fp8_weights):
        raise UsageError(
            f"{asks[0]} needs --data: the range of each tensor is measured on realistic inputs, best a few hundred. "
            "Without data, --calibration-cache uses the ranges of a cache that TensorRT up to 10 wrote."
        )
    if asked.calibration is not None and asked.calibration not in METHODS:
        raise UsageError(f"--calibration is one of {', '.join(METHODS)}, not '{asked.calibration}'.")


def _several(given: Iterable[str]) -> Iterable[str]:
    """The names; one name may stand for itself."""
    return (given,) if isinstance(given, str) else given


def _split_skips(skip: Iterable[str], offered: Sequence[Pass]) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """The passes to skip whole, and the (pass, node glob) pairs. Raises UsageError."""
    names, globs = [], []
    for item in skip:
        name, colon, glob = item.partition(":")
        if not colon:
            names.append(name)
            continue
        globs.append((registry.find(offered, name).name, glob))
    return names, tuple(globs)


def _strategies(given: Mapping[str, str], offered: Sequence[Pass], target: Target) -> dict[str, str]:
    """The strategies by pass. Raises UsageError."""
    found = {}
    for name, strategy in given.items():
        p = registry.find(offered, name)
        found[p.name] = strategy
        has = p.strategies
        if strategy not in has:
            what = f"It has {', '.join(has)}." if has else "It has none: it does not lower."
            raise UsageError(f"the pass '{name}' has no strategy '{strategy}'. {what}")
        if strategy == "plugin" and not target.plugins:
            raise UsageError(
                f"the target {target} has no plugins, so '{name}' cannot become one. Use decompose or keep."
            )
    return found


def _notes(names: Iterable[str], offered: Sequence[Pass]) -> tuple[str, ...]:
    """A sentence for each former name of a pass; a name may have a node glob."""
    now = {name: registry.find(offered, name) for name in (given.partition(":")[0] for given in names)}
    found = []
    for name, p in now.items():
        if p.name != name:
            is_renamed = len(p.formerly[name]) == len(p.rules) + len(p.model_rules)
            found.append(f"the pass '{name}' is {'called' if is_renamed else 'a part of'} '{p.name}' now")
    return tuple(found)


def _check_libraries(libraries: Sequence[str], target: Target) -> None:
    for name in libraries:
        if name not in LIBRARIES:
            raise UsageError(f"no plugin library is called '{name}'.{did_you_mean(name, LIBRARIES)}")
    if libraries and not target.plugins:
        raise UsageError(
            f"the target {target} has no plugins. Leave --allow-plugins out: every pass has a native form there."
        )


def _pass_options(asked: CheckOptions, offered: Sequence[Pass]) -> dict[str, float]:
    """What single passes read, by name. Raises UsageError."""
    found, epsilon = dict(asked.options or {}), asked.repair_eps
    if epsilon is not None:
        if not 0 < epsilon < math.inf:
            raise UsageError(f"--repair-eps takes a number above 0, such as 1e-12, not {epsilon:g}.")
        found["repair_eps"] = epsilon
    names = {name for p in offered for name in p.options}
    for name in found:
        if name not in names:
            raise UsageError(f"no pass has an option '{name}'.{did_you_mean(name, names)}")
    return found
