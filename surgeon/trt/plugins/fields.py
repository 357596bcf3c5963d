"""The table of surgeon's plugins: names, versions, inputs and fields, read from ``fields.def``.

The C++ creators include the same file, so a field cannot exist on one side only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NAMESPACE = "surgeon"
TABLE = Path(__file__).with_name("fields.def")

Value = int | float | str | tuple[int, ...]


@dataclass(frozen=True)
class Field:
    """One attribute of a plugin node. ``kind`` is INT, FLOAT, STRING or INTS;
    ``default`` is None where it is required."""

    name: str
    kind: str
    default: Value | None
    choices: tuple[str, ...]
    doc: str


@dataclass(frozen=True)
class Plugin:
    """One plugin: ``op_type`` of its node and name of its creator; ``inputs`` is (fewest, most)."""

    name: str
    version: str
    inputs: tuple[int, int]
    fields: tuple[Field, ...]
    doc: str

    def field(self, name: str) -> Field:
        """The field of that name; KeyError where the plugin has none."""
        return {f.name: f for f in self.fields}[name]


_LINE = re.compile(r"^(PLUGIN|FIELD|CHOICE)\((.*?)\)\s*//\s*(.*)$")


@cache
def plugins() -> dict[str, Plugin]:
    """Every plugin of the table, by name, in its order."""
    table: dict[str, Plugin] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        macro, arguments, doc = match.groups()
        words = [word.strip() for word in arguments.split(",")]
        _READERS[macro](table, words, doc)
    return table


def _plugin(table: dict[str, Plugin], words: list[str], doc: str) -> None:
    name, version, fewest, most = words
    table[name] = Plugin(name, version.strip('"'), (int(fewest), int(most)), (), doc)


def _field(table: dict[str, Plugin], words: list[str], doc: str) -> None:
    plugin, name, kind, default = words
    _append(table, plugin, Field(name, kind, _default(kind, default), (), doc))


def _choice(table: dict[str, Plugin], words: list[str], doc: str) -> None:
    plugin, field, value = words
    old = table[plugin].fields[-1]
    if old.name != field:
        raise ValueError(f"{TABLE.name}: CHOICE({plugin}, {field}, {value}) does not follow its FIELD")
    table[plugin] = _with_fields(table[plugin], table[plugin].fields[:-1])
    _append(table, plugin, Field(old.name, old.kind, old.default, (*old.choices, value), old.doc))


def _append(table: dict[str, Plugin], plugin: str, field: Field) -> None:
    table[plugin] = _with_fields(table[plugin], (*table[plugin].fields, field))


def _with_fields(plugin: Plugin, fields: tuple[Field, ...]) -> Plugin:
    return Plugin(plugin.name, plugin.version, plugin.inputs, fields, plugin.doc)


def _default(kind: str, text: str) -> Value | None:
    if text == "REQUIRED":
        return None
    readers: dict[str, Callable[[str], Value]] = {"INT": int, "FLOAT": float, "STRING": lambda s: s.strip('"')}
    return readers[kind](text)


_READERS = {"PLUGIN": _plugin, "FIELD": _field, "CHOICE": _choice}
