"""A page a pass: what its docstring says, some of its cases drawn, and what it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

import casefile

import surgeon
from surgeon.html.drawing import Sketch, draw, sketch
from surgeon.report import Applied
from surgeon.rules.rule import Pass

DRAWN = 3  # cases of a pass that are drawn
MOST_NODES = 14  # of a window that is drawn
HEAD = re.compile(r"^([A-Z]\w*(?: \w+)?) {2,}(?=\S)")
ALIGNED = re.compile(r"\S {3,}\S|^ {2,}\S", re.MULTILINE)
STAGES = {
    "clean": "computes what is constant, and removes what nothing reads",
    "fuse": "turns equivalent subgraphs into one canonical node",
    "lower": "writes what the target supports",
}


@dataclass(frozen=True)
class Drawn:
    """A case, and the window of it that the pass rewrites."""

    case: casefile.Case
    window: Applied

    @property
    def nodes(self) -> int:
        return len(self.window.change.nodes_before)


def index(given: Iterable[Pass]) -> str:
    """All passes, with the stages and the first sentence of each."""
    rows = [f"| [{p.name}]({p.name}.md) | {', '.join(s.value for s in p.stages)} | {first_line(p)} |" for p in given]
    stages = [f"- **{stage}** {text}." for stage, text in STAGES.items()]
    head = [
        "# The passes",
        "",
        "Each pass replaces some patterns. `surgeon explain PASS` prints the same text.",
        "",
        *stages,
        "",
        "| pass | stages | what it does |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows, ""])


def first_line(p: Pass) -> str:
    return escape(p.doc.splitlines()[0], quote=False).replace("|", "\\|")


def page(p: Pass) -> str:
    first, _, rest = p.doc.partition("\n")
    cases = [casefile.load(path) for path in casefile.paths() if path.parent.name.replace("_", "-") == p.name]
    lines = [f"# {p.name}", "", escape(first, quote=False), "", *table(p), ""]
    for name, text in parts(rest):
        lines += [*([f"## {name}", ""] if name else []), *paragraphs(name, text)]
    drawn = chosen([d for case in cases if case.expected is not None for d in windows(case, p.name)])
    lines += ["## Examples", "", *(picture(d) for d in drawn)] if drawn else []
    reasons = sorted({case.why for case in cases if case.expected is None} - {"no pattern", "as it would be written"})
    if reasons:
        lines += ["## Left alone", "", "These reasons are in a report, and each has a case in the tests:", ""]
        lines += [*(f"- {escape(why, quote=False)}" for why in reasons), ""]
    return "\n".join(lines)


def table(p: Pass) -> list[str]:
    rows = [("stages", ", ".join(f"{s.value} ({STAGES[s.value]})" for s in p.stages))]
    rows += [("strategies", ", ".join(f"`--strategy {p.name}={s}`" for s in p.strategies))] if p.strategies else []
    rows += [("options", ", ".join(f"`--option {o}=...`" for o in p.options))] if p.options else []
    rows += [("without it", f"`--skip {p.name}`"), ("alone", f"`--only {p.name}`")]
    return ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)]


# ---- the docstring ---------------------------------------------------------------------------------------------------


def parts(doc: str) -> Iterator[tuple[str, list[str]]]:
    """The sections of a docstring: a word in the first column begins one. What is below them has no name."""
    name, indent = "", 0
    lines: list[str] = []
    for line in doc.splitlines():
        head = HEAD.match(line)
        below = indent and line and not line[0].isspace()
        if head or below:
            yield from [(name, lines)] if any(lines) else []
            name, indent, lines = (head[1], head.end(), []) if head else ("", 0, [])
        lines.append(line[indent:] if head or not line[:indent].strip() else line.strip())
    yield from [(name, lines)] if any(lines) else []


def paragraphs(name: str, lines: list[str]) -> Iterator[str]:
    """Prose as paragraphs; rewrites, and what is laid out in columns, stay as they are."""
    for text in re.split(r"\n{2,}", "\n".join(lines).strip("\n")):
        if (name == "Rewrites" and "->" in text) or ALIGNED.search(text):
            yield from ("```text", text, "```", "")
        else:
            yield from (prose(text), "")


def prose(text: str) -> str:
    """Text in which nothing is taken for markup but what is between backquotes."""
    found = []
    for k, part in enumerate(text.split("`")):
        found.append(f"`{part}`" if k % 2 else re.sub(r"([*_\[\]#|\\])", r"\\\1", escape(part, quote=False)))
    return "".join(found)


# ---- the cases -------------------------------------------------------------------------------------------------------


def windows(case: casefile.Case, name: str) -> Iterator[Drawn]:
    """The first window of a case that the pass rewrites, where it is small enough to be drawn."""
    found = surgeon.rewrite(case.model, verify="none", **case.options).report.applied
    mine = [a for a in found if name in a.pass_name.split("+")]
    if mine and max(len(mine[0].change.nodes_before), len(mine[0].change.nodes_after)) <= MOST_NODES:
        yield Drawn(case, mine[0])


def chosen(drawn: list[Drawn]) -> list[Drawn]:
    """A small window, one of middle size and a large one, of different shapes."""
    by_shape: dict[object, Drawn] = {}
    for d in sorted(drawn, key=lambda d: (d.nodes, len(d.case.path.stem))):
        by_shape.setdefault((before(d).shape, after(d).shape), d)
    found = list(by_shape.values())
    if len(found) <= DRAWN:
        return found
    return [found[0], found[len(found) // 2], found[-1]]


def before(d: Drawn) -> Sketch:
    return sketch(d.window.change.nodes_before, d.window.outputs)


def after(d: Drawn) -> Sketch:
    return sketch(d.window.change.nodes_after, d.window.outputs)


def picture(d: Drawn) -> str:
    title = d.case.path.stem.replace("_", " ")
    asked = [f"target {d.case.options['target']}"]
    asked += [f"`--strategy {name}={value}`" for name, value in d.case.options["strategy"].items()]
    asked += [f"`--allow-plugins {name}`" for name in d.case.options["plugins"]]
    sides = f'<div class="before">{draw(before(d), "before")}</div><div class="after">{draw(after(d), "after")}</div>'
    file = f"tests/cases/{d.case.path.parent.name}/{d.case.path.name}"
    return f'### {title}\n\nFor {", ".join(asked)}. The case is `{file}`.\n\n<div class="drawing">{sides}</div>\n'
