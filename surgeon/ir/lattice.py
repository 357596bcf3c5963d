"""What can be known of a tensor's type and shape."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper

Dim = int | str | None
Shape = tuple[Dim, ...]


class NoTensor(tuple[int, None]):
    """What is known of a sequence, an optional and their like, as of a tensor of which nothing is known: (0, None), and
    `kind`, the field of the TypeProto."""

    kind: str

    def __new__(cls, kind: str) -> NoTensor:
        made = super().__new__(cls, (0, None))
        made.kind = kind
        return made


def read_type(kind: onnx.TypeProto) -> tuple[int, Shape | None]:
    if not kind.HasField("tensor_type"):
        other = kind.WhichOneof("value")
        return (0, None) if other is None else NoTensor(other)
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    dims: list[Dim] = []
    for dim in tensor.shape.dim[:]:
        size = dim.dim_value  # 0 where there is none
        dims.append(size if size > 0 else declared_dim(dim))
    return tensor.elem_type, tuple(dims)


def type_proto(elem: int, dims: Shape | None) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(elem, None if dims is None else list(dims))


def declared_dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    """The size or name that a file gives a dimension; None where it gives neither, or a -1 for it."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


def meet(one: Shape | None, other: Shape | None) -> Shape | None:
    """The dimensions of one tensor of which two things are known: numbers before names."""
    if one is None or other is None or len(one) != len(other):
        return one if one is not None else other
    return tuple(a if isinstance(a, int) or b is None else b for a, b in zip(one, other, strict=True))


def join(shapes: Sequence[Shape | None]) -> Shape | None:
    """What is known of a tensor that has one of these shapes; None where it may have any number of dimensions."""
    ranks = {None if dims is None else len(dims) for dims in shapes}
    if len(ranks) != 1 or None in ranks:
        return None
    return tuple(d[0] if len(set(d)) == 1 else None for d in zip(*shapes, strict=True))  # type: ignore[arg-type]


def is_static(found: tuple[int, Shape | None] | None) -> bool:
    """Whether inferring again cannot say more: a type and sizes, where a name may be the
    inference's own for "unknown"."""
    return found is not None and found[0] != 0 and found[1] is not None and all(type(d) is int for d in found[1])
