"""A search by measuring: the cheapest set of items that is enough, found with few measurements.

`Search` knows nothing of models. Its items are in an order in which neighbours belong together, such as the nodes of a
graph, inputs first. A set is enough if its score is at most that which is asked for.

What an item that is not in the set adds to the score is taken to be independent of the others, as rounding errors are:
squares add up. A search begins with the first of some sets that is enough, else with that of all items. Runs of
neighbours are left out of it one at a time, roughly measured, and those that add least for what they cost are left out
together, as many as the sum allows. Then the runs that stay are halved, and so on, and in the end what is not needed is
removed. Every set that is taken was measured as a whole. Measurements are stored. When the budget is spent or the user
stops the search, the best set so far is the answer.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from surgeon.report import Progress

T = TypeVar("T")
Items = frozenset[T]


PARTS = 16
TRIES = 5  # sums that are measured for one division into runs
CLOSE = 0.9  # of what is allowed: a sum that is tried


class _SpentError(Exception):
    """The budget is spent."""


class Search(Generic[T]):
    """The search for a set of items.

    score     measures a set
    enough    the largest score that is enough
    cost      what a set costs; called often, so it must be quick
    budget    what may be spent: a measurement costs 1
    rough     measures a set roughly, for less; score where there is none
    price     of a rough measurement
    parts     how many runs of neighbours there are at first
    known     scores of sets that were measured before, which cost nothing; new ones are added
    roughly   the same of rough measurements
    measured  how many sets were measured by this search
    stopped   why it ended early; empty where it did not
    """

    def __init__(
        self,
        score: Callable[[Items[T]], float],
        cost: Callable[[Items[T]], float],
        *,
        budget: float,
        enough: float = 1.0,
        rough: Callable[[Items[T]], float] | None = None,
        price: float = 1.0,
        parts: int = PARTS,
        known: dict[Items[T], float] | None = None,
        roughly: dict[Items[T], float] | None = None,
        progress: Progress = lambda phase, done, total: None,
    ) -> None:
        self._score, self._cost, self._progress = score, cost, progress
        self._enough, self._rough, self._price, self._parts = enough, rough, price, parts
        self.budget, self.spent, self.measured, self.stopped = budget, 0.0, 0, ""
        self.known: dict[Items[T], float] = {} if known is None else known
        self._roughly: dict[Items[T], float] = {} if roughly is None else roughly
        self._best: Items[T] | None = None

    def cheapest(self, items: Sequence[T], starts: Iterable[Items[T]] = ()) -> Items[T]:
        """The cheapest set of `items` that was found to be enough; all of them where no other was.

        starts  sets that may be enough already, the likeliest first
        """
        self._best = None
        try:
            found = next((s for s in (*starts, frozenset()) if self._is_enough(s)), frozenset(items))
            self._shrink(items, self._divided([item for item in items if item in found]))
        except _SpentError:
            self.stopped = f"the search ended after {self.measured} measurements"
        except KeyboardInterrupt:
            self.stopped = f"the search was stopped after {self.measured} measurements"
        return frozenset(items) if self._best is None else self._best

    def _is_enough(self, chosen: Items[T]) -> bool:
        return self._measured(chosen) <= self._enough

    def _measured(self, chosen: Items[T]) -> float:
        if chosen not in self.known:
            self._spend(1.0)
            self.known[chosen] = self._score(chosen)
        if self.known[chosen] <= self._enough and (self._best is None or self._cost(chosen) < self._cost(self._best)):
            self._best = chosen
        return self.known[chosen]

    def _spend(self, price: float) -> None:
        if self.spent + price > self.budget:
            raise _SpentError
        self._progress("searching", int(self.spent), int(self.budget))
        self.spent += price
        self.measured += 1

    def _added(self, everything: Items[T], run: Items[T]) -> float:
        """The score that a run adds which alone is left out, roughly."""
        others = everything - run
        if self._rough is None or others in self.known:
            return self._measured(others)
        if others not in self._roughly:
            self._spend(self._price)
            self._roughly[others] = self._rough(others)
        return self._roughly[others]

    def _divided(self, items: Sequence[T]) -> Items[T]:
        """What stays where the runs that add little are left out, and those that stay are halved, and so on."""
        everything, parts = frozenset(items), min(self._parts, len(items))
        cuts = [len(items) * k // parts for k in range(parts + 1)] if parts else []
        runs = [tuple(items[a:b]) for a, b in zip(cuts, cuts[1:], strict=False)]
        kept = runs
        while kept:
            kept = self._kept(everything, runs)
            if all(len(run) == 1 for run in kept):
                break
            halved = [half for run in kept for half in (run[: len(run) // 2], run[len(run) // 2 :]) if half]
            runs = [run for run in runs if run not in kept] + halved
        found = everything if self._best is None else self._best
        closed = self._closed(items, found)
        return closed if self._is_enough(closed) else found

    def _closed(self, items: Sequence[T], chosen: Items[T]) -> Items[T]:
        """The set with the gaps between its items filled that cost less filled."""
        at = [k for k, item in enumerate(items) if item in chosen]
        for last, following in zip(at, at[1:], strict=False):
            filled = chosen | frozenset(items[last + 1 : following])
            if following > last + 1 and self._cost(filled) < self._cost(chosen):
                chosen = filled
        return chosen

    def _kept(self, everything: Items[T], runs: Sequence[tuple[T, ...]]) -> list[tuple[T, ...]]:
        """The runs that stay in the set: it is the best of those that are enough, else all."""
        added = {run: self._added(everything, frozenset(run)) for run in runs}
        nothing = self._cost(frozenset())
        saved = {run: self._cost(frozenset(run)) - nothing for run in runs}
        order = sorted(runs, key=lambda run: (added[run] ** 2 / max(saved[run], 1e-9), -len(run)))
        added_in_order = [added[run] for run in order]
        low, high, count = 0, len(order) + 1, _within(CLOSE * self._enough, added_in_order)  # of those left out
        for _ in range(TRIES):
            enough = self._is_enough(frozenset(item for run in order[count:] for item in run))
            low, high = (count, high) if enough else (low, count)
            if high - low < 2:
                break
            middle = math.hypot(*added_in_order[:low], *added_in_order[:high]) / math.sqrt(2)
            count = min(max(_within(middle, added_in_order), low + 1), high - 1)
        return order[low:]

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


def fewest(is_within: Callable[[int], bool], over: int, within: int) -> int:
    """The smallest number that is enough, by a binary search.

    over    a number that is known not to be
    within  the largest, which is taken to be
    """
    while within - over > 1:
        middle = (over + within) // 2
        over, within = (over, middle) if is_within(middle) else (middle, within)
    return within


def _within(limit: float, added: Sequence[float]) -> int:
    """How many of the first scores add up to at most a limit."""
    total = 0.0
    for count, score in enumerate(added):
        total += score * score if math.isfinite(score) else math.inf
        if not total <= limit * limit:
            return count
    return len(added)
