"""NonZero of a mask, as exporters write it: the positions, and how many there are."""

import numpy as np

from surgeon import Builder, Node, Target, Value
from surgeon.ir.operators import KEEP_ORDER

from ._shapes import input_of

COUNT = KEEP_ORDER | {"Cast"}


def lacks_nonzero(target: Target) -> bool:
    """Whether a target does not import NonZero."""
    return not target.imports("NonZero")


def mask_of(b: Builder, places: Value) -> Value | None:
    """The mask of which a tensor holds the positions, a row each."""
    turned = places.producer
    if turned is None or turned.key != "Transpose" or list(turned.attr("perm") or [1, 0]) != [1, 0]:
        return None
    found = input_of(turned).producer
    if found is None or found.key != "NonZero":
        return None
    see(b, turned, found)
    return input_of(found)


def see(b: Builder, *nodes: Node) -> None:
    """Take nodes into the window: others may read them, too, and the proof has to know what they hold."""
    b.matched = tuple(dict.fromkeys((*b.matched, *nodes)))


def same_places(b: Builder, one: Value, other: Value) -> bool:
    """Whether two tensors hold the positions of one mask."""
    return one is other or (mask_of(b, one) is not None and mask_of(b, one) is mask_of(b, other))


def takes_first(b: Builder, node: Node, places: Value) -> bool:
    """Whether a Slice takes the first elements of a vector, as many as there are positions."""
    if b.rank(input_of(node)) != 1 or not is_count(b, node.operands()[2], places):
        return False
    wanted = {1: 0, 3: 0, 4: 1}  # of starts, axes and steps
    given = {k: b.value(v) for k, v in enumerate(node.operands()) if k in wanted}
    return all(v is not None and v.reshape(-1).tolist() == [wanted[k]] for k, v in given.items())


def is_count(b: Builder, value: Value | np.ndarray, places: Value) -> bool:
    """Whether a tensor of one element is the number of positions."""
    while isinstance(value, Value) and value.producer is not None and value.producer.key in COUNT:
        see(b, value.producer)
        value = input_of(value.producer)
    node = value.producer if isinstance(value, Value) else None
    if node is None or node.key not in ("Gather", "Slice"):
        return False
    whole, at, out = input_of(node), b.value(node.operands()[1]), node.outputs[0]
    shape = whole.producer
    if shape is None or shape.key != "Shape" or not same_places(b, input_of(shape), places):
        return False
    see(b, node, shape)
    first = at is not None and at.size == 1 and not at.any()
    return first and (node.key == "Gather" or (out is not None and b.shape(out) == (1,)))
