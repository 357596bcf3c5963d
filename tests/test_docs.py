"""The documents: links lead somewhere, sections that the code names are there, report.md has what a report has."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon.app import arguments
from surgeon.precision import OutputError, PrecisionResult
from surgeon.rules import registry
from surgeon.targets import names, releases, tables
from surgeon.trt.causes import CAUSES, Cause
from surgeon.trt.why import IMPORTED

ROOT = Path(__file__).parents[1]
DOCS = {path.name: path for path in sorted((ROOT / "docs").glob("*.md"))}
PAGES = [p for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md") if (p := ROOT / n).exists()] + [*DOCS.values()]
CODE = [p for folder in ("surgeon", "passes", "tests", "benchmarks", "samples") for p in (ROOT / folder).rglob("*.py")]
CODE.remove(Path(__file__))

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(docs/)?\b([\w-]+\.md)\b(?:#([\w-]+)|,? section (\d+(?:\.\d+)?[a-z]?))?")
NUMBER = re.compile(r"\d+(?:\.\d+)?[a-z]?(?=[. ])")


def text_of(path: Path) -> str:
    """A page without its blocks of code."""
    return FENCED.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """What a heading is called in a link: lower case, without punctuation, hyphens for spaces."""
    found: set[str] = set()
    for heading in HEADING.findall(text_of(path)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = stem = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        again = 0
        while name in found:
            again += 1
            name = f"{stem}-{again}"
        found.add(name)
    return found


def sections(path: Path) -> set[str]:
    """The numbers of a document's headings: 2, 2.1, 11b."""
    return {m.group() for heading in HEADING.findall(text_of(path)) if (m := NUMBER.match(heading))}


def broken_links(path: Path, root: Path = ROOT) -> Iterator[str]:
    for link in LINK.findall(text_of(path)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        to = (path.parent / file).resolve() if file else path
        if not to.exists() or not to.is_relative_to(root.resolve()):
            yield f"{link}: there is no such file"
        elif anchor and anchor not in anchors(to):
            yield f"{link}: there is no such heading"


def broken_references(path: Path) -> Iterator[str]:
    """What the code says of documents: `docs/x.md`, `docs/x.md section 4`, `docs/x.md#anchor`."""
    # A reference may go on in the next line: of a comment, or of a text in two parts.
    text = re.sub(r'"?\s*\n\s*(?:# |f?")?', " ", path.read_text(encoding="utf-8"))
    for found in NAMED.finditer(text):
        folder, name, anchor, section = found.groups()
        if folder is None:
            if name in DOCS:
                yield f"{found[0]}: write docs/{name}"
        elif name not in DOCS:
            yield f"{found[0]}: there is no such document"
        elif anchor and anchor not in anchors(DOCS[name]):
            yield f"{found[0]}: there is no such heading"
        elif section and section not in sections(DOCS[name]):
            yield f"{found[0]}: there is no such section"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    assert list(broken_links(path)) == []


def test_what_the_code_says_of_documents_is_there() -> None:
    assert [f"{p.relative_to(ROOT)}: {why}" for p in CODE for why in broken_references(p)] == []


def test_no_document_outside_the_repository_is_named() -> None:
    assert [str(p.relative_to(ROOT)) for p in CODE if "design.md" in p.read_text(encoding="utf-8")] == []


def test_broken_links_and_references_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n[a](#one) [b](#two) [c](none.md) [d](https://x.org)\n```\n[e](none)\n```\n", encoding="utf-8"
    )
    assert list(broken_links(page, tmp_path)) == ["#two: there is no such heading", "none.md: there is no such file"]
    code = tmp_path / "code.py"
    code.write_text(
        "# docs/none.md, trt-support.md section 4, docs/trt-support.md\n# section 99, docs/proof.md section 2\n"
    )
    assert list(broken_references(code)) == [
        "docs/none.md: there is no such document",
        "trt-support.md section 4: write docs/trt-support.md",
        "docs/trt-support.md section 99: there is no such section",
    ]


def test_the_reports_fields_are_those_that_are_documented() -> None:
    written = surgeon.rewrite(ROOT / "samples/ssd_l2norm/ssd_l2norm_ts_op13.onnx", target="8.4").report.to_json()
    fields, entry, refusal, _, half, output = (
        re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
        for part in re.split(r"^## ", DOCS["report.md"].read_text(encoding="utf-8"), flags=re.MULTILINE)[1:7]
    )
    assert fields == [*written, "precision", "record"]
    assert entry == list(written["applied"][0])
    assert refusal == list(surgeon.report.Declined("pass", "node", "why").to_json())
    assert half == list(PrecisionResult(onnx.ModelProto()).to_json())
    assert output == list(OutputError("y", "data", 0.0, 1.0).to_json())


def test_the_readme_fits_a_screen_or_two() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 450


COMMANDS = re.compile(r"^\$? ?surgeon (.+?)(?:  +[a-zA-Z].*)?$", re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "docs/using.md", "docs/comparing.md", "docs/exit-status.md"])
def test_every_command_of_a_page_parses(name: str) -> None:
    """Those in blocks of code, and those between backquotes that begin with the program."""
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    given = [re.sub(r" #.*| \.\.\.$", "", c).strip() for c in COMMANDS.findall(blocks)]
    given += re.findall(
        r"`surgeon ((?:fix|why|check|rewrite|build|compare|explain) [^`]*\.[^`]*)`", FENCED.sub("", text)
    )
    assert given or name == "docs/exit-status.md"
    for command in given:
        for one in command.split(" | "):
            arguments.parser().parse_args(shlex.split(one))


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: c.name)
def test_a_browser_reads_the_patterns_of_a_cause_alike(cause: Cause) -> None:
    """The page of errors reads a log with them: no group by name, no flags inside, nothing that JavaScript lacks."""
    assert not re.search(r"\(\?(?![:!=]|<[=!])|\\[AZ]|[*+?}]\+", cause.search.pattern)


@pytest.mark.long
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    """Links and anchors too; with a page for each pass, and every operator of the table."""
    pages, site = tmp_path / "pages", tmp_path / "site"
    subprocess.run([sys.executable, ROOT / "docs" / "site.py", pages], check=True, cwd=ROOT)
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(
        config.replace("build/site-pages", str(pages)).replace("build/site", str(site)), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", tmp_path / "mkdocs.yml"],
        capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    built = {p.stem for p in (site / "passes").glob("*.html")}
    assert built == {p.name for p in registry.passes()} | {"index"}
    table = (site / "operators.html").read_text(encoding="utf-8").replace("<wbr>", "")
    assert all(f">{op}<" in table for op in tables.IMPORTED)
    assert all(f"<th>{releases.dotted(v)}</th>" in table for v in releases.RELEASES)
    shown = set(re.findall(r'<a href="#(\w+)">◐', table))
    assert shown and all(f'id="{op}"' in table for op in shown)
    assert 'href="passes/instance-norm.html">instance-norm</a>' in table
    errors = (site / "errors.html").read_text(encoding="utf-8")
    assert all(f'id="{cause.name}"' in errors for cause in [*CAUSES, IMPORTED])
    assert all(json.dumps(cause.search.pattern) in errors for cause in CAUSES)
    reference = (site / "api.html").read_text(encoding="utf-8")
    assert all(f'id="{name.strip("_").lower()}"' in reference for name in surgeon.__all__)
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    found = {entry["title"]: entry["location"] for entry in index}
    assert found["NaN in fp16"] == "docs/nan-in-fp16.html"
    words = {"Which TensorRT do I have": "which-tensorrt", "My model is 8 GB": "large-models", "Jetson": "jetson"}
    words |= {"How do I trust this": "trust", "int8": "int8"}
    places = {(entry["title"], entry["location"]) for entry in index}
    assert {(title, f"docs/{page}.html") for title, page in words.items()} <= places
    assert found["TensorRT 11 has no FP16 flag: what now"] == "docs/tensorrt-11-fp16.html"
    named = (site / "targets.html").read_text(encoding="utf-8")
    assert all(f">{alias.name}<" in named for alias in names.aliases())
    assert "<svg" in (site / "passes" / "l2-norm.html").read_text(encoding="utf-8")
