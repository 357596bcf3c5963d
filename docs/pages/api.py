"""The Python API as a page: each name of `surgeon.__all__` with its signature and its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from html import escape
from typing import Any

import surgeon

# What a reader looks for, in this order. A name that is not here follows them.
THEMES: dict[str, list[str]] = {
    "Functions": ["rewrite", "rewrite_file", "check", "compare", "build", "convert", "why"],
    "What they return": ["Result", "Report", "Applied", "Declined", "Checked", "Comparison", "Built", "Target",
                          "PrecisionResult", "Finding"],
    "Errors": ["SurgeonError", "UsageError", "ModelError", "EngineError", "PassError"],
    "Writing a pass": [
        "rule", "rewrites", "model_rule", "gs_pass", "meaning", "Stage", "op", "var", "const", "attr", "output",
        "any_of", "ANY", "Pattern", "require", "require_some", "no_match", "Decline", "Builder", "Editor", "Node",
        "Value", "dims", "known_dims", "elements", "Dim",
    ],
    "Constants": ["DOMAIN", "PLUGIN", "FLOATS", "HALVES", "__version__"],
}  # fmt: skip
WORDS = {
    "Dim": "A dimension as `dims` gives it: an int, a symbol of the shape inference, (tensor, axis), or None.",
    "DOMAIN": "The domain of surgeon's own nodes.",
    "PLUGIN": "What a node of surgeon's plugin library has besides its attributes.",
    "FLOATS": "The types of floating-point numbers, of TensorProto.DataType: float, double, float16, bfloat16.",
    "HALVES": "Those of 16 bits: float16, bfloat16.",
    "__version__": "The version of surgeon.",
}


def page() -> str:
    """Every public name, by theme."""
    themed = {name for names in THEMES.values() for name in names}
    others = [name for name in surgeon.__all__ if name not in themed]
    themes = {**THEMES, "Other names": others} if others else THEMES
    lines = [
        "# Python reference",
        "",
        "[The Python API](docs/python.md) has examples. This page is made from the docstrings and the signatures.",
        "",
    ]
    for theme, names in themes.items():
        lines += [f"## {theme}", ""]
        for name in names:
            lines += entry(name)
    return "\n".join(lines)


def entry(name: str) -> list[str]:
    given = getattr(surgeon, name)
    kind = "class " if inspect.isclass(given) else ""
    lines = [f"### surgeon.{name} {{ #{name.strip('_').lower()} }}", ""]
    if callable(given) and name not in ("op", "ANY"):
        lines += ["```python", f"{kind}{name}{signature(given)}", "```", ""]
    lines += [*doc(WORDS.get(name) or inspect.getdoc(given) or ""), ""]
    if inspect.isclass(given) and given.__module__.startswith("surgeon") and not issubclass(given, Exception):
        lines += members(given)
    return lines


def signature(given: Any) -> str:
    """The signature, an argument a line where it is long."""
    try:
        found = inspect.signature(given)
    except ValueError:
        return "(...)"
    plain = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(found))  # annotations are texts
    short = re.sub(r"<factory>|<function <lambda>[^>]*>|<surgeon[^>]*>", "...", plain)
    if len(short) <= 80:
        return short
    inner, _, returned = short[1:].rpartition(")")
    return "(\n" + "".join(f"    {part},\n" for part in arguments(inner)) + ")" + returned


def arguments(text: str) -> Iterator[str]:
    """The arguments of a signature: parts between the commas that are in no bracket."""
    depth, start = 0, 0
    for k, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            yield text[start:k].strip()
            start = k + 1
    yield text[start:].strip()


def doc(text: str) -> list[str]:
    """A docstring: its first paragraph as text, the rest as it is laid out."""
    first, _, rest = text.partition("\n\n")
    lines = [escape(" ".join(first.split()), quote=False)]
    return [*lines, "", "```text", rest, "```"] if rest else lines


def members(given: type) -> list[str]:
    """The methods and properties of a class that have a docstring of their own."""
    rows = []
    for name, member in vars(given).items():
        text = inspect.getdoc(member) if not name.startswith("_") else None
        if not text or not (inspect.isfunction(member) or isinstance(member, (property, classmethod))):
            continue
        shown = name if isinstance(member, property) else f"{name}()"
        rows.append(f"| `{shown}` | {escape(text.partition(chr(10) * 2)[0], quote=False)} |".replace("\n", " "))
    return ["| member | |", "|---|---|", *(r.replace("||", "\\|\\|") for r in rows), ""] if rows else []
