"""What is known of the types of a model's tensors, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable

from onnx import GraphProto, TypeProto, ValueInfoProto

from surgeon.ir.graph import Graph, Value
from surgeon.ir.lattice import UNKNOWN, Shape, TensorType, meet, read_type
from surgeon.ir.protos import body_protos

Rows = dict[Value, TensorType | ValueInfoProto]


class TypeTable:
    """Types by tensor. What ONNX's inference wrote is read when somebody asks, and once."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: Rows = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._rows

    def __setitem__(self, value: Value, known: TensorType) -> None:
        self._rows[value] = known

    def find(self, value: Value) -> TensorType | None:
        """What is known of a tensor; None where the table has no row for it."""
        found = self._rows.get(value)
        if isinstance(found, ValueInfoProto):
            found = self._rows[value] = read_type(found.type)
        return found

    def get(self, value: Value | None) -> TensorType:
        """What is known of a tensor; UNKNOWN where that is nothing."""
        return (self.find(value) if value is not None else None) or UNKNOWN

    def add(self, value: Value, known: TensorType) -> None:
        """Write what is known of a tensor, where the table has no row for it."""
        self._rows.setdefault(value, known)

    def add_all(self, other: TypeTable) -> None:
        """Take over the rows of another table for tensors that have none here."""
        for value, known in other._rows.items():
            self._rows.setdefault(value, known)

    def has_rank(self, value: Value) -> bool:
        """Whether the number of a tensor's dimensions is known; reads no more of a ValueInfoProto than that."""
        found = self._rows.get(value)
        if isinstance(found, ValueInfoProto):
            return bool(found.type.tensor_type.HasField("shape"))
        return found is not None and found.shape is not None

    def may_exceed(self, value: Value, most: int) -> bool:
        """Whether a tensor may have more elements than `most`; reads no more of a ValueInfoProto than its sizes."""
        found = self._rows.get(value)
        if not isinstance(found, ValueInfoProto):
            return found is not None
        return bool(math.prod([dim.dim_value or 1 for dim in found.type.tensor_type.shape.dim]) > most)

    def is_written_as(self, value: Value, said: TypeProto) -> bool:
        """Whether ONNX's inference wrote the very type that is `said`, without reading it."""
        found = self._rows.get(value)
        return isinstance(found, ValueInfoProto) and bool(found.type == said)

    def refine(self, value: Value, shape: Shape | None) -> bool:
        """Add what is known of a tensor's shape to its row. Whether the row says more now."""
        elem, before, _ = self.get(value)
        if shape is None or not elem or (before is not None and len(before) != len(shape)):
            return False
        refined = meet(shape, before)
        self._rows[value] = TensorType(elem, refined)
        return refined != before

    def take(self, value: Value, said: TensorType | None) -> None:
        """Of a tensor of unknown rank take the shape; the element type stays where one is known."""
        if said is not None and said.elem:
            self._rows[value] = TensorType(self.get(value).elem or said.elem, said.shape)

    def copy_rows(self, values: Iterable[Value]) -> Rows:
        """The rows of these tensors as they are now, for `restore`."""
        return {v: self._rows[v] for v in values if v in self._rows}

    def restore(self, values: Iterable[Value], rows: Rows) -> None:
        """Give these tensors the rows that they had, and no other."""
        for value in values:
            self._rows.pop(value, None)
        self._rows.update(rows)

    def collect(self, graph: Graph, inferred: GraphProto) -> None:
        """Write what `inferred`, a copy of the graph's protobuf, says of the tensors of the graph and its bodies."""
        rows, values = self._rows, graph.values
        for info in (*inferred.input, *inferred.output, *inferred.value_info):
            value = values.get(info.name)
            if value is not None:
                rows[value] = info
        for value in values.values():
            if value.tensor is not None and not value.is_input:  # what replaces a default has the sizes of the input
                rows[value] = TensorType(value.tensor.data_type, tuple(value.tensor.dims))
        for sparse in () if graph.is_function else graph.proto.sparse_initializer:
            rows[values[sparse.values.name]] = TensorType(sparse.values.data_type, tuple(sparse.dims))
        if not graph.bodied:
            return
        for node, copied in zip(graph.live(), inferred.node, strict=True):
            for body, body_proto in zip(node.bodies, body_protos(copied), strict=False):
                self.collect(body, body_proto)
