"""Which positions of a tensor a Compress takes out: tf2onnx's symmetric padding."""

from typing import Any

import numpy as np
from onnx import numpy_helper

from surgeon import Builder, Pattern, Value, const, elements, op, output, require
from surgeon.rules.pattern import Op

NOT_SYMMETRIC = "it is not a symmetric padding"
OTHER_SIZE = "its mask is not known to be as long as the axis"


def kept_of(parts: Op) -> Pattern:
    """What Compress keeps: a constant, or one value everywhere but at some positions, as long as one of the `parts`."""
    part = output(parts, 0) | output(parts, 1) | output(parts, 2) | output(parts, 3) | output(parts, 4)
    return const() | op.ScatterElements(op.ConstantOfShape(part), const(), const())


def removed(b: Builder, kept: Value, size: Any) -> list[int]:
    """Which positions a Compress takes out of an axis of that size, from what it keeps.

    Those in the second half of a constant count from its end. Declines what may be of another size.
    """
    mask = b.value(kept)
    if mask is not None:
        require(mask.ndim == 1 and mask.size == size, OTHER_SIZE)
        return [p - mask.size * (p >= mask.size // 2) for p in np.flatnonzero(~mask.astype(bool)).tolist()]
    assert kept.producer is not None
    everywhere, gone, cleared = kept.producer.inputs
    assert everywhere is not None and everywhere.producer is not None
    filled, positions, updates = everywhere.producer.attr("value"), b.value(gone), b.value(cleared)
    assert positions is not None and updates is not None  # the pattern takes constants alone
    is_true = filled is not None and numpy_helper.to_array(filled).all()
    require(is_true and not updates.any(), NOT_SYMMETRIC)
    require(elements(b, everywhere.producer.inputs[0]) == [size], OTHER_SIZE)
    return [int(p) for p in positions.reshape(-1)]
