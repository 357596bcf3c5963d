"""Lay out the pages of the documents' site: those of the repository as they are, and those that are generated.

    python docs/site.py FOLDER        what `make docs` runs before mkdocs

docs/pages has a module for each kind of generated page.
"""

from __future__ import annotations

import re
import shutil
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "docs")]

from pages import api, errors, operators  # noqa: E402
from pages import passes as pass_pages  # noqa: E402

from surgeon.rules.registry import passes  # noqa: E402
from surgeon.targets import names  # noqa: E402

LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
STYLE = """
.md-grid { max-width: 80rem; } .md-typeset pre > code { font-size: .6rem; }
.md-typeset table:not([class]) th, .md-typeset table:not([class]) td { min-width: 0; padding: .4em .6em; }
.drawing { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; overflow-x: auto; }
.drawing svg { max-width: 100%; height: auto; display: block; margin: auto; }
.drawing svg text { text-anchor: middle; fill: var(--md-typeset-color); font-family: system-ui, sans-serif; }
.drawing svg .op { font-size: 13px; } .drawing svg .detail { font-size: 11px; opacity: .7; }
.option { white-space: nowrap; } #rewrites + * code { white-space: pre-wrap; }
.paste { width: 100%; font-family: monospace; font-size: .7rem; color: inherit; background: var(--md-code-bg-color); }
.filter { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1em 0; font-size: .75rem; align-items: center; }
.filter input, .filter select, .paste { border: 1px solid var(--md-default-fg-color--light); border-radius: .2rem; }
.filter input, .filter select { padding: .2rem .4rem; color: inherit; background: var(--md-default-bg-color); }
.matrix { overflow: auto; max-height: 85vh; }
#matrix { border-collapse: separate; border-spacing: 0; font-size: .6rem; line-height: 1.3; }
#matrix th, #matrix td { padding: .15rem .06rem; text-align: center; min-width: 0; border: 0;
  border-bottom: 1px solid var(--md-default-fg-color--lightest); }
#matrix thead th { position: sticky; top: 0; background: var(--md-default-bg-color); z-index: 2; font-weight: 700; }
#matrix tbody th, #matrix thead th:first-child { position: sticky; left: 0; text-align: left; font-weight: 400;
  background: var(--md-default-bg-color); z-index: 1; }
#matrix thead th:first-child { z-index: 3; }
#matrix thead th:nth-child(n+3) { writing-mode: vertical-rl; transform: rotate(180deg); }
#matrix td:nth-child(2), #matrix thead th:nth-child(2) { text-align: left; min-width: 4.5rem; }
@media (max-width: 44.9375em) {
  .stacked thead { display: none; }
  .stacked :is(.md-typeset__table, table, tbody, tr, td) { display: block; width: auto; }
  .stacked tr { border-top: 1px solid var(--md-default-fg-color--lightest); padding: .5rem 0; }
  .md-typeset .stacked table:not([class]) td { border: 0; padding: .2rem .6rem; }
  .stacked code { white-space: pre-wrap; overflow-wrap: anywhere; }
}
@media (min-width: 45em) {
  .md-typeset td code { word-break: normal; }
  .md-typeset .stacked td code { overflow-wrap: anywhere; }
}
.y, .legend .y { color: #1a7f4b; } .i a, .legend .i { color: #c77700; } .n { color: #c0392b; opacity: .7; }
.md-typeset table:not([class]) th:empty { padding: 0; }
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
    pages += [ROOT / "benchmarks/plugins/results.md"]
    for page in pages:
        copy(page, folder)
    (folder / "README.md").rename(folder / "index.md")
    (folder / "drawings.css").write_text(STYLE, encoding="utf-8")
    (folder / "api.md").write_text(api.page(), encoding="utf-8")
    (folder / "operators.md").write_text(operators.page(), encoding="utf-8")
    (folder / "errors.md").write_text(errors.page(), encoding="utf-8")
    (folder / "targets.md").write_text(targets_page(), encoding="utf-8")
    for p in passes():
        (folder / "passes" / f"{p.name}.md").write_text(pass_pages.page(p), encoding="utf-8")
    (folder / "passes" / "index.md").write_text(pass_pages.index(passes()), encoding="utf-8")


def copy(page: Path, folder: Path) -> None:
    """Copy a page to the same place below `folder`, and what it links to that is not a page."""
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


# ---- names of targets ------------------------------------------------------------------------------------------------


def targets_page() -> str:
    """Every name that stands for a TensorRT, and who says so."""
    rows = [f"| `{a.name}` | {a.version} | {escape(a.source, quote=False)} |" for a in names.aliases()]
    head = ["# Names of targets", "", "Besides versions, `rtx` and `installed`. `surgeon targets` prints the same.", ""]
    return "\n".join([*head, "| name | TensorRT | who says so |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
