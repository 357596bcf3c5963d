"""Examples of every condition of the table: nodes that it refuses, and the same with one thing changed.

Those of rows are made from the row (`rows`). Those of functions, and of rows that no sample of a node can show, are
written by hand, in a file a theme.
"""

from __future__ import annotations

from condition_examples import (
    activations,
    arithmetic,
    attention,
    constants,
    control_flow,
    convolutions,
    dla,
    indexing,
    inputs,
    names,
    normalizations,
    pads,
    pools,
    quantization,
    ranks,
    recurrent,
    reductions,
    resize,
    rows,
    shapes,
    types,
    unread,
)
from condition_examples.example import Example
from surgeon.targets.conditions import CONDITIONS
from surgeon.targets.rows import Row

THEMES = (
    activations,
    arithmetic,
    attention,
    constants,
    control_flow,
    convolutions,
    dla,
    indexing,
    inputs,
    names,
    normalizations,
    pads,
    pools,
    quantization,
    ranks,
    recurrent,
    reductions,
    resize,
    shapes,
    types,
    unread,
)
BY_HAND: dict[str, list[Example]] = {name: found for theme in THEMES for name, found in theme.EXAMPLES.items()}
EXAMPLES = dict(BY_HAND)
for condition in CONDITIONS:
    if isinstance(condition, Row) and condition.name not in BY_HAND:
        EXAMPLES[condition.name] = [*EXAMPLES.get(condition.name, []), *rows.examples(condition)]
