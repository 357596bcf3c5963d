"""The table of surgeon's plugins: names, versions, inputs and fields, read from ``fields.def``.

The C++ creators include the same file, so a field cannot exist on one side only.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
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


_DEFAULTS: dict[str, Callable[[str], Value]] = {"INT": int, "FLOAT": float, "STRING": lambda text: text.strip('"')}


@cache
def plugins() -> dict[str, Plugin]:
    """Every plugin of the table, by name, in its order."""
    table: dict[str, Plugin] = {}
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    for macro, arguments, doc in (match.groups() for match in map(_LINE.match, lines) if match):
        name, *words = (word.strip() for word in arguments.split(","))
        if macro == "PLUGIN":
            version, fewest, most = words
            table[name] = Plugin(name, version.strip('"'), (int(fewest), int(most)), (), doc)
            continue
        fields = table[name].fields
        if macro == "FIELD":
            field, kind, default = words
            fields += (Field(field, kind, None if default == "REQUIRED" else _DEFAULTS[kind](default), (), doc),)
        else:
            field, value = words
            *before, last = fields
            if last.name != field:
                raise ValueError(f"{TABLE.name}: CHOICE({name}, {field}, {value}) does not follow its FIELD")
            fields = (*before, replace(last, choices=(*last.choices, value)))
        table[name] = replace(table[name], fields=fields)
    return table
