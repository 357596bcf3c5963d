"""The table of operator cases that stay refused: each has a reason, and what a person can do."""

from __future__ import annotations

import re
from pathlib import Path

import onnx.parser
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PAGE = Path(__file__).parents[1] / "docs/refused-cases.md"
CELL = re.compile(r"(?<!\\)\|")
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in CELL.split(line)[1:-1]] for line in lines[2:]]


def test_every_reason_and_every_advice_is_a_sentence() -> None:
    for _, cases, why, cure in rows():
        for text in (why, cure):
            assert len(text.split()) > 2, (cases, text)
            assert text.endswith("."), (cases, text)
            assert text[0] == text[0].upper(), (cases, text)


def test_the_table_has_as_many_cases_as_it_says() -> None:
    said = re.search(r"This table has the other (\d+)", PAGE.read_text(encoding="utf-8"))
    assert said is not None
    more = [re.search(r"and (\d+) more", cases) for _, cases, _, _ in rows()]
    assert sum(1 + (int(found[1]) if found else 0) for found in more) == int(said[1])


def test_the_script_says_why_a_case_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorrt_rtx")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import refused_cases

    taken = onnx.parser.parse_model(HEAD + "g (float[2] x) => (float[2] y) { y = Relu (x) }")
    assert refused_cases.refusal(taken) is None
    left = refused_cases.refusal(onnx.parser.parse_model(HEAD + "g (float[2] x) => (float[N] y) { y = Unique (x) }"))
    assert left.operator == "Unique"
    assert "no importer for Unique" in left.why
    assert "after the engine" in left.cure
