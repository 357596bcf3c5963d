"""What samples images: Resize, GridSample, RoiAlign."""

from __future__ import annotations

from onnx import TensorProto

from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import is_static
from surgeon.targets.condition import condition, constant_of, input_of, opset_of, rank_of, shape_of
from surgeon.targets.releases import RTX, between, since, up_to

SCALES_CONE = 64  # nodes that are looked at behind computed scales
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


@condition(
    "GridSample",
    between((8, 5), (11, 0)),
    section="1b",
    source="onnx-tensorrt@1def182: an unknown mode stays kNEAREST; TensorRT-RTX 1.7.1 reads it right",
)
def grid_sample_mode(node: Node) -> str | None:
    mode = node.attrs.get("mode")
    if mode not in ("linear", "cubic"):
        return None
    return f"the mode name '{mode}' of opset 20 is not read: it would take the nearest pixel"


@condition(
    "GridSample",
    since(8, 5),
    section="6",
    source="onnx-tensorrt@fd119fe: addGridSample takes four dimensions; TensorRT-RTX 1.7.1 builds five",
)
def grid_sample_rank(node: Node) -> str | None:
    rank = rank_of(node)
    return f"the input has {rank} dimensions; four are supported" if rank not in (None, 4) else None


@condition(
    "Resize",
    up_to(9, 3),
    section="1b",
    source="onnx-tensorrt@1def182: antialias, keep_aspect_ratio_policy and axes are not read",
)
def resize_unread(node: Node) -> str | None:
    if node.attr("antialias"):
        return "antialias is not read: it would resize without"
    if node.attr("keep_aspect_ratio_policy") not in (None, "stretch"):
        return "keep_aspect_ratio_policy is not read: it would stretch"
    return "axes is not read" if "axes" in node.attrs else None


@condition("Resize", since(10, 0, rtx=True), section="6", source="onnx-tensorrt@eb43908 onnxOpCheckers.cpp")
def resize_refused(node: Node) -> str | None:
    if node.attr("antialias"):
        return "antialias is refused"
    if node.attr("keep_aspect_ratio_policy") not in (None, "stretch"):
        return "only 'stretch' is taken as keep_aspect_ratio_policy"
    return None


@condition("Resize", since(8, 0, rtx=True), section="6", source="onnx-tensorrt@4225037: no importer of this mode")
def resize_crop(node: Node) -> str | None:
    mode = node.attr("coordinate_transformation_mode")
    if mode not in ("tf_crop_and_resize", "half_pixel_symmetric"):
        return None
    return f"coordinate_transformation_mode '{mode}' is refused"


@condition("Resize", up_to(8, 4), section="6", source="onnx-tensorrt@9f82b2b: does not support cubic interpolation")
def resize_cubic(node: Node) -> str | None:
    return "cubic interpolation is refused" if node.attr("mode") == "cubic" else None


@condition(
    "Resize",
    since(8, 0),
    source="onnx-tensorrt@3f211d6 to @96e7811: only support round_prefer_floor nearest mode in tf_half_pixel_for_nn; "
    "9.1 to 9.3 do not read the other (@1def182); measured with TensorRT 8.4.1.5",
)
def resize_rounding(node: Node) -> str | None:
    rounding = node.attr("nearest_mode")
    if node.attr("coordinate_transformation_mode") != "tf_half_pixel_for_nn" or rounding == "round_prefer_floor":
        return None
    return f"tf_half_pixel_for_nn goes with round_prefer_floor alone, not with '{rounding}'"


@condition("Resize", between((7, 0), (7, 2, 2)), source="onnx-tensorrt@84b5be1: asymmetric and floor alone")
def resize_asymmetric(node: Node) -> str | None:
    coordinates, rounding = node.attr("coordinate_transformation_mode"), node.attr("nearest_mode")
    if coordinates not in (None, "asymmetric"):
        return f"coordinate_transformation_mode '{coordinates}' is refused; only 'asymmetric' is taken"
    if node.attr("mode") == "nearest" and rounding not in (None, "floor"):
        return f"nearest_mode '{rounding}' is refused; only 'floor' is taken"
    return None


@condition(
    "RoiAlign",
    since(8, 5),
    section="1b",
    source="onnx-tensorrt@1def182: the default of sampling_ratio is 1, ONNX's is 0 (adaptive)",
)
def roi_align(node: Node) -> str | None:
    if node.attr("sampling_ratio"):
        return None
    return "sampling_ratio 0 (adaptive) is not there: it would take one sample a bin"


@condition(
    "Resize",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: The shape of weights must align with input data",
)
def resize_by_sizes(node: Node) -> str | None:
    if node.attr("coordinate_transformation_mode") != "tf_half_pixel_for_nn" or input_of(node, 3) is None:
        return None
    return "sizes are not read with tf_half_pixel_for_nn: scales are"


@condition(
    "Resize",
    between((8, 4), (8, 4)),
    source="measured with TensorRT 8.4.1.5: network input that is shape tensor must have type Int32",
)
@condition(
    "Resize Upsample",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: Network input is a shape tensor and must have type Int32 or Int64",
)
def resize_by_input(node: Node) -> str | None:
    found = float_input(input_of(node, 2 if node.op == "Resize" and opset_of(node) >= 11 else 1))
    return None if found is None else f"its scales follow from the input '{found.name}', which holds floats"


@condition(
    "Resize",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: axis 0 with inherently negative length",
)
def sizes_of_some_axes(node: Node) -> str | None:
    axes, shape = node.attr("axes"), shape_of(node)
    if axes is None or constant_of(node, 3) is None or shape is None:
        return None
    others = [d for k, d in enumerate(shape) if k not in {a % len(shape) for a in axes}]
    return None if is_static(tuple(others)) else "the sizes of the axes that are not named are read as -1"


def float_input(value: Value | None) -> Value | None:
    """An input of the model, of floats, that a value is computed from through few nodes; None where there is none."""
    todo = [] if value is None else [value]
    seen = set(todo)
    while todo and len(seen) <= SCALES_CONE:
        found = todo.pop()
        maker = found.producer
        if maker is None and found.is_input and found.graph.model.dtype(found) in FLOATS:
            return found
        if maker is None or maker.key in ("Shape", "Size", "Constant"):
            continue
        fresh = [given for given in maker.inputs if given is not None and given not in seen]
        seen.update(fresh)
        todo += fresh
    return None


@condition(
    "Resize",
    since(8, 5, rtx=True),
    source="onnx-tensorrt@fd119fe to @96e7811 canUseNDResize(scaleSize, scales, 2); measured with TensorRT-RTX 1.7.1",
)
def cubic_dimensions(node: Node) -> str | None:
    scales = constant_of(node, 2 if opset_of(node) >= 11 else 1)
    if node.attr("mode") != "cubic" or scales is None or bool((scales.reshape(-1)[:-2] == 1).all()):
        return None
    return "cubic interpolation is taken in the last two dimensions alone"
