"""The loop of a run: rewrite, prove, undo what failed, rewrite again, until all that is left holds and loads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onnx import ModelProto, TensorProto

from surgeon.errors import PassError
from surgeon.ir.graph import Node, Value
from surgeon.ir.model import Model
from surgeon.ir.operators import BENDS_AT_ZERO, BROADCASTS, CONTINUOUS, ELEMENTWISE, ROUNDS
from surgeon.pipeline.declaring import warnings_of_unknown
from surgeon.pipeline.options import Options
from surgeon.pipeline.source import Source
from surgeon.report import Applied, Declined, Report, Verified, counted
from surgeon.rules.driver import Driver, operators
from surgeon.rules.meaning import attach, with_functions
from surgeon.rules.window import Rewrite
from surgeon.targets.evidence import unknown
from surgeon.targets.interface import refused, too_large
from surgeon.targets.known_bugs import bugs_of
from surgeon.targets.target import Target
from surgeon.version import __version__

if TYPE_CHECKING:
    from surgeon.ir.default_load import Load
    from surgeon.proof.cache import ProofCache
    from surgeon.proof.judge import Verdict

# Of a model whose plugin nodes of one operator have different attributes.
OVERLOADED = (
    "nodes with other attributes have other functions (overloads): ONNX Runtime up to 1.23 runs the first one for all "
    "of them, so compare with a newer one"
)
TRAINED = (
    "the tensors that its training_info names are kept, but what is rewritten computes with the weights of now: train "
    "the original, and rewrite it again"
)
FLOAT64 = (
    "it has float64, which TensorRT reads as fp32: --allow-narrowing writes it so, and says by how much the outputs "
    "differ then"
)
# Functions that may be as narrow as their factors say: a bell of Exp, a comb of Sin.
NARROW = (ELEMENTWISE & CONTINUOUS & ROUNDS) - BENDS_AT_ZERO - BROADCASTS - {"HardSigmoid", "HardSwish"} | {"Pow"}
MAX_RUNS = 20  # each run but the last leaves at least one unproved rewrite out
MOST_NAMED = 3  # tensors at a cut


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rewritten model, not yet accepted.

    overloaded  the operators of plugin nodes that have several functions
    """

    driver: Driver
    proto: ModelProto
    overloaded: Sequence[str]


class Run:
    """Rewrites one source until every rewrite that is left holds its proof and ONNX Runtime loads the model.

    known     the verdicts on windows of earlier attempts, and with `cache` of earlier runs
    excluded  (pass name, output name) of the rewrites that failed, which the next attempt leaves out
    undone    those whose window computes something else
    unproved  those whose window cannot be run
    """

    def __init__(self, source: Source, options: Options, known: ProofCache) -> None:
        self.source = source
        self.options = options
        self.known = known
        self.excluded: set[tuple[str, str]] = set()
        self.undone: dict[Declined, None] = {}
        self.unproved: dict[Declined, None] = {}
        self._refused: dict[Declined, None] = {}  # by the attempts so far
        self._untaken_before: int | None = None

    def result(self) -> tuple[ModelProto, Report]:
        """The rewritten model and what was done. Raises ModelError, and PassError where no attempt is ever accepted."""
        with self.source.blamed():
            for _ in range(MAX_RUNS):
                driver = self._rewrite(self.excluded)
                attempt, load = self._loaded_early(driver)
                failed = self._failing(driver)
                if failed:
                    if load is not None:
                        load.drop()
                    self._refused.update(driver.declined)
                    self.excluded.update(key for record in failed for key in record.keys)
                    continue
                attempt = attempt or self._written(driver)
                why = self._load_error(attempt, load)
                if not why:
                    return attempt.proto, self._report(attempt)
                self._exclude_unloadable(driver, f"ONNX Runtime loads the original, not the rewritten model: {why}")
        raise PassError(f"after {MAX_RUNS} runs there are still rewrites that fail their proof")

    # ---- rewriting ----

    def _rewrite(self, excluded: Collection[tuple[str, str]]) -> Driver:
        """All rewrites but the excluded ones, on a fresh copy of the model."""
        options, model = self.options, self.source.model()
        if self._untaken_before is None:
            self._untaken_before = sum(map(len, judged(model, options.target)))
        driver = options.driver(model, excluded)
        if options.proves:
            model.remember_types()
        driver.run()
        return driver

    def _written(self, driver: Driver) -> Attempt:
        """The model of a driver as it is now."""
        model, overloaded = driver.model, []
        model.drop_unused_functions()
        if self.options.target.carries_functions:
            overloaded = attach(model)
        elif any(k.startswith("surgeon::") and v for s in model.scopes for k, v in s.by_op.items()):
            model.import_domain("surgeon")
        return Attempt(driver, model.sync(), overloaded)

    # ---- proving ----

    def _failing(self, driver: Driver) -> list[Rewrite]:
        """The rewrites that do not hold their proof; each is noted as undone or unproved."""
        if not self.options.proves:
            return []
        invalid = self.source.invalid() if driver.rewrites else ""
        failing = []
        for record, verdict in self._proved(driver).items():
            record.max_error = verdict.max_error
            if invalid and verdict.ok:
                verdict = type(verdict).unproved(invalid)
            if verdict.ok:
                said = _of_narrow_functions(record, driver)
                driver.warnings += [said] if said and said not in driver.warnings else []
                continue
            if verdict.ok is None and self.options.allow_unproved:
                record.max_error = None
                continue
            failing.append(record)
            if verdict.ok is None:
                self.unproved[_declined(record, f"unproved: {_with_hint(verdict)}")] = None
            else:
                self.undone[_declined(record, verdict.why)] = None
        return failing

    def _proved(self, driver: Driver) -> dict[Rewrite, Verdict]:
        """The verdict on each rewrite's window."""
        from surgeon.proof.prove import Prover
        from surgeon.proof.whole import fixed_symbols

        options, known = self.options, self.known  # without elements everything is equal: a size of 0 proves no window
        originals = {o: n for r in driver.rewrites for n in r.removed for o in n.outputs if o is not None}
        prover = Prover(
            driver.model,
            present=driver.present,
            fixed={name: size for name, size in fixed_symbols(driver.model.proto, options.shapes).items() if size},
            verdicts=known,
            originals=originals,
            foreign=frozenset(name for name, p in driver.context.passes.items() if not p.own),
        )
        verdicts = {}
        for done, record in enumerate(driver.rewrites):
            if options.progress is not None:
                options.progress("proving", done, len(driver.rewrites))
            verdicts[record] = prover.prove(record)
        if prover.unsized:
            verdicts.update(prover.prove_by_a_run(self.source.proto(), folder=self.source.base, shapes=options.shapes))
        known.save()
        return verdicts

    # ---- the last load ----

    def _loaded_early(self, driver: Driver) -> tuple[Attempt | None, Load | None]:
        """The model of a driver, written, and its load, which goes on while the rewrites are proved.

        Nothing where bodies and functions have to stay as they are for the proof: writing moves their protobufs.
        """
        from surgeon.ir.default_load import Load

        model = driver.model
        if not self._is_to_be_loaded(driver) or model.graph.bodied or model.functions:
            return None, None
        attempt = self._written(driver)
        return attempt, Load(with_functions(attempt.proto), self.source.base)

    def _is_to_be_loaded(self, driver: Driver) -> bool:
        return self.options.proves and bool(driver.rewrites or driver.model.opset != driver.opset_before)

    def _load_error(self, attempt: Attempt, begun: Load | None = None) -> str:
        """Why ONNX Runtime does not load the rewritten model, where it loads the original; else empty."""
        from surgeon.proof.loading import refused

        if not self._is_to_be_loaded(attempt.driver):
            return ""
        return refused(self.source.proto, attempt.proto, self.source.base, begun)

    def _exclude_unloadable(self, driver: Driver, why: str) -> None:
        """Exclude the rewrite without which ONNX Runtime loads the model, which a binary search finds.

        Where it is none of them, no rule over the whole model runs any more.
        """
        records = _in_file_order(driver.rewrites)

        def fails(kept: int) -> bool:
            """Whether the model with the first `kept` rewrites alone does not load."""
            others = {key for record in records[kept:] for key in record.keys}
            return bool(self._load_error(self._written(self._rewrite(self.excluded | others))))

        if fails(0):  # the opset came down, and no node had to change for it
            rules = [r for p in self.options.selected for r in p.model_rules]
            self.options = self.options.without_rules(rules)
            self.undone.update({Declined(name, driver.model.graph.proto.name, why): None for name in driver.edited_by})
            return
        found = records[bisect_left(range(1, len(records)), True, key=fails)]
        self.excluded.update(found.keys)
        self.undone[_declined(found, why)] = None

    # ---- reporting ----

    def _report(self, attempt: Attempt) -> Report:
        driver, proto, options = attempt.driver, attempt.proto, self.options
        records = _in_file_order(driver.rewrites)
        unproved = [r.root.label for r in driver.rewrites if r.max_error is None]
        failed = {(d.pass_name, d.node) for d in (*self.undone, *self.unproved)}
        refused = [d for d in self._refused if (d.pass_name, d.node) in failed]  # a pass that failed is not asked again
        refused_now, unknown_now = judged(driver.model, options.target)
        report = Report(
            surgeon=__version__,
            target=str(options.target),
            applied=[Applied(r.name, r.strategy, r.root.label, r, r.max_error) for r in records],
            declined=list(dict.fromkeys([*self.unproved, *refused, *driver.declined])),
            undone=list(self.undone),
            untaken=refused_now,
            unknown=unknown_now,
            warnings=list(dict.fromkeys([*driver.warnings, *(w for r in driver.rewrites for w in r.warnings)])),
            verify=Verified(mode=options.verify, skipped=unproved if options.proves else []),
            ops_before=driver.before,
            ops_after=operators(driver.model),
            opset_before=driver.opset_before,
            opset_after=driver.model.opset,
            untaken_before=self._untaken_before or 0,
        )
        report.warnings += warnings_of_unknown(driver.model)
        report.warnings += bugs_of(driver.model, options.target)
        if options.target.dla:
            report.warnings += parts_of(driver.model, {d.node for d in refused_now})
        if attempt.overloaded:
            report.warnings.append(f"{', '.join(attempt.overloaded)}: {OVERLOADED}")
        if has_float64(driver.model):
            report.warnings.append(FLOAT64)
        if proto.training_info and report.applied:
            report.warnings.append(TRAINED)
        if options.verify == "full":
            compare_whole(self.source, proto, options, report)
        return report


def compare_whole(source: Source, proto: ModelProto, options: Options, report: Report) -> None:
    """Compare the whole models, and say in the report how that went."""
    from surgeon.proof.whole import prove_models

    verdict = prove_models(source.proto(), proto, base=source.base, shapes=options.shapes, own_rounding=True)
    report.verify["max_error"] = verdict.max_error
    if verdict.ok and verdict.why:
        report.warnings.append(f"whole models: {verdict.why}")
    if verdict.ok is None:
        report.verify["compared"] = False
    if verdict.ok is None and options.allow_unproved:
        why = f"the whole models were not compared: {_with_hint(verdict)}"
        report.warnings = list(dict.fromkeys([*report.warnings, why]))
    elif not verdict.ok:
        report.verify["failed"] = _with_hint(verdict)


def has_float64(model: Model) -> bool:
    """Whether an input, an output, a weight or a Cast of the model is of float64."""
    ends = (i.type.tensor_type.elem_type for i in (*model.proto.graph.input, *model.proto.graph.output))
    held = (dtype for scope in model.scopes for dtype, _ in scope.kinds_of_tensors)
    casts = (node.attr("to") for scope in model.scopes for node in scope.of(["Cast"]))
    return any(TensorProto.DOUBLE in found for found in (ends, held, casts))


def judged(model: Model, target: Target) -> tuple[list[Declined], list[Declined]]:
    """The nodes of a model and its bodies that the target does not support, and the unknown ones, with the reason."""
    gpu = replace(target, dla=False)
    untaken, doubted = [Declined("", "", why) for why in refused(model)], []
    for node, why in target.unsupported(model):
        if why.known:
            on_gpu = target.dla and gpu.why_unsupported(node) is None
            untaken.append(Declined("", node.label, why.reason, on_gpu))
        else:
            doubted.append(Declined("", node.label, why.reason))
    named = {d.node for d in untaken if d.node}
    untaken += [Declined("", label, why) for label, why in too_large(model, target) if label not in named]
    unseen = [Declined("", node.label, why) for node, why in unknown(model, target) if node.label not in named]
    return untaken, [*doubted, *unseen]


def _declined(record: Rewrite, why: str) -> Declined:
    return Declined(record.name, record.root.label, why)


def _of_narrow_functions(record: Rewrite, driver: Driver) -> str:
    """What has to be said of the proof of another's pass: functions that it brings in may differ at few numbers."""
    others = [name for name in record.passes if not driver.context.passes[name].own]
    brought = sorted({n.key for n in record.added} & NARROW - {n.key for n in record.removed}) if others else []
    if not brought:
        return ""
    return (
        f"{others[0]} writes {', '.join(brought)}, which the original does not have: it is tested on chosen inputs, "
        "and a difference at a few other numbers does not show"
    )


def _with_hint(verdict: Verdict) -> str:
    return f"{verdict.why}; with --shapes the sizes may go together" if verdict.unsized else verdict.why


def _in_file_order(records: Iterable[Rewrite]) -> list[Rewrite]:
    return sorted(records, key=lambda r: min((node.place for node in r.removed), default=r.root.place))


# ---- a DLA and the GPU beside it -------------------------------------------------------------------------------------


def parts_of(model: Model, on_gpu: Collection[str]) -> list[str]:
    """A sentence about the tensors that pass between DLA and GPU, and one about a cut; none where DLA runs it all.

    on_gpu  the labels of the nodes that the GPU runs
    """
    nodes = [n for n in model.graph.live() if n.op != "Constant"]
    gpu = {n for n in nodes if n.label in on_gpu}
    if not gpu or len(gpu) == len(nodes):
        return []
    passed = {v.name for n in nodes for v in _made_by_others(n) if (v.producer in gpu) != (n in gpu)}
    said = [
        f"DLA runs {len(nodes) - len(gpu)} of {counted(len(nodes), 'node')}, and {counted(len(passed), 'tensor')} "
        f"{'passes' if len(passed) == 1 else 'pass'} between it and the GPU"
    ]
    first: set[Node] = set()  # what DLA runs before the GPU runs any node
    for node in nodes:
        if node not in gpu and all(v.producer in first for v in _made_by_others(node)):
            first.add(node)
    later = len(nodes) - len(gpu) - len(first)
    rest = [n for n in nodes if n not in first]
    ends = list(dict.fromkeys(v.name for n in rest for v in _made_by_others(n) if v.producer in first))
    if not ends or len(passed) <= len(ends):
        return said
    named = ", ".join(f"'{e}'" for e in ends[:MOST_NAMED])
    more = f" and {len(ends) - MOST_NAMED} more" if len(ends) > MOST_NAMED else ""
    also = f" ({counted(later, 'node')} of these DLA would also support)" if later else ""
    said.append(
        f"cut the model at {named}{more}: then DLA runs the {counted(len(first), 'node')} before the cut, the GPU "
        f"runs the rest{also}, and {counted(len(ends), 'tensor')} {'passes' if len(ends) == 1 else 'pass'} instead of "
        f"{len(passed)}"
    )
    return ["; ".join(said)]


def _made_by_others(node: Node) -> Iterator[Value]:
    """The inputs of a node that another node computes from the model's inputs."""
    for value in node.inputs:
        if value is not None and value.producer is not None and value.varies:
            yield value
