"""Every condition of the table, by theme: one module a theme, and beside it a file with its rows.

To add one:

1. Write a row in the file of its theme: the operators, the targets, what they refuse, and the source.
   `surgeon.targets.rows` has the fields, `surgeon.targets.releases.parse` how targets are written.

       [[rows]]
       operators = "Trilu"
       targets = "8.5"
       rank = { other_than = 2 }
       source = "onnx-tensorrt@fd119fe: 2-D alone"

2. What a row cannot say is a function with `@condition` that takes a node and returns the reason why it is unsupported,
   or None. `surgeon.targets.condition` has what it looks at a node with.
3. Give tests/condition_examples a sample of the operator, or an example of the function.

The first condition that gives a reason answers: in the order of the modules below, then in the order within them.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from surgeon.targets.condition import Condition

THEMES = (
    "unread reductions activations resize recurrent control_flow constants shapes indexing inputs pads normalizations "
    "windows arithmetic quantization attention types ranks names dla"
)


@cache
def conditions() -> tuple[Condition, ...]:
    """All of them. They are read when the first target is asked about a node."""
    return tuple(found for theme in THEMES.split() for found in _conditions(theme))


def _conditions(theme: str) -> Iterator[Condition]:
    """The conditions of a module: functions, rows, and tables of rows."""
    for found in vars(import_module(f"{__name__}.{theme}")).values():
        yield from (c for c in (found if isinstance(found, tuple) else (found,)) if isinstance(c, Condition))
