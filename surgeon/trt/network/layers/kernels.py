"""One ONNX operator through ONNX Runtime, for the few layers of long arithmetic and undoubted meaning."""

from functools import lru_cache
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper

from surgeon.ir.run import Runner

OPSET = 20


def axes_of(mask: int, rank: int) -> tuple[int, ...]:
    """The axes of a TensorRT bit mask."""
    return tuple(axis for axis in range(rank) if mask >> axis & 1)


def run(operator: str, *inputs: np.ndarray | None, **attributes: Any) -> np.ndarray:
    """The first output of one operator of opset 20; an input left out is None. float32 in, float32 out."""
    names = ["" if value is None else f"i{n}" for n, value in enumerate(inputs)]
    present = {name: value for name, value in zip(names, inputs, strict=True) if value is not None}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in present.items()
    ]
    node = helper.make_node(operator, names, ["y"], **attributes)
    graph = helper.make_graph([node], operator, infos, [ValueInfoProto(name="y")])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", OPSET)])
    return _runner(model.SerializeToString()).run(present)[0]


@lru_cache(maxsize=256)
def _runner(model: bytes) -> Runner:
    return Runner(ModelProto.FromString(model))
