"""Advice for nodes that a target does not support."""

import shlex
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache

from onnx import TensorProto

from surgeon.errors import ModelError
from surgeon.ir import contrib
from surgeon.ir.data_file import data_beside
from surgeon.ir.graph import Node
from surgeon.ir.lattice import may_hold_sizes
from surgeon.ir.model import Model
from surgeon.pipeline.narrowing import narrowable
from surgeon.pipeline.options import CheckOptions, Options, RewriteOptions
from surgeon.pipeline.session import Result, rewrite_source
from surgeon.pipeline.source import Source
from surgeon.report import Declined
from surgeon.rules.registry import passes
from surgeon.targets.condition import dtype_name
from surgeon.targets.conditions.shapes import SIZED, float_sizes, input_of_sizes
from surgeon.targets.dtypes import lacking_types
from surgeon.targets.releases import RELEASES, dotted
from surgeon.targets.target import Target
from surgeon.targets.unsupported import Kind

NONE = "export it without this operator, or write a pass (docs/language.md)"
CHANGED = "export it without what the reason names, or write a pass (docs/language.md)"
SMALLER = "give its inputs smaller sizes, or run the model on parts of them, such as tiles of an image"
NARROWER = "--allow-narrowing converts its types to supported ones, and reports the error"
INTEGER_SIZE = "make the size an input of integers, or compute it from shapes"
SMALL = "hold these numbers in int32 or in fp32"


@cache
def _texts(section: str) -> dict[str, str]:
    """A section of advice.toml, each word of a key by itself."""
    return {word: advice for words, advice in data_beside(__file__)[section].items() for word in words.split()}


def advice_for(result: Result, source: Source, options: Options) -> list[str]:
    """The advice for each entry of `report.untaken`: what makes the target support that node, or a target that does.

    In this order: the option for sizes that are floats, one that keeps a rewrite which could not be proved, those that
    hold a pass back, a later TensorRT. All but the first are tried, and not guessed.
    """
    refused = result.report.untaken
    if not refused:
        return []
    nodes = {n.label: n for scope in Model(result.model, result.base).scopes for n in scope.live()}
    unproved = {d.node: d.pass_name for d in result.report.declined if d.why.startswith("unproved")}
    by_default = _taken_by_default(refused, source, options)
    narrowed = _taken_in_other_types(result, options)
    found = []
    for d in refused:
        node = nodes.get(d.node)
        cure = _option(d, node, unproved.get(d.node, ""), by_default, narrowed)
        found.append(cure or _cure(node, options.target))
    return found


def _option(
    refused: Declined, node: Node | None, unproved: str, by_default: Collection[str], narrowed: Collection[str]
) -> str:
    """The option that makes the target support a node, as a sentence; empty for none."""
    if node is not None and (said := _for_integers(refused, node)):
        return said
    if unproved:
        return f"--allow-unproved keeps the rewrite of {unproved}"
    if refused.node in by_default:
        return "omit --only, --skip or --strategy"
    return NARROWER if refused.node in narrowed else ""


def _for_integers(refused: Declined, node: Node) -> str:
    """What makes a size an integer that follows from an input of another type; empty where that is not the reason."""
    sizes = input_of_sizes(node) if node.key in SIZED else None
    if sizes is None or refused.why != float_sizes.check(node):
        return ""
    model = node.graph.model
    reads_factors = node.key == "Upsample" or (node.key == "Resize" and len(node.inputs) < 4)  # not integers
    if reads_factors or not may_hold_sizes(model.dtype(sizes), len(model.shape(sizes) or ())):
        return INTEGER_SIZE
    return f"--input {shlex.quote(f'{sizes.name}=int64')} makes it an input of integers"


def _cure(node: Node | None, target: Target) -> str:
    if node is None:
        return CHANGED
    if target.why_unsupported(node) is None:  # its result is too large
        return SMALLER
    later = first_taking(node, target)
    if not later:
        return _advice(node, target)
    asked = _texts("on_request").get(node.key)
    return f"{later} supports it, or {asked}" if asked else f"{later} supports it"


def _advice(node: Node, target: Target) -> str:
    """The advice for a node that no release supports."""
    why, lacking = target.why_unsupported(node), lacking_types(node)
    if lacking and why is not None and why.kind is not Kind.OPERATOR:
        instead = f"export it with {_wider(lacking[0])} in place of {dtype_name(lacking[0])}"
        return _texts("types").get(TensorProto.DataType.Name(lacking[0]), instead)
    if why is not None and why.kind is Kind.TYPE:
        return SMALL
    domain = node.proto.domain
    if domain == contrib.DOMAIN and node.op in _texts("microsoft"):
        return _texts("microsoft")[node.op]
    if domain in _texts("domains"):
        return _texts("domains")[domain]
    general = CHANGED if why is not None and why.kind is Kind.NODE else NONE
    return _texts("on_request").get(node.key) or _texts("onnx").get(node.key, general)


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
