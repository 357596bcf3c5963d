"""Why TensorRT failed, from what it printed: the cause, the node, the operator and the release that a log names."""

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from onnx import ModelProto, NodeProto

from surgeon.errors import SurgeonError, UsageError
from surgeon.ir.files import read
from surgeon.ir.protos import label_of
from surgeon.ir.schemas import schema
from surgeon.pipeline.check import fixed_by
from surgeon.targets import plugins, tables
from surgeon.targets.names import printed_version
from surgeon.targets.releases import dotted
from surgeon.targets.target import Target
from surgeon.trt.causes import CAUSES, NODES, OPERATORS, REWRITE, Cause, Weight

NEWEST_OPSET = 25
UNKNOWN = "VERSION"  # what a command has in place of a release that the log does not name
IMPORTED = Cause(
    "unsupported-operator",
    (),
    "The parser has no importer for this operator of ONNX, and looked for a plugin of its name.",
    "Replace it with operators that this release has: `surgeon fix` does so if a pass rewrites it.",
    REWRITE,
)
NOT_INITIALISED = next(cause for cause in CAUSES if cause.name == "plugins-not-initialised")
_PLUGIN_FOUND = re.compile(r"Successfully created plugin: (\w+)")
_NUMBER = re.compile(r"(?:While parsing node number|In node) (\d+)")


@dataclass(frozen=True, slots=True)
class Finding:
    """The meaning of a line of a log.

    cause     the row of the table
    line      the line that it was read from
    operator  the operator that the log speaks of; empty where it names none
    node      the node, as the log calls it; with a model, as the model does
    says      what is known of this operator beyond the table: the release that learned it
    fixed_by  the passes that rewrite the node, where the model and the target were given
    missing   the model was given, and has no node that the log could mean
    """

    cause: Cause
    line: str
    operator: str = ""
    node: str = ""
    says: str = ""
    fixed_by: str = ""
    missing: bool = False

    @property
    def mended_by(self) -> str:
        """The former name of `fixed_by`."""
        return self.fixed_by


def why(log: str) -> list[Finding]:
    """The causes in a log, the most certain one first; empty if no line is known."""
    plugins_there = set(_PLUGIN_FOUND.findall(log))
    operator, node = _operator(log), _node(log)
    found = []
    for place, line in enumerate(log.splitlines()):
        for row, cause in enumerate(CAUSES):
            if cause.search.search(line):
                finding = _finding(cause, line, operator, node)
                found.append((-finding.cause.weight, place, row, finding))
    found.sort(key=lambda entry: entry[:3])
    by_name: dict[str, Finding] = {}
    for *_, finding in found:
        if finding.cause.weight is Weight.ERROR or finding.operator not in plugins_there:
            by_name.setdefault(finding.cause.name, finding)
    return list(by_name.values())


def in_model(finding: Finding, log: str, model: str | Path, target: Target | None) -> Finding:
    """The finding with the node of the model that the log names, and the passes that rewrite it for a target.

    Without a target no pass is named. Raises ModelError where the model cannot be read.
    """
    proto = read(Path(model))
    node = _node_in(proto, finding.node, log)
    if node is None:
        return replace(finding, missing=bool(finding.node))
    if target is None:
        return replace(finding, node=label_of(node), operator=node.op_type)
    try:
        passes = fixed_by(model, target=target).get(label_of(node), "")
    except SurgeonError:  # surgeon does not rewrite the model: then there is no pass to name
        passes = ""
    return replace(finding, node=label_of(node), operator=node.op_type, fixed_by=passes)


def release_of(log: str, cause: Cause | None = None) -> Target | None:
    """The target of the release that printed a log, or that alone prints the line of a cause.

    None if neither is known, or it is older than the table.
    """
    version = printed_version(log) or (cause.release if cause else "")
    if not version:
        return None
    try:
        return Target.parse(version)
    except UsageError:
        return None


def command(finding: Finding, model: str, target: Target | None) -> str:
    """The command to type, for a model and a target; without one it has the word VERSION in its place."""
    return finding.cause.command.format(model=shlex.quote(model), target=target or UNKNOWN)


def _finding(cause: Cause, line: str, operator: str, node: str) -> Finding:
    here = _operator(line) or operator
    line = " ".join(line.split())
    if cause.name != "missing-plugin":
        return Finding(cause, line, operator, node)
    first = next((since for since, _, operators in tables.IMPORTERS if here in operators.split()), None)
    if first is not None:
        says = f"TensorRT imports {here} from {dotted(first)} on."
        return Finding(replace(IMPORTED, weight=cause.weight), line, here, node, says)
    if schema(here, "", NEWEST_OPSET) is not None:
        says = f"{here} is an operator of ONNX that no TensorRT of the table imports."
        return Finding(replace(IMPORTED, weight=cause.weight), line, here, node, says)
    if here in plugins.STOCK:
        return Finding(replace(NOT_INITIALISED, weight=cause.weight), line, here, node)
    return Finding(cause, line, here, node, f"The plugin is {here}." if here else "")


def _operator(text: str) -> str:
    """The operator, or the plugin, that a text names first."""
    return next((m[1] for pattern in OPERATORS for m in pattern.finditer(text)), "")


def _node(log: str) -> str:
    """The node that a log names first; empty for layers that TensorRT made itself."""
    named = (m[1] for pattern in NODES for m in pattern.finditer(log))
    return next((name for name in named if not name.startswith("(Unnamed")), "")


def _node_in(proto: ModelProto, name: str, log: str) -> NodeProto | None:
    """The node of a model that the log means: by its name, its output, a part of a merged name, or its number."""
    nodes: list[NodeProto] = list(proto.graph.node)
    parts = {name, *re.split(r"\.\.\.| \+ ", name)}
    for node in nodes:
        if node.name and (node.name in parts or name == f"{node.name}_OutputLayer"):
            return node
    for node in nodes:
        if parts.intersection(node.output):
            return node
    number = _NUMBER.search(log)
    if number is None or int(number[1]) >= len(nodes):
        return None
    found = nodes[int(number[1])]
    return found if _operator(log) in ("", found.op_type) else None
