"""Everything surgeon raises on purpose.

    SurgeonError
    ├── UsageError       an argument names something that is not there: a pass, a strategy, a target
    ├── ModelError       the model cannot be read, is not valid, or cannot be written
    ├── PassError        a pass broke the contract of the pass language (a defect of the pass)
    └── EngineError      TensorRT refused to parse, build or run the model

The command line turns `UsageError` and `ModelError` into exit status 2 and the message into one paragraph.
"""

import traceback
from collections.abc import Iterable

MOST_NAMED = 60  # names in a list of what there is: every pass has room


class SurgeonError(Exception):
    """The root of the tree. `str(error)` says what, where and what to do next; each argument is a line of it.

    What a line quotes may hold line breaks of its own, which the command line escapes.
    """

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class UsageError(SurgeonError):
    """An argument names something that does not exist or does not go together with another."""


class ModelError(SurgeonError):
    """A model that cannot be read, that breaks ONNX's own rules, or that cannot be written."""


class PassError(SurgeonError):
    """A pass that breaks the contract of the pass language."""


class EngineError(SurgeonError):
    """TensorRT refused to parse, to build or to run a model."""


def line_in(path: str, error: Exception) -> str:
    """'line 3': the last line of a file that ran before an error; empty where none of it did."""
    ran = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f"line {ran[-1].lineno}" if ran else ""


def words_of(error: Exception) -> str:
    """The message of an error; that of Python's own errors after their type."""
    return str(error) if isinstance(error, SurgeonError) else f"{type(error).__name__}: {error}"


def nearest(wrong: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that comes nearest; empty where none is as near as `cutoff`, from 0 to 1."""
    from difflib import get_close_matches  # a start without an error is faster without it

    return next(iter(get_close_matches(wrong, list(known), n=1, cutoff=cutoff)), "")


def did_you_mean(wrong: str, known: Iterable[str], *, most: int = MOST_NAMED) -> str:
    """ " Did you mean 'x'?" for the nearest known word, or the first `most` where none is near.

    With `most=0` it is empty there.
    """
    known = sorted(known)
    folded = {word.lower(): word for word in known}
    if near := nearest(wrong.lower(), folded):
        return f" Did you mean '{folded[near]}'?"
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return f" Known: {', '.join(known[:most])}{more}." if known and most else ""
