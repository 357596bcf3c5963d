"""Tables in TOML: of this package beside its modules, and of users."""

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def data_beside(module: str) -> dict[str, Any]:
    """The table of the TOML file beside a module, whose `__file__` is given, and of its name."""
    return toml(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))


def toml(text: str) -> dict[str, Any]:
    """The table of a text in TOML. Raises ValueError."""
    found: dict[str, Any] = tomllib.loads(text)
    return found
