"""Write a ConvTranspose whose kernel is as large as its strides with a DepthToSpace; `--tune` tries it.

Why       TensorRT-RTX fills the channels of such a ConvTranspose up to eight, writes them in fp32 where a Cast reads
          them, and turns and cuts them in two more kernels. Heads for segmentation and text end in one channel.
Rewrites  ConvTranspose(x, w, bias)   ->   DepthToSpace(Conv(x, w as 1x1, bias for each element of the kernel)), where
          strides and kernel are the same, so no two elements of x reach the same element of the result
Exact     To rounding.
Price     ONNX Runtime on one thread: 2x2 from [64,56,56] to one channel 2 nodes, 0.09 ms next to 0.04.
Tuned     Where TensorRT-RTX moves fewer bytes. On 28 November 2026 PP-OCRv6's detector in fp16 went from
          148.8 to 136.1 MB.
"""

import numpy as np

from surgeon import const, op, require, rule, var

TUNES = True


@rule(op.ConvTranspose(var("x", rank=4), const("weights", rank=4), const("bias") | None))
def shuffled(b, x, weights, bias=None):
    node, (_, channels, size, _) = b.root, weights.shape
    require(weights.shape[2:] == (size, size) == tuple(node.attr("strides") or ()) and size > 1)
    moved = [*(node.attr("pads") or ()), *(node.attr("output_padding") or ()), *(node.attr("output_shape") or ())]
    require(node.attr("group") == 1 and not any(moved) and node.attr("auto_pad") in ("NOTSET", "VALID"))
    kernel = weights.transpose(2, 3, 1, 0).reshape(size * size * channels, -1, 1, 1)
    each = [] if bias is None else [np.tile(bias, size * size)]
    return b.DepthToSpace(b.Conv(x, kernel, *each), blocksize=size)
