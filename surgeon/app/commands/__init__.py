"""The commands, a module each: `run(args)` takes the parsed arguments, prints, and returns the exit status."""

from __future__ import annotations

from surgeon.report import Report

# The exit statuses, one meaning each; docs/exit-status.md has the table.
DONE = 0
FAILED = 1  # something was undone, differs or could not be compared, or TensorRT refused to parse, build or run
WRONG = 2  # a usage error, or a model that cannot be read or written
UNTAKEN = 3  # something stays that the target does not take
CHANGES = 4  # --check: something would change


def status_of(report: Report, *, changes: bool = False, broken: bool = False) -> int:
    """The exit status of a rewrite, the worst first.

    changes  --check found something to change
    broken   something beside the report failed, such as a conversion to fp16
    """
    if report.broken or broken:
        return FAILED
    if report.untaken:
        return UNTAKEN
    return CHANGES if changes else DONE
