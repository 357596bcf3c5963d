"""What a Pad says, whatever opset it is of."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from surgeon import Builder, Node, Value, require, require_some

from .sides import sides

MODES = ("constant", "edge", "reflect", "wrap")


@dataclass(frozen=True)
class PadNode:
    """A Pad. `pads`: [2, rank], None where they are computed; `value`: an array, a tensor or None for 0."""

    x: Value
    mode: str
    pads: np.ndarray | None
    value: Any
    axes: np.ndarray | None

    @property
    def is_zero(self) -> bool:
        """Whether it pads with 0, if it is of the mode `constant`."""
        return self.value is None or (isinstance(self.value, np.ndarray) and not self.value.any())


def read(b: Builder, node: Node, x: Value) -> PadNode:
    """What a Pad of x says; declines where ONNX does not allow it, or its axes cannot be read."""
    given = [*node.operands(), None, None, None][:4]
    require(given[1] is not None, "it has no pads: opset 1 calls them paddings")
    mode = str(node.attr("mode") or "constant")
    require(mode in MODES, f"ONNX has no mode '{mode}'")
    axes = b.value(given[3])
    require(given[3] is None or axes is not None, "the axes are computed at run time")
    constant = b.value(given[2])
    value = given[2] if constant is None else constant
    pads = _on_every_axis(b.value(given[1]), axes, b.rank(x))
    return PadNode(x, mode, pads, value if mode == "constant" else None, axes)


def _on_every_axis(pads: np.ndarray | None, axes: np.ndarray | None, rank: int | None) -> np.ndarray | None:
    """The pads as [2, rank]; `axes` are those that are padded, None for all."""
    if pads is None:
        return None
    count = rank if axes is None else axes.size
    require(pads.size % 2 == 0 and count in (None, pads.size // 2), "it has not two pads for each axis")
    pads = pads.reshape(2, -1).astype(np.int64)
    if axes is None:
        return pads
    whole = require_some(rank, "the rank of the input is not known, nor which axes are padded")
    full = np.zeros((2, whole), np.int64)
    full[:, axes.reshape(-1) % whole] = pads
    return full


def sizes_cropped(b: Builder, x: Value, pads: np.ndarray) -> list[int | None]:
    """The dimensions of x without what the negative pads take away; None for one that is not static."""
    shape = b.shape(x) or (None,) * pads.shape[1]
    gone = np.minimum(pads, 0).sum(axis=0)
    return [int(d) + int(g) if isinstance(d, int) else None for d, g in zip(shape, gone, strict=True)]


def require_possible(sizes: list[int | None], pads: np.ndarray, mode: str) -> None:
    """Decline pads that ONNX does not allow for a cropped input of these sizes."""
    for side in sides(pads):
        size = sizes[side.axis]
        if size is None:
            continue
        reflects = f"it reflects by {side.most} an axis of {size}; ONNX allows less than the axis has"
        require(mode != "reflect" or side.most < size, reflects)
        require(mode != "wrap" or side.most <= size, f"it repeats {side.most} of an axis of {size}")
        require(mode != "edge" or size > 0, f"it repeats the edge of axis {side.axis}, which has no element")
    for axis, size in enumerate(sizes):
        require(size is None or size > 0 or not (pads[:, axis] < 0).any(), f"the crop leaves nothing of axis {axis}")
