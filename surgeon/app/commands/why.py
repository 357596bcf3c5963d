"""`surgeon why`: what an error of TensorRT means, which node it is about, what fixes it, and the command to type."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from surgeon.app.commands import DONE, FAILED
from surgeon.app.screen import Screen
from surgeon.errors import UsageError
from surgeon.report import target_name
from surgeon.targets.target import Target
from surgeon.trt.causes import CAUSES, Weight
from surgeon.trt.why import Finding, command, in_model, release_of, why

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
    named = Target.parse(args.target) if args.target else release_of(log)
    target = named or Target.default()
    first, *others = found
    if args.model is not None:
        first = in_model(first, log, args.model, target)
    _print(first, args.model or MODEL, target, screen)
    if named is None:
        screen.line(f"the log does not name its TensorRT: {target} is a guess, --target names another", "dim")
    screen.table("also", ("cause", "line"), [(f.cause.name, f.line) for f in others if f.cause.weight > Weight.OPEN])
    return DONE


def _log(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    if name != "-":
        return Path(name).read_text(encoding="utf-8", errors="replace")
    if sys.stdin.isatty():
        raise UsageError("name a file with the log, or pipe it in: trtexec ... 2>&1 | surgeon why")
    return sys.stdin.read()


def _print(finding: Finding, model: str, target: Target, screen: Screen) -> None:
    screen.line(f"{finding.cause.name}: {finding.cause.means}", "bad")
    if finding.says:
        screen.line(finding.says)
    rows = [("line", finding.line), ("node", _node(finding)), ("fixed by", _passes(finding, model, target))]
    rows += [("what helps", finding.cause.helps), ("type", command(finding, model, str(target)))]
    for name, text in rows:
        if text:
            screen.line(f"  {name:<10}  {text}")


def _node(finding: Finding) -> str:
    return " ".join(filter(None, (finding.operator, finding.node)))


def _passes(finding: Finding, model: str, target: Target) -> str:
    """The passes that rewrite the node; empty without the model."""
    if model == MODEL or not finding.node:
        return ""
    return finding.fixed_by or f"no pass rewrites this node for {target_name(str(target))}"
