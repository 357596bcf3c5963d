"""Python programs in a process of their own."""

from __future__ import annotations

import sys

# `python -c` looks for modules in the current folder first: a file `json.py` there would run in place of Python's own.
# Python 3.10 has no option against it that leaves PYTHONPATH and the user's own packages in force.
_NOT_FROM_HERE = "import sys\nsys.path = [p for p in sys.path if p]\n"


def python(program: str) -> list[str]:
    """The command that runs a program, which imports nothing from the current folder; arguments may follow."""
    return [sys.executable, "-c", _NOT_FROM_HERE + program]


__all__ = ["python"]
