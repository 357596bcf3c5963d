"""What ONNX forbids and a run would trip over: attributes of another type, dimensions below 0, misplaced weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import AttributeProto, NodeProto, TensorProto, ValueInfoProto, helper

from surgeon.errors import ModelError
from surgeon.ir.protos import body_protos
from surgeon.ir.schemas import attribute_types

if TYPE_CHECKING:
    from surgeon.ir.graph import Graph, Node

EXTERNAL_KEYS = frozenset({"location", "offset", "length", "checksum"})
PACKED = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}  # types with several elements in a byte
DESCRIBING = frozenset({"name", "type", "doc_string", "ref_attr_name"})  # the fields of an attribute without a value
VALUE_OF = {  # the field that holds the value, by the attribute's type
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    **{number: name.lower() for name, number in AttributeProto.AttributeType.items() if name.endswith("S")},
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
}
PREPACKED = "prepacked"  # with what follows it, a key of ONNX Runtime's own


def check_attributes(graph: Graph) -> None:
    """Raise ModelError where an attribute of ONNX's own operators has another type than its schema says."""
    domains = graph.model.opsets_in(graph)
    for nodes in graph.by_op.values():
        first = next(iter(nodes), None)
        if first is None:
            continue
        domain = first.proto.domain if first.proto.domain != "ai.onnx" else ""
        wanted = attribute_types(first.op, domain, domains.get(domain, 1))
        if wanted:
            for node in nodes:
                _check_node(node, wanted)


def _check_node(node: Node, wanted: dict[str, int]) -> None:
    name = AttributeProto.AttributeType.Name
    for attribute in node.proto.attribute:
        expected = wanted.get(attribute.name, attribute.type)
        if attribute.type != expected:
            raise ModelError(
                f"the attribute '{attribute.name}' of {node.label} has the type {name(attribute.type)}; {node.op} "
                f"takes {name(expected)} there. Export the model again."
            )
        held = [f.name for f, _ in attribute.ListFields() if f.name not in DESCRIBING]
        if held and held != [VALUE_OF.get(expected)]:
            raise ModelError(
                f"the attribute '{attribute.name}' of {node.label} says that it has the type {name(expected)}, and "
                f"holds {' and '.join(held)}. Export the model again."
            )


def check_branches(node: NodeProto, label: str) -> None:
    """Raise ModelError where a branch of an If declares inputs: ONNX gives it none, and it hides what they are named.

    Up to IR version 3 its initializers are listed as inputs.
    """
    for branch in body_protos(node):
        own = {t.name for t in branch.initializer}
        given = next((i.name for i in branch.input if i.name not in own), None)
        if given is not None:
            raise ModelError(
                f"a branch of {label} declares the input '{given}', and an If gives its branches none: ONNX Runtime "
                "refuses it. Take the inputs out of the branch: it reads the tensors around it by their names."
            )


def check_inputs(inputs: Iterable[ValueInfoProto]) -> None:
    """Raise ModelError where a dimension of an input is below -1, with which some exporters say "not known"."""
    for info in inputs:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.dim_value < -1:
                raise ModelError(
                    f"the input '{info.name}' declares the size {dim.dim_value} for its axis {axis}. A size that is "
                    "not known has a name in ONNX (dim_param), or nothing at all: write one of these."
                )


def check_tensor(tensor: TensorProto) -> None:
    """Raise ModelError where a tensor has a dimension below 0, or lies in a file that it does not name."""
    if min(tensor.dims, default=0) < 0:
        raise ModelError(
            f"the tensor '{tensor.name}' has the dimensions {list(tensor.dims)}: none may be below 0. Export the model "
            "again."
        )
    if tensor.data_location == TensorProto.EXTERNAL and all(e.key != "location" for e in tensor.external_data):
        raise _misplaced(tensor, "names no file")


def check_external(tensor: TensorProto, folder: Path) -> None:
    """Raise ModelError where ONNX Runtime would not read the weights that a tensor keeps in a file that is there."""
    given = {entry.key: entry.value for entry in tensor.external_data}
    unknown = [k for k in given if k not in EXTERNAL_KEYS and not k.startswith(PREPACKED)]
    check_tensor(tensor)
    if unknown:
        raise _misplaced(tensor, f"has the entry '{unknown[0]}', which ONNX does not have")
    numbers = {key: given[key] for key in ("offset", "length") if key in given}
    for key, text in numbers.items():
        if not (text.isascii() and text.isdecimal()):
            raise _misplaced(tensor, f"has the {key} '{text}', which is no number of bytes")
    bits = _bits(tensor.data_type)
    offset = int(numbers.get("offset", "0"))
    held = (folder / given["location"]).stat().st_size - offset
    needed = None if bits is None else math.ceil(math.prod(tensor.dims) * bits / 8)
    length = int(numbers.get("length", held if needed is None else needed))
    if needed is not None and length != needed:
        raise _misplaced(tensor, f"has {length} bytes there, and its type and shape need {needed}")
    if length > held:
        raise _misplaced(tensor, f"ends {length - held} bytes behind the end of '{given['location']}'")


def _bits(elem: int) -> int | None:
    """The size of an element; None for a type whose elements have none of their own."""
    if elem in (TensorProto.UNDEFINED, TensorProto.STRING):
        return None
    return PACKED.get(TensorProto.DataType.Name(elem)) or 8 * helper.tensor_dtype_to_np_dtype(elem).itemsize


def _misplaced(tensor: TensorProto, why: str) -> ModelError:
    return ModelError(
        f"the tensor '{tensor.name}' keeps its weights in a file of their own, and {why}: ONNX Runtime and TensorRT "
        "refuse it. Export the model again with its weights."
    )
