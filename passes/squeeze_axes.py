"""Say which axes a Squeeze without axes drops, and drop it in front of a Reshape.

Why       PyTorch's x.squeeze() says no axes. TensorRT fixes the rank when it builds, so it builds no engine for a batch
          of 1 where the batch is of any size: the batch would be dropped, too.
Rewrites  Reshape(Squeeze(x), shape)  ->  Reshape(x, shape)
          Squeeze(x)                  ->  Squeeze(x, axes), where all sizes follow from a state of a fixed size
Exact     To the bit.
Kept      A Squeeze behind which the rank depends on the batch: ONNX says that it does. Models of fixed sizes alone.
Price     None: no nodes are added.
"""

from onnx import TypeProto

from surgeon import Stage, const, no_match, op, require, rule, var

x = var("x")


@rule(op.Reshape(op.Squeeze(x), const("shape")), stage=Stage.FUSE)
def behind_a_reshape(b, x, shape):
    copies = (shape == 0).any() and not b.root.attr("allowzero")
    require(not copies, "the Reshape copies a size of what is squeezed")
    return b.node("Reshape", [x, b.root.inputs[1]], 1, "", b.root.attrs)


@rule(op.Squeeze(x), stage=Stage.FUSE)
def axes(b, x):
    shape = b.known_shape(x)
    if all(_is_fixed(info.type.tensor_type) for info in b.root.graph.model.proto.graph.input):
        no_match()
    require(all(isinstance(d, int) for d in shape), "which of its sizes are 1 is not known")
    return b.Squeeze(x, axes=[k for k, size in enumerate(shape) if size == 1])


def _is_fixed(tensor: TypeProto.Tensor) -> bool:
    """Whether every size of an input is a number."""
    return tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
