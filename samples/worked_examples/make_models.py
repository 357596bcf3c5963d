"""The worked examples of two notes on TensorRT's layers, each as one small model with its numbers.

Activation layer     type Clip with alpha -2 and beta 2, on a 3x3 image that counts from -4 to 4
Parametric ReLU      the same image in three channels, with a slope of its own for each: 0.5, 1 and 2

    python samples/worked_examples/make_models.py    # writes the models beside this file and checks the numbers
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

COUNTING = np.arange(-4, 5, dtype=np.float32).reshape(1, 1, 3, 3)

# The notes' numbers, written out by hand: nothing here computes them. Model: (input x, expected output y).
EXAMPLES = {
    "activation_clip.onnx": (
        COUNTING,
        np.array([[[[-2, -2, -2], [-1, 0, 1], [2, 2, 2]]]], dtype=np.float32),
    ),
    "parametric_relu.onnx": (
        COUNTING.repeat(3, axis=1),
        np.array(
            [[
                [[-2.0, -1.5, -1.0], [-0.5, 0.0, 1.0], [2.0, 3.0, 4.0]],
                [[-4.0, -3.0, -2.0], [-1.0, 0.0, 1.0], [2.0, 3.0, 4.0]],
                [[-8.0, -6.0, -4.0], [-2.0, 0.0, 1.0], [2.0, 3.0, 4.0]],
            ]],
            dtype=np.float32,
        ),
    ),
}  # fmt: skip


def activation_clip() -> onnx.ModelProto:
    """Clip(x, -2, 2) on [1, 1, 3, 3]. From opset 11 on the bounds are inputs; alpha and beta are TensorRT's names."""
    bounds = {"alpha": np.array(-2, dtype=np.float32), "beta": np.array(2, dtype=np.float32)}
    node = helper.make_node("Clip", ["x", "alpha", "beta"], ["y"], name="activation")
    return _model(node, [1, 1, 3, 3], bounds)


def parametric_relu() -> onnx.ModelProto:
    """PRelu on [1, 3, 3, 3]. The slopes are [3, 1, 1]: a plain [3] would broadcast along the width."""
    slopes = np.array([0.5, 1, 2], dtype=np.float32).reshape(3, 1, 1)
    node = helper.make_node("PRelu", ["x", "slopes"], ["y"], name="parametric_relu")
    return _model(node, [1, 3, 3, 3], {"slopes": slopes})


def _model(node: onnx.NodeProto, shape: list[int], constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        node.name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    # Opset 11 is the newest that the oldest parsers (TensorRT 7.1) know, and IR 6 came with it.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    model.producer_name = "surgeon samples"
    return model


def main() -> None:
    for build in (activation_clip, parametric_relu):
        model = build()
        path = Path(__file__).with_name(f"{build.__name__}.onnx")
        x, expected = EXAMPLES[path.name]
        onnx.checker.check_model(model, full_check=True)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (y,) = session.run(["y"], {"x": x})
        np.testing.assert_array_equal(y, expected, strict=True)
        path.write_bytes(model.SerializeToString(deterministic=True))
        print(f"{path.name}: {path.stat().st_size} bytes, gives the note's numbers")


if __name__ == "__main__":
    main()
