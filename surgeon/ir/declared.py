"""What a file declares of the tensors that nodes make: value_info and the declared outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from onnx import FunctionProto, GraphProto, ValueInfoProto

from surgeon.ir.graph import Graph, Value
from surgeon.ir.iteration import first_parameter, iterates
from surgeon.ir.lattice import Dim, Shape, TensorType, is_static, read_type, value_info
from surgeon.ir.protos import body_protos
from surgeon.ir.type_table import TypeTable

if TYPE_CHECKING:
    from surgeon.ir.model import Model

MADE_UP = "unk__"  # how ONNX's inference begins the names that it makes up for unknown sizes


class Differing(NamedTuple):
    """A tensor of which the file declares other dimensions than were inferred, but as many."""

    value: Value
    inferred: Shape
    declared: Shape


class Declared:
    """The declared types of a model's tensors, and how far they can be trusted.

    Inference does without them. The inputs may have been given other sizes since (`onnx.tools.update_model_dims` leaves
    the rest as it is), and a number that was right for one batch makes a dynamic model static.
    """

    def __init__(self, model: Model) -> None:
        self._main = model.graph
        shapes = [read_type(info.type).shape for info in model.proto.graph.input]
        self._names = {d for shape in shapes for d in shape or () if isinstance(d, str)}
        self._is_fixed = all(is_static(shape) for shape in shapes)
        self._infos: dict[Graph, dict[str, ValueInfoProto]] = {}
        self._stale: bool | None = None

    def type_of(self, value: Value, table: TypeTable, repeated: bool) -> TensorType | None:
        """What the file declares of a tensor of unknown rank; None where that is nothing.

        Without its sizes where other sizes of the file are not right, and for what is `repeated`, with other sizes each
        time.
        """
        info = self._of(value.graph).get(value.name)
        if info is None:
            return None
        known = read_type(info.type)
        if known.shape is None or not (repeated or self._is_stale(self._differing(table))):
            return known
        return TensorType(known.elem, (None,) * len(known.shape))

    def refinements(self, table: TypeTable) -> list[ValueInfoProto]:
        """The tensors of which inference knows the rank and not each size, with what the file says of those.

        Its names are taken; its numbers where the inputs are all of fixed sizes.
        """
        rows = list(self._differing(table))
        if not rows or self._is_stale(rows):
            return []
        found = []
        for value, inferred, declared in rows:
            pairs = zip(inferred, declared, strict=True)
            refined = tuple(s if self._is_telling(s) and not self._follows(d) else d for d, s in pairs)
            if refined != inferred:
                found.append(value_info(value.name, table.get(value).elem, refined))
        return found

    def _follows(self, dim: Dim) -> bool:
        """Whether an inferred size is one that follows from the inputs: no name that inference made up."""
        return isinstance(dim, int) or dim in self._names

    def _is_telling(self, dim: Dim) -> bool:
        """Whether the file's size is a name that somebody gave, or a number that may be right."""
        if isinstance(dim, int):
            return self._is_fixed
        return dim is not None and not dim.startswith(MADE_UP)

    def _is_stale(self, rows: Iterable[Differing]) -> bool:
        """Whether one of the file's sizes is not that which follows from the inputs."""
        if self._stale is None:
            self._stale = any(map(self._contradicts, rows))
        return self._stale

    def _contradicts(self, row: Differing) -> bool:
        """Whether the file declares a number where another size follows from the inputs."""
        pairs = zip(row.inferred, row.declared, strict=True)
        return any(isinstance(s, int) and s != d and self._follows(d) for d, s in pairs)

    def _differing(self, table: TypeTable) -> Iterator[Differing]:
        """The tensors of the main graph that are declared otherwise than inferred."""
        for name, info in self._of(self._main).items():
            value = self._main.values.get(name)
            if value is None or value not in table or table.is_written_as(value, info.type):
                continue
            inferred, declared = table.get(value).shape, read_type(info.type).shape
            if inferred is not None and declared is not None and len(inferred) == len(declared):
                yield Differing(value, inferred, declared)

    def _of(self, graph: Graph) -> dict[str, ValueInfoProto]:
        """What the file declares in a scope, by name; of a body's parameters too."""
        if graph not in self._infos:
            proto = graph.proto
            found = [] if isinstance(proto, FunctionProto) else [*proto.value_info, *proto.output]
            found += proto.input if found and graph is not self._main else ()
            self._infos[graph] = {info.name: info for info in found}
        return self._infos[graph]


def drop_sizes_of_bodies(graph: Graph, proto: GraphProto) -> None:
    """Take away what the bodies in `proto`, a copy of the graph's protobuf, declare of sizes.

    ONNX's inference would trust them before what follows: of results, and of an iteration's states and elements.
    """
    if not graph.bodied:
        return
    for node, copied in zip(graph.live(), proto.node, strict=True):
        for body, inner in zip(node.bodies, body_protos(copied), strict=True):
            del inner.value_info[:]
            drop_sizes(inner.output)
            if iterates(node):
                drop_sizes(inner.input[first_parameter(node) :])
            drop_sizes_of_bodies(body, inner)


def drop_sizes(infos: Iterable[ValueInfoProto]) -> None:
    """Take away the sizes that are declared of tensors."""
    for info in infos:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
