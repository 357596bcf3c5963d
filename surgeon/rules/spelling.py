"""How an opset spells a node: which values are attributes, and which are inputs."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from surgeon.ir.schemas import MOVED, schema

PLAIN = frozenset({int, float, str})


def arrange(
    op: str, inputs: Sequence[Any], attrs: dict[str, Any], domain: str, opset: int
) -> tuple[list[Any], dict[str, Any]]:
    """Inputs and attributes as `opset` wants them: what ONNX moved from an attribute to an input is given by name."""
    given, written = list(inputs), attrs
    moved = MOVED.get(op) if attrs and not domain else None
    if moved is not None:
        written = dict(attrs)
        attributes = attribute_names(op, opset)
        for name in [n for n in moved if n in written and n not in attributes]:
            value, position = written.pop(name), moved[name]
            if value is None:
                continue
            given += [None] * (position + 1 - len(given))
            integers = name not in ("min", "max", "value", "scales") and not hasattr(value, "producer")
            given[position] = np.asarray(value, np.int64) if integers else value
    while given and given[-1] is None:
        given.pop()
    for value in written.values():
        if type(value) not in PLAIN:
            return given, {k: _plain(v) for k, v in written.items() if v is not None}
    return given, written


@cache
def attribute_names(op: str, opset: int) -> frozenset[str]:
    """The attributes that the schema of ONNX's own operator has; none for one that onnx does not know."""
    spec = schema(op, "", opset)
    return frozenset() if spec is None else frozenset(spec.attributes)


def _plain(given: Any) -> Any:
    """An attribute's value from whatever a body gives: arrays become lists, NumPy numbers Python's."""
    if isinstance(given, np.ndarray):
        return given.tolist()
    if isinstance(given, np.generic):
        return given.item()
    return list(given) if isinstance(given, tuple) else given
