"""Lay out the pages of the documents' site: those of the repository as they are, and those that are generated.

    python docs/site.py FOLDER        what `make docs` runs before mkdocs

Generated are a page a pass, from its docstring and its cases, the table of operators and TensorRT releases, the errors
that `surgeon why` knows, and the names of targets.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import casefile  # noqa: E402

import surgeon  # noqa: E402
from surgeon.app.html.drawing import draw, sketch  # noqa: E402
from surgeon.report import Applied  # noqa: E402
from surgeon.rules.registry import passes  # noqa: E402
from surgeon.rules.rule import Pass  # noqa: E402
from surgeon.targets import names, tables  # noqa: E402
from surgeon.targets.conditions import CONDITIONS  # noqa: E402
from surgeon.targets.releases import LAST, RELEASES, Version, dotted  # noqa: E402
from surgeon.trt.causes import CAUSES  # noqa: E402

LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
DRAWN = 3  # cases of a pass whose windows are drawn
STYLE = """
.md-grid { max-width: 80rem; } .md-typeset pre > code { white-space: pre-wrap; }
.md-typeset table:not([class]) th, .md-typeset table:not([class]) td { min-width: 0; padding: .4em .6em; }
.drawing { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; overflow-x: auto; }
.drawing svg { max-width: 100%; height: auto; display: block; margin: auto; }
.drawing svg text { text-anchor: middle; fill: var(--md-typeset-color); font-family: system-ui, sans-serif; }
.drawing svg .op { font-size: 13px; } .drawing svg .detail { font-size: 11px; opacity: .7; }
.drawing svg rect { fill: none; stroke: var(--md-default-fg-color--light); }
.drawing svg .input rect, .drawing svg .output rect { stroke-dasharray: 3 3; }
.drawing svg .edge { fill: none; stroke: var(--md-default-fg-color--light); }
.drawing svg .tip { fill: var(--md-default-fg-color--light); }
.drawing .before .node rect { stroke: #c0392b; } .drawing .after .node rect { stroke: #1a7f4b; }
"""


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "passes").mkdir(parents=True)
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    pages += [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "samples").glob("*/README.md"))]
    pages += [ROOT / "surgeon/trt/plugins" / name for name in ("README.md", "FINDINGS.md")]
    for page in pages:
        copy(page, folder)
    (folder / "README.md").rename(folder / "index.md")
    (folder / "drawings.css").write_text(STYLE, encoding="utf-8")
    (folder / "operators.md").write_text(operators_page(), encoding="utf-8")
    (folder / "errors.md").write_text(errors_page(), encoding="utf-8")
    (folder / "targets.md").write_text(targets_page(), encoding="utf-8")
    for p in passes():
        (folder / "passes" / f"{p.name}.md").write_text(pass_page(p), encoding="utf-8")
    (folder / "passes" / "index.md").write_text(passes_page(passes()), encoding="utf-8")


def copy(page: Path, folder: Path) -> None:
    """Copy a page to the same place below `folder`, and what it links to that is no page."""
    text = page.read_text(encoding="utf-8")
    for link in LINK.findall(text):
        linked = (page.parent / link).resolve()
        if linked.is_file() and linked.suffix != ".md":
            place = folder / linked.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(linked, place)
    place = folder / page.relative_to(ROOT)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text.replace("](README.md", "](index.md") if page.parent == ROOT else text, encoding="utf-8")


# ---- passes ----------------------------------------------------------------------------------------------------------


def passes_page(given: Iterable[Pass]) -> str:
    rows = [f"| [{p.name}]({p.name}.md) | {', '.join(s.value for s in p.stages)} | {first_line(p)} |" for p in given]
    return "\n".join(["# The passes", "", "| pass | stages | what it does |", "|---|---|---|", *rows, ""])


def first_line(p: Pass) -> str:
    return escape(p.doc.splitlines()[0], quote=False).replace("|", "\\|")


def pass_page(p: Pass) -> str:
    """A pass: what it says of itself, some of its cases drawn, and what it leaves alone."""
    first, _, rest = p.doc.partition("\n")
    cases = [casefile.load(path) for path in casefile.paths() if path.parent.name.replace("_", "-") == p.name]
    strategies = f" Strategies: {', '.join(f'`{s}`' for s in p.strategies)}." if p.strategies else ""
    options = f" Options: {', '.join(f'`{o}`' for o in p.options)}." if p.options else ""
    lines = [f"# {p.name}", "", escape(first, quote=False), "", "```text", rest.strip("\n"), "```", ""]
    lines += [f"Stages: {', '.join(s.value for s in p.stages)}.{strategies}{options}", ""]
    drawn = [picture for case in cases if case.expected is not None for picture in pictures(case, p.name)]
    lines += ["## Examples", "", *drawn[:DRAWN]] if drawn else []
    reasons = sorted({case.why for case in cases if case.expected is None})
    if reasons:
        lines += ["## What is left alone", "", *(f"- {escape(why, quote=False)}" for why in reasons), ""]
    return "\n".join(lines)


def pictures(case: casefile.Case, name: str) -> Iterator[str]:
    """The first window of a case that the pass rewrites, before and after."""
    found = surgeon.rewrite(case.model, verify="none", **case.options).report.applied
    mine = [a for a in found if name in a.pass_name.split("+")]
    if mine:
        title = case.path.stem.replace("_", " ")
        yield f"### {title}\n\nFor target {case.options['target']}.\n\n{drawing(mine[0])}\n"


def drawing(a: Applied) -> str:
    before = draw(sketch(a.change.nodes_before, a.outputs), "before")
    after = draw(sketch(a.change.nodes_after, a.outputs), "after")
    return f'<div class="drawing"><div class="before">{before}</div><div class="after">{after}</div></div>'


# ---- operators and releases ------------------------------------------------------------------------------------------


def operators_page() -> str:
    """Every operator that a release imports, the releases side by side, and the conditions of each."""
    columns: list[tuple[str, Version, bool]] = [(dotted(v), v, False) for v in first_of_each_kind()]
    columns.append(("RTX", LAST, True))
    operators = sorted({op for _, version, rtx in columns for op in tables.importers(version, rtx)})
    lines = [
        "---",
        "hide: [toc]",
        "---",
        "",
        "# Operators and TensorRT",
        "",
        "This page is made from the table that `surgeon check` asks. A release that is not here reads as the one "
        "before it.",
        "",
        "`yes`: the parser takes every node. `if`: under conditions, which stand below. Empty: it has no importer.",
        "",
        "| operator | " + " | ".join(name for name, _, _ in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for op in operators:
        cells = " | ".join(cell(op, version, rtx) for _, version, rtx in columns)
        name = f"[{op}](#{op.lower()})" if conditions_of(op) else op
        lines.append(f"| {name} | {cells} |")
    lines += ["", "## Conditions", ""]
    for op in operators:
        found = conditions_of(op)
        lines += [f"### {op}", "", *(f"- {text}" for text in found), ""] if found else []
    return "\n".join(lines)


def first_of_each_kind() -> list[Version]:
    """The releases that read anything otherwise than the one before."""
    found: list[Version] = []
    for version in RELEASES:
        if not found or row(version) != row(found[-1]):
            found.append(version)
    return found


def row(version: Version) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    in_force = {(c.name, s.source) for c in CONDITIONS for s in c.scopes if s.targets.covers(version)}
    return frozenset(tables.importers(version, False)), frozenset(in_force)


def cell(op: str, version: Version, rtx: bool) -> str:
    if op not in tables.importers(version, rtx):
        return ""
    scopes = (s for c in CONDITIONS for s in c.scopes if op in s.operators)
    conditional = any(s.targets.covers(version, rtx=rtx) for s in scopes)
    return "if" if conditional or op in tables.constant_inputs(version, rtx) else "yes"


def conditions_of(op: str) -> list[str]:
    return [
        f"**{c.name.replace('_', ' ')}** ({s.targets}): {escape(s.source, quote=False)}"
        for c in CONDITIONS
        for s in c.scopes
        if op in s.operators
    ]


# ---- errors and names ------------------------------------------------------------------------------------------------


def errors_page() -> str:
    """Every cause that `surgeon why` knows: what the log has, what it means, what helps, and what to type."""
    lines = ["# Errors and their causes", "", "This page is made from the table that `surgeon why LOG` reads with.", ""]
    for cause in CAUSES:
        typed = cause.command.format(model="MODEL.onnx", target="TARGET")
        lines += [f"## {cause.name}", "", cause.means, "", cause.helps, ""]
        lines += ["```sh", typed, "```", ""] if typed else []
        lines += ["What the log has, as regular expressions:", "", "```text", *cause.patterns, "```", ""]
    return "\n".join(lines)


def targets_page() -> str:
    """Every name that stands for a TensorRT, and who says so."""
    rows = [f"| `{a.name}` | {a.version} | {escape(a.source, quote=False)} |" for a in names.aliases()]
    head = ["# Names of targets", "", "Besides versions, `rtx` and `installed`. `surgeon targets` prints the same.", ""]
    return "\n".join([*head, "| name | TensorRT | who says so |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
