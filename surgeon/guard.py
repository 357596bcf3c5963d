"""A second process that watches the program's own: onnx and ONNX Runtime crash on some models, and others take all
memory that there is. It says so in a sentence, where a shell would say "Segmentation fault" and a machine freeze.

A program that crashes is begun once more, with each run of a model in a process of its own: the same crash then ends
one run alone.

The program's process is a fork made before anything is imported, so the watching one is small, and starting it takes a
millisecond. Signals reach the program as if there were no other process, and its exit status is that of both.
It needs Linux: elsewhere nothing is watched.
"""

import contextlib
import mmap
import os
import signal
import struct
import sys
import time
from typing import NoReturn

WRONG = 2  # exit status
GIB = 1 << 30
MOST = 4 * GIB  # bytes of memory in any case, and so many times the bytes of the files that are read (--fp16 took 25):
TIMES = 64
FAR = 1 << 50  # bytes of memory that no machine has
APART = "SURGEON_APART"  # the variable by which `surgeon.ir.run` runs each model in a process of its own
ASKED = "SURGEON_MEMORY"  # the variable of the environment with another limit, in GiB
PAUSE = 0.1  # seconds between two looks
GRACE = 0.3  # seconds in which the program ends by a signal that its whole group got
CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP")
FROM_KERNEL = 0x80  # si_code of a signal that a terminal sent, to the whole group
PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl
_COUNT = struct.Struct("q")

_shared: mmap.mmap | None = None  # the bytes of the files that the program has read, which both processes see
_files: dict[str, int] = {}  # their bytes, one by one


def begin() -> None:
    """Go on in a process of its own. The one that watches it does not return."""
    global _shared
    if sys.platform != "linux" or _shared is not None:
        return
    _shared = mmap.mmap(-1, _COUNT.size)
    heard = {getattr(signal, name) for name in (*FORWARDED, "SIGCHLD")}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    watching = os.getpid()
    child = os.fork()
    if child and APART not in os.environ and _crashes(child, heard):
        os.environ[APART] = "1"
        child = os.fork()
    if child:
        with contextlib.suppress(BaseException):
            _leave(_watch(child, heard))
        os._exit(WRONG)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _end_with(watching)


def _crashes(child: int, heard: set[signal.Signals]) -> bool:
    """Whether a crash ends the program, which is reported; does not return where it ends otherwise."""
    with contextlib.suppress(BaseException):
        status = _watch(child, heard)
        name = _signal(status)
        if name not in CRASHES:
            _leave(status)
        text = f"{name} in onnx, ONNX Runtime or TensorRT. Trying again, each run in a process of its own."
        os.write(2, f"surgeon: crash: {text}\n".encode())
        return True
    os._exit(WRONG)


def count(path: str | os.PathLike[str], size: int) -> None:
    """The program reads a file of so many bytes, and may take memory for it."""
    _files[os.fspath(path)] = size
    if _shared is not None:
        _COUNT.pack_into(_shared, 0, sum(_files.values()))


def lift() -> None:
    """The program may take whatever there is from here on: TensorRT builds an engine."""
    count("", FAR)


def memory(process: int) -> int:
    """The memory that a process holds, without what it has mapped of files, in bytes; 0 where that is not known."""
    try:
        with open(f"/proc/{process}/statm") as file:
            _, resident, of_files, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - of_files) * mmap.PAGESIZE


def limit() -> int:
    """The memory that the program may hold by now, in bytes."""
    with contextlib.suppress(KeyError, ValueError, OverflowError):
        return int(float(os.environ[ASKED]) * GIB)
    return MOST + TIMES * (0 if _shared is None else _COUNT.unpack_from(_shared)[0])


def _end_with(watching: int) -> None:
    """Let the kernel end this process when the one that watches it is killed: nobody else would."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL)
    if os.getppid() != watching:
        os._exit(WRONG)


def _watch(child: int, heard: set[signal.Signals]) -> int:
    """Wait for the program's end, and pass signals on; returns its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        most = limit()
        if memory(child) > most:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            _say(
                f"stopped, since it took more than {most / GIB:g} GiB of memory: a size in the model is too large, "
                f"or {ASKED}=N has to allow N GiB. No file was left half written."
            )
        came = signal.sigtimedwait(heard, PAUSE)
        if came is not None and came.si_signo != signal.SIGCHLD:
            _hand_on(child, came)


def _hand_on(child: int, came: signal.struct_siginfo) -> None:
    """Send the program a signal, where it has not got that itself: a terminal, and a kill of the group, send it."""
    if came.si_code == FROM_KERNEL:
        return
    until = time.monotonic() + GRACE
    while time.monotonic() < until:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(PAUSE / 10)
    os.kill(child, came.si_signo)


def _leave(status: int) -> NoReturn:
    """End as the program has ended; say so where a crash has ended it."""
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number, name = os.WTERMSIG(status), _signal(status)
    if name in CRASHES:
        _say(
            f"stopped by a crash ({name}): onnx, ONNX Runtime or TensorRT ended the process over a model. No file was "
            "left half written. Please report it with the model."
        )
    if name == "SIGKILL":
        _say("stopped by SIGKILL, as where memory runs out. No file was left half written.")
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _signal(status: int) -> str:
    """The signal that ended a process; empty where none did."""
    if not os.WIFSIGNALED(status):
        return ""
    number = os.WTERMSIG(status)
    return signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"


def _say(text: str) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, f"surgeon: {text}\n".encode())
    os._exit(WRONG)
