"""Write Col2Im as a Gather and a sum.

Why       No TensorRT imports Col2Im. torch.nn.functional.fold exports it.
Rewrites  Col2Im(x, image_shape, block_shape)  ->  ReduceSum(Gather(x, for each pixel, what falls on it)), 0 where fewer
          blocks reach a pixel than others
Exact     To rounding: the sum is in another order.
Price     Blocks of 3 x 3 to [1,3,56,56], ONNX Runtime on one thread: 5 nodes, 0.7 ms next to 0.02 of its own Col2Im.

image_shape and block_shape must be constant. On the way x takes as many times its memory as blocks overlap.
"""

from itertools import product

import numpy as np

from surgeon import const, op, require, rule

LARGEST = 2**22  # numbers that fall on pixels


@rule(op.Col2Im("x", const("image"), const("block")), strategy="decompose")
def decompose(b, x, image, block):
    node, sizes, kernel = b.root, [int(n) for n in image], [int(n) for n in block]
    rank = len(sizes)
    pads = node.attr("pads") or [0] * (2 * rank)
    strides, dilations = node.attr("strides") or [1] * rank, node.attr("dilations") or [1] * rank
    counts = [
        (s + pads[a] + pads[a + rank] - dilations[a] * (kernel[a] - 1) - 1) // strides[a] + 1
        for a, s in enumerate(sizes)
    ]
    require(all(n > 0 for n in (*sizes, *counts)), "it has no pixels, or no blocks")
    blocks, inside = int(np.prod(counts)), int(np.prod(kernel))
    require(blocks * inside <= LARGEST, f"more than {LARGEST} numbers fall on its pixels")
    at = [np.arange(counts[a]) * strides[a] - pads[a] for a in range(rank)]
    falls = _falls(at, kernel, dilations, sizes)
    places, there = _by_pixel(falls, int(np.prod(sizes)))
    columns = b.Reshape(x, [0, -1, inside * blocks])
    found = b.Gather(columns, places, axis=2)
    if not there.all():
        found = b.Where(there, found, b.constant(0, b.dtype(x)))
    return b.Reshape(b.ReduceSum(found, axes=[3], keepdims=0), [0, 0, *sizes])


def _falls(at: list[np.ndarray], kernel: list[int], dilations: list[int], sizes: list[int]) -> np.ndarray:
    """The pixel that each number of the columns falls on, -1 for the padding: [offset in the block, block]."""
    found = []
    for offset in product(*map(range, kernel)):
        lines = [p + o * d for p, o, d in zip(at, offset, dilations, strict=True)]
        grid = np.meshgrid(*lines, indexing="ij")
        inside = np.logical_and.reduce([(g >= 0) & (g < s) for g, s in zip(grid, sizes, strict=True)])
        clipped = [np.clip(g, 0, s - 1) for g, s in zip(grid, sizes, strict=True)]
        found.append(np.where(inside, np.ravel_multi_index(clipped, sizes), -1).reshape(-1))
    return np.concatenate(found)


def _by_pixel(falls: np.ndarray, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """For each pixel the positions of the numbers that fall on it, and which of them are really there."""
    order = np.argsort(falls, kind="stable")
    order = order[falls[order] >= 0]
    counts = np.bincount(falls[order], minlength=pixels)
    most = max(int(counts.max()), 1)
    there = np.arange(most) < counts[:, None]
    places = np.zeros((pixels, most), np.int64)
    places[there] = order
    return places, there
