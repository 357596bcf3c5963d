"""Conditions as rows: the types, ranks, attributes and inputs with which targets refuse an operator.

Most are in the TOML file beside the module of their theme. A value that is refused is a number, a text or a list of
these, or a table with one of the limits below, such as `{ above = 5 }` or `{ some = { below = 0 } }`.
`{ dynamic = true }` is every size that is not static, `{ known = true }` every value that is known:

    [[rows]]
    operators = "Conv ConvTranspose"
    targets = "rtx"
    attr.pads = { some = { below = 0 } }
    reason = "the negative pads {value} are refused"
    source = "measured with TensorRT-RTX 1.7.1: setPrePadding, allDimsGtEq(prePadding, 0)"

A row with a question of its own, or with values that follow from another table, is in Python:

    refuses("EyeLike", EVERYWHERE, where=lambda node: not is_static(shape_of(node)), reason="...", source="...")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, TypeAlias

from onnx import TensorProto

from surgeon.ir.data_file import data_beside
from surgeon.ir.graph import Node
from surgeon.ir.lattice import Shape
from surgeon.targets.condition import (
    Check,
    Condition,
    Scope,
    constant_of,
    document,
    dtype_name,
    dtype_of,
    is_weights,
    opset_of,
    outputs_of,
    rank_of,
    shape_of,
)
from surgeon.targets.releases import Range, parse

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


@dataclass(frozen=True, slots=True)
class Limit:
    """Values that are refused; `kind` is the function below that made it, `values` what that was given."""

    kind: str
    values: tuple[Any, ...]
    refuses: Callable[[Any], bool]


Values: TypeAlias = "int | str | Collection[int] | Collection[str] | Limit"


def above(most: int) -> Limit:
    """Every number above one, which is the last that is taken."""
    return Limit("above", (most,), lambda value: bool(value > most))


def below(least: int) -> Limit:
    """Every number below one, which is the first that is taken."""
    return Limit("below", (least,), lambda value: bool(value < least))


def other_than(*taken: int | str) -> Limit:
    """Every value but those that are taken."""
    return Limit("other_than", taken, lambda value: value not in taken)


def matches(pattern: str) -> Limit:
    """Texts in which a regular expression is found."""
    return Limit("matches", (pattern,), lambda value: re.search(pattern, value) is not None)


DYNAMIC = Limit("dynamic", (), lambda size: not isinstance(size, int))  # sizes that are not static
KNOWN = Limit("known", (), lambda _: True)  # whatever the value, where one is known


def some(refused: Values) -> Limit:
    """Lists that hold a value that is refused."""
    return Limit("some", (refused,), lambda values: any(map(_among(refused), values)))


LIMITS: dict[str, Callable[..., Limit]] = {
    "above": above, "below": below, "other_than": other_than, "matches": matches, "some": some,
    "dynamic": lambda _: DYNAMIC, "known": lambda _: KNOWN,
}  # fmt: skip


def _among(refused: Values) -> Callable[[Any], bool]:
    """The question whether a value is refused."""
    if isinstance(refused, Limit):
        return refused.refuses
    values = (refused,) if isinstance(refused, int | str) else tuple(refused)
    return lambda value: value in values


@dataclass(frozen=True, eq=False)
class Row(Condition):
    """A condition as data: `targets` refuse the nodes of `operators` for which all of this holds.

    What is not known, such as a rank that is not inferred, is not refused.

    operators  names of ONNX operators, with spaces between them
    dtype      types of an input that are refused: names of ONNX's text with spaces between them, or numbers of
               TensorProto.DataType
    rank       numbers of dimensions of the input
    weights    whether the input is an initializer or a Constant, or left out
    size       sizes of the input, one of which is refused; or, by axis, sizes that are all refused
    maker      the operator that makes the input; "" is none
    input      the position of the input that these five apply to; of several positions one is enough
    value      by position of a constant input, its numbers that are refused, as a list
    made       types of the first output
    outputs    how many outputs have a name
    attr       by attribute, its values that are refused; one that is left out has the schema's default
    given      attributes, and positions of inputs, of which one is given
    lacks      attributes, and positions of inputs, that are all left out
    opset      opsets of the model
    where      a question to the node, for what the other fields cannot say
    reason     why, a part of a sentence; it may name {op}, {dtype}, {rank}, {input}, {made}, {given}, and {name},
               {value} and {type} of the last attribute, or the first {value} of the last constant. Where it is left
               out, the row says what it refuses
    section    the section of docs/trt-support.md that says it
    source     file, commit and words that say it, or what it was measured with
    """

    name: str = field(init=False)  # made of what it asks, such as "Relu.dtype"
    check: Check = field(init=False)
    scopes: tuple[Scope, ...] = field(init=False)
    rounds: bool = field(init=False, default=False)
    operators: str
    targets: Range
    _: KW_ONLY
    dtype: str | Collection[int] | Limit | None = None
    rank: Values | None = None
    weights: bool | None = None
    size: Values | Mapping[int, Values] | None = None
    maker: str | Limit | None = None
    input: int | tuple[int, ...] = 0
    value: Mapping[int, Values] = field(default_factory=dict)
    made: str | Collection[int] | Limit | None = None
    outputs: Values | None = None
    attr: Mapping[str, Values] = field(default_factory=dict)
    given: int | str | tuple[int | str, ...] = ()
    lacks: int | str | tuple[int | str, ...] = ()
    opset: Limit | None = None
    where: Callable[[Node], bool] | None = None
    reason: str = ""
    section: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        operators = tuple(self.operators.split())
        scopes = (Scope(operators, self.targets, document(self.section, self.source)),)
        made = {"name": ".".join([operators[0], *_keys(self)]), "check": _check(self), "scopes": scopes}
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def asks_at(self, opset: int) -> bool:
        """Whether it asks anything of the nodes of an opset."""
        return self.opset is None or self.opset.refuses(opset)


def _keys(row: Row) -> Iterator[str]:
    """What a row asks, in words: attributes, positions of inputs, and fields."""
    position = row.input if isinstance(row.input, int) else 0
    named = (*row.attr, *_all(row.given)[:1], *_all(row.lacks)[:1], *([position] if position else []), *row.value)
    yield from map(str, dict.fromkeys(named))
    fields = ("dtype", "rank", "weights", "size", "maker", "made", "outputs", "opset", "where")
    given = [field for field in fields if getattr(row, field) is not None] + ["value"] * bool(row.value)
    yield from ("empty" if field == "size" and row.size == 0 else field for field in given)


refuses = Row


def read(module: str, section: str = "rows") -> tuple[Row, ...]:
    """The rows in a section of the TOML file beside a module. Raises ValueError, which names the row that is wrong."""
    return tuple(_row(module, row) for row in _file_beside(module)[section])


_file_beside = cache(data_beside)


def _row(module: str, given: Mapping[str, Any]) -> Row:
    try:
        return Row(**{name: _read(name, value) for name, value in given.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"a row of {given.get('operators')} beside {module} is wrong: {error}") from error


def _read(name: str, value: Any) -> Any:
    """What a file gives for a field of a row."""
    if name == "targets":
        return parse(value)
    if name == "attr":
        return {attribute: _values(refused) for attribute, refused in value.items()}
    if name == "value" or (isinstance(value, dict) and all(key.isdecimal() for key in value)):
        return {int(position): _values(refused) for position, refused in value.items()}
    return _values(value)


def _values(given: Any) -> Any:
    if isinstance(given, list):
        return tuple(given)
    if not isinstance(given, dict):
        return given
    ((kind, of),) = given.items()
    return LIMITS[kind](*map(_values, of if isinstance(of, list) else [of]))


Part: TypeAlias = "Callable[[Node], bool]"


def _check(row: Row) -> Check:
    parts, reason = tuple(_parts(row)), row.reason or _reason(row)
    is_plain = "{" not in reason

    def check(node: Node) -> str | None:
        for part in parts:
            if not part(node):
                return None
        return reason if is_plain else reason.format(**_found(row, node))

    return check


def _parts(row: Row) -> Iterator[Part]:
    """The questions of a row to a node, the cheap ones first."""
    opset, given, lacks = row.opset, _all(row.given), _all(row.lacks)
    if opset is not None:
        yield lambda node: opset.refuses(opset_of(node))
    for name, values in row.attr.items():
        yield _asks_attribute(name, values)
    if given:
        yield lambda node: any(_has(node, name) for name in given)
    if lacks:
        yield lambda node: not any(_has(node, name) for name in lacks)
    if row.outputs is not None:
        refused = _among(row.outputs)
        yield lambda node: refused(outputs_of(node))
    if any(asked is not None for asked in (row.weights, row.size, row.maker, row.dtype, row.rank)):
        yield _asks_inputs(row)
    if row.made is not None:
        made = _among(_types(row.made))
        yield lambda node: made(_made(node))
    for position, values in row.value.items():
        yield _asks_value(position, values)
    if row.where is not None:
        yield row.where


def _asks_attribute(name: str, values: Values) -> Part:
    refused = _among(values)

    def asks(node: Node) -> bool:
        value = node.attr(name)
        return value is not None and refused(value)

    return asks


def _asks_value(position: int, values: Values) -> Part:
    refused = _among(values)

    def asks(node: Node) -> bool:
        known = constant_of(node, position)
        return known is not None and refused(known.reshape(-1).tolist())

    return asks


def _asks_inputs(row: Row) -> Part:
    """The question to the inputs of which one has to have the type, the rank, the weights, the sizes and the maker."""
    if isinstance(row.input, int):
        return _asks_input(row, row.input)
    each = [_asks_input(row, position) for position in row.input]
    return lambda node: any(asks(node) for asks in each)


def _asks_input(row: Row, position: int) -> Part:
    weights = row.weights
    sizes = None if row.size is None else _asks_sizes(row.size)
    makers = None if row.maker is None else _among(row.maker)
    types = None if row.dtype is None else _among(_types(row.dtype))
    ranks = None if row.rank is None else _among(row.rank)

    def asks(node: Node) -> bool:
        if types is not None and not types(dtype_of(node, position)):
            return False
        if weights is not None and is_weights(node.input_at(position)) is not weights:
            return False
        if ranks is not None:
            rank = rank_of(node, position)
            if rank is None or not ranks(rank):
                return False
        if makers is not None:
            value = node.input_at(position)
            if not makers("" if value is None or value.producer is None else value.producer.key):
                return False
        return sizes is None or sizes(shape_of(node, position))

    return asks


def _asks_sizes(sizes: Values | Mapping[int, Values]) -> Callable[[Shape | None], bool]:
    if not isinstance(sizes, Mapping):
        refused = _among(sizes)
        return lambda shape: any(map(refused, shape or ()))
    axes = {axis: _among(values) for axis, values in sizes.items()}
    return lambda shape: all(axis < len(shape or ()) and axes[axis]((shape or ())[axis]) for axis in axes)


def _has(node: Node, name: int | str) -> bool:
    return name in node.attrs if isinstance(name, str) else node.input_at(name) is not None


def _made(node: Node) -> int:
    """The type of the first output; 0 where it is not inferred."""
    made = node.outputs[0] if node.outputs else None
    return 0 if made is None else node.graph.model.dtype(made)


def _types(names: str | Collection[int] | Limit) -> Values:
    """The types as TensorProto.DataType has them; what is not inferred is none of them."""
    if isinstance(names, Limit):
        return other_than(0, *(TensorProto.DataType.Value(str(name).upper()) for name in names.values))
    if not isinstance(names, str):
        return names
    return frozenset(TensorProto.DataType.Value(name.upper()) for name in names.split())


def _all(names: int | str | tuple[int | str, ...]) -> tuple[int | str, ...]:
    return names if isinstance(names, tuple) else (names,)


# ---- words -----------------------------------------------------------------------------------------------------------


def _reason(row: Row) -> str:
    """What a row that has no reason of its own says: what it refuses, and what is taken instead."""
    if row.rank is not None:
        tail = ""
        if isinstance(row.rank, Limit):
            words = {"above": "{} are the most", "below": "at least {} are needed", "other_than": "{} are supported"}
            tail = "; " + words[row.rank.kind].format(NUMBERS[row.rank.values[0]]).replace("one are", "one is")
        if row.input != 0:
            return "its input {input} has {rank}" + tail
        few = {0: "without dimensions", 1: "of one dimension"}
        words_of = few.get(row.rank) if isinstance(row.rank, int) else None
        return f"an input {words_of or 'of {rank}'} is refused{tail}"
    if row.attr:
        return "{name} {value} is refused" + _others(list(row.attr.values())[-1])
    said = {"dtype": row.dtype, "made": row.made, "given": row.given or None}
    word = next((word for word, asked in said.items() if asked is not None), None)
    return "more than one output is refused" if word is None else f"{{{word}}} is refused"


def _others(refused: Values) -> str:
    """The values that an attribute may have, to the end of a sentence."""
    if not isinstance(refused, Limit) or refused.kind != "other_than":
        return ""
    words = " and ".join(str(_written(value)) for value in refused.values)
    return f"; only {words} {'is' if len(refused.values) == 1 else 'are'} supported"


def _found(row: Row, node: Node) -> dict[str, Any]:
    """What a reason may name of a node that a row refuses."""
    found: dict[str, Any] = {"op": node.op}
    found["given"] = next((name for name in _all(row.given) if _has(node, name)), None)
    for position in row.value:
        known = constant_of(node, position)
        found["value"] = None if known is None or not known.size else known.reshape(-1)[0].item()
    for name in row.attr:
        value = node.attr(name)
        found.update(name=name, value=_written(value))
        found["type"] = dtype_name(value) if value in TensorProto.DataType.values() else value
    positions = (row.input,) if isinstance(row.input, int) else row.input
    place = found["input"] = next((k for k in positions if _asks_input(row, k)(node)), positions[0])
    if row.dtype is not None:
        found["dtype"] = dtype_name(dtype_of(node, place))
    if row.rank is not None:
        rank = rank_of(node, place)
        found["rank"] = f"{rank} dimension{'s' * (rank != 1)}"
    if row.made is not None:
        found["made"] = dtype_name(_made(node))
    return found


def _written(value: Any) -> Any:
    return f"'{value}'" if isinstance(value, str) else value
