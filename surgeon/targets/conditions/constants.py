"""What makes numbers out of none: Constant, Range, the random operators."""

from surgeon.targets.releases import RTX, between, up_to
from surgeon.targets.rows import refuses

# fmt: off
ROWS = (
    refuses("Constant", up_to(7, 2, 2), lacks="value", reason="no attribute of a Constant but 'value' is read",
            source='onnx-tensorrt@803e699: attrs.get<ShapedWeights>("value") alone'),
    refuses("Constant", between((8, 0), (9, 1)), given="value_ints",
            reason="value_ints is read as floats: the constant would be empty",
            source='onnx-tensorrt@4225037 to @877b5dc: attrs.get<std::vector<float>>("value_ints"), which is empty; '
                   "int64_t from 9.2 (@306247b)"),
    refuses("Constant", between((8, 0), (9, 1)), given="value_int",
            reason="value_int is read as a float: the constant would be 0",
            source='onnx-tensorrt@4225037 to @877b5dc: attrs.get<float>("value_int"), which is 0; int64_t from 9.2 '
                   "(@306247b)"),
    refuses("RandomUniformLike", between((8, 4), (8, 4)), weights=True, reason="weights are refused as its input",
            source="measured with TensorRT 8.4.1.5: The input tensor cannot be an initializer"),
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
