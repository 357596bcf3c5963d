"""Pad."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, constant_of
from surgeon.targets.releases import between, up_to
from surgeon.targets.rows import other_than, read, refuses


def _pads(node: Node) -> NDArray[Any] | None:
    """The pads, [2 * rank]: every begin, then every end."""
    return constant_of(node, 1)


# fmt: off
constant_mode = refuses("Pad", up_to(8, 0), attr={"mode": other_than("constant")}, section="5",
                        source="onnx-tensorrt@4225037: only supports constant 0 padding")
wrap_mode = refuses("Pad", between((8, 2), (9, 3)), attr={"mode": "wrap"}, section="5",
                    source="onnx-tensorrt@306247b: Unsupported pad mode")
axes_input = refuses("Pad", up_to(9, 3), given=3, reason="the fourth input, axes, is refused", section="5",
                     source="onnx-tensorrt@1def182: does not support dynamic axes for pad, even constant ones")
ROWS = (
    *read(__file__),
    refuses("Pad", up_to(8, 0), where=lambda node: _pads(node) is None, reason="the pads must be an initializer",
            section="5", source="onnx-tensorrt@4225037: the pads are required to be an initializer"),
    refuses("Pad", between((8, 2), (8, 4)), where=lambda node: list(node.proto.input[2:3]) == [""],
            reason="the empty third input is read as a tensor", section="5",
            source="onnx-tensorrt@4f54a19: the third input is not checked for being empty"),
)
# fmt: on


@condition("Pad", up_to(7, 2, 2), section="5",
           source="onnx-tensorrt@7994a46: only supports padding on the outer two dimensions")  # fmt: skip
def last_two(node: Node) -> str | None:
    pads = _pads(node)
    if pads is None or not pads.reshape(2, -1)[:, :-2].any():
        return None
    return "only the last two dimensions are padded"


@condition(
    "Pad", between((8, 0), (8, 0)), section="5", source="onnx-tensorrt@4225037: TensorRT only supports 2D padding"
)
def any_two(node: Node) -> str | None:
    pads = _pads(node)
    if pads is None or int(np.count_nonzero(pads.reshape(2, -1).any(axis=0))) <= 2:
        return None
    return "only two dimensions are padded at once"
