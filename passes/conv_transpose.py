"""Write ConvTranspose in the one form that TensorRT computes as ONNX defines it.

Why       Of an odd padding that follows from `output_shape` TensorRT cuts more at the end, ONNX at the beginning. With
          auto_pad VALID it ignores `output_padding`. A computed bias is refused up to 8.4,
          and from 8.5 on not added to what `output_padding` adds. TensorRT-RTX refuses strides together with dilations,
          and bfloat16, which TensorRT 11.2 does not build either.
Rewrites  ConvTranspose<output_shape>                       ->  the same with pads, and output_padding where larger
          ConvTranspose<auto_pad = "VALID", output_padding> ->  ConvTranspose<output_padding>
          ConvTranspose(x, w, computed bias)                ->  ConvTranspose(x, w) + bias, where the target lacks it
          ConvTranspose<strides, dilations>(x, w)           ->  ConvTranspose<dilations>(x with zeros between, w);
                                                                they come of a ConvTranspose by ones, channel by channel
          ConvTranspose in bfloat16                         ->  the same in fp32, between Casts
Exact     Bit for bit, in bfloat16 to its rounding; a bias that is added after it, and with zeros between, to rounding.
Price     With zeros between, the products of as many more positions as the strides skip. ONNX Runtime, [1,32,64,64] by
          3 x 3 with stride 2 and dilation 2: 1.8 to 11.8 ms, 2 nodes.

An output_shape is of use only where the spatial sizes are static.
"""

from typing import Any

import numpy as np
from onnx import TensorProto

from surgeon import Builder, Value, op, require, rule
from surgeon.targets.conditions.windows import deconvolution_padding

from ._arithmetic import in_fp32


@rule(op.ConvTranspose("x", "weight", ...), strategy="decompose")
def decompose(b, x, weight):
    if b.dtype(x) == TensorProto.BFLOAT16:
        return in_fp32(b)
    node, rank = b.root, b.known_rank(x)
    attrs = dict(node.attrs)
    auto = attrs.get("auto_pad") or "NOTSET"
    if auto == "VALID" and any(attrs.get("output_padding", ())):
        del attrs["auto_pad"]
    if auto == "NOTSET" and "output_shape" in attrs:
        del attrs["output_shape"]
        # ONNX cuts the larger half at the beginning
        totals = deconvolution_padding(node)
        require(totals is not None, "output_shape needs static sizes")
        assert totals is not None
        begin, end = [max(t - t // 2, 0) for t in totals], [max(t // 2, 0) for t in totals]
        padding = [m + max(-t, 0) for m, t in zip(attrs.pop("output_padding", [0] * (rank - 2)), totals, strict=True)]
        attrs |= {"pads": [*begin, *end], **({"output_padding": padding} if any(padding) else {})}
    bias = node.input_at(2)
    found = _taken(b, x, weight, bias, attrs)
    if found is not None:
        return found
    if _skips(attrs, "strides") and _skips(attrs, "dilations"):
        require(not weight.varies, "its weights are computed: where one is inf, 0 * inf is not a number")
        x, attrs = _with_zeros_between(b, x, attrs, auto)
    found = _taken(b, x, weight, bias, attrs)
    return b.ConvTranspose(x, weight, *([] if bias is None else [bias]), **attrs) if found is None else found


def _taken(b: Builder, x: Value, weight: Value, bias: Value | None, attrs: dict[str, Any]) -> Value | None:
    """The node with its bias inside, or after it, as the target supports it; None where it takes neither."""
    whole = b.ConvTranspose(x, weight, *([] if bias is None else [bias]), **attrs)
    if b.why_unsupported(whole.producer) is None or bias is None:
        return _kept(b, whole, x)
    b.discard(whole, x)
    bare = _kept(b, b.ConvTranspose(x, weight, **attrs), x)
    if bare is None:
        return None
    rank = b.known_rank(x)
    return b.Add(bare, b.Unsqueeze(bias, axes=list(range(1, rank - 1))))


def _kept(b: Builder, made: Any, x: Value) -> Value | None:
    """The tensor where the target supports the node that makes it; else the node goes again."""
    if b.why_unsupported(made.producer) is None:
        return made
    b.discard(made, x)
    return None


def _skips(attrs: dict[str, Any], name: str) -> bool:
    return any(step != 1 for step in attrs.get(name, ()))


def _with_zeros_between(b: Builder, x: Value, attrs: dict[str, Any], auto: str) -> tuple[Value, dict[str, Any]]:
    """x with zeros between its elements, and the attributes without strides. Zeros between the weights would do as
    well, but for an input that is inf: 0 * inf is not a number."""
    require(auto in ("NOTSET", "VALID"), "auto_pad says the padding of strides together with dilations")
    channels = b.static_size(x, 1)
    strides = attrs["strides"]
    more = attrs.get("output_padding", [0] * len(strides))
    zeros_behind = {"output_padding": more} if any(more) else {}
    require(all(m < s for m, s in zip(more, strides, strict=True)), "output_padding is not below the strides")
    ones = b.constant(np.ones([channels, 1, *[1] * len(strides)]), b.dtype(x))
    spread = b.ConvTranspose(x, ones, group=channels, strides=strides, **zeros_behind)
    return spread, {name: v for name, v in attrs.items() if name not in ("strides", "output_padding")}
