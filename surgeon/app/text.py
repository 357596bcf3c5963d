"""The words that the command line, the page and the explanations share: agreement, reasons, aligned lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from surgeon.report import error_text
from surgeon.verdict_text import nameless, shared_reason

WITHIN = 1e-5  # the relative difference that fp32 results may have without further questions


def agreement(error: float) -> str:
    """How well whole models agree, given the largest error.

    Beyond the tolerance they agree only where the original is as far from a float64 evaluation itself.
    """
    if error <= WITHIN:
        return f" to {error_text(error)}"
    return f" to the original's own rounding ({error_text(error)} on its most sensitive inputs)"


def by_reason(rows: Iterable[tuple[str, ...]]) -> dict[str, list[tuple[str, ...]]]:
    """Rows by their last cell, a reason; reasons that differ only in names are one."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        groups.setdefault(nameless(row[-1]), []).append(row)
    return {shared_reason([r[-1] for r in alike]): alike for alike in groups.values()}


def one_line(error: Exception) -> str:
    """An exception's message in one line of at most 400 characters, with a full stop."""
    text = " ".join(str(error).split())[:400]
    return text if text.endswith(".") else f"{text}."


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows as lines, columns two spaces apart; the last column is as long as it is."""
    if not rows:
        return
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]]).rstrip()
