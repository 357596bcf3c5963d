"""Passes of the user's beside surgeon's own: which is applied, what stays of it, and what a person hears."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import model, ops

import surgeon
from surgeon.report import Report

HEAD = '"""For a test."""\nfrom surgeon import Stage, const, op, require, rule, var\nx = var("x")\n'
LOWER = '@rule({pattern}, stage=Stage.LOWER, strategy="decompose")\n'
WRITTEN = "b.Mul(x, b.Clip(b.Add(b.Div(x, 6.0), 0.5), 0.0, 1.0))"
ANY = LOWER.format(pattern="op.HardSwish(...)") + f"def mine(b):\n    x = b.root.inputs[0]\n    return {WRITTEN}\n"
MINE = LOWER.format(pattern="op.HardSwish(x)") + f"def mine(b, x):\n    return {WRITTEN}\n"
FUSES = f"@rule(op.HardSwish(x), stage=Stage.FUSE)\ndef mine(b, x):\n    return {WRITTEN}\n"
DECLINES = LOWER.format(pattern="op.HardSwish(x)") + 'def mine(b, x):\n    require(False, "not today")\n'
HARD_SWISH = "(float[2] a) => (float[2] y) { y = HardSwish (a) }"
WRITES = ["Div", "Add", "Clip", "Mul"]


def _rewritten(
    folder: Path, name: str, text: str, body: str = HARD_SWISH, **options: object
) -> tuple[list[str], Report]:
    (folder / f"{name}.py").write_text(HEAD + text)
    result = surgeon.rewrite(model(body), passes=folder, verify="none", **options)  # type: ignore[call-overload]
    return [o for o in ops(result.model) if o != "Constant"], result.report


@pytest.mark.parametrize("name", ["a_mine", "z_mine"])
def test_of_two_rules_alike_it_is_the_users(name: str, tmp_path: Path) -> None:
    found, report = _rewritten(tmp_path, name, MINE, target="7.1")
    assert found == WRITES and not report.warnings
    assert [a.pass_name for a in report.applied] == [name.replace("_", "-")]


@pytest.mark.parametrize("name", ["a_mine", "z_mine"])
def test_a_rule_that_asks_nothing_of_the_node_comes_later(name: str, tmp_path: Path) -> None:
    found, report = _rewritten(tmp_path, name, ANY, target="7.1")
    assert found == ["HardSigmoid", "Mul"]
    called = name.replace("_", "-")
    assert report.warnings == [
        f"your pass '{called}' matched 1 time and was never applied: 'hard-swish' was applied instead"
    ]


def test_a_larger_window_of_surgeons_is_named(tmp_path: Path) -> None:
    relu = "@rule(op.Mul(x, const('c')), stage=Stage.FUSE)\ndef mine(b, x, c):\n    return b.Neg(x)\n"
    body = "(float[2] a) => (float[2] y) <float c = {0.25}> { m = Mul (a, c)  y = Max (a, m) }"
    found, report = _rewritten(tmp_path, "mine", relu, body, target="10.9")
    assert found == ["LeakyRelu"]
    assert report.warnings == [
        "your pass 'mine' matched 1 time and was never applied: 'leaky-relu' was applied instead"
    ]


@pytest.mark.parametrize("text", [FUSES, MINE])
def test_what_a_users_pass_has_written_is_not_fused_back(text: str, tmp_path: Path) -> None:
    given = {} if text is FUSES else {"strategy": {"mine": "decompose"}}
    found, report = _rewritten(tmp_path, "mine", text, target="10.9", **given)
    assert found == WRITES and not report.warnings
    assert [a.pass_name for a in report.applied] == ["mine"]


def test_a_larger_window_takes_what_a_users_pass_has_written(tmp_path: Path) -> None:
    text = "@rule(op.Add(x, x), stage=Stage.FUSE)\ndef mine(b, x):\n    return b.Mul(x, 2.0)\n"
    body = "(float[2] a) => (float[2] y) { m = Add (a, a)  y = Min (a, m) }"
    found, report = _rewritten(tmp_path, "mine", text, body, target="10.9")
    assert found == ["LeakyRelu"]
    assert [a.pass_name for a in report.applied] == ["mine+leaky-relu"]


def test_a_pass_whose_nodes_the_target_supports_says_so(tmp_path: Path) -> None:
    found, report = _rewritten(tmp_path, "mine", MINE, target="10.9")
    assert found == ["HardSwish"]
    assert report.warnings == [
        "your pass 'mine' matched 1 time and was never applied: TensorRT 10.9 supports what it matched. "
        "--strategy mine=decompose applies it all the same"
    ]


@pytest.mark.parametrize("skip", [["mine"], ["mine:*"]])
def test_a_pass_that_was_asked_to_leave_a_node_alone_is_not_named(skip: list[str], tmp_path: Path) -> None:
    found, report = _rewritten(tmp_path, "mine", MINE, target="7.1", skip=skip)
    assert found == ["HardSigmoid", "Mul"] and not report.warnings


def test_a_pass_that_declines_is_not_named(tmp_path: Path) -> None:
    found, report = _rewritten(tmp_path, "mine", DECLINES, target="7.1")
    assert found == ["HardSigmoid", "Mul"] and not report.warnings
    assert [(d.pass_name, d.why) for d in report.declined] == [("mine", "not today")]
