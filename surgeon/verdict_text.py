"""The verdict on a run in sentences, for the terminal, the page and a notebook."""

import re
from collections import Counter
from collections.abc import Sequence

from surgeon.report import MEASURED, TESTED, UNPROVED, Conversion, Report, counted, target_name

QUOTED = re.compile("'([^']+)'")
NAMED = re.compile(r"'[^']+'|%\w+")  # tensors of a file, and of PyTorch's record in it
NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]\d+)?")
GRADED = {TESTED: "proved", MEASURED: "measured", UNPROVED: "not proved"}
MOST_OTHERS = 3  # nodes that are named after the first
SHOWN_SIZE = 50_000  # bytes: a smaller difference is 0.0 MB


def answer(report: Report, saved: int | None = None, conversion: Conversion | None = None) -> str:
    """The verdict: how many nodes the target supports now, what was proved, and how much smaller the file is.

    saved       by how many bytes it is smaller; None where nothing was written
    conversion  to half precision; where it failed, that comes first, and nothing else where no model is written
    """
    failure = "" if conversion is None else conversion.failure
    if failure and conversion is not None and conversion.withheld:
        return failure
    said = [failure] if failure else []
    said.append(_taken(report))
    if report.applied:
        grades = Counter(a.grade for a in report.applied)
        (grade, first), *rest = [(words, grades[grade]) for grade, words in GRADED.items() if grades[grade]]
        said.append(", ".join([f"{counted(first, 'rewrite')} {grade}", *(f"{n} {words}" for words, n in rest)]))
    if report.undone:
        said.append(f"{len(report.undone)} undone")
    if saved is not None and abs(saved) >= SHOWN_SIZE:
        said.append(f"{size_text(abs(saved))} {'smaller' if saved > 0 else 'larger'}")
    return "; ".join(said)


def size_text(count: int) -> str:
    """A number of bytes as people say it: "1.2 MB"."""
    return f"{round(count / 1e6, 1) + 0.0:.1f} MB"  # -0.0 is 0.0


def _taken(report: Report) -> str:
    """How many nodes the target supports now, and how many it supported before."""
    name, after, before = target_name(report.target), report.nodes_after, report.nodes_before
    unknown, took = len(report.unknown), before - report.untaken_before
    stay = len(report.untaken) + unknown
    if not stay and not report.untaken_before:
        all_before = f"all {before}" if before > 1 else "1 of 1"
        return f"{name} supports {_all(after)}" + (f" ({all_before} before)" if before != after else "")
    if not stay:
        return f"{name} supports {_all(after)} ({took} of {before} before)"
    unchanged = (after - stay, after) == (took, before)
    was = "unchanged" if unchanged else f"{took} of {before} before"
    gpu = f"; the GPU runs {stay - unknown}" if report.untaken and not report.refused else ""
    unsure = f"; {unknown} {'is' if unknown == 1 else 'are'} unknown" if unknown else ""
    return f"{name} supports {after - stay} of {after} nodes ({was}){gpu}{unsure}"


def _all(nodes: int) -> str:
    return f"all {nodes} nodes" if nodes > 1 else "the only node" if nodes else "the model, which has no nodes"


def nameless(reason: str) -> str:
    """A reason without the names that it quotes: what it shares with the same reason about other nodes."""
    return QUOTED.sub("'...'", reason)


def numberless(reason: str) -> str:
    """A reason without its names and its measured numbers."""
    return NUMBER.sub("...", nameless(reason))


def shared_reason(reasons: Sequence[str]) -> str:
    """One reason for several that differ in the names that they quote, if in anything."""
    return reasons[0] if len(set(reasons)) == 1 else nameless(reasons[0])


def merged(warnings: Sequence[str]) -> list[str]:
    """Warnings about nodes, `node: text`; those that differ only in names are one, followed by the other nodes."""
    groups: dict[str, list[str]] = {}
    for warning in warnings:
        node, _, text = warning.partition(": ")
        groups.setdefault(NAMED.sub("...", text.replace(node, "...")) if text else warning, []).append(warning)
    return [_with_others(alike) for alike in groups.values()]


def _with_others(alike: Sequence[str]) -> str:
    if len(alike) == 1:
        return alike[0]
    others = list(dict.fromkeys(w.partition(": ")[0] for w in alike[1:]))
    more = f" and {len(others) - MOST_OTHERS} more" if len(others) > MOST_OTHERS else ""
    return f"{alike[0]} (also {', '.join(others[:MOST_OTHERS])}{more})"
