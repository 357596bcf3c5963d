"""Writes head.onnx: an embedding head with a spelled-out L2 normalisation and a batch of any size."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

TEXT = """<ir_version: 8, opset_import: ["" : 17], producer_name: "samples/pipeline/make_model.py">
head (float[N,64] features) => (float[N,10] scores) {
    hidden = Gemm (features, w1, b1)
    square = Mul (hidden, hidden)
    total = ReduceSum <keepdims = 1> (square, last)
    floor = Max (total, eps)
    length = Sqrt (floor)
    unit = Div (hidden, length)
    scores = Gemm (unit, w2)
}"""


def main() -> None:
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(TEXT)
    weights = {
        "w1": rng.standard_normal((64, 32)).astype(np.float32) / 8,
        "b1": rng.standard_normal(32).astype(np.float32) / 8,
        "w2": rng.standard_normal((32, 10)).astype(np.float32),
        "eps": np.float32(1e-12),
        "last": np.asarray([1], np.int64),
    }
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items())
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, "head.onnx")


if __name__ == "__main__":
    main()
