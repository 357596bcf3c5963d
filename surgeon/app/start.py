"""The program while its modules are imported, which takes a third of a second: what Ctrl-C does, and no garbage.

Python would print a traceback of whatever module it was in, and a library may take the interrupt for a failure of its
own, or crash. Nothing has been done by then: the program ends where it is. Whoever only imports surgeon keeps his own
Ctrl-C.

What is imported stays, so Python does not look for garbage in it.
"""

import contextlib
import os
import signal
import sys
import threading
from typing import NoReturn

from surgeon.ir.memory import no_collection

STATUS = 130
WORDS = "interrupted; no file was left half written."
_importing = contextlib.ExitStack()  # what holds from `begin` to `done`


def is_program() -> bool:
    """Whether this process is the command `surgeon` or `python -m surgeon`."""
    command = sys.argv[0] if sys.argv else ""
    if command == "-m":  # while Python looks for the module that it is to run
        return "surgeon" in sys.orig_argv
    return os.path.splitext(os.path.basename(command))[0] == "surgeon"


def begin() -> None:
    """From here on Ctrl-C ends the process, and no garbage is collected."""
    _importing.enter_context(no_collection())
    main = threading.current_thread() is threading.main_thread()  # no other may say what a signal does
    if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def done() -> None:
    """From here on it raises KeyboardInterrupt again, and garbage is collected as before."""
    _importing.close()
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: object) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, f"surgeon: {WORDS}\n".encode())
    os._exit(STATUS)
