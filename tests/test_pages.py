"""Every block of code in a document is run, and prints what the document says; or the document says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from blocks import COMMAND, FENCE, ROOT, blocks, compared, fails, try_page

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "samples").glob("*/README.md")) + [ROOT / "surgeon/trt/plugins/README.md"]
TRIED = [p for p in PAGES if p.parent.parent.name != "samples"]
RUNNING = [p for p in TRIED if any(b.runs for b in blocks(p.read_text(encoding="utf-8")))]
LONG = ("docs/python.md", "docs/using.md")  # 12 and 15 s: a conversion of style transfer, and every command once


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.long] * p.as_posix().endswith(LONG)) for p in RUNNING],
    ids=lambda p: p.name,
)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    try_page(page, tmp_path, pytestconfig.getoption("--write-console"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_block_is_made_by_indentation(page: Path) -> None:
    outside = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert re.findall(r"(?:^|\n)\n {4}[^\s*-].*", outside) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_command_stands_in_a_block_that_nobody_runs(page: Path) -> None:
    given = blocks(page.read_text(encoding="utf-8"))
    assert [b.text for b in given if not b.runs and not b.why and COMMAND.search(b.text)] == []


def test_a_block_that_goes_wrong_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\nsurgeon passes --no-such-option\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="exit status 2"):
        try_page(page, tmp_path, False)
    page.write_text("```sh\nsurgeon passes --no-such-option   # exit status 2\n```\n", encoding="utf-8")
    try_page(page, tmp_path, False)
    page.write_text("<!-- not run: a reason -->\n```sh\nfalse\n```\n```text\n$ true\n```\n", encoding="utf-8")
    first, second = blocks(page.read_text(encoding="utf-8"))
    assert not first.runs and first.why == "a reason" and COMMAND.search(second.text)
    page.write_text("```python\nraise SystemExit(3)\n```\n", encoding="utf-8")
    assert fails(blocks(page.read_text(encoding="utf-8"))[0], tmp_path)


def test_three_dots_stand_for_any_lines() -> None:
    compared("a\n  ...\nc 0.1 s\n", "a\nb\nb\nc 9.9 s\n")
    with pytest.raises(AssertionError):
        compared("a\n  ...\nc\n", "a\nb\nd\n")
