"""Work in a process of its own: Python programs, and calls that may crash."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from surgeon import guard

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

G = TypeVar("G")
T = TypeVar("T")

PAUSE = 0.1  # seconds between two looks at what a fork takes

# `python -c` looks for modules in the current folder first: a file `json.py` there would run in place of Python's own.
# Python 3.10 has no option against it that leaves PYTHONPATH and the user's own packages in force.
_NOT_FROM_HERE = "import sys\nsys.path = [p for p in sys.path if p]\n"


def python(program: str) -> list[str]:
    """The command that runs a program, which imports nothing from the current folder; arguments may follow."""
    return [sys.executable, "-c", _NOT_FROM_HERE + program]


class Crashed(Exception):
    """The process of a call ended without a result; the message says by what."""


class Exceeded(Crashed):
    """A call was ended, since it took more than it may; the message says of what."""


class Fork(Generic[G, T]):
    """A call that is made in a fork of this process, so that a crash does not end this one.

    The fork is made when it is first needed, and makes one call after the other until `end`. What it is given, the
    result and what the call raises must be picklable. Where there is no fork, the call is made here.

    seconds  that a call may take
    memory   bytes that the fork may hold, over those that this process holds
    """

    def __init__(self, call: Callable[[G], T], *, seconds: float = math.inf, memory: float = math.inf) -> None:
        self._call = call
        self._seconds, self._memory = seconds, memory
        self._child = self._owner = 0
        self._answers: Connection | None = None  # of the fork, if there is one now
        self._ended: Callable[[], Any] = int

    def __call__(self, given: G) -> T:
        """The result of the call. Raises Crashed, and what the call raises."""
        if not hasattr(os, "fork"):
            return self._call(given)
        if self.is_there:
            try:
                return self._asked(given)
            except Exceeded:
                raise
            except Crashed:
                pass
            # What an earlier call did to the memory of the fork may be why: only a new one tells.
        return self._asked(given)

    @property
    def is_there(self) -> bool:
        """Whether a fork has begun. A copy of this process, as multiprocessing makes them, has none yet."""
        return self._answers is not None and self._owner == os.getpid()

    def end(self) -> int:
        """End the fork, if there is one; its exit status, as `os.waitpid` gives it."""
        ended, self._ended, self._answers = self._ended, int, None
        status: int = ended()
        return status

    def _asked(self, given: G) -> T:
        answers = (self.is_there and self._answers) or self._begun()
        try:
            answers.send(given)
            self._wait(answers)
            result, error = answers.recv()
        except Exceeded:
            self.end()
            raise
        except Exception:  # it ended, or its answer cannot be read
            status = self.end()
        except BaseException:  # an answer that is still to come belongs to no later call
            self.end()
            raise
        else:
            if error is not None:
                raise error
            made: T = result
            return made
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            raise Crashed(signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}")
        raise Crashed(f"exit status {os.waitstatus_to_exitcode(status)}")

    def _wait(self, answers: Connection) -> None:
        """Wait for the beginning of an answer. Raises Exceeded."""
        until, most = time.monotonic() + self._seconds, guard.memory(os.getpid()) + self._memory
        while not answers.poll(PAUSE):
            if time.monotonic() > until:
                raise Exceeded(f"takes longer than {self._seconds:.3g} s")
            if guard.memory(self._child) > most:
                raise Exceeded(f"takes more than {self._memory / guard.GIB:.3g} GiB of memory")

    def _begun(self) -> Connection:
        """A new fork, by the end of its pipe that is here."""
        from multiprocessing import Pipe

        here, there = Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 has one for programs with threads
            child = os.fork()
        if not child:
            here.close()
            _answer(self._call, there)
        there.close()
        self._answers, self._child, self._owner = here, child, os.getpid()
        self._ended = weakref.finalize(self, _end, child, here, os.getpid())
        return here


def survived(call: Callable[[], T], *, seconds: float = math.inf) -> T:
    """The result of one call that is made in a fork of this process, and may take so many seconds. Raises Crashed,
    Exceeded, and what the call raises."""
    fork: Fork[None, T] = Fork(lambda _: call(), seconds=seconds)
    try:
        return fork(None)
    finally:
        fork.end()


def _answer(call: Callable[[G], object], requests: Connection) -> NoReturn:
    """Make calls and send their results, and end without what this process would do at its exit."""
    with contextlib.suppress(BaseException):
        while True:
            given = requests.recv_bytes()
            try:
                answer = pickle.dumps((call(pickle.loads(given)), None))
            except Exception as error:
                answer = pickle.dumps((None, error))
            requests.send_bytes(answer)
    os._exit(0)


def _end(child: int, answers: Connection, owner: int) -> int:
    """End a fork; its exit status. Does nothing in a fork of its owner."""
    if os.getpid() != owner:
        return 0
    answers.close()
    os.kill(child, signal.SIGKILL)  # which one that crashed, and was not waited for, does not notice
    return os.waitpid(child, 0)[1]
