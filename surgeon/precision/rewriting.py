"""A model rewritten, and quantized, converted to half precision and tuned as the options ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from surgeon.ir.files import check_writable, put, with_weights
from surgeon.ir.model import Model
from surgeon.pipeline.options import Options
from surgeon.pipeline.run import judged
from surgeon.pipeline.session import Result, rewrite_source
from surgeon.pipeline.source import Source
from surgeon.report import MEASURED, counted
from surgeon.rules.driver import operators
from surgeon.targets.known_bugs import bugs_of

if TYPE_CHECKING:
    from surgeon.pipeline.prepared import Prepared
    from surgeon.precision.data import Samples
    from surgeon.precision.quantize import Checked
    from surgeon.precision.result import PrecisionResult
    from surgeon.precision.tuning import Measure

MORE = 1.25  # times the error, where more of a model in eight bits is in half precision
PART_OF_HALF = 1 / 3  # of the tolerance of a model in eight bits: what half precision may change
TOO_FAR = "the rest of the model stays fp32: in {} the outputs change by {:.2g}, above the tolerance {:g}"
ROUNDS = 4  # further runs over what is converted, at most; nearly always the first changes nothing


def rewritten(source: Source, options: Options, measure: Measure | None = None) -> Result:
    """Rewrite a source with options that are checked.

    measure  what an engine moves; without it nothing is tuned
    """
    started = time.perf_counter()
    if options.write_calibration_cache is not None:
        read = [Path(p) for p in (source.path, options.calibration_cache) if p is not None]
        check_writable(Path(options.write_calibration_cache), *read)
    quantized, checked = None, None
    if options.int8 or options.fp8:
        checked = _in_eight_bits(source, options)
        quantized = checked.prepared
    elif options.repair_qdq or options.calibration_cache or options.int4 or options.fp8_weights:
        quantized = _quantized(source, options)
    result = rewrite_source(source if quantized is None else source.changed(quantized.model), options)
    if quantized is not None:
        result.report.applied = [*quantized.applied, *result.report.applied]
        result.report.warnings = [*quantized.warnings, *result.report.warnings]
    if options.way:
        result = _converted(result, options, checked)
    if measure is not None:
        from surgeon.precision.tuning import tuned  # a plain rewrite starts without it

        result = tuned(result, options, measure)
    if checked is not None:
        result.report.warnings.append(checked.check(result.model))
    if options.write_calibration_cache is not None:
        scales = checked.scales if checked is not None else _scales(source, quantized, options)
        result.report.warnings.append(_write_cache(options, scales, result.files))
    if (error := result.report.verify.get("max_error")) is not None:  # that of the quantized model
        result.report.verify["max_error"] = max(error, *result.report.errors(MEASURED), 0.0)
    result.report.seconds = time.perf_counter() - started
    return result


def _converted(result: Result, options: Options, checked: Checked | None) -> Result:
    """The result in half precision, rewritten and converted again where the types let passes find more.

    checked  measures a model in eight bits, where it is one
    """
    from surgeon.precision.conversion import MEASURED, convert  # a plain rewrite starts without them
    from surgeon.precision.data import load_metric
    from surgeon.precision.operators import HEAVY
    from surgeon.precision.standard import LIMIT, QUANTIZED_LIMIT

    tolerance = LIMIT if options.tolerance is None else options.tolerance
    if checked is not None:  # the error of the written model decides: see `rewritten`
        tolerance = max(LIMIT, PART_OF_HALF * (options.tolerance or QUANTIZED_LIMIT))
    elif options.quantizes or options.calibration_cache:
        tolerance = LIMIT
    to_half: Callable[..., PrecisionResult] = partial(
        convert,
        way=options.way,
        tolerance=tolerance,
        metric=load_metric(options.metric) if isinstance(options.metric, str) else options.metric,
        keep_fp32=options.keep_fp32,
        data=samples_of(options),
        repair_eps=options.pass_options.get("repair_eps"),
        target=options.target,
        base=result.base,
        shapes=result.shapes,
        io_fp16=options.io_fp16,
        verify=options.proves,
        allow_unproved=options.allow_unproved,
        allow_inexact=options.allow_inexact,
        steps=not options.quantizes,
        progress=options.progress or (lambda phase, done, total: None),
    )
    half = to_half(result.model)
    most = options.tolerance or QUANTIZED_LIMIT
    is_less = half.failed or any(k.why == MEASURED and k.op in HEAVY for k in half.kept)
    if checked is not None and options.metric is None and is_less:
        # a rounded number takes another step here and there, so the largest error says little of the others
        by_mean = partial(to_half, metric=checked.score)
        other = by_mean(result.model)
        if not other.failed and checked.error(other.model) <= min(MORE * checked.error(result.model), most):
            half, to_half = other, by_mean
    if checked is not None and not options.allow_inexact and (half.failed or checked.error(half.model) > most):
        result.report.warnings.append(TOO_FAR.format(options.way, checked.error(half.model), most))
        return result
    further = replace(options, shapes=result.shapes, progress=None)
    for _ in range(ROUNDS):
        again = rewrite_source(Source(half.model, half.base), further, prepares=False)
        if not again.report.applied and again.report.opset_after == again.report.opset_before:
            break
        start = [k.node for k in half.kept if k.why == MEASURED]
        anew = to_half(again.model, original=result.model, start=start, weights=half.weights)
        if checked is not None and checked.error(half.model) <= most < checked.error(anew.model):
            break
        half = anew
        result.report.follow(again.report)
    written = Model(half.model, half.base)
    result.report.ops_after = operators(written)
    result.report.untaken, result.report.unknown = judged(written, options.target)
    result.report.warnings = list(dict.fromkeys([*result.report.warnings, *bugs_of(written, options.target)]))
    return Result(half.model, result.report, half.base, result.files, half, result.shapes)


def samples_of(options: Options) -> Samples | None:
    """The samples of `--data`; None without it. Raises UsageError where there are none."""
    from surgeon.precision.data import Samples, load_data

    data = options.data
    return load_data(data) if isinstance(data, str | Path) else None if data is None else Samples.of(data)


def _quantized(source: Source, options: Options) -> Prepared:
    """The model with quantizers placed by their rules, or with weights of few bits."""
    from surgeon.precision.repair_qdq import repaired, with_scales
    from surgeon.precision.weights_only import quantized

    with source.blamed():
        if options.int4 or options.fp8_weights:
            return quantized(source, options, samples_of(options))
        if options.repair_qdq:
            return repaired(source, options, samples_of(options))
        return with_scales(source, options, samples_of(options))


def _in_eight_bits(source: Source, options: Options) -> Checked:
    """The model quantized by data, and what compares the written model with the original."""
    from surgeon.precision.quantize import quantized

    samples = samples_of(options)
    assert samples is not None
    with source.blamed():
        return quantized(source, options, samples)


def _scales(source: Source, quantized: Prepared | None, options: Options) -> Mapping[str, float]:
    """Those of the quantizers of a model: as they were placed anew, else as the file has them."""
    from surgeon.pipeline.calibration_cache import quantized_scales
    from surgeon.pipeline.symmetric_int8 import standardized
    from surgeon.proof.cache import ProofCache

    with source.blamed():
        if quantized is not None:
            return quantized_scales(quantized.model)
        model = with_weights(source.proto(), source.base)
        return quantized_scales(standardized(model, options, source.base, ProofCache(None))[0])


def _write_cache(options: Options, scales: Mapping[str, float], read: Sequence[Path]) -> str:
    """A sentence on the calibration cache that was written."""
    from surgeon.pipeline.calibration_cache import cache_text

    assert options.write_calibration_cache is not None
    path = Path(options.write_calibration_cache)
    check_writable(path, *read)
    put({path: cache_text(scales)})
    return f"the scales of {counted(len(scales), 'tensor')} are in the calibration cache '{path}'"
