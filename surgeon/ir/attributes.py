"""Attributes of nodes, as Python values."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from google.protobuf.message import Message
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.errors import ModelError

# Attributes whose number is a type, in ONNX's operators.
TYPES = frozenset({"to", "dtype", "output_dtype", "output_datatype", "precision", "stash_type", "softmax_precision"})
MOST_SHOWN = 8  # elements of a tensor attribute that a person reads


class AttributeReference(str):
    """The name of a function's attribute that is where a value is meant (`ref_attr_name`)."""


def read_attribute(attribute: AttributeProto) -> Any:
    """An attribute's value: a number, a text, a list of those, or a protobuf; or an AttributeReference."""
    if attribute.ref_attr_name:
        return AttributeReference(attribute.ref_attr_name)
    kind = attribute.type
    if kind == AttributeProto.INT:
        return attribute.i
    if kind == AttributeProto.FLOAT:
        return attribute.f
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == AttributeProto.INTS:
        return list(attribute.ints)
    if kind == AttributeProto.FLOATS:
        return list(attribute.floats)
    if kind == AttributeProto.STRINGS:
        return [s.decode("utf-8", "replace") for s in attribute.strings]
    return helper.get_attribute_value(attribute)


def write_attributes(proto: NodeProto, attrs: dict[str, Any]) -> dict[str, Any] | None:
    """Write a new node's attributes; what reading them back gives where they are plain, else None."""
    written: dict[str, Any] = {}
    field, plain = proto.attribute, True
    for key, given in attrs.items():
        if type(given) is float:
            attribute = field.add()
            attribute.name, attribute.type, attribute.f = key, AttributeProto.FLOAT, given
            written[key] = attribute.f  # rounded to fp32
        elif type(given) is int:
            attribute = field.add()
            attribute.name, attribute.type, attribute.i = key, AttributeProto.INT, given
            written[key] = given
        elif type(given) is str:
            attribute = field.add()
            attribute.name, attribute.type, attribute.s = key, AttributeProto.STRING, given.encode()
            written[key] = given
        elif type(given) is list and all(type(i) is int for i in given):  # an empty one is of axes
            attribute = field.add()
            attribute.name, attribute.type = key, AttributeProto.INTS
            attribute.ints.extend(given)
            written[key] = list(given)
        elif given is not None:
            plain = False
            field.append(given if isinstance(given, AttributeProto) else helper.make_attribute(key, given))
    return written if plain else None


def constant_value(proto: NodeProto) -> np.ndarray | None:
    """The tensor of a Constant node, whichever of its attributes holds it.

    None where each call of the function that it is in says it, and where its numbers are in a file of their own.
    Raises ModelError for a sparse one, and where it has no value or several.
    """
    if len(proto.attribute) != 1:
        named = ", ".join(proto.output)
        raise ModelError(f"the Constant node of '{named}' has {len(proto.attribute)} attributes. It needs one value.")
    (attribute,) = proto.attribute
    if attribute.ref_attr_name or attribute.t.data_location == TensorProto.EXTERNAL:
        return None
    kinds: dict[str, Any] = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    if attribute.name == "value":
        return numpy_helper.to_array(attribute.t)
    if attribute.name == "sparse_value":
        raise ModelError("a Constant node holds a sparse tensor, which TensorRT does not read. Write it dense.")
    return np.asarray(read_attribute(attribute), kinds.get(attribute.name))


def node_text(op: str, inputs: Iterable[str], outputs: Iterable[str], attrs: Mapping[str, Any]) -> str:
    """A node as a person writes it: `y = Op(a, '', b, axis=1)`. A name is empty where a tensor is left out."""
    given = [name or "''" for name in inputs]
    plain = {name: value for name, value in attrs.items() if not isinstance(value, GraphProto)}
    given += [f"{name}={type_name(name, value) or shown(value)}" for name, value in plain.items()]
    made = [name or "''" for name in outputs]
    return f"{', '.join(made)} = {op}({', '.join(given)})"


def type_name(name: str, value: Any) -> str:
    """The name of the type that an attribute's number stands for; empty where it stands for none."""
    if name not in TYPES or value not in TensorProto.DataType.values():
        return ""
    return str(TensorProto.DataType.Name(value))


def shown(attribute: Any) -> str:
    """An attribute's value as a person reads it: fp32 in its shortest form, a long tensor by its type and shape."""
    if isinstance(attribute, TensorProto):
        if math.prod(attribute.dims) > MOST_SHOWN or attribute.data_location == TensorProto.EXTERNAL:
            return f"{TensorProto.DataType.Name(attribute.data_type).lower()}{list(attribute.dims)}"
        return np.array2string(numpy_helper.to_array(attribute), separator=", ", formatter={"all": str})
    if isinstance(attribute, Message):
        return type(attribute).__name__
    if isinstance(attribute, list):
        return f"[{', '.join(map(shown, attribute))}]"
    return str(np.float32(attribute)) if isinstance(attribute, float) else str(attribute)
