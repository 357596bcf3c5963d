"""A small network whose exporter left two constant multiplications after one another: scale to [0, 1], then normalise.

python make_model.py    # writes two_scales.onnx beside this file
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = {
        "to_unit": np.array(1 / 255, np.float32),
        "to_deviation": np.array(1 / 0.226, np.float32),
        "kernel": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Mul", ["image", "to_unit"], ["unit"], name="to_unit"),
        helper.make_node("Mul", ["unit", "to_deviation"], ["scaled"], name="to_deviation"),
        helper.make_node("Conv", ["scaled", "kernel"], ["features"], name="conv"),
    ]
    graph = helper.make_graph(
        nodes,
        "two_scales",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 4, 14, 14])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
        doc_string="the doc string that a round trip through onnx-graphsurgeon would drop",
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="surgeon samples"
    )


if __name__ == "__main__":
    made = model()
    onnx.checker.check_model(made, full_check=True)
    Path(__file__).with_name("two_scales.onnx").write_bytes(made.SerializeToString(deterministic=True))
