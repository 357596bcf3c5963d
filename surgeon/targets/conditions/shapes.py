"""Shapes: what is computed from them, and what needs one of a certain kind."""

from onnx import TensorProto

from surgeon.ir.following import readers, sources
from surgeon.ir.graph import Node, Value
from surgeon.ir.lattice import FLOATS, is_static
from surgeon.ir.model import Model
from surgeon.ir.operators import (
    BATCH,
    ELEMENTWISE,
    FILLS,
    MEASURES,
    MOVES,
    NORMALIZES,
    OPERATORS,
    QUANTIZES,
    REDUCES,
    SLIDES,
)
from surgeon.targets.condition import condition, constant_of, dtype_name, opset_of, rank_of, shape_of
from surgeon.targets.releases import EVERYWHERE, LAST, between, in_doubt, up_to
from surgeon.targets.rows import other_than, read, refuses
from surgeon.targets.tables import SHAPE_INPUTS

SHAPE_CONE = 256  # nodes that are searched upstream of one computed shape
INDEX_TYPES = (TensorProto.INT32, TensorProto.INT64)


@condition(
    "Shape", up_to(9, 3), source="onnx-tensorrt@1def182 builtin_op_importers.cpp: addShape alone; 10.0 reads both"
)
def shape_range(node: Node) -> str | None:
    start, end, rank = node.attr("start") or 0, node.attr("end"), rank_of(node)
    begins = start == 0 or (rank is not None and start <= -rank)
    ends = end is None or (rank is not None and end >= rank)
    if begins and ends:
        return None
    return "start and end are not read: it would return the whole shape"


@condition(" ".join(SHAPE_INPUTS), up_to(8, 4),
           source="NvInfer.h of 7.1 to 8.4, ITensor::isShapeTensor: 'It must be 0D or 1D', no longer in "
                  "8.5; NVIDIA/TensorRT#229 (6.0), #1743 (8.2), #2088 (8.4): 'IShuffleLayer applied to "
                  "shape tensor must have 0 or 1 reshape dimensions'; #2487: fixed in 8.5")  # fmt: skip
def shape_tensor_rank(node: Node) -> str | None:
    model = node.graph.model
    for position in SHAPE_INPUTS[node.key]:
        deep = deep_tensor(model, node.input_at(position))
        if deep is not None:
            rank = len(model.shape(deep) or ())
            return (
                f"its input {position} is computed through '{deep.name}' of {rank} dimensions; one at most is supported"
            )
    return None


def deep_tensor(model: Model, value: Value | None) -> Value | None:
    """An integer tensor of two or more dimensions that `value` is computed through, or is; None where there is none."""

    def computes(node: Node) -> bool:
        return not node.bodies and node.key not in MEASURES and node.key != "Constant"

    found = (v for v in sources([value], computes, most=SHAPE_CONE) if v.producer is not None and computes(v.producer))
    return next((v for v in found if len(model.shape(v) or ()) > 1 and model.dtype(v) in INDEX_TYPES), None)


@condition("OneHot", in_doubt((10, 14), LAST),
           source="TensorRT-RTX 1.7.1 parses it, and 10.7 refuses it; of the releases between nothing is "
                  "measured")  # fmt: skip
@condition("OneHot", between((8, 5), (10, 13)),
           source="NVIDIA/TensorRT#3706 (8.6), #4426 (10.7), NVIDIA-AI-IOT/nanosam#40 (10.3): an "
                  "IIOneHotLayer cannot be used to compute a shape tensor; the releases between and "
                  "beside them assumed to be the same")  # fmt: skip
def one_hot_shape(node: Node) -> str | None:
    model = node.graph.model

    def is_followed(reader: Node) -> bool:
        whole = any(made is not None and model.dtype(made) in INDEX_TYPES for made in reader.outputs)
        return whole and reader.graph is node.graph and reader.key not in MEASURES

    given = [made for made in node.outputs if made is not None and not model.is_constant(made)]
    for reader, value in readers(given, is_followed, most=SHAPE_CONE):
        if any(reader.input_at(k) is value for k in SHAPE_INPUTS.get(reader.key, ())):
            return f"a shape is computed from it, which {reader.op} reads"
    return None


# The inputs that a size may be computed from, by operator.
SIZED = {op: OPERATORS[op].shape for op in (*SHAPE_INPUTS, "HannWindow", "OneHot", "TopK", "Upsample")}
# What sizes are computed through: what follows from any other operator is computed with the data.
COMPUTED = ELEMENTWISE | MOVES | FILLS | REDUCES | QUANTIZES | (BATCH - SLIDES - NORMALIZES) | {"Gemm", "MatMul"}
FOLLOWED = COMPUTED - {"Compress", "PRelu", "ReverseSequence"}


@condition(" ".join(SIZED), in_doubt((8, 5), LAST),
           source="8.4 and TensorRT-RTX refuse it; of the releases between nothing is measured")  # fmt: skip
@condition("Range", between((7, 0), (8, 2)),
           source="measured with TensorRT 8.4.1.5; the releases before are assumed to refuse it, too")  # fmt: skip
@condition(" ".join(SIZED), between((8, 4), (8, 4), rtx=True),
           source="measured with TensorRT-RTX 1.7.1 on each, and through each of FOLLOWED: Network input is a shape "
                  "tensor and must have type Int32 or Int64, or Assertion !isInFlight failed; 8.4.1.5 says the same "
                  "of Resize and Range")  # fmt: skip
def float_sizes(node: Node) -> str | None:
    found = input_of_sizes(node)
    if found is None:
        return None
    dtype = found.graph.model.dtype(found)
    held = "floats" if dtype in FLOATS else dtype_name(dtype)
    return f"a size follows from the input '{found.name}', which holds {held}"


def input_of_sizes(node: Node) -> Value | None:
    """An input of the model, not of int32 or int64, that a size is computed from; None where there is none."""
    positions = (1,) if node.key == "Resize" and opset_of(node) < 11 else SIZED[node.key]
    read = [node.input_at(position) for position in positions]
    found = sources(read, lambda made: made.key in FOLLOWED, most=SHAPE_CONE)
    model = node.graph.model
    given = (v for v in found if v.is_input and v.graph is model.graph)
    return next((v for v in given if model.dtype(v) not in (0, *INDEX_TYPES)), None)


def _may_have_zero(reshape: Node) -> bool:
    shape = constant_of(reshape, 1)
    return shape is None or not shape.all()


# fmt: off
ROWS = (
    *read(__file__),
    refuses("EyeLike", EVERYWHERE, where=lambda node: not is_static(shape_of(node)), section="6",
            reason="its size is not static: `Eyelike does not work for dynamically shaped tensors`",
            source="onnx-tensorrt@803e699: !isDynamic(dims); measured with TensorRT-RTX"),
    refuses("Reshape", between((7, 0), (8, 2)), attr={"allowzero": other_than(0)}, where=_may_have_zero,
            reason="allowzero is not read: 0 would copy the dimension",
            source="onnx-tensorrt@4225037 reads allowzero from opset 14 on, and 8.2 declares 13"),
)
# fmt: on
