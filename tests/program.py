"""surgeon's command line, and a Python program, in the process of the tests: a start of Python takes half a second.

    done = surgeon("rewrite", "in.onnx", "out.onnx", cwd=folder)
    assert done.returncode == 0, done.stderr

`on_terminal` gives what a terminal shows of a command. With the fixture `batches_here` a batch runs its models so, one
after the other.

They run as in a process of their own: in a folder, with an environment, and with standard output and error as files, so
that what a library written in C prints is there as well. Nothing of it is superseded. test_processes.py starts each
command in a real process.
"""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import IO, Any

import pytest

from surgeon.app import batch
from surgeon.app.cli import main
from surgeon.app.screen import flush, steady
from surgeon.rules import meaning
from surgeon.rules.registry import passes

ROOT = Path(__file__).resolve().parent.parent
# What Python does with a warning unless it is told otherwise: pytest would collect it, and nothing be printed.
SHOWN = [("default", None, DeprecationWarning, "__main__", 0)]
SHOWN += [
    ("ignore", None, kind, None, 0)
    for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
]


def surgeon(
    *words: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None, merged: bool = False
) -> CompletedProcess[str]:
    """Run a command of surgeon in the folder `cwd`; with `merged`, standard error goes to standard output."""
    given = [str(w) for w in words]
    return _run(["surgeon", *given], lambda: main(given), cwd, env, merged)


def on_terminal(columns: int, *words: str | Path) -> tuple[int, list[str]]:
    """The exit status of a command of surgeon on a pseudo-terminal of so many columns, and the lines there."""
    import pty  # which Windows does not have

    leader, follower = pty.openpty()
    shown: list[bytes] = []
    reader = threading.Thread(target=lambda: shown.extend(iter(partial(_read, leader), b"")))
    reader.start()
    given, env = [str(w) for w in words], {"COLUMNS": str(columns), "TERM": "xterm-256color"}
    with (
        os.fdopen(follower, "wb", buffering=0) as terminal,
        _kept(["surgeon", *given], ROOT, env, None),
        _streams(terminal, terminal),
    ):
        status = _status(lambda: main(given))
    reader.join()
    os.close(leader)
    return status, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(shown).decode()).splitlines()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # Linux says so when the other end is closed
        return b""


def python(
    program: str | Path, *words: str, cwd: Path, env: Mapping[str, str] | None = None, merged: bool = False
) -> CompletedProcess[str]:
    """Run a file of Python, or a text, in the folder `cwd`, as `python FILE WORDS` and `python -c TEXT` do."""

    def run() -> int:
        if isinstance(program, Path):
            runpy.run_path(str(cwd / program), run_name="__main__")
        else:
            exec(compile(program, "<string>", "exec", dont_inherit=True), {"__name__": "__main__"})
        return 0

    folder = str((cwd / program).parent) if isinstance(program, Path) else ""
    return _run([str(program) if isinstance(program, Path) else "-c", *words], run, cwd, env, merged, folder)


@pytest.fixture
def batches_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch starts no process and no thread: each model's command runs here when it is asked for."""
    first = len(batch.python(batch.PROGRAM))

    def run(_: object, command: Sequence[str]) -> tuple[int, str, str]:
        done = surgeon(*command[first:], cwd=Path.cwd())
        return done.returncode, done.stdout, done.stderr

    monkeypatch.setattr(batch._Processes, "run", run)
    monkeypatch.setattr(batch, "ThreadPoolExecutor", _NoThreads)


class _NoThreads:
    def __init__(self, _: int) -> None:
        pass

    def __enter__(self) -> _NoThreads:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], *given: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*given))
        except BaseException as error:
            done.set_exception(error)
        return done


def _run(
    argv: list[str],
    run: Callable[[], int],
    cwd: Path,
    env: Mapping[str, str] | None,
    merged: bool,
    imports: str | None = None,
) -> CompletedProcess[str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _kept(argv, cwd, env, imports), _streams(out, out if merged else err):
            status = _status(run)
        return CompletedProcess(argv, status, _text(out), _text(err))


def _status(run: Callable[[], int]) -> int:
    """The status with which a process that runs this would end."""
    try:
        return run()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
        return 1


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextlib.contextmanager
def _streams(out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    """Standard output and standard error, of Python and of C, are these files."""
    saved, before = [os.dup(1), os.dup(2)], (sys.stdout, sys.stderr)
    for stream in before:
        stream.flush()
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    try:
        steady()
        yield
    finally:
        with contextlib.suppress(OSError):
            flush()
        sys.stdout, sys.stderr = before
        for number, descriptor in zip((1, 2), saved, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextlib.contextmanager
def _kept(argv: list[str], cwd: Path, env: Mapping[str, str] | None, imports: str | None) -> Iterator[None]:
    """What belongs to a process is as one finds it, and after it as it was before."""
    passes()  # surgeon's own say what nodes mean once, while they are imported
    here, variables, meanings = os.getcwd(), dict(os.environ), dict(meaning._meanings)
    words, path, modules = sys.argv, list(sys.path), set(sys.modules)
    os.chdir(cwd)
    os.environ.update(env or {})
    sys.argv = argv
    if imports is not None:
        sys.path.insert(0, imports)
    try:
        with warnings.catch_warnings():
            warnings.resetwarnings()
            warnings.filters[:] = SHOWN  # type: ignore[index]
            warnings.showwarning = _show
            yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(variables)
        meaning._meanings.clear()
        meaning._meanings.update(meanings)
        sys.argv, sys.path[:] = words, path
        for name in set(sys.modules) - modules:  # those of the folder, and passes: others of that name may come
            file = getattr(sys.modules[name], "__file__", None) or ""
            if name.startswith("surgeon_user_passes.") or (imports is not None and Path(file).is_relative_to(cwd)):
                del sys.modules[name]


def _show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))
