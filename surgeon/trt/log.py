"""What Polygraphy and TensorRT say while they work, heard in place of the terminal."""

from __future__ import annotations

import logging
import re
from types import TracebackType

_SEVERITY = re.compile(r"^(\[[A-Z!]\] )+")
# Polygraphy's own words beside TensorRT's: that something went wrong, and that it wants TensorRT 8.5 (it builds with
# 8.2 to 8.4 too).
_NOISE = ("Could not parse", "Invalid Engine", "is installed, but version")


class PolygraphyLog(logging.Handler):
    """Hears what Polygraphy and TensorRT say at the level ERROR inside a `with`, and keeps it off the terminal.

    Polygraphy has one logger a process. Its settings are put back at the end.

    lines  the messages as they came
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self._python = logging.getLogger("Polygraphy")
        self._before = False, False, False  # Polygraphy's use of Python's logging, its colours, Python's propagation

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def told(self) -> list[str]:
        """TensorRT's own messages, each once and in one line."""
        lines = dict.fromkeys(_SEVERITY.sub("", " ".join(line.split())) for line in self.lines)
        return [line for line in lines if not any(noise in line for noise in _NOISE)]

    def __enter__(self) -> PolygraphyLog:
        from polygraphy.logger import G_LOGGER

        self._before = G_LOGGER.use_python_logging_system, G_LOGGER.colors, self._python.propagate
        G_LOGGER.colors = False
        G_LOGGER.use_python_logging_system = True
        self._python.addHandler(self)
        self._python.propagate = False
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        from polygraphy.logger import G_LOGGER

        self._python.removeHandler(self)
        G_LOGGER.use_python_logging_system, G_LOGGER.colors, self._python.propagate = self._before
