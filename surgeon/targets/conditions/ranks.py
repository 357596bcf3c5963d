"""How many dimensions an input has: operators that are refused with some numbers of them."""

from itertools import zip_longest

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, handed_on, rank_of, shape_of
from surgeon.targets.conditions.reductions import is_handed_on
from surgeon.targets.dtypes import MOST_DIMENSIONS
from surgeon.targets.releases import EVERYWHERE, RTX, between, since
from surgeon.targets.rows import DYNAMIC, below, read, refuses

LAST_DIMENSIONS = 4  # that TopK reaches


# fmt: off
vector_by_batch = refuses("MatMul", since(8, 4, rtx=True), rank=1, where=lambda node: (rank_of(node, 1) or 0) > 2,
                          reason="a vector by a batch of matrices is refused",
                          source="measured with TensorRT 8.4.1.5 and TensorRT-RTX 1.7.1: reshape changes volume; a "
                                 "vector on the right is taken")
flattened_matrix = read(__file__, "flattened_matrix")
ROWS = (
    *read(__file__),
    refuses("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
            "ReduceSumSquare", EVERYWHERE, rank=0, where=lambda node: not is_handed_on(node),
            source="measured with TensorRT 8.4.1.5 and TensorRT-RTX 1.7.1: at least 1 dimensions are required for "
                   "input"),
    refuses("Hardmax", RTX, opset=below(13), size=DYNAMIC,
            where=lambda node: sum(not isinstance(size, int) for size in shape_of(node) or ()) > 1,
            reason="more than one size that is not static is refused below opset 13",
            source="measured with TensorRT-RTX 1.7.1: reshape dimension with more than one -1 wildcard"),
)
# fmt: on


@condition("ArgMax ArgMin TopK", between((7, 0), (8, 6)),
           source="NvInfer.h, addTopK: it must be one of the last four dimensions; measured with "
                  "TensorRT 8.4.1.5: error while computing output extent")  # fmt: skip
def far_axis(node: Node) -> str | None:
    rank, axis = rank_of(node), node.attrs.get("axis", -1 if node.op == "TopK" else 0)
    if rank is None or rank <= LAST_DIMENSIONS or axis % rank >= rank - LAST_DIMENSIONS:
        return None
    return f"axis {axis} is not one of the last {LAST_DIMENSIONS} dimensions"


@condition("ConstantOfShape Einsum Expand Gather GatherND Loop OneHot Reshape Scan Unsqueeze", EVERYWHERE,
           source="NvInfer.h, Dims::MAX_DIMS; measured with TensorRT-RTX 1.7.1")  # fmt: skip
def made_dimensions(node: Node) -> str | None:
    shapes = (node.graph.model.shape(made) for made in node.outputs if made is not None)
    most = max((len(shape) for shape in shapes if shape is not None), default=0)
    return f"{most} dimensions are refused; {MOST_DIMENSIONS} are the most" if most > MOST_DIMENSIONS else None


@condition("PRelu", RTX,
           source="measured with TensorRT-RTX 1.7.1: slope tensor must be unidirectional broadcastable "
                  "to input tensor")  # fmt: skip
def wider_slope(node: Node) -> str | None:
    shape, slope = shape_of(node), shape_of(node, 1)
    if shape is None or slope is None:
        return None
    pairs = zip_longest(reversed(shape), reversed(slope), fillvalue=1)
    wider = any(isinstance(x, int) and isinstance(s, int) and s not in (1, x) for x, s in pairs)
    return "the slope has more elements along a dimension than the input" if wider else None


@condition(
    "ConstantOfShape", RTX, source="measured with TensorRT-RTX 1.7.1: no profile is taken for an input of no elements"
)
def shape_of_nothing(node: Node) -> str | None:
    found = handed_on(node.input_at(0))
    if found is None or not found.is_input or shape_of(node) != (0,):
        return None
    return f"its shape is the input '{found.name}', which has no elements"
