"""The border between 16 bits and fp32 is a minimum cut: held against every cut of small graphs."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from surgeon.precision.border import Arc, source_side

COUNT = 5
ARCS = st.lists(st.tuples(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1), st.integers(0, 9)), max_size=14)


def capacity(arcs: list[Arc], side: set[int]) -> float:
    return sum(size for first, second, size in arcs if first in side and second not in side)


@given(ARCS)
def test_no_cut_is_cheaper_and_none_as_cheap_is_smaller(drawn: list[tuple[int, int, int]]) -> None:
    arcs = [(first, second, float(size)) for first, second, size in drawn]
    found = source_side(COUNT, arcs, 0, 1)
    assert 0 in found and 1 not in found
    sides = [{0, *(v for v, inside in enumerate(chosen, 2) if inside)} for chosen in product((0, 1), repeat=COUNT - 2)]
    least = min(capacity(arcs, side) for side in sides)
    assert capacity(arcs, found) == least
    assert all(found <= side for side in sides if capacity(arcs, side) == least)
