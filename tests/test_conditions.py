"""Every condition of the table, on every release that it knows: a node that it refuses, and one with one thing changed.

An example that is written by hand says a second time, in words, which targets refuse a node, and what the releases
beside them say. One that is made from a row puts what the row refuses into a node that every release takes, and takes
it out again, one thing at a time. A condition without an example, for an operator that it is declared for, fails; so
does one that answers one release too early or too late, or with another reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from condition_examples import BY_HAND, EXAMPLES
from condition_examples.example import Example, node_of
from helpers import refusal, require_opset

from surgeon.targets import releases
from surgeon.targets.condition import Condition
from surgeon.targets.conditions import conditions
from surgeon.targets.conditions.dla import gpu_fallback
from surgeon.targets.rows import Row, read
from surgeon.targets.target import Target

# ---- what is asked of them -------------------------------------------------------------------------------------------

RELEASES = [Target(releases.dotted(row), row) for row in releases.RELEASES]
ON_DLA = [Target(f"{releases.dotted(row)}+dla", row, dla=True) for row in releases.RELEASES if row[0] <= 10]
ON_RTX = Target("rtx", releases.LAST, rtx=True)
CASES = [
    pytest.param(name, op, example, id=f"{name}-{op}-{k}")
    for name, examples in EXAMPLES.items()
    for k, example in enumerate(examples)
    for op in example.operators.split()
]


def named(name: str, op: str) -> list[Condition]:
    return [c for c in conditions() if c.name == name and any(op in scope.operators for scope in c.scopes)]


def span(targets: list[Target]) -> str:
    """Targets that follow each other, by their first and last release."""
    if not targets:
        return ""
    names = [releases.dotted(t.version) for t in targets]
    rows = [releases.RELEASES.index(t.version) for t in targets]
    assert rows == list(range(rows[0], rows[-1] + 1)), f"with a gap: {names}"
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def refusing(example: Example, op: str) -> list[Target]:
    """The targets that give an example's reason."""
    node = node_of(example.refused, op, example.opset)
    asked = ON_DLA if example.targets.startswith("dla ") else [*RELEASES, ON_RTX]
    found = [(t, t.why_unsupported(node, rewriting=True, exactly=True)) for t in asked if t.imports(op)]
    return [t for t, why in found if why is not None and why.reason == example.why]


def test_every_condition_has_an_example_for_every_operator() -> None:
    hand_written = [c.name for c in conditions() if not isinstance(c, Row)]
    assert len(set(hand_written)) == len(hand_written), "two functions of one name"
    for c in conditions():
        declared = {op for scope in c.scopes for op in scope.operators}
        shown = {op for e in EXAMPLES.get(c.name, ()) for op in e.operators.split()}
        missing = set() if c is gpu_fallback else declared - shown  # that one has many operators, and one example
        assert not missing, f"{c.name} needs an example of {sorted(missing)}, in tests/condition_examples/"
    assert set(EXAMPLES) <= {c.name for c in conditions()}
    assert all(e.taken for name in BY_HAND for e in EXAMPLES[name])


@pytest.mark.parametrize(("name", "op", "example"), CASES)
def test_a_condition_answers_from_its_first_release_to_its_last(name: str, op: str, example: Example) -> None:
    require_opset(example.opset)
    node = node_of(example.refused, op, example.opset)
    assert example.why in [c.check(node) for c in named(name, op)]
    held = [t for c in named(name, op) for t in covered(c, op)]
    assert held, f"{name} holds for no target that imports {op}: see IMPORTERS in surgeon/targets/tables.py"
    dla, found = example.targets.startswith("dla "), refusing(example, op)
    plain = [t for t in RELEASES if t.imports(op)]
    if example.beside is None:  # another condition may say it first
        alike = [c for c in conditions() if covered(c, op) and c.check(node) == example.why]
        assert found and set(found) <= {t for c in alike for t in covered(c, op)}
        asked = [t for c in named(name, op) if c in alike for t in covered(c, op)]
        assert all(t.why_unsupported(node, rewriting=True, exactly=True) is not None for t in asked)
        return
    words = [span([t for t in found if not t.rtx]), "rtx" * (ON_RTX in found)]
    assert "dla " * dla + ", ".join(filter(None, words)) == example.targets

    if dla:
        assert all(refusal(t, node, exactly=True) is None for t in plain for r in found if t.version == r.version)
        return
    places = [plain.index(t) for t in found if not t.rtx] or [len(plain)]
    neighbours = plain[max(places[0] - 1, 0) : places[0]] + plain[places[-1] + 1 : places[-1] + 2]
    neighbours += [ON_RTX] * ON_RTX.imports(op)
    others = {refusal(t, node, exactly=True) for t in neighbours} - {None, example.why}
    assert others == set(example.beside)


def covered(condition: Condition, op: str) -> list[Target]:
    """The targets that import an operator and that a condition holds for."""
    asked = [*RELEASES, ON_RTX, *ON_DLA] if condition.scopes[0].targets.dla else [*RELEASES, ON_RTX]
    where = [scope.targets for scope in condition.scopes if op in scope.operators]
    return [t for t in asked if t.imports(op) and any(is_in(t, r) for r in where)]


def is_in(t: Target, where: releases.Range) -> bool:
    return where.doubts(t.version, rtx=t.rtx) if where.doubt else where.covers(t.version, rtx=t.rtx, dla=t.dla)


@pytest.mark.parametrize(("name", "op", "example"), CASES)
def test_with_one_thing_changed_the_same_targets_take_the_node(name: str, op: str, example: Example) -> None:
    require_opset(example.opset)
    refused, found = node_of(example.refused, op, example.opset), refusing(example, op)
    assert found
    for text, opset in zip(example.taken, example.opsets or [example.opset] * len(example.taken), strict=True):
        node = node_of(text, op, opset)
        assert node.op != refused.op or any(c.check(node) is None for c in named(name, op))
        assert {t.name: refusal(t, node, exactly=True) for t in found} == dict.fromkeys(
            (t.name for t in found), None
        ), text


def test_a_reduction_of_a_number_over_no_axes_returns_it() -> None:
    text = "(float x) => (float y) { y = ReduceSum <noop_with_empty_axes = 1> (x) }"
    assert refusal(Target.parse("10.9"), node_of(text, "ReduceSum", 13)) is None
    assert refusal(Target.parse("10.9"), node_of(text.replace("= 1", "= -1"), "ReduceSum", 13)) is not None


def test_an_attention_with_heads_of_unknown_size_is_taken() -> None:
    text = "(float16[1,2,2,N] q, float16[1,2,2,N] k) => (float16[1,2,2,N] y) { y = Attention (q, k, k) }"
    assert refusal(ON_RTX, node_of(text, "Attention", 23)) is None
    assert refusal(ON_RTX, node_of(text.replace("N]", "8]"), "Attention", 23)) == "there is no kernel for heads of 8"


IN_DOUBT = ["9.3", "10.13", "10.14", "10.16", "11.0", "11.4"]


@pytest.mark.parametrize(
    ("text", "opset", "doubted"),
    [
        ("(q, k, k, m) @ is_causal = 1", 23, "10.14 10.16 11.0 11.4"),  # measured with TensorRT-RTX
        ("(q, k, k, m)", 23, "10.14 10.16"),  # documented
        ("(q, k, k, n)", 23, ""),
        ("(t, u, u) @ q_num_heads = 2, kv_num_heads = 2", 23, "10.14 10.16"),
    ],
)
def test_of_what_tensorrt_rtx_refuses_nothing_is_known_of_the_releases_beside_it(
    text: str, opset: int, doubted: str
) -> None:
    require_opset(opset)
    call, _, attrs = text.partition(" @ ")
    inputs = "float16[1,2,4,16] q, float16[1,2,4,16] k, float16[4,4] m, float16[1,1,4,4] n, float16[1,4,32] t, float16[1,4,32] u"
    node = node_of(
        f"({inputs}) => (float16[] y) {{ y = Attention <{attrs}> {call} }}".replace(" <>", ""), "Attention", 23
    )
    found = {t: Target.parse(t).why_unsupported(node) for t in IN_DOUBT}
    assert " ".join(t for t, why in found.items() if why is not None and not why.known) == doubted
    assert all(
        why is None for t, why in found.items() if t not in doubted.split() and Target.parse(t).imports("Attention")
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [("rnak = 1", "rnak"), ('targets = "8.3"', "8.3 is not in the table"), ("rank = { abov = 1 }", "abov")],
)
def test_a_row_that_is_wrong_is_named(tmp_path: Path, line: str, why: str) -> None:
    lines = ["[[rows]]", 'operators = "Relu"', 'source = "measured"', line]
    lines += [] if line.startswith("targets") else ['targets = "8.4"']
    (tmp_path / "theme.toml").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"a row of Relu .*{why}"):
        read(str(tmp_path / "theme.py"))
