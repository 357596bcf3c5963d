"""`--tune`: rewrites that are tried, and kept where the target then moves fewer bytes.

The passes marked `TUNES` are tried on the finished model, after the conversion to half precision. Windows with the same
operators and shapes are one candidate, so equal blocks are tried once. All windows of a pass are tried together first.
Where they stay, the model without each candidate is tried. Each is proved as every rewrite is. A candidate stays if the
engine moves fewer bytes with it, or as many with fewer kernels, and the error of each output is within the tolerance.
The passes are then tried on what was kept, at windows that were not there before, until nothing is better.
The order of the candidates is fixed, so two runs that end in time give the same model.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from onnx import ModelProto

from surgeon.ir.graph import Value
from surgeon.ir.lattice import Shape, static_sizes
from surgeon.ir.model import Model
from surgeon.pipeline.options import Options
from surgeon.pipeline.run import Run, judged
from surgeon.pipeline.session import Result
from surgeon.pipeline.source import Source
from surgeon.precision.result import PrecisionResult
from surgeon.proof.cache import ProofCache, place_of_proofs
from surgeon.report import LEFT, Report, counted
from surgeon.rules.driver import operators
from surgeon.rules.window import Rewrite

SECONDS = 300.0
GAIN = 0.001  # of the bytes: a smaller gain is left


class Moved(NamedTuple):
    """What an engine moves. Smaller is better."""

    bytes: int
    kernels: int


class Kind(NamedTuple):
    """A pass, and the operators and shapes of a window."""

    name: str
    nodes: tuple[tuple[str, tuple[Shape | None, ...], tuple[Shape | None, ...]], ...]


Measure = Callable[[ModelProto], Moved | None]  # None where no engine is built
Keys = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate: how many windows, what the engine moved without it and with it, and whether it stays.

    why  why it does not stay; empty where it does
    """

    name: str
    windows: int
    before: Moved
    after: Moved | None
    why: str

    def __str__(self) -> str:
        moved = "no engine is built"
        if self.after is not None:
            kernels = f"{self.before.kernels} -> {self.after.kernels} kernels"
            moved = f"{_mb(self.before)} -> {_mb(self.after)} MB, {kernels}"
        return f"{self.name}, {counted(self.windows, 'window')}: {moved}: {self.why or 'kept'}"


class Tuner:
    """Tries candidates on one model.

    measure  what the engine of a model moves
    errs     why the error of a model is above the tolerance; empty where it is not
    """

    def __init__(self, result: Result, options: Options, measure: Measure, errs: Callable[[ModelProto], str]) -> None:
        self._options = replace(options, selected=options.tuning, strategies={}, progress=None)
        self._others: Keys = frozenset()  # the rewrites that were found
        self._progress = options.progress or (lambda phase, done, total: None)
        self._source = Source(result.model, result.base)
        self._known = ProofCache(place_of_proofs() if options.cache and options.proves else None)
        self._measure, self._errs = measure, errs
        self._found: set[Kind] = set()  # what is a candidate or was one
        self.tried: list[Tried] = []
        self.stopped = ""

    def best(self, seconds: float) -> tuple[ModelProto, list[Report]] | None:
        """The model that moves the fewest bytes of those that were tried, and what was done; None where none was."""
        until = time.monotonic() + seconds
        now = self._measure(self._source.proto())
        if now is None:
            self.stopped = "TensorRT-RTX does not build the model, so nothing was tried"
            return None
        reports: list[Report] = []
        while (found := self._round(now, until, seconds)) is not None:
            now, model, made = found
            reports.append(made)
            self._source = Source(model, self._source.base)
        return (self._source.proto(), reports) if reports else None

    def _round(self, now: Moved, until: float, seconds: float) -> tuple[Moved, ModelProto, Report] | None:
        """Try the candidates in the model as it is; None where none stays."""
        candidates = self._candidates()
        chosen: Keys = frozenset()
        best: tuple[Moved, ModelProto, Report] | None = None
        for turn, (name, keys) in enumerate(candidates):
            self._progress("trying rewrites", turn, len(candidates))
            if time.monotonic() > until:
                left = counted(len(candidates) - turn, "candidate")
                self.stopped = f"the time of {seconds:g} s was over before {left} of {len(candidates)} were tried"
                break
            wanted = chosen - keys if keys <= chosen else chosen | keys
            model, made = self._rewritten(wanted)
            after = self._measure(model)
            why = self._why_not(now, after, model)
            said = f"without {name}" if keys <= chosen else name
            self.tried.append(Tried(said, len(keys), now, after, why))
            if not why and after is not None:
                now, chosen, best = after, wanted, (after, model, made)
        return best

    def _candidates(self) -> list[tuple[str, Keys]]:
        """All new rewrites of each pass that has several kinds, then each kind, those of the most elements first."""
        whole: list[tuple[int, str, Keys]] = []
        found: dict[Kind, Keys] = {}
        self._others = frozenset()
        for p in self._options.tuning:
            run = Run(self._source, replace(self._options, selected=(p,)), self._known)
            every = _groups(_rewrites(run.result()[1]))
            self._others |= {key for keys in every.values() for key in keys}
            kinds = {kind: keys for kind, keys in every.items() if kind not in self._found}
            if len(kinds) > 1:
                elements = sum(_elements(kind) * len(keys) for kind, keys in kinds.items())
                whole.append((-elements, p.name, frozenset().union(*kinds.values())))
            found.update(kinds)
        self._found.update(found)
        ordered = sorted(found.items(), key=lambda item: (-_elements(item[0]) * len(item[1]), str(item[0])))
        together = [(name, keys) for _, name, keys in sorted(whole, key=lambda item: item[:2])]
        return [*together, *((kind.name, keys) for kind, keys in ordered)]

    def _rewritten(self, wanted: Keys) -> tuple[ModelProto, Report]:
        """The model with some of the rewrites and no others: one may make nodes at which another pass applies."""
        while True:
            run = Run(self._source, self._options, self._known)
            run.excluded.update(self._others - wanted)
            model, report = run.result()
            more = {key for record in _rewrites(report) for key in record.keys} - wanted
            if not more:
                return model, report
            self._others |= more

    def _why_not(self, now: Moved, after: Moved | None, model: ModelProto) -> str:
        if after is None:
            return LEFT
        saved = now.bytes - after.bytes
        if saved < GAIN * now.bytes and not (saved >= 0 and after.kernels < now.kernels):
            return LEFT
        return self._errs(model)


def tuned(result: Result, options: Options, measure: Measure) -> Result:
    """The result with what `--tune` found, and notes on what was tried in its report."""
    half = result.precision if isinstance(result.precision, PrecisionResult) else None

    def errs(model: ModelProto) -> str:
        if half is None or half.judge is None:
            return ""
        errors = half.judge(model)
        if all(e.ok for e in errors):
            half.errors = errors
            return ""
        return f"not kept, the error of '{errors[0].output}' is {errors[0].relative:.2g}"

    tuner = Tuner(result, options, measure, errs)
    found = tuner.best(options.tune_seconds or SECONDS)
    report = result.report
    said = [tuner.stopped] if tuner.stopped else [] if tuner.tried else ["nothing in this model"]
    report.tuned = [*map(str, tuner.tried), *said]
    if found is None:
        return result
    model, reports = found
    for made in reports:
        made.undone = []  # what was tried and not kept
        report.follow(made)
    written = Model(model)
    report.ops_after = operators(written)
    report.untaken, report.unknown = judged(written, options.target)
    if half is not None:
        half.model = model
    return replace(result, model=model)


def _rewrites(report: Report) -> list[Rewrite]:
    return [a.change for a in report.applied if isinstance(a.change, Rewrite)]


def _groups(records: Iterable[Rewrite]) -> Mapping[Kind, Keys]:
    """The rewrites by kind."""
    found: dict[Kind, set[tuple[str, str]]] = {}
    for record in records:
        found.setdefault(_kind(record), set()).update(record.keys)
    return {kind: frozenset(keys) for kind, keys in found.items()}


def _kind(record: Rewrite) -> Kind:
    """What is alike in windows that are tried together."""
    model = record.root.graph.model

    def shapes(values: Sequence[Value | None]) -> tuple[Shape | None, ...]:
        return tuple(None if v is None else model.shape(v) for v in values)

    return Kind(record.name, tuple((n.key, shapes(n.inputs), shapes(n.outputs)) for n in record.nodes_before))


def _elements(kind: Kind) -> int:
    """How many elements the nodes of a window make, as far as that is known."""
    made = [static_sizes(shape) for _, _, outputs in kind.nodes for shape in outputs]
    return sum(math.prod(sizes) for sizes in made if sizes is not None)


def _mb(moved: Moved) -> str:
    return f"{moved.bytes / 1e6:.1f}"
