"""One run from a model to a proved model: read, rewrite, prove, report, write."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
from onnx import ModelProto

from surgeon.errors import ModelError, PassError, SurgeonError, UsageError, did_you_mean
from surgeon.ir.files import SMALL, UNWRITABLE, as_text, check_writable, read_all, without_data, write
from surgeon.ir.memory import no_collection
from surgeon.ir.model import Model
from surgeon.pipeline.interop import GraphRule, Outcome, run_graph_rules
from surgeon.report import Applied, Declined, Report
from surgeon.rules import registry
from surgeon.rules.driver import Driver, operators
from surgeon.rules.meaning import attach
from surgeon.rules.rule import ModelRule, Pass, Stage
from surgeon.rules.window import Rewrite
from surgeon.targets.target import Target

if TYPE_CHECKING:
    from surgeon.proof.judge import Verdict

MODES = ("window", "full", "none")
LIBRARIES = ("surgeon", "stock")
REFUSALS = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError)
# Of a model whose plugin nodes of one operator have different attributes.
OVERLOADED = (
    "nodes with other attributes have other functions (overloads): ONNX Runtime up to 1.23 runs the first one for all "
    "of them, so compare with a newer one"
)
TRAINED = (
    "the tensors that its training_info names are kept, but what is rewritten computes with the weights of now: train "
    "the original, and rewrite it again"
)
MAX_RUNS = 20  # each run but the last leaves at least one unproved rewrite out
Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Result:
    """`model`: the rewritten ModelProto (external data still on disk beside the input). `report`: what was done.
    `files`: those that were read, which `save` never overwrites."""

    model: ModelProto
    report: Report
    base: Path | None = None
    files: Sequence[Path] = ()

    def gs(self) -> Any:
        """The rewritten model as an onnx-graphsurgeon graph."""
        from surgeon.pipeline.interop import to_graphsurgeon

        return to_graphsurgeon(self.model, self.base)

    def save(self, path: str | Path, also: Mapping[Path, bytes] | None = None) -> None:
        """Write the model; see `files.write`. Raises ModelError."""
        for place in (Path(path), *(also or ())):
            check_writable(place, *self.files)
        write(self.model, Path(path), self.base, also)


def rewrite(
    model: ModelProto | str | os.PathLike[str] | Any,
    *,
    target: str | Target | None = None,
    plugins: Sequence[str] = (),
    strategy: Mapping[str, str] | None = None,
    only: Iterable[str] | None = None,
    skip: Iterable[str] = (),
    verify: str = "window",
    shapes: Mapping[str, Sequence[int]] | None = None,
    passes: str | Path | Iterable[str | Path] = (),
    allow_unproved: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Rewrite a model for a target and prove every rewrite.

    model           a ModelProto (not changed), a path, or an onnx-graphsurgeon graph
    target          "8.4", "10.9", "rtx", "8.6+dla", "installed"; None is "installed", or 10.9 where no TensorRT imports
    plugins         plugin libraries that nodes may come from, in order of preference: "surgeon", "stock"
    strategy        {"l2-norm": "plugin"}: over the target's own choice
    only, skip      pass names; skip also takes "pass:node-glob"
    verify          "window" proves each rewrite, "full" whole models too, "none" nothing
    shapes          {"input": (1, 3, 224, 224)}: sizes for the proof, where dimensions are symbolic
    passes          folders of further passes
    allow_unproved  keep rewrites whose window cannot be run; whole models that cannot be compared are no failure
    options         what single passes read, such as {"repair_eps": 1e-6}; a pass names its own in OPTIONS

    One name or folder may stand for itself where several are taken. Raises UsageError and ModelError; a rewrite that
    fails its proof is no error but is undone and in `report.undone`.
    """
    started = time.perf_counter()
    if verify not in MODES:
        raise UsageError(f"verify is one of {', '.join(MODES)}, not '{verify}'.")
    if not isinstance(target, str | Target | None):
        raise UsageError(f"a target is text, such as '8.4', not the {type(target).__name__} {target!r}.")
    source = _Source(model)
    chosen = target if isinstance(target, Target) else Target.parse("installed" if target is None else target)
    known = registry.passes(_several(passes))
    names, globs = _split_skips(_several(skip), known)
    selected = registry.select(known, None if only is None else _several(only), names)
    strategies = _check_strategies(strategy or {}, known, chosen)
    libraries = _check_libraries(_several(plugins), chosen)
    _check_options(options or {}, known)
    run = _Run(
        source,
        chosen,
        selected,
        strategies,
        libraries,
        globs,
        verify,
        shapes or {},
        allow_unproved,
        dict(options or {}),
        progress,
    )
    with no_collection():
        result = run.result()
    result.report.seconds = time.perf_counter() - started
    return result


def rewrite_file(source: str | Path, out: str | Path, **options: Any) -> Report:
    """`rewrite` a file into another file; returns the report."""
    check_writable(Path(out), Path(source))
    result = rewrite(source, **options)
    result.save(out)
    return result.report


# ---- arguments -------------------------------------------------------------------------------------------------------


def _several(given: Any) -> Any:
    return (given,) if isinstance(given, str | os.PathLike) else given


def _split_skips(skip: Iterable[str], known: Sequence[Pass]) -> tuple[list[str], list[tuple[str, str]]]:
    names, globs = [], []
    for item in skip:
        name, colon, glob = item.partition(":")
        if not colon:
            names.append(name)
            continue
        registry.select(known, [name], ())
        globs.append((name, glob))
    return names, globs


def _check_strategies(strategies: Mapping[str, str], known: Sequence[Pass], target: Target) -> dict[str, str]:
    by_name = {p.name: p for p in known}
    for name, strategy in strategies.items():
        if name not in by_name:
            raise UsageError(f"no pass is called '{name}'.{did_you_mean(name, by_name)}")
        offered = by_name[name].strategies
        if strategy not in offered:
            what = f"It has {', '.join(offered)}." if offered else "It has none: it does not lower."
            raise UsageError(f"the pass '{name}' has no strategy '{strategy}'. {what}")
        if strategy == "plugin" and not target.plugins:
            raise UsageError(
                f"the target {target} has no plugins, so '{name}' cannot become one. Use decompose or keep."
            )
    return dict(strategies)


def _check_libraries(plugins: Sequence[str], target: Target) -> tuple[str, ...]:
    for name in plugins:
        if name not in LIBRARIES:
            raise UsageError(f"no plugin library is called '{name}'.{did_you_mean(name, LIBRARIES)}")
    if plugins and not target.plugins:
        raise UsageError(
            f"the target {target} has no plugins. Leave --plugins out: every pass has a native form there."
        )
    return tuple(plugins)


def _check_options(options: Mapping[str, Any], known: Sequence[Pass]) -> None:
    offered = {name for p in known for name in p.options}
    for name in options:
        if name not in offered:
            raise UsageError(f"no pass has an option '{name}'.{did_you_mean(name, offered)}")


# ---- one run ---------------------------------------------------------------------------------------------------------


class _Source:
    """Where the model comes from; gives a fresh copy to each run."""

    def __init__(self, given: Any, base: Path | None = None) -> None:
        self.path: Path | None = None
        self.base = base
        self.files: Sequence[Path] = ()  # that were read
        self._proto: ModelProto | None = None
        if isinstance(given, ModelProto):
            self._proto = given
        elif isinstance(given, str | os.PathLike):
            self.path = Path(given)
            self.base = self.path.parent
        elif type(given).__module__.startswith("onnx_graphsurgeon"):
            from surgeon.pipeline.interop import from_graphsurgeon

            self._proto = from_graphsurgeon(given)
        else:
            raise UsageError(f"surgeon rewrites a path, an onnx.ModelProto or a gs.Graph, not {type(given).__name__}.")

    def proto(self) -> ModelProto:
        if self._proto is None:
            assert self.path is not None
            model, self.files = read_all(self.path)
            return model
        copy = ModelProto()
        copy.CopyFrom(self._proto)
        return copy


@dataclass(slots=True)
class _Run:
    source: _Source
    target: Target
    passes: list[Pass]
    strategies: dict[str, str]
    libraries: tuple[str, ...]
    skip: list[tuple[str, str]]
    verify: str
    shapes: Mapping[str, Sequence[int]]
    allow_unproved: bool
    options: dict[str, Any]
    progress: Progress | None
    verdicts: dict[bytes, Any] = field(default_factory=dict)  # of windows that an earlier run has proved

    def result(self) -> Result:
        """The result of `go`; what fails for a model that ONNX forbids is that model's fault. Raises ModelError."""
        try:
            return self.go()
        except SurgeonError:
            raise
        except Exception as error:
            refusal = _refusal(self.source, full_check=True)
            if not refusal:
                raise
            raise ModelError(f"{refusal}. Mend the model, or export it again.") from error

    def go(self) -> Result:
        """Run the passes, with functions over a `gs.Graph` in front of or behind the others."""
        functions = [r for p in self.passes for r in p.model_rules if isinstance(r, GraphRule)]
        if not functions:
            return self._rewrite()
        self._check_skips(functions)
        self.passes = [
            replace(p, model_rules=tuple(r for r in p.model_rules if r not in functions)) for p in self.passes
        ]
        given = self.source
        early = self._run_functions([r for r in functions if r.stage is not Stage.LOWER], given.proto())
        self.source = _Source(early.model, given.base)
        result = self._rewrite()
        late = self._run_functions([r for r in functions if r.stage is Stage.LOWER], result.model)
        self.source, result.model, result.files = given, late.model, given.files
        self._merge(result, early, late)
        return result

    def _check_skips(self, functions: Collection[ModelRule]) -> None:
        for name, glob in self.skip:
            if any(r.pass_name == name for r in functions):
                raise UsageError(
                    f"the pass '{name}' edits the whole graph, so it cannot be skipped at '{glob}' alone. Use --skip "
                    f"{name}."
                )

    def _run_functions(self, functions: Collection[ModelRule], model: ModelProto) -> Outcome:
        return run_graph_rules(
            functions,
            model,
            self.source.base,
            prove=self.verify != "none",
            shapes=self.shapes,
            allow_unproved=self.allow_unproved,
        )

    def _merge(self, result: Result, early: Outcome, late: Outcome) -> None:
        """Add to the report what the functions over the graph did."""
        report = result.report
        report.applied = [*early.applied, *report.applied, *late.applied]
        report.declined = [*early.declined, *report.declined, *late.declined]
        report.undone = [*early.undone, *report.undone, *late.undone]
        if not (early.applied or late.applied):
            return
        model = Model(result.model, self.source.base)
        report.ops_before = operators(Model(self.source.proto(), self.source.base))
        report.ops_after = operators(model)
        report.untaken = untaken(model, self.target)
        if self.verify == "full":
            self._compare_whole(result.model, report)

    def _rewrite(self) -> Result:
        """Rewrite and prove; where a proof fails, rewrite once more from the input without what failed."""
        exclude: set[tuple[str, str]] = set()
        undone: dict[Declined, None] = {}
        unproved: dict[Declined, None] = {}
        for _ in range(MAX_RUNS):
            driver = self._drive(exclude)
            failed = self._prove(driver, undone, unproved) if self.verify != "none" else []
            if failed:
                for record in failed:
                    exclude.update(record.keys)
                continue
            proto, overloaded = self._written(driver)
            why = self._refused(driver, proto)
            if not why:
                return self._finish(driver, proto, overloaded, list(undone), list(unproved))
            why = f"ONNX Runtime loads the original, not the rewritten model: {why}"
            undone[self._leave_out(driver, exclude, why)] = None
        raise PassError(f"after {MAX_RUNS} runs there are still rewrites that fail their proof")

    def _refused(self, driver: Driver, proto: ModelProto) -> str:
        """Why ONNX Runtime does not load the rewritten model, where it loads the original; else empty."""
        from surgeon.proof.loading import refused

        if self.verify == "none" or not (driver.rewrites or driver.model.opset != driver.opset_before):
            return ""
        return refused(self.source.proto, proto, self.source.base)

    def _leave_out(self, driver: Driver, exclude: set[tuple[str, str]], why: str) -> Declined:
        """Leave out, from the next run on, the rewrite without which ONNX Runtime loads the model. Where it is none of
        them, no rule over the whole model runs any more."""
        records = _in_file_order(driver.rewrites)

        def fails(kept: int) -> bool:
            left_out = {key for record in records[kept:] for key in record.keys}
            again = self._drive({*exclude, *left_out})
            return bool(self._refused(again, self._written(again)[0]))

        if fails(0):  # the opset came down, and no node had to change for it
            self.passes = [replace(p, model_rules=()) for p in self.passes]
            return Declined("opset", driver.model.graph.proto.name, why)
        loads, refused = 0, len(records)
        while refused - loads > 1:
            middle = (loads + refused) // 2
            loads, refused = (loads, middle) if fails(middle) else (middle, refused)
        found = records[refused - 1]
        exclude.update(found.keys)
        return Declined(found.name, found.root.label, why)

    def _drive(self, exclude: Collection[tuple[str, str]]) -> Driver:
        model = Model(self.source.proto(), self.source.base)
        driver = Driver(
            model,
            self.passes,
            self.target,
            strategies=self.strategies,
            plugins=self.libraries,
            skip=self.skip,
            exclude=exclude,
            options=self.options,
        )
        if self.verify != "none":
            model.remember_types()
        driver.run()
        return driver

    def _prove(self, driver: Driver, undone: dict[Declined, None], unproved: dict[Declined, None]) -> list[Rewrite]:
        from surgeon.proof.prove import Prover
        from surgeon.proof.whole import fixed_symbols

        failed = []
        originals = {o: n for r in driver.rewrites for n in r.removed for o in n.outputs if o is not None}
        prover = Prover(
            driver.model,
            present=driver.present,
            fixed=fixed_symbols(driver.model.proto, self.shapes),
            verdicts=self.verdicts,
            originals=originals,
        )
        refusal = _refusal(self.source) if driver.rewrites else ""
        verdicts = {}
        for done, record in enumerate(driver.rewrites):
            if self.progress is not None:
                self.progress("proving", done, len(driver.rewrites))
            verdicts[record] = prover.prove(record)
        if prover.unsized:
            verdicts.update(prover.prove_by_a_run(self.source.proto(), folder=self.source.base, shapes=self.shapes))
        for record, verdict in verdicts.items():
            record.max_error = verdict.max_error
            if refusal and verdict.ok:
                verdict = type(verdict)(None, None, refusal)
            if verdict.ok:
                continue
            if verdict.ok is None and self.allow_unproved:
                record.max_error = None
                continue
            failed.append(record)
            why = verdict.why if verdict.ok is False else f"unproved: {_with_hint(verdict)}"
            entry = Declined(record.name, record.root.label, why)
            (undone if verdict.ok is False else unproved)[entry] = None
        return failed

    def _written(self, driver: Driver) -> tuple[ModelProto, list[str]]:
        """The model as it stands now, and the operators of plugin nodes with several functions."""
        model, overloaded = driver.model, []
        model.drop_unused_functions()
        if self.target.carries_functions:
            overloaded = attach(model)
        elif any(k.startswith("surgeon::") and v for s in model.scopes for k, v in s.by_op.items()):
            model.import_domain("surgeon")
        return model.sync(), overloaded

    def _finish(
        self,
        driver: Driver,
        proto: ModelProto,
        overloaded: list[str],
        undone: list[Declined],
        unproved: list[Declined],
    ) -> Result:
        from surgeon import __version__

        model = driver.model
        report = Report(__version__, str(self.target))
        report.applied = [
            Applied(r.name, r.strategy, r.root.label, r, r.max_error) for r in _in_file_order(driver.rewrites)
        ]
        report.declined = list(dict.fromkeys([*unproved, *driver.declined]))
        report.undone = undone
        report.warnings = list(dict.fromkeys([*driver.warnings, *(w for r in driver.rewrites for w in r.warnings)]))
        if overloaded:
            report.warnings.append(f"{', '.join(overloaded)}: {OVERLOADED}")
        if proto.training_info and report.applied:
            report.warnings.append(TRAINED)
        report.ops_before = driver.before
        report.ops_after = operators(model)
        report.untaken = untaken(model, self.target)
        report.verify = {
            "mode": self.verify,
            "skipped": [r.root.label for r in driver.rewrites if self.verify != "none" and r.max_error is None],
        }
        report.opset_before, report.opset_after = driver.opset_before, model.opset
        if self.verify == "full":
            self._compare_whole(proto, report)
        return Result(proto, report, self.source.base, self.source.files)

    def _compare_whole(self, proto: ModelProto, report: Report) -> None:
        from surgeon.proof.whole import prove_models

        verdict = prove_models(self.source.proto(), proto, base=self.source.base, shapes=self.shapes, own_rounding=True)
        report.verify["max_error"] = verdict.max_error
        if verdict.ok and verdict.why:
            report.warnings.append(f"whole models: {verdict.why}")
        if verdict.ok is None:
            report.verify["compared"] = False
        if verdict.ok is None and self.allow_unproved:
            why = f"the whole models were not compared: {_with_hint(verdict)}"
            report.warnings = list(dict.fromkeys([*report.warnings, why]))
        elif not verdict.ok:
            report.verify["failed"] = _with_hint(verdict)


def untaken(model: Model, target: Target) -> list[Declined]:
    """The nodes of the main graph and its bodies that the target does not take, with the reason."""
    found = []
    newer = any(model.opset_in(s) > target.opset for s in model.scopes)
    others = target.has_other_types(model)
    for scope in model.scopes:
        asked = [key for key in scope.by_op if newer or others or not target.takes_every(key)]
        for node in scope.of(asked):
            why = target.takes(node) or target.outdated(node) or (target.mistyped(node) if others else None)
            if why is not None:
                found.append(Declined("", node.label, why))
    return found


def _refusal(source: _Source, *, full_check: bool = False) -> str:
    """Why onnx.checker refuses the input model; empty where it does not."""
    most = sys.maxsize
    try:
        onnx.checker.check_model(source.proto() if source.path is None else as_text(source.path), full_check=full_check)
        return ""
    except (*REFUSALS, ModelError):
        pass
    except UNWRITABLE:
        most = SMALL
    # again without external weights: the checker follows no links, finds none of a model in memory, and opens no file
    # whose name is not UTF-8; and without large ones where the model has more than it takes
    try:
        onnx.checker.check_model(without_data(source.proto(), most), full_check=full_check)
    except REFUSALS as error:
        return f"the ONNX checker refuses the input model: {str(error).strip().splitlines()[0]}"
    return ""


def _with_hint(verdict: Verdict) -> str:
    return f"{verdict.why}; with --shapes the sizes may go together" if verdict.unsized else verdict.why


def _in_file_order(records: Iterable[Rewrite]) -> list[Rewrite]:
    return sorted(records, key=_first_place)


def _first_place(record: Rewrite) -> int:
    places = [node.place for node in record.removed]
    return min(places) if places else record.root.place
