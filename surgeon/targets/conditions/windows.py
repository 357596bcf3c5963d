"""What poolings and deconvolutions have in common: attributes with a number for each spatial axis, and auto_pad."""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import rank_of


def per_axis(node: Node, name: str, default: int) -> list[int]:
    """An attribute with a number for each spatial axis; `default` for each where it is left out."""
    return list(node.attr(name) or [default] * ((rank_of(node) or 2) - 2))


def is_padded_explicitly(node: Node) -> bool:
    """Whether pads, output_padding or output_shape say the padding, not auto_pad."""
    return node.attr("auto_pad") in (None, "", "NOTSET")
