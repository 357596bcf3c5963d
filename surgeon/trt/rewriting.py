"""`surgeon.rewrite`: a model rewritten, converted to half precision, and tuned, as the options ask for."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from surgeon.ir.files import check_writable
from surgeon.pipeline.option import P, R, R_co, by_keyword, of_model
from surgeon.pipeline.options import Options, RewriteOptions
from surgeon.pipeline.session import Result
from surgeon.pipeline.source import ModelLike, Source
from surgeon.precision import rewriting
from surgeon.report import Report


@of_model(RewriteOptions)
def rewrite(model: ModelLike, options: RewriteOptions) -> Result:
    """Rewrite a model for a target and prove every rewrite.

    model  a ModelProto (not changed), a path, or an onnx-graphsurgeon graph

    OPTIONS

    One name or folder may be given where several are taken. Raises UsageError and ModelError. A rewrite that fails its
    proof raises nothing: it is undone, and in `report.undone`.
    """
    return rewritten(Source(model), Options.checked(options))


class FileFunction(Protocol[P, R_co]):
    """A function of two files and options."""

    def __call__(self, source: str | Path, out: str | Path, *args: P.args, **options: P.kwargs) -> R_co: ...


def _of_files(asked: Callable[P, object]) -> Callable[[Callable[..., R]], FileFunction[P, R]]:
    return partial(by_keyword, asked)


@_of_files(RewriteOptions)
def rewrite_file(source: str | Path, out: str | Path, options: RewriteOptions) -> Report:
    """`rewrite` a file into another file; returns the report. The keywords are those of `rewrite`.

    A conversion with an error above the tolerance is not written, unless `allow_inexact` is True.
    """
    check_writable(Path(out), Path(source))
    result = rewritten(Source(source), Options.checked(options))
    if result.precision is None or not result.precision.withheld:
        result.save(out)
    return result.report


def rewritten(source: Source, options: Options) -> Result:
    """`rewrite`, of a source and options that are checked."""
    if not options.tune:
        return rewriting.rewritten(source, options)
    from surgeon.trt.kernels import measure_of  # a run without engines starts without it

    return rewriting.rewritten(source, options, measure_of(options, source.base))
