"""Why TensorRT refuses a model: its own words, the ONNX node that they are about, the pass that fixes it."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surgeon.errors import SurgeonError
from surgeon.ir.files import as_text, read
from surgeon.ir.process import Crashed, Exceeded, survived
from surgeon.ir.protos import label_of
from surgeon.pipeline.check import Untaken, fixed_by
from surgeon.report import target_name
from surgeon.targets.installed import installed_version
from surgeon.targets.releases import row_of
from surgeon.targets.target import Target
from surgeon.trt.runtime import CLASSIC, RTX, PolygraphyLog, gpu, target_of, title, use

SECONDS = 60.0  # that a parser may take
# What a parser adds to its errors about sizes where there is no GPU, and alone says nothing of the model.
_NO_DRIVER = re.compile(r"(\[\S+::catchCudaError\S*\] )?Error Code 1: Cuda Runtime \(.*?cudaError[^()]*\)*\s*")


def refusals(trt: Any, source: Path, log: PolygraphyLog) -> list[Untaken]:
    """The parser's own errors, or if it accepts the model, the builder's; each with the pass that fixes it."""
    found = parser_refusals(trt, source)
    if found:
        return found
    proto = read(source)
    return _with_passes([_builder_error(line, proto) for line in log.told()], trt, source)


def parser_refusals(trt: Any, source: Path) -> list[Untaken]:
    """The parser's own errors, each with the pass that fixes it; none if it accepts the model."""
    return _with_passes(list(dict.fromkeys(_parser_errors(trt, source))), trt, source)


def _with_passes(found: list[Untaken], trt: Any, source: Path) -> list[Untaken]:
    try:
        fixing = fixed_by(source, target=target_of(trt)) if found else {}
    except SurgeonError:  # surgeon does not read the model either: then there is nothing to advise
        fixing = {}
    return [replace(r, fixed_by=fixing.get(r.node, "")) for r in found]


def _parser_errors(trt: Any, source: Path) -> list[Untaken]:
    """Parse once more, by hand: Polygraphy's loader turns the parser's errors into text and drops the nodes."""
    from polygraphy.backend.trt.util import get_trt_logger

    proto = read(source)
    builder = trt.Builder(get_trt_logger())
    explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    parser = trt.OnnxParser(network, get_trt_logger())
    if parser.parse_from_file(as_text(source)):
        return []
    return [parser_error(parser.get_error(i), proto) for i in range(parser.num_errors)] or [
        Untaken("", "", "the parser gives no reason")
    ]


def parser_error(error: Any, proto: Any) -> Untaken:
    """One error of the parser: the node and why. TensorRT 10 names the node; before that there is its number."""
    why = " ".join(_text(error.desc).split())
    name = _text(error.node_name) if hasattr(error, "node_name") else ""
    op = _text(error.node_operator) if hasattr(error, "node_operator") else ""
    nodes = proto.graph.node
    if not name and 0 <= error.node() < len(nodes) and op in ("", nodes[error.node()].op_type):
        node = nodes[error.node()]
        return Untaken(label_of(node), node.op_type, why)
    return Untaken(name, op, why)


def _text(said: Callable[[], Any]) -> str:
    """What TensorRT says; it cuts a text of the model anywhere, so it may not be UTF-8."""
    try:
        return str(said())
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")


def _builder_error(line: str, proto: Any) -> Untaken:
    named = [n for n in proto.graph.node if n.name and n.name in line]
    why = " ".join(line.split())
    if not named:
        return Untaken("", "", why)
    node = max(named, key=lambda n: len(n.name))
    return Untaken(label_of(node), node.op_type, why)


def refusal_lines(trt: Any, source: Path, found: Sequence[Untaken]) -> list[str]:
    """The refusals: a line for the model, then lines for each node with what to do about it."""
    lines = [f"{title(trt)} refuses '{source}'."]
    for refusal in found:
        lines.append(f"  {refusal}")
        if "Plugin not found" in refusal.why and trt.__name__ != RTX:  # that one has no plugins
            lines.append("    load its library with --plugin-library LIB; `surgeon plugins build` makes surgeon's own")
        elif refusal.fixed_by:
            lines.append(
                f"    the pass '{refusal.fixed_by}' may fix this: "
                f"surgeon rewrite {shlex.quote(str(source))} OUT.onnx --target {target_of(trt)}"
            )
        elif refusal.node:
            lines.append(f"    no pass rewrites this node for {target_of(trt)}")
    return lines


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a parser: its name and version, and the nodes that it refuses, in its own words.

    why_not  why it gave none; empty where it did
    """

    parser: str
    refused: list[Untaken]
    why_not: str = ""


def ask(file: str, target: Target) -> Answer | None:
    """The answer of a target's parser for a file; None if that TensorRT is not installed, or cannot work here."""
    if why_not(target):
        return None
    try:
        trt = use(_module(target))
        with PolygraphyLog():
            refused = _refusals_apart(trt, Path(file))
    except Exceeded as limit:
        return Answer(title(trt), [], f"{title(trt)} {limit}")
    except Crashed as crash:
        return Answer(title(trt), [Untaken("", "", f"the parser crashes ({crash})")])
    except SurgeonError:  # it does not load, or Polygraphy drives the other one in this process
        return None
    told = [replace(refusal, why=_NO_DRIVER.sub("", refusal.why).strip()) for refusal in refused]
    return None if any(not refusal.why for refusal in told) else Answer(title(trt), told)


def _refusals_apart(trt: Any, file: Path) -> list[Untaken]:
    """`parser_refusals`, by TensorRT-RTX in a process of its own. TensorRT uses the GPU, which no fork can share."""
    if trt.__name__ != RTX:
        return parser_refusals(trt, file)
    return survived(lambda: parser_refusals(trt, file), seconds=SECONDS)


def why_not(target: Target) -> str:
    """Why the TensorRT of a target cannot work here; empty where it can.

    TensorRT-RTX parses without a GPU. TensorRT needs one, and is asked only where it is the very row of the target.
    """
    if target.dla:
        return "a parser does not report what DLA supports"
    module = _module(target)
    version = installed_version(module)
    if not version:
        return f"no {target_name(str(target))} is installed here"
    if module == RTX:
        return ""
    if row_of(tuple(int(n) for n in re.findall(r"\d+", version)[:3])) != target.version:
        return f"TensorRT {version} is installed here, not {target}"
    return "" if gpu() else f"TensorRT {version} is installed here, and needs a GPU"


def _module(target: Target) -> str:
    return RTX if target.rtx else CLASSIC
