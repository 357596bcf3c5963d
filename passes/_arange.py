"""The numbers from 0 to a count that a tensor holds."""

import numpy as np
from onnx import GraphProto, TensorProto, helper

from surgeon import Builder, Value

from ._copy import copied


def arange(b: Builder, number: Value) -> Value:
    """[0, 1, ..., number - 1] of a scalar int64: a Range, and before opset 11 a Loop that adds up."""
    if b.opset >= 11:
        return b.Range(np.asarray(0), number, np.asarray(1))
    tensors = {"number": number, "go": b.constant(np.asarray(True)), "zero": b.constant(np.asarray(0))}
    copied(b, [helper.make_node("Loop", ["number", "go", "zero"], ["end", "found"], body=_body())], tensors)
    return tensors["found"]


def _body() -> GraphProto:
    """Pass the condition on, return the state, and add 1 to it."""
    scalars = {n: helper.make_tensor_value_info(n, TensorProto.INT64, []) for n in ("k", "state", "next", "here")}
    goes, stays = (helper.make_tensor_value_info(n, TensorProto.BOOL, []) for n in ("goes", "stays"))
    nodes = [
        helper.make_node("Identity", ["goes"], ["stays"]),
        helper.make_node("Identity", ["state"], ["here"]),
        helper.make_node("Constant", [], ["one"], value=helper.make_tensor("one", TensorProto.INT64, [], [1])),
        helper.make_node("Add", ["state", "one"], ["next"]),
    ]
    inputs, outputs = [scalars["k"], goes, scalars["state"]], [stays, scalars["next"], scalars["here"]]
    return helper.make_graph(nodes, "count", inputs, outputs)
