"""Pooling."""

from dataclasses import dataclass

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, shape_of
from surgeon.targets.conditions.windows import is_padded_explicitly, per_axis
from surgeon.targets.releases import EVERYWHERE, RTX, between, since
from surgeon.targets.rows import Limit, above, other_than, refuses, some


@dataclass(frozen=True, slots=True)
class PoolAxis:
    """One axis of a pooling.

    `size` counts the padding before, `behind` is the padding after, `window` the extent of a dilated window.
    """

    size: int
    behind: int
    window: int
    stride: int

    @property
    def rounded_up(self) -> int:
        """How many windows there are if a part of one counts."""
        return -(-(self.size + self.behind - self.window) // self.stride) + 1

    @property
    def windows(self) -> int:
        """How many ONNX has with ceil_mode 1: none that begins in the trailing padding."""
        return self.rounded_up - ((self.rounded_up - 1) * self.stride >= self.size)

    @property
    def missing(self) -> int:
        """How much trailing padding these windows reach into."""
        return max((self.windows - 1) * self.stride + self.window - self.size, 0)


def pool_axes(node: Node) -> list[PoolAxis] | None:
    """The spatial axes of a pooling; None where a size is not static or auto_pad says the padding."""
    shape = shape_of(node)
    if shape is None or not is_padded_explicitly(node):
        return None
    sizes = [size for size in shape[2:] if isinstance(size, int)]
    if len(sizes) < len(shape[2:]):
        return None
    window = per_axis(node, "kernel_shape", 1)
    pads = list(node.attr("pads") or [0] * (2 * len(window)))
    rows = zip(
        sizes,
        pads[: len(window)],
        pads[len(window) :],
        window,
        per_axis(node, "dilations", 1),
        per_axis(node, "strides", 1),
        strict=True,
    )
    return [
        PoolAxis(size + front, behind, (extent - 1) * dilation + 1, stride)
        for size, front, behind, extent, dilation, stride in rows
    ]


# fmt: off
ROWS = (
    refuses("AveragePool MaxPool LpPool", since(8, 0, rtx=True), attr={"dilations": some(other_than(1))},
            reason="dilations other than 1 are refused", section="4",
            source="onnx-tensorrt@1def182: does not support dilations other than 1"),
    refuses("MaxPool", EVERYWHERE, outputs=above(1), reason="the output of indices is refused",
            source="onnx-tensorrt@1def182: does not support the indices output in MaxPool"),
    refuses("MaxPool", RTX, dtype="int8", rank=5, reason="int8 of three spatial dimensions is refused",
            source="measured with TensorRT-RTX 1.7.1: int8 3D pooling is not supported"),
    refuses("AveragePool", RTX, attr={"count_include_pad": other_than(0, 1)},
            reason="{name} {value} is read as another one of 0 and 1",
            source="measured with TensorRT-RTX alone, against ONNX Runtime and ONNX's reference"),
    refuses("GlobalLpPool", since(7, 1, rtx=True), attr={"p": Limit("odd", (), lambda p: p % 2 == 1)},
            reason="p = {value} is taken of x, not of its absolute value",
            source="onnx-tensorrt@7994a46 to @96e7811: pow(x, p) without the absolute value; measured with "
                   "TensorRT-RTX"),
)
# fmt: on


@condition("AveragePool MaxPool LpPool", EVERYWHERE,
           source="NvInfer.h, PaddingMode::kEXPLICIT_ROUND_UP: O = ceil((M - DK) / S) + 1; measured with "
                  "TensorRT-RTX")  # fmt: skip
def pool_rounded_up(node: Node) -> str | None:
    axes = pool_axes(node) if node.attr("ceil_mode") else None
    if axes is None or all(axis.windows == axis.rounded_up for axis in axes):
        return None
    return "with ceil_mode 1 it has a last window that begins in the padding"


@condition("LpPool", RTX, source="measured with TensorRT-RTX alone")
def pool_part(node: Node) -> str | None:
    axes = pool_axes(node) if node.attr("ceil_mode") else None
    if axes is None or all(axis.missing <= axis.behind for axis in axes):
        return None
    return "with ceil_mode 1 a last window that is partly beyond the padding is divided by its part"


@condition("AveragePool", between((7, 0), (8, 4)),
           source="onnx-tensorrt@84b5be1 to @9f82b2b: "
                  "supported_form_of_asymmetric_padding_for_AveragePool; measured with TensorRT 8.4.1.5")  # fmt: skip
def average_pads(node: Node) -> str | None:
    pads = list(node.attr("pads") or [])
    if not pads or not is_padded_explicitly(node):
        return None
    count = len(pads) // 2
    rows = list(zip(pads[:count], pads[count:], strict=True))[:2]
    return None if all(end - begin in (0, 1) for begin, end in rows) else f"the pads {pads} are refused"


@condition("AveragePool", RTX,
           source="measured with TensorRT-RTX 1.7.1: the padding size is larger than or equal to the "
                  "filter size for exclusive-counting pooling")  # fmt: skip
def padding_alone(node: Node) -> str | None:
    pads, window = list(node.attr("pads") or ()), per_axis(node, "kernel_shape", 1)
    if node.attrs.get("count_include_pad") or not is_padded_explicitly(node):
        return None
    if all(pad < extent for pad, extent in zip(pads, window * 2, strict=False)):
        return None
    return f"the pads {pads} are as large as the window {window}, and are not counted"
