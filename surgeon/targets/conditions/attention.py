"""Attention."""

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.ir.lattice import Shape
from surgeon.targets.condition import condition, dtype_name, dtype_of, handed_on, may_match, shape_of
from surgeon.targets.releases import RTX
from surgeon.targets.rows import read

ROWS = read(__file__)


@condition("Attention", RTX, source="measured with TensorRT-RTX alone: Key and Value must have the same shape")
def attention_sizes(node: Node) -> str | None:
    keys, values = shape_of(node, 1), shape_of(node, 2)
    if keys is None or values is None or len(keys) != len(values):
        return None
    if all(
        one == other or not (isinstance(one, int) or isinstance(other, int))
        for one, other in zip(keys, values, strict=True)
    ):
        return None
    return "keys and values of different sizes are refused"


@condition("Attention", RTX,
           source="measured with TensorRT-RTX 1.7.1: Error during shape inference of attention, and of "
                  "the mask's add")  # fmt: skip
def attention_types(node: Node) -> str | None:
    given = {dtype_of(node, position) for position in range(4)} - {0, TensorProto.BOOL}
    kinds = {TensorProto.FLOAT if dtype == TensorProto.DOUBLE else dtype for dtype in given}
    return "queries, keys, values and the mask are of different types" if len(kinds) > 1 else None


HEADS = range(9, 257)  # the sizes of a head that there is a kernel for; with a mask of booleans multiples of 8 alone


@condition("Attention", RTX,
           source="measured with TensorRT-RTX 1.7.1: not supported by a dedicated kernel; three "
                  "dimensions without a mask and with a key for each query's head are built from other "
                  "layers")  # fmt: skip
def attention_kernel(node: Node) -> str | None:
    dtype, shape = dtype_of(node), shape_of(node)
    if shape is None or len(shape) not in (3, 4):
        return None
    if shape[-2] == 1:
        return "there is no kernel for one query"
    alike = node.attr("q_num_heads") == node.attr("kv_num_heads")
    if len(shape) == 3 and alike and node.input_at(3) is None and not node.attr("is_causal"):
        return None
    if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return f"there is no kernel for {dtype_name(dtype)}"
    heads = shape[1] if len(shape) == 4 else node.attr("q_num_heads")
    if heads == shape[0] == 1:
        return "there is no kernel for one head of one example"
    wide = shape[-1]
    head = wide // (node.attr("q_num_heads") or 1) if isinstance(wide, int) else None
    if head is None or (head in HEADS and (head % 8 == 0 or dtype_of(node, 3) != TensorProto.BOOL)):
        return None
    return f"there is no kernel for heads of {head}"


@condition("Attention", RTX, source="measured with TensorRT-RTX: it crashes while it builds")
def attention_to_itself(node: Node) -> str | None:
    queries, keys = (handed_on(node.input_at(position)) for position in (0, 1))
    if queries is None or queries is not keys:
        return None
    return "queries and keys are one tensor, and the builder crashes"


@condition("RotaryEmbedding", RTX,
           source="measured with TensorRT-RTX 1.7.1: rotaryEmbeddingDim <= headSize; must have the same")  # fmt: skip
def rotated_sizes(node: Node) -> str | None:
    caches = [shape_of(node, position) for position in (1, 2)]
    if any(cache and not isinstance(cache[-1], int) for cache in caches):
        return "the size of the cache is not static"
    return why_not_rotated(shape_of(node), shape_of(node, 3), caches[0], bool(node.attr("num_heads")))


def why_not_rotated(shape: Shape | None, positions: Shape | None, cache: Shape | None, heads: bool) -> str | None:
    """Why a RotaryEmbedding is not built for these shapes of data, positions and cache; None where it is."""
    if cache is not None and cache and not isinstance(cache[-1], int):
        return "the size of the cache is not static"
    if shape is None or len(shape) not in (3, 4):
        return None
    if len(shape) == 3 and not heads:
        return "num_heads is left out, which three dimensions need"
    if not isinstance(shape[-1], int):
        return "the size of the heads is not static"
    given = (shape[0], shape[-2] if len(shape) == 4 else shape[1])
    if positions is None:
        # a cache without positions has a row for each position of each example
        if cache is None or len(cache) != 3:
            return None
        pairs = list(zip(given, cache[:2], strict=True))
        if not may_match(given, cache[:2]):
            return "the cache has other sizes than the data"
        if all(isinstance(one, int) == isinstance(other, int) for one, other in pairs):
            return None
        return "of the sizes of data and cache one is static, the other is not"
    if len(positions) != 2:
        return f"positions of {len(positions)} dimensions are refused; two are supported"
    if all(isinstance(one, int) == isinstance(other, int) for one, other in zip(given, positions, strict=True)):
        return None
    return "of the sizes of data and positions one is static, the other is not"
