"""What ONNX forbids and a run would trip over: attributes of another type, tensors without their data, and the like."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onnx import AttributeProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto, helper

from surgeon.errors import ModelError
from surgeon.ir.protos import body_protos
from surgeon.ir.schemas import attribute_types, moved_attribute_types, needed_inputs, required_attributes

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
COMPLEX = frozenset({TensorProto.COMPLEX64, TensorProto.COMPLEX128})
MOST_BYTES = 2**63 - 1  # of a tensor: ONNX Runtime and TensorRT count no further
MOST_DENSE = 2**31  # bytes of what a sparse tensor stands for: ONNX Runtime writes it out when it loads the model
READ_WHOLE = 1 << 16  # bytes of a tensor: reading the data of a larger one takes longer than measuring
DIGITS = 20  # of a number of bytes that no file has
PREPACKED = "prepacked"  # with what follows it, a key of ONNX Runtime's own


def check_nodes(graph: Graph) -> None:
    """Raise ModelError where an attribute of ONNX's own operators has another type than its schema says, or where a
    node leaves out an input that its operator, or the function that it calls, needs."""
    for key, nodes, asked in _operators_of(graph):
        wanted = moved_attribute_types(key) | attribute_types(*asked)  # what moved is read at any opset
        needed = needed_inputs(*asked)
        if wanted:
            for node in nodes:
                _check_attributes(node, wanted)
        if key in UNSAFE:
            for node in nodes:
                UNSAFE[key](node)
        last = max(needed, default=-1)
        is_called = key in graph.model.functions
        for node in nodes if needed or is_called else ():
            if is_called or len(node.inputs) <= last or None in node.inputs:
                _check_inputs(node, needed)


def _operators_of(graph: Graph) -> Iterator[tuple[str, Iterable[Node], tuple[str, str, int]]]:
    """(operator, its nodes, what its schema is found by) for each operator of a graph."""
    opsets = graph.model.opsets_in(graph)
    for key, nodes in graph.by_op.items():
        first = next(iter(nodes), None)
        if first is not None:
            yield key, nodes, (first.op, first.domain, opsets.get(first.domain, 1))


def _check_dots(node: Node) -> None:
    """Raise ModelError for dots other than one '...' a term: ONNX's inference does not end over four."""
    terms = re.split("[,>]", str(node.attr("equation") or ""))
    if any(term.replace("...", "", 1).count(".") for term in terms):
        raise ModelError(f"{node.label} has dots in its equation other than one '...' a term. Export the model again.")


def _check_parts(node: Node) -> None:
    """Raise ModelError for more outputs than a Split states: ONNX's inference crashes."""
    stated, made = node.attr("num_outputs"), len(node.proto.output)
    if stated is not None and made > stated:
        raise ModelError(f"{node.label} has {made} outputs, and its num_outputs is {stated}. Export the model again.")


UNSAFE = {"Einsum": _check_dots, "Split": _check_parts}  # over which ONNX's inference may crash, or have no end


def _check_inputs(node: Node, needed: Mapping[int, str]) -> None:
    """Raise ModelError where a node leaves out an input that its operator, or something in its function, needs."""
    called = node.graph.model.functions.get(node.key)
    if called is not None:
        inner = _needed_inside(called, _left_out(node, called), set())
        if inner:
            raise ModelError(
                f"{node.label} leaves out the input '{inner[0]}' of the function {called.proto.name}, in which "
                f"{inner[1].label} needs it. Export the model again."
            )
        return
    missing = next((name for k, name in needed.items() if k >= len(node.inputs) or node.inputs[k] is None), None)
    if missing is not None:
        raise ModelError(
            f"{node.label} leaves out the input '{missing}', which {node.op} needs. Export the model again."
        )


def _left_out(call: Node, function: Graph) -> frozenset[str]:
    """The inputs of a function that a call leaves out."""
    given = call.inputs
    return frozenset(n for k, n in enumerate(function.proto.input) if k >= len(given) or given[k] is None)


def _needed_inside(
    function: Graph, left_out: frozenset[str], seen: set[tuple[str, frozenset[str]]]
) -> tuple[str, Node] | None:
    """An input of a function, of those that are left out, and the node in it that needs it; None where none does."""
    key = (function.title, left_out)
    if not left_out or key in seen:
        return None
    seen.add(key)
    for name in left_out:
        value = function.values[name]
        for user in value.users:
            places = [k for k, read in enumerate(user.inputs) if read is value]
            inner = function.model.functions.get(user.key)
            if inner is not None:
                names = [n for k, n in enumerate(inner.proto.input) if k in places]
                if _needed_inside(inner, frozenset(names), seen):
                    return name, user
                continue
            needed = needed_inputs(user.op, user.domain, user.graph.model.opset_in(user.graph, user.domain))
            if not needed.keys().isdisjoint(places):
                return name, user
    return None


def check_required(graph: Graph) -> None:
    """Raise ModelError where a node leaves out an attribute that its operator needs."""
    for _, nodes, asked in _operators_of(graph):
        required = required_attributes(*asked)
        for node in nodes if required else ():
            missing = required.difference(a.name for a in node.proto.attribute)
            if missing:
                raise ModelError(
                    f"{node.label} leaves out the attribute '{min(missing)}', which {node.op} needs. Export the model "
                    "again."
                )


def _check_attributes(node: Node, wanted: dict[str, int]) -> None:
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
        if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
            check_tensor(attribute.t, f"the attribute '{attribute.name}' of {node.label}")


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


def check_tensor(tensor: TensorProto, title: str = "") -> None:
    """Raise ModelError where a tensor has impossible dimensions, lies in a file that it does not name, or holds more or
    less data than its type and dimensions say. `title` names it in the error where it has no name of its own.
    """
    needed = _needed(tensor.data_type, tuple(tensor.dims))
    if needed.impossible:
        raise ModelError(f"{title or _title(tensor)} {needed.impossible}")
    if tensor.data_location != TensorProto.EXTERNAL:
        _check_data(tensor, needed, title)
    elif all(e.key != "location" for e in tensor.external_data):
        raise _misplaced(tensor, "names no file")


def check_sparse(tensor: SparseTensorProto) -> None:
    """Raise ModelError where the parts of a sparse tensor do not go together, or it stands for a tensor too large."""
    values, indices, dims = tensor.values, tensor.indices, tuple(tensor.dims)
    title = f"the sparse tensor '{values.name}'"
    check_tensor(values, title)
    check_tensor(indices, f"the indices of {title}")
    count = len(values.dims) == 1 and values.dims[0]
    if min(dims, default=0) < 1 or list(indices.dims) not in ([count], [count, len(dims)]):
        raise ModelError(
            f"{title} has the dimensions {list(dims)}, values of {list(values.dims)} and indices of "
            f"{list(indices.dims)}, which do not go together. Export the model again."
        )
    dense = _needed(values.data_type, dims)
    if dense.impossible or (dense.bytes or 0) > MOST_DENSE:
        raise ModelError(
            f"{title} has the dimensions {list(dims)}, and ONNX Runtime writes it out when it loads the model. No more "
            f"than {MOST_DENSE} bytes are taken: compute with its values and indices in the model."
        )


class _Needed(NamedTuple):
    """The data of a tensor: its bytes, or the field that holds it else, and the entries of that.

    bytes       None where its elements are texts
    impossible  what is wrong with the type or the dimensions themselves
    """

    bytes: int | None = None
    field: str = ""
    entries: int = 0
    impossible: str = ""


@lru_cache(maxsize=4096)
def _needed(elem: int, dims: tuple[int, ...]) -> _Needed:
    """The data that a tensor of a type and of dimensions has to have."""
    if min(dims, default=0) < 0:
        return _Needed(impossible=f"has the dimensions {list(dims)}: none may be below 0. Export the model again.")
    if elem == TensorProto.UNDEFINED or elem not in TensorProto.DataType.values():
        return _Needed(
            impossible=f"has a type (number {elem}) that the installed onnx package does not know. Upgrade onnx, or "
            "export again."
        )
    count, bits, field = math.prod(dims), _bits(elem), helper.tensor_dtype_to_field(elem)
    if math.prod(d for d in dims if d) * (bits or 8) > 8 * MOST_BYTES:  # a size of 0 makes no other one smaller
        return _Needed(
            impossible=f"has the dimensions {list(dims)}: nothing counts so many elements. Export the model again."
        )
    if bits is None:
        return _Needed(None, field, count)
    each = 8 // bits if bits < 8 else 1  # elements in an entry
    return _Needed(math.ceil(count * bits / 8), field, -(-count // each) * (2 if elem in COMPLEX else 1))


def _check_data(tensor: TensorProto, needed: _Needed, title: str) -> None:
    """Raise ModelError where a tensor holds more or less than it needs."""
    if not tensor.HasField("raw_data"):
        held, wanted, unit = len(getattr(tensor, needed.field)), needed.entries, f"entries of {needed.field}"
    elif needed.bytes is None:
        raise ModelError(f"{title or _title(tensor)} holds texts as bytes, which ONNX forbids. Export the model again.")
    else:
        held, wanted, unit = _raw_size(tensor), needed.bytes, "bytes"
    if held != wanted:
        raise ModelError(
            f"{title or _title(tensor)} holds {held} {unit}, and its type and its dimensions {list(tensor.dims)} need "
            f"{wanted}: ONNX Runtime refuses it. Export the model again with its weights."
        )


def _title(tensor: TensorProto) -> str:
    return f"the tensor '{tensor.name}'"


def _raw_size(tensor: TensorProto) -> int:
    """The bytes of a tensor's raw_data; those of a large one without a look at them."""
    whole = tensor.ByteSize()
    if whole <= READ_WHOLE:
        return len(tensor.raw_data)
    rest = TensorProto(dims=tensor.dims, external_data=tensor.external_data, metadata_props=tensor.metadata_props)
    for name in ("data_type", "name", "doc_string", "data_location", "segment"):
        if tensor.HasField(name):
            rest.MergeFrom(TensorProto(**{name: getattr(tensor, name)}))
    field: int = whole - rest.ByteSize() - 1  # without its tag: the length, seven bits a byte, and the bytes
    return next(field - k for k in range(1, 10) if field - k < 1 << 7 * k)


def check_place(path: Path, file: str) -> None:
    """Raise ModelError where a model may not keep weights in a file that it names, or that is none.

    The file has to be in the model's own folder, whatever links lead to that. A model cache has the model and its
    weights as links to files in one folder elsewhere, so that folder will do, too.
    """
    where = path.parent / file
    if Path(file).is_absolute() or ".." in Path(file).parts:
        raise _outside(path, f"'{file}'")
    if not where.exists():
        raise ModelError(
            f"'{path}' keeps weights in '{file}', which is not there. Put it beside the model, where the exporter "
            "wrote it."
        )
    real, folder = where.resolve(), path.parent.resolve()
    if not real.is_relative_to(folder) and real.parent != path.resolve().parent:
        raise _outside(path, f"'{file}', a link to '{real}'")
    if not where.is_file():
        raise ModelError(
            f"'{path}' keeps weights in '{file}', which is not a file but a folder, a pipe or a device. Export the "
            "model again with its weights."
        )


def _outside(path: Path, file: str) -> ModelError:
    return ModelError(
        f"'{path}' keeps weights in {file}, outside its own folder, which ONNX forbids. Export the model again into "
        "one folder with its weights."
    )


def check_external(tensor: TensorProto, folder: Path) -> None:
    """Raise ModelError where ONNX Runtime would not read the weights that a tensor keeps in a file that is there."""
    given = {entry.key: entry.value for entry in tensor.external_data}
    unknown = [k for k in given if k not in EXTERNAL_KEYS and not k.startswith(PREPACKED)]
    check_tensor(tensor)
    if unknown:
        raise _misplaced(tensor, f"has the entry '{unknown[0]}', which ONNX does not have")
    numbers = {key: given[key] for key in ("offset", "length") if key in given}
    for key, text in numbers.items():
        if not (text.isascii() and text.isdecimal() and len(text) < DIGITS):
            raise _misplaced(tensor, f"has the {key} '{text}', which is not a number of bytes")
    held = (folder / given["location"]).stat().st_size - int(numbers.get("offset", "0"))
    needed = data_size(tensor)
    length = int(numbers.get("length", held if needed is None else needed))
    if needed is not None and length != needed:
        raise _misplaced(tensor, f"has {length} bytes there, and its type and shape need {needed}")
    if length > held:
        raise _misplaced(tensor, f"ends {length - held} bytes after the end of '{given['location']}'")


def data_size(tensor: TensorProto) -> int | None:
    """The bytes of a tensor's elements, wherever they are; None where its type does not say."""
    return _needed(tensor.data_type, tuple(tensor.dims)).bytes


def _bits(elem: int) -> int | None:
    """The size of an element; None for a type whose elements have none of their own."""
    if elem in (TensorProto.UNDEFINED, TensorProto.STRING):
        return None
    return PACKED.get(TensorProto.DataType.Name(elem)) or 8 * helper.tensor_dtype_to_np_dtype(elem).itemsize


def _misplaced(tensor: TensorProto, why: str) -> ModelError:
    return ModelError(
        f"{_title(tensor)} keeps its weights in a file of their own, and {why}: ONNX Runtime and TensorRT "
        "refuse it. Export the model again with its weights."
    )
