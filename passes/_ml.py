"""What the operators of ai.onnx.ml share."""

from onnx import TensorProto

from surgeon import Builder, Value, require

ML = "ai.onnx.ml"
FLOAT, INT64, DOUBLE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE


def transformed(b: Builder, scores: Value, transform: str | None, count: int) -> Value:
    """What the attribute post_transform makes of so many scores a row."""
    if transform in (None, "NONE"):
        return scores
    require(transform in ("LOGISTIC", "SOFTMAX"), f"its post_transform is {transform}")
    require(count > 1, f"ONNX Runtime leaves out its {transform} of a single score")
    return b.Sigmoid(scores) if transform == "LOGISTIC" else b.Softmax(scores, axis=1)
