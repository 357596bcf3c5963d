"""What a condition is: where it holds, what it says of a node, and how it looks at one.

A condition says when a node of an operator that a parser imports is refused all the same, or read with another meaning
than ONNX's. Most are rows of `surgeon.targets.rows`, the others functions. How to add one is in
`surgeon.targets.conditions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import Shape
from surgeon.targets.releases import Range

Check: TypeAlias = "Callable[[Node], str | None]"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a condition holds, and who says so: the operators, the targets, the source."""

    operators: tuple[str, ...]
    targets: Range
    source: str


@dataclass(frozen=True, eq=False)
class Condition:
    """One reason why some targets do not support some nodes.

    `check(node)` gives the reason, a part of a sentence without a full stop, or None where the node is taken.
    `rounds` says that the parser supports such nodes and only rounds a number: what writes it out is worth a rewrite,
    and a verdict counts the node as taken.
    """

    name: str
    check: Check
    scopes: tuple[Scope, ...]
    rounds: bool = False

    def asks_at(self, opset: int) -> bool:
        """Whether it asks anything of the nodes of an opset."""
        return True


def condition(
    operators: str, targets: Range, *, section: str = "", source: str = "", rounds: bool = False
) -> Callable[[Check | Condition], Condition]:
    """Make a condition of a function from a node to the reason why it is unsupported, or None.

    operators    names of ONNX operators, with spaces between them
    targets      where it holds: `since`, `up_to`, `between`, `EVERYWHERE`, `RTX` or `DLA` of `surgeon.targets.releases`
    section      the section of docs/trt-support.md that says it
    source       file, commit and words that say it, or what it was measured with
    rounds       whether the node is taken, with a number that is rounded

    Used again above itself it makes the condition hold elsewhere too, with a source of its own.
    """
    scope = Scope(tuple(operators.split()), targets, document(section, source))

    def declare(given: Check | Condition) -> Condition:
        if isinstance(given, Condition):
            return Condition(given.name, given.check, (*given.scopes, scope), given.rounds)
        return Condition(given.__name__, given, (scope,), rounds)

    return declare


def document(section: str, source: str) -> str:
    """Who says it: a section of docs/trt-support.md, where it is there, and another source."""
    return "; ".join(filter(None, (f"docs/trt-support.md section {section}" if section else "", source)))


def is_weights(value: Value | None) -> bool:
    """Whether the parser sees weights or nothing: an initializer, a Constant node, or no value."""
    if value is None or value.tensor is not None:
        return True
    return value.producer is not None and value.producer.key == "Constant"


def dtype_of(node: Node, position: int = 0) -> int:
    """The type of an input, as TensorProto.DataType has it; 0 where it is left out or not inferred."""
    value = node.input_at(position)
    return 0 if value is None else node.graph.model.dtype(value)


def shape_of(node: Node, position: int = 0) -> Shape | None:
    """The sizes of an input, names and None for those that are not static; None where the rank is not inferred."""
    value = node.input_at(position)
    return None if value is None else node.graph.model.shape(value)


def size_along(node: Node, axis: int) -> int | str | None:
    """The size of the first input along an axis, a number or a name; None where there is neither, or no such axis."""
    shape = shape_of(node) or ()
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def rank_of(node: Node, position: int = 0) -> int | None:
    """How many dimensions an input has; None where it is left out or not inferred."""
    shape = shape_of(node, position)
    return None if shape is None else len(shape)


def constant_of(node: Node, position: int) -> NDArray[Any] | None:
    """The value of an input, or of the attribute that it is in older opsets; None where it cannot be computed."""
    operands = node.operands()
    given = operands[position] if position < len(operands) else None
    if isinstance(given, np.ndarray):
        return given
    return node.graph.model.constant(given) if isinstance(given, Value) else None


def may_match(one: Shape, other: Shape) -> bool:
    """Whether two shapes can be the same: they have one rank, and no two static sizes differ."""
    if len(one) != len(other):
        return False
    return all(a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in zip(one, other, strict=True))


def handed_on(value: Value | None, by: Collection[str] = ("Identity",)) -> Value | None:
    """The tensor that a chain of Identity nodes, or of others, passes on."""
    while value is not None and value.producer is not None and value.producer.key in by:
        value = value.producer.inputs[0]
    return value


def opset_of(node: Node) -> int:
    """The opset of ONNX's own operators that holds where the node is."""
    return node.graph.model.opset_in(node.graph)


def outputs_of(node: Node) -> int:
    """How many outputs are named."""
    return sum(output is not None for output in node.outputs)


def dtype_name(dtype: int) -> str:
    """A type as ONNX writes it, in lower case: "float16"."""
    return str(TensorProto.DataType.Name(dtype)).lower()
