"""What samples images: Resize, GridSample, RoiAlign."""

from surgeon.ir.graph import Node
from surgeon.ir.lattice import is_static
from surgeon.targets.condition import condition, constant_of, opset_of, shape_of
from surgeon.targets.releases import RTX, between, since, up_to
from surgeon.targets.rows import other_than, refuses

# fmt: off
ROWS = (
    refuses("GridSample", between((8, 5), (11, 0)), given="mode", attr={"mode": ("linear", "cubic")},
            reason="the mode name {value} of opset 20 is not read: it would take the nearest pixel", section="1b",
            source="onnx-tensorrt@1def182: an unknown mode stays kNEAREST; TensorRT-RTX 1.7.1 reads it right"),
    refuses("GridSample", since(8, 5), rank=other_than(4), section="6",
            source="onnx-tensorrt@fd119fe: addGridSample takes four dimensions; TensorRT-RTX 1.7.1 builds five"),
    refuses("Resize", up_to(9, 3), attr={"antialias": other_than(0)},
            reason="antialias is not read: it would resize without", section="1b",
            source="onnx-tensorrt@1def182: antialias, keep_aspect_ratio_policy and axes are not read"),
    refuses("Resize", up_to(9, 3), attr={"keep_aspect_ratio_policy": other_than("stretch")},
            reason="keep_aspect_ratio_policy is not read: it would stretch", section="1b",
            source="onnx-tensorrt@1def182: antialias, keep_aspect_ratio_policy and axes are not read"),
    refuses("Resize", up_to(9, 3), given="axes", reason="axes is not read", section="1b",
            source="onnx-tensorrt@1def182: antialias, keep_aspect_ratio_policy and axes are not read"),
    refuses("Resize", since(10, 0, rtx=True), attr={"antialias": other_than(0)}, reason="antialias is refused",
            section="6", source="onnx-tensorrt@eb43908 onnxOpCheckers.cpp"),
    refuses("Resize", since(10, 0, rtx=True), attr={"keep_aspect_ratio_policy": other_than("stretch")},
            section="6", source="onnx-tensorrt@eb43908 onnxOpCheckers.cpp"),
    refuses("Resize", since(8, 0, rtx=True),
            attr={"coordinate_transformation_mode": ("tf_crop_and_resize", "half_pixel_symmetric")},
            section="6", source="onnx-tensorrt@4225037: no importer of this mode"),
    refuses("Resize", up_to(8, 4), attr={"mode": "cubic"}, reason="cubic interpolation is refused", section="6",
            source="onnx-tensorrt@9f82b2b: does not support cubic interpolation"),
    refuses("Resize", since(8, 0),
            attr={"coordinate_transformation_mode": "tf_half_pixel_for_nn",
                  "nearest_mode": other_than("round_prefer_floor")},
            reason="tf_half_pixel_for_nn is supported with round_prefer_floor only, not with {value}",
            source="onnx-tensorrt@3f211d6 to @96e7811: only support round_prefer_floor nearest mode in "
                   "tf_half_pixel_for_nn; 9.1 to 9.3 do not read the other (@1def182); measured with TensorRT 8.4.1.5"),
    refuses("Resize", between((7, 0), (7, 2, 2)), attr={"coordinate_transformation_mode": other_than("asymmetric")},
            source="onnx-tensorrt@84b5be1: asymmetric and floor alone"),
    refuses("Resize", between((7, 0), (7, 2, 2)), attr={"mode": "nearest", "nearest_mode": other_than("floor")},
            source="onnx-tensorrt@84b5be1: asymmetric and floor alone"),
    refuses("RoiAlign", since(8, 5), attr={"sampling_ratio": 0},
            reason="sampling_ratio 0 (adaptive) is not read: it would take one sample for each bin", section="1b",
            source="onnx-tensorrt@1def182: the default of sampling_ratio is 1, ONNX's is 0 (adaptive)"),
    refuses("Resize", RTX, attr={"coordinate_transformation_mode": "tf_half_pixel_for_nn"}, given=3,
            reason="sizes are not read with tf_half_pixel_for_nn: scales are",
            source="measured with TensorRT-RTX 1.7.1: The shape of weights must align with input data"),
)
# fmt: on


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
