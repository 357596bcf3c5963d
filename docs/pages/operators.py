"""Operators by releases, from the table that `surgeon check` asks, and what surgeon does about what is refused.

What a release says of a node is the condition's own reason, for the nodes of tests/condition_examples/. What surgeon
does about it is what `surgeon.check` says of such a node, and of the nodes of tests/cases.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape

import casefile
import onnx
from condition_examples import EXAMPLES
from condition_examples.example import Example
from helpers import model

import surgeon
from surgeon.errors import SurgeonError
from surgeon.targets import tables
from surgeon.targets.condition import Condition
from surgeon.targets.conditions import conditions as all_conditions
from surgeon.targets.conditions.dla import gpu_fallback
from surgeon.targets.releases import LAST, RELEASES, dotted
from surgeon.targets.target import Target

# The newest release that has DLA; docs/trt-support.md section 10.
COLUMNS = [*(Target(dotted(v), v) for v in RELEASES), Target("RTX", LAST, rtx=True), Target("DLA", (10, 16), dla=True)]
NO_PASS = "no pass"
FILTER = """
<div class="filter">
<label>Operator <input id="op" type="search" placeholder="Pad"></label>
<label>Release <select id="release"><option value="">all</option>%s</select></label>
<label><input id="refused" type="checkbox"> only operators that are unsupported or conditional</label>
</div>
"""
SCRIPT = """
<script>
(function () {
  var op = document.getElementById("op"), release = document.getElementById("release");
  var refused = document.getElementById("refused");
  var rows = Array.from(document.querySelectorAll("#matrix tbody tr"));
  var heads = Array.from(document.querySelectorAll("#matrix thead th"));
  function show() {
    var wanted = op.value.trim().toLowerCase(), column = release.value === "" ? -1 : +release.value + 2;
    heads.forEach(function (h, k) { h.hidden = column > 0 && k > 1 && k !== column; });
    rows.forEach(function (row) {
      var cells = Array.from(row.cells), asked = column > 0 ? [cells[column]] : cells.slice(2);
      cells.forEach(function (c, k) { c.hidden = heads[k].hidden; });
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted) ||
        refused.checked && asked.every(function (c) { return c.className === "y"; });
    });
  }
  [op, release, refused].forEach(function (e) { e.addEventListener("input", show); });
  if (location.search.length > 1) { op.value = decodeURIComponent(location.search.slice(1)); show(); }
})();
</script>
"""


def page() -> str:
    """Every operator of ONNX against every release, and below the conditions of each."""
    options = "".join(f'<option value="{k}">{t.name}</option>' for k, t in enumerate(COLUMNS))
    lines = [
        "---",
        "hide: [toc]",
        "---",
        "",
        "# Operators and TensorRT",
        "",
        "This page is made from the table that `surgeon check` uses. `surgeon check MODEL.onnx --target 8.4` checks "
        "your nodes.",
        "",
        '<p class="legend"><span class="y">●</span> supported &nbsp; <span class="i">◐</span> supported under '
        'conditions (click) &nbsp; <span class="n">×</span> refused: the parser has no importer; '
        "on DLA: it runs on the GPU</p>",
        FILTER % options,
        '<div class="matrix"><table id="matrix"><thead><tr><th>operator</th><th>surgeon</th>'
        + "".join(f"<th>{t.name}</th>" for t in COLUMNS)
        + "</tr></thead><tbody>",
        *(row(op) for op in operators()),
        "</tbody></table></div>",
        "",
        "The column surgeon has the passes that fix nodes of the operator that a release does not support.",
        "",
        "## Conditions",
        "",
        "A node is refused, or read with another meaning, if one of these holds.",
        "",
    ]
    for op in operators():
        lines += conditions(op)
    return "\n".join([*lines, SCRIPT])


@cache
def operators() -> list[str]:
    """The operators of ONNX, and those that a parser imports beside them."""
    known = {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated}
    return sorted(known | tables.IMPORTED)


def row(op: str) -> str:
    cells = "".join(cell(op, target) for target in COLUMNS)
    passes = " ".join(link(name) for name in sorted(menders().get(op, ())))
    text = re.sub("(?<=[a-z])(?=[A-Z])", "<wbr>", op)  # where a long name may be broken
    name = f'<a href="#{op.lower()}">{text}</a>' if has_conditions(op) else text
    return f"<tr><th>{name}</th><td>{passes}</td>{cells}</tr>"


def link(name: str) -> str:
    return f'<a href="passes/{name}.html">{name}</a>'


def cell(op: str, target: Target) -> str:
    kind = state(op, target)
    if kind == "if":
        return f'<td class="i"><a href="#{op.lower()}">◐</a></td>'
    return '<td class="y">●</td>' if kind == "yes" else '<td class="n">×</td>'


def state(op: str, target: Target) -> str:
    """yes, if or no: whether a target supports every node of an operator, some, or none."""
    imported = op in tables.DLA_NATIVE if target.dla else op in tables.importers(target.version, target.rtx)
    if not imported:
        return "no"
    ranges = [s.targets for c in said_of(op) for s in c.scopes if op in s.operators]
    conditional = any(
        r.covers(target.version, rtx=target.rtx, dla=target.dla) or r.doubts(target.version, rtx=target.rtx)
        for r in ranges
    )
    return "if" if conditional or op in tables.constant_inputs(target.version, target.rtx) else "yes"


@cache
def said_of(op: str) -> list[Condition]:
    """The conditions of an operator, without the one that DLA does not have it."""
    return [c for c in all_conditions() if c is not gpu_fallback and any(op in s.operators for s in c.scopes)]


def has_conditions(op: str) -> bool:
    return op in tables.CONSTANT_INPUTS or bool(said_of(op))


def conditions(op: str) -> list[str]:
    """The heading of an operator, and a line a reason: where, why, what fixes it, who says so."""
    if not has_conditions(op):
        return []
    lines = [f"### {op}", "", "| TensorRT | unsupported | surgeon | source |", "|---|---|---|---|"]
    for position, where in tables.CONSTANT_INPUTS.get(op, {}).items():
        lines.append(f"| {where} | input {position} is computed | {passes_page('fold')} | the parser's source |")
    for c in said_of(op):
        sources = dict.fromkeys(s.source for s in c.scopes if op in s.operators)
        for where, why, mended in sorted(examples(c.name, op)):
            lines.append(f"| {where} | {text(why)} | {mended or NO_PASS} | {text('; '.join(sources))} |")
    return [*lines, ""]


def text(given: str) -> str:
    return escape(given, quote=False).replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("[", "\\[")


def passes_page(name: str) -> str:
    return f"[{name}](passes/{name}.md)"


# ---- what fixes it ---------------------------------------------------------------------------------------------------


@cache
def examples(name: str, op: str) -> frozenset[tuple[str, str, str]]:
    """(targets, reason, passes that fix it) of each example of a condition for an operator."""
    found = {(e.targets, e.why, mended(e, op)) for e in EXAMPLES.get(name, []) if op in e.operators.split()}
    return frozenset(found)


def mended(example: Example, op: str) -> str:
    names = example_menders(example, op)
    return ", ".join(passes_page(name) for name in names)


@cache
def example_menders(example: Example, op: str) -> tuple[str, ...]:
    """The passes that fix the node of an example, for the first target that refuses it."""
    where = example.targets.removeprefix("dla ").split(",")[0].split(" to ")[0].strip()
    target = Target.parse(f"{where}+dla" if example.targets.startswith("dla ") else where)
    given = model(example.refused.replace("OP", op), example.opset, extra=', "com.custom" : 1')
    return tuple(sorted({name for _, names in mends(given, target) for name in names}))


def mends(given: onnx.ModelProto, target: Target | str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(operator, passes) of each node that a target does not support and surgeon fixes."""
    try:
        checked = surgeon.check(given, target=target)
    except SurgeonError:
        return
    for untaken in checked.untaken:
        if untaken.mended_by:
            yield untaken.op, tuple(untaken.mended_by.split("+"))


@cache
def menders() -> dict[str, set[str]]:
    """Operator -> the passes that fix it: in the cases, and in the examples of conditions."""
    found: dict[str, set[str]] = defaultdict(set)
    for case in (casefile.load(path) for path in casefile.paths()):
        if case.expected is None or case.options["only"]:
            continue
        for op, names in mends(case.model, case.options["target"]):
            found[op].update({case.pass_name}.intersection(names))
    for op, names in of_examples(EXAMPLES.values()):
        found[op].update(names)
    return found


def of_examples(given: Iterable[list[Example]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for example in (e for examples in given for e in examples):
        for op in example.operators.split():
            yield op, example_menders(example, op)
