"""Work in a process of its own: Python programs, and calls that may crash."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")

# `python -c` looks for modules in the current folder first: a file `json.py` there would run in place of Python's own.
# Python 3.10 has no option against it that leaves PYTHONPATH and the user's own packages in force.
_NOT_FROM_HERE = "import sys\nsys.path = [p for p in sys.path if p]\n"


def python(program: str) -> list[str]:
    """The command that runs a program, which imports nothing from the current folder; arguments may follow."""
    return [sys.executable, "-c", _NOT_FROM_HERE + program]


class Crashed(Exception):
    """The process of a call ended without a result; the message says by what."""


def survived(call: Callable[[], T]) -> T:
    """The result of a call that is made in a fork of this process, so that a crash does not end this one.

    The result, or what the call raises, must be picklable. Where there is no fork, the call is made here.
    Raises Crashed, and what the call raises.
    """
    if not hasattr(os, "fork"):
        return call()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 has one for programs with threads
        child = os.fork()
    if not child:
        os.close(reader)
        _answer(call, writer)
    os.close(writer)
    with open(reader, "rb") as answers:
        data = answers.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        raise Crashed(signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}")
    try:
        result, error = pickle.loads(data)
    except Exception:
        raise Crashed(f"exit status {os.waitstatus_to_exitcode(status)}") from None
    if error is not None:
        raise error
    made: T = result
    return made


def _answer(call: Callable[[], object], writer: int) -> NoReturn:
    """Make the call, write its result, and end without what this process would do at its exit."""
    with contextlib.suppress(BaseException):
        try:
            answer = pickle.dumps((call(), None))
        except Exception as error:
            answer = pickle.dumps((None, error))
        with open(writer, "wb") as answers:
            answers.write(answer)
    os._exit(0)


__all__ = ["Crashed", "python", "survived"]
