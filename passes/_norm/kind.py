"""Which normalisation a window is, where its axes alone do not tell."""

from collections.abc import Iterable

from surgeon import Builder, Node, Value

from .factors import has_full_shape, varies_along
from .window import REDUCING, SHAPING, Normalisation


def instance_axis(b: Builder, n: Normalisation) -> int | None:
    """The axis of the channels where the window is an instance normalisation, 1 or the last one; None where it is none.

    1. All axes after the second, of four dimensions or more: 1, but for a scale or a shift of the shape of these axes,
       which are the weights of a layer normalisation.
    2. The last of three: 1 where the factors or a reshape before it say so, for it may be a layer normalisation too.
    3. All axes between the first and the last: the last, of three dimensions only where a factor varies along it.
    """
    last = n.rank - 1
    if n.rank < 3:
        return None
    if n.axes == tuple(range(2, n.rank)):
        own = [value for _, value in n.affine]
        if n.rank == 3:
            return 1 if _is_by_channel(b, n, own) else None
        factors = own or _factors_behind(b.root.outputs[0])
        of_a_layer = has_full_shape(b, n, factors) and not varies_along(b, n, factors, 1)
        return None if of_a_layer else 1
    if n.axes == tuple(range(1, last)):
        return last if n.rank > 3 or varies_along(b, n, [value for _, value in n.affine], last) else None
    return None


def _is_by_channel(b: Builder, n: Normalisation, own: list[Value]) -> bool:
    """Whether the last axis of [N, C, L] belongs to channels. The factors tell, `own` or those after the window, or
    else a reshape before it."""
    for factors in (own, _factors_behind(b.root.outputs[0])):
        of_the_last = varies_along(b, n, factors, 2)
        if of_the_last or varies_along(b, n, factors, 1):
            return not of_the_last
    source = n.x.producer
    if source is not None and source.key == "Cast" and source.inputs[0] is not None:
        source = source.inputs[0].producer
    return source is not None and source.key == "Reshape"


def _factors_behind(value: Value | None) -> list[Value]:
    """What the only reader of a tensor multiplies it with or adds to it."""
    readers = [] if value is None else list(value.users)
    if len(readers) != 1:
        return []
    (reader,) = readers
    if reader.key == "Cast":
        return _factors_behind(reader.outputs[0])
    return [i for i in reader.inputs if i is not None and i is not value] if reader.key in ("Mul", "Add") else []


def is_grouped_last(n: Normalisation) -> bool:
    """Whether x is [N, spatial..., groups, channels of a group] and all but N and the groups is normalised."""
    return n.rank >= 4 and n.axes == (*range(1, n.rank - 2), n.rank - 1)


def is_centred(x: Value) -> bool:
    """Whether x is y - mean(y): its mean square is a variance."""
    node = _behind(x.producer, ("Cast",))
    if node is None or node.key != "Sub" or node.inputs[1] is None:
        return False
    source = _behind(node.inputs[1].producer, SHAPING)
    return source is not None and source.key in REDUCING


def _behind(node: Node | None, keys: Iterable[str]) -> Node | None:
    """The first node before this one, itself included, that is of no such operator."""
    while node is not None and node.key in keys and node.inputs[0] is not None:
        node = node.inputs[0].producer
    return node
