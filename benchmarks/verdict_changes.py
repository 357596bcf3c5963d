"""Changes to a drawn node that leave it valid, or make it so: what a stranger would try next.

Each takes away, adds or replaces one thing: an attribute, an optional input or output, a type, a rank, an empty
dimension, whether an input is constant. Values of strings are the words that ONNX's own documentation quotes. Whether
the result is still valid ONNX is for the checker and the runtimes to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, defs, helper, numpy_helper

NAMED = {f"tensor({name.lower()})": number for name, number in TensorProto.DataType.items()}
UNDRAWN = {TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128, TensorProto.UNDEFINED}
QUOTED = re.compile(r"[\"'`]([A-Za-z_]+)[\"'`]")
WORDS = ("none", "tanh", "zeros", "border", "reflection", "linear")
INTEGERS = (-3, -2, -1, 0, 1, 2, 3, 4)
NUMBERS = (-1.0, 0.0, 1e-3, 0.25, 0.5, 1.0, 3.0)
KIND = AttributeProto


class Unchanged(Exception):
    """There is nothing of that kind to change."""


def change(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    """Apply one to three changes to a node, its weights and its inputs, as far as there is something to change."""
    for _ in range(net.r.choice((1, 1, 1, 2, 2, 3))):
        try:
            net.r.choice(CHANGES)(net, node, schema)
        except (Unchanged, ValueError, TypeError, OverflowError, KeyError):
            continue


# ---- attributes ------------------------------------------------------------------------------------------------------


def drop_attribute(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    del node.attribute[_some(net, range(len(node.attribute)))]


def replace_attribute(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    attribute = _some(net, node.attribute)
    given = helper.get_attribute_value(attribute)
    value: Any
    if attribute.type == KIND.INT:
        value = net.r.choice((*INTEGERS, given + 1, given - 1, -given))
    elif attribute.type == KIND.FLOAT:
        value = net.r.choice(NUMBERS)
    elif attribute.type == KIND.STRING:
        value = _some(net, _words(schema, attribute.name))
    elif attribute.type == KIND.INTS:
        value = _other_integers(net, list(given))
    elif attribute.type == KIND.FLOATS:
        value = [net.r.choice(NUMBERS) for _ in given]
    else:
        raise Unchanged
    _set(node, attribute.name, value)


def add_attribute(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    there = {a.name for a in node.attribute}
    name = _some(net, [n for n in schema.attributes if n not in there])
    spec, kinds = schema.attributes[name], defs.OpSchema.AttrType
    if spec.type == kinds.INT:
        value: Any = net.r.choice((*INTEGERS, 10)) if not name.endswith("dtype") else net.r.choice((1, 6, 7, 10))
    elif spec.type == kinds.FLOAT:
        value = net.r.choice(NUMBERS)
    elif spec.type == kinds.STRING:
        value = _some(net, _words(schema, name))
    elif spec.type == kinds.INTS:
        value = [net.r.choice(INTEGERS) for _ in range(net.r.randint(1, 4))]
    else:
        raise Unchanged
    _set(node, name, value)


def _other_integers(net: Any, given: list[int]) -> list[int]:
    if not given:
        return [net.r.choice(INTEGERS)]
    place = net.r.randrange(len(given))
    kinds: list[Callable[[], list[int]]] = [
        lambda: [*given[:place], net.r.choice(INTEGERS), *given[place + 1 :]],
        lambda: given[::-1],
        lambda: [*given, given[place]],
        lambda: given[:-1],
        lambda: [-g for g in given],
        lambda: [g - len(given) for g in given],
    ]
    return net.r.choice(kinds)()


def _words(schema: defs.OpSchema, name: str) -> list[str]:
    spec = schema.attributes[name]
    if name == "auto_pad":
        return ["NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID"]
    found = {word for word in QUOTED.findall(spec.description or "") if len(word) > 1}
    return sorted(found) or list(WORDS)


def _set(node: NodeProto, name: str, value: Any) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


# ---- inputs and outputs ----------------------------------------------------------------------------------------------


def drop_input(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    optional = defs.OpSchema.FormalParameterOption.Optional
    places = [k for k, spec in enumerate(schema.inputs) if spec.option == optional and k < len(node.input)]
    node.input[_some(net, places)] = ""
    while node.input and not node.input[-1]:
        del node.input[-1]


def swap_constant(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    """What is an initializer becomes an input of the model, and the other way around."""
    name = _some(net, [n for n in node.input if n])
    weights = {t.name: t for t in net.weights}
    if name in weights:
        value = numpy_helper.to_array(weights[name])
        net.weights.remove(weights[name])
        net.feeds[name] = value
        net.inputs.append(helper.make_tensor_value_info(name, weights[name].data_type, list(value.shape)))
        return
    info = next((i for i in net.inputs if i.name == name), None)
    if info is None:
        raise Unchanged
    value = net.feeds.pop(name)
    net.inputs.remove(info)
    if net.chance(0.5):
        net.weights.append(_tensor(name, value, info.type.tensor_type.elem_type))
    else:
        held = _tensor(name, value, info.type.tensor_type.elem_type)
        net.nodes.append(helper.make_node("Constant", [], [name], value=held))


def share_input(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    """One tensor at two places."""
    if len(node.input) < 2:
        raise Unchanged
    one, other = net.r.sample(range(len(node.input)), 2)
    node.input[one] = node.input[other]


def more_outputs(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    if len(node.output) < len(schema.outputs) and net.chance(0.7):
        node.output.append(net.fresh("y"))
    elif len(node.output) > 1:
        node.output[net.r.randrange(len(node.output))] = ""
    else:
        raise Unchanged
    while node.output and not node.output[-1]:
        del node.output[-1]
    if not node.output:
        node.output.append(net.fresh("y"))


# ---- types and shapes ------------------------------------------------------------------------------------------------


def retype(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    """Another type for all inputs that share a type variable."""
    spec = _some(net, list(schema.inputs))
    allowed = [NAMED[t] for t in sorted(spec.types) if t in NAMED and NAMED[t] not in UNDRAWN]
    dtype = _some(net, allowed)
    variadic = defs.OpSchema.FormalParameterOption.Variadic
    for place, name in enumerate(node.input):
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]
        if name and (formal.type_str == spec.type_str or formal.option == variadic):
            _put(net, name, lambda value: value.astype(helper.tensor_dtype_to_np_dtype(dtype)), dtype)


def reshape(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    """One dimension more or less, an empty one, or one of a single element."""
    name = _some(net, [n for n in node.input if n])
    kind = net.r.randrange(6)

    def other(value: np.ndarray) -> np.ndarray:
        if kind == 0:
            return value[None]
        if kind == 1:
            return value[..., None]
        if not value.ndim:
            raise Unchanged
        axis = net.r.randrange(value.ndim)
        if kind == 2:
            return value.take(0, axis)
        if kind == 3:
            return value.take(np.arange(0), axis)
        return value.take(np.arange(1), axis) if kind == 4 else np.concatenate([value, value], axis)

    _put(net, name, other)


def revalue(net: Any, node: NodeProto, schema: defs.OpSchema) -> None:
    """Other numbers in a small integer input: axes, pads, sizes, indices."""
    name = _some(net, [n for n in node.input if n])

    def other(value: np.ndarray) -> np.ndarray:
        if value.dtype.kind not in "iu" or not 0 < value.size <= 8:
            raise Unchanged
        changed = value.copy()
        changed.reshape(-1)[net.r.randrange(value.size)] = net.r.choice(INTEGERS)
        return changed

    _put(net, name, other)


def _put(net: Any, name: str, other: Callable[[np.ndarray], np.ndarray], dtype: int | None = None) -> None:
    """Another value for an initializer, or for an input of the model."""
    for place, tensor in enumerate(net.weights):
        if tensor.name == name:
            net.weights[place] = _tensor(name, other(numpy_helper.to_array(tensor)), dtype or tensor.data_type)
            return
    for place, info in enumerate(net.inputs):
        if info.name == name:
            value = other(net.feeds[name])
            net.feeds[name] = value
            kind = dtype or info.type.tensor_type.elem_type
            net.inputs[place] = helper.make_tensor_value_info(name, kind, list(value.shape))
            return
    raise Unchanged


def _tensor(name: str, value: np.ndarray, dtype: int) -> TensorProto:
    held = numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
    assert held.data_type == dtype
    return held


def _some(net: Any, given: Any) -> Any:
    choices = list(given)
    if not choices:
        raise Unchanged
    return net.r.choice(choices)


CHANGES = (
    drop_attribute,
    replace_attribute,
    replace_attribute,
    replace_attribute,
    add_attribute,
    add_attribute,
    drop_input,
    swap_constant,
    swap_constant,
    share_input,
    more_outputs,
    retype,
    retype,
    retype,
    reshape,
    reshape,
    revalue,
)
