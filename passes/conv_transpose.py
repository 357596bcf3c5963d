"""Say what a ConvTranspose pads in the one way that TensorRT computes as ONNX does.

Why       Of an odd padding that follows from `output_shape` TensorRT cuts more at the end, ONNX at the beginning. With
          auto_pad VALID it ignores `output_padding`. A computed bias is refused up to 8.4,
          and from 8.5 on not added to what `output_padding` adds.
Rewrites  ConvTranspose<output_shape>                       ->  the same with pads, and output_padding where larger
          ConvTranspose<auto_pad = "VALID", output_padding> ->  ConvTranspose<output_padding>
          ConvTranspose(x, w, computed bias)                ->  ConvTranspose(x, w) + bias, where the target lacks it
Exact     Bit for bit; a bias that is added behind, to rounding.

An output_shape is of use only where the spatial sizes are static.
"""

from __future__ import annotations

from collections.abc import Sequence

from surgeon import Stage, op, require, rule, var
from surgeon.ir.graph import Node
from surgeon.targets.conditions.convolutions import deconvolution_padding

x, weight = var("x"), var("weight")


@rule(op.ConvTranspose(x, weight, ...), stage=Stage.LOWER, strategy="decompose")
def decompose(b, x, weight):
    node, rank = b.root, b.rank(x)
    require(rank is not None, "the rank of the input is not known")
    attrs = dict(node.attrs)
    auto = attrs.get("auto_pad") or "NOTSET"
    if auto == "VALID" and any(attrs.get("output_padding", ())):
        del attrs["auto_pad"]
    if auto == "NOTSET" and "output_shape" in attrs:
        del attrs["output_shape"]
        attrs |= _pads(node, attrs.pop("output_padding", [0] * (rank - 2)))
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    whole = b.ConvTranspose(x, weight, *([] if bias is None else [bias]), **attrs)
    if b.target.takes(whole.producer) is None or bias is None:
        return whole
    b.discard(whole)
    bare = b.ConvTranspose(x, weight, **attrs)
    return b.Add(bare, b.Unsqueeze(bias, axes=list(range(1, rank - 1))))


def _pads(node: Node, more: Sequence[int]) -> dict[str, list[int]]:
    """The attributes pads and output_padding that say what output_shape says:
    ONNX cuts the larger half at the beginning."""
    totals = deconvolution_padding(node)
    require(totals is not None, "output_shape needs static sizes")
    assert totals is not None
    begin, end = [max(t - t // 2, 0) for t in totals], [max(t // 2, 0) for t in totals]
    padding = [m + max(-t, 0) for m, t in zip(more, totals, strict=True)]
    return {"pads": [*begin, *end], **({"output_padding": padding} if any(padding) else {})}
