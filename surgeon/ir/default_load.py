"""A process of its own in which ONNX Runtime loads models with its default options, as their users do.

Its optimisations end the process over some models. One process loads many models, one after the other: starting it
takes longer than most loads.
"""

import atexit
import json
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from onnx import ModelProto

from surgeon.ir.files import LARGE, UNWRITABLE, as_text
from surgeon.ir.process import python
from surgeon.ir.run import EXTERNAL_FOLDER, located

SECONDS = 120  # after which an answer is no longer waited for
ENDS = "ONNX Runtime's default optimisations end its process"
# A line asks for a model: its file, and the folder of its weights. A line answers: what ONNX Runtime says against it.
SERVER = f"""
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what ONNX Runtime prints is not an answer
import onnxruntime as ort
ort.set_default_logger_severity(4)
for line in sys.stdin:
    path, folder = json.loads(line)
    options, why = ort.SessionOptions(), ""
    if folder:
        options.add_session_config_entry({EXTERNAL_FOLDER!r}, folder)
    try:
        with open(path, "rb") as file:
            ort.InferenceSession(file.read(), options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:
        why = str(error) or type(error).__name__
    print(json.dumps(why), file=answers, flush=True)
"""


class Load:
    """One load, begun at once. `answer` waits for it."""

    def __init__(self, model: ModelProto, folder: str | Path | None = None) -> None:
        self._server: _Server | None = None
        try:
            model, base = located(model, folder)
            data = model.SerializeToString() if model.ByteSize() <= LARGE else b""
        except UNWRITABLE:
            data = b""
        if data:
            self._server = _waiting() or _Server()
            try:
                self._server.ask(data, "" if base is None else as_text(base))
            except OSError:  # there is no room for a copy
                self.drop()

    def answer(self) -> str | None:
        """What ONNX Runtime says against the model; empty where it loads it.

        It begins with ENDS where the process is gone. None where nothing is known: the model is too large to be handed
        over, there is no room for it, or it takes too long.
        """
        if self._server is None:
            return None
        server, self._server = self._server, None
        found = server.answer()
        if server.is_there:
            _idle.append(server)
        return found

    def drop(self) -> None:
        """Nobody waits for the answer any more."""
        if self._server is not None:
            self._server.end()
            self._server = None


class _Server:
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="surgeon-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            python(SERVER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    @property
    def is_there(self) -> bool:
        return self._process.poll() is None

    def ask(self, data: bytes, folder: str) -> None:
        path = Path(self._folder.name, "model.onnx")
        path.write_bytes(data)
        assert self._process.stdin is not None
        with suppress(OSError):  # it ended since: `answer` says so
            self._process.stdin.write(json.dumps([str(path), folder]).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self) -> str | None:
        assert self._process.stdout is not None
        timer = threading.Timer(SECONDS, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        waited_in_vain = timer.finished.is_set()
        timer.cancel()
        if line:
            return str(json.loads(line))
        self.end()
        return None if waited_in_vain or self._process.returncode >= 0 else ENDS

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):  # what was written to it is not read any more
                stream.close()
        self._folder.cleanup()


_idle: list[_Server] = []  # waiting for a further model


def _waiting() -> _Server | None:
    """A process that waits for a model, if there is one still."""
    while _idle:
        server = _idle.pop()
        if server.is_there:
            return server
        server.end()
    return None


@atexit.register
def _end_all() -> None:
    while _idle:
        _idle.pop().end()
