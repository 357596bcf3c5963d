"""The search by measuring: what it returns is enough, is the cheapest that was measured, and costs no more than the
budget."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from helpers import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from surgeon.precision.search import Search

Items = frozenset[int]
ENDLESS = 10_000
FEW = st.integers(1, 40)


class Measured:
    """A score that counts how often it is asked, and of what."""

    def __init__(self, score: Callable[[Items], float]) -> None:
        self.score, self.asked = score, list[Items]()

    def __call__(self, chosen: Items) -> float:
        self.asked.append(chosen)
        return self.score(chosen)

    def enough(self) -> list[Items]:
        return [chosen for chosen in self.asked if self.score(chosen) <= 1]


@st.composite
def needs(draw: st.DrawFn) -> tuple[int, Items]:
    """How many items there are, and which of them a set must have to be enough."""
    count = draw(FEW)
    return count, frozenset(draw(st.sets(st.integers(0, count - 1))))


def all_of(needed: Items) -> Measured:
    return Measured(lambda chosen: 0.5 if needed <= chosen else 2.0)


@settings(max_examples=examples(200), deadline=None)
@given(needs())
def test_what_is_needed_is_found_and_nothing_else(given_: tuple[int, Items]) -> None:
    count, needed = given_
    score = all_of(needed)
    search: Search[int] = Search(score, len, budget=ENDLESS)
    assert search.cheapest(range(count)) == needed
    assert search.measured == len(score.asked) == len(set(score.asked)) and not search.stopped


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.floats(0, 1))
def test_no_item_of_the_result_can_be_left_out(weights: list[int], share: float) -> None:
    """A set is enough if its weights reach a sum: of several smallest sets one is found."""
    sum_needed = share * sum(weights)
    score = Measured(lambda chosen: 0.5 if sum(weights[k] for k in chosen) >= sum_needed else 2.0)
    found = Search[int](score, len, budget=ENDLESS).cheapest(range(len(weights)))
    assert score.score(found) <= 1
    assert len(found) <= 1 or not any(score.score(found - {item}) <= 1 for item in found)


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(1, 12), st.randoms(use_true_random=False), st.integers(0, 60), st.booleans())
def test_scores_in_any_order_never_give_a_set_that_is_not_enough(
    count: int, random: Random, budget: int, with_starts: bool
) -> None:
    """Scores and costs of any kind: what is returned is the cheapest that was enough, or all of the items."""
    scores, costs = dict[Items, float](), dict[Items, float]()
    score = Measured(lambda chosen: scores.setdefault(chosen, 2 * random.random()))

    def cost(chosen: Items) -> float:
        return costs.setdefault(chosen, random.random())

    search: Search[int] = Search(score, cost, budget=budget)
    starts = [frozenset[int](), frozenset(range(0, count, 2))] if with_starts else []
    found = search.cheapest(range(count), starts)
    enough = score.enough()
    assert found in enough if enough else found == frozenset(range(count))
    assert all(cost(found) <= cost(other) for other in enough)
    assert search.measured == len(score.asked) <= budget


@settings(max_examples=examples(100), deadline=None)
@given(needs(), st.integers(0, 30))
def test_the_budget_is_kept_and_its_end_is_said(given_: tuple[int, Items], budget: int) -> None:
    count, needed = given_
    score = all_of(needed)
    search: Search[int] = Search(score, len, budget=budget)
    found = search.cheapest(range(count))
    assert len(score.asked) <= budget and needed <= found
    assert search.stopped == (f"the search ended after {budget} measurements" if found != needed else search.stopped)


def test_a_nan_is_not_enough() -> None:
    found = Search[int](lambda chosen: float("nan"), len, budget=ENDLESS).cheapest(range(4))
    assert found == frozenset(range(4))


def test_a_start_that_is_enough_is_made_smaller() -> None:
    score = all_of(frozenset({5}))
    found = Search[int](score, len, budget=ENDLESS).cheapest(range(16), [frozenset(), frozenset({4, 5, 6})])
    assert found == {5} and score.asked[:2] == [frozenset(), frozenset({4, 5, 6})]
    assert all(chosen <= {4, 5, 6} for chosen in score.asked)


def test_a_smaller_set_that_costs_more_is_not_taken() -> None:
    """Items 2 and 4 are needed. Without item 3 there are two parts, each with casts around it."""

    def cost(chosen: Items) -> float:
        parts = sum(k - 1 not in chosen for k in chosen)
        return len(chosen) + 10 * parts

    score = all_of(frozenset({2, 4}))
    assert Search[int](score, cost, budget=ENDLESS).cheapest(range(8)) == {2, 3, 4}


@pytest.mark.parametrize("turn", [0, 1, 3])
def test_a_user_who_stops_it_gets_the_best_so_far(turn: int) -> None:
    needed = frozenset({3, 4})

    def score(chosen: Items) -> float:
        if len(asked) == turn:
            raise KeyboardInterrupt
        asked.append(chosen)
        return 0.5 if needed <= chosen else 2.0

    asked: list[Items] = []
    search: Search[int] = Search(score, len, budget=ENDLESS)
    found = search.cheapest(range(8), [frozenset(range(8))])
    assert needed <= found and search.stopped.startswith("the search was stopped after")
    assert found == min((a for a in asked if needed <= a), key=len, default=frozenset(range(8)))


def test_the_search_ends_where_little_is_left_to_gain() -> None:
    score, start = all_of(frozenset({3, 4})), frozenset(range(3, 9))
    found = Search[int](score, lambda chosen: 1000 + len(chosen), budget=ENDLESS).cheapest(range(16), [start])
    assert found == start and score.asked == [start]


def test_the_budget_is_held_against_what_was_spent() -> None:
    score = all_of(frozenset({5}))
    search: Search[int] = Search(score, len, budget=12, spent=lambda: 5.0 * len(score.asked))
    search.cheapest(range(64))
    assert len(score.asked) == 3 and search.stopped == "the search ended after 3 measurements"
