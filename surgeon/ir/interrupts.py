"""Ctrl-C that is remembered, for a library that takes the exception for a failure of its own."""

import signal
from typing import NoReturn


class Interrupts:
    """A handler of SIGINT: it raises KeyboardInterrupt, and remembers that.

    came  whether the user has interrupted the program
    """

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: object) -> NoReturn:
        self.came = True
        raise KeyboardInterrupt


def interrupted() -> bool:
    """Whether the handler of SIGINT remembers an interrupt: the run may go on, but its files must not appear."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, Interrupts) and handler.came
