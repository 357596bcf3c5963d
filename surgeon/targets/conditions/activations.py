"""Activations."""

from onnx import TensorProto

from surgeon.ir.graph import Node
from surgeon.ir.lattice import HALVES
from surgeon.ir.operators import ELEMENTWISE
from surgeon.targets.condition import condition, constant_of, dtype_name, dtype_of, is_weights, rank_of
from surgeon.targets.releases import EVERYWHERE, RTX, between, since
from surgeon.targets.rows import KNOWN, read, refuses

CLIPPED_BY_TENSORS = (0, TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64)  # 0: not inferred


# fmt: off
ROWS = (
    *read(__file__),
    refuses("PRelu", since(7, 0), rank=KNOWN, where=lambda node: (rank_of(node, 1) or 0) > (rank_of(node) or 0),
            reason="the slope has more dimensions than the input", section="2",
            source="onnx-tensorrt@7994a46: the slope is broadcast from the left; rank of slope <= rank of input"),
)
# fmt: on


@condition(
    "Selu",
    EVERYWHERE,
    section="1b",
    source="onnx-tensorrt@6.0 to @5ab48c5: defaults 1.6732 and 1.0507; measured with TensorRT-RTX",
    rounds=True,
)
def selu_defaults(node: Node) -> str | None:
    rounded_alike = dtype_of(node) in HALVES  # there both spellings are the same number
    if ("alpha" in node.attrs and "gamma" in node.attrs) or rounded_alike:
        return None
    return "alpha and gamma are left out, and this parser's own defaults are rounded to 1.6732 and 1.0507"


@condition("Clip", between((8, 0), (8, 6)), section="2",
           source="onnx-tensorrt@6ba67d3: only supports FLOAT or INT32 inputs for Clip")  # fmt: skip
def clip_tensors(node: Node) -> str | None:
    low, high = node.input_at(1), node.input_at(2)
    if dtype_of(node) in CLIPPED_BY_TENSORS:
        return None
    if low is None and high is not None and is_weights(high) and dtype_of(node) != TensorProto.DOUBLE:
        return f"without a lower bound it is supported in fp32 and int32, not in {dtype_name(dtype_of(node))}"
    if is_weights(low) and is_weights(high):
        return None
    return f"computed bounds are supported in fp32 and int32, not in {dtype_name(dtype_of(node))}"


@condition("Clip", RTX,
           source="measured with TensorRT-RTX 1.7.1: Cannot convert scalar operand of type 9 to float in "
                  "__mye55_dconst; 64 numbers are taken, 72 are not")  # fmt: skip
def clip_weights(node: Node) -> str | None:
    bounds = [bound for bound in (1, 2) if node.input_at(bound) is not None]
    whole = dtype_of(node) in (TensorProto.INT32, TensorProto.INT64)
    if not whole or not is_weights(node.input_at(0)) or len(bounds) == 2:
        return None
    given = constant_of(node, 0)
    return "many constant integers without both bounds are refused" if given is not None and given.size > 64 else None


@condition("Clip", EVERYWHERE,
           source="NvInfer.h, ActivationType::kCLIP: max(alpha, min(beta, x)); measured with TensorRT "
                  "8.4.1.5 and TensorRT-RTX")  # fmt: skip
def clip_crossed(node: Node) -> str | None:
    low, high = constant_of(node, 1), constant_of(node, 2)
    if low is None or high is None or low.dtype.kind in "iu" or low.size != 1 or high.size != 1:
        return None
    bottom, top = low.reshape(()), high.reshape(())
    return f"its lower bound is above the upper one: it would return {bottom:g}, not {top:g}" if bottom > top else None


# All that TensorRT fuses into a kernel of pointwise operators. Not of every one a pair was measured.
FUSED = ELEMENTWISE - {"Celu", "Identity", "Shrink"}


@condition("Round", between((8, 4), (8, 4)),
           source="measured with TensorRT 8.4.1.5 on one H200: in 94 of 101 models with a pointwise "
                  "operator beside it the numbers come out as they went in, Add and Mul of two tensors "
                  "among them; alone they are rounded")  # fmt: skip
def fused_round(node: Node) -> str | None:
    given, made = node.input_at(0), node.outputs[0]
    maker = None if given is None else given.producer
    readers = () if made is None else made.users
    beside = [n for n in (maker, *readers) if n is not None and n.op in FUSED]
    return f"beside {beside[0].op} it is not rounded: a fused kernel leaves it out" if beside else None
