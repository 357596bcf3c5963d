"""Write TensorScatter as a ScatterElements.

Why       ONNX writes new keys and values into a cache with it from opset 24 on. TensorRT-RTX 1.7.1 takes caches of four
          dimensions alone, and refuses the mode circular; other releases have no importer.
Rewrites  TensorScatter(cache, update, first)  ->  ScatterElements(cache, first + 0, 1, ..., update), the positions
          modulo the size of the cache where the mode is circular
Exact     Bit for bit.
Price     A cache of [1,8,1024,64] and 16 new rows, ONNX Runtime on one thread: 5 nodes, 0.09 ms next to 0.06.
"""

import numpy as np

from surgeon import attr, op, rule, var

from ._shapes import numbers_to, size

cache, update, first = var("cache"), var("update"), var("first")


@rule(op.TensorScatter(cache, update, first | None, axis=attr("axis"), mode=attr("mode")), strategy="decompose")
def decompose(b, cache, update, axis, mode, first=None):
    rank = b.known_rank(cache)
    at = axis % rank
    count = size(b, update, at)
    if isinstance(count, int):
        places = b.constant(np.arange(count).reshape([1] * at + [-1] + [1] * (rank - at - 1)))
    else:
        places = b.Unsqueeze(numbers_to(b, count), axes=[k for k in range(rank) if k != at])
    if first is not None:
        places = b.Add(b.Unsqueeze(first, axes=list(range(1, rank))), places)
    if mode == "circular":
        places = b.Mod(places, size(b, cache, at))
    return b.ScatterElements(cache, b.Expand(places, b.Shape(update)), update, axis=at)
