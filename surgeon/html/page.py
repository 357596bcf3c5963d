"""The report as one HTML page with its own style sheet and search. It needs no network."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from surgeon.html.drawing import MOST_NODES, Sketch, draw, sketch
from surgeon.ir.graph import Node
from surgeon.report import MEASURED, TESTED, Applied, Conversion, Declined, Group, Report, grouped, target_name
from surgeon.verdict_text import GRADED, answer, merged, nameless, shared_reason

MOST_DRAWN = 60  # windows of different shapes on one page
MOST_ROWS = 500  # of one table
UNCOUNTED = ("precision", "operators")  # parts of a page that are there, or not
OPEN_WINDOWS = 10  # a page with no more rewrites shows their images without a click


class _Html(str):
    """The content of a cell that is HTML already."""


def render(
    report: Report,
    *,
    title: str = "",
    written: str = "",
    precision: Conversion | None = None,
    cures: Sequence[str] = (),
    runs: str = "",
    kernels: Sequence[Any] = (),
) -> str:
    """The page for one run.

    title      the input model, as the user calls it
    written    where the result went, empty where nothing was written
    precision  the conversion to half precision after the rewrite
    cures      advice for each of `report.untaken`
    runs       what TensorRT-RTX runs of the result, in one line; empty where that is not known
    kernels    the same one by one, in the order of the engine: `surgeon.trt.program.Kernel`
    """
    bodies = [
        _head(report, title, written, precision, runs, len(kernels)),
        _entries("Undone", "These rewrites failed their proof and are not in the written model.", report.undone, "bad"),
        _entries(
            "Unsupported",
            f"{target_name(report.target)} does not support these nodes of the result.",
            report.untaken,
            "bad",
            cures,
        ),
        _entries("Unknown", "Whether the target supports these nodes is unknown.", report.unknown, "warn"),
        _warnings(report.warnings),
        _precision(precision) if precision is not None else "",
        _rewrites(report),
        _entries("Declined", "A pattern held here, and the rewrite was not made.", report.declined, ""),
        _operators(report),
        _kernels(kernels) if kernels else "",
        f"<footer>surgeon {escape(report.surgeon)}, --verify {report.verify.get('mode', 'window')}, "
        f"{report.seconds:.1f} s</footer>",
    ]
    name = escape(title or "surgeon's report")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}: surgeon</title><style>\n{_file('page.css')}</style></head>\n"
        f"<body><main>\n{''.join(bodies)}</main><script>\n{_file('search.js')}</script></body></html>\n"
    )


def notebook(report: Report) -> str:
    """The verdict, the rewrites with their drawings, and the unsupported nodes, as a part of another page."""
    bodies = [
        f"<p><b>{escape(answer(report))}</b> {_state(report)}</p>",
        _entries("Undone", "", report.undone, "bad"),
        _entries("Unsupported", "", report.untaken, "bad"),
        _entries("Unknown", "", report.unknown, "warn"),
        _warnings(report.warnings),
        _rewrites(report),
        _operators(report),
    ]
    # Nested, so that the rules hold inside alone.
    style = (
        _file("page.css").replace(":root", "&").replace("body {", "& {").replace("margin: 0;", "padding: 1px 14px;", 1)
    )
    return f'<style>\n.surgeon {{\n{style}}}\n</style><div class="surgeon">{"".join(bodies)}</div>'


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


# ---- the parts of the page -------------------------------------------------------------------------------------------


def _head(report: Report, title: str, written: str, precision: Conversion | None, runs: str, kernels: int) -> str:
    where = f", written to <code>{escape(written)}</code>" if written else ", nothing written"
    nodes = f"{sum(report.ops_before.values())} &rarr; {sum(report.ops_after.values())}"
    tiles = [
        _tile(str(len(report.applied)), "rewrite" if len(report.applied) == 1 else "rewrites"),
        _tile(nodes, "nodes"),
        _tile(_largest(report.errors(TESTED)), "largest error of a window"),
        _tile(str(len(report.undone)), "undone", "bad" if report.undone else ""),
        _tile(str(len(report.declined)), "declined"),
        _tile(str(len(report.untaken)), "unsupported", "bad" if report.untaken else ""),
    ]
    whole = ""
    if report.verify.get("failed"):
        differ = "differ" if report.verify.get("compared", True) else "were not compared"
        whole = f'<p><span class="pill bad">whole models {differ}</span> {escape(str(report.verify["failed"]))}</p>'
    elif not report.verify.get("compared", True):
        whole = '<p><span class="pill warn">whole models were not compared</span></p>'
    elif report.verify.get("max_error") is not None:
        whole = f"<p>The whole models agree to {_error(report.verify['max_error'])} of the largest output.</p>"
    if moved := report.errors(MEASURED):
        tiles.append(_tile(_largest(moved), "how much the quantizers change the outputs"))
    if precision is not None:
        tiles.append(
            _tile(_error(precision.worst), f"largest error of {precision.way}", "bad" if precision.failed else "")
        )
    engine = f"<p>{escape(runs)}</p>" if runs else ""
    return (
        f"<h1>{escape(title or 'A rewritten model')} {_state(report, precision)}</h1>"
        f'<p class="sub">for {escape(target_name(report.target))}{where}</p>'
        f"<p>{escape(answer(report, conversion=precision))}</p>{engine}"
        f'<div class="tiles">{"".join(tiles)}</div>{whole}{_contents(report, precision, kernels)}'
    )


def _contents(report: Report, precision: Conversion | None, kernels: int) -> str:
    """The links to the parts and the passes, and the search, which appears if scripts run."""
    counts = [
        ("undone", "Undone", len(report.undone)),
        ("unsupported", "Unsupported", len(report.untaken)),
        ("unknown", "Unknown", len(report.unknown)),
        ("warnings", "Warnings", len(report.warnings)),
        ("precision", "Precision", int(precision is not None)),
        ("rewrites", "Rewrites", len(report.applied)),
        ("declined", "Declined", len(report.declined)),
        ("operators", "Operators", int(bool(report.ops_before or report.ops_after))),
        ("kernels", "Kernels", kernels),
    ]
    links = [
        f'<a href="#{place}">{word}{"" if place in UNCOUNTED else _number(count)}</a>'
        for place, word, count in counts
        if count
    ]
    passes = [
        f'<a href="#{_place(g.pass_name, g.strategy)}">{escape(g.pass_name)}{_number(f"{g.times}x")}</a>'
        for g in report.groups()
    ]
    rows = "".join(f"<nav>{''.join(row)}</nav>" for row in (links, passes) if row)
    return (
        f'{rows}<p id="find" hidden><input type="search" placeholder="Search nodes, passes, reasons" '
        'aria-label="Search"> <span class="sub"></span></p>'
    )


def _place(name: str, strategy: str) -> str:
    """The anchor of a pass."""
    return f"pass-{escape(name)}-{escape(strategy)}"


def _heading(word: str, count: int | None = None) -> str:
    """A heading that is an anchor."""
    place = word.lower().replace(" ", "-")
    number = "" if count is None else _number(count)
    return f'<h2 id="{place}">{word}{number} <a class="anchor" href="#{place}" aria-label="link">#</a></h2>'


def _number(count: int | str) -> str:
    return f' <span class="count">{count}</span>'


def _state(report: Report, precision: Conversion | None = None) -> str:
    """One coloured word for the run."""
    bad = report.failed or (precision is not None and precision.failed)
    kind, word = ("bad", "needs a look") if bad else _proof(report)
    if precision is not None and not bad and not report.applied:
        word = "converted to fp16"
    return f'<span class="pill {kind}">{word}</span>'


def _proof(report: Report) -> tuple[str, str]:
    if not report.applied:
        return "good", "nothing to rewrite"
    grades = {a.grade for a in report.applied}
    if report.verify.get("mode") == "none" or any(a.max_error is None for a in report.applied):
        return "warn", "not proved"
    return "good", " and ".join(word for grade, word in GRADED.items() if grade in grades)


def _largest(errors: Sequence[float]) -> str:
    return _error(max(errors)) if errors else "-"


def _tile(number: str, word: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><b>{number}</b><span>{word}</span></div>'


def _entries(head: str, what: str, entries: Sequence[Declined], kind: str, cures: Sequence[str] = ()) -> str:
    """A table of nodes, those with the same reason and advice in one row; an empty column is omitted."""
    if not entries:
        return ""
    pairs = zip(entries, cures or [""] * len(entries), strict=True)
    groups = grouped(((e.pass_name, nameless(e.why), cure), e) for e, cure in pairs)
    rows = [
        (name, shared_reason([e.why for e in alike]), cure, _listed([e.node for e in alike]))
        for (name, _, cure), alike in sorted(groups.items(), key=lambda g: -len(g[1]))
    ]
    used = [k for k in range(4) if any(row[k] for row in rows)]
    columns, *shown = ([row[k] for k in used] for row in ((":pass", "why:why", "why:advice", "name:nodes"), *rows))
    said = f'<p class="sub">{escape(what)}</p>' if what else ""
    return f"{_heading(head, len(entries))}{said}{_table(columns, shown, kind)}"


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    rows = [(w,) for w in merged(warnings)]
    return f"{_heading('Warnings', len(warnings))}{_table(('why:',), rows, 'warn')}"


def _rewrites(report: Report) -> str:
    head = _heading("Rewrites", len(report.applied))
    if not report.applied:
        return f'{head}<p class="none">Nothing to rewrite.</p>'
    left = MOST_DRAWN
    parts = []
    for group in report.groups():
        shapes = _shapes(group.rewrites)
        drawn = min(len(shapes), left)
        left -= drawn
        parts.append(_group(group, shapes, drawn, len(report.applied) <= OPEN_WINDOWS))
    return head + "".join(parts)


Windows = list[tuple[Sketch, Sketch, list[Applied]]]


def _shapes(those: Iterable[Applied]) -> Windows:
    """The windows with their sketches, those of the same shape together.

    What was changed before the rewriting, or by a function over a `gs.Graph`, is text, and is not drawn.
    """
    found: dict[Any, tuple[Sketch, Sketch, list[Applied]]] = {}
    for a in those:
        if not all(isinstance(node, Node) for node in (*a.change.nodes_before, *a.change.nodes_after)):
            continue
        before, after = sketch(a.change.nodes_before, a.outputs), sketch(a.change.nodes_after, a.outputs)
        found.setdefault((before.shape, after.shape), (before, after, []))[2].append(a)
    return list(found.values())


def _group(group: Group, shapes: Windows, drawn: int, show: bool) -> str:
    those, proved = group.rewrites, sum(a.max_error is not None for a in group.rewrites)
    proof = f"{proved} of {group.times} proved" if proved < group.times else f"largest error {_error(group.max_error)}"
    summary = (
        f'<summary><b>{escape(group.pass_name)}</b><span class="sub">{escape(group.strategy)}</span>'
        f'<span class="sub">{group.times}x</span>'
        f'<span class="sub">{group.removed} &rarr; {group.added} nodes</span><span class="sub">{proof}</span>'
        f'<span class="sub">{group.grade}</span></summary>'
    )
    windows = [_window(before, after, same) for before, after, same in shapes[:drawn]]
    if drawn < len(shapes):
        windows.append(
            f'<p class="note">{len(shapes) - drawn} more shapes of window are not drawn: a page draws {MOST_DRAWN}.</p>'
        )
    rows = [(a.root, _Html(f"{len(a.removed)} &rarr; {len(a.added)}"), _error(a.max_error), a.grade) for a in those]
    table = (
        f'<details><summary>every rewrite of this pass <span class="sub">{len(those)}</span></summary>'
        f"{_table(('name:node', 'number:nodes', 'number:error', 'word:proved'), rows)}</details>"
    )
    listed = len(those) > len(shapes) or drawn < len(shapes)
    inside = f'<div class="inside">{"".join(windows)}{table if listed else ""}</div>'
    place = _place(group.pass_name, group.strategy)
    return f'<details class="pass" id="{place}"{" open" if show else ""}>{summary}{inside}</details>'


def _window(before: Sketch, after: Sketch, same: Sequence[Applied]) -> str:
    first = same[0]
    place = f"at-{quote(first.root, safe='')}"
    more = f' <span class="sub">and {len(same) - 1} more of this shape;</span>' if len(same) > 1 else ""
    proof = "not proved" if first.max_error is None else f"error {_error(first.max_error)}"
    return (
        f'<div class="window" id="{place}"><code>{escape(first.root)}</code>{more} <span class="sub">{proof}</span> '
        f'<a class="anchor" href="#{place}" aria-label="link">#</a>'
        '<div class="sides">'
        f"{_side('before', before, first.before, first)}{_side('after', after, first.after, first)}</div></div>"
    )


def _side(word: str, drawn: Sketch, lines: Sequence[str], record: Applied) -> str:
    if len(drawn.boxes) > MOST_NODES:
        text = (
            f'<p class="note">{len(lines)} nodes, too many to draw.</p>'
            f"<details><summary>as text</summary><pre>{escape(chr(10).join(lines))}</pre></details>"
        )
    elif not lines:
        text = (
            '<p class="none">nothing: its readers read its input</p>'
            if word == "after"
            else '<p class="none">not kept</p>'
        )
    else:
        text = draw(drawn, f"{record.pass_name} at {record.root}, {word}: {'; '.join(lines)}")
    return f'<div class="side {word}"><h3>{word}</h3>{text}</div>'


def _listed(nodes: Sequence[str]) -> _Html:
    """The first names; the others are shown on a click."""
    first = escape(nodes[0])
    if len(nodes) == 1:
        return _Html(first)
    others = "<br>".join(escape(n) for n in nodes[1:MOST_ROWS])
    cut = f"<br>and {len(nodes) - MOST_ROWS} more" if len(nodes) > MOST_ROWS else ""
    rest = f'<summary>and {len(nodes) - 1} more</summary><div class="inside">{others}{cut}</div>'
    return _Html(f"{first}<details>{rest}</details>")


def _operators(report: Report) -> str:
    before, after = report.ops_before, report.ops_after
    if not before and not after:
        return ""
    names = sorted({*before, *after})
    changed = [n for n in names if before.get(n, 0) != after.get(n, 0)]
    same = [(n, before[n], after[n]) for n in names if n not in set(changed)]
    total = "all", sum(before.values()), sum(after.values())
    table = _counts([*((n, before.get(n, 0), after.get(n, 0)) for n in changed), total])
    rest = ""
    if same:
        said = f'operators that did not change <span class="sub">{len(same)}</span>'
        rest = f"<details><summary>{said}</summary>{_counts(same)}</details>"
    return f"{_heading('Operators')}{table}{rest}"


def _counts(operators: Sequence[tuple[str, int, int]]) -> str:
    """A table of operators, each with its number before and after."""
    rows = [(name, str(old), str(new), f"{new - old:+d}" if new != old else "") for name, old, new in operators]
    return _table((":operator", "number:before", "number:after", "number:change"), rows)


def _precision(result: Conversion) -> str:
    groups = grouped(((k.op, k.why), k.node) for k in result.kept).items()
    kept = [(*of, _listed(nodes)) for of, nodes in sorted(groups, key=lambda g: -len(g[1]))]
    numbers = ("error", "99 % below", "cosine", "largest number")
    errors = [
        (e.output, e.inputs, _error(e.relative), _error(e.quantile), f"{e.cosine:.6f}", f"{e.largest:.3g}", e.verdict)
        for e in result.errors
    ]
    compared = (
        _table(("name:output", ":inputs", *(f"number:{number}" for number in numbers), "why:verdict"), errors)
        if errors
        else f'<p class="none">Not compared: {escape(result.not_compared)}.</p>'
    )
    rows = [(w,) for w in result.warnings]
    warnings = f"<h3>Warnings</h3>{_table(('why:',), rows, 'warn')}" if rows else ""
    islands = f"<h3>Kept in fp32</h3>{_table((':operator', 'why:why', 'name:nodes'), kept)}" if kept else ""
    return (
        f'{_heading("Precision")}<p class="sub">{result.half} nodes compute in {escape(result.way)}, '
        f"{result.single} in fp32, with {result.casts} casts between them. The error is max|a - b| / max|b| "
        f"against the fp32 original, with every tensor of 16 bits rounded. At most {result.tolerance:g} is allowed. "
        f"99 % of the elements differ by at most the second number. Inputs: {escape('; '.join(result.inputs))}.</p>"
        f"{compared}{islands}{warnings}"
    )


def _kernels(rows: Sequence[Any]) -> str:
    """A table with a bar for each kernel, as long as the bytes that it moves."""
    largest = max((row.bytes for row in rows), default=0) or 1
    total = sum(row.bytes for row in rows) or 1
    shown = [
        (
            str(number),
            row.in_words,
            _listed(row.nodes) if row.nodes else "-",
            row.types,
            *(f"{moved / 1e6:.3f}" for moved in (row.bytes_read, row.bytes_written)),
            _Html(f'<span style="width: {row.bytes / largest:.1%}"></span>{row.bytes / total:.0%}'),
        )
        for number, row in enumerate(rows[:MOST_ROWS], 1)
    ]
    left = len(rows) - len(shown)
    more = f'<p class="note">and {left} more: surgeon kernels -v lists them</p>' if left else ""
    columns = ("number:", ":computes", "name:nodes", "word:types", "number:MB read", "number:written")
    table = _table((*columns, "bar:share of the MB"), shown)
    return (
        f"{_heading('Kernels', len(rows))}"
        '<p class="sub">What TensorRT-RTX runs, in the order of its engine. A bar is as long as the bytes that a '
        f"kernel reads and writes.</p>{table}{more}"
    )


# ---- small things ----------------------------------------------------------------------------------------------------


def _error(error: float | None) -> str:
    if error is None:
        return "not measured"
    return "0" if error == 0 else f"{error:.1e}" if math.isfinite(error) else "inf or NaN"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """Rows under headers, of which none is shown where all are empty. A column is the class of its cells, a colon and
    its header; cells that are not _Html are escaped."""
    kinds, headers = zip(*(column.split(":", 1) for column in columns), strict=True)
    names = "".join(
        f'<th class="number">{h}</th>' if k == "number" else f"<th>{h}</th>"
        for k, h in zip(kinds, map(escape, headers), strict=True)
    )
    head = f"<tr>{names}</tr>" if any(headers) else ""
    shown = "".join(f"<tr>{''.join(map(_cell, kinds, row))}</tr>" for row in rows[:MOST_ROWS])
    left = len(rows) - MOST_ROWS
    cut = f'<p class="note">{left} more rows: the JSON report has them all.</p>' if left > 0 else ""
    return f'<div class="box {kind}"><table>{head}{shown}</table></div>{cut}'


def _cell(kind: str, text: str) -> str:
    return f'<td class="{kind}">{text if isinstance(text, _Html) else escape(text)}</td>'
