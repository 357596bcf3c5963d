"""`surgeon diff-targets`: compare two targets for a model."""

import argparse
import shlex
from collections.abc import Iterator

from surgeon.app.commands import DONE, FAILED
from surgeon.app.commands.check import print_groups
from surgeon.app.screen import Screen
from surgeon.pipeline.check import Checked, Untaken, check
from surgeon.report import counted, target_name
from surgeon.targets import plugins, tables
from surgeon.targets.evidence import basis
from surgeon.targets.target import Target


def run(args: argparse.Namespace) -> int:
    screen = Screen(args.quiet)
    old, new = Target.parse(args.old), Target.parse(args.new)
    before, after = check(args.model, target=old), check(args.model, target=new)
    screen.line(f"{args.model}, from target {_title(old)} to {_title(new)}")
    screen.table("target", ("what", "before", "now"), list(_facts(old, new)), plain=("{}", "{} ->", "{}"))
    lost = _only(after, before)
    print_groups("unsupported now", lost, screen, "bad")
    print_groups("supported now; before", _only(before, after), screen, "good")
    print_groups("unsupported by both", [u for u in after.untaken if u not in lost], screen, "warn")
    print_groups("unknown", after.unknown, screen, "warn")
    screen.table("rewrite", ("pass", "before", "now"), list(_passes(before, after)), plain=("{}", "{}x ->", "{}x"))
    name = target_name(str(new))
    if not lost:
        but = f" except {counted(len(after.unknown), 'unknown node')}" if after.unknown else ""
        screen.line(f"{name} supports every node that {target_name(str(old))} supports{but} ({basis(new)})", "good")
        return DONE
    rewrite = f"surgeon rewrite {shlex.quote(args.model)} OUT.onnx --target {new}"
    screen.line(
        f"{name} does not support {counted(len(lost), 'node')} that {target_name(str(old))} supports; {rewrite}", "bad"
    )
    return FAILED


def _title(target: Target) -> str:
    return f"{target} ({target.note})" if target.note else str(target)


def _facts(old: Target, new: Target) -> Iterator[tuple[str, str, str]]:
    """(what, before, now) for each difference between the targets themselves."""
    rows = [
        ("opset that the parser reads", str(old.opset), str(new.opset)),
        ("operators", _count(old), _count(new)),
        ("plugins", _yes(old.plugins), _yes(new.plugins)),
        ("newer opsets read with older meanings", _yes(old.lowers_opset), _yes(new.lowers_opset)),
        *((f"stock plugin {name}", _stock(name, old), _stock(name, new)) for name in plugins.STOCK),
    ]
    return (row for row in rows if row[1] != row[2])


def _count(target: Target) -> str:
    return str(len(tables.importers(target.version, target.rtx)))


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _stock(name: str, target: Target) -> str:
    return _yes(plugins.why_no_plugin(name, target.version, rtx=target.rtx) is None)


def _only(these: Checked, others: Checked) -> list[Untaken]:
    """The nodes that one target does not support, and the other supports."""
    known = {(u.node, u.op) for u in others.untaken}
    return [u for u in these.untaken if (u.node, u.op) not in known]


def _passes(before: Checked, after: Checked) -> Iterator[tuple[str, str, str]]:
    """(pass, before, now): how often a pass rewrites the model, if that differs."""
    for name in sorted({*before.rewrites, *after.rewrites}):
        times = before.rewrites.get(name, 0), after.rewrites.get(name, 0)
        if times[0] != times[1]:
            yield name, str(times[0]), str(times[1])
