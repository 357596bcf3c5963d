"""Former names of passes, renamed or now a part of another one: they are still accepted, with a note."""

from __future__ import annotations

import pytest
from helpers import model, ops
from test_cli import Captured

import surgeon
from surgeon.app.cli import main
from surgeon.errors import UsageError
from surgeon.rules.registry import passes

# Both nodes are for respell in 9.1; what was the pass trilu rewrites the first, what was the pass constant the second.
BOTH = """(float[2,5,5] x) => (float[2,5,5] y, float[2,5,5] z) {
    y = Trilu (x)
    two = Constant <value_int = 2> ()
    z = Trilu <upper = 1> (x, two)
}"""
NOTE = "the pass 'trilu' is a part of 'respell' now"


def _rewritten(**options: object) -> tuple[list[int | None], list[str]]:
    """What `upper` the first node has, whether the Constant is gone, and the warnings."""
    result = surgeon.rewrite(model(BOTH), target="9.1", verify="none", **options)  # type: ignore[call-overload]
    upper = [a.i for a in result.model.graph.node[0].attribute]
    return [*upper, ops(result.model).count("Constant")], result.report.warnings


def test_without_a_former_name_nothing_is_noted() -> None:
    assert _rewritten() == ([1, 0], [])


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"only": ["trilu"]}, [1, 1]),
        ({"skip": ["trilu"]}, [0]),
        ({"only": ["respell"], "skip": ["trilu"]}, [0]),
        ({"only": ["constant", "trilu"]}, [1, 0]),
        ({"skip": ["trilu:Trilu*y"]}, [0]),
        ({"strategy": {"trilu": "keep"}}, [1]),
    ],
)
def test_a_former_name_means_the_rules_that_it_had(options: dict[str, object], found: list[int]) -> None:
    upper_and_constants, warnings = _rewritten(**options)
    assert upper_and_constants == found
    assert NOTE in warnings


def test_a_former_name_is_explained_and_not_listed(capsys: Captured) -> None:
    assert main(["explain", "trilu"]) == 0
    assert capsys.readouterr().out.startswith("respell\n")
    assert not {"trilu", "constant", "slice"} & {p.name for p in passes()}


# For a pass of rules, and for one over the whole model.
SMALL = "(uint8[2] x) => (uint8[2] y) { y = Transpose (x) }"
ROUND_TRIP = """(int32[2,2] x) => (int32[2,2] y) <int32 zero = {0}, int32 top = {255}> {
    low = Clip (x, zero, top)
    s = Cast <to = 2> (low)
    t = Transpose (s)
    y = Cast <to = 6> (t)
}"""


@pytest.mark.parametrize(
    ("former", "now", "text"),
    [
        ("small-integers", "widen-small-integers", SMALL),
        ("detour", "remove-int8-round-trips", ROUND_TRIP),
    ],
)
def test_a_renamed_pass_has_its_former_name(former: str, now: str, text: str) -> None:
    def applied(**options: object) -> tuple[set[str], list[str]]:
        report = surgeon.rewrite(model(text), target="rtx", verify="none", **options).report  # type: ignore[call-overload]
        return {name for a in report.applied for name in a.pass_name.split("+")}, report.warnings

    note = f"the pass '{former}' is called '{now}' now"
    assert applied(only=[now]) == ({now}, [])
    assert applied(only=[former]) == ({now}, [note])
    assert applied(only=[now], skip=[former]) == (set(), [note])


def test_a_name_that_nobody_had_is_an_error() -> None:
    with pytest.raises(UsageError, match="no pass is called 'triluu'"):
        surgeon.rewrite(model(BOTH), skip=["triluu"])
