"""What poolings and deconvolutions have in common: attributes with a number for each spatial axis, and auto_pad."""

from surgeon.ir.graph import Node
from surgeon.targets.condition import rank_of

PER_AXIS = ("kernel_shape", "strides", "dilations", "output_padding", "output_shape")


def per_axis(node: Node, name: str, default: int) -> list[int]:
    """An attribute with a number for each spatial axis; `default` for each where it is left out."""
    return list(node.attr(name) or [default] * _spatial_axes(node))


def _spatial_axes(node: Node) -> int:
    """How many spatial axes a node has: by the rank of its input, or by what its attributes say of them."""
    rank = rank_of(node)
    if rank is not None:
        return rank - 2
    return max((len(node.attr(name) or ()) for name in PER_AXIS if name in node.attrs), default=0)


def is_padded_explicitly(node: Node) -> bool:
    """Whether pads, output_padding or output_shape say the padding, not auto_pad."""
    return node.attr("auto_pad") in (None, "", "NOTSET")
