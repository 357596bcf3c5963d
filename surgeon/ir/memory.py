"""Python's garbage collector, paused while a model is indexed."""

import contextlib
import gc
from collections.abc import Iterator

MOST_UNSEEN = 500_000  # objects, about 130 MB


class CollectionPause:
    """Pauses Python's garbage collector, and collects in time all the same.

    An indexed graph is a hundred thousand small objects that all stay: looking for garbage among them only costs. What
    was made during a pause joins the oldest generation, since a run's report holds on to it. Unfreezing moves there
    what freezing set apart. Python does not count what comes there in this way. So this does.
    """

    def __init__(self, most_unseen: int = MOST_UNSEEN) -> None:
        self.most_unseen = most_unseen
        self._unseen = 0  # objects that joined the oldest generation since its last collection
        self._collections = 0  # of the oldest generation, when they were counted

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """A `with` block in which Python collects no garbage."""
        if not gc.isenabled():
            yield
            return
        if self._unseen > self.most_unseen and _collections() == self._collections:
            gc.collect()
        if _collections() != self._collections:
            self._unseen = 0
        gc.disable()
        try:
            yield
        finally:
            if not gc.get_freeze_count():  # what somebody else froze stays frozen
                self._unseen += gc.get_count()[0]
                gc.freeze()
                gc.unfreeze()
            self._collections = _collections()
            gc.enable()


def _collections() -> int:
    """How often Python has collected its oldest generation."""
    return int(gc.get_stats()[-1]["collections"])


no_collection = CollectionPause()  # the collector is the process's, and so is this
