"""Every condition of the table, by theme: one module a theme, one function a condition.

To add one:

1. Write a function in the module of its theme that takes a node and returns the reason why it is not taken, or None.
   `surgeon.targets.condition` has what it looks at a node with.
2. Put `@condition` above it: the operators, the targets (`since(8, 5)`, `up_to(9, 3)`, `between((8, 2), (9, 3))`, each
   with `rtx=True` where it was measured with TensorRT-RTX too; `EVERYWHERE`, `RTX`, `DLA`), and the source.

       @condition("Einsum", between((9, 0), (10, 11)), section="6", source="onnx-tensorrt@9d2d786")
       def einsum_diagonal(node: Node) -> str | None:
           return "a diagonal is refused" if ... else None

   An attribute that a parser does not read needs no function: `layout = unread("layout", "LSTM GRU RNN", ...)`.
3. Give tests/test_conditions.py a node that it refuses, and the same with one thing changed, which is taken.

The first condition that gives a reason answers: in the order of the modules below, then in the order within them.
"""

from __future__ import annotations

from surgeon.targets.condition import Condition
from surgeon.targets.conditions import (
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

THEMES = (
    unread,
    reductions,
    activations,
    resize,
    recurrent,
    control_flow,
    constants,
    shapes,
    indexing,
    inputs,
    pads,
    normalizations,
    pools,
    convolutions,
    arithmetic,
    quantization,
    attention,
    types,
    ranks,
    names,
    dla,
)
CONDITIONS: tuple[Condition, ...] = tuple(
    found for theme in THEMES for found in vars(theme).values() if isinstance(found, Condition)
)
