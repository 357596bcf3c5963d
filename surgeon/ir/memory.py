"""Python's garbage collector, paused while a model is indexed."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

MOST_UNLOOKED = 500_000  # objects, about 130 MB


_unlooked = 0  # objects that joined the oldest generation since surgeon or Python looked at it
_looks = 0  # how often it was, when they were counted


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """An indexed graph is a hundred thousand small objects that all stay: looking for garbage among them only costs.

    What was made meanwhile joins the oldest generation unlooked at, since a run's report holds on to it: unfreezing
    moves there what freezing set apart. Python does not count what comes there in this way, so this does, and collects
    in time.
    """
    global _unlooked, _looks
    if not gc.isenabled():
        yield
        return
    if _unlooked > MOST_UNLOOKED and gc.get_stats()[-1]["collections"] == _looks:
        gc.collect()
    if gc.get_stats()[-1]["collections"] != _looks:
        _unlooked = 0
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # what somebody else froze stays frozen
            _unlooked += gc.get_count()[0]
            gc.freeze()
            gc.unfreeze()
        _looks = gc.get_stats()[-1]["collections"]
        gc.enable()
