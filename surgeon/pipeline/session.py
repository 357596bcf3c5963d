"""One run from a model to a proved model: read, rewrite, prove, report, write."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.ir.files import Content, check_writable, write
from surgeon.ir.functions import declare_opset, declares_opset, drop_opset, needs_opset
from surgeon.ir.lattice import Shapes
from surgeon.ir.memory import no_collection
from surgeon.ir.model import Model
from surgeon.ir.protos import copied
from surgeon.pipeline.interop import GraphRule, run_graph_rules, to_graphsurgeon
from surgeon.pipeline.options import Options
from surgeon.pipeline.prepared import Prepared, prepared
from surgeon.pipeline.run import Run, compare_whole, judged
from surgeon.pipeline.source import ModelLike, Source
from surgeon.proof.cache import ProofCache, place_of_proofs
from surgeon.report import Conversion, Report
from surgeon.rules.driver import operators
from surgeon.rules.rule import ModelRule, Stage
from surgeon.visible import visible

if TYPE_CHECKING:
    from onnx_graphsurgeon import Graph


@dataclass(slots=True, repr=False)
class Result:
    """A rewritten model.

    model      the ModelProto; external data is still on disk beside the input
    report     what was done
    base       the folder of the external data
    files      those that were read, which `save` never overwrites
    precision  what a conversion to fp16 did, if it was asked for: a `PrecisionResult`
    shapes     the sizes of the model's inputs that the user gave
    """

    model: ModelProto
    report: Report
    base: Path | None = None
    files: Sequence[Path] = ()
    precision: Conversion | None = None
    shapes: Shapes = field(default_factory=dict)

    def gs(self) -> Graph:
        """The rewritten model as an onnx-graphsurgeon graph. `surgeon.from_gs` makes a ModelProto of it."""
        return to_graphsurgeon(self.model, self.base)

    def save(self, path: str | Path, also: Mapping[Path, Content] | None = None) -> list[Path]:
        """Write the model, and return its files; see `files.write`. Raises ModelError."""
        for place in (Path(path), *(also or ())):
            check_writable(place, *self.files)
        apart = self.precision is not None and self.precision.is_apart
        return write(self.model, Path(path), self.base, also, apart)

    def page(self, title: str = "") -> str:
        """The HTML report, as `surgeon rewrite --report R.html` writes it."""
        from surgeon.html.page import render  # a run without a page starts without it

        return render(self.report, title=title, precision=self.precision)

    def __repr__(self) -> str:
        title = visible(f"Result of '{self.model.graph.name}', opset {self.report.opset_after}")
        return f"{title}\n{self.report!r}"

    def _repr_html_(self) -> str:
        """The answer, and the rewrites as images, for a notebook."""
        from surgeon.html.page import notebook  # a run without a notebook starts without it

        return notebook(self.report)


def to_gs(model: ModelLike) -> Graph:
    """The onnx-graphsurgeon graph of a model. Unlike `gs.import_onnx` it keeps the overloads of plugin nodes.

    `surgeon.from_gs` gives the ModelProto back. Raises UsageError and ModelError.
    """
    source = Source(model)
    return to_graphsurgeon(source.proto(), source.base)


def rewrite_source(source: Source, options: Options, prepares: bool = True) -> Result:
    """Rewrite a model, and convert no types to fp16. Functions over a `gs.Graph` run around the other passes.

    prepares  whether preparations run: not where the model is the result of a run that had them
    """
    functions = [r for p in options.selected for r in p.model_rules if isinstance(r, GraphRule)]
    for name, glob in options.skipped:
        if any(r.pass_name == name for r in functions):
            raise UsageError(
                f"the pass '{name}' edits the whole graph, so it cannot be skipped at '{glob}' alone. Use --skip "
                f"{name}."
            )
    with no_collection(), source.blamed():
        known = ProofCache(place_of_proofs() if options.cache and options.proves else None)
        lacks_opset = not declares_opset(source.look()) and not needs_opset(source.look())
        if lacks_opset:  # a rewrite may write the first node that needs one
            copy = copied(source.look())
            declare_opset(copy)
            source = source.changed(copy)
        given = source.look()
        first = prepared(given, options, source.base, known) if prepares else Prepared(given, [])
        if first.model is not given:
            source = source.changed(first.model)
        if first.shapes is not None:
            options = replace(options, shapes=first.shapes)
        if functions:
            result = _with_functions(functions, source, options, known)
        else:
            model, report = Run(source, options, known).result()
            result = Result(model, report, source.base, source.files)
        result.report.applied = [*first.applied, *result.report.applied]
        result.report.warnings = [
            *options.notes,
            *source.repairs,
            *known.warnings,
            *first.warnings,
            *result.report.warnings,
        ]
        if options.proves:
            from surgeon.proof.loading import refuse_invalid  # a run without a proof starts without it

            refuse_invalid(source.proto, result.model, result.base)
        if lacks_opset and not needs_opset(result.model):
            drop_opset(result.model)
        result.shapes = options.shapes
        return result


def _with_functions(functions: Collection[ModelRule], source: Source, options: Options, known: ProofCache) -> Result:
    """Run functions first, then the other passes, and functions of the stage LOWER after them."""
    before, after = ([r for r in functions if (r.stage is Stage.LOWER) == last] for last in (False, True))
    early = run_graph_rules(before, source.proto(), source.base, options)
    model, report = Run(Source(early.model, source.base), options.without_rules(functions), known).result()
    late = run_graph_rules(after, model, source.base, options)
    result = Result(late.model, report, source.base, source.files)
    report.applied = [*early.applied, *report.applied, *late.applied]
    report.declined = [*early.declined, *report.declined, *late.declined]
    report.undone = [*early.undone, *report.undone, *late.undone]
    if early.applied or late.applied:
        _describe_again(result, source, options)
    return result


def _describe_again(result: Result, source: Source, options: Options) -> None:
    """Say in the report how the result differs from the source, functions included."""
    report, model = result.report, Model(result.model, source.base)
    original = source.model()
    report.ops_before = operators(original)
    report.untaken_before = sum(map(len, judged(original, options.target)))
    report.ops_after = operators(model)
    report.untaken, report.unknown = judged(model, options.target)
    if options.verify == "full":
        compare_whole(source, result.model, options, report)
