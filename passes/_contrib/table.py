"""The table of bodies, and what they share."""

from collections.abc import Callable
from inspect import CO_VARARGS
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, require, require_some
from surgeon.ir.contrib import schema

Result: TypeAlias = Value | None | tuple[Value | None, ...]
Body: TypeAlias = Callable[..., Result]
BODIES: dict[tuple[str, str], Body] = {}  # (domain, operator) -> what builds it
MICROSOFT = "com.microsoft"
FLOAT = TensorProto.FLOAT


def body(*operators: str, domain: str = MICROSOFT) -> Callable[[Body], Body]:
    """Mark what builds the operators' results from a builder and the root's first inputs, None for each left out."""

    def mark(function: Body) -> Body:
        BODIES.update({(domain, operator): function for operator in operators})
        return function

    return mark


def built(b: Builder) -> Result:
    """What the definition of the root's operator computes of its inputs, of which the needed ones must be there."""
    spec, function = schema(b.root.op), BODIES[b.root.domain, b.root.op]
    inputs = given(b, len(b.root.inputs) if spec is None else len(spec.inputs))
    for formal, x in zip(spec.inputs, inputs, strict=True) if spec is not None else ():
        if formal.option == formal.option.Single:
            needed(x)
    code = function.__code__
    return function(b, *(inputs if code.co_flags & CO_VARARGS else inputs[: code.co_argcount - 1]))


def given(b: Builder, count: int) -> list[Any]:
    """The root's first inputs, None for each that is left out."""
    return [*b.root.inputs, *[None] * count][:count]


def needed(value: Value | None) -> Value:
    """An input that the operator's definition does not let a node leave out, as its other inputs are."""
    return require_some(value, "it leaves out an input that its definition asks for")


def known(b: Builder, value: Value, what: str, *, size: int | None = None) -> np.ndarray:
    """The value of a constant, which has `size` elements."""
    array = require_some(b.value(value), f"its {what} is computed")
    require(size is None or array.size == size, f"its {what} has {array.size} numbers, and should have {size}")
    return array


def plus(b: Builder, x: Value, *others: Value | None) -> Value:
    """The sum of x and of what is given."""
    for other in others:
        x = x if other is None else b.Add(x, other)
    return x


def sizes(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def asks_for(b: Builder, index: int) -> bool:
    """Whether the root has an output of that number."""
    outputs = b.root.outputs
    return index < len(outputs) and outputs[index] is not None


def require_unasked(b: Builder, index: int, why: str) -> None:
    require(not asks_for(b, index), why)


def in_place(b: Builder, *results: Value | None) -> Result:
    """The results in the order of the root's outputs."""
    outputs = b.root.outputs
    if len(outputs) == 1:
        return results[0]
    return tuple(results[k] if outputs[k] is not None else None for k in range(len(outputs)))


def setting(b: Builder, name: str, default: Any) -> Any:
    """An attribute of the root, by the default of its definition."""
    found = b.root.attr(name)
    return default if found is None else found
