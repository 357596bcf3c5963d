"""A search by measuring: the cheapest set of items that is enough, found with few measurements.

`Search` knows nothing of models. Its items are in an order in which neighbours belong together, such as the nodes of a
graph, inputs first. A set is enough if its score is at most that which is asked for.

What an item that is not in the set adds to the score is taken to be independent of the others, as rounding errors are:
squares add up. A search begins with the first of some sets that is enough, else with that of all items. Runs of
neighbours are left out of it one at a time, roughly measured. The cheapest set by their sum is measured as a whole, and
what the sum may be is corrected by that. Then the runs that add most are halved, and so on, and in the end what is not
needed is removed. Every set that is taken was measured as a whole. Measurements are stored. When the budget is spent,
nothing is left to gain or the user stops the search, the best set so far is the answer.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from surgeon.report import Progress

T = TypeVar("T")
Items = frozenset[T]
Run = tuple[T, ...]  # neighbours


PARTS = 16
TRIES = 5  # sums that are measured for one division into runs
CLOSE = 0.9  # of what is allowed: a sum that is tried
NEAR = 0.8  # of what is allowed: a larger score is not worth another try
STEP = 4.0  # times what a sum may be, at most, after a set that was measured
LITTLE, MOST = 0.5, 0.95  # of what a run adds: where its first half adds less or more, the second is not measured
LEAST = 1 / 8  # of what is allowed: what adds less is not divided
WORTH = 1.02  # times the least cost of a set, enough or not: where one costs less no cheaper one is looked for


class _EndError(Exception):
    """Nothing is left to gain, or the budget is spent, as the message says."""


class Search(Generic[T]):
    """The search for a set of items.

    score     measures a set
    enough    the largest score that is enough
    cost      what a set costs; called often, so it must be quick
    budget    what may be spent
    spent     what was spent so far; how many sets were measured where it is not given
    rough     measures a set roughly, for less; score where there is none
    choose    of what runs add alone, and what the squares of those left out may sum up to: the cheapest items to keep
    parts     how many runs of neighbours there are at first
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
        spent: Callable[[], float] | None = None,
        rough: Callable[[Items[T]], float] | None = None,
        choose: Callable[[Mapping[Run[T], float], float], Items[T]] | None = None,
        parts: int = PARTS,
        progress: Progress = lambda phase, done, total: None,
    ) -> None:
        self._score, self._cost, self._progress = score, cost, progress
        self._enough, self._rough, self._parts = enough, rough, parts
        self._choose = choose or self._first
        self._allowed = (CLOSE * enough) ** 2  # of the sum of squares
        self.measured, self.stopped = 0, ""
        self._budget, self._spent = budget, spent or (lambda: float(self.measured))
        self._before = self._spent()
        self._known: dict[Items[T], float] = {}
        self._best: Items[T] | None = None
        self._least = 0.0

    def cheapest(self, items: Sequence[T], starts: Iterable[Items[T]] = ()) -> Items[T]:
        """The cheapest set of `items` that was found to be enough; all of them where no other was.

        starts  sets that may be enough already, the likeliest first
        """
        self._best = None
        cheap = self._choose({}, math.inf)
        self._least = min(self._cost(cheap), self._cost(frozenset()))
        try:
            found = next((s for s in (*starts, cheap, frozenset()) if self._is_enough(s)), frozenset(items))
            self._shrink(items, self._divided([item for item in items if item in found]))
        except _EndError as end:
            self.stopped = str(end)
        except KeyboardInterrupt:
            self.stopped = f"the search was stopped after {self.measured} measurements"
        return frozenset(items) if self._best is None else self._best

    def _is_enough(self, chosen: Items[T]) -> bool:
        return self._measured(chosen) <= self._enough

    def _measured(self, chosen: Items[T]) -> float:
        if chosen not in self._known:
            self._spend()
            self._known[chosen] = self._score(chosen)
        if self._known[chosen] <= self._enough and (self._best is None or self._cost(chosen) < self._cost(self._best)):
            self._best = chosen
            if self._cost(chosen) <= WORTH * self._least:
                raise _EndError
        return self._known[chosen]

    def _spend(self) -> None:
        spent = self._spent() - self._before
        if spent >= self._budget:
            raise _EndError(f"the search ended after {self.measured} measurements")
        self._progress("searching", int(spent), int(self._budget))
        self.measured += 1

    def _added(self, everything: Items[T], run: Items[T]) -> float:
        """The score that a run adds which alone is left out, roughly."""
        others = everything - run
        if self._rough is None or others in self._known:
            return self._measured(others)
        self._spend()
        return self._rough(others)

    def _divided(self, items: Sequence[T]) -> Items[T]:
        """The best set that is found where the runs that add most are halved, and so on."""
        everything = frozenset(items)
        added = {tuple(items): self._added(everything, everything)} if items else {}
        while 0 < len(added) < min(self._parts, len(items)):
            self._halve(everything, added, max((r for r in added if len(r) > 1), key=added.__getitem__))
        while added:
            self._try(added)
            largest = max((score for run, score in added.items() if len(run) > 1), default=0.0)
            if not largest**2 > LEAST**2 * self._allowed:
                break
            order = sorted((r for r in added if len(r) > 1), key=lambda r: -added[r])
            for place, run in enumerate(order[: max(1, self._parts // 2)]):
                if place < self._parts // 4 or 2 * added[run] >= largest:
                    self._halve(everything, added, run)
        return everything if self._best is None else self._best

    def _halve(self, everything: Items[T], added: dict[Run[T], float], run: Run[T]) -> None:
        """Put its halves in place of a run. Where the first adds little, or nearly all, the second adds the rest."""
        both = added.pop(run)
        first, second = run[: len(run) // 2], run[len(run) // 2 :]
        added[first] = self._added(everything, frozenset(first))
        if LITTLE * both < added[first] < MOST * both or not math.isfinite(both):
            added[second] = self._added(everything, frozenset(second))
        else:
            added[second] = max(math.sqrt(max(both**2 - added[first] ** 2, 0.0)), both * LITTLE / 2)

    def _try(self, added: Mapping[Run[T], float]) -> None:
        """Measure the cheapest sets by what runs add, for several sums that may be allowed."""
        low, high, seen = 0.0, math.inf, set[Items[T]]()
        nothing = self._known.get(frozenset(), math.inf)
        unit = sum(score**2 for score in added.values()) / nothing**2 if 0 < nothing < math.inf else 1.0
        for _ in range(TRIES):
            chosen = self._choose(added, self._allowed * unit)
            if chosen in seen:
                return
            seen.add(chosen)
            if self._best is not None and chosen != self._best and self._cost(chosen) >= self._cost(self._best):
                low, self._allowed = self._allowed, self._allowed * 2
                continue
            score = self._measured(chosen)
            if score <= self._enough:
                low = self._allowed
                if not chosen or score >= NEAR * self._enough:
                    return
            else:
                high = self._allowed
            times = (CLOSE * self._enough / max(score, 1e-30)) ** 2 if math.isfinite(score) else 0.0
            self._allowed *= min(max(times, 1 / STEP), STEP)
            if not low < self._allowed < high:
                self._allowed = math.sqrt(low * high) if low and high < math.inf else low * 4 or high / 4
                if low and high < math.inf:
                    return  # the scores jump between the two: the runs are too long

    def _first(self, added: Mapping[Run[T], float], allowed: float) -> Items[T]:
        """What stays where those runs are left out that add least for what they cost, as many as the sum allows."""
        nothing = self._cost(frozenset())
        saved = {run: self._cost(frozenset(run)) - nothing for run in added}
        order = sorted(added, key=lambda run: (added[run] ** 2 / max(saved[run], 1e-9), -len(run)))
        count = _within(math.sqrt(allowed), [added[run] for run in order])
        return frozenset(item for run in order[count:] for item in run)

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
