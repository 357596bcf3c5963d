"""Examples of every condition of the table: nodes that it refuses, and the same with one thing changed.

Those of rows are made from the row (`rows`). Those of functions, and of rows that no sample of a node can show, are
written by hand, in a file a theme.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from condition_examples import rows
from condition_examples.example import Example
from surgeon.targets.conditions import conditions
from surgeon.targets.rows import Row

THEMES = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
BY_HAND: dict[str, list[Example]] = {
    name: found for theme in THEMES for name, found in getattr(theme, "EXAMPLES", {}).items()
}
EXAMPLES = dict(BY_HAND)
for condition in conditions():
    if isinstance(condition, Row) and condition.name not in BY_HAND:
        EXAMPLES[condition.name] = [*EXAMPLES.get(condition.name, []), *rows.examples(condition)]
