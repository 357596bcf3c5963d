"""Inputs and outputs that are left out."""

from surgeon.ir.following import sources
from surgeon.ir.graph import Node
from surgeon.targets.condition import condition
from surgeon.targets.releases import RTX, between, since


@condition("Conv Gemm Slice", since(7, 0),
           source="onnx-tensorrt@6f64911 to @96e7811: inputs.size() is asked for; measured with TensorRT "
                  "8.4.1.5: the process dies")  # fmt: skip
@condition("Dropout Split Squeeze", since(8, 0), source="onnx-tensorrt@3f211d6 to @96e7811: inputs.size() is asked for")
@condition("Trilu", since(8, 5), source="onnx-tensorrt@fdeeaca to @96e7811: inputs.size() is asked for")
@condition("Conv Dropout Gemm Slice Split Squeeze Trilu", RTX,
           source="measured with TensorRT-RTX 1.7.1: Invalid Node; ConvTranspose, Clip, Pad, Resize and "
                  "Reduce take one")  # fmt: skip
def empty_last(node: Node) -> str | None:
    """The parser reads the last input that an operator may have where it has a name, and be that empty."""
    given, schema = node.proto.input, node.graph.model.schema(node)
    if schema is None or len(given) != schema.max_input or given[-1]:
        return None
    return "its last input has an empty name"


@condition("Dropout GRU LSTM Loop RNN Split TopK", between((7, 0), (10, 1)),
           source="onnx-tensorrt@6f64911 to @96e7811 toposort.hpp: an empty name is a name; measured "
                  "with TensorRT 8.4.1.5: Failed to sort the model topologically")  # fmt: skip
def unnamed_output(node: Node) -> str | None:
    if None not in node.outputs:
        return None
    if sum(other.outputs.count(None) for other in node.graph.live()) > 1:
        return "more than one output in its graph is left out, and all are taken for one"
    if _follows_from_unnamed(node):
        return "an output is left out, which is taken for the input that is left out: the nodes have no order"
    return None


def _follows_from_unnamed(node: Node) -> bool:
    """Whether a node, or one of its graph that it follows from, leaves out an input."""
    before = sources(node.inputs, lambda maker: maker.graph is node.graph)
    makers = (value.producer for value in before if value.producer is not None and value.graph is node.graph)
    return any(None in found.inputs for found in (node, *makers))
