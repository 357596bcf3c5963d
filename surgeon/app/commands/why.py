"""`surgeon why`: what an error of TensorRT means, which node it is about, what fixes it, and the command to type."""

import argparse
import sys
from pathlib import Path

from surgeon.app.commands import DONE, FAILED
from surgeon.app.screen import Screen
from surgeon.errors import UsageError
from surgeon.report import target_name
from surgeon.targets.target import Target
from surgeon.trt.causes import CAUSES, Weight
from surgeon.trt.why import UNKNOWN, Finding, command, in_model, release_of, why

MODEL = "MODEL.onnx"


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    if args.causes:
        screen.table("cause", ("name", "what it means", "what helps"), [(c.name, c.means, c.helps) for c in CAUSES])
        return DONE
    log = _log(args.log)
    found = why(log)
    if not found:
        screen.line("unknown: no line of this text is in surgeon's table of causes", "bad")
        screen.line("next: surgeon check MODEL.onnx --target T lists the nodes that a TensorRT does not support", "dim")
        return FAILED
    first, *others = found
    target = Target.parse(args.target) if args.target else release_of(log, first.cause)
    if args.model is not None:
        first = in_model(first, log, args.model, target)
    _print(first, args.model or MODEL, target, screen)
    also = [(f.cause.name, f.line) for f in others if f.cause.weight > Weight.OPEN and f.line != first.line]
    screen.table("also", ("cause", "line"), also)
    return DONE


def _log(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    if name != "-":
        return Path(name).read_text(encoding="utf-8", errors="replace")
    if sys.stdin.isatty():
        raise UsageError("name a file with the log, or pipe it in: trtexec ... 2>&1 | surgeon why")
    return sys.stdin.read()


def _print(finding: Finding, model: str, target: Target | None, screen: Screen) -> None:
    screen.line(f"{finding.cause.name}: {finding.cause.means}", "bad")
    if finding.says:
        screen.line(finding.says)
    typed = command(finding, model, target)
    rows = [("line", finding.line), ("node", _node(finding)), ("fixed by", _passes(finding, model, target))]
    rows += [("what helps", finding.cause.helps), ("command", typed)]
    for name, text in rows:
        if text:
            screen.line(f"  {name:<10}  {text}")
    if target is None and UNKNOWN in typed:
        screen.line(f"the log does not name its TensorRT: give --target, or replace {UNKNOWN}", "dim")


def _node(finding: Finding) -> str:
    named = " ".join(filter(None, (finding.operator, finding.node)))
    return f"{named}; the model has no node of this name" if finding.missing else named


def _passes(finding: Finding, model: str, target: Target | None) -> str:
    """The passes that rewrite the node; empty without the model, the node in it, or the target."""
    if model == MODEL or finding.missing or not finding.node or target is None:
        return ""
    return finding.fixed_by or f"no pass rewrites this node for {target_name(str(target))}"
