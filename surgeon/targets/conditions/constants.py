"""What makes numbers out of none: Constant, Range, the random operators."""

from surgeon.targets.releases import RTX, between
from surgeon.targets.rows import read, refuses

# fmt: off
ROWS = (
    *read(__file__),
    refuses("Constant", between((8, 4), (8, 4)), made="bool",
            where=lambda node: any(made is not None and made.is_output for made in node.outputs),
            reason="a constant of booleans that is an output is read as int32",
            source="measured with TensorRT 8.4.1.5: the parsed type is int32, which does not match the ONNX "
                   "specification"),
    refuses("RandomUniform RandomUniformLike", RTX, where=lambda node: bool(node.attr("high") <= node.attr("low")),
            reason="high is not above low", source="measured with TensorRT-RTX 1.7.1: it is parsed, not built"),
    refuses("RandomNormal RandomNormalLike", RTX, where=lambda node: bool(node.attr("scale") <= 0),
            reason="a scale that is not positive is refused",
            source="measured with TensorRT-RTX 1.7.1: Assertion beta > 0 failed"),
)
# fmt: on
