"""The commands, a module each: `run(args)` takes the parsed arguments, prints, and returns the exit status."""

from __future__ import annotations

from collections.abc import Sequence

from surgeon.report import Report

# The exit statuses, one meaning each; docs/exit-status.md has the table.
DONE = 0
FAILED = 1  # something was undone, differs or could not be compared, or TensorRT refused to parse, build or run
WRONG = 2  # a usage error, or a model that cannot be read or written
UNTAKEN = 3  # the target does not support every node of the result
CHANGES = 4  # --check: something would change
WORST_FIRST = (WRONG, FAILED, UNTAKEN, CHANGES, DONE)
MEANINGS = {DONE: "done", WRONG: "wrong usage, or a file that cannot be read or written"}
_REWRITTEN = {
    FAILED: "a rewrite was undone, models differ, or a conversion's error is too large",
    UNTAKEN: "the target does not support every node of the result",
}
# What else the commands exit with, as their help has it.
STATUSES: dict[str, dict[int, str]] = {
    "fix": {**_REWRITTEN, FAILED: "a rewrite was undone, the result differs, or TensorRT-RTX does not build it"},
    "rewrite": {**_REWRITTEN, CHANGES: "--check: a rewrite would change something"},
    "check": {DONE: "the target supports every node", FAILED: "the target does not support every node"},
    "why": {FAILED: "the log has no known error"},
    "verify": {FAILED: "a file or a rewrite is not that of the report"},
    "build": {FAILED: "TensorRT refused to parse or build the model"},
    "kernels": {FAILED: "TensorRT refused the model, or the engine cannot be read"},
    "compare": {DONE: "the models agree", FAILED: "the models differ, or could not be compared"},
    "diff-targets": {FAILED: "TO does not support nodes that FROM supports"},
    "plugins build": {FAILED: "the library could not be compiled"},
}


def status_of(report: Report, *, changes: bool = False, broken: bool = False) -> int:
    """The exit status of a rewrite, the worst first.

    changes  --check found something to change
    broken   something beside the report failed, such as a conversion to fp16
    """
    if report.broken or broken:
        return FAILED
    if report.refused:
        return UNTAKEN
    return CHANGES if changes else DONE


def ended(status: int, exit_zero: bool) -> int:
    """The exit status with --exit-zero: 0 in place of what was found; what cannot be read stays a failure."""
    return DONE if exit_zero and status in (FAILED, UNTAKEN, CHANGES) else status


def known(status: int) -> int:
    """A status of the table; a process that a signal ended counts as failed."""
    return status if status in WORST_FIRST else FAILED


def worst(statuses: Sequence[int]) -> int:
    """The status of several models: the worst of any."""
    return min(map(known, statuses), key=WORST_FIRST.index)
