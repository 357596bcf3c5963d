"""LSTM, GRU and RNN beside half precision, as TensorRT-RTX builds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.ir.iteration import RECURRENT
from surgeon.precision import convert

pytest.importorskip("tensorrt_rtx")
GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
# What is between a product in half precision and a recurrent node in fp32.
BETWEEN = {
    "a Transpose": "b = Transpose <perm = [1, 0, 2]> (a)",
    "a Relu": "r = Relu (a) b = Transpose <perm = [1, 0, 2]> (r)",
    "moves alone": "r = Transpose <perm = [1, 0, 2]> (a) b = Identity (r)",
    "a Concat": "s = Sigmoid (a) c = Concat <axis = 1> (a, s) b = Transpose <perm = [1, 0, 2]> (c)",
}


def test_every_recurrent_operator_is_tried() -> None:
    assert GATES.keys() == RECURRENT


@pytest.mark.parametrize("way", ["fp16", "bf16"])
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("op", GATES)
def test_a_recurrent_node_in_fp32_builds(op: str, between: str, way: str, tmp_path: Path) -> None:
    """Its X may not be a Cast from half precision: what computes X is fp32, and the Cast is before that."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 22]> g (float[1,16,8] x) => (float[S,1,1,8] y) '
        f"{{ a = MatMul (x, m) {BETWEEN[between]} y = {op} <hidden_size = 8> (b, w, r0) }}"
    )
    rng = np.random.default_rng(0)
    for name, shape in (("m", (8, 8)), ("w", (1, 8 * GATES[op], 8)), ("r0", (1, 8 * GATES[op], 8))):
        model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
    result = convert(model, way=way, keep_fp32=[op], target="rtx", verify=False)
    path = tmp_path / "m.onnx"
    result.save(path)
    surgeon.build(path, tmp_path / "m.engine", runtime="rtx")
