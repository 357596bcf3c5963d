"""Rewrite products of uint8 by int8 as products of uint8 by uint8, which ONNX Runtime does not saturate.

On x86 processors without VNNI instructions (AVX2 and older) ONNX Runtime adds two products of uint8 by int8 in int16.
The sum is cut off at 32,767, and 2 * 255 * 127 is more: measured with 1.32 on such a processor. Its kernels of uint8 by
uint8 do not do so. The int8 operand is shifted by 128 together with its zero point: the same product, to the bit.
"""

from typing import NamedTuple

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from surgeon.ir.protos import all_graphs, constants_in, copied, nodes_of, refill

SHIFT = 128


class Operand(NamedTuple):
    """Which inputs of a node are a quantized tensor and its zero point."""

    number: int
    zero_point: int


class Product(NamedTuple):
    """The operands of a quantized product: what it reads, and its weights."""

    read: Operand
    weights: tuple[Operand, ...]


# By the definitions of ONNX and, for the last ones, of ONNX Runtime's ContribOperators.md.
PRODUCTS = {
    "ConvInteger": Product(Operand(0, 2), (Operand(1, 3),)),
    "MatMulInteger": Product(Operand(0, 2), (Operand(1, 3),)),
    "QLinearConv": Product(Operand(0, 2), (Operand(3, 5),)),
    "QLinearMatMul": Product(Operand(0, 2), (Operand(3, 5),)),
    "DynamicQuantizeLSTM": Product(Operand(0, -1), (Operand(1, 9), Operand(2, 11))),
    "DynamicQuantizeMatMul": Product(Operand(0, -1), (Operand(1, 3),)),
    "MatMulIntegerToFloat": Product(Operand(0, 4), (Operand(1, 5),)),
    "QAttention": Product(Operand(0, 6), (Operand(1, 7),)),
    "QGemm": Product(Operand(0, 2), (Operand(3, 5),)),
}
QUANTIZE_THEMSELVES = frozenset({"DynamicQuantizeLSTM", "DynamicQuantizeMatMul"})  # what they read, to uint8


def unsaturated(model: ModelProto) -> ModelProto:
    """The model with products of uint8 by uint8 instead of uint8 by int8; the model itself if it has none."""
    if not any(n.op_type in PRODUCTS for n in nodes_of(model)):
        return model
    spelled = copied(model)
    spelling = _Spelling(spelled)
    for graph in all_graphs(spelled.graph):
        spelling.spell(graph)
    return spelled


class _Spelling:
    """One model while its products are spelled; types by name, those of inner graphs, too."""

    def __init__(self, model: ModelProto) -> None:
        self.types: dict[str, int] = {}
        self.constants: dict[str, TensorProto] = {}
        self.added = 0
        try:
            known = onnx.shape_inference.infer_shapes(model)
        except Exception:  # of a model that onnx's inference refuses the declared types are left
            known = model
        for graph in all_graphs(known.graph):
            for info in (*graph.input, *graph.output, *graph.value_info):
                self.types[info.name] = info.type.tensor_type.elem_type
            self.constants.update(constants_in(graph))
        self.types.update({name: tensor.data_type for name, tensor in self.constants.items()})

    def spell(self, graph: GraphProto) -> None:
        """Shift the int8 operands of the products of a graph."""
        found: list[NodeProto] = []
        for node in graph.node:
            product = PRODUCTS.get(node.op_type)
            for operand in self._mixed(node, product) if product else ():
                self._shift(graph, found, node, operand)
            found.append(node)
        if len(found) > len(graph.node):
            refill(graph.node, found)

    def _mixed(self, node: NodeProto, product: Product) -> list[Operand]:
        """The int8 operands of a product whose other operand is uint8."""
        read = TensorProto.UINT8 if node.op_type in QUANTIZE_THEMSELVES else self._type(node, product.read)
        if read == TensorProto.UINT8:
            return [w for w in product.weights if self._type(node, w) == TensorProto.INT8]
        weights = {self._type(node, w) for w in product.weights}
        if node.op_type == "ConvInteger" and read == TensorProto.INT8 and weights == {TensorProto.UINT8}:
            return [product.read]
        return []

    def _type(self, node: NodeProto, operand: Operand) -> int:
        """The type of a quantized tensor, or of its zero point, which is the same; 0 where neither is known."""
        names = [node.input[k] for k in operand if 0 <= k < len(node.input)]
        return next((self.types[n] for n in names if self.types.get(n)), 0)

    def _shift(self, graph: GraphProto, nodes: list[NodeProto], node: NodeProto, operand: Operand) -> None:
        node.input[operand.number] = self._shifted(graph, nodes, node.input[operand.number])
        while len(node.input) <= operand.zero_point:
            node.input.append("")
        name = node.input[operand.zero_point]
        node.input[operand.zero_point] = self._shifted(graph, nodes, name) if name else self._constant(graph, SHIFT)

    def _shifted(self, graph: GraphProto, nodes: list[NodeProto], name: str) -> str:
        """The name of an int8 tensor plus 128, as uint8."""
        tensor = self.constants.get(name)
        if tensor is not None and tensor.data_location != TensorProto.EXTERNAL:
            return self._constant(graph, numpy_helper.to_array(tensor).astype(np.int16) + SHIFT)
        wide, moved, narrow = self._name(), self._name(), self._name()
        nodes.append(helper.make_node("Cast", [name], [wide], to=TensorProto.INT32))
        nodes.append(helper.make_node("Add", [wide, self._constant(graph, SHIFT, np.int32)], [moved]))
        nodes.append(helper.make_node("Cast", [moved], [narrow], to=TensorProto.UINT8))
        return narrow

    def _constant(self, graph: GraphProto, value: int | np.ndarray, dtype: type = np.uint8) -> str:
        name = self._name()
        graph.initializer.append(numpy_helper.from_array(np.asarray(value).astype(dtype), name))
        return name

    def _name(self) -> str:
        self.added += 1
        return f"unsaturated/{self.added}"
