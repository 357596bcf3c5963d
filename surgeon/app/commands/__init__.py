"""The commands: `run(args)` of a module takes the parsed arguments, prints, and returns the exit status.

The functions of `small` do the same.
"""

from collections.abc import Sequence

from surgeon.report import Report

# The exit statuses, one meaning each; docs/exit-status.md has the table.
DONE = 0
FAILED = 1  # something was undone, differs or could not be compared, or TensorRT refused to parse, build or run
WRONG = 2  # a usage error, or a model that cannot be read or written
UNTAKEN = 3  # the target does not support every node of the result
CHANGES = 4  # --check: something would change
WORST_FIRST = (WRONG, FAILED, UNTAKEN, CHANGES, DONE)


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
