"""Types and shapes on demand: the component `model.types`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import helper

from surgeon.ir.attributes import constant_value
from surgeon.ir.graph import Value
from surgeon.ir.inference import Inference, infer_node
from surgeon.ir.lattice import UNKNOWN, TensorType
from surgeon.ir.schemas import output_type
from surgeon.ir.type_table import TypeTable

if TYPE_CHECKING:
    from surgeon.ir.model import Model

UNDEFINED = 0  # TensorProto.DataType


class Types:
    """What is known of the types of a model's tensors.

    The whole model is inferred when somebody first asks for a shape. Nodes made since are inferred one by one, when
    somebody asks for what they return. Element types come from schemas where those say them, which costs no inference.
    Elements of constants come from `model.constants`, which asks here for shapes.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._table: TypeTable | None = None
        self._is_stale = False  # more can be inferred now than the table says
        self._elems: dict[Value, int] = {}
        self._elem_rules: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}  # of the main graph's operators

    def dtype(self, value: Value) -> int:
        """The TensorProto.DataType; 0 (UNDEFINED) where it is not known."""
        elem = self._elems.get(value, UNDEFINED)
        if elem:
            return elem
        elem, alike = self._elem_by_schemas(value)
        if not elem:
            elem, alike = self.find(value).elem, [value]
        for passed in alike:
            self._elems[passed] = elem
        return elem

    def is_vague(self, value: Value) -> bool:
        """Whether inference has left a dimension of the tensor without so much as a name. Infers nothing."""
        found = self._table.find(value) if self._table is not None else None
        return found is not None and (found.shape is None or None in found.shape)

    def find(self, value: Value) -> TensorType:
        """What is known of a tensor."""
        table = self._table or self._infer_again()
        found = table.find(value)
        if found is not None and not self._is_stale:
            return found
        is_new = value.tensor is not None or (value.producer is not None and value.producer.is_new)
        if self._is_stale and not (found is None and is_new) and not (found is not None and found.is_static):
            table = self._infer_again()
            found = table.find(value)
        if found is not None:
            return found
        self._infer_new(value, table)
        return table.get(value)

    def may_exceed(self, value: Value, most: int) -> bool:
        """Whether a tensor may have more elements than `most`; where it has not, that costs little."""
        return (self._table or self._infer_again()).may_exceed(value, most)

    def infer(self) -> None:
        """Infer types and shapes now, if that is still to be done."""
        if self._table is None or self._is_stale:
            self._infer_again()

    def infer_first(self) -> None:
        """Infer unless that was done: after a node without a schema, which is about to come, nothing can be."""
        if self._table is None:
            self._infer_again()

    def expect_more(self) -> None:
        """More has become knowable: when a shape is asked for that is not wholly known, all are inferred again."""
        self._is_stale = self._table is not None
        self._elems = {v: elem for v, elem in self._elems.items() if elem}

    def forget_schemas(self) -> None:
        """The model declares another opset: its operators have other schemas."""
        self._elem_rules.clear()

    def _infer_again(self) -> TypeTable:
        """Infer, and keep what was known of tensors that are gone or that a node without a schema makes now."""
        before = self._table
        table = self._table = Inference(self._model, before).run()
        self._is_stale = False
        if before is not None:
            table.add_all(before)
        return table

    def _infer_new(self, value: Value, table: TypeTable) -> None:
        """Infer nodes made since the inference, up to the one that makes `value`: one at a time, inputs first."""
        todo = [value]
        while todo:
            current = todo[-1]
            node = current.producer
            if current in table or node is None or not node.is_new:
                held = current.tensor
                table.add(current, UNKNOWN if held is None else TensorType(held.data_type, tuple(held.dims)))
                todo.pop()
                continue
            missing = [i for i in node.inputs if i is not None and i not in table]
            if missing:
                todo.extend(missing)
                continue
            infer_node(self._model, node, table, self._model.constants.value)
            for out in node.outputs:
                if out is not None:
                    table.add(out, UNKNOWN)

    def _elem_by_schemas(self, value: Value) -> tuple[int, list[Value]]:
        """(the element type, or 0; the tensors that share it): from tensor to tensor of one type, until one has it."""
        alike: list[Value] = []
        current = value
        while True:
            known = self._elems.get(current)
            if known is not None:
                return known, alike
            alike.append(current)
            source = self._elem_source(current)
            if isinstance(source, int):
                return source, alike
            current = source

    def _elem_source(self, value: Value) -> int | Value:
        """The element type of a tensor, or 0; or the input of its producer that has the same."""
        if value.tensor is not None:
            return value.tensor.data_type
        node = value.producer
        if node is None:
            if value.graph is self._model.graph:
                for info in self._model.proto.graph.input:
                    if info.name == value.name:
                        return int(info.type.tensor_type.elem_type)
            return self.find(value).elem
        rule = self._elem_rules.get((node.key, value.index)) if node.graph is self._model.graph else None
        if rule is None:
            if node.key == "Constant":
                held = node.proto.attribute[0].t.data_type if len(node.proto.attribute) == 1 else UNDEFINED
                if held != UNDEFINED:
                    return int(held)
                array = constant_value(node.proto)
                return UNDEFINED if array is None else int(helper.np_dtype_to_tensor_dtype(array.dtype))
            if node.key == "Cast":
                return int(node.attr("to"))
            domain, _, op = node.key.rpartition("::")
            rule = output_type(op, domain, self._model.opset_in(node.graph, domain), value.index)
            if node.graph is self._model.graph:
                self._elem_rules[node.key, value.index] = rule
        fixed, alike = rule
        for position in alike:
            source = node.inputs[position] if position < len(node.inputs) else None
            if source is not None:
                return source
        return fixed
