"""Which targets each condition and each row of the tables holds for, as tests/releases.txt has it.

The examples of a condition ask at the first and the last release that its own row names, so a release that is mistyped
shows here alone. After an intended change:

    python tests/test_releases.py
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from surgeon.targets import dtypes, evidence, known_bugs, plans, plugins, tables
from surgeon.targets.conditions import conditions
from surgeon.targets.releases import RELEASES, Range, dotted

RECORD = Path(__file__).with_name("releases.txt")


def held(where: Range) -> str:
    """`8.0-8.6 10.14-11.4? rtx`: the releases, those of which it is unknown, and TensorRT-RTX; DLA where it differs."""
    alone, beside = _runs(where, dla=False), _runs(where, dla=True)
    rtx = "rtx" if where.covers(RELEASES[-1], rtx=True) else "rtx?" if where.doubts(RELEASES[-1], rtx=True) else ""
    return " ".join(filter(None, (alone, rtx, f"dla: {beside or 'none'}" if beside != alone else "")))


def _runs(where: Range, *, dla: bool) -> str:
    states = [(r, "" if where.covers(r, dla=dla) else "?" if where.doubts(r) else "-") for r in RELEASES]
    runs = [(state, [r for r, _ in run]) for state, run in groupby(states, key=lambda pair: pair[1])]
    return " ".join(f"{dotted(run[0])}-{dotted(run[-1])}{state}" for state, run in runs if state != "-")


def rows() -> Iterator[str]:
    for condition in conditions():
        for scope in condition.scopes:
            yield f"{condition.name} of {' '.join(scope.operators)}: {held(scope.targets)}"
    for module in (dtypes, evidence, plugins, tables):
        for name, value in vars(module).items():
            if name.isupper() and not isinstance(value, type):
                yield from (f"{module.__name__.rpartition('.')[2]}.{name}{text}" for text in _ranges(value))
    for op in sorted({op for release in RELEASES for op in tables.importers(release, rtx=False)}):
        has = [r for r in RELEASES if op in tables.importers(r, rtx=False)]
        yield f"importer of {op}: {dotted(has[0])}-{dotted(has[-1])}"
    yield f"no importer of TensorRT-RTX: {' '.join(sorted(tables.RTX_WITHOUT))}"
    yield f"opsets: {' '.join(str(tables.opset_of(release)) for release in RELEASES)}"
    yield from (f"bug, {bug.what}: {held(bug.targets)}" for bug in known_bugs.bugs())
    for row in plans.rows():
        what = [row.gone, row.made, row.without, row.where, row.elements]
        yield f"plan, {what}: {held(row.targets)}"


def _ranges(value: object) -> Iterator[str]:
    if isinstance(value, Range):
        yield f": {held(value)}"
    elif isinstance(value, dict):
        yield from (f" {key}{text}" for key, inner in value.items() for text in _ranges(inner))


def test_every_condition_and_table_holds_for_the_recorded_targets() -> None:
    assert sorted(rows()) == RECORD.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    RECORD.write_text("\n".join(sorted(rows())) + "\n", encoding="utf-8")
