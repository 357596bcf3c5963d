"""A search by measuring: the cheapest set of items that is enough, found with few measurements.

`Search` knows nothing of models. Its items are in an order in which neighbours belong together, such as the nodes of a
graph, inputs first. A set is enough if its score is at most 1. A larger set should not have a larger score; if it does,
the set that is found may not be the smallest. Measurements are stored. When the budget is spent or the user stops the
search, the best set so far is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from surgeon.report import Progress

T = TypeVar("T")
Items = frozenset[T]


PARTS = 16  # a run of neighbours begins and ends at a 16th of the items


class _SpentError(Exception):
    """The budget is spent."""


class Search(Generic[T]):
    """The search for a set of items.

    score     measures a set; at most 1 is enough
    cost      what a set costs; called often, so it must be quick
    budget    how many sets may be measured
    known     scores of sets that were measured before; new ones are added
    measured  how many sets were measured by this search
    stopped   why it ended early; empty where it did not
    """

    def __init__(
        self,
        score: Callable[[Items[T]], float],
        cost: Callable[[Items[T]], float],
        *,
        budget: int,
        known: dict[Items[T], float] | None = None,
        progress: Progress = lambda phase, done, total: None,
    ) -> None:
        self._score, self._cost, self._progress = score, cost, progress
        self.budget, self.measured, self.stopped = budget, 0, ""
        self.known: dict[Items[T], float] = {} if known is None else known
        self._best: Items[T] | None = None

    def cheapest(self, items: Sequence[T], starts: Iterable[Items[T]] = ()) -> Items[T]:
        """The cheapest set of `items` that was found to be enough; all of them where no other was.

        starts  sets that may be enough already, the likeliest first
        """
        self._best = None
        try:
            found = next((s for s in starts if self._is_enough(s)), None)
            self._shrink(items, self._interval(items) if found is None else found)
        except _SpentError:
            self.stopped = f"the search ended after {self.measured} measurements"
        except KeyboardInterrupt:
            self.stopped = f"the search was stopped after {self.measured} measurements"
        return frozenset(items) if self._best is None else self._best

    def _is_enough(self, chosen: Items[T]) -> bool:
        if chosen not in self.known:
            if self.measured >= self.budget:
                raise _SpentError
            self._progress("searching", self.measured, self.budget)
            self.measured += 1
            self.known[chosen] = self._score(chosen)
        if not self.known[chosen] <= 1:
            return False
        if self._best is None or self._cost(chosen) < self._cost(self._best):
            self._best = chosen
        return True

    def _interval(self, items: Sequence[T]) -> Items[T]:
        """The shortest run of neighbours that is enough, in steps of a PARTS-th: its end by halving, then its start."""
        cuts = [len(items) * k // PARTS for k in range(PARTS + 1)]
        low, end = 0, PARTS
        while low < end:
            middle = (low + end) // 2
            low, end = (low, middle) if self._is_enough(frozenset(items[: cuts[middle]])) else (middle + 1, end)
        start, high = 0, end
        while start < high:
            middle = (start + high + 1) // 2
            run = frozenset(items[cuts[middle] : cuts[end]])
            start, high = (middle, high) if self._is_enough(run) else (start, middle - 1)
        return frozenset(items[cuts[start] : cuts[end]])

    def _shrink(self, items: Sequence[T], found: Items[T]) -> None:
        """Remove from a set what it does not need: halves first, then quarters, and so on."""
        parts = 2
        while len(found) > 1:
            left = [item for item in items if item in found]
            size = -(-len(left) // parts)
            for start in range(0, len(left), size):
                smaller = found - frozenset(left[start : start + size])
                if self._cost(smaller) < self._cost(found) and self._is_enough(smaller):
                    found = smaller
            if size == 1:
                return
            parts *= 2
