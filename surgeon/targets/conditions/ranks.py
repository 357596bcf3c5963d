"""How many dimensions an input has: operators that TensorRT-RTX refuses below a number of them."""

from __future__ import annotations

from surgeon.ir.graph import Node
from surgeon.targets.condition import condition, opset_of, rank_of, shape_of
from surgeon.targets.releases import RTX


@condition(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: at least 1 dimensions are required for input",
)
def reduced_number(node: Node) -> str | None:
    return "an input without dimensions is refused" if rank_of(node) == 0 else None


@condition(
    "ArgMax ArgMin",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: at least 2 dimensions are required for input",
)
def indexed_vector(node: Node) -> str | None:
    return "an input of one dimension is refused" if rank_of(node) == 1 else None


@condition(
    "MatMul",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: reshape changes volume; a vector on the right is taken",
)
def vector_by_batch(node: Node) -> str | None:
    right = rank_of(node, 1)
    if rank_of(node) != 1 or right is None or right < 3:
        return None
    return "a vector by a batch of matrices is refused"


@condition("LpPool", RTX, source="measured with TensorRT-RTX 1.7.1: addPoolingNd, (windowSize).nbDims == 2 or 3")
def lp_pool_rank(node: Node) -> str | None:
    return "one spatial dimension is refused" if rank_of(node) == 3 else None


@condition(
    "Hardmax",
    RTX,
    source="measured with TensorRT-RTX 1.7.1: reshape dimension with more than one -1 wildcard",
)
def flattened_hardmax(node: Node) -> str | None:
    shape = shape_of(node)
    if opset_of(node) >= 13 or shape is None or sum(not isinstance(size, int) for size in shape) < 2:
        return None
    return "more than one size that is not static is refused below opset 13"
