"""`surgeon prove PASS`: how far each rule of a pass is proved, window by window or for all sizes."""

from __future__ import annotations

import argparse

from surgeon.app.commands import DONE
from surgeon.app.screen import Screen
from surgeon.errors import UsageError, did_you_mean
from surgeon.proof.certificate import certify
from surgeon.report import TESTED
from surgeon.rules.registry import passes
from surgeon.rules.rule import Stage

WHOLE_MODEL = "a rule over the whole model has no pattern to draw windows from"
FOR_ONE_TARGET = "it writes what one target takes"


def run(args: argparse.Namespace) -> int:
    by_name = {p.name: p for p in passes(args.passes)}
    if args.name not in by_name:
        raise UsageError(f"no pass is called '{args.name}'.{did_you_mean(args.name, by_name)}")
    p = by_name[args.name]
    rows = []
    for rule in p.rules:
        if rule.stage is Stage.LOWER:
            rows.append((rule.body.__name__, rule.stage.value, TESTED, "-", FOR_ONE_TARGET))
            continue
        found = certify(rule)
        rows.append((found.rule, found.stage, found.grade, str(found.windows), found.why))
    rows += [(r.body.__name__, r.stage.value, TESTED, "-", WHOLE_MODEL) for r in p.model_rules]
    screen = Screen(args.quiet)
    screen.table("rule", ("rule", "stage", "grade", "windows", "why it is not for all sizes"), rows)
    screen.line("Each rewrite of a model is proved on its own window besides, whatever its rule's grade.")
    return DONE
