"""The table of causes.toml: what TensorRT, its parser and ONNX Runtime's provider print, what it means, what helps."""

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from string import Template

from surgeon.ir.data_file import data_beside


class Weight(IntEnum):
    """How much a line says: HINT is a warning or a consequence, OPEN says where and not what, GENERAL leaves the cause
    open, ERROR names it."""

    HINT = 1
    OPEN = 2
    GENERAL = 3
    ERROR = 4


@dataclass(frozen=True)
class Cause:
    """One cause: what the log has, what that means, what to do about it, and what to type.

    release   the TensorRT that prints it, where only one major release does: the target if the log names none
    """

    name: str
    patterns: tuple[str, ...]
    means: str
    helps: str
    command: str = ""
    weight: Weight = Weight.ERROR
    release: str = ""

    @cached_property
    def search(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{p})" for p in self.patterns), re.IGNORECASE)


_TABLE = data_beside(__file__)
REWRITE: str = _TABLE["commands"]["rewrite"]
# How a line names an operator, or a plugin, and a node: each has one group.
OPERATORS, NODES = ([re.compile(pattern) for pattern in _TABLE[key]] for key in ("operators", "nodes"))


def _cause(entry: dict[str, str]) -> Cause:
    command = Template(entry.get("command", "")).safe_substitute(_TABLE["commands"])
    weight = Weight[entry.get("weight", "error").upper()]
    return Cause(**entry | {"patterns": tuple(entry["patterns"]), "command": command, "weight": weight})  # type: ignore[arg-type]


CAUSES = tuple(map(_cause, _TABLE["causes"]))
