"""What slides a window: poolings, Conv and ConvTranspose."""

from dataclasses import dataclass

from surgeon.ir.graph import Node
from surgeon.ir.lattice import Shape, is_static
from surgeon.targets.condition import condition, is_weights, rank_of, shape_of
from surgeon.targets.releases import EVERYWHERE, LAST, RTX, between, in_doubt, since
from surgeon.targets.rows import Limit, read, refuses

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
POOLS = (
    *read(__file__, "pools"),
    refuses("GlobalLpPool", since(7, 1, rtx=True), attr={"p": Limit("odd", (), lambda p: p % 2 == 1)},
            reason="the power {value} is computed of x, not of its absolute value",
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


def deconvolution_padding(node: Node) -> list[int] | None:
    """What output_shape of a ConvTranspose makes the sum of begin and end padding, by axis.

    None where a size is not static.
    """
    shape = shape_of(node)
    window = node.attr("kernel_shape") or shape_of(node, 1)
    if shape is None or window is None:
        return None
    sizes = [size for size in shape[2:] if isinstance(size, int)]
    window = [extent for extent in list(window)[-len(shape[2:]) :] if isinstance(extent, int)]
    if len(sizes) < len(shape[2:]) or len(window) < len(sizes):
        return None
    rows = zip(
        sizes,
        window,
        per_axis(node, "strides", 1),
        per_axis(node, "dilations", 1),
        per_axis(node, "output_padding", 0),
        list(node.attr("output_shape"))[-len(sizes) :],
        strict=True,
    )
    return [
        stride * (size - 1) + more + (extent - 1) * dilation + 1 - out
        for size, extent, stride, dilation, more, out in rows
    ]


@condition("ConvTranspose", since(7, 2, 2, rtx=True),
           source="onnx-tensorrt@803e699 to @96e7811 generatePadding: begin = total / 2, where ONNX from "
                  "opset 11 on has it at the end; measured with TensorRT-RTX")  # fmt: skip
def output_shape(node: Node) -> str | None:
    if "output_shape" not in node.attrs or not is_padded_explicitly(node):
        return None
    totals = deconvolution_padding(node)
    if totals is None:
        return "output_shape needs static sizes"
    if len(totals) == 1:
        return "output_shape is read wrongly where there is one spatial dimension, which is read as two"
    if any(t < -1 or (t < 0 and more) for t, more in zip(totals, per_axis(node, "output_padding", 0), strict=True)):
        return "output_shape asks for a negative padding"
    if any(t > 0 and t % 2 for t in totals):
        return "output_shape leaves an odd padding, of which it would cut more at the end than at the beginning"
    return None


@condition("ConvTranspose", RTX,
           source="measured with TensorRT-RTX alone, against ONNX Runtime: the size follows from "
                  "auto_pad alone")  # fmt: skip
def output_shape_besides(node: Node) -> str | None:
    if "output_shape" not in node.attrs or is_padded_explicitly(node):
        return None
    shape, strides = shape_of(node), per_axis(node, "strides", 1)
    made = list(node.attr("output_shape"))[-len(strides) :]
    padding = node.attr("auto_pad")
    totals = deconvolution_padding(node) or []
    if shape is not None and padding != "VALID" and made == _strided(shape, strides) and min(totals, default=-1) >= 0:
        return None
    return f"output_shape is not read with auto_pad {padding}"


def _strided(shape: Shape, strides: list[int]) -> list[int]:
    """The sizes that SAME padding makes of an input: each by its stride; [] where one is not static."""
    sizes = [size * stride for size, stride in zip(shape[2:], strides, strict=True) if isinstance(size, int)]
    return sizes if len(sizes) == len(strides) else []


@condition("ConvTranspose", since(8, 5, rtx=True),
           source="onnx-tensorrt@fd119fe to @96e7811: setInput(2, bias) before the padding; measured "
                  "with TensorRT-RTX")  # fmt: skip
def computed_bias(node: Node) -> str | None:
    if is_weights(node.input_at(2)) or not is_padded_explicitly(node):
        return None
    more = per_axis(node, "output_padding", 0)
    ends = per_axis(node, "pads", 0)[-len(more) :]
    totals = deconvolution_padding(node) if "output_shape" in node.attrs else None
    if totals is not None:
        more = [m if t >= 0 else -t for m, t in zip(more, totals, strict=True)]
        ends = [max(t - t // 2, 0) for t in totals]
    if all(m <= e for m, e in zip(more, ends, strict=True)):
        return None
    return "a computed bias is not added to what output_padding adds"


@condition("Conv ConvTranspose", RTX,
           source="measured with TensorRT-RTX 1.7.1: The input tensor shape misaligns with the input "
                  "kernel shape")  # fmt: skip
def other_kernel_shape(node: Node) -> str | None:
    said, weights = node.attr("kernel_shape"), shape_of(node, 1)
    if said is None or weights is None or not is_static(weights) or tuple(said) == weights[2:]:
        return None
    return f"kernel_shape {list(said)} is not that of the weights"


@condition("Conv", RTX, source="measured with TensorRT-RTX 1.7.1: image size is smaller than filter size")
def wider_kernel(node: Node) -> str | None:
    shape, kernel = shape_of(node), shape_of(node, 1)
    if shape is None or kernel is None or node.attr("auto_pad") in ("SAME_UPPER", "SAME_LOWER"):
        return None
    pads, dilations = per_axis(node, "pads", 0), per_axis(node, "dilations", 1)
    count = len(dilations)
    for place, (size, extent) in enumerate(zip(shape[2:], kernel[2:], strict=False)):
        if not isinstance(size, int) or not isinstance(extent, int) or place >= count:
            continue
        padded = size + pads[place] + (pads[place + count] if len(pads) > place + count else 0)
        if padded < (extent - 1) * dilations[place] + 1:
            return f"the kernel is wider than the image along dimension {place + 2}"
    return None


def _has_several_groups(node: Node) -> bool:
    """Whether a Conv has groups of several channels: depthwise ones have kernels of their own."""
    sizes = shape_of(node, 1)
    return node.attr("group") not in (None, 1) and sizes is not None and len(sizes) > 1 and sizes[1] != 1


# fmt: off
half_groups = refuses("Conv", in_doubt((11, 0), LAST), dtype="float16 bfloat16", where=_has_several_groups,
                      reason="some GPUs have no kernel for groups of several channels in half precision",
                      source="NVIDIA/TensorRT#4838: No low-precision conv kernel available")
kernel_shape_of_dequantized = read(__file__, "kernel_shape_of_dequantized")
ROWS = read(__file__)
# fmt: on
