"""What a person can do about nodes that a target does not take."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from onnx import ModelProto

from surgeon.errors import SurgeonError
from surgeon.ir.graph import Node
from surgeon.ir.model import Model
from surgeon.pipeline.options import LIBRARIES, Options
from surgeon.pipeline.session import Result, rewrite_source
from surgeon.pipeline.source import Source
from surgeon.report import Declined
from surgeon.targets.releases import RELEASES, dotted
from surgeon.targets.target import Target

NONE = "export it without this operator, or write a pass (docs/language.md)"


def cures(result: Result, source: Source, options: Options) -> list[str]:
    """For each entry of `report.untaken`, what makes the target take that node, or which target does.

    In this order: an option that keeps a rewrite which could not be proved, a plugin library, a later TensorRT. Each
    is tried, none is guessed.
    """
    refused = result.report.untaken
    if not refused:
        return []
    nodes = _nodes(result.model, result)
    unproved = {d.node: d.pass_name for d in result.report.declined if d.why.startswith("unproved")}
    plugins = _taken_with_plugins(refused, source, options)
    return [
        _cure(d, nodes.get(d.node), options.target, unproved.get(d.node, ""), plugins.get(d.node, "")) for d in refused
    ]


def _cure(refused: Declined, node: Node | None, target: Target, unproved: str, library: str) -> str:
    if unproved:
        return f"--allow-unproved keeps what {unproved} makes of it"
    if library:
        return f"--plugins {library}"
    later = first_taking(node, target) if node is not None else ""
    return f"{later} takes it" if later else NONE


def first_taking(node: Node, target: Target) -> str:
    """The first release after `target` that takes a node, as a sentence calls it; empty where none does."""
    names = [dotted(v) for v in RELEASES if v > target.version]
    for name in [] if target.rtx else names:
        if _taken(node, Target.parse(name)):
            return f"TensorRT {name}"
    if target.dla and _taken(node, replace(target, name=dotted(target.version), dla=False)):
        return "the GPU beside the DLA"
    return "" if target.rtx or not _taken(node, Target.parse("rtx")) else "TensorRT-RTX"


def _taken(node: Node, target: Target) -> bool:
    return target.takes(node) is None and target.outdated(node) is None and target.mistyped(node) is None


def _taken_with_plugins(refused: Iterable[Declined], source: Source, options: Options) -> dict[str, str]:
    """Node -> the first plugin library with which the target takes it, of those that were not offered."""
    found: dict[str, str] = {}
    if not options.target.plugins or options.libraries:
        return found
    wanted = {d.node for d in refused}
    for library in LIBRARIES:
        try:
            tried = rewrite_source(source, replace(options, libraries=(library,), verify="none", progress=None))
        except SurgeonError:  # a pass that does not go with it: then there is nothing to advise
            continue
        found |= _gone(wanted - found.keys(), tried, library)
    return found


def _gone(wanted: Collection[str], tried: Result, library: str) -> dict[str, str]:
    still = {d.node for d in tried.report.untaken}
    return {node: library for node in wanted if node not in still}


def _nodes(model: ModelProto, result: Result) -> dict[str, Node]:
    return {n.label: n for scope in Model(model, result.base).scopes for n in scope.live()}
