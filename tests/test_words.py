"""The word list of CONTRIBUTING, in documents, docstrings, comments and messages."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# What to write -> what not to. Quoted code, placeholders and what the documents' word list shows are not read.
FORBIDDEN = {
    "after, downstream of": r"\bbehind\b",
    "before": r"\bin front\b",
    "is, is in": r"\bstands?\b(?! for\b| in for\b)",
    "is not a": r"(?<![Tt]here )\b(?:is|are|was) no (?!(?:more|larger|further|fewer|longer|other|news|exception)\b)\w",
    "integer": r"\bwhole numbers?\b",
    "image": r"\bpictures?\b(?!\.py)",
    "passes on": r"\bhand(?:s|ed) on\b",
    "holds, stores": r"(?<!loop-)\bcarr(?:y|ies|ied)\b",
    "unsupported": r"(?<!\.)\buntaken\b(?! {2}|\")|\b(?:is|are) not taken\b",
    "fixes": r"\bmend(?:s|ed)?\b(?! {2})",
    "advice": r"\bcures?\b(?! {2})",
    "reports, prints": r"\b(?:is|are|was|been) (?:told|said)\b",
    "no node": r"\bnobody (?!else\b|but\b)",
    "supports": r"\b(?:target|parser|TensorRT|RTX) (?:takes|does not take)\b(?! 0\b)",
    "in place of": r"\bin the place of\b",
}
NAMED = re.compile(r"`[^`\n]*`")


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """(file, text) of what a person reads: whole documents, and of code the comments and the strings with a space."""
    code = (path for folder in ("surgeon", "passes", "docs") for path in (ROOT / folder).rglob("*.py"))
    found = [(path, "\n".join(_prose(path.read_text()))) for path in code]
    tables = (ROOT / "surgeon").rglob("*.toml")
    pages = (ROOT / "README.md", *tables, *(ROOT / "docs").rglob("*.md"), *(ROOT / "samples").rglob("*.md"))
    found += [(path, NAMED.sub("", path.read_text())) for path in pages]
    return tuple((str(path.relative_to(ROOT)), text) for path, text in found)


def _prose(code: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            text = NAMED.sub("", token.string)
            yield re.sub(r"\{[^{}]*\}", "", text) if "f" in text.partition('"')[0].lower() else text


@pytest.mark.parametrize("better", FORBIDDEN)
def test_the_word_list_is_kept(better: str) -> None:
    found = [(file, m.group()) for file, text in texts() for m in re.finditer(FORBIDDEN[better], text)]
    assert found == [], f"write '{better}'"


@pytest.mark.parametrize(
    ("better", "text"),
    [("is not a", "it is no float"), ("fixes", "a pass mends it"), ("is, is in", "what stands there")],
)
def test_a_forbidden_word_is_found(better: str, text: str) -> None:
    assert re.search(FORBIDDEN[better], "\n".join(_prose(f'x = "{text}"  # {text}')))
