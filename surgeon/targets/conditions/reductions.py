"""Reductions and the softmaxes."""

from surgeon.ir.graph import Node
from surgeon.ir.operators import REDUCES
from surgeon.targets.condition import condition, constant_of, rank_of
from surgeon.targets.releases import EVERYWHERE, between, since, up_to
from surgeon.targets.rows import Limit, other_than, read, refuses, some

REDUCE = " ".join(sorted(REDUCES))


@condition("ReduceSum ReduceLogSum", up_to(7, 2, 2), section="1b", source="onnx-tensorrt@803e699")
@condition(" ".join(sorted(REDUCES - {"ReduceSum", "ReduceLogSum"})), up_to(9, 3), section="1b",
           source="onnx-tensorrt@1def182 builtin_op_importers.cpp: reduceTensor(inputs.at(0)) alone")  # fmt: skip
def reduce_axes(node: Node) -> str | None:
    if node.input_at(1) is None or _is_over_every_axis(node):
        return None
    return "the axes are an input, which this parser does not read: it would reduce over every axis"


def _is_over_every_axis(node: Node) -> bool:
    """Whether axes that are an input are constants that name every axis, or none of them and so all."""
    axes, rank = constant_of(node, 1), rank_of(node)
    if axes is None:
        return False
    if not axes.size:
        return not node.attr("noop_with_empty_axes")
    return len({int(a) % (rank or 1) for a in axes.reshape(-1)}) == rank


def is_handed_on(node: Node) -> bool:
    """Whether a reduction returns its input as it is: over no axes, of one number that the operator keeps."""
    return reduces_nothing(node) and node.op in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")


def reduces_nothing(node: Node) -> bool:
    """Whether noop_with_empty_axes holds: there are no axes."""
    return node.attr("noop_with_empty_axes") == 1 and node.input_at(1) is None and "axes" not in node.attrs


@condition("MeanVarianceNormalization", since(8, 5, rtx=True),
           source="measured with TensorRT-RTX 1.7.1: invalid reduction dimension 3; the same axes by "
                  "default in every release")  # fmt: skip
def normalized_axes(node: Node) -> str | None:
    rank, axes = rank_of(node), node.attr("axes")
    if rank is None or all(-rank <= axis < rank for axis in axes):
        return None
    return f"the axes {list(axes)} are more than the {rank} dimensions"


# fmt: off
top_k = refuses("TopK", EVERYWHERE, value={1: some(other_than(*range(3841)))},
                reason="K = {value} is refused; 0 to 3840 are supported", section="6",
                source="NVIDIA documentation: K up to 3840; measured with TensorRT-RTX")
ROWS = (
    *read(__file__),
    refuses(REDUCE + " ArgMax ArgMin", EVERYWHERE, attr={"keepdims": other_than(0, 1)},
            reason="{name} {value} is read as 1",
            source='onnx-tensorrt@6.0 to @96e7811: attrs.get("keepdims", 1) as a truth value; measured with '
                   "TensorRT-RTX"),
    refuses(REDUCE, up_to(9, 3), attr={"noop_with_empty_axes": 1}, lacks=(1, "axes"),
            reason="noop_with_empty_axes is not read: it would reduce over every axis", section="1b",
            source="onnx-tensorrt@1def182: noop_with_empty_axes is not read"),
    refuses("ReduceSum", between((8, 0), (8, 4)), value={1: Limit("none", (), lambda axes: not axes)},
            reason="axes without any number are refused",
            source="measured with TensorRT 8.4.1.5: no dimensions to be reduced; TensorRT-RTX reduces over every axis"),
)
# fmt: on
