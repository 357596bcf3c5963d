"""A model run node by node: what a node reads, what it computes by itself, and whether two results are equal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from surgeon.ir.protos import body_protos
from surgeon.ir.run import Runner, Unrunnable
from surgeon.proof.equality import TOLERANCE, compare

SMALL = 4096  # elements of a tensor that a node is given as an initializer: kernels ask for sizes and axes early
LOOSE = 10.0  # times the tolerance of one window: a kernel sums a larger batch in another order, node behind node


def reads(node: NodeProto) -> list[str]:
    """The tensors that a node and its bodies read."""
    found = [name for name in node.input if name]
    for body in body_protos(node):
        made = {i.name for i in body.input} | {t.name for t in body.initializer}
        for inner in body.node:
            found += [name for name in reads(inner) if name not in made]
            made.update(inner.output)
        found += [o.name for o in body.output if o.name not in made]
    return found


def computed(node: NodeProto, feeds: Mapping[str, np.ndarray], model: ModelProto) -> list[np.ndarray]:
    """The outputs of a node of a model. Raises Unrunnable."""
    infos, tensors = [], []
    for name in dict.fromkeys(reads(node)):
        array = np.asarray(feeds[name])
        if _is_sequence(array):
            raise Unrunnable("it reads a sequence")
        if array.size <= SMALL:
            tensors.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        else:
            elem = helper.np_dtype_to_tensor_dtype(array.dtype)
            infos.append(helper.make_tensor_value_info(name, elem, array.shape))
    outputs = [ValueInfoProto(name=o) for o in node.output if o]
    graph = helper.make_graph([node], "node", infos, outputs, tensors)
    alone = helper.make_model(graph, opset_imports=model.opset_import, functions=model.functions)
    alone.ir_version = model.ir_version
    made = Runner(alone).run({i.name: feeds[i.name] for i in infos})
    if any(_is_sequence(array) for array in made):
        raise Unrunnable("it returns a sequence, a map or nothing")
    return made


def _is_sequence(array: np.ndarray) -> bool:
    """Whether what a runtime returns is not a tensor of numbers or strings."""
    return array.dtype == object and not all(isinstance(element, str) for element in array.reshape(-1))


def is_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results are equal but for rounding."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind in "biuO":
        return bool(np.array_equal(one, other))
    tolerance = LOOSE * TOLERANCE.get(helper.np_dtype_to_tensor_dtype(one.dtype), 0.0)
    return not compare(one, other, tolerance=tolerance, finite=True).why


__all__ = ["LOOSE", "computed", "is_equal", "reads"]
