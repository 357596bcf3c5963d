"""Advice for nodes that a target does not support."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import replace

from onnx import ModelProto, TensorProto

from surgeon.errors import ModelError
from surgeon.ir import contrib
from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.pipeline.narrowing import narrowable
from surgeon.pipeline.options import CheckOptions, Options, RewriteOptions
from surgeon.pipeline.session import Result, rewrite_source
from surgeon.pipeline.source import Source
from surgeon.report import Declined
from surgeon.rules.registry import passes
from surgeon.targets.condition import dtype_name
from surgeon.targets.dtypes import lacking_types
from surgeon.targets.releases import RELEASES, dotted
from surgeon.targets.target import Target
from surgeon.targets.unsupported import Kind

OF_FLOATS = re.compile("a size follows from the input '(.*)', which holds floats")
NONE = "export it without this operator, or write a pass (docs/language.md)"
CHANGED = "export it without what the reason names, or write a pass (docs/language.md)"
AFTER = "its output size depends on the data: run it after the engine"
BEFORE = "run it before the engine, and make its result an input"
DRAWN = "draw the random numbers outside the engine, and make them an input"
STRINGS = f"an engine has no strings: {BEFORE}"
COUNTED = "export it with a fixed number of iterations, which surgeon unrolls, or compute all of them at once"
GIVEN = "an engine has no optional inputs: export it with a tensor, or without one"
SEQUENCES = "an engine has no sequences: return or read their tensors one by one"
POOLED = "set its padding by pads instead of auto_pad, and give its images fixed sizes"
NARROWER = "--allow-narrowing converts its types to supported ones, and reports the error"
PROCESSORS = ("com.microsoft.nchwc", "com.ms.internal.nhwc")  # domains of layouts
# Operators that surgeon rewrites only on request, because the model then returns something else.
ON_REQUEST = {
    "NonMaxSuppression": "rewrite with --detections N: N rows, and an output with the number of valid rows",
}
# Advice for operators that have no exact form. All of ai.onnx.ml get the same.
ADVICE = {
    **ON_REQUEST,
    "NonZero": f"{AFTER}, or select with Where instead of by indices",
    "Compress": f"{AFTER}, or select with Where",
    "Unique": f"{AFTER}; for TensorRT 8.5 and later, not RTX, surgeon rewrites it for at most 4,096 elements",
    "RoiAlign": "export it with mode avg or a sampling_ratio of 1 or more, and images of fixed sizes",
    "MaxRoiPool": "give its images fixed sizes, or run it after the engine",
    "ImageDecoder": BEFORE,
    "Resize": "export it in float, with axes that are not negative, and images of fixed sizes",
    "ConvTranspose": "make its weights constant, or export it without dilations",
    "DeformConv": "give its channels and its kernel fixed sizes",
    "BitShift": "shift by constants smaller than the number of bits of the type",
    "BitCast": BEFORE,
    "CumProd": "add up logarithms instead, or give its axis a fixed length of at most 1,024",
    "EyeLike": "export it with opset 11 or later, or with a fixed size",
    "LRN": "export it with an odd size of at most 15, or as a mean of squares over the channels",
    "Range": "count in int64 or in fp32, and cast the result",
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), POOLED),
    "If": "export it with a fixed condition: then only one branch is left",
    "Loop": COUNTED,
    "Scan": COUNTED,
    "Det": "surgeon rewrites up to 4 rows: run larger matrices outside the engine",
    "MaxUnpool": "omit its output_shape, or make it the shape of the pooled tensor",
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), GIVEN),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"), DRAWN),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), DRAWN),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"), STRINGS),
    **dict.fromkeys(("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty"), SEQUENCES),
    **dict.fromkeys(("SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence"), SEQUENCES),
}
PARTS = "an engine has no complex numbers: compute with real and imaginary parts"
OF_TYPES: dict[int, str] = {
    TensorProto.STRING: STRINGS,
    **dict.fromkeys((TensorProto.COMPLEX64, TensorProto.COMPLEX128), PARTS),
}
SMALL = "hold these numbers in int32 or in fp32"
CLASSIC = "TensorRT has no strings, no maps and no classic machine learning: run it outside the engine"
LAID_OUT = "ONNX Runtime optimized its layout for one processor: save the model again with ORT_ENABLE_EXTENDED at most"
GENERATION = "export one step of the decoder, and run the loop over the tokens around the engine"
PACKED = "optimize the model without packing: padded batches give the same result"
ORDERED = "quantize the model in the format QDQ"
COMPILED = "it holds an engine of another runtime: use the model from before it was compiled"
FUSED = "ONNX Runtime's optimizer wrote it: optimize the model less, or write a pass (docs/language.md)"
OF_ONNX_RUNTIME = {
    **dict.fromkeys(("BeamSearch", "GreedySearch", "NGramRepeatBlock", "Sampling"), GENERATION),
    **dict.fromkeys(("PackedAttention", "PackedMultiHeadAttention", "RemovePadding", "RestorePadding"), PACKED),
    **dict.fromkeys(("QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization", "QOrderedMatMul"), ORDERED),
    **dict.fromkeys(("QuantizeWithOrder", "DequantizeWithOrder", "QOrderedLongformerAttention"), ORDERED),
    **dict.fromkeys(("MurmurHash3", "Tokenizer"), BEFORE),
    "EPContext": COMPILED,
    "WhisperBeamSearch": GENERATION,
}


def advice_for(result: Result, source: Source, options: Options) -> list[str]:
    """The advice for each entry of `report.untaken`: what makes the target support that node, or a target that does.

    In this order: the option for sizes that are floats, one that keeps a rewrite which could not be proved, those that
    hold a pass back, a later TensorRT. All but the first are tried, and not guessed.
    """
    refused = result.report.untaken
    if not refused:
        return []
    nodes = _nodes(result.model, result)
    unproved = {d.node: d.pass_name for d in result.report.declined if d.why.startswith("unproved")}
    by_default = _taken_by_default(refused, source, options)
    narrowed = _taken_in_other_types(result, options)
    found = []
    for d in refused:
        cure = _option(d, unproved.get(d.node, ""), by_default, narrowed)
        found.append(cure or _cure(nodes.get(d.node), options.target))
    return found


def _option(refused: Declined, unproved: str, by_default: Collection[str], narrowed: Collection[str]) -> str:
    """The option that makes the target support a node, as a sentence; empty for none."""
    if sizes := OF_FLOATS.search(refused.why):
        return f"--input {shlex.quote(f'{sizes[1]}=int64')} makes it an input of integers"
    if unproved:
        return f"--allow-unproved keeps the rewrite of {unproved}"
    if refused.node in by_default:
        return "omit --only, --skip or --strategy"
    return NARROWER if refused.node in narrowed else ""


def _cure(node: Node | None, target: Target) -> str:
    if node is None:
        return NONE
    later = first_taking(node, target)
    if not later:
        return _advice(node, target)
    asked = ON_REQUEST.get(node.key)
    return f"{later} supports it, or {asked}" if asked else f"{later} supports it"


def _advice(node: Node, target: Target) -> str:
    """The advice for a node that no release supports."""
    why, lacking = target.why_unsupported(node), lacking_types(node)
    if lacking and why is not None and why.kind is not Kind.OPERATOR:
        return (
            OF_TYPES.get(lacking[0], "") or f"export it with {_wider(lacking[0])} in place of {dtype_name(lacking[0])}"
        )
    if why is not None and why.kind is Kind.TYPE:
        return SMALL
    domain = node.proto.domain
    if domain == "ai.onnx.ml":
        return CLASSIC
    if domain == contrib.DOMAIN:
        return OF_ONNX_RUNTIME.get(node.op, FUSED)
    if domain in PROCESSORS:
        return LAID_OUT
    return ADVICE.get(node.key, CHANGED if why is not None and why.kind is Kind.NODE else NONE)


def _wider(dtype: int) -> str:
    """A type that every release has and that holds the numbers of one that none has, or nearly."""
    name = dtype_name(dtype)
    if "float" in name:
        return "fp16"
    return "int64" if "32" in name or "64" in name else "int32"


def first_taking(node: Node, target: Target) -> str:
    """The name of what supports a node: the GPU beside a DLA, else the first later release; empty for none."""
    if target.dla and replace(target, dla=False).why_unsupported(node) is None:
        return "the GPU beside the DLA"
    names = [dotted(v) for v in RELEASES if v > target.version]
    for name in [] if target.rtx else names:
        if Target.parse(name).why_unsupported(node) is None:
            return f"TensorRT {name}"
    return "" if target.rtx or Target.parse("rtx").why_unsupported(node) is not None else "TensorRT-RTX"


def _taken_by_default(refused: Iterable[Declined], source: Source, options: Options) -> set[str]:
    """The nodes that are supported if every pass runs with its default strategy."""
    if not (options.skipped or options.strategies or len(options.selected) < len(passes())):
        return set()
    asked = Options.checked(CheckOptions(target=options.target, plugins=options.libraries))
    still = {d.node for d in rewrite_source(source, asked).report.untaken}
    return {d.node for d in refused} - still


def _taken_in_other_types(result: Result, options: Options) -> set[str]:
    """The nodes that are supported after types that the target lacks are converted."""
    if options.allow_narrowing or not narrowable(result.model, options.target):
        return set()
    asked = RewriteOptions(target=options.target, plugins=options.libraries, verify="none", allow_narrowing=True)
    try:
        again = rewrite_source(Source(result.model, result.base), Options.checked(asked)).report.untaken
    except ModelError:
        return set()
    return {d.node for d in result.report.untaken} - {d.node for d in again}


def _nodes(model: ModelProto, result: Result) -> dict[str, Node]:
    return {n.label: n for scope in Model(model, result.base).scopes for n in scope.live()}
