"""What samples images: Resize, GridSample, RoiAlign."""

from surgeon.ir.graph import Node
from surgeon.ir.lattice import is_static
from surgeon.targets.condition import condition, constant_of, opset_of, shape_of
from surgeon.targets.releases import RTX, since
from surgeon.targets.rows import read

ROWS = read(__file__)


@condition("Resize", RTX, source="measured with TensorRT-RTX 1.7.1: axis 0 with inherently negative length")
def sizes_of_some_axes(node: Node) -> str | None:
    axes, shape = node.attr("axes"), shape_of(node)
    if axes is None or constant_of(node, 3) is None or shape is None:
        return None
    others = [d for k, d in enumerate(shape) if k not in {a % len(shape) for a in axes}]
    return None if is_static(tuple(others)) else "the sizes of the axes that are not named are read as -1"


@condition("Resize", since(8, 5, rtx=True),
           source="onnx-tensorrt@fd119fe to @96e7811 canUseNDResize(scaleSize, scales, 2); measured with "
                  "TensorRT-RTX 1.7.1")  # fmt: skip
def cubic_dimensions(node: Node) -> str | None:
    scales = constant_of(node, 2 if opset_of(node) >= 11 else 1)
    if node.attr("mode") != "cubic" or scales is None or bool((scales.reshape(-1)[:-2] == 1).all()):
        return None
    return "cubic interpolation is supported in the last two dimensions only"
