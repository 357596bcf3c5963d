"""How the command line prints: Rich's tables on a terminal, plain aligned lines in a pipe.

Everything that a person reads goes through here, and control characters in it are shown, not sent: names come from
files of others. Rich is imported for a terminal only.
"""

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from surgeon.report import Progress
from surgeon.visible import visible, visible_json

SENTENCE = 28  # columns: what is longer gets lines of its own where it does not fit beside the rest
COMMAND = "  surgeon "  # how a line begins that is a command to type
MINUTES_FROM = 100  # seconds
PATIENCE = 1.0  # seconds before a progress bar appears
PAUSE = 5.0  # seconds between two lines of progress in a pipe
STYLES = {"good": "green", "bad": "bold red", "warn": "yellow", "dim": "dim", "head": "bold"}


class Screen:
    """Standard output. `quiet` leaves out everything but failures, which go to standard error in any case."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.terminal = sys.stdout.isatty()
        self._console: Any = None
        if self.terminal:
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=False, emoji=False)

    @property
    def width(self) -> int | None:
        """The columns of the terminal; None in a pipe."""
        return None if self._console is None else int(self._console.width)

    def line(self, text: str = "", style: str = "") -> None:
        if self.quiet:
            if style == "bad":
                complain(text)
            return
        text = visible(text)
        if self._console is None:
            _write(text, sys.stdout)
            return
        for part in wrapped(text, self._console.width):
            self._console.print(part, style=STYLES.get(style), markup=False, soft_wrap=True)

    def lines(self, text: str) -> None:
        """A text of several lines, such as a docstring."""
        for line in text.split("\n"):
            self.line(line)

    def text(self, text: str) -> None:
        """What another program reads, such as JSON; nothing where it is empty."""
        if text:
            _write(visible_json(text), sys.stdout)

    def command(self, text: str) -> None:
        """A command to type, in one piece however long it is, so that it can be copied."""
        if self.quiet:
            return
        text = visible(text)
        if self._console is None:
            _write(text, sys.stdout)
        else:
            self._console.print(text, markup=False, soft_wrap=True)

    def table(
        self,
        word: str,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        style: str = "",
        plain: Sequence[str] = (),
    ) -> None:
        """Rows under headers. In a pipe there are none: each row starts with `word`, and `plain` says how each cell is
        written there, such as "{} nodes"."""
        if self.quiet or not rows:
            return
        word, rows = visible(word), [[visible(cell) for cell in row] for row in rows]
        if self._console is None:
            formats = plain or ["{}"] * len(headers)
            for text in aligned([(word, *[f.format(c) for f, c in zip(formats, row, strict=True)]) for row in rows]):
                _write(visible(text), sys.stdout)  # a name may begin the line
            return
        self._console.print(word, style="bold", markup=False)
        widths = [max(len(text) for text in column) for column in zip(headers, *rows, strict=True)]
        columns, width = len(widths), self._console.width
        sentence = widths[-1] >= SENTENCE
        if columns == 1 or sum(widths) + 3 * columns <= width:
            self._beside(headers, rows, style)
        elif not sentence and sum(widths) + columns < width:
            self._beside(headers, rows, style, padding=0)
        elif plain and (not sentence or sum(widths[:-1]) + 2 * columns > width):
            self._listed(plain, rows)
        elif sentence:
            self._below(headers, rows, style)
        else:
            self._beside(headers, rows, style)

    def group(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], style: str = "") -> None:
        """What several rows share as a title, and the rows below it; in a pipe they are indented."""
        if self._console is not None:
            self.table(title, headers, rows, style)
        elif rows:
            self.line(title)
            self.table("", headers, rows)

    def _beside(self, headers: Sequence[str], rows: Sequence[Sequence[str]], style: str, padding: int = 1) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, padding), header_style="dim", show_header=any(headers)
        )
        for position, header in enumerate(headers):
            numeric = all(row[position].isdigit() for row in rows)
            table.add_column(header, overflow="fold", justify="right" if numeric else "left")
        for row in rows:
            table.add_row(*[Text(cell, STYLES.get(style, "") if k == 0 else "") for k, cell in enumerate(row)])
        self._console.print(table)

    def _below(self, headers: Sequence[str], rows: Sequence[Sequence[str]], style: str) -> None:
        """The last cell of each row, a sentence most often, under the others and over the whole width."""
        from rich.padding import Padding
        from rich.text import Text

        head, *texts = aligned([row[:-1] for row in (headers, *rows)])
        if head:
            self._console.print(Padding(Text(head, "dim"), (0, 0, 0, 1)))
        for text, row in zip(texts, rows, strict=True):
            self._console.print(Padding(Text(text, STYLES.get(style, "")), (0, 0, 0, 1)))
            self._console.print(Padding(Text(row[-1]), (0, 0, 0, 4)))
        self._console.print()

    def _listed(self, plain: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Each row as a pipe gets it, for a terminal too narrow for its columns."""
        from rich.padding import Padding
        from rich.text import Text

        for row in rows:
            text = "  ".join(f.format(cell) for f, cell in zip(plain, row, strict=True))
            self._console.print(Padding(Text(text), (0, 0, 0, 1)))
        self._console.print()

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """A callback (phase, done, total): a bar on a terminal, from the second second on; else a line now and then."""
        if self.quiet:
            yield lambda phase, done, total: None
            return
        if not sys.stderr.isatty():
            yield _Lines().update
            return
        bar = _Bar()
        try:
            yield bar.update
        finally:
            bar.close()


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, longer ones in parts of at most `width` columns.

    No word, no path and no command is broken.
    """
    found = []
    for line in text.split("\n"):
        if line.startswith(COMMAND):
            found.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        parts = textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
        )
        found += [line] if len(line) <= width else parts
    return found


class _Lines:
    """A line of progress every few seconds, for a log."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self._begun: dict[str, float] = {}  # when a phase was first heard of

    def update(self, phase: str, done: int, total: int) -> None:
        now = time.perf_counter()
        begun = self._begun.setdefault(phase, now)
        if now - self._last < PAUSE:
            return
        self._last = now
        left = time_left(now - begun, done, total)
        _write(visible(f"{phase} {done} of {total}" + (f", {left}" if left else "")), sys.stderr)


class _Bar:
    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._progress: Any = None
        self._tasks: dict[str, Any] = {}
        self._begun: dict[str, float] = {}  # when a phase was first heard of

    def update(self, phase: str, done: int, total: int) -> None:
        phase = visible(phase)
        self._begun.setdefault(phase, time.perf_counter())
        if time.perf_counter() - self._started < PATIENCE:
            return
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}"),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=sys.stdout.isatty(),  # what is printed meanwhile goes above the bar, not into a pipe
            )
            self._progress.start()
        if phase not in self._tasks:
            for task in self._tasks.values():
                self._progress.update(task, visible=False)
            self._tasks[phase] = self._progress.add_task(phase, total=total, left="")
        left = time_left(time.perf_counter() - self._begun[phase], done, total)
        self._progress.update(self._tasks[phase], completed=done, total=total, visible=True, left=left)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def time_left(elapsed: float, done: int, total: int) -> str:
    """How long the rest takes, if it goes on as so far; empty before anything is done."""
    if not done:
        return ""
    seconds = round(elapsed / done * (total - done))
    return f"about {seconds} s left" if seconds < MINUTES_FROM else f"about {round(seconds / 60)} min left"


def complain(text: str, *more: str) -> None:
    """One paragraph on standard error, and lines below it."""
    for line in (f"surgeon: {text}", *more):
        parts = wrapped(visible(line), shutil.get_terminal_size().columns) if sys.stderr.isatty() else [visible(line)]
        for part in parts:
            _write(part, sys.stderr)


def complain_with_trace(text: str, trace: str) -> None:
    """The same, after the lines of a traceback where there is one."""
    for line in trace.splitlines():
        _write(visible(line), sys.stderr)
    complain(text)


def _write(text: str, stream: TextIO) -> None:
    with _hanging_up(stream):
        print(text, file=stream)


def flush() -> None:
    """Send out what was printed."""
    with _hanging_up(sys.stdout):
        sys.stdout.flush()


@contextmanager
def _hanging_up(stream: TextIO) -> Iterator[None]:
    """Where the reader of a pipe has gone away, nothing is wrong: the work goes on, and what it says goes nowhere."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def steady() -> None:
    """Make standard output and error take whatever is printed: some are closed, some cannot spell a file's name."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows as lines, columns two spaces apart; the last column is as long as it is."""
    if not rows:
        return
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]]).rstrip()
