"""The errors that `surgeon why` knows, as a page: what was printed, the cause, the command.

The printed lines are those of tests/threads, which users quoted. A box on the page reads a pasted log with the same
regular expressions as `surgeon why` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from surgeon.trt.causes import CAUSES, Cause, Weight
from surgeon.trt.why import IMPORTED, why

THREADS = Path(__file__).resolve().parents[2] / "tests" / "threads"
LINES = 4  # printed lines that a cause shows
LONGEST = 170  # characters of a printed line
OPTION = re.compile(r"(?<= )--?[^ <]+")
STAMP = re.compile(r"^\[?\d\d(?:\d\d)?[/-]\d\d[/-]\d\d[^\]]*\]\s*|^\[\w+\] (?=\[TRT\])")
BOX = """
<label for="log">Paste what was printed. It stays in your browser.</label>
<textarea id="log" class="paste" rows="4" placeholder="[E] [TRT] ..."></textarea>
<ul id="found" class="found" aria-live="polite"></ul>
"""
READER = """
<script>
(function () {
  var causes = %s;
  var box = document.getElementById("log"), list = document.getElementById("found");
  var compiled = causes.map(function (c) { return new RegExp(c.pattern, "i"); });
  function read() {
    var best = {};
    box.value.split("\\n").forEach(function (line, at) {
      compiled.forEach(function (pattern, row) {
        var cause = causes[row], old = best[cause.name];
        if (pattern.test(line) && !(old && old.weight >= cause.weight))
          best[cause.name] = {weight: cause.weight, at: at, row: row};
      });
    });
    var names = Object.keys(best).sort(function (a, b) {
      var x = best[a], y = best[b];
      return y.weight - x.weight || x.at - y.at || x.row - y.row;
    });
    list.innerHTML = "";
    if (box.value.trim() && !names.length) list.innerHTML = "<li>No line is a known error.</li>";
    names.forEach(function (name) {
      var link = document.createElement("a"), item = document.createElement("li");
      link.href = "#" + name;
      link.textContent = name;
      item.append(link, ": " + causes[best[name].row].means);
      list.append(item);
    });
  }
  box.addEventListener("input", read);
})();
</script>
"""


@dataclass(frozen=True)
class Printed:
    """A line of a log, and the thread that quotes it."""

    line: str
    thread: str


def page() -> str:
    printed = dict(lines_of_causes())
    rows = [row for name, causes in by_name() for row in table_rows(name, causes, printed.get(name, []))]
    return "\n".join(
        [
            "# The error you got",
            "",
            "Find the text of your error here, its cause, and the command that fixes it.",
            "In a terminal `surgeon why LOG` does the same. With `--model` it also names the node and the pass.",
            BOX,
            '<div class="stacked" markdown>',  # a row below the other on a phone
            "",
            "| what was printed | cause | command |",
            "|---|---|---|",
            *rows,
            "",
            "</div>",
            "",
            *(line for name, causes in by_name() for line in section(name, causes, printed.get(name, []))),
            READER % json.dumps(patterns()),
        ]
    )


def by_name() -> list[tuple[str, list[Cause]]]:
    """The causes, those of one name together, and the one that has no pattern of its own."""
    found: dict[str, list[Cause]] = {IMPORTED.name: [IMPORTED]}
    for cause in CAUSES:
        found.setdefault(cause.name, []).append(cause)
    return list(found.items())


def patterns() -> list[dict[str, object]]:
    """What the box reads with. A cause of less weight follows the others, as in a terminal."""
    return [
        {"name": c.name, "weight": int(c.weight), "means": c.means, "pattern": c.search.pattern.replace("</", "<\\/")}
        for c in CAUSES
    ]


def lines_of_causes() -> Iterator[tuple[str, list[Printed]]]:
    """For each cause the lines that threads quote of it, each once."""
    found: dict[str, dict[str, Printed]] = {}
    for thread, text in threads():
        for finding in why(text)[:1]:
            line = shortened(finding.line)
            found.setdefault(finding.cause.name, {}).setdefault(line[:60], Printed(line, thread))
    for name, lines in found.items():
        yield name, sorted(lines.values(), key=lambda p: len(p.line))[:LINES]


def threads() -> Iterator[tuple[str, str]]:
    for path in sorted(THREADS.glob("*.txt")):
        for block in path.read_text(encoding="utf-8").split("\n==== ")[1:]:
            head, _, text = block.partition("\n")
            yield head.rpartition(" ")[2], text


def shortened(line: str) -> str:
    """A line without its date, and cut at a word."""
    line = STAMP.sub("", line.strip())
    return line if len(line) <= LONGEST else line[:LONGEST].rpartition(" ")[0] + " ..."


def table_rows(name: str, causes: Iterable[Cause], printed: list[Printed]) -> Iterator[str]:
    cause = next(iter(causes))
    texts = [p.line for p in printed[:2]] or [plain(cause.patterns[0])]
    shown = "<br>".join(code(text) for text in texts)
    yield f"| {shown} | [{name}](#{name}) | {command(cause) if cause.command else ''} |"


def plain(pattern: str) -> str:
    """A regular expression as a reader would print it: the first of each choice, without what may be missing."""
    text = re.sub(r"\(\?[:!]([^()|]*)(?:\|[^()]*)*\)\??", r"\1", pattern)
    text = re.sub(r"\\[wd]\+|\.\*|\\w\*", "...", text)
    return re.sub(r"\\b|[ ]?\*|:\?", "", text).replace("\\", "")


def section(name: str, causes: list[Cause], printed: list[Printed]) -> Iterator[str]:
    yield from (f"## {name}", "")
    for cause in causes:
        seldom = {Weight.HINT: "A warning. ", Weight.GENERAL: "If no other line has a cause: "}.get(cause.weight, "")
        yield from (f"{seldom}{escape(cause.means, quote=False)}", "", escape(cause.helps, quote=False), "")
        if cause.command:
            yield from ("```sh", typed(cause), "```", "")
    if printed:
        yield from ("What was printed:", "")
        yield from (f"- {code(p.line)} ([thread]({p.thread}))" for p in printed)
        yield ""
    texts = [pattern for cause in causes for pattern in cause.patterns]
    if texts:
        yield from ('??? note "The regular expressions that find it"', "", "    ```text")
        yield from (f"    {text}" for text in texts)
        yield from ("    ```", "")


def typed(cause: Cause) -> str:
    return cause.command.format(model="MODEL.onnx", target="TARGET")


def command(cause: Cause) -> str:
    """The command in a table's cell; a browser may not break a line inside an option."""
    return OPTION.sub(r'<span class="option">\g<0></span>', code(typed(cause)))


def code(text: str) -> str:
    """Text between marks of code that a table's cell can have."""
    shown = escape(text, quote=False)
    for mark in "|[*_":
        shown = shown.replace(mark, f"&#{ord(mark)};")
    return f"<code>{shown}</code>"
